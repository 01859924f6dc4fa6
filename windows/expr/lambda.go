package expr

import (
	"strings"

	"tidemark/storage/row"
)

// lambdas are the functions that call another for the elements of a list, by what they do.
var lambdas = map[string]lambdaKind{
	"list_transform": transforms, "array_transform": transforms, "list_apply": transforms, "array_apply": transforms, "apply": transforms,
	"list_filter": filters, "array_filter": filters, "filter": filters,
	"list_reduce": reduces, "array_reduce": reduces, "reduce": reduces,
}

type lambdaKind uint8

const (
	transforms lambdaKind = iota + 1
	filters
	reduces
)

// TakesLambda reports whether a function takes a lambda function behind its list.
func TakesLambda(name string) bool { return lambdas[strings.ToLower(name)] != 0 }

// withLambdas fills the functions that Lambda binds: called without one they say so.
func (t table) withLambdas() {
	for name := range lambdas {
		t.binder(func(name string, args []*Expr) (*Expr, error) {
			return nil, &Mismatch{Name: name, Reason: name + " takes a list and a lambda function: " + name + "(list, x -> …)"}
		}, name)
	}
}

// paramColumn is the number of the first column that stands for a parameter while a body is bound.
// A number belongs to one lambda function of an expression, so that one inside another finds both.
const paramColumn = 1 << 27

// Param is a lambda function's parameter number n, counted through those around it.
func Param(n int, f row.Field) *Expr { return Column(paramColumn+n, f) }

// ParamTypes are the types of the parameters that a lambda function of this function may have, for a
// list of this type.
func ParamTypes(name string, list row.Type) ([]row.Type, error) {
	name = strings.ToLower(name)
	if list.Kind != row.List || list.Elem.Kind == row.Null {
		return nil, &Mismatch{Name: name, Types: []row.Type{list}}
	}
	if lambdas[name] == reduces {
		return []row.Type{*list.Elem, *list.Elem}, nil
	}
	return []row.Type{*list.Elem, tBig}, nil // the element, and its place from 1 on
}

// Lambda binds list_transform and the like. The body is computed once for all elements of all lists
// of a batch: over a batch of its own, whose columns are the parameters, from number first on, and
// what the body reads of the row, repeated for each element.
func Lambda(name string, list *Expr, first int, params []string, body *Expr) (*Expr, error) {
	name = strings.ToLower(name)
	kind := lambdas[name]
	types, err := ParamTypes(name, list.Type)
	switch {
	case err != nil:
		return nil, err
	case len(params) == 0 || len(params) > 2 || kind == reduces && len(params) != 2:
		return nil, &Mismatch{Name: name, Reason: name + " takes a lambda function of " + map[bool]string{true: "two parameters", false: "one or two parameters"}[kind == reduces]}
	}
	head := params[0]
	if len(params) > 1 {
		head = "(" + strings.Join(params, ", ") + ")"
	}
	text := name + "(" + list.Text + ", " + head + " -> " + body.Text + ")"
	t := list.Type
	switch kind {
	case transforms:
		if body.Type.Kind == row.Null { // as DuckDB types a column of NULLs
			body, err = Cast(body, tInt, false)
		}
		t = row.ListOf(body.Type)
	case filters:
		body, err = Cast(body, tBool, false)
	case reduces:
		t = *list.Type.Elem
		body, err = Cast(body, t, false)
	}
	if err != nil {
		return nil, err
	}
	l := &lambda{kind: kind, params: types[:len(params)]}
	args := []*Expr{list}
	place := map[int]int{}
	for _, c := range body.Reads() {
		if c >= paramColumn+first && c < paramColumn+first+len(params) {
			place[c] = c - paramColumn - first
			continue
		}
		place[c] = len(params) + len(args) - 1
		args = append(args, Column(c, body.columnField(c)))
	}
	l.body = body.Renumber(func(c int) int { return place[c] })
	e := &Expr{Type: t, Text: text, form: formCall, kernel: runLambda, args: args, nullable: true, lambda: l}
	return e.fold(), nil
}

// columnField is what the column of a number is to the expression that reads it.
func (e *Expr) columnField(column int) (f row.Field) {
	e.walk(func(e *Expr) {
		if e.form == formColumn && e.column == column {
			f = row.Field{Name: e.Text, Type: e.Type}
		}
	})
	return f
}

// lambda is the function that an Expr calls for the elements of a list, with its scratch memory.
type lambda struct {
	kind   lambdaKind
	params []row.Type
	body   *Expr

	in    row.Batch
	rows  []int32 // the row of each element
	ends  []int32 // of each row of the call: where its elements end
	elems *row.Vector
	errs  Errors
}

func (l *lambda) clone() *lambda {
	if l == nil {
		return nil
	}
	return &lambda{kind: l.kind, params: l.params, body: l.body.Clone()}
}

// reset makes the batch of the body empty.
func (l *lambda) reset(c *call) {
	if l.in.Cols == nil {
		l.elems = row.NewVector(l.params[0], 0)
		for _, t := range l.params {
			l.in.Cols = append(l.in.Cols, row.NewVector(t, 0))
		}
		for _, a := range c.args[1:] {
			l.in.Cols = append(l.in.Cols, row.NewVector(a.Type, 0))
		}
	}
	for _, v := range l.in.Cols {
		v.Reset(v.Type)
	}
	l.in.Len, l.rows = 0, l.rows[:0]
	l.errs.Reset()
}

// add appends an element of row i to the batch, params being its parameters.
func (l *lambda) add(c *call, i int32) {
	for k, a := range c.args[1:] {
		l.in.Cols[len(l.params)+k].AppendFrom(a, int(i))
	}
	l.rows = append(l.rows, i)
	l.in.Len++
}

// eval computes the body; a row fails with the first of its elements that does.
func (l *lambda) eval(c *call) *row.Vector {
	out := l.body.Eval(&l.in, nil, &l.errs)
	l.errs.Each(func(f Failure) { c.fail(l.rows[f.Row], &f) })
	return out
}

// runLambda is the kernel of what Lambda binds.
func runLambda(c *call) {
	l := c.expr.lambda
	l.reset(c)
	l.elems.Reset(l.elems.Type)
	l.ends = l.ends[:0]
	for _, i := range c.rows {
		if c.args[0].IsNull(int(i)) {
			c.null(i)
		} else if err := decodeElements(c.args[0], int(i), l.elems); err != nil {
			c.fail(i, conversion("a list can't be read: %v", err))
		}
		l.ends = append(l.ends, int32(l.elems.Len()))
	}
	if l.kind == reduces {
		l.reduce(c)
		return
	}
	from := int32(0)
	for r, i := range c.rows {
		for k := from; k < l.ends[r]; k++ {
			l.in.Cols[0].AppendFrom(l.elems, int(k))
			if len(l.params) > 1 {
				l.in.Cols[1].AppendInt64(int64(k-from) + 1)
			}
			l.add(c, i)
		}
		from = l.ends[r]
	}
	values := l.eval(c)
	var list []byte
	from = 0
	for r, i := range c.rows {
		list = list[:0]
		for k := from; k < l.ends[r]; k++ {
			switch {
			case l.kind == transforms:
				list = row.AppendElement(list, values, int(k))
			case !values.IsNull(int(k)) && values.I64[k] != 0:
				list = row.AppendElement(list, l.elems, int(k))
			}
		}
		from = l.ends[r]
		if !c.args[0].IsNull(int(i)) && !c.errs.Failed(int(i)) {
			c.out.Str[i] = string(list)
		}
	}
}

// reduce computes the body for the second element of each list, then for the third, and so on.
func (l *lambda) reduce(c *call) {
	elem := *c.args[0].Type.Elem
	sums, next := row.NewVector(elem, len(c.rows)), row.NewVector(elem, len(c.rows))
	var at, ends []int32 // the lists that go on: their next element and their end
	var rows []int32
	from := int32(0)
	for r, i := range c.rows {
		switch end := l.ends[r]; {
		case c.args[0].IsNull(int(i)) || c.errs.Failed(int(i)):
		case from == end:
			c.fail(i, invalidInput("Cannot perform list_reduce on an empty input list"))
		default:
			sums.AppendFrom(l.elems, int(from))
			at, ends, rows = append(at, from+1), append(ends, end), append(rows, i)
		}
		from = l.ends[r]
	}
	for len(rows) > 0 {
		l.reset(c)
		going := 0
		for k, i := range rows {
			if at[k] == ends[k] {
				copyValue(c.out, int(i), sums, k)
				continue
			}
			l.in.Cols[0].AppendFrom(sums, k)
			l.in.Cols[1].AppendFrom(l.elems, int(at[k]))
			l.add(c, i)
			at[going], ends[going], rows[going] = at[k]+1, ends[k], i
			going++
		}
		at, ends, rows = at[:going], ends[:going], rows[:going]
		values := l.eval(c)
		next.Reset(elem)
		going = 0
		for k, i := range rows {
			if c.errs.Failed(int(i)) {
				continue
			}
			next.AppendFrom(values, k)
			at[going], ends[going], rows[going] = at[k], ends[k], i
			going++
		}
		at, ends, rows = at[:going], ends[:going], rows[:going]
		sums, next = next, sums
	}
}

// decodeElements appends the elements of list i of v to a vector.
func decodeElements(v *row.Vector, i int, into *row.Vector) error {
	for src := []byte(v.Str[i]); len(src) > 0; {
		var err error
		if src, err = row.DecodeKey(into.Type, src, into); err != nil {
			return err
		}
	}
	return nil
}
