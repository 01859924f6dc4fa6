package expr

import (
	"slices"
	"sort"
	"strings"

	"tidemark/storage/row"
)

// function is what stands behind a name: overloads, or a binder of its own where DuckDB has one.
type function struct {
	overloads []overload
	bind      func(name string, args []*Expr) (*Expr, error)
}

// overload is one list of argument types.
type overload struct {
	args []row.Type
	// rest is the type of any further arguments; Null: there are none.
	rest     row.Type
	returns  row.Type
	nullable bool
	kernel   kernel
	// prepare makes the kernel from the arguments, so that a constant pattern or format is
	// compiled once. It may refuse.
	prepare func(args []*Expr) (kernel, error)
}

// table holds the functions by name.
type table map[string]*function

// functions is what Call knows. It is made by init, because binders call Call.
var functions table

func init() {
	functions = table{}
	functions.arithmetic()
	functions.comparisons()
	functions.temporal()
	functions.mathematics()
	functions.texts()
	functions.patterns()
	functions.nested()
	functions.withLambdas()
	functions.json()
	functions.misc()
}

// define adds overloads to a function.
func (t table) define(name string, o ...overload) {
	f := t[name]
	if f == nil {
		f = &function{}
		t[name] = f
	}
	f.overloads = append(f.overloads, o...)
}

// binder gives functions a binder of their own.
func (t table) binder(bind func(name string, args []*Expr) (*Expr, error), names ...string) {
	for _, n := range names {
		t[n] = &function{bind: bind}
	}
}

// alias gives a function further names.
func (t table) alias(name string, names ...string) {
	for _, n := range names {
		t[n] = t[name]
	}
}

// on is an overload of one result for these arguments.
func on(returns row.Type, k kernel, args ...row.Type) overload {
	return overload{args: args, returns: returns, kernel: k}
}

// Functions returns the names of all scalar functions, operators left out, in order.
func Functions() []string {
	var names []string
	for n := range functions {
		if c := n[0]; c >= 'a' && c <= 'z' {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	return names
}

// Known reports whether there is a scalar function or operator of this name.
func Known(name string) bool { return functions[strings.ToLower(name)] != nil }

// Call binds a function or operator, named as DuckDB names it in any case: lower, date_trunc, +,
// =, ~~ (LIKE). Errors are *Mismatch and *Unknown.
func Call(name string, args []*Expr) (*Expr, error) {
	name = strings.ToLower(name)
	f := functions[name]
	if f == nil {
		return nil, &Unknown{Name: name, Similar: similar(name)}
	}
	if f.bind != nil {
		e, err := f.bind(name, args)
		if err != nil {
			return nil, err
		}
		return untypedNull(name, args, e), nil
	}
	return bindOverload(name, f.overloads, args)
}

// bindOverload binds the overload that fits best.
func bindOverload(name string, overloads []overload, args []*Expr) (*Expr, error) {
	o := choose(overloads, args)
	if o == nil {
		m := mismatch(name, args)
		for _, o := range overloads {
			m.Takes = append(m.Takes, o.signature())
		}
		return nil, m
	}
	cast := make([]*Expr, len(args))
	for i, a := range args {
		c, err := implicit(a, o.arg(i))
		if err != nil {
			return nil, err
		}
		cast[i] = c
	}
	k := o.kernel
	if o.prepare != nil {
		var err error
		if k, err = o.prepare(cast); err != nil {
			return nil, err
		}
	}
	e := &Expr{Type: o.returns, Text: callText(name, args), form: formCall, kernel: k, args: cast, nullable: o.nullable}
	return untypedNull(name, args, e.fold()), nil
}

// untyped are the functions whose result DuckDB types while it binds their arguments: for one that is
// a constant NULL it never comes to that, whatever its type, and the result is a NULL without type.
var untyped = words("+ - * % add subtract multiply mod abs @ round floor ceil ceiling trunc list_extract list_element array_extract " +
	"list_sort array_sort list_reverse_sort array_reverse_sort list_distinct array_distinct flatten")

func words(s string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(s) {
		out[w] = true
	}
	return out
}

// untypedNull is e, or the NULL without type that DuckDB has in its place.
func untypedNull(name string, args []*Expr, e *Expr) *Expr {
	if !untyped[name] || !slices.ContainsFunc(args, (*Expr).isNull) {
		return e
	}
	if e.Type.Kind == row.Decimal || args[0].Type.Kind == row.List {
		return nullOf(tNull)
	}
	return e
}

func (o *overload) arg(i int) row.Type {
	if i < len(o.args) {
		return o.args[i]
	}
	return o.rest
}

func (o *overload) signature() string {
	var b strings.Builder
	b.WriteByte('(')
	for i, t := range o.args {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t.String())
	}
	if o.rest.Kind != row.Null {
		b.WriteString(", " + o.rest.String() + "…")
	}
	b.WriteByte(')')
	return b.String()
}

// choose returns the overload whose casts cost least, the first of equals; nil when none fits.
func choose(overloads []overload, args []*Expr) *overload {
	var best *overload
	least, tie := noCast, false
	for k := range overloads {
		o := &overloads[k]
		if len(args) < len(o.args) || len(args) > len(o.args) && o.rest.Kind == row.Null {
			continue
		}
		sum := 0
		for i, a := range args {
			c := castCost(a, o.arg(i))
			if c == noCast {
				sum = noCast
				break
			}
			sum += c
		}
		if sum < least {
			best, least, tie = o, sum, false
		} else if sum == least && best != nil {
			tie = true
		}
	}
	if tie && slices.ContainsFunc(args, (*Expr).isStringLiteral) {
		return nil // DuckDB asks for a cast here
	}
	return best
}

// infix are the operators that are written between their arguments.
var infix = map[string]string{
	"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE", "~~~": "GLOB",
}

func callText(name string, args []*Expr) string {
	if c := name[0]; c < 'a' || c > 'z' {
		if len(args) == 1 {
			return name + operand(args[0])
		}
		if len(args) == 2 {
			if word, ok := infix[name]; ok {
				name = word
			}
			return operand(args[0]) + " " + name + " " + operand(args[1])
		}
	}
	return name + "(" + texts(args) + ")"
}

// operand puts what is not plainly one thing into parentheses.
func operand(e *Expr) string {
	depth, quoted := 0, false
	for i := 0; i < len(e.Text); i++ {
		switch c := e.Text[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ' ' && depth == 0:
			return "(" + e.Text + ")"
		}
	}
	return e.Text
}

func texts(args []*Expr) string {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = a.Text
	}
	return strings.Join(parts, ", ")
}

// similar returns up to three names that are near to a wrong one.
func similar(name string) []string {
	type scored struct {
		name  string
		steps int
	}
	var near []scored
	for _, n := range Functions() {
		if d := distance(name, n); d <= 1+len(name)/4 {
			near = append(near, scored{n, d})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return a.steps - b.steps })
	var out []string
	for _, s := range near[:min(3, len(near))] {
		out = append(out, s.name)
	}
	return out
}

// distance counts the letters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		diagonal := last[0]
		last[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, last[j], last[j+1])
			}
			diagonal, last[j+1] = last[j+1], cost
		}
	}
	return last[len(b)]
}

// The shapes of kernels. Each is a loop over the rows with the physical class's slices.

func i64(v *row.Vector) []int64       { return v.I64 }
func f64(v *row.Vector) []float64     { return v.F64 }
func i128(v *row.Vector) []row.Int128 { return v.I128 }
func str(v *row.Vector) []string      { return v.Str }

type slice[T any] func(*row.Vector) []T

// map1 is the kernel of a function of one argument that always has a value.
func map1[A, R any](a slice[A], r slice[R], f func(A) R) kernel {
	return func(c *call) {
		x, out := a(c.args[0]), r(c.out)
		for _, i := range c.rows {
			out[i] = f(x[i])
		}
	}
}

func map2[A, B, R any](a slice[A], b slice[B], r slice[R], f func(A, B) R) kernel {
	return func(c *call) {
		x, y, out := a(c.args[0]), b(c.args[1]), r(c.out)
		for _, i := range c.rows {
			out[i] = f(x[i], y[i])
		}
	}
}

func map3[A, B, C, R any](a slice[A], b slice[B], d slice[C], r slice[R], f func(A, B, C) R) kernel {
	return func(c *call) {
		x, y, z, out := a(c.args[0]), b(c.args[1]), d(c.args[2]), r(c.out)
		for _, i := range c.rows {
			out[i] = f(x[i], y[i], z[i])
		}
	}
}

// errNull says that a function has no value for its arguments: the result is NULL.
var errNull = &Failure{}

// try1 is map1 for a function that may fail, or give NULL by errNull.
func try1[A, R any](a slice[A], r slice[R], f func(A) (R, *Failure)) kernel {
	return func(c *call) {
		x, out := a(c.args[0]), r(c.out)
		for _, i := range c.rows {
			v, err := f(x[i])
			if err != nil {
				c.miss(i, err)
				continue
			}
			out[i] = v
		}
	}
}

func try2[A, B, R any](a slice[A], b slice[B], r slice[R], f func(A, B) (R, *Failure)) kernel {
	return func(c *call) {
		x, y, out := a(c.args[0]), b(c.args[1]), r(c.out)
		for _, i := range c.rows {
			v, err := f(x[i], y[i])
			if err != nil {
				c.miss(i, err)
				continue
			}
			out[i] = v
		}
	}
}

func try3[A, B, C, R any](a slice[A], b slice[B], d slice[C], r slice[R], f func(A, B, C) (R, *Failure)) kernel {
	return func(c *call) {
		x, y, z, out := a(c.args[0]), b(c.args[1]), d(c.args[2]), r(c.out)
		for _, i := range c.rows {
			v, err := f(x[i], y[i], z[i])
			if err != nil {
				c.miss(i, err)
				continue
			}
			out[i] = v
		}
	}
}

// miss gives row i no value: NULL, and a failure unless err is errNull.
func (c *call) miss(i int32, err *Failure) {
	if err == errNull {
		c.null(i)
		return
	}
	c.fail(i, err)
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
