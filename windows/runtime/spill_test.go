package runtime_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tidemark/storage/kv"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// Views that may keep nothing in memory have the same to show, also with a crash after each epoch.
func TestViewsWithoutMemoryGiveTheSame(t *testing.T) {
	t.Parallel()
	want := tell(t, func(*viewtest.World, int, string) {})
	for name, crash := range map[string]bool{"no crash": false, "a crash after each epoch": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spilled := int64(0)
			got := tell(t, func(w *viewtest.World, _ int, receipt string) {
				for view := range storyViews {
					w.Until(view, receipt)
				}
				for _, g := range w.Views.Gauges() {
					spilled += g.Memory.Evicted
				}
				if crash {
					w.Crash()
				}
			}, func(w *viewtest.World) { w.Options.StateBytes = 1 })
			for view := range storyViews {
				diff(t, view+"\n"+got[view], view+"\n"+want[view])
			}
			if spilled == 0 {
				t.Error("nothing left the memory")
			}
		})
	}
}

// withoutFormat takes the formats of all states away: they are in that of an earlier program.
func withoutFormat(t *testing.T, w *viewtest.World) {
	t.Helper()
	between(t, w, func(store *kv.Store) {
		b := store.NewBatch()
		prefix := []byte{byte(kv.State)}
		it := store.Iter(prefix, kv.PrefixEnd(prefix))
		for ok := it.First(); ok; ok = it.Next() {
			if k := it.Key(); len(k) == 1+8+1+4+1+1 && bytes.HasSuffix(k, []byte{1, 'v'}) {
				b.Delete(append([]byte{}, k...))
			}
		}
		if err := it.Close(); err != nil || b.Empty() {
			t.Fatalf("no format to take away: %v", err)
		}
		if err := b.Commit(true); err != nil {
			t.Fatal(err)
		}
	})
}

// A view whose state was written in a format of an earlier program is made again of the log beside
// its rows, and its change stream goes on; when the log no longer reaches back, it says so.
func TestViewOfAnEarlierFormatIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("total", storyViews["total"])
	w.Until("total", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	before := standing(t, w, "total")
	withoutFormat(t, w)
	w.Until("total", w.Post("checkouts", 0, sale("12:00:20", "DE", 4)))
	diff(t, w.Rows("total", runtime.RowsQuery{}), `provisional 0 {"n":2,"s":9}`+"\n")
	if isGap(w, "total", before) {
		t.Error("the change stream began anew")
	}
	if info, err := w.Views.Get("total"); err != nil || info.Rebuilding || strings.Contains(info.Reason, "format") {
		t.Errorf("%+v %v", info, err)
	}
}

// Where retention has removed what the view is made of it is not made again by itself: its rows stay as
// they are, and it says what a rebuild would do.
func TestViewOfAnEarlierFormatOnATrimmedLogKeepsItsRows(t *testing.T) { // R4
	t.Parallel()
	w, pass := trimmedWorld(t)
	w.View("tumbles", sealedViews["tumbles"])
	w.View("total", `{"sql":"SELECT count(*) AS n, sum(amount) AS s FROM checkouts","throttle":"0s"}`)
	views := []string{"tumbles", "total"}
	first := w.Post("checkouts", 0, sale("12:00:10", "DE", 5))
	for _, view := range views {
		w.Until(view, first)
	}
	pass(2 * time.Hour)
	second := w.Post("checkouts", 0, sale("12:05:10", "DE", 8))
	rows := map[string]string{}
	for _, view := range views {
		w.Until(view, second)
		rows[view] = w.Rows(view, runtime.RowsQuery{})
	}
	trim(w)
	withoutFormat(t, w)
	third := w.Post("checkouts", 0, sale("12:06:10", "DE", 2))
	for range 2 {
		for _, view := range views {
			if _, err := w.Views.Rows(t.Context(), view, runtime.RowsQuery{After: third, Wait: viewtest.Patience}); problemOf(err) != "409 view_failed" {
				t.Fatalf("%s: %v", view, err)
			}
			info, err := w.Views.Get(view)
			if err != nil || info.State != runtime.Failed || !strings.Contains(info.Reason, "format") || !strings.Contains(info.Reason, "rebuild makes it of what is there") {
				t.Errorf("%s: %s %q %v", view, info.State, info.Reason, err)
			}
			diff(t, w.Rows(view, runtime.RowsQuery{}), rows[view])
		}
		w.Reopen()
	}
	if _, err := w.Views.Rebuild(t.Context(), "tumbles"); err != nil {
		t.Fatal(err)
	}
	untilBuilt(w, "tumbles")
	w.Until("tumbles", third)
	diff(t, w.Rows("tumbles", runtime.RowsQuery{}), rows["tumbles"]+`provisional 0 {"window_start":"2024-01-01T12:06:00Z","country":"DE","revenue":2,"n":1}`+"\n")
	if _, err := w.Views.Rebuild(t.Context(), "total"); err != nil {
		t.Fatal(err)
	}
	untilBuilt(w, "total")
	w.Until("total", third)
	diff(t, w.Rows("total", runtime.RowsQuery{}), `provisional 0 {"n":2,"s":10}`+"\n")
}

// What a view keeps in memory is told from its start on, not from its first epoch.
func TestMemoryOfAViewIsToldRightAfterAStart(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("total", storyViews["total"])
	w.Until("total", w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:20", "FR", 7)))
	before := w.Views.Gauges()[0].Memory
	w.Reopen()
	ready(w, "total")
	after := w.Views.Gauges()[0].Memory
	if before.Entries == 0 || after.Entries != before.Entries || after.Bytes == 0 {
		t.Errorf("before the start %+v, after it %+v", before, after)
	}
}

// ready waits until the views are recovered; view is one of them.
func ready(w *viewtest.World, view string) {
	w.T.Helper()
	changed, stop, err := w.Views.Watch(view)
	if err != nil {
		w.T.Fatal(err)
	}
	defer stop()
	for !w.Views.Ready() {
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			w.T.Fatal("the views are not recovered")
		}
	}
}
