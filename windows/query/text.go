package query

import (
	"strings"

	"tidemark/storage/row"
)

// text writes an expression as DuckDB's ToString does; that is also the name of a column that has
// no alias. ref writes column references.
func text(e sqlExpr, ref func(*columnRef) string) string {
	w := writer{ref: ref}
	w.expr(e)
	return w.String()
}

// plainRef writes a column reference as it stands in the text.
func plainRef(c *columnRef) string {
	parts := make([]string, len(c.names))
	for i, n := range c.names {
		parts[i] = quote(n)
	}
	return strings.Join(parts, ".")
}

// quote writes an identifier; unlike row.QuoteName it leaves capitals bare, as DuckDB does.
func quote(name string) string {
	if q := row.QuoteName(strings.ToLower(name)); !strings.HasPrefix(q, `"`) && !reserved[q] {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// reserved are the words that DuckDB writes in quotes when a column or function is named so.
var reserved = words("all analyse analyze and any array as asc asymmetric both case cast check collate column " +
	"constraint create default deferrable desc describe distinct do else end except false fetch for foreign from " +
	"grant group having in initially intersect into lambda lateral leading limit not null offset on only or order " +
	"pivot pivot_longer pivot_wider placing primary qualify references returning select show some summarize symmetric table then to " +
	"trailing true union unique unpivot using variadic when where window with " +
	"between bigint bit boolean char character coalesce columns dec decimal exists extract float generated_always grouping " +
	"grouping_id inout int integer interval map national nchar none nullif numeric out overlay position precision real row setof " +
	"smallint struct substring time timestamp treat trim try_cast values varchar xmlattributes xmlconcat xmlelement " +
	"xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable")

func words(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}

type writer struct {
	strings.Builder
	ref func(*columnRef) string
}

func (w *writer) list(list []sqlExpr, sep string) {
	for i, e := range list {
		if i > 0 {
			w.WriteString(sep)
		}
		w.expr(e)
	}
}

// all writes its arguments one after the other: strings as they are, expressions as text.
func (w *writer) all(parts ...any) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			w.WriteString(p)
		case sqlExpr:
			w.expr(p)
		}
	}
}

func (w *writer) expr(e sqlExpr) {
	switch e := e.(type) {
	case *columnRef:
		w.WriteString(w.ref(e))
	case *columnAt:
		w.WriteString(w.ref(&columnRef{exprHead: e.exprHead, names: []string{e.name}}))
	case *literal:
		w.WriteString(literalText(e.value))
	case *call:
		w.call(e)
	case *comparison:
		w.all("(", e.left, " "+e.op+" ", e.right, ")")
	case *conjunction:
		w.WriteByte('(')
		w.list(e.args, " "+e.op+" ")
		w.WriteByte(')')
	case *between:
		w.all("(", e.input, " BETWEEN ", e.lower, " AND ", e.upper, ")")
	case *castTo:
		if e.try {
			w.WriteString("TRY_")
		}
		w.all("CAST(", e.child, " AS "+e.to.String()+")")
	case *caseWhen:
		w.WriteString("CASE ")
		for i := range e.whens {
			w.all(" WHEN (", e.whens[i], ") THEN (", e.thens[i], ")")
		}
		w.all(" ELSE ", e.els, " END")
	case *operation:
		w.operation(e)
	case *star:
		w.WriteByte('*')
	case *over:
		w.WriteString(quote(e.name) + "(")
		w.list(e.args, ", ")
		w.WriteString(") OVER (")
		if len(e.partitions) > 0 {
			w.WriteString("PARTITION BY ")
			w.list(e.partitions, ", ")
		}
		if len(e.order) > 0 {
			if len(e.partitions) > 0 {
				w.WriteByte(' ')
			}
			w.order(e.order)
		}
		w.WriteByte(')')
	case *otherExpr:
		w.WriteString(e.what)
	case *subqueryExpr:
		w.WriteString("(subquery)")
	}
}

func (w *writer) order(keys []sortKey) {
	w.WriteString("ORDER BY ")
	for i, k := range keys {
		if i > 0 {
			w.WriteString(", ")
		}
		w.expr(k.expr)
		if k.desc {
			w.WriteString(" DESC")
		}
		if !k.nullsLast {
			w.WriteString(" NULLS FIRST")
		}
	}
}

func (w *writer) call(e *call) {
	switch {
	case e.operator && len(e.args) == 1:
		w.all(e.name+"(", e.args[0], ")")
		return
	case e.operator && len(e.args) == 2:
		w.all("(", e.args[0], " "+e.name+" ", e.args[1], ")")
		return
	}
	if e.sugar {
		w.WriteString("main.")
	}
	w.WriteString(quote(e.name) + "(")
	if e.distinct {
		w.WriteString("DISTINCT ")
	}
	for i, a := range e.args {
		if i > 0 {
			w.WriteString(", ")
		}
		if alias := a.head().alias; alias != "" {
			w.WriteString(quote(alias) + " := ")
		}
		w.expr(a)
	}
	if len(e.order) > 0 {
		w.WriteByte(' ')
		w.order(e.order)
	}
	w.WriteByte(')')
	if e.filter != nil {
		w.all(" FILTER (WHERE ", e.filter, ")")
	}
}

func (w *writer) operation(e *operation) {
	switch e.op {
	case "OPERATOR_NOT":
		w.all("(NOT ", e.args[0], ")")
	case "OPERATOR_IS_NULL":
		w.all("(", e.args[0], " IS NULL)")
	case "OPERATOR_IS_NOT_NULL":
		w.all("(", e.args[0], " IS NOT NULL)")
	case "COMPARE_IN", "COMPARE_NOT_IN":
		op := " IN ("
		if e.op == "COMPARE_NOT_IN" {
			op = " NOT IN ("
		}
		w.all("(", e.args[0], op)
		w.list(e.args[1:], ", ")
		w.WriteString("))")
	case "OPERATOR_COALESCE":
		w.WriteString("COALESCE(")
		w.list(e.args, ", ")
		w.WriteByte(')')
	case "STRUCT_EXTRACT":
		w.all("(", e.args[0], ").")
		if l, ok := e.args[1].(*literal); ok && len(l.value.Str) == 1 {
			w.WriteString(quote(l.value.Str[0]))
		}
	case "ARRAY_EXTRACT", "ARRAY_SLICE":
		w.all(e.args[0], "[")
		w.list(e.args[1:], ":")
		w.WriteByte(']')
	}
}

// literalText writes a constant as SQL.
func literalText(v *row.Vector) string {
	if v.IsNull(0) {
		return "NULL"
	}
	switch v.Type.Kind {
	case row.Boolean:
		if v.I64[0] != 0 {
			return "true"
		}
		return "false"
	case row.Varchar, row.JSON:
		return "'" + strings.ReplaceAll(v.Str[0], "'", "''") + "'"
	}
	return row.TextOf(v, 0)
}
