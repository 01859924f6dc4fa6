package judge

import (
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/query"
)

// Group is what a plan's first aggregate on the way of an event makes of it.
type Group struct {
	Aggregate *query.Aggregate
	// Rows are the rows that come to the aggregate, one for each window.
	Rows *row.Batch
	// Start and End are the columns of Rows with the bounds of a session or slide, −1 without: there
	// they are those of the event's own window.
	Start, End int
	Kind       windows.Kind
}

// Groups tells to which groups of a plan's aggregates an event goes, by that event alone.
func Groups(plan *query.Plan, b *stream.Batch, i int) []Group {
	one := &single{b: b, i: i, plan: plan, made: map[query.Node]*row.Batch{}}
	one.all(plan.Root)
	if one.failed != "" {
		return nil
	}
	var out []Group
	for _, n := range query.Nodes(plan.Root) {
		a, ok := n.(*query.Aggregate)
		if !ok {
			continue
		}
		rows := one.rows(a.In)
		if rows == nil || rows.Len == 0 {
			continue
		}
		g := Group{Aggregate: a, Rows: rows, Start: -1, End: -1}
		for c := range a.In.Fields() {
			kind, bound := boundOf(a.In, c)
			switch bound {
			case query.WindowStart:
				g.Start, g.Kind = c, kind
			case query.WindowEnd:
				g.End, g.Kind = c, kind
			}
		}
		out = append(out, g)
	}
	return out
}

// boundOf says which bound of a session or slide a column is; empty: none.
func boundOf(n query.Node, col int) (windows.Kind, string) {
	for {
		switch in := n.(type) {
		case *query.Filter:
			n = in.In
		case *query.Project:
			if col = in.Exprs[col].ColumnNumber(); col < 0 {
				return 0, ""
			}
			n = in.In
		case *query.Assign:
			width := len(in.In.Fields())
			switch {
			case in.Kind != windows.Session && in.Kind != windows.Slide || col < width:
				return 0, ""
			case col == width:
				return in.Kind, query.WindowStart
			}
			return in.Kind, query.WindowEnd
		default:
			return 0, ""
		}
	}
}

// Rows are the rows of a plan without aggregates that one event gives; none where they don't follow
// from it alone.
func Rows(plan *query.Plan, b *stream.Batch, i int) *row.Batch {
	one := &single{b: b, i: i, plan: plan, made: map[query.Node]*row.Batch{}}
	one.all(plan.Root)
	if rows := one.rows(plan.Root); rows != nil && one.failed == "" {
		return rows
	}
	return &row.Batch{}
}
