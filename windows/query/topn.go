package query

import (
	"slices"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
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

// rankingOf finds out whether a SELECT only keeps the first rows by a row_number(), and no other
// window function is in it; nil: it does not.
func (b *binder) rankingOf(q *selectQuery, from *relation, items []item) *ranking {
	if q.qualify == nil {
		return nil
	}
	if findOver(q.qualify) == nil {
		named := false
		each(q.qualify, func(e sqlExpr) bool {
			named = named || findOver((&scope{rel: from, aliases: items}).follow(e)) != nil
			return !named
		})
		if !named {
			refuse(problem.New(422, "bad_sql", "QUALIFY needs a window function").At(place(q.qualify, q.at)).
				WithHint("conditions on columns belong in WHERE, on aggregates in HAVING"))
		}
	}
	at := place(q.qualify, q.at)
	c, ok := q.qualify.(*comparison)
	if !ok {
		return nil
	}
	s := &scope{rel: from, aliases: items}
	left, right, op := s.follow(c.left), s.follow(c.right), c.op
	if _, ok := right.(*over); ok {
		left, right, op = right, left, map[string]string{">=": "<=", ">": "<", "=": "="}[op]
	}
	o, ok := left.(*over)
	if !ok || o.name != "row_number" || s.reads(right) || findOver(right) != nil {
		return nil
	}
	if len(o.args) > 0 || o.filter != nil || o.distinct || o.ignoreNull || o.exclude != "NO_OTHER" || o.offset != nil || o.deflt != nil {
		return nil
	}
	n := b.count(right, "QUALIFY")
	switch {
	case op == "<=" || op == "=" && n == 1:
	case op == "<":
		n--
	default:
		return nil
	}
	r := &ranking{key: canonical(o, from), partitions: o.partitions, order: o.order, limit: n, at: o.at}
	r.checkLimit(at)
	for _, it := range items {
		other := false
		each(it.expr, func(e sqlExpr) bool {
			if o, ok := e.(*over); ok && canonical(o, from) != r.key {
				other = true
			}
			return !other
		})
		if other {
			return nil
		}
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
	if !x.IsConst() || x.ConstValue() == nil || !x.Type.IsInteger() || x.Type.Class() != row.Int64Class || x.ConstValue().IsNull(0) {
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
		k.expr = meant(k.expr, items, "ORDER BY")
		r.order = append(r.order, k)
	}
	return r
}

// firstOfEach is the ranking of SELECT DISTINCT ON: the first row in the order for each value.
func (b *binder) firstOfEach(q *selectQuery, items []item) *ranking {
	at := place(q.on[0], max(0, q.at))
	if q.limit != nil || q.qualify != nil || slices.ContainsFunc(items, func(it item) bool { return findOver(it.expr) != nil }) {
		refuse(unsupported(at, "DISTINCT ON beside QUALIFY, LIMIT or window functions isn't supported in a view").
			WithHint("put one of them into a subquery"))
	}
	r := &ranking{limit: 1, at: at}
	for _, e := range q.on {
		r.partitions = append(r.partitions, meant(e, items, "DISTINCT ON"))
	}
	for _, k := range q.order {
		k.expr = meant(k.expr, items, "ORDER BY")
		r.order = append(r.order, k)
	}
	return r
}

// meant is what an expression means where the SELECT list's places and names come before the columns.
func meant(e sqlExpr, items []item, clause string) sqlExpr {
	switch e := e.(type) {
	case *literal:
		if !e.value.Type.IsInteger() || e.value.Type.Class() != row.Int64Class || e.value.IsNull(0) {
			refuse(unsupported(e.at, "%s a constant isn't supported", clause).WithHint("leave it out"))
		}
		n := e.value.I64[0]
		if n < 1 || n > int64(len(items)) {
			refuse(problem.New(422, "bad_sql", "%s %d is outside the SELECT list of %d columns", clause, n, len(items)).At(e.at))
		}
		return items[n-1].expr
	case *columnRef:
		for _, it := range items {
			if len(e.names) == 1 && strings.EqualFold(it.name, e.names[0]) {
				return it.expr
			}
		}
	}
	return e
}

// rank cuts the relation of a scope down to the first rows of each partition. items are the SELECT
// list and list what it binds to; done is called when everything has been bound and before the
// relation's node is read. It returns the relation and the items over it.
func (b *binder) rank(r *ranking, s *scope, items []item, list []bound, direct bool, done func()) (*relation, []bound) {
	x := &beneath{b: b, s: s, index: map[string]int{}}
	partition, windowed := x.partitionBy(r.partitions)
	order := x.orderBy(r.order)
	ties, byLog, then := x.ties(direct, items)
	done()
	list = x.carryAll(list)
	in := s.rel
	node, cols, at := x.close()
	top := NewTopN(node, r.limit, r.numbered)
	top.ByLog, top.Then, top.Windowed = byLog, then, windowed
	for _, p := range partition {
		top.Partition = append(top.Partition, at(p))
	}
	for _, k := range withoutRepeats(append(order, ties...)) {
		k.Col = at(k.Col)
		top.Order = append(top.Order, k)
	}
	out := &relation{node: top, cols: cols, key: in.key, never: in.never, shrinks: true}
	if r.numbered {
		out.cols = append(out.cols, column{name: "row_number()", typ: row.Scalar(row.BigInt), hidden: true, sealed: true, number: -1})
	}
	if out.never == "" && !windowed {
		out.never = "its first rows may change with every event: PARTITION BY holds neither window_start nor window_end"
	}
	return out, renumbered(list, func(c int) int {
		if c == numberColumn {
			return len(cols)
		}
		return carried(c, at)
	})
}

// renumbered are items over a relation whose columns stand elsewhere.
func renumbered(list []bound, to func(int) int) []bound {
	out := make([]bound, len(list))
	for i, l := range list {
		out[i] = bound{l.expr.Renumber(to), l.col}
	}
	return out
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
