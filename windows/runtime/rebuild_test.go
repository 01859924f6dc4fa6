package runtime_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// long reports whether the tests run for longer, as make test-long has them.
func long() bool { return os.Getenv("TIDEMARK_LONG") != "" }

// seedOf draws a seed, or takes the one that make test-long gives.
func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("TIDEMARK_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("seed %d", seed)
	return seed
}

// manyViews are views of all kinds over checkouts.
var manyViews = map[string]string{
	"tumbles":  `{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","allowed_lateness":"2m"}`,
	"settled":  `{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","emit":"final","allowed_lateness":"1m"}`,
	"strict":   `{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","late":"drop"}`,
	"hops":     `{"sql":"SELECT window_start, count(*) AS n FROM hop(checkouts, ts, INTERVAL '1 minute', INTERVAL '3 minutes') GROUP BY ALL","allowed_lateness":"30s"}`,
	"sessions": `{"sql":"SELECT window_start, window_end, country, count(*) AS n FROM session(checkouts, ts, INTERVAL '20 seconds', country) GROUP BY ALL","allowed_lateness":"1m"}`,
	"slides":   `{"sql":"SELECT window_end, country, max(amount) AS top FROM slide(checkouts, ts, INTERVAL '1 minute', country) GROUP BY ALL","allowed_lateness":"30s"}`,
	"best":     `{"sql":"SELECT window_start, country, amount FROM tumble(checkouts, ts, INTERVAL '1 minute') QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY amount DESC) <= 2","allowed_lateness":"1m"}`,
	"passing":  `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3"}`,
	"errors":   `{"sql":"SELECT window_start, sum(CAST(country AS BIGINT)) AS total FROM tumble(checkouts, ts, INTERVAL '1 minute') WHERE amount > 2 GROUP BY ALL","allowed_lateness":"1m"}`,
	"total":    `{"sql":"SELECT count(*) AS n, sum(amount) AS s FROM checkouts"}`,
	"above":    `{"sql":"SELECT window_start, max(revenue) AS most FROM tumbles GROUP BY ALL"}`,
}

// manySteps posts batches around successive instants, some of them late, some with a country that is
// a number, and now and then an advance.
func manySteps(w *viewtest.World, rng *rand.Rand, from, n int) (receipt string) {
	for i := from; i < from+n; i++ {
		var events []string
		for range 1 + rng.IntN(6) {
			second := 8 * i
			if rng.IntN(5) == 0 {
				second = max(0, second-rng.IntN(400))
			}
			country := []string{"DE", "FR", "IT", "7", "12"}[rng.IntN(5)]
			events = append(events, sale(fmt.Sprintf("12:%02d:%02d", second/60%60, second%60), country, rng.IntN(10)))
		}
		receipt = w.Post("checkouts", rng.IntN(2), events...)
		if rng.IntN(20) == 0 {
			receipt = w.Advance("checkouts", fmt.Sprintf("12:%02d:%02d", 8*i/60%60, 8*i%60))
		}
	}
	return receipt
}

// text is all that a version has made and that is a function of the log: final and corrected changes
// key by key, the sum of all changes, late records, row errors, and counts.
func text(m *runtime.Made) string {
	lasting, rows := map[string]string{}, map[string]string{}
	for _, e := range m.Epochs {
		c := e.Changes
		for i := range c.Len() {
			key := string(c.Keys[i])
			line := viewtest.Line(e.Fields, c.Rows, i, c.Status[i], c.Revision[i])
			if c.Status[i] == windows.Final || c.Status[i] == windows.Corrected {
				lasting[key] += fmt.Sprintf("%d %+d %s", c.Sequences[i], c.Ops[i], line)
			}
			if _, there := rows[key]; there == (c.Ops[i] > 0) {
				rows[key] += "doubled or lost: "
				continue
			}
			delete(rows, key)
			if c.Ops[i] > 0 {
				rows[key] = line
			}
		}
	}
	return fmt.Sprintf("at %d, %+v\nchanges\n%srows\n%slate\n%s\nerrors\n%s\n", m.Position.Sequence, m.Counts,
		viewtest.Sorted(lasting), viewtest.Sorted(rows), strings.Join(m.Late, "\n"), strings.Join(m.Errors, "\n"))
}

// C6, R5, D3: what a rebuild makes beside the live version is what that one made, change by change, also
// where it is crashed on its way; at the switch nothing is appended.
func TestARebuildMakesTheSameChangesBesideAlsoAcrossCrashes(t *testing.T) {
	t.Parallel()
	rounds, steps := 1, 60
	if long() {
		rounds, steps = 10, 400
	}
	for range rounds {
		rebuildAcrossCrashes(t, rand.New(rand.NewPCG(seedOf(t), 0)), steps)
	}
}

func rebuildAcrossCrashes(t *testing.T, rng *rand.Rand, steps int) {
	const crashes = 20
	hook := &besideHook{asked: make(chan struct{}, 1), live: map[string]string{}, beside: map[string]string{}}
	w := viewtest.New(t, func(w *viewtest.World) {
		// Small epochs: a rebuild has many, and other ones than the live version had.
		w.Options.MaxCrashes, w.Options.EpochEvents, w.Options.PendingEvents = -1, 3, 7
		w.Setup = hook.attach
	})
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	names := slices.Sorted(maps.Keys(manyViews))
	for _, name := range append([]string{"tumbles"}, names...) { // above reads tumbles
		w.View(name, manyViews[name])
	}
	until := func(receipt string) {
		for _, name := range names {
			w.Until(name, receipt)
		}
	}
	until(manySteps(w, rng, 0, steps))
	rows, changes := map[string]string{}, map[string]string{}
	for _, name := range names {
		rows[name], changes[name] = w.Rows(name, runtime.RowsQuery{}), w.Changes(name, stream.Position{})
	}
	// The epochs of all rebuilds are counted; at twenty of them, drawn at random, the process crashes.
	hook.rng, hook.crashes = rng, crashes
	hook.arm()
	for _, name := range names {
		if _, err := w.Views.Rebuild(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	for ; made < crashes; made++ {
		select {
		case <-hook.asked:
		case <-time.After(viewtest.Patience):
			t.Fatalf("the rebuilds ended, or stand still, after %d crashes", made)
		}
		w.Crash(hook.release)
	}
	for _, name := range names {
		if info := untilBuilt(w, name); info.AsOf.ViewVersion != 1 || info.Reason != "" {
			t.Fatalf("%s: %+v", name, info)
		}
	}
	late, errors := 0, 0
	for _, name := range names {
		if hook.beside[name] == "" {
			t.Fatalf("%s was not rebuilt", name)
		}
		diff(t, name+" "+hook.beside[name], name+" "+hook.live[name])
		late += strings.Count(hook.live[name], `"outcome"`)
		errors += strings.Count(hook.live[name], `"message"`)
		diff(t, w.Rows(name, runtime.RowsQuery{}), rows[name])
		diff(t, w.Changes(name, stream.Position{}), changes[name])
	}
	if late < 10 || errors < 10 {
		t.Errorf("only %d late events and %d row errors", late, errors)
	}
	until(manySteps(w, rng, steps, 10)) // and they go on
	for _, name := range names {
		if got, want := folded(w, name), w.Rows(name, runtime.RowsQuery{}); got != want {
			diff(t, name+" "+got, name+" "+want)
		}
	}
}

// besideHook looks on while views are rebuilt.
type besideHook struct {
	mu           sync.Mutex
	rng          *rand.Rand
	crashes      int           // still to be asked for
	countdown    int           // epochs until a crash is asked for; below 1: one was
	stop         chan struct{} // closed when the process that asked has crashed
	asked        chan struct{}
	live, beside map[string]string
}

// arm draws the epoch of the next crash.
func (h *besideHook) arm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop = nil; h.crashes > 0 {
		h.crashes--
		h.countdown, h.stop = 1+h.rng.IntN(8), make(chan struct{})
	}
}

func (h *besideHook) release() { close(h.stop) }

func (h *besideHook) attach(s *runtime.Service) {
	h.arm()
	runtime.OnBeside(s, func(view string, switching bool) {
		h.mu.Lock()
		if switching {
			live, err := runtime.MadeLive(s, view)
			beside, err2 := runtime.MadeBeside(s, view)
			if err == nil && err2 == nil {
				h.live[view], h.beside[view] = text(live), text(beside)
			}
			h.mu.Unlock()
			return
		}
		h.countdown--
		left, stop := h.countdown, h.stop
		h.mu.Unlock()
		if stop == nil || left > 0 {
			return
		}
		if left == 0 {
			h.asked <- struct{}{}
		}
		<-stop // no rebuild runs on, and ends, while the crash is under way
	})
}

// E2: where the switch to what was built fails, the view goes on as it was, and can be rebuilt again.
func TestAViewGoesOnAsItWasWhenTheSwitchFails(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Setup = func(s *runtime.Service) {
			runtime.OnBeside(s, func(_ string, switching bool) {
				if switching && fails.Load() {
					panic("a mistake at the switch")
				}
			})
		}
	})
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	fails.Store(true)
	changed, stop, err := w.Views.Watch("revenue")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := w.Views.Rebuild(t.Context(), "revenue"); err != nil {
		t.Fatal(err)
	}
	for info := (runtime.Info{}); !strings.Contains(info.Reason, "a mistake at the switch"); {
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			t.Fatalf("the switch does not fail: %+v", info)
		}
		if info, err = w.Views.Get("revenue"); err != nil {
			t.Fatal(err)
		}
	}
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:20", "DE", 6)))
	want := `provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":11,"n":2}`
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), want)
	fails.Store(false)
	if _, err := w.Views.Rebuild(t.Context(), "revenue"); err != nil {
		t.Fatal(err)
	}
	if info := untilBuilt(w, "revenue"); info.Reason != "" || info.State != runtime.Live {
		t.Errorf("%+v", info)
	}
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), want)
}
