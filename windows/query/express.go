package query

import (
	"errors"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/expr"
)

// value binds an expression.
func (b *binder) value(e sqlExpr, s *scope) *expr.Expr {
	if b.steps++; b.steps > maxSteps {
		refuse(problem.New(422, "sql_too_complex", "the SQL has more than %d expressions, aliases written out each time", maxSteps).At(max(0, e.head().at)).
			WithHint("put the inner expressions into a subquery"))
	}
	if c, ok := e.(*columnRef); ok {
		if x, path := s.param(c); x != nil {
			return b.members(x, path, c)
		}
	}
	if s.groups != nil && !s.readsParams(e) {
		if k, ok := s.groups.match(e); ok {
			return expr.Column(k, s.rel.field(k))
		}
	}
	switch e := e.(type) {
	case nil:
		refuse(unsupported(-1, "%s lacks an expression that belongs there", s.clause))
	case *columnAt:
		if s.groups != nil {
			refuse(notGrouped(e.name, e.at))
		}
		b.use(s.rel, e.col)
		return expr.Column(e.col, s.rel.field(e.col))
	case *columnRef:
		return b.column(e, s)
	case *literal:
		return expr.Const(e.value)
	case *call:
		return b.call(e, s)
	case *comparison:
		return b.comparison(e, s)
	case *conjunction:
		args := make([]*expr.Expr, len(e.args))
		for i, a := range e.args {
			args[i] = b.boolean(a, s)
		}
		if e.op == "OR" {
			return b.made(e)(expr.Or(args...))
		}
		return b.made(e)(expr.And(args...))
	case *operation:
		return b.operation(e, s)
	case *between:
		in := b.value(e.input, s)
		low := b.made(e)(expr.Call(">=", []*expr.Expr{in, b.value(e.lower, s)}))
		high := b.made(e)(expr.Call("<=", []*expr.Expr{in, b.value(e.upper, s)}))
		return b.made(e)(expr.And(low, high))
	case *caseWhen:
		return b.caseWhen(e, s)
	case *castTo:
		return b.made(e)(expr.Cast(b.value(e.child, s), e.to, e.try))
	case *arrow:
		if e.params != nil {
			refuse(unsupported(e.at, "a lambda function can't stand here").WithHint("it is the second argument of list_transform, list_filter and list_reduce"))
		}
		return b.call(&call{exprHead: e.exprHead, name: "->", operator: true, args: []sqlExpr{e.left, e.right}}, s)
	case *star:
		refuse(unsupported(e.at, "* can only stand alone in a SELECT list"))
	case *subqueryExpr:
		what := map[string]string{"EXISTS": "EXISTS (SELECT …)", "NOT_EXISTS": "EXISTS (SELECT …)", "ANY": "IN (SELECT …)"}[e.kind]
		if s, ok := e.query.(*selectQuery); ok && e.kind == "ANY" && unnested(s) != nil {
			refuse(unsupported(e.at, "ANY with another comparison than = isn't supported in a view").
				WithHint("write len(list_filter(list, x -> …)) > 0"))
		}
		if what == "" {
			what = "a subquery as a value"
		}
		refuse(unsupported(e.at, "%s isn't supported in %s", what, s.clause).
			WithHint("subqueries can stand in FROM: FROM (SELECT …) AS t"))
	case *over:
		if r := s.ranking; r != nil && r.key == canonical(e, s.base()) {
			r.numbered = true
			return expr.Column(numberColumn, row.Field{Name: "row_number()", Type: row.Scalar(row.BigInt)})
		}
		if s.overs == nil {
			refuse(problem.New(422, "bad_sql", "%s OVER can't stand in %s", e.name, s.clause).At(e.at).
				WithHint("window functions stand in the SELECT list and in QUALIFY"))
		}
		return s.overs.call(e)
	case *otherExpr:
		at := e.at
		if at < 0 { // a parameter, of which DuckDB doesn't tell the place
			at = parameterPlace(b.plan.SQL)
		}
		p := unsupported(at, "%s isn't supported in a view", e.what)
		switch e.what {
		case "a parameter":
			p = p.WithHint("write the value itself: a view has no other text than its SQL")
		case "COLUMNS(…)":
			p = p.WithHint("name the columns")
		}
		refuse(p)
	}
	return nil
}

// parameterPlace is where the first ? or $ outside of quotes stands, or −1.
func parameterPlace(sql string) int {
	quote := rune(0)
	for i, c := range sql {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '?' || c == '$':
			return i
		}
	}
	return -1
}

// column binds a reference to a column, a member of a STRUCT, or an alias.
func (b *binder) column(c *columnRef, s *scope) *expr.Expr {
	col, path, ok := s.base().resolve(c)
	if !ok {
		if inner, e := s.alias(c); e != nil {
			return b.value(e, inner)
		}
		if _, e := s.alias(&columnRef{c.exprHead, c.names[:1]}); e != nil {
			refuse(problem.New(422, "unknown_column", "there is no column %s", c.String()).At(c.at).
				WithHint("%s is a name of the SELECT list: write (%s).%s", c.names[0], c.names[0], strings.Join(c.names[1:], ".")))
		}
		if s.groups != nil {
			refuse(s.groups.in.unknownColumn(c))
		}
		refuse(s.rel.unknownColumn(c))
	}
	if s.groups != nil {
		// A member of a grouped STRUCT is found through its column.
		if len(path) > 0 {
			root := &columnAt{exprHead{at: c.at}, col, c.names[0]}
			if k, ok := s.groups.match(root); ok {
				return b.members(expr.Column(k, s.rel.field(k)), path, c)
			}
		}
		refuse(notGrouped(c.String(), c.at))
	}
	b.use(s.rel, col)
	return b.members(expr.Column(col, s.rel.field(col)), path, c)
}

// base is the relation that names are looked up in: the input of the aggregation, if there is one.
func (s *scope) base() *relation {
	if s.groups != nil {
		return s.groups.in
	}
	return s.rel
}

func notGrouped(name string, at int) *problem.Problem {
	return problem.New(422, "not_grouped", "the column %s must be in GROUP BY or inside an aggregate", name).At(at).
		WithHint("add it to GROUP BY, or take first(%s), min(%s), …", name, name)
}

// members follows a path into STRUCTs.
func (b *binder) members(e *expr.Expr, path []string, c *columnRef) *expr.Expr {
	for i, name := range path {
		if e.Type.Kind != row.Struct {
			refuse(problem.New(422, "unknown_column", "there is no column %s: %s is %s and has no members",
				c.String(), strings.Join(c.names[:len(c.names)-len(path)+i], "."), e.Type).At(c.at).
				WithHint("a member of a JSON column is read with ->> '$.%s'", strings.Join(path[i:], ".")))
		}
		if row.FieldIndex(e.Type.Fields, name) < 0 {
			var names []string
			for _, f := range e.Type.Fields {
				names = append(names, f.Name)
			}
			refuse(problem.New(422, "unknown_column", "there is no member %s in %s", name, strings.Join(c.names[:len(c.names)-len(path)+i], ".")).
				At(c.at).WithHint("its members are %s", strings.Join(names, ", ")))
		}
		e = b.made(c)(expr.StructField(e, name))
	}
	return e
}

// use notes that the plan depends on a column of a stream.
func (b *binder) use(r *relation, col int) {
	if c := r.cols[col]; c.number >= 0 {
		b.used[c.source][c.number] = true
	}
}

// made returns a function that takes what a constructor of expr answers and turns its errors into
// problems at the expression's place.
func (b *binder) made(e sqlExpr) func(*expr.Expr, error) *expr.Expr {
	return func(x *expr.Expr, err error) *expr.Expr {
		if err != nil {
			refuse(typeProblem(err, e))
		}
		return x
	}
}

// typeProblem says what does not fit in an expression.
func typeProblem(err error, e sqlExpr) *problem.Problem {
	var p *problem.Problem
	if errors.As(err, &p) {
		return p
	}
	at := leftmostExpr(e, e.head().at)
	if e.head().at >= 0 {
		at = e.head().at
	}
	var unknown *expr.Unknown
	if errors.As(err, &unknown) {
		return unsupported(at, "%v", err).WithHint("docs/sql.md lists the functions that a view can call; events can carry what another function would give")
	}
	return problem.New(422, "type_mismatch", "%v", err).At(at).WithHint("convert a part of it with a cast, as in value::DOUBLE")
}

// comparison binds =, <>, <, … and IS [NOT] DISTINCT FROM.
func (b *binder) comparison(e *comparison, s *scope) *expr.Expr {
	l, r := b.value(e.left, s), b.value(e.right, s)
	switch e.op {
	case "IS DISTINCT FROM":
		return b.made(e)(expr.DistinctFrom(l, r))
	case "IS NOT DISTINCT FROM":
		return b.made(e)(expr.NotDistinctFrom(l, r))
	}
	return b.made(e)(expr.Call(e.op, []*expr.Expr{l, r}))
}

// boolean binds an expression where SQL wants a truth value.
func (b *binder) boolean(e sqlExpr, s *scope) *expr.Expr {
	x := b.value(e, s)
	if x.Type.Kind == row.Boolean {
		return x
	}
	return b.made(e)(expr.Cast(x, row.Scalar(row.Boolean), false))
}

// predicate binds a WHERE, HAVING or FILTER.
func (b *binder) predicate(e sqlExpr, s *scope) *expr.Expr { return b.boolean(e, s) }

func (b *binder) operation(e *operation, s *scope) *expr.Expr {
	switch e.op {
	case "OPERATOR_NOT":
		return b.made(e)(expr.Not(b.boolean(e.args[0], s)))
	case "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL":
		x := b.value(e.args[0], s)
		if e.op == "OPERATOR_IS_NULL" {
			return b.made(e)(expr.IsNull(x), nil)
		}
		return b.made(e)(expr.IsNotNull(x), nil)
	case "STRUCT_EXTRACT":
		name, ok := e.args[1].(*literal)
		if !ok || name.value.Type.Kind != row.Varchar || name.value.IsNull(0) {
			refuse(unsupported(e.at, "the name of a STRUCT's member must be written out"))
		}
		return b.made(e)(expr.StructField(b.value(e.args[0], s), name.value.Str[0]))
	}
	args := make([]*expr.Expr, len(e.args))
	for i, a := range e.args {
		args[i] = b.value(a, s)
	}
	switch e.op {
	case "COMPARE_IN":
		return b.made(e)(expr.In(args[0], args[1:]))
	case "COMPARE_NOT_IN":
		return b.made(e)(expr.Not(b.made(e)(expr.In(args[0], args[1:]))))
	case "OPERATOR_COALESCE":
		return b.made(e)(expr.Coalesce(args...))
	case "ARRAY_EXTRACT":
		return b.made(e)(expr.Call("array_extract", args))
	}
	return b.made(e)(expr.Call("array_slice", args))
}

func (b *binder) caseWhen(e *caseWhen, s *scope) *expr.Expr {
	whens, thens := make([]*expr.Expr, len(e.whens)), make([]*expr.Expr, len(e.thens))
	for i := range e.whens {
		whens[i], thens[i] = b.boolean(e.whens[i], s), b.value(e.thens[i], s)
	}
	els := expr.Const(nullValue())
	if e.els != nil {
		els = b.value(e.els, s)
	}
	return b.made(e)(expr.Case(whens, thens, els))
}

func nullValue() *row.Vector {
	v := row.NewVector(row.Type{}, 1)
	v.AppendNull()
	return v
}

// call binds a function or an operator.
func (b *binder) call(e *call, s *scope) *expr.Expr {
	if isAggregate(e.name) {
		if s.groups == nil {
			refuse(problem.New(422, "bad_sql", "%s can't stand in %s", written(e.name), s.clause).At(e.at).
				WithHint("conditions on aggregates belong in HAVING; an aggregate of an aggregate needs a subquery in FROM"))
		}
		return s.groups.call(b, e, s)
	}
	if p := functionHint(e); p != nil {
		refuse(p)
	}
	if e.filter != nil || e.distinct || len(e.order) > 0 {
		refuse(problem.New(422, "bad_sql", "%s is no aggregate and takes no DISTINCT, FILTER or ORDER BY", e.name).At(e.at))
	}
	for _, a := range e.args {
		c, _ := a.(*call)
		if alias := a.head().alias; alias != "" && e.name != "struct_pack" && (c == nil || !c.rewritten) {
			refuse(unsupported(place(a, e.at), "%s takes its arguments by place, not by name", e.name).
				WithHint("leave %s := out", alias))
		}
	}
	if e.name == "nullif" && len(e.args) == 2 {
		x, y := b.value(e.args[0], s), b.value(e.args[1], s)
		same := b.made(e)(expr.Call("=", []*expr.Expr{x, y}))
		return b.made(e)(expr.Case([]*expr.Expr{same}, []*expr.Expr{expr.Const(nullValue())}, x))
	}
	if e.name == "struct_pack" {
		return b.structOf(e, s)
	}
	if len(e.args) == 2 {
		if a, ok := e.args[1].(*arrow); ok && a.params != nil {
			return b.lambda(e, a, s)
		}
	}
	args := make([]*expr.Expr, len(e.args))
	for i, a := range e.args {
		args[i] = b.value(a, s)
	}
	if (e.name == "->" || e.name == "->>") && len(args) == 2 { // a STRUCT is read as the object that it came from
		if k := args[0].Type.Kind; k == row.Struct || k == row.List {
			args[0] = b.made(e)(expr.Cast(args[0], row.Scalar(row.JSON), false))
		}
	}
	return b.made(e)(expr.Call(e.name, args))
}

// written is the name of a function as one writes it.
func written(name string) string {
	if name == "count_star" {
		return "count(*)"
	}
	return name
}

// structOf binds {'a': x, 'b': y}.
func (b *binder) structOf(e *call, s *scope) *expr.Expr {
	var names []string
	var args []*expr.Expr
	for _, a := range e.args {
		name, x := a.head().alias, b.value(a, s)
		if name == "" {
			refuse(problem.New(422, "bad_sql", "a member of a STRUCT has no name").At(place(a, e.at)).WithHint("write {'name': value}"))
		}
		if x.Type.Kind == row.Null { // as DuckDB types a column of NULLs
			x = b.made(a)(expr.Cast(x, row.Scalar(row.Integer), false))
		}
		names, args = append(names, name), append(args, x)
	}
	return b.made(e)(expr.Struct(names, args))
}
