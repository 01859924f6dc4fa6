package runtime_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// clockWorld is a world whose clock stands still until it is told that time passes.
func clockWorld(t *testing.T) (w *viewtest.World, pass func(time.Duration)) {
	var passed atomic.Int64
	began := time.Now()
	w = viewtest.New(t, func(w *viewtest.World) {
		w.Clock = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	})
	return w, func(d time.Duration) { passed.Add(int64(d)) }
}

// keeps lets the views remove what has expired, and reports whether anything was written.
func keeps(t *testing.T, w *viewtest.World) (wrote bool) {
	t.Helper()
	before := w.KV.Metrics().BytesWrittenWAL
	if err := w.Views.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.KV.Metrics().BytesWrittenWAL != before
}

// R3
func TestRowsAndChangesOfAQuietStreamExpireByTheClock(t *testing.T) {
	t.Parallel()
	w, pass := clockWorld(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", `{"sql":"`+revenue+`","retention":"1h","throttle":"0s"}`)
	w.View("passing", `{"sql":"SELECT ts, amount FROM checkouts","retention":"1h"}`)
	w.View("total", `{"sql":"SELECT count(*) AS n FROM checkouts","retention":"1h"}`)
	w.View("kept", revenue)
	views := []string{"revenue", "passing", "total", "kept"}
	post := func(events ...string) {
		receipt := w.Post("checkouts", 0, events...)
		for _, v := range views {
			w.Until(v, receipt)
		}
	}
	post(sale("12:00:10", "DE", 5), sale("12:05:00", "FR", 7))
	first, _, err := w.Views.Standing("revenue")
	if err != nil {
		t.Fatal(err)
	}
	kept := w.Rows("kept", runtime.RowsQuery{})
	total := w.Rows("total", runtime.RowsQuery{})
	for range 3 {
		if keeps(t, w) {
			t.Error("something was written when nothing had expired")
		}
		pass(18 * time.Minute)
	}
	pass(8 * time.Minute) // 62 minutes, the watermark is that of 13:06:55
	if !keeps(t, w) || keeps(t, w) {
		t.Error("what has expired is removed once")
	}
	// The row of a window that is open stays.
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `provisional 0 {"window_start":"2024-01-01T12:05:00Z","country":"FR","revenue":7,"n":1}`)
	diff(t, w.Rows("passing", runtime.RowsQuery{}), ``)
	info, err := w.Views.Get("revenue")
	if err != nil || info.Rows != 1 || info.AsOf.Oldest == nil || *info.AsOf.Oldest != viewtest.Time("12:06:00") {
		t.Errorf("%d rows, oldest %v: %v", info.Rows, info.AsOf.Oldest, err)
	}
	// So do changes.
	diff(t, w.Changes("passing", stream.Position{}), ``)
	if _, err := w.Views.Changes("revenue", stream.Position{Log: first.Log, Sequence: first.Sequence - 1}); !errors.As(err, new(*runtime.Gap)) {
		t.Errorf("a position whose changes are gone: %v", err)
	}
	if _, err := w.Views.Changes("revenue", first); err != nil {
		t.Errorf("the position where the view stands: %v", err)
	}
	// A window that ends is expired in its turn, also after a start.
	w.Reopen()
	if keeps(t, w) {
		t.Error("something was written after a start")
	}
	receipt := w.Advance("checkouts", "12:06:00")
	w.Until("revenue", receipt)
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `final 1 {"window_start":"2024-01-01T12:05:00Z","country":"FR","revenue":7,"n":1}`)
	pass(59 * time.Minute)
	keeps(t, w)
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `final 1 {"window_start":"2024-01-01T12:05:00Z","country":"FR","revenue":7,"n":1}`)
	pass(5 * time.Minute)
	keeps(t, w)
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), ``)
	// A rebuild brings nothing back, and events that go on where the last ones ended are shown.
	for _, v := range []string{"revenue", "passing"} {
		if _, err := w.Views.Rebuild(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		untilBuilt(w, v)
		diff(t, w.Rows(v, runtime.RowsQuery{}), ``)
		diff(t, w.Changes(v, stream.Position{}), ``)
	}
	pass(100 * time.Hour)
	keeps(t, w)
	post(sale("12:06:01", "DE", 9))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `provisional 0 {"window_start":"2024-01-01T12:06:00Z","country":"DE","revenue":9,"n":1}`)
	diff(t, w.Rows("passing", runtime.RowsQuery{}), `final 1 {"ts":"2024-01-01T12:06:01Z","amount":9}`)
	if got := w.Rows("total", runtime.RowsQuery{}); got == total || w.Rows("kept", runtime.RowsQuery{}) == kept {
		t.Errorf("rows without time or without retention: %s", got)
	}
}
