package expr

import (
	"slices"
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

// Lambda binds list_transform and the like. The body is computed for the elements of many lists
// together: over a batch of its own, whose columns are the parameters, from number first on, and
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
	l := &lambda{kind: kind, params: types[:len(params)], limit: maxText, most: mostElements, outer: true}
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
	l.find()
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
	limit  int   // of what it makes of one row, in bytes
	most   int64 // mostElements

	// inner are the lambda functions in the body, without those in theirs. work counts for each row of
	// the batch in work the elements that were computed, also by those.
	inner []*lambda
	outer bool // in no other's body
	work  []int64

	in    row.Batch
	rows  []int32 // the row of each element in it
	bytes int     // of the texts, lists and STRUCTs in it
	elems *row.Vector
	errs  Errors
}

// How many elements are computed together: fewer where each makes lists of its own, has much of its
// row, or is a text that may grow, so that what is under way stays small whatever a few long lists make
// of each other.
const (
	lambdaBatch = 4096
	nestedBatch = 4 // and 1 where those make lists of lists
	textBatch   = 16
	lambdaBytes = 4 << 20
	// mostElements is for how many elements lambda functions are computed at most for one row, those inside
	// one another together: a few of them over a list of a hundred would have no end.
	mostElements = 1 << 24
)

// batch is how many elements the body is computed for at once.
func (l *lambda) batch() int {
	n := lambdaBatch
	for _, in := range l.inner {
		if n = min(n, nestedBatch); len(in.inner) > 0 {
			n = 1
		}
	}
	return n
}

// find finds the lambda functions in the body.
func (l *lambda) find() {
	l.body.walk(func(e *Expr) {
		if e.lambda != nil {
			l.inner = append(l.inner, e.lambda)
			e.lambda.outer = false
		}
	})
}

// begin begins to count for n rows.
func (l *lambda) begin(n int) {
	l.work = slices.Grow(l.work[:0], n)[:n]
	clear(l.work)
}

func (l *lambda) clone() *lambda {
	if l == nil {
		return nil
	}
	c := &lambda{kind: l.kind, params: l.params, body: l.body.Clone(), limit: l.limit, most: l.most, outer: l.outer}
	c.find()
	return c
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
	l.in.Len, l.rows, l.bytes = 0, l.rows[:0], 0
	l.errs.Reset()
}

// add appends an element of row i to the batch, params being its parameters.
func (l *lambda) add(c *call, i int32) {
	for k, a := range c.args[1:] {
		l.in.Cols[len(l.params)+k].AppendFrom(a, int(i))
	}
	for _, v := range l.in.Cols {
		if v.Type.Class() == row.StringClass {
			l.bytes += len(v.Str[l.in.Len])
		}
	}
	l.rows = append(l.rows, i)
	l.in.Len++
}

// eval computes the body; a row fails with the first of its elements that does.
func (l *lambda) eval(c *call) *row.Vector {
	for _, in := range l.inner {
		in.begin(l.in.Len)
	}
	out := l.body.Eval(&l.in, nil, &l.errs)
	l.errs.Each(func(f Failure) { c.fail(l.rows[f.Row], &f) })
	for k, i := range l.rows {
		l.work[i]++
		for _, in := range l.inner {
			l.work[i] += in.work[k]
		}
		if l.work[i] > l.most {
			c.fail(i, outOfRange("lambda functions would be computed for more than %d elements of one row", l.most))
		}
	}
	return out
}

// runLambda is the kernel of what Lambda binds.
func runLambda(c *call) {
	l := c.expr.lambda
	if l.outer {
		l.begin(c.n)
	}
	l.reset(c)
	if l.kind == reduces {
		l.reduceAll(c)
		return
	}
	// Elements wait in the batch until there are enough; list is what has come of the row now.
	var list []byte
	now, most := int32(-1), l.batch()
	flush := func() {
		values := l.eval(c)
		for k, i := range l.rows {
			if i != now {
				now, list = i, list[:0]
			}
			switch {
			case c.errs.Failed(int(i)):
			case l.kind == transforms:
				list = row.AppendElement(list, values, k)
			case !values.IsNull(k) && values.I64[k] != 0:
				list = row.AppendElement(list, l.in.Cols[0], k)
			}
			if len(list) > l.limit {
				c.fail(i, outOfRange("a lambda function would make a list of more than %d bytes", l.limit))
				list = list[:0]
			}
			if (k+1 == len(l.rows) || l.rows[k+1] != i) && !c.errs.Failed(int(i)) {
				c.out.Str[i] = string(list)
			}
		}
		l.reset(c)
	}
	for _, i := range c.rows {
		if !l.decode(c, i) {
			continue
		}
		c.out.Str[i] = ""
		for k := 0; k < l.elems.Len() && !c.errs.Failed(int(i)); k++ {
			l.in.Cols[0].AppendFrom(l.elems, k)
			if len(l.params) > 1 {
				l.in.Cols[1].AppendInt64(int64(k) + 1)
			}
			if l.add(c, i); l.in.Len >= most || l.bytes >= lambdaBytes {
				flush()
			}
		}
	}
	flush()
}

// decode reads the elements of row i, and reports whether there is a list.
func (l *lambda) decode(c *call, i int32) bool {
	l.elems.Reset(l.elems.Type)
	if c.args[0].IsNull(int(i)) {
		c.null(i)
		return false
	}
	if err := decodeElements(c.args[0], int(i), l.elems); err != nil {
		c.fail(i, conversion("a list can't be read: %v", err))
		return false
	}
	return true
}

// reduceAll reduces the lists, several at a time.
func (l *lambda) reduceAll(c *call) {
	most := l.batch()
	if l.params[0].Class() == row.StringClass {
		most = min(most, textBatch)
	}
	var lists []*row.Vector
	var rows []int32
	elements := 0
	for n, i := range c.rows {
		switch ok := l.decode(c, i); {
		case !ok:
		case l.elems.Len() == 0:
			c.fail(i, invalidInput("Cannot perform list_reduce on an empty input list"))
		default:
			lists, rows, elements = append(lists, l.elems), append(rows, i), elements+l.elems.Len()
			l.elems = row.NewVector(l.elems.Type, 0)
		}
		if elements >= lambdaBatch || len(rows) >= most || n == len(c.rows)-1 {
			l.reduce(c, lists, rows)
			lists, rows, elements = nil, nil, 0
		}
	}
}

// reduce computes the body for the second element of each list, then for the third, and so on.
func (l *lambda) reduce(c *call, lists []*row.Vector, rows []int32) {
	elem := *c.args[0].Type.Elem
	sums, next := row.NewVector(elem, len(rows)), row.NewVector(elem, len(rows))
	for _, list := range lists {
		sums.AppendFrom(list, 0)
	}
	for at := 1; len(rows) > 0; at++ {
		l.reset(c)
		going := 0
		for k, i := range rows {
			if at == lists[k].Len() {
				copyValue(c.out, int(i), sums, k)
				continue
			}
			l.in.Cols[0].AppendFrom(sums, k)
			l.in.Cols[1].AppendFrom(lists[k], at)
			l.add(c, i)
			lists[going], rows[going] = lists[k], i
			going++
		}
		lists, rows = lists[:going], rows[:going]
		values := l.eval(c)
		next.Reset(elem)
		going = 0
		for k, i := range rows {
			if elem.Class() == row.StringClass && len(values.Str[k]) > l.limit {
				c.fail(i, outOfRange("a lambda function would make a value of more than %d bytes", l.limit))
			}
			if c.errs.Failed(int(i)) {
				continue
			}
			next.AppendFrom(values, k)
			lists[going], rows[going] = lists[k], i
			going++
		}
		lists, rows = lists[:going], rows[:going]
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
