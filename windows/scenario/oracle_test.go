package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark/storage/history"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/judge"
	"tidemark/windows/query"
	"tidemark/windows/runtime/viewtest"
)

// verdict compares what the engine told of late events with the second judge (T1, L5), and the
// rows with the batch answer in DuckDB. It returns what DuckDB says when it gave none: it fails as
// a whole where a view leaves out one row (E1).
func (w *world) verdict(got *outcome, watermark windows.Micros) (failed string) {
	w.t.Helper()
	j := w.judged(w.log)
	v := j.Verdict()
	if c := got.counts; c.LateDropped != v.Dropped || c.LatePartial != v.Partial || c.LateCorrected != v.Corrected || c.RowErrors != int64(len(v.Outside)) {
		w.t.Errorf("%s\ncounts %+v, the judge says dropped %d, partial %d, corrected %d, errors %d", w.sql, c, v.Dropped, v.Partial, v.Corrected, len(v.Outside))
	}
	if j.Watermark() != watermark {
		w.t.Errorf("%s\nwatermark %s, the judge says %s", w.sql, instantText(watermark), instantText(j.Watermark()))
	}
	var told, late []string
	for _, r := range v.Records {
		word := "late_dropped"
		if r.Partial {
			word = "late_partial"
		}
		told = append(told, fmt.Sprintf("%s met %s: %s", r.Event.Place, instantText(r.Watermark), word))
	}
	for _, l := range got.late {
		place, rest, _ := strings.Cut(l, " met ")
		rest, _, _ = strings.Cut(rest, "[")
		late = append(late, place[:strings.LastIndexByte(place, ' ')]+" met "+strings.TrimRight(rest, " 0123456789"))
	}
	w.same("judge", "late records", told, late)

	plan := w.compile(false)
	fields, batch, sql, err := w.batchAnswer(plan, v)
	if err != nil {
		text := err.Error()
		if strings.Contains(text, "Out of Range") || strings.Contains(text, "Conversion Error") || strings.Contains(text, "out of range") || faulty(err) {
			return text
		}
		w.t.Fatalf("%s\nDuckDB: %v\n%s", w.sql, err, sql)
	}
	w.sameColumns(plan, fields)
	rows := got
	if w.cfg.EmitFinal {
		rows = w.road(w.log, false, 0, true, false)
	}
	if diff := compare(rows, batch, false); diff != "" && !w.dependsOnOrder(rows, plan, v, batch) {
		w.t.Errorf("%s\nthe batch answer in DuckDB has other rows\n%s\nas a scenario:\n%s\nSQL:\n%s", w.sql, diff, w.script(), sql)
	}
	return ""
}

// dependsOnOrder reports whether nothing but floating-point numbers differ, and DuckDB gives those of
// the view too when its tables hold their rows in some other order: then it is the order of addition,
// which is open, that made the difference, as in 1e18 + 5 − 1e18.
func (w *world) dependsOnOrder(rows *outcome, plan *query.Plan, v judge.Verdict, batch *row.Batch) bool {
	if compare(rows, batch, true) != "" {
		return false
	}
	defer func() { w.shuffle = 0 }()
	for w.shuffle = 1; w.shuffle <= 12; w.shuffle++ {
		if _, batch, _, err := w.batchAnswer(plan, v); err == nil && compare(rows, batch, false) == "" {
			return true
		}
	}
	return false
}

func (w *world) sameColumns(plan *query.Plan, fields []row.Field) {
	w.t.Helper()
	for i, f := range plan.Columns {
		// A histogram counts in UBIGINT, which row has not: in a view it is a BIGINT.
		counts := strings.Contains(strings.ToLower(w.sql), "histogram(") && f.Type.Kind == row.List ||
			f.Type.Elem != nil && f.Type.Elem.Kind == row.Interval // history answers with JSON
		if i >= len(fields) || !strings.EqualFold(fields[i].Name, f.Name) || !fields[i].Type.Equal(f.Type) && !counts {
			w.t.Errorf("%s\ncolumns %v, DuckDB has %v", w.sql, plan.Columns, fields)
			return
		}
	}
}

// batchAnswer runs the view's SQL in DuckDB over the events that the judge let in.
func (w *world) batchAnswer(plan *query.Plan, v judge.Verdict) ([]row.Field, *row.Batch, string, error) {
	w.t.Helper()
	names := map[stream.ID]string{}
	for _, f := range w.streams {
		names[f.id] = strings.ToLower(f.name)
	}
	assigns, scans := assignsOf(plan)
	missing := map[judge.Event]bool{}
	left := map[int]query.Left{}
	for number, events := range v.Events {
		if len(assigns) == 1 && scans == 1 {
			for _, e := range events {
				missing[e] = true
			}
			continue
		}
		left[number] = query.Left{Input: withoutEvents(names, events)}
	}
	for number, pairs := range v.Pairs {
		a := assigns[number]
		var events []judge.Event
		for _, p := range pairs {
			events = append(events, p.Event)
		}
		switch {
		case w.readsStream(number):
			left[number] = query.Left{Output: withoutPairs(pairs)}
		case a.Kind == windows.Tumble && len(assigns) == 1 && scans == 1:
			for _, e := range events {
				missing[e] = true
			}
		case a.Kind == windows.Tumble:
			left[number] = query.Left{Input: withoutEvents(names, events)}
		default:
			w.t.Fatalf("%s\nthe batch answer of a hop over a subquery that refuses events can't be said", w.sql)
		}
	}
	if from := w.cfg.WindowsFrom; from != nil {
		for number := range assigns {
			l := left[number]
			if l.Output != "" {
				l.Output += " AND "
			}
			l.Output += fmt.Sprintf("window_start >= make_timestamp(%d)", *from)
			left[number] = l
		}
	}
	sql, err := query.BatchWithout(duck.ParseSQL, duck.SQLFromAST, w, w.sql, nil, func(n int) query.Left { return left[n] })
	if err != nil {
		return nil, nil, sql, err
	}
	var with []string
	for _, f := range w.streams {
		with = append(with, w.tableSQL(f, v, missing))
	}
	for _, v := range w.views {
		first := 0
		for _, b := range plan.Beneath {
			if strings.EqualFold(b.Name, v.Name) {
				first = b.First
			}
		}
		inner, err := query.BatchWithout(duck.ParseSQL, duck.SQLFromAST, w, v.View.SQL, nil, func(n int) query.Left { return left[first+n] })
		if err != nil {
			return nil, nil, inner, err
		}
		with = append(with, row.QuoteName(strings.ToLower(v.Name))+" AS MATERIALIZED ("+inner+")") // with columns that nobody reads, E1
	}
	sql = "WITH " + strings.Join(with, ", ") + " SELECT * FROM (" + sql + ")"
	for began := time.Now(); ; {
		fields, batch, _, err := duck.Rows(context.Background(), history.Query{SQL: sql, MaxRows: 100_000})
		if err == nil || faulty(err) || !away(err) || time.Since(began) > viewtest.Patience {
			return fields, batch, sql, err
		}
		<-time.After(50 * time.Millisecond)
	}
}

// faulty reports whether DuckDB failed on an assertion of its own, as 1.1.3 does at some arg_max of
// STRUCTs. It begins anew then.
func faulty(err error) bool { return strings.Contains(err.Error(), "INTERNAL Error") }

// away reports whether DuckDB is beginning anew after a fault at somebody else's query.
func away(err error) bool {
	var p *problem.Problem
	return strings.Contains(err.Error(), "database has been invalidated") || errors.As(err, &p) && p.Code == "history_unavailable"
}

func assignsOf(plan *query.Plan) (assigns map[int]*query.Assign, scans int) {
	assigns = map[int]*query.Assign{}
	seen := map[query.Node]bool{}
	var walk func(n query.Node)
	walk = func(n query.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		switch n := n.(type) {
		case *query.Assign:
			assigns[n.Number] = n
		case *query.Scan:
			scans++
		}
		for _, in := range n.Inputs() {
			walk(in)
		}
	}
	walk(plan.Root)
	return assigns, scans
}

var windowFunction = regexp.MustCompile(`(?i)\b(tumble|hop|session|slide)\(\s*(\w*)`)

// readsStream reports whether the argument of a window function is a stream itself.
func (w *world) readsStream(number int) bool {
	texts := w.sql
	for _, v := range w.views { // in the order of their names, as their functions are numbered
		texts += "\n" + v.View.SQL
	}
	all := windowFunction.FindAllStringSubmatch(texts, -1)
	return number < len(all) && w.stream(all[number][2]) != nil
}

func quoted(list []string) string { return "('" + strings.Join(list, "', '") + "')" }

func withoutEvents(names map[stream.ID]string, events []judge.Event) map[string]string {
	places := map[string][]string{}
	for _, e := range events {
		places[names[e.Stream]] = append(places[names[e.Stream]], fmt.Sprintf("%d:%d", e.Partition, e.Offset))
	}
	out := map[string]string{}
	for name, list := range places {
		out[name] = "_partition || ':' || _offset NOT IN " + quoted(list)
	}
	return out
}

func withoutPairs(pairs []judge.Pair) string {
	var list []string
	for _, p := range pairs {
		list = append(list, fmt.Sprintf("%d:%d:%d", p.Event.Partition, p.Event.Offset, p.Start))
	}
	return "_partition || ':' || _offset || ':' || epoch_us(window_start) NOT IN " + quoted(list)
}

// tableSQL is a stream as a table of a WITH, the last event first: nothing may depend on the order
// in which a table holds its rows.
func (w *world) tableSQL(f *table, v judge.Verdict, missing map[judge.Event]bool) string {
	pseudo := []row.Field{
		{Name: "_partition", Type: row.Scalar(row.BigInt)},
		{Name: "_offset", Type: row.Scalar(row.BigInt)},
		{Name: "_sequence", Type: row.Scalar(row.BigInt)},
		{Name: "_time", Type: row.Scalar(row.Timestamp)},
		{Name: "_append_time", Type: row.Scalar(row.Timestamp)},
		{Name: "_key", Type: row.Scalar(row.Varchar)},
	}
	all := append(slices.Clip(f.fields), pseudo...)
	var cols, names, nulls []string
	for i, fd := range all {
		names = append(names, fmt.Sprintf("c%d", i))
		nulls = append(nulls, "NULL")
		cols = append(cols, fmt.Sprintf("CAST(c%d AS %s) AS %s", i, fd.Type, row.QuoteName(fd.Name)))
	}
	var rows []string
	for _, e := range slices.Backward(w.log) {
		b := e.Batch
		if b == nil || b.Stream != f.id {
			continue
		}
		for i := b.Len - 1; i >= 0; i-- {
			place := judge.Event{Stream: b.Stream, Place: stream.Place{Partition: b.Partition, Offset: b.Base + stream.Offset(i)}}
			if _, outside := v.Outside[place]; outside || missing[place] || w.cfg.EventsFrom != nil && b.Times[i] < *w.cfg.EventsFrom {
				continue
			}
			var cells []string
			for _, c := range b.Columns {
				cells = append(cells, cellSQL(c, i))
			}
			cells = append(cells, fmt.Sprint("'", b.Partition, "'"), fmt.Sprint("'", int64(b.Base)+int64(i), "'"), fmt.Sprint("'", b.Sequence, "'"),
				fmt.Sprintf("'%s'", row.AppendTimestampText(nil, b.Times[i])), fmt.Sprintf("'%s'", row.AppendTimestampText(nil, b.AppendTime)), cellSQL(b.Keys, i))
			rows = append(rows, "("+strings.Join(cells, ", ")+")")
		}
	}
	if w.shuffle > 0 {
		rand.New(rand.NewPCG(w.shuffle, 0)).Shuffle(len(rows), func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
		if w.shuffle%2 == 0 { // extreme numbers first: those that cancel out take nothing along
			slices.SortStableFunc(rows, func(a, b string) int { return cmp.Compare(extremes(b), extremes(a)) })
		}
	}
	where := ""
	if len(rows) == 0 {
		rows, where = []string{"(" + strings.Join(nulls, ", ") + ")"}, " WHERE false"
	}
	return fmt.Sprintf("%s AS MATERIALIZED (SELECT %s FROM (VALUES %s) AS v(%s)%s)", row.QuoteName(f.name), strings.Join(cols, ", "), strings.Join(rows, ", "), strings.Join(names, ", "), where)
}

// extremes counts the extreme numbers in a row's text.
func extremes(row string) int { return len(extreme.FindAllString(row, -1)) }

var extreme = regexp.MustCompile(`'-?(\d{13,}|[\d.]+e\+\d+)'`)

func cellSQL(v *row.Vector, i int) string {
	if v.IsNull(i) {
		return "NULL"
	}
	return "'" + strings.ReplaceAll(row.TextOf(v, i), "'", "''") + "'"
}

// compare pairs the rows of both sides, and shows what has no partner. Numbers with a binary point
// may differ in the last places: they depend on the order of addition. With blind they are left out.
func compare(h *outcome, b *row.Batch, blind bool) string {
	var got, want []string
	line := func(b *row.Batch, i int) string {
		words := plain(b, i)
		for k, word := range words {
			if blind && strings.HasPrefix(word, "~") {
				words[k] = "~"
			}
		}
		return strings.Join(words, " | ")
	}
	for _, r := range h.rows {
		got = append(got, line(r.batch, r.i))
	}
	for i := range b.Len {
		want = append(want, line(b, i))
	}
	slices.Sort(got)
	slices.Sort(want)
	if slices.Equal(got, want) {
		return ""
	}
	left := slices.Clone(want)
	var only []string
	for _, g := range got {
		i := slices.Index(left, g)
		if i < 0 {
			i = slices.IndexFunc(left, func(x string) bool { return near(g, x) })
		}
		if i < 0 {
			only = append(only, "  view   "+g)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, x := range left {
		only = append(only, "  duckdb "+x)
	}
	return strings.Join(only[:min(len(only), 12)], "\n")
}

// plain is a row as texts; floating-point numbers are marked.
func plain(b *row.Batch, i int) (words []string) {
	for _, v := range b.Cols {
		switch {
		case v.IsNull(i):
			words = append(words, "null")
		case floats(v.Type):
			words = append(words, "~"+row.TextOf(v, i))
		case v.Type.Kind == row.JSON: // also what history answers for a list of intervals
			words = append(words, strings.NewReplacer(`","`, ", ", `"`, "", ",null", ", NULL", "null,", "NULL, ", "null", "NULL").Replace(row.TextOf(v, i)))
		default:
			words = append(words, row.TextOf(v, i))
		}
	}
	return words
}

func floats(t row.Type) bool {
	switch {
	case t.Kind == row.Double || t.Kind == row.Float:
		return true
	case t.Elem != nil:
		return floats(*t.Elem)
	}
	return slices.ContainsFunc(t.Fields, func(f row.Field) bool { return floats(f.Type) })
}

var numeral = regexp.MustCompile(`-?\d+(\.\d+)?(e[+-]?\d+)?`)

// near says that two rows differ in the last places of marked numbers alone.
func near(a, b string) bool {
	x, y := strings.Split(a, " | "), strings.Split(b, " | ")
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] == y[i] {
			continue
		}
		if !strings.HasPrefix(x[i], "~") || numeral.ReplaceAllString(x[i], "#") != numeral.ReplaceAllString(y[i], "#") {
			return false
		}
		p, q := numeral.FindAllString(x[i], -1), numeral.FindAllString(y[i], -1)
		for k := range p {
			u, _ := strconv.ParseFloat(p[k], 64)
			v, _ := strconv.ParseFloat(q[k], 64)
			if math.Abs(u-v) > 1e-9*max(math.Abs(u), math.Abs(v))+1e-9 {
				return false
			}
		}
	}
	return true
}

// nearlyEqual compares rows that were added up in another order.
func nearlyEqual(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !near("~"+a[i], "~"+b[i]) {
			return false
		}
	}
	return true
}
