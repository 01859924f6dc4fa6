package judge

import (
	"cmp"
	"fmt"
	"slices"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/expr"
	"tidemark/windows/query"
)

// Config are the options of the view that lateness depends on.
type Config struct {
	AllowedLateness windows.Micros // 0 with late: drop
	Streams         []windows.TrackedStream
	EventsFrom      *windows.Micros
	WindowsFrom     *windows.Micros
	// Functions are other options for window functions by their number: those of a view beneath
	// that is a part of the plan.
	Functions map[int]Function
	// StartAt is the log's end when a view with start latest was made; 0: it begins with the log.
	// What lies before it moves the streams' watermarks only, and WindowsFrom follows from it (R2).
	StartAt stream.Sequence
	// Outside are events that the view left out because an operator panicked at them (E2).
	Outside map[Event]string
	// Tell is given the account of every event; nil: nobody asks. The account is the callee's.
	Tell func(Event, Account)
}

// Outcome says what a view did with an event.
type Outcome string

// The outcomes. Counted includes events that some windows refused and others took.
const (
	Counted  Outcome = "counted"
	Filtered Outcome = "filtered"  // a WHERE removed it
	Outside  Outcome = "outside"   // before the view's start, or in no window that is given out
	Refused  Outcome = "refused"   // by every window that it lies in
	RowError Outcome = "row_error" // an expression failed for it (E1)
	// Corrected is the outcome of a window that was final when it took the event.
	Corrected Outcome = "corrected"
)

// Account is what a view did with one event.
type Account struct {
	Outcome Outcome
	// Watermark is the one that the event met.
	Watermark windows.Micros
	// Reason says why, for RowError.
	Reason string
	// Windows are those that took or refused it, by the functions' numbers and then by start. A
	// session's bounds are those right after the event.
	Windows []Window
}

// Window is one window that an event lies in.
type Window struct {
	Function   int
	Start, End windows.Micros
	Outcome    Outcome // Counted, Corrected or Refused
}

// Function is what one window function does with late events; quiet ones tell nothing.
type Function struct {
	AllowedLateness windows.Micros
	Quiet           bool
}

// Functions are the options of the window functions that belong to views beneath a plan.
func Functions(plan *query.Plan) map[int]Function {
	out := map[int]Function{}
	for _, b := range plan.Beneath {
		for i := range b.Functions {
			out[b.First+i] = Function{AllowedLateness: b.AllowedLateness, Quiet: true}
		}
	}
	return out
}

// lateness is the allowed lateness of a function.
func (j *Judge) lateness(a *query.Assign) windows.Micros {
	if f, ok := j.cfg.Functions[a.Number]; ok {
		return f.AllowedLateness
	}
	return j.cfg.AllowedLateness
}

// Event is where an event lies.
type Event struct {
	Stream stream.ID
	stream.Place
}

// Pair is an event and a window that refused it.
type Pair struct {
	Event      Event
	Start, End windows.Micros
}

// Verdict is what a view's windows refuse.
type Verdict struct {
	// Pairs are, for each tumble or hop by its number, the pairs missing from its output.
	Pairs map[int][]Pair
	// Events are, for each session or slide by its number, the events missing from its input.
	Events map[int][]Event
	// Outside are the events of which an expression fails, with the reason (E1).
	Outside map[Event]string
	// Late counts as late_<view> does (L5).
	Dropped, Partial, Corrected int64
	// Records are the events of late_<view>: refused by a window that is given out, and passed by
	// the WHERE of its SELECT.
	Records []Record
}

// Record is one event of late_<view>.
type Record struct {
	Event     Event
	Watermark windows.Micros
	Partial   bool
	Time      windows.Micros // the event's
}

// Judge reads the log of a view's streams.
type Judge struct {
	plan    *query.Plan
	cfg     Config
	clock   *clock
	assigns []*query.Assign
	bounds  map[*query.Assign]map[string][]span
	verdict Verdict
	// windowsFrom is the start of the first windows that are given out; nil: all are.
	windowsFrom *windows.Micros
	largest     *windows.Micros // largest counted time before StartAt
	started     bool
	account     *Account // of the event in work, when somebody asks
	swept       int      // events since forgotten sessions were last swept out
}

// span is a session's bounds.
type span struct{ start, end windows.Micros }

// New returns a judge that has read nothing. The plan's expressions must not be in use elsewhere.
func New(plan *query.Plan, cfg Config) *Judge {
	j := &Judge{
		plan: plan, cfg: cfg, clock: newClock(plan.Time == query.AppendTime, cfg.Streams),
		windowsFrom: cfg.WindowsFrom, started: cfg.StartAt == 0,
		bounds: map[*query.Assign]map[string][]span{}, verdict: emptyVerdict(),
	}
	seen := map[query.Node]bool{}
	var find func(n query.Node)
	find = func(n query.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, in := range n.Inputs() {
			find(in)
		}
		if a, ok := n.(*query.Assign); ok {
			j.assigns = append(j.assigns, a)
			j.bounds[a] = map[string][]span{}
		}
	}
	find(plan.Root)
	return j
}

// Watermark is the view's watermark now, or windows.NoWatermark.
func (j *Judge) Watermark() windows.Micros { return j.clock.view }

// Verdict is what was refused up to here.
func (j *Judge) Verdict() Verdict { return j.verdict }

// Drain returns the verdict since the last Drain and forgets it, so that what was refused need not
// be in memory as a whole.
func (j *Judge) Drain() Verdict {
	v := j.verdict
	j.verdict = emptyVerdict()
	return v
}

func emptyVerdict() Verdict {
	return Verdict{Pairs: map[int][]Pair{}, Events: map[int][]Event{}, Outside: map[Event]string{}}
}

// WindowsFrom is the start of the first windows that are given out; nil: all are (R2).
func (j *Judge) WindowsFrom() *windows.Micros { return j.windowsFrom }

// Start begins the view where it has read up to StartAt. Step calls it at the first entry behind.
func (j *Judge) Start() {
	if j.started {
		return
	}
	j.started = true
	if j.largest != nil {
		from := *j.largest + 1
		j.windowsFrom = &from
	}
	j.clock.begin()
}

// before takes an entry in that the view does not read.
func (j *Judge) before(e stream.Entry) {
	if e.Control != nil {
		j.clock.control(e.Control)
		return
	}
	for i := range e.Batch.Len {
		if at := e.Batch.Counted(i); j.largest == nil || at > *j.largest {
			j.largest = &at
		}
		j.clock.event(e.Batch, i)
	}
}

// Step takes the next entry of the log.
func (j *Judge) Step(e stream.Entry) {
	if e.Sequence() <= j.cfg.StartAt {
		j.before(e)
		return
	}
	j.Start()
	if e.Control != nil {
		j.clock.control(e.Control)
		return
	}
	for i := range e.Batch.Len {
		j.event(e.Batch, i)
		j.clock.event(e.Batch, i)
	}
}

// event judges one event against the watermark made by everything before it.
func (j *Judge) event(b *stream.Batch, i int) {
	ev := Event{b.Stream, stream.Place{Partition: b.Partition, Offset: b.Offset(i)}}
	if j.cfg.Tell == nil {
		j.judge(b, i, ev)
		return
	}
	j.account = &Account{Watermark: j.clock.view}
	j.account.Outcome = j.judge(b, i, ev)
	slices.SortFunc(j.account.Windows, func(a, b Window) int {
		return cmp.Or(cmp.Compare(a.Function, b.Function), cmp.Compare(a.Start, b.Start))
	})
	j.cfg.Tell(ev, *j.account)
	j.account = nil
}

// window notes what a window did with the event in work.
func (j *Judge) window(function int, start, end windows.Micros, o Outcome) {
	if j.account != nil {
		j.account.Windows = append(j.account.Windows, Window{function, start, end, o})
	}
}

func (j *Judge) judge(b *stream.Batch, i int, ev Event) Outcome {
	if from := j.cfg.EventsFrom; from != nil && b.Times[i] < *from {
		return Outside
	}
	one := &single{b: b, i: i, plan: j.plan, from: j.windowsFrom, made: map[query.Node]*row.Batch{}}
	if one.failed = j.cfg.Outside[ev]; one.failed == "" {
		one.all(j.plan.Root)
	}
	if one.failed != "" {
		j.verdict.Outside[ev] = one.failed
		if j.account != nil {
			j.account.Reason = one.failed
		}
		return RowError
	}
	j.sweep()
	met := j.clock.view
	var f, told fate // told: as late_<view> tells it
	for _, a := range j.assigns {
		in := one.made[a.In]
		if in == nil || a.Stacked() {
			continue // not of this stream, behind state, or judged by the windows beneath
		}
		for k := range in.Len {
			var o fate
			switch a.Kind {
			case windows.Session:
				o = j.session(a, in, k, met, ev)
			case windows.Slide:
				o = j.slide(a, in, k, met, ev)
			default:
				o = j.fixed(a, in, k, met, ev)
			}
			f.add(o)
			if !j.cfg.Functions[a.Number].Quiet {
				told.add(o)
			}
		}
	}
	switch {
	case told.refused && !told.taken:
		j.verdict.Dropped++
	case told.refused:
		j.verdict.Partial++
	case told.corrected:
		j.verdict.Corrected++
	}
	if told.refused {
		j.verdict.Records = append(j.verdict.Records, Record{ev, met, told.taken, b.Times[i]})
	}
	switch {
	case f.taken || !f.refused && one.reaches(j.plan.Root):
		return Counted
	case f.refused:
		return Refused
	case f.touched && f.hidden && !f.removed:
		return Outside
	}
	return Filtered
}

// reaches reports whether the event gives a row to a part of the plan that no window function
// stands before.
func (s *single) reaches(n query.Node) bool {
	if _, ok := n.(*query.Assign); ok {
		return false // it tells by itself
	}
	if rows := s.rows(n); rows != nil && len(n.Inputs()) == 0 {
		return rows.Len > 0
	} else if rows != nil && rows.Len == 0 {
		return false
	}
	for _, in := range n.Inputs() {
		if s.reaches(in) {
			return true
		}
	}
	return false
}

// sweepEvery is how many events pass between two looks for sessions that are forgotten.
const sweepEvery = 100_000

// sweep forgets the bounds of sessions that no event can join or be refused by any more (L3).
func (j *Judge) sweep() {
	if j.swept++; j.swept < sweepEvery {
		return
	}
	j.swept = 0
	for a, keys := range j.bounds {
		gap, _ := a.Size.Span()
		for key, spans := range keys {
			if !slices.ContainsFunc(spans, func(s span) bool { return j.clock.view <= windows.Later(s.end, j.lateness(a)+gap) }) {
				delete(keys, key)
			}
		}
	}
}

// fate is what a function's windows do with an event, as late_<view> tells it. touched: a row of
// the event came to the function; removed: the WHERE behind it took one away; hidden: it lies in a
// window that is not given out, or in none.
type fate struct{ refused, taken, corrected, touched, removed, hidden bool }

func (f *fate) add(o fate) {
	f.refused = f.refused || o.refused
	f.taken = f.taken || o.taken
	f.corrected = f.corrected || o.corrected
	f.removed = f.removed || o.removed
	f.hidden = f.hidden || o.hidden
	f.touched = true
}

// givenOut reports whether a window that begins at start is given out (R2).
func (j *Judge) givenOut(start windows.Micros) bool {
	return j.windowsFrom == nil || start >= *j.windowsFrom
}

// took is the outcome of a window that takes an event.
func took(final bool) Outcome {
	if final {
		return Corrected
	}
	return Counted
}

// first is the latest window of tumble or hop that begins at t or before.
func first(a *query.Assign, slide windows.Interval, t windows.Micros) (start, end windows.Micros) {
	if a.Zone != nil {
		return a.Zone.Window(a.Size, t)
	}
	start = slide.Bucket(t)
	return start, a.Size.Add(start)
}

// earlier is the window before the one that begins at start.
func earlier(a *query.Assign, slide windows.Interval, start windows.Micros) (windows.Micros, windows.Micros) {
	return first(a, slide, start-1)
}

// fixed judges by each window of tumble and hop apart (L2).
func (j *Judge) fixed(a *query.Assign, in *row.Batch, k int, met windows.Micros, ev Event) (f fate) {
	t := in.Cols[a.TimeCol].I64[k]
	slide := a.Slide
	if a.Kind == windows.Tumble {
		slide = a.Size
	}
	f.hidden = true
	for start, end := first(a, slide, t); end > t; start, end = earlier(a, slide, start) {
		if !j.givenOut(start) {
			continue
		}
		if !passes(a, in, k, start, end) {
			f.removed = true
			continue
		}
		if met >= end && met >= windows.Later(end, j.lateness(a)) {
			f.refused = true
			j.verdict.Pairs[a.Number] = append(j.verdict.Pairs[a.Number], Pair{ev, start, end})
			j.window(a.Number, start, end, Refused)
			continue
		}
		f.taken = true
		f.corrected = f.corrected || met >= end
		j.window(a.Number, start, end, took(met >= end))
	}
	return f
}

// slide judges by the event's own window (L4).
func (j *Judge) slide(a *query.Assign, in *row.Batch, k int, met windows.Micros, ev Event) (f fate) {
	t := in.Cols[a.TimeCol].I64[k]
	f.hidden = !j.givenOut(a.Size.Sub(t))
	f.removed = !f.hidden && !passes(a, in, k, a.Size.Sub(t), t)
	tells := !f.hidden && !f.removed
	if met > windows.Later(t, j.lateness(a)) {
		f.refused = tells
		j.verdict.Events[a.Number] = append(j.verdict.Events[a.Number], ev)
		if tells {
			j.window(a.Number, a.Size.Sub(t), t, Refused)
		}
		return f
	}
	f.taken, f.corrected = tells, tells && met > t
	if tells {
		j.window(a.Number, a.Size.Sub(t), t, took(met > t))
	}
	return f
}

// session judges by the event's own window and every session that it would join (L3).
func (j *Judge) session(a *query.Assign, in *row.Batch, k int, met windows.Micros, ev Event) (f fate) {
	t := in.Cols[a.TimeCol].I64[k]
	gap, _ := a.Size.Span()
	own := span{t, t + gap}
	closed := func(s span) bool { return met > windows.Later(s.end, j.lateness(a)) }
	final := func(s span) bool { return met > s.end }

	key := string(row.AppendRowKey(nil, in, a.Keys, k))
	refusing := []span{}
	if closed(own) {
		refusing = append(refusing, own)
	}
	whole, wasFinal := own, final(own)
	apart := []span{}
	for _, s := range j.bounds[a][key] {
		switch {
		case met > windows.Later(s.end, j.lateness(a)+gap): // forgotten
		case t <= s.end && s.start <= t+gap:
			if closed(s) {
				refusing = append(refusing, s)
			}
			wasFinal = wasFinal || final(s)
			whole = span{min(whole.start, s.start), max(whole.end, s.end)}
		default:
			apart = append(apart, s)
		}
	}
	tells := passes(a, in, k, own.start, own.end)
	f.removed = !tells
	if len(refusing) > 0 {
		j.verdict.Events[a.Number] = append(j.verdict.Events[a.Number], ev)
		for _, s := range refusing {
			if tells && j.givenOut(s.start) {
				f.refused = true
				j.window(a.Number, s.start, s.end, Refused)
			}
		}
		f.hidden = !f.refused && tells
		return f
	}
	j.bounds[a][key] = append(apart, whole)
	f.taken, f.corrected = tells, tells && wasFinal
	if tells {
		j.window(a.Number, whole.start, whole.end, took(wasFinal))
	}
	return f
}

// passes reports whether the WHERE of the SELECT that reads a window function lets a row with
// these bounds through.
func passes(a *query.Assign, in *row.Batch, k int, start, end windows.Micros) bool {
	if a.Where == nil {
		return true
	}
	b := withBounds(in, k, start, end)
	var errs expr.Errors
	v := a.Where.Eval(b, nil, &errs)
	return !errs.Any() && !v.IsNull(0) && v.I64[0] != 0
}

// withBounds is row k of a batch with window_start and window_end behind it.
func withBounds(in *row.Batch, k int, start, end windows.Micros) *row.Batch {
	b := &row.Batch{Len: 1}
	for _, v := range in.Cols {
		w := row.NewVector(v.Type, 1)
		w.AppendFrom(v, k)
		b.Cols = append(b.Cols, w)
	}
	for _, at := range []windows.Micros{start, end} {
		w := row.NewVector(row.Scalar(row.Timestamp), 1)
		w.AppendInt64(at)
		b.Cols = append(b.Cols, w)
	}
	return b
}

// single computes what follows from one event alone.
type single struct {
	b      *stream.Batch
	i      int
	plan   *query.Plan
	from   *windows.Micros // windows of tumble and hop that begin earlier are not given out
	made   map[query.Node]*row.Batch
	failed string
}

// all computes every node that can be, also behind one that can't, and behind a UNION ALL of which
// one branch can and another can't.
func (s *single) all(n query.Node) {
	s.rows(n)
	for _, in := range n.Inputs() {
		s.all(in)
	}
}

// rows are the rows of a node that the event gives; nil where they don't follow from it alone.
func (s *single) rows(n query.Node) *row.Batch {
	if out, ok := s.made[n]; ok {
		return out
	}
	out := s.compute(n)
	s.made[n] = out
	return out
}

func (s *single) compute(n query.Node) *row.Batch {
	switch n := n.(type) {
	case *query.Scan:
		return s.scan(n)
	case *query.Assign:
		in := s.rows(n.In)
		if in == nil {
			return nil
		}
		return s.assign(n, in)
	case *query.Filter:
		in := s.rows(n.In)
		if in == nil {
			return nil
		}
		return s.keep(n.Pred, n.Unsure, in)
	case *query.Project:
		in := s.rows(n.In)
		if in == nil {
			return nil
		}
		out := &row.Batch{Len: in.Len}
		var errs expr.Errors
		for _, e := range n.Exprs {
			out.Cols = append(out.Cols, copied(e.Eval(in, nil, &errs)))
		}
		return s.without(out, &errs)
	case *query.Union:
		out := row.NewBatch(n.Fields(), 0)
		some := false
		for _, in := range n.Ins {
			if rows := s.rows(in); rows != nil {
				out.AppendAll(rows)
				some = true
			}
		}
		if !some {
			return nil
		}
		return out
	}
	return nil
}

// assign gives a row for each window; sessions and slides count with the event's own window here.
func (s *single) assign(a *query.Assign, in *row.Batch) *row.Batch {
	out := row.NewBatch(a.Fields(), 0)
	for k := range in.Len {
		t := in.Cols[a.TimeCol].I64[k]
		switch a.Kind {
		case windows.Session:
			out.AppendAll(withBounds(in, k, t, a.Size.Add(t)))
		case windows.Slide:
			out.AppendAll(withBounds(in, k, a.Size.Sub(t), t))
		default:
			slide := a.Slide
			if a.Kind == windows.Tumble {
				slide = a.Size
			}
			for start, end := first(a, slide, t); end > t; start, end = earlier(a, slide, start) {
				if s.from == nil || start >= *s.from { // what is not given out computes nothing (R2)
					out.AppendAll(withBounds(in, k, start, end))
				}
			}
		}
	}
	if a.Where == nil {
		return out
	}
	return s.keep(a.Where, a.Unsure, out)
}

// keep are the rows for which an expression is true, or may be with other bounds of a session or
// slide.
func (s *single) keep(pred *expr.Expr, u query.Unsure, in *row.Batch) *row.Batch {
	if u.Moving {
		if u.Alone != nil {
			in = s.keep(u.Alone, query.Unsure{}, in)
		}
		var errs expr.Errors
		pred.Eval(in, nil, &errs)
		return s.without(in, &errs)
	}
	var errs expr.Errors
	v := pred.Eval(in, nil, &errs)
	out := &row.Batch{}
	for _, c := range in.Cols {
		out.Cols = append(out.Cols, row.NewVector(c.Type, 0))
	}
	for k := range in.Len {
		if !errs.Failed(k) && !v.IsNull(k) && v.I64[k] != 0 {
			out.AppendFrom(in, k)
		}
	}
	return s.without(out, &errs)
}

// without notes a failure: then the event is outside.
func (s *single) without(out *row.Batch, errs *expr.Errors) *row.Batch {
	errs.Each(func(f expr.Failure) {
		if s.failed == "" {
			s.failed = fmt.Sprintf("%s: %s", f.Code, f.Message)
		}
	})
	return out
}

func copied(v *row.Vector) *row.Vector {
	out := row.NewVector(v.Type, v.Len())
	out.AppendAll(v)
	return out
}

// scan is the event as a row. An event of another stream gives none.
func (s *single) scan(n *query.Scan) *row.Batch {
	out := row.NewBatch(n.Fields(), 1)
	if s.plan.Sources[n.Source].Stream != s.b.Stream {
		return out
	}
	for k, col := range n.Cols {
		v := out.Cols[k]
		switch col.Pseudo {
		case query.PseudoTime:
			v.AppendInt64(s.b.Times[s.i])
		case query.PseudoAppendTime:
			v.AppendInt64(s.b.AppendTime)
		case query.PseudoPartition:
			v.AppendInt64(int64(s.b.Partition))
		case query.PseudoOffset:
			v.AppendInt64(int64(s.b.Offset(s.i)))
		case query.PseudoSequence:
			v.AppendInt64(int64(s.b.Sequence))
		case query.PseudoKey:
			if s.b.Keys == nil {
				v.AppendNull()
				continue
			}
			v.AppendFrom(s.b.Keys, s.i)
		default:
			if col.Column >= len(s.b.Columns) || s.b.Columns[col.Column] == nil {
				v.AppendNull()
				continue
			}
			from := s.b.Columns[col.Column]
			if !from.Type.Equal(col.Type) {
				wide, err := row.Convert(from, col.Type)
				if err != nil {
					v.AppendNull()
					continue
				}
				from = wide
			}
			v.AppendFrom(from, s.i)
		}
	}
	out.Len = 1
	return out
}

// Sorted are the events in the order of streams, partitions and offsets.
func Sorted(events []Event) []Event {
	out := slices.Clone(events)
	slices.SortFunc(out, func(a, b Event) int {
		switch {
		case a.Stream != b.Stream:
			return int(int64(a.Stream) - int64(b.Stream))
		case a.Partition != b.Partition:
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return out
}
