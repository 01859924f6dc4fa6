package query

import (
	"encoding/json"
	"slices"
	"strings"

	"tidemark/storage/row"
)

// What DuckDB leaves open is settled by further keys of an order (N3): the log's order for events,
// for other rows their own columns from left to right.

// selection is what a rewriter knows of one SELECT.
type selection struct {
	// events are the names in FROM under which rows of a stream stand, with their pseudo columns.
	events map[string]bool
	// The expressions that settle ties between the rows of FROM, between the rows that window
	// functions rank, and between the rows that come out. Nil: not known, or not needed.
	rows, ranked, output []any
}

// namedQuery is a common table expression.
type namedQuery struct {
	name    string
	node    any
	columns []string
	// written is the query as it stood in the text; nil: nobody asks.
	written object
}

// namedQueries are the queries of a node's own WITH, in the order of the text.
func namedQueries(q object) []namedQuery {
	with, _ := q["cte_map"].(object)
	list, _ := with["map"].([]any)
	out := make([]namedQuery, 0, len(list))
	for _, e := range list {
		entry, _ := e.(object)
		name, _ := entry["key"].(string)
		value, _ := entry["value"].(object)
		inner, _ := value["query"].(object)
		columns, _ := value["aliases"].([]any)
		out = append(out, namedQuery{name: name, node: inner["node"], columns: texts(columns), written: inner})
	}
	return out
}

func findCTE(ctes []namedQuery, name string) int {
	for i := len(ctes) - 1; i >= 0; i-- {
		if strings.EqualFold(ctes[i].name, name) {
			return i
		}
	}
	return -1
}

// selection looks at a SELECT before it is rewritten.
func (r *rewriter) selection(q, from object, ctes []namedQuery) selection {
	s := selection{events: r.events(from, ctes)}
	switch {
	case from["type"] == "JOIN":
	case len(s.events) == 1:
		s.rows = columnNodes([]string{PseudoSequence, PseudoOffset})
		if from["type"] == "TABLE_FUNCTION" { // one event in several windows
			s.rows = append(s.rows, columnNodes([]string{WindowStart, WindowEnd})...)
		}
	default:
		s.rows = columnNodes(r.columns(from, ctes))
	}
	s.ranked, s.output = s.rows, s.rows
	items, _ := q["select_list"].([]any)
	if isAggregated(q) {
		s.ranked = nil
		for _, it := range items {
			o, _ := it.(object)
			if o["class"] == "STAR" {
				s.ranked = append(s.ranked, columnNodes(r.columns(from, ctes))...)
				continue
			}
			if !contains(o, isOver) {
				e, _ := copied(o).(object)
				e["alias"] = ""
				s.ranked = append(s.ranked, e)
			}
		}
		s.output = s.ranked
	}
	if isDistinct(q) {
		s.output = r.names(q, ctes)
	}
	return s
}

// settleLimit adds to the ORDER BY of a query with a LIMIT or DISTINCT ON what settles ties.
func settleLimit(q object, s selection) {
	modifiers, _ := q["modifiers"].([]any)
	var order object
	limited, by := false, s.output
	for _, m := range modifiers {
		o, _ := m.(object)
		switch o["type"] {
		case "ORDER_MODIFIER":
			order = o
		case "LIMIT_MODIFIER":
			limited = true
		}
	}
	if isDistinctOn(q) {
		if limited, by = true, s.ranked; order == nil && len(by) > 0 {
			order = object{"type": "ORDER_MODIFIER", "orders": []any{}}
			q["modifiers"] = append(modifiers, order)
		}
	}
	if order != nil && limited {
		order["orders"] = settled(order["orders"], by)
	}
}

// settled adds expressions to an ORDER BY.
func settled(orders any, by []any) []any {
	list, _ := orders.([]any)
	for _, e := range by {
		if o, _ := e.(object); o["class"] == "CONSTANT" {
			continue // settles nothing, and DuckDB takes a number there for a column's place
		}
		list = append(list, object{"type": "ASCENDING", "null_order": "NULLS_LAST", "expression": copied(e)})
	}
	return list
}

// isDistinct reports whether equal rows of a SELECT are one.
func isDistinct(q object) bool { return hasDistinct(q, false) }

// isDistinctOn reports whether a SELECT keeps one row for each value of some expressions.
func isDistinctOn(q object) bool { return hasDistinct(q, true) }

func hasDistinct(q object, on bool) bool {
	modifiers, _ := q["modifiers"].([]any)
	return slices.ContainsFunc(modifiers, func(m any) bool {
		o, _ := m.(object)
		targets, _ := o["distinct_on_targets"].([]any)
		return o["type"] == "DISTINCT_MODIFIER" && on == (len(targets) > 0)
	})
}

// isAggregated reports whether a SELECT groups its rows.
func isAggregated(q object) bool {
	sets, _ := q["group_sets"].([]any)
	if len(sets) > 0 || q["aggregate_handling"] == "FORCE_AGGREGATES" || q["having"] != nil {
		return true
	}
	aggregate := func(o object) bool { return o["class"] == "FUNCTION" && isAggregate(functionName(o)) }
	return contains(q["select_list"], aggregate) || contains(q["qualify"], aggregate)
}

// contains reports whether an object that fits lies in a part of the tree, subqueries left out.
func contains(v any, fits func(object) bool) bool {
	switch v := v.(type) {
	case object:
		if fits(v) {
			return true
		}
		for name, m := range v {
			if name != "subquery" && contains(m, fits) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(m any) bool { return contains(m, fits) })
	}
	return false
}

// names are references to the columns that a query gives, or nil when they are not known.
func (r *rewriter) names(q object, ctes []namedQuery) []any { return columnNodes(r.outputs(q, ctes)) }

func columnNodes(names []string) []any {
	var out []any
	for _, n := range names {
		out = append(out, columnNode(n))
	}
	return out
}

// outputs are the names of the columns that a query gives, or nil when they are not known.
func (r *rewriter) outputs(q object, ctes []namedQuery) []string {
	if left, ok := q["left"].(object); ok {
		return r.outputs(left, ctes)
	}
	from, ok := q["from_table"].(object)
	if !ok {
		return nil
	}
	ctes = append(slices.Clip(ctes), namedQueries(q)...)
	items, _ := q["select_list"].([]any)
	var out []string
	for _, it := range items {
		o, _ := it.(object)
		alias, _ := o["alias"].(string)
		names, _ := o["column_names"].([]any)
		switch {
		case alias != "":
			out = append(out, alias)
		case o["class"] == "COLUMN_REF" && len(names) > 0:
			last, _ := names[len(names)-1].(string)
			out = append(out, last)
		case o["class"] == "STAR" && o["relation_name"] == "" && o["columns"] == false && len(texts(o["replace_list"])) == 0:
			columns := r.columns(from, ctes)
			if columns == nil {
				return nil
			}
			excluded := texts(o["exclude_list"])
			for _, c := range columns {
				if !slices.ContainsFunc(excluded, func(n string) bool { return strings.EqualFold(n, c) }) {
					out = append(out, c)
				}
			}
		default:
			return nil
		}
	}
	return out
}

// columns are the names of the columns that `*` gives of what stands in FROM, or nil when they are
// not known.
func (r *rewriter) columns(t object, ctes []namedQuery) []string {
	var out []string
	switch t["type"] {
	case "SUBQUERY":
		inner, _ := t["subquery"].(object)
		node, _ := inner["node"].(object)
		out = r.outputs(node, ctes)
	case "BASE_TABLE":
		name, _ := t["table_name"].(string)
		out = r.namedColumns(name, ctes)
	case "TABLE_FUNCTION":
		f, _ := t["function"].(object)
		if _, ok := windowKinds[functionName(f)]; !ok {
			return nil
		}
		var in []string
		args, _ := f["children"].([]any)
		if name, ok := argumentName(f); ok {
			in = r.namedColumns(name, ctes)
		} else if a, _ := firstNode(args).(object); a["class"] == "SUBQUERY" {
			inner, _ := a["subquery"].(object)
			node, _ := inner["node"].(object)
			in = r.outputs(node, ctes)
		}
		if in == nil {
			return nil
		}
		for _, c := range in {
			if !strings.EqualFold(c, WindowStart) && !strings.EqualFold(c, WindowEnd) {
				out = append(out, c)
			}
		}
		out = append(out, WindowStart, WindowEnd)
	}
	for i, alias := range texts(t["column_name_alias"]) {
		if i < len(out) {
			out[i] = alias
		}
	}
	return out
}

func firstNode(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// namedColumns are the names of the columns of a relation or CTE.
func (r *rewriter) namedColumns(name string, ctes []namedQuery) []string {
	if i := findCTE(ctes, name); i >= 0 {
		node, _ := ctes[i].node.(object)
		if node["type"] == "RECURSIVE_CTE_NODE" {
			return nil
		}
		out := r.outputs(node, ctes[:i])
		copy(out, ctes[i].columns)
		return out
	}
	rel, ok := r.cat.Relation(name)
	if !ok {
		return nil
	}
	return fieldNames(rel.Fields)
}

func fieldNames(fields []row.Field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Name)
	}
	return out
}

// texts are the strings of a list of the tree.
func texts(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, m := range list {
		s, _ := m.(string)
		out = append(out, s)
	}
	return out
}

// nowhere is the place of what stands nowhere in the text.
const nowhere = json.Number("18446744073709551615")

func isOver(o object) bool { return o["class"] == "WINDOW" }

// spellGroups writes out GROUP BY ALL, which DuckDB does not take beside QUALIFY or
// window functions.
func (r *rewriter) spellGroups(q, from object, ctes []namedQuery) {
	items, _ := q["select_list"].([]any)
	groups, set := []any{}, []any{}
	columns, summed := r.columns(from, ctes), []string{} // the names of items that hold an aggregate
	names := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(n string) bool { return strings.EqualFold(n, name) })
	}
	add := func(e any) {
		o, _ := copied(e).(object)
		o["alias"] = ""
		set = append(set, len(groups))
		groups = append(groups, o)
	}
	for _, it := range items {
		o, _ := it.(object)
		class := func(names ...string) bool {
			return contains(o, func(o object) bool { c, _ := o["class"].(string); return slices.Contains(names, c) })
		}
		aggregate := contains(o, func(o object) bool {
			if o["class"] == "COLUMN_REF" {
				ref := texts(o["column_names"])
				return len(ref) == 1 && names(summed, ref[0]) && !names(columns, ref[0])
			}
			return o["class"] == "FUNCTION" && isAggregate(functionName(o))
		})
		if alias, _ := o["alias"].(string); aggregate && alias != "" {
			summed = append(summed, alias)
		}
		switch {
		case o["class"] == "STAR":
			for _, c := range columnNodes(columns) {
				add(c)
			}
		case !aggregate && !class("WINDOW") && class("COLUMN_REF"):
			add(o)
		}
	}
	q["aggregate_handling"], q["group_expressions"], q["group_sets"] = "STANDARD_HANDLING", groups, []any{}
	if len(groups) > 0 {
		q["group_sets"] = []any{set}
	}
}

// keepNames gives the items of a SELECT list that settling ties will change the names that they
// have now.
func keepNames(q object) {
	items, _ := q["select_list"].([]any)
	for _, it := range items {
		o, _ := it.(object)
		if alias, _ := o["alias"].(string); alias != "" || o["class"] == "STAR" {
			continue
		}
		changes := contains(o, func(o object) bool {
			name := functionName(o)
			return o["class"] == "FUNCTION" && (orderSensitive[name] || name == "histogram") || o["class"] == "WINDOW" && tieSensitive(o)
		})
		if name, ok := nameOfNode(o); changes && ok {
			o["alias"] = name
		}
	}
}

// nameOfNode is the name that DuckDB gives a column of this expression, if we can tell.
func nameOfNode(o object) (name string, ok bool) {
	var err error
	defer func() { ok = err == nil }()
	defer boundary(&err)
	e := decodeExpr(o)
	if alias := e.head().alias; alias != "" {
		return alias, true
	}
	return textOf(e), true
}
