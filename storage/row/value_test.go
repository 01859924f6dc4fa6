package row

import (
	"math"
	"testing"
)

func TestValuesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	double := NewVector(Scalar(Double), 0)
	for _, x := range []float64{math.Copysign(0, -1), 0, -1.5, math.Inf(-1), 1e300} {
		double.AppendFloat64(x)
	}
	double.AppendNull()
	span := NewVector(Scalar(Interval), 0)
	for _, x := range []Int128{MakeInterval(1, 0, 0), MakeInterval(0, 30, 0), MakeInterval(-13, 40, -5), {}} {
		span.AppendInt128(x)
	}
	span.AppendNull()
	for _, v := range []*Vector{double, span} {
		for i := range v.Len() {
			out := NewVector(v.Type, 1)
			rest, err := DecodeKey(v.Type, append(AppendValue(nil, v, i), "rest"...), out)
			if err != nil || string(rest) != "rest" || out.IsNull(0) != v.IsNull(i) {
				t.Fatalf("%s %d: %q, %v", v.Type, i, rest, err)
			}
			if v == double && math.Float64bits(out.F64[0]) != math.Float64bits(v.F64[i]) || v == span && out.I128[0] != v.I128[i] {
				t.Errorf("%s %d came back as %s", v.Type, i, TextOf(out, 0))
			}
		}
	}
}
