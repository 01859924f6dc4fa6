package agg

import (
	"math"
	"math/big"
	"math/bits"

	"tidemark/storage/row"
)

// deviations is the state of the variance family and of its pairs where rows are taken away again:
// exact sums of the values and of their products. Steps backwards with rounded ones would leave the
// error of the largest value that ever was there behind: after 1e12, taken away, the deviation of
// 1, 2 and 3 would be noise.
type deviations struct {
	n             int64 // of numbers, or pairs of them
	odd           int64 // of those that are none
	x, y          dyadic
	xx, yy, xy    dyadic
	term, product big.Int // scratch
}

// dyadic is v · 2^exp.
type dyadic struct {
	exp int
	v   big.Int
}

// split gives x as m · 2^e with a small m.
func split(x float64) (m int64, e int) {
	frac, e := math.Frexp(x)
	if m = int64(frac * (1 << 53)); m == 0 {
		return 0, 0
	}
	zeros := bits.TrailingZeros64(uint64(m))
	return m >> zeros, e - 53 + zeros
}

// add adds m · 2^e; scratch is changed.
func (d *dyadic) add(m *big.Int, e int, scratch *big.Int) {
	switch {
	case m.Sign() == 0:
		return
	case d.v.Sign() == 0:
		d.v.Set(m)
		d.exp = e
		return
	case e < d.exp:
		d.v.Lsh(&d.v, uint(d.exp-e))
		d.exp = e
	}
	d.v.Add(&d.v, scratch.Lsh(m, uint(e-d.exp)))
}

func (d *dyadic) merge(o *dyadic, scratch *big.Int) { d.add(&o.v, o.exp, scratch) }

// over is the number divided by n.
func (d *dyadic) over(n int64) float64 {
	if d.v.Sign() == 0 {
		return 0
	}
	f := new(big.Float).SetPrec(128).SetInt(&d.v)
	f.Quo(f, new(big.Float).SetInt64(n))
	x, _ := f.SetMantExp(f, d.exp).Float64()
	return x
}

// spread is Σab − Σa·Σb/n: the sum of the products of distances from the means.
func spread(a, b, ab *dyadic, n int64) float64 {
	var out dyadic
	var term, scratch big.Int
	out.add(term.Mul(&ab.v, big.NewInt(n)), ab.exp, &scratch)
	term.Mul(&a.v, &b.v)
	out.add(term.Neg(&term), a.exp+b.exp, &scratch)
	return out.over(n)
}

// add adds a value, or with pair a pair of them, w times.
func (s *deviations) add(y, x float64, w int64, pair bool) (grown int) {
	if x-x != 0 || pair && y-y != 0 {
		s.odd += w
		return 0
	}
	old := s.size()
	s.n += w
	mx, ex := split(x)
	sum := func(d *dyadic, a, b int64, e int) {
		s.term.SetInt64(a)
		s.term.Mul(&s.term, s.product.SetInt64(b))
		s.term.Mul(&s.term, s.product.SetInt64(w))
		d.add(&s.term, e, &s.product)
	}
	sum(&s.x, mx, 1, ex)
	sum(&s.xx, mx, mx, 2*ex)
	if pair {
		my, ey := split(y)
		sum(&s.y, my, 1, ey)
		sum(&s.yy, my, my, 2*ey)
		sum(&s.xy, mx, my, ex+ey)
	}
	return s.size() - old
}

func (s *deviations) sums() [5]*dyadic { return [5]*dyadic{&s.x, &s.xx, &s.y, &s.yy, &s.xy} }

func (s *deviations) size() int {
	n := cap(s.term.Bits()) + cap(s.product.Bits())
	for _, d := range s.sums() {
		n += cap(d.v.Bits())
	}
	return n * bits.UintSize / 8
}

func (s *deviations) merge(o *deviations) (grown int) {
	old := s.size()
	s.n, s.odd = s.n+o.n, s.odd+o.odd
	from := o.sums()
	for i, d := range s.sums() {
		d.merge(from[i], &s.product)
	}
	return s.size() - old
}

func (s *deviations) moments() *moments {
	m := &moments{n: s.n, odd: s.odd}
	if s.n > 0 {
		m.mean, m.m2 = s.x.over(s.n), max(0, spread(&s.x, &s.x, &s.xx, s.n))
	}
	return m
}

func (s *deviations) joint() *joint {
	j := &joint{n: s.n, odd: s.odd}
	if s.n > 0 {
		j.mx, j.my = s.x.over(s.n), s.y.over(s.n)
		j.sxx, j.syy, j.xy = max(0, spread(&s.x, &s.x, &s.xx, s.n)), max(0, spread(&s.y, &s.y, &s.yy, s.n)), spread(&s.x, &s.y, &s.xy, s.n)
	}
	return j
}

// exactVersion is that of the encoding: n, odd, and for each sum its exponent, sign and magnitude.
// Before it the state was that of moments or joint.
const exactVersion = 3

func (s *deviations) encode(dst []byte) []byte {
	dst = appendVarint(appendVarint(dst, s.n), s.odd)
	for _, d := range s.sums() {
		dst = appendVarint(appendVarint(dst, int64(d.exp)), int64(d.v.Sign()))
		dst = appendString(dst, string(d.v.Bytes()))
	}
	return dst
}

func (s *deviations) decode(d *decoder) {
	s.n, s.odd = d.Varint(), d.Varint()
	for _, x := range s.sums() {
		x.exp = int(d.Varint())
		d.Failed = d.Failed || x.exp < -3000 || x.exp > 3000 // products of doubles lie within
		sign := d.Varint()
		x.v.SetBytes([]byte(d.string()))
		if sign < 0 {
			x.v.Neg(&x.v)
		}
	}
}

// set makes a sum of what an older state said it is.
func (d *dyadic) set(x float64) {
	if x-x == 0 {
		m, e := split(x)
		d.v.SetInt64(m)
		d.exp = e
	}
}

// fromJoint takes over an older state.
func (s *deviations) fromJoint(j *joint) {
	s.n, s.odd = j.n, j.odd
	n := float64(j.n)
	s.x.set(n * j.mx)
	s.y.set(n * j.my)
	s.xx.set(j.sxx + n*j.mx*j.mx)
	s.yy.set(j.syy + n*j.my*j.my)
	s.xy.set(j.xy + n*j.mx*j.my)
}

// deviationsColumn is a column over one argument, or over pairs (y, x); older reads a state of before.
func deviationsColumn(args int, result func(s *deviations, out *row.Vector) error, older func(d *decoder) *joint) Column {
	return &column[deviations]{
		each: 280,
		addAll: perRow(args, func(s *deviations, r *rows, i int, w int64) int {
			if args == 1 {
				return s.add(0, r.args[0].F64[i], w, false)
			}
			return s.add(r.args[0].F64[i], r.args[1].F64[i], w, true)
		}),
		merge:   func(dst, src *deviations) int { return dst.merge(src) },
		result:  result,
		version: exactVersion,
		encode:  func(s *deviations, dst []byte) []byte { return s.encode(dst) },
		decode: func(s *deviations, d *decoder) int {
			if d.version < exactVersion {
				s.fromJoint(older(d))
			} else {
				s.decode(d)
			}
			return s.size()
		},
		size: func(s *deviations) int { return s.size() },
	}
}
