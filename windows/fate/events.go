package fate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/judge"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// Members are the events that the rows with a key are made of.
type Members struct {
	Items []Member `json:"items"`
	// Exact: the items are these events and no others. If not, Reason says why.
	Exact  bool    `json:"exact"`
	Reason *string `json:"reason"`
	// More: there are more than the items.
	More bool `json:"more"`
	// Position is how far the view was.
	Position string `json:"position"`
}

// Member is one event, with whether the rows count it.
type Member struct {
	Stream    string           `json:"stream"`
	Partition stream.Partition `json:"partition"`
	Offset    stream.Offset    `json:"offset"`
	Time      string           `json:"time"`
	Event     json.RawMessage  `json:"event"`
	Outcome   judge.Outcome    `json:"outcome"`
}

// RowEvents gives the events of the rows that have these values in these columns, as the log has them
// in its order. It follows the columns through the view's plan to what an event alone decides: its
// groups and windows, also through views beneath. Where columns can't be followed it says so and
// guesses nothing.
func (f *Fates) RowEvents(ctx context.Context, view, key string, limit int) (*Members, error) {
	fields, err := f.Views.Fields(view)
	if err != nil {
		return nil, err
	}
	wanted, err := parseKey(fields, key)
	if err != nil {
		return nil, err
	}
	proof, err := f.Views.Proof(view)
	if err != nil {
		return nil, err
	}
	plan, err := proof.Compile()
	if err != nil {
		return nil, err
	}
	info, err := f.Views.Get(view)
	if err != nil {
		return nil, err
	}
	m := &membership{f: f, proof: proof, plan: plan, wanted: wanted, limit: limit, from: windows.NoWatermark, to: 1<<63 - 1, out: &Members{Items: []Member{}, Exact: true, Position: info.Position}}
	m.refuses = info.Counts.LateDropped > 0 || info.Counts.LatePartial > 0
	if why := m.prepare(); why != "" {
		m.doubt(why)
		return m.out, nil
	}
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	return m.out, nil
}

// membership finds the events of rows.
type membership struct {
	f       *Fates
	proof   *runtime.Proof
	plan    *query.Plan
	wanted  *rowKey
	limit   int
	refuses bool // the view has refused events
	// alone: no aggregate is on the way, a row is made of one event.
	alone bool
	// from and to hold the time of the events, where the wanted windows tell.
	from, to windows.Micros
	out      *Members
}

// doubt says why the answer is not exact; the first reason stands.
func (m *membership) doubt(why string) {
	m.out.Exact = false
	if m.out.Reason == nil {
		m.out.Reason = &why
	}
}

// prepare looks whether the wanted columns can be followed; it returns why not.
func (m *membership) prepare() string {
	aggregates := firstAggregates(m.plan.Root)
	if m.alone = len(aggregates) == 0; m.alone {
		if ranks(m.plan.Root) {
			return "the view ranks or numbers its rows among each other: one event alone does not tell which row it is"
		}
		return ""
	}
	for _, c := range m.wanted.cols {
		for _, a := range aggregates {
			if m.keyOf(a, c) < 0 {
				return fmt.Sprintf("the column %s is computed from several events or after they were grouped: it can't be followed back to them", m.wanted.fields[c].Name)
			}
		}
	}
	for c := range m.plan.Visible {
		named := slices.Contains(m.wanted.cols, c)
		if !named && slices.ContainsFunc(aggregates, func(a *query.Aggregate) bool { return m.keyOf(a, c) >= 0 }) {
			m.doubt(fmt.Sprintf("the key does not name %s: the events of all rows with the key are listed", m.plan.Columns[c].Name))
		}
	}
	for _, a := range aggregates {
		if narrowedAbove(m.plan.Root, a) {
			m.doubt("groups that the view leaves out again are not told apart: their events are listed too")
		}
	}
	m.from, m.to = m.times(aggregates)
	return ""
}

// keyOf is the number of the aggregate's key that a column of the view is; −1: it is none.
func (m *membership) keyOf(a *query.Aggregate, visible int) int {
	return keyBehind(m.plan.Root, m.plan.Visible[visible], a)
}

// firstAggregates are the aggregates that an event comes to first.
func firstAggregates(n query.Node) []*query.Aggregate {
	var out []*query.Aggregate
	for _, in := range n.Inputs() {
		for _, a := range firstAggregates(in) {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	if a, ok := n.(*query.Aggregate); ok && len(out) == 0 {
		return []*query.Aggregate{a}
	}
	return out
}

// ranks reports whether rows take places among each other below a node.
func ranks(n query.Node) bool {
	switch n.(type) {
	case *query.TopN, *query.Over:
		return true
	}
	return slices.ContainsFunc(n.Inputs(), ranks)
}

// narrowedAbove reports whether rows are left out between an aggregate and another one that reads it.
func narrowedAbove(root query.Node, a *query.Aggregate) bool {
	var path func(n query.Node) []query.Node
	path = func(n query.Node) []query.Node {
		if n == query.Node(a) {
			return []query.Node{n}
		}
		for _, in := range n.Inputs() {
			if p := path(in); p != nil {
				return append(p, n)
			}
		}
		return nil
	}
	narrowed := false
	for _, n := range path(root) {
		switch n := n.(type) {
		case *query.Aggregate:
			if n != a && narrowed {
				return true
			}
		case *query.Filter, *query.TopN:
			narrowed = true
		}
	}
	return false
}

// times are the bounds of the events' times that follow from wanted bounds of windows, where these
// are windows over the streams' own time.
func (m *membership) times(aggregates []*query.Aggregate) (from, to windows.Micros) {
	from, to = m.from, m.to
	if len(aggregates) != 1 {
		return from, to
	}
	a := aggregates[0]
	assign, col := assignOf(a)
	if assign == nil || !m.streamTime(assign) {
		return from, to
	}
	for n, c := range m.wanted.cols {
		v := m.wanted.values[n]
		if v.IsNull(0) {
			continue
		}
		switch col(a.Keys[m.keyOf(a, c)]) {
		case 0:
			from = max(from, v.I64[0])
		case 1:
			to = min(to, v.I64[0])
		}
	}
	return from, to
}

// assignOf is the window function right beneath an aggregate; col says of a column of the
// aggregate's input whether it is its start (0), its end (1), or neither (−1).
func assignOf(a *query.Aggregate) (assign *query.Assign, col func(int) int) {
	n := a.In
	var projects []*query.Project
	for {
		switch in := n.(type) {
		case *query.Filter:
			n = in.In
		case *query.Project:
			projects = append(projects, in)
			n = in.In
		case *query.Assign:
			width := len(in.In.Fields())
			return in, func(c int) int {
				for _, p := range projects {
					if c = p.Exprs[c].ColumnNumber(); c < 0 {
						return -1
					}
				}
				return c - width
			}
		default:
			return nil, nil
		}
	}
}

// streamTime reports whether a window function goes by the time of the streams' events.
func (m *membership) streamTime(a *query.Assign) bool {
	n, col := a.In, a.TimeCol
	for {
		switch in := n.(type) {
		case *query.Filter:
			n = in.In
		case *query.Project:
			if col = in.Exprs[col].ColumnNumber(); col < 0 {
				return false
			}
			n = in.In
		case *query.Scan:
			c := in.Cols[col]
			if c.Pseudo != "" {
				return c.Pseudo == query.PseudoTime
			}
			st, err := m.f.Streams.Get(m.plan.Sources[in.Source].Name)
			return err == nil && c.Column < len(st.Schema.Fields) && strings.EqualFold(st.Schema.Fields[c.Column].Name, st.Config.TimeField)
		default:
			return false
		}
	}
}

// read goes through the log up to the view's position.
func (m *membership) read(ctx context.Context) error {
	ids := make([]stream.ID, len(m.proof.Sources))
	names := map[stream.ID]string{}
	for i, s := range m.proof.Sources {
		ids[i], names[s.ID] = s.ID, s.Name
	}
	for _, id := range ids {
		if mark, err := m.f.Log.Mark(id); err == nil && mark.Sequence > 0 {
			m.doubt("retention or compaction has removed events of " + names[id])
		}
	}
	reader := m.f.Log.Read(ids, m.proof.StartAt)
	defer reader.Close()
	for {
		e, ok, err := reader.Next()
		var trimmed *stream.Trimmed
		if errors.As(err, &trimmed) {
			m.doubt("retention has removed events of " + trimmed.Name)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the events of a row: %w", err)
		}
		if !ok || e.Sequence() > m.proof.Position.Sequence {
			return nil
		}
		if ctx.Err() != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			m.out.More = true
			m.doubt("the log is too long to be read in time; these are the first of the events")
			return nil
		}
		b := e.Batch
		if b == nil {
			continue
		}
		for i := range b.Len {
			if b.Times[i] < m.from || b.Times[i] > m.to || m.proof.EventsFrom != nil && b.Times[i] < *m.proof.EventsFrom || !m.has(b, i) {
				continue
			}
			if len(m.out.Items) == m.limit {
				m.out.More = true
				return nil
			}
			one, err := m.member(ctx, names[b.Stream], b, i)
			if err != nil {
				return err
			}
			m.out.Items = append(m.out.Items, one)
		}
	}
}

// has reports whether an event goes to one of the rows.
func (m *membership) has(b *stream.Batch, i int) bool {
	if m.alone {
		rows := judge.Rows(m.plan, b, i)
		for k := range rows.Len {
			if m.equal(rows, k) {
				return true
			}
		}
		return false
	}
	for _, g := range judge.Groups(m.plan, b, i) {
		for k := range g.Rows.Len {
			if m.inGroup(g, k) {
				return true
			}
		}
	}
	return false
}

// equal compares a row of the plan's root with the wanted values.
func (m *membership) equal(rows *row.Batch, k int) bool {
	for n, c := range m.wanted.cols {
		if !same(rows.Cols[m.plan.Visible[c]], k, m.wanted.values[n], 0) {
			return false
		}
	}
	return true
}

// inGroup compares one group of an event with the wanted values. Of sessions and slides a group has
// the event's own window, which lies in that of the row.
func (m *membership) inGroup(g judge.Group, k int) bool {
	for n, c := range m.wanted.cols {
		own := g.Aggregate.Keys[m.keyOf(g.Aggregate, c)]
		in, want := g.Rows.Cols[own], m.wanted.values[n]
		if own != g.Start && own != g.End {
			if !same(in, k, want, 0) {
				return false
			}
			continue
		}
		if want.IsNull(0) {
			return false
		}
		apart := want.I64[0] - in.I64[k]
		switch {
		case g.Kind == windows.Session && own == g.Start && apart > 0,
			g.Kind == windows.Session && own == g.End && apart < 0,
			g.Kind == windows.Slide && (apart < 0 || apart > sizeOf(g)):
			return false
		}
	}
	return true
}

// sizeOf is how long the windows of a slide are.
func sizeOf(g judge.Group) int64 {
	a, _ := assignOf(g.Aggregate)
	if a == nil {
		return 1<<63 - 1
	}
	span, _ := a.Size.Span()
	return span
}

// member describes an event, with what the view did with it.
func (m *membership) member(ctx context.Context, name string, b *stream.Batch, i int) (Member, error) {
	place := stream.Place{Partition: b.Partition, Offset: b.Offset(i)}
	out := Member{Stream: name, Partition: place.Partition, Offset: place.Offset, Time: text(b.Times[i]), Event: slices.Clone(b.Raw(i)), Outcome: judge.Counted}
	if !json.Valid(out.Event) {
		quoted, err := json.Marshal(string(out.Event))
		if err != nil {
			return out, err
		}
		out.Event = quoted
	}
	if !m.refuses {
		return out, nil
	}
	did, err := m.f.inView(ctx, m.proof.Name, judge.Event{Stream: b.Stream, Place: place}, b.Sequence)
	if err != nil && ctx.Err() != nil {
		return out, problem.New(504, "deadline", "what the view refused could not be worked out in time").WithHint("ask again: what was worked out is kept")
	}
	if err != nil || did == nil {
		return out, err
	}
	out.Outcome = did.Outcome
	for _, w := range did.Windows {
		if m.window(w) {
			out.Outcome = w.Outcome
		}
	}
	return out, nil
}

// window reports whether a window of an event is that of the rows.
func (m *membership) window(w Window) bool {
	found := false
	for n, c := range m.wanted.cols {
		v := m.wanted.values[n]
		switch name := strings.ToLower(m.wanted.fields[c].Name); {
		case v.IsNull(0) || v.Type.Kind != row.Timestamp:
		case name == "window_start" && text(v.I64[0]) == w.Start, name == "window_end" && text(v.I64[0]) == w.End:
			found = true
		case name == "window_start" || name == "window_end":
			return false
		}
	}
	return found
}
