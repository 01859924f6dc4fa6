package expr

import (
	"cmp"
	"math"

	"tidemark/storage/row"
)

func (t table) comparisons() {
	t.binder(bindComparison, "=", "==", "<>", "!=", "<", "<=", ">", ">=")
}

type comparison uint8

const (
	equal comparison = iota
	notEqual
	less
	lessOrEqual
	greater
	greaterOrEqual
)

var comparisons = map[string]comparison{
	"=": equal, "==": equal, "<>": notEqual, "!=": notEqual, "<": less, "<=": lessOrEqual, ">": greater, ">=": greaterOrEqual,
}

func bindComparison(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 {
		return nil, mismatch(name, args)
	}
	op := comparisons[name]
	cast, err := commonOperands(name, op == equal || op == notEqual, args)
	if err != nil {
		return nil, err
	}
	return newCall(tBool, callText(name, args), compareKernel(op, cast[0].Type), cast...), nil
}

// commonOperands casts values to the type in which DuckDB compares them. Equality is laxer: a VARCHAR
// is read as the other side's type.
func commonOperands(name string, equality bool, args []*Expr) ([]*Expr, error) {
	t, ok := unifyExprs(args)
	if !ok && equality {
		t, ok = tNull, true
		for _, a := range args {
			if a.Type.Kind == row.Varchar {
				continue
			}
			u, fits := unify2(t, a.Type)
			t, ok = u, ok && fits
		}
	}
	if !ok {
		return nil, mismatch(name, args)
	}
	return castAll(args, t)
}

// compareKernel compares two vectors of the type t.
func compareKernel(op comparison, t row.Type) kernel {
	switch t.Class() {
	case row.Float64Class:
		return func(c *call) { compareFloats(op, c.args[0].F64, c.args[1].F64, c.out.I64, c.rows) }
	case row.StringClass:
		return func(c *call) { compareOrdered(op, c.args[0].Str, c.args[1].Str, c.out.I64, c.rows) }
	case row.Int128Class:
		compare := row.Int128.Cmp
		if t.Kind == row.Interval {
			compare = row.CompareIntervals
		}
		return func(c *call) {
			x, y, out := c.args[0].I128, c.args[1].I128, c.out.I64
			for _, i := range c.rows {
				out[i] = b2i(op.holds(compare(x[i], y[i])))
			}
		}
	}
	return func(c *call) { compareOrdered(op, c.args[0].I64, c.args[1].I64, c.out.I64, c.rows) }
}

// holds applies the comparison to the sign of a difference.
func (op comparison) holds(sign int) bool {
	switch op {
	case equal:
		return sign == 0
	case notEqual:
		return sign != 0
	case less:
		return sign < 0
	case lessOrEqual:
		return sign <= 0
	case greater:
		return sign > 0
	}
	return sign >= 0
}

func compareOrdered[T int64 | string](op comparison, x, y []T, out []int64, rows []int32) {
	switch op {
	case equal:
		for _, i := range rows {
			out[i] = b2i(x[i] == y[i])
		}
	case notEqual:
		for _, i := range rows {
			out[i] = b2i(x[i] != y[i])
		}
	case less:
		for _, i := range rows {
			out[i] = b2i(x[i] < y[i])
		}
	case lessOrEqual:
		for _, i := range rows {
			out[i] = b2i(x[i] <= y[i])
		}
	case greater:
		for _, i := range rows {
			out[i] = b2i(x[i] > y[i])
		}
	default:
		for _, i := range rows {
			out[i] = b2i(x[i] >= y[i])
		}
	}
}

// compareFloats has NaN equal to itself and above all numbers.
func compareFloats(op comparison, x, y []float64, out []int64, rows []int32) {
	for _, i := range rows {
		out[i] = b2i(op.holds(cmpFloat(x[i], y[i])))
	}
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	case math.IsNaN(a) && math.IsNaN(b):
		return 0
	case math.IsNaN(a):
		return 1
	}
	return -1
}

// compareAt orders two values of one type that are not null.
func compareAt(a *row.Vector, i int, b *row.Vector, j int) int {
	switch a.Type.Class() {
	case row.Float64Class:
		return cmpFloat(a.F64[i], b.F64[j])
	case row.StringClass:
		return cmp.Compare(a.Str[i], b.Str[j])
	case row.Int128Class:
		if a.Type.Kind == row.Interval {
			return row.CompareIntervals(a.I128[i], b.I128[j])
		}
		return a.I128[i].Cmp(b.I128[j])
	}
	return cmp.Compare(a.I64[i], b.I64[j])
}

// DistinctFrom is IS DISTINCT FROM: NULL is equal to NULL and to nothing else.
func DistinctFrom(a, b *Expr) (*Expr, error) { return bindDistinct(a, b, false) }

// NotDistinctFrom is IS NOT DISTINCT FROM.
func NotDistinctFrom(a, b *Expr) (*Expr, error) { return bindDistinct(a, b, true) }

func bindDistinct(a, b *Expr, same bool) (*Expr, error) {
	name := "IS DISTINCT FROM"
	if same {
		name = "IS NOT DISTINCT FROM"
	}
	args := []*Expr{a, b}
	cast, err := commonOperands(name, true, args)
	if err != nil {
		return nil, err
	}
	text := operand(a) + " " + name + " " + operand(b)
	return newNullable(tBool, text, func(c *call) {
		x, y := c.args[0], c.args[1]
		for _, i := range c.rows {
			nx, ny := x.IsNull(int(i)), y.IsNull(int(i))
			equal := nx && ny || !nx && !ny && compareAt(x, int(i), y, int(i)) == 0
			c.out.I64[i] = b2i(equal == same)
		}
	}, cast...), nil
}

// In is e IN (list…): NULL if there is no match and a NULL on either side.
func In(e *Expr, list []*Expr) (*Expr, error) {
	args := append([]*Expr{e}, list...)
	text := operand(e) + " IN (" + texts(list) + ")"
	cast, err := commonOperands("IN", true, args)
	if err != nil {
		return nil, err
	}
	if k := inConstants(cast[1:]); k != nil {
		return newCall(tBool, text, k, cast[0]), nil
	}
	return newNullable(tBool, text, func(c *call) {
		for _, i := range c.rows {
			found, null := false, c.args[0].IsNull(int(i))
			if !null {
				for _, v := range c.args[1:] {
					if v.IsNull(int(i)) {
						null = true
					} else if compareAt(c.args[0], int(i), v, int(i)) == 0 {
						found = true
						break
					}
				}
			}
			if !found && null {
				c.null(i)
				continue
			}
			c.out.I64[i] = b2i(found)
		}
	}, cast...), nil
}

// inConstants is the kernel for a list of constants without NULL; nil for other lists.
func inConstants(list []*Expr) kernel {
	var numbers []int64
	var strings []string
	for _, e := range list {
		switch {
		case !e.IsConst() || e.value.IsNull(0) || e.Type.Kind == row.Null:
			return nil
		case e.Type.Class() == row.Int64Class:
			numbers = append(numbers, e.value.I64[0])
		case e.Type.Class() == row.StringClass:
			strings = append(strings, e.value.Str[0])
		default:
			return nil
		}
	}
	if len(numbers) == len(list) {
		return member(i64, numbers)
	}
	return member(str, strings)
}

// member looks up in a short list by comparing, in a long one by hash.
func member[T comparableValue](a slice[T], list []T) kernel {
	if len(list) > 8 {
		set := make(map[T]struct{}, len(list))
		for _, x := range list {
			set[x] = struct{}{}
		}
		return map1(a, i64, func(x T) int64 {
			_, ok := set[x]
			return b2i(ok)
		})
	}
	return func(c *call) {
		x, out := a(c.args[0]), c.out.I64
		for _, i := range c.rows {
			found := false
			for _, y := range list {
				if x[i] == y {
					found = true
					break
				}
			}
			out[i] = b2i(found)
		}
	}
}

type comparableValue interface{ int64 | string }
