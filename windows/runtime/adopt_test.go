package runtime_test

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/stream/pebblelog"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// between changes the store while nothing runs.
func between(t *testing.T, w *viewtest.World, change func(store *kv.Store)) {
	t.Helper()
	w.Close()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	store, err := kv.Open("data", kv.Options{FS: w.FS, Logger: quiet, Fatal: func(s string) { panic(s) }})
	if err != nil {
		t.Fatal(err)
	}
	change(store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	w.Reopen()
}

func restore(t *testing.T) func(*kv.Store) {
	return func(store *kv.Store) {
		if _, err := pebblelog.Rename(store); err != nil {
			t.Fatal(err)
		}
	}
}

func isGap(w *viewtest.World, view string, p stream.Position) bool {
	_, err := w.Views.Changes(view, p)
	return errors.As(err, new(*runtime.Gap))
}

func standing(t *testing.T, w *viewtest.World, view string) stream.Position {
	t.Helper()
	p, _, err := w.Views.Standing(view)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// C6
func TestViewsGoOnAfterARestoreAndOldPositionsAreAGap(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	old, history, info := standing(t, w, "revenue"), w.Changes("revenue", stream.Position{}), w.View("revenue", revenue)
	between(t, w, restore(t))
	if !isGap(w, "revenue", old) {
		t.Error("a position from before the restore is taken")
	}
	diff(t, w.Changes("revenue", stream.Position{}), history)
	at := standing(t, w, "revenue")
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:20", "DE", 7)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":12,"n":2}`)
	diff(t, w.Changes("revenue", at), `
		--
		- {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}  0
		+ {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":12,"n":2} provisional 0`)
	if now, err := w.Views.Get("revenue"); err != nil || now.State != runtime.Live || now.ID != info.ID || now.Rebuilding {
		t.Errorf("%s %v", now.State, err)
	}
	// And over one more start.
	w.Reopen()
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:30", "DE", 1)))
	if isGap(w, "revenue", at) {
		t.Error("a position from behind the restore is gone")
	}
}

func TestAViewThatReadWhatIsLostIsMadeAgainFromTheLog(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	id := w.View("revenue", revenue).ID
	w.Stream("payments", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","card":"VARCHAR","amount":"BIGINT"}}`)
	w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100","title":"{card} paid {amount}"}`)
	large, err := w.Alerts.Get("large")
	if err != nil {
		t.Fatal(err)
	}
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 500), sale("12:00:11", "FR", 600)))
	w.Until("large", w.Post("payments", 0, `{"ts":"12:00:10","card":"a","amount":500}`, `{"ts":"12:00:11","card":"b","amount":600}`))
	old := stream.Position{Log: stream.LogID(99).Of(id), Sequence: 1000}
	between(t, w, func(store *kv.Store) {
		// Both read further than the log goes, and the rows are not those of what is left.
		runtime.Forge(store, id, 99, 1000)
		runtime.Forge(store, large.ID, 99, 1000)
	})
	until := func(view string) {
		changed, stop, err := w.Views.Watch(view)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for {
			info, err := w.Views.Get(view)
			if view == "large" {
				a, aerr := w.Alerts.Get(view)
				info, err = a.Info, aerr
			}
			if err != nil || info.State == runtime.Failed {
				t.Fatal(view, info.State, err)
			}
			if info.State == runtime.Live && !info.Rebuilding {
				return
			}
			select {
			case <-changed:
			case <-time.After(viewtest.Patience):
				t.Fatal(view, " is not made again")
			}
		}
	}
	until("revenue")
	until("large")
	if !isGap(w, "revenue", old) {
		t.Error("a position of what is lost is taken")
	}
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:20", "DE", 700)))
	w.Until("large", w.Post("payments", 0, `{"ts":"12:00:20","card":"a","amount":700}`))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":1200,"n":2}
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"FR","revenue":600,"n":1}`)
	// What was there before fires no second time; the row that was missing fires.
	page, err := w.Alerts.Log("large", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, a := range page.Items {
		titles = append(titles, string(a.Op)+" "+a.Title)
	}
	diff(t, strings.Join(titles, "\n"), "fire a paid 500\nfire b paid 600\nfire a paid 500\nfire a paid 700")
}

func TestPositionsEndWithTheView(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	receipt := w.Post("checkouts", 0, sale("12:00:10", "DE", 5))
	w.Until("revenue", receipt)
	old := standing(t, w, "revenue")
	w.Until("revenue", old.String())
	w.View("revenue", `{"sql":"`+revenue+`","throttle":"1s"}`)
	if isGap(w, "revenue", old) {
		t.Error("an edit has taken the positions away")
	}
	if err := w.Views.Delete(t.Context(), "revenue"); err != nil {
		t.Fatal(err)
	}
	w.View("revenue", revenue)
	w.Until("revenue", receipt)
	if !isGap(w, "revenue", old) {
		t.Error("a position of the view that was deleted is taken")
	}
	if isGap(w, "revenue", standing(t, w, "revenue")) {
		t.Error("its own position is none")
	}
	_, err := w.Views.Rows(t.Context(), "revenue", runtime.RowsQuery{After: old.String()})
	if problemOf(err) != "410 receipt_gone" {
		t.Error(err)
	}
}

// A loss that nothing but a view's position shows is a loss like any other: nothing is written until it
// is accepted, and then the view is made again of what is there.
func TestAViewThatReadFurtherThanTheLogTellsOfTheLoss(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	st := w.Stream("checkouts", checkouts)
	id := w.View("revenue", revenue).ID
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:11", "FR", 6)))
	log := w.Log.ID()
	between(t, w, func(store *kv.Store) { runtime.Forge(store, id, log, 1000) })
	lost := w.Log.Lost()
	if len(lost) != 1 || !strings.HasPrefix(lost[0], "view revenue has read up to sequence 1000 and the log ends at ") {
		t.Fatalf("lost: %q", lost)
	}
	if _, err := w.Log.Advance(t.Context(), st.ID, viewtest.Time("12:05")); !errors.Is(err, stream.ErrShortened) {
		t.Fatalf("%v: want that nothing is written", err)
	}
	w.AcceptLoss = true
	w.Reopen()
	if w.Log.ID() == log || len(w.Log.Lost()) != 0 {
		t.Fatalf("the loss was not accepted: %q", w.Log.Lost())
	}
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:12", "FR", 1)))
	untilBuilt(w, "revenue")
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"FR","revenue":7,"n":2}`)
}
