package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// overheard lets a test see what the page asks its socket for, and say what the server would say. A
// mute socket lets nothing of the server through.
const overheard = `window.asked = []; window.mute = false;
window.WebSocket = class extends WebSocket {
	set onmessage(f) { this.hear = f; super.onmessage = (e) => window.mute || f(e); }
	get onmessage() { return this.hear; }
	send(text) { const m = JSON.parse(text); if (m.op === "subscribe") window.asked.push({ socket: this, ...m }); super.send(text); }
};
window.say = (relation, message) => { const s = window.asked.findLast((x) => x.to === relation); s.socket.hear({ data: JSON.stringify({ id: s.id, ...message }) }); };`

// believed lets a test say what the server tells of views when the page asks for them.
const believed = `window.told = {}; {
	const real = window.fetch;
	window.fetch = async (path, ...more) => {
		const answer = await real(path, ...more);
		if (!String(path).startsWith("/v1/views?")) return answer;
		const list = await answer.json();
		for (const v of list.items) Object.assign(v, window.told[v.name]);
		return new Response(JSON.stringify(list), { status: 200 });
	};
}`

// deaf is a page whose socket says nothing from the start.
const deaf = overheard + `window.mute = true;`

// atStart runs a script in every page that the browser opens, before the page's own.
func atStart(t *testing.T, ctx context.Context, script string) {
	t.Helper()
	do(t, ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// eavesdrop makes every page that the browser opens one whose socket is overheard.
func eavesdrop(t *testing.T, ctx context.Context) {
	t.Helper()
	atStart(t, ctx, overheard)
}

const note = "#panel-2 .panel-note"

func TestPanelsTellThatTheirViewIsPausedRebuiltOrFailed(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(2*time.Minute, 10)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, tableBody, "10")
	s.must("POST", "/v1/views/minutes/pause", "", nil)
	see(t, ctx, note, "the view is paused")
	see(t, ctx, "#panel-1 .panel-note", "the view is paused")
	see(t, ctx, tableBody, "10") // what is known stays on the screen
	s.must("POST", "/v1/views/minutes/resume", "", nil)
	become(t, ctx, fmt.Sprintf(`!document.querySelector(%q).textContent.includes("paused")`, note))
	// Another question gives other rows: it is said, and they come by themselves.
	s.must("PUT", "/v1/views/minutes", `{"sql":"SELECT window_start, count(*) AS n, sum(amount) * 7 AS amount FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
	see(t, ctx, tableBody, "70")
	see(t, ctx, note, "rebuilt: version 2")
}

func TestAGapIsToldAndTheRowsAreShownAnew(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	eavesdrop(t, ctx)
	s.sell(2*time.Minute, 10)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, tableBody, "10")
	see(t, ctx, "#panel-2 .panel-foot", "complete to")
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.mute = true; window.say("minutes", { type: "gap", from: "a", oldest: "b" });
		window.say("minutes", { type: "snapshot", position: "c", as_of: { view_version: 1, offsets: { sales: [9] } }, rows: [{ window_start: new Date(Date.now() - 180000).toISOString().slice(0, 17) + "00Z", n: 1, amount: 77 }], statuses: ["final"] })`))
	see(t, ctx, note, "changes were missed")
	see(t, ctx, tableBody, "77")
}

// A feed that says nothing although it should looks dead, not quiet; so does a server that is away.
func TestADeadFeedDoesNotLookLikeAQuietOne(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	eavesdrop(t, ctx)
	s.sell(2*time.Minute, 10)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, "#panel-2 .panel-foot", "complete to") // its rows are the socket's now
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.mute = true`))
	see(t, ctx, note, "last update")
	become(t, ctx, `document.querySelector("#panel-2").classList.contains("stale")`)
	see(t, ctx, tableBody, "10")
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.mute = false`))
	become(t, ctx, `!document.querySelector("#panel-2").classList.contains("stale")`)

	s.stop(syscall.SIGKILL)
	become(t, ctx, `!document.getElementById("banner").hidden`)
	see(t, ctx, "#connection", "reconnecting")
	see(t, ctx, note, "last update")
	see(t, ctx, tableBody, "10")
	s.start()
	become(t, ctx, `document.getElementById("banner").hidden`)
	see(t, ctx, "#connection", "live")
	become(t, ctx, `!document.querySelector("#panel-2").classList.contains("stale")`)
}

func TestAPanelHasItsSizeWhileItLoads(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	eavesdrop(t, ctx)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, "#connection", "live")
	// No event has come: said so, not a blank.
	see(t, ctx, "#panel-1", "No event has come so far")
	height := `Math.round(document.querySelector("#panel-1").getBoundingClientRect().height)`
	empty := eval[int](t, ctx, height)
	s.sell(time.Minute, 4)
	see(t, ctx, "#panel-1 .legend", "4")
	if drawn := eval[int](t, ctx, height); drawn != empty {
		t.Errorf("the panel is %d pixels high when empty and %d when drawn", empty, drawn)
	}
}

// Before its rows come, a panel is a skeleton of the size that it will have; a table and a number stand
// in the page itself.
func TestASkeletonHoldsThePlaceUntilTheRowsCome(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.sell(2*time.Minute, 10)
	s.settle("minutes")
	s.settle("total")
	ctx := browse(t)
	atStart(t, ctx, deaf)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	become(t, ctx, `window.asked.filter((x) => x.to === "minutes").length === 2`)
	if !eval[bool](t, ctx, `!!document.querySelector("#panel-1 .skeleton") && !document.querySelector("#panel-1 .state, #panel-1 canvas")`) {
		t.Error("a chart without rows is no skeleton")
	}
	see(t, ctx, tableBody, "10")
	see(t, ctx, totalValue, "10")
	box := `JSON.stringify((({ width, height }) => [Math.round(width), Math.round(height)])(document.querySelector("#panel-1").getBoundingClientRect()))`
	waiting := eval[string](t, ctx, box)
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.mute = false`))
	press(t, ctx, "r")
	see(t, ctx, "#panel-1 .legend", "10")
	become(t, ctx, `!document.querySelector("#board .skeleton")`)
	if drawn := eval[string](t, ctx, box); drawn != waiting {
		t.Errorf("the panel is %s while it loads and %s when drawn", waiting, drawn)
	}
}

// A panel whose rows are on their way for long says so, and keeps what it has.
func TestAPanelThatWaitsForItsRowsIsCatchingUp(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.sell(2*time.Minute, 10)
	ctx := browse(t)
	eavesdrop(t, ctx)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, tableBody, "10")
	see(t, ctx, "#panel-2 .panel-foot", "complete to")
	// The feed lives, but the answer to what is asked anew is not there yet.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.mute = true; window.beat = setInterval(() => window.say("minutes", { type: "beat" }), 500); void 0`))
	press(t, ctx, "r")
	see(t, ctx, note, "catching up")
	see(t, ctx, tableBody, "10")
	if eval[bool](t, ctx, `document.querySelector("#panel-2").classList.contains("stale") || !!document.querySelector("#panel-2 .skeleton")`) {
		t.Error("what is shown was blanked or looks dead")
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`clearInterval(window.beat); window.mute = false`))
	press(t, ctx, "r")
	become(t, ctx, fmt.Sprintf(`!document.querySelector(%q).textContent.includes("catching up")`, note))
	see(t, ctx, tableBody, "10")
}

// A page that follows nothing tells all the same whether the server is there.
func TestADashboardOfWordsAloneIsLive(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/sales", `{}`, nil)
	s.must("PUT", "/v1/dashboards/words", `{"title":"Words","panels":[{"id":"words","type":"text","text":"Nothing moves."}]}`, nil)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/words")))
	see(t, ctx, "#panel-0", "Nothing moves.")
	see(t, ctx, "#connection", "live")
	s.stop(syscall.SIGKILL)
	see(t, ctx, "#connection", "reconnecting")
}

// What the server says of a view that is being made, or made anew, stands beside the title.
func TestPanelsTellThatTheirViewCatchesUpOrIsBeingRebuilt(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.sell(2*time.Minute, 10)
	ctx := browse(t)
	atStart(t, ctx, believed+`window.told.minutes = { state: "building", lag_events: 12345 };`)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, note, "catching up: 12,345 events to go")
	see(t, ctx, "#panel-1 .panel-note", "catching up: 12,345 events to go")
	see(t, ctx, tableBody, "10")
	if got := eval[string](t, ctx, `document.querySelector("#panel-0 .panel-note").textContent`); got != "" {
		t.Errorf("the panel of another view says %q", got)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.told.minutes = { state: "live", rebuilding: true }`))
	see(t, ctx, note, "being rebuilt")
	see(t, ctx, tableBody, "10") // the rows of before stay
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.told = {}`))
	become(t, ctx, fmt.Sprintf(`document.querySelector(%q).textContent === ""`, note))
}

// What nobody sees costs nothing, and is there as soon as somebody looks.
func TestAPanelOutOfSightIsDrawnWhenItComesNear(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.must("PUT", "/v1/dashboards/long", `{"title":"Long","range":"now-1h","panels":[
		{"id":"top","type":"stat","view":"total","y":["amount"],"grid":[0,0,4,2]},
		{"id":"words","type":"text","text":"far","grid":[0,2,4,40]},
		{"id":"far","type":"stat","view":"total","y":["amount"],"grid":[0,42,4,2]}]}`, nil)
	s.sell(time.Minute, 5)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/long")))
	see(t, ctx, "#panel-2 .stat-sub", "since") // drawn once, for who searches or prints
	s.sell(time.Minute, 6)
	see(t, ctx, totalValue, "11")
	if got := eval[string](t, ctx, `document.querySelector("#panel-2 .stat-value").textContent`); got != "5" {
		t.Errorf("the panel out of sight was drawn: %s", got)
	}
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`document.querySelector("#panel-2").scrollIntoView()`))
	see(t, ctx, "#panel-2 .stat-value", "11")
}

func TestEveryPanelShowsAsOfAndHowManyCameLate(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.must("PUT", "/v1/alerts/large", `{"sql":"SELECT ts, amount FROM sales WHERE amount > 100","title":"{amount}"}`, nil)
	s.must("PUT", "/v1/dashboards/trust", `{"title":"Trust","range":"now-1h","panels":[
		{"id":"a","title":"Chart","type":"timeseries","view":"minutes","x":"window_start","y":["amount"],"grid":[0,0,6,4]},
		{"id":"b","title":"Feed","type":"feed","view":"sales","grid":[6,0,6,4]},
		{"id":"c","title":"Alerts","type":"alerts","view":"large","grid":[0,4,6,4]}]}`, nil)
	s.sell(5*time.Minute, 200)
	s.sell(time.Minute, 1)
	s.sell(5*time.Minute, 3)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/trust")))
	see(t, ctx, "#panel-0 .panel-foot", "complete to")
	see(t, ctx, "#panel-0 .panel-foot", "1 open")
	see(t, ctx, "#panel-0 .panel-foot", "1 corrected")
	see(t, ctx, "#panel-0 .panel-foot", "1 late")
	see(t, ctx, "#panel-1 .panel-foot", "0/2")
	see(t, ctx, "#panel-2 .panel-foot", "last ")
	for i, want := range []string{"provisional", "offset 2", "of the alert's log"} {
		do(t, ctx, chromedp.Click(chromedp.CSS(fmt.Sprintf("#panel-%d .passport-open", i))), chromedp.WaitVisible(chromedp.CSS("#passport")))
		see(t, ctx, "#passport", want)
		do(t, ctx, chromedp.Click(chromedp.CSS("#passport .close")))
	}
}

func TestThePlanIsATreeWithWhatEachStepHolds(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.sell(time.Minute, 5)
	s.settle("minutes")
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/views/minutes")))
	see(t, ctx, ".plan-steps", "tumble")
	if deep := eval[int](t, ctx, `document.querySelectorAll(".plan-steps ul ul li").length`); deep == 0 {
		t.Error("the plan is flat")
	}
	if text := eval[string](t, ctx, `document.querySelector(".plan-tree").textContent`); !strings.Contains(text, "1 entry") || !strings.Contains(text, "change stream") {
		t.Errorf("the plan does not tell what it keeps: %s", text)
	}
	// What grows for ever is said where it grows.
	s.must("PUT", "/v1/views/for_ever", `{"sql":"SELECT shop, count(*) AS n FROM sales GROUP BY shop"}`, nil)
	do(t, ctx, chromedp.Navigate(s.url("/views/for_ever")))
	see(t, ctx, ".plan-steps .warning", "kept for ever")
	// A text that holds line ends is one of its line. The page is that of the view as it is now, and says when there is none.
	s.must("PUT", "/v1/views/for_ever", `{"sql":"SELECT shop AS \"the\nshop\", sum(amount) AS taken FROM sales WHERE shop <> 'a\nb' GROUP BY shop"}`, nil)
	see(t, ctx, "#view-rows", "north")
	see(t, ctx, ".plan-steps", "filter")
	see(t, ctx, "main", "taken")
	s.must("DELETE", "/v1/views/for_ever", "", nil)
	see(t, ctx, "#row-count", "there is no view")
}

// A page that is left open is right also when the view beneath gets other columns, goes, and comes again.
func TestAnOpenPageFollowsItsViewThroughOtherColumnsAndDeletion(t *testing.T) {
	t.Parallel()
	s := locked(t)
	const byShop = `{"sql":"SELECT window_start, shop, sum(amount) AS amount FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`
	s.must("PUT", "/v1/dashboards/lists", `{"title":"Lists","range":"now-1h","panels":[
		{"id":"top","title":"Top","type":"toplist","view":"by_shop","x":"window_start","y":["amount"],"series":"shop"},
		{"id":"sum","title":"Sum","type":"stat","view":"by_shop","x":"window_start","y":["amount"],"compare":"previous"}]}`, nil)
	for i, name := range []string{"north", "south", "north"} {
		s.shop(name, time.Duration(i/2+3)*time.Minute, float64(10*(i+1)))
	}
	s.settle("by_shop")
	l := s.link("lists", `{}`)
	ctx := browse(t)
	for _, way := range []func(){
		func() { do(t, ctx, chromedp.Navigate(s.url(l.URL))) },
		func() {
			do(t, ctx, chromedp.Navigate(s.url("/d/lists")), chromedp.SendKeys(chromedp.CSS(".signin input[name=key]"), s.key), chromedp.Click(chromedp.CSS(".signin button")))
		},
	} {
		way()
		see(t, ctx, "#panel-0 .panel-body", "north40")
		see(t, ctx, "#panel-1 .panel-body", "60")
		s.must("PUT", "/v1/views/by_shop", `{"sql":"SELECT window_start, shop, sum(amount) AS revenue FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
		see(t, ctx, "#panel-0 .panel-body", "by_shop has no column amount")
		see(t, ctx, "#panel-1 .panel-body", "by_shop has no column amount")
		s.must("PUT", "/v1/views/by_shop", byShop, nil)
		see(t, ctx, "#panel-0 .panel-body", "north40")
		s.must("DELETE", "/v1/views/by_shop", "", nil)
		see(t, ctx, "#panel-0 .panel-body", "There is no view by_shop")
		s.must("PUT", "/v1/views/by_shop", byShop, nil)
		see(t, ctx, "#panel-0 .panel-body", "north40")
		see(t, ctx, "#panel-1 .panel-body", "60")
	}
	// A link's page is that of the dashboard as it is now.
	do(t, ctx, chromedp.Navigate(s.url(l.URL)))
	see(t, ctx, "#panel-0 .panel-body", "north40")
	s.must("PUT", "/v1/dashboards/lists", `{"title":"Other lists","range":"now-1h","panels":[{"id":"sum","title":"Sum","type":"stat","view":"by_shop","x":"window_start","y":["amount"],"compare":"previous"}]}`, nil)
	see(t, ctx, "h1", "Other lists")
	see(t, ctx, "#panel-0 .panel-body", "60")
	s.must("PUT", "/v1/dashboards/lists", `{"title":"Lists","range":"now-1h","panels":[
		{"id":"top","title":"Top","type":"toplist","view":"by_shop","x":"window_start","y":["amount"],"series":"shop"},
		{"id":"sum","title":"Sum","type":"stat","view":"by_shop","x":"window_start","y":["amount"],"compare":"previous"}]}`, nil)
	// Opened while the view is not there: what may be put together is found out when it comes.
	s.must("DELETE", "/v1/views/by_shop", "", nil)
	do(t, ctx, chromedp.Navigate(s.url("/d/lists")))
	see(t, ctx, "#panel-0 .panel-body", "There is no view by_shop")
	s.must("PUT", "/v1/views/by_shop", byShop, nil)
	see(t, ctx, "#panel-0 .panel-body", "north40")
	see(t, ctx, "#panel-1 .panel-body", "60")
}
