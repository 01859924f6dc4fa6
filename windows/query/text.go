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

// String is the reference as the text has it, for messages.
func (c *columnRef) String() string { return strings.Join(c.names, ".") }

// quote writes an identifier; unlike row.QuoteName it leaves capitals bare, as DuckDB does.
func quote(name string) string {
	if q := row.QuoteName(strings.ToLower(name)); !strings.HasPrefix(q, `"`) && !keywords[q] {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// keywords are the words that DuckDB writes in quotes when a column or function is named so.
var keywords = words("abort absolute access action add admin after aggregate all also alter always analyse analyze and anti any " +
	"array as asc asof assertion assignment asymmetric at attach attribute authorization backward before begin " +
	"between bigint binary bit boolean both by cache call called cascade cascaded case cast catalog centuries " +
	"century chain char character characteristics check checkpoint class close cluster coalesce collate collation " +
	"column columns comment comments commit committed compression concurrently configuration conflict connection " +
	"constraint constraints content continue conversion copy cost create cross csv cube current cursor cycle data " +
	"database day days deallocate dec decade decades decimal declare default defaults deferrable deferred definer " +
	"delete delimiter delimiters depends desc describe detach dictionary disable discard distinct do document " +
	"domain double drop each else enable encoding encrypted end enum escape event except exclude excluding " +
	"exclusive execute exists explain export export_state extension extensions external extract false family fetch " +
	"filter first float following for force foreign forward freeze from full function functions generated glob " +
	"global grant granted group grouping grouping_id groups handler having header hold hour hours identity if " +
	"ignore ilike immediate immutable implicit import in include including increment index indexes inherit inherits " +
	"initially inline inner inout input insensitive insert install instead int integer intersect interval into " +
	"invoker is isnull isolation join json key label language large last lateral leading leakproof left level like " +
	"limit listen load local location lock locked logged macro map mapping match materialized maxvalue method " +
	"microsecond microseconds millennia millennium millisecond milliseconds minute minutes minvalue mode month " +
	"months move name names national natural nchar new next no none not nothing notify notnull nowait null nullif " +
	"nulls numeric object of off offset oids old on only operator option options or order ordinality others out " +
	"outer over overlaps overlay overriding owned owner parallel parser partial partition passing password percent " +
	"persistent pivot pivot_longer pivot_wider placing plans policy position positional pragma preceding precision " +
	"prepare prepared preserve primary prior privileges procedural procedure program publication qualify quarter " +
	"quarters quote range read real reassign recheck recursive ref references referencing refresh reindex relative " +
	"release rename repeatable replace replica reset respect restart restrict returning returns revoke right role " +
	"rollback rollup row rows rule sample savepoint schema schemas scope scroll search second seconds secret " +
	"security select semi sequence sequences serializable server session set setof sets share show similar simple " +
	"skip smallint snapshot some sql stable standalone start statement statistics stdin stdout storage stored " +
	"strict strip struct subscription substring summarize symmetric sysid system table tables tablesample " +
	"tablespace temp template temporary text then ties time timestamp to trailing transaction transform treat " +
	"trigger trim true truncate trusted try_cast type types unbounded uncommitted unencrypted union unique unknown " +
	"unlisten unlogged unpivot until update use user using vacuum valid validate validator value values varchar " +
	"variable variadic varying verbose version view views virtual volatile week weeks when where whitespace window " +
	"with within without work wrapper write xml xmlattributes xmlconcat xmlelement xmlexists xmlforest " +
	"xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable year years yes zone")

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
	case *arrow:
		w.all("(", e.left, " -> ", e.right, ")")
	case *star:
		w.WriteByte('*')
	case *over:
		w.over(e)
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
	case e.name == anyOf:
		w.all("(", e.args[0], " = ANY(SELECT unnest(", e.args[1], ")))")
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
		switch c, _ := a.(*call); {
		case c != nil && c.rewritten:
			w.WriteString(c.alias)
			continue
		case a.head().alias != "":
			w.WriteString(quote(a.head().alias) + " := ")
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

func (w *writer) over(e *over) {
	w.WriteString(quote(e.name) + "(")
	if e.distinct {
		w.WriteString("DISTINCT ")
	}
	args := e.args
	for _, a := range []sqlExpr{e.offset, e.deflt} {
		if a != nil {
			args = append(args[:len(args):len(args)], a)
		}
	}
	w.list(args, ", ")
	if e.ignoreNull {
		w.WriteString(" IGNORE NULLS")
	}
	w.WriteByte(')')
	if e.filter != nil {
		w.all(" FILTER (WHERE ", e.filter, ")")
	}
	w.WriteString(" OVER (")
	sep := ""
	if len(e.partitions) > 0 {
		w.WriteString("PARTITION BY ")
		w.list(e.partitions, ", ")
		sep = " "
	}
	if len(e.order) > 0 {
		w.WriteString(sep)
		w.order(e.order)
		sep = " "
	}
	if e.start != "UNBOUNDED_PRECEDING" || e.end != "CURRENT_ROW_RANGE" || e.exclude != "NO_OTHER" {
		w.WriteString(sep + frameUnit(e.start, e.end) + " BETWEEN ")
		w.bound(e.start, e.startExpr)
		w.WriteString(" AND ")
		w.bound(e.end, e.endExpr)
		if e.exclude != "NO_OTHER" {
			w.WriteString(" EXCLUDE " + strings.ReplaceAll(e.exclude, "_", " "))
		}
	}
	w.WriteByte(')')
}

// frameUnit is the unit that DuckDB writes a frame with.
func frameUnit(start, end string) string {
	for _, unit := range []string{"RANGE", "GROUPS"} {
		if strings.HasSuffix(start, "_"+unit) || strings.HasSuffix(end, "_"+unit) {
			return unit
		}
	}
	return "ROWS"
}

func (w *writer) bound(kind string, offset sqlExpr) {
	switch {
	case strings.HasPrefix(kind, "CURRENT_ROW"):
		w.WriteString("CURRENT ROW")
	case strings.HasPrefix(kind, "EXPR_PRECEDING"):
		w.all(offset, " PRECEDING")
	case strings.HasPrefix(kind, "EXPR_FOLLOWING"):
		w.all(offset, " FOLLOWING")
	default:
		w.WriteString(strings.ReplaceAll(kind, "_", " "))
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
