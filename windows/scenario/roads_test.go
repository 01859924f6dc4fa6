package scenario

import (
	"slices"
	"strings"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/agg"
	"tidemark/windows/engine"
	"tidemark/windows/judge"
	"tidemark/windows/query"
)

// road runs a log with a Take after every n entries (0: at the end alone), of everything or of
// final changes, and a crash behind each Take.
func (w *world) road(log []stream.Entry, final bool, n int, all, crash bool) *outcome {
	h := newOutcome()
	s := state{}
	e := w.open(final)
	for i, entry := range w.reads(log) {
		w.must(e.Step(entry))
		if n == 0 || (i+1)%n != 0 {
			continue
		}
		o := e.Take(all)
		h.add(o)
		s.keep(o)
		if crash {
			e = w.reopen(s, final)
		}
	}
	h.add(e.Take(true))
	return h
}

// spilled runs a log with a Take after each entry, behind which everything that can leaves the memory:
// what comes back does so entry by entry, also after a crash.
func (w *world) spilled(log []stream.Entry, final, crash bool) *outcome {
	h := newOutcome()
	s := state{}
	small := w.cfg.SmallState
	w.cfg.SmallState = 1 // sets of two values are saved by what changes in them
	defer func() { w.cfg.SmallState = small }()
	recover := func() *engine.Engine {
		e := w.open(final)
		w.must(e.Recover(s, 1))
		return e
	}
	e := recover()
	for i, entry := range w.reads(log) {
		w.must(e.Step(entry))
		o := e.Take(true)
		w.must(e.Err())
		h.add(o)
		s.keep(o)
		if e.Evict(0); crash && i%2 == 0 {
			e = recover()
		}
	}
	h.add(e.Take(true))
	return h
}

// roads runs the log by every road and compares with what came of it as it was written.
func (w *world) roads(want *outcome) {
	w.t.Helper()
	final := w.cfg.EmitFinal
	w.same("as written", "contradictions", nil, want.problems)
	for _, r := range []struct {
		name string
		run  func() *outcome
	}{
		{"from zero", func() *outcome { return w.road(w.log, final, 0, true, false) }},
		{"everything taken after each entry", func() *outcome { return w.road(w.log, final, 1, true, false) }},
		{"crash and reopen after each entry", func() *outcome { return w.road(w.log, final, 1, true, true) }},
		{"crash and reopen with provisional rows not given out", func() *outcome { return w.road(w.log, final, 1, false, true) }},
		{"spilled", func() *outcome { return w.spilled(w.log, final, false) }},
		{"spilled, crash and reopen", func() *outcome { return w.spilled(w.log, final, true) }},
		{"crash and reopen after every third entry", func() *outcome { return w.road(w.log, final, 3, false, true) }},
	} {
		got := r.run()
		w.same(r.name, "rows", want.lines(true), got.lines(true))
		w.same(r.name, "final and corrected changes", slices.Sorted(slices.Values(want.final)), slices.Sorted(slices.Values(got.final)))
		w.sameBesides(r.name, want, got)
	}
	// However events are cut into batches, they are judged alike (T4). Changes are made once a
	// batch (C5), so there may be more or fewer of them.
	for name, log := range map[string][]stream.Entry{"event by event": apart(w.log), "one batch": together(w.log)} {
		got := w.road(log, final, 2, true, true)
		w.same(name, "rows", want.lines(false), got.lines(false))
		w.sameBesides(name, want, got)
	}
	if !final { // C7
		if plan, err := query.Compile(duck.ParseSQL, w, w.sql, query.Options{EmitFinal: true}); err == nil && !plan.NeverFinal {
			w.same("emit final", "rows", want.settled(), w.road(w.log, true, 2, true, true).lines(true))
		}
	}
	w.partitioned()
}

func (w *world) sameBesides(road string, want, got *outcome) {
	w.t.Helper()
	w.same(road, "late records", want.late, got.late)
	w.same(road, "row errors", want.errors, got.errors)
	w.same(road, "contradictions", nil, got.problems)
	if want.counts != got.counts {
		w.t.Errorf("%s\n%s: counts %+v, want %+v", w.sql, road, got.counts, want.counts)
	}
}

func (w *world) same(road, what string, want, got []string) {
	w.t.Helper()
	if !slices.Equal(want, got) {
		w.t.Errorf("%s\n%s: other %s\n--- want\n%s\n--- got\n%s\nas a scenario:\n%s", w.sql, road, what, strings.Join(want, "\n"), strings.Join(got, "\n"), w.script())
	}
}

// part is a batch of some events of another.
func part(b *stream.Batch, from, n int) *stream.Batch {
	out := *b
	out.Base += stream.Offset(from)
	out.Len, out.Times = n, b.Times[from:from+n]
	cut := func(v *row.Vector) *row.Vector {
		c := row.NewVector(v.Type, n)
		for i := range n {
			c.AppendFrom(v, from+i)
		}
		return c
	}
	out.Keys, out.Columns = cut(b.Keys), nil
	for _, v := range b.Columns {
		out.Columns = append(out.Columns, cut(v))
	}
	return &out
}

// numbered gives each entry its own sequence.
func numbered(log []stream.Entry) []stream.Entry {
	for i, e := range log {
		if e.Batch != nil {
			b := *e.Batch
			b.Sequence = stream.Sequence(i + 1)
			log[i].Batch = &b
		} else {
			c := *e.Control
			c.Sequence = stream.Sequence(i + 1)
			log[i].Control = &c
		}
	}
	return log
}

// apart is the log with each event in a batch of its own.
func apart(log []stream.Entry) []stream.Entry {
	var out []stream.Entry
	for _, e := range log {
		if e.Batch == nil {
			out = append(out, e)
			continue
		}
		for i := range e.Batch.Len {
			out = append(out, stream.Entry{Batch: part(e.Batch, i, 1)})
		}
	}
	return numbered(out)
}

// together is the log with neighbouring batches of a partition as one.
func together(log []stream.Entry) []stream.Entry {
	var out []stream.Entry
	for _, e := range log {
		if n := len(out); n > 0 && e.Batch != nil && out[n-1].Batch != nil {
			a, b := out[n-1].Batch, e.Batch
			if a.Stream == b.Stream && a.Partition == b.Partition && a.AppendTime == b.AppendTime {
				whole := part(a, 0, a.Len)
				whole.Times = append(slices.Clone(a.Times), b.Times...)
				whole.Len += b.Len
				whole.Keys.AppendAll(b.Keys)
				for i, v := range b.Columns {
					whole.Columns[i].AppendAll(v)
				}
				out[n-1].Batch = whole
				continue
			}
		}
		out = append(out, e)
	}
	return numbered(out)
}

// judged is what the second judge says of a log.
func (w *world) judged(log []stream.Entry) *judge.Judge {
	plan := w.compile(false)
	j := judge.New(plan, judge.Config{
		Functions: judge.Functions(plan), AllowedLateness: w.lateness(), Streams: w.cfg.Streams, EventsFrom: w.cfg.EventsFrom, WindowsFrom: w.cfg.WindowsFrom,
	})
	for _, e := range w.reads(log) {
		j.Step(e)
	}
	return j
}

func refuses(v judge.Verdict) bool {
	return v.Dropped+v.Partial > 0 || len(v.Events) > 0 || len(v.Pairs) > 0
}

// partitioned runs the events in 1, 3 and 8 partitions where the answer can't depend on that:
// nothing is refused, and no function follows the order of the log.
func (w *world) partitioned() {
	w.t.Helper()
	if w.followsLog() || refuses(w.judged(w.log).Verdict()) {
		return
	}
	want := w.road(w.log, false, 0, true, false).lines(false)
	for _, n := range []int{1, 3, 8} {
		var log []stream.Entry
		next := map[[2]int64]stream.Offset{}
		for i, e := range apart(w.log) {
			switch {
			case e.Control == nil:
				p := stream.Partition((i * 7) % n)
				b := *e.Batch
				b.Partition, b.Base = p, next[[2]int64{int64(b.Stream), int64(p)}]
				next[[2]int64{int64(b.Stream), int64(p)}]++
				log = append(log, stream.Entry{Batch: &b})
			case e.Control.Kind == stream.Partitions:
				c := *e.Control
				c.Value = int64(n)
				log = append(log, stream.Entry{Control: &c})
			case e.Control.Kind == stream.Advance:
				log = append(log, e)
			default: // idleness is of one partition
				return
			}
		}
		log = numbered(log)
		if refuses(w.judged(log).Verdict()) {
			continue // one partition alone goes ahead of what three hold back
		}
		got := w.road(log, false, 3, true, true)
		if !slices.Equal(want, got.lines(false)) && !nearlyEqual(want, got.lines(false)) {
			w.same(string(rune('0'+n))+" partitions", "rows", want, got.lines(false))
		}
	}
}

// followsLog reports whether the order of the log, or where it holds an event, can show in a row.
func (w *world) followsLog() bool {
	plan := w.compile(false)
	follows := plan.Time == query.AppendTime
	seen := map[query.Node]bool{}
	var walk func(n query.Node)
	walk = func(n query.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		switch n := n.(type) {
		case *query.TopN, *query.Over:
			follows = true
		case *query.Aggregate:
			for _, c := range n.Calls {
				follows = follows || c.Func.Ordered || !exact(c.Spec)
			}
		case *query.Scan:
			for _, c := range n.Cols {
				switch c.Pseudo {
				case query.PseudoPartition, query.PseudoOffset, query.PseudoSequence, query.PseudoAppendTime:
					// Rows that are passed through have their place as their key, and show it only
					// where it is selected.
					follows = follows || strings.Contains(strings.ToLower(w.sql), c.Pseudo)
				}
			}
		}
		for _, in := range n.Inputs() {
			walk(in)
		}
	}
	walk(plan.Root)
	return follows
}

// exact says that an aggregate gives the same whatever the order of addition.
func exact(s agg.Spec) bool {
	return !slices.Contains([]string{"approx_quantile", "mode", "list", "array_agg", "string_agg"}, strings.ToLower(s.Name))
}

func (w *world) lateness() windows.Micros {
	if w.cfg.Late != 0 {
		return 0
	}
	return w.cfg.AllowedLateness
}
