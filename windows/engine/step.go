package engine

import (
	"slices"

	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/expr"
)

// Step takes the next entry of the log.
func (e *Engine) Step(entry stream.Entry) error {
	e.sequence = entry.Sequence()
	if entry.Control != nil {
		e.tracker.Control(entry.Control)
		e.settle(e.wm, e.tracker.Watermark())
	} else {
		e.batch(entry.Batch)
	}
	e.finish()
	return e.broken
}

// batch takes the events of one partition.
func (e *Engine) batch(b *stream.Batch) {
	e.in = b
	e.met = e.tracker.Batch(b, e.met)
	e.counts.Events += int64(b.Len)
	e.isFailed = cleared(e.isFailed, b.Len)
	e.late = cleared(e.late, b.Len)

	e.compute(b)
	e.tellFailures(b)
	for _, w := range e.windows {
		w.judge()
	}
	from, start := 0, e.wm
	slices.SortFunc(e.cuts, func(a, b cut) int { return a.event - b.event })
	for _, c := range e.cuts {
		if c.event == from || c.finalAt <= start && (c.finalAt != windows.AtOnce || e.met[c.event] == start) {
			continue
		}
		e.feed(from, c.event)
		e.settle(start, e.met[c.event])
		from, start = c.event, e.met[c.event]
	}
	e.feed(from, b.Len)
	e.settle(start, e.tracker.Watermark())
	e.tellLate()

	for _, w := range e.windows {
		w.done()
	}
	e.in, e.anyRefused = nil, false
	e.failures, e.cuts, e.inlets = e.failures[:0], e.cuts[:0], e.inlets[:0]
}

// compute works out what follows from one event alone. The chunks end up in inlets.
func (e *Engine) compute(b *stream.Batch) {
	sel := e.inSight(b)
	for _, s := range e.scans {
		if s.stream == b.Stream {
			s.read(b, sel)
		}
	}
	for _, u := range e.unions {
		u.combine()
	}
	e.countFiltered(b, sel)
}

// inSight are the events of a batch that the view looks at; nil: all.
func (e *Engine) inSight(b *stream.Batch) []int32 {
	poison := e.skip[b.Stream]
	if e.cfg.EventsFrom == nil && len(poison) == 0 {
		return nil
	}
	sel := make([]int32, 0, b.Len)
	for i, at := range b.Times {
		if e.cfg.EventsFrom != nil && at < *e.cfg.EventsFrom {
			continue
		}
		if _, bad := poison[e.placeOf(i)]; bad {
			continue
		}
		sel = append(sel, int32(i))
	}
	return sel
}

// countFiltered counts the events that came to no inlet and did not fail.
func (e *Engine) countFiltered(b *stream.Batch, sight []int32) {
	reached := make([]bool, 0)
	for _, in := range e.inlets {
		if in.c.sel == nil && in.c.f.origin == nil {
			return
		}
	}
	reached = make([]bool, b.Len)
	for _, in := range e.inlets {
		in.c.each(func(i int) { reached[in.c.f.event(i)] = true })
	}
	count := func(i int) {
		if !reached[i] && !e.isFailed[i] {
			e.counts.Filtered++
		}
	}
	if sight == nil {
		for i := range b.Len {
			count(i)
		}
		return
	}
	for _, i := range sight {
		count(int(i))
	}
}

// inlet is where rows that follow from events wait for an operator with state.
type inlet struct {
	op  operator
	c   *chunk
	pos int // rows before it were fed, or will never be
}

// wait puts a chunk of the batch in work before an operator.
func (e *Engine) wait(op operator, c *chunk) {
	if c.f.trial {
		return
	}
	kept := *c
	e.inlets = append(e.inlets, &inlet{op: op, c: &kept})
}

// feed gives the rows of the events from ≤ event < to to the operators.
func (e *Engine) feed(from, to int) {
	for _, o := range e.sessions {
		o.resolve(to)
	}
	for _, in := range e.inlets {
		if from == 0 && to == e.in.Len && len(e.failures) == 0 && !e.anyRefused {
			in.op.feed(in.c, in.c.sel)
			continue
		}
		sel := make([]int32, 0, to-from)
		for n := in.c.rows(); in.pos < n; in.pos++ {
			i := in.c.row(in.pos)
			ev := in.c.f.event(i)
			if ev >= to {
				break
			}
			if !e.isFailed[ev] && !(e.anyRefused && in.c.f.wasRefused(i)) {
				sel = append(sel, int32(i))
			}
		}
		if len(sel) > 0 {
			in.op.feed(in.c, sel)
		}
	}
}

// settle lets windows become final as the watermark goes from start to wm. While rows flow the
// engine's watermark stays at start: what an operator gets now, of windows that become final now,
// was there in time.
func (e *Engine) settle(start, wm windows.Micros) {
	if wm == start && !e.loose {
		return
	}
	for _, op := range e.ops {
		op.settle(start, wm)
	}
	e.emit.settle(start, wm)
	e.wm = wm
}

// finish ends an entry: corrections are given out, and what is closed is forgotten.
func (e *Engine) finish() {
	for _, op := range e.ops {
		op.correct(e.wm)
	}
	e.emit.correct(e.wm)
	for _, op := range e.ops {
		op.forget(e.wm)
	}
	for _, o := range e.sessions {
		o.forget(e.wm)
	}
	e.emit.forget(e.wm)
}

// fail notes the rows of c on which an expression failed. Where rows follow from events, the event
// is outside the view (E1); else the row alone is left out until it computes again.
func (e *Engine) fail(c *chunk, errs *expr.Errors) {
	if !c.f.batch {
		return
	}
	errs.Each(func(f expr.Failure) {
		ev := c.f.event(f.Row)
		if e.isFailed[ev] {
			return
		}
		e.isFailed[ev] = true
		e.failures = append(e.failures, failure{ev, f.Code, f.Message})
	})
}

// failed reports whether an event of the batch in work is outside the view.
func (e *Engine) failed(ev int) bool { return e.isFailed[ev] }

// tellFailures lists the events that failed.
func (e *Engine) tellFailures(b *stream.Batch) {
	slices.SortStableFunc(e.failures, func(a, b failure) int { return a.event - b.event })
	for _, f := range e.failures {
		e.counts.RowErrors++
		e.out.RowErrors = append(e.out.RowErrors, RowError{
			Stream: b.Stream, Place: e.placeOf(f.event), Sequence: b.Sequence, Weight: 1, Code: f.code, Message: f.message,
		})
	}
}

// placeOf is where an event of the batch in work lies.
func (e *Engine) placeOf(ev int) stream.Place {
	return stream.Place{Partition: e.in.Partition, Offset: e.in.Offset(ev)}
}

// cleared returns s as n false values.
func cleared(s []bool, n int) []bool {
	if cap(s) < n {
		return make([]bool, n)
	}
	s = s[:n]
	clear(s)
	return s
}
