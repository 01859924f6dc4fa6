package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/stream"
	"tidemark/web/ui"
	"tidemark/windows/runtime"
)

func (d Deps) overview(*fiber.Ctx) (content, error) {
	o := ui.Overview{Address: d.Address, Dashboards: d.dashboards(false)}
	for _, s := range d.Streams.List() {
		st, err := d.Log.Stats(s.ID)
		if err != nil {
			continue // deleted meanwhile
		}
		o.Streams = append(o.Streams, ui.StreamLine{
			Name: s.Name, Accepted: st.Accepted, Duplicates: st.Duplicates, DeadLetter: st.DeadLetters, Size: bytes(size(st)), Last: lastEvent(st),
		})
	}
	var err error
	if o.Views, o.Troubles, err = d.viewLines(); err != nil {
		return content{}, err
	}
	for _, s := range o.Streams {
		if s.DeadLetter > 0 {
			o.Troubles = append(o.Troubles, ui.Trouble{What: s.Name, Text: plural(s.DeadLetter, "input") + " could not be used", Link: "/dead-letters#" + s.Name, Tone: "warn"})
		}
	}
	return content{title: "Overview", section: "overview", draw: func(string) templ.Component { return ui.OverviewPage(o) }}, nil
}

// size is what a stream takes in the log.
func size(st stream.Stats) int64 {
	n := int64(0)
	for _, p := range st.Partitions {
		n += p.Bytes
	}
	return n
}

// lastEvent says when the newest event was appended.
func lastEvent(st stream.Stats) string {
	if st.LastAppend == 0 {
		return "none yet"
	}
	return ago(time.UnixMicro(st.LastAppend))
}

// lagging is how far behind a view must be to be called that.
const lagging = 10 // seconds

// viewLines tells of all views and alerts, and what is wrong with them.
func (d Deps) viewLines() ([]ui.ViewLine, []ui.Trouble, error) {
	var lines []ui.ViewLine
	var troubles []ui.Trouble
	for _, kind := range []catalog.Kind{catalog.View, catalog.Alert} {
		views, err := d.Views.ListKind(kind)
		if err != nil {
			return nil, nil, err
		}
		for _, v := range views {
			l := line(v)
			l.Alert = kind == catalog.Alert
			lines = append(lines, l)
			troubles = append(troubles, wrong(v)...)
		}
	}
	for _, t := range d.Views.SinkTrouble() {
		if t == "" {
			continue
		}
		troubles = append(troubles, ui.Trouble{What: "history", Text: t, Link: "/ops", Tone: "bad"})
	}
	return lines, troubles, nil
}

func line(v runtime.Info) ui.ViewLine {
	l := ui.ViewLine{
		Name: v.Name, State: string(v.State), Watermark: "–", Behind: "–", Lag: v.LagEvents, LagSeconds: v.LagSeconds, Rows: v.Rows,
		Corrected: v.Counts.LateCorrected, Dropped: v.Counts.LateDropped, RowErrors: v.Counts.RowErrors,
	}
	if at, err := time.Parse(time.RFC3339Nano, text(v.Watermark)); err == nil {
		l.Watermark = ago(at)
	}
	switch {
	case v.LagEvents > 0:
		l.Behind = plural(v.LagEvents, "event")
	case v.State == "live":
		l.Behind = "0"
	}
	return l
}

// wrong names what is wrong with a view.
func wrong(v runtime.Info) []ui.Trouble {
	var out []ui.Trouble
	add := func(tone, format string, args ...any) {
		out = append(out, ui.Trouble{What: v.Name, Text: fmt.Sprintf(format, args...), Link: "/views/" + v.Name, Tone: tone})
	}
	switch {
	case v.State == "failed":
		add("bad", "has failed: %s", v.Reason)
	case v.State == "paused":
		add("warn", "is paused; it has %s to catch up with", plural(v.LagEvents, "event"))
	case v.Reason != "":
		add("bad", "%s", v.Reason)
	case v.LagSeconds > lagging:
		add("warn", "is %.0f seconds behind (%s)", v.LagSeconds, plural(v.LagEvents, "event"))
	}
	if v.Counts.RowErrors > 0 {
		add("warn", "leaves %s out because an expression fails", plural(v.Counts.RowErrors, "event"))
	}
	if v.Counts.LateDropped > 0 {
		add("warn", "refused %s as too late", plural(v.Counts.LateDropped, "event"))
	}
	return out
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ago is how long an instant lies back. Instants to come are now.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case d < time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// bytes is a size as people read it.
func bytes(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range []string{"kB", "MB", "GB", "TB"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, u
	}
	if unit == "B" || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// dashboards are all there are, or those that pages may change: what a file keeps is not among them.
func (d Deps) dashboards(changed bool) []ui.Link {
	var list []ui.Link
	for _, e := range d.Definitions.List(catalog.Dashboard) {
		var doc struct {
			Title   string
			Managed string
			Panels  []json.RawMessage
		}
		if json.Unmarshal(e.Doc, &doc) != nil || doc.Title == "" {
			doc.Title = e.Name
		}
		if changed && doc.Managed != "" {
			continue
		}
		list = append(list, ui.Link{Name: e.Name, Title: doc.Title, Note: plural(int64(len(doc.Panels)), "panel")})
	}
	return list
}

// build is the form that makes a view.
func (d Deps) build(c *fiber.Ctx) (content, error) {
	b := ui.Build{Stream: strings.Clone(c.Query("stream")), Sources: map[string][]ui.Column{}, Dashboards: d.dashboards(true), Name: strings.Clone(c.Query("name"))}
	for _, s := range d.Streams.List() {
		b.Streams = append(b.Streams, s.Name)
		columns := []ui.Column{}
		for _, f := range s.Schema.Fields {
			columns = append(columns, ui.Column{Name: f.Name, Type: f.Type.String(), Number: f.Type.IsNumeric(), Measure: f.Name == s.Config.TimeField})
		}
		b.Sources[s.Name] = columns
	}
	if from := c.Query("from"); from != "" {
		info, err := d.Views.Get(strings.Clone(from))
		if err != nil {
			return content{}, err
		}
		b.SQL = info.SQL
		if len(info.Sources) > 0 && b.Stream == "" {
			b.Stream = info.Sources[0]
		}
	}
	return content{title: "New view", section: "new", draw: func(string) templ.Component { return ui.BuildPage(b) }}, nil
}

// table reads rows of a view as text.
func (d Deps) table(ctx context.Context, info runtime.Info, q runtime.RowsQuery) (ui.Table, error) {
	t := ui.Table{Columns: columnsOf(info)}
	a, err := d.Views.Rows(ctx, info.Name, q)
	if err != nil {
		return t, err
	}
	for i := range a.Rows.Len {
		r := ui.Row{Status: a.Status[i].String()}
		for _, v := range a.Rows.Cols {
			r.Cells = append(r.Cells, shown(v, i, "", time.UTC))
		}
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}
