package expr

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"tidemark/storage/row"
)

// goldenTable is the table over which testdata/golden.tsv was recorded, as its columns' types and
// rows of SQL texts.
var goldenFields = func() []row.Field {
	var fields []row.Field
	for _, f := range strings.Split("ti TINYINT;si SMALLINT;i INTEGER;bi BIGINT;hi HUGEINT;f FLOAT;d DOUBLE;d52 DECIMAL(5,2);d183 DECIMAL(18,3);"+
		"d3810 DECIMAL(38,10);s VARCHAR;b BOOLEAN;dt DATE;ts TIMESTAMP;iv INTERVAL;l BIGINT[];ls VARCHAR[];st STRUCT(a BIGINT, b VARCHAR);j JSON", ";") {
		name, typ, _ := strings.Cut(f, " ")
		t, err := row.ParseType(typ)
		if err != nil {
			panic(err)
		}
		fields = append(fields, row.Field{Name: name, Type: t})
	}
	return fields
}()

// goldenBatch reads testdata/table.tsv: a line a row, a SQL text or NULL a column.
func goldenBatch(t testing.TB) *row.Batch {
	t.Helper()
	raw, err := os.ReadFile("testdata/table.tsv")
	if err != nil {
		t.Fatal(err)
	}
	b := row.NewBatch(goldenFields, 8)
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != len(goldenFields) {
			t.Fatalf("%d cells in %q", len(cells), line)
		}
		for c, cell := range cells {
			v := b.Cols[c]
			if cell == "NULL" {
				v.AppendNull()
				continue
			}
			if v.Type.Kind == row.JSON {
				v.AppendString(cell)
				continue
			}
			if err := appendParsed(v, cell); err != nil {
				t.Fatalf("%s: %s", cell, err.Message)
			}
		}
		b.Len++
	}
	return b
}

type golden struct {
	expr, typ string
	values    []string // quoted, NULL, or ! and a quoted message
}

func readGolden(t testing.TB) []golden {
	t.Helper()
	f, err := os.Open("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []golden
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "\t")
		all = append(all, golden{cells[0], cells[1], cells[2:]})
	}
	return all
}

// Every expression has DuckDB's type, and for every row DuckDB's value or failure. (N5)
func TestExpressionsAnswerAsDuckDB(t *testing.T) {
	t.Parallel()
	b := goldenBatch(t)
	for _, g := range readGolden(t) {
		t.Run(g.expr, func(t *testing.T) {
			e, err := parseExpr(g.expr, goldenFields)
			if g.typ == "?" {
				if err == nil && !allFail(e, b, len(g.values)) {
					t.Fatalf("was taken as %s; DuckDB: %s", e.Type, g.values[0])
				}
				return
			}
			if err != nil {
				if !allMessages(g.values) { // refused at once, where DuckDB fails row by row
					t.Fatal(err)
				}
				return
			}
			typ := e.Type.String()
			if typ == "NULL" {
				typ = `"NULL"`
			}
			if want := strings.Replace(g.typ, "UBIGINT", "BIGINT", 1); typ != want {
				t.Errorf("has the type %s, want %s", typ, want)
			}
			checkRows(t, e, b, nil, g)
			checkRows(t, e.Clone(), b, []int32{0, 2, 4}, g)
		})
	}
}

// allMessages says that DuckDB had no value for any row.
func allMessages(values []string) bool {
	for _, v := range values {
		if v[0] != '!' && v != "NULL" {
			return false
		}
	}
	return values[0][0] == '!'
}

// sameText compares values as texts. DuckDB shows the sign of a NaN, and its C library's log10,
// cbrt and hyperbolic functions are themselves off in the last bit.
func sameText(got, want string, t row.Type) bool {
	if got == want || want == "-nan" && got == "nan" {
		return true
	}
	if t.Kind != row.Double {
		return false
	}
	a, err1 := strconv.ParseFloat(got, 64)
	b, err2 := strconv.ParseFloat(want, 64)
	return err1 == nil && err2 == nil && math.Abs(a-b) <= math.Abs(b)*4e-16
}

// allFail says that each of the first n rows fails.
func allFail(e *Expr, b *row.Batch, n int) bool {
	var errs Errors
	e.Eval(b, nil, &errs)
	return errs.Len() >= n
}

func checkRows(t *testing.T, e *Expr, b *row.Batch, sel []int32, g golden) {
	t.Helper()
	var errs Errors
	v := e.Eval(b, sel, &errs)
	if v.Len() != b.Len {
		t.Fatalf("gives %d values for %d rows", v.Len(), b.Len)
	}
	messages := map[int]string{}
	errs.Each(func(f Failure) { messages[f.Row] = f.Message })
	rows := sel
	if rows == nil {
		rows = identity(b.Len)
	}
	for _, i := range rows {
		want := g.values[min(int(i), len(g.values)-1)]
		msg, failed := messages[int(i)]
		switch {
		case want[0] == '!':
			if !failed {
				t.Errorf("row %d gives %s, want the failure %s", i, row.TextOf(v, int(i)), want)
			}
		case failed:
			t.Errorf("row %d fails: %s; want %s", i, msg, want)
		case want == "NULL":
			if !v.IsNull(int(i)) && v.Type.Kind != row.Null {
				t.Errorf("row %d gives %s, want NULL", i, row.TextOf(v, int(i)))
			}
		case v.IsNull(int(i)):
			t.Errorf("row %d gives NULL, want %s", i, want)
		default:
			text, err := strconv.Unquote(want)
			if err != nil {
				t.Fatal(err)
			}
			if got := row.TextOf(v, int(i)); !sameText(got, text, v.Type) {
				t.Errorf("row %d gives %s, want %s", i, got, text)
			}
		}
	}
}
