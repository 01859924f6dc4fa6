package row

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func randomBatch(r *rand.Rand, n int) ([]Field, *Batch) {
	var fields []Field
	for range r.IntN(6) {
		t := everyType[r.IntN(len(everyType))]
		fields = append(fields, Field{strings.Repeat("c", r.IntN(3)), t})
	}
	b := NewBatch(fields, n)
	dense := r.IntN(2) == 0
	for range n {
		for _, v := range b.Cols {
			for {
				appendRandom(r, v)
				if k := v.Len() - 1; dense && v.IsNull(k) && v.Type.Kind != Null {
					v.Truncate(k)
					continue
				}
				break
			}
		}
		b.Len++
	}
	if r.IntN(2) == 0 {
		for range n {
			b.Weights = append(b.Weights, r.Int64N(3)-1)
		}
	}
	return fields, b
}

func sameBatch(t *testing.T, fields, gotFields []Field, b, got *Batch) {
	t.Helper()
	if got.Len != b.Len || len(got.Cols) != len(b.Cols) || !slices.Equal(got.Weights, b.Weights) {
		t.Fatalf("%d rows in %d columns, weights %v; want %d in %d, %v", got.Len, len(got.Cols), got.Weights, b.Len, len(b.Cols), b.Weights)
	}
	for c, v := range b.Cols {
		w := got.Cols[c]
		if gotFields[c].Name != fields[c].Name || !w.Type.Equal(v.Type) || w.Len() != b.Len {
			t.Fatalf("column %d is %s %s of %d values, want %s %s", c, gotFields[c].Name, w.Type, w.Len(), fields[c].Name, v.Type)
		}
		for i := range b.Len {
			same := v.IsNull(i) == w.IsNull(i)
			switch v.Type.Class() {
			case Float64Class:
				same = same && (math.Float64bits(v.F64[i]) == math.Float64bits(w.F64[i]) || v.F64[i] != v.F64[i] && w.F64[i] != w.F64[i])
			case Int128Class:
				same = same && v.I128[i] == w.I128[i]
			case StringClass:
				same = same && v.Str[i] == w.Str[i]
			default:
				same = same && v.I64[i] == w.I64[i]
			}
			if !same {
				t.Fatalf("column %d (%s), row %d came back as another value", c, v.Type, i)
			}
		}
	}
}

func TestBatchesComeBackToTheBit(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for k := range 2000 {
		fields, b := randomBatch(r, []int{0, 1, 7, 64, 65, 300}[k%6])
		gotFields, got, err := DecodeBatch(EncodeBatch([]byte(nil), fields, b))
		if err != nil {
			t.Fatalf("batch %d: %v", k, err)
		}
		sameBatch(t, fields, gotFields, b, got)
	}
}

func TestSkippedColumnsAreNil(t *testing.T) {
	t.Parallel()
	fields := []Field{{"a", Scalar(BigInt)}, {"b", Scalar(Varchar)}, {"c", Scalar(Double)}}
	b := NewBatch(fields, 1)
	b.Cols[0].AppendInt64(1)
	b.Cols[1].AppendString("x")
	b.Cols[2].AppendFloat64(2.5)
	b.Len = 1
	_, got, err := DecodeColumns(EncodeBatch(nil, fields, b), func(c int) bool { return c == 2 })
	if err != nil || got.Cols[0] != nil || got.Cols[1] != nil || got.Cols[2].F64[0] != 2.5 {
		t.Fatalf("got %v, %v", got, err)
	}
}

// frozenBatch are bytes that an earlier program wrote.
const frozenBatch = "0103050002696405060002d00f0202046e616d650a0a00070201016162000100057072696365080900050201fa0100d704026f6b0104020203010373756d092602320004000000000000000001000000000000000100000000000000010000000000000002000000000000000100000000000000"

// The bytes of a batch written by an earlier program; they must be read for ever (I4).
func TestFrozenBatchIsRead(t *testing.T) {
	t.Parallel()
	fields := []Field{{"id", Scalar(BigInt)}, {"name", Scalar(Varchar)}, {"price", Scalar(Double)}, {"ok", Scalar(Boolean)}, {"sum", DecimalType(38, 2)}}
	b := NewBatch(fields, 3)
	for i := range 3 {
		b.Cols[0].AppendInt64(int64(1000 + i))
		b.Cols[1].AppendString([]string{"a", "b", "a"}[i])
		b.Cols[2].AppendFloat64([]float64{1.25, 0, -3}[i])
		b.Cols[4].AppendInt128(Int128{1, uint64(i)})
		b.Len++
	}
	b.Cols[3].AppendInt64(1)
	b.Cols[3].AppendNull()
	b.Cols[3].AppendInt64(0)
	got := hex.EncodeToString(EncodeBatch(nil, fields, b))
	if frozenBatch != got {
		t.Fatalf("the encoding has changed to\n%s, which needs a new version of the codec", got)
	}
	raw, _ := hex.DecodeString(frozenBatch)
	gotFields, back, err := DecodeBatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	sameBatch(t, fields, gotFields, b, back)
}

func FuzzDecodeBatch(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		fields, b := randomBatch(r, r.IntN(20))
		f.Add(EncodeBatch(nil, fields, b))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		fields, b, err := DecodeBatch(src)
		if err != nil {
			return
		}
		gotFields, again, err := DecodeBatch(EncodeBatch(nil, fields, b))
		if err != nil {
			t.Fatalf("what was read can't be written and read again: %v", err)
		}
		if len(gotFields) != len(fields) || again.Len != b.Len {
			t.Fatal("what was read comes back in another shape")
		}
	})
}

// A damaged batch is an error or another batch, whatever bit is wrong and wherever it ends.
func TestDamagedBatchNeverPanics(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		fields, b := randomBatch(r, r.IntN(40))
		raw := EncodeBatch(nil, fields, b)
		for range 100 {
			bad := slices.Clone(raw)
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
			_, _, _ = DecodeBatch(bad[:r.IntN(len(bad))+1])
			_, _, _ = DecodeBatch(bad)
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	fields := []Field{{"auction", Scalar(BigInt)}, {"ts", Scalar(Timestamp)}, {"channel", Scalar(Varchar)}, {"extra", Scalar(Varchar)}}
	batch := NewBatch(fields, 1000)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 1000 {
		batch.Cols[0].AppendInt64(1000 + r.Int64N(100))
		batch.Cols[1].AppendInt64(1436918400000000 + int64(i)*1000)
		batch.Cols[2].AppendString([]string{"Google", "Apple", "Baidu"}[r.IntN(3)])
		batch.Cols[3].AppendString(strings.Repeat("x", 50+r.IntN(20)) + string(rune('a'+r.IntN(26))))
		batch.Len++
	}
	raw := EncodeBatch(nil, fields, batch)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			raw = EncodeBatch(raw[:0], fields, batch)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = DecodeBatch(raw)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
	})
}
