package query

import (
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/expr"
)

// ranking is a row_number() while it is being bound: the one of QUALIFY, or that of ORDER BY …
// LIMIT (N4).
type ranking struct {
	// key is the canonical text of the OVER; expressions equal to it are the row's number.
	key        string
	partitions []sqlExpr
	order      []sortKey
	limit      int64
	at         int
	// numbered is set when an expression asks for the number.
	numbered bool
}

// numberColumn stands for the row's number until its column is known.
const numberColumn = 1 << 30

// rankingOf finds out by which row_number() a SELECT is cut, or returns nil.
func (b *binder) rankingOf(q *selectQuery, from *relation, items []item) *ranking {
	s := &scope{rel: from, aliases: items}
	if q.qualify == nil {
		for _, it := range items {
			if o := findOver(it.expr); o != nil {
				refuse(unsupported(o.at, "%s(…) OVER without QUALIFY isn't supported in a view yet", o.name).
					WithHint("a view can keep the first rows: QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) <= n"))
			}
		}
		return nil
	}
	at := place(q.qualify, q.at)
	wrong := func() {
		refuse(unsupported(at, "this QUALIFY isn't supported in a view").
			WithHint("write QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) <= n"))
	}
	c, ok := q.qualify.(*comparison)
	if !ok {
		wrong()
	}
	left, right, op := s.follow(c.left), s.follow(c.right), c.op
	if _, ok := right.(*over); ok {
		left, right, op = right, left, map[string]string{">=": "<=", ">": "<", "=": "="}[op]
	}
	o, ok := left.(*over)
	if !ok {
		wrong()
	}
	if o.name != "row_number" {
		refuse(unsupported(o.at, "QUALIFY by %s isn't supported in a view yet", o.name).
			WithHint("write row_number() OVER (PARTITION BY … ORDER BY …) <= n"))
	}
	if len(o.args) > 0 || o.filter != nil || o.distinct || o.ignoreNull || o.exclude != "NO_OTHER" || o.offset != nil || o.deflt != nil {
		wrong()
	}
	n := b.count(right, "QUALIFY")
	switch op {
	case "<=":
	case "<":
		n--
	case "=":
		if n != 1 {
			refuse(unsupported(at, "QUALIFY row_number() = %d isn't supported in a view", n).WithHint("write <= %d", n))
		}
	default:
		wrong()
	}
	r := &ranking{key: canonical(o, from), partitions: o.partitions, order: o.order, limit: n, at: o.at}
	r.checkLimit(at)
	for _, it := range items {
		each(it.expr, func(e sqlExpr) bool {
			if other, ok := e.(*over); ok && canonical(other, from) != r.key {
				refuse(unsupported(other.at, "a second window function beside QUALIFY isn't supported in a view yet"))
			}
			return true
		})
	}
	return r
}

func (r *ranking) checkLimit(at int) {
	if r.limit < 1 {
		refuse(problem.New(422, "bad_sql", "the view would never have a row: it keeps the first %d", r.limit).At(at))
	}
}

// follow replaces a reference to an alias by the item that it names.
func (s *scope) follow(e sqlExpr) sqlExpr {
	c, ok := e.(*columnRef)
	if !ok {
		return e
	}
	if _, _, ok := s.rel.resolve(c); ok {
		return e
	}
	if _, picked := s.alias(c); picked != nil {
		return picked
	}
	return e
}

// count evaluates a constant whole number.
func (b *binder) count(e sqlExpr, clause string) int64 {
	s := &scope{rel: &relation{}, clause: clause}
	if s.reads(e) {
		refuse(unsupported(place(e, 0), "%s needs a constant number of rows", clause))
	}
	x := b.value(e, s)
	if !x.IsConst() || !x.Type.IsInteger() || x.Type.Class() != row.Int64Class || x.ConstValue().IsNull(0) {
		refuse(unsupported(place(e, 0), "%s needs a constant whole number of rows", clause))
	}
	return x.ConstValue().I64[0]
}

// findOver finds a window function in an expression.
func findOver(e sqlExpr) (found *over) {
	each(e, func(e sqlExpr) bool {
		if o, ok := e.(*over); ok {
			found = o
		}
		return found == nil
	})
	return found
}

// orderRanking is the ranking of ORDER BY … LIMIT, or nil (N4). items are what its positions and
// aliases mean.
func (b *binder) orderRanking(h *queryHead, items []item) *ranking {
	if h.limit == nil {
		return nil
	}
	r := &ranking{limit: b.count(h.limit, "LIMIT"), at: h.limitAt}
	if r.at < 0 {
		r.at = place(h.limit, 0)
	}
	r.checkLimit(place(h.limit, h.limitAt))
	for _, k := range h.order {
		switch e := k.expr.(type) {
		case *literal:
			if !e.value.Type.IsInteger() || e.value.Type.Class() != row.Int64Class || e.value.IsNull(0) {
				refuse(unsupported(e.at, "ORDER BY a constant isn't supported").WithHint("leave it out"))
			}
			n := e.value.I64[0]
			if n < 1 || n > int64(len(items)) {
				refuse(problem.New(422, "bad_sql", "ORDER BY %d is outside the SELECT list of %d columns", n, len(items)).At(e.at))
			}
			k.expr = items[n-1].expr
		case *columnRef: // in ORDER BY the SELECT list's names come before the columns
			if len(e.names) == 1 {
				for _, it := range items {
					if strings.EqualFold(it.name, e.names[0]) {
						k.expr = it.expr
						break
					}
				}
			}
		}
		r.order = append(r.order, k)
	}
	return r
}

// rank cuts the relation of a scope down to the first rows of each partition. items are the SELECT
// list and list what it binds to; done is called when everything has been bound and before the
// relation's node is read. It returns the relation and the items over it.
func (b *binder) rank(r *ranking, s *scope, items []item, list []bound, direct bool, done func()) (*relation, []bound) {
	// What the order needs that is no column of the relation is computed below.
	type extra struct {
		expr *expr.Expr
		name string
	}
	var extras []extra
	add := func(e sqlExpr) int {
		x := b.value(e, s)
		if col := x.ColumnNumber(); col >= 0 {
			return col
		}
		extras = append(extras, extra{x, textOf(e)})
		return -len(extras)
	}
	var partition []int
	var order []Sort
	windowed := false
	for _, e := range r.partitions {
		e = s.aliased(e)
		if findOver(e) != nil {
			refuse(unsupported(place(e, r.at), "a window function inside PARTITION BY isn't supported"))
		}
		col := add(e)
		if col >= 0 {
			role := s.rel.cols[col].role
			windowed = windowed || role == windowStart || role == windowEnd
		}
		partition = append(partition, col)
	}
	for _, k := range r.order {
		e := s.aliased(k.expr)
		if findOver(e) != nil {
			refuse(unsupported(place(e, r.at), "a window function inside ORDER BY isn't supported"))
		}
		order = append(order, Sort{add(e), k.desc, k.nullsLast})
	}
	byLog := direct && s.groups == nil
	switch { // ties (N3)
	case byLog:
	case s.groups != nil:
		for _, it := range items {
			if findOver(it.expr) == nil {
				order = append(order, Sort{add(it.expr), false, true})
			}
		}
	default:
		for i, c := range s.rel.cols {
			if !c.hidden {
				order = append(order, Sort{i, false, true})
			}
		}
	}
	done()
	in := s.rel
	n := len(in.cols)
	at := func(col int) int {
		if col < 0 {
			return n - col - 1
		}
		return col
	}
	var exprs []*expr.Expr
	var names []string
	cols := append([]column(nil), in.cols...)
	for i := range in.cols {
		exprs, names = append(exprs, expr.Column(i, in.field(i))), append(names, in.cols[i].name)
	}
	for _, x := range extras {
		exprs, names = append(exprs, x.expr), append(names, x.name)
		cols = append(cols, column{name: x.name, typ: x.expr.Type, hidden: true, sealed: true, number: -1})
	}
	below := in.node
	if len(extras) > 0 {
		below = NewProject(in.node, exprs, names)
	}
	top := NewTopN(below, r.limit, r.numbered)
	top.ByLog, top.Windowed = byLog, windowed
	for _, p := range partition {
		top.Partition = append(top.Partition, at(p))
	}
	seen := map[int]bool{}
	for _, k := range order {
		if k.Col = at(k.Col); !seen[k.Col] {
			seen[k.Col] = true
			top.Order = append(top.Order, k)
		}
	}
	out := &relation{node: top, cols: cols, key: in.key, never: in.never, shrinks: true}
	if r.numbered {
		out.cols = append(out.cols, column{name: "row_number()", typ: row.Scalar(row.BigInt), hidden: true, sealed: true, number: -1})
	}
	if out.never == "" && !windowed {
		out.never = "its first rows may change with every event: PARTITION BY holds neither window_start nor window_end"
	}
	renumbered := make([]bound, len(list))
	for i, l := range list {
		renumbered[i] = bound{l.expr.Renumber(func(c int) int {
			if c == numberColumn {
				return len(cols)
			}
			return c
		}), l.col}
	}
	return out, renumbered
}

// aliased replaces a reference that is no column by the alias that it names.
func (s *scope) aliased(e sqlExpr) sqlExpr {
	c, ok := e.(*columnRef)
	if !ok {
		return e
	}
	if _, _, ok := s.base().resolve(c); ok {
		return e
	}
	if _, picked := s.alias(c); picked != nil {
		return picked
	}
	return e
}
