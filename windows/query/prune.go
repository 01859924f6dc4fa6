package query

import (
	"slices"

	"tidemark/windows/expr"
)

// prune takes out of a plan what nothing above needs: columns of streams that only a `*` inside or
// a window's time argument named are then never read from the log. keep are the columns of n that
// must stay; to says where each of them stands afterwards.
func prune(n Node, keep map[int]bool) (pruned Node, to map[int]int) {
	switch n := n.(type) {
	case *Scan:
		cols, to := kept(n.Cols, keep)
		return NewScan(n.Source, cols), to
	case *Filter:
		in, to := prune(n.In, with(keep, n.Pred.Reads()...))
		return &Filter{In: in, Pred: moved(n.Pred, to)}, to
	case *Project:
		below := map[int]bool{}
		for i, e := range n.Exprs {
			if keep[i] {
				below = with(below, e.Reads()...)
			}
		}
		in, from := prune(n.In, below)
		exprs, to := kept(n.Exprs, keep)
		names, _ := kept(n.Names, keep)
		for i, e := range exprs {
			exprs[i] = moved(e, from)
		}
		return NewProject(in, exprs, names), to
	case *Assign:
		width := len(n.In.Fields())
		below := with(nil, append(slices.Clone(n.Keys), n.TimeCol)...)
		if n.Where != nil {
			keep = with(keep, n.Where.Reads()...)
		}
		for c := range keep {
			if c < width {
				below[c] = true
			}
		}
		in, to := prune(n.In, below)
		out := NewAssign(in, n.Kind, to[n.TimeCol], n.Size, n.Slide)
		out.Number, out.Keys = n.Number, movedAll(n.Keys, to)
		to[width], to[width+1] = len(in.Fields()), len(in.Fields())+1
		if n.Where != nil {
			out.Where = moved(n.Where, to)
		}
		return out, to
	case *Aggregate:
		below := with(nil, append(slices.Clone(n.Keys), n.Ties...)...)
		for _, c := range n.Calls {
			below = with(below, c.Args...)
			if c.Filter >= 0 {
				below[c.Filter] = true
			}
		}
		in, from := prune(n.In, below)
		calls := slices.Clone(n.Calls)
		for i := range calls {
			calls[i].Args = movedAll(calls[i].Args, from)
			if calls[i].Filter >= 0 {
				calls[i].Filter = from[calls[i].Filter]
			}
		}
		out := NewAggregate(in, movedAll(n.Keys, from), calls, n.Windowed)
		out.Ties = movedAll(n.Ties, from)
		return out, same(n)
	case *TopN:
		below := with(with(keep, n.Partition...), n.Then...)
		for _, k := range n.Order {
			below[k.Col] = true
		}
		width := len(n.In.Fields())
		delete(below, width) // its own number
		in, to := prune(n.In, below)
		out := NewTopN(in, n.Limit, n.Numbered)
		out.ByLog, out.Then, out.Windowed, out.Partition = n.ByLog, movedAll(n.Then, to), n.Windowed, movedAll(n.Partition, to)
		for _, k := range n.Order {
			k.Col = to[k.Col]
			out.Order = append(out.Order, k)
		}
		to[width] = len(in.Fields())
		return out, to
	case *Over:
		width := len(n.In.Fields())
		below := map[int]bool{}
		for c := range keep {
			if c < width {
				below[c] = true
			}
		}
		below = with(with(below, n.Partition...), n.Then...)
		for _, k := range n.Order {
			below[k.Col] = true
		}
		for _, c := range n.Calls {
			below = with(below, c.Args...)
			for _, o := range []int{c.Filter, c.Default} {
				if o >= 0 {
					below[o] = true
				}
			}
		}
		in, to := prune(n.In, below)
		calls := slices.Clone(n.Calls)
		for i := range calls {
			c := &calls[i]
			c.Args = movedAll(c.Args, to)
			if c.Filter >= 0 {
				c.Filter = to[c.Filter]
			}
			if c.Default >= 0 {
				c.Default = to[c.Default]
			}
		}
		out := NewOver(in, calls)
		out.Peers, out.ByLog, out.Then, out.Windowed, out.Partition = n.Peers, n.ByLog, movedAll(n.Then, to), n.Windowed, movedAll(n.Partition, to)
		for _, k := range n.Order {
			k.Col = to[k.Col]
			out.Order = append(out.Order, k)
		}
		for i := range calls {
			to[width+i] = len(in.Fields()) + i
		}
		return out, to
	case *Union:
		out := &Union{}
		var to map[int]int
		for _, in := range n.Ins { // projections, which all keep the same columns in the same order
			var p Node
			p, to = prune(in, keep)
			out.Ins = append(out.Ins, p)
		}
		return out, to
	}
	return n, same(n)
}

// kept are the elements at the numbers in keep, and where each has gone.
func kept[T any](list []T, keep map[int]bool) (out []T, to map[int]int) {
	to = map[int]int{}
	for i, x := range list {
		if keep[i] {
			to[i] = len(out)
			out = append(out, x)
		}
	}
	return out, to
}

func with(set map[int]bool, more ...int) map[int]bool {
	out := map[int]bool{}
	for c := range set {
		out[c] = true
	}
	for _, c := range more {
		out[c] = true
	}
	return out
}

func moved(e *expr.Expr, to map[int]int) *expr.Expr {
	return e.Renumber(func(c int) int { return to[c] })
}

func movedAll(cols []int, to map[int]int) []int {
	var out []int
	for _, c := range cols {
		out = append(out, to[c])
	}
	return out
}

// same is the mapping of a node that keeps all its columns.
func same(n Node) map[int]int {
	to := map[int]int{}
	for i := range n.Fields() {
		to[i] = i
	}
	return to
}
