package scenario

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tidemark/windows/runtime/viewtest"
	"tidemark/windows/verify"
)

// toldViews are views of kinds that a comparison has to take care of, each behind those that it reads.
var toldViews = []struct {
	name, body string
	// partial: events come that only some of the windows of one event take.
	partial bool
}{
	{"sub", `"sql":"SELECT window_start, country, sum(amount) AS total FROM hop((SELECT ts, upper(country) AS country, amount FROM shop WHERE amount > 1), ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY ALL","late":"drop"`, true},
	{"star", `"sql":"SELECT window_start, count(*) AS n FROM hop((SELECT * FROM shop), ts, INTERVAL '20 seconds', INTERVAL '50 seconds') GROUP BY ALL","late":"drop"`, true},
	{"cte", `"sql":"WITH c AS (SELECT ts, amount FROM shop WHERE amount <> 3) SELECT w.window_end, max(w.amount) AS most FROM hop(c, ts, INTERVAL '15 seconds', INTERVAL '1 minute') AS w GROUP BY ALL","allowed_lateness":"20s"`, true},
	{"months", `"sql":"SELECT window_start, count(*) AS n FROM hop((SELECT ts FROM shop), ts, INTERVAL '1 month', INTERVAL '3 months') GROUP BY ALL","late":"drop"`, false},
	{"both", `"sql":"SELECT window_start, count(*) AS n FROM hop((SELECT ts, amount FROM shop UNION ALL SELECT ts, amount FROM more), ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY ALL","late":"drop"`, true},
	{"rows", `"sql":"SELECT window_start, country FROM hop((SELECT ts, country FROM shop WHERE amount > 2), ts, INTERVAL '30 seconds', INTERVAL '1 minute')","late":"drop"`, true},
	{"plain", `"sql":"SELECT ts, country, amount FROM shop WHERE amount < 8","emit":"final"`, false},
	{"overplain", `"sql":"SELECT window_start, country, count(*) AS n FROM hop(plain, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY ALL","late":"drop"`, true},
	{"settled", `"sql":"SELECT window_start, window_end, country, sum(amount) AS total FROM tumble(shop, ts, INTERVAL '20 seconds') GROUP BY ALL HAVING count(*) > 1","emit":"final","allowed_lateness":"30s"`, false},
	{"above", `"sql":"SELECT country, count(*) AS n, sum(total) AS total FROM settled GROUP BY ALL"`, false},
	{"minutes", `"sql":"SELECT window_start, max(total) AS most FROM tumble(settled, window_end, INTERVAL '1 minute') GROUP BY ALL"`, false},
	{"twice", `"sql":"SELECT window_start, count(*) AS n FROM tumble(settled, window_end, INTERVAL '2 minutes') GROUP BY ALL","emit":"final"`, false},
	{"beside", `"sql":"SELECT window_start, total FROM settled UNION ALL SELECT window_start, total FROM sub"`, false},
	{"visits", `"sql":"SELECT window_start, window_end, country, count(*) AS n FROM session(shop, ts, INTERVAL '10 seconds', country) GROUP BY ALL","emit":"final","allowed_lateness":"30s"`, false},
	{"longest", `"sql":"SELECT country, max(n) AS most FROM visits GROUP BY ALL"`, false},
	{"begins", `"sql":"SELECT window_start, count(*) AS n, sum(amount) AS total FROM session(shop, ts, INTERVAL '10 seconds', country) GROUP BY window_start","emit":"final","allowed_lateness":"30s"`, false},
	{"few", `"sql":"SELECT v.window_start, max(v.window_end) AS window_end FROM session((SELECT ts, country FROM shop WHERE amount > 2), ts, INTERVAL '8 seconds', country) AS v GROUP BY ALL HAVING count(*) < 4","emit":"final","allowed_lateness":"1m"`, false},
	{"ends", `"sql":"SELECT window_end, count(*) AS n FROM session(shop, ts, INTERVAL '10 seconds', country) GROUP BY ALL","emit":"final","late":"drop"`, false},
	{"overbegins", `"sql":"SELECT n, count(*) AS starts FROM begins GROUP BY ALL"`, false},
}

// T1, V3: views of hops over subqueries that refused events window by window, views over views that give
// out final rows only, and final rows that gather several sessions are compared to the last row.
func TestVerifyTellsOfViewsWhoseTextAloneDoesNot(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	w := viewtest.New(t, func(w *viewtest.World) { w.Options.Parse = duck.ParseSQL })
	for _, name := range []string{"shop", "more"} {
		w.Stream(name, `{"partitions":2,"time_field":"ts","columns":{"ts":"TIMESTAMP","country":"VARCHAR","amount":"BIGINT"},"max_out_of_orderness":"5s","idle_timeout":"0s"}`)
	}
	for _, v := range toldViews {
		w.View(v.name, "{"+v.body+"}")
	}
	v := &verify.Verifier{Views: w.Views, Log: w.Log, Parse: duck.ParseSQL, FromAST: duck.SQLFromAST, Scratch: scratch}
	second, rows := 0, map[string]int{}
	for round := range 6 {
		last := ""
		for range 10 {
			var events []string
			for range 1 + rng.IntN(6) {
				at := second
				if rng.IntN(3) == 0 {
					at = max(0, at-rng.IntN(90))
				}
				events = append(events, fmt.Sprintf(`{"ts":"2024-01-31 23:%02d:%02d","country":%q,"amount":%d}`,
					30+at/60, at%60, []string{"de", "fr", "it"}[rng.IntN(3)], rng.IntN(10)))
				second += rng.IntN(8)
			}
			last = w.Post([]string{"shop", "shop", "shop", "more"}[rng.IntN(4)], rng.IntN(2), events...)
			if rng.IntN(3) == 0 {
				last = w.Advance([]string{"shop", "more"}[rng.IntN(2)], fmt.Sprintf("2024-01-31 23:%02d:%02d", 30+second/60, second%60))
			}
		}
		for _, view := range toldViews {
			w.Until(view.name, last)
			res, err := v.Verify(t.Context(), view.name, func(int64, int64) {})
			if err != nil {
				t.Fatalf("round %d, %s: %v", round, view.name, err)
			}
			if res.Result != verify.Equal {
				text, _ := json.Marshal(res)
				t.Errorf("round %d, %s: %.3000s", round, view.name, text)
			}
			rows[view.name] += res.Rows
		}
	}
	for _, view := range toldViews {
		info, err := w.Views.Get(view.name)
		if err != nil || rows[view.name] == 0 || view.partial && info.Counts.LatePartial == 0 {
			t.Errorf("%s: %d rows, %+v: %v", view.name, rows[view.name], info.Counts, err)
		}
	}
}

// R4: what can't be told is said by name.
func TestVerifyNamesWhatItCanNotTell(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t, func(w *viewtest.World) { w.Options.Parse = duck.ParseSQL })
	w.Stream("shop", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","country":"VARCHAR","amount":"BIGINT"},"idle_timeout":"0s"}`)
	v := &verify.Verifier{Views: w.Views, Log: w.Log, Parse: duck.ParseSQL, FromAST: duck.SQLFromAST, Scratch: scratch}
	reasons := map[string]string{}
	var names []string
	for name, body := range map[string]string{
		"sketch":    `"sql":"SELECT window_start, approx_count_distinct(country) AS n FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL"`,
		"fails":     `"sql":"SELECT window_start, CAST(sum(amount) * 100 AS TINYINT) AS n FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL"`,
		"elsewhere": `"sql":"SELECT window_start, count(*) AS n FROM (SELECT window_start, amount FROM session(shop, ts, INTERVAL '10 seconds', country)) GROUP BY ALL","emit":"final"`,
	} {
		w.View(name, "{"+body+"}")
		w.Until(name, w.Post("shop", 0, `{"ts":"12:00:00","country":"de","amount":9}`, `{"ts":"12:10:00","country":"de","amount":1}`))
		res, err := v.Verify(t.Context(), name, func(int64, int64) {})
		if err != nil || res.Result != verify.CannotTell {
			t.Errorf("%s: %+v %v", name, res, err)
			continue
		}
		reasons[name], names = res.Reason, append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		want := map[string]string{
			"fails":     "until they compute again (E1), and DuckDB fails as a whole, so no row could be compared",
			"sketch":    "approx_count_distinct is a sketch: two executions may estimate differently",
			"elsewhere": "the batch answer can't be computed: the windows of a session are grouped in another SELECT than the one that reads it",
		}
		if !strings.HasSuffix(reasons[name], want[name]) {
			t.Errorf("%s: %s", name, reasons[name])
		}
	}
}
