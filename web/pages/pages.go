package pages

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/web/ui"
	"tidemark/windows/runtime"
)

// Streams is what pages read of the registry.
type Streams interface {
	List() []*stream.Stream
	Get(name string) (*stream.Stream, error)
}

// Log is what pages read of the log.
type Log interface {
	Stats(id stream.ID) (stream.Stats, error)
	Slice(id stream.ID, p stream.Partition, from stream.Offset, max int) ([]*stream.Batch, error)
	DeadLetters(id stream.ID, after uint64, limit int) ([]stream.DeadLetter, error)
}

// Views is what pages read of the views; alerts are views too.
type Views interface {
	ListKind(kind catalog.Kind) ([]runtime.Info, error)
	Get(name string) (runtime.Info, error)
	Rows(ctx context.Context, name string, q runtime.RowsQuery) (*runtime.RowsAnswer, error)
	Errors(name, cursor string, limit int) (*runtime.ErrorPage, error)
	LateEvents(name string, offset int64, limit int) (*runtime.LatePage, error)
}

// Definitions is what pages read of the catalog.
type Definitions interface {
	Get(kind catalog.Kind, name string) (catalog.Entry, bool)
	List(kind catalog.Kind) []catalog.Entry
}

// Deps is everything that pages read.
type Deps struct {
	Streams     Streams
	Log         Log
	Views       Views
	Definitions Definitions
	// Demo marks the pages: their data are made up.
	Demo bool
	// Address is what the first curl line names.
	Address string
}

// Mount adds the pages to an app.
func Mount(r fiber.Router, d Deps) {
	r.Get("/assets/*", assets)
	r.Get("/", d.page(d.overview))
	r.Get("/d/:name", d.page(d.dashboard))
	r.Get("/streams/:name", d.page(d.stream))
	r.Get("/views/:name", d.page(d.view))
}

// content is what a page shows, with its title and its place in the navigation.
type content struct {
	title, section string
	draw           func(nonce string) templ.Component
}

// page answers with a whole page around the content.
func (d Deps) page(make func(c *fiber.Ctx) (content, error)) fiber.Handler {
	return func(c *fiber.Ctx) error {
		x, err := make(c)
		if err != nil {
			return err
		}
		return d.send(c, x)
	}
}

// policy is the content security policy of a page; %s is its nonce.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (d Deps) send(c *fiber.Ctx, x content) error {
	var random [16]byte
	_, _ = rand.Read(random[:])
	nonce := base64.RawStdEncoding.EncodeToString(random[:])
	c.Set("Content-Security-Policy", fmt.Sprintf(policy, nonce))
	c.Set(fiber.HeaderContentType, "text/html; charset=utf-8")
	c.Set(fiber.HeaderCacheControl, "no-store")
	frame := ui.Frame{Title: x.title, Section: x.section, Nonce: nonce, Demo: d.Demo, Dashboards: d.dashboards()}
	err := ui.Page(frame, x.draw(nonce)).Render(c.UserContext(), c.Response().BodyWriter())
	if err != nil {
		c.Response().ResetBody()
	}
	return err
}

// ErrorPage answers an error with a page when a browser asks; it reports whether it did.
func (d Deps) ErrorPage(c *fiber.Ctx, p *problem.Problem, requestID string) bool {
	path := c.Path()
	if c.Method() != fiber.MethodGet || strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/assets/") || !strings.Contains(c.Get(fiber.HeaderAccept), "text/html") {
		return false
	}
	hint := p.Hint
	if p.Status >= 500 {
		hint += " (request " + requestID + ")"
	}
	title := "This did not work"
	if p.Status == 404 {
		title = "Nothing here"
	}
	err := d.send(c, content{title: title, draw: func(string) templ.Component { return ui.Problem(title, p.Detail, hint) }})
	return err == nil
}

func assets(c *fiber.Ctx) error {
	body, contentType, immutable, ok := ui.Asset(c.Path())
	if !ok {
		return problem.New(404, "unknown_asset", "there is no such file").WithHint("load the page again")
	}
	c.Set(fiber.HeaderContentType, contentType)
	c.Set(fiber.HeaderCacheControl, "no-cache")
	if immutable {
		c.Set(fiber.HeaderCacheControl, "public, max-age=31536000, immutable")
	}
	return c.Send(body)
}

func (d Deps) dashboards() []ui.Link {
	var list []ui.Link
	for _, e := range d.Definitions.List(catalog.Dashboard) {
		var doc struct{ Title string }
		if json.Unmarshal(e.Doc, &doc) != nil || doc.Title == "" {
			doc.Title = e.Name
		}
		list = append(list, ui.Link{Name: e.Name, Title: doc.Title})
	}
	return list
}

func (d Deps) overview(*fiber.Ctx) (content, error) {
	o := ui.Overview{Address: d.Address}
	for _, s := range d.Streams.List() {
		st, err := d.Log.Stats(s.ID)
		if err != nil {
			continue // deleted meanwhile
		}
		o.Streams = append(o.Streams, ui.StreamLine{Name: s.Name, Accepted: st.Accepted, DeadLetter: st.DeadLetters, Partitions: len(st.Partitions)})
	}
	for _, kind := range []catalog.Kind{catalog.View, catalog.Alert} {
		views, err := d.Views.ListKind(kind)
		if err != nil {
			return content{}, err
		}
		for _, v := range views {
			o.Views = append(o.Views, ui.ViewLine{Name: v.Name, State: string(v.State), Watermark: text(v.Watermark), Lag: v.LagEvents})
		}
	}
	return content{"Overview", "overview", func(string) templ.Component { return ui.OverviewPage(o) }}, nil
}

// text is a text that may be missing.
func text(s *string) string {
	if s == nil {
		return "–"
	}
	return *s
}

// How much a page shows of long lists.
const (
	shownEvents  = 20
	shownLetters = 20
	shownRows    = 100
)

func (d Deps) stream(c *fiber.Ctx) (content, error) {
	s, err := d.Streams.Get(strings.Clone(c.Params("name")))
	if err != nil {
		return content{}, err
	}
	st, err := d.Log.Stats(s.ID)
	if err != nil {
		return content{}, err
	}
	p := ui.StreamPage{Name: s.Name, NoColumns: s.Schema.Uncolumned}
	timeField := s.Config.TimeField
	if timeField == "" {
		timeField = "none: the append time counts"
	}
	p.Facts = []ui.Fact{
		{Name: "events", Value: fmt.Sprint(st.Accepted)},
		{Name: "duplicates", Value: fmt.Sprint(st.Duplicates)},
		{Name: "dead letters", Value: fmt.Sprint(st.DeadLetters)},
		{Name: "time field", Value: timeField},
		{Name: "out of order by", Value: fmt.Sprint(s.Config.MaxOutOfOrderness)},
	}
	for _, f := range s.Schema.Fields {
		p.Columns = append(p.Columns, ui.Column{Name: f.Name, Type: f.Type.String()})
	}
	for i, part := range st.Partitions {
		watermark := "–"
		if part.HasCounted {
			watermark = instant(part.MaxCounted - int64(s.Config.MaxOutOfOrderness.Micros()))
		}
		p.Partitions = append(p.Partitions, []string{fmt.Sprint(i), fmt.Sprint(part.First), fmt.Sprint(part.Next), watermark, fmt.Sprint(part.Bytes)})
		if err := d.newest(&p, s.ID, stream.Partition(i), part); err != nil {
			return content{}, err
		}
	}
	letters, err := d.Log.DeadLetters(s.ID, 0, shownLetters)
	if err != nil {
		return content{}, err
	}
	for _, l := range letters {
		p.DeadLetters = append(p.DeadLetters, ui.DeadLetter{Reason: l.Reason, Raw: clip(l.Raw), When: instant(l.FirstSeen)})
	}
	return content{s.Name, "", func(string) templ.Component { return ui.StreamView(p) }}, nil
}

// newest adds the newest events of a partition, newest first.
func (d Deps) newest(p *ui.StreamPage, id stream.ID, n stream.Partition, st stream.PartitionStats) error {
	batches, err := d.Log.Slice(id, n, max(st.First, st.Next-shownEvents), shownEvents)
	if err != nil {
		return err
	}
	for b := len(batches) - 1; b >= 0; b-- {
		for i := batches[b].Len - 1; i >= 0 && len(p.Events) < shownEvents; i-- {
			raw := batches[b].Raw(i)
			p.Events = append(p.Events, [3]string{fmt.Sprintf("%d/%d", n, int64(batches[b].Base)+int64(i)), instant(batches[b].Times[i]), clip(raw)})
		}
	}
	return nil
}

func instant(micros int64) string { return string(row.FormatTimestamp(nil, micros)) }

// clip bounds a text that a page shows.
func clip(raw []byte) string {
	const most = 400
	if len(raw) <= most {
		return strings.ToValidUTF8(string(raw), "\uFFFD")
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + " …"
}

func (d Deps) view(c *fiber.Ctx) (content, error) {
	info, err := d.Views.Get(strings.Clone(c.Params("name")))
	if err != nil {
		return content{}, err
	}
	p := ui.ViewPage{Name: info.Name, SQL: info.SQL, Plan: info.Plan}
	p.Facts = []ui.Fact{
		{Name: "state", Value: string(info.State)},
		{Name: "complete to", Value: text(info.Watermark)},
		{Name: "events behind", Value: fmt.Sprint(info.LagEvents)},
		{Name: "events", Value: fmt.Sprint(info.Counts.Events)},
		{Name: "late, corrected", Value: fmt.Sprint(info.Counts.LateCorrected)},
		{Name: "late, dropped", Value: fmt.Sprint(info.Counts.LateDropped)},
		{Name: "row errors", Value: fmt.Sprint(info.Counts.RowErrors)},
	}
	if info.Reason != "" {
		p.Facts = append(p.Facts, ui.Fact{Name: "because", Value: info.Reason})
	}
	p.Rows, err = d.table(c.UserContext(), info, runtime.RowsQuery{Limit: shownRows})
	if err != nil {
		return content{}, err
	}
	errors, err := d.Views.Errors(info.Name, "", shownLetters)
	if err != nil {
		return content{}, err
	}
	for _, e := range errors.Items {
		p.Errors = append(p.Errors, ui.DeadLetter{When: fmt.Sprintf("%s %d/%d", e.Stream, e.Partition, e.Offset), Reason: e.Code, Raw: e.Message})
	}
	if late, err := d.Views.LateEvents(info.Name, 0, shownLetters); err == nil {
		for _, l := range late.Events {
			refused := make([]string, len(l.Windows))
			for i, w := range l.Windows {
				refused[i] = text(w.Start) + " – " + text(w.End)
			}
			p.Late = append(p.Late, [3]string{clip(l.Event), text(l.Watermark), strings.Join(refused, ", ")})
		}
	}
	return content{info.Name, "", func(string) templ.Component { return ui.ViewView(p) }}, nil
}

// table reads rows of a view as text.
func (d Deps) table(ctx context.Context, info runtime.Info, q runtime.RowsQuery) (ui.Table, error) {
	var t ui.Table
	for _, c := range info.Columns {
		kind, _ := row.ParseType(c.Type)
		t.Columns = append(t.Columns, ui.Column{Name: c.Name, Type: c.Type, Number: kind.IsNumeric(), Measure: c.Measure})
	}
	a, err := d.Views.Rows(ctx, info.Name, q)
	if err != nil {
		return t, err
	}
	for i := range a.Rows.Len {
		r := ui.Row{Status: a.Status[i].String()}
		for _, v := range a.Rows.Cols {
			cell := "–"
			if !v.IsNull(i) {
				cell = row.TextOf(v, i)
			}
			r.Cells = append(r.Cells, cell)
		}
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}
