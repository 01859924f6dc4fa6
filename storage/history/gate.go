//go:build cgo

package history

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"

	"tidemark/storage/problem"
)

// Bounds of a query's tree. Planning time grows faster than the tree: 900 nested calls took 15 s.
const (
	maxNodes     = 2000
	maxDepth     = 200
	maxRangeSize = 1_000_000
)

//go:embed functions.txt
var functionList string

// allowedFunctions are the functions and operators of functions.txt.
var allowedFunctions = func() map[string]bool {
	m := map[string]bool{}
	for line := range strings.Lines(functionList) {
		line, _, _ = strings.Cut(line, " #")
		if strings.HasPrefix(line, "#") {
			continue
		}
		for name := range strings.FieldsSeq(line) {
			m[name] = true
		}
	}
	return m
}()

// windowFunctions are table functions that the planner rewrites before DuckDB sees the text.
var windowFunctions = []string{"tumble", "hop", "session", "slide"}

// Functions lists what a query may call, sorted.
func Functions() []string {
	names := make([]string, 0, len(allowedFunctions))
	for name := range allowedFunctions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Gate refuses every tree but that of one SELECT which reads relations that are allowed and calls
// functions of the list. It works by allow-lists throughout: a node that it does not know is
// refused. Relations are asked for in lower case. The error is a *problem.Problem with the
// position in the text that the tree was parsed from.
func Gate(ast []byte, relations func(name string) bool) error {
	dec := json.NewDecoder(bytes.NewReader(ast))
	dec.UseNumber() // DuckDB writes "no place" as 2^64−1
	var root struct {
		Statements []struct {
			Node node `json:"node"`
		} `json:"statements"`
	}
	if err := dec.Decode(&root); err != nil {
		return problem.New(422, "bad_sql", "the SQL text is nested too deeply").WithHint("nest it less")
	}
	if len(root.Statements) != 1 {
		p := refuse(nil, "one SELECT is run at a time, this text holds %d statements", len(root.Statements))
		if len(root.Statements) > 1 {
			p.Position = max(firstPlace(root.Statements[1].Node), 0)
		}
		return p.WithHint("send one SELECT statement")
	}
	g := &gate{relations: relations}
	if p := g.query(root.Statements[0].Node, nil, 1); p != nil {
		return p
	}
	return nil
}

// Gate is the package's Gate.
func (h *History) Gate(ast []byte, relations func(name string) bool) error {
	return Gate(ast, relations)
}

type node = map[string]any

// scope holds the names of the common table expressions that can be seen.
type scope struct {
	name   string
	parent *scope
}

func (s *scope) has(name string) bool {
	for ; s != nil; s = s.parent {
		if s.name == name {
			return true
		}
	}
	return false
}

type gate struct {
	relations func(string) bool
	nodes     int
}

// refuse makes the problem of a node.
func refuse(n node, detail string, args ...any) *problem.Problem {
	return problem.New(422, "sql_not_allowed", detail, args...).At(place(n))
}

// place is where a node stands in the text, or −1.
func place(n node) int {
	num, ok := n["query_location"].(json.Number)
	if !ok {
		return -1
	}
	if i, err := num.Int64(); err == nil {
		return int(i)
	}
	return -1
}

// firstPlace is the least place in a tree, or −1.
func firstPlace(v any) int {
	least := -1
	note := func(p int) {
		if p >= 0 && (least < 0 || p < least) {
			least = p
		}
	}
	switch v := v.(type) {
	case node:
		note(place(v))
		for _, c := range v {
			note(firstPlace(c))
		}
	case []any:
		for _, c := range v {
			note(firstPlace(c))
		}
	}
	return least
}

// count takes one node into account.
func (g *gate) count(n node, depth int) *problem.Problem {
	g.nodes++
	if g.nodes > maxNodes {
		return problem.New(422, "sql_too_large", "the SQL text has more than %d parts", maxNodes).At(place(n)).
			WithHint("split the query; long lists of values belong in a stream")
	}
	if depth > maxDepth {
		return problem.New(422, "sql_too_large", "the SQL text is nested more than %d deep", maxDepth).At(place(n)).
			WithHint("nest it less")
	}
	return nil
}

func text(n node, key string) string { s, _ := n[key].(string); return s }

func list(n node, key string) []any { l, _ := n[key].([]any); return l }

func member(n node, key string) node { c, _ := n[key].(node); return c }

// query judges a query node: SELECT, UNION and the like, or a recursive CTE.
func (g *gate) query(n node, s *scope, depth int) *problem.Problem {
	if p := g.count(n, depth); p != nil {
		return p
	}
	for _, e := range list(member(n, "cte_map"), "map") {
		entry, _ := e.(node)
		name := strings.ToLower(text(entry, "key"))
		body := member(member(member(entry, "value"), "query"), "node")
		// A body sees the names before its own, and its own only when it is recursive: in
		// WITH "a.csv" AS (FROM "a.csv") the inner name would be a file.
		inner := s
		if text(body, "type") == "RECURSIVE_CTE_NODE" {
			inner = &scope{name, s}
		}
		if p := g.query(body, inner, depth+1); p != nil {
			return p
		}
		s = &scope{name, s}
	}
	for _, m := range list(n, "modifiers") {
		if p := g.anything(m, s, depth+1); p != nil {
			return p
		}
	}
	switch text(n, "type") {
	case "SELECT_NODE":
		if from := member(n, "from_table"); from != nil {
			if p := g.table(from, s, depth+1); p != nil {
				return p
			}
		}
		for _, key := range []string{"select_list", "where_clause", "group_expressions", "having", "qualify"} {
			if p := g.anything(n[key], s, depth+1); p != nil {
				return p
			}
		}
		return nil
	case "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE":
		for _, key := range []string{"left", "right"} {
			if p := g.query(member(n, key), s, depth+1); p != nil {
				return p
			}
		}
		return nil
	case "CTE_NODE":
		if p := g.query(member(n, "query"), s, depth+1); p != nil {
			return p
		}
		return g.query(member(n, "child"), &scope{strings.ToLower(text(n, "cte_name")), s}, depth+1)
	}
	return refuse(n, "this kind of query is not taken: %s", text(n, "type")).WithHint("write a plain SELECT")
}

// table judges a FROM item.
func (g *gate) table(n node, s *scope, depth int) *problem.Problem {
	if p := g.count(n, depth); p != nil {
		return p
	}
	switch text(n, "type") {
	case "EMPTY":
		return nil
	case "BASE_TABLE":
		return g.relation(n, s)
	case "SUBQUERY":
		return g.query(member(member(n, "subquery"), "node"), s, depth+1)
	case "JOIN":
		for _, key := range []string{"left", "right"} {
			if p := g.table(member(n, key), s, depth+1); p != nil {
				return p
			}
		}
		return g.anything(n["condition"], s, depth+1)
	case "EXPRESSION_LIST":
		return g.anything(n["values"], s, depth+1)
	case "TABLE_FUNCTION":
		return g.tableFunction(member(n, "function"), s, depth+1)
	case "SHOW_REF":
		return refuse(n, "DESCRIBE, SHOW and SUMMARIZE are not run here").
			WithHint("a stream's columns are at /v1/streams/{name}, a view's at /v1/views/{name}")
	case "PIVOT":
		if p := g.table(member(n, "source"), s, depth+1); p != nil {
			return p
		}
		if p := g.anything(n["aggregates"], s, depth+1); p != nil {
			return p
		}
		for _, e := range list(n, "pivots") {
			pivot, _ := e.(node)
			if pivot["subquery"] != nil || text(pivot, "pivot_enum") != "" {
				return refuse(n, "PIVOT takes its values from a list here, not from a subquery or an ENUM").
					WithHint("list the values: PIVOT t ON country IN ('DE', 'FR') …")
			}
			if p := g.anything(pivot["pivot_expressions"], s, depth+1); p != nil {
				return p
			}
		}
		return nil
	}
	return refuse(n, "this kind of FROM is not taken: %s", text(n, "type")).WithHint("read from streams, views and subqueries")
}

func (g *gate) relation(n node, s *scope) *problem.Problem {
	name := text(n, "table_name")
	if text(n, "schema_name") != "" || text(n, "catalog_name") != "" {
		full := name
		for _, key := range []string{"schema_name", "catalog_name"} {
			if q := text(n, key); q != "" {
				full = q + "." + full
			}
		}
		return refuse(n, "%s can't be read: names of streams and views have no schema", full).
			WithHint("write the stream's or view's bare name")
	}
	lower := strings.ToLower(name)
	if s.has(lower) || g.relations(lower) {
		return nil
	}
	return problem.New(422, "unknown_relation", "there is no stream or view %q", name).At(place(n)).
		WithHint("GET /v1/streams and /v1/views list the names; files and other databases can't be read")
}

// tableFunction judges the function of a FROM item.
func (g *gate) tableFunction(n node, s *scope, depth int) *problem.Problem {
	if p := g.count(n, depth); p != nil {
		return p
	}
	name := strings.ToLower(text(n, "function_name"))
	args := list(n, "children")
	switch {
	case text(n, "schema") != "" || text(n, "catalog") != "":
	case name == "unnest":
		return g.anything(args, s, depth+1)
	case name == "range" || name == "generate_series":
		return g.rangeBounds(n, args)
	case slices.Contains(windowFunctions, name) && len(args) > 0:
		first, _ := args[0].(node)
		if text(first, "class") == "SUBQUERY" && text(first, "subquery_type") == "SCALAR" {
			return g.anything(args, s, depth+1)
		}
		names := list(first, "column_names")
		if text(first, "class") != "COLUMN_REF" || len(names) != 1 {
			return refuse(n, "%s takes the name of a stream or view first, or a subquery", name).
				WithHint("as in %s(checkouts, ts, INTERVAL '5 minutes')", name)
		}
		rel, _ := names[0].(string)
		if p := g.relation(node{"table_name": rel, "query_location": first["query_location"]}, s); p != nil {
			return p
		}
		return g.anything(args[1:], s, depth+1)
	}
	return refuse(n, "the table function %s can't be used here", name).
		WithHint("tumble, hop, session, slide, unnest, range and generate_series are there; files and settings can't be read")
}

// rangeBounds lets range and generate_series through when their bounds are whole constants and
// span at most maxRangeSize values.
func (g *gate) rangeBounds(n node, args []any) *problem.Problem {
	name := text(n, "function_name")
	bad := refuse(n, "%s takes constant whole numbers here, and at most %d values", name, maxRangeSize).
		WithHint("narrow the bounds; for series of times, add an interval times the number")
	if len(args) < 1 || len(args) > 3 {
		return bad
	}
	bounds := make([]*big.Int, len(args))
	for i, a := range args {
		c, _ := a.(node)
		if bounds[i] = constantInteger(c); bounds[i] == nil {
			return bad
		}
	}
	from, to, step := big.NewInt(0), bounds[0], big.NewInt(1)
	if len(bounds) > 1 {
		from, to = bounds[0], bounds[1]
	}
	if len(bounds) > 2 {
		step = bounds[2]
	}
	if step.Sign() == 0 {
		return bad
	}
	size := new(big.Int).Sub(to, from)
	size.Quo(size, step)
	if size.Cmp(big.NewInt(maxRangeSize)) > 0 {
		return bad
	}
	return nil
}

// constantInteger is the value of a whole number in the text, signed or not, or nil.
func constantInteger(n node) *big.Int {
	if text(n, "class") == "FUNCTION" && text(n, "function_name") == "-" && len(list(n, "children")) == 1 {
		inner, _ := list(n, "children")[0].(node)
		if v := constantInteger(inner); v != nil {
			return v.Neg(v)
		}
		return nil
	}
	if text(n, "class") != "CONSTANT" {
		return nil
	}
	num, ok := member(n, "value")["value"].(json.Number)
	if !ok {
		return nil
	}
	v, ok := new(big.Int).SetString(num.String(), 10)
	if !ok {
		return nil
	}
	return v
}

// knownClasses are the classes of expressions that are let through when their children are.
var knownClasses = map[string]bool{
	"BETWEEN": true, "CASE": true, "CAST": true, "COLLATE": true, "COLUMN_REF": true, "COMPARISON": true,
	"CONJUNCTION": true, "CONSTANT": true, "DEFAULT": true, "FUNCTION": true, "LAMBDA": true, "LAMBDA_REF": true, "OPERATOR": true,
	"PARAMETER": true, "POSITIONAL_REFERENCE": true, "STAR": true, "SUBQUERY": true, "WINDOW": true,
}

// anything judges what stands between query nodes: expressions, lists of them, modifiers.
func (g *gate) anything(v any, s *scope, depth int) *problem.Problem {
	switch v := v.(type) {
	case []any:
		for _, c := range v {
			if p := g.anything(c, s, depth); p != nil {
				return p
			}
		}
	case node:
		return g.expression(v, s, depth)
	}
	return nil
}

func (g *gate) expression(n node, s *scope, depth int) *problem.Problem {
	if class, ok := n["class"].(string); ok {
		if p := g.count(n, depth); p != nil {
			return p
		}
		if !knownClasses[class] {
			return refuse(n, "this kind of expression is not taken: %s", class).WithHint("write it in another way")
		}
		switch class {
		case "FUNCTION", "WINDOW":
			if p := g.function(n); p != nil {
				return p
			}
		case "CONSTANT":
			return nil
		case "SUBQUERY":
			if p := g.anything(n["child"], s, depth+1); p != nil {
				return p
			}
			return g.query(member(member(n, "subquery"), "node"), s, depth+1)
		}
		depth++
	} else if t := text(n, "type"); strings.HasSuffix(t, "_NODE") || n["table_name"] != nil || n["cte_map"] != nil {
		return refuse(n, "a query stands where none is taken").WithHint("write it as a subquery")
	}
	for _, key := range slices.Sorted(maps.Keys(n)) { // sorted: the same text is always refused at the same place
		if key == "cast_type" {
			continue // types hold no code
		}
		if p := g.anything(n[key], s, depth); p != nil {
			return p
		}
	}
	return nil
}

func (g *gate) function(n node) *problem.Problem {
	name := strings.ToLower(text(n, "function_name"))
	schema := text(n, "schema")
	if (schema == "" || schema == "main") && text(n, "catalog") == "" && allowedFunctions[name] {
		return nil
	}
	if name == "timezone" {
		return refuse(n, "AT TIME ZONE is not available: all timestamps are UTC").
			WithHint("name the zone in the window function, as in tumble(s, ts, INTERVAL '1 day', 'Europe/Berlin')")
	}
	if slices.Contains(windowFunctions, name) {
		return refuse(n, "%s is a table function", name).WithHint("write it after FROM, as in FROM %s(checkouts, ts, INTERVAL '5 minutes')", name)
	}
	return refuse(n, "the function %s can't be used here", name).
		WithHint("functions that compute from their arguments can; those that read files, settings or the catalog can't")
}
