package query

import (
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/expr"
)

// branchColumn is the name of the column that says which part of a UNION ALL a row comes from.
const branchColumn = "branch"

// union binds UNION ALL, and UNION as SELECT DISTINCT over it.
func (b *binder) union(q *setQuery, needKey bool) *relation {
	if q.op != "UNION" {
		refuse(unsupported(max(0, q.at), "%s isn't supported in a view", setName(q)).
			WithHint("of the set operations a view can have UNION ALL and UNION"))
	}
	parts := b.parts(q, q.all, needKey && q.all && !q.distinct)
	out := unionAll(parts, q.at)
	if !q.all || q.distinct {
		out = distinctOf(out)
	}
	if q.limit != nil {
		out = b.limited(&q.queryHead, out)
	}
	return out
}

// parts binds the parts of a union, those of unions of the same kind inside it laid flat.
func (b *binder) parts(q *setQuery, all, needKey bool) []*relation {
	var out []*relation
	for _, side := range []sqlQuery{q.left, q.right} {
		h := side.common()
		if s, ok := side.(*setQuery); ok && s.op == "UNION" && s.all == all && len(h.ctes) == 0 && !h.distinct && h.limit == nil && len(h.order) == 0 {
			out = append(out, b.parts(s, all, needKey)...)
			continue
		}
		out = append(out, b.derived(side, needKey))
	}
	return out
}

// unionAll puts relations one under the other. The row key is the branch and the branch's own key
// (C1); each branch has key columns of its own, NULL in the others.
func unionAll(parts []*relation, at int) *relation {
	first := visible(parts[0])
	types := make([]row.Type, len(first))
	for i := range first {
		types[i] = parts[0].cols[first[i]].typ
	}
	for _, p := range parts[1:] {
		cols := visible(p)
		if len(cols) != len(first) {
			refuse(problem.New(422, "bad_sql", "the parts of a UNION have %d and %d columns", len(first), len(cols)).At(max(0, at)).
				WithHint("select as many columns in each; NULL stands for one that a part has not"))
		}
		for i, c := range cols {
			t, ok := expr.Unify(types[i], p.cols[c].typ)
			if !ok {
				refuse(problem.New(422, "type_mismatch", "column %d of a UNION is %s and %s", i+1, types[i], p.cols[c].typ).At(max(0, at)).
					WithHint("cast one of them"))
			}
			types[i] = t
		}
	}
	out := &relation{once: true}
	for i, c := range first {
		col := parts[0].cols[c]
		out.cols = append(out.cols, column{name: col.name, typ: types[i], role: col.role, timeField: col.timeField, number: -1})
		for _, p := range parts[1:] { // a column means what it means in all parts
			if other := p.cols[visible(p)[i]]; other.role != col.role || !types[i].Equal(col.typ) {
				out.cols[i].role, out.cols[i].timeField = plain, ""
			}
		}
	}
	type keyColumn struct{ part, col int }
	var keys []keyColumn
	for n, p := range parts {
		out.once = out.once && p.once
		out.shrinks = out.shrinks || p.shrinks
		if out.never == "" {
			out.never = p.never
		}
		for _, k := range p.key {
			keys = append(keys, keyColumn{n, k})
		}
	}
	out.key = append(out.key, len(out.cols))
	out.cols = append(out.cols, column{name: branchColumn, typ: row.Scalar(row.Integer), hidden: true, sealed: true, number: -1})
	for _, k := range keys {
		c := parts[k.part].cols[k.col]
		out.key = append(out.key, len(out.cols))
		out.cols = append(out.cols, column{name: c.name, typ: c.typ, hidden: true, sealed: true, number: -1})
	}
	u := &Union{}
	for n, p := range parts {
		var exprs []*expr.Expr
		var names []string
		add := func(e *expr.Expr, name string) { exprs, names = append(exprs, e), append(names, name) }
		for i, c := range visible(p) {
			e := expr.Column(c, p.field(c))
			if !e.Type.Equal(types[i]) {
				cast, err := expr.Cast(e, types[i], false)
				if err != nil {
					refuse(problem.New(422, "type_mismatch", "%v", err).At(max(0, at)))
				}
				e = cast
			}
			add(e, out.cols[i].name)
		}
		branch := row.NewVector(row.Scalar(row.Integer), 1)
		branch.AppendInt64(int64(n))
		add(expr.Const(branch), branchColumn)
		for _, k := range keys {
			c := parts[k.part].cols[k.col]
			if k.part == n {
				add(expr.Column(k.col, p.field(k.col)), c.name)
				continue
			}
			null := row.NewVector(c.typ, 1)
			null.AppendNull()
			add(expr.Const(null), c.name)
		}
		u.Ins = append(u.Ins, NewProject(p.node, exprs, names))
	}
	out.node = u
	return out
}

// visible are the columns of a relation that `*` gives.
func visible(r *relation) []int {
	var out []int
	for i, c := range r.cols {
		if !c.hidden {
			out = append(out, i)
		}
	}
	return out
}
