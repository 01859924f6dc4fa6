package engine

import (
	"sort"
	"strings"

	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/agg"
	"tidemark/windows/query"
)

// over computes window functions. A partition that changed is computed again as a whole, and the
// rows whose values changed are given out (N2). Where only the best rows are asked for, and rows never
// leave the input, it keeps those alone: another one stays worse whatever comes.
type over struct {
	partitions
	n    *query.Over
	outs targets
	aggs []agg.Column // for each call that is an aggregate

	// The partition in work.
	in     row.Batch
	values row.Batch // a column for each call
	failed []bool    // rows of which an aggregate failed
	lo, hi []int     // the peers of each row: from lo to before hi
	sorted []int32   // its rows
	ranks  []agg.Rank
	sel    []int32
	zeros  []int32
	args   []*row.Vector
}

func newOver(e *Engine, id byte, n *query.Over, grows bool) *over {
	o := &over{partitions: newPartitions(e, id, n.In.Fields()), n: n}
	o.cols, o.order, o.peers, o.byLog, o.then, o.windowed = n.Partition, n.Order, n.Peers, n.ByLog, n.Then, n.Windowed
	behind := n.Fields()[len(n.In.Fields()):]
	o.rows.out = newStore(behind)
	o.in = *row.NewBatch(n.In.Fields(), 0)
	o.values = *row.NewBatch(behind, 0)
	for _, c := range n.Calls {
		var col agg.Column
		if c.Func != nil {
			col = c.Func.NewColumn()
			col.Grow(1)
		}
		o.aggs = append(o.aggs, col)
	}
	if grows {
		o.best = n.Best
	}
	o.give = o.giveRows
	return o
}

func (o *over) take(c *chunk) {
	if c.f.batch {
		o.e.wait(o, c)
		return
	}
	o.feed(c, c.sel)
}

// giveRows gives out the rows of changed partitions whose values changed.
func (o *over) giveRows(slots []int32) {
	if len(slots) == 0 {
		return
	}
	o.out = o.out.again(o.n.Fields())
	d := o.out
	n := len(o.in.Cols)
	emit := func(r int32, weight int64, at windows.Micros, values []*row.Vector, i int) {
		o.rows.emit(d, r, weight, at)
		for c, v := range values {
			d.Cols[n+c].AppendFrom(v, i)
		}
	}
	for _, slot := range slots {
		p, at := &o.parts[slot], o.marks.at[slot].finalAt
		for _, r := range p.given {
			if x := &o.rows.at[r]; !x.in {
				emit(r, -1, p.givenAt, o.rows.out.cols, int(r))
				o.rows.free(r)
			}
		}
		p.given = p.given[:0]
		o.compute(p.rows)
		for i, r := range p.rows {
			x := &o.rows.at[r]
			if x.number > 0 && !o.failed[i] && p.givenAt == at && exactRow(o.rows.out.cols, int(r), o.values.Cols, nil, i) {
				p.given = append(p.given, r)
				continue
			}
			if x.number > 0 {
				emit(r, -1, p.givenAt, o.rows.out.cols, int(r))
			}
			if x.number = 0; o.failed[i] {
				continue
			}
			x.number = 1
			emit(r, 1, at, o.values.Cols, i)
			o.rows.out.set(int(r), o.values.Cols, nil, i)
			p.given = append(p.given, r)
		}
		p.givenAt = at
		o.marks.toSave(slot)
	}
	d.send(o.outs)
	o.dropEmpty(slots)
}

// compute works out the calls for the rows of a partition.
func (o *over) compute(rows []int32) {
	o.sorted = rows
	o.in.Reset()
	o.in.Len = len(rows)
	for c, v := range o.in.Cols {
		gather(v, o.rows.store.cols[c], rows)
	}
	o.values.Reset()
	o.values.Len = len(rows)
	o.failed = cleared(o.failed, len(rows))
	o.lo, o.hi, o.ranks = o.lo[:0], o.hi[:0], o.ranks[:0]
	for i := range rows {
		o.ranks = append(o.ranks, agg.Rank{Sequence: int64(i)})
		lo := i
		if i > 0 && o.samePeers(rows[i-1], rows[i]) {
			lo = o.lo[i-1]
		}
		o.lo, o.hi = append(o.lo, lo), append(o.hi, i+1)
	}
	for i := len(rows) - 2; i >= 0; i-- {
		if o.lo[i] == o.lo[i+1] {
			o.hi[i] = o.hi[i+1]
		}
	}
	for k := range o.n.Calls {
		o.call(&o.n.Calls[k], o.aggs[k], o.values.Cols[k], len(rows))
	}
}

func (o *over) samePeers(a, b int32) bool {
	x, y := &o.rows.at[a], &o.rows.at[b]
	return x.sort[:x.peers] == y.sort[:y.peers]
}

func (o *over) call(c *query.OverCall, col agg.Column, out *row.Vector, n int) {
	if col != nil {
		o.aggregate(c, col, out, n)
		return
	}
	switch name := strings.ToLower(c.Name); name {
	case "row_number":
		for i := range n {
			out.AppendInt64(int64(i + 1))
		}
	case "rank":
		for i := range n {
			out.AppendInt64(int64(o.lo[i] + 1))
		}
	case "dense_rank":
		peers := int64(0)
		for i := range n {
			if o.lo[i] == i {
				peers++
			}
			out.AppendInt64(peers)
		}
	case "percent_rank":
		for i := range n {
			out.AppendFloat64(float64(o.lo[i]) / float64(max(1, n-1)))
		}
	case "cume_dist":
		for i := range n {
			out.AppendFloat64(float64(o.hi[i]) / float64(n))
		}
	case "ntile": // the parts in front are longer by one row, as many as it takes
		parts := min(c.Offset, int64(n))
		for i := range int64(n) {
			size, longer := int64(n)/parts, int64(n)%parts
			if in := longer * (size + 1); i < in {
				out.AppendInt64(1 + i/(size+1))
			} else {
				out.AppendInt64(1 + longer + (i-in)/size)
			}
		}
	case "lag", "lead":
		by := c.Offset
		if name == "lag" {
			by = -by
		}
		v := o.in.Cols[c.Args[0]]
		for i := range n {
			switch at := o.neighbour(v, i, by, n, c.IgnoreNulls); {
			case at >= 0:
				out.AppendFrom(v, at)
			case c.Default >= 0:
				out.AppendFrom(o.in.Cols[c.Default], i)
			default:
				out.AppendNull()
			}
		}
	case "first_value", "last_value", "nth_value":
		v := o.in.Cols[c.Args[0]]
		for i := range n {
			lo, hi := o.frame(c, i, n)
			at, step, others := lo, 1, int64(0)
			switch name {
			case "last_value":
				at, step = hi-1, -1
			case "nth_value":
				others = c.Offset - 1
			}
			if !c.IgnoreNulls {
				at, others = at+int(min(others, int64(n))), 0
			}
			for c.IgnoreNulls && at >= lo && at < hi {
				if !v.IsNull(at) {
					if others == 0 {
						break
					}
					others--
				}
				at += step
			}
			if at >= lo && at < hi {
				out.AppendFrom(v, at)
			} else {
				out.AppendNull()
			}
		}
	}
}

// neighbour is the row that lies by rows from row i, or −1. Nulls that are ignored don't count.
func (o *over) neighbour(v *row.Vector, i int, by int64, n int, ignoreNulls bool) int {
	if !ignoreNulls || by == 0 {
		if at := int64(i) + by; at >= 0 && at < int64(n) {
			return int(at)
		}
		return -1
	}
	step := 1
	if by < 0 {
		step, by = -1, -by
	}
	for at := i + step; at >= 0 && at < n; at += step {
		if v.IsNull(at) {
			continue
		}
		if by--; by == 0 {
			return at
		}
	}
	return -1
}

// frame is the rows that a call at row i looks at: from lo to before hi.
func (o *over) frame(c *query.OverCall, i, n int) (lo, hi int) {
	f := &c.Frame
	lo, hi = 0, n
	switch {
	case f.Start.Unbounded:
	case f.Rows:
		lo = away(i, f.Start.Offset, n)
	case f.Start.Distance:
		lo = o.reached(f.Start.Value, i, o.lo[i], false)
	default:
		lo = o.lo[i]
	}
	switch {
	case f.End.Unbounded:
	case f.Rows:
		hi = away(i+1, f.End.Offset, n)
	case f.End.Distance:
		hi = o.reached(f.End.Value, i, o.hi[i], true)
	default:
		hi = o.hi[i]
	}
	return lo, max(lo, hi)
}

// away is the place so many rows behind place i, of the n + 1 in front of, between and behind n rows.
func away(i int, by int64, n int) int {
	return min(max(i+int(min(max(by, -int64(n)), int64(n))), 0), n)
}

// reached is the first row whose place in the order is at or behind the value that row i has in a
// column, or, with behind, is behind it; peers where that is NULL.
func (o *over) reached(col, i, peers int, behind bool) int {
	v := o.in.Cols[col]
	if v.IsNull(i) {
		return peers
	}
	k := o.order[0]
	k.Col = col
	o.sortBuf = appendSort(o.sortBuf[:0], o.in.Cols, []query.Sort{k}, i)
	return sort.Search(len(o.sorted), func(r int) bool {
		x := &o.rows.at[o.sorted[r]]
		c := strings.Compare(x.sort[:x.peers], string(o.sortBuf))
		return c > 0 || c == 0 && !behind
	})
}

// excluded reports whether row k does not count for row i.
func (o *over) excluded(x query.Exclusion, k, i int) bool {
	switch peer := k >= o.lo[i] && k < o.hi[i]; x {
	case query.ExcludeCurrent:
		return k == i
	case query.ExcludeGroup:
		return peer
	case query.ExcludeTies:
		return peer && k != i
	}
	return false
}

// aggregate works out an aggregate over each row's frame. A frame that only grows from row to row
// takes in what is new; any other is added up from nothing.
func (o *over) aggregate(c *query.OverCall, col agg.Column, out *row.Vector, n int) {
	o.args = o.args[:0]
	for _, a := range c.Args {
		o.args = append(o.args, o.in.Cols[a])
	}
	col.Reset(0)
	from, to := 0, 0 // what col holds
	for i := range n {
		lo, hi := o.frame(c, i, n)
		if lo != from || hi < to || c.Frame.Exclude != query.ExcludeNothing {
			col.Reset(0)
			from, to = lo, lo
		}
		o.sel, o.zeros = o.sel[:0], o.zeros[:0]
		for k := to; k < hi; k++ {
			if o.excluded(c.Frame.Exclude, k, i) {
				continue
			}
			if c.Filter >= 0 {
				if pass := o.in.Cols[c.Filter]; pass.IsNull(k) || pass.I64[k] == 0 {
					continue
				}
			}
			o.sel, o.zeros = append(o.sel, int32(k)), append(o.zeros, 0)
		}
		to = max(to, hi)
		if len(o.sel) > 0 {
			col.Add(o.zeros, o.sel, o.args, nil, o.ranks)
		}
		if err := col.Result(0, out); err != nil {
			o.failed[i] = true
			out.AppendNull()
		}
	}
}
