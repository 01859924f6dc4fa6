package expr

import (
	"math"

	"tidemark/storage/row"
)

var (
	tNull      = row.Scalar(row.Null)
	tBool      = row.Scalar(row.Boolean)
	tTiny      = row.Scalar(row.TinyInt)
	tSmall     = row.Scalar(row.SmallInt)
	tInt       = row.Scalar(row.Integer)
	tBig       = row.Scalar(row.BigInt)
	tHuge      = row.Scalar(row.HugeInt)
	tFloat     = row.Scalar(row.Float)
	tDouble    = row.Scalar(row.Double)
	tVarchar   = row.Scalar(row.Varchar)
	tBlob      = row.Scalar(row.Blob)
	tDate      = row.Scalar(row.Date)
	tTimestamp = row.Scalar(row.Timestamp)
	tInterval  = row.Scalar(row.Interval)
	tJSON      = row.Scalar(row.JSON)
)

// Unify returns the type that values of all these types have in common, as CASE, COALESCE, lists
// and UNION want it; false when there is none without a cast.
func Unify(types ...row.Type) (row.Type, bool) {
	t := tNull
	for _, u := range types {
		var ok bool
		if t, ok = unify2(t, u); !ok {
			return t, false
		}
	}
	return t, true
}

func unify2(a, b row.Type) (row.Type, bool) {
	switch {
	case a.Kind == row.Null:
		return b, true
	case b.Kind == row.Null || a.Equal(b):
		return a, true
	}
	if a.Kind > b.Kind {
		a, b = b, a
	}
	switch {
	case a.Kind == row.Boolean && b.IsInteger():
		return b, true
	case a.IsNumeric() && b.IsNumeric():
		return unifyNumbers(a, b), true
	case a.Kind == row.Date && b.Kind == row.Timestamp:
		return b, true
	case a.Kind == row.Varchar && b.Kind == row.JSON:
		return b, true
	case a.Kind == row.List && b.Kind == row.List:
		elem, ok := unify2(*a.Elem, *b.Elem)
		return row.ListOf(elem), ok
	case a.Kind == row.Struct && b.Kind == row.Struct && len(a.Fields) == len(b.Fields):
		fields := make([]row.Field, len(a.Fields))
		for i, f := range a.Fields {
			t, ok := unify2(f.Type, b.Fields[i].Type)
			if !ok {
				return a, false
			}
			fields[i] = row.Field{Name: f.Name, Type: t}
		}
		return row.StructOf(fields...), true
	}
	return a, false
}

// unifyNumbers has a.Kind ≤ b.Kind.
func unifyNumbers(a, b row.Type) row.Type {
	if b.Kind != row.Decimal {
		return b // integers widen, FLOAT and DOUBLE take all
	}
	if a.Kind == row.Float || a.Kind == row.Double {
		return a
	}
	integer := a.Kind != row.Decimal
	a = asDecimal(a)
	scale := max(a.Scale, b.Scale)
	whole := max(a.Width-a.Scale, b.Width-b.Scale)
	if whole+scale > 38 && !integer { // two DECIMALs give up digits behind the point
		scale = 38 - whole
	}
	return row.DecimalType(min(38, whole+scale), scale)
}

// asDecimal returns the DECIMAL that holds an integer type.
func asDecimal(t row.Type) row.Type {
	switch t.Kind {
	case row.TinyInt:
		return row.DecimalType(3, 0)
	case row.SmallInt:
		return row.DecimalType(5, 0)
	case row.Integer:
		return row.DecimalType(10, 0)
	case row.BigInt:
		return row.DecimalType(19, 0)
	case row.HugeInt:
		return row.DecimalType(38, 0)
	}
	return t
}

// isStringLiteral reports whether e is a quoted text, which takes any type.
func (e *Expr) isStringLiteral() bool {
	return e.form == formLiteral && e.Type.Kind == row.Varchar && !e.value.IsNull(0)
}

// isIntegerLiteral reports whether e is a written integer, which takes any integer type it fits.
func (e *Expr) isIntegerLiteral() bool {
	return e.form == formLiteral && e.Type.IsInteger() && !e.value.IsNull(0)
}

// fits reports whether the value of an integer literal fits into an integer type.
func (e *Expr) fits(t row.Type) bool {
	x := integerAt(e.value, 0)
	if t.Kind == row.HugeInt {
		return true
	}
	low, high := row.IntegerRange(t.Kind)
	return x.IsInt64() && x.Int64() >= low && x.Int64() <= high
}

func integerAt(v *row.Vector, i int) row.Int128 {
	if v.Type.Class() == row.Int128Class {
		return v.I128[i]
	}
	return row.FromInt64(v.I64[i])
}

// unifyExprs is Unify with regard to literals.
func unifyExprs(args []*Expr) (row.Type, bool) {
	t := tNull
	settled := false // a type that is not a literal's was seen
	for _, a := range args {
		if a.isNull() && a.Type.Kind == row.Null || a.isStringLiteral() || a.isIntegerLiteral() {
			continue
		}
		u, ok := unify2(t, a.Type)
		if !ok {
			return t, false
		}
		t, settled = u, true
	}
	for _, a := range args {
		if !a.isIntegerLiteral() || settled && t.IsInteger() && a.fits(t) {
			continue
		}
		if settled && t.Kind == row.Varchar {
			return t, false
		}
		u, ok := unify2(t, a.Type)
		if !ok {
			return t, false
		}
		t, settled = u, true
	}
	if !settled {
		for _, a := range args {
			if a.isStringLiteral() {
				return tVarchar, true
			}
		}
	}
	return t, true
}

// castAll casts every argument to t.
func castAll(args []*Expr, t row.Type) ([]*Expr, error) {
	out := make([]*Expr, len(args))
	for i, a := range args {
		c, err := implicit(a, t)
		if err != nil {
			return nil, err
		}
		out[i] = c
	}
	return out, nil
}

// implicit casts e to t where that is not the user's own wish.
func implicit(e *Expr, t row.Type) (*Expr, error) {
	if e.Type.Equal(t) {
		return e, nil
	}
	c, err := Cast(e, t, false)
	if err == nil {
		c.Text = e.Text
	}
	return c, err
}

// noCast is the cost of a cast that DuckDB does not make by itself.
const noCast = math.MaxInt32

// castCost is how much an overload is set back by taking e as t, after DuckDB's cast_rules.cpp.
func castCost(e *Expr, t row.Type) int {
	from := e.Type
	switch {
	case e.form == formLiteral && from.Kind == row.Null || from.Kind == row.Null:
		return targetCost(t)
	case e.isStringLiteral():
		if t.Kind == row.Varchar {
			return 1
		}
		return 20
	case e.isIntegerLiteral() && t.IsInteger() && e.fits(t):
		if from.Equal(t) {
			return 0
		}
		return targetCost(t) - 90
	}
	return typeCost(from, t)
}

func typeCost(from, t row.Type) int {
	if from.Equal(t) {
		return 0
	}
	ok := false
	switch from.Kind {
	case row.TinyInt, row.SmallInt, row.Integer, row.BigInt, row.HugeInt:
		ok = t.IsNumeric() && (t.Kind > from.Kind)
	case row.Float:
		ok = t.Kind == row.Double
	case row.Decimal:
		if t.Kind == row.Decimal {
			return 0
		}
		ok = t.Kind == row.Float || t.Kind == row.Double
	case row.Date:
		ok = t.Kind == row.Timestamp
	case row.JSON:
		if t.Kind == row.Varchar {
			return 1
		}
	case row.List:
		if t.Kind == row.List {
			return typeCost(*from.Elem, *t.Elem)
		}
	}
	if !ok {
		return noCast
	}
	return targetCost(t)
}

func targetCost(t row.Type) int {
	switch t.Kind {
	case row.BigInt:
		return 101
	case row.Double:
		return 102
	case row.Integer:
		return 103
	case row.Decimal:
		return 104
	case row.HugeInt, row.Timestamp:
		return 120
	case row.Varchar:
		return 149
	case row.List, row.Struct:
		return 160
	}
	return 110
}
