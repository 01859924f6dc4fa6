package agg

import (
	"math"
	"math/bits"

	"tidemark/storage/row"
)

// newCount is count(*) without arguments, and count(x, …) of rows without a NULL.
func newCount(s Spec) (*Func, error) {
	n := len(s.Args)
	if n > 1 {
		return nil, &Mismatch{Name: "count", Types: s.Args, Reason: "it takes one argument; count several together as one value: count({'a': …, 'b': …})"}
	}
	f := &Func{Type: row.Scalar(row.BigInt), Args: s.Args}
	f.column = func() Column {
		return &column[int64]{
			each: 8,
			addAll: func(c *column[int64], r *rows) {
				switch {
				case n == 0 && r.weights == nil:
					for _, slot := range r.slots {
						c.states[slot]++
					}
				case n == 1 && r.weights == nil && len(r.args[0].Nulls) == 0 && r.args[0].Type.Kind != row.Null:
					for _, slot := range r.slots {
						c.states[slot]++
					}
				default:
					for k, slot := range r.slots {
						if i := r.row(k); !r.null(n, i) {
							c.states[slot] += r.weight(i)
						}
					}
				}
			},
			merge:  func(dst, src *int64) int { *dst += *src; return 0 },
			result: func(s *int64, out *row.Vector) error { out.AppendInt64(*s); return nil },
			encode: func(s *int64, dst []byte) []byte { return appendVarint(dst, *s) },
			decode: func(s *int64, d *decoder) int { *s = d.Varint(); return 0 },
		}
	}
	return f, nil
}

// newCountIf counts the rows for which a BOOLEAN is true.
func newCountIf(s Spec) (*Func, error) {
	if len(s.Args) != 1 || s.Args[0].Kind != row.Boolean && !s.Args[0].IsNumeric() && s.Args[0].Kind != row.Null {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it counts the rows for which a BOOLEAN is true"}
	}
	f := &Func{Type: row.Scalar(row.HugeInt), Args: []row.Type{row.Scalar(row.Boolean)}}
	f.column = func() Column {
		return &column[counted]{
			each: 16,
			addAll: perRow(0, func(s *counted, r *rows, i int, w int64) int {
				s.rows += w
				if !r.args[0].IsNull(i) && r.args[0].I64[i] != 0 {
					s.true += w
				}
				return 0
			}),
			merge: func(dst, src *counted) int { dst.rows += src.rows; dst.true += src.true; return 0 },
			result: func(s *counted, out *row.Vector) error {
				if s.rows == 0 {
					out.AppendNull()
					return nil
				}
				out.AppendInt128(row.FromInt64(s.true))
				return nil
			},
			encode: func(s *counted, dst []byte) []byte { return appendVarint(appendVarint(dst, s.true), s.rows) },
			decode: func(s *counted, d *decoder) int { s.true, s.rows = d.Varint(), d.Varint(); return 0 },
		}
	}
	return f, nil
}

// counted is the state of count_if, which is sum(if(x, 1, 0)) in DuckDB: NULL over no rows at all.
type counted struct{ true, rows int64 }

// exact is the state of a sum of integers or decimals: 192 bits, so that nothing that fits at the
// end can have been lost in between, and how many values are in it.
type exact struct {
	lo, mid uint64
	hi      int64
	n       int64
}

// add adds x·w.
func (s *exact) add(x row.Int128, w int64) {
	switch w {
	case 1:
		var c uint64
		s.lo, c = bits.Add64(s.lo, x.Lo, 0)
		s.mid, c = bits.Add64(s.mid, uint64(x.Hi), c)
		s.hi += x.Hi>>63 + int64(c)
	case -1:
		var b uint64
		s.lo, b = bits.Sub64(s.lo, x.Lo, 0)
		s.mid, b = bits.Sub64(s.mid, uint64(x.Hi), b)
		s.hi -= x.Hi>>63 + int64(b)
	default:
		one := exact{}
		one.add(x, 1)
		times := uint64(max(w, -w))
		p0, l0 := bits.Mul64(one.lo, times)
		p1, l1 := bits.Mul64(one.mid, times)
		l1, c := bits.Add64(l1, p0, 0)
		hi := one.hi*int64(times) + int64(p1) + int64(c)
		if w < 0 {
			var b uint64
			l0, b = bits.Sub64(0, l0, 0)
			l1, b = bits.Sub64(0, l1, b)
			hi = -hi - int64(b)
		}
		s.merge(&exact{lo: l0, mid: l1, hi: hi})
	}
	s.n += w
}

func (s *exact) merge(o *exact) {
	var c uint64
	s.lo, c = bits.Add64(s.lo, o.lo, 0)
	s.mid, c = bits.Add64(s.mid, o.mid, c)
	s.hi += o.hi + int64(c)
	s.n += o.n
}

// sum returns the sum and whether it fits into 128 bits.
func (s *exact) sum() (row.Int128, bool) {
	return row.Int128{Hi: int64(s.mid), Lo: s.lo}, s.hi == int64(s.mid)>>63
}

func (s *exact) encode(dst []byte) []byte {
	dst = appendVarint(dst, s.n)
	if v, ok := s.sum(); ok && v.IsInt64() {
		return appendVarint(append(dst, 0), v.Int64())
	}
	dst = append(dst, 1)
	return appendUint64(appendUint64(appendUint64(dst, s.lo), s.mid), uint64(s.hi))
}

func (s *exact) decode(d *decoder) int {
	s.n = d.Varint()
	switch d.Byte() {
	case 0:
		v := row.FromInt64(d.Varint())
		s.lo, s.mid, s.hi = v.Lo, uint64(v.Hi), v.Hi
	case 1:
		s.lo, s.mid, s.hi = d.uint64(), d.uint64(), int64(d.uint64())
	default:
		d.Failed = true
	}
	return 0
}

// exactColumn is a column of exact sums over integers or DECIMALs.
func exactColumn(wide bool, result func(s *exact, out *row.Vector) error) *column[exact] {
	c := &column[exact]{
		each:   32,
		merge:  func(dst, src *exact) int { dst.merge(src); return 0 },
		result: result,
		encode: func(s *exact, dst []byte) []byte { return s.encode(dst) },
		decode: func(s *exact, d *decoder) int { return s.decode(d) },
	}
	if wide {
		c.addAll = perRow(1, func(s *exact, r *rows, i int, w int64) int { s.add(r.args[0].I128[i], w); return 0 })
		return c
	}
	slow := perRow(1, func(s *exact, r *rows, i int, w int64) int { s.add(row.FromInt64(r.args[0].I64[i]), w); return 0 })
	c.addAll = func(c *column[exact], r *rows) {
		if r.weights != nil || len(r.args[0].Nulls) > 0 || r.args[0].Type.Kind == row.Null {
			slow(c, r)
			return
		}
		x := r.args[0].I64
		for k, slot := range r.slots {
			v := x[r.row(k)]
			s := &c.states[slot]
			var carry uint64
			sign := v >> 63
			s.lo, carry = bits.Add64(s.lo, uint64(v), 0)
			s.mid, carry = bits.Add64(s.mid, uint64(sign), carry)
			s.hi += sign + int64(carry)
			s.n++
		}
	}
	return c
}

// newSum is sum: BIGINT and smaller give HUGEINT, DECIMAL(w,s) gives DECIMAL(38,s), all else DOUBLE.
func newSum(s Spec) (*Func, error) {
	if len(s.Args) != 1 || !s.Args[0].IsNumeric() && s.Args[0].Kind != row.Null {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a number"}
	}
	t := s.Args[0]
	switch {
	case t.Kind == row.Null:
		t = row.Scalar(row.BigInt)
	case t.Kind == row.Float:
		t = row.Scalar(row.Double)
	}
	f := &Func{Type: row.Scalar(row.HugeInt), Args: []row.Type{t}}
	if t.Kind == row.Decimal {
		f.Type = row.DecimalType(38, t.Scale)
	}
	if t.Kind == row.Double {
		f.Type = t
		f.column = func() Column {
			return floatColumn(func(s *inexact, out *row.Vector) error {
				if s.n == 0 {
					out.AppendNull()
				} else {
					out.AppendFloat64(s.value())
				}
				return nil
			})
		}
		return f, nil
	}
	f.column = func() Column {
		return exactColumn(t.Class() == row.Int128Class, func(s *exact, out *row.Vector) error {
			if s.n == 0 {
				out.AppendNull()
				return nil
			}
			v, ok := s.sum()
			if !ok {
				return &Failure{Code: "out_of_range", Message: "Overflow in HUGEINT addition: the sum does not fit into 128 bits"}
			}
			out.AppendInt128(v)
			return nil
		})
	}
	return f, nil
}

// newFSum is fsum, a sum of doubles whatever the type.
func newFSum(s Spec) (*Func, error) {
	if len(s.Args) != 1 || !s.Args[0].IsNumeric() && s.Args[0].Kind != row.Null {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a number"}
	}
	double := row.Scalar(row.Double)
	f := &Func{Type: double, Args: []row.Type{double}}
	f.column = func() Column {
		return floatColumn(func(s *inexact, out *row.Vector) error {
			switch {
			case s.n == 0:
				out.AppendNull()
			case s.nan > 0 || s.pos > 0 || s.neg > 0: // the error of an infinite sum is no number
				out.AppendFloat64(math.NaN())
			default:
				out.AppendFloat64(s.value())
			}
			return nil
		})
	}
	return f, nil
}

// newAvg is avg: a DOUBLE. Integers and decimals are summed exactly first.
func newAvg(s Spec) (*Func, error) {
	if len(s.Args) != 1 || !s.Args[0].IsNumeric() && s.Args[0].Kind != row.Null {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes a number"}
	}
	t := s.Args[0]
	if t.Kind == row.Float || t.Kind == row.Null {
		t = row.Scalar(row.Double)
	}
	f := &Func{Type: row.Scalar(row.Double), Args: []row.Type{t}}
	if t.Kind == row.Double {
		f.column = func() Column {
			return floatColumn(func(s *inexact, out *row.Vector) error {
				if s.n == 0 {
					out.AppendNull()
				} else {
					out.AppendFloat64(s.value() / float64(s.n))
				}
				return nil
			})
		}
		return f, nil
	}
	power := math.Pow10(int(t.Scale))
	f.column = func() Column {
		return exactColumn(t.Class() == row.Int128Class, func(s *exact, out *row.Vector) error {
			if s.n == 0 {
				out.AppendNull()
				return nil
			}
			v, ok := s.sum()
			sum := v.Float64()
			if !ok {
				sum = float64(s.hi)*0x1p128 + float64(s.mid)*0x1p64 + float64(s.lo)
			}
			out.AppendFloat64(sum / (float64(s.n) * power))
			return nil
		})
	}
	return f, nil
}

// inexact is the state of a sum of doubles: a sum and the error of its roundings (Neumaier 1974),
// with the values that are no numbers counted apart, so that they can be taken away again.
type inexact struct {
	sum, lost float64
	n         int64
	nan       int64
	pos, neg  int64 // infinities
}

func (s *inexact) add(x float64, w int64) {
	s.n += w
	switch {
	case x != x:
		s.nan += w
		return
	case math.IsInf(x, 1):
		s.pos += w
		return
	case math.IsInf(x, -1):
		s.neg += w
		return
	}
	if w != 1 {
		x *= float64(w)
	}
	s.plus(x)
	if s.n == 0 && s.nan|s.pos|s.neg == 0 {
		s.sum, s.lost = 0, 0
	}
}

func (s *inexact) plus(x float64) {
	t := s.sum + x
	if math.Abs(s.sum) >= math.Abs(x) {
		s.lost += s.sum - t + x
	} else {
		s.lost += x - t + s.sum
	}
	s.sum = t
}

func (s *inexact) value() float64 {
	switch {
	case s.nan > 0 || s.pos > 0 && s.neg > 0:
		return math.NaN()
	case s.pos > 0:
		return math.Inf(1)
	case s.neg > 0:
		return math.Inf(-1)
	case math.IsInf(s.sum, 0):
		return s.sum
	}
	return s.sum + s.lost
}

func floatColumn(result func(s *inexact, out *row.Vector) error) *column[inexact] {
	slow := perRow(1, func(s *inexact, r *rows, i int, w int64) int { s.add(r.args[0].F64[i], w); return 0 })
	return &column[inexact]{
		each: 48,
		addAll: func(c *column[inexact], r *rows) {
			if r.weights != nil || len(r.args[0].Nulls) > 0 || r.args[0].Type.Kind == row.Null {
				slow(c, r)
				return
			}
			for k, slot := range r.slots {
				x, s := r.args[0].F64[r.row(k)], &c.states[slot]
				if x-x != 0 { // NaN or infinite
					s.add(x, 1)
					continue
				}
				s.n++
				s.plus(x)
			}
		},
		merge: func(dst, src *inexact) int {
			dst.plus(src.sum)
			dst.lost += src.lost
			dst.n, dst.nan, dst.pos, dst.neg = dst.n+src.n, dst.nan+src.nan, dst.pos+src.pos, dst.neg+src.neg
			return 0
		},
		result: result,
		encode: func(s *inexact, dst []byte) []byte {
			dst = appendFloat(appendFloat(dst, s.sum), s.lost)
			return appendVarint(appendVarint(appendVarint(appendVarint(dst, s.n), s.nan), s.pos), s.neg)
		},
		decode: func(s *inexact, d *decoder) int {
			s.sum, s.lost = d.float(), d.float()
			s.n, s.nan, s.pos, s.neg = d.Varint(), d.Varint(), d.Varint(), d.Varint()
			return 0
		},
	}
}
