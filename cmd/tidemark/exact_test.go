package main

import (
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// accounts is a server with a view whose rows differ in what JavaScript easily takes for the same: in
// digits beyond 2^53, in null and the word, in the fields of an object.
func accounts(t *testing.T) *server {
	t.Helper()
	s := startServer(t)
	s.must("PUT", "/v1/streams/moves", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","account":"BIGINT","word":"VARCHAR","device":"STRUCT(os VARCHAR)"}}`, nil)
	s.must("PUT", "/v1/views/by_account", `{"sql":"SELECT account, count(*) AS n FROM moves GROUP BY ALL","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/views/by_word", `{"sql":"SELECT word, count(*) AS n FROM moves GROUP BY ALL","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/views/by_device", `{"sql":"SELECT device, count(*) AS n FROM moves GROUP BY ALL","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/dashboards/accounts", `{"title":"Accounts","range":"now-1h","tz":"UTC","panels":[
		{"id":"top","title":"Top","type":"toplist","view":"by_account","y":["n"],"series":"account","grid":[0,0,6,3]},
		{"id":"rows","title":"Rows","type":"table","view":"by_account","y":["n"],"grid":[6,0,6,3]},
		{"id":"words","title":"Words","type":"table","view":"by_word","y":["n"],"grid":[0,3,6,3]},
		{"id":"devices","title":"Devices","type":"table","view":"by_device","y":["n"],"grid":[6,3,6,3]},
		{"id":"tops","title":"Tops","type":"toplist","view":"by_device","y":["n"],"series":"device","grid":[0,6,6,3]}]}`, nil)
	at := time.Now().UTC().Format(time.RFC3339)
	for _, rest := range []string{
		`"account":9007199254740992,"word":null,"device":{"os":"ios"}`, `"account":9007199254740993,"word":"null","device":{"os":"linux"}`,
		`"account":9007199254740993,"word":"null","device":{"os":"linux"}`, `"account":7,"word":"","device":null`,
	} {
		s.must("POST", "/v1/streams/moves/events", fmt.Sprintf(`{"ts":%q,%s}`, at, rest), nil)
	}
	for _, view := range []string{"by_account", "by_word", "by_device"} {
		s.settle(view)
	}
	return s
}

// cells are the texts of a table's rows but for their status.
func cells(panel int) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#panel-%d tbody tr")].map((r) => [...r.cells].slice(0, -1).map((c) => c.textContent).join("=")).sort().join(" ")`, panel)
}

func TestIntegersKeepAllTheirDigitsOnThePage(t *testing.T) {
	t.Parallel()
	s := accounts(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/accounts")))
	see(t, ctx, "#panel-1 .panel-foot", "complete to") // the script has taken over
	become(t, ctx, cells(1)+` === "7=1 9,007,199,254,740,992=1 9,007,199,254,740,993=2"`)
	see(t, ctx, "#panel-0", "9,007,199,254,740,993")

	// As a filter in the address, and from there again.
	do(t, ctx, chromedp.Click(chromedp.CSS(`#panel-0 [data-value="9007199254740993"]`)))
	become(t, ctx, cells(1)+` === "9,007,199,254,740,993=2"`)
	if got := eval[string](t, ctx, `location.search`); !strings.Contains(got, "f.account=9007199254740993") {
		t.Errorf("the address is %s", got)
	}
	do(t, ctx, chromedp.Reload())
	see(t, ctx, "#panel-1 .panel-foot", "complete to")
	become(t, ctx, cells(1)+` === "9,007,199,254,740,993=2"`)

	// As the key of a row whose events are asked for.
	do(t, ctx, chromedp.Click(chromedp.CSS(`#panel-1 .passport-open`)), chromedp.Click(chromedp.CSS(`#passport .events`)))
	see(t, ctx, "#passport .told", "2 events")
	see(t, ctx, "#passport .told", "0/2")
}

func TestRowsThatReadAlikeAreKeptApart(t *testing.T) {
	t.Parallel()
	s := accounts(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/accounts")))
	see(t, ctx, "#panel-2 .panel-foot", "complete to")
	become(t, ctx, cells(2)+` === "(empty)=1 null=2 –=1"`)
	see(t, ctx, "#panel-3 .panel-foot", "complete to")
	become(t, ctx, `[...document.querySelectorAll("#panel-4 .bar-label")].map((e) => e.textContent).sort().join(" ") === '{"os":"ios"} {"os":"linux"} –'`)
	become(t, ctx, cells(3)+` === '{"os":"ios"}=1 {"os":"linux"}=2 –=1'`)
}

// What was there when a page was opened is nothing new, whichever of its streams it hears of first.
func TestAPageOfAFixedRangeCountsOnlyWhatCameSince(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.must("PUT", "/v1/streams/steps", `{}`, nil)
	s.must("PUT", "/v1/views/walks", `{"sql":"SELECT count(*) AS n FROM steps","throttle":"0s"}`, nil)
	for range 5 {
		s.sell(2*time.Minute, 1)
		s.must("POST", "/v1/streams/steps/events", `{"n":1}`, nil)
	}
	s.must("PUT", "/v1/dashboards/both", `{"title":"Both","range":"now-1h","tz":"UTC","panels":[
		{"id":"a","title":"A","type":"stat","view":"total","y":["n"]},{"id":"b","title":"B","type":"stat","view":"walks","y":["n"]}]}`, nil)
	s.settle("walks")
	ctx := browse(t)
	now := time.Now().UTC()
	do(t, ctx, chromedp.Navigate(s.url("/d/both?range="+url.QueryEscape(now.Add(-time.Hour).Format(time.RFC3339)+","+now.Format(time.RFC3339)))))
	see(t, ctx, "#panel-0 .panel-foot", "complete to")
	see(t, ctx, "#panel-1 .panel-foot", "complete to")
	s.sell(time.Minute, 1)
	see(t, ctx, "#pause", "1 new update")
}

func TestAReconnectMissesNothingAndSaysNothingElse(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(3*time.Minute, 10)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, "#panel-2 .panel-foot", "complete to")
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.told = []; new MutationObserver(() => window.told.push(...[...document.querySelectorAll(".panel-note")].map((n) => n.textContent))).observe(document.getElementById("board"), { subtree: true, childList: true, characterData: true })`))
	s.stop(syscall.SIGKILL)
	become(t, ctx, `!document.getElementById("banner").hidden`)
	s.start()
	s.sell(3*time.Minute, 5)
	see(t, ctx, "#connection", "live")
	see(t, ctx, tableBody, "15")
	if got := eval[string](t, ctx, `window.told.filter((x) => x.includes("missed")).join()`); got != "" {
		t.Errorf("the page says %q", got)
	}
}

// A page whose session or link is over says so and what to do; it does not look for the server for ever.
func TestAPageWhoseRightHasEndedSaysSo(t *testing.T) {
	t.Parallel()
	s := locked(t)
	var guest struct{ Key string }
	s.must("PUT", "/v1/keys/guest", `{"scopes":["read"]}`, &guest)
	s.shop("north", 2*time.Minute, 10)
	s.settle("by_shop")
	l := s.link("shops", `{"expires":"72h"}`)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url(l.URL)))
	see(t, ctx, "#panel-1 .panel-foot", "complete to")
	s.must("DELETE", "/v1/dashboards/shops/links/"+l.ID, "", nil)
	see(t, ctx, "#banner", "expired or was taken back")
	see(t, ctx, "#connection", "ended")
	see(t, ctx, "#panel-1 tbody", "north") // what is known stays

	do(t, ctx, chromedp.Navigate(s.url("/d/shops")), chromedp.SendKeys(chromedp.CSS(".signin [name=key]"), guest.Key+"\r"))
	see(t, ctx, "#panel-1 .panel-foot", "complete to")
	s.must("DELETE", "/v1/keys/guest", "", nil)
	see(t, ctx, "#banner", "Your session has ended")
	do(t, ctx, chromedp.Click(chromedp.CSS("#banner a")))
	see(t, ctx, ".signin h1", "Sign in")
	if got := eval[string](t, ctx, `document.querySelector("[name=next]")?.value ?? location.search`); !strings.Contains(got, "/d/shops") && !strings.Contains(got, "%2Fd%2Fshops") {
		t.Errorf("the way back is lost: %q", got)
	}
}

func TestAChartWithoutTimeSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	s := accounts(t)
	s.must("PUT", "/v1/dashboards/odd", `{"title":"`+strings.Repeat("y", 190)+`","range":"now-1h","tz":"UTC","panels":[{"id":"a","title":"A","type":"timeseries","view":"by_word","x":"word","y":["n"]}]}`, nil)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/odd")))
	see(t, ctx, "#panel-0 .panel-body", "is no TIMESTAMP")
	if wide, there := eval[int](t, ctx, `document.documentElement.scrollWidth`), eval[int](t, ctx, `innerWidth`); wide > there {
		t.Errorf("a long title makes the page %d pixels wide, of %d", wide, there)
	}
}

// A rule that has fired for years is no burden to who opens a page, and an empty list says since when.
func TestAnAlertPanelReadsTheAlarmsOfItsTime(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.must("PUT", "/v1/alerts/large", `{"sql":"SELECT ts, amount FROM sales WHERE amount > 100","title":"large: {amount}"}`, nil)
	s.must("PUT", "/v1/dashboards/alarms", `{"title":"Alarms","range":"now-1h","tz":"UTC","panels":[{"id":"a","title":"Alarms","type":"alerts","view":"large"}]}`, nil)
	ctx := browse(t)
	eavesdrop(t, ctx)
	do(t, ctx, chromedp.Navigate(s.url("/d/alarms")))
	see(t, ctx, "#panel-0 .panel-body", "No alert since")
	days := `(Date.now() - Date.parse(window.asked.findLast((x) => x.to === "large").from.time)) / 864e5`
	if got := eval[float64](t, ctx, days); got < 6.9 || got > 7.1 {
		t.Errorf("alarms of %v days are read", got)
	}
	s.sell(time.Minute, 500)
	see(t, ctx, "#panel-0 .alerts", "large: 500")
	do(t, ctx, chromedp.Navigate(s.url("/d/alarms?range=now-30d")))
	see(t, ctx, "#panel-0 .alerts", "large: 500")
	if got := eval[float64](t, ctx, days); got < 29 || got > 31 {
		t.Errorf("alarms of %v days are read for a range of 30", got)
	}
}

func TestANewPanelBeginsWithAViewThatFits(t *testing.T) {
	t.Parallel()
	s := accounts(t) // whose views have no time, and come first
	s.must("PUT", "/v1/views/minutes", `{"sql":"SELECT window_start, count(*) AS n FROM tumble(moves, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/accounts")))
	see(t, ctx, "#connection", "live")
	do(t, ctx, chromedp.Click(chromedp.CSS("#edit")), chromedp.WaitVisible(chromedp.CSS("#editing .add")), chromedp.Click(chromedp.CSS("#editing .add")))
	become(t, ctx, `document.querySelector(".panel-form [name=view]")?.value === "minutes"`)
	become(t, ctx, `document.querySelector(".preview canvas")`)
}
