package row

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
)

// Int128 is a signed 128-bit integer in two's complement: Hi·2^64 + Lo. The zero value is zero.
type Int128 struct {
	Hi int64
	Lo uint64
}

// The ends of the range.
var (
	MinInt128 = Int128{math.MinInt64, 0}
	MaxInt128 = Int128{math.MaxInt64, math.MaxUint64}
)

// FromInt64 widens x.
func FromInt64(x int64) Int128 { return Int128{x >> 63, uint64(x)} }

// Add returns a+b and whether it fits.
func (a Int128) Add(b Int128) (Int128, bool) {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(uint64(a.Hi), uint64(b.Hi), carry)
	s := Int128{int64(hi), lo}
	return s, (a.Hi^s.Hi)&(b.Hi^s.Hi) >= 0
}

// Sub returns a−b and whether it fits.
func (a Int128) Sub(b Int128) (Int128, bool) {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, _ := bits.Sub64(uint64(a.Hi), uint64(b.Hi), borrow)
	s := Int128{int64(hi), lo}
	return s, (a.Hi^b.Hi)&(a.Hi^s.Hi) >= 0
}

// Neg returns −a and whether it fits.
func (a Int128) Neg() (Int128, bool) { return Int128{}.Sub(a) }

// abs returns |a| as an unsigned number of 128 bits.
func (a Int128) abs() (hi, lo uint64) {
	if a.Hi >= 0 {
		return uint64(a.Hi), a.Lo
	}
	lo, borrow := bits.Sub64(0, a.Lo, 0)
	hi, _ = bits.Sub64(0, uint64(a.Hi), borrow)
	return hi, lo
}

// signed gives an unsigned magnitude a sign, and whether it fits.
func signed(hi, lo uint64, neg bool) (Int128, bool) {
	if !neg {
		return Int128{int64(hi), lo}, hi <= math.MaxInt64
	}
	lo, borrow := bits.Sub64(0, lo, 0)
	hi2, _ := bits.Sub64(0, hi, borrow)
	return Int128{int64(hi2), lo}, hi < 1<<63 || hi == 1<<63 && lo == 0
}

// Mul returns a·b and whether it fits.
func (a Int128) Mul(b Int128) (Int128, bool) {
	ah, al := a.abs()
	bh, bl := b.abs()
	if ah != 0 && bh != 0 {
		return Int128{}, false
	}
	hi, lo := bits.Mul64(al, bl)
	c1, p1 := bits.Mul64(ah, bl)
	c2, p2 := bits.Mul64(al, bh)
	hi, o1 := bits.Add64(hi, p1, 0)
	hi, o2 := bits.Add64(hi, p2, 0)
	if c1|c2|o1|o2 != 0 {
		return Int128{}, false
	}
	return signed(hi, lo, (a.Hi < 0) != (b.Hi < 0))
}

// Mul64 returns the product of two 64-bit numbers, which always fits.
func Mul64(a, b int64) Int128 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return Int128{int64(hi) - (a>>63)&b - (b>>63)&a, lo}
}

// Cmp returns −1, 0 or 1.
func (a Int128) Cmp(b Int128) int {
	switch {
	case a == b:
		return 0
	case a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo:
		return -1
	}
	return 1
}

// Sign returns −1, 0 or 1.
func (a Int128) Sign() int {
	switch {
	case a.Hi < 0:
		return -1
	case a.Hi == 0 && a.Lo == 0:
		return 0
	}
	return 1
}

// IsInt64 reports whether a fits into 64 bits.
func (a Int128) IsInt64() bool { return a.Hi == int64(a.Lo)>>63 }

// Int64 returns the low 64 bits, which are the value if IsInt64.
func (a Int128) Int64() int64 { return int64(a.Lo) }

// Float64 returns the nearest double.
func (a Int128) Float64() float64 {
	if a.IsInt64() {
		return float64(a.Int64())
	}
	hi, lo := a.abs()
	// The lost bits are kept sticky, so that the one rounding below is the right one.
	n := bits.LeadingZeros64(hi)
	m := hi
	exp := 64
	if hi == 0 {
		m, exp = lo, 0
	} else {
		m = hi<<n | lo>>(64-n)
		if lo<<n != 0 {
			m |= 1
		}
		exp -= n
	}
	f := math.Ldexp(float64(m), exp)
	if a.Hi < 0 {
		return -f
	}
	return f
}

// Int128FromFloat returns f rounded half to even, and whether it fits (NaN does not).
func Int128FromFloat(f float64) (Int128, bool) {
	f = math.RoundToEven(f)
	if !(f > -0x1p127 && f < 0x1p127) {
		return MinInt128, f == -0x1p127
	}
	a := math.Abs(f)
	hi := math.Floor(a / 0x1p64)
	lo := a - hi*0x1p64
	return signed(uint64(hi), uint64(lo), f < 0)
}

// QuoRem returns the quotient, cut off towards zero, and the remainder, which has a's sign.
// ok is false for MinInt128 / −1. b must not be zero.
func (a Int128) QuoRem(b Int128) (q, r Int128, ok bool) {
	ah, al := a.abs()
	bh, bl := b.abs()
	qh, ql, rh, rl := quoRem128(ah, al, bh, bl)
	q, ok = signed(qh, ql, (a.Hi < 0) != (b.Hi < 0))
	r, _ = signed(rh, rl, a.Hi < 0)
	return q, r, ok
}

// quoRem128 divides unsigned numbers of 128 bits.
func quoRem128(ah, al, bh, bl uint64) (qh, ql, rh, rl uint64) {
	if bh == 0 {
		qh, rem := ah/bl, ah%bl
		ql, rem = bits.Div64(rem, al, bl)
		return qh, ql, 0, rem
	}
	// The quotient has at most 64 bits: estimate it with the divisor's top 64 bits, which is
	// too high by one at most (Hacker's Delight, 9-5).
	n := uint(bits.LeadingZeros64(bh))
	top := bh<<n | (bl>>1)>>(63-n)
	q, _ := bits.Div64(ah>>1, ah<<63|al>>1, top)
	q = q >> (63 - n)
	if q != 0 {
		q--
	}
	ph, pl := bits.Mul64(q, bl)
	ph += q * bh
	rl, borrow := bits.Sub64(al, pl, 0)
	rh, _ = bits.Sub64(ah, ph, borrow)
	if rh > bh || rh == bh && rl >= bl {
		q++
		rl, borrow = bits.Sub64(rl, bl, 0)
		rh, _ = bits.Sub64(rh, bh, borrow)
	}
	return 0, q, rh, rl
}

// powersOfTen are 10^0 … 10^38.
var powersOfTen = func() (p [39]Int128) {
	p[0] = FromInt64(1)
	for i := 1; i < len(p); i++ {
		p[i], _ = p[i-1].Mul(FromInt64(10))
	}
	return p
}()

// PowerOfTen returns 10^n, for n from 0 to 38.
func PowerOfTen(n int) Int128 { return powersOfTen[n] }

// ScaleUp returns a·10^n and whether it fits.
func (a Int128) ScaleUp(n int) (Int128, bool) {
	if n == 0 {
		return a, true
	}
	return a.Mul(powersOfTen[n])
}

// ScaleDown returns a/10^n rounded half away from zero, as DuckDB casts decimals.
func (a Int128) ScaleDown(n int) Int128 {
	if n == 0 {
		return a
	}
	q, r, _ := a.QuoRem(powersOfTen[n])
	rh, rl := r.abs()
	half, _, _ := powersOfTen[n].QuoRem(FromInt64(2))
	if rh > uint64(half.Hi) || rh == uint64(half.Hi) && rl >= half.Lo {
		if a.Hi < 0 {
			q, _ = q.Sub(FromInt64(1))
		} else {
			q, _ = q.Add(FromInt64(1))
		}
	}
	return q
}

// Append adds a in decimal digits to dst.
func (a Int128) Append(dst []byte) []byte {
	var buf [40]byte
	i := len(buf)
	hi, lo := a.abs()
	for hi != 0 {
		var rem uint64
		hi, rem = hi/10, hi%10
		lo, rem = bits.Div64(rem, lo, 10)
		i--
		buf[i] = byte('0' + rem)
	}
	for {
		i--
		buf[i] = byte('0' + lo%10)
		lo /= 10
		if lo == 0 {
			break
		}
	}
	if a.Hi < 0 {
		i--
		buf[i] = '-'
	}
	return append(dst, buf[i:]...)
}

// String returns a in decimal digits.
func (a Int128) String() string { return string(a.Append(nil)) }

// Big returns a as a big.Int.
func (a Int128) Big() *big.Int {
	hi, lo := a.abs()
	b := new(big.Int).SetUint64(hi)
	b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(lo))
	if a.Hi < 0 {
		b.Neg(b)
	}
	return b
}

// ParseInt128 reads decimal digits with an optional sign.
func ParseInt128(s string) (Int128, error) {
	digits, neg := s, false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		digits, neg = s[1:], s[0] == '-'
	}
	if digits == "" {
		return Int128{}, fmt.Errorf("not an integer: %q", s)
	}
	var hi, lo uint64
	for i := 0; i < len(digits); i++ {
		d := uint64(digits[i] - '0')
		if d > 9 {
			return Int128{}, fmt.Errorf("not an integer: %q", s)
		}
		c1, h := bits.Mul64(hi, 10)
		carry, l := bits.Mul64(lo, 10)
		l, c := bits.Add64(l, d, 0)
		h, c2 := bits.Add64(h, carry, c)
		if c1|c2 != 0 {
			return Int128{}, fmt.Errorf("does not fit into 128 bits: %s", s)
		}
		hi, lo = h, l
	}
	v, ok := signed(hi, lo, neg)
	if !ok {
		return Int128{}, fmt.Errorf("does not fit into 128 bits: %s", s)
	}
	return v, nil
}

// MakeInterval packs an INTERVAL's three parts.
func MakeInterval(months, days int32, micros int64) Int128 {
	return Int128{int64(months)<<32 | int64(uint32(days)), uint64(micros)}
}

// IntervalParts takes an INTERVAL apart.
func IntervalParts(v Int128) (months, days int32, micros int64) {
	return int32(v.Hi >> 32), int32(uint32(v.Hi)), int64(v.Lo)
}
