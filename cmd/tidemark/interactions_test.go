package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestPickerTakesPresetsInstantsAndZones(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(2*time.Minute, 10)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, tableBody, "10")
	hour := func() string {
		return eval[string](t, ctx, `document.querySelector("`+tableBody+` td").textContent.slice(0, 2)`)
	}
	utc := hour()

	press(t, ctx, "t")
	become(t, ctx, `document.activeElement.name === "typed"`)
	do(t, ctx, chromedp.SetValue(chromedp.CSS("#range [name=zone]"), "Mars/Olympus"))
	press(t, ctx, kb.Enter)
	see(t, ctx, "#range .wrong", "no time zone")
	do(t, ctx, chromedp.SetValue(chromedp.CSS("#range [name=zone]"), "Asia/Kolkata"))
	press(t, ctx, kb.Enter)
	become(t, ctx, `location.search.includes("tz=Asia") && !document.getElementById("range").open`)
	see(t, ctx, "#range summary", "Asia/Kolkata")
	become(t, ctx, fmt.Sprintf(`document.querySelector("%s td").textContent.slice(0, 2) !== %q`, tableBody, utc))
	kolkata := hour()
	do(t, ctx, chromedp.Reload())
	see(t, ctx, "#range summary", "Asia/Kolkata")
	become(t, ctx, fmt.Sprintf(`document.querySelector("%s td")?.textContent.slice(0, 2) === %q`, tableBody, kolkata))

	// Yesterday lies still, and today moves.
	press(t, ctx, "t")
	do(t, ctx, chromedp.Click(chromedp.CSS(`#range [data-range=yesterday]`)))
	become(t, ctx, `/range=\d{4}-/.test(location.search)`)
	see(t, ctx, "#pause", "Live")
	press(t, ctx, "t")
	do(t, ctx, chromedp.Click(chromedp.CSS(`#range [data-range=today]`)))
	become(t, ctx, `/range=[^&]*now/.test(location.search)`)
	see(t, ctx, "#pause", "Pause")

	press(t, ctx, "t")
	become(t, ctx, `document.activeElement.name === "typed"`)
	do(t, ctx, chromedp.SetValue(chromedp.CSS("#range [name=typed]"), "tomorrow"))
	press(t, ctx, kb.Enter)
	see(t, ctx, "#range .wrong", "now-6h")
	do(t, ctx, chromedp.SetValue(chromedp.CSS("#range [name=from]"), "2026-01-01T10:00"), chromedp.SetValue(chromedp.CSS("#range [name=to]"), "2026-01-01T09:00"), chromedp.Click(chromedp.CSS("#range [data-absolute]")))
	see(t, ctx, "#range .wrong", "must lie before")
	do(t, ctx, chromedp.SetValue(chromedp.CSS("#range [name=to]"), "2026-01-01T11:30"), chromedp.Click(chromedp.CSS("#range [data-absolute]")))
	become(t, ctx, `decodeURIComponent(location.search).includes("2026-01-01T04:30:00Z,2026-01-01T06:00:00Z")`)
	see(t, ctx, "#pause", "Live")
}

func TestKeysDoWhatTheHelpSays(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(2*time.Minute, 10)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, totalValue, "10")
	press(t, ctx, "?")
	become(t, ctx, `document.getElementById("keys").open`)
	press(t, ctx, kb.Escape)
	become(t, ctx, `!document.getElementById("keys").open`)
	press(t, ctx, "/")
	become(t, ctx, `document.activeElement.id === "search"`)
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`document.getElementById("search").value = ""`), chromedp.SendKeys(chromedp.CSS("#search"), "minut")) // the driver types the slash too
	become(t, ctx, `document.querySelectorAll(".panel.unlike").length === 2`)
	press(t, ctx, kb.Enter)
	become(t, ctx, `document.activeElement.id === "panel-2"`)
	do(t, ctx, chromedp.Focus(chromedp.CSS("#search")))
	press(t, ctx, kb.Escape)
	become(t, ctx, `document.getElementById("search").hidden && !document.querySelector(".panel.unlike")`)
	do(t, ctx, chromedp.Focus(chromedp.CSS("#panel-0")))
	press(t, ctx, "r")
	see(t, ctx, totalValue, "10")
	press(t, ctx, "p")
	see(t, ctx, "#pause", "Live")
	press(t, ctx, "e")
	see(t, ctx, "#editing", "Add a panel")
}

func TestNotesStandOnTheCharts(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	s.sell(2*time.Minute, 10)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")))
	see(t, ctx, chartBody+" .legend", "10")
	do(t, ctx, chromedp.Click(chromedp.CSS("#note")), chromedp.WaitVisible(chromedp.CSS("dialog.notes")))
	see(t, ctx, "dialog.notes", "No note in this range")
	do(t, ctx, chromedp.SendKeys(chromedp.CSS("dialog.notes [name=text]"), "deploy <b>42</b>"+kb.Enter))
	see(t, ctx, "dialog.notes ul", "deploy <b>42</b>")
	do(t, ctx, chromedp.Click(chromedp.CSS("dialog.notes .close")))
	see(t, ctx, chartBody+" .flag", "deploy <b>42</b>")

	// Others see it without a reload, and it is gone when it is taken away.
	do(t, ctx, chromedp.Reload())
	see(t, ctx, chartBody+" .flag", "deploy")
	do(t, ctx, chromedp.Focus(chromedp.CSS(chartBody+" .flag")))
	// Who stands on a flag stays there when the chart is built anew, as for another theme.
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.canvas = document.querySelector("#panel-1 canvas"); document.documentElement.dataset.theme = "dark"`))
	become(t, ctx, `document.querySelector("#panel-1 canvas") !== window.canvas && document.activeElement.matches(".flag")`)
	press(t, ctx, kb.Enter)
	do(t, ctx, chromedp.WaitVisible(chromedp.CSS("dialog.notes .note-list button")), chromedp.Click(chromedp.CSS("dialog.notes .note-list button")))
	see(t, ctx, "dialog.notes", "No note in this range")
	press(t, ctx, kb.Escape)
	become(t, ctx, `!document.querySelector(".flag")`)
}

func TestALinkHoldsEverythingAndMayBeFrozen(t *testing.T) {
	t.Parallel()
	s := shops(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/shops?f.shop=%22south%22&compare=previous")))
	see(t, ctx, topBody, "south")
	do(t, ctx, chromedp.Click(chromedp.CSS("#share")), chromedp.WaitVisible(chromedp.CSS("dialog.share .address")))
	address := `document.querySelector("dialog.share .address").value`
	if got := eval[string](t, ctx, address); !strings.Contains(got, "f.shop=%22south%22") || !strings.Contains(got, "compare=previous") || strings.Contains(got, "range=") {
		t.Errorf("the moving link is %s", got)
	}
	do(t, ctx, chromedp.Click(chromedp.CSS("dialog.share [name=frozen]")))
	frozen := eval[string](t, ctx, address)
	if !strings.Contains(frozen, "range=20") {
		t.Fatalf("the frozen link is %s", frozen)
	}
	do(t, ctx, chromedp.Navigate(frozen))
	see(t, ctx, "#pause", "Live")
	see(t, ctx, "#filters", "shop = south")
	become(t, ctx, `document.querySelector("`+topBody+` .bars") && !document.querySelector("`+topBody+`").textContent.includes("west")`)
	if !eval[bool](t, ctx, `document.getElementById("compare").getAttribute("aria-pressed") === "true"`) {
		t.Error("the comparison is lost")
	}
}

func TestTablesAreSortedAndSavedAsCSV(t *testing.T) {
	t.Parallel()
	s := shops(t)
	s.must("POST", "/v1/streams/sales/events", fmt.Sprintf(`{"ts":%q,"shop":"=1+1","amount":5}`, time.Now().UTC().Add(-9*time.Minute).Format(time.RFC3339)), nil)
	s.must("PUT", "/v1/dashboards/table", `{"title":"T","range":"now-1h","panels":[{"id":"t","title":"All shops","type":"table","view":"by_shop","x":"window_start","y":["amount"],"grid":[0,0,8,6]}]}`, nil)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/table")), chromedp.Evaluate[chromedp.Void](`URL.createObjectURL = (b) => { b.text().then((t) => window.saved = t); return "data:,"; }`))
	see(t, ctx, "#panel-0 .sort", "window start") // the script has taken over
	first := `document.querySelector("#panel-0 tbody td:nth-child(3)").textContent`
	do(t, ctx, chromedp.Click(chromedp.CSS(`#panel-0 [data-sort=amount]`)))
	become(t, ctx, first+` === "30"`)
	do(t, ctx, chromedp.Click(chromedp.CSS(`#panel-0 [data-sort=amount]`)))
	become(t, ctx, first+` === "5"`)
	do(t, ctx, chromedp.Click(chromedp.CSS(`#panel-0 .csv`)))
	become(t, ctx, `window.saved`)
	got := eval[string](t, ctx, `window.saved`)
	if !strings.HasPrefix(got, "window_start,shop,amount,status\r\n") || !strings.Contains(got, ",'=1+1,5,") || strings.Count(got, "\r\n") != 5 {
		t.Errorf("the CSV is %q", got)
	}
}
