package runtime_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

func poisoned(b *stream.Batch, i int) bool { return strings.Contains(string(b.Raw(i)), "POISON") }

func TestP13APoisonEventHarmsItselfAlone(t *testing.T) { // E2
	t.Parallel()
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Setup = func(s *runtime.Service) { runtime.PanicAt(s, poisoned, nil) }
	})
	w.Stream("checkouts", checkouts)
	w.View("revenue", fmt.Sprintf(`{"sql":%q,"epoch":"50ms"}`, revenue))
	w.Post("checkouts", 0, sale("12:00:01", "DE", 1))
	var events []string
	for i := range 40 {
		country := "DE"
		if i == 0 || i == 17 || i == 39 {
			country = "POISON"
		}
		events = append(events, sale("12:00:10", country, 1))
	}
	w.Post("checkouts", 0, events...)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:11", "FR", 2)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":38,"n":38}
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"FR","revenue":2,"n":1}`)
	check := func() {
		t.Helper()
		page, err := w.Views.Errors("revenue", "", 0)
		if err != nil || len(page.Items) != 3 {
			t.Fatalf("%+v, %v", page, err)
		}
		for i, offset := range []stream.Offset{1, 18, 40} {
			if e := page.Items[i]; e.Offset != offset || e.Code != "internal" {
				t.Fatalf("row error %d: %+v", i, e)
			}
		}
		info, err := w.Views.Get("revenue")
		if err != nil || info.Counts.RowErrors != 3 || info.Counts.Events != 42 || info.State != runtime.Live || info.LagEvents != 0 {
			t.Fatalf("%+v, %v", info, err)
		}
	}
	check()
	w.Crash()
	check()
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:12", "POISON", 2), sale("12:00:12", "FR", 2)))
	page, err := w.Views.Errors("revenue", "", 0)
	if err != nil || len(page.Items) != 4 {
		t.Fatalf("%+v, %v", page, err)
	}
}

func TestAPoisonEventMovesTheWatermark(t *testing.T) { // W2, E2
	t.Parallel()
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Setup = func(s *runtime.Service) { runtime.PanicAt(s, poisoned, nil) }
	})
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Post("checkouts", 0, sale("12:00:01", "DE", 1))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:09:00", "POISON", 1)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		final 1 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":1,"n":1}`)
}

func TestAPanicAtAControlRecordFailsTheViewAlone(t *testing.T) { // E2
	t.Parallel()
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Setup = func(s *runtime.Service) {
			runtime.PanicAt(s, func(*stream.Batch, int) bool { return false }, func(c *stream.Control) bool { return c.Kind == stream.Advance && c.Value == viewtest.Time("13:00") })
		}
	})
	w.Stream("checkouts", checkouts)
	w.Stream("calm", checkouts)
	w.View("revenue", revenue)
	w.View("other", strings.Replace(revenue, "checkouts", "calm", 1))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:01", "DE", 1)))
	receipt := w.Advance("checkouts", "13:00")
	_, err := w.Views.Rows(t.Context(), "revenue", runtime.RowsQuery{After: receipt, Wait: viewtest.Patience})
	if problemOf(err) != "409 view_failed" {
		t.Fatal(err)
	}
	info, err := w.Views.Get("revenue")
	if err != nil || info.State != runtime.Failed || !strings.Contains(info.Reason, "control record") {
		t.Fatalf("%+v, %v", info, err)
	}
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":1,"n":1}`)
	w.Until("other", w.Post("calm", 0, sale("12:00:01", "DE", 1)))
}

func TestThreeCrashesInARowFailTheView(t *testing.T) { // E2
	t.Parallel()
	atWork, release := make(chan struct{}), make(chan struct{})
	hold := false
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Setup = func(s *runtime.Service) {
			if hold {
				runtime.PanicAt(s, func(*stream.Batch, int) bool { atWork <- struct{}{}; <-release; return false }, nil)
			}
		}
	})
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:01", "DE", 1)))
	hold = true
	w.Reopen()
	receipt := w.Post("checkouts", 0, sale("12:00:02", "DE", 1))
	for n := range 3 {
		<-atWork
		w.Crash(func() { hold = n < 2; release <- struct{}{} })
	}
	_, err := w.Views.Rows(t.Context(), "revenue", runtime.RowsQuery{After: receipt, Wait: viewtest.Patience})
	if problemOf(err) != "409 view_failed" {
		t.Fatal(err)
	}
	if _, err := w.Views.Resume(t.Context(), "revenue"); err != nil {
		t.Fatal(err)
	}
	w.Until("revenue", receipt)
	for range 5 { // a view that is at rest has no part in a crash
		w.Crash()
	}
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:01", "DE", 1)))
}

func TestAnEpochThatGathersForLongHasNoPartInACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := viewtest.New(t)
		w.Stream("checkouts", checkouts)
		w.View("revenue", fmt.Sprintf(`{"sql":%q,"epoch":"1h"}`, revenue))
		w.Post("checkouts", 0, sale("12:00:01", "DE", 1))
		for range 5 {
			synctest.Wait()
			if n := w.Views.Gauges()[0].PendingEvents; n != 1 {
				t.Fatalf("%d events are pending; want the one that was posted", n)
			}
			w.Crash()
		}
		synctest.Wait()
		if info, err := w.Views.Get("revenue"); err != nil || info.State == runtime.Failed {
			t.Fatal(info.Reason, err)
		}
	})
}
