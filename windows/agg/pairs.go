package agg

import (
	"math"

	"tidemark/storage/row"
)

// joint is the state of correlation and regression: means, sums of squared distances and of their
// products, of pairs (y, x); taken in and merged as moments has them.
type joint struct {
	n            int64 // of pairs of numbers
	odd          int64 // of other pairs
	mx, my       float64
	sxx, syy, xy float64
}

func (s *joint) add(y, x float64, w int64) {
	if x-x != 0 || y-y != 0 {
		s.odd += w
		return
	}
	for ; w > 0; w-- {
		s.n++
		dx, dy := x-s.mx, y-s.my
		s.mx += dx / float64(s.n)
		s.my += dy / float64(s.n)
		s.sxx += dx * (x - s.mx)
		s.syy += dy * (y - s.my)
		s.xy += dx * (y - s.my)
	}
}

func (s *joint) merge(o *joint) {
	s.odd += o.odd
	n, odd := s.n+o.n, s.odd
	switch {
	case o.n == 0:
		return
	case s.n == 0:
		*s = *o
		s.odd = odd
		return
	case n == 0:
		*s = joint{odd: odd}
		return
	}
	dx, dy := o.mx-s.mx, o.my-s.my
	part := float64(s.n) * float64(o.n) / float64(n)
	s.sxx += o.sxx + dx*dx*part
	s.syy += o.syy + dy*dy*part
	s.xy += o.xy + dx*dy*part
	s.mx = (float64(s.n)*s.mx + float64(o.n)*o.mx) / float64(n)
	s.my = (float64(s.n)*s.my + float64(o.n)*o.my) / float64(n)
	s.n = n
}

// newJoint is an aggregate of pairs (y, x); least is how many a result needs. Where it is a quotient
// of deviations, what is divided by 0 is NULL and a deviation out of range fails.
func newJoint(s Spec, least int64, quotient bool, value func(s *joint) float64) (*Func, error) {
	for _, t := range s.Args {
		if !t.IsNumeric() && t.Kind != row.Null {
			s.Args = nil
		}
	}
	if len(s.Args) != 2 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes two numbers, y and x"}
	}
	double := row.Scalar(row.Double)
	f := &Func{Type: double, Args: []row.Type{double, double}}
	result := func(j *joint, out *row.Vector) error {
		switch {
		case j.n+j.odd < least:
			out.AppendNull()
			return nil
		case !quotient && j.odd != 0:
			out.AppendFloat64(math.NaN())
			return nil
		case !quotient:
			out.AppendFloat64(value(j))
			return nil
		}
		switch v := value(j); {
		case j.odd != 0 || math.IsInf(v, 0):
			return &Failure{Code: "out_of_range", Message: s.Name + " is out of range!"}
		case math.IsNaN(v):
			out.AppendNull()
		default:
			out.AppendFloat64(v)
		}
		return nil
	}
	if s.Retract {
		f.column = func() Column {
			return deviationsColumn(2, func(d *deviations, out *row.Vector) error { return result(d.joint(), out) }, func(d *decoder) *joint {
				var j joint
				j.decode(d)
				return &j
			})
		}
		return f, nil
	}
	f.column = func() Column {
		return &column[joint]{
			each: 56,
			addAll: perRow(2, func(s *joint, r *rows, i int, w int64) int {
				s.add(r.args[0].F64[i], r.args[1].F64[i], w)
				return 0
			}),
			merge:   func(dst, src *joint) int { dst.merge(src); return 0 },
			result:  result,
			version: 2, // 1 had no odd
			encode: func(s *joint, dst []byte) []byte {
				dst = appendVarint(appendVarint(dst, s.n), s.odd)
				for _, x := range []float64{s.mx, s.my, s.sxx, s.syy, s.xy} {
					dst = appendFloat(dst, x)
				}
				return dst
			},
			decode: func(s *joint, d *decoder) int { s.decode(d); return 0 },
		}
	}
	return f, nil
}

func (s *joint) decode(d *decoder) {
	if s.n = d.Varint(); d.version > 1 {
		s.odd = d.Varint()
	}
	s.mx, s.my, s.sxx, s.syy, s.xy = d.float(), d.float(), d.float(), d.float(), d.float()
}

func slope(s *joint) float64 { return s.xy / s.sxx }
