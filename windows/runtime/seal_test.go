package runtime_test

import (
	"strings"
	"testing"
	"time"

	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// trimmedWorld is a world whose log keeps events for an hour; passing time is up to the test.
func trimmedWorld(t *testing.T) (w *viewtest.World, pass func(time.Duration)) {
	w, pass = clockWorld(t)
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,"retention":{"age":"1h"},`, 1))
	return w, pass
}

func trim(w *viewtest.World) {
	w.T.Helper()
	if err := w.Log.Keep(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

var sealedViews = map[string]string{
	"tumbles":  `{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","retention":"7d","throttle":"0s"}`,
	"hops":     `{"sql":"SELECT window_start, count(*) AS n FROM hop(checkouts, ts, INTERVAL '1 minute', INTERVAL '3 minutes') GROUP BY ALL","retention":"7d","throttle":"0s"}`,
	"sessions": `{"sql":"SELECT window_start, window_end, country, count(*) AS n FROM session(checkouts, ts, INTERVAL '20 seconds', country) GROUP BY ALL","retention":"7d","throttle":"0s"}`,
	"slides":   `{"sql":"SELECT window_end, country, max(amount) AS top FROM slide(checkouts, ts, INTERVAL '1 minute', country) GROUP BY ALL","retention":"7d","throttle":"0s"}`,
	"passing":  `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","retention":"7d","throttle":"0s"}`,
	"best":     `{"sql":"SELECT window_start, country, amount FROM tumble(checkouts, ts, INTERVAL '1 minute') QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY amount DESC) <= 2","retention":"7d","throttle":"0s"}`,
}

func TestARebuildFromATrimmedLogKeepsWhatItCanNotMakeAgain(t *testing.T) { // R4
	t.Parallel()
	w, pass := trimmedWorld(t)
	for name, body := range sealedViews {
		w.View(name, body)
	}
	w.View("total", `{"sql":"SELECT count(*) AS n, sum(amount) AS s FROM checkouts","throttle":"0s"}`)
	until := func(receipt string) {
		w.T.Helper()
		for name := range sealedViews {
			w.Until(name, receipt)
		}
	}
	until(w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:25", "DE", 6)))
	until(w.Post("checkouts", 1, sale("12:00:40", "FR", 4), sale("12:03:10", "DE", 1)))
	pass(2 * time.Hour)
	until(w.Post("checkouts", 0, sale("12:03:20", "DE", 9), sale("12:03:20", "FR", 8)))
	until(w.Post("checkouts", 1, sale("12:05:20", "DE", 7), sale("12:09:20", "FR", 2)))
	until(w.Post("checkouts", 0, sale("12:07:20", "DE", 4), sale("12:09:30", "FR", 3)))
	trim(w)
	sealed := map[string]int64{"tumbles": 4, "hops": 6, "sessions": 4, "slides": 6, "passing": 3, "best": 4}
	for round := range 2 { // sealed rows stay sealed
		for name := range sealedViews {
			rows, changes := w.Rows(name, runtime.RowsQuery{}), w.Changes(name, stream.Position{})
			if _, err := w.Views.Rebuild(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			info := untilBuilt(w, name)
			diff(t, name+" "+w.Rows(name, runtime.RowsQuery{}), name+" "+rows)
			diff(t, w.Changes(name, stream.Position{}), changes)
			if info.State != runtime.Live || info.Sealed == nil || info.Sealed.Rows != sealed[name] || info.Rows != int64(strings.Count(rows, "\n")) {
				t.Errorf("round %d, %s: %s, %d rows, sealed %+v of\n%s", round, name, info.State, info.Rows, info.Sealed, rows)
			}
			if name != "passing" && (info.Sealed.Before == nil || *info.Sealed.Before < "2024-01-01T12:03:10") {
				t.Errorf("%s: %+v", name, *info.Sealed)
			}
		}
		w.Crash()
	}
	// A rebuild that would take from rows what they count is refused.
	if _, err := w.Views.Rebuild(t.Context(), "total"); problemOf(err) != "409 log_trimmed" {
		t.Errorf("total: %v", err)
	}
	diff(t, w.Rows("total", runtime.RowsQuery{}), `provisional 0 {"n":10,"s":49}`)
	// An event for a sealed window is outside the view; later windows go on.
	before := w.Rows("tumbles", runtime.RowsQuery{Where: "window_start < TIMESTAMP '2024-01-01 12:04:00'"})
	w.Until("tumbles", w.Post("checkouts", 0, sale("12:03:40", "DE", 100), sale("12:09:50", "FR", 3)))
	diff(t, w.Rows("tumbles", runtime.RowsQuery{Where: "window_start < TIMESTAMP '2024-01-01 12:04:00'"}), before)
	diff(t, w.Rows("tumbles", runtime.RowsQuery{Where: "window_start = TIMESTAMP '2024-01-01 12:09:00'"}), `
		provisional 0 {"window_start":"2024-01-01T12:09:00Z","country":"FR","revenue":8,"n":3}`)
}

func TestAViewThatRetentionOvertakesFailsAndGoesOnAfterARebuild(t *testing.T) { // R4
	t.Parallel()
	w, pass := trimmedWorld(t)
	w.View("tumbles", sealedViews["tumbles"])
	w.View("total", `{"sql":"SELECT count(*) AS n, sum(amount) AS s FROM checkouts","throttle":"0s"}`)
	first := w.Post("checkouts", 0, sale("12:00:10", "DE", 5))
	for _, view := range []string{"tumbles", "total"} {
		w.Until(view, first)
		if _, err := w.Views.Pause(t.Context(), view); err != nil {
			t.Fatal(err)
		}
	}
	w.Post("checkouts", 0, sale("12:00:20", "DE", 6))
	w.Post("checkouts", 1, sale("12:01:30", "DE", 7))
	pass(2 * time.Hour)
	last := w.Post("checkouts", 0, sale("12:05:10", "DE", 8))
	trim(w)
	w.Reopen() // what the log still has in memory could be read
	for _, view := range []string{"tumbles", "total"} {
		if _, err := w.Views.Resume(t.Context(), view); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Views.Rows(t.Context(), view, runtime.RowsQuery{After: last, Wait: viewtest.Patience}); problemOf(err) != "409 view_failed" {
			t.Fatalf("%s: %v", view, err)
		}
		info, err := w.Views.Get(view)
		if err != nil || info.State != runtime.Failed || !strings.Contains(info.Reason, "retention has removed events of stream checkouts that were not read yet; its partitions begin at offsets [2 1] now") ||
			!strings.Contains(info.Reason, "rebuild") {
			t.Errorf("%s: %s %q %v", view, info.State, info.Reason, err)
		}
	}
	w.Reopen() // it stays failed, and says so again
	for _, view := range []string{"tumbles", "total"} {
		if _, err := w.Views.Rows(t.Context(), view, runtime.RowsQuery{After: last, Wait: viewtest.Patience}); problemOf(err) != "409 view_failed" {
			t.Fatal(err)
		}
	}
	diff(t, w.Rows("tumbles", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}`)
	for _, view := range []string{"tumbles", "total"} {
		if _, err := w.Views.Rebuild(t.Context(), view); err != nil {
			t.Fatal(err)
		}
		if info := untilBuilt(w, view); info.State != runtime.Live || info.Reason != "" {
			t.Errorf("%s: %s %q", view, info.State, info.Reason)
		}
		w.Until(view, last)
	}
	diff(t, w.Rows("tumbles", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}
		provisional 0 {"window_start":"2024-01-01T12:05:00Z","country":"DE","revenue":8,"n":1}`)
	diff(t, w.Rows("total", runtime.RowsQuery{}), `provisional 0 {"n":1,"s":8}`)
}

func TestAViewThatIsMadeOnATrimmedLogBeginsWithWhatIsThere(t *testing.T) { // R4, W1
	t.Parallel()
	w, pass := trimmedWorld(t)
	w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:05:10", "DE", 6))
	w.Post("checkouts", 1, sale("12:05:20", "DE", 6))
	pass(2 * time.Hour)
	last := w.Post("checkouts", 0, sale("12:06:10", "DE", 8), sale("12:00:20", "DE", 1))
	trim(w)
	w.View("strict", `{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","late":"drop","throttle":"0s"}`)
	w.Until("strict", last)
	info, err := w.Views.Get("strict")
	// The watermark goes on from that of the events that are gone, so the last event is late.
	if err != nil || info.State != runtime.Live || info.Counts.LateDropped != 1 || info.Counts.Events != 2 {
		t.Errorf("%+v %v", info.Counts, err)
	}
	diff(t, w.Rows("strict", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:06:00Z","country":"DE","revenue":8,"n":1}`)
}
