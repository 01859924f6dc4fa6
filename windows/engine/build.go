package engine

import (
	"slices"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/query"
)

// build makes the operators of the plan. A node that two others read is one operator.
func (e *Engine) build(own Config) error {
	b := &builder{e: e, own: own, made: map[query.Node]*targets{}, readers: map[query.Node]int{}, fused: map[*query.Assign]bool{}, panes: map[*query.Assign]*paneSpan{}, sess: map[*query.Assign]*sessions{}}
	b.count(e.plan.Root)
	e.emit = newEmitter(e)
	outs, err := b.node(e.plan.Root, true)
	if err != nil {
		return err
	}
	if b.ids > mostOperators {
		return problem.New(422, "sql_too_complex", "the SQL has %d aggregates, window functions of different PARTITION BY and the like; at most %d are supported", b.ids, mostOperators).
			WithHint("make views of parts of it")
	}
	*outs = append(*outs, e.emit)
	return nil
}

type builder struct {
	e   *Engine
	own Config // as it was given
	// made are the places where a node's readers are listed.
	made    map[query.Node]*targets
	readers map[query.Node]int
	// fused are the session functions whose sessions an aggregate behind them groups by.
	fused map[*query.Assign]bool
	// panes are those of the hops whose windows an aggregate behind them groups by.
	panes map[*query.Assign]*paneSpan
	sess  map[*query.Assign]*sessions
	ids   int
}

// mostOperators is how many operators with state a plan has at most: their numbers are a byte of the
// state's keys, and one more ends a scan of the last one's.
const mostOperators = 255

// id gives an operator with state its number.
func (b *builder) id() byte {
	b.ids++
	return byte(b.ids - 1)
}

func (b *builder) count(n query.Node) {
	b.readers[n]++
	if b.readers[n] == 1 {
		for _, in := range n.Inputs() {
			b.count(in)
		}
	}
}

// node makes the operator of a node and returns where its readers are listed. Inputs come first, so
// operators are flushed in the order in which rows flow. last says that only filters, projections
// and the emitter come behind.
func (b *builder) node(n query.Node, last bool) (*targets, error) {
	if outs, ok := b.made[n]; ok {
		return outs, nil
	}
	last = last && b.readers[n] == 1
	var outs *targets
	var own target
	var err error
	switch n := n.(type) {
	case *query.Scan:
		outs = b.scan(n)
	case *query.Filter:
		o := &filter{e: b.e, pred: n.Pred, unsure: n.Unsure}
		own, outs = o, &o.outs
		err = b.connect(n.In, own, last)
	case *query.Project:
		o := &project{e: b.e, exprs: n.Exprs}
		own, outs = o, &o.outs
		err = b.connect(n.In, own, last)
	case *query.Assign:
		outs, err = b.assign(n)
	case *query.Aggregate:
		var o *aggregate
		o, err = b.aggregate(n, last)
		if err == nil {
			outs = &o.outs
		}
	case *query.TopN:
		o := newTopN(b.e, b.id(), n, grows(n.In))
		err = b.connect(n.In, o, false)
		b.e.ops = append(b.e.ops, o)
		outs = &o.outs
	case *query.FinalOnly:
		o := newFinalOnly(b.e, b.id(), n)
		err = b.connect(n.In, o, false)
		b.e.ops = append(b.e.ops, o)
		outs = &o.outs
	case *query.Over:
		o := newOver(b.e, b.id(), n, grows(n.In))
		err = b.connect(n.In, o, false)
		b.e.ops = append(b.e.ops, o)
		outs = &o.outs
	case *query.Union:
		o := &union{e: b.e, whole: events(n)}
		for _, in := range n.Ins {
			if err == nil {
				err = b.connect(in, o, last)
			}
		}
		b.e.ops = append(b.e.ops, o)
		b.e.unions = append(b.e.unions, o)
		outs = &o.outs
	default:
		return nil, unsupported("this view needs an operator (%T) that the engine doesn't have yet", n)
	}
	if err != nil {
		return nil, err
	}
	b.made[n] = outs
	return outs, nil
}

// unsupported says that the SQL is right and the engine can't run it.
func unsupported(format string, args ...any) error {
	return problem.New(422, "unsupported_sql", format, args...)
}

// grows reports whether rows never leave a node: they follow from events, and their windows from
// their times.
func grows(n query.Node) bool {
	switch n := n.(type) {
	case *query.Scan:
		return true
	case *query.Assign:
		return n.Kind != windows.Session && grows(n.In)
	case *query.Aggregate, *query.TopN, *query.Over, *query.FinalOnly:
		return false
	}
	for _, in := range n.Inputs() {
		if !grows(in) {
			return false
		}
	}
	return true
}

// events reports whether every row of a node follows from one event.
func events(n query.Node) bool {
	switch n := n.(type) {
	case *query.Scan:
		return true
	case *query.Assign:
		return n.Kind != windows.Session && n.Kind != windows.Slide && events(n.In)
	case *query.Filter, *query.Project, *query.Union:
		for _, in := range n.Inputs() {
			if !events(in) {
				return false
			}
		}
		return true
	}
	return false
}

// follow finds what the time of a window function over rows with weights is: the end of a window
// beneath, or the start of one of tumble or hop. It gives the watermark at which a window that ends
// at a time is final (V2), or nil where the time is something else.
func follow(n query.Node, col int) func(end windows.Micros) windows.Micros {
	switch x := n.(type) {
	case *query.Assign:
		switch bound := col - len(x.In.Fields()); {
		case bound < 0:
			return follow(x.In, col)
		case bound == 1:
			return func(end windows.Micros) windows.Micros { return end }
		case x.Kind == windows.Tumble:
			// All windows that start before end are final when the last of them is.
			return func(end windows.Micros) windows.Micros {
				_, last := windows.Tumbling{Size: x.Size, Zone: x.Zone}.Window(end - 1)
				return last
			}
		case x.Kind == windows.Hop:
			return func(end windows.Micros) windows.Micros { return x.Size.Add(x.Slide.Bucket(end - 1)) }
		}
	case *query.Filter:
		return follow(x.In, col)
	case *query.FinalOnly:
		return follow(x.In, col)
	case *query.Union:
		var all []func(windows.Micros) windows.Micros
		for _, in := range x.Ins {
			f := follow(in, col)
			if f == nil {
				return nil
			}
			all = append(all, f)
		}
		return func(end windows.Micros) windows.Micros {
			at := end
			for _, f := range all {
				at = max(at, f(end))
			}
			return at
		}
	case *query.Project:
		if c := x.Exprs[col].ColumnNumber(); c >= 0 {
			return follow(x.In, c)
		}
	case *query.Aggregate:
		if col < len(x.Keys) {
			return follow(x.In, x.Keys[col])
		}
	case *query.TopN:
		if col < len(x.In.Fields()) {
			return follow(x.In, col)
		}
	case *query.Over:
		if col < len(x.In.Fields()) {
			return follow(x.In, col)
		}
	}
	return nil
}

// connect makes the operator of a node and lets t read it.
func (b *builder) connect(in query.Node, t target, last bool) error {
	outs, err := b.node(in, last)
	if err == nil {
		*outs = append(*outs, t)
	}
	return err
}

func (b *builder) scan(n *query.Scan) *targets {
	s := &scan{e: b.e, stream: b.e.plan.Sources[n.Source].Stream, cols: n.Cols}
	for _, c := range n.Cols {
		s.made = append(s.made, row.NewVector(c.Type, 0))
	}
	b.e.scans = append(b.e.scans, s)
	return &s.outs
}

func (b *builder) aggregate(n *query.Aggregate, last bool) (*aggregate, error) {
	from := b.groupsOf(n, windows.Session)
	if from != nil {
		b.fused[from.assign] = true
		// Behind it a group may hold sessions that end at different times: it is not known to be
		// final before all of them are given out.
		b.e.loose = b.e.loose || !last
	}
	hop := b.groupsOf(n, windows.Hop)
	var span *paneSpan
	if hop != nil && !b.e.cfg.Evidence && follow(hop.assign.In, hop.assign.TimeCol) == nil {
		span = newPaneSpan(hop.assign.Slide, hop.assign.Size, b.e.cfg.WindowsFrom)
	}
	if span != nil {
		span.allowed = b.e.function(hop.assign.Number, b.own).AllowedLateness
		b.panes[hop.assign] = span
	}
	a, err := newAggregate(b.e, b.id(), n, last, from)
	if err != nil {
		return nil, err
	}
	if span != nil {
		a.ties, a.panes = hop.ties, newPanes(a, span, hop.bounds)
	}
	if err := b.connect(n.In, a, false); err != nil {
		return nil, err
	}
	if from != nil {
		a.ties = from.ties
		a.sess = b.sess[from.assign]
		a.sess.agg = a
	}
	b.e.ops = append(b.e.ops, a)
	return a, nil
}

// windowGroups says that the groups of an aggregate are those of windows.
type windowGroups struct {
	assign *query.Assign
	bounds []int8 // for each key: 1 the window's start, 2 its end, 0 something else
	bound  int    // a key that is a bound
	keys   []int  // for each key, which of the function's it is; −1: none
	// ties are the aggregate's without those that are bounds: in one window they are all equal, and
	// a pane or a session that still grows does not know them. Nil where the aggregate has none.
	ties []int
}

// groupsOf finds the session or hop function under an aggregate whose groups each lie in one
// window: the keys hold a bound and all keys of the function, and nothing in between computes with
// the bounds. It returns nil where that is not so.
func (b *builder) groupsOf(n *query.Aggregate, kind windows.Kind) *windowGroups {
	// where[c] is where column c of the node comes from, in the function's columns; −1: computed.
	type trace struct {
		assign *query.Assign
		where  []int
	}
	var follow func(x query.Node) (trace, bool)
	plain := func(t trace, reads []int) bool {
		bounds := len(t.assign.Fields()) - 2
		for _, c := range reads {
			if t.where[c] >= bounds {
				return false
			}
		}
		return true
	}
	follow = func(x query.Node) (trace, bool) {
		if b.readers[x] != 1 {
			return trace{}, false
		}
		switch x := x.(type) {
		case *query.Assign:
			t := trace{assign: x}
			for i := range x.Fields() {
				t.where = append(t.where, i)
			}
			_, stream := x.In.(*query.Scan)
			for in := x.In; !stream; { // nothing but filters and projections below
				switch y := in.(type) {
				case *query.Filter:
					in = y.In
				case *query.Project:
					in = y.In
				case *query.Scan, *query.Union:
					stream = events(y)
					if !stream {
						return trace{}, false
					}
				default:
					return trace{}, false
				}
			}
			return t, x.Kind == kind && (x.Where == nil || plain(t, x.Where.Reads()))
		case *query.Filter:
			t, ok := follow(x.In)
			return t, ok && plain(t, x.Pred.Reads())
		case *query.Project:
			t, ok := follow(x.In)
			if !ok {
				return t, false
			}
			where := make([]int, len(x.Exprs))
			for i, e := range x.Exprs {
				where[i] = -1
				if c := e.ColumnNumber(); c >= 0 {
					where[i] = t.where[c]
				} else if !plain(t, e.Reads()) {
					return t, false
				}
			}
			return trace{t.assign, where}, true
		}
		return trace{}, false
	}
	t, ok := follow(n.In)
	if !ok {
		return nil
	}
	start := len(t.assign.Fields()) - 2
	out := &windowGroups{assign: t.assign, bounds: make([]int8, len(n.Keys)), keys: make([]int, len(n.Keys))}
	has := map[int]bool{}
	for i, k := range n.Keys {
		has[t.where[k]] = true
		out.keys[i] = slices.Index(t.assign.Keys, t.where[k])
		if w := t.where[k]; w >= start {
			out.bounds[i], out.bound = int8(w-start+1), i
		}
	}
	if !has[start] && !has[start+1] || !plain(t, n.Then) {
		return nil
	}
	for _, k := range t.assign.Keys {
		if !has[k] {
			return nil
		}
	}
	if n.Ties != nil {
		out.ties = slices.DeleteFunc(append([]int{}, n.Ties...), func(c int) bool { return t.where[c] >= start })
	}
	for _, c := range n.Calls {
		if !plain(t, c.Args) || c.Filter >= 0 && !plain(t, []int{c.Filter}) {
			return nil
		}
	}
	return out
}

func (b *builder) assign(n *query.Assign) (*targets, error) {
	finalAt := follow(n.In, n.TimeCol)
	if over := finalAt != nil || !events(n.In); over && (finalAt == nil || n.Kind != windows.Tumble && n.Kind != windows.Hop) {
		return nil, unsupported("a %s window can't follow this time here yet", n.Kind)
	}
	options := b.e.function(n.Number, b.own)
	ts := row.Scalar(row.Timestamp)
	switch n.Kind {
	case windows.Tumble, windows.Hop:
		o := &fixed{
			e: b.e, number: n.Number, hop: n.Kind == windows.Hop, tumble: windows.Tumbling{Size: n.Size, Zone: n.Zone},
			hopping: windows.Hopping{Slide: n.Slide, Size: n.Size}, timeCol: n.TimeCol, where: n.Where,
			options: options, over: finalAt != nil, finalAt: finalAt, panes: b.panes[n], start: row.NewVector(ts, 0), end: row.NewVector(ts, 0),
		}
		if err := b.connect(n.In, o, false); err != nil {
			return nil, err
		}
		b.e.stacked = b.e.stacked || o.over
		if !o.over {
			b.e.windows = append(b.e.windows, o)
		}
		return &o.outs, nil
	case windows.Session:
		gap, ok := n.Size.Span()
		if !ok {
			return nil, unsupported("a session's gap can't have months, and this is %s", n.Size)
		}
		id := b.id()
		o := &sessions{
			e: b.e, id: id, number: n.Number, kind: windows.Sessions{Gap: gap}, timeCol: n.TimeCol, keys: n.Keys,
			where: n.Where, unsure: n.Unsure, options: options, table: map[string][]int32{}, start: row.NewVector(ts, 0),
			cold: newCold(b.e, spaceSession, id),
		}
		b.sess[n] = o
		b.e.sessions = append(b.e.sessions, o)
		b.e.windows = append(b.e.windows, o)
		if b.fused[n] {
			return &o.outs, b.connect(n.In, o, false)
		}
		b.e.loose = true
		o.rows = &sessionRows{
			o: o, fields: n.Fields(), store: newStore(n.In.Fields()), start: row.NewVector(ts, 0), end: row.NewVector(ts, 0),
		}
		if n.Where != nil {
			for _, c := range n.Where.Reads() {
				o.rows.filters = o.rows.filters || c >= len(n.In.Fields())
			}
		}
		o.outs = targets{o.rows}
		if err := b.connect(n.In, o, false); err != nil {
			return nil, err
		}
		b.e.ops = append(b.e.ops, o.rows)
		return &o.rows.outs, nil
	case windows.Slide:
		size, ok := n.Size.Span()
		if !ok {
			return nil, unsupported("the size of slide can't have months, and this is %s", n.Size)
		}
		o := newSliding(b.e, b.id(), n.In.Fields())
		o.number, o.kind, o.timeCol, o.keys, o.where = n.Number, windows.Sliding{Size: size}, n.TimeCol, n.Keys, n.Where
		o.options, o.unsure = options, n.Unsure
		b.e.windows = append(b.e.windows, o)
		b.e.ops = append(b.e.ops, o)
		return &o.outs, b.connect(n.In, o, false)
	}
	return nil, unsupported("%s windows aren't supported here yet", n.Kind)
}
