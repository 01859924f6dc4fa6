package expr

import (
	"fmt"
	"math"

	"tidemark/storage/row"
)

// bindDecimal binds + - * // % where common is a DECIMAL. The widths are DuckDB's: a sum has one
// digit more, a product the digits of both; a result past 18 digits of operands within 18 stays
// at 18 (so that it stays in 64 bits), and past 38 at 38, both with a check of every row.
func bindDecimal(name, text string, common row.Type, args []*Expr) (*Expr, error) {
	a, b := decimalArg(args[0], common), decimalArg(args[1], common)
	widest := max(a.Width, b.Width)
	whole := int(max(a.Width-a.Scale, b.Width-b.Scale))
	width, scale := 0, int(max(a.Scale, b.Scale))
	switch name {
	case "+", "-":
		width = whole + scale + 1
	case "*":
		width, scale = int(a.Width)+int(b.Width), int(a.Scale)+int(b.Scale)
		if scale > 38 {
			return nil, &Mismatch{Name: name, Types: []row.Type{a, b}, Reason: fmt.Sprintf(
				"%s needs %d digits behind the point, and DECIMAL has 38 at most: cast an operand to DOUBLE or to a DECIMAL of smaller scale", text, scale)}
		}
	case "%":
		width = whole + scale
		if width > 38 {
			return bindDoubles(name, text, args)
		}
	default:
		return bindDoubles(name, text, args)
	}
	check := true
	switch {
	case width > 18 && widest <= 18 && name != "%":
		width = 18
	case width > 38:
		width = 38
	default:
		check = false
	}
	t := row.DecimalType(uint8(width), uint8(scale))
	if name == "*" {
		return bindProduct(text, t, check, args, a, b)
	}
	cast, err := castAll(args, t)
	if err != nil {
		return nil, err
	}
	return newCall(t, text, decimalKernel(name, t, check), cast...), nil
}

func bindDoubles(name, text string, args []*Expr) (*Expr, error) {
	cast, err := castAll(args, tDouble)
	if err != nil {
		return nil, err
	}
	k := arithKernel(name, tDouble)
	if name == "%" { // unlike % of two DOUBLEs
		k = try2(f64, f64, f64, func(x, y float64) (float64, *Failure) {
			if y == 0 {
				return 0, errNull
			}
			return math.Mod(x, y), nil
		})
	}
	return newCall(tDouble, text, k, cast...), nil
}

// decimalArg is the DECIMAL that an operand counts as.
func decimalArg(e *Expr, common row.Type) row.Type {
	if t := asDecimal(e.Type); t.Kind == row.Decimal {
		return t
	}
	return common // NULL
}

// bindProduct multiplies unscaled values. Operands are taken as they are, without a cast to the
// width of the result: the unscaled value is the same.
func bindProduct(text string, t row.Type, check bool, args []*Expr, a, b row.Type) (*Expr, error) {
	cast := make([]*Expr, 2)
	for i, want := range []row.Type{a, b} {
		if args[i].Type.IsInteger() || args[i].Type.Equal(want) {
			cast[i] = args[i]
			continue
		}
		var err error
		if cast[i], err = implicit(args[i], want); err != nil {
			return nil, err
		}
	}
	failed := func(x, y row.Int128) *Failure { return decimalOverflow("multiplication", "*", t, x, y) }
	var k kernel
	switch wide := t.Class() == row.Int128Class; {
	case cast[0].Type.Class() == row.Int64Class && cast[1].Type.Class() == row.Int64Class && wide:
		k = func(c *call) {
			x, y, out := c.args[0].I64, c.args[1].I64, c.out.I128
			for _, i := range c.rows {
				p := row.Mul64(x[i], y[i])
				if check && !row.FitsDecimal(p, t.Width) {
					c.fail(i, failed(row.FromInt64(x[i]), row.FromInt64(y[i])))
					continue
				}
				out[i] = p
			}
		}
	case !wide:
		limit := row.PowerOfTen(int(t.Width)).Int64()
		k = func(c *call) {
			x, y, out := c.args[0].I64, c.args[1].I64, c.out.I64
			for _, i := range c.rows {
				p := row.Mul64(x[i], y[i])
				if v := p.Int64(); p.IsInt64() && v < limit && v > -limit {
					out[i] = v
					continue
				}
				c.fail(i, failed(row.FromInt64(x[i]), row.FromInt64(y[i])))
			}
		}
	default:
		k = func(c *call) {
			for _, i := range c.rows {
				x, y := integerAt(c.args[0], int(i)), integerAt(c.args[1], int(i))
				p, ok := x.Mul(y)
				if !ok || check && !row.FitsDecimal(p, t.Width) {
					c.fail(i, failed(x, y))
					continue
				}
				c.out.I128[i] = p
			}
		}
	}
	return newCall(t, text, k, cast...), nil
}

func decimalOverflow(what, op string, t row.Type, x, y row.Int128) *Failure {
	return outOfRange("Overflow in %s of DECIMAL(%d) (%s %s %s). You might want to add an explicit cast to a bigger decimal.", what, t.Width, x, op, y)
}

// decimalKernel computes + - % of two values of the type t.
func decimalKernel(op string, t row.Type, check bool) kernel {
	what := map[string]string{"+": "addition", "-": "subtraction"}[op]
	if t.Class() == row.Int64Class {
		limit := row.PowerOfTen(int(t.Width)).Int64()
		return func(c *call) {
			x, y, out := c.args[0].I64, c.args[1].I64, c.out.I64
			for _, i := range c.rows {
				var v int64
				switch op {
				case "+":
					v = x[i] + y[i] // 18 digits and 18 digits never overflow 64 bits
				case "-":
					v = x[i] - y[i]
				default:
					if y[i] == 0 {
						c.null(i)
						continue
					}
					v = x[i] % y[i]
				}
				if check && (v >= limit || v <= -limit) {
					c.fail(i, decimalOverflow(what, op, t, row.FromInt64(x[i]), row.FromInt64(y[i])))
					continue
				}
				out[i] = v
			}
		}
	}
	return try2(i128, i128, i128, func(x, y row.Int128) (row.Int128, *Failure) {
		var v row.Int128
		ok := true
		switch op {
		case "+":
			v, ok = x.Add(y)
		case "-":
			v, ok = x.Sub(y)
		default:
			if y.Sign() == 0 {
				return v, errNull
			}
			_, v, _ = x.QuoRem(y)
		}
		if !ok || check && !row.FitsDecimal(v, t.Width) {
			return v, decimalOverflow(what, op, t, x, y)
		}
		return v, nil
	})
}
