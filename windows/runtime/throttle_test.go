package runtime_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// epochsOf gives the times at which a view's epochs with changes became visible.
func epochsOf(w *viewtest.World, view string, since time.Time, during func()) []time.Duration {
	changed, stop, err := w.Views.Watch(view)
	if err != nil {
		w.T.Fatal(err)
	}
	done := make(chan struct{})
	var at []time.Duration
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, err := w.Views.Changes(view, stream.Position{})
		if err != nil {
			w.T.Error(err)
			return
		}
		for {
			for {
				_, ok, err := r.Next()
				if err != nil {
					w.T.Error(err)
					return
				}
				if !ok {
					break
				}
				at = append(at, time.Since(since))
			}
			select {
			case <-changed:
			case <-done:
				return
			}
		}
	}()
	during()
	close(done)
	<-ended
	stop()
	return at
}

func TestThrottleCoalescesProvisionalChanges(t *testing.T) { // C5
	synctest.Test(t, func(t *testing.T) {
		w := viewtest.New(t)
		w.Stream("checkouts", checkouts)
		w.View("revenue", fmt.Sprintf(`{"sql":%q,"throttle":"1s"}`, revenue))
		time.Sleep(10 * time.Second)
		start := time.Now()
		at := epochsOf(w, "revenue", start, func() {
			for range 10 {
				w.Post("checkouts", 0, sale("12:00:10", "DE", 1))
				time.Sleep(300 * time.Millisecond)
			}
			time.Sleep(3 * time.Second)
		})
		// Events come from 0s to 2.7s: the first change at once, then one a second, then the rest.
		if got, want := fmt.Sprint(at), "[0s 1s 2s 3s]"; got != want {
			t.Fatalf("epochs at %s; want %s", got, want)
		}
		diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
			provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":10,"n":10}`)
	})
}

func TestFinalChangesDoNotWaitForTheThrottle(t *testing.T) { // C5
	synctest.Test(t, func(t *testing.T) {
		w := viewtest.New(t)
		w.Stream("checkouts", checkouts)
		w.View("revenue", fmt.Sprintf(`{"sql":%q,"throttle":"1h"}`, revenue))
		time.Sleep(10 * time.Second)
		start := time.Now()
		at := epochsOf(w, "revenue", start, func() {
			w.Post("checkouts", 0, sale("12:00:10", "DE", 1))
			time.Sleep(time.Second)
			w.Post("checkouts", 0, sale("12:00:11", "DE", 1))
			time.Sleep(time.Second)
			w.Advance("checkouts", "12:01")
			time.Sleep(time.Second)
		})
		if got, want := fmt.Sprint(at), "[0s 2s]"; got != want {
			t.Fatalf("epochs at %s; want %s", got, want)
		}
	})
}

func TestEpochGathersFinalChangesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := viewtest.New(t)
		w.Stream("checkouts", checkouts)
		w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","epoch":"1s"}`)
		time.Sleep(10 * time.Second)
		start := time.Now()
		at := epochsOf(w, "large", start, func() {
			for range 6 {
				w.Post("checkouts", 0, sale("12:00:10", "DE", 10))
				time.Sleep(300 * time.Millisecond)
			}
			time.Sleep(3 * time.Second)
		})
		if got, want := fmt.Sprint(at), "[1s 2.2s]"; got != want {
			t.Fatalf("epochs at %s; want %s", got, want)
		}
	})
}
