package history

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"tidemark/storage/row"
)

func BenchmarkParse(b *testing.B) {
	p, err := NewParser(256 << 20)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for b.Loop() {
		ast, err := p.ParseSQL("SELECT window_start, country, sum(amount) AS revenue FROM tumble(s, ts, INTERVAL '5 minutes') WHERE amount > 1 GROUP BY ALL")
		if err != nil {
			b.Fatal(err)
		}
		if err := Gate(ast, known); err != nil {
			b.Fatal(err)
		}
		if _, err := p.SQLFromAST(ast); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, rows := range []int{100, 10_000} {
		b.Run(strconv.Itoa(rows), func(b *testing.B) {
			h, err := Start(bg, testOptions(b.TempDir()))
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close()
			typ, err := row.ParseType("STRUCT(ts TIMESTAMP, _user VARCHAR, amount DOUBLE, country VARCHAR, _partition BIGINT, _offset BIGINT, _sequence BIGINT)")
			if err != nil {
				b.Fatal(err)
			}
			batch := row.NewBatch(typ.Fields, rows)
			for i := range rows {
				batch.Cols[0].AppendInt64(int64(i))
				batch.Cols[1].AppendString("user-" + strconv.Itoa(i))
				batch.Cols[2].AppendFloat64(float64(i))
				batch.Cols[3].AppendString("DE")
				for c := 4; c < 7; c++ {
					batch.Cols[c].AppendInt64(int64(i))
				}
				batch.Len++
			}
			from, n := []byte(nil), 0
			for b.Loop() {
				n++
				to := fmt.Appendf(nil, "p%d", n)
				if err := h.Apply(bg, row.SinkBatch{Relation: "s", ID: 1, Fields: typ.Fields, From: from, To: to, Rows: batch}); err != nil {
					b.Fatal(err)
				}
				from = to
			}
			b.ReportMetric(float64(n*rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkQuery(b *testing.B) {
	h, err := Start(bg, testOptions(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	for b.Loop() {
		var out bytes.Buffer
		if _, err := h.Query(bg, Query{SQL: "SELECT range AS n, 'x' AS t FROM range(1000)"}, &out); err != nil {
			b.Fatal(err)
		}
	}
}
