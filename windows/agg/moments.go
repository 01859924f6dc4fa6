package agg

import (
	"math"

	"tidemark/storage/row"
)

// moments is the state of the variance family: count, mean and the sum of squared distances from
// it (Welford 1962; merged after Chan, Golub and LeVeque 1979). NaN and the infinities are counted
// apart.
type moments struct {
	n        int64 // of numbers
	odd      int64 // of those that are none
	mean, m2 float64
}

func (s *moments) all() int64 { return s.n + s.odd }

func (s *moments) add(x float64, w int64) {
	if x-x != 0 {
		s.odd += w
		return
	}
	for ; w > 0; w-- {
		s.n++
		d := x - s.mean
		s.mean += d / float64(s.n)
		s.m2 += d * (x - s.mean)
	}
}

func (s *moments) merge(o *moments) {
	s.odd += o.odd
	n := s.n + o.n
	switch {
	case o.n == 0:
		return
	case s.n == 0:
		s.n, s.mean, s.m2 = o.n, o.mean, o.m2
		return
	case n == 0:
		s.n, s.mean, s.m2 = 0, 0, 0
		return
	}
	d := o.mean - s.mean
	s.m2 += o.m2 + d*d*float64(s.n)*float64(o.n)/float64(n)
	s.mean = (float64(s.n)*s.mean + float64(o.n)*o.mean) / float64(n)
	s.n = n
}

// newMoments is stddev, variance and sem; least is how many values a result needs.
func newMoments(s Spec, least int64, value func(s *moments) float64) (*Func, error) {
	if len(s.Args) != 1 || !s.Args[0].IsNumeric() && s.Args[0].Kind != row.Null {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a number"}
	}
	double := row.Scalar(row.Double)
	f := &Func{Type: double, Args: []row.Type{double}}
	result := func(m *moments, out *row.Vector) error {
		if m.all() < least {
			out.AppendNull()
			return nil
		}
		v := value(m)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return &Failure{Code: "out_of_range", Message: s.Name + " is out of range!"}
		}
		out.AppendFloat64(v)
		return nil
	}
	if s.Retract {
		f.column = func() Column {
			return deviationsColumn(1, func(d *deviations, out *row.Vector) error { return result(d.moments(), out) }, func(d *decoder) *joint {
				var m moments
				m.decode(d)
				return &joint{n: m.n, odd: m.odd, mx: m.mean, sxx: m.m2}
			})
		}
		return f, nil
	}
	f.column = func() Column {
		return &column[moments]{
			each:    32,
			addAll:  perRow(1, func(s *moments, r *rows, i int, w int64) int { s.add(r.args[0].F64[i], w); return 0 }),
			merge:   func(dst, src *moments) int { dst.merge(src); return 0 },
			result:  result,
			version: 2, // 1 had no odd
			encode: func(s *moments, dst []byte) []byte {
				return appendVarint(appendFloat(appendFloat(appendVarint(dst, s.n), s.mean), s.m2), s.odd)
			},
			decode: func(s *moments, d *decoder) int { s.decode(d); return 0 },
		}
	}
	return f, nil
}

func (s *moments) decode(d *decoder) {
	s.n = d.Varint()
	s.mean, s.m2 = d.float(), d.float()
	if d.version > 1 {
		s.odd = d.Varint()
	}
}

func sample(s *moments) float64 {
	switch {
	case s.all() < 2:
		return 0
	case s.odd != 0:
		return math.NaN()
	}
	return s.m2 / float64(s.n-1)
}

// population is 0 for one value, whatever it is.
func population(s *moments) float64 {
	switch {
	case s.all() == 1:
		return 0
	case s.odd != 0:
		return math.NaN()
	}
	return s.m2 / float64(s.n)
}

// meanError is the standard error of the mean.
func meanError(s *moments) float64 {
	if s.odd != 0 {
		return math.NaN()
	}
	return math.Sqrt(population(s)) / math.Sqrt(float64(s.n))
}

// tally counts the true and the false, or the set bits, so that both can be taken away again.
type tally struct{ yes, no int64 }

// newBool is bool_and and bool_or.
func newBool(s Spec, result func(t *tally) bool) (*Func, error) {
	if len(s.Args) != 1 || s.Args[0].Kind != row.Boolean && s.Args[0].Kind != row.Null {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a BOOLEAN"}
	}
	boolean := row.Scalar(row.Boolean)
	f := &Func{Type: boolean, Args: []row.Type{boolean}}
	f.column = func() Column {
		return &column[tally]{
			each: 16,
			addAll: perRow(1, func(t *tally, r *rows, i int, w int64) int {
				if r.args[0].I64[i] != 0 {
					t.yes += w
				} else {
					t.no += w
				}
				return 0
			}),
			merge: func(dst, src *tally) int { dst.yes += src.yes; dst.no += src.no; return 0 },
			result: func(t *tally, out *row.Vector) error {
				switch {
				case t.yes+t.no == 0:
					out.AppendNull()
				case result(t):
					out.AppendInt64(1)
				default:
					out.AppendInt64(0)
				}
				return nil
			},
			encode: func(t *tally, dst []byte) []byte { return appendVarint(appendVarint(dst, t.yes), t.no) },
			decode: func(t *tally, d *decoder) int { t.yes = d.Varint(); t.no = d.Varint(); return 0 },
		}
	}
	return f, nil
}

// bitCounts counts for each of 64 bits the values that have it set.
type bitCounts struct {
	n    int64
	bits [64]int64
}

// newBits is bit_and, bit_or and bit_xor of TINYINT … BIGINT.
func newBits(s Spec, set func(n, with int64) bool) (*Func, error) {
	if len(s.Args) != 1 || !s.Args[0].IsInteger() || s.Args[0].Kind == row.HugeInt {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a TINYINT, SMALLINT, INTEGER or BIGINT"}
	}
	f := &Func{Type: s.Args[0], Args: s.Args}
	f.column = func() Column {
		return &column[bitCounts]{
			each: 520,
			addAll: perRow(1, func(b *bitCounts, r *rows, i int, w int64) int {
				b.n += w
				for x, k := uint64(r.args[0].I64[i]), 0; x != 0; x, k = x>>1, k+1 {
					b.bits[k] += int64(x&1) * w
				}
				return 0
			}),
			merge: func(dst, src *bitCounts) int {
				dst.n += src.n
				for k := range dst.bits {
					dst.bits[k] += src.bits[k]
				}
				return 0
			},
			result: func(b *bitCounts, out *row.Vector) error {
				if b.n == 0 {
					out.AppendNull()
					return nil
				}
				var x uint64
				for k, with := range b.bits {
					if set(b.n, with) {
						x |= 1 << k
					}
				}
				out.AppendInt64(int64(x))
				return nil
			},
			encode: func(b *bitCounts, dst []byte) []byte {
				dst = appendVarint(dst, b.n)
				for _, with := range b.bits {
					dst = appendVarint(dst, with)
				}
				return dst
			},
			decode: func(b *bitCounts, d *decoder) int {
				b.n = d.Varint()
				for k := range b.bits {
					b.bits[k] = d.Varint()
				}
				return 0
			},
		}
	}
	return f, nil
}
