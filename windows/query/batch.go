package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// Batch writes a text for DuckDB over history, where every stream is a table of its name with the
// pseudo columns as columns. Window functions become plain SQL wherever they stand; `*` gives the
// columns that it gives in a view; what DuckDB leaves open follows the log (N3). All else stays as
// it is. A view's SQL so gives the view's rows (Q5).
//
// The text is changed in the syntax tree, never as text: fromAST writes the tree back.
func Batch(parser ParseSQL, fromAST SQLFromAST, cat Catalog, sql string) (string, error) {
	return BatchUpTo(parser, fromAST, cat, sql, nil)
}

// BatchUpTo is Batch over the beginning of the log: of each stream that upTo names (in lower case)
// only events up to that sequence count, and only the columns that the catalog has. A view that is
// read becomes a subquery with its SQL, when upTo is not nil; else it is history's table of its rows.
func BatchUpTo(parser ParseSQL, fromAST SQLFromAST, cat Catalog, sql string, upTo map[string]stream.Sequence) (string, error) {
	return BatchWithout(parser, fromAST, cat, sql, upTo, nil)
}

// Left is what a window function leaves out of the batch answer (T1), as conditions that the rest
// fulfils. An empty text is no condition.
type Left struct {
	// Input holds for the events of each stream, by its name in lower case, that the function
	// reads: over the stream's columns and pseudo columns.
	Input map[string]string
	// Output holds for the rows that the function gives: over window_start and window_end, and,
	// where its argument is a stream, over the stream's columns and pseudo columns.
	Output string
	// Partly are, of a hop, events that only its latest windows took, by how many those are: for the
	// events of each stream as in Input. What Input leaves out stands in it, too.
	Partly map[int64]map[string]string
	// Groups is the least window_end, in microseconds, that no window of a group may reach: the groups
	// are those of the SELECT that reads the function. nil: all groups stay.
	Groups *windows.Micros
}

// BatchWithout is BatchUpTo without what the view's window functions refused: left says it of each,
// by its number in the order of the text.
func BatchWithout(parser ParseSQL, fromAST SQLFromAST, cat Catalog, sql string, upTo map[string]stream.Sequence, left func(number int) Left) (out string, err error) {
	defer boundary(&err)
	statement := parse(parser, sql)
	r := &rewriter{parser: parser, cat: cat, upTo: upTo, left: left}
	if upTo != nil || left != nil {
		r.outline = outlineOf(parser, cat, statement)
	}
	r.query(statement["node"], nil)
	keepDoubles(statement)
	tree, err := json.Marshal(object{"error": false, "statements": []any{statement}})
	if err != nil {
		return "", fmt.Errorf("encode the syntax tree: %w", err)
	}
	if out, err = fromAST(tree); err != nil {
		var p *problem.Problem
		if !errors.As(err, &p) {
			p = unsupported(-1, "DuckDB can't write this SQL back from its syntax tree").WithHint("write it in another way")
			p.Cause = err
		}
		return "", p
	}
	return out, nil
}

// rewriter changes a tree in place.
type rewriter struct {
	parser ParseSQL
	cat    Catalog
	upTo   map[string]stream.Sequence
	left   func(number int) Left
	within []Left // of the window functions around what is rewritten
	// outline is that of the texts of the view; nil where views stay tables of history. text is the
	// name of the view whose text is rewritten, views how many have been written out.
	outline *outline
	text    string
	views   int
}

// leftBy is what the window function with this place (that of its first argument) leaves out.
func (r *rewriter) leftBy(at int) Left {
	if r.left == nil {
		return Left{}
	}
	return r.left(r.outline.number(r.text, at))
}

// view is the subquery that a view is, or nil when a name means something else.
func (r *rewriter) view(name string, at any, ctes []namedQuery) object {
	if r.outline == nil || findCTE(ctes, name) >= 0 {
		return nil
	}
	rel, ok := r.cat.Relation(name)
	if !ok || rel.View == nil {
		return nil
	}
	if rel.View.EmitFinal && r.left == nil {
		refuse(problem.New(422, "final_only", "%s gives out final rows only: its SQL alone does not tell which those are", rel.Name))
	}
	if r.views++; r.views > maxTables {
		refuse(problem.New(422, "sql_too_complex", "the SQL reads more than %d views, those beneath them counted each time", maxTables))
	}
	text := strings.ToLower(rel.Name)
	statement, _ := copied(r.outline.texts[text].statement).(object)
	cat, outer := r.cat, r.text
	r.cat, r.text = rel.View.Within, text
	r.query(statement["node"], nil)
	r.cat, r.text = cat, outer
	return object{
		"type": "SUBQUERY", "alias": rel.Name, "sample": nil, "query_location": at,
		"subquery": whole(statement, rel.Name), "column_name_alias": []any{},
	}
}

// whole is a query that has all columns of another computed, whichever are read: a row of a view that
// one of its columns fails for is no row of the view (E1).
func whole(statement object, of string) object {
	name := "rows of " + of
	value := object{"aliases": []any{}, "query": statement, "materialized": "CTE_MATERIALIZE_ALWAYS"}
	return object{"node": object{
		"type": "SELECT_NODE", "modifiers": []any{}, "cte_map": object{"map": []any{object{"key": name, "value": value}}},
		"select_list": []any{object{
			"class": "STAR", "type": "STAR", "alias": "", "relation_name": "",
			"exclude_list": []any{}, "replace_list": []any{}, "columns": false, "expr": nil, "unpacked": false,
		}},
		"from_table": object{
			"type": "BASE_TABLE", "alias": "", "sample": nil, "schema_name": "", "table_name": name, "column_name_alias": []any{}, "catalog_name": "",
		},
		"where_clause": nil, "group_expressions": []any{}, "group_sets": []any{},
		"aggregate_handling": "STANDARD_HANDLING", "having": nil, "sample": nil, "qualify": nil,
	}}
}

// inline is the subquery that a CTE is where a window function around it leaves out events, which the
// CTE itself does not; else nil.
func (r *rewriter) inline(name string, at any, ctes []namedQuery) object {
	i := findCTE(ctes, name)
	if i < 0 || !slices.ContainsFunc(r.within, func(l Left) bool { return len(l.Input) > 0 }) {
		return nil
	}
	statement, _ := copied(ctes[i].written).(object)
	r.query(statement["node"], ctes[:i])
	names := []any{}
	for _, c := range ctes[i].columns {
		names = append(names, c)
	}
	return object{
		"type": "SUBQUERY", "alias": ctes[i].name, "sample": nil, "query_location": at,
		"subquery": statement, "column_name_alias": names,
	}
}

// windowPlaces are the places of the first arguments of the window functions of a text, in order.
func windowPlaces(v any) []int {
	var places []int
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, m := range v {
				walk(m)
			}
		case object:
			if f, ok := v["function"].(object); ok && v["type"] == "TABLE_FUNCTION" {
				if _, ok := windowKinds[functionName(f)]; ok {
					places = append(places, leftmost(f["children"])) // the function itself has no place
				}
			}
			for _, m := range v {
				walk(m)
			}
		}
	}
	walk(v)
	slices.Sort(places)
	return places
}

// query rewrites a query node; ctes are the names that hide relations of the catalog.
func (r *rewriter) query(v any, ctes []namedQuery) {
	q, ok := v.(object)
	if !ok {
		return
	}
	for _, c := range namedQueries(q) {
		if r.left != nil {
			c.written, _ = copied(c.written).(object)
		}
		ctes = append(slices.Clip(ctes), c)
		r.query(c.node, ctes) // a recursive one sees itself
	}
	if from, ok := q["from_table"].(object); ok {
		keepNames(q)
		s := r.selection(q, from, ctes)
		for name, m := range q {
			inner := s
			if name == "modifiers" { // the star of ORDER BY ALL stands for the SELECT list
				inner.events = nil
			}
			if name != "from_table" && name != "cte_map" {
				r.inside(m, ctes, inner)
			}
		}
		settleLimit(q, s)
		if q["aggregate_handling"] == "FORCE_AGGREGATES" && (q["qualify"] != nil || contains(q["select_list"], isOver)) {
			r.spellGroups(q, from, ctes)
		}
		r.keepGroups(q, from)
		q["from_table"] = r.table(from, ctes)
		return
	}
	settleLimit(q, selection{output: r.names(q, ctes)})
	for name, m := range q {
		if name != "cte_map" {
			r.inside(m, ctes, selection{})
		}
	}
}

// keepGroups leaves the groups out that a window function says, in the SELECT that reads it.
func (r *rewriter) keepGroups(q, from object) {
	f, _ := from["function"].(object)
	if _, ok := windowKinds[functionName(f)]; !ok || from["type"] != "TABLE_FUNCTION" {
		return
	}
	args, _ := f["children"].([]any)
	behind := r.leftBy(leftmost(args)).Groups
	if behind == nil {
		return
	}
	groups, _ := q["group_expressions"].([]any)
	if len(groups) == 0 && q["aggregate_handling"] != "FORCE_AGGREGATES" {
		refuse(problem.New(422, "groups_elsewhere", "the windows of a %s are grouped in another SELECT than the one that reads it", functionName(f)))
	}
	alias, _ := from["alias"].(string)
	if name, ok := argumentName(f); alias == "" && ok {
		alias = name
	} else if alias == "" {
		alias = functionName(f)
	}
	having, holes := "max(__end) < make_timestamp("+fmt.Sprint(*behind)+")", map[string]any{"__end": columnNode(alias, WindowEnd)}
	if own := q["having"]; own != nil {
		having, holes["__own"] = "__own AND "+having, own
	}
	statement := parse(r.parser, "SELECT 1 AS one FROM __input GROUP BY one HAVING "+having)
	node, _ := statement["node"].(object)
	q["having"] = fill(node["having"], holes, nil)
}

// events are the names in a FROM under which rows of a stream stand, with their pseudo columns.
func (r *rewriter) events(t object, ctes []namedQuery) map[string]bool {
	names := map[string]bool{}
	var walk func(t object)
	walk = func(t object) {
		alias, _ := t["alias"].(string)
		switch t["type"] {
		case "BASE_TABLE":
			name, _ := t["table_name"].(string)
			if r.isStream(name, ctes) {
				names[strings.ToLower(orText(alias, name))] = true
			}
		case "TABLE_FUNCTION":
			f, _ := t["function"].(object)
			if _, ok := windowKinds[functionName(f)]; ok {
				if name, ok := argumentName(f); ok && r.isStream(name, ctes) {
					names[strings.ToLower(orText(alias, name))] = true
				}
			}
		case "JOIN":
			for _, side := range []string{"left", "right"} {
				if s, ok := t[side].(object); ok {
					walk(s)
				}
			}
		}
	}
	walk(t)
	return names
}

func (r *rewriter) isStream(name string, ctes []namedQuery) bool {
	if findCTE(ctes, name) >= 0 {
		return false
	}
	rel, ok := r.cat.Relation(name)
	return ok && rel.Kind == "stream"
}

// inside rewrites the expressions of a SELECT, and the queries inside them.
func (r *rewriter) inside(v any, ctes []namedQuery, s selection) {
	switch v := v.(type) {
	case []any:
		for _, m := range v {
			r.inside(m, ctes, s)
		}
	case object:
		if t, _ := v["type"].(string); strings.HasSuffix(t, "_NODE") {
			r.query(v, ctes)
			return
		}
		if node, ok := v["node"]; ok { // a subquery
			r.query(node, ctes)
			return
		}
		for _, m := range v {
			r.inside(m, ctes, s)
		}
		switch v["class"] {
		case "WINDOW":
			by, _ := copied(s.ranked).([]any)
			r.inside(by, ctes, s)
			settleWindow(v, by)
		case "STAR":
			excludePseudo(v, s.events)
		case "FUNCTION":
			if distinct, _ := v["distinct"].(bool); orderSensitive[functionName(v)] && !distinct {
				if o, ok := v["order_bys"].(object); ok {
					o["orders"] = settled(o["orders"], s.rows)
				}
			}
			switch functionName(v) {
			case "histogram": // a MAP; in a view it is the list of its entries
				wrap(v, "map_entries")
			case "list_distinct", "array_distinct": // in no order (N3)
				wrap(v, "list_sort")
			}
		}
	}
}

// wrap makes a function's call the argument of another.
func wrap(v object, outer string) {
	inner, _ := copied(v).(object)
	alias := inner["alias"]
	inner["alias"] = ""
	clear(v)
	for name, m := range inner {
		v[name] = m
	}
	v["function_name"], v["children"], v["alias"] = outer, []any{inner}, alias
	v["filter"], v["distinct"], v["order_bys"] = nil, false, object{"type": "ORDER_MODIFIER", "orders": []any{}}
}

// keepDoubles gives every constant that is a DOUBLE, such as 1e2, its type: DuckDB writes it as
// 100.0, which it reads as a DECIMAL.
func keepDoubles(v any) {
	switch v := v.(type) {
	case []any:
		for _, m := range v {
			keepDoubles(m)
		}
	case object:
		for _, m := range v {
			keepDoubles(m)
		}
		value, _ := v["value"].(object)
		typ, _ := value["type"].(object)
		if v["class"] != "CONSTANT" || typ["id"] != "DOUBLE" {
			return
		}
		inner, _ := copied(v).(object)
		inner["alias"] = ""
		v["class"], v["type"], v["child"], v["cast_type"], v["try_cast"] = "CAST", "OPERATOR_CAST", inner, copied(typ), false
		delete(v, "value")
	}
}

// orderSensitive are the aggregates whose answer depends on the order of rows (N3).
var orderSensitive = words("first last any_value arbitrary list array_agg string_agg group_concat listagg " +
	"arg_min arg_max argmin argmax min_by max_by arg_min_null arg_max_null mode")

func columnNode(names ...string) object {
	list := make([]any, len(names))
	for i, n := range names {
		list[i] = n
	}
	return object{"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": nowhere, "column_names": list}
}

// excludePseudo keeps the pseudo columns out of a `*`.
func excludePseudo(s object, events map[string]bool) {
	relation, _ := s["relation_name"].(string)
	if len(events) == 0 || relation != "" && !events[strings.ToLower(relation)] {
		return
	}
	list, _ := s["exclude_list"].([]any)
	for _, p := range pseudoColumns {
		if !slices.ContainsFunc(list, func(v any) bool { n, _ := v.(string); return strings.EqualFold(n, p.Name) }) {
			list = append(list, p.Name)
		}
	}
	s["exclude_list"] = list
}

// table rewrites what stands in FROM and returns what stands there now.
func (r *rewriter) table(t object, ctes []namedQuery) object {
	switch t["type"] {
	case "SUBQUERY":
		inner, _ := t["subquery"].(object)
		r.query(inner["node"], ctes)
	case "JOIN":
		for _, side := range []string{"left", "right"} {
			if s, ok := t[side].(object); ok {
				t[side] = r.table(s, ctes)
			}
		}
		r.inside(t["condition"], ctes, selection{})
	case "TABLE_FUNCTION":
		f, _ := t["function"].(object)
		if _, ok := windowKinds[functionName(f)]; ok {
			return r.window(t, f, ctes)
		}
		r.inside(f, ctes, selection{})
	case "BASE_TABLE":
		name, _ := t["table_name"].(string)
		if c := r.inline(name, t["query_location"], ctes); c != nil {
			if alias, _ := t["alias"].(string); alias != "" {
				c["alias"] = alias
			}
			if list, _ := t["column_name_alias"].([]any); len(list) > 0 {
				c["column_name_alias"] = list
			}
			return c
		}
		if v := r.view(name, t["query_location"], ctes); v != nil {
			if alias, _ := t["alias"].(string); alias != "" {
				v["alias"] = alias
			}
			v["column_name_alias"] = t["column_name_alias"]
			return v
		}
		return r.prefix(t, name, ctes)
	default:
		r.inside(t, ctes, selection{})
	}
	return t
}

// prefix cuts a stream down to the events that count.
func (r *rewriter) prefix(t object, name string, ctes []namedQuery) object {
	if !r.isStream(name, ctes) {
		return t
	}
	var conditions []string
	if last, ok := r.upTo[strings.ToLower(name)]; ok {
		conditions = append(conditions, fmt.Sprintf("%s <= %d", PseudoSequence, last))
	}
	for _, l := range r.within {
		if c := l.Input[strings.ToLower(name)]; c != "" {
			conditions = append(conditions, "("+c+")")
		}
	}
	if len(conditions) == 0 {
		return t
	}
	rel, _ := r.cat.Relation(name)
	var columns []string // those that the catalog knows: a view keeps the columns of its creation (R1)
	for _, f := range append(slices.Clip(rel.Fields), pseudoColumns...) {
		columns = append(columns, `"`+strings.ReplaceAll(f.Name, `"`, `""`)+`"`)
	}
	statement := parse(r.parser, fmt.Sprintf("SELECT * FROM (SELECT %s FROM __input WHERE %s) AS w", strings.Join(columns, ", "), strings.Join(conditions, " AND ")))
	node, _ := statement["node"].(object)
	inner, _ := copied(t).(object)
	inner["alias"], inner["column_name_alias"] = "", []any{}
	out, _ := fill(node["from_table"], nil, inner).(object)
	out["alias"], out["column_name_alias"] = t["alias"], t["column_name_alias"]
	if a, _ := t["alias"].(string); a == "" {
		out["alias"] = name
	}
	return out
}

func functionName(f object) string {
	name, _ := f["function_name"].(string)
	return strings.ToLower(name)
}

// argumentName is the relation that a window function names.
func argumentName(f object) (string, bool) {
	args, _ := f["children"].([]any)
	if len(args) == 0 {
		return "", false
	}
	a, _ := args[0].(object)
	names, _ := a["column_names"].([]any)
	if a["class"] != "COLUMN_REF" || len(names) != 1 {
		return "", false
	}
	name, ok := names[0].(string)
	return name, ok
}

// window writes a window function as a subquery.
func (r *rewriter) window(t, f object, ctes []namedQuery) object {
	name := functionName(f)
	kind := windowKinds[name]
	at := max(0, location(f))
	args, _ := f["children"].([]any)
	if len(args) < 2+kind.spans {
		refuse(problem.New(422, "bad_sql", "%s needs %d arguments and has %d", name, 2+kind.spans, len(args)).At(at).
			WithHint("write %s", kind.usage))
	}
	keys := args[2+kind.spans:]
	var zone *windows.Zone
	if kind.kind == windows.Tumble && len(keys) == 1 {
		if l, ok := decodeExpr(keys[0]).(*literal); ok && l.value.Type.Kind == row.Varchar {
			b := &binder{}
			zone = zoneOf(l.value, b.span(&call{exprHead: exprHead{at: at}, name: name}, decodeExpr(args[2])), max(at, leftmost(keys)))
			keys = nil
		}
	}
	if kind.kind == windows.Tumble || kind.kind == windows.Hop {
		if len(keys) > 0 {
			refuse(unsupported(max(at, leftmost(keys)), "%s has %d arguments too many", name, len(keys)).
				WithHint("write %s", kind.usage))
		}
	}
	for _, k := range keys {
		if o, _ := k.(object); o["class"] == "CONSTANT" {
			refuse(unsupported(max(at, leftmost(k)), "windows in a time zone aren't supported yet").WithHint("leave it out: windows are in UTC"))
		}
	}

	left := r.leftBy(leftmost(args))
	counts := slices.Sorted(maps.Keys(left.Partly))
	w := windowText{name: name, kind: kind.kind, args: args, keys: keys, zone: zone, at: at}
	out, alias := r.windowTable(w, left, ctes)
	for _, n := range counts { // its latest windows alone took these events
		w.most = n
		part, _ := r.windowTable(w, Left{Input: left.Partly[n], Output: left.Output}, ctes)
		statement := parse(r.parser, "SELECT * FROM (SELECT * FROM __all UNION ALL SELECT * FROM __part) AS w")
		node, _ := statement["node"].(object)
		out, _ = fill(node["from_table"], map[string]any{"__all": out, "__part": part}, nil).(object)
	}
	if countNodes(out, maxSteps) >= maxSteps { // slide reads its input twice, and so each inside it
		refuse(problem.New(422, "sql_too_complex", "%s lies too deep in other window functions", name).At(at).
			WithHint("make a view of the inner ones"))
	}
	out["alias"], out["column_name_alias"] = t["alias"], t["column_name_alias"]
	if a, _ := t["alias"].(string); a == "" {
		out["alias"] = alias
	}
	return out
}

// windowText is a window function as it is written.
type windowText struct {
	name string
	kind windows.Kind
	args []any
	keys []any
	zone *windows.Zone
	at   int
	// most is how many of the windows of a hop count for an event, the latest; 0: all.
	most int64
}

// windowTable is a window function as a subquery, less what it leaves out, and the name under which its
// columns are known.
func (r *rewriter) windowTable(w windowText, left Left, ctes []namedQuery) (out object, alias string) {
	args := w.args
	if len(left.Input) > 0 {
		args, _ = copied(args).([]any) // the input is written in its place, and other parts write another
	}
	r.within = append(r.within, left)
	input, alias, hidden := r.windowInput(args[0], w.name, ctes)
	r.within = r.within[:len(r.within)-1]
	time := args[1]
	if rel, ok := r.cat.Relation(alias); ok && hidden != nil && timeIsText(rel, time) {
		time = columnNode(PseudoTime)
	}
	holes := map[string]any{"__time": time, "__size": args[2]}
	if w.kind == windows.Hop {
		holes["__slide"], holes["__size"] = args[2], args[3]
	}
	for i, k := range w.keys {
		holes[fmt.Sprintf("__key%d", i)] = k
	}
	template := windowSQL(w.kind, len(w.keys), hidden)
	if w.zone != nil {
		template = zonedSQL(hidden)
	}
	if w.kind == windows.Hop {
		count := r.hopCount(args[2], args[3], w.at)
		if w.most > 0 {
			count = min(count, w.most)
		}
		template = strings.Replace(template, "__count", fmt.Sprint(count), 1)
	}
	if left.Output != "" {
		template = "SELECT * FROM (" + template + ") AS r WHERE " + left.Output
	}
	statement := parse(r.parser, "SELECT * FROM ("+template+") AS w")
	node, _ := statement["node"].(object)
	if w.zone != nil {
		node, _ = r.withZone(node, w.zone).(object)
	}
	out, ok := fill(node["from_table"], holes, input).(object)
	if !ok {
		refuse(problem.New(422, "bad_sql", "the window function %s could not be written as SQL", w.name).At(w.at))
	}
	return out, alias
}

// countNodes counts the objects of a part of the tree, up to limit.
func countNodes(v any, limit int) int {
	n := 0
	switch v := v.(type) {
	case object:
		n++
		for _, m := range v {
			if n < limit {
				n += countNodes(m, limit-n)
			}
		}
	case []any:
		for _, m := range v {
			if n < limit {
				n += countNodes(m, limit-n)
			}
		}
	}
	return n
}

// timeIsText reports whether a window's time is a stream's time field that is no TIMESTAMP.
func timeIsText(rel Relation, time any) bool {
	o, _ := time.(object)
	names, _ := o["column_names"].([]any)
	if len(names) == 0 {
		return false
	}
	last, _ := names[len(names)-1].(string)
	i := row.FieldIndex(rel.Fields, last)
	return i >= 0 && strings.EqualFold(last, rel.TimeField) && rel.Fields[i].Type.Kind != row.Timestamp
}

// windowInput is the table that a window function reads, the name under which the function's
// columns are known, and the columns that its own hide: nil when they are not known.
func (r *rewriter) windowInput(arg any, function string, ctes []namedQuery) (input object, alias string, hidden []string) {
	a, _ := arg.(object)
	if name, ok := argumentName(object{"children": []any{arg}}); ok {
		input = object{
			"type": "BASE_TABLE", "alias": "", "sample": nil, "query_location": a["query_location"],
			"schema_name": "", "catalog_name": "", "table_name": name, "column_name_alias": []any{},
		}
		if c := r.inline(name, a["query_location"], ctes); c != nil {
			return c, name, nil
		}
		if v := r.view(name, a["query_location"], ctes); v != nil {
			return v, name, nil
		}
		if !r.isStream(name, ctes) {
			return input, name, nil
		}
		input = r.prefix(input, name, ctes)
		rel, _ := r.cat.Relation(name)
		hidden = []string{}
		for _, f := range rel.Fields {
			if strings.EqualFold(f.Name, WindowStart) || strings.EqualFold(f.Name, WindowEnd) {
				hidden = append(hidden, row.QuoteName(f.Name))
			}
		}
		return input, name, hidden
	}
	if a["class"] == "SUBQUERY" && a["subquery_type"] == "SCALAR" {
		inner, _ := a["subquery"].(object)
		r.query(inner["node"], ctes)
		return object{
			"type": "SUBQUERY", "alias": "", "sample": nil, "query_location": a["query_location"],
			"subquery": inner, "column_name_alias": []any{},
		}, function, nil
	}
	refuse(unsupported(max(0, leftmost(arg)), "the first argument of %s must be a stream, a view, a CTE or a subquery", function).
		WithHint("write %s", windowKinds[function].usage))
	return nil, "", nil
}

// star is the SELECT list that gives the input's columns without helpers and without those that a
// window function hides.
func starWithout(hidden []string, helpers ...string) string {
	if hidden == nil { // the names are DuckDB's to find out
		list := []string{"'window_start'", "'window_end'"}
		for _, h := range helpers {
			list = append(list, "'"+h+"'")
		}
		return "COLUMNS(c -> lower(c) NOT IN (" + strings.Join(list, ", ") + "))"
	}
	if list := append(slices.Clip(hidden), helpers...); len(list) > 0 {
		return "* EXCLUDE (" + strings.Join(list, ", ") + ")"
	}
	return "*"
}

// windowSQL is a window function as plain SQL. The holes __input, __time, __size, __slide and
// __key… are filled in the tree.
func windowSQL(kind windows.Kind, keys int, hidden []string) string {
	list := func(prefix, pattern, sep string) string {
		var b strings.Builder
		for i := range keys {
			if i > 0 {
				b.WriteString(sep)
			} else {
				b.WriteString(prefix)
			}
			b.WriteString(strings.ReplaceAll(pattern, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	size := "CAST(__size AS INTERVAL)"
	switch kind {
	case windows.Tumble:
		start := "time_bucket(" + size + ", __time)"
		return "SELECT " + starWithout(hidden) + ", " + start + " AS window_start, " + start + " + " + size + " AS window_end FROM __input"
	case windows.Hop:
		start := "time_bucket(CAST(__slide AS INTERVAL), __time) - __tm_k * CAST(__slide AS INTERVAL)"
		return "SELECT " + starWithout(hidden, "__tm_k") + ", " + start + " AS window_start, " + start + " + " + size + " AS window_end " +
			"FROM __input, (SELECT unnest(range(__count)) AS __tm_k) AS __tm_w WHERE " + start + " + " + size + " > __time"
	case windows.Session:
		by := list("PARTITION BY ", "__key#", ", ")
		own := by
		if own == "" {
			own = "PARTITION BY __tm_nr"
		} else {
			own += ", __tm_nr"
		}
		// The sum is the same for events of one instant: the two computations may order these differently.
		return "SELECT " + starWithout(hidden, "__tm_new", "__tm_nr") + ", min(__time) OVER (" + own + ") AS window_start, max(__time) OVER (" + own + ") + " + size + " AS window_end FROM (" +
			"SELECT *, sum(__tm_new) OVER (" + by + " ORDER BY __time) AS __tm_nr FROM (" +
			"SELECT *, CASE WHEN lag(__time) OVER (" + by + " ORDER BY __time) + " + size + " >= __time THEN 0 ELSE 1 END AS __tm_new FROM __input))"
	default: // slide
		helpers := []string{"__tm_time", "__tm_end"}
		for i := range keys {
			helpers = append(helpers, fmt.Sprintf("__tm_k%d", i), fmt.Sprintf("__tm_j%d", i))
		}
		inner := "SELECT *, __time AS __tm_time" + list(", ", "__key# AS __tm_k#", ", ") + " FROM __input"
		return "SELECT " + starWithout(hidden, helpers...) + ", __tm_end - " + size + " AS window_start, __tm_end AS window_end FROM (" + inner + ") AS __tm_e, " +
			"(SELECT DISTINCT __tm_time AS __tm_end" + list(", ", "__tm_k# AS __tm_j#", ", ") + " FROM (" + inner + ") AS __tm_i) AS __tm_w " +
			"WHERE __tm_time <= __tm_end AND __tm_time >= __tm_end - " + size + list(" AND ", "__tm_k# IS NOT DISTINCT FROM __tm_j#", " AND ")
	}
}

// fill copies a template, replacing its holes.
func fill(v any, holes map[string]any, input object) any {
	switch v := v.(type) {
	case object:
		if v["class"] == "COLUMN_REF" {
			if names, _ := v["column_names"].([]any); len(names) == 1 {
				name, _ := names[0].(string)
				if hole, ok := holes[name]; ok {
					filled, _ := copied(hole).(object)
					filled["alias"] = v["alias"]
					return filled
				}
			}
		}
		if name, _ := v["table_name"].(string); v["type"] == "BASE_TABLE" {
			if name == "__input" {
				return copied(input)
			}
			if hole, ok := holes[name].(object); ok {
				return copied(hole)
			}
		}
		out := make(object, len(v))
		for k, m := range v {
			out[k] = fill(m, holes, input)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, m := range v {
			out[i] = fill(m, holes, input)
		}
		return out
	}
	return v
}

func copied(v any) any { return fill(v, nil, nil) }

// hopCount is how many windows of a hop an event can lie in, at most.
func (r *rewriter) hopCount(slide, size any, at int) int64 {
	b := &binder{}
	c := &call{exprHead: exprHead{at: at}, name: "hop"}
	return hopWindows(c, b.span(c, decodeExpr(slide)), b.span(c, decodeExpr(size)))
}
