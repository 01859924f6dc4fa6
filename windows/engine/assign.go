package engine

import (
	"slices"

	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/expr"
)

// fixed gives each event the windows of tumble or hop that it lies in: they follow from the
// event's time alone. Each pair of event and window is judged by that window (L2).
type fixed struct {
	e       *Engine
	number  int
	hop     bool
	tumble  windows.Tumbling
	hopping windows.Hopping
	timeCol int
	where   *expr.Expr
	outs    targets
	options Function
	// over says that the rows come from operators with state: their lateness was judged where the
	// events entered, so a change is never late (V1). finalAt gives when a window is final from
	// its end (V2).
	over    bool
	finalAt func(end windows.Micros) windows.Micros
	// panes, where an aggregate behind a hop shares them, has events go on once, with their pane's
	// start as both bounds.
	panes *paneSpan

	errs       expr.Errors
	start, end *row.Vector
	pairs      []windows.Micros
	given      chunk // of the batch in work, for the judge
}

func (a *fixed) take(c *chunk) {
	out := *c
	switch {
	case a.panes != nil:
		a.tell(c, &out)
	case a.hop:
		a.spread(c, &out)
	default:
		a.place(c, &out)
	}
	if a.over {
		a.takeOver(c, &out)
		return
	}
	a.leaveOut(&out)
	if a.where != nil {
		out.sel = a.e.keep(a.where, &out, &a.errs, nil)
	}
	a.given = out
	a.outs.send(&out)
}

// leaveOut leaves out the windows that began before the view did (R2).
func (a *fixed) leaveOut(out *chunk) {
	from := a.e.cfg.WindowsFrom
	if from == nil {
		return
	}
	sel := make([]int32, 0, out.rows())
	out.each(func(i int) {
		at := a.start.I64[i]
		if a.panes != nil { // the latest window of the pane
			at = a.panes.start(a.panes.last(a.panes.pane(at)))
		}
		if at >= *from {
			sel = append(sel, int32(i))
		}
	})
	out.sel = sel
}

// takeOver gives on rows with weights. Their windows are final when no row can come into them, and
// the rows themselves are (V3).
func (a *fixed) takeOver(c, out *chunk) {
	if c.f.batch { // events with their windows: what is late was judged by those
		out.f.trial, out.f.finalAt = c.f.trial, make([]windows.Micros, out.Len)
		out.each(func(i int) {
			k := i
			if out.f.from != nil {
				k = int(out.f.from[i])
			}
			out.f.finalAt[i] = max(c.f.final(k), a.finalAt(a.end.I64[i]))
		})
		a.leaveOut(out)
		if a.where != nil {
			out.sel = a.e.keep(a.where, out, &a.errs, nil)
		}
		a.outs.send(out)
		return
	}
	f := *c.f
	f.finalAt, f.times = make([]windows.Micros, out.Len), a.end.I64
	from := out.f.from
	if from != nil {
		out.Weights, f.ranks, f.evidence = nil, nil, nil
	}
	out.each(func(i int) {
		k := i
		if from != nil {
			k = int(from[i])
		}
		f.finalAt[i] = max(c.f.final(k), a.finalAt(a.end.I64[i]))
		if from == nil {
			return
		}
		out.Weights = append(out.Weights, c.Weight(k))
		if c.f.ranks != nil {
			f.ranks = append(f.ranks, c.f.ranks[k])
		}
		if c.f.evidence != nil {
			f.evidence = append(f.evidence, c.f.evidence[k])
		}
	})
	out.f = &f
	a.leaveOut(out)
	if a.where != nil {
		out.sel = a.e.keep(a.where, out, &a.errs, nil)
	}
	a.outs.send(out)
}

// place adds the one window of tumble; the rows keep their numbers.
func (a *fixed) place(c, out *chunk) {
	a.start.Resize(c.Len)
	a.end.Resize(c.Len)
	times := c.Cols[a.timeCol]
	var start, end windows.Micros
	for i := range c.Len {
		if t := times.I64[i]; t < start || t >= end {
			start, end = a.tumble.Window(t)
		}
		a.start.I64[i], a.end.I64[i] = start, end
	}
	out.Cols = append(slices.Clip(c.Cols), a.start, a.end)
	out.f = &frame{up: c.f, batch: c.f.batch, origin: c.f.origin, finalAt: a.end.I64}
}

// tell adds the start of the pane that an event lies in.
func (a *fixed) tell(c, out *chunk) {
	a.start.Resize(c.Len)
	times := c.Cols[a.timeCol]
	var start, end windows.Micros
	for i := range c.Len {
		if t := times.I64[i]; t < start || t >= end {
			start = a.panes.origin + a.panes.pane(t)*a.panes.width
			end = start + a.panes.width
		}
		a.start.I64[i] = start
	}
	out.Cols = append(slices.Clip(c.Cols), a.start, a.start)
	out.f = &frame{up: c.f, batch: c.f.batch, origin: c.f.origin}
}

// spread gives a row for each window of hop, an event's windows one after the other.
func (a *fixed) spread(c, out *chunk) {
	a.start.Resize(0)
	a.end.Resize(0)
	from := make([]int32, 0, c.rows())
	times := c.Cols[a.timeCol]
	c.each(func(i int) {
		a.pairs = a.hopping.AppendWindows(a.pairs[:0], times.I64[i])
		for k := 0; k < len(a.pairs); k += 2 {
			a.start.I64 = append(a.start.I64, a.pairs[k])
			a.end.I64 = append(a.end.I64, a.pairs[k+1])
			from = append(from, int32(i))
		}
	})
	out.Len = len(from)
	out.sel = nil
	out.Cols = make([]*row.Vector, 0, len(c.Cols)+2)
	for _, v := range c.Cols {
		w := row.NewVector(v.Type, len(from))
		gather(w, v, from)
		out.Cols = append(out.Cols, w)
	}
	out.Cols = append(out.Cols, a.start, a.end)
	origin := from
	if c.f.origin != nil {
		origin = make([]int32, len(from))
		for k, i := range from {
			origin[k] = c.f.origin[i]
		}
	}
	out.f = &frame{up: c.f, from: from, batch: c.f.batch, origin: origin, finalAt: a.end.I64}
}

// judge refuses the pairs whose window is closed, and asks for a cut before those that are taken
// by a window that is final.
func (a *fixed) judge() {
	c, e := &a.given, a.e
	if c.f == nil {
		return
	}
	if a.panes != nil {
		c.each(a.judgeWindows)
		return
	}
	c.each(func(i int) {
		at := c.f.finalAt[i]
		ev := c.f.event(i)
		met := e.met[ev]
		if met < at || e.failed(ev) || c.f.wasRefused(i) {
			return
		}
		if met >= windows.Later(at, a.options.AllowedLateness) {
			if c.f.refused == nil {
				c.f.refused = make([]bool, c.Len)
			}
			c.f.refused[i] = true
			e.anyRefused = true
		} else {
			if e.stacked { // windows over this one become final later, maybe within the step
				at = windows.AtOnce
			}
			e.cuts = append(e.cuts, cut{event: ev, finalAt: at})
		}
		if !a.options.Quiet {
			e.markLate(ev)
		}
	})
}

// judgeWindows judges an event by each of the windows that it lies in.
func (a *fixed) judgeWindows(i int) {
	c, e, p := &a.given, a.e, a.panes
	ev, pane := c.f.event(i), p.pane(a.start.I64[i])
	met, w := e.met[ev], p.first(pane)
	if met < p.end(w) || e.failed(ev) || c.f.wasRefused(i) {
		return
	}
	taken, refused, final := false, false, windows.NoWatermark
	for ; w <= p.last(pane) && met >= p.end(w); w += p.slide {
		if met >= windows.Later(p.end(w), p.allowed) {
			refused = true
		} else {
			taken, final = true, p.end(w)
		}
	}
	taken = taken || w <= p.last(pane)
	switch {
	case !taken:
		c.f.refused = flagged(c.f.refused, c.Len, i)
		e.anyRefused = true
	case refused:
		c.f.partial = flagged(c.f.partial, c.Len, i)
	}
	if final != windows.NoWatermark {
		if e.stacked { // windows over this one become final later, maybe within the step
			final = windows.AtOnce
		}
		e.cuts = append(e.cuts, cut{event: ev, finalAt: final})
	}
	if !a.options.Quiet {
		e.markLate(ev)
	}
}

// flagged sets flag i of n.
func flagged(flags []bool, n, i int) []bool {
	if flags == nil {
		flags = make([]bool, n)
	}
	flags[i] = true
	return flags
}

// noteWindows adds to an event's note what its windows did.
func (a *fixed) noteWindows(n *lateNote, ev, i int) {
	p, met := a.panes, a.e.met[ev]
	pane := p.pane(a.start.I64[i])
	for w := p.first(pane); w <= p.last(pane); w += p.slide {
		switch end := p.end(w); {
		case met >= windows.Later(end, p.allowed):
			n.refused = append(n.refused, Refusal{Function: a.number, Start: p.start(w), End: end})
		default:
			n.taken = true
			n.corrected = n.corrected || met >= end
		}
	}
}

// outcomes adds to the notes of late events what their windows here did.
func (a *fixed) outcomes() {
	c := &a.given
	if c.f == nil || a.options.Quiet {
		return
	}
	c.each(func(i int) {
		ev := c.f.event(i)
		if !a.e.late[ev] || a.e.failed(ev) {
			return
		}
		n := a.e.note(ev)
		if a.panes != nil {
			a.noteWindows(n, ev, i)
			return
		}
		switch {
		case c.f.refused != nil && c.f.refused[i]:
			n.refused = append(n.refused, Refusal{Function: a.number, Start: a.start.I64[i], End: a.end.I64[i]})
		case !c.f.wasRefused(i):
			n.taken = true
			n.corrected = n.corrected || a.e.met[ev] >= c.f.finalAt[i]
		}
	})
}

func (a *fixed) done() { a.given = chunk{} }
