package query

import (
	"fmt"
	"slices"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/expr"
)

// maxTableDepth bounds how often CTEs and subqueries may lead into each other.
const maxTableDepth = 64

// table binds what stands in FROM.
func (b *binder) table(t sqlTable, needKey bool) *relation {
	h := t.place()
	if b.tables++; b.tables > maxTables {
		refuse(problem.New(422, "sql_too_complex", "the SQL reads more than %d tables, CTEs counted each time", maxTables).At(max(0, h.at)).
			WithHint("make views of its parts"))
	}
	switch t := t.(type) {
	case *baseTable:
		r := b.named(t.name, t.at, needKey, nil)
		return b.alias(r, h, t.name)
	case *derivedTable:
		r := b.derived(t.query, needKey)
		return b.alias(r, h, "")
	case *tableFunction:
		return b.window(t, needKey)
	case *joinTable:
		what := map[string]string{"CROSS": "FROM with several relations", "ASOF": "ASOF JOIN", "POSITIONAL": "POSITIONAL JOIN", "NATURAL": "NATURAL JOIN"}[t.refType]
		if what == "" {
			what = strings.TrimSpace(strings.TrimPrefix(t.joinType, "INNER") + " JOIN")
		}
		at := t.at
		if r := t.right.place().at; at < 0 || r >= 0 && t.refType == "CROSS" {
			at = r
		}
		refuse(unsupported(at, "%s isn't supported in a view yet", what).
			WithHint("join in /v1/query, or put the fields that are needed into the events"))
	case *emptyTable:
		refuse(unsupported(0, "a SELECT without FROM isn't supported in a view").WithHint("read a stream: SELECT … FROM name"))
	case *otherTable:
		refuse(unsupported(max(0, t.at), "%s isn't supported in a view", t.what))
	}
	return nil
}

// derived binds a subquery in FROM or a CTE.
func (b *binder) derived(q sqlQuery, needKey bool) *relation {
	if b.inCTE++; b.inCTE > maxTableDepth {
		refuse(problem.New(422, "sql_too_complex", "subqueries and CTEs lead into each other more than %d times", maxTableDepth).
			At(max(0, q.common().at)))
	}
	r := b.queryOf(q, needKey)
	b.inCTE--
	r.scan, r.direct, r.assign = false, false, nil
	return r
}

// alias gives a relation's columns the names that FROM gives them.
func (b *binder) alias(r *relation, h *tableHead, name string) *relation {
	if h.alias != "" {
		name = h.alias
	}
	next := 0
	for i := range r.cols {
		c := &r.cols[i]
		c.table = name
		if c.hidden || next >= len(h.columns) {
			continue
		}
		c.name = h.columns[next]
		next++
	}
	if next < len(h.columns) {
		refuse(problem.New(422, "bad_sql", "%s has %d columns and gets %d names", name, next, len(h.columns)).At(h.at))
	}
	return r
}

// named binds a relation by its name: a CTE or a stream. pseudo are pseudo columns that must be
// there besides those that the text names.
func (b *binder) named(name string, at int, needKey bool, pseudo []string) *relation {
	for i := len(b.ctes) - 1; i >= 0; i-- {
		c := b.ctes[i]
		if !strings.EqualFold(c.name, name) {
			continue
		}
		s := b.shared[c.query]
		if s == nil {
			s = &sharedQuery{}
			b.shared[c.query] = s
		}
		r := b.share(s, func() *relation {
			outer := b.ctes
			defer func() { b.ctes = outer }()
			b.ctes = b.ctes[:c.seen:c.seen]
			return b.derived(c.query, true)
		})
		return b.alias(r, &tableHead{at: at, columns: c.columns}, name)
	}
	rel, ok := b.cat.Relation(name)
	if !ok {
		p := problem.New(422, "unknown_relation", "there is no stream %s", row.QuoteName(name)).At(at)
		if row.QuoteName(strings.ToLower(name)) != strings.ToLower(name) {
			refuse(p.WithHint("a view reads streams and views alone: no files, and nothing whose name holds more than letters, digits and _"))
		}
		refuse(p.WithHint("create it first with PUT /v1/streams/%s, or send it an event", strings.ToLower(name)))
	}
	if rel.View != nil {
		return b.view(rel, at)
	}
	if rel.Kind != "stream" {
		refuse(unsupported(at, "%s is a %s; a view over a %s isn't supported yet", rel.Name, rel.Kind, rel.Kind).
			WithHint("put its SQL here as a subquery: FROM (SELECT …) AS %s", rel.Name))
	}
	return b.scan(rel, needKey, pseudo)
}

// scan binds a stream.
func (b *binder) scan(rel Relation, needKey bool, pseudo []string) *relation {
	source := -1
	for i, s := range b.plan.Sources {
		if s.Stream == rel.ID {
			source = i
		}
	}
	if source < 0 {
		source = len(b.plan.Sources)
		b.plan.Sources = append(b.plan.Sources, Source{Name: rel.Name, Stream: rel.ID})
		b.used = append(b.used, map[int]bool{})
	}
	b.reads.all[source], b.reads.holds[source] = true, true
	if via := &b.plan.Sources[source].Via; !slices.Contains(*via, b.text) {
		*via = append(*via, b.text)
	}
	r := &relation{once: true, scan: true, direct: true}
	var cols []ScanCol
	for i, f := range rel.Fields {
		if !b.stars && !b.words[strings.ToLower(f.Name)] {
			r.unread = append(r.unread, f.Name)
			continue
		}
		c := column{name: f.Name, typ: f.Type, source: source, number: i}
		if rel.TimeField != "" && strings.EqualFold(f.Name, rel.TimeField) {
			c.role = eventTime
		}
		c.timeField = rel.TimeField
		r.cols = append(r.cols, c)
		cols = append(cols, ScanCol{Column: i, Name: f.Name, Type: f.Type})
	}
	wanted := map[string]bool{}
	for _, p := range pseudo {
		wanted[p] = true
	}
	if needKey {
		wanted[PseudoPartition], wanted[PseudoOffset] = true, true
	}
	for _, f := range pseudoColumns {
		if !wanted[f.Name] && !b.words[f.Name] {
			continue
		}
		c := column{name: f.Name, typ: f.Type, hidden: true, source: source, number: -1, timeField: rel.TimeField}
		switch f.Name {
		case PseudoTime:
			c.role = eventTime
		case PseudoAppendTime:
			c.role = appendTime
		}
		if needKey && (f.Name == PseudoPartition || f.Name == PseudoOffset) {
			r.key = append(r.key, len(r.cols))
		}
		r.cols = append(r.cols, c)
		cols = append(cols, ScanCol{Column: -1, Pseudo: f.Name, Name: f.Name, Type: f.Type})
	}
	r.node = NewScan(source, cols)
	return r
}

// windowKinds are the window functions by name, with the number of spans that each takes.
var windowKinds = map[string]struct {
	kind  windows.Kind
	spans int
	usage string
}{
	"tumble":  {windows.Tumble, 1, "tumble(stream, time, size)"},
	"hop":     {windows.Hop, 2, "hop(stream, time, slide, size)"},
	"session": {windows.Session, 1, "session(stream, time, gap, key, …)"},
	"slide":   {windows.Slide, 1, "slide(stream, time, size, key, …)"},
}

// window binds a window function in FROM.
func (b *binder) window(t *tableFunction, needKey bool) *relation {
	c := t.call
	w, ok := windowKinds[c.name]
	if !ok {
		refuse(unsupported(c.at, "the table function %s isn't supported in a view", c.name).
			WithHint("the table functions are tumble, hop, session and slide"))
	}
	if c.filter != nil || c.distinct || len(c.order) > 0 {
		refuse(unsupported(c.at, "%s takes no DISTINCT, FILTER or ORDER BY", c.name))
	}
	for _, a := range c.args {
		if a.head().alias != "" {
			refuse(unsupported(place(a, c.at), "%s takes its arguments by place, not by name", c.name).WithHint("write %s", w.usage))
		}
	}
	if len(c.args) < 2+w.spans {
		refuse(problem.New(422, "bad_sql", "%s needs %d arguments and has %d", c.name, 2+w.spans, len(c.args)).At(c.at).
			WithHint("write %s", w.usage))
	}
	in, name := b.windowInput(c, needKey)
	timeCol, role := b.timeArgument(c, in, name)
	if !role.bound() { // those have been settled
		b.settleTime(role, place(c.args[1], c.at))
	}

	spans := make([]windows.Interval, w.spans)
	for i := range spans {
		spans[i] = b.span(c, c.args[2+i])
	}
	if w.kind == windows.Hop {
		hopWindows(c, spans[0], spans[1])
	}
	if (w.kind == windows.Session || w.kind == windows.Slide) && spans[0].Months != 0 {
		refuse(problem.New(422, "bad_interval", "months in %s aren't supported: they have no fixed length", c.name).At(c.at).
			WithHint("write the size in days or smaller units"))
	}
	if role.bound() && w.kind != windows.Tumble && w.kind != windows.Hop {
		refuse(unsupported(c.at, "%s over the windows of others isn't supported in a view", c.name).
			WithHint("use tumble or hop over them, or %s on the stream itself", c.name))
	}
	if in.shrinks && !role.bound() {
		refuse(unsupported(place(c.args[0], c.at), "%s over rows that can be withdrawn isn't supported in a view yet", c.name).
			WithHint("use the window function on the stream itself, and GROUP BY and DISTINCT above it"))
	}
	n := NewAssign(in.node, w.kind, timeCol, spans[len(spans)-1], windows.Interval{})
	n.Number = b.outline.number(b.text, t.first)
	if w.kind == windows.Hop {
		n.Slide = spans[0]
	}
	for i, a := range c.args[2+w.spans:] {
		last := i == len(c.args)-3-w.spans
		if l, ok := a.(*literal); ok && last && l.value.Type.Kind == row.Varchar {
			if w.kind == windows.Tumble && i == 0 {
				n.Zone = zoneOf(l.value, spans[0], place(a, c.at))
				continue
			}
			refuse(unsupported(place(a, c.at), "windows in a time zone (%s) aren't supported yet", literalText(l.value)).
				WithHint("tumble over whole days, weeks or months takes a time zone; leave it out here: windows are in UTC"))
		}
		if w.kind != windows.Session && w.kind != windows.Slide {
			refuse(problem.New(422, "bad_sql", "%s has %d arguments too many", c.name, len(c.args)-2-w.spans).At(place(a, c.at)).
				WithHint("write %s", w.usage))
		}
		ref, ok := a.(*columnRef)
		if !ok {
			refuse(unsupported(place(a, c.at), "a key of %s must be a column", c.name).
				WithHint("compute it in a subquery: %s((SELECT *, … AS k FROM %s), …, k)", c.name, name))
		}
		col, path, ok := in.resolve(ref)
		if !ok {
			refuse(in.unknownColumn(ref))
		}
		if len(path) > 0 {
			refuse(unsupported(ref.at, "a key of %s must be a column", c.name).
				WithHint("compute it in a subquery: %s((SELECT *, %s AS k FROM %s), …, k)", c.name, ref.String(), name))
		}
		b.use(in, col)
		n.Keys = append(n.Keys, col)
	}
	return b.assigned(t, in, n, name)
}

// zoneOf is the time zone that the last argument of tumble names (Z1).
func zoneOf(name *row.Vector, size windows.Interval, at int) *windows.Zone {
	if name.IsNull(0) {
		refuse(problem.New(422, "bad_time_zone", "the time zone is NULL").At(at).WithHint("write its name, such as 'Europe/Berlin', or leave it out for UTC"))
	}
	zone, err := windows.LoadZone(name.Str[0])
	if err != nil {
		refuse(problem.New(422, "bad_time_zone", "%v", err).At(at).WithHint("write its name in the time zone database, such as 'Europe/Berlin'"))
	}
	if size.Micros != 0 {
		refuse(unsupported(at, "windows of %s in a time zone aren't supported yet", size).
			WithHint("write whole days, weeks or months, such as INTERVAL '1 day'; windows of hours are in UTC without a time zone"))
	}
	return zone
}

// maxSizeYears bounds a size, so that every event has windows whose bounds are TIMESTAMPs.
const maxSizeYears = 100_000

// maxHopWindows bounds in how many windows of a hop one event may lie.
const maxHopWindows = 10_000

// hopWindows is in how many windows of a hop an event can lie, at most.
func hopWindows(c *call, slide, size windows.Interval) int64 {
	least, _ := windows.Interval{Days: slide.Days + 28*slide.Months, Micros: slide.Micros}.Span()
	most, _ := windows.Interval{Days: size.Days + 31*size.Months, Micros: size.Micros}.Span()
	n := (most + least - 1) / least // as many starts as lie in (time − size, time]
	if n > maxHopWindows {
		refuse(problem.New(422, "bad_interval", "every event would lie in %d windows of this hop; the limit is %d", n, maxHopWindows).At(c.at).
			WithHint("make the slide longer or the size shorter"))
	}
	return n
}

// assigned is the relation that a window function gives.
func (b *binder) assigned(t *tableFunction, in *relation, n *Assign, name string) *relation {
	out := &relation{
		node: n, key: in.key, unread: in.unread, once: in.once && n.Kind != windows.Session, never: in.never, assign: n, direct: in.direct,
		shrinks: in.shrinks || n.Kind == windows.Session,
	}
	for _, c := range in.cols {
		if strings.EqualFold(c.name, WindowStart) || strings.EqualFold(c.name, WindowEnd) {
			c.hidden, c.sealed = true, true
		}
		out.cols = append(out.cols, c)
	}
	at := len(out.cols)
	ts := row.Scalar(row.Timestamp)
	start := windowStart
	if n.Kind == windows.Session || n.Kind == windows.Slide {
		start = movingStart
	}
	out.cols = append(out.cols, column{name: WindowStart, typ: ts, role: start, number: -1},
		column{name: WindowEnd, typ: ts, role: windowEnd, number: -1})
	if len(in.key) > 0 {
		out.key = append(append([]int(nil), in.key...), at, at+1)
	}
	return b.alias(out, &t.tableHead, name)
}

// windowInput binds the first argument of a window function.
func (b *binder) windowInput(c *call, needKey bool) (in *relation, name string) {
	switch a := c.args[0].(type) {
	case *columnRef:
		if len(a.names) == 1 {
			pseudo := []string{PseudoTime}
			if t, ok := c.args[1].(*columnRef); ok && strings.EqualFold(t.names[len(t.names)-1], PseudoAppendTime) {
				pseudo = nil
			}
			in := b.named(a.names[0], a.at, needKey, pseudo)
			if !in.scan {
				return in, a.names[0]
			}
			return b.alias(in, &tableHead{at: a.at}, a.names[0]), a.names[0]
		}
	case *subqueryExpr:
		if a.kind == "SCALAR" {
			return b.derived(a.query, needKey), c.name
		}
	case *literal:
		if a.value.Type.Kind == row.Varchar {
			refuse(unsupported(place(a, c.at), "the stream of %s is named without quotes", c.name).
				WithHint("write %s(%s, …)", c.name, row.QuoteName(a.value.Str[0])))
		}
	}
	refuse(unsupported(place(c.args[0], c.at), "the first argument of %s must be a stream, a CTE or a subquery", c.name).
		WithHint("write %s", windowKinds[c.name].usage))
	return nil, ""
}

// timeArgument checks the time that a window function follows (W9) and returns its column.
func (b *binder) timeArgument(c *call, in *relation, name string) (int, role) {
	arg := c.args[1]
	at := place(arg, c.at)
	own := "_time"
	for _, col := range in.cols {
		if col.role == eventTime && !col.sealed {
			own = col.name
			break
		}
	}
	ref, ok := arg.(*columnRef)
	if !ok {
		refuse(problem.New(422, "bad_time_argument", "the time of %s must be the stream's own time, not %s", c.name, clip(textOf(arg))).At(at).
			WithHint("windows follow %s; write %s(%s, %s, …)", own, c.name, name, own))
	}
	col, path, ok := in.resolve(ref)
	if !ok {
		refuse(in.unknownColumn(ref))
	}
	found := in.cols[col]
	switch {
	case len(path) == 0 && found.role == appendTime:
		return col, appendTime
	case len(path) == 0 && found.role == eventTime:
		if in.scan { // the event time itself, whatever type its column has
			b.use(in, col)
			found := in.find("", PseudoTime)
			return found[len(found)-1], eventTime
		}
		if found.typ.Kind == row.Timestamp {
			return col, eventTime
		}
		refuse(problem.New(422, "bad_time_argument", "%s is %s here, not TIMESTAMP", found.name, found.typ).At(at).
			WithHint("select _time in the subquery and use that"))
	case len(path) == 0 && found.role == movingStart:
		refuse(problem.New(422, "bad_time_argument", "%s is the start of a session or slide: it can't be the time of %s, because earlier ones may still come", found.name, c.name).At(at).
			WithHint("use its window_end"))
	case len(path) == 0 && found.role.bound():
		return col, found.role
	}
	if in.view != "" {
		refuse(problem.New(422, "bad_time_argument", "%s can't be the time of %s over the view %s", ref.String(), c.name, in.view).At(at).
			WithHint("over a view windows follow its window_end, the window_start of its tumble or hop, or, when it has no windows, its stream's own time: select one of them in %s", in.view))
	}
	timeField := ""
	for _, col := range in.cols {
		if col.timeField != "" {
			timeField = col.timeField
		}
	}
	hint := fmt.Sprintf("windows follow %s; make a stream whose time_field is %s", orText(timeField, own), row.QuoteName(ref.names[len(ref.names)-1]))
	if timeField == "" && in.scan {
		hint = fmt.Sprintf("the stream has no time_field, so its events' time is their append time, _time; make a stream whose time_field is %s", row.QuoteName(ref.names[len(ref.names)-1]))
	}
	if !in.scan {
		hint = fmt.Sprintf("windows follow the stream's own time; select %s unchanged in the subquery and name it here", orText(timeField, "its time_field or _time"))
	}
	p := problem.New(422, "bad_time_argument", "%s can't be the time of %s", ref.String(), c.name).At(at)
	p.Hint = hint
	refuse(p)
	return 0, plain
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// clip shortens a text for a message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:57] + "…"
	}
	return s
}

// settleTime holds a view to one kind of time (W8).
func (b *binder) settleTime(r role, at int) {
	kind := EventTime
	if r == appendTime {
		kind = AppendTime
	}
	if b.timed && b.plan.Time != kind {
		refuse(problem.New(422, "two_times", "the view's windows follow event time and append time").At(at).
			WithHint("use one kind of time in a view, or make two views"))
	}
	b.plan.Time, b.timed = kind, true
}

// span evaluates a constant INTERVAL.
func (b *binder) span(c *call, arg sqlExpr) windows.Interval {
	at := place(arg, c.at)
	if arg.head().at < 0 {
		at = leftmostExpr(arg, c.at)
	}
	bad := func(format string, args ...any) {
		refuse(problem.New(422, "bad_interval", format, args...).At(at).
			WithHint("write a constant such as INTERVAL '5 minutes'"))
	}
	if (&scope{rel: &relation{}}).reads(arg) {
		bad("the size of %s must be a constant", c.name)
	}
	e := b.value(arg, &scope{rel: &relation{}, clause: "the size of a window"})
	if !e.IsConst() {
		bad("the size of %s must be a constant", c.name)
	}
	if k := e.Type.Kind; k == row.Varchar {
		var err error
		if e, err = expr.Cast(e, row.Scalar(row.Interval), false); err != nil {
			bad("%v", err)
		}
	}
	v := e.ConstValue()
	switch {
	case v == nil: // it fails when it is evaluated
		bad("%s is no INTERVAL", clip(textOf(arg)))
	case e.Type.Kind != row.Interval:
		bad("the size of %s is %s, not INTERVAL", c.name, e.Type)
	case v.IsNull(0):
		bad("the size of %s is NULL", c.name)
	}
	months, days, micros := row.IntervalParts(v.I128[0])
	i := windows.Interval{Months: months, Days: days, Micros: micros}
	if i.Months != 0 && (i.Days != 0 || i.Micros != 0) {
		bad("a size can't mix months with smaller units")
	}
	if !i.Positive() {
		bad("the size of %s must be longer than nothing", c.name)
	}
	if i.Months > maxSizeYears*12 || i.Days > maxSizeYears*366 || i.Micros/windows.MicrosPerDay > maxSizeYears*366 {
		bad("the size of %s is longer than %d years", c.name, maxSizeYears)
	}
	return i
}

// leftmostExpr is where an expression begins in the text; the parser gives INTERVAL no place.
func leftmostExpr(e sqlExpr, other int) int {
	switch e := e.(type) {
	case *castTo:
		return place(e.child, other)
	case *call:
		if len(e.args) > 0 {
			return place(e.args[0], other)
		}
	}
	return other
}
