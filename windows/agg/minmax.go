package agg

import (
	"math"

	"tidemark/storage/row"
)

// newExtreme is min and max of any type, over rows that only come.
func newExtreme(s Spec, sign int) (*Func, error) {
	if len(s.Args) != 1 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes one argument"}
	}
	t := s.Args[0]
	if s.Retract {
		f := newBest(s, 1, func(r *rows, i int, dst []byte) []byte {
			from := len(dst)
			dst = row.AppendKey(dst, r.args[0], i)
			if sign > 0 {
				invert(dst[from:])
			}
			return dst
		}, 0)
		f.Ordered = false
		return f, nil
	}
	f := &Func{Type: t, Args: []row.Type{t}}
	switch t.Class() {
	case row.Float64Class:
		f.column = func() Column {
			return extremeColumn(t, func(v *row.Vector) []float64 { return v.F64 }, func(a, b float64) bool { return less(a, b, sign) }, (*row.Vector).AppendFloat64)
		}
	case row.Int128Class:
		compare := row.Int128.Cmp
		if t.Kind == row.Interval {
			compare = row.CompareIntervals
		}
		f.column = func() Column {
			return extremeColumn(t, func(v *row.Vector) []row.Int128 { return v.I128 }, func(a, b row.Int128) bool { return compare(a, b)*sign > 0 }, (*row.Vector).AppendInt128)
		}
	case row.StringClass:
		f.column = func() Column {
			c := extremeColumn(t, func(v *row.Vector) []string { return v.Str }, func(a, b string) bool {
				if sign > 0 {
					return a > b
				}
				return a < b
			}, (*row.Vector).AppendString)
			c.size = func(s *extreme[string]) int { return len(s.value) }
			return c
		}
	default:
		f.column = func() Column {
			c := extremeColumn(t, func(v *row.Vector) []int64 { return v.I64 }, func(a, b int64) bool {
				if sign > 0 {
					return a > b
				}
				return a < b
			}, (*row.Vector).AppendInt64)
			slow := c.addAll
			c.addAll = func(c *column[extreme[int64]], r *rows) {
				if len(r.args[0].Nulls) > 0 || t.Kind == row.Null {
					slow(c, r)
					return
				}
				x := r.args[0].I64
				for k, slot := range r.slots {
					v := x[r.row(k)]
					s := &c.states[slot]
					if !s.has || sign > 0 && v > s.value || sign < 0 && v < s.value {
						s.value, s.has = v, true
					}
				}
			}
			return c
		}
	}
	return f, nil
}

// less reports whether a replaces b: NaN is above all numbers.
func less(a, b float64, sign int) bool {
	switch {
	case a != a:
		return sign > 0 && b == b
	case b != b:
		return sign < 0
	case sign > 0:
		return a > b
	}
	return a < b
}

// extreme is the best value so far.
type extreme[T any] struct {
	value T
	has   bool
}

func extremeColumn[T any](t row.Type, values func(*row.Vector) []T, better func(a, b T) bool, add func(*row.Vector, T)) *column[extreme[T]] {
	take := func(s *extreme[T], v T) {
		if !s.has || better(v, s.value) {
			s.value, s.has = v, true
		}
	}
	one := &row.Vector{Type: t}
	c := &column[extreme[T]]{
		each: 24,
		merge: func(dst, src *extreme[T]) int {
			if src.has {
				take(dst, src.value)
			}
			return 0
		},
		result: func(s *extreme[T], out *row.Vector) error {
			if !s.has {
				out.AppendNull()
			} else {
				add(out, s.value)
			}
			return nil
		},
		encode: func(s *extreme[T], dst []byte) []byte {
			one.Reset(t)
			if !s.has {
				one.AppendNull()
			} else {
				add(one, s.value)
			}
			return encodeValue(dst, one, 0)
		},
		decode: func(s *extreme[T], d *decoder) int {
			v := decodeValue(d, t)
			if !d.Failed && !v.IsNull(0) {
				s.value, s.has = values(v)[0], true
			}
			return 0
		},
	}
	c.addAll = perRow(1, func(s *extreme[T], r *rows, i int, w int64) int {
		if w > 0 {
			take(s, values(r.args[0])[i])
		}
		return 0
	})
	return c
}

// encodeValue writes value i of v exactly as it is: 0 for NULL, 1 and its bytes.
func encodeValue(dst []byte, v *row.Vector, i int) []byte {
	if v.IsNull(i) || v.Type.Kind == row.Null {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch v.Type.Class() {
	case row.Float64Class:
		if f := v.F64[i]; f == f {
			return appendFloat(dst, f)
		}
		return appendFloat(dst, math.NaN()) // any NaN takes any other away
	case row.Int128Class:
		return appendUint64(appendUint64(dst, v.I128[i].Lo), uint64(v.I128[i].Hi))
	case row.StringClass:
		return appendString(dst, v.Str[i])
	}
	return appendVarint(dst, v.I64[i])
}

func decodeValue(d *decoder, t row.Type) *row.Vector {
	v := row.NewVector(t, 1)
	switch d.Byte() {
	case 0:
		v.AppendNull()
		return v
	case 1:
	default:
		d.Failed = true
		return v
	}
	switch t.Class() {
	case row.Float64Class:
		v.AppendFloat64(d.float())
	case row.Int128Class:
		lo := d.uint64()
		v.AppendInt128(row.Int128{Lo: lo, Hi: int64(d.uint64())})
	case row.StringClass:
		v.AppendString(d.string())
	default:
		v.AppendInt64(d.Varint())
	}
	return v
}

func appendString(dst []byte, s string) []byte {
	return append(appendUvarint(dst, uint64(len(s))), s...)
}

func (d *decoder) string() string { return string(d.Bytes(d.length())) }
