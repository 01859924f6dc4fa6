package expr

import (
	"os"
	"strings"
	"testing"

	"tidemark/storage/row"
)

// Operators and CASE have DuckDB's type for every pair of types, literals included, and refuse
// what it refuses. (N5)
func TestPairsOfTypesBindAsInDuckDB(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/types.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		text, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if text[0] == '#' {
			continue
		}
		e, err := parseExpr(text, goldenFields)
		switch {
		case want == "?" && err == nil:
			t.Errorf("%s was taken as %s", text, e.Type)
		case want != "?" && err != nil:
			t.Errorf("%s: %v; want %s", text, err, want)
		case want != "?":
			if got := strings.Replace(e.Type.String(), "NULL", `"NULL"`, 1); got != want {
				t.Errorf("%s has the type %s, want %s", text, got, want)
			}
		}
	}
}

func TestUnifyFindsCommonType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ types, want string }{
		{"TINYINT, BIGINT", "BIGINT"},
		{"BIGINT, DOUBLE", "DOUBLE"},
		{"HUGEINT, FLOAT", "FLOAT"},
		{"BOOLEAN, INTEGER", "INTEGER"},
		{"BIGINT, DECIMAL(5,2)", "DECIMAL(21,2)"},
		{"DECIMAL(38,2), DECIMAL(4,3)", "DECIMAL(38,2)"},
		{"DATE, TIMESTAMP", "TIMESTAMP"},
		{"INTEGER[], DOUBLE[]", "DOUBLE[]"},
		{"STRUCT(a INTEGER), STRUCT(a BIGINT)", "STRUCT(a BIGINT)"},
		{"VARCHAR, BIGINT", ""},
		{"BOOLEAN, DOUBLE", ""},
		{"INTERVAL, TIMESTAMP", ""},
	} {
		var types []row.Type
		for _, text := range strings.Split(c.types, ", ") {
			typ, err := row.ParseType(text)
			if err != nil {
				t.Fatal(err)
			}
			types = append(types, typ)
		}
		got, ok := Unify(types...)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("%s: got %s %v, want %s", c.types, got, ok, c.want)
		}
	}
}
