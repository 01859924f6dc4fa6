package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// strangeBodies are what a view is made to be: the first two differ in pace alone, the third in rows,
// the fourth in columns.
var strangeBodies = map[string][]string{
	"minutes": {
		`{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL"}`,
		`{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`,
		`{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","late":"drop"}`,
		`{"sql":"SELECT window_start, country, count(*) AS n, sum(amount) AS revenue FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL"}`,
	},
	"above": {
		`{"sql":"SELECT window_start, max(revenue) AS most FROM minutes GROUP BY ALL"}`,
		`{"sql":"SELECT window_start, max(revenue) AS most FROM minutes GROUP BY ALL","throttle":"0s"}`,
	},
	"passing": {
		`{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3"}`,
		`{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","epoch":"20ms"}`,
		`{"sql":"SELECT country, amount FROM checkouts WHERE amount <> 4"}`,
	},
	"lone": {
		`{"sql":"SELECT count(*) AS n, sum(amount) AS s FROM checkouts"}`,
		`{"sql":"SELECT window_start, window_end, country, count(*) AS n FROM session(checkouts, ts, INTERVAL '20 seconds', country) GROUP BY ALL","allowed_lateness":"1m"}`,
	},
}

// C6, R4: calls of a view's life in any order and at the same time, also over restarts and crashes, are
// answered or refused with a reason, and what they leave is what a view has that is made anew.
func TestCallsInAnyOrderAndAtOnceLeaveSoundViews(t *testing.T) {
	t.Parallel()
	rounds, calls := 3, 12
	if long() {
		rounds, calls = 20, 60
	}
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	w := viewtest.New(t, func(w *viewtest.World) { w.Options.MaxCrashes = -1 })
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	names := []string{"minutes", "above", "passing", "lone"}
	for _, name := range names {
		w.View(name, strangeBodies[name][0])
	}
	step := 0
	for round := range rounds {
		var callers sync.WaitGroup
		for range 4 {
			callAtRandom(w, &callers, rng, names, calls, round)
		}
		for range 10 {
			manySteps(w, rng, step, 3)
			step += 3
		}
		if round%3 != 2 {
			callers.Wait()
		}
		switch round % 3 {
		case 0:
			w.Reopen()
		case 1:
			w.Crash()
		default: // while the calls go on
			w.Crash(callers.Wait)
		}
		settle(t, w, names, manySteps(w, rng, step, 3))
		step += 3
		if t.Failed() {
			return
		}
	}
}

// callAtRandom begins to make calls of views' lives beside everything else, until as many are made.
func callAtRandom(w *viewtest.World, callers *sync.WaitGroup, rng *rand.Rand, names []string, calls, round int) {
	own := rand.New(rand.NewPCG(rng.Uint64(), 0))
	views := w.Views
	callers.Go(func() {
		for range calls {
			if said, err := call(w.T.Context(), views, own, names[own.IntN(len(names))]); !mayBe(err) {
				w.T.Errorf("round %d, %s: %v", round, said, err)
			}
		}
	})
}

// call makes one call of a view's life.
func call(ctx context.Context, s *runtime.Service, rng *rand.Rand, name string) (said string, err error) {
	switch n := rng.IntN(11); n {
	case 0, 1, 2, 3:
		body := strangeBodies[name][rng.IntN(len(strangeBodies[name]))]
		d, err := runtime.ParseDefinition([]byte(body))
		if err == nil {
			_, _, err = s.Put(ctx, name, d, n == 0)
		}
		return fmt.Sprintf("put %s %s, dry %v", name, body, n == 0), err
	case 4:
		_, err = s.Rebuild(ctx, name)
		return "rebuild " + name, err
	case 5:
		_, err = s.Pause(ctx, name)
		return "pause " + name, err
	case 6, 7:
		_, err = s.Resume(ctx, name)
		return "resume " + name, err
	case 8:
		return "delete " + name, s.Delete(ctx, name)
	case 9:
		c, _, err := s.Claim(name)
		if err == nil {
			err = errors.Join(c.Errors(func(runtime.FailedEvent) {}), c.Close())
		}
		return "claim " + name, err
	default:
		_, err = s.Snapshot(name)
		return "snapshot " + name, err
	}
}

// mayBe reports whether a call was answered, or refused with a reason.
func mayBe(err error) bool {
	var p *problem.Problem
	return err == nil || errors.As(err, &p) && p.Status >= 400 && p.Status < 500 && p.Detail != ""
}

// untilLive waits until a view says that it has caught up: it does right behind the epoch that did.
func untilLive(w *viewtest.World, name string) runtime.Info {
	w.T.Helper()
	changed, stop, err := w.Views.Watch(name)
	if err != nil {
		w.T.Fatal(err)
	}
	defer stop()
	for {
		info, err := w.Views.Get(name)
		if err != nil {
			w.T.Fatal(err)
		}
		if info.State == runtime.Live {
			return info
		}
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			w.T.Fatalf("%s does not come to be live: %+v", name, info)
		}
	}
}

// settle lets all views go on and compares each with one of the same definition that is made anew.
func settle(t *testing.T, w *viewtest.World, names []string, receipt string) {
	t.Helper()
	all := runtime.RowsQuery{Limit: 1_000_000}
	for _, name := range names {
		if _, err := w.Views.Get(name); err != nil {
			w.View(name, strangeBodies[name][0])
		}
	}
	for _, name := range names {
		if _, err := w.Views.Resume(t.Context(), name); err != nil {
			t.Fatal(name, err)
		}
		untilBuilt(w, name)
		w.Until(name, receipt)
		info := untilLive(w, name)
		if info.Reason != "" || info.LagEvents != 0 {
			t.Errorf("%s: %+v", name, info)
		}
		if _, _, err := w.Views.Put(t.Context(), "twin", info.Definition, false); err != nil {
			t.Fatal(name, err)
		}
		w.Until("twin", receipt)
		if got, want := w.Rows(name, all), w.Rows("twin", all); got != want {
			diff(t, name+"\n"+got, name+"\n"+want)
		}
		if h, _, err := w.Views.Standing(name); err != nil || h == (stream.Position{}) {
			t.Errorf("%s stands at %v: %v", name, h, err)
		}
		if got, want := folded(w, name), w.Rows(name, all); got != want {
			diff(t, name+" folded\n"+got, name+" folded\n"+want)
		}
		if err := w.Views.Delete(t.Context(), "twin"); err != nil {
			t.Fatal(err)
		}
	}
	if left := w.Catalog.List(catalog.View); len(left) != len(names) {
		t.Errorf("%d views are there, not %d", len(left), len(names))
	}
}

// R3, R4: the same while retention takes the log's beginning away: a view that can't go on says so, and
// goes on after a rebuild.
func TestCallsOnATrimmedLogLeaveViewsThatGoOn(t *testing.T) {
	t.Parallel()
	rounds, calls := 4, 8
	if long() {
		rounds, calls = 30, 40
	}
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	w, pass := clockWorld(t)
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,"retention":{"age":"1h"},`, 1))
	names := []string{"minutes", "above", "passing", "lone"}
	for _, name := range names {
		w.View(name, strangeBodies[name][0])
	}
	step, failed := 0, 0
	for round := range rounds {
		if round == 1 { // overtaken for certain
			if _, err := w.Views.Pause(t.Context(), "minutes"); err != nil {
				t.Fatal(err)
			}
		}
		var callers sync.WaitGroup
		if round != 1 {
			for range 3 {
				callAtRandom(w, &callers, rng, names, calls, round)
			}
		}
		for range 6 {
			manySteps(w, rng, step, 2)
			step += 2
			pass(20 * time.Minute)
			if err := errors.Join(w.Log.Keep(t.Context()), w.Views.Keep(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		callers.Wait()
		if round%2 == 1 {
			w.Reopen()
		}
		receipt := manySteps(w, rng, step, 2)
		step += 2
		for _, name := range names {
			if _, err := w.Views.Get(name); err != nil {
				w.View(name, strangeBodies[name][0])
			}
		}
		for _, name := range names {
			if _, err := w.Views.Resume(t.Context(), name); err != nil {
				t.Fatal(name, err)
			}
			_, err := w.Views.Rows(t.Context(), name, runtime.RowsQuery{After: receipt, Wait: viewtest.Patience, Limit: 1})
			if said := problemOf(err); said == "409 view_failed" {
				failed++
				info, err := w.Views.Get(name)
				if err != nil || !strings.Contains(info.Reason, "rebuild") {
					t.Errorf("%s: %+v %v", name, info, err)
				}
				if _, err := w.Views.Rebuild(t.Context(), name); err != nil {
					t.Fatal(name, err)
				}
			} else if err != nil {
				t.Fatal(name, err)
			}
			untilBuilt(w, name)
			w.Until(name, receipt)
			if info := untilLive(w, name); info.Reason != "" {
				t.Errorf("%s: %+v", name, info)
			}
			s, err := w.Views.Snapshot(name)
			if info, _ := w.Views.Get(name); err != nil || int64(s.Rows.Len) != info.Rows {
				t.Errorf("%s: %d rows, counted %d: %v", name, s.Rows.Len, info.Rows, err)
			}
		}
	}
	if failed == 0 {
		t.Error("no view was overtaken")
	}
}
