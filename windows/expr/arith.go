package expr

import (
	"math"

	"tidemark/storage/row"
)

func (t table) arithmetic() {
	t.binder(bindArith, "+", "-", "*", "/", "//", "%")
	t.alias("+", "add")
	t.alias("-", "subtract")
	t.alias("*", "multiply")
	t.alias("//", "divide")
	t.alias("%", "mod")
	t.temporalArithmetic()
}

// operators gives the sign of the functions that are operators under another name.
var operators = map[string]string{"add": "+", "subtract": "-", "multiply": "*", "divide": "//", "mod": "%"}

// bindArith binds + - * / // %, unary and binary.
func bindArith(name string, args []*Expr) (*Expr, error) {
	text := callText(name, args)
	if op, ok := operators[name]; ok {
		name = op
	}
	switch len(args) {
	case 1:
		return bindSign(name, text, args)
	case 2:
	default:
		return nil, mismatch(name, args)
	}
	t, ok := arithType(name, args)
	if !ok {
		return bindTemporal(name, text, args)
	}
	if name == "/" && t.Kind != row.Float {
		t = tDouble
	}
	if t.Kind == row.Decimal && name != "//" && (args[0].Type.Kind == row.Null || args[1].Type.Kind == row.Null) {
		return nullOf(tNull), nil
	}
	if t.Kind == row.Decimal {
		return bindDecimal(name, text, t, args)
	}
	cast, err := castAll(args, t)
	if err != nil {
		return nil, err
	}
	return newCall(t, text, arithKernel(name, t), cast...), nil
}

// arithType returns the common type of two numbers as arithmetic takes them; false when they are
// not both numbers.
func arithType(name string, args []*Expr) (row.Type, bool) {
	a, b := args[0], args[1]
	number := func(e *Expr) bool { return e.Type.IsNumeric() || e.Type.Kind == row.Null }
	switch {
	case number(a) && number(b):
		t, ok := unifyExprs(args)
		if t.Kind == row.Null {
			t = tBig
		}
		return t, ok
	case a.isStringLiteral() && b.Type.IsNumeric():
		return literalPartner(b.Type), true
	case b.isStringLiteral() && a.Type.IsNumeric():
		return literalPartner(a.Type), true
	}
	return tNull, false
}

// literalPartner is the type that a quoted number takes beside t.
func literalPartner(t row.Type) row.Type {
	if t.Kind == row.Decimal {
		return tDouble
	}
	return t
}

func bindSign(name, text string, args []*Expr) (*Expr, error) {
	a := args[0]
	if a.Type.Kind == row.Null {
		return nullOf(tBig), nil
	}
	if name == "-" && a.form == formLiteral && a.Type.IsNumeric() {
		return negativeLiteral(a, text), nil
	}
	t := a.Type
	switch {
	case name == "+" && t.IsNumeric():
		return a, nil
	case name != "-":
	case t.Kind == row.Float || t.Kind == row.Double:
		return newCall(t, text, map1(f64, f64, func(x float64) float64 { return -x }), a), nil
	case t.Kind == row.Interval:
		return newCall(t, text, try1(i128, i128, negateInterval), a), nil
	case t.IsNumeric() && t.Class() == row.Int128Class:
		return newCall(t, text, try1(i128, i128, func(x row.Int128) (row.Int128, *Failure) {
			n, ok := x.Neg()
			if !ok {
				return n, outOfRange("Overflow in negation of integer!")
			}
			return n, nil
		}), a), nil
	case t.IsNumeric():
		low, _ := row.IntegerRange(t.Kind)
		return newCall(t, text, try1(i64, i64, func(x int64) (int64, *Failure) {
			if x == low {
				return 0, outOfRange("Overflow in negation of integer!")
			}
			return -x, nil
		}), a), nil
	}
	return nil, mismatch(name, args)
}

// negativeLiteral keeps −5 a literal, and makes −9223372036854775808 a BIGINT.
func negativeLiteral(a *Expr, text string) *Expr {
	v := row.NewVector(a.Type, 1)
	switch {
	case a.Type.Class() == row.Float64Class:
		v.AppendFloat64(-a.value.F64[0])
	case a.Type.Class() == row.Int128Class:
		n, _ := a.value.I128[0].Neg()
		if a.Type.Kind == row.HugeInt && n.IsInt64() {
			v = row.NewVector(tBig, 1)
			v.AppendInt64(n.Int64())
		} else {
			v.AppendInt128(n)
		}
	default:
		n := -a.value.I64[0]
		if a.Type.Kind == row.BigInt && n == math.MinInt32 {
			v = row.NewVector(tInt, 1)
		}
		v.AppendInt64(n)
	}
	e := Const(v)
	e.Text = text
	return e
}

// intNames are how DuckDB's messages call the integer types.
var intNames = map[row.Kind]string{
	row.TinyInt: "INT8", row.SmallInt: "INT16", row.Integer: "INT32", row.BigInt: "INT64", row.HugeInt: "INT128",
	row.Boolean: "BOOL", row.Float: "FLOAT", row.Double: "DOUBLE",
}

func overflow(what, op string, t row.Type, x, y row.Int128) *Failure {
	return outOfRange("Overflow in %s of %s (%s %s %s)!", what, intNames[t.Kind], x, op, y)
}

// arithKernel returns the kernel for two numbers of the type t, which is no DECIMAL.
func arithKernel(op string, t row.Type) kernel {
	switch t.Class() {
	case row.Float64Class:
		return floatKernel(op, t.Kind == row.Float)
	case row.Int128Class:
		return hugeKernel(op)
	}
	low, high := row.IntegerRange(t.Kind)
	switch op {
	case "+":
		return func(c *call) {
			x, y, out := c.args[0].I64, c.args[1].I64, c.out.I64
			for _, i := range c.rows {
				a, b := x[i], y[i]
				s := a + b
				if (a^s)&(b^s) < 0 || s < low || s > high {
					c.fail(i, overflow("addition", "+", t, row.FromInt64(a), row.FromInt64(b)))
					continue
				}
				out[i] = s
			}
		}
	case "-":
		return func(c *call) {
			x, y, out := c.args[0].I64, c.args[1].I64, c.out.I64
			for _, i := range c.rows {
				a, b := x[i], y[i]
				s := a - b
				if (a^b)&(a^s) < 0 || s < low || s > high {
					c.fail(i, overflow("subtraction", "-", t, row.FromInt64(a), row.FromInt64(b)))
					continue
				}
				out[i] = s
			}
		}
	case "*":
		return func(c *call) {
			x, y, out := c.args[0].I64, c.args[1].I64, c.out.I64
			for _, i := range c.rows {
				p := row.Mul64(x[i], y[i])
				if v := p.Int64(); p.IsInt64() && v >= low && v <= high {
					out[i] = v
					continue
				}
				c.fail(i, overflow("multiplication", "*", t, row.FromInt64(x[i]), row.FromInt64(y[i])))
			}
		}
	case "//":
		return func(c *call) {
			x, y, out := c.args[0].I64, c.args[1].I64, c.out.I64
			for _, i := range c.rows {
				switch {
				case y[i] == 0:
					c.null(i)
				case y[i] == -1 && x[i] == low:
					c.fail(i, outOfRange("Overflow in division of %d / %d", x[i], y[i]))
				default:
					out[i] = x[i] / y[i]
				}
			}
		}
	}
	return func(c *call) { // %
		x, y, out := c.args[0].I64, c.args[1].I64, c.out.I64
		for _, i := range c.rows {
			switch {
			case y[i] == 0:
				c.null(i)
			case y[i] == -1 && x[i] == low:
				c.fail(i, outOfRange("Overflow in division of %d / %d", x[i], y[i]))
			default:
				out[i] = x[i] % y[i]
			}
		}
	}
}

func hugeKernel(op string) kernel {
	checked := func(what string, f func(a, b row.Int128) (row.Int128, bool)) kernel {
		return try2(i128, i128, i128, func(a, b row.Int128) (row.Int128, *Failure) {
			v, ok := f(a, b)
			if !ok {
				return v, overflow(what, op, tHuge, a, b)
			}
			return v, nil
		})
	}
	switch op {
	case "+":
		return checked("addition", row.Int128.Add)
	case "-":
		return checked("subtraction", row.Int128.Sub)
	case "*":
		return checked("multiplication", row.Int128.Mul)
	}
	return try2(i128, i128, i128, func(a, b row.Int128) (row.Int128, *Failure) {
		if b.Sign() == 0 {
			return a, errNull
		}
		q, r, ok := a.QuoRem(b)
		if !ok {
			return q, outOfRange("Overflow in division of %s / %s", a, b)
		}
		if op == "%" {
			return r, nil
		}
		return q, nil
	})
}

// floatKernel computes in 64 bits; a FLOAT result is rounded once, which gives what 32-bit
// arithmetic gives.
func floatKernel(op string, single bool) kernel {
	f := func(a, b float64) float64 { return math.Mod(a, b) }
	switch op {
	case "+":
		f = func(a, b float64) float64 { return a + b }
	case "-":
		f = func(a, b float64) float64 { return a - b }
	case "*":
		f = func(a, b float64) float64 { return a * b }
	case "/", "//":
		f = func(a, b float64) float64 { return a / b }
	}
	return func(c *call) {
		x, y, out := c.args[0].F64, c.args[1].F64, c.out.F64
		for _, i := range c.rows {
			if op == "//" && y[i] == 0 {
				c.null(i)
				continue
			}
			v := f(x[i], y[i])
			if single {
				v = float64(float32(v))
			}
			out[i] = v
		}
	}
}
