package scenario

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

// kinds are what random views read: a window function, or none.
var kinds = []string{"tumble", "hop", "session", "slide", "none"}

// tally counts what became of the random views.
type tally struct {
	compared, refused, failing atomic.Int64
	mu                         sync.Mutex
	reasons                    map[string]int
}

func (s *tally) because(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reasons[reason]++
}

// TestRandomViewsGiveTheBatchAnswer draws streams, events and SQL. Each view goes down every road,
// is judged a second time, and is compared with the batch answer in DuckDB (T1, G1, G2).
func TestRandomViewsGiveTheBatchAnswer(t *testing.T) {
	t.Parallel()
	sum := &tally{reasons: map[string]int{}}
	t.Run("kinds", func(t *testing.T) {
		for _, kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) { randomView(t, kind, sum) })
			})
		}
	})
	t.Logf("%d views compared, %d refused by the planner, %d that fail in DuckDB as a whole", sum.compared.Load(), sum.refused.Load(), sum.failing.Load())
	for reason, n := range sum.reasons {
		t.Logf("%d × %s", n, reason)
	}
	got, drawn := sum.compared.Load(), sum.compared.Load()+sum.refused.Load()+sum.failing.Load()
	if got < drawn*5/6 && !t.Failed() { // of 600, 500 must be compared
		t.Errorf("only %d of %d random views were compared", got, drawn)
	}
}

func randomView(t *rapid.T, kind string, sum *tally) {
	w := &world{t: t}
	g := &gen{t: t, w: w, kind: kind}
	g.streams()
	w.sql = g.view()
	plan, err := query.Compile(duck.ParseSQL, w, w.sql, query.Options{})
	if err == nil {
		_, err = engine.New(plan, engine.Config{Streams: tracked(plan, 0)})
	}
	if err != nil {
		var p *problem.Problem
		if !errors.As(err, &p) || p.Status != 422 || p.Hint == "" {
			t.Fatalf("%s\nrefused without a next step: %v", w.sql, err)
		}
		sum.refused.Add(1)
		sum.because(p.Detail)
		return
	}
	w.cfg = engine.Config{
		AllowedLateness: rapid.SampledFrom([]int64{0, 15, 60, 600, 86400}).Draw(t, "lateness") * second,
		Streams:         tracked(plan, rapid.SampledFrom([]int64{0, 10, 45, 300}).Draw(t, "ooo")*second),
	}
	if w.cfg.AllowedLateness == 0 {
		w.cfg.Late = engine.Drop
	}
	g.events()
	if rapid.IntRange(0, 9).Draw(t, "start") == 0 {
		at := g.base + rapid.Int64Range(-100, 200).Draw(t, "from")*second
		w.cfg.EventsFrom, w.cfg.WindowsFrom = &at, &at
	}
	if !plan.NeverFinal {
		w.cfg.EmitFinal = rapid.Bool().Draw(t, "final")
	}

	e := w.open(w.cfg.EmitFinal)
	got := newOutcome()
	for _, entry := range w.reads(w.log) {
		w.must(e.Step(entry))
		if rapid.Bool().Draw(t, "take") {
			got.add(e.Take(rapid.Bool().Draw(t, "all")))
		}
	}
	got.add(e.Take(true))
	w.roads(got)
	failed := w.verdict(got, e.Watermark())
	if failed == "" {
		sum.compared.Add(1)
		return
	}
	sum.failing.Add(1)
	sum.because(numeral.ReplaceAllString(failed, "#"))
}

// events draws the log.
func (g *gen) events() {
	t, w := g.t, g.w
	g.base = day + 10*3600*second
	switch rapid.IntRange(0, 11).Draw(t, "epoch") {
	case 0:
		g.base = -3*windows.MicrosPerDay + 86390*second // before 1970, near midnight
	case 1:
		g.base = day - 30*second // over midnight, and over the month's and year's ends elsewhere
	}
	now := g.base
	appendAt := max(g.base, w.lastAppend()) + 100*windows.MicrosPerDay
	for range rapid.IntRange(1, 12).Draw(t, "entries") {
		appendAt += rapid.Int64Range(0, 60).Draw(t, "wait") * second
		f := w.streams[rapid.IntRange(0, len(w.streams)-1).Draw(t, "stream")]
		p := stream.Partition(rapid.IntRange(0, f.partitions-1).Draw(t, "partition"))
		control := func(c stream.Control) {
			c.Stream, c.Sequence, c.AppendTime = f.id, w.next(), appendAt
			w.log = append(w.log, stream.Entry{Control: &c})
		}
		switch rapid.IntRange(0, 11).Draw(t, "what") {
		case 9:
			control(stream.Control{Kind: stream.Idle, Partition: p})
			continue
		case 10:
			control(stream.Control{Kind: stream.Clock})
			continue
		case 11:
			control(stream.Control{Kind: stream.Advance, Value: now + rapid.Int64Range(-200, 200).Draw(t, "advance")*second})
			continue
		}
		b := w.empty(f, p, appendAt)
		for range rapid.IntRange(1, 7).Draw(t, "events") {
			now += rapid.SampledFrom([]int64{0, 0, 1, 3, 10, 20, 45}).Draw(t, "on") * second
			at := now - rapid.SampledFrom([]int64{0, 0, 0, 0, 5, 10, 20, 40, 61, 90, 150, 300, 7200}).Draw(t, "behind")*second
			if rapid.IntRange(0, 15).Draw(t, "fraction") == 0 {
				at += rapid.SampledFrom([]int64{1, 999_999, -1, 500_000}).Draw(t, "micros")
			}
			b.Times = append(b.Times, at)
			b.Columns[0].AppendInt64(at)
			if rapid.IntRange(0, 3).Draw(t, "key") == 0 {
				b.Keys.AppendNull()
			} else {
				b.Keys.AppendString(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key text"))
			}
			for _, v := range b.Columns[1:] {
				g.value(v)
			}
			b.Len++
		}
		f.next[p] += stream.Offset(b.Len)
		w.log = append(w.log, stream.Entry{Batch: b})
	}
}
