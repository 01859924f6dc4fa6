package query

import "strings"

// tieSensitive reports whether rows that are equal in a window function's order may change its
// answer.
func tieSensitive(w object) bool {
	switch w["type"] {
	case "WINDOW_ROW_NUMBER", "WINDOW_LAG", "WINDOW_LEAD", "WINDOW_FIRST_VALUE", "WINDOW_LAST_VALUE", "WINDOW_NTILE", "WINDOW_NTH_VALUE":
		return true
	}
	start, _ := w["start"].(string)
	end, _ := w["end"].(string)
	return strings.HasSuffix(start, "_ROWS") || strings.HasSuffix(end, "_ROWS") || orderSensitive[functionName(w)]
}

// settleWindow settles what rows that are equal in a window function's order leave open (N3): it adds
// by to the order. Where the frame ends or begins with the peers of a row, that would take them
// apart; which of them a first_value or last_value means is then asked of the peers alone.
func settleWindow(w object, by []any) {
	if !tieSensitive(w) || len(by) == 0 || byDistance(w["start"]) || byDistance(w["end"]) {
		return
	}
	if orders, _ := w["orders"].([]any); len(orders) == 0 { // all rows of the partition are peers
		if w["start"] == peersBound {
			w["start"] = "UNBOUNDED_PRECEDING"
		}
		if w["end"] == peersBound {
			w["end"] = "UNBOUNDED_FOLLOWING"
		}
	}
	ignores, _ := w["ignore_nulls"].(bool)
	decides, other := w["start"], w["end"] // the bound at which the value lies, and where NULLs lead
	if w["type"] == "WINDOW_LAST_VALUE" {
		decides, other = other, decides
	}
	value := w["type"] == "WINDOW_FIRST_VALUE" || w["type"] == "WINDOW_LAST_VALUE"
	switch {
	case value && decides == peersBound:
		peers := peersValue(w, by, ignores)
		if !ignores || other == peersBound {
			replace(w, peers)
			return
		}
		replace(w, coalesce(peers, oneByOne(w, by)))
	case w["type"] == "WINDOW_NTH_VALUE" && w["end"] == peersBound:
		replace(w, whereThereAreAsMany(w, by, ignores))
	case value && ignores && other == peersBound:
		replace(w, coalesce(oneByOne(w, by), peersValue(w, by, true)))
	default:
		w["orders"] = settled(w["orders"], by)
	}
}

// byDistance reports whether a bound lies at a distance in the order, which then has one key only.
func byDistance(bound any) bool {
	return bound == "EXPR_PRECEDING_RANGE" || bound == "EXPR_FOLLOWING_RANGE"
}

// peersBound is a bound of a RANGE frame at the current row.
const peersBound = "CURRENT_ROW_RANGE"

// peersValue is the first or last value among the peers of a row.
func peersValue(w object, by []any, ignores bool) object {
	v, _ := copied(w).(object)
	name := "arg_min"
	if w["type"] == "WINDOW_LAST_VALUE" {
		name = "arg_max"
	}
	if !ignores {
		name += "_null"
	}
	place := object{
		"class": "FUNCTION", "type": "FUNCTION", "alias": "", "query_location": nowhere, "function_name": "row", "schema": "main", "catalog": "",
		"children": copied(by), "filter": nil, "order_bys": object{"type": "ORDER_MODIFIER", "orders": []any{}}, "distinct": false, "is_operator": false, "export_state": false,
	}
	args, _ := v["children"].([]any)
	v["type"], v["function_name"], v["children"] = "WINDOW_AGGREGATE", name, append(args, place)
	v["start"], v["end"], v["ignore_nulls"], v["alias"] = peersBound, peersBound, false, ""
	return v
}

// whereThereAreAsMany is the nth value of the partition where a frame that begins with the partition
// and ends with the peers of a row has as many rows, else NULL.
func whereThereAreAsMany(w object, by []any, ignores bool) object {
	nth, _ := copied(w).(object)
	args, _ := nth["children"].([]any)
	count, _ := copied(w).(object)
	count["type"], count["function_name"], count["children"] = "WINDOW_AGGREGATE", "count_star", []any{}
	if ignores {
		count["function_name"], count["children"] = "count", []any{copied(args[0])}
	}
	count["ignore_nulls"], count["alias"] = false, ""
	nth["orders"], nth["start"], nth["end"], nth["alias"] = settled(nth["orders"], by), "UNBOUNDED_PRECEDING", "UNBOUNDED_FOLLOWING", ""
	enough := object{"class": "COMPARISON", "type": "COMPARE_GREATERTHANOREQUALTO", "alias": "", "query_location": nowhere, "left": count, "right": copied(args[1])}
	return object{
		"class": "CASE", "type": "CASE_EXPR", "alias": "", "query_location": nowhere,
		"case_checks": []any{object{"when_expr": enough, "then_expr": nth}}, "else_expr": object{
			"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "query_location": nowhere,
			"value": object{"type": object{"id": "NULL", "type_info": nil}, "is_null": true},
		},
	}
}

// oneByOne is a first or last value in which the rows on this side of the current one have an order.
func oneByOne(w object, by []any) object {
	v, _ := copied(w).(object)
	v["orders"], v["alias"] = settled(v["orders"], by), ""
	for _, bound := range []string{"start", "end"} {
		if v[bound] == peersBound {
			v[bound] = "CURRENT_ROW_ROWS"
		}
	}
	return v
}

func coalesce(a, b object) object {
	return object{"class": "OPERATOR", "type": "OPERATOR_COALESCE", "alias": "", "query_location": nowhere, "children": []any{a, b}}
}

// replace puts another expression in the place of one, under its name.
func replace(w, by object) {
	alias := w["alias"]
	clear(w)
	for name, m := range by {
		w[name] = m
	}
	w["alias"] = alias
}
