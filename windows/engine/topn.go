package engine

import (
	"slices"

	"tidemark/windows"
	"tidemark/windows/query"
)

// topN gives the first rows of each partition. Where rows never leave its input, it keeps those
// alone; else it keeps them all, because one of them may come up.
type topN struct {
	partitions
	n    *query.TopN
	outs targets
}

func newTopN(e *Engine, id byte, n *query.TopN, grows bool) *topN {
	o := &topN{partitions: newPartitions(e, id, n.In.Fields()), n: n}
	o.cols, o.order, o.peers, o.byLog, o.then, o.windowed = n.Partition, n.Order, len(n.Order), n.ByLog, n.Then, n.Windowed
	if grows {
		o.keep = n.Limit
	}
	o.give = o.giveTop
	return o
}

func (o *topN) take(c *chunk) {
	if c.f.batch {
		o.e.wait(o, c)
		return
	}
	o.feed(c, c.sel)
}

// giveTop gives out which rows came among the first and which no longer are, and what numbers
// changed.
func (o *topN) giveTop(slots []int32) {
	if len(slots) == 0 {
		return
	}
	o.out = o.out.again(o.n.Fields())
	d := o.out
	emit := func(r int32, weight int64, at windows.Micros) {
		o.rows.emit(d, r, weight, at)
		if o.n.Numbered {
			d.Cols[len(o.rows.store.cols)].AppendInt64(o.rows.at[r].number)
		}
	}
	for _, slot := range slots {
		p, at := &o.parts[slot], o.marks.at[slot].finalAt
		slices.SortFunc(p.given, func(a, b int32) int { return int(o.rows.at[a].number - o.rows.at[b].number) })
		top := p.rows[:min(int64(len(p.rows)), o.n.Limit)]
		for i, r := range top {
			o.rows.at[r].next = int64(i + 1)
		}
		for _, r := range p.given {
			if x := &o.rows.at[r]; x.next == 0 || o.n.Numbered && x.next != x.number || p.givenAt != at {
				emit(r, -1, p.givenAt)
				x.number = 0
			}
		}
		for _, r := range p.given {
			if x := &o.rows.at[r]; x.next == 0 && !x.in {
				o.rows.free(r)
			}
		}
		for _, r := range top {
			x := &o.rows.at[r]
			if x.number == 0 {
				x.number = x.next
				emit(r, 1, at)
			}
			x.number, x.next = x.next, 0
		}
		p.given, p.givenAt = append(p.given[:0], top...), at
		o.marks.toSave(slot)
	}
	d.send(o.outs)
	o.dropEmpty(slots)
}
