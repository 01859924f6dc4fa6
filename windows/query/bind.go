package query

import (
	"slices"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/expr"
)

// binder turns the text's tree into nodes.
type binder struct {
	cat  Catalog
	plan *Plan
	// words are all names in the text, in lower case; a scan gives only columns named there.
	words map[string]bool
	stars bool // a `*` stands somewhere
	// used are the columns of the streams that were found by name, by source.
	used []map[int]bool
	// timed is set when a window function has settled the view's kind of time.
	timed bool
	// ctes are the common table expressions in sight, inner ones last.
	ctes []visibleCTE
	// text is the name of the view whose text is being bound; empty for the plan's own.
	text    string
	outline *outline
	// shared and views are the CTEs and views that have been bound; reads is what the query that is
	// being bound reads, lateIn that of each of plan.Beneath.
	shared map[sqlQuery]*sharedQuery
	views  map[string]*sharedQuery
	reads  *reads
	lateIn []*reads
	// always are columns that no pruning takes away.
	always map[Node][]int
	// inCTE bounds how often CTEs may open CTEs; tables and steps bound the whole.
	inCTE, tables, steps int
}

type visibleCTE struct {
	cte
	seen int // how many of ctes it sees itself
}

// scope is what an expression may name.
type scope struct {
	rel *relation
	// clause names the part of the SELECT, for errors.
	clause string
	// aliases are the SELECT list's items that may be named, after the columns.
	aliases []item
	// groups is set above an aggregation.
	groups *grouping
	// ranking is the row_number() that expressions may name, if there is one.
	ranking *ranking
	// overs takes in window functions, where they may stand.
	overs *overs
	// params are those of the lambda functions around an expression, the innermost last.
	params []param
}

// item is one expression of a SELECT list.
type item struct {
	name string
	expr sqlExpr
}

// columnAt is a column that has been found already, such as one of `*`.
type columnAt struct {
	exprHead
	col  int
	name string
}

// queryOf binds a query. needKey asks for the row key to be among the columns.
func (b *binder) queryOf(q sqlQuery, needKey bool) *relation {
	h := q.common()
	outer := b.ctes
	defer func() { b.ctes = outer }()
	b.ctes = slices.Clip(b.ctes)
	for _, c := range h.ctes {
		b.ctes = append(b.ctes, visibleCTE{c, len(b.ctes)})
	}
	b.refuseOrder(h)
	switch q := q.(type) {
	case *selectQuery:
		return b.selectOf(q, needKey)
	case *setQuery:
		return b.union(q, needKey)
	case *otherQuery:
		refuse(unsupported(max(0, h.at), "%s isn't supported in a view", q.what))
	}
	return nil
}

// setName is a set operation as SQL writes it.
func setName(q *setQuery) string {
	name := strings.ReplaceAll(q.op, "_", " ")
	if q.all {
		name += " ALL"
	}
	return name
}

// refuseOrder refuses ORDER BY, LIMIT and OFFSET: rows of a view have no order (N4).
func (b *binder) refuseOrder(h *queryHead) {
	switch {
	case h.offset != nil:
		refuse(unsupported(place(h.offset, h.limitAt), "OFFSET isn't supported in a view").
			WithHint("rows of a view have no order; page through them with limit and cursor on /rows"))
	case h.limit != nil && len(h.order) == 0:
		refuse(unsupported(place(h.limit, h.limitAt), "LIMIT without ORDER BY isn't supported in a view").
			WithHint("which rows would they be? Leave it out and use ?limit= on /rows"))
	case h.percent:
		refuse(unsupported(place(h.limit, h.limitAt), "LIMIT with a percentage isn't supported in a view"))
	case h.limit != nil: // the first rows (N4)
	case len(h.on) > 0: // which row of each DISTINCT ON
	case len(h.order) > 0:
		refuse(unsupported(place(h.order[0].expr, h.orderAt), "ORDER BY alone isn't supported in a view").
			WithHint("rows of a view have no order; leave it out and use ?order= on /rows or order in a subscription"))
	}
}

// place is where an expression stands, or else the other place.
func place(e sqlExpr, other int) int {
	if e != nil && e.head().at >= 0 {
		return e.head().at
	}
	return other
}

// selectOf binds one SELECT.
func (b *binder) selectOf(q *selectQuery, needKey bool) *relation {
	distinct := q.distinct && len(q.on) == 0
	aggregated := q.groupAll || len(q.groups) > 0 || len(q.sets) > 0 || q.having != nil || slices.ContainsFunc(q.items, hasAggregate)
	aggregated = aggregated || hasAggregate(q.qualify)
	if len(q.order) > 0 && !distinct {
		aggregated = aggregated || slices.ContainsFunc(q.order, func(k sortKey) bool { return hasAggregate(k.expr) })
	}
	from := b.table(q.from, needKey && !aggregated && !distinct)
	direct := from.direct
	items := b.expand(q.items, from)
	if q.where != nil {
		pred := b.predicate(q.where, &scope{rel: from, clause: "WHERE", aliases: items})
		if from.assign != nil {
			from.assign.Where = pred // judged before lateness (L1)
		} else {
			from.node = &Filter{In: from.node, Pred: pred}
		}
	}
	fn := from.assign
	from.scan, from.direct, from.assign = false, false, nil

	ranked := b.rankingOf(q, from, items)
	if len(q.on) > 0 {
		ranked = b.firstOfEach(q, items)
	} else if q.limit != nil && !distinct {
		if ranked != nil {
			refuse(unsupported(place(q.limit, q.limitAt), "ORDER BY … LIMIT beside QUALIFY isn't supported in a view yet").
				WithHint("put the QUALIFY into a subquery"))
		}
		ranked = b.orderRanking(&q.queryHead, items)
		if slices.ContainsFunc(items, func(it item) bool { return findOver(it.expr) != nil }) || q.qualify != nil {
			refuse(unsupported(place(q.limit, q.limitAt), "ORDER BY … LIMIT beside window functions isn't supported in a view yet").
				WithHint("put the window functions into a subquery"))
		}
	}
	out := b.listOf(q, from, items, aggregated, ranked, direct, fn)
	if distinct {
		out = distinctOf(out)
		if q.limit != nil {
			out = b.limited(&q.queryHead, out)
		}
	}
	return out
}

// listOf binds the SELECT list, with what stands between it and FROM and WHERE. fn is the window
// function in FROM, or nil.
func (b *binder) listOf(q *selectQuery, from *relation, items []item, aggregated bool, ranked *ranking, direct bool, fn *Assign) *relation {
	s := &scope{rel: from, clause: "the SELECT list", ranking: ranked}
	done := func() {}
	var windows *overs
	if aggregated {
		g := b.grouping(q, from, items, direct, fn)
		s.rel, s.groups = g.out, g
		done = func() { g.close(q, items) }
	}
	if ranked == nil && (q.qualify != nil || slices.ContainsFunc(items, func(it item) bool { return findOver(it.expr) != nil })) {
		below := *s
		below.aliases, below.clause = items, "a window function"
		windows = &overs{below: &beneath{b: b, s: &below, index: map[string]int{}}, index: map[string]int{}, direct: direct, items: items}
		s.overs = windows
	}
	list := make([]bound, len(items))
	for i, it := range items {
		inner := *s
		inner.aliases = items[:i]
		list[i] = bound{b.value(it.expr, &inner), inner.columnOf(it.expr)}
		if list[i].expr.Type.Kind == row.Null { // as DuckDB types a column of NULLs
			list[i].expr = b.made(it.expr)(expr.Cast(list[i].expr, row.Scalar(row.Integer), false))
		}
	}
	if windows != nil {
		return b.overRows(q, s, items, list, windows, done)
	}
	if ranked == nil {
		done()
		return projected(s.rel, list, items)
	}
	inner := *s
	inner.aliases, inner.ranking, inner.clause = items, nil, "an order"
	top, list := b.rank(ranked, &inner, items, list, direct, done)
	return projected(top, list, items)
}

// overRows puts the window functions of a SELECT under its list, and QUALIFY between.
func (b *binder) overRows(q *selectQuery, s *scope, items []item, list []bound, windows *overs, done func()) *relation {
	var qualify *expr.Expr
	best := false
	if q.qualify != nil {
		inner := *s
		inner.aliases, inner.clause = items, "QUALIFY"
		qualify = b.predicate(q.qualify, &inner)
		best = windows.best(q.qualify, &inner)
	}
	list = windows.below.carryAll(list)
	if qualify != nil {
		qualify = windows.below.carry(qualify)
	}
	out, to := windows.close(done)
	if n, ok := out.node.(*Over); ok && best {
		n.Best = &Best{Col: n.Calls[0].Args[0], Least: n.Calls[0].Name == "min"}
	}
	if qualify != nil {
		out.node = &Filter{In: out.node, Pred: qualify.Renumber(to)}
	}
	return projected(out, renumbered(list, to), items)
}

// limited is ORDER BY … LIMIT over rows that are complete: of SELECT DISTINCT and UNION.
func (b *binder) limited(h *queryHead, in *relation) *relation {
	var items []item
	var list []bound
	for i, c := range in.cols {
		if !c.hidden {
			items = append(items, item{c.name, &columnAt{exprHead{at: h.at}, i, c.name}})
			list = append(list, bound{expr.Column(i, in.field(i)), i})
		}
	}
	s := &scope{rel: in, clause: "ORDER BY"}
	top, list := b.rank(b.orderRanking(h, items), s, items, list, false, func() {})
	return projected(top, list, items)
}

// expand replaces each `*` by the columns that it stands for, and names the items.
func (b *binder) expand(list []sqlExpr, from *relation) []item {
	var out []item
	for _, e := range list {
		s, ok := e.(*star)
		if !ok {
			out = append(out, item{b.nameOf(e, from), e})
			continue
		}
		if s.relation != "" && !from.hasTable(s.relation) {
			refuse(problem.New(422, "unknown_relation", "there is no %s in FROM", s.relation).At(s.at))
		}
		excluded, replaced := map[string]bool{}, map[string]bool{}
		for i, c := range from.cols {
			if c.hidden || s.relation != "" && !strings.EqualFold(c.table, s.relation) {
				continue
			}
			lower := strings.ToLower(c.name)
			if slices.ContainsFunc(s.exclude, func(n string) bool { return strings.EqualFold(n, c.name) }) {
				excluded[lower] = true
				continue
			}
			at := slices.IndexFunc(s.replace, func(e sqlExpr) bool { return strings.EqualFold(e.head().alias, c.name) })
			if at >= 0 {
				replaced[lower] = true
				out = append(out, item{c.name, s.replace[at]})
				continue
			}
			out = append(out, item{c.name, &columnAt{exprHead{at: s.at}, i, c.name}})
		}
		for _, n := range s.exclude {
			if !excluded[strings.ToLower(n)] {
				refuse(problem.New(422, "unknown_column", "EXCLUDE: there is no column %s", n).At(s.at))
			}
		}
		for _, e := range s.replace {
			if !replaced[strings.ToLower(e.head().alias)] {
				refuse(problem.New(422, "unknown_column", "REPLACE: there is no column %s", e.head().alias).At(place(e, s.at)))
			}
		}
	}
	if len(out) == 0 {
		refuse(problem.New(422, "bad_sql", "the SELECT has no column").At(0))
	}
	return out
}

// nameOf is the name of an item of a SELECT list, as DuckDB gives it.
func (b *binder) nameOf(e sqlExpr, from *relation) string {
	if alias := e.head().alias; alias != "" {
		return alias
	}
	if c, ok := e.(*columnRef); ok {
		if col, path, ok := from.resolve(c); ok && len(path) == 0 {
			return from.cols[col].name
		}
		return c.names[len(c.names)-1]
	}
	return textOf(e)
}

// bound is an item of a SELECT list with its types settled.
type bound struct {
	expr *expr.Expr
	// col is the input's column when the expression is nothing but that, else −1.
	col int
}

// projected makes the projection of bound items over a relation.
func projected(in *relation, list []bound, items []item) *relation {
	out := &relation{once: in.once, never: in.never, shrinks: in.shrinks}
	var exprs []*expr.Expr
	var names []string
	from := map[int]int{} // input column → output column
	for i, e := range list {
		c := column{name: items[i].name, typ: e.expr.Type, number: -1}
		if e.col >= 0 {
			src := in.cols[e.col]
			c.role, c.timeField = src.role, src.timeField
			if _, ok := from[e.col]; !ok {
				from[e.col] = i
			}
		}
		out.cols = append(out.cols, c)
		exprs, names = append(exprs, e.expr), append(names, items[i].name)
	}
	for _, k := range in.key {
		at, ok := from[k]
		if !ok {
			src := in.cols[k]
			at = len(out.cols)
			from[k] = at
			out.cols = append(out.cols, column{name: src.name, typ: src.typ, hidden: true, sealed: true, role: src.role, number: -1})
			exprs, names = append(exprs, expr.Column(k, in.field(k))), append(names, src.name)
		}
		out.key = append(out.key, at)
	}
	out.node = NewProject(in.node, exprs, names)
	return out
}

// columnOf is the column that an expression is, without anything done to it, or −1.
func (s *scope) columnOf(e sqlExpr) int {
	if s.groups != nil {
		if k, ok := s.groups.match(e); ok {
			return k
		}
		if c, ok := e.(*columnRef); ok {
			if _, _, ok := s.groups.in.resolve(c); !ok {
				if inner, e := s.alias(c); e != nil {
					return inner.columnOf(e)
				}
			}
		}
		return -1
	}
	switch e := e.(type) {
	case *columnAt:
		return e.col
	case *columnRef:
		if col, path, ok := s.rel.resolve(e); ok && len(path) == 0 {
			return col
		}
		if inner, e := s.alias(e); e != nil {
			return inner.columnOf(e)
		}
	}
	return -1
}

// alias finds the expression that a reference names as an alias of the SELECT list, and what it
// may name itself: the columns and the aliases before it.
func (s *scope) alias(c *columnRef) (*scope, sqlExpr) {
	if len(c.names) != 1 || s.base().hasTable(c.names[0]) { // DuckDB then means the relation's row
		return nil, nil
	}
	for i, it := range s.aliases {
		if h := it.expr.head(); h.alias != "" && strings.EqualFold(h.alias, c.names[0]) {
			inner := *s
			inner.aliases, inner.params = s.aliases[:i], nil
			return &inner, it.expr
		}
	}
	return nil, nil
}

// distinctOf is SELECT DISTINCT: one row for each group of equal rows.
func distinctOf(in *relation) *relation {
	out := &relation{never: in.never, shrinks: true}
	var keys []int
	windowed := false
	for i, c := range in.cols {
		if c.hidden {
			continue
		}
		windowed = windowed || c.role.bound()
		out.key = append(out.key, len(keys))
		keys = append(keys, i)
		c.source, c.number = 0, -1
		out.cols = append(out.cols, c)
	}
	if out.never == "" && !windowed {
		out.never = "SELECT DISTINCT without window_start or window_end among its columns stays open for ever"
	}
	out.node = NewAggregate(in.node, keys, nil, windowed)
	return out
}
