package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

const (
	perMinute = `{"sql":"SELECT window_start AS minute, country, sum(amount) AS total FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`
	perHour   = `{"sql":"SELECT window_start AS hour, sum(total) AS total FROM tumble(minutes, minute, INTERVAL '1 hour') GROUP BY ALL","throttle":"0s"}`
)

// The view beneath judges what is late, and tells of it; the one above takes its corrections.
func TestCorrectionOfAViewCorrectsTheViewAboveIt(t *testing.T) { // V1
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("minutes", perMinute)
	info := w.View("hours", perHour)
	if strings.Join(info.Sources, ",") != "checkouts" {
		t.Errorf("sources %v", info.Sources)
	}
	w.Until("hours", w.Post("checkouts", 0, sale("12:00:10", "DE", 1), sale("12:30:10", "FR", 2), sale("13:00:20", "DE", 4)))
	diff(t, w.Rows("hours", runtime.RowsQuery{Order: "hour"}), `
		final 1 {"hour":"2024-01-01T12:00:00Z","total":3}
		provisional 0 {"hour":"2024-01-01T13:00:00Z","total":4}`)
	w.Until("hours", w.Post("checkouts", 0, sale("12:15:10", "ES", 8)))
	w.Until("hours", w.Advance("checkouts", "2024-01-01T20:00:00Z"))
	last := w.Post("checkouts", 0, sale("12:16:10", "ES", 16))
	w.Until("hours", last)
	w.Until("minutes", last)
	want := `
		corrected 2 {"hour":"2024-01-01T12:00:00Z","total":11}
		final 1 {"hour":"2024-01-01T13:00:00Z","total":4}`
	diff(t, w.Rows("hours", runtime.RowsQuery{Order: "hour"}), want)
	w.Crash()
	diff(t, w.Rows("hours", runtime.RowsQuery{Order: "hour"}), want)
	for view, want := range map[string]string{"minutes": "1 1", "hours": "0 0"} {
		if info, err := w.Views.Get(view); err != nil || fmt.Sprint(info.Counts.LateCorrected, info.Counts.LateDropped) != want {
			t.Errorf("%s: %+v, %v", view, info.Counts, err)
		}
	}
}

func TestOnlyFinalRowsOfAnEmitFinalViewExistAboveIt(t *testing.T) { // V3
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("minutes", strings.Replace(perMinute, `"throttle"`, `"emit":"final","throttle"`, 1))
	w.View("hours", perHour)
	w.Until("hours", w.Post("checkouts", 0, sale("12:00:10", "DE", 1), sale("12:30:10", "FR", 2)))
	diff(t, w.Rows("hours", runtime.RowsQuery{}), `
		provisional 0 {"hour":"2024-01-01T12:00:00Z","total":1}`)
	w.Crash()
	w.Until("hours", w.Post("checkouts", 0, sale("13:00:20", "DE", 4)))
	diff(t, w.Rows("hours", runtime.RowsQuery{}), `
		final 1 {"hour":"2024-01-01T12:00:00Z","total":3}`)
}

func TestAViewThatIsReadCanNotBeDeleted(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("minutes", perMinute)
	w.View("hours", perHour)
	if err := w.Views.Delete(t.Context(), "minutes"); problemOf(err) != "409 in_use" || !strings.Contains(err.Error(), "hours") {
		t.Error(err)
	}
	if err := w.Views.Delete(t.Context(), "hours"); err != nil {
		t.Error(err)
	}
	if err := w.Views.Delete(t.Context(), "minutes"); err != nil {
		t.Error(err)
	}
}

func TestAnEditOfAViewIsAnEditOfAllThatReadIt(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("minutes", perMinute)
	w.View("hours", perHour)
	w.View("large", `{"sql":"SELECT hour, total FROM hours WHERE total > 2","throttle":"0s"}`)
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 1), sale("12:30:10", "FR", 2), sale("13:00:20", "DE", 4)))
	before, err := w.Views.Snapshot("large")
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(perMinute, "GROUP BY", "WHERE country = 'DE' GROUP BY", 1)
	dry := define(t, edited)
	info, _, err := w.Views.Put(t.Context(), "minutes", dry, true)
	if err != nil || strings.Join(info.DryRun.Rebuilt, ",") != "rows,view hours,view large" {
		t.Errorf("%+v, %v", info.DryRun, err)
	}
	w.View("minutes", edited)
	for _, view := range []string{"minutes", "hours", "large"} {
		untilVersion(w, view, 2)
	}
	diff(t, w.Rows("hours", runtime.RowsQuery{Order: "hour"}), `
		final 1 {"hour":"2024-01-01T12:00:00Z","total":1}
		provisional 0 {"hour":"2024-01-01T13:00:00Z","total":4}`)
	diff(t, w.Changes("large", before.Position), `
		--
		- {"hour":"2024-01-01T12:00:00Z","total":3} corrected 2`)
	w.View("minutes", strings.Replace(edited, `"throttle":"0s"`, `"throttle":"1s"`, 1))
	if info, err := w.Views.Get("hours"); err != nil || info.Rebuilding || info.AsOf.ViewVersion != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	w.Crash()
	untilVersion(w, "large", 2)
}

func TestAnEditThatAReaderCanNotFollowIsRefused(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("minutes", perMinute)
	w.View("hours", perHour)
	put := func(view, definition string) string {
		_, _, err := w.Views.Put(context.Background(), view, define(t, definition), false)
		return problemOf(err)
	}
	for _, c := range []struct{ view, definition, want string }{
		{"minutes", `{"sql":"SELECT country, amount FROM checkouts"}`, "409 in_use"},
		{"minutes", strings.Replace(perMinute, `"throttle"`, `"start":"latest","throttle"`, 1), "409 in_use"},
		{"minutes", `{"sql":"SELECT hour AS minute, 'x' AS country, total FROM hours"}`, "422 bad_sql"},
		{"minutes", `{"sql":"SELECT * FROM minutes"}`, "422 bad_sql"},
		{"above", strings.Replace(perHour, `"throttle"`, `"start":"latest","throttle"`, 1), "422 bad_option"},
		{"above", strings.Replace(perHour, `"throttle"`, `"max_out_of_orderness":"7s","throttle"`, 1), "422 bad_option"},
	} {
		if got := put(c.view, c.definition); !strings.Contains(got, c.want) {
			t.Errorf("PUT %s %s: %s, want %s", c.view, c.definition, got, c.want)
		}
	}
	w.Until("hours", w.Post("checkouts", 0, sale("12:00:10", "DE", 1)))
}

func TestLagOfAViewOnViewsCountsTheEventsBeneath(t *testing.T) { // C8
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("minutes", perMinute)
	w.View("hours", perHour)
	w.Until("hours", w.Post("checkouts", 0, sale("12:00:10", "DE", 1)))
	if _, err := w.Views.Pause(t.Context(), "hours"); err != nil {
		t.Fatal(err)
	}
	w.Until("minutes", w.Post("checkouts", 0, sale("12:00:10", "DE", 1), sale("12:00:10", "DE", 1)))
	info, err := w.Views.Get("hours")
	if err != nil || info.LagEvents != 2 || fmt.Sprint(info.AsOf.Offsets["checkouts"][:1]) != fmt.Sprint([]stream.Offset{1}) {
		t.Errorf("%+v, %v", info, err)
	}
}

func define(t *testing.T, body string) runtime.Definition {
	t.Helper()
	d, err := runtime.ParseDefinition([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
