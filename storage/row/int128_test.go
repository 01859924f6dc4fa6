package row

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// wide draws numbers of all sizes, the ends of the range included.
func wide(r *rand.Rand) Int128 {
	switch r.IntN(8) {
	case 0:
		return MinInt128
	case 1:
		return MaxInt128
	case 2:
		return FromInt64(r.Int64N(100) - 50)
	}
	hi, lo, n := r.Uint64(), r.Uint64(), uint(r.IntN(128))
	if n >= 64 {
		hi, lo = 0, hi>>(n-64)
	} else {
		hi, lo = hi>>n, lo>>n|hi<<(63-n)<<1
	}
	v, _ := signed(hi>>1, lo, r.IntN(2) == 0)
	return v
}

func TestInt128AgreesWithBigIntegers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	limit := new(big.Int).Lsh(big.NewInt(1), 127)
	fits := func(b *big.Int) bool {
		return b.Cmp(limit) < 0 && b.Cmp(new(big.Int).Neg(limit)) >= 0
	}
	check := func(op string, a, b, got Int128, ok bool, want *big.Int) {
		t.Helper()
		if ok != fits(want) || ok && got.Big().Cmp(want) != 0 {
			t.Fatalf("%s of %s and %s = %s %v, want %s", op, a, b, got, ok, want)
		}
	}
	for range 200_000 {
		a, b := wide(r), wide(r)
		got, ok := a.Add(b)
		check("sum", a, b, got, ok, new(big.Int).Add(a.Big(), b.Big()))
		got, ok = a.Sub(b)
		check("difference", a, b, got, ok, new(big.Int).Sub(a.Big(), b.Big()))
		got, ok = a.Mul(b)
		check("product", a, b, got, ok, new(big.Int).Mul(a.Big(), b.Big()))
		got = Mul64(a.Int64(), b.Int64())
		check("64-bit product", a, b, got, true, new(big.Int).Mul(big.NewInt(a.Int64()), big.NewInt(b.Int64())))
		if c := a.Big().Cmp(b.Big()); c != a.Cmp(b) {
			t.Fatalf("%s compares with %s as %d, want %d", a, b, a.Cmp(b), c)
		}
		if b.Sign() != 0 {
			q, rem, ok := a.QuoRem(b)
			bq, br := new(big.Int).QuoRem(a.Big(), b.Big(), new(big.Int))
			check("quotient", a, b, q, ok, bq)
			check("remainder", a, b, rem, true, br)
		}
		if back, err := ParseInt128(a.String()); err != nil || back != a || a.String() != a.Big().String() {
			t.Fatalf("%s reads back as %s, %v", a.Big(), back, err)
		}
		f, _ := new(big.Float).SetInt(a.Big()).Float64()
		if a.Float64() != f {
			t.Fatalf("%s as a double is %v, want %v", a, a.Float64(), f)
		}
		if i, ok := Int128FromFloat(f); math.Abs(f) < 0x1p127 && (!ok || i.Float64() != f) {
			t.Fatalf("%v as an integer is %s", f, i)
		}
	}
}

func TestScaleDownRoundsHalfAwayFromZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want int64 }{{149, 1}, {150, 2}, {151, 2}, {-149, -1}, {-150, -2}, {49, 0}, {-50, -1}} {
		if got := FromInt64(c.in).ScaleDown(2); got != FromInt64(c.want) {
			t.Errorf("%d/100 rounds to %s, want %d", c.in, got, c.want)
		}
	}
}

func TestIntervalPartsComeBack(t *testing.T) {
	t.Parallel()
	m, d, us := IntervalParts(MakeInterval(-3, -2, -1))
	if m != -3 || d != -2 || us != -1 {
		t.Fatalf("got %d months %d days %d micros", m, d, us)
	}
}

func TestNumbersPast128BitsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"170141183460469231731687303715884105728", "-170141183460469231731687303715884105729", "", "-", "1.5", "99999999999999999999999999999999999999999"} {
		if v, err := ParseInt128(s); err == nil {
			t.Errorf("%q was read as %s", s, v)
		}
	}
}
