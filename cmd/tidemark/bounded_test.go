package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A panel without a range or a limit holds a part of a large view and says so; a total is never made
// of a part.
func TestPanelsOfALargeViewAreBoundedAndSaySo(t *testing.T) {
	t.Parallel()
	s := till(t)
	s.must("PUT", "/v1/views/by_shop", `{"sql":"SELECT shop, sum(amount) AS amount FROM sales GROUP BY shop","throttle":"0s"}`, nil)
	s.must("PUT", "/v1/dashboards/large", `{"title":"Large","range":"now-1h","panels":[
		{"id":"table","title":"Table","type":"table","view":"by_shop","y":["amount"],"grid":[0,0,6,4]},
		{"id":"top","title":"Top","type":"toplist","view":"by_shop","y":["amount"],"series":"shop","grid":[6,0,6,4]},
		{"id":"total","title":"All","type":"stat","view":"by_shop","y":["amount"],"grid":[0,4,3,2]},
		{"id":"bars","title":"Bars","type":"bar","view":"by_shop","x":"shop","y":["amount"],"grid":[3,4,9,4]},
		{"id":"some","title":"Some","type":"toplist","view":"by_shop","y":["amount"],"series":"shop","where":"shop < 'shop 0005'","grid":[0,8,6,4]}]}`, nil)
	var batch []string
	sum := 0
	for i := range 1234 {
		batch = append(batch, fmt.Sprintf(`{"ts":"2024-01-01T00:00:00Z","shop":"shop %04d","amount":%d}`, i, 1000+i))
		sum += 1000 + i
	}
	s.must("POST", "/v1/streams/sales/events", "["+strings.Join(batch, ",")+"]", nil)
	s.settle("by_shop")
	if _, page := s.call("GET", "/d/large", ""); !strings.Contains(string(page), `<div class="stat-value">–</div>`) {
		t.Error("before its script runs, the page shows one row as if it were the total")
	}
	ctx := browse(t)
	eavesdrop(t, ctx)
	do(t, ctx, chromedp.Navigate(s.url("/d/large")))
	see(t, ctx, "#panel-0 .panel-foot", "showing 200 of 1,234")
	if got := eval[int](t, ctx, `document.querySelectorAll("#panel-0 tbody tr").length`); got != 200 {
		t.Errorf("the table has %d rows", got)
	}
	see(t, ctx, "#panel-1 .bars li", "shop 1233")
	see(t, ctx, "#panel-1 .rest", "and 1,224 more")
	if eval[bool](t, ctx, `!!document.querySelector("#panel-1 .share")`) {
		t.Error("a share of a total that is not known")
	}
	if got := eval[string](t, ctx, `document.querySelector("#panel-2 .stat-value").title`); got != fmt.Sprint(sum) {
		t.Errorf("the total is %s, not %d", got, sum)
	}
	see(t, ctx, "#panel-3 .legend", "the largest 40 of 1,234")
	see(t, ctx, "#panel-4 .share", "20 %") // five rows: all are here, so their shares are
	// Another order asks for the first rows in it.
	do(t, ctx, chromedp.Click(chromedp.CSS(`#panel-0 [data-sort=amount]`)))
	see(t, ctx, "#panel-0 tbody tr", "shop 1233")
	see(t, ctx, "#panel-0 .panel-foot", "showing 200 of 1,234")
	do(t, ctx, chromedp.Click(chromedp.CSS(`#panel-0 [data-sort=amount]`)))
	see(t, ctx, "#panel-0 tbody tr", "shop 0000")
	// The largest of all comes to the top also when it was not among those shown.
	s.must("POST", "/v1/streams/sales/events", `{"ts":"2024-01-01T00:00:00Z","shop":"shop 0007","amount":90000}`, nil)
	see(t, ctx, "#panel-1 .bars li", "shop 0007")
	if got := eval[int](t, ctx, `Math.max(...window.asked.filter((x) => x.to === "by_shop" && x.limit).map((x) => x.limit))`); got != 201 {
		t.Errorf("a panel asks for %d rows", got)
	}
	// What can't be put together in a page is not put together.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.mute = true; {
		const ask = window.asked.find((x) => x.to === "by_shop" && !x.limit && !x.where);
		const rows = Array.from({ length: 50001 }, (_, i) => ({ shop: "s" + i, amount: 1 }));
		for (const a of window.asked.filter((x) => x.to === "by_shop" && !x.limit && !x.where))
			a.socket.hear({ data: JSON.stringify({ type: "snapshot", id: a.id, position: "c", rows, statuses: [] }) });
	} void 0`))
	see(t, ctx, "#panel-2", "More than 50,000 rows")
	see(t, ctx, "#panel-2", "wrong total")
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.mute = false`), chromedp.Click(chromedp.CSS("#panel-2 .retry")))
	become(t, ctx, fmt.Sprintf(`document.querySelector("#panel-2 .stat-value")?.title === "%d"`, sum+90000))
	if found := faults(t, ctx, readAxe(t)); found != "" {
		t.Errorf("axe-core: %s", found)
	}
}
