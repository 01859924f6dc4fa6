package alert_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/stream"
	"tidemark/windows/runtime/viewtest"
)

// R3: alarms go with the changes of their time; a place behind which some are gone is told, never
// skipped, and numbers go on.
func TestOldAlarmsGoAndPlacesBehindThemAreTold(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	w := viewtest.New(t, func(w *viewtest.World) {
		began := time.Now()
		w.Clock = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	})
	w.Stream("payments", payments)
	w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100","title":"{card} paid {amount}","retention":"1h"}`)
	fire := func(card string) {
		passed.Add(int64(25 * time.Minute))
		w.Until("large", w.Post("payments", 0, pay("12:00:10", card, 500)))
	}
	seqs := func(after string) string {
		page, err := w.Alerts.Log("large", after, 100)
		if err != nil {
			return problemOf(err)
		}
		var titles []string
		for _, a := range page.Items {
			titles = append(titles, strings.Fields(a.Title)[0])
		}
		return strings.Join(titles, " ")
	}
	fire("a")
	place, _, err := w.Views.Standing("large")
	if err != nil {
		t.Fatal(err)
	}
	position := place.String()
	fire("b")
	fire("c")
	if got := seqs(position); got != "b c" {
		t.Fatalf("behind the first alarm: %s", got)
	}
	fire("d")
	fire("e")
	w.Crash()
	fire("f")
	info, err := w.Alerts.Get("large")
	if err != nil || info.FirstSeq != 4 || info.LastSeq != 6 {
		t.Fatalf("alarms %d to %d: %v", info.FirstSeq, info.LastSeq, err)
	}
	for after, want := range map[string]string{
		"": "d e f", "3": "d e f", "4": "e f", "6": "", "2": "410 position_gone", "0": "410 position_gone", position: "410 position_gone",
	} {
		if got := seqs(after); got != want {
			t.Errorf("after %q: %q, want %q", after, got, want)
		}
	}
	if _, err := w.Alerts.After("large", place, 10); problemOf(err) != "410 position_gone" {
		t.Errorf("after a position: %v", err)
	}
	if all, err := w.Alerts.After("large", stream.Position{}, 10); err != nil || len(all) != 3 {
		t.Errorf("from the beginning: %d alarms, %v", len(all), err)
	}
	passed.Add(int64(24 * time.Hour))
	w.Until("large", w.Post("payments", 0, pay("12:00:10", "a", 1))) // fires nothing
	if got := seqs(""); got != "f" {
		t.Errorf("a day later: %q, want the newest", got)
	}
	fire("g")
	if info, err = w.Alerts.Get("large"); err != nil || info.LastSeq != 7 {
		t.Errorf("the next alarm has the number %d: %v", info.LastSeq, err)
	}
}
