package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

type rowsAnswer struct {
	Rows     []map[string]any
	Statuses []string
}

type membersAnswer struct {
	Items []struct {
		Stream            string
		Partition, Offset int
		Event             map[string]any
		Outcome           string
	}
	Exact, More bool
	Reason      *string
}

// Every row with a count is asked for its events: there are as many as it counts. L2, V1, Z1
func TestTheEventsOfARowAreAsManyAsItCounts(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/orders", `{"partitions":2,"time_field":"ts","max_out_of_orderness":"30s","columns":{"ts":"TIMESTAMP","shop":"VARCHAR","amount":"BIGINT"}}`, nil)
	views := map[string]string{
		"tumbles":  `"sql":"SELECT window_start, shop, count(*) AS n FROM tumble(orders, ts, INTERVAL '1 minute') GROUP BY ALL"`,
		"dropped":  `"sql":"SELECT window_start, window_end, count(*) AS n FROM hop(orders, ts, INTERVAL '1 minute', INTERVAL '3 minutes') WHERE amount > 2 GROUP BY ALL","late":"drop"`,
		"sessions": `"sql":"SELECT window_start, window_end, shop, count(*) AS n FROM session(orders, ts, INTERVAL '20 seconds', shop) GROUP BY ALL"`,
		"slides":   `"sql":"SELECT window_end AS until, shop, count(*) AS n FROM slide(orders, ts, INTERVAL '1 minute', shop) GROUP BY ALL"`,
		"zoned":    `"sql":"SELECT window_start, upper(shop) AS name, count(*) AS n FROM tumble(orders, ts, INTERVAL '1 day', 'Europe/Berlin') GROUP BY ALL"`,
		"forever":  `"sql":"SELECT shop, amount % 3 AS third, count(*) AS n FROM orders GROUP BY ALL HAVING count(*) > 1"`,
		"single":   `"sql":"SELECT ts, shop, amount, 1 AS n FROM orders WHERE amount > 6"`,
		"both":     `"sql":"SELECT shop, count(*) AS n FROM (SELECT shop, amount FROM orders WHERE amount < 3 UNION ALL SELECT shop, amount FROM orders WHERE amount > 5) GROUP BY ALL"`,
		"ranked":   `"sql":"SELECT window_start, shop, count(*) AS n FROM tumble(orders, ts, INTERVAL '1 minute') GROUP BY ALL QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY count(*) DESC, shop) <= 2"`,
	}
	for name, definition := range views {
		s.must("PUT", "/v1/views/"+name, "{"+definition+"}", nil)
	}
	s.must("PUT", "/v1/views/above", `{"sql":"SELECT window_start, sum(n) AS n FROM tumbles GROUP BY ALL"}`, nil)
	random := rand.New(rand.NewPCG(7, 7))
	at := time.Date(2024, 1, 1, 22, 50, 0, 0, time.UTC)
	var receipt string
	for range 20 {
		var batch []string
		for range 15 {
			at = at.Add(time.Duration(random.IntN(9000)) * time.Millisecond)
			ts := at.Add(-time.Duration(random.IntN(100)) * time.Second)
			batch = append(batch, fmt.Sprintf(`{"ts":%q,"shop":%q,"amount":%d}`, ts.Format(time.RFC3339), string(rune('a'+random.IntN(3))), random.IntN(9)))
		}
		var answer struct{ Receipt string }
		s.must("POST", "/v1/streams/orders/events", "["+strings.Join(batch, ",")+"]", &answer)
		receipt = answer.Receipt
	}
	views["above"] = ""
	for name := range views {
		var rows rowsAnswer
		s.must("GET", "/v1/views/"+name+"/rows?wait=30s&after="+receipt, "", &rows)
		if len(rows.Rows) == 0 {
			t.Errorf("%s has no rows", name)
		}
		refused := 0
		for i, row := range rows.Rows {
			if i%7 > 2 && name != "dropped" {
				continue // some of them
			}
			key := map[string]any{}
			for column, v := range row {
				if column != "n" {
					key[column] = v
				}
			}
			text, _ := json.Marshal(key)
			var members membersAnswer
			s.must("GET", "/v1/views/"+name+"/rows/events?limit=1000&key="+url.QueryEscape(string(text)), "", &members)
			counted := 0
			for _, e := range members.Items {
				if e.Outcome == "refused" {
					refused++
				} else {
					counted++
				}
			}
			want := fmt.Sprint(row["n"])
			if name == "single" { // equal events are equal rows
				want = fmt.Sprint(max(1, counted))
			}
			if !members.Exact || members.More || fmt.Sprint(counted) != want {
				t.Errorf("%s %s: %d events, not %v (exact: %v, %v)", name, text, counted, row["n"], members.Exact, members.Reason)
			}
		}
		if name == "dropped" && refused == 0 {
			t.Error("no event was refused, so the test shows nothing of them")
		}
	}
}

// What can't be followed back to events is said, not guessed.
func TestWhatHasNoEventsOfItsOwnIsSaid(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/orders", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","shop":"VARCHAR","amount":"BIGINT"}}`, nil)
	s.must("PUT", "/v1/views/totals", `{"sql":"SELECT shop, sum(amount) AS amount FROM orders GROUP BY ALL"}`, nil)
	s.must("PUT", "/v1/views/large", `{"sql":"SELECT amount, count(*) AS shops FROM (SELECT shop, sum(amount) AS amount FROM orders GROUP BY ALL) GROUP BY ALL"}`, nil)
	s.must("PUT", "/v1/views/first", `{"sql":"SELECT shop, amount FROM orders QUALIFY row_number() OVER (PARTITION BY shop ORDER BY amount) <= 1"}`, nil)
	s.must("POST", "/v1/streams/orders/events", `[{"ts":"2024-01-01","shop":"a","amount":3},{"ts":"2024-01-01","shop":"b","amount":4}]`, nil)
	for _, view := range []string{"totals", "large", "first"} {
		s.settle(view)
	}
	ask := func(view, key string) (m membersAnswer) {
		s.must("GET", "/v1/views/"+view+"/rows/events?key="+url.QueryEscape(key), "", &m)
		return m
	}
	for _, test := range []struct{ view, key, must string }{
		{"large", `{"amount":3}`, "amount is computed"},
		{"first", `{"shop":"a","amount":3}`, "ranks"},
		{"totals", `{"shop":"a","amount":3}`, "amount is computed"},
		{"totals", `{}`, "does not name shop"},
	} {
		if m := ask(test.view, test.key); m.Exact || m.Reason == nil || !strings.Contains(*m.Reason, test.must) {
			t.Errorf("%+v: %+v %v", test, m, m.Reason)
		}
	}
	if m := ask("totals", `{"shop":"b"}`); !m.Exact || len(m.Items) != 1 || m.Items[0].Offset != 1 || fmt.Sprint(m.Items[0].Event["amount"]) != "4" {
		t.Errorf("%+v", m)
	}
}

type olderRowsAnswer struct {
	Rows      []map[string]any
	From, To  string
	Oldest    *string
	Truncated bool
	Reason    *string
}

// R2, R3
func TestARangeThatReachesFurtherBackIsFilledFromHistory(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/orders", `{"time_field":"ts","max_out_of_orderness":"0s","columns":{"ts":"TIMESTAMP","shop":"VARCHAR","amount":"BIGINT"}}`, nil)
	sql := `"sql":"SELECT window_start, shop, sum(amount) AS amount FROM tumble(orders, ts, INTERVAL '1 hour') GROUP BY ALL"`
	s.must("PUT", "/v1/views/whole", `{`+sql+`}`, nil)
	s.must("PUT", "/v1/views/short", `{`+sql+`,"retention":"3h"}`, nil)
	post := func(hours ...int) {
		for _, h := range hours {
			at := time.Date(2024, 1, 1, h, 30, 0, 0, time.UTC).Format(time.RFC3339)
			s.must("POST", "/v1/streams/orders/events", fmt.Sprintf(`[{"ts":%q,"shop":"a","amount":%d},{"ts":%q,"shop":"b","amount":1}]`, at, h, at), nil)
		}
	}
	post(0, 1, 2, 3, 4, 5, 6, 7, 8)
	s.must("PUT", "/v1/views/fresh", `{`+sql+`,"start":"latest"}`, nil)
	var posted struct{ Receipt string }
	s.must("POST", "/v1/streams/orders/events", `[{"ts":"2024-01-01T09:30:00Z","shop":"a","amount":9},{"ts":"2024-01-01T10:30:00Z","shop":"a","amount":10},{"ts":"2024-01-01T11:30:00Z","shop":"a","amount":11}]`, &posted)
	for _, name := range []string{"whole", "short", "fresh"} {
		s.must("GET", "/v1/views/"+name+"/rows?wait=30s&after="+posted.Receipt, "", nil)
	}
	older := func(view, query string) (a olderRowsAnswer) {
		s.must("GET", "/v1/views/"+view+"/rows/older?x=window_start&"+query, "", &a)
		return a
	}
	// Wherever the own rows begin, with the older part they are those of the view that has all.
	whole := map[string]any{}
	var all, own rowsAnswer
	s.must("GET", "/v1/views/whole/rows", "", &all)
	for _, r := range all.Rows {
		whole[fmt.Sprint(r["window_start"], r["shop"])] = r["amount"]
	}
	for _, name := range []string{"short", "fresh"} {
		var a olderRowsAnswer
		s.eventually(name+" is filled from history", func() error {
			s.must("GET", "/v1/views/"+name+"/rows", "", &own)
			a = older(name, "from=2024-01-01&to=2024-01-02")
			if got := len(a.Rows) + len(own.Rows); got != len(whole) {
				return fmt.Errorf("%d rows and %d older ones (%v), not %d", len(own.Rows), len(a.Rows), a.Oldest, len(whole))
			}
			return nil
		})
		if a.Oldest == nil || a.Reason == nil || !strings.Contains(*a.Reason, "older part from history") || len(own.Rows) == len(whole) {
			t.Errorf("%s: %+v", name, a)
		}
		for _, r := range append(a.Rows, own.Rows...) {
			if key := fmt.Sprint(r["window_start"], r["shop"]); whole[key] != r["amount"] {
				t.Errorf("%s: %s is %v, not %v", name, key, r["amount"], whole[key])
			}
		}
		part := older(name, "from=2024-01-01T02:00:00Z&to=2024-01-01T04:00:00Z&where="+url.QueryEscape("shop = 'a'"))
		if got := fmt.Sprint(part.Rows); got != "[map[amount:2 shop:a window_start:2024-01-01T02:00:00Z] map[amount:3 shop:a window_start:2024-01-01T03:00:00Z]]" {
			t.Errorf("%s: %s", name, got)
		}
		if cut := older(name, "from=2024-01-01&to=2024-01-02&limit=1"); !cut.Truncated || len(cut.Rows) != 1 {
			t.Errorf("%s: %+v", name, cut)
		}
		if near := older(name, "from=2024-01-01T11:00:00Z&to=2024-01-02"); near.Oldest != nil || len(near.Rows) != 0 {
			t.Errorf("%s: %+v", name, near)
		}
	}
	if a := older("whole", "from=2000-01-01&to=2024-01-02"); a.Oldest != nil || len(a.Rows) != 0 || a.Reason != nil {
		t.Errorf("a view that has all its rows asks history: %+v", a)
	}
	for _, bad := range []string{"where=" + url.QueryEscape("shop = 'a') OR (1=1"), "where=" + url.QueryEscape("1=1) UNION ALL SELECT * FROM orders --"), "where=nothing"} {
		if status, body := s.call("GET", "/v1/views/short/rows/older?x=window_start&from=2024-01-01&to=2024-01-02&"+bad, ""); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	if status, body := s.call("GET", "/v1/views/short/rows/older?x=shop&from=2024-01-01&to=2024-01-02", ""); status != 400 {
		t.Errorf("%d %s", status, body)
	}
}

func TestTheLedgerNamesNoEventOutsideTheWindow(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/orders", `{"time_field":"ts","max_out_of_orderness":"0s","columns":{"ts":"TIMESTAMP","shop":"VARCHAR"}}`, nil)
	s.must("PUT", "/v1/views/slides", `{"sql":"SELECT window_end AS until, shop, count(*) AS n FROM slide(orders, ts, INTERVAL '1 minute', shop) GROUP BY ALL"}`, nil)
	s.must("POST", "/v1/streams/orders/events", `[{"ts":"2024-01-01T12:00:00Z","shop":"a"},{"ts":"2024-01-01T12:10:00Z","shop":"b"}]`, nil)
	s.settle("slides")
	s.must("POST", "/v1/streams/orders/events", `[{"ts":"2024-01-01T12:00:10Z","shop":"a"},{"ts":"2024-01-01T11:50:00Z","shop":"a"}]`, nil)
	s.settle("slides")
	var ledger struct {
		Items []struct {
			Op, Status string
			Evidence   map[string][][2]int
		}
	}
	s.must("GET", "/v1/views/slides/rows/history?key="+url.QueryEscape(`{"until":"2024-01-01T12:00:10Z","shop":"a"}`), "", &ledger)
	if len(ledger.Items) != 1 || ledger.Items[0].Status != "corrected" || fmt.Sprint(ledger.Items[0].Evidence) != "map[orders:[[0 2]]]" {
		t.Errorf("%+v", ledger.Items)
	}
}
