package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/judge"
	"tidemark/windows/query"
)

// randomViews are views whose rows a few lines of Go can work out from what the judge lets in.
var randomViews = []struct {
	name string
	sql  string
	kind windows.Kind
}{
	{"tumble", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM tumble(s, ts, INTERVAL '1 minute') GROUP BY ALL", windows.Tumble},
	{"hop", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM hop(s, ts, INTERVAL '1 minute', INTERVAL '150 seconds') GROUP BY ALL", windows.Hop},
	// Windows of many panes, so that blocks of them are kept merged; and of panes shorter than the slide.
	{"hop of many panes", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM hop(s, ts, INTERVAL '5 seconds', INTERVAL '310 seconds') GROUP BY ALL", windows.Hop},
	{"hop of small panes", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM hop(s, ts, INTERVAL '15 seconds', INTERVAL '100 seconds') WHERE v > 0 GROUP BY ALL", windows.Hop},
	{"hop with holes", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM hop(s, ts, INTERVAL '2 minutes', INTERVAL '1 minute') GROUP BY ALL", windows.Hop},
	{"session", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL", windows.Session},
	{"slide", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM slide(s, ts, INTERVAL '30 seconds', k) GROUP BY ALL", windows.Slide},
	{"tumble where", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM tumble(s, ts, INTERVAL '1 minute') WHERE v > 0 GROUP BY ALL", windows.Tumble},
	{"session where", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM session(s, ts, INTERVAL '20 seconds', k) WHERE v > 0 GROUP BY ALL", windows.Session},
	{"slide where", "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM slide(s, ts, INTERVAL '30 seconds', k) WHERE v > 0 GROUP BY ALL", windows.Slide},
	// Rows that are kept and given out again, instead of groups that are merged.
	{"session rows", "SELECT window_start, window_end, k, sum(n) AS n, sum(v) AS total FROM (SELECT window_start, window_end, k, v, CASE WHEN window_end > window_start THEN 1 END AS n FROM session(s, ts, INTERVAL '20 seconds', k)) GROUP BY ALL", windows.Session},
	{"session nested", "SELECT window_start, window_end, k, sum(n) AS n, sum(total) AS total FROM (SELECT window_start, window_end, k, v, count(*) AS n, sum(v) AS total FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL) GROUP BY ALL", windows.Session},
	{"top-n", "SELECT window_start, window_end, k, n, total FROM (SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM tumble(s, ts, INTERVAL '1 minute') GROUP BY ALL) QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY k NULLS FIRST) <= 5", windows.Tumble},
}

// randomLog draws the entries of a stream.
func (s *script) randomLog(t *rapid.T, partitions int) {
	f := s.streams["s"]
	base := int64(10 * 3600)
	appendAt := day + 80000*windows.MicrosPerSecond
	for range rapid.IntRange(1, 12).Draw(t, "entries") {
		appendAt += rapid.Int64Range(0, 60).Draw(t, "wait") * windows.MicrosPerSecond
		p := stream.Partition(rapid.IntRange(0, partitions-1).Draw(t, "partition"))
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			s.log = append(s.log, stream.Entry{Control: &stream.Control{Stream: f.id, Partition: p, Sequence: s.next(), AppendTime: appendAt, Kind: stream.Idle}})
			continue
		case 1:
			s.log = append(s.log, stream.Entry{Control: &stream.Control{Stream: f.id, Sequence: s.next(), AppendTime: appendAt, Kind: stream.Clock}})
			continue
		case 2:
			to := day + (base+rapid.Int64Range(-200, 200).Draw(t, "advance"))*windows.MicrosPerSecond
			s.log = append(s.log, stream.Entry{Control: &stream.Control{Stream: f.id, Sequence: s.next(), AppendTime: appendAt, Kind: stream.Advance, Value: to}})
			continue
		}
		b := &stream.Batch{
			Stream: f.id, Partition: p, Base: f.next[p], Sequence: s.next(), AppendTime: appendAt, Keys: row.NewVector(row.Scalar(row.Varchar), 0),
			Columns: []*row.Vector{row.NewVector(f.fields[0].Type, 0), row.NewVector(f.fields[1].Type, 0), row.NewVector(f.fields[2].Type, 0)},
		}
		for range rapid.IntRange(1, 6).Draw(t, "events") {
			base += rapid.Int64Range(0, 20).Draw(t, "on")
			at := day + (base-rapid.SampledFrom([]int64{0, 0, 0, 5, 10, 20, 40, 61, 90, 150, 300}).Draw(t, "behind"))*windows.MicrosPerSecond
			b.Times = append(b.Times, at)
			b.Keys.AppendNull()
			b.Columns[0].AppendInt64(at)
			if k := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"); k == "" {
				b.Columns[1].AppendNull()
			} else {
				b.Columns[1].AppendString(k)
			}
			b.Columns[2].AppendInt64(rapid.Int64Range(-2, 5).Draw(t, "v"))
			b.Len++
		}
		f.next[p] += stream.Offset(b.Len)
		s.log = append(s.log, stream.Entry{Batch: b})
	}
}

// Random logs give the same rows on every road, and the rows that follow from what the judge lets
// in: T1, T4, L2, L3, L4, L5.
func TestRandomLogsGiveTheBatchAnswer(t *testing.T) {
	t.Parallel()
	for _, v := range randomViews {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				s := &script{t: t}
				s.reset()
				partitions := rapid.IntRange(1, 2).Draw(t, "partitions")
				s.declare(fmt.Sprintf("s/%d k VARCHAR, v BIGINT", partitions))
				s.randomLog(t, partitions)
				s.sql = v.sql
				s.cfg = Config{
					AllowedLateness: rapid.SampledFrom([]int64{0, 15, 60, 600}).Draw(t, "lateness") * windows.MicrosPerSecond,
					EmitFinal:       rapid.Bool().Draw(t, "final"),
					Streams: []windows.TrackedStream{{
						Stream: 1, IdleAdvance: true,
						MaxOutOfOrderness: rapid.SampledFrom([]int64{0, 10, 45}).Draw(t, "ooo") * windows.MicrosPerSecond,
					}},
				}
				s.engine = s.open()
				s.plan = s.engine.plan
				for _, e := range s.log {
					s.must(s.engine.Step(e))
					if rapid.Bool().Draw(t, "take") {
						s.take(rapid.Bool().Draw(t, "all"))
					}
				}
				s.finish()
				s.judged(v.kind)
			})
		})
	}
}

// judged compares with the judge, and with the rows that follow from its verdict.
func (s *script) judged(kind windows.Kind) {
	plan, err := query.Compile(parseKept, s, s.sql, query.Options{})
	s.must(err)
	j := judge.New(plan, judge.Config{AllowedLateness: s.cfg.AllowedLateness, Streams: s.cfg.Streams})
	type event struct {
		place judge.Event
		at, v int64
		key   string
	}
	var events []event
	for _, e := range s.log {
		j.Step(e)
		if b := e.Batch; b != nil {
			for i := range b.Len {
				key := "null"
				if !b.Columns[1].IsNull(i) {
					key = b.Columns[1].Str[i]
				}
				place := judge.Event{Stream: b.Stream, Place: stream.Place{Partition: b.Partition, Offset: b.Base + stream.Offset(i)}}
				events = append(events, event{place, b.Times[i], b.Columns[2].I64[i], key})
			}
		}
	}
	v := j.Verdict()
	if c := s.all.counts; c.LateDropped != v.Dropped || c.LatePartial != v.Partial || c.LateCorrected != v.Corrected {
		s.t.Errorf("%s: counts %+v, the judge says dropped %d, partial %d, corrected %d", s.sql, c, v.Dropped, v.Partial, v.Corrected)
	}
	if j.Watermark() != s.engine.Watermark() {
		s.t.Errorf("watermark %s, the judge says %s", instantText(s.engine.Watermark()), instantText(j.Watermark()))
	}
	var told []string
	for _, r := range v.Records {
		outcome := LateDropped
		if r.Partial {
			outcome = LatePartial
		}
		told = append(told, fmt.Sprintf("%s met %s: %s", r.Event.Place, instantText(r.Watermark), outcome))
	}
	var late []string
	for _, l := range s.all.late {
		place, rest, _ := strings.Cut(l, " met ")
		place = place[:strings.LastIndexByte(place, ' ')]
		rest, _, _ = strings.Cut(rest, " 0[")
		late = append(late, place+" met "+rest)
	}
	s.same("judge", "late records", told, late)

	// The batch answer, as naively as it can be said.
	refused := map[judge.Event]bool{}
	for _, e := range v.Events[0] {
		refused[e] = true
	}
	pairs := map[judge.Pair]bool{}
	for _, p := range v.Pairs[0] {
		pairs[p] = true
	}
	in := slices.DeleteFunc(events, func(e event) bool { return refused[e.place] })
	slices.SortStableFunc(in, func(a, b event) int { return int(a.at - b.at) })
	groups := map[string][2]int64{}
	add := func(e event, start, end int64) {
		if strings.Contains(s.sql, "v > 0") && e.v <= 0 || pairs[judge.Pair{Event: e.place, Start: start, End: end}] {
			return
		}
		key := fmt.Sprintf("%s %s %s", instantText(start), instantText(end), e.key)
		g := groups[key]
		groups[key] = [2]int64{g[0] + 1, g[1] + e.v}
	}
	sec := windows.MicrosPerSecond
	for i, e := range in {
		switch kind {
		case windows.Tumble:
			start := (windows.Interval{Micros: 60 * sec}).Bucket(e.at)
			add(e, start, start+60*sec)
		case windows.Hop:
			slide, size := 60*sec, 150*sec
			switch {
			case strings.Contains(s.sql, "2 minutes"):
				slide, size = 120*sec, 60*sec
			case strings.Contains(s.sql, "'310 seconds'"):
				slide, size = 5*sec, 310*sec
			case strings.Contains(s.sql, "'100 seconds'"):
				slide, size = 15*sec, 100*sec
			}
			for start := (windows.Interval{Micros: slide}).Bucket(e.at); start+size > e.at; start -= slide {
				add(e, start, start+size)
			}
		case windows.Session:
			first, last := e.at, e.at
			for k := i - 1; k >= 0; k-- {
				if in[k].key == e.key && first-in[k].at <= 20*sec {
					first = in[k].at
				}
			}
			for k := i + 1; k < len(in); k++ {
				if in[k].key == e.key && in[k].at-last <= 20*sec {
					last = in[k].at
				}
			}
			add(e, first, last+20*sec)
		case windows.Slide:
			ends := map[int64]bool{}
			for _, o := range in {
				if o.key == e.key && e.at <= o.at && o.at-30*sec <= e.at && !ends[o.at] {
					ends[o.at] = true
					add(e, o.at-30*sec, o.at)
				}
			}
		}
	}
	var want []string
	for key, g := range groups {
		want = append(want, fmt.Sprintf("%s %d %d", key, g[0], g[1]))
	}
	slices.Sort(want)
	got := s.road0()
	s.same("batch answer", "rows", want, got)
}

// road0 are the rows of a view with provisional ones, whatever it emits.
func (s *script) road0() []string {
	emit := s.cfg.EmitFinal
	s.cfg.EmitFinal = false
	defer func() { s.cfg.EmitFinal = emit }()
	var rows []string
	for _, r := range s.road(2, true, true).rows {
		r, _, _ = strings.Cut(r, " provisional")
		r, _, _ = strings.Cut(r, " corrected")
		r, _, _ = strings.Cut(r, " final")
		rows = append(rows, r)
	}
	slices.Sort(rows)
	return rows
}
