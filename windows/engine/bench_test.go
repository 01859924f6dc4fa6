package engine

import (
	"fmt"
	"strconv"
	"testing"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

type benchView struct{ name, sql string }

// benchViews are measured over the same events: 1,000 events a batch and a second, 1,000 keys of
// which one takes half, and times up to a second behind.
var benchViews = []benchView{
	{"pass through", "SELECT k, v FROM s WHERE v % 3 = 0"},
	{"all", "SELECT count(*) AS n, sum(v) AS total FROM s"},
	{"by key", "SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k"},
	{"tumble", "SELECT window_start, k, count(*) AS n, sum(v) AS total, max(v) AS top FROM tumble(s, ts, INTERVAL '10 seconds') GROUP BY ALL"},
	{"hop 10", "SELECT window_start, k, count(*) AS n, max(v) AS top FROM hop(s, ts, INTERVAL '1 second', INTERVAL '10 seconds') GROUP BY ALL"},
	{"hop 1000", "SELECT window_start, count(*) AS n, max(v) AS top FROM hop(s, ts, INTERVAL '10 milliseconds', INTERVAL '10 seconds') GROUP BY ALL"},
	{"session", "SELECT window_start, window_end, k, count(*) AS n FROM session(s, ts, INTERVAL '2 seconds', k) GROUP BY ALL"},
	{"top of hop", "SELECT window_end, k, n FROM (SELECT window_end, k, count(*) AS n FROM hop(s, ts, INTERVAL '2 seconds', INTERVAL '10 seconds') GROUP BY ALL) QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY n DESC, k) <= 1"},
}

// benchBatch is the second-th batch.
func benchBatch(second int) *stream.Batch {
	const n = 1000
	b := &stream.Batch{
		Stream: 1, Base: stream.Offset(second * n), Sequence: stream.Sequence(second + 2), AppendTime: day + int64(second+60)*windows.MicrosPerSecond,
		Len: n, Keys: row.NewVector(row.Scalar(row.Varchar), 0),
		Columns: []*row.Vector{row.NewVector(row.Scalar(row.Timestamp), n), row.NewVector(row.Scalar(row.Varchar), n), row.NewVector(row.Scalar(row.BigInt), n)},
	}
	x := uint64(second)*2862933555777941757 + 3037000493
	for i := range n {
		x = x*6364136223846793005 + 1442695040888963407
		at := day + int64(second)*windows.MicrosPerSecond + int64(i)*1000 - int64(x>>44)
		b.Times = append(b.Times, at)
		b.Columns[0].AppendInt64(at)
		key := "hot"
		if x>>33&1 == 0 {
			key = "k" + strconv.Itoa(int(x>>34%1000))
		}
		b.Columns[1].AppendString(key)
		b.Columns[2].AppendInt64(int64(x >> 50))
		b.Keys.AppendNull()
	}
	return b
}

func BenchmarkEngine(b *testing.B) {
	const batches = 200
	var log []stream.Entry
	log = append(log, stream.Entry{Control: &stream.Control{Stream: 1, Sequence: 1, AppendTime: day, Kind: stream.Partitions, Value: 1}})
	for i := range batches {
		log = append(log, stream.Entry{Batch: benchBatch(i)})
	}
	for _, v := range benchViews {
		for _, final := range []bool{false, true} {
			if final && (v.name == "all" || v.name == "by key") {
				continue
			}
			b.Run(fmt.Sprintf("%s/final=%t", v.name, final), func(b *testing.B) {
				s := &script{t: b, sql: v.sql}
				s.reset()
				s.declare("s k VARCHAR, v BIGINT")
				s.cfg = Config{EmitFinal: final, AllowedLateness: 10 * windows.MicrosPerSecond, Streams: []windows.TrackedStream{{Stream: 1, MaxOutOfOrderness: 5 * windows.MicrosPerSecond}}}
				b.ReportAllocs()
				for b.Loop() {
					e := s.open()
					for i, entry := range log {
						s.must(e.Step(entry))
						if i%10 == 9 { // an epoch
							e.Take(true)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batches*1000), "ns/event")
			})
		}
	}
}
