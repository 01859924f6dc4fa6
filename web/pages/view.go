package pages

import (
	"fmt"
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

// newestFirst is the order in which a view's page shows its rows, as its script does: by the first
// column, when its values have an order that people expect.
func newestFirst(info runtime.Info) string {
	if len(info.Columns) == 0 || strings.ContainsAny(info.Columns[0].Type, "[") || strings.HasPrefix(info.Columns[0].Type, "STRUCT") || info.Columns[0].Type == "JSON" {
		return ""
	}
	return `"` + strings.ReplaceAll(info.Columns[0].Name, `"`, `""`) + `" DESC`
}

// rowCount says how many rows the page shows, of how many.
func rowCount(n int, info runtime.Info) string {
	switch {
	case int64(n) >= info.Rows:
		return plural(int64(n), "row")
	case len(info.Columns) > 0 && info.Columns[0].Type == "TIMESTAMP":
		return fmt.Sprintf("the newest %d rows", n)
	}
	return fmt.Sprintf("the first %d rows", n)
}

func (d Deps) view(c *fiber.Ctx) (content, error) {
	info, err := d.Views.Get(strings.Clone(c.Params("name")))
	if err != nil {
		return content{}, err
	}
	p := ui.ViewPage{Name: info.Name, Kind: info.Kind, State: string(info.State), Reason: info.Reason, SQL: info.SQL, Plan: info.Plan, Dashboards: d.dashboards(true)}
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
	q := runtime.RowsQuery{Limit: shownRows, Order: newestFirst(info)}
	p.Rows, err = d.table(c.UserContext(), info, q)
	if err != nil {
		p.Reason = strings.TrimPrefix(p.Reason+" · "+err.Error(), " · ") // the page still tells what it can
		p.Rows.Columns = columnsOf(info)
	}
	p.RowCount = rowCount(len(p.Rows.Rows), info)
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
