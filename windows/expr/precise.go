package expr

import "math"

// Go's exp, log, pow and sin may be off in the last bit where the C library's, which DuckDB calls,
// are right: one pow in two differs. So they are computed here with twice the digits and rounded
// once.

// pair is the unevaluated sum of two doubles, hi the nearest to it (Dekker 1971, Knuth 4.2.2).
type pair struct{ hi, lo float64 }

// exactSum returns a+b and what its rounding lost.
func exactSum(a, b float64) pair {
	s := a + b
	v := s - a
	return pair{s, (a - (s - v)) + (b - v)}
}

// exactProduct returns a·b and what its rounding lost.
func exactProduct(a, b float64) pair {
	p := a * b
	return pair{p, math.FMA(a, b, -p)}
}

func (a pair) plus(b pair) pair {
	s, t := exactSum(a.hi, b.hi), exactSum(a.lo, b.lo)
	s = exactSum(s.hi, s.lo+t.hi)
	return exactSum(s.hi, s.lo+t.lo)
}

func (a pair) times(b pair) pair {
	p := exactProduct(a.hi, b.hi)
	return exactSum(p.hi, p.lo+(a.hi*b.lo+a.lo*b.hi))
}

func (a pair) scaled(f float64) pair { return a.times(pair{f, 0}) }

var (
	ln2    = pair{0.6931471805599453, 2.3190468138462996e-17}
	log2E  = reciprocal(ln2)
	log10E = reciprocal(logPair(10))
)

// reciprocal returns 1/a by one Newton step.
func reciprocal(a pair) pair {
	x := pair{1 / a.hi, 0}
	e := pair{1, 0}.plus(a.times(x).scaled(-1))
	return x.plus(x.times(e))
}

// inverseFactorials are 1/n!.
var inverseFactorials = func() (f [28]pair) {
	f[0] = pair{1, 0}
	for n := 1; n < len(f); n++ {
		q := 1 / float64(n)
		f[n] = f[n-1].times(pair{q, math.FMA(-q, float64(n), 1) / float64(n)})
	}
	return f
}()

// expHalvings is how often the argument of the exponential's series is halved.
const expHalvings = 9

// expPair returns e^x for |x| < 700.
func expPair(x pair) (mantissa pair, exp2 int) {
	k := math.Round(x.hi / ln2.hi)
	r := x.plus(ln2.scaled(-k))
	r = pair{math.Ldexp(r.hi, -expHalvings), math.Ldexp(r.lo, -expHalvings)}
	s := inverseFactorials[8]
	for n := 7; n >= 1; n-- {
		s = s.times(r).plus(inverseFactorials[n])
	}
	s = s.times(r) // e^r − 1; doubling it as e^2r − 1 = 2s + s² loses nothing near zero
	for range expHalvings {
		s = s.scaled(2).plus(s.times(s))
	}
	return pair{1, 0}.plus(s), int(k)
}

// logPair returns ln(x) for a finite x > 0.
func logPair(x float64) pair {
	m, k := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, k = 2*m, k-1
	}
	y := math.Log(m)
	e, n := expPair(pair{-y, 0})
	e = pair{math.Ldexp(e.hi, n), math.Ldexp(e.lo, n)}
	t := e.scaled(m).plus(pair{-1, 0}) // m·e^−y − 1, as good as the logarithm of what y lacks
	return ln2.scaled(float64(k)).plus(pair{y, 0}).plus(t)
}

func exp(x float64) float64 {
	if !(math.Abs(x) < 700) {
		return math.Exp(x)
	}
	m, k := expPair(pair{x, 0})
	return math.Ldexp(m.hi+m.lo, k)
}

func ln(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log(x)
	}
	l := logPair(x)
	return l.hi + l.lo
}

func log2(x float64) float64 { return logBase(x, math.Log2, log2E) }

func log10(x float64) float64 { return logBase(x, math.Log10, log10E) }

func logBase(x float64, rough func(float64) float64, factor pair) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return rough(x)
	}
	l := logPair(x).times(factor)
	return l.hi + l.lo
}

func pow(x, y float64) float64 {
	rough := math.Pow(x, y)
	if rough == 0 || math.IsInf(rough, 0) || math.IsNaN(rough) || math.Abs(rough) == 1 || math.IsInf(x, 0) || x == 0 {
		return rough
	}
	p := logPair(math.Abs(x)).scaled(y)
	if math.Abs(p.hi) >= 700 {
		return rough
	}
	m, k := expPair(p)
	return math.Copysign(math.Ldexp(m.hi+m.lo, k), rough)
}

// halfPi is π/2, and halfPiRest what is left of it.
var halfPi = pair{1.5707963267948966, 6.123233995736766e-17}

const halfPiRest = -1.4973849048591833e-33

// maxAngle bounds the angles for which the reduction below is exact enough.
const maxAngle = 1e6

// sinCosPair returns sine and cosine of an angle within maxAngle.
func sinCosPair(x pair) (sin, cos pair) {
	k := math.Round(x.hi / halfPi.hi)
	r := x.plus(halfPi.scaled(-k)).plus(pair{-k * halfPiRest, 0})
	square := r.times(r).scaled(-1)
	sin, cos = inverseFactorials[27], inverseFactorials[26]
	for n := 25; n >= 1; n -= 2 {
		sin = sin.times(square).plus(inverseFactorials[n])
		cos = cos.times(square).plus(inverseFactorials[n-1])
	}
	sin = sin.times(r)
	switch int64(k) & 3 {
	case 1:
		return cos, sin.scaled(-1)
	case 2:
		return sin.scaled(-1), cos.scaled(-1)
	case 3:
		return cos.scaled(-1), sin
	}
	return sin, cos
}

// angular computes a function of sine and cosine; x beyond maxAngle is left to rough.
func angular(rough func(float64) float64, f func(sin, cos pair) pair) func(float64) float64 {
	return func(x float64) float64 {
		if !(math.Abs(x) < maxAngle) || x == 0 {
			return rough(x)
		}
		v := f(sinCosPair(pair{x, 0}))
		return v.hi + v.lo
	}
}

var (
	sin = angular(math.Sin, func(s, _ pair) pair { return s })
	cos = angular(math.Cos, func(_, c pair) pair { return c })
	tan = angular(math.Tan, func(s, c pair) pair { return s.times(reciprocal(c)) })
)

// asin mends math.Asin by one Newton step, y + (x − sin y)/cos y; acos and atan likewise.
func asin(x float64) float64 {
	y := math.Asin(x)
	s, c := sinCosPair(pair{y, 0})
	if math.Abs(c.hi) < 1e-8 || math.IsNaN(y) {
		return y
	}
	v := exactSum(y, (pair{x, 0}).plus(s.scaled(-1)).times(reciprocal(c)).hi)
	return v.hi + v.lo
}

func acos(x float64) float64 {
	y := math.Acos(x)
	s, c := sinCosPair(pair{y, 0})
	if math.Abs(s.hi) < 1e-8 || math.IsNaN(y) {
		return y
	}
	v := exactSum(y, c.plus(pair{-x, 0}).times(reciprocal(s)).hi)
	return v.hi + v.lo
}

// atan2 mends math.Atan2 by how far the point lies off the ray at its angle.
func atan2(a, b float64) float64 {
	y := math.Atan2(a, b)
	size := math.Hypot(a, b)
	if !(size > 1e-150 && size < 1e150) || y == 0 {
		return y
	}
	s, c := sinCosPair(pair{y, 0})
	off := c.scaled(a).plus(s.scaled(-b)) // size·sin(true − y)
	along := c.scaled(b).plus(s.scaled(a))
	v := exactSum(y, off.times(reciprocal(along)).hi)
	return v.hi + v.lo
}

func atan(x float64) float64 { return atan2(x, 1) }
