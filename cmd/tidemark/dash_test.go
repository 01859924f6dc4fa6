package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// faults are the serious violations that axe-core finds on the page, as text.
func faults(t *testing.T, ctx context.Context, axe string) string {
	t.Helper()
	do(t, ctx, chromedp.Evaluate[chromedp.Void](axe+`; window.axed = null;
		axe.run(document, {resultTypes: ["violations"]}).then((r) => { window.axed = r.violations
			.filter((v) => v.impact === "serious" || v.impact === "critical")
			.map((v) => v.id + ": " + v.help + " — " + v.nodes.slice(0, 4).map((n) => n.target + " " + (n.any[0]?.message ?? n.all[0]?.message ?? "")).join("; ")).join("\n"); },
			(e) => { window.axed = "axe failed: " + e; }); void 0`))
	become(t, ctx, `window.axed !== null`)
	return eval[string](t, ctx, `window.axed`)
}

// readAxe is axe-core, as its authors publish it.
func readAxe(t *testing.T) string {
	t.Helper()
	body, err := os.ReadFile("../../web/ui/vendor/axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// shops is a server with sales of three shops, a view by shop and a dashboard that can be filtered.
func shops(t *testing.T) *server {
	t.Helper()
	s := till(t)
	s.must("PUT", "/v1/views/by_shop", `{"sql":"SELECT window_start, shop, sum(amount) AS amount, avg(amount) AS average FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/dashboards/shops", `{"title":"Shops","range":"now-1h","tz":"UTC","panels":[
		{"id":"total","title":"Total","type":"stat","view":"total","y":["amount"],"grid":[0,0,4,2]},
		{"id":"chart","title":"Chart","type":"timeseries","view":"by_shop","x":"window_start","y":["amount"],"series":"shop","grid":[0,2,8,4]},
		{"id":"top","title":"Top","type":"toplist","view":"by_shop","x":"window_start","y":["amount"],"series":"shop","grid":[4,0,8,2]}]}`, nil)
	at := time.Now().UTC().Add(-10 * time.Minute)
	for i, shop := range []string{"north", "south", "west"} {
		s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":%q,"amount":%d}`, at.Format(time.RFC3339), shop, 10*(i+1)), nil)
	}
	return s
}

const topBody = "#panel-2 .panel-body"

// press sends keys to the page.
func press(t *testing.T, ctx context.Context, keys string) {
	t.Helper()
	do(t, ctx, chromedp.KeyEvent(keys))
}

// tabTo presses Tab until the focus is on an element.
func tabTo(t *testing.T, ctx context.Context, selector string) {
	t.Helper()
	for range 120 {
		if eval[bool](t, ctx, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
		press(t, ctx, kb.Tab)
	}
	t.Fatalf("Tab does not reach %s", selector)
}

func TestPausedPageStandsStillAndCountsWhatIsNew(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(2*time.Minute, 10)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, totalValue, "10")
	for i := range 3 { // every panel has its first rows
		see(t, ctx, fmt.Sprintf("#panel-%d .panel-foot", i), "complete to")
	}
	press(t, ctx, "p")
	see(t, ctx, "#pause", "Live")
	become(t, ctx, `location.search.includes("paused=1")`)
	s.sell(time.Minute, 5)
	see(t, ctx, "#pause", "1 new update")
	if got := eval[string](t, ctx, `document.querySelector("`+totalValue+`").textContent`); got != "10" {
		t.Errorf("the paused page shows %s", got)
	}
	press(t, ctx, "p")
	see(t, ctx, totalValue, "15")
	see(t, ctx, "#pause", "Pause")
}

func TestFilterStandsInTheAddressAndNarrowsEveryPanelThatHasIt(t *testing.T) {
	t.Parallel()
	s := shops(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/shops")))
	see(t, ctx, topBody, "west")
	see(t, ctx, "#panel-1 .legend", "south")
	see(t, ctx, topBody+" .share", "50 %") // the script has taken over
	do(t, ctx, chromedp.Click(chromedp.CSS(topBody+` button[data-value='"south"']`)))
	become(t, ctx, `location.search.includes("f.shop") && !document.querySelector("`+topBody+`").textContent.includes("west")`)
	become(t, ctx, `!document.querySelector("#panel-1 .legend").textContent.includes("west")`)
	see(t, ctx, "#filters", "shop = south")
	see(t, ctx, "#panel-0 .panel-note", "not by shop")
	see(t, ctx, totalValue, "60")
	do(t, ctx, chromedp.Reload())
	see(t, ctx, "#filters", "shop = south")
	become(t, ctx, `document.querySelector("`+topBody+` .bars") && !document.querySelector("`+topBody+`").textContent.includes("west")`)
	do(t, ctx, chromedp.Click(chromedp.CSS("#filters button")))
	see(t, ctx, topBody, "west")
}

func TestDragZoomsIntoAFixedRangeAndDoubleClickGoesBack(t *testing.T) {
	t.Parallel()
	s := shops(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/shops")))
	see(t, ctx, "#panel-1 .legend", "south")
	// at is a place over the chart, in share of its width.
	at := func(share float64) (x, y float64) {
		box := eval[[]float64](t, ctx, `(() => { const r = document.querySelector("#panel-1 .u-over").getBoundingClientRect(); return [r.left, r.top + r.height / 2, r.width]; })()`)
		return box[0] + share*box[2], box[1]
	}
	mouse := func(kind input.DispatchMouseEventType, share float64, count int64) {
		x, y := at(share)
		do(t, ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: count})
			return err
		}))
	}
	mouse(input.DispatchMouseEventTypeMouseMoved, 0.65, 0)
	mouse(input.DispatchMouseEventTypeMousePressed, 0.65, 1)
	mouse(input.DispatchMouseEventTypeMouseMoved, 0.8, 0)
	mouse(input.DispatchMouseEventTypeMouseMoved, 0.97, 0)
	mouse(input.DispatchMouseEventTypeMouseReleased, 0.97, 1)
	become(t, ctx, `/range=\d{4}-/.test(location.search)`)
	see(t, ctx, "#pause", "Live")
	see(t, ctx, "#range summary", "–")
	see(t, ctx, "#panel-1 .legend", "south")
	for _, n := range []int64{1, 2} {
		mouse(input.DispatchMouseEventTypeMousePressed, 0.5, n)
		mouse(input.DispatchMouseEventTypeMouseReleased, 0.5, n)
	}
	become(t, ctx, `!/range=/.test(location.search)`)
	see(t, ctx, "#pause", "Pause")
	press(t, ctx, "t")
	become(t, ctx, `document.activeElement.name === "typed"`) // the picker has opened and filled itself in
	do(t, ctx, chromedp.SetValue(chromedp.CSS("#range [name=typed]"), "now-2h"))
	press(t, ctx, kb.Enter)
	become(t, ctx, `/range=now-2h/.test(location.search)`)
	see(t, ctx, "#range summary", "last 2 hours")
}

func TestEveryStateOfAPanelSaysWhatIsSo(t *testing.T) {
	t.Parallel()
	s := shops(t)
	s.must("PUT", "/v1/dashboards/states", `{"title":"States","range":"now-5m","panels":[
		{"id":"missing","title":"Missing","type":"stat","view":"no_such_view","y":["n"]},
		{"id":"empty","title":"Empty","type":"table","view":"by_shop","x":"window_start"},
		{"id":"average","title":"Average","type":"toplist","view":"averages","y":["average"],"series":"shop"},
		{"id":"broken","title":"Broken","type":"table","view":"by_shop","where":"no_such_column = 1"},
		{"id":"words","title":"Words","type":"text","text":"**bold** <script>alert(1)</script> [link](javascript:alert(1))"}]}`, nil)
	s.must("PUT", "/v1/views/averages", `{"sql":"SELECT shop, ts, avg(amount) AS average FROM sales GROUP BY ALL","throttle":"0s"}`, nil)
	s.sell(20*time.Minute, 3)
	s.sell(21*time.Minute, 4)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/states")))
	see(t, ctx, "#panel-0", "There is no view no_such_view")
	see(t, ctx, "#panel-1", "The newest row is of")
	see(t, ctx, "#panel-2", "can’t be put together")
	see(t, ctx, "#panel-3", "no_such_column")
	see(t, ctx, "#panel-3", "Try again")
	see(t, ctx, "#panel-4 strong", "bold")
	if n := eval[int](t, ctx, `document.querySelectorAll("#panel-4 script, #panel-4 a[href^=javascript]").length`); n != 0 {
		t.Error("Markdown became a script")
	}
	// What is empty offers where there is something; what was missing fills by itself.
	do(t, ctx, chromedp.Click(chromedp.CSS("#panel-1 .to-newest")))
	see(t, ctx, "#panel-1 tbody", "north")
	s.must("PUT", "/v1/views/no_such_view", `{"sql":"SELECT count(*) AS n FROM sales","throttle":"0s"}`, nil)
	see(t, ctx, "#panel-0 .stat-value", "5")
}

func TestFromStreamToPanelByKeyboardAlone(t *testing.T) {
	t.Parallel()
	s := shops(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/streams/sales")))
	tabTo(t, ctx, `a[href^="/new"]`)
	press(t, ctx, kb.Enter)
	see(t, ctx, "#build-check", "This can run")
	tabTo(t, ctx, `#build [name=measure]`)
	press(t, ctx, "sum")
	tabTo(t, ctx, `#build [name=of]`)
	tabTo(t, ctx, `#build [name=group][value=shop]`)
	press(t, ctx, " ")
	become(t, ctx, `/sum\("amount"\)/.test(document.querySelector("#build [name=sql]").value) && /"shop"/.test(document.querySelector("#build [name=sql]").value)`)
	see(t, ctx, "#build-check", "Columns: window_start, shop, amount")
	tabTo(t, ctx, `#build .primary`)
	press(t, ctx, kb.Enter)
	see(t, ctx, "#built", "is made")
	tabTo(t, ctx, `.put-panel .primary`)
	press(t, ctx, kb.Enter)
	become(t, ctx, `location.pathname.startsWith("/d/sales_sum")`)
	see(t, ctx, "#panel-0 .legend", "west")

	// Panels are ordered by keyboard too, and Save keeps it.
	before := eval[string](t, ctx, `document.querySelector("#board .panel").getAttribute("aria-label")`)
	press(t, ctx, "e")
	see(t, ctx, "#editing", "Add a panel")
	tabTo(t, ctx, `#panel-0 [data-tool=later]`)
	press(t, ctx, kb.Enter)
	become(t, ctx, fmt.Sprintf(`document.querySelector("#board .panel").getAttribute("aria-label") !== %q`, before))
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`document.querySelector("#editing input").focus()`))
	tabTo(t, ctx, `#editing .save`)
	press(t, ctx, kb.Enter)
	s.eventually("the order is kept", func() error {
		_, body := s.call("GET", "/v1/dashboards/"+strings.TrimPrefix(eval[string](t, ctx, `location.pathname`), "/d/"), "")
		var d struct{ Panels []struct{ ID string } }
		if err := json.Unmarshal(body, &d); err != nil || len(d.Panels) < 2 || d.Panels[1].ID != "timeseries" {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
}

// The names of streams and columns may be words of SQL.
func TestTheFormMakesAViewOfAStreamNamedOrder(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/order", `{"time_field":"end","columns":{"end":"TIMESTAMP","group":"VARCHAR","sum of \"it\"":"DOUBLE"}}`, nil)
	s.must("POST", "/v1/streams/order/events", fmt.Sprintf(`{"end":%q,"group":"a","sum of \"it\"":41.5}`, time.Now().UTC().Format(time.RFC3339)), nil)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/new")))
	become(t, ctx, `document.querySelector("#build [name=group]")`)
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`(() => {
		const f = document.getElementById("build");
		const choose = (e, v) => { e.value = v; e.dispatchEvent(new Event("input", { bubbles: true })); };
		choose(f.elements.measure, "sum");
		f.querySelector("[name=group]").click();
	})()`))
	see(t, ctx, "#build-check", `Columns: window_start, group, sum of "it"`)
	see(t, ctx, "#build-preview", "41.5")
	do(t, ctx, chromedp.Click(chromedp.CSS("#build .primary")), chromedp.WaitVisible(chromedp.CSS(".put-panel .primary")), chromedp.Click(chromedp.CSS(".put-panel .primary")))
	become(t, ctx, `location.pathname.startsWith("/d/")`)
	become(t, ctx, `document.querySelectorAll("#board .panel").length >= 4 && !document.querySelector("#board .state, #board .skeleton")`)
	see(t, ctx, "#board", "41.5")
}

func TestDeadLetterIsMendedAndSentAgain(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.must("POST", "/v1/streams/sales/events", `{"ts":"yesterday","shop":"north","amount":7}`, nil)
	do(t, ctx, chromedp.Navigate(s.url("/dead-letters")))
	see(t, ctx, ".letters", "not a timestamp")
	do(t, ctx, chromedp.Click(chromedp.CSS(".letters summary")), chromedp.WaitVisible(chromedp.CSS(".letters textarea")),
		chromedp.SetValue(chromedp.CSS(".letters textarea"), `{"ts":"tomorrow","shop":"north","amount":7}`),
		chromedp.Click(chromedp.CSS(".letters .primary")))
	become(t, ctx, `document.querySelector(".letters .answer").textContent === 'ts: not a timestamp: "tomorrow"'`)
	do(t, ctx, chromedp.SetValue(chromedp.CSS(".letters textarea"), `{"ts":"2026-01-01T10:00:00Z","shop":"north","amount":7}`),
		chromedp.Click(chromedp.CSS(".letters .primary")))
	see(t, ctx, ".letters", "Appended")
	s.settle("total")
	if rows := s.rows("total", ""); fmt.Sprint(rows[0]["n"]) != "1" {
		t.Errorf("the view has %v", rows)
	}
}

func TestPassportTellsChangesAndEventsOfACorrectedRow(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(5*time.Minute, 40)
	s.sell(time.Minute, 1)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, tableBody, "final")
	see(t, ctx, "#panel-2 .panel-foot", "complete to")
	s.sell(5*time.Minute, 2)
	see(t, ctx, "#panel-2 .panel-foot", "1 corrected")
	do(t, ctx, chromedp.Click(chromedp.CSS("#panel-2 .panel-foot .corrected")), chromedp.WaitVisible(chromedp.CSS("#passport .changes")))
	see(t, ctx, "#passport", "Corrected after they were final")
	see(t, ctx, "#passport-held", "sales, partition 0")
	do(t, ctx, chromedp.Click(chromedp.CSS("#passport .changes")))
	see(t, ctx, "#passport .ledger", "40")
	see(t, ctx, "#passport .ledger", "42")
	do(t, ctx, chromedp.Click(chromedp.CSS("#passport .events")))
	see(t, ctx, "#passport .told", "2 events")
	see(t, ctx, "#passport .told", "0/0")
	see(t, ctx, "#passport .told", "0/2")
}

func TestWhatAFileKeepsIsNotOfferedForEditing(t *testing.T) {
	t.Parallel()
	s := till(t)
	file := filepath.Join(t.TempDir(), "shop.yaml")
	text := "dashboards:\n  kept:\n    title: Kept\n    panels:\n      - {id: total, type: stat, view: total, y: [amount]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 changed", "0 to change"} {
		out, err := tidemark(t.Context(), "apply", file, "--server", s.url("")).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("apply: %v\n%s", err, out)
		}
	}
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/kept")))
	see(t, ctx, ".head .badge", "read-only: shop.yaml")
	if eval[bool](t, ctx, `!!document.getElementById("edit")`) {
		t.Error("the page offers to edit what a file keeps")
	}
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, "#edit", "Edit")
}
