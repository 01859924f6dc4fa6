package query

import (
	"encoding/json"
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"

	"tidemark/storage/row"
	"tidemark/windows/expr"
)

// This file is the only one that knows the shapes of DuckDB's syntax tree (json_serialize_sql of
// DuckDB 1.1.3). Every member of every object is taken by name, and what is left over is refused:
// a new DuckDB can't slip a meaning past us (Q1).

// members takes the members of an object one by one.
type members struct {
	rest object
	what string
	at   int
}

// open begins to read an object.
func open(v any, what string) *members {
	o, ok := v.(object)
	if !ok {
		refuse(unsupported(-1, "the parser's answer holds no %s where one belongs", what))
	}
	rest := make(object, len(o))
	for k, m := range o {
		rest[k] = m
	}
	at := location(o)
	if at < 0 {
		at = leftmost(o)
	}
	delete(rest, "query_location")
	return &members{rest: rest, what: what, at: at}
}

func (m *members) take(name string) any {
	v := m.rest[name]
	delete(m.rest, name)
	return v
}

func (m *members) text(name string) string {
	s, _ := m.take(name).(string)
	return s
}

func (m *members) flag(name string) bool {
	b, _ := m.take(name).(bool)
	return b
}

func (m *members) list(name string) []any {
	l, _ := m.take(name).([]any)
	return l
}

func (m *members) texts(name string) []string {
	var out []string
	for _, v := range m.list(name) {
		s, ok := v.(string)
		if !ok {
			refuse(unsupported(m.at, "%s: %s holds what is no name", m.what, name))
		}
		out = append(out, s)
	}
	return out
}

// expr takes an expression that may be missing.
func (m *members) expr(name string) sqlExpr {
	v := m.take(name)
	if v == nil {
		return nil
	}
	return decodeExpr(v)
}

// must takes an expression that belongs there.
func (m *members) must(name string) sqlExpr {
	e := m.expr(name)
	if e == nil {
		refuse(unsupported(m.at, "%s without its %s isn't supported", m.what, name))
	}
	return e
}

func (m *members) exprs(name string) []sqlExpr {
	var out []sqlExpr
	for _, v := range m.list(name) {
		out = append(out, decodeExpr(v))
	}
	return out
}

// plain refuses the object unless the named members hold nothing.
func (m *members) plain(names ...string) {
	for _, n := range names {
		switch v := m.take(n).(type) {
		case nil:
		case bool:
			if v {
				refuse(unsupported(m.at, "%s with %s isn't supported", m.what, n))
			}
		case string:
			if v != "" {
				refuse(unsupported(m.at, "%s with %s %q isn't supported", m.what, n, v))
			}
		case []any:
			if len(v) > 0 {
				refuse(unsupported(m.at, "%s with %s isn't supported", m.what, n))
			}
		default:
			refuse(unsupported(m.at, "%s with %s isn't supported", m.what, n))
		}
	}
}

// end refuses what has not been taken.
func (m *members) end() {
	if len(m.rest) == 0 {
		return
	}
	names := make([]string, 0, len(m.rest))
	for n := range m.rest {
		names = append(names, n)
	}
	sort.Strings(names)
	refuse(unsupported(m.at, "%s with %s isn't supported", m.what, strings.Join(names, ", ")))
}

// comparisons are DuckDB's comparison types as SQL writes them.
var comparisons = map[string]string{
	"COMPARE_EQUAL": "=", "COMPARE_NOTEQUAL": "<>", "COMPARE_LESSTHAN": "<", "COMPARE_GREATERTHAN": ">",
	"COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHANOREQUALTO": ">=",
	"COMPARE_DISTINCT_FROM": "IS DISTINCT FROM", "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}

// operations are the OPERATOR types that the binder knows, with the least and the greatest number
// of operands; 0: no limit.
var operations = map[string][2]int{
	"OPERATOR_NOT": {1, 1}, "OPERATOR_IS_NULL": {1, 1}, "OPERATOR_IS_NOT_NULL": {1, 1}, "OPERATOR_COALESCE": {1, 0},
	"COMPARE_IN": {2, 0}, "COMPARE_NOT_IN": {2, 0}, "STRUCT_EXTRACT": {2, 2}, "ARRAY_EXTRACT": {2, 2}, "ARRAY_SLICE": {2, 4},
}

// otherClasses are the expressions that are refused, in words.
var otherClasses = map[string]string{
	"PARAMETER": "a parameter", "POSITIONAL_REFERENCE": "a column by number (#1)",
	"COLLATE": "COLLATE", "DEFAULT": "DEFAULT", "LAMBDA_REF": "a lambda function",
}

func decodeExpr(v any) sqlExpr {
	m := open(v, "an expression")
	class, typ := m.text("class"), m.text("type")
	m.what = strings.ToLower(strings.ReplaceAll(class, "_", " "))
	h := exprHead{at: m.at, alias: m.text("alias")}
	var e sqlExpr
	switch class {
	case "COLUMN_REF":
		c := &columnRef{h, m.texts("column_names")}
		if len(c.names) == 0 {
			refuse(unsupported(m.at, "a column without a name isn't supported"))
		}
		e = c
	case "CONSTANT":
		e = &literal{h, decodeValue(m.take("value"), m.at)}
	case "FUNCTION":
		e = decodeCall(m, h)
	case "COMPARISON":
		op, ok := comparisons[typ]
		if !ok {
			refuse(unsupported(m.at, "the comparison %s isn't supported", typ))
		}
		e = &comparison{h, op, m.must("left"), m.must("right")}
	case "CONJUNCTION":
		e = &conjunction{h, strings.TrimPrefix(typ, "CONJUNCTION_"), m.exprs("children")}
	case "OPERATOR":
		arity, ok := operations[typ]
		if typ == "GROUPING_FUNCTION" {
			return &otherExpr{h, "GROUPING"}
		}
		if !ok {
			refuse(unsupported(m.at, "the operator %s isn't supported", typ))
		}
		args := m.exprs("children")
		if len(args) < arity[0] || arity[1] > 0 && len(args) > arity[1] {
			refuse(unsupported(m.at, "the operator %s with %d operands isn't supported", typ, len(args)))
		}
		e = &operation{h, typ, args}
	case "BETWEEN":
		e = &between{h, m.must("input"), m.must("lower"), m.must("upper")}
	case "CASE":
		c := &caseWhen{exprHead: h}
		for _, v := range m.list("case_checks") {
			w := open(v, "CASE")
			c.whens, c.thens = append(c.whens, w.must("when_expr")), append(c.thens, w.must("then_expr"))
			w.end()
		}
		c.els = m.expr("else_expr")
		e = c
	case "CAST":
		c := &castTo{exprHead: h, child: m.must("child"), try: m.flag("try_cast")}
		c.to = decodeType(m.take("cast_type"), m.at)
		e = c
	case "LAMBDA": // also what a -> '$.b' is parsed as
		e = &arrow{exprHead: h, left: m.must("lhs"), right: m.must("expr")}
	case "STAR":
		if columns, _ := m.rest["columns"].(bool); columns {
			return &otherExpr{h, "COLUMNS(…)"}
		}
		e = decodeStar(m, h)
	case "SUBQUERY":
		s := &subqueryExpr{exprHead: h, kind: m.text("subquery_type")}
		s.query = decodeStatement(m.take("subquery"))
		child, how := m.expr("child"), m.text("comparison_type")
		if list := unnested(s.query); s.kind == "ANY" && how == "COMPARE_EQUAL" && list != nil && child != nil {
			e = &call{exprHead: h, name: anyOf, args: []sqlExpr{child, list}}
			break
		}
		e = s
	case "WINDOW":
		e = decodeOver(m, h)
	default:
		what, ok := otherClasses[class]
		if !ok {
			what = "the expression " + class
		}
		return &otherExpr{h, what}
	}
	m.end()
	return e
}

// anyOf is the name of what stands for x = ANY(list).
const anyOf = "= any"

// unnested is the list in SELECT unnest(list), which the parser makes of ANY(list), or nil.
func unnested(q sqlQuery) sqlExpr {
	s, ok := q.(*selectQuery)
	if !ok || len(s.items) != 1 || s.where != nil || s.having != nil || s.qualify != nil || s.groupAll ||
		len(s.groups)+len(s.sets)+len(s.ctes)+len(s.order) > 0 || s.distinct || s.limit != nil || s.offset != nil {
		return nil
	}
	c, ok := s.items[0].(*call)
	if _, empty := s.from.(*emptyTable); !ok || !empty || c.name != "unnest" || len(c.args) != 1 || c.distinct || c.filter != nil || len(c.order) > 0 {
		return nil
	}
	return c.args[0]
}

func decodeCall(m *members, h exprHead) *call {
	c := &call{exprHead: h, name: strings.ToLower(m.text("function_name"))}
	m.what = "the function " + c.name
	schema := m.text("schema")
	c.sugar = schema == "main"
	if schema != "" && !c.sugar {
		refuse(unsupported(m.at, "%s.%s(…): functions have no schema here", schema, c.name).
			WithHint("write %s(%s, …) instead of the dot", c.name, schema))
	}
	c.operator = m.flag("is_operator")
	c.args = m.exprs("children")
	c.filter = m.expr("filter")
	if v := m.take("order_bys"); v != nil {
		o := open(v, "ORDER BY")
		o.take("type")
		c.order = decodeOrder(o.list("orders"))
		o.end()
	}
	c.distinct = m.flag("distinct")
	m.plain("export_state", "catalog")
	if expr.TakesLambda(c.name) && len(c.args) > 1 {
		if a, ok := c.args[1].(*arrow); ok {
			a.params = paramsOf(a.left)
		}
	}
	return unsugared(c)
}

// paramsOf are the parameters in front of a lambda function's arrow: x, or (x, i).
func paramsOf(left sqlExpr) []string {
	list := []sqlExpr{left}
	if c, ok := left.(*call); ok && c.name == "row" {
		list = c.args
	}
	params := []string{}
	for _, e := range list {
		c, ok := e.(*columnRef)
		if !ok || len(c.names) != 1 {
			refuse(unsupported(left.head().at, "what stands before -> of a lambda function must be names").WithHint("write x -> …, or (x, i) -> …"))
		}
		params = append(params, c.names[0])
	}
	return params
}

// unsugared undoes what the parser makes of list(x ORDER BY x): list_sort(list(x), order, nulls).
func unsugared(c *call) *call {
	if c.name != "list_sort" || len(c.args) != 3 || c.distinct || c.filter != nil || len(c.order) > 0 {
		return c
	}
	inner, ok := c.args[0].(*call)
	order, nulls := keyword(c.args[1]), keyword(c.args[2])
	if !ok || inner.name != "list" && inner.name != "array_agg" || len(inner.args) != 1 || order == "" || nulls == "" {
		return c
	}
	key := object{"type": order, "null_order": nulls}
	sorted := *inner
	sorted.exprHead = c.exprHead
	if sorted.alias == "" {
		sorted.alias, sorted.rewritten = textOf(c), true
	}
	sorted.order = []sortKey{sortKeyOf(open(key, "ORDER BY"), inner.args[0])}
	return &sorted
}

// keyword is a constant text that only the parser writes, or empty.
func keyword(e sqlExpr) string {
	l, ok := e.(*literal)
	if !ok || l.value.Type.Kind != row.Varchar || l.value.IsNull(0) {
		return ""
	}
	switch s := l.value.Str[0]; s {
	case "ORDER_DEFAULT", "ASCENDING", "DESCENDING", "NULLS_FIRST", "NULLS_LAST":
		return s
	}
	return ""
}

func decodeOrder(list []any) []sortKey {
	var out []sortKey
	for _, v := range list {
		o := open(v, "ORDER BY")
		out = append(out, sortKeyOf(o, o.expr("expression")))
	}
	return out
}

func sortKeyOf(o *members, e sqlExpr) sortKey {
	k := sortKey{expr: e, nullsLast: true} // DuckDB's default, in both directions
	if e == nil {
		refuse(unsupported(o.at, "ORDER BY without an expression isn't supported"))
	}
	switch typ := o.text("type"); typ {
	case "DESCENDING":
		k.desc = true
	case "ASCENDING", "ORDER_DEFAULT":
	default:
		refuse(unsupported(e.head().at, "the sort order %s isn't supported", typ))
	}
	switch nulls := o.text("null_order"); nulls {
	case "NULLS_FIRST":
		k.nullsLast = false
	case "NULLS_LAST", "ORDER_DEFAULT":
	default:
		refuse(unsupported(e.head().at, "the order of nulls %s isn't supported", nulls))
	}
	o.end()
	return k
}

func decodeStar(m *members, h exprHead) sqlExpr {
	s := &star{exprHead: h, relation: m.text("relation_name"), exclude: m.texts("exclude_list")}
	for _, v := range m.list("replace_list") {
		r := open(v, "REPLACE")
		name := r.text("key")
		e := r.must("value")
		e.head().alias = name
		s.replace = append(s.replace, e)
		r.end()
	}
	m.plain("columns", "expr", "unpacked")
	return s
}

func decodeOver(m *members, h exprHead) sqlExpr {
	o := &over{exprHead: h, name: strings.ToLower(m.text("function_name"))}
	m.what = o.name + " OVER"
	m.plain("schema", "catalog")
	o.args, o.partitions = m.exprs("children"), m.exprs("partitions")
	o.order = decodeOrder(m.list("orders"))
	o.start, o.end = m.text("start"), m.text("end")
	o.startExpr, o.endExpr = m.expr("start_expr"), m.expr("end_expr")
	o.offset, o.deflt, o.filter = m.expr("offset_expr"), m.expr("default_expr"), m.expr("filter_expr")
	o.ignoreNull, o.exclude, o.distinct = m.flag("ignore_nulls"), m.text("exclude_clause"), m.flag("distinct")
	m.end()
	return o
}

// decodeValue reads a constant.
func decodeValue(v any, at int) *row.Vector {
	m := open(v, "a constant")
	typ := decodeType(m.take("type"), at)
	null := m.flag("is_null")
	value := m.take("value")
	m.end()
	out := row.NewVector(typ, 1)
	if null {
		out.AppendNull()
		return out
	}
	bad := func() { refuse(unsupported(at, "a constant of type %s isn't supported", typ)) }
	switch x := value.(type) {
	case bool:
		n := int64(0)
		if x {
			n = 1
		}
		if typ.Kind != row.Boolean {
			bad()
		}
		out.AppendInt64(n)
	case string:
		if typ.Kind != row.Varchar {
			bad()
		}
		out.AppendString(x)
	case json.Number:
		switch typ.Class() {
		case row.Int64Class:
			n, err := strconv.ParseInt(x.String(), 10, 64)
			if err != nil {
				bad()
			}
			out.AppendInt64(n)
		case row.Float64Class:
			f, err := strconv.ParseFloat(x.String(), 64)
			if err != nil || math.IsInf(f, 0) {
				bad()
			}
			out.AppendFloat64(f)
		default:
			bad()
		}
	case object:
		if children, ok := x["children"].([]any); ok && typ.Kind == row.List && len(children) == 0 {
			out.AppendString("") // an end of a slice that is left out
			break
		}
		if typ.Class() != row.Int128Class || typ.Kind == row.Interval {
			bad()
		}
		hi, ok1 := new(big.Int).SetString(numberText(x["upper"]), 10)
		lo, ok2 := new(big.Int).SetString(numberText(x["lower"]), 10)
		if !ok1 || !ok2 || len(x) != 2 || !hi.IsInt64() || !lo.IsUint64() {
			bad()
		}
		out.AppendInt128(row.Int128{Hi: hi.Int64(), Lo: lo.Uint64()})
	default:
		bad()
	}
	return out
}

func numberText(v any) string {
	n, _ := v.(json.Number)
	return n.String()
}

// typeIDs are DuckDB's names of the types that have no parameters.
var typeIDs = map[string]row.Kind{
	"NULL": row.Null, "BOOLEAN": row.Boolean, "TINYINT": row.TinyInt, "SMALLINT": row.SmallInt, "INTEGER": row.Integer,
	"BIGINT": row.BigInt, "HUGEINT": row.HugeInt, "FLOAT": row.Float, "DOUBLE": row.Double, "VARCHAR": row.Varchar,
	"BLOB": row.Blob, "DATE": row.Date, "TIMESTAMP": row.Timestamp, "INTERVAL": row.Interval,
}

// decodeType reads a type.
func decodeType(v any, at int) row.Type {
	m := open(v, "a type")
	id := m.text("id")
	info := m.take("type_info")
	m.end()
	var p *members
	if info != nil {
		p = open(info, "the type "+id)
		p.at = at
		p.take("type")
		p.plain("alias", "modifiers")
	}
	no := func(name string) row.Type {
		refuse(unsupported(at, "the type %s isn't supported", name).WithHint("the types are BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT, FLOAT, DOUBLE, DECIMAL(p,s), VARCHAR, DATE, TIMESTAMP, INTERVAL, JSON, T[] and STRUCT(…)"))
		return row.Type{}
	}
	if kind, ok := typeIDs[id]; ok && p == nil {
		return row.Scalar(kind)
	}
	if p == nil {
		return no(id)
	}
	var t row.Type
	switch id {
	case "DECIMAL":
		width, err1 := strconv.Atoi(numberText(p.take("width")))
		scale, err2 := strconv.Atoi(numberText(p.take("scale")))
		if err1 != nil || err2 != nil || width < 1 || width > 38 || scale < 0 || scale > width {
			return no("DECIMAL")
		}
		t = row.DecimalType(uint8(width), uint8(scale))
	case "LIST":
		t = row.ListOf(decodeType(p.take("child_type"), at))
	case "STRUCT":
		for _, c := range p.list("child_types") {
			f := open(c, "a STRUCT's member")
			name := f.text("first")
			t.Fields = append(t.Fields, row.Field{Name: name, Type: decodeType(f.take("second"), at)})
			f.end()
		}
		t.Kind = row.Struct
	case "USER":
		name := p.text("user_type_name")
		p.plain("catalog", "schema", "user_type_modifiers")
		if !strings.EqualFold(name, "JSON") {
			return no(name)
		}
		t = row.Scalar(row.JSON)
	default:
		return no(id)
	}
	p.end()
	return t
}

// decodeStatement reads {"node": …}.
func decodeStatement(v any) sqlQuery {
	m := open(v, "a statement")
	q := decodeQuery(m.take("node"))
	m.end()
	return q
}

func decodeQuery(v any) sqlQuery {
	m := open(v, "a query")
	h := queryHead{at: m.at}
	typ := m.text("type")
	switch typ {
	case "SELECT_NODE", "SET_OPERATION_NODE":
	case "CTE_NODE":
		// WITH … AS MATERIALIZED: the node repeats what cte_map of its child already says.
		return decodeQuery(m.take("child"))
	case "RECURSIVE_CTE_NODE":
		return &otherQuery{h, "WITH RECURSIVE"}
	default:
		return &otherQuery{h, "the query " + typ}
	}
	m.what = "a SELECT"
	decodeModifiers(m, &h)
	ctes := open(m.take("cte_map"), "WITH")
	for _, v := range ctes.list("map") {
		e := open(v, "WITH")
		c := cte{name: e.text("key")}
		value := open(e.take("value"), "WITH")
		c.columns = value.texts("aliases")
		c.query = decodeStatement(value.take("query"))
		value.take("materialized") // a matter of speed alone
		value.end()
		e.end()
		h.ctes = append(h.ctes, c)
	}
	ctes.end()
	if typ == "SET_OPERATION_NODE" {
		s := &setQuery{queryHead: h, op: m.text("setop_type"), all: m.flag("setop_all")}
		s.left, s.right = decodeQuery(m.take("left")), decodeQuery(m.take("right"))
		m.end()
		return s
	}
	s := &selectQuery{queryHead: h}
	s.items = m.exprs("select_list")
	s.from = decodeTable(m.take("from_table"))
	s.where = m.expr("where_clause")
	s.groups = m.exprs("group_expressions")
	for _, set := range m.list("group_sets") {
		var numbers []int
		list, _ := set.([]any)
		for _, n := range list {
			i, err := strconv.Atoi(numberText(n))
			if err != nil || i < 0 || i >= len(s.groups) {
				refuse(unsupported(m.at, "this form of GROUP BY isn't supported"))
			}
			numbers = append(numbers, i)
		}
		s.sets = append(s.sets, numbers)
	}
	switch handling := m.text("aggregate_handling"); handling {
	case "STANDARD_HANDLING":
	case "FORCE_AGGREGATES":
		s.groupAll = true
	default:
		refuse(unsupported(m.at, "aggregates with %s aren't supported", handling))
	}
	s.having, s.qualify = m.expr("having"), m.expr("qualify")
	if m.take("sample") != nil {
		refuse(unsupported(m.at, "USING SAMPLE isn't supported").
			WithHint("a sample differs from run to run; filter by a column instead, such as id % 10 = 0"))
	}
	m.end()
	return s
}

func decodeModifiers(m *members, h *queryHead) {
	for _, v := range m.list("modifiers") {
		o := open(v, "a SELECT")
		switch typ := o.text("type"); typ {
		case "ORDER_MODIFIER":
			h.order, h.orderAt = decodeOrder(o.list("orders")), o.at
		case "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER":
			h.limit, h.offset, h.limitAt = o.expr("limit"), o.expr("offset"), o.at
			h.percent = typ == "LIMIT_PERCENT_MODIFIER"
		case "DISTINCT_MODIFIER":
			h.distinct, h.on = true, o.exprs("distinct_on_targets")
		default:
			refuse(unsupported(m.at, "a SELECT with %s isn't supported", typ))
		}
		o.end()
	}
}

// otherTables are the kinds of FROM that are refused, in words.
var otherTables = map[string]string{
	"EXPRESSION_LIST": "VALUES", "SHOW_REF": "DESCRIBE or SHOW", "PIVOT": "PIVOT", "COLUMN_DATA": "a table of values",
	"DELIM_GET": "this kind of FROM",
}

func decodeTable(v any) sqlTable {
	m := open(v, "FROM")
	typ := m.text("type")
	h := tableHead{at: m.at, alias: m.text("alias")}
	if m.take("sample") != nil {
		refuse(unsupported(m.at, "TABLESAMPLE isn't supported").
			WithHint("a sample differs from run to run; filter by a column instead, such as id % 10 = 0"))
	}
	var t sqlTable
	switch typ {
	case "BASE_TABLE":
		h.columns = m.texts("column_name_alias")
		name := m.text("table_name")
		for _, part := range []string{"schema_name", "catalog_name"} {
			if s := m.text(part); s != "" {
				refuse(unsupported(m.at, "%s.%s: relations have no schema here", s, name).WithHint("write %s alone", name))
			}
		}
		t = &baseTable{h, name}
	case "TABLE_FUNCTION":
		h.columns = m.texts("column_name_alias")
		function, _ := m.rest["function"].(object)
		c, ok := m.expr("function").(*call)
		if !ok {
			refuse(unsupported(m.at, "this table function isn't supported"))
		}
		t = &tableFunction{h, c, leftmost(function["children"])}
	case "SUBQUERY":
		h.columns = m.texts("column_name_alias")
		t = &derivedTable{h, decodeStatement(m.take("subquery"))}
	case "JOIN":
		j := &joinTable{tableHead: h, joinType: m.text("join_type"), refType: m.text("ref_type"), using: m.texts("using_columns")}
		j.left, j.right = decodeTable(m.take("left")), decodeTable(m.take("right"))
		j.condition = m.expr("condition")
		m.plain("delim_flipped", "duplicate_eliminated_columns")
		t = j
	case "EMPTY":
		t = &emptyTable{h}
	default:
		what, ok := otherTables[typ]
		if !ok {
			what = "FROM " + typ
		}
		return &otherTable{h, what}
	}
	m.end()
	return t
}
