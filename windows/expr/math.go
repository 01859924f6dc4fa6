package expr

import (
	"math"
	"math/bits"
	"strings"

	"tidemark/storage/row"
)

// mathematics fills the functions over numbers.
func (t table) mathematics() {
	double := func(names string, f func(float64) float64) {
		for _, n := range strings.Fields(names) {
			t.define(n, on(tDouble, map1(f64, f64, f), tDouble))
		}
	}
	checked := func(names string, f func(float64) (float64, *Failure)) {
		for _, n := range strings.Fields(names) {
			t.define(n, on(tDouble, try1(f64, f64, f), tDouble))
		}
	}
	checked("sqrt", func(x float64) (float64, *Failure) {
		if x < 0 {
			return 0, outOfRange("cannot take square root of a negative number")
		}
		return math.Sqrt(x), nil
	})
	logarithm := func(f func(float64) float64) func(float64) (float64, *Failure) {
		return func(x float64) (float64, *Failure) {
			switch {
			case x < 0:
				return 0, outOfRange("cannot take logarithm of a negative number")
			case x == 0:
				return 0, outOfRange("cannot take logarithm of zero")
			}
			return f(x), nil
		}
	}
	checked("ln", logarithm(ln))
	checked("log log10", logarithm(log10))
	checked("log2", logarithm(log2))
	t.define("log", on(tDouble, try2(f64, f64, f64, func(base, x float64) (float64, *Failure) {
		a, err := logarithm(log10)(x)
		if err != nil {
			return 0, err
		}
		b, err := logarithm(log10)(base)
		if err == nil && b == 0 {
			err = outOfRange("divison by zero in based logarithm")
		}
		return a / b, err
	}), tDouble, tDouble))
	double("exp", exp)
	double("cbrt", math.Cbrt)
	double("degrees", func(x float64) float64 { return x * (180 / math.Pi) })
	double("radians", func(x float64) float64 { return x * (math.Pi / 180) })
	angle := func(name string, f func(float64) float64) {
		checked(name, func(x float64) (float64, *Failure) {
			if math.IsInf(x, 0) {
				return 0, outOfRange("input value %v is out of range for numeric function", x)
			}
			return f(x), nil
		})
	}
	angle("sin", sin)
	angle("cos", cos)
	angle("tan", tan)
	angle("cot", func(x float64) float64 { return 1 / tan(x) })
	double("atan", atan)
	double("sinh", math.Sinh)
	double("cosh", math.Cosh)
	double("tanh", math.Tanh)
	double("asinh", math.Asinh)
	double("acosh", math.Acosh)
	checked("gamma", func(x float64) (float64, *Failure) {
		if x == 0 {
			return 0, outOfRange("cannot take gamma of zero")
		}
		return math.Gamma(x), nil
	})
	double("even", func(x float64) float64 {
		if x < 0 {
			return -2 * math.Ceil(-x/2)
		}
		return 2 * math.Ceil(x/2)
	})
	unit := func(name string, f func(float64) float64) {
		checked(name, func(x float64) (float64, *Failure) {
			if x < -1 || x > 1 {
				return 0, invalidInput("%s is undefined outside [-1,1]", strings.ToUpper(name))
			}
			return f(x), nil
		})
	}
	unit("asin", asin)
	unit("acos", acos)
	unit("atanh", math.Atanh)
	double2 := func(names string, f func(a, b float64) float64) {
		for _, n := range strings.Fields(names) {
			t.define(n, on(tDouble, map2(f64, f64, f64, f), tDouble, tDouble))
		}
	}
	double2("pow power ^ **", pow)
	double2("atan2", atan2)
	double2("fdiv", func(a, b float64) float64 { return math.Floor(a / b) })
	double2("fmod", func(a, b float64) float64 { return a - math.Floor(a/b)*b })
	double2("nextafter", math.Nextafter)
	t.define("pi", overload{returns: tDouble, kernel: func(c *call) {
		for _, i := range c.rows {
			c.out.F64[i] = math.Pi
		}
	}})
	test := func(name string, f func(float64) bool) {
		k := map1(f64, i64, func(x float64) int64 { return b2i(f(x)) })
		t.define(name, on(tBool, k, tFloat), on(tBool, k, tDouble))
	}
	test("isnan", math.IsNaN)
	test("isinf", func(x float64) bool { return math.IsInf(x, 0) })
	test("isfinite", func(x float64) bool { return !math.IsInf(x, 0) && !math.IsNaN(x) })
	test("signbit", math.Signbit)
	always := map1(i64, i64, func(int64) int64 { return 1 })
	never := map1(i64, i64, func(int64) int64 { return 0 })
	for _, kind := range []row.Type{tDate, tTimestamp} {
		t.define("isfinite", on(tBool, always, kind))
		t.define("isinf", on(tBool, never, kind))
	}
	t.binder(bindAbs, "abs", "@")
	t.binder(bindSignOf, "sign")
	t.binder(bindRound, "round", "floor", "ceil", "ceiling", "trunc")
	t.integers()
}

// integers fills the functions over integers alone.
func (t table) integers() {
	bitwise := func(name string, f func(a, b int64) int64, g func(a, b row.Int128) row.Int128) {
		for _, kind := range []row.Type{tTiny, tSmall, tInt, tBig} {
			t.define(name, on(kind, map2(i64, i64, i64, f), kind, kind))
		}
		t.define(name, on(tHuge, map2(i128, i128, i128, g), tHuge, tHuge))
	}
	bitwise("&", func(a, b int64) int64 { return a & b }, func(a, b row.Int128) row.Int128 { return row.Int128{Hi: a.Hi & b.Hi, Lo: a.Lo & b.Lo} })
	bitwise("|", func(a, b int64) int64 { return a | b }, func(a, b row.Int128) row.Int128 { return row.Int128{Hi: a.Hi | b.Hi, Lo: a.Lo | b.Lo} })
	bitwise("xor", func(a, b int64) int64 { return a ^ b }, func(a, b row.Int128) row.Int128 { return row.Int128{Hi: a.Hi ^ b.Hi, Lo: a.Lo ^ b.Lo} })
	for _, kind := range []row.Type{tTiny, tSmall, tInt, tBig} {
		width := map[row.Kind]int64{row.TinyInt: 8, row.SmallInt: 16, row.Integer: 32, row.BigInt: 64}[kind.Kind]
		_, high := row.IntegerRange(kind.Kind)
		t.define("~", on(kind, map1(i64, i64, func(a int64) int64 { return ^a }), kind))
		t.define("<<", on(kind, try2(i64, i64, i64, func(a, n int64) (int64, *Failure) {
			switch {
			case a < 0:
				return 0, outOfRange("Cannot left-shift negative number %d", a)
			case n < 0:
				return 0, outOfRange("Cannot left-shift by negative number %d", n)
			case n >= width:
				if a == 0 {
					return 0, nil
				}
				return 0, outOfRange("Left-shift value %d is out of range", n)
			case a > high>>n:
				return 0, outOfRange("Overflow in left shift (%d << %d)", a, n)
			}
			return a << n, nil
		}), kind, kind))
		t.define(">>", on(kind, map2(i64, i64, i64, func(a, n int64) int64 {
			if n < 0 || n >= width {
				return 0
			}
			return a >> n
		}), kind, kind))
		mask := uint64(1)<<(width-1)<<1 - 1
		t.define("bit_count", on(tTiny, map1(i64, i64, func(a int64) int64 { return int64(bits.OnesCount64(uint64(a) & mask)) }), kind))
	}
	t.define("gcd", on(tBig, map2(i64, i64, i64, gcd), tBig, tBig))
	t.alias("gcd", "greatest_common_divisor")
	t.define("lcm", on(tBig, try2(i64, i64, i64, func(a, b int64) (int64, *Failure) {
		if a == 0 || b == 0 {
			return 0, nil
		}
		p := row.Mul64(a/gcd(a, b), b)
		if !p.IsInt64() || p.Int64() == math.MinInt64 {
			return 0, outOfRange("lcm value is out of range")
		}
		return max(p.Int64(), -p.Int64()), nil
	}), tBig, tBig))
	t.alias("lcm", "least_common_multiple")
	t.define("factorial", on(tHuge, try1(i64, i128, func(n int64) (row.Int128, *Failure) {
		p := row.FromInt64(1)
		for k := int64(2); k <= n; k++ {
			var ok bool
			if p, ok = p.Mul(row.FromInt64(k)); !ok {
				return p, outOfRange("Value out of range")
			}
		}
		return p, nil
	}), tInt))
	t.alias("factorial", "!__postfix")
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	if a < 0 {
		return -a
	}
	return a
}

// numeric takes the one argument of abs, sign and round: a number, or NULL as a BIGINT.
func numeric(name string, args []*Expr, least, most int) (*Expr, error) {
	if len(args) < least || len(args) > most {
		return nil, mismatch(name, args)
	}
	if args[0].Type.Kind == row.Null {
		return implicit(args[0], tBig)
	}
	if !args[0].Type.IsNumeric() {
		return nil, mismatch(name, args)
	}
	return args[0], nil
}

func bindAbs(name string, args []*Expr) (*Expr, error) {
	a, err := numeric(name, args, 1, 1)
	if err != nil {
		return nil, err
	}
	text := callText(name, args)
	switch {
	case a.Type.Class() == row.Float64Class:
		return newCall(a.Type, text, map1(f64, f64, math.Abs), a), nil
	case a.Type.Class() == row.Int128Class:
		return newCall(a.Type, text, try1(i128, i128, func(x row.Int128) (row.Int128, *Failure) {
			if x.Sign() >= 0 {
				return x, nil
			}
			n, ok := x.Neg()
			if !ok {
				return x, outOfRange("Overflow on abs(%s)", x)
			}
			return n, nil
		}), a), nil
	}
	low, _ := row.IntegerRange(a.Type.Kind)
	return newCall(a.Type, text, try1(i64, i64, func(x int64) (int64, *Failure) {
		if x == low {
			return 0, outOfRange("Overflow on abs(%d)", x)
		}
		return max(x, -x), nil
	}), a), nil
}

func bindSignOf(name string, args []*Expr) (*Expr, error) {
	a, err := numeric(name, args, 1, 1)
	if err != nil {
		return nil, err
	}
	text := callText(name, args)
	if a.Type.Class() == row.Float64Class {
		return newCall(tTiny, text, map1(f64, i64, func(x float64) int64 { return b2i(x > 0) - b2i(x < 0) }), a), nil
	}
	return newCall(tTiny, text, func(c *call) {
		for _, i := range c.rows {
			c.out.I64[i] = int64(integerAt(c.args[0], int(i)).Sign())
		}
	}, a), nil
}

// bindRound binds round, floor, ceil and trunc: DECIMAL stays DECIMAL, all else is a DOUBLE.
func bindRound(name string, args []*Expr) (*Expr, error) {
	most := 1
	if name == "round" {
		most = 2
	}
	a, err := numeric(name, args, 1, most)
	if err != nil {
		return nil, err
	}
	text := callText(name, args)
	if len(args) == 2 && !(args[1].IsConst() && a.Type.Kind == row.Decimal) {
		return roundTo(name, text, a, args)
	}
	digits := 0
	if len(args) == 2 {
		if !args[1].Type.IsInteger() || args[1].isNull() {
			return roundTo(name, text, a, args)
		}
		digits = int(max(-100, min(100, integerAt(args[1].value, 0).Int64())))
	}
	if name == "trunc" && a.Type.IsInteger() {
		return asIs(a, text), nil
	}
	if a.Type.Kind != row.Decimal {
		cast := a
		if a.Type.Kind != row.Float {
			if cast, err = implicit(a, tDouble); err != nil {
				return nil, err
			}
		}
		f := map[string]func(float64) float64{"round": math.Round, "floor": math.Floor, "ceil": math.Ceil, "ceiling": math.Ceil, "trunc": math.Trunc}[name]
		return newCall(cast.Type, text, map1(f64, f64, f), cast), nil
	}
	return roundDecimal(name, text, a, digits), nil
}

// asIs is a function that changes nothing: its result is no literal any more.
func asIs(a *Expr, text string) *Expr {
	if a.IsConst() {
		return folded(a.value, text)
	}
	e := *a
	e.Text = text
	return &e
}

// roundTo is round(x, digits) of a DOUBLE.
func roundTo(name, text string, a *Expr, args []*Expr) (*Expr, error) {
	t := tDouble
	if a.Type.Kind == row.Float {
		t = tFloat
	}
	x, err := implicit(a, t)
	if err != nil {
		return nil, err
	}
	if !args[1].Type.IsInteger() && !args[1].isNull() {
		return nil, mismatch(name, args)
	}
	n, err := implicit(args[1], tInt)
	if err != nil {
		return nil, err
	}
	return newCall(t, text, map2(f64, i64, f64, func(x float64, n int64) float64 {
		power := math.Pow(10, math.Abs(float64(n)))
		var r float64
		if n < 0 {
			if r = math.Round(x/power) * power; math.IsInf(r, 0) || math.IsNaN(r) {
				return 0
			}
		} else if r = math.Round(x*power) / power; math.IsInf(r, 0) || math.IsNaN(r) {
			return x
		}
		if t.Kind == row.Float {
			return float64(float32(r))
		}
		return r
	}), x, n), nil
}

// roundDecimal cuts a DECIMAL to digits behind the point, its width unchanged.
func roundDecimal(name, text string, a *Expr, digits int) *Expr {
	from := a.Type
	if digits >= int(from.Scale) {
		return asIs(a, text)
	}
	t := row.DecimalType(from.Width, uint8(max(0, digits)))
	drop := int(from.Scale) - digits
	return newCall(t, text, func(c *call) {
		for _, i := range c.rows {
			x := integerAt(c.args[0], int(i))
			v := row.Int128{}
			if drop <= 38 {
				v = cutDecimal(name, x, drop)
			}
			if digits < 0 {
				v, _ = v.ScaleUp(min(-digits, 38))
			}
			setInteger(c.out, i, v)
		}
	}, a)
}

func cutDecimal(name string, x row.Int128, drop int) row.Int128 {
	if name == "round" {
		return x.ScaleDown(drop)
	}
	q, r, _ := x.QuoRem(row.PowerOfTen(drop))
	switch {
	case r.Sign() < 0 && name == "floor":
		q, _ = q.Sub(row.FromInt64(1))
	case r.Sign() > 0 && (name == "ceil" || name == "ceiling"):
		q, _ = q.Add(row.FromInt64(1))
	}
	return q
}
