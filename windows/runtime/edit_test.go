package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// untilVersion waits until a version of a view is served.
func untilVersion(w *viewtest.World, view string, version int) {
	w.T.Helper()
	changed, stop, err := w.Views.Watch(view)
	if err != nil {
		w.T.Fatal(err)
	}
	defer stop()
	for {
		info, err := w.Views.Get(view)
		if err != nil {
			w.T.Fatal(err)
		}
		if info.AsOf.ViewVersion == version && !info.Rebuilding {
			return
		}
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			w.T.Fatalf("version %d does not come: %+v", version, info)
		}
	}
}

func TestEditAppendsTheDifferenceToTheSameChangeStream(t *testing.T) { // C6
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"0s"}`)
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:10", "FR", 2), sale("12:00:10", "IT", 4)))
	before, err := w.Views.Snapshot("large")
	if err != nil {
		t.Fatal(err)
	}
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount <> 4","throttle":"0s"}`)
	untilVersion(w, "large", 2)
	diff(t, w.Rows("large", runtime.RowsQuery{}), `
		final 1 {"country":"DE","amount":5}
		final 1 {"country":"FR","amount":2}`)
	diff(t, w.Changes("large", before.Position), `
		--
		+ {"country":"FR","amount":2} final 1
		- {"country":"IT","amount":4} corrected 2`)
	w.Crash()
	w.Until("large", w.Post("checkouts", 0, sale("12:00:12", "ES", 1)))
	diff(t, w.Changes("large", before.Position), `
		--
		+ {"country":"FR","amount":2} final 1
		- {"country":"IT","amount":4} corrected 2
		--
		+ {"country":"ES","amount":1} final 1`)
}

func TestEditWithOtherColumnsBeginsTheChangeStreamAnew(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"0s"}`)
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	reader, err := w.Views.Changes("large", stream.Position{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := reader.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.View("large", `{"sql":"SELECT amount FROM checkouts","throttle":"0s"}`)
	untilVersion(w, "large", 2)
	var gap *runtime.Gap
	if _, _, err := reader.Next(); !errors.As(err, &gap) {
		t.Fatalf("%v: want a gap", err)
	}
	snap, err := w.Views.Snapshot("large")
	if err != nil || snap.Rows.Len != 1 || len(snap.Fields) != 1 {
		t.Fatal(snap, err)
	}
	w.Until("large", w.Post("checkouts", 0, sale("12:00:12", "ES", 1)))
	diff(t, w.Changes("large", snap.Position), `
		--
		+ {"amount":1} final 1`)
	diff(t, w.Changes("large", stream.Position{}), `
		--
		+ {"amount":5} final 1
		--
		+ {"amount":1} final 1`)
}

func TestThrottleAloneIsNoRebuild(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", fmt.Sprintf(`{"sql":%q,"throttle":"1h"}`, revenue))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	info := w.View("revenue", fmt.Sprintf(`{"sql":%q,"throttle":"0s"}`, revenue))
	if info.Rebuilding || info.AsOf.ViewVersion != 1 || info.Throttle.String() != "0s" {
		t.Fatalf("%+v", info)
	}
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
}

func TestAnEditSurvivesACrashInTheMiddle(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		w := viewtest.New(t)
		w.Stream("checkouts", checkouts)
		w.View("revenue", revenue)
		w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
		w.View("revenue", strings.Replace(revenue, "1 minute", "2 minutes", 1))
		for range n {
			w.Views.Ready()
		}
		w.Crash()
		untilVersion(w, "revenue", 2)
		w.Until("revenue", w.Post("checkouts", 0, sale("12:01:10", "DE", 5)))
		diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
			provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":10,"n":2}`)
		w.Close()
	}
}

func TestDryRunChangesNothingAndSaysWhatWouldHappen(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	try := func(body string) string {
		d, err := runtime.ParseDefinition([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		info, _, err := w.Views.Put(t.Context(), "large", d, true)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", *info.DryRun)
	}
	diff(t, try(`{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3"}`), "{Kept:[] Rebuilt:[rows] Lost:[]}")
	if _, err := w.Views.Get("large"); problemOf(err) != "404 unknown_view" {
		t.Fatal(err)
	}
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3"}`)
	diff(t, try(`{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"1s"}`),
		"{Kept:[rows change stream late events row errors] Rebuilt:[] Lost:[]}")
	diff(t, try(`{"sql":"SELECT country, amount FROM checkouts WHERE amount <> 4"}`),
		"{Kept:[change stream] Rebuilt:[rows] Lost:[late events row errors]}")
	diff(t, try(`{"sql":"SELECT amount FROM checkouts"}`),
		"{Kept:[] Rebuilt:[rows] Lost:[late events row errors change stream]}")
	if info, err := w.Views.Get("large"); err != nil || info.AsOf.ViewVersion != 1 || info.Throttle.String() != "100ms" {
		t.Fatal(info, err)
	}
}

// untilBuilt waits until nothing is being built beside a view.
func untilBuilt(w *viewtest.World, view string) runtime.Info {
	w.T.Helper()
	changed, stop, err := w.Views.Watch(view)
	if err != nil {
		w.T.Fatal(err)
	}
	defer stop()
	for {
		info, err := w.Views.Get(view)
		if err != nil {
			w.T.Fatal(err)
		}
		if !info.Rebuilding {
			return info
		}
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			w.T.Fatalf("the rebuild does not end: %+v", info)
		}
	}
}

func TestRebuildMakesTheSameRowsAndTellsNothingTwice(t *testing.T) { // C6
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	for name, body := range storyViews {
		w.View(name, body)
	}
	for _, step := range story {
		receipt := step(w)
		for name := range storyViews {
			w.Until(name, receipt)
		}
	}
	for name := range storyViews {
		want, changes := outcome(w, name), w.Changes(name, stream.Position{})
		for range 2 {
			if _, err := w.Views.Rebuild(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if info := untilBuilt(w, name); info.AsOf.ViewVersion != 1 || info.Reason != "" {
				t.Fatalf("%+v", info)
			}
			diff(t, outcome(w, name), want)
			diff(t, w.Changes(name, stream.Position{}), changes)
		}
		w.Crash()
		diff(t, outcome(w, name), want)
	}
	receipt := w.Post("checkouts", 0, sale("14:00:02", "DE", 6))
	for name := range storyViews {
		w.Until(name, receipt)
	}
}

func TestRebuildTriesAFailedViewAgain(t *testing.T) { // E1
	t.Parallel()
	broken := true
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Setup = func(s *runtime.Service) {
			if broken {
				runtime.PanicAt(s, func(*stream.Batch, int) bool { return false }, func(c *stream.Control) bool { return c.Kind == stream.Advance })
			}
		}
	})
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Post("checkouts", 0, sale("12:00:01", "DE", 1))
	receipt := w.Advance("checkouts", "13:00")
	if _, err := w.Views.Rows(t.Context(), "revenue", runtime.RowsQuery{After: receipt, Wait: viewtest.Patience}); problemOf(err) != "409 view_failed" {
		t.Fatal(err)
	}
	broken = false
	w.Reopen()
	if _, err := w.Views.Rebuild(t.Context(), "revenue"); err != nil {
		t.Fatal(err)
	}
	untilBuilt(w, "revenue")
	w.Until("revenue", receipt)
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		final 1 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":1,"n":1}`)
}
