package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/web/auth"
)

// Dashboards: PUT, GET and DELETE /v1/dashboards/{name}, GET /v1/dashboards.

// Dashboard is a page of panels.
type Dashboard struct {
	Title string `json:"title"`
	// Range is what the panels show, such as "now-6h", or "from,to".
	Range string `json:"range,omitempty"`
	TZ    string `json:"tz,omitempty"`
	// Managed names what keeps the definition, such as a file that is applied: the page does not
	// offer to change it.
	Managed string  `json:"managed,omitempty"`
	Panels  []Panel `json:"panels"`
}

// Panel is one chart, table or text of a dashboard.
type Panel struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	Type  string `json:"type"`
	// View is the view, stream or alert that it shows; of text none.
	View    string   `json:"view,omitempty"`
	X       string   `json:"x,omitempty"`
	Y       []string `json:"y,omitempty"`
	Series  string   `json:"series,omitempty"`
	Where   string   `json:"where,omitempty"`
	Order   string   `json:"order,omitempty"`
	Limit   int      `json:"limit,omitempty"`
	Compare string   `json:"compare,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Range   string   `json:"range,omitempty"`
	// Style of a timeseries: line, area, stacked or bars; of a bar: stacked, or nothing.
	Style string `json:"style,omitempty"`
	Text  string `json:"text,omitempty"`
	// Grid is column, row, width and height on a grid of 12 columns.
	Grid []int `json:"grid,omitempty"`
}

// PanelTypes are the types of panels.
var PanelTypes = []string{"timeseries", "stat", "toplist", "table", "bar", "heatmap", "histogram", "feed", "alerts", "text"}

// PanelStyles are the ways to draw a timeseries.
var PanelStyles = []string{"line", "area", "stacked", "bars"}

const (
	maxPanels   = 100
	gridColumns = 12
	maxGridRow  = 10_000
)

func (e *endpoints) putDashboard(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.Dashboard)
	if err != nil {
		return err
	}
	var d Dashboard
	if err := decode(c, &d, `send {"title":"Shop","panels":[{"id":"rev","type":"timeseries","view":"revenue","x":"window_start","y":["revenue"]}]}`); err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	if d.Panels == nil {
		d.Panels = []Panel{}
	}
	doc, err := json.Marshal(d)
	if err != nil {
		return err
	}
	e.boards.Lock()
	defer e.boards.Unlock()
	was, exists := e.Dashboards.Get(catalog.Dashboard, n)
	if asked := c.Get(fiber.HeaderIfMatch); asked != "" && (!exists || asked != "*" && asked != TagOf(was.Doc)) {
		return problem.New(412, "changed_meanwhile", "the dashboard %s is not the one that the change was made to", n).
			WithHint("GET it, make the change to what it is now, and send that under its ETag; without If-Match it replaces whatever is there")
	}
	entry, err := e.Dashboards.Put(catalog.Dashboard, n, doc, 0)
	if err != nil {
		return err
	}
	if exists && e.Links != nil && !bytes.Equal(was.Doc, doc) {
		e.Links.DashboardChanged(n)
	}
	answer, err := showDashboard(entry)
	if err != nil {
		return err
	}
	answer.Warnings = e.missing(&d)
	c.Set(fiber.HeaderETag, TagOf(doc))
	return created(c, !exists, answer)
}

// missing says which panels show what is not there yet. It is no mistake: the view may come later.
func (e *endpoints) missing(d *Dashboard) []string {
	var out []string
	for _, p := range d.Panels {
		if e.Exists != nil && p.View != "" && !e.Exists(p.View) {
			out = append(out, "panel "+p.ID+": there is no "+p.View+" yet")
		}
	}
	return out
}

// check returns a problem 422 that names every mistake.
func (d *Dashboard) check() error {
	var wrong []string
	add := func(what string, ok bool) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	add("title: it is empty", strings.TrimSpace(d.Title) != "")
	add("title: it has more than 200 bytes", len(d.Title) <= 200)
	add("range: write now-6h, or two instants with a comma", isRange(d.Range))
	if d.TZ != "" {
		_, err := time.LoadLocation(d.TZ)
		add("tz: "+d.TZ+" is no time zone; write UTC or Europe/Berlin", err == nil)
	}
	add("managed: it has more than 200 bytes", len(d.Managed) <= 200)
	add("panels: at most 100", len(d.Panels) <= maxPanels)
	seen := map[string]bool{}
	for i := range d.Panels {
		p := &d.Panels[i]
		at := "panel " + p.ID + ": "
		add("a panel has no id", p.ID != "")
		add(at+"the id has more than 64 bytes", len(p.ID) <= 64)
		add(at+"another panel has the same id", !seen[p.ID])
		seen[p.ID] = true
		p.check(func(what string, ok bool) { add(at+what, ok) })
	}
	if len(wrong) == 0 {
		return nil
	}
	return problem.New(422, "bad_dashboard", "%s", strings.Join(wrong, "; ")).WithHint("mend these and send the dashboard again")
}

func (p *Panel) check(add func(what string, ok bool)) {
	add("type is "+p.Type+"; it is one of "+strings.Join(PanelTypes, " "), slices.Contains(PanelTypes, p.Type))
	if p.Type == "text" {
		add("a text panel has text", p.Text != "")
	} else {
		add("view is missing", p.View != "")
		add("view "+p.View+" can't be the name of one", p.View == "" ||
			catalog.CheckName(catalog.Stream, strings.TrimPrefix(p.View, "late_")) == nil)
	}
	if p.Type == "timeseries" || p.Type == "bar" || p.Type == "heatmap" {
		add("x is missing", p.X != "")
	}
	if p.Type == "timeseries" || p.Type == "bar" || p.Type == "stat" || p.Type == "toplist" || p.Type == "heatmap" {
		add("y is missing", len(p.Y) > 0)
	}
	add("style is "+p.Style+"; it is one of "+strings.Join(PanelStyles, " "), p.Style == "" || slices.Contains(PanelStyles, p.Style))
	add("limit is below 0", p.Limit >= 0)
	add("compare is previous or nothing", p.Compare == "" || p.Compare == "previous")
	add("range: write now-6h, or two instants with a comma", isRange(p.Range))
	if p.Grid == nil {
		return
	}
	if len(p.Grid) != 4 {
		add("grid has four numbers: column, row, width, height", false)
		return
	}
	x, y, w, h := p.Grid[0], p.Grid[1], p.Grid[2], p.Grid[3]
	add("grid: it does not fit 12 columns", x >= 0 && w >= 1 && x <= gridColumns && w <= gridColumns && x+w <= gridColumns)
	add("grid: row or height can't be", y >= 0 && h >= 1 && y <= maxGridRow && h <= maxGridRow)
}

// isRange reports whether a text is a range of time: now-6h, or from,to; empty is the default.
func isRange(text string) bool {
	if text == "" {
		return true
	}
	from, to, two := strings.Cut(text, ",")
	return isInstant(from) && (!two || isInstant(to))
}

func isInstant(text string) bool {
	if rest, relative := strings.CutPrefix(text, "now"); relative {
		span, back := strings.CutPrefix(rest, "-")
		_, err := stream.ParseDuration(span)
		return rest == "" || back && err == nil
	}
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

func (e *endpoints) getDashboard(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	entry, err := e.dashboard(c)
	if err != nil {
		return err
	}
	answer, err := showDashboard(entry)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderETag, TagOf(entry.Doc))
	return c.JSON(answer)
}

// TagOf names what a dashboard's definition is now: a PUT under If-Match replaces that, and nothing newer.
func TagOf(doc []byte) string {
	sum := sha256.Sum256(doc)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// maySee returns a problem 403 when a key with patterns is not for all that a dashboard shows: its
// conditions and words tell of that too. A link is held to its dashboard elsewhere.
func maySee(who *auth.Principal, entry catalog.Entry) error {
	if who.CoversAll() || who.Link() != nil {
		return nil
	}
	var d Dashboard
	if err := json.Unmarshal(entry.Doc, &d); err != nil {
		return err
	}
	for _, p := range d.Panels {
		if p.View != "" && !who.Covers(p.View) {
			return problem.New(403, "foreign_relation", "the key %q is not for all that the dashboard %s shows", who.Name, entry.Name).
				WithHint("use a key without stream patterns, or have an administrator add a pattern")
		}
	}
	return nil
}

func unknownDashboard(name string) error {
	return problem.New(404, "unknown_dashboard", "there is no dashboard %s", name).WithHint("GET /v1/dashboards lists those that there are")
}

// showDashboard is the definition with its name and dates.
func showDashboard(e catalog.Entry) (*dashboardAnswer, error) {
	d := &dashboardAnswer{Name: e.Name, Created: e.Created, Updated: e.Updated}
	if err := json.Unmarshal(e.Doc, &d.Dashboard); err != nil {
		return nil, err
	}
	return d, nil
}

type dashboardAnswer struct {
	Name string `json:"name"`
	Dashboard
	Warnings []string  `json:"warnings,omitempty"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

func (e *endpoints) listDashboards(c *fiber.Ctx) error {
	all := slices.DeleteFunc(e.Dashboards.List(catalog.Dashboard), func(d catalog.Entry) bool { return maySee(auth.Of(c), d) != nil })
	return list(c, "dashboards", all, func(d catalog.Entry) string { return d.Name },
		func(d catalog.Entry) (any, error) { return showDashboard(d) })
}

func (e *endpoints) deleteDashboard(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.Dashboard)
	if err != nil {
		return err
	}
	e.boards.Lock()
	defer e.boards.Unlock()
	if _, ok := e.Dashboards.Get(catalog.Dashboard, n); !ok {
		return unknownDashboard(n)
	}
	// What belongs to it goes first: a dashboard that is made anew remembers nothing.
	e.notes.Lock()
	defer e.notes.Unlock()
	if _, err := e.Dashboards.Delete(catalog.Notes, n); err != nil {
		return err
	}
	if e.Links != nil {
		for _, l := range e.Links.Links(n) {
			if _, err := e.Links.DeleteLink(n, l.ID); err != nil {
				return err
			}
		}
	}
	was, err := e.Dashboards.Delete(catalog.Dashboard, n)
	if err != nil {
		return err
	}
	if !was {
		return unknownDashboard(n)
	}
	return c.SendStatus(fiber.StatusNoContent)
}
