package runtime_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// R3
func TestRowsExpireBehindTheWatermarkWithoutAChange(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", `{"sql":"`+revenue+`","retention":"1h"}`)
	w.View("total", `{"sql":"SELECT count(*) AS n, sum(amount) AS s FROM checkouts","retention":{"age":"1h"}}`)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:30:10", "DE", 7)))
	w.Until("revenue", w.Post("checkouts", 0, sale("13:05:00", "DE", 9)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		final 1 {"window_start":"2024-01-01T12:30:00Z","country":"DE","revenue":7,"n":1}
		provisional 0 {"window_start":"2024-01-01T13:05:00Z","country":"DE","revenue":9,"n":1}`)
	info, err := w.Views.Get("revenue")
	if err != nil {
		t.Fatal(err)
	}
	if info.Rows != 2 || info.AsOf.Oldest == nil || *info.AsOf.Oldest != viewtest.Time("12:03:00") {
		t.Errorf("%d rows, oldest %v", info.Rows, info.AsOf.Oldest)
	}
	// A correction of a row that has expired is a change, and the row stays away.
	w.Until("revenue", w.Post("checkouts", 0, sale("12:40:00", "FR", 1)))
	w.Reopen()
	if info, err = w.Views.Get("revenue"); err != nil || info.Rows != 3 {
		t.Errorf("%d rows: %v", info.Rows, err)
	}
	last := w.Post("checkouts", 0, sale("13:06:00", "DE", 9))
	w.Until("revenue", last)
	w.Until("total", last)
	diff(t, w.Rows("total", runtime.RowsQuery{}), `provisional 0 {"n":5,"s":31}`) // rows without time stay
	// A rebuild keeps the same rows and appends no change.
	end := w.Changes("revenue", stream.Position{})
	before := w.Rows("revenue", runtime.RowsQuery{})
	if _, err := w.Views.Rebuild(t.Context(), "revenue"); err != nil {
		t.Fatal(err)
	}
	untilBuilt(w, "revenue")
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), before)
	diff(t, w.Changes("revenue", stream.Position{}), end)
}

// R3
func TestOldChangesGoAndTheirPositionsAreAGap(t *testing.T) {
	t.Parallel()
	w, pass := clockWorld(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", `{"sql":"`+revenue+`","retention":"1h"}`)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	first, _, err := w.Views.Standing("revenue")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		pass(25 * time.Minute)
		w.Until("revenue", w.Post("checkouts", 0, sale("12:00:20", "DE", 1)))
		_, err = w.Views.Changes("revenue", first)
		var gap *runtime.Gap
		if gone := errors.As(err, &gap); gone != (i == 3) {
			t.Errorf("after %d minutes: %v", 25*(i+1), err)
		}
	}
	r, err := w.Views.Changes("revenue", stream.Position{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		_, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d epochs are left, not 3", n)
	}
}

// R3: late records and row errors go with the changes of their time.
func TestOldLateRecordsAndRowErrorsGo(t *testing.T) {
	t.Parallel()
	w, pass := clockWorld(t)
	w.Stream("checkouts", checkouts)
	w.View("errors", strings.Replace(manyViews["errors"], "{", `{"retention":"1h","throttle":"0s",`, 1))
	w.Until("errors", w.Post("checkouts", 0, sale("12:00:10", "7", 5), sale("12:10:00", "DE", 5)))
	late := func(n int, country string) {
		for range n {
			w.Until("errors", w.Post("checkouts", 0, sale("12:00:20", country, 6)))
		}
	}
	late(3, "8")
	w.Until("errors", w.Post("checkouts", 0, sale("12:10:01", "FR", 5)))
	pass(50 * time.Minute)
	late(2, "9")
	w.Until("errors", w.Post("checkouts", 0, sale("12:10:02", "IT", 5), sale("12:10:03", "5", 5)))
	check := func(first, end, failed int64) {
		t.Helper()
		page, err := w.Views.LateEvents("errors", first, 100)
		if err != nil || page.First != first || page.End != end || len(page.Events) != int(end-first) || len(page.Events) > 0 && page.Events[0].Number != first {
			t.Errorf("late events: %+v %v, want %d to %d", page, err, first, end)
		}
		info, err := w.Views.Get("errors")
		list, lerr := w.Views.Errors("errors", "", 0)
		if err != nil || lerr != nil || info.Counts.RowErrors != failed || len(list.Items) != int(failed) {
			t.Errorf("%d row errors, %d listed, want %d: %v %v", info.Counts.RowErrors, len(list.Items), failed, err, lerr)
		}
		if info.Counts.LateDropped != end { // a count is no list: it says how many there ever were
			t.Errorf("%d late events counted, not %d", info.Counts.LateDropped, end)
		}
	}
	check(0, 5, 3)
	pass(20 * time.Minute)
	late(1, "9")
	check(3, 6, 1)
	if _, err := w.Views.LateEvents("errors", 2, 100); problemOf(err) != "410 offset_gone" {
		t.Errorf("a late event that is gone: %v", err)
	}
	w.Reopen()
	check(3, 6, 1)
	pass(50 * time.Minute)
	w.Until("errors", w.Post("checkouts", 0, sale("12:10:04", "XX", 5)))
	check(5, 6, 1)
	if _, err := w.Views.Rebuild(t.Context(), "errors"); err != nil {
		t.Fatal(err)
	}
	untilBuilt(w, "errors")
	check(5, 6, 1)
}
