package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// flow posts ten thousand events a second, 500 at a time, until it is stopped, but no more than it may:
// so a slow machine is not given ever more to build.
type flow struct {
	w     *viewtest.World
	rng   *rand.Rand
	stop  context.CancelFunc
	ended chan struct{}

	mu struct {
		sync.Mutex
		posted  int
		allowed int
		stopped bool
		news    *sync.Cond
	}

	// What came of all events: their number and sum by minute and country, and by amount.
	minutes map[string][2]int
	amounts map[int]int
	receipt string
}

func beginFlow(w *viewtest.World, rng *rand.Rand) *flow {
	ctx, stop := context.WithCancel(context.Background())
	f := &flow{w: w, rng: rng, stop: stop, ended: make(chan struct{}), minutes: map[string][2]int{}, amounts: map[int]int{}}
	f.mu.news = sync.NewCond(&f.mu)
	w.T.Cleanup(f.end)
	go func() {
		defer close(f.ended)
		defer f.note(0, true)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if f.spent() {
				n--
				continue
			}
			events := make([]string, 500)
			for i := range events {
				second := 5*n + rng.IntN(5)
				if rng.IntN(10) == 0 {
					second = max(0, second-rng.IntN(60)) // late, and taken
				}
				at := fmt.Sprintf("%02d:%02d:%02d", 12+second/3600, second/60%60, second%60)
				country, amount := []string{"DE", "FR", "IT"}[rng.IntN(3)], rng.IntN(10)
				events[i] = sale(at, country, amount)
				key := at[:5] + " " + country
				f.minutes[key] = [2]int{f.minutes[key][0] + 1, f.minutes[key][1] + amount}
				f.amounts[amount]++
			}
			f.receipt = w.Post("checkouts", n%2, events...)
			f.note(len(events), false)
		}
	}()
	return f
}

func (f *flow) end() { f.stop(); <-f.ended }

func (f *flow) note(n int, stopped bool) {
	f.mu.Lock()
	f.mu.posted += n
	f.mu.stopped = stopped
	f.mu.Unlock()
	f.mu.news.Broadcast()
}

// allow lets some more events flow.
func (f *flow) allow(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.allowed = max(f.mu.allowed, f.mu.posted+n)
}

func (f *flow) spent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.posted >= f.mu.allowed
}

// more waits until some more events were posted, and returns how many there are.
func (f *flow) more(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	target := f.mu.posted + n
	for f.mu.allowed = max(f.mu.allowed, target); f.mu.posted < target && !f.mu.stopped; {
		f.mu.news.Wait()
	}
	return f.mu.posted
}

// follower reads a view as a client does: by position, with a snapshot where there is a gap.
type follower struct {
	rows  map[string]string
	finds map[string]int // how often each row key appeared as a first final row
	wrong []string
	gaps  int
	stop  context.CancelFunc
	ended chan struct{}
}

func follow(w *viewtest.World, view string) *follower {
	ctx, stop := context.WithCancel(context.Background())
	f := &follower{rows: map[string]string{}, finds: map[string]int{}, stop: stop, ended: make(chan struct{})}
	w.T.Cleanup(func() { f.stop(); <-f.ended })
	news, cancel, err := w.Views.Watch(view)
	if err != nil {
		w.T.Fatal(err)
	}
	r, err := w.Views.Changes(view, stream.Position{})
	if err != nil {
		w.T.Fatal(err)
	}
	go func() {
		defer close(f.ended)
		defer cancel()
		for {
			e, ok, err := r.Next()
			var gap *runtime.Gap
			switch {
			case errors.As(err, &gap):
				f.gaps++
				if r, err = f.begin(w, view); err != nil {
					f.wrong = append(f.wrong, err.Error())
					return
				}
			case err != nil:
				f.wrong = append(f.wrong, err.Error())
				return
			case ok:
				f.take(e)
			default:
				select {
				case <-news:
				case <-ctx.Done():
					if e, ok, err = r.Next(); !ok || err != nil {
						return
					}
					f.take(e)
				}
			}
		}
	}()
	return f
}

func (f *follower) begin(w *viewtest.World, view string) (*runtime.ChangeReader, error) {
	s, err := w.Views.Snapshot(view)
	if err != nil {
		return nil, err
	}
	clear(f.rows)
	for i := range s.Rows.Len {
		f.rows[string(s.Keys[i])] = viewtest.Line(s.Fields, s.Rows, i, s.Status[i], s.Revision[i])
	}
	return w.Views.Changes(view, s.Position)
}

func (f *follower) take(e *runtime.Epoch) {
	c := e.Changes
	for i := range c.Len() {
		key := string(c.Keys[i])
		if _, there := f.rows[key]; there == (c.Ops[i] > 0) && len(f.wrong) < 10 {
			f.wrong = append(f.wrong, fmt.Sprintf("epoch to %d: op %d of a row that is there: %v", e.To.Sequence, c.Ops[i], there))
		}
		delete(f.rows, key)
		if c.Ops[i] > 0 {
			f.rows[key] = viewtest.Line(e.Fields, c.Rows, i, c.Status[i], c.Revision[i])
			if c.Status[i] == windows.Final {
				f.finds[key]++
			}
		}
	}
}

// done ends the follower and says whether it has what the view has.
func (f *follower) done(t *testing.T, w *viewtest.World, view string) {
	t.Helper()
	f.stop()
	<-f.ended
	if len(f.wrong) > 0 {
		t.Errorf("%s: %s", view, strings.Join(f.wrong, "\n"))
	}
	if got, want := viewtest.Sorted(f.rows), w.Rows(view, runtime.RowsQuery{Limit: 1_000_000}); got != want {
		diff(t, view+" "+got, view+" "+want)
	}
}

// C6: an edit and a rebuild cut over at one place of the log, whatever flows meanwhile.
func TestEditsAndRebuildsCutOverExactlyWhileTenThousandEventsASecondFlow(t *testing.T) {
	t.Parallel()
	edits, perEdit := 1, 100_000
	if long() {
		edits, perEdit = 20, 5_000
	}
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	var flowing atomic.Pointer[flow]
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Setup = func(s *runtime.Service) {
			// Events flow while a version is built, and some more between its last one and the switch.
			runtime.OnBeside(s, func(_ string, switching bool) {
				if switching {
					flowing.Load().more(500)
				}
			})
		}
	})
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	// Of each view two definitions with the same columns; the third one has others.
	passing := [2]string{
		`{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3"}`,
		`{"sql":"SELECT country, amount FROM checkouts WHERE amount <> 4"}`,
	}
	minutes := [2]string{
		`{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL"}`,
		`{"sql":"SELECT window_start, country, count(*) AS n, sum(amount) AS revenue FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL"}`,
	}
	const big = `{"sql":"SELECT window_end, country, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL HAVING count(*) >= 2"}`
	w.View("passing", passing[0])
	w.View("minutes", minutes[0])
	w.View("rebuilt", big)
	f := beginFlow(w, rng)
	flowing.Store(f)
	readers := map[string]*follower{"passing": follow(w, "passing"), "minutes": follow(w, "minutes"), "rebuilt": follow(w, "rebuilt")}
	f.more(5000)
	for n := range edits {
		before := f.more(0)
		f.allow(perEdit)
		w.View("passing", passing[(n+1)%2])
		w.View("minutes", minutes[(n+1)%2])
		if _, err := w.Views.Rebuild(t.Context(), "rebuilt"); err != nil {
			t.Fatal(err)
		}
		untilVersion(w, "passing", n+2)
		untilVersion(w, "minutes", n+2)
		untilBuilt(w, "rebuilt")
		t.Logf("%d events flowed meanwhile", f.more(0)-before)
		f.more(1000)
	}
	f.end()
	for view := range readers {
		w.Until(view, f.receipt)
	}
	for view, r := range readers {
		r.done(t, w, view)
	}
	// The rows are those of all events that were posted.
	want := 0
	for amount, n := range f.amounts {
		if edits%2 == 0 && amount > 3 || edits%2 == 1 && amount != 4 {
			want += n
		}
	}
	info, err := w.Views.Get("passing")
	if err != nil || info.Rows != int64(want) {
		t.Errorf("%d rows of %d: %v", info.Rows, want, err)
	}
	got, err := w.Views.Snapshot("minutes")
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for c, field := range got.Fields {
		column[field.Name] = c
	}
	if got.Rows.Len != len(f.minutes) {
		t.Errorf("%d minutes of %d", got.Rows.Len, len(f.minutes))
	}
	for i := range got.Rows.Len {
		line := viewtest.Line(got.Fields, got.Rows, i, 0, 0)
		at := strings.Index(line, "T1") + 1
		country := got.Rows.Cols[column["country"]].Str[i]
		n, sum := got.Rows.Cols[column["n"]].I64[i], got.Rows.Cols[column["revenue"]].I128[i].String()
		if want := f.minutes[line[at:at+5]+" "+country]; int(n) != want[0] || sum != fmt.Sprint(want[1]) {
			t.Errorf("%s: want %v", line, want)
		}
	}
	// A rebuild makes no row final again, and readers of it never notice.
	if r := readers["rebuilt"]; r.gaps != 0 {
		t.Errorf("%d gaps for a reader of a view that is rebuilt", r.gaps)
	}
	for key, n := range readers["rebuilt"].finds {
		if n != 1 {
			t.Errorf("the row %q became final %d times", key, n)
		}
	}
	if readers["passing"].gaps != 0 {
		t.Errorf("%d gaps for a reader of a view that keeps its columns", readers["passing"].gaps)
	}
	if readers["minutes"].gaps == 0 {
		t.Error("columns changed their places without a gap")
	}
}
