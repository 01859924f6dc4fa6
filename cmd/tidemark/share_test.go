package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/gorilla/websocket"
)

// locked is a server with sales, whose key for everything every request of the test has.
func locked(t *testing.T) *server {
	t.Helper()
	s := till(t)
	s.must("PUT", "/v1/views/by_shop", `{"sql":"SELECT window_start, shop, sum(amount) AS amount FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/dashboards/shops", `{"title":"Shops","range":"now-1h","tz":"UTC","panels":[
		{"id":"top","title":"Top","type":"toplist","view":"by_shop","x":"window_start","y":["amount"],"series":"shop","where":"shop <> 'hidden'","grid":[0,0,6,4]},
		{"id":"rows","title":"Rows","type":"table","view":"by_shop","x":"window_start","where":"shop <> 'hidden'","grid":[6,0,6,4]}]}`, nil)
	var made struct{ Key string }
	s.must("PUT", "/v1/keys/boss", `{"scopes":["admin"]}`, &made)
	s.key = made.Key
	return s
}

// shop posts a sale of a shop that happened some time ago.
func (s *server) shop(name string, ago time.Duration, amount float64) {
	s.t.Helper()
	at := time.Now().UTC().Add(-ago).Format("2006-01-02T15:04:05.000Z")
	s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":%q,"amount":%v}`, at, name, amount), nil)
}

type linkAnswer struct{ ID, URL string }

func (s *server) link(dashboard, body string) (l linkAnswer) {
	s.t.Helper()
	s.must("POST", "/v1/dashboards/"+dashboard+"/links", body, &l)
	return l
}

// asks sends a request with a link's token and returns the status and what came.
func (s *server) asks(l linkAnswer, path string) (int, string) {
	s.t.Helper()
	key := s.key
	s.key = strings.TrimPrefix(l.URL, "/shared/")
	defer func() { s.key = key }()
	status, body := s.call("GET", path, "")
	return status, string(body)
}

func TestASharedDashboardIsLiveForWhoeverHasItsLink(t *testing.T) {
	t.Parallel()
	s := locked(t)
	for _, name := range []string{"north", "south", "hidden"} {
		s.shop(name, 10*time.Minute, 10)
	}
	s.settle("by_shop")
	l := s.link("shops", `{"expires":"72h","filters":{"shop":"north"}}`)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url(l.URL)))
	see(t, ctx, "h1", "Shops")
	see(t, ctx, "#connection", "live")
	see(t, ctx, "#panel-1 tbody", "north")
	s.shop("north", 9*time.Minute, 77)
	s.shop("south", 9*time.Minute, 88)
	s.shop("hidden", 9*time.Minute, 31337)
	see(t, ctx, "#panel-1 tbody", "77")
	page := eval[string](t, ctx, `document.documentElement.outerHTML`)
	for _, secret := range []string{"south", "Till", "31,337", "31337", `href="/ops"`, "Sign out"} {
		if strings.Contains(page, secret) {
			t.Errorf("the shared page tells of %q", secret)
		}
	}
	if got := eval[bool](t, ctx, `!!document.querySelector("#edit, #share, #note")`); got {
		t.Error("the shared page can be edited")
	}
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
	// Taken back: the socket ends, and the address shows nothing.
	s.must("DELETE", "/v1/dashboards/shops/links/"+l.ID, "", nil)
	see(t, ctx, "#connection", "ended")
	do(t, ctx, chromedp.Navigate(s.url(l.URL)))
	see(t, ctx, "main", "This link shows nothing")
}

// What the panels, the filters and the frozen range leave out is not given out, however it is asked for.
func TestALinkCantBeTalkedIntoMore(t *testing.T) {
	t.Parallel()
	s := locked(t)
	at := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	for i, name := range []string{"north", "south", "hidden", "north"} {
		s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":%q,"amount":%d}`, at.Add(time.Duration(i/3)*time.Hour).Format(time.RFC3339), name, 10*(i+1)), nil)
	}
	s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"amount":1}`, at.Format(time.RFC3339)), nil) // for NULL the panels' condition is NULL
	s.settle("by_shop")
	l := s.link("shops", `{"range":"2024-01-01T11:30:00Z,2024-01-01T12:30:00Z"}`)
	shops := func(where string) string {
		status, body := s.asks(l, "/v1/views/by_shop/rows?order=shop&where="+url.QueryEscape(where))
		if status != 200 {
			return fmt.Sprint(status)
		}
		var out []string
		for _, name := range []string{"north", "south", "hidden"} {
			if n := strings.Count(body, `"`+name+`"`); n > 0 {
				out = append(out, fmt.Sprint(name, n))
			}
		}
		return strings.Join(out, " ")
	}
	for where, want := range map[string]string{
		"":                                 "north1 south1",
		"TRUE":                             "north1 south1",
		"shop = 'hidden'":                  "",
		"shop = 'hidden' OR TRUE":          "north1 south1",
		"shop = 'x') OR (TRUE":             "422",
		"TRUE) OR (TRUE) -- ":              "422",
		"TRUE /*":                          "422",
		"TRUE --":                          "north1 south1",
		"shop IN (SELECT shop FROM sales)": "422",
		// What fails for a row that is not shown would tell of it.
		"CASE WHEN shop IS NULL THEN CAST(concat('v', amount) AS INT) = 1 ELSE TRUE END":    "north1 south1",
		"CASE WHEN shop = 'hidden' THEN CAST(concat('v', amount) AS INT) = 1 ELSE TRUE END": "north1 south1",
	} {
		if got := shops(where); got != want {
			t.Errorf("%s: %s, want %s", where, got, want)
		}
	}
	subscribe := func(to, where string) string {
		conn, _, err := (&websocket.Dialer{Subprotocols: []string{"tidemark.v1.json", "bearer." + strings.TrimPrefix(l.URL, "/shared/")}}).DialContext(context.Background(), "ws://"+s.addr+"/v1/live", http.Header{})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if err := conn.WriteJSON(rowMap{"op": "subscribe", "id": "a", "to": to, "from": "snapshot", "where": where}); err != nil {
			t.Fatal(err)
		}
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			if text := string(message); strings.Contains(text, `"snapshot"`) || strings.Contains(text, `"error"`) {
				return text
			}
		}
	}
	if got := subscribe("by_shop", "TRUE"); strings.Contains(got, "hidden") || strings.Contains(got, "T13:00") || !strings.Contains(got, "south") {
		t.Errorf("%s", got)
	}
	for _, relation := range []string{"sales", "total", "minutes", "late_by_shop"} {
		if got := subscribe(relation, ""); !strings.Contains(got, "read_only_link") {
			t.Errorf("%s: %s", relation, got)
		}
	}
	if got := subscribe("by_shop", "TRUE) OR (TRUE"); !strings.Contains(got, `"error"`) {
		t.Errorf("%s", got)
	}
	status, body := s.asks(l, "/v1/views/by_shop/rows/older?x=window_start&from=2024-01-01&to=2024-01-02&where="+url.QueryEscape("TRUE) OR (TRUE"))
	if status != 422 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.asks(l, "/v1/views/total/rows"); status != 403 {
		t.Errorf("%d %s", status, body)
	}
}

func TestFramesAreForTheOriginsOfALink(t *testing.T) {
	t.Parallel()
	s := locked(t)
	headers := func(l linkAnswer) http.Header {
		resp, err := http.Get(s.url(l.URL))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.Header
	}
	open := headers(s.link("shops", `{"origins":["https://intranet.example"]}`))
	if csp := open.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors https://intranet.example") || open.Get("X-Frame-Options") != "" || open.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%v", open)
	}
	closed := headers(s.link("shops", `{}`))
	if csp := closed.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || closed.Get("X-Frame-Options") != "DENY" {
		t.Errorf("%v", closed)
	}
}

// R3
func TestAPanelTakesTheOlderPartOfItsRangeFromHistoryAndSaysSo(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/sales", `{"time_field":"ts","max_out_of_orderness":"0s","columns":{"ts":"TIMESTAMP","shop":"VARCHAR","amount":"BIGINT"}}`, nil)
	s.must("PUT", "/v1/views/hours", `{"sql":"SELECT window_start, shop, sum(amount) AS amount FROM tumble(sales, ts, INTERVAL '1 hour') GROUP BY ALL","retention":"2h"}`, nil)
	s.must("PUT", "/v1/dashboards/hours", `{"title":"Hours","range":"now-1h","tz":"UTC","panels":[
		{"id":"rows","title":"Rows","type":"table","view":"hours","x":"window_start","y":["amount"],"grid":[0,0,12,6]},
		{"id":"chart","title":"Chart","type":"timeseries","view":"hours","x":"window_start","y":["amount"],"series":"shop","grid":[0,6,12,4]}]}`, nil)
	hostile := `<img src=x onerror=alert(1)>`
	for h := range 9 {
		s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":"2024-01-01T0%d:30:00Z","shop":%q,"amount":%d}`, h, hostile, 1000+h), nil)
	}
	s.settle("hours")
	s.historyHas("sales", 9)
	s.historyHas("hours", 9)
	var made struct{ Key string }
	s.must("PUT", "/v1/keys/boss", `{"scopes":["admin"]}`, &made)
	s.key = made.Key
	whole := s.link("hours", `{"range":"2024-01-01T00:00:00Z,2024-01-01T10:00:00Z"}`)
	old := s.link("hours", `{"range":"2024-01-01T01:00:00Z,2024-01-01T03:00:00Z"}`)
	ctx := browse(t)
	eavesdrop(t, ctx)
	do(t, ctx, chromedp.Navigate(s.url(whole.URL)))
	see(t, ctx, "#panel-0 .panel-note", "from history")
	become(t, ctx, `document.querySelectorAll("#panel-0 tbody tr").length === 9`)
	// A snapshot that comes again, as after a gap, has the view's own rows alone: history is asked again.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`const a = window.asked.find((x) => x.to === "hours");
		for (const m of [{ type: "gap", from: "a", oldest: "b" }, { type: "snapshot", position: "c", rows: [], statuses: [] }]) a.socket.hear({ data: JSON.stringify({ id: a.id, ...m }) })`))
	see(t, ctx, "#panel-0 .panel-note", "changes were missed")
	become(t, ctx, `document.querySelectorAll("#panel-0 tbody tr").length >= 5`)
	see(t, ctx, "#panel-1 .panel-note", "from history")
	if eval[bool](t, ctx, `!!document.querySelector("main img")`) {
		t.Error("an event's text became an element")
	}
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
	do(t, ctx, chromedp.Navigate(s.url(old.URL)))
	become(t, ctx, `document.querySelectorAll("#panel-0 tbody tr").length === 2`)
	for path, want := range map[string]string{
		"from=2024-01-01&to=2024-01-02":                                          "1001 1002",
		"from=2024-01-01T02:00:00Z&to=2024-01-01T05:00:00Z":                      "1002",
		"from=2024-01-01&to=2024-01-02&where=" + url.QueryEscape("TRUE OR TRUE"): "1001 1002",
	} {
		_, body := s.asks(old, "/v1/views/hours/rows/older?x=window_start&"+path)
		var found []string
		for amount := 1000; amount < 1009; amount++ {
			if strings.Contains(body, fmt.Sprint(`"amount":`, amount)) {
				found = append(found, fmt.Sprint(amount))
			}
		}
		if strings.Join(found, " ") != want {
			t.Errorf("%s: %v, not %s", path, found, want)
		}
	}
}

func TestAnnotationsStandOnTheChartsAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.sell(20*time.Minute, 10)
	s.sell(5*time.Minute, 20)
	s.settle("minutes")
	at := time.Now().UTC().Add(-10 * time.Minute).Format(time.RFC3339)
	s.must("POST", "/v1/dashboards/till/annotations", fmt.Sprintf(`{"time":%q,"text":"<img src=x onerror=alert(1)> deploy"}`, at), nil)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, "#panel-1 .flag", "<img src=x onerror=alert(1)> deploy")
	if eval[bool](t, ctx, `!!document.querySelector("main img")`) {
		t.Error("an annotation's text became an element")
	}
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
	// It shows on a link too, but there it can't be removed.
	var l linkAnswer
	s.must("POST", "/v1/dashboards/till/links", `{}`, &l)
	do(t, ctx, chromedp.Navigate(s.url(l.URL)))
	see(t, ctx, "#panel-1 .flag", "deploy")
}

// A link shows the columns that its panels use, on whatever road, and lets nobody guess the others.
func TestALinkShowsTheColumnsOfItsPanelsAlone(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/sales", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","shop":"VARCHAR","clerk":"VARCHAR","amount":"DOUBLE","cost":"DOUBLE"}}`, nil)
	s.must("PUT", "/v1/views/by_clerk", `{"sql":"SELECT window_start, shop, clerk, sum(amount) AS amount, sum(cost) AS cost FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s","retention":"2h"}`, nil)
	s.must("PUT", "/v1/dashboards/board", `{"title":"Board","range":"now-1h","tz":"UTC","panels":[
		{"id":"top","title":"Top","type":"toplist","view":"by_clerk","x":"window_start","y":["amount"],"series":"shop","where":"clerk <> 'nobody'","order":"cost DESC"},
		{"id":"chart","title":"Chart","type":"timeseries","view":"by_clerk","x":"window_start","y":["amount"]}]}`, nil)
	at := time.Now().UTC().Add(-10 * time.Minute).Truncate(time.Minute)
	sell := func(clerk string, amount int) {
		s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":"north","clerk":%q,"amount":%d,"cost":4711}`, at.Format(time.RFC3339), clerk, amount), nil)
	}
	sell("ada lovelace", 10)
	sell("bob the clerk", 20)
	sell("nobody", 40)
	s.settle("by_clerk")
	var made struct{ Key string }
	s.must("PUT", "/v1/keys/boss", `{"scopes":["admin"]}`, &made)
	s.key = made.Key
	l := s.link("board", `{}`)
	hidden := func(where, text string) {
		t.Helper()
		for _, secret := range []string{"ada", "bob", "nobody", "clerk", "cost", "4711"} {
			if text := strings.ReplaceAll(text, "by_clerk", ""); strings.Contains(text, secret) {
				t.Errorf("%s tells of %q: %.600s", where, secret, text)
			}
		}
	}
	_, rows := s.asks(l, "/v1/views/by_clerk/rows?order=amount")
	hidden("rows", rows)
	if strings.Count(rows, `"shop":"north"`) != 3 || strings.Count(rows, `"_row":`) != 3 {
		t.Errorf("%s", rows)
	}
	own := "(clerk <> 'nobody'\n)"
	for asked, want := range map[string]int{
		"where=" + url.QueryEscape("clerk = 'ada lovelace'"):                       422,
		"where=" + url.QueryEscape("cost > 1"):                                     422,
		"where=" + url.QueryEscape(own+" AND clerk = 'ada lovelace'"):              422,
		"where=" + url.QueryEscape(own+" OR clerk = 'ada lovelace'"):               422,
		"where=" + url.QueryEscape(own) + "&order=" + url.QueryEscape("cost DESC"): 200,
		"where=" + url.QueryEscape(own+" AND shop = 'north'") + "&order=shop":      200,
		"order=clerk":                          422,
		"order=" + url.QueryEscape("cost ASC"): 422,
		"cursor=AAAA":                          403,
	} {
		if status, body := s.asks(l, "/v1/views/by_clerk/rows?"+asked); status != want {
			t.Errorf("%s: %d %s", asked, status, body)
		}
	}
	_, older := s.asks(l, "/v1/views/by_clerk/rows/older?x=window_start&from=2024-01-01&to=2024-01-02")
	hidden("older rows", older)
	if status, _ := s.asks(l, "/v1/views/by_clerk/rows/older?x=clerk&from=2024-01-01&to=2024-01-02"); status != 400 {
		t.Errorf("older rows by a hidden column: %d", status)
	}
	_, page := s.call("GET", l.URL, "")
	hidden("the page", strings.ReplaceAll(strings.ReplaceAll(string(page), `clerk \u003c\u003e &#39;nobody&#39;`, ""), `cost DESC`, ""))

	// Rows that differ in hidden columns alone are still two: their sum is right, and stays so.
	ctx := browse(t)
	eavesdrop(t, ctx)
	do(t, ctx, chromedp.Navigate(s.url(l.URL)))
	see(t, ctx, "#panel-0 .bars li .num", "30")
	see(t, ctx, "#panel-1 .legend", "70")
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.heard = []; for (const a of window.asked) { const was = a.socket.onmessage; a.socket.onmessage = (e) => (window.heard.push(e.data), was(e)); }`))
	sell("bob the clerk", 5)
	see(t, ctx, "#panel-0 .bars li .num", "35")
	see(t, ctx, "#panel-1 .legend", "75")
	heard := eval[string](t, ctx, `window.heard.join()`)
	hidden("the socket", heard)
	if !strings.Contains(heard, `"changes"`) {
		t.Errorf("no changes were heard: %s", heard)
	}
	conn, _, err := (&websocket.Dialer{Subprotocols: []string{"tidemark.v1.json", "bearer." + strings.TrimPrefix(l.URL, "/shared/")}}).DialContext(context.Background(), "ws://"+s.addr+"/v1/live", http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	for i, ask := range []rowMap{{"where": "clerk = 'x'"}, {"order": "clerk", "limit": 1}, {"from": "earliest"}, {"from": "earliest", "fold": false}} {
		ask["op"], ask["id"], ask["to"] = "subscribe", fmt.Sprint(i), "by_clerk"
		if err := conn.WriteJSON(ask); err != nil {
			t.Fatal(err)
		}
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			text := string(message)
			if i < 2 {
				if !strings.Contains(text, `"error"`) {
					t.Errorf("%v: %s", ask, text)
				}
				break
			}
			hidden("history", text)
			if strings.Contains(text, `"changes"`) || strings.Contains(text, `"progress"`) {
				break
			}
		}
	}
}
