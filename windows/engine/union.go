package engine

import (
	"tidemark/storage/row"
	"tidemark/stream"
)

// union gives on the rows of all its inputs.
//
// What lies behind has memory for one chunk of a batch at a time. Where every row follows from an
// event, the inputs' chunks are put together to one, in the order of the events. Where some come
// from operators with state, rows that follow from events wait until their step, and go through
// one chunk after the other.
type union struct {
	stateless
	e     *Engine
	whole bool // all rows follow from events
	outs  targets

	parts []chunk // of the batch in work
}

func (o *union) take(c *chunk) {
	switch {
	case o.whole:
		o.parts = append(o.parts, *c)
	case c.f.batch:
		trial := *c
		trial.f = &frame{up: c.f, batch: true, origin: c.f.origin, trial: true}
		o.outs.send(&trial)
		o.e.wait(o, c)
	default:
		o.outs.send(c)
	}
}

// combine gives on the rows of all inputs as one chunk.
func (o *union) combine() {
	parts := o.parts
	o.parts = o.parts[:0]
	if len(parts) == 0 {
		return
	}
	n := 0
	for i := range parts {
		n += parts[i].rows()
	}
	out := &chunk{f: &frame{batch: true, origin: make([]int32, 0, n), from: make([]int32, 0, n), part: make([]int32, 0, n)}}
	for _, v := range parts[0].Cols {
		out.Cols = append(out.Cols, row.NewVector(v.Type, n))
	}
	next := make([]int, len(parts))
	for out.Len < n {
		best, event := -1, 0
		for p := range parts {
			if next[p] < parts[p].rows() {
				if ev := parts[p].f.event(parts[p].row(next[p])); best < 0 || ev < event {
					best, event = p, ev
				}
			}
		}
		c := &parts[best]
		i := c.row(next[best])
		next[best]++
		for k, v := range out.Cols {
			v.AppendFrom(c.Cols[k], i)
		}
		out.f.origin = append(out.f.origin, int32(event))
		out.f.from = append(out.f.from, int32(i))
		out.f.part = append(out.f.part, int32(best))
		out.f.finalAt = append(out.f.finalAt, c.f.final(i))
		out.f.trial = out.f.trial || c.f.trial
		out.Len++
	}
	for i := range parts {
		out.f.parts = append(out.f.parts, parts[i].f)
	}
	o.outs.send(out)
}

// feed gives on rows of the batch in work, with what the batch says of them: behind the union they
// follow from events no more.
func (o *union) feed(c *chunk, sel []int32) {
	out := *c
	out.sel = sel
	f := &frame{finalAt: c.f.finalAt}
	out.f = f
	for i := range c.Len {
		f.ranks = append(f.ranks, o.e.rank(c.f, i))
		f.times = append(f.times, o.e.in.Times[c.f.event(i)])
		if o.e.cfg.Evidence {
			f.evidence = append(f.evidence, []stream.Place{o.e.placeOf(c.f.event(i))})
		}
	}
	o.outs.send(&out)
}
