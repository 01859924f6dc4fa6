package pages

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/web/ui"
	"tidemark/windows/runtime"
)

// panel is a panel's definition as it is kept, and what the script needs besides.
type panel struct {
	ID      string      `json:"id"`
	Title   string      `json:"title"`
	Type    string      `json:"type"`
	View    string      `json:"view,omitempty"`
	X       string      `json:"x,omitempty"`
	Y       []string    `json:"y,omitempty"`
	Series  string      `json:"series,omitempty"`
	Where   string      `json:"where,omitempty"`
	Order   string      `json:"order,omitempty"`
	Limit   int         `json:"limit,omitempty"`
	Unit    string      `json:"unit,omitempty"`
	Style   string      `json:"style,omitempty"`
	Text    string      `json:"text,omitempty"`
	Grid    []int       `json:"grid,omitempty"`
	Columns []ui.Column `json:"columns,omitempty"`
}

func (d Deps) dashboard(c *fiber.Ctx) (content, error) {
	name := strings.Clone(c.Params("name"))
	e, ok := d.Definitions.Get(catalog.Dashboard, name)
	if !ok {
		return content{}, problem.New(404, "unknown_dashboard", "there is no dashboard %q", name).
			WithHint("PUT /v1/dashboards/%s makes one; the overview lists those there are", name)
	}
	var doc struct {
		Title  string
		Range  string
		TZ     string
		Panels []panel
	}
	if err := json.Unmarshal(e.Doc, &doc); err != nil {
		return content{}, err
	}
	b := ui.Dashboard{Name: name, Title: doc.Title, Range: doc.Range, TZ: doc.TZ}
	if asked := c.Query("range"); slices.ContainsFunc(ui.Ranges, func(r ui.Link) bool { return r.Name == asked }) {
		b.Range = strings.Clone(asked)
	}
	if b.Range == "" {
		b.Range = "now-1h"
	}
	if b.TZ == "" {
		b.TZ = "UTC"
	}
	for i, p := range doc.Panels {
		b.Panels = append(b.Panels, d.panel(c.UserContext(), p, i))
	}
	return content{b.Title, "d/" + name, func(nonce string) templ.Component { return ui.DashboardPage(nonce, b) }}, nil
}

// panel makes the view model of a panel. A view that can't be read now leaves the panel to its
// script, which tells why.
func (d Deps) panel(ctx context.Context, p panel, i int) ui.Panel {
	out := ui.Panel{ID: p.ID, Title: p.Title, Type: p.Type, Text: p.Text, Unit: p.Unit}
	out.Grid = [4]int{(i % 2) * 6, (i / 2) * 4, 6, 4}
	if len(p.Grid) == 4 {
		copy(out.Grid[:], p.Grid)
	}
	if len(p.Y) > 0 {
		out.Measure = p.Y[0]
	}
	if info, err := d.Views.Get(p.View); err == nil && p.Type != "alerts" {
		q := runtime.RowsQuery{Where: p.Where, Order: p.Order, Limit: p.Limit}
		if out.First, err = d.table(ctx, info, q); err == nil {
			p.Columns = out.First.Columns
		}
	}
	out.Config = p
	return out
}
