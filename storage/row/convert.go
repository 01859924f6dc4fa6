package row

import (
	"fmt"
	"math"
)

// Convert returns the values of v as type to, when each of them has exactly one equal value
// there: integers in wider integers, DECIMAL and DOUBLE (to 2^53), FLOAT in DOUBLE, DECIMAL in
// wider DECIMAL, NULL in anything, and lists and structs of these. It serves columns of batches
// that were written before their stream's schema widened. A vector of that type comes back as is.
func Convert(v *Vector, to Type) (*Vector, error) {
	if v.Type.Equal(to) {
		return v, nil
	}
	n := v.Len()
	out := NewVector(to, n)
	for i := range n {
		if v.IsNull(i) || v.Type.Kind == Null {
			out.AppendNull()
			continue
		}
		if err := convertValue(v, i, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// convertValue appends value i of v, which is not null, to out.
func convertValue(v *Vector, i int, out *Vector) error {
	from, to := v.Type, out.Type
	fail := func() error {
		return fmt.Errorf("%s %s can't be read as %s", from, TextOf(v, i), to)
	}
	switch {
	case from.Kind == Float && to.Kind == Double:
		out.AppendFloat64(v.F64[i])
	case from.IsInteger() && (to.Kind == Double || to.Kind == Float):
		limit := int64(1) << 53
		if to.Kind == Float {
			limit = 1 << 24
		}
		x := integerAt(v, i)
		if !x.IsInt64() || x.Int64() > limit || x.Int64() < -limit {
			return fail()
		}
		out.AppendFloat64(float64(x.Int64()))
	case from.IsInteger() && to.IsInteger():
		x := integerAt(v, i)
		if to.Kind == HugeInt {
			out.AppendInt128(x)
			return nil
		}
		low, high := IntegerRange(to.Kind)
		if !x.IsInt64() || x.Int64() < low || x.Int64() > high {
			return fail()
		}
		out.AppendInt64(x.Int64())
	case (from.IsInteger() || from.Kind == Decimal) && to.Kind == Decimal && to.Scale >= from.Scale:
		x, ok := integerAt(v, i).ScaleUp(int(to.Scale - from.Scale))
		if !ok || !FitsDecimal(x, to.Width) {
			return fail()
		}
		if to.Class() == Int128Class {
			out.AppendInt128(x)
		} else {
			out.AppendInt64(x.Int64())
		}
	case from.Kind == List && to.Kind == List:
		elems, err := Elements(v, i)
		if err != nil {
			return err
		}
		if elems, err = Convert(elems, *to.Elem); err != nil {
			return err
		}
		out.AppendString(string(EncodeList(nil, elems)))
	case from.Kind == Struct && to.Kind == Struct:
		members, err := Members(v, i)
		if err != nil {
			return err
		}
		wide := make([]*Vector, len(to.Fields))
		for k, f := range to.Fields {
			if m := FieldIndex(from.Fields, f.Name); m >= 0 {
				if wide[k], err = Convert(members[m], f.Type); err != nil {
					return err
				}
				continue
			}
			wide[k] = NewVector(f.Type, 1) // a member that did not exist then
			wide[k].AppendNull()
		}
		out.AppendString(string(EncodeStruct(nil, wide, 0)))
	case from.Kind == JSON && to.Kind == Varchar:
		out.AppendString(v.Str[i])
	default:
		return fail()
	}
	return nil
}

// integerAt returns an integer or the unscaled value of a DECIMAL.
func integerAt(v *Vector, i int) Int128 {
	if v.Type.Class() == Int128Class {
		return v.I128[i]
	}
	return FromInt64(v.I64[i])
}

// IntegerRange returns the ends of TINYINT … BIGINT.
func IntegerRange(k Kind) (low, high int64) {
	switch k {
	case TinyInt:
		return math.MinInt8, math.MaxInt8
	case SmallInt:
		return math.MinInt16, math.MaxInt16
	case Integer:
		return math.MinInt32, math.MaxInt32
	}
	return math.MinInt64, math.MaxInt64
}

// FitsDecimal reports whether an unscaled value has at most width digits.
func FitsDecimal(x Int128, width uint8) bool {
	limit := powersOfTen[width]
	if x.Sign() < 0 {
		low, _ := limit.Neg()
		return x.Cmp(low) > 0
	}
	return x.Cmp(limit) < 0
}
