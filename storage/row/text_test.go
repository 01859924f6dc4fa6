package row

import (
	"math"
	"testing"
)

func TestTextIsAsDuckDBCastsToVarchar(t *testing.T) {
	t.Parallel()
	vec := func(t Type, add func(*Vector)) *Vector {
		v := NewVector(t, 1)
		add(v)
		return v
	}
	double := func(f float64) *Vector { return vec(Scalar(Double), func(v *Vector) { v.AppendFloat64(f) }) }
	decimal := func(w, s uint8, x int64) *Vector {
		return vec(DecimalType(w, s), func(v *Vector) {
			if w > 18 {
				v.AppendInt128(FromInt64(x))
			} else {
				v.AppendInt64(x)
			}
		})
	}
	interval := func(m, d int32, us int64) *Vector {
		return vec(Scalar(Interval), func(v *Vector) { v.AppendInt128(MakeInterval(m, d, us)) })
	}
	stamp := func(us int64) *Vector { return vec(Scalar(Timestamp), func(v *Vector) { v.AppendInt64(us) }) }
	str := NewVector(Scalar(Varchar), 2)
	str.AppendString("it's, [x]")
	str.AppendNull()
	list := vec(ListOf(Scalar(Varchar)), func(v *Vector) { v.AppendString(string(EncodeList(nil, str))) })
	for _, c := range []struct {
		v    *Vector
		want string
	}{
		{double(1e15), "1000000000000000.0"},
		{double(1e16), "1e+16"},
		{double(1.2345678901234568e+17), "1.2345678901234568e+17"},
		{double(0.0001), "0.0001"},
		{double(0.00001), "1e-05"},
		{double(math.Copysign(0, -1)), "-0.0"},
		{double(math.NaN()), "nan"},
		{double(math.Inf(-1)), "-inf"},
		{vec(Scalar(Float), func(v *Vector) { v.AppendFloat64(float64(float32(0.1))) }), "0.1"},
		{decimal(3, 2, 50), "0.50"},
		{decimal(1, 1, 5), ".5"},
		{decimal(38, 4, -123000), "-12.3000"},
		{decimal(3, 2, -5), "-0.05"},
		{interval(14, 3, 14706789000), "1 year 2 months 3 days 04:05:06.789"},
		{interval(0, 0, 0), "00:00:00"},
		{interval(0, 1, -1000000), "1 day -00:00:01"},
		{interval(-14, 0, 0), "-1 year -2 months"},
		{interval(0, 0, 360000000000000), "100000:00:00"},
		{stamp(1704112496700000), "2024-01-01 12:34:56.7"},
		{stamp(-1), "1969-12-31 23:59:59.999999"},
		{stamp(DaysOf(-43, 3, 15)*MicrosPerDay + 3723000000), "0044-03-15 (BC) 01:02:03"},
		{vec(Scalar(Blob), func(v *Vector) { v.AppendString("a\"b'c\\\xaa\x00") }), `a\x22b\x27c\x5C\xAA\x00`},
		{vec(Scalar(Boolean), func(v *Vector) { v.AppendInt64(1) }), "true"},
		{list, "[it's, [x], NULL]"},
		{vec(StructOf(Field{"B c", Scalar(BigInt)}), func(v *Vector) {
			m := vec(Scalar(BigInt), func(v *Vector) { v.AppendInt64(1) })
			v.AppendString(string(EncodeStruct(nil, []*Vector{m}, 0)))
		}), "{'B c': 1}"},
	} {
		if got := TextOf(c.v, 0); got != c.want {
			t.Errorf("%s: got %s, want %s", c.v.Type, got, c.want)
		}
	}
}

func TestConvertWidensAndRefusesWhatWouldNotBeEqual(t *testing.T) {
	t.Parallel()
	ints := NewVector(Scalar(BigInt), 3)
	ints.AppendInt64(5)
	ints.AppendNull()
	ints.AppendInt64(-7)
	for _, c := range []struct {
		to   Type
		want string
	}{
		{Scalar(Double), "-7.0"}, {Scalar(HugeInt), "-7"}, {DecimalType(20, 2), "-7.00"}, {Scalar(TinyInt), "-7"},
	} {
		got, err := Convert(ints, c.to)
		if err != nil || TextOf(got, 2) != c.want || !got.IsNull(1) || got.Len() != 3 {
			t.Errorf("as %s: %v, %v", c.to, got, err)
		}
	}
	ints.AppendInt64(1<<53 + 1)
	for _, to := range []Type{Scalar(Double), Scalar(Integer), DecimalType(5, 0), Scalar(Varchar)} {
		if got, err := Convert(ints, to); err == nil {
			t.Errorf("as %s: %v, want an error", to, got)
		}
	}
	lists := NewVector(ListOf(Scalar(BigInt)), 1)
	ints.Truncate(3)
	lists.AppendString(string(EncodeList(nil, ints)))
	got, err := Convert(lists, ListOf(Scalar(Double)))
	if err != nil || TextOf(got, 0) != "[5.0, NULL, -7.0]" {
		t.Errorf("as DOUBLE[]: %v, %v", got, err)
	}
}
