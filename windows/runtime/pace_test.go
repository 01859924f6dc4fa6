package runtime

import (
	"testing"
	"time"
)

func TestThrottleSpacesProvisionalChanges(t *testing.T) { // C5
	t.Parallel()
	t0 := time.Unix(1000, 0)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name    string
		pace    pace
		in      pending
		now     time.Time
		more    bool
		commit  bool
		waiting time.Duration
	}{
		{name: "nothing is pending"},
		{
			name: "the first change after quiet at once",
			pace: pace{throttle: time.Second}, in: pending{entries: 1, events: 1, since: at(0), provisional: true},
			now: at(0), commit: true,
		},
		{
			name: "the next one waits for the throttle",
			pace: pace{throttle: time.Second, lastProvisional: at(0)}, in: pending{entries: 1, events: 1, since: at(300), provisional: true},
			now: at(300), waiting: 700 * time.Millisecond,
		},
		{
			name: "and comes when it has passed",
			pace: pace{throttle: time.Second, lastProvisional: at(0)}, in: pending{entries: 1, events: 1, since: at(300), provisional: true},
			now: at(1000), commit: true,
		},
		{
			name: "no throttle",
			pace: pace{lastProvisional: at(0)}, in: pending{entries: 1, events: 1, since: at(1), provisional: true},
			now: at(1), commit: true,
		},
		{
			name: "a final change takes what is provisional along",
			pace: pace{throttle: time.Hour, lastProvisional: at(0)}, in: pending{entries: 2, events: 1, since: at(1), provisional: true, final: true},
			now: at(1), commit: true,
		},
		{
			name: "epoch gathers final changes too",
			pace: pace{epoch: time.Second}, in: pending{entries: 1, events: 1, since: at(0), final: true},
			now: at(400), waiting: 600 * time.Millisecond,
		},
		{
			name: "while there is more to read the epoch grows",
			pace: pace{}, in: pending{entries: 1, events: 10, since: at(0), final: true},
			now: at(10), more: true, waiting: patience - 10*time.Millisecond,
		},
		{
			name: "but not past its bound",
			pace: pace{maxEvents: 10}, in: pending{entries: 1, events: 10, since: at(0), final: true},
			now: at(10), more: true, commit: true,
		},
		{
			name: "a bound of what is pending ends the throttle",
			pace: pace{throttle: time.Hour, lastProvisional: at(0), maxEvents: 10, maxPending: 100}, in: pending{entries: 1, events: 100, since: at(0), provisional: true},
			now: at(10), more: true, commit: true,
		},
		{
			name: "a position alone is no reason to hurry",
			pace: pace{throttle: time.Hour, last: at(0)}, in: pending{entries: 1, events: 1, since: at(1)},
			now: at(1), waiting: patience - time.Millisecond,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.pace
			if p.maxPending == 0 {
				p.maxPending = 1 << 20
			}
			if p.maxEvents == 0 {
				p.maxEvents = 1 << 20
			}
			commit, wait := p.due(c.now, c.in, !c.more)
			if commit != c.commit || wait != c.waiting {
				t.Fatalf("commit %v, wait %v; want %v, %v", commit, wait, c.commit, c.waiting)
			}
		})
	}
}
