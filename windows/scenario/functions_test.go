package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidemark/storage/history"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/agg"
	"tidemark/windows/engine"
	"tidemark/windows/expr"
	"tidemark/windows/query"
)

// reference is the page that says what the SQL of views takes. What stands in it between the two
// marks is made by these tests.
const (
	reference = "../../docs/sql.md"
	begin     = "<!-- made by go test ./windows/scenario -run Functions -update -->\n"
	end       = "<!-- end of what is made -->\n"
)

var name = regexp.MustCompile(`^[A-Za-z]\w*$`)

// functions are DuckDB's, by kind, and those of them that a view has not.
func functions(t *testing.T) (all, missing map[string][]string) {
	t.Helper()
	_, rows, _, err := duck.Rows(context.Background(), history.Query{
		SQL: "SELECT DISTINCT function_name, function_type FROM duckdb_functions() ORDER BY function_type, function_name", MaxRows: 10_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	all, missing = map[string][]string{}, map[string][]string{}
	for i := range rows.Len {
		f, kind := rows.Cols[0].Str[i], rows.Cols[1].Str[i]
		all[kind] = append(all[kind], f)
		if kind == "table" || kind == "table_macro" || kind == "pragma" || !agg.Known(f) && !expr.Known(f) {
			missing[kind] = append(missing[kind], f)
		}
	}
	return all, missing
}

// TestFunctionsInTheReferenceAreThoseThatThereAre keeps the page true.
func TestFunctionsInTheReferenceAreThoseThatThereAre(t *testing.T) {
	t.Parallel()
	_, missing := functions(t)
	var b strings.Builder
	list := func(title string, names []string) {
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !name.MatchString(n) })
		fmt.Fprintf(&b, "| %s | %d | %s |\n", title, len(names), strings.Join(names, ", "))
	}
	b.WriteString("| computed incrementally | | |\n| --- | --- | --- |\n")
	list("aggregates", agg.Names())
	list("window functions, besides the aggregates", query.WindowFunctions)
	list("functions of one row", expr.Functions())
	b.WriteString("\n| in DuckDB 1.1.3 and not in a view | | |\n| --- | --- | --- |\n")
	for _, kind := range slices.Sorted(maps.Keys(missing)) {
		if kind != "pragma" {
			list(map[string]string{
				"aggregate": "aggregates", "macro": "macros", "scalar": "functions of one row", "table": "table functions", "table_macro": "table macros",
			}[kind], missing[kind])
		}
	}
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has lost its marks", reference)
	case was == b.String():
	case *update:
		if err := os.WriteFile(reference, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s lists other functions than there are; run go test ./windows/scenario -run Functions -update\n%s", reference, firstDifference(was, b.String()))
	}
}

// TestFunctionsThatAreMissingAreRefused calls each function that DuckDB has and views have not.
func TestFunctionsThatAreMissingAreRefused(t *testing.T) {
	t.Parallel()
	_, missing := functions(t)
	w := &world{t: t}
	w.declare("s", 1, []row.Field{{Name: "k", Type: row.Scalar(row.Varchar)}, {Name: "v", Type: row.Scalar(row.BigInt)}})
	tried := 0
	for kind, names := range missing {
		for _, f := range names {
			sql := fmt.Sprintf("SELECT %s(k) AS x FROM s", row.QuoteName(f))
			switch kind {
			case "table", "table_macro":
				sql = fmt.Sprintf("SELECT * FROM %s(k)", row.QuoteName(f))
			case "pragma":
				sql = "PRAGMA " + f
			}
			plan, err := query.Compile(duck.ParseSQL, w, sql, query.Options{})
			if err == nil {
				_, err = engine.New(plan, engine.Config{Streams: tracked(plan, 0)})
			}
			var p *problem.Problem
			switch {
			case err == nil:
				t.Errorf("%s is taken", sql)
			case !errors.As(err, &p):
				t.Errorf("%s: %v is no problem document", sql, err)
			case p.Status != 422 || p.Position < 0 || p.Hint == "":
				t.Errorf("%s: %d at %d: %s, hint %q", sql, p.Status, p.Position, p.Detail, p.Hint)
			}
			tried++
		}
	}
	if tried < 300 {
		t.Errorf("only %d functions were tried", tried)
	}
}
