package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/web/api"
	"tidemark/web/auth"
	"tidemark/web/ui"
	"tidemark/windows/runtime"
)

// panel is a panel's definition with what the script needs besides.
type panel struct {
	api.Panel
	Columns []ui.Column `json:"columns,omitempty"`
}

func (d Deps) dashboard(c *fiber.Ctx) (content, error) {
	name := strings.Clone(c.Params("name"))
	b, doc, err := d.board(name)
	if err != nil {
		return content{}, err
	}
	b.MayEdit = auth.Of(c).Has(auth.Admin)
	span := b.Range
	if asked := c.Query("range"); asked != "" {
		span = strings.Clone(asked)
	}
	d.panels(c.UserContext(), &b, doc, span)
	return content{title: b.Title, section: "d/" + name, draw: func(nonce string) templ.Component { return ui.DashboardPage(nonce, b) }}, nil
}

// board is the view model of a dashboard but for its panels.
func (d Deps) board(name string) (b ui.Dashboard, doc api.Dashboard, err error) {
	e, ok := d.Definitions.Get(catalog.Dashboard, name)
	if !ok {
		return b, doc, problem.New(404, "unknown_dashboard", "there is no dashboard %q", name).
			WithHint("PUT /v1/dashboards/%s makes one; the overview lists those there are", name)
	}
	if err := json.Unmarshal(e.Doc, &doc); err != nil {
		return b, doc, err
	}
	notes, err := json.Marshal(append([]api.Annotation{}, api.AnnotationsOf(d.Definitions, name)...))
	if err != nil {
		return b, doc, err
	}
	return ui.Dashboard{
		Name: name, Title: doc.Title, Range: cmp.Or(doc.Range, "now-1h"), TZ: cmp.Or(doc.TZ, "UTC"), Doc: string(e.Doc), Tag: api.TagOf(e.Doc), Managed: doc.Managed, Annotations: string(notes),
	}, doc, nil
}

// panels adds the panels, with what they show at first.
func (d Deps) panels(ctx context.Context, b *ui.Dashboard, doc api.Dashboard, span string) {
	tz, err := time.LoadLocation(b.TZ)
	if err != nil {
		tz = time.UTC
	}
	for i, p := range doc.Panels {
		b.Panels = append(b.Panels, d.panel(ctx, p, i, span, tz))
	}
}

// panel makes the view model of a panel. A view that can't be read now leaves the panel to its
// script, which tells why.
func (d Deps) panel(ctx context.Context, def api.Panel, i int, span string, tz *time.Location) ui.Panel {
	out := ui.Panel{ID: def.ID, Title: def.Title, Type: def.Type, Unit: def.Unit}
	out.Grid = [4]int{(i % 2) * 6, (i / 2) * 4, 6, 4}
	if len(def.Grid) == 4 {
		copy(out.Grid[:], def.Grid)
	}
	if len(def.Y) > 0 {
		out.Measure = def.Y[0]
	}
	p := panel{Panel: def}
	if def.Type == "text" {
		out.HTML = ui.Markdown(def.Text)
	} else if info, err := d.Views.Get(def.View); err == nil && def.Type != "alerts" {
		p.Columns = d.seen(ctx, info)
		switch def.Type {
		case "stat", "table", "toplist", "bar":
			if def.Range != "" {
				span = def.Range
			}
			out.First = d.first(ctx, info, def, span, tz)
		}
	}
	out.Config = p
	return out
}

// seen are the columns of a view that who looks may see.
func (d Deps) seen(ctx context.Context, info runtime.Info) []ui.Column {
	all := columnsOf(info)
	l := auth.From(ctx).Link()
	if l == nil || d.Shown == nil {
		return all
	}
	shown, err := d.Shown(l, info.Name)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(c ui.Column) bool { return !slices.Contains(shown, c.Name) })
}

// mostFirst is how many rows of a panel stand in the page itself.
const mostFirst = 200

// first is what a panel shows before its script runs: the rows of its range, the newest of them last
// for a stat.
func (d Deps) first(ctx context.Context, info runtime.Info, def api.Panel, span string, tz *time.Location) ui.Table {
	q := runtime.RowsQuery{Where: def.Where, Order: def.Order, Limit: def.Limit}
	if def.X != "" {
		x := `"` + strings.ReplaceAll(def.X, `"`, `""`) + `"`
		if from, to, err := auth.Span(span, time.Now()); err == nil && isTime(info, def.X) {
			in := x + " >= " + timestamp(from)
			if strings.Contains(span, ",") {
				in += " AND " + x + " < " + timestamp(to)
			}
			if q.Where = in; def.Where != "" {
				q.Where = "(" + def.Where + "\n) AND " + in
			}
		}
		if def.Type == "stat" {
			q.Order = x + " DESC"
		}
	}
	if def.Type == "stat" {
		q.Limit = 2 // a second row tells that the first is not the whole number
	}
	if q.Limit <= 0 || q.Limit > mostFirst {
		q.Limit = mostFirst
	}
	if l := auth.From(ctx).Link(); l != nil && d.Narrow != nil {
		var err error
		if q.Where, err = d.Narrow(l, info.Name, q.Where); err != nil {
			return ui.Table{}
		}
	}
	a, err := d.Views.Rows(ctx, info.Name, q)
	if err != nil {
		return ui.Table{}
	}
	t := ui.Table{Columns: columnsOf(info)}
	if def.Type == "stat" && a.Rows.Len > 0 {
		if !alone(a.Rows, columnOf(info, def.X)) {
			return ui.Table{} // the script puts them together, if that may be
		}
		a.Rows.Len = 1
	}
	for i := range a.Rows.Len {
		r := ui.Row{Status: a.Status[i].String()}
		for j, v := range a.Rows.Cols {
			unit := ""
			if t.Columns[j].Measure {
				unit = def.Unit
			}
			r.Cells = append(r.Cells, shown(v, i, unit, tz))
		}
		t.Rows = append(t.Rows, r)
	}
	var seen []string
	for _, c := range d.seen(ctx, info) {
		seen = append(seen, c.Name)
	}
	if len(seen) == 0 {
		return ui.Table{}
	}
	t = pick(t, seen)
	names := append([]string{def.X, def.Series}, def.Y...)
	for _, c := range t.Columns {
		if def.Type == "table" && (!c.Measure || len(def.Y) == 0) {
			names = append(names, c.Name)
		}
	}
	return pick(t, names)
}

// alone says whether the first row stands by itself at its instant; x is the column of time, −1 without
// one.
func alone(rows *row.Batch, x int) bool {
	return rows.Len < 2 || x >= 0 && row.TextOf(rows.Cols[x], 0) != row.TextOf(rows.Cols[x], 1)
}

// columnOf is the place of a column, or −1.
func columnOf(info runtime.Info, name string) int {
	return slices.IndexFunc(info.Columns, func(c runtime.Column) bool { return strings.EqualFold(c.Name, name) })
}

func isTime(info runtime.Info, column string) bool {
	for _, c := range info.Columns {
		if strings.EqualFold(c.Name, column) {
			return c.Type == "TIMESTAMP"
		}
	}
	return false
}

func timestamp(at time.Time) string {
	return "TIMESTAMP '" + at.UTC().Format("2006-01-02 15:04:05.000000") + "'"
}
