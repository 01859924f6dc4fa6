package row

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"testing"
)

// everyType is one type of each kind and class.
var everyType = []Type{
	Scalar(Boolean), Scalar(TinyInt), Scalar(SmallInt), Scalar(Integer), Scalar(BigInt), Scalar(HugeInt),
	Scalar(Float), Scalar(Double), DecimalType(9, 2), DecimalType(38, 5), Scalar(Varchar), Scalar(Blob),
	Scalar(Date), Scalar(Timestamp), Scalar(Interval), Scalar(JSON), ListOf(Scalar(BigInt)),
	StructOf(Field{"os", Scalar(Varchar)}, Field{"v w", ListOf(Scalar(Double))}), Scalar(Null),
}

// appendRandom adds a value of v's type, with a tendency to the small, the equal and the extreme.
func appendRandom(r *rand.Rand, v *Vector) {
	if v.Type.Kind == Null || r.IntN(5) == 0 {
		v.AppendNull()
		return
	}
	switch v.Type.Kind {
	case Boolean:
		v.AppendInt64(r.Int64N(2))
		return
	case Float:
		v.AppendFloat64([]float64{0, 1.5, float64(float32(0.1)), math.NaN(), math.Inf(-1), -2.25}[r.IntN(6)])
		return
	case Interval:
		v.AppendInt128(MakeInterval(int32(r.IntN(3)-1), int32(r.IntN(70)-30), r.Int64N(1000)))
		return
	case List:
		e := NewVector(*v.Type.Elem, 3)
		for range r.IntN(4) {
			appendRandom(r, e)
		}
		v.AppendString(string(EncodeList(nil, e)))
		return
	case Struct:
		members := make([]*Vector, len(v.Type.Fields))
		for k, f := range v.Type.Fields {
			members[k] = NewVector(f.Type, 1)
			appendRandom(r, members[k])
		}
		v.AppendString(string(EncodeStruct(nil, members, 0)))
		return
	}
	switch v.Type.Class() {
	case Float64Class:
		v.AppendFloat64([]float64{0, math.Copysign(0, -1), 1, -1, 0.1, 12.34, math.NaN(), math.Inf(1), math.Inf(-1), r.NormFloat64()}[r.IntN(10)])
	case Int128Class:
		v.AppendInt128(wide(r))
	case StringClass:
		v.AppendString([]string{"", "a", "ab", "a\x00", "a\x00\xff", "\xff", "Zürich", "b"}[r.IntN(8)])
	default:
		v.AppendInt64(int64(r.Uint64()) >> r.IntN(64))
	}
}

// compareValues orders by SQL's rules, NULLS FIRST, written apart from the key encoding.
func compareValues(v *Vector, i, j int) int {
	if v.IsNull(i) || v.IsNull(j) {
		switch {
		case v.IsNull(i) && v.IsNull(j):
			return 0
		case v.IsNull(i):
			return -1
		}
		return 1
	}
	switch v.Type.Class() {
	case Float64Class:
		a, b := v.F64[i], v.F64[j]
		if math.IsNaN(a) || math.IsNaN(b) {
			switch {
			case math.IsNaN(a) && math.IsNaN(b):
				return 0
			case math.IsNaN(a):
				return 1
			}
			return -1
		}
		return cmp.Compare(a, b)
	case Int128Class:
		if v.Type.Kind == Interval {
			return CompareIntervals(v.I128[i], v.I128[j])
		}
		return v.I128[i].Cmp(v.I128[j])
	case StringClass:
		return cmp.Compare(v.Str[i], v.Str[j])
	}
	return cmp.Compare(v.I64[i], v.I64[j])
}

func TestKeysAreOrderedAsValuesAndComeBack(t *testing.T) { // I3
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, typ := range everyType {
		v := NewVector(typ, 200)
		for range 200 {
			appendRandom(r, v)
		}
		keys := make([][]byte, v.Len())
		for i := range keys {
			keys[i] = AppendKey(nil, v, i)
			out := NewVector(typ, 1)
			rest, err := DecodeKey(typ, append(bytes.Clone(keys[i]), "rest"...), out)
			if err != nil || string(rest) != "rest" || out.Len() != 1 {
				t.Fatalf("%s: key %x decodes with rest %q, %v", typ, keys[i], rest, err)
			}
			out.AppendFrom(v, i)
			if compareValues(out, 0, 1) != 0 {
				t.Fatalf("%s: key %x came back as another value", typ, keys[i])
			}
		}
		for i := range keys {
			for j := range keys {
				if got, want := bytes.Compare(keys[i], keys[j]), compareValues(v, i, j); got != want {
					t.Fatalf("%s: keys %x and %x compare as %d, their values as %d", typ, keys[i], keys[j], got, want)
				}
				if bytes.HasPrefix(keys[i], keys[j]) && !bytes.Equal(keys[i], keys[j]) {
					t.Fatalf("%s: key %x is a prefix of %x", typ, keys[j], keys[i])
				}
			}
		}
	}
}

func TestSameNumberHasSameKeyInEveryIntegerType(t *testing.T) {
	t.Parallel()
	for _, x := range []int64{0, 1, -1, 255, 256, -256, -257, math.MaxInt64, math.MinInt64} {
		a, b := NewVector(Scalar(BigInt), 1), NewVector(Scalar(HugeInt), 1)
		a.AppendInt64(x)
		b.AppendInt128(FromInt64(x))
		if ka, kb := AppendKey(nil, a, 0), AppendKey(nil, b, 0); !bytes.Equal(ka, kb) {
			t.Errorf("%d has the key %x as BIGINT and %x as HUGEINT", x, ka, kb)
		}
	}
}

func FuzzDecodeKey(f *testing.F) {
	f.Add(uint8(4), []byte{0x88, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add(uint8(10), []byte{1, 'a', 0, 0xff, 0, 0})
	f.Add(uint8(6), []byte{1, 0xff})
	f.Fuzz(func(t *testing.T, k uint8, src []byte) {
		typ := everyType[int(k)%len(everyType)]
		out := NewVector(typ, 1)
		if _, err := DecodeKey(typ, src, out); err == nil {
			AppendKey(nil, out, 0)
			if typ.Kind == List && !out.IsNull(0) {
				if _, err := Elements(out, 0); err != nil {
					t.Fatalf("a list that was read as a key has no elements: %v", err)
				}
			}
			if typ.Kind == Struct && !out.IsNull(0) {
				if _, err := Members(out, 0); err != nil {
					t.Fatalf("a struct that was read as a key has no members: %v", err)
				}
			}
		}
	})
}
