package expr

import (
	"slices"
	"strings"
	"sync/atomic"

	"tidemark/storage/row"
)

// Expr is a typed, compiled expression. Build it with Column, Const, Call and the like.
type Expr struct {
	// Type is the type of the values.
	Type row.Type
	// Text is the expression as SQL, for messages and plans.
	Text string

	form     form
	column   int
	value    *row.Vector // of a constant: one value
	args     []*Expr
	kernel   kernel
	lazy     lazy
	junction junction
	// nullable: the kernel sees rows with null arguments too; else NULL in gives NULL out.
	nullable bool
	lambda   *lambda // of list_transform and the like

	// Scratch memory.
	out     row.Vector
	view    row.Vector // of a constant: the first values of out, which holds it many times
	filled  bool       // of a constant: out holds it
	vectors []*row.Vector
	rows    []int32
	sel     [2][]int32
	memo    *memo
}

// form is how an Expr comes to its values.
type form uint8

const (
	formColumn  form = iota
	formLiteral      // a constant as it stands in the text: it bends to the types around it
	formConst        // a folded constant
	formCall         // kernel over all arguments
	formLazy         // decides by itself which rows of which argument to compute
)

// kernel computes c.out at c.rows.
type kernel func(c *call)

// lazy computes e over sel rows of in into e.out.
type lazy func(e *Expr, in *row.Batch, sel []int32, errs *Errors)

// call is one evaluation of one kernel.
type call struct {
	args []*row.Vector
	out  *row.Vector
	// rows are the selected rows; unless the call is nullable those without a null argument.
	rows []int32
	errs *Errors
	n    int // length of the vectors
	expr *Expr
}

// null makes the result of row i NULL.
func (c *call) null(i int32) { c.out.SetNull(int(i)) }

// fail notes that row i has no value.
func (c *call) fail(i int32, err *Failure) {
	c.errs.Set(int(i), err.Code, err.Message)
	c.out.SetNull(int(i))
}

// Column returns the expression that reads column i of the batch.
func Column(i int, f row.Field) *Expr {
	return &Expr{Type: f.Type, Text: row.QuoteName(f.Name), form: formColumn, column: i}
}

// Const returns a literal: v's first value. Like DuckDB's, string and integer literals take the
// type that their surroundings want.
func Const(v *row.Vector) *Expr {
	one := row.NewVector(v.Type, 1)
	one.AppendFrom(v, 0)
	return &Expr{Type: v.Type, Text: literalText(one), form: formLiteral, value: one}
}

// folded is Const for a value that was computed and so has a type of its own.
func folded(v *row.Vector, text string) *Expr {
	e := Const(v)
	e.form, e.Text = formConst, text
	return e
}

// literalText writes a constant as SQL.
func literalText(v *row.Vector) string {
	if v.IsNull(0) || v.Type.Kind == row.Null {
		return "NULL"
	}
	text := row.TextOf(v, 0)
	switch {
	case v.Type.IsNumeric() || v.Type.Kind == row.Boolean:
		return text
	case v.Type.Kind == row.Varchar:
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'::" + v.Type.String()
}

// IsConst reports whether the expression has the same value for every row.
func (e *Expr) IsConst() bool { return e.form == formLiteral || e.form == formConst }

// ConstValue returns the value of a constant, a vector of length 1; nil for others.
func (e *Expr) ConstValue() *row.Vector { return e.value }

// isNull reports whether e is the constant NULL.
func (e *Expr) isNull() bool { return e.IsConst() && e.value.IsNull(0) }

// Reads returns the numbers of the columns that the expression reads, in ascending order.
func (e *Expr) Reads() []int {
	var cols []int
	e.walk(func(e *Expr) {
		if e.form == formColumn {
			cols = append(cols, e.column)
		}
	})
	slices.Sort(cols)
	return slices.Compact(cols)
}

// ColumnNumber returns the column that e reads when it is nothing but a column, else −1.
func (e *Expr) ColumnNumber() int {
	if e.form == formColumn {
		return e.column
	}
	return -1
}

func (e *Expr) walk(f func(*Expr)) {
	f(e)
	for _, a := range e.args {
		a.walk(f)
	}
}

// Renumber returns the expression over a batch in which column i stands at to[i].
func (e *Expr) Renumber(to func(column int) int) *Expr {
	c := e.Clone()
	c.walk(func(e *Expr) {
		if e.form == formColumn {
			e.column = to(e.column)
		}
	})
	return c
}

// Replaced returns e with the parts that whole is true of replaced by what by gives for them, from
// the outside in; columns and constants stay. Only parts that are computed for every row are: of
// CASE and coalesce the first alone. AND and OR promise no order: operands that are replaced as a
// whole come first and as one, and what is replaced inside the others is computed where those
// don't decide.
func (e *Expr) Replaced(whole func(part *Expr) bool, by func(part *Expr) *Expr) *Expr {
	return e.replaced(whole, by, nil)
}

func (e *Expr) replaced(whole func(*Expr) bool, by func(*Expr) *Expr, when *Expr) *Expr {
	switch {
	case e.IsConst() || e.form == formColumn:
		return e
	case whole(e):
		return by(e.onlyWhere(when))
	}
	c := e.Clone()
	if e.junction == 0 {
		for i, a := range e.args {
			if i == 0 || e.form == formCall {
				c.args[i] = a.replaced(whole, by, when)
			}
		}
		return c
	}
	var first, rest []*Expr
	for _, a := range e.args {
		if whole(a) {
			first = append(first, a)
		} else {
			rest = append(rest, a)
		}
	}
	c.args = c.args[:0]
	if len(first) > 0 {
		one := first[0]
		if len(first) > 1 {
			one = mustJoin(e.junction, first)
		}
		c.args = append(c.args, one.replaced(whole, by, when))
		when = both(when, one.undecided(e.junction))
	}
	for _, a := range rest {
		c.args = append(c.args, a.replaced(whole, by, when))
	}
	return c
}

// onlyWhere is e where a condition holds, else NULL; nil: everywhere.
func (e *Expr) onlyWhere(when *Expr) *Expr {
	if when == nil {
		return e
	}
	c, err := Case([]*Expr{when.Clone()}, []*Expr{e.Clone()}, nil)
	if err != nil {
		panic(err) // one branch has one type
	}
	return c
}

func both(a, b *Expr) *Expr {
	if a == nil {
		return b
	}
	return mustJoin(junctionAnd, []*Expr{a, b})
}

// Clone returns a copy with scratch memory of its own.
func (e *Expr) Clone() *Expr {
	c := &Expr{
		Type: e.Type, Text: e.Text, form: e.form, column: e.column, value: e.value,
		kernel: e.kernel, lazy: e.lazy, nullable: e.nullable, junction: e.junction,
		lambda: e.lambda.clone(),
	}
	c.args = make([]*Expr, len(e.args))
	for i, a := range e.args {
		c.args[i] = a.Clone()
	}
	return c
}

// String returns the expression as SQL.
func (e *Expr) String() string { return e.Text }

// Eval computes the rows of in whose numbers are in sel (nil: all). The result has in.Len values,
// of which only the selected ones are defined; it is valid until the next Eval of e. Rows that
// fail are noted in errs and NULL.
func (e *Expr) Eval(in *row.Batch, sel []int32, errs *Errors) *row.Vector {
	switch e.form {
	case formColumn:
		return in.Cols[e.column]
	case formLiteral, formConst:
		return e.spread(in.Len)
	case formLazy:
		e.start(in.Len)
		e.lazy(e, in, sel, errs)
		return &e.out
	}
	if e.vectors == nil {
		e.vectors = make([]*row.Vector, len(e.args))
	}
	nulls := false
	for i, a := range e.args {
		v := a.Eval(in, sel, errs)
		e.vectors[i] = v
		nulls = nulls || len(v.Nulls) > 0
	}
	e.start(in.Len)
	rows := sel
	if rows == nil {
		rows = identity(in.Len)
	}
	if nulls && !e.nullable {
		rows = e.notNull(rows)
	}
	c := call{args: e.vectors, out: &e.out, rows: rows, errs: errs, n: in.Len, expr: e}
	if e.Type.Class() != row.StringClass {
		e.kernel(&c)
		return &e.out
	}
	c.rows = c.within()
	e.kernel(&c)
	c.bound()
	return &e.out
}

// Select returns the rows of sel (nil: all) for which a BOOLEAN expression is true. The result is
// valid until the next use of e. Rows that fail are noted in errs and left out.
func (e *Expr) Select(in *row.Batch, sel []int32, errs *Errors) []int32 {
	v := e.Eval(in, sel, errs)
	if sel == nil {
		sel = identity(in.Len)
	}
	out := e.sel[0][:0]
	if len(v.Nulls) == 0 {
		for _, i := range sel {
			if v.I64[i] != 0 {
				out = append(out, i)
			}
		}
	} else {
		for _, i := range sel {
			if v.I64[i] != 0 && !v.Nulls.Get(int(i)) {
				out = append(out, i)
			}
		}
	}
	e.sel[0] = out
	return out
}

// start makes e.out ready for n results.
func (e *Expr) start(n int) {
	e.out.Type = e.Type
	e.out.Resize(n)
}

// spread returns the constant n times.
func (e *Expr) spread(n int) *row.Vector {
	if !e.filled {
		e.out.Reset(e.Type)
		e.filled = true
	}
	for i := e.out.Len(); i < n; i++ {
		e.out.AppendFrom(e.value, 0)
	}
	e.view = e.out
	e.view.Nulls = slices.Clone(e.out.Nulls) // Truncate clears bits, and e.out must keep its own
	e.view.Truncate(n)
	return &e.view
}

// notNull gives NULL to the rows with a null argument and returns the others.
func (e *Expr) notNull(rows []int32) []int32 {
	if cap(e.rows) < len(rows) {
		e.rows = make([]int32, 0, len(rows))
	}
	keep := e.rows[:0]
next:
	for _, i := range rows {
		for _, v := range e.vectors {
			if v.IsNull(int(i)) {
				e.out.SetNull(int(i))
				continue next
			}
		}
		keep = append(keep, i)
	}
	e.rows = keep
	return keep
}

// numbers holds 0, 1, 2, …; it only ever grows into a new slice.
var numbers atomic.Pointer[[]int32]

// identity returns the row numbers 0 … n−1, to be read only.
func identity(n int) []int32 {
	if p := numbers.Load(); p != nil && len(*p) >= n {
		return (*p)[:n:n]
	}
	s := make([]int32, max(4096, n+n/2))
	for i := range s {
		s[i] = int32(i)
	}
	numbers.Store(&s)
	return s[:n:n]
}

// fold computes e now if all its arguments are constant and it does not fail.
func (e *Expr) fold() *Expr {
	for _, a := range e.args {
		if !a.IsConst() {
			return e
		}
	}
	var errs Errors
	v := e.Eval(&row.Batch{Len: 1}, nil, &errs)
	if errs.Any() {
		return e // the rows that reach it fail
	}
	return folded(v, e.Text)
}

// newCall makes a call node; arguments have the types that the kernel wants.
func newCall(t row.Type, text string, k kernel, args ...*Expr) *Expr {
	e := &Expr{Type: t, Text: text, form: formCall, kernel: k, args: args}
	return e.fold()
}

// newNullable is newCall for a kernel that looks at nulls itself.
func newNullable(t row.Type, text string, k kernel, args ...*Expr) *Expr {
	e := &Expr{Type: t, Text: text, form: formCall, kernel: k, args: args, nullable: true}
	return e.fold()
}

func newLazy(t row.Type, text string, l lazy, args ...*Expr) *Expr {
	e := &Expr{Type: t, Text: text, form: formLazy, lazy: l, args: args}
	return e.fold()
}

// null returns the constant NULL of type t.
func nullOf(t row.Type) *Expr {
	v := row.NewVector(t, 1)
	v.AppendNull()
	return folded(v, "NULL")
}
