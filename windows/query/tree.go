package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tidemark/storage/problem"
)

// The bounds of a text. A tree that DuckDB's parser stands can still keep a planner busy for long.
const (
	maxTextBytes = 32 << 10
	maxNodes     = 2000
	maxDepth     = 200
	// maxTables and maxSteps bound what a short text can grow to: a CTE is bound, and an alias
	// written out, wherever it is named.
	maxTables = 256
	maxSteps  = 50_000
)

// object is a JSON object of DuckDB's tree.
type object = map[string]any

// refusal carries a problem from the place where it is found to the package's boundary.
type refusal struct{ *problem.Problem }

// refuse ends the compilation with a problem.
func refuse(p *problem.Problem) { panic(refusal{p}) }

// boundary turns a refusal into an error; anything else goes on.
func boundary(err *error) {
	switch r := recover().(type) {
	case nil:
	case refusal:
		if r.Problem.Hint == "" { // every refusal ends in a next step
			r.Problem.Hint = "what the SQL of a view can say, and which functions it has, stands in docs/sql.md"
		}
		*err = r.Problem
	default:
		panic(r)
	}
}

// unsupported is the problem of a construct that has a name but no meaning here.
func unsupported(at int, format string, args ...any) *problem.Problem {
	return problem.New(422, "unsupported_sql", format, args...).At(at)
}

// parserError is what a ParseSQL that answers with a Go error may tell of it.
type parserError interface {
	error
	// Where is the byte offset of the error in the text, or −1.
	Where() int
}

// parse asks DuckDB's parser for the tree of exactly one SELECT and checks the bounds.
func parse(parser ParseSQL, sql string) (statement object) {
	if len(sql) > maxTextBytes {
		refuse(problem.New(413, "sql_too_long", "the SQL text has %d bytes; the limit is %d", len(sql), maxTextBytes))
	}
	if strings.TrimSpace(sql) == "" {
		refuse(problem.New(422, "bad_sql", "the SQL text is empty").At(0).WithHint("write a SELECT"))
	}
	text, err := parser(sql)
	if err != nil {
		var p *problem.Problem
		var where parserError
		switch {
		case errors.As(err, &p):
			refuse(p)
		case errors.As(err, &where):
			refuse(syntaxError(err.Error(), where.Where()))
		}
		p = problem.From(err)
		refuse(p)
	}
	tree := decodeTree(text)
	if failed, _ := tree["error"].(bool); failed {
		message, _ := tree["error_message"].(string)
		at := -1
		if s, ok := tree["position"].(string); ok {
			if n, err := strconv.Atoi(s); err == nil {
				at = n
			}
		}
		refuse(syntaxError(message, at))
	}
	list, _ := tree["statements"].([]any)
	if len(list) != 1 {
		at := 0
		if len(list) > 1 {
			at = max(0, leftmost(list[1]))
		}
		refuse(problem.New(422, "bad_sql", "the text holds %d statements; it must be exactly one SELECT", len(list)).At(at).
			WithHint("make a view of each"))
	}
	statement, ok := list[0].(object)
	if !ok {
		refuse(problem.New(422, "bad_sql", "the parser's answer has no statement"))
	}
	checkSize(statement)
	return statement
}

// syntaxError is the problem of a text that DuckDB's parser does not take.
func syntaxError(message string, at int) *problem.Problem {
	p := problem.New(422, "bad_sql", "%s", message).At(at)
	if strings.HasPrefix(message, "Only SELECT statements") {
		p = problem.New(422, "unsupported_sql", "only SELECT can run here").At(0).
			WithHint("write a single SELECT; PIVOT, INSERT, CREATE and settings are not taken")
	}
	return p
}

// decodeTree reads the JSON text with its numbers as they are written.
func decodeTree(text []byte) object {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree object
	if err := d.Decode(&tree); err != nil {
		p := problem.From(fmt.Errorf("decode the syntax tree: %w", err))
		refuse(p)
	}
	return tree
}

// isNode reports whether an object of the tree is an expression, a table or a query.
func isNode(o object) bool {
	if _, ok := o["class"]; ok {
		return true
	}
	t, ok := o["type"].(string)
	return ok && (strings.HasSuffix(t, "_NODE") || o["query_location"] != nil)
}

// checkSize bounds the number of nodes and how deep they lie.
func checkSize(tree any) {
	nodes := 0
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		switch v := v.(type) {
		case object:
			if isNode(v) {
				nodes++
				depth++
				if depth > maxDepth {
					refuse(problem.New(422, "sql_too_complex", "the SQL is more than %d levels deep", maxDepth).At(leftmost(v)).
						WithHint("split it into CTEs or views"))
				}
				if nodes > maxNodes {
					refuse(problem.New(422, "sql_too_complex", "the SQL has more than %d parts", maxNodes).At(leftmost(v)).
						WithHint("split it into views"))
				}
			}
			for _, m := range v {
				walk(m, depth)
			}
		case []any:
			for _, m := range v {
				walk(m, depth)
			}
		}
	}
	walk(tree, 0)
}

// location is where an object of the tree stands in the text, −1 when the parser made it up.
func location(o object) int {
	n, ok := o["query_location"].(json.Number)
	if !ok {
		return -1
	}
	at, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil || at < 0 {
		return -1 // 2^64 − 1 stands for nowhere
	}
	return int(at)
}

// leftmost is the first place in the text that a part of the tree speaks of, or −1.
func leftmost(v any) int {
	best := -1
	take := func(at int) {
		if at >= 0 && (best < 0 || at < best) {
			best = at
		}
	}
	switch v := v.(type) {
	case object:
		take(location(v))
		for _, m := range v {
			take(leftmost(m))
		}
	case []any:
		for _, m := range v {
			take(leftmost(m))
		}
	}
	return best
}
