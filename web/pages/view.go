package pages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/row"
	"tidemark/web/ui"
	"tidemark/windows/runtime"
)

func columnsOf(info runtime.Info) []ui.Column {
	var out []ui.Column
	for _, c := range info.Columns {
		kind, _ := row.ParseType(c.Type)
		out = append(out, ui.Column{Name: c.Name, Type: c.Type, Number: kind.IsNumeric(), Measure: c.Measure, Merge: c.Merge})
	}
	return out
}

// cell is one value of a row as text.
func cell(v *row.Vector, i int) string {
	if v.IsNull(i) {
		return "–"
	}
	return row.TextOf(v, i)
}

func (d Deps) view(c *fiber.Ctx) (content, error) {
	info, err := d.Views.Get(strings.Clone(c.Params("name")))
	if err != nil {
		return content{}, err
	}
	p := ui.ViewPage{Name: info.Name, Kind: info.Kind, State: string(info.State), Reason: info.Reason, SQL: info.SQL, Plan: info.Plan, Dashboards: d.dashboards()}
	if p.Kind == "" {
		p.Kind = "view"
	}
	tone := func(n int64) string {
		if n > 0 {
			return "warn"
		}
		return ""
	}
	p.Facts = []ui.Fact{
		{Name: "complete to", Value: text(info.Watermark), Title: "nothing older than this is expected any more"},
		{Name: "events behind", Value: fmt.Sprint(info.LagEvents)},
		{Name: "rows", Value: fmt.Sprint(info.Rows)},
		{Name: "events taken in", Value: fmt.Sprint(info.Counts.Events)},
		{Name: "late, corrected a row", Value: fmt.Sprint(info.Counts.LateCorrected)},
		{Name: "late, refused", Value: fmt.Sprint(info.Counts.LateDropped), Tone: tone(info.Counts.LateDropped)},
		{Name: "row errors", Value: fmt.Sprint(info.Counts.RowErrors), Tone: tone(info.Counts.RowErrors)},
	}
	p.Facts = append(p.Facts, verified(info.Verified))
	for _, w := range info.Warnings {
		p.Warnings = append(p.Warnings, w.Detail)
	}
	if w, err := d.Views.WatermarkInfo(info.Name); err == nil {
		p.Held = held(w)
	}
	p.Rows, err = d.table(c.UserContext(), info, runtime.RowsQuery{Limit: shownRows})
	if err != nil {
		p.Reason = strings.TrimPrefix(p.Reason+" · "+err.Error(), " · ") // the page still tells what it can
		p.Rows.Columns = columnsOf(info)
	}
	if errors, err := d.Views.Errors(info.Name, "", shownLetters); err == nil {
		for _, e := range errors.Items {
			p.Errors = append(p.Errors, ui.DeadLetter{When: fmt.Sprintf("%s %d/%d", e.Stream, e.Partition, e.Offset), Reason: e.Code, Raw: e.Message})
		}
	}
	d.late(&p, info)
	return content{title: info.Name, section: "", draw: func(string) templ.Component { return ui.ViewView(p) }}, nil
}

// verified says how the last comparison with the batch answer ended.
func verified(v *runtime.Verified) ui.Fact {
	f := ui.Fact{Name: "verified", Value: "not yet", Title: "whether the rows are those that DuckDB works out from the log"}
	if v == nil {
		return f
	}
	f.Value = strings.ReplaceAll(v.Result, "_", " ")
	if at, err := time.Parse(time.RFC3339Nano, v.At); err == nil {
		f.Value += ", " + ago(at)
	}
	switch {
	case v.Differences > 0:
		f.Tone, f.Title = "bad", fmt.Sprintf("%d differences, of %d rows", v.Differences, v.Rows)
	case v.Reason != "":
		f.Tone, f.Title = "warn", v.Reason
	default:
		f.Tone, f.Title = "good", fmt.Sprintf("%d rows compared", v.Rows)
	}
	return f
}

// held says what holds the watermark back.
func held(w *runtime.WatermarkInfo) string {
	if w.HeldBy == nil {
		return ""
	}
	say := fmt.Sprintf("The watermark waits for %s, partition %d", w.HeldBy.Stream, w.HeldBy.Partition)
	if e := w.HeldBy.LastEvent; e != nil {
		say += fmt.Sprintf(": its newest event is offset %d", e.Offset)
		if at, err := time.Parse(time.RFC3339Nano, text(e.AppendTime)); err == nil {
			say += ", appended " + ago(at)
		}
	}
	return say + "."
}

// lateRead and lateBars bound what a page tells of late events.
const (
	lateRead = 2000
	lateBars = 30
)

// lateSteps part late events by how much too late they came: less than each, spans says it in words.
var (
	lateSteps = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}
	spans     = []string{"10 s", "1 minute", "10 minutes", "1 hour", "1 day"}
)

// late tells of the events that the view refused: the newest, and how many came over time.
func (d Deps) late(p *ui.ViewPage, info runtime.Info) {
	p.LateNote = fmt.Sprintf("Late events: %s.", info.Late)
	if info.AllowedLateness != nil {
		p.LateNote = fmt.Sprintf("An event that comes up to %v after its window was final corrects it; later ones are refused and kept in late_%s.", info.AllowedLateness, info.Name)
	}
	page, err := d.Views.LateEvents(info.Name, max(0, info.Counts.LateDropped-lateRead), lateRead)
	if err != nil || len(page.Events) == 0 {
		return
	}
	type refused struct {
		at, met time.Time
		ok      bool
	}
	list := make([]refused, len(page.Events))
	var first, last time.Time
	for i, l := range page.Events {
		at, err1 := time.Parse(time.RFC3339Nano, text(l.Time))
		met, err2 := time.Parse(time.RFC3339Nano, text(l.Watermark))
		list[i] = refused{at, met, err1 == nil && err2 == nil}
		if list[i].ok {
			if first.IsZero() || met.Before(first) {
				first = met
			}
			if met.After(last) {
				last = met
			}
		}
	}
	for i := len(page.Events) - 1; i >= 0 && len(p.Late) < shownLetters; i-- {
		l := page.Events[i]
		windows := make([]string, len(l.Windows))
		for j, w := range l.Windows {
			windows[j] = text(w.Start) + " – " + text(w.End)
		}
		by := "–"
		if list[i].ok {
			by = list[i].met.Sub(list[i].at).Round(time.Second).String()
		}
		p.Late = append(p.Late, ui.LateLine{Time: text(l.Time), By: by, Windows: strings.Join(windows, ", "), Event: clip(l.Event, 300)})
	}
	by := make([]int, len(lateSteps)+1)
	most := time.Duration(0)
	for _, l := range list {
		if l.ok {
			too := l.met.Sub(l.at)
			i, _ := slices.BinarySearch(lateSteps, too)
			by[i]++
			most = max(most, too)
		}
	}
	for i, n := range by {
		name := "longer too late"
		if i < len(lateSteps) {
			name = "up to " + spans[i] + " too late"
		}
		if n > 0 {
			p.LateBy = append(p.LateBy, ui.Fact{Name: name, Value: fmt.Sprint(n), Title: fmt.Sprintf("of the newest %d that were refused; the latest came %v too late", len(list), most.Round(time.Second))})
		}
	}
	step := max(last.Sub(first)/lateBars, time.Second)
	counts := make([]int, lateBars)
	worst := make([]time.Duration, lateBars)
	for _, l := range list {
		if l.ok {
			i := min(lateBars-1, int(l.met.Sub(first)/step))
			counts[i]++
			worst[i] = max(worst[i], l.met.Sub(l.at))
		}
	}
	highest := slices.MaxFunc(counts, cmp.Compare[int])
	for i, n := range counts {
		from := first.Add(time.Duration(i) * step).UTC().Format("2006-01-02 15:04:05")
		p.LateBars = append(p.LateBars, ui.LateBar{
			From: from, Height: n * 70 / max(highest, 1),
			Title: fmt.Sprintf("%s: %s, late by up to %v", from, plural(int64(n), "event"), worst[i].Round(time.Second)),
		})
	}
}
