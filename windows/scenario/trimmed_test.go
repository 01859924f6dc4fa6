package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemark/storage/history"
	"tidemark/storage/row"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
	"tidemark/windows/verify"
)

// trimmedViews are views of all kinds over shop; verify can tell of all but the last what it has to.
var trimmedViews = map[string]string{
	"tumbles":  `"sql":"SELECT window_start, country, sum(amount) AS total, count(*) AS n FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL","allowed_lateness":"2m"`,
	"ends":     `"sql":"SELECT window_end, count(*) AS n FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL","late":"drop"`,
	"settled":  `"sql":"SELECT window_start, country, count(*) AS n FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL","emit":"final","allowed_lateness":"1m"`,
	"hops":     `"sql":"SELECT window_start, count(*) AS n FROM hop(shop, ts, INTERVAL '1 minute', INTERVAL '3 minutes') GROUP BY ALL","late":"drop"`,
	"sessions": `"sql":"SELECT window_start, window_end, country, count(*) AS n FROM session(shop, ts, INTERVAL '20 seconds', country) GROUP BY ALL","allowed_lateness":"1m"`,
	"slides":   `"sql":"SELECT window_end, country, max(amount) AS top FROM slide(shop, ts, INTERVAL '1 minute', country) GROUP BY ALL","allowed_lateness":"30s"`,
	"passing":  `"sql":"SELECT country, amount FROM shop WHERE amount > 3"`,
	"best":     `"sql":"SELECT window_start, country, amount FROM tumble(shop, ts, INTERVAL '1 minute') QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY amount DESC) <= 2","allowed_lateness":"1m"`,
	"errors":   `"sql":"SELECT window_start, sum(CAST(country AS BIGINT)) AS total FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL","allowed_lateness":"1m","retention":"3h"`,
	"above":    `"sql":"SELECT window_start, max(total) AS most FROM tumbles GROUP BY ALL"`,
	"fading":   `"sql":"SELECT window_end, country, min(amount) AS least FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL","retention":"2h"`,
	"stacked":  `"sql":"SELECT window_start, count(*) AS n, max(total) AS most FROM tumble(tumbles, window_start, INTERVAL '3 minutes') GROUP BY ALL"`,
	"nested":   `"sql":"SELECT window_end, max(n) AS most FROM hop((SELECT window_end AS done, country, count(*) AS n FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL), done, INTERVAL '1 minute', INTERVAL '2 minutes') GROUP BY ALL","late":"drop"`,
	"totals":   `"sql":"SELECT country, count(*) AS n FROM shop GROUP BY ALL"`,
}

// R3, R4: while retention takes the log's beginning again and again, verify finds every row equal whose
// events are all there, and says of the others alone that it can't tell, before and after a rebuild.
func TestVerifyTellsWhatATrimmedLogStillTells(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var passed atomic.Int64
	began := time.Now()
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Options.Parse = duck.ParseSQL
		w.Clock = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	})
	w.Stream("shop", `{"partitions":2,"time_field":"ts","columns":{"ts":"TIMESTAMP","country":"VARCHAR","amount":"BIGINT"},"max_out_of_orderness":"5s","idle_timeout":"0s","retention":{"age":"1h"}}`)
	w.View("tumbles", "{"+trimmedViews["tumbles"]+`,"retention":"7d"}`)
	for name, body := range trimmedViews {
		if !strings.Contains(body, "retention") {
			body += `,"retention":"7d"`
		}
		w.View(name, "{"+body+"}")
	}
	v := &verify.Verifier{Views: w.Views, Log: w.Log, Parse: duck.ParseSQL, FromAST: duck.SQLFromAST, Scratch: scratch}
	told := map[string]int{}
	check := func(when string) {
		for name := range trimmedViews {
			res, err := v.Verify(t.Context(), name, func(int64, int64) {})
			if err != nil {
				t.Fatalf("%s, %s: %v", when, name, err)
			}
			good := res.Result == verify.Equal && res.Sealed == 0 || res.Result == verify.CannotTell && res.Sealed > 0 && res.Sealed < res.Rows ||
				name == "stacked" && res.Sealed == res.Rows // of windows over windows there are few
			if name == "totals" {
				good = res.Result == verify.Equal || res.Result == verify.CannotTell && strings.Contains(res.Reason, "its rows are not of one window each")
			}
			if !good {
				text, _ := json.Marshal(res)
				t.Fatalf("%s, %s: %.3000s", when, name, text)
			}
			told[res.Result]++
			told["late"] += len(res.LateDifferences)
		}
	}
	second := 0
	for round := range 6 {
		var last string
		for range 12 {
			var events []string
			for range 1 + rng.IntN(6) {
				at := second
				if rng.IntN(4) == 0 {
					at = max(0, at-rng.IntN(300))
				}
				events = append(events, fmt.Sprintf(`{"ts":"2024-01-15 %02d:%02d:%02d","country":%q,"amount":%d}`,
					12+at/3600, at/60%60, at%60, []string{"DE", "FR", "7", "12"}[rng.IntN(4)], rng.IntN(10)))
				second += rng.IntN(12)
			}
			last = w.Post("shop", rng.IntN(2), events...)
			passed.Add(int64(4 * time.Minute))
		}
		for name := range trimmedViews {
			w.Until(name, last)
		}
		if err := w.Log.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("round %d", round))
		if round%2 == 1 {
			for name := range trimmedViews {
				if _, err := w.Views.Rebuild(t.Context(), name); err != nil && name != "totals" && !strings.Contains("stacked nested", name) {
					t.Fatal(name, err)
				}
			}
			for name := range trimmedViews {
				rebuilt(t, w, name)
			}
			check(fmt.Sprintf("round %d, rebuilt", round))
		}
	}
	// What expires while nothing comes is missing on both sides.
	for range 3 {
		passed.Add(int64(time.Hour))
		if err := w.Views.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("in a quiet time")
	}
	if told[verify.Equal] == 0 || told[verify.CannotTell] < 20 {
		t.Errorf("%v", told)
	}
}

// rebuilt waits until a view is no longer being built anew.
func rebuilt(t *testing.T, w *viewtest.World, name string) {
	t.Helper()
	changed, stop, err := w.Views.Watch(name)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for {
		info, err := w.Views.Get(name)
		if err != nil || info.State != runtime.Live {
			t.Fatal(name, info.State, info.Reason, err)
		}
		if !info.Rebuilding {
			return
		}
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			t.Fatal(name, "is not rebuilt")
		}
	}
}

func scratch(ctx context.Context, tables []verify.Table, load func(put func(int, *row.Batch) error) (string, error), each func([]row.Field, *row.Batch) error) error {
	q := history.Scratch{Load: load}
	for _, t := range tables {
		q.Tables = append(q.Tables, history.ScratchTable(t))
	}
	_, err := duck.Scratch(ctx, q, each)
	return err
}
