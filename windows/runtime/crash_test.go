package runtime_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// story is a run of posts and advances that brings out provisional, first final, corrected, late,
// filtered and failing rows.
var story = []func(w *viewtest.World) string{
	func(w *viewtest.World) string { return w.Post("checkouts", 0, sale("12:00:10", "DE", 5)) },
	func(w *viewtest.World) string {
		return w.Post("checkouts", 1, sale("12:00:20", "FR", 3), sale("12:00:30", "DE", 4))
	},
	func(w *viewtest.World) string { return w.Post("checkouts", 0, sale("12:01:10", "DE", 9)) },
	func(w *viewtest.World) string { return w.Post("checkouts", 1, sale("12:01:40", "FR", 8)) },
	func(w *viewtest.World) string { return w.Post("checkouts", 0, sale("12:00:50", "DE", 2)) }, // late, corrects
	func(w *viewtest.World) string { return w.Advance("checkouts", "12:02") },
	func(w *viewtest.World) string { return w.Post("checkouts", 0, sale("12:00:55", "IT", 1)) }, // late, a new row
	func(w *viewtest.World) string { return w.Post("checkouts", 1, sale("12:02:30", "DE", 6)) },
	func(w *viewtest.World) string { return w.Advance("checkouts", "14:00") },
	func(w *viewtest.World) string { return w.Post("checkouts", 1, sale("12:02:40", "DE", 6)) }, // too late
	func(w *viewtest.World) string { return w.Post("checkouts", 0, sale("14:00:01", "DE", 6)) },
}

// storyViews are the views that it is told to.
var storyViews = map[string]string{
	"revenue": fmt.Sprintf(`{"sql":%q,"throttle":"0s"}`, revenue),
	"finals":  fmt.Sprintf(`{"sql":%q,"throttle":"0s","emit":"final"}`, revenue),
	"drops":   fmt.Sprintf(`{"sql":%q,"throttle":"0s","late":"drop"}`, revenue),
	"large":   `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"0s"}`,
	"total":   `{"sql":"SELECT count(*) AS n, sum(amount) AS s FROM checkouts","throttle":"0s"}`,
	"visits":  `{"sql":"SELECT window_start, window_end, country, count(*) AS n, max(country) AS top FROM session(checkouts, ts, INTERVAL '30 seconds', country) GROUP BY ALL","throttle":"0s"}`,
	"rolling": `{"sql":"SELECT window_end, country, sum(amount) AS s FROM slide(checkouts, ts, INTERVAL '1 minute', country) GROUP BY ALL","throttle":"0s","emit":"final"}`,
}

// outcome is everything that a view has to show at the end: rows, final and corrected changes,
// late events, counts.
func outcome(w *viewtest.World, view string) string {
	var b strings.Builder
	b.WriteString(w.Rows(view, runtime.RowsQuery{}))
	b.WriteString(lasting(w, view))
	page, err := w.Views.LateEvents(view, 0, 100)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, e := range page.Events {
		fmt.Fprintf(&b, "late %d %d %d %s %s %s\n", e.Number, e.Partition, e.Offset, *e.Watermark, e.Outcome, e.Event)
	}
	info, err := w.Views.Get(view)
	if err != nil {
		w.T.Fatal(err)
	}
	fmt.Fprintf(&b, "%+v %v lag %d rows %d\n", info.Counts, *info.Watermark, info.LagEvents, info.Rows)
	return b.String()
}

// lasting is the final and corrected changes of a view, key by key: those of different keys at one
// sequence come in any order.
func lasting(w *viewtest.World, view string) string {
	r, err := w.Views.Changes(view, stream.Position{})
	if err != nil {
		w.T.Fatal(err)
	}
	byKey := map[string]string{}
	for {
		e, ok, err := r.Next()
		if err != nil {
			w.T.Fatal(err)
		}
		if !ok {
			return viewtest.Sorted(byKey)
		}
		c := e.Changes
		for i := range c.Len() {
			if c.Status[i] == windows.Final || c.Status[i] == windows.Corrected {
				byKey[string(c.Keys[i])] += fmt.Sprintf("%d %+d ", c.Sequences[i], c.Ops[i]) + viewtest.Line(e.Fields, c.Rows, i, c.Status[i], c.Revision[i])
			}
		}
	}
}

func tell(t *testing.T, each func(w *viewtest.World, step int, receipt string), options ...func(*viewtest.World)) map[string]string {
	w := viewtest.New(t, append(options, func(w *viewtest.World) { w.Options.MaxCrashes = -1 })...)
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	for name, body := range storyViews {
		w.View(name, body)
	}
	for i, step := range story {
		receipt := step(w)
		each(w, i, receipt)
		if i == len(story)-1 {
			for name := range storyViews {
				w.Until(name, receipt)
			}
		}
	}
	out := map[string]string{}
	for name := range storyViews {
		out[name] = outcome(w, name)
	}
	return out
}

func TestP4CrashAfterEveryEpochChangesNothing(t *testing.T) {
	t.Parallel()
	want := tell(t, func(*viewtest.World, int, string) {})
	for name, each := range map[string]func(w *viewtest.World, step int, receipt string){
		"an epoch a step": func(w *viewtest.World, _ int, receipt string) {
			for view := range storyViews {
				w.Until(view, receipt)
			}
		},
		"a crash after each epoch": func(w *viewtest.World, _ int, receipt string) {
			for view := range storyViews {
				w.Until(view, receipt)
			}
			w.Crash()
		},
		"a crash after each step": func(w *viewtest.World, _ int, _ string) { w.Crash() },
		"two crashes in a row":    func(w *viewtest.World, _ int, _ string) { w.Crash(); w.Crash() },
		"a clean restart":         func(w *viewtest.World, _ int, _ string) { w.Reopen() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tell(t, each)
			for view := range storyViews {
				diff(t, view+"\n"+got[view], view+"\n"+want[view])
			}
		})
	}
}

func TestP4ChangeStreamFoldedIsTheRows(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	for name, body := range storyViews {
		w.View(name, body)
	}
	for _, step := range story {
		receipt := step(w)
		for view := range storyViews {
			w.Until(view, receipt)
			if got, want := folded(w, view), w.Rows(view, runtime.RowsQuery{}); got != want {
				diff(t, got, want)
			}
		}
		w.Crash()
	}
}

// folded is the sum of a view's changes, as Rows shows rows.
func folded(w *viewtest.World, view string) string {
	r, err := w.Views.Changes(view, stream.Position{})
	if err != nil {
		w.T.Fatal(err)
	}
	rows := map[string]string{}
	for {
		e, ok, err := r.Next()
		if err != nil {
			w.T.Fatal(err)
		}
		if !ok {
			break
		}
		c := e.Changes
		for i := range c.Len() {
			key := string(c.Keys[i])
			_, there := rows[key]
			if there == (c.Ops[i] > 0) {
				w.T.Fatalf("%s: change %d of the epoch to %d: op %d while the row is there: %v", view, i, e.To.Sequence, c.Ops[i], there)
			}
			delete(rows, key)
			if c.Ops[i] > 0 {
				rows[key] = viewtest.Line(e.Fields, c.Rows, i, c.Status[i], c.Revision[i])
			}
		}
	}
	return viewtest.Sorted(rows)
}

func TestP4AnyMomentOfACrashRecoversToTheBatchAnswer(t *testing.T) {
	t.Parallel()
	const clones = 12
	w := viewtest.New(t)
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	for name, body := range storyViews {
		w.View(name, body)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for n := range clones {
		for range 1 + rnd.IntN(8) {
			var events []string
			for range 1 + rnd.IntN(20) {
				at := fmt.Sprintf("12:%02d:%02d", min(59, n*3+rnd.IntN(4)), rnd.IntN(60))
				events = append(events, sale(at, []string{"DE", "FR", "IT"}[rnd.IntN(3)], rnd.IntN(10)))
			}
			w.Post("checkouts", rnd.IntN(2), events...)
		}
		left := w.FS.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
		c := viewtest.New(t, func(c *viewtest.World) { c.FS = left })
		receipt := c.Advance("checkouts", fmt.Sprintf("12:%02d", min(59, n*3)))
		for name, body := range storyViews {
			c.View("again_"+name, body)
			c.Until(name, receipt)
			c.Until("again_"+name, receipt)
			diff(t, outcome(c, name), outcome(c, "again_"+name))
			if got, want := folded(c, name), c.Rows(name, runtime.RowsQuery{}); got != want {
				diff(t, got, want)
			}
		}
		c.Close()
	}
}

func TestWhatWasSeenSurvivesACrash(t *testing.T) { // R1: red without the fsync of an epoch
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	for name, body := range storyViews {
		w.View(name, body)
	}
	for _, step := range story {
		receipt := step(w)
		seen := map[string]stream.Position{}
		for name := range storyViews {
			w.Until(name, receipt)
			p, _, err := w.Views.Standing(name)
			if err != nil {
				t.Fatal(err)
			}
			seen[name] = p
		}
		left := w.FS.CrashClone(vfs.CrashCloneCfg{})
		c := viewtest.New(t, func(c *viewtest.World) {
			c.FS = left
			c.Setup = func(s *runtime.Service) { // before anything runs
				for name, was := range seen {
					is, _, err := s.Standing(name)
					if err != nil || is.Sequence < was.Sequence {
						t.Errorf("%s was at sequence %d and is at %d: %v", name, was.Sequence, is.Sequence, err)
					}
				}
			}
		})
		c.Close()
	}
}
