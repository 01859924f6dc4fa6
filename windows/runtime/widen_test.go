package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// inferred is a stream whose columns come with its events; its amounts are integers so far.
func inferred(w *viewtest.World) *stream.Stream {
	w.T.Helper()
	st := w.Stream("checkouts", `{"time_field":"ts","max_out_of_orderness":"5s","idle_timeout":"0s"}`)
	return ensure(w, st, row.Field{Name: "country", Type: row.Scalar(row.Varchar)}, row.Field{Name: "amount", Type: row.Scalar(row.BigInt)})
}

func ensure(w *viewtest.World, st *stream.Stream, fields ...row.Field) *stream.Stream {
	w.T.Helper()
	st, err := w.Registry.EnsureColumns(w.T.Context(), st.ID, fields)
	if err != nil {
		w.T.Fatal(err)
	}
	return st
}

// fraction lets the amounts become DOUBLE, as the first one with a fraction does.
func fraction(w *viewtest.World, st *stream.Stream) (widened bool) {
	w.T.Helper()
	st = ensure(w, st, row.Field{Name: "amount", Type: row.Scalar(row.Double)})
	return st.Schema.Fields[st.Schema.Column("amount")].Type.Kind == row.Double
}

func exactSale(at, country, amount string) string {
	return fmt.Sprintf(`{"ts":%q,"country":%q,"amount":%s}`, at, country, amount)
}

func TestAViewIsMadeAnewWhenAColumnThatItReadsWidens(t *testing.T) { // R1
	t.Parallel()
	w := viewtest.New(t)
	st := inferred(w)
	w.View("revenue", revenue)
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"0s"}`)
	w.View("above", `{"sql":"SELECT country, sum(revenue) AS total FROM revenue GROUP BY ALL","throttle":"0s"}`)
	w.View("countries", `{"sql":"SELECT country, count(*) AS n FROM checkouts GROUP BY ALL","throttle":"0s"}`)
	all := []string{"revenue", "large", "above", "countries"}
	until := func(receipt string) {
		for _, view := range all {
			w.Until(view, receipt)
		}
	}
	until(w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:11", "FR", 2)))
	until(w.Post("checkouts", 0, sale("12:01:10", "DE", 7))) // the first minute is final
	reader, err := w.Views.Changes("revenue", stream.Position{})
	if err != nil {
		t.Fatal(err)
	}
	for ok := true; ok; {
		if _, ok, err = reader.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if !fraction(w, st) {
		t.Fatal("the column did not widen")
	}
	until(w.Post("checkouts", 0, exactSale("12:01:20", "DE", "2.5")))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		final 1 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}
		final 1 {"window_start":"2024-01-01T12:00:00Z","country":"FR","revenue":2,"n":1}
		provisional 0 {"window_start":"2024-01-01T12:01:00Z","country":"DE","revenue":9.5,"n":2}`)
	diff(t, w.Rows("large", runtime.RowsQuery{}), `
		final 1 {"country":"DE","amount":5}
		final 1 {"country":"DE","amount":7}`)
	diff(t, w.Rows("above", runtime.RowsQuery{}), `
		provisional 0 {"country":"DE","total":14.5}
		provisional 0 {"country":"FR","total":2}`)
	for view, version := range map[string]int{"revenue": 2, "large": 2, "above": 2, "countries": 1} {
		untilVersion(w, view, version)
		if info, err := w.Views.Get(view); err != nil || info.State != runtime.Live || info.Reason != "" {
			t.Errorf("%s: %s %q %v", view, info.State, info.Reason, err)
		}
		if got, want := folded(w, view), w.Rows(view, runtime.RowsQuery{}); got != want {
			diff(t, got, want)
		}
	}
	var gap *runtime.Gap
	if _, _, err := reader.Next(); !errors.As(err, &gap) { // as with any edit that gives columns other types
		t.Errorf("%v: want a gap", err)
	}
	fields, err := w.Views.Fields("revenue")
	if err != nil || fields[2].Type.Kind != row.Double {
		t.Errorf("%v %v", fields, err)
	}
	w.Crash()
	until(w.Post("checkouts", 0, exactSale("12:01:30", "DE", "0.25")))
	diff(t, w.Rows("revenue", runtime.RowsQuery{Where: "n > 2"}), `
		provisional 0 {"window_start":"2024-01-01T12:01:00Z","country":"DE","revenue":9.75,"n":3}`)
}

func TestWideningSurvivesCrashesAndPauses(t *testing.T) { // R1
	t.Parallel()
	for name, between := range map[string]func(w *viewtest.World){
		"a crash before the value": func(w *viewtest.World) { w.Crash() },
		"a clean restart":          func(w *viewtest.World) { w.Reopen() },
		"two crashes":              func(w *viewtest.World) { w.Crash(); w.Crash() },
		"a pause": func(w *viewtest.World) {
			if _, err := w.Views.Pause(w.T.Context(), "revenue"); err != nil {
				w.T.Fatal(err)
			}
		},
		"an edit at the same time": func(w *viewtest.World) {
			w.View("revenue", strings.Replace(revenue, "1 minute", "2 minutes", 1))
			w.View("revenue", revenue)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := viewtest.New(t)
			st := inferred(w)
			w.View("revenue", revenue)
			w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
			fraction(w, st)
			between(w)
			receipt := w.Post("checkouts", 0, exactSale("12:00:20", "DE", "2.5"))
			between(w)
			if _, err := w.Views.Resume(t.Context(), "revenue"); err != nil {
				t.Fatal(err)
			}
			w.Until("revenue", receipt)
			untilBuilt(w, "revenue")
			diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
				provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":7.5,"n":2}`)
		})
	}
}

func TestAColumnDoesNotWidenWhereAViewCanNotFollow(t *testing.T) { // R1
	t.Parallel()
	t.Run("the log no longer reaches back", func(t *testing.T) {
		t.Parallel()
		var passed atomic.Int64
		w := viewtest.New(t, func(w *viewtest.World) {
			began := time.Now()
			w.Clock = func() time.Time { return began.Add(time.Duration(passed.Load())) }
		})
		st := w.Stream("checkouts", `{"time_field":"ts","max_out_of_orderness":"5s","idle_timeout":"0s","retention":{"age":"1h"}}`)
		st = ensure(w, st, row.Field{Name: "country", Type: row.Scalar(row.Varchar)}, row.Field{Name: "amount", Type: row.Scalar(row.BigInt)})
		w.View("revenue", revenue)
		w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
		passed.Add(int64(2 * time.Hour))
		w.Until("revenue", w.Post("checkouts", 0, sale("12:00:20", "DE", 6)))
		if err := w.Log.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if first, again := fraction(w, st), fraction(w, st); first || again {
			t.Error("the column widened")
		}
		if err := w.Views.Delete(t.Context(), "revenue"); err != nil {
			t.Fatal(err)
		}
		if !fraction(w, st) {
			t.Error("the column does not widen though no view reads it")
		}
	})
	t.Run("the SQL does not go with the type", func(t *testing.T) {
		t.Parallel()
		w := viewtest.New(t)
		st := inferred(w)
		w.View("odd", `{"sql":"SELECT country FROM checkouts WHERE amount & 1 = 1","throttle":"0s"}`)
		w.View("above", `{"sql":"SELECT country, count(*) AS n FROM odd GROUP BY ALL","throttle":"0s"}`)
		if fraction(w, st) {
			t.Error("the column widened")
		}
		w.Until("odd", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	})
}
