package ingest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"tidemark/stream"
)

// bids are events like Nexmark's, a line each.
func bids(n int, space bool) []byte {
	var b strings.Builder
	sep, colon := ",", ":"
	if space {
		sep, colon = ", ", ": "
	}
	for i := range n {
		fmt.Fprintf(&b, `{"auction"%[1]s%[3]d%[2]s"bidder"%[1]s%[4]d%[2]s"price"%[1]s%[5]d%[2]s"channel"%[1]s"channel-%[6]d"%[2]s`+
			`"url"%[1]s"https://www.nexmark.com/abc/def/item.htm?query=1&channel_id=%[6]d"%[2]s"ts"%[1]s"2024-01-15T10:00:%02[7]d.%03[8]dZ"%[2]s"ratio"%[1]s%[9]d.25%[2]s"extra"%[1]s"%[10]s"}`+"\n",
			colon, sep, 1000+i%997, 2000+i%1013, 100+i*37%100000, i%8, i/1000%60, i%1000, i%100, strings.Repeat("x", 40))
	}
	return []byte(b.String())
}

func benchmarkDecode(b *testing.B, cfg stream.Config, body []byte, n int) {
	w := newWorld(b)
	l := newLayout(w.declare("bid", cfg))
	d := newDecoder(l)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d.begin(n, len(body), limits{event: 1 << 20, depth: 64, latest: math.MaxInt64, partition: -1})
		if err := d.decode(body, lines, 50_000); err != nil {
			b.Fatal(err)
		}
		if out := d.finish(); out.events.Len() != n {
			b.Fatal(out.bad[0])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
}

var bidColumns = columns("auction", "BIGINT", "bidder", "BIGINT", "price", "BIGINT", "channel", "VARCHAR", "url", "VARCHAR", "ts", "TIMESTAMP", "ratio", "DOUBLE", "extra", "VARCHAR")

func BenchmarkDecodeBids(b *testing.B) {
	for _, size := range []int{100, 5000} {
		b.Run(fmt.Sprintf("%d a request", size), func(b *testing.B) {
			benchmarkDecode(b, stream.Config{TimeField: "ts", Columns: bidColumns}, bids(size, false), size)
		})
	}
	b.Run("with space", func(b *testing.B) {
		benchmarkDecode(b, stream.Config{TimeField: "ts", Columns: bidColumns}, bids(1000, true), 1000)
	})
	b.Run("with key and id", func(b *testing.B) {
		benchmarkDecode(b, stream.Config{TimeField: "ts", KeyField: "channel", IDField: "price", Partitions: 8, Columns: bidColumns}, bids(1000, false), 1000)
	})
}

// nowhere is a log that keeps nothing.
type nowhere struct{ stream.Log }

func (nowhere) ID() stream.LogID     { return 1 }
func (nowhere) End() stream.Sequence { return 1 }
func (nowhere) Append(_ context.Context, reqs []*stream.Events) ([]stream.Appended, error) {
	return make([]stream.Appended, len(reqs)), nil
}

func BenchmarkPostBids(b *testing.B) {
	for _, cfg := range []struct {
		name   string
		config stream.Config
	}{{"declared", stream.Config{TimeField: "ts", Columns: bidColumns}}, {"inferred", stream.Config{TimeField: "ts"}}} {
		b.Run(cfg.name, func(b *testing.B) {
			w := newWorld(b)
			w.declare("bid", cfg.config)
			in := New(w.streams, nowhere{}, Options{})
			body := bids(100, false)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				a, err := in.Post(context.Background(), Request{Stream: "bid", Body: body, ContentType: "application/x-ndjson"})
				if err != nil || a.Accepted != 100 || len(a.JSON()) == 0 {
					b.Fatal(a, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/event")
		})
	}
}
