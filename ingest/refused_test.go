package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/group"
)

// Every event that was sent has one fate, after every request: 2,000 random ones (P5).
func TestEveryEventReceivedHasOneFate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := ts("n", "BIGINT", "id", "BIGINT")
	config.IDField = "id"
	s := w.declare("s", config)
	rng := rand.New(rand.NewPCG(1, 2))
	sent, accepted, duplicates, dead := int64(0), int64(0), int64(0), int64(0)
	for range 2000 {
		n := 1 + rng.IntN(4)
		var events []string
		for range n {
			events = append(events, []string{
				fmt.Sprintf(`{"ts":1,"n":1,"id":%d}`, rng.IntN(3000)), `{"ts":1,"n":"one"}`, `{"ts":"soon"}`, `{"ts":1}`,
			}[min(rng.IntN(8), 3)])
		}
		r := Request{Stream: "s", Body: []byte("[" + strings.Join(events, ",") + "]"), Strict: rng.IntN(3) == 0}
		switch rng.IntN(8) {
		case 0:
			r.Body = append(r.Body[:len(r.Body)-1], ",nonsense]"...)
			n++
		case 1:
			seven := 7
			r.Partition = &seven
		case 2:
			r.ContentType, r.Body = "application/x-ndjson", []byte(strings.Join(events, "\n")+"\n{bad\n")
			n++
		case 3:
			r.Encoding, n = "gzip", 1 // it is none: what lies in it can't be told
		}
		sent += int64(n)
		if a, err := w.in.Post(context.Background(), r); err == nil {
			accepted, duplicates, dead = accepted+int64(a.Accepted), duplicates+int64(a.Duplicates), dead+int64(a.DeadLetters)
		}
		if refused := w.in.Refused(s.ID); sent != accepted+duplicates+dead+refused {
			t.Fatalf("%d sent, %d accepted, %d duplicates, %d dead letters, %d refused after %s", sent, accepted, duplicates, dead, refused, r.Body)
		}
	}
	if accepted == 0 || duplicates == 0 || dead == 0 || w.in.Refused(s.ID) == 0 {
		t.Errorf("%d accepted, %d duplicates, %d dead letters: the test tests little", accepted, duplicates, dead)
	}
}

func TestRefusedEventsOfNoStreamAndOfMixedBodiesAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.declare("a", ts())
	post := func(r Request) int {
		_, err := w.in.Post(context.Background(), r)
		return problem.From(err).Status
	}
	if got := post(Request{Body: []byte(`[{"stream":"a","ts":1},{"stream":"a","ts":"x"}]`), Strict: true}); got != 422 || w.in.Refused(a.ID) != 2 {
		t.Errorf("mixed, strict: %d, %d refused", got, w.in.Refused(a.ID))
	}
	if got := post(Request{Body: []byte(`[{"ts":1},{"ts":2},{"ts":3}]`)}); got != 422 || w.in.Refused(0) != 3 {
		t.Errorf("no stream: %d, %d refused", got, w.in.Refused(0))
	}
	forbidden := problem.New(403, "foreign_relation", "no")
	if got := post(Request{Stream: "a", Body: []byte(`{"ts":1}`), Allow: func(string) error { return forbidden }}); got != 403 || w.in.Refused(a.ID) != 3 {
		t.Errorf("not allowed: %d, %d refused", got, w.in.Refused(a.ID))
	}
	w.log.fail = fmt.Errorf("the disk is on fire")
	if got := post(Request{Stream: "a", Body: []byte(`{"ts":1}`)}); got != 500 || w.in.Refused(a.ID) != 3 {
		t.Errorf("an event that may be in the log was counted as refused: %d, %d", got, w.in.Refused(a.ID))
	}
	w.log.fail = problem.New(429, "log_busy", "busy")
	if got := post(Request{Stream: "a", Body: []byte(`[{"ts":1},{"ts":2}]`)}); got != 429 || w.in.Refused(a.ID) != 5 {
		t.Errorf("a full queue: %d, %d refused", got, w.in.Refused(a.ID))
	}
}

func TestCountsOfRefusedEventsSurviveARestart(t *testing.T) {
	t.Parallel()
	store, err := kv.Open("kv", kv.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	now := time.Unix(1000, 0)
	w := newWorld(t)
	w.declare("a", ts())
	in := New(w.streams, w.log, Options{Store: store, Now: func() time.Time { return now }})
	for range 3 {
		if _, err := in.Post(context.Background(), Request{Stream: "a", Body: []byte("{")}); err == nil {
			t.Fatal("taken")
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	id := w.stream("a").ID
	if again := New(w.streams, w.log, Options{Store: store}); again.Refused(id) != 3 {
		t.Errorf("%d refused after a restart", again.Refused(id))
	}
}

// fakeGroups hold the dead letters g.0.1 to g.0.n.
type fakeGroups struct {
	letters  []stream.DeadLetter
	replayed map[string]string
}

func (f *fakeGroups) DeadLetters(_ stream.ID, name string, after group.Letter, limit int) (out []stream.DeadLetter, _ error) {
	for _, l := range f.letters {
		if (name == "" || l.Group == name) && l.Place.Offset > after.Offset && len(out) < limit {
			out = append(out, l)
		}
	}
	return out, nil
}

func (f *fakeGroups) Replay(_ stream.ID, which group.Letter, corrected []byte) error {
	f.replayed[which.String()] = string(corrected)
	return nil
}

func (f *fakeGroups) DropDeadLetter(_ stream.ID, which group.Letter) error {
	f.replayed[which.String()] = "dropped"
	return nil
}

func TestDeadLettersOfIngestAndOfGroupsAreOneList(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	w.declare("s", ts())
	groups := &fakeGroups{replayed: map[string]string{}}
	for i := range 3 {
		groups.letters = append(groups.letters, stream.DeadLetter{
			Origin: "group", Group: "g", Place: &stream.Place{Offset: stream.Offset(i + 1)}, Code: "nack", Reason: "broken", Raw: []byte("{}"), Attempts: 5,
		})
	}
	in := New(w.streams, w.log, Options{Groups: groups})
	if _, err := in.Post(ctx, Request{Stream: "s", Body: []byte(`[{"ts":"x"},{"ts":"y"}]`)}); err != nil {
		t.Fatal(err)
	}
	list := func(which Which) (ids []string) {
		for {
			page, err := in.DeadLetters("s", which)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range page.Items {
				ids = append(ids, i.ID)
			}
			if page.Next == nil {
				return ids
			}
			which.Cursor = *page.Next
		}
	}
	for _, c := range []struct {
		which Which
		want  string
	}{
		{Which{}, "[1 2 g.0.1 g.0.2 g.0.3]"},
		{Which{Limit: 1}, "[1 2 g.0.1 g.0.2 g.0.3]"},
		{Which{Limit: 2}, "[1 2 g.0.1 g.0.2 g.0.3]"},
		{Which{Limit: 3}, "[1 2 g.0.1 g.0.2 g.0.3]"},
		{Which{Origin: "ingest", Limit: 1}, "[1 2]"},
		{Which{Origin: "group", Limit: 2}, "[g.0.1 g.0.2 g.0.3]"},
		{Which{Group: "other"}, "[]"},
	} {
		if got := fmt.Sprint(list(c.which)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.which, got, c.want)
		}
	}
	if _, err := in.DeadLetters("s", Which{Origin: "view"}); problem.From(err).Code != "bad_origin" {
		t.Errorf("origin view: %v", err)
	}
	out, err := in.Replay(ctx, "s", "g.0.2", []byte(` {"ts":1} `))
	if err != nil || out.Answer != nil || groups.replayed["g.0.2"] != `{"ts":1}` || !strings.Contains(string(out.JSON()), `"group":"g"`) {
		t.Errorf("%+v, %v", out, err)
	}
	for _, bad := range []string{"[]", "{", "1", `{"a":1}{`} {
		if _, err := in.Replay(ctx, "s", "g.0.2", []byte(bad)); problem.From(err).Status != 422 {
			t.Errorf("corrected to %s: %v", bad, err)
		}
	}
	if err := in.DropDeadLetter(ctx, "s", "g.0.3"); err != nil || groups.replayed["g.0.3"] != "dropped" {
		t.Error(err)
	}
}
