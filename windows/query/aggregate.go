package query

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/agg"
	"tidemark/windows/expr"
)

// grouping is an aggregation while it is being bound. Its output columns are the keys, then one
// for each different call.
type grouping struct {
	b  *binder
	in *relation
	// out is the relation above, filled as calls are found.
	out *relation

	keys  map[string]int // canonical text of a GROUP BY expression → output column
	calls map[string]int // canonical text of a call → index in list
	list  []AggCall

	// The projection below: what is computed from one row alone, before any state (E1).
	exprs []*expr.Expr
	names []string
	below map[string]int // canonical text → column of the projection

	retract  bool
	windowed bool
	direct   bool  // the input's rows are events
	apart    int   // the input's column that tells the windows of one event apart; −1: there is one in a group
	keyCols  []int // columns of the projection below that are the keys
}

// canonical writes an expression so that two that mean the same column by different names are
// written alike.
func canonical(e sqlExpr, in *relation) string {
	return text(e, func(c *columnRef) string {
		col, path, ok := in.resolve(c)
		if !ok {
			return strings.ToLower(c.String())
		}
		return "#" + strconv.Itoa(col) + "." + strings.ToLower(strings.Join(path, "."))
	})
}

// key is the canonical text of an expression over the grouping's input.
func (g *grouping) key(e sqlExpr) string {
	if c, ok := e.(*columnAt); ok {
		return "#" + strconv.Itoa(c.col) + "."
	}
	return canonical(e, g.in)
}

// match finds the output column of an expression that is grouped by.
func (g *grouping) match(e sqlExpr) (int, bool) {
	if len(g.keys) == 0 {
		return 0, false
	}
	k, ok := g.keys[g.key(e)]
	return k, ok
}

// column adds an expression to the projection below, or finds it there.
func (g *grouping) column(key string, e *expr.Expr, name string) int {
	if at, ok := g.below[key]; ok {
		return at
	}
	at := len(g.exprs)
	g.below[key] = at
	g.exprs, g.names = append(g.exprs, e), append(g.names, name)
	return at
}

// grouping binds the GROUP BY of a SELECT. Its calls are added as expressions above are bound;
// close then makes the node.
func (b *binder) grouping(q *selectQuery, from *relation, items []item, direct bool, fn *Assign) *grouping {
	below := &scope{rel: from, clause: "GROUP BY", aliases: items}
	groups := b.groupExprs(q, from, items)
	g := &grouping{
		b: b, in: from, keys: map[string]int{}, calls: map[string]int{}, below: map[string]int{},
		out: &relation{never: from.never, shrinks: true}, retract: from.shrinks, direct: direct, apart: fn.apart(),
	}
	windowed := false
	var keyCols []int
	for _, e := range groups {
		key := g.key(e)
		if _, ok := g.keys[key]; ok {
			continue
		}
		x := b.value(e, below)
		name := b.nameOf(e, from)
		c := column{name: name, typ: x.Type, number: -1}
		if col := below.columnOf(e); col >= 0 {
			c.role, c.timeField = from.cols[col].role, from.cols[col].timeField
		}
		if c.role.bound() {
			windowed = true
			if g.apart >= 0 && (below.columnOf(e) == g.apart || fn.regular()) {
				g.apart = -1 // the window is part of the group
			}
		}
		at := g.column(key, x, name)
		g.keys[key] = len(keyCols)
		g.out.key = append(g.out.key, len(keyCols))
		g.out.cols = append(g.out.cols, c)
		keyCols = append(keyCols, at)
	}
	if g.out.never == "" && !windowed {
		g.out.never = neverFinalGroups(from, len(groups) > 0)
	}
	g.keyCols, g.windowed = keyCols, windowed
	return g
}

// close binds HAVING and makes the node, when everything else has been bound.
func (g *grouping) close(q *selectQuery, items []item) {
	var having *expr.Expr
	if q.having != nil {
		having = g.b.predicate(q.having, &scope{rel: g.out, clause: "HAVING", groups: g, aliases: items})
	}
	var ties, then []int
	beneath := func(i int) int {
		return g.column(g.key(&columnAt{col: i}), expr.Column(i, g.in.field(i)), g.in.cols[i].name)
	}
	switch ordered := slices.ContainsFunc(g.list, func(c AggCall) bool { return c.Func.Ordered }); {
	case ordered && !g.direct:
		for _, i := range visible(g.in) {
			ties = append(ties, beneath(i))
		}
	case ordered && g.apart >= 0:
		then = []int{beneath(g.apart)}
	}
	node := NewAggregate(NewProject(g.in.node, g.exprs, g.names), g.keyCols, g.list, g.windowed)
	node.Ties, node.Then = ties, then
	g.out.node = node
	if having != nil {
		g.out.node = &Filter{In: g.out.node, Pred: having}
	}
}

// neverFinalGroups says why groups stay open for ever.
func neverFinalGroups(from *relation, grouped bool) string {
	for _, c := range from.cols {
		if c.role.bound() {
			if grouped {
				return "its groups have no window: window_start and window_end are not in GROUP BY"
			}
			return "an aggregate without GROUP BY is one row over all windows"
		}
	}
	return "it aggregates without a window, so every event may change its rows"
}

// groupExprs are the expressions that a SELECT groups by: positions and aliases resolved.
func (b *binder) groupExprs(q *selectQuery, from *relation, items []item) []sqlExpr {
	if q.groupAll {
		return b.groupAll(items, from)
	}
	if len(q.sets) > 1 || len(q.sets) == 1 && len(q.sets[0]) != len(q.groups) {
		refuse(unsupported(place(firstOf(q.groups), q.at), "GROUPING SETS, CUBE and ROLLUP aren't supported in a view").
			WithHint("make a view for each set of columns"))
	}
	var out []sqlExpr
	for _, e := range q.groups {
		switch e := e.(type) {
		case *literal:
			if !e.value.Type.IsInteger() || e.value.IsNull(0) || e.value.Type.Class() != row.Int64Class {
				refuse(unsupported(e.at, "GROUP BY a constant isn't supported").WithHint("leave it out"))
			}
			n := e.value.I64[0]
			if n < 1 || n > int64(len(items)) {
				refuse(problem.New(422, "bad_sql", "GROUP BY %d is outside the SELECT list of %d columns", n, len(items)).At(e.at).
					WithHint("write a column, or its place in the SELECT list from 1 to %d", len(items)))
			}
			picked := items[n-1].expr
			if hasAggregate(picked) {
				refuse(problem.New(422, "bad_sql", "GROUP BY %d is an aggregate", n).At(e.at))
			}
			out = append(out, picked)
		case *columnRef:
			if _, _, ok := from.resolve(e); !ok { // columns come before aliases
				s := &scope{rel: from, aliases: items}
				if _, picked := s.alias(e); picked != nil {
					if hasAggregate(picked) {
						refuse(problem.New(422, "bad_sql", "GROUP BY %s is an aggregate", e.String()).At(e.at))
					}
					out = append(out, picked)
					continue
				}
			}
			out = append(out, e)
		default:
			if hasAggregate(e) {
				refuse(problem.New(422, "bad_sql", "an aggregate can't stand in GROUP BY").At(place(e, q.at)))
			}
			out = append(out, e)
		}
	}
	return out
}

func firstOf(list []sqlExpr) sqlExpr {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// groupAll is GROUP BY ALL: every item that holds no aggregate, also not by a name of the list,
// constants aside.
func (b *binder) groupAll(items []item, from *relation) []sqlExpr {
	var out []sqlExpr
	summed := map[string]bool{} // the names of items that hold an aggregate
	for i, it := range items {
		if findOver(it.expr) != nil {
			continue // computed from the groups
		}
		direct := hasAggregate(it.expr)
		if direct || namesOne(it.expr, from, summed) {
			if alias := it.expr.head().alias; alias != "" {
				summed[strings.ToLower(alias)] = true
			}
			if at, mixed := looseColumn(it.expr, from); direct && mixed {
				refuse(problem.New(422, "not_grouped", "GROUP BY ALL can't tell what to group %s by: it mixes a column with an aggregate", clip(textOf(it.expr))).
					At(at).WithHint("write the columns in GROUP BY"))
			}
			continue
		}
		if s := (&scope{rel: from, aliases: items[:i]}); s.reads(it.expr) {
			out = append(out, it.expr)
		}
	}
	return out
}

// namesOne reports whether an expression names an item that is one of these, and no column.
func namesOne(e sqlExpr, from *relation, names map[string]bool) (found bool) {
	each(e, func(e sqlExpr) bool {
		if c, ok := e.(*columnRef); ok && len(c.names) == 1 && names[strings.ToLower(c.names[0])] {
			_, _, column := from.resolve(c)
			found = found || !column
		}
		return !found
	})
	return found
}

// reads reports whether an expression names a column.
func (s *scope) reads(e sqlExpr) bool {
	found := false
	each(e, func(e sqlExpr) bool {
		switch e.(type) {
		case *columnRef, *columnAt:
			found = true
		}
		return !found
	})
	return found
}

// looseColumn finds a column that stands outside of every aggregate. What only the SELECT list names is
// none: it is grouped by, or an aggregate, itself.
func looseColumn(e sqlExpr, from *relation) (at int, ok bool) {
	each(e, func(e sqlExpr) bool {
		switch e := e.(type) {
		case *call:
			if isAggregate(e.name) {
				return false
			}
		case *columnRef:
			if _, _, column := from.resolve(e); column {
				at, ok = e.at, true
			}
		}
		return !ok
	})
	return at, ok
}

// call binds an aggregate and returns its column above.
func (g *grouping) call(b *binder, e *call, s *scope) *expr.Expr {
	key := g.key(e)
	at, ok := g.calls[key]
	if !ok {
		at = len(g.list)
		g.list = append(g.list, g.bindCall(b, e, s))
		g.calls[key] = at
		c := g.list[at]
		g.out.cols = append(g.out.cols, column{name: c.Text, sealed: true, typ: c.Func.Type, number: -1})
	}
	col := len(g.keys) + at
	return expr.Column(col, row.Field{Name: g.list[at].Text, Type: g.list[at].Func.Type})
}

// bindCall settles an aggregate's types and puts its arguments into the projection below.
func (g *grouping) bindCall(b *binder, e *call, s *scope) AggCall {
	c := AggCall{Filter: -1, Text: textOf(e)}
	if e.name == "count_if" && (e.filter != nil || e.distinct) { // a macro in DuckDB, where it takes neither
		refuse(unsupported(e.at, "count_if takes no FILTER and no DISTINCT").WithHint("write count(*) FILTER (WHERE …)"))
	}
	below := &scope{rel: g.in, clause: "the aggregate " + e.name}
	c.Spec = agg.Spec{Name: e.name, Distinct: e.distinct, Retract: g.retract}
	if e.name == "count_star" {
		c.Spec.Name = "count"
	}
	given, orders := withinGroup(e)
	args := make([]*expr.Expr, len(given))
	for i, a := range given {
		if a.head().alias != "" {
			refuse(unsupported(place(a, e.at), "%s takes its arguments by place, not by name", e.name))
		}
		args[i] = b.value(a, below)
		c.Spec.Args = append(c.Spec.Args, args[i].Type)
		var value *row.Vector
		if args[i].IsConst() {
			value = args[i].ConstValue()
		}
		c.Spec.Const = append(c.Spec.Const, value)
	}
	order := make([]*expr.Expr, len(orders))
	for i, k := range orders {
		order[i] = b.value(k.expr, below)
		c.Spec.Order = append(c.Spec.Order, agg.Order{Type: order[i].Type, Desc: k.desc, NullsLast: k.nullsLast})
	}
	f, err := agg.New(c.Spec)
	if err != nil {
		refuse(aggregateProblem(err, e))
	}
	c.Func = f
	b.checkDistinctOrder(g.in, e, f)
	for i, want := range f.Args {
		x, key := args[i], g.key(given[i])
		if !x.Type.Equal(want) {
			x, key = b.made(e)(expr.Cast(x, want, false)), key+"::"+want.String()
		}
		c.Args = append(c.Args, g.column(key, x, textOf(given[i])))
	}
	for i, k := range orders {
		c.Args = append(c.Args, g.column(g.key(k.expr), order[i], textOf(k.expr)))
	}
	if e.filter != nil {
		x := b.predicate(e.filter, &scope{rel: g.in, clause: "FILTER"})
		c.Filter = g.column("filter:"+g.key(e.filter), x, textOf(e.filter))
	}
	return c
}

// withinGroup returns an aggregate's arguments and order. quantile_cont(0.5) WITHIN GROUP (ORDER BY x),
// which is how percentile_cont is written, is quantile_cont(x, 0.5).
func withinGroup(e *call) (args []sqlExpr, order []sortKey) {
	if !strings.HasPrefix(e.name, "quantile_") && !strings.HasPrefix(e.name, "percentile_") || len(e.args) != 1 || len(e.order) != 1 {
		return e.args, e.order
	}
	if e.order[0].desc {
		refuse(unsupported(e.at, "%s WITHIN GROUP (ORDER BY … DESC) isn't supported in a view", e.name).
			WithHint("write it from the other end: 1 - fraction of the ascending order"))
	}
	return []sqlExpr{e.order[0].expr, e.args[0]}, nil
}

// checkDistinctOrder refuses DISTINCT in an aggregate that depends on order when the order is not
// that of its own arguments: which of several equal values then counts is not defined (N3).
func (b *binder) checkDistinctOrder(in *relation, e *call, f *agg.Func) {
	if !e.distinct || !f.Ordered && len(e.order) == 0 {
		return
	}
	if len(e.order) == 0 {
		refuse(unsupported(e.at, "%s(DISTINCT …) without ORDER BY isn't supported in a view", e.name).
			WithHint("add an order: %s(DISTINCT x ORDER BY x)", e.name))
	}
	for _, k := range e.order {
		if !slices.ContainsFunc(e.args, func(a sqlExpr) bool { return canonical(a, in) == canonical(k.expr, in) }) {
			refuse(problem.New(422, "bad_sql", "in %s(DISTINCT …) only the arguments themselves can be in ORDER BY", e.name).At(place(k.expr, e.at)))
		}
	}
}

// aggregateProblem says what an aggregate does not take.
func aggregateProblem(err error, e *call) *problem.Problem {
	var unknown *agg.Unknown
	if errors.As(err, &unknown) {
		return unsupported(e.at, "the aggregate %s isn't supported in a view", e.name).
			WithHint("the aggregates are %s", strings.Join(agg.Names(), ", "))
	}
	return problem.New(422, "type_mismatch", "%v", err).At(e.at).WithHint("convert its argument with a cast, as in value::DOUBLE")
}

// hasAggregate reports whether an aggregate stands in an expression.
func hasAggregate(e sqlExpr) bool {
	found := false
	each(e, func(e sqlExpr) bool {
		if c, ok := e.(*call); ok && isAggregate(c.name) {
			found = true
		}
		return !found
	})
	return found
}

// each visits an expression and those inside it until visit answers false, which leaves out what
// is inside.
func each(e sqlExpr, visit func(sqlExpr) bool) {
	if e == nil || !visit(e) {
		return
	}
	list := func(es []sqlExpr) {
		for _, e := range es {
			each(e, visit)
		}
	}
	switch e := e.(type) {
	case *call:
		list(e.args)
		each(e.filter, visit)
		for _, k := range e.order {
			each(k.expr, visit)
		}
	case *comparison:
		list([]sqlExpr{e.left, e.right})
	case *conjunction:
		list(e.args)
	case *operation:
		list(e.args)
	case *between:
		list([]sqlExpr{e.input, e.lower, e.upper})
	case *caseWhen:
		list(e.whens)
		list(e.thens)
		each(e.els, visit)
	case *castTo:
		each(e.child, visit)
	case *arrow:
		if e.params == nil {
			list([]sqlExpr{e.left, e.right})
			break
		}
		each(e.right, func(inner sqlExpr) bool {
			if c, ok := inner.(*columnRef); ok && e.param(c) >= 0 {
				return true // no column
			}
			return visit(inner)
		})
	case *over:
		list(e.args)
		list(e.partitions)
		list([]sqlExpr{e.filter, e.offset, e.deflt, e.startExpr, e.endExpr})
		for _, k := range e.order {
			each(k.expr, visit)
		}
	}
}

// isAggregate reports whether a function of this name is an aggregate of DuckDB's.
func isAggregate(name string) bool { return agg.Known(name) || absentAggregates[name] }
