package query

import (
	"maps"
	"slices"

	"tidemark/windows/expr"
)

// prune takes out of a plan what nothing above needs: columns of streams that only a `*` inside or
// a window's time argument named are then never read from the log. keep are the columns of n that
// must stay; to says where each of them stands afterwards. A node that several read stays one.
// always are columns of nodes beneath that stay in any case.
func prune(n Node, keep map[int]bool, always map[Node][]int) (pruned Node, to map[int]int) {
	p := &pruner{need: map[Node]map[int]bool{}, done: map[Node]prunedNode{}}
	for x, cols := range always {
		p.need[x] = with(nil, cols...)
	}
	p.need[n] = with(keep, slices.Collect(maps.Keys(p.need[n]))...)
	for _, x := range topDown(n) {
		p.require(x, p.need[x])
	}
	return p.prune(n)
}

// topDown are the nodes of a plan, each behind all that read it.
func topDown(root Node) []Node {
	var out []Node
	seen := map[Node]bool{}
	var visit func(n Node)
	visit = func(n Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, in := range n.Inputs() {
			visit(in)
		}
		out = append(out, n)
	}
	visit(root)
	slices.Reverse(out)
	return out
}

type pruner struct {
	need map[Node]map[int]bool
	done map[Node]prunedNode
}

type prunedNode struct {
	node Node
	to   map[int]int
}

// require notes the columns that a node needs of its inputs.
func (p *pruner) require(n Node, keep map[int]bool) {
	below := map[int]bool{}
	own := func(width int) { // the columns that are passed on
		for c := range keep {
			if c < width {
				below[c] = true
			}
		}
	}
	cols := func(list ...int) {
		for _, c := range list {
			if c >= 0 {
				below[c] = true
			}
		}
	}
	switch n := n.(type) {
	case *Filter:
		cols(n.Pred.Reads()...)
		own(len(n.Fields()))
	case *FinalOnly:
		cols(n.Key...)
		own(len(n.Fields()))
	case *Project:
		for i, e := range n.Exprs {
			if keep[i] {
				cols(e.Reads()...)
			}
		}
	case *Assign:
		width := len(n.In.Fields())
		cols(n.Keys...)
		cols(n.TimeCol)
		if n.Where != nil {
			for _, c := range n.Where.Reads() {
				if c < width {
					cols(c)
				}
			}
		}
		own(width)
	case *Aggregate:
		cols(n.Keys...)
		cols(n.Ties...)
		cols(n.Then...)
		for _, c := range n.Calls {
			cols(c.Args...)
			cols(c.Filter)
		}
	case *TopN:
		own(len(n.In.Fields()))
		cols(n.Partition...)
		cols(n.Then...)
		for _, k := range n.Order {
			cols(k.Col)
		}
	case *Over:
		own(len(n.In.Fields()))
		cols(n.Partition...)
		cols(n.Then...)
		for _, k := range n.Order {
			cols(k.Col)
		}
		for _, c := range n.Calls {
			cols(c.Args...)
			cols(c.Filter, c.Default)
			for _, b := range []Bound{c.Frame.Start, c.Frame.End} {
				if b.Distance {
					cols(b.Value)
				}
			}
		}
	case *Union:
		own(len(n.Fields()))
	}
	for _, in := range n.Inputs() {
		p.need[in] = with(p.need[in], slices.Collect(maps.Keys(below))...)
	}
}

// prune makes a node anew with the columns that are needed of it.
func (p *pruner) prune(n Node) (Node, map[int]int) {
	if d, ok := p.done[n]; ok {
		return d.node, maps.Clone(d.to)
	}
	node, to := p.make(n, p.need[n])
	p.done[n] = prunedNode{node, maps.Clone(to)}
	return node, to
}

func (p *pruner) make(n Node, keep map[int]bool) (pruned Node, to map[int]int) {
	switch n := n.(type) {
	case *Scan:
		cols, to := kept(n.Cols, keep)
		return NewScan(n.Source, cols), to
	case *Filter:
		in, to := p.prune(n.In)
		return &Filter{In: in, Pred: moved(n.Pred, to)}, to
	case *FinalOnly:
		in, to := p.prune(n.In)
		return &FinalOnly{In: in, Key: movedAll(n.Key, to)}, to
	case *Project:
		in, from := p.prune(n.In)
		exprs, to := kept(n.Exprs, keep)
		names, _ := kept(n.Names, keep)
		for i, e := range exprs {
			exprs[i] = moved(e, from)
		}
		return NewProject(in, exprs, names), to
	case *Assign:
		width := len(n.In.Fields())
		in, to := p.prune(n.In)
		out := NewAssign(in, n.Kind, to[n.TimeCol], n.Size, n.Slide)
		out.Number, out.Zone, out.Keys = n.Number, n.Zone, movedAll(n.Keys, to)
		to[width], to[width+1] = len(in.Fields()), len(in.Fields())+1
		if n.Where != nil {
			out.Where = moved(n.Where, to)
		}
		return out, to
	case *Aggregate:
		in, from := p.prune(n.In)
		calls := slices.Clone(n.Calls)
		for i := range calls {
			calls[i].Args = movedAll(calls[i].Args, from)
			if calls[i].Filter >= 0 {
				calls[i].Filter = from[calls[i].Filter]
			}
		}
		out := NewAggregate(in, movedAll(n.Keys, from), calls, n.Windowed)
		out.Ties, out.Then = movedAll(n.Ties, from), movedAll(n.Then, from)
		return out, same(n)
	case *TopN:
		width := len(n.In.Fields())
		in, to := p.prune(n.In)
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
		in, to := p.prune(n.In)
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
			for _, b := range []*Bound{&c.Frame.Start, &c.Frame.End} {
				if b.Distance {
					b.Value = to[b.Value]
				}
			}
		}
		out := NewOver(in, calls)
		out.Peers, out.ByLog, out.Then, out.Windowed, out.Partition = n.Peers, n.ByLog, movedAll(n.Then, to), n.Windowed, movedAll(n.Partition, to)
		for _, k := range n.Order {
			k.Col = to[k.Col]
			out.Order = append(out.Order, k)
		}
		if n.Best != nil {
			out.Best = &Best{Col: to[n.Best.Col], Least: n.Best.Least}
		}
		for i := range calls {
			to[width+i] = len(in.Fields()) + i
		}
		return out, to
	case *Union:
		out := &Union{}
		var to map[int]int
		for _, in := range n.Ins { // projections, which all keep the same columns in the same order
			var x Node
			x, to = p.prune(in)
			out.Ins = append(out.Ins, x)
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
