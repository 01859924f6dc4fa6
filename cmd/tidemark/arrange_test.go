package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// point is where the pointer is, in pixels of the page's window.
type point struct{ x, y float64 }

// middle is the point in an element at a share of its width and height.
func middle(t *testing.T, ctx context.Context, selector string, across, down float64) point {
	t.Helper()
	box := eval[[]float64](t, ctx, fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`, selector))
	return point{box[0] + across*box[2], box[1] + down*box[3]}
}

// mouse moves, presses or releases the left button at a point.
func mouse(t *testing.T, ctx context.Context, kind input.DispatchMouseEventType, p point, clicks int64) {
	t.Helper()
	do(t, ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		m := input.DispatchMouseEventParams{Type: kind, X: p.x, Y: p.y, Button: input.MouseButtonLeft, ClickCount: clicks}
		if kind == input.DispatchMouseEventTypeMouseMoved {
			m.Buttons = 1
		}
		_, err := cdp.Call(ctx, target, input.DispatchMouseEvent, m)
		return err
	}))
}

// drag presses at a point, moves on in steps, and calls held before the button is released.
func drag(t *testing.T, ctx context.Context, from, to point, held func()) {
	t.Helper()
	mouse(t, ctx, input.DispatchMouseEventTypeMousePressed, from, 1)
	for i := 1; i <= 8; i++ {
		share := float64(i) / 8
		mouse(t, ctx, input.DispatchMouseEventTypeMouseMoved, point{from.x + share*(to.x-from.x), from.y + share*(to.y-from.y)}, 0)
	}
	if held != nil {
		held()
	}
	mouse(t, ctx, input.DispatchMouseEventTypeMouseReleased, to, 1)
}

// grids are the places of a dashboard's panels, as they are kept.
func (s *server) grids(name string) map[string][]int {
	s.t.Helper()
	var d struct {
		Panels []struct {
			ID   string
			Grid []int
		}
	}
	s.must("GET", "/v1/dashboards/"+name, "", &d)
	out := map[string][]int{}
	for _, p := range d.Panels {
		out[p.ID] = p.Grid
	}
	return out
}

func TestPanelsAreDraggedSizedAndRemovedByPointer(t *testing.T) {
	t.Parallel()
	s := shops(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/shops")))
	see(t, ctx, "#panel-1 .legend", "south")
	before := s.grids("shops")
	press(t, ctx, "e")
	see(t, ctx, "#editing", "Add a panel")
	place := func(id string) string {
		return eval[string](t, ctx, fmt.Sprintf(`document.querySelector("[data-id=%s]").style.gridArea`, id))
	}
	was := place("total")

	// The others make room while the panel is still held.
	drag(t, ctx, middle(t, ctx, "#panel-0 > header h2", 0.5, 0.5), middle(t, ctx, "#panel-2", 0.8, 0.4), func() {
		become(t, ctx, fmt.Sprintf(`document.querySelector("[data-id=total]").style.gridArea !== %q`, was))
		become(t, ctx, `document.querySelector("[data-id=total]").classList.contains("dragged")`)
	})
	become(t, ctx, `!document.querySelector(".dragged")`)
	moved := place("total")
	if moved == was {
		t.Fatal("the panel lies where it lay")
	}

	// Escape takes a drag back.
	drag(t, ctx, middle(t, ctx, "#panel-0 > header h2", 0.5, 0.5), middle(t, ctx, "#panel-1", 0.2, 0.6), func() {
		become(t, ctx, `!!document.querySelector(".dragged")`)
		press(t, ctx, kb.Escape)
		become(t, ctx, `!document.querySelector(".dragged")`)
	})
	if got := place("total"); got != moved {
		t.Errorf("after Escape the panel lies at %s, not %s", got, moved)
	}

	corner := middle(t, ctx, "#panel-1 .corner", 0.5, 0.5)
	drag(t, ctx, corner, point{corner.x - 300, corner.y + 90}, nil)
	become(t, ctx, `!document.querySelector(".dragged")`)
	do(t, ctx, chromedp.Click(chromedp.CSS(`#panel-2 [data-tool=remove]`)))
	become(t, ctx, `!document.querySelector("[data-id=top]")`)
	do(t, ctx, chromedp.Click(chromedp.CSS("#editing .save")))
	become(t, ctx, `document.getElementById("editing")?.hidden && !document.querySelector("[data-id]")`)
	after := s.grids("shops")
	if _, there := after["top"]; there || len(after) != 2 {
		t.Errorf("the removed panel is still kept: %v", after)
	}
	if after["chart"][2] >= before["chart"][2] || after["chart"][3] <= before["chart"][3] {
		t.Errorf("the chart was %v and is %v: it should be narrower and taller", before["chart"], after["chart"])
	}
	see(t, ctx, "#board .legend", "south")
}

// Every kind of panel has something to show, and a change undone is as if it had not been.
func TestAPanelIsAddedWithALivePreviewAndUndone(t *testing.T) {
	t.Parallel()
	s := shops(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/shops")))
	see(t, ctx, "#panel-1 .legend", "south")
	press(t, ctx, "e")
	do(t, ctx, chromedp.Click(chromedp.CSS("#editing .add")), chromedp.WaitVisible(chromedp.CSS(".panel-form [name=type]")))
	for kind, ready := range map[string]string{
		"timeseries": ".preview canvas", "stat": ".preview .stat-value", "toplist": ".preview .bars", "table": ".preview table", "bar": ".preview .plot, .preview canvas",
	} {
		do(t, ctx, chromedp.SetValue(chromedp.CSS(".panel-form [name=type]"), kind), chromedp.Evaluate[chromedp.Void](`document.querySelector(".panel-form [name=type]").dispatchEvent(new Event("change"))`))
		become(t, ctx, fmt.Sprintf(`document.querySelector(".panel-form [name=type]").value === %q && document.querySelector(".preview .panel.%s")`, kind, kind))
		do(t, ctx, chromedp.SetValue(chromedp.CSS(".panel-form [name=view]"), "by_shop"), chromedp.Evaluate[chromedp.Void](`document.querySelector(".panel-form [name=view]").dispatchEvent(new Event("change"))`))
		become(t, ctx, fmt.Sprintf(`document.querySelector(%q)`, ready))
	}
	do(t, ctx, chromedp.Click(chromedp.CSS(".panel-form .ok")))
	become(t, ctx, `document.querySelectorAll("#board > .panel").length === 4`)
	do(t, ctx, chromedp.Click(chromedp.CSS("#editing .undo")))
	become(t, ctx, `document.querySelectorAll("#board > .panel").length === 3`)
	var d json.RawMessage
	s.must("GET", "/v1/dashboards/shops", "", &d)
	if got := len(s.grids("shops")); got != 3 {
		t.Errorf("%d panels are kept though nothing was saved", got)
	}
}

// Of two people who edit one dashboard, the second is told that there is something newer.
func TestWhoSavesOverSomebodyElseIsToldBefore(t *testing.T) {
	t.Parallel()
	s := till(t)
	ctx := browse(t)
	do(t, ctx, chromedp.Navigate(s.url("/d/till")), chromedp.Click(chromedp.CSS("#edit")), chromedp.WaitVisible(chromedp.CSS("#editing .save")))
	s.must("PUT", "/v1/dashboards/till", `{"title":"Theirs","panels":[]}`, nil)
	do(t, ctx, chromedp.Click(chromedp.CSS("#editing .save")))
	see(t, ctx, "#editing .answer", "Somebody else has changed this dashboard")
	var doc struct{ Title string }
	if s.must("GET", "/v1/dashboards/till", "", &doc); doc.Title != "Theirs" {
		t.Fatalf("the dashboard is %q", doc.Title)
	}
	see(t, ctx, "#editing .save", "Save over it")
	do(t, ctx, chromedp.Click(chromedp.CSS("#editing .save")))
	see(t, ctx, "h1", "Till")
	become(t, ctx, `document.getElementById("editing").hidden`)
	s.must("GET", "/v1/dashboards/till", "", &doc)
	if doc.Title != "Till" {
		t.Errorf("the dashboard is %q", doc.Title)
	}
}
