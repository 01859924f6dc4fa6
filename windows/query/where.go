package query

import (
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/expr"
)

// rowsOf is a relation of a view's columns, for conditions on its rows.
func rowsOf(fields []row.Field) *relation {
	r := &relation{}
	for _, f := range fields {
		r.cols = append(r.cols, column{name: f.Name, typ: f.Type, number: -1})
	}
	return r
}

// clause parses a text that stands behind a beginning of a SELECT. Places in problems are places
// in the text alone.
func clause(parser ParseSQL, beginning, text string) *selectQuery {
	q, ok := decodeStatement(parse(parser, beginning+text)).(*selectQuery)
	if !ok || len(q.items) != 1 || len(q.groups) > 0 || len(q.sets) > 0 || q.groupAll || q.having != nil || q.qualify != nil ||
		q.limit != nil || q.offset != nil || q.distinct || len(q.ctes) > 0 {
		refuse(problem.New(422, "bad_sql", "%s is more than one condition or order", clip(text)).At(len(beginning)))
	}
	return q
}

// shift moves a problem's place back by the length of what we wrote before the user's text.
func shift(err *error, n int) {
	if p, ok := (*err).(*problem.Problem); ok && p.Position >= 0 {
		p.Position = max(0, p.Position-n)
	}
}

// CompileWhere binds a condition over a view's columns: the `where` of /rows, subscriptions and
// panels. A blank text is no condition and gives nil.
func CompileWhere(parser ParseSQL, fields []row.Field, text string) (pred *expr.Expr, err error) {
	const beginning = "SELECT * FROM view WHERE "
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	defer shift(&err, len(beginning))
	defer boundary(&err)
	q := clause(parser, beginning, text)
	if q.where == nil || len(q.order) > 0 {
		refuse(problem.New(422, "bad_sql", "%s is no condition", clip(text)).At(len(beginning)).
			WithHint("write one over the view's columns, such as country = 'DE'"))
	}
	b := &binder{plan: &Plan{}}
	return b.predicate(q.where, &scope{rel: rowsOf(fields), clause: "where"}), nil
}

// ParseOrder reads an order over a view's columns, such as "revenue DESC, country". As in DuckDB,
// nulls come last unless the text says otherwise. A blank text gives nil.
func ParseOrder(parser ParseSQL, fields []row.Field, text string) (keys []OrderKey, err error) {
	const beginning = "SELECT * FROM view ORDER BY "
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	defer shift(&err, len(beginning))
	defer boundary(&err)
	q := clause(parser, beginning, text)
	if q.where != nil || len(q.order) == 0 {
		refuse(problem.New(422, "bad_sql", "%s is no order", clip(text)).At(len(beginning)))
	}
	rel := rowsOf(fields)
	for _, k := range q.order {
		c, ok := k.expr.(*columnRef)
		if !ok {
			refuse(unsupported(place(k.expr, len(beginning)), "order takes columns only, not %s", clip(textOf(k.expr))).
				WithHint("add the expression to the view as a column"))
		}
		col, path, ok := rel.resolve(c)
		if !ok {
			refuse(rel.unknownColumn(c))
		}
		if len(path) > 0 {
			refuse(unsupported(c.at, "order takes columns only, not members of a STRUCT"))
		}
		keys = append(keys, OrderKey{Col: col, Desc: k.desc, NullsLast: k.nullsLast})
	}
	return keys, nil
}

func textOf(e sqlExpr) string { return text(e, plainRef) }
