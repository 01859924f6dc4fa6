package pebblelog_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// bid is a request of n events such as Nexmark's bids, with or without ids.
func bid(n int, ids *atomic.Int64) *stream.Events {
	r := &stream.Events{Stream: 1, Keys: row.NewVector(row.Scalar(row.Varchar), n)}
	auction, price, url := row.NewVector(row.Scalar(row.BigInt), n), row.NewVector(row.Scalar(row.BigInt), n), row.NewVector(row.Scalar(row.Varchar), n)
	for i := range n {
		r.Partitions = append(r.Partitions, stream.Partition(i&1))
		r.Times = append(r.Times, logtest.At(0)+int64(i))
		r.Keys.AppendString(fmt.Sprint("user", i*7919%1000))
		auction.AppendInt64(int64(1000 + i*31%97))
		price.AppendInt64(int64(i * 7919 % 100_000))
		url.AppendString(fmt.Sprintf("https://www.nexmark.com/item%d", i%50))
		r.RawData = fmt.Appendf(r.RawData, `{"auction":%d,"bidder":"%s","price":%d,"channel":"Google","url":"%s","dateTime":"2024-01-01 12:00:00.%06d","extra":"abcdefghijklmnopqrstuvwxyz0123456789"}`,
			auction.I64[i], r.Keys.Str[i], price.I64[i], url.Str[i], i)
		r.RawEnds = append(r.RawEnds, uint32(len(r.RawData)))
		if ids != nil {
			r.IDs = append(r.IDs, logtest.EventID(fmt.Sprint(ids.Add(1))))
		}
	}
	r.Columns = []*row.Vector{auction, price, url}
	return r
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		events int
		ids    bool
	}{{1, false}, {100, false}, {100, true}} {
		b.Run(fmt.Sprintf("events=%d,ids=%v", c.events, c.ids), func(b *testing.B) {
			store, err := kv.Open(b.TempDir(), kv.Options{FS: vfs.Default, Logger: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			l, err := pebblelog.Open(store, pebblelog.Options{Logger: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Declare(b.Context(), 1, stream.Settings{Name: "s", Partitions: 2, DedupeWindow: 1 << 50}); err != nil {
				b.Fatal(err)
			}
			var number atomic.Int64
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				r := bid(c.events, nil)
				for pb.Next() {
					if c.ids {
						r.IDs = r.IDs[:0]
						for range c.events {
							n := number.Add(1)
							var id stream.EventID
							for k := range id {
								n = n*6364136223846793005 + 1442695040888963407
								id[k] = byte(n >> 56)
							}
							r.IDs = append(r.IDs, id)
						}
					}
					if _, err := l.Append(b.Context(), []*stream.Events{r}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N*c.events)/b.Elapsed().Seconds(), "events/s")
			stats, err := l.Stats(1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(stats.Partitions[0].Bytes+stats.Partitions[1].Bytes)/float64(stats.Accepted), "B/event")
			if err := errors.Join(l.Close(), store.Close()); err != nil {
				b.Error(err)
			}
		})
	}
}
