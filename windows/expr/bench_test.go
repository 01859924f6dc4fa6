package expr

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tidemark/storage/row"
)

// bids is a batch of the bids of an auction benchmark.
func bids(n int) ([]row.Field, *row.Batch) {
	fields := []row.Field{
		{Name: "auction", Type: tBig},
		{Name: "price", Type: tBig},
		{Name: "channel", Type: tVarchar},
		{Name: "url", Type: tVarchar},
		{Name: "date_time", Type: tTimestamp},
		{Name: "amount", Type: tDouble},
	}
	b := row.NewBatch(fields, n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		k := r.IntN(1000)
		b.Cols[0].AppendInt64(1000 + r.Int64N(60000))
		b.Cols[1].AppendInt64(100 + r.Int64N(100_000_000))
		b.Cols[2].AppendString([]string{"Google", "Facebook", "Baidu", fmt.Sprint("channel-", k)}[r.IntN(4)])
		b.Cols[3].AppendString(fmt.Sprintf("https://www.nexmark.com/abcd/de_f/x%03d/item.htm?query=1&channel_id=%d", k, k*7919))
		b.Cols[4].AppendInt64(1436918400000000 + int64(i)*100)
		b.Cols[5].AppendFloat64(float64(r.IntN(10000)) / 100)
		b.Len++
	}
	return fields, b
}

func BenchmarkEval(b *testing.B) {
	fields, batch := bids(4096)
	for _, text := range []string{
		"auction % 123 = 0",
		"price + 1",
		"price < 10000",
		"0.908 * price",
		"0.908 * price > 1000000 AND 0.908 * price < 50000000",
		"amount * 2",
		"amount > 50",
		"channel = 'Google'",
		"lower(channel)",
		"lower(channel) IN ('apple', 'google', 'facebook', 'baidu')",
		"CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END",
		"strftime(date_time, '%Y-%m-%d')",
		"length(url) - length(replace(url, 'c', ''))",
		"split_part(url, '/', 5)",
		"regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)",
		"url LIKE '%item%'",
		"date_trunc('minute', date_time)",
		"price::VARCHAR",
		"coalesce(price, 0)",
	} {
		b.Run(text, func(b *testing.B) {
			e, err := parseExpr(text, fields)
			if err != nil {
				b.Fatal(err)
			}
			var errs Errors
			b.ReportAllocs()
			for b.Loop() {
				e.Eval(batch, nil, &errs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.Len), "ns/row")
		})
	}
}
