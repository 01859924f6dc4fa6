package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A fixed range and the filters hold for events and alarms as for every other panel.
func TestFeedsAndAlertsShowTheRangeAndTheFiltersOfTheDashboard(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.must("PUT", "/v1/alerts/large", `{"sql":"SELECT ts, shop, amount FROM sales WHERE amount > 100","title":"{shop} paid {amount}"}`, nil)
	s.must("PUT", "/v1/views/by_shop", `{"sql":"SELECT window_start, shop, sum(amount) AS amount FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/dashboards/feeds", `{"title":"Feeds","range":"now-1h","tz":"UTC","panels":[
		{"id":"events","title":"Events","type":"feed","view":"sales","grid":[0,0,6,4]},
		{"id":"alarms","title":"Alarms","type":"alerts","view":"large","grid":[6,0,6,4]},
		{"id":"rows","title":"Rows","type":"feed","view":"by_shop","grid":[0,4,6,4]}]}`, nil)
	at := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	sell := func(minute int, shop string, amount int) {
		s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":%q,"amount":%d}`, at.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339), shop, amount), nil)
	}
	for i := range 70 {
		sell(10, "north", 1000+i)
	}
	sell(11, "south", 2000)
	sell(40, "north", 3000)
	s.settle("by_shop")
	s.historyHas("sales", 72)
	part := url.QueryEscape(at.Format(time.RFC3339) + "," + at.Add(30*time.Minute).Format(time.RFC3339))
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/feeds?range="+part)))
	see(t, ctx, "#panel-0 .panel-note", "events of the range, from history")
	see(t, ctx, "#panel-0 .panel-foot", "the newest 60 of 71")
	see(t, ctx, "#panel-0 .feed li", "south")
	see(t, ctx, "#panel-1 .panel-note", "alarms of the range")
	see(t, ctx, "#panel-1 .alerts", "south paid 2000")
	see(t, ctx, "#panel-2 .feed", "south")
	for i := range 3 {
		if text := eval[string](t, ctx, fmt.Sprintf(`document.querySelector("#panel-%d .panel-body").textContent`, i)); strings.Contains(text, "3,000") || strings.Contains(text, "paid 3000") {
			t.Errorf("panel %d shows what lies behind the range: %s", i, text)
		}
	}
	// What comes now is not of the range.
	sell(170, "west", 9000)
	s.settle("by_shop")
	do(t, ctx, chromedp.Navigate(s.url("/d/feeds?f.shop=%22south%22&range="+part)))
	become(t, ctx, `document.querySelectorAll("#panel-0 .feed li").length === 1`)
	see(t, ctx, "#panel-0 .panel-foot", "1 event")
	become(t, ctx, `document.querySelectorAll("#panel-1 .alerts li").length === 1`)
	become(t, ctx, `document.querySelectorAll("#panel-2 .feed li").length === 1`)
	// A filter that a panel has no column for is told, and an empty range too.
	do(t, ctx, chromedp.Navigate(s.url("/d/feeds?f.product=%22tea%22&range=2024-01-01T00:00:00Z,2024-01-02T00:00:00Z")))
	see(t, ctx, "#panel-0", "No events in this range")
	see(t, ctx, "#panel-0 .panel-note", "not by product")
	see(t, ctx, "#panel-1", "No alert in this range")
	// Live, a filter holds too.
	do(t, ctx, chromedp.Navigate(s.url("/d/feeds?f.shop=%22south%22")))
	see(t, ctx, "#panel-0 .feed", "2,000")
	become(t, ctx, `document.querySelectorAll("#panel-0 .feed li").length === 1 && document.querySelectorAll("#panel-1 .alerts li").length === 1`)
	sell(171, "south", 4000)
	see(t, ctx, "#panel-0 .feed", "4,000")
	see(t, ctx, "#panel-1 .alerts", "4000")
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
}

// A stream that is quiet for long has not nothing to show: what came last stands there, with its age.
func TestAFeedShowsWhatCameLastHoweverLongAgo(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/sales", `{"partitions":3,"key_field":"shop","columns":{"shop":"VARCHAR"}}`, nil)
	s.must("PUT", "/v1/dashboards/quiet", `{"title":"Quiet","panels":[{"id":"feed","title":"Feed","type":"feed","view":"sales"}]}`, nil)
	for _, shop := range []string{"north", "south", "west", "east"} {
		s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"shop":%q}`, shop), nil)
	}
	ctx := browse(t)
	// The page believes that it is an hour later, so nothing came in the last minutes.
	atStart(t, ctx, `{ const real = Date.now; Date.now = () => real() + 3600000; }`)
	do(t, ctx, chromedp.Navigate(s.url("/d/quiet")))
	become(t, ctx, `[...document.querySelectorAll("#panel-0 .feed code")].map((x) => x.textContent).join() === "shop east,shop west,shop south,shop north"`)
	see(t, ctx, "#panel-0 .panel-foot", "newest 1 h ago")
	s.must("POST", "/v1/streams/sales/events", `{"shop":"centre"}`, nil)
	see(t, ctx, "#panel-0 .feed li", "centre")
	become(t, ctx, `document.querySelectorAll("#panel-0 .feed li").length === 5`)
}
