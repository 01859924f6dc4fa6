package expr

import (
	"slices"
	"strings"

	"tidemark/storage/row"
)

// And is the conjunction in three-valued logic, from left to right: what stands behind a false
// one is not computed.
func And(args ...*Expr) (*Expr, error) { return join(junctionAnd, args) }

// Or is the disjunction: what stands behind a true one is not computed.
func Or(args ...*Expr) (*Expr, error) { return join(junctionOr, args) }

// junction says that an expression is AND or OR.
type junction uint8

const (
	junctionAnd junction = iota + 1
	junctionOr
)

func (j junction) String() string { return [...]string{"", "AND", "OR"}[j] }

// undecided is true where an operand does not decide the junction: NULL does not.
func (e *Expr) undecided(j junction) *Expr {
	open := e.Clone()
	if j == junctionOr {
		not, err := Not(open)
		if err != nil {
			panic(err) // it has been an operand
		}
		open = not
	}
	return mustJoin(junctionOr, []*Expr{open, IsNull(e.Clone())})
}

// Conjuncts are the operands of an AND, of those inside it too; of anything else it alone.
func (e *Expr) Conjuncts() []*Expr {
	if e.junction != junctionAnd {
		return []*Expr{e}
	}
	var out []*Expr
	for _, a := range e.args {
		out = append(out, a.Conjuncts()...)
	}
	return out
}

// mustJoin joins truths.
func mustJoin(j junction, args []*Expr) *Expr {
	copies := make([]*Expr, len(args))
	for i, a := range args {
		copies[i] = a.Clone()
	}
	e, err := join(j, copies)
	if err != nil {
		panic(err) // they have been operands
	}
	return e
}

// join is AND or OR: a false or a true operand decides.
func join(j junction, args []*Expr) (*Expr, error) {
	decisive := int64(j - junctionAnd)
	cast, err := castAll(args, tBool)
	if err != nil {
		return nil, err
	}
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = operand(a)
	}
	e := newLazy(tBool, strings.Join(parts, " "+j.String()+" "), func(e *Expr, in *row.Batch, sel []int32, errs *Errors) {
		open := sel
		if open == nil {
			open = identity(in.Len)
		}
		for _, i := range open {
			e.out.I64[i] = 1 - decisive
		}
		for k, a := range e.args {
			v := a.Eval(in, open, errs)
			rest := e.sel[k&1][:0]
			nulls := len(v.Nulls) > 0
			for _, i := range open {
				switch {
				case nulls && v.Nulls.Get(int(i)):
					if errs.Failed(int(i)) {
						e.out.SetNull(int(i))
						continue
					}
					e.out.Nulls.Set(int(i))
				case v.I64[i] == decisive:
					if len(e.out.Nulls) > 0 {
						e.out.Nulls.Clear(int(i))
					}
					e.out.I64[i] = decisive
					continue
				}
				rest = append(rest, i)
			}
			e.sel[k&1] = rest
			if open = rest; len(open) == 0 {
				break
			}
		}
		if len(e.out.Nulls) > 0 {
			for _, i := range open {
				if e.out.Nulls.Get(int(i)) {
					e.out.I64[i] = 0
				}
			}
		}
	}, cast...)
	if !e.IsConst() {
		e.junction = j
	}
	return e, nil
}

// Not negates; NULL stays NULL.
func Not(e *Expr) (*Expr, error) {
	b, err := implicit(e, tBool)
	if err != nil {
		return nil, err
	}
	return newCall(tBool, "NOT "+operand(e), map1(i64, i64, func(x int64) int64 { return 1 - x }), b), nil
}

// IsNull is e IS NULL.
func IsNull(e *Expr) *Expr { return nullTest(e, 1, " IS NULL") }

// IsNotNull is e IS NOT NULL.
func IsNotNull(e *Expr) *Expr { return nullTest(e, 0, " IS NOT NULL") }

func nullTest(e *Expr, null int64, text string) *Expr {
	return newNullable(tBool, operand(e)+text, func(c *call) {
		v := c.args[0]
		if v.Type.Kind == row.Null {
			for _, i := range c.rows {
				c.out.I64[i] = null
			}
			return
		}
		for _, i := range c.rows {
			c.out.I64[i] = 1 - null
			if v.IsNull(int(i)) {
				c.out.I64[i] = null
			}
		}
	}, e)
}

// Case is CASE WHEN whens[0] THEN thens[0] … ELSE els END; a nil els is NULL. A branch is computed
// only for the rows that take it.
func Case(whens, thens []*Expr, els *Expr) (*Expr, error) {
	if els == nil {
		els = nullOf(tNull)
	}
	results := append(slices.Clone(thens), els)
	t, ok := unifyExprs(results)
	if !ok {
		return nil, mismatch("CASE", results)
	}
	var text strings.Builder
	text.WriteString("CASE")
	for i, w := range whens {
		text.WriteString(" WHEN " + w.Text + " THEN " + thens[i].Text)
	}
	if !els.isNull() {
		text.WriteString(" ELSE " + els.Text)
	}
	text.WriteString(" END")
	conditions, err := castAll(whens, tBool)
	if err != nil {
		return nil, err
	}
	values, err := castAll(results, t)
	if err != nil {
		return nil, err
	}
	n := len(whens)
	e := newLazy(t, text.String(), func(e *Expr, in *row.Batch, sel []int32, errs *Errors) {
		open := sel
		if open == nil {
			open = identity(in.Len)
		}
		for k := range n {
			v := e.args[k].Eval(in, open, errs)
			taken, rest := e.rows[:0], e.sel[k&1][:0]
			for _, i := range open {
				switch {
				case v.IsNull(int(i)):
					if errs.Failed(int(i)) {
						e.out.SetNull(int(i))
						continue
					}
					rest = append(rest, i)
				case v.I64[i] != 0:
					taken = append(taken, i)
				default:
					rest = append(rest, i)
				}
			}
			e.rows, e.sel[k&1] = taken, rest
			if len(taken) > 0 {
				scatter(&e.out, e.args[n+k].Eval(in, taken, errs), taken)
			}
			if open = rest; len(open) == 0 {
				return
			}
		}
		scatter(&e.out, e.args[2*n].Eval(in, open, errs), open)
	}, append(conditions, values...)...)
	return e, nil
}

// scatter copies the rows from v to out, which has the same class.
func scatter(out, v *row.Vector, rows []int32) {
	nulls := len(v.Nulls) > 0 || v.Type.Kind == row.Null
	if nulls {
		for _, i := range rows {
			if v.IsNull(int(i)) {
				out.SetNull(int(i))
			}
		}
	}
	switch out.Type.Class() {
	case row.Float64Class:
		for _, i := range rows {
			out.F64[i] = v.F64[i]
		}
	case row.Int128Class:
		for _, i := range rows {
			out.I128[i] = v.I128[i]
		}
	case row.StringClass:
		for _, i := range rows {
			out.Str[i] = v.Str[i]
		}
	default:
		for _, i := range rows {
			out.I64[i] = v.I64[i]
		}
	}
}

// Coalesce returns the first value that is not null; later ones are computed only where needed.
func Coalesce(args ...*Expr) (*Expr, error) {
	if len(args) == 0 {
		return nil, mismatch("coalesce", args)
	}
	t, ok := unifyExprs(args)
	if !ok {
		return nil, mismatch("coalesce", args)
	}
	cast, err := castAll(args, t)
	if err != nil {
		return nil, err
	}
	return newLazy(t, "coalesce("+texts(args)+")", func(e *Expr, in *row.Batch, sel []int32, errs *Errors) {
		open := sel
		if open == nil {
			open = identity(in.Len)
		}
		for k, a := range e.args {
			v := a.Eval(in, open, errs)
			taken, rest := e.rows[:0], e.sel[k&1][:0]
			for _, i := range open {
				if v.IsNull(int(i)) && !errs.Failed(int(i)) {
					rest = append(rest, i)
				} else {
					taken = append(taken, i)
				}
			}
			e.rows, e.sel[k&1] = taken, rest
			scatter(&e.out, v, taken)
			open = rest
			if len(open) == 0 {
				return
			}
		}
		for _, i := range open {
			e.out.SetNull(int(i))
		}
	}, cast...), nil
}

// NullIf is nullif(a, b): NULL where both are equal, else a.
func NullIf(a, b *Expr) (*Expr, error) {
	same, err := Call("=", []*Expr{a, b})
	if err != nil {
		return nil, err
	}
	e, err := Case([]*Expr{same}, []*Expr{nullOf(tNull)}, a)
	if err == nil {
		e.Text = "nullif(" + a.Text + ", " + b.Text + ")"
	}
	return e, err
}
