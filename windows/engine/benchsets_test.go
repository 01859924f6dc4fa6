package engine

import (
	"fmt"
	"testing"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// setViews have one group, whose state grows with its input.
var setViews = []benchView{
	{"distinct numbers", "SELECT count(DISTINCT v) AS n FROM s"},
	{"distinct texts", "SELECT count(DISTINCT k) AS n FROM s"},
	{"distinct texts of a day", "SELECT window_start, count(DISTINCT k) AS n FROM tumble(s, ts, INTERVAL '1 day') GROUP BY ALL"},
	{"distinct texts of the last day", "SELECT window_end, count(DISTINCT k) AS n FROM hop(s, ts, INTERVAL '12 hours', INTERVAL '1 day') GROUP BY ALL"},
	{"median", "SELECT median(v) AS middle FROM s"},
	{"most of what may go", "SELECT max(n) AS most FROM (SELECT k, sum(v) AS n FROM s GROUP BY k)"},
}

// setBatch has n events whose k and v no other event has.
func setBatch(number, n int) *stream.Batch {
	b := &stream.Batch{
		Stream: 1, Base: stream.Offset(number * n), Sequence: stream.Sequence(number + 2), AppendTime: day + int64(number)*1000,
		Len: n, Keys: row.NewVector(row.Scalar(row.Varchar), 0),
		Columns: []*row.Vector{row.NewVector(row.Scalar(row.Timestamp), n), row.NewVector(row.Scalar(row.Varchar), n), row.NewVector(row.Scalar(row.BigInt), n)},
	}
	for i := range n {
		x := uint64(number*n+i+1) * 0x9e3779b97f4a7c15 >> 24
		at := day + int64(number)*1000
		b.Times = append(b.Times, at)
		b.Columns[0].AppendInt64(at)
		b.Columns[1].AppendString(fmt.Sprintf("visitor-%010x", x))
		b.Columns[2].AppendInt64(int64(x))
		b.Keys.AppendNull()
	}
	return b
}

// BenchmarkSavedSets tells what an epoch of 1,000 new values costs a group that has 1,000,000: time,
// with that of its new row, and bytes that are written.
func BenchmarkSavedSets(b *testing.B) {
	const large, each = 1_000_000, 1000
	for _, v := range setViews {
		b.Run(v.name, func(b *testing.B) {
			s := &script{t: b, sql: v.sql}
			s.reset()
			s.declare("s k VARCHAR, v BIGINT")
			s.cfg = Config{Streams: []windows.TrackedStream{{Stream: 1}}}
			e := s.open()
			state := kept{}
			s.must(e.Recover(state, 0))
			epoch := func(number int) (written int64) {
				s.must(e.Step(stream.Entry{Batch: setBatch(number, each)}))
				for _, w := range e.Take(true).Writes {
					written += int64(len(w.Key) + len(w.Value))
				}
				return written
			}
			s.must(e.Step(stream.Entry{Control: &stream.Control{Stream: 1, Sequence: 1, AppendTime: day, Kind: stream.Partitions, Value: 1}}))
			for i := range large / each {
				s.must(e.Step(stream.Entry{Batch: setBatch(i, each)}))
			}
			e.Take(true)
			number, written := large/each, int64(0)
			b.ResetTimer()
			for range b.N {
				written += epoch(number)
				number++
			}
			b.ReportMetric(float64(written)/float64(b.N), "B-written/epoch")
		})
	}
}
