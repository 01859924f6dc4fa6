package expr

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tidemark/storage/row"
)

// values evaluates an expression over the golden table as texts, failures as !message.
func values(t *testing.T, e *Expr, b *row.Batch, sel []int32) []string {
	t.Helper()
	var errs Errors
	v := e.Eval(b, sel, &errs)
	rows := sel
	if rows == nil {
		rows = identity(b.Len)
	}
	out := make([]string, len(rows))
	for k, i := range rows {
		out[k] = row.TextOf(v, int(i))
	}
	errs.Each(func(f Failure) {
		if k := slices.Index(rows, int32(f.Row)); k >= 0 {
			out[k] = "!" + f.Message
		}
	})
	return out
}

func mustParse(t testing.TB, text string) *Expr {
	t.Helper()
	e, err := parseExpr(text, goldenFields)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func TestFailingRowLeavesOthersAlone(t *testing.T) { // E2
	t.Parallel()
	b := goldenBatch(t)
	got := values(t, mustParse(t, "i + 1"), b, nil)
	want := []string{"4", "NULL", "-2147483647", "!Overflow in addition of INT32 (2147483647 + 1)!", "1", "101"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBranchNotTakenDoesNotFail(t *testing.T) { // E3
	t.Parallel()
	b := goldenBatch(t)
	for _, text := range []string{
		"CASE WHEN i < 100 THEN i + 1 ELSE 0 END",
		"i >= 100 OR i + 1 > 0",
		"i < 100 AND i + 1 > 0",
		"coalesce(i, 2147483647 + i)",
		"CASE WHEN s = '42' THEN s::INTEGER ELSE 0 END",
		"CASE WHEN false THEN ln(0) ELSE 1 END",
	} {
		var errs Errors
		mustParse(t, text).Eval(b, nil, &errs)
		errs.Each(func(f Failure) { t.Errorf("%s: row %d fails: %s", text, f.Row, f.Message) })
	}
	var errs Errors
	mustParse(t, "i + 1 > 0 AND false").Eval(b, nil, &errs)
	if errs.Len() != 1 {
		t.Errorf("%d rows fail in the branch that comes first, want 1", errs.Len())
	}
}

func TestBatchesMayBeCutAnywhere(t *testing.T) { // E1
	t.Parallel()
	b := goldenBatch(t)
	for _, g := range readGolden(t) {
		e, err := parseExpr(g.expr, goldenFields)
		if err != nil {
			continue
		}
		whole := values(t, e, b, nil)
		for i := range b.Len {
			if got := values(t, e, b, []int32{int32(i)}); got[0] != whole[i] {
				t.Errorf("%s: row %d alone gives %s, in its batch %s", g.expr, i, got[0], whole[i])
			}
		}
		if again := values(t, e, b, nil); !slices.Equal(again, whole) {
			t.Errorf("%s: a second time gives %q, first %q", g.expr, again, whole)
		}
	}
}

func TestNullSlotsHoldZero(t *testing.T) {
	t.Parallel()
	b := goldenBatch(t)
	for _, text := range []string{"i + 1", "s || 'x'", "d * 2", "hi + 1", "CASE WHEN b THEN i END", "s = '42'", "i > 0 AND bi > 0"} {
		e := mustParse(t, text)
		var errs Errors
		v := e.Eval(b, nil, &errs)
		for i := range b.Len {
			if !v.IsNull(i) {
				continue
			}
			zero := true
			switch v.Type.Class() {
			case row.Float64Class:
				zero = v.F64[i] == 0
			case row.Int128Class:
				zero = v.I128[i] == row.Int128{}
			case row.StringClass:
				zero = v.Str[i] == ""
			default:
				zero = v.I64[i] == 0
			}
			if !zero {
				t.Errorf("%s: row %d is NULL and holds a value", text, i)
			}
		}
	}
}

func TestSelectGivesRowsThatAreTrue(t *testing.T) {
	t.Parallel()
	b := goldenBatch(t)
	var errs Errors
	e := mustParse(t, "i + 1 > 1")
	if got := e.Select(b, nil, &errs); !slices.Equal(got, []int32{0, 5}) {
		t.Errorf("selected %v, want rows 0 and 5", got)
	}
	if !errs.Failed(3) || errs.Len() != 1 {
		t.Errorf("row 3 overflows and is not reported")
	}
	if got := e.Select(b, []int32{4, 5}, &errs); !slices.Equal(got, []int32{5}) {
		t.Errorf("selected %v of rows 4 and 5, want row 5", got)
	}
}

func TestClonesShareNothing(t *testing.T) {
	t.Parallel()
	b := goldenBatch(t)
	e := mustParse(t, "CASE WHEN regexp_extract(s, '(\\w+)', 1) = 'Hello' THEN upper(s) ELSE strftime(ts, '%Y') || i END")
	want := values(t, e, b, nil)
	var wg sync.WaitGroup
	for range 4 {
		c := e.Clone()
		wg.Go(func() {
			for range 50 {
				if got := values(t, c, b, nil); !slices.Equal(got, want) {
					t.Errorf("a clone gives %q, want %q", got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestReadsAndRenumber(t *testing.T) {
	t.Parallel()
	b := goldenBatch(t)
	e := mustParse(t, "CASE WHEN b THEN i + bi ELSE i END")
	if got := e.Reads(); !slices.Equal(got, []int{2, 3, 11}) {
		t.Errorf("reads columns %v, want 2, 3 and 11", got)
	}
	small := &row.Batch{Len: b.Len, Cols: []*row.Vector{b.Cols[11], b.Cols[2], b.Cols[3]}}
	moved := e.Renumber(func(c int) int { return map[int]int{11: 0, 2: 1, 3: 2}[c] })
	if got, want := values(t, moved, small, nil), values(t, e, b, nil); !slices.Equal(got, want) {
		t.Errorf("over moved columns: %q, want %q", got, want)
	}
	if mustParse(t, "bi").ColumnNumber() != 3 || e.ColumnNumber() != -1 {
		t.Error("a bare column is not told from an expression")
	}
}

func TestConstantsAreFolded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1 + 2": "3", "INTERVAL 5 MINUTE": "00:05:00", "'1 day'::INTERVAL": "1 day", "lower('ABC')": "abc",
		"date_trunc('month', DATE '2024-02-29')": "2024-02-01", "CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END": "b", "[1, 2]": "[1, 2]",
	} {
		e := mustParse(t, text)
		if !e.IsConst() || row.TextOf(e.ConstValue(), 0) != want {
			t.Errorf("%s is not the constant %s", text, want)
		}
	}
	if mustParse(t, "ln(0)").IsConst() {
		t.Error("a constant that fails was folded: it must fail row by row")
	}
}

func TestTextsReadAsSQL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"i*2+1":                      "(i * 2) + 1",
		"lower(s) like 'a%'":         "lower(s) LIKE 'a%'",
		"st.b":                       "st.b",
		"l[1]":                       "l[1]",
		"i IN (1,2)":                 "i IN (1, 2)",
		"s is not null and b":        "(s IS NOT NULL) AND b",
		"j->>'$.a'":                  "j ->> '$.a'",
		"case when b then 1 end":     "CASE WHEN b THEN 1 END",
		"cast(i as DOUBLE)":          "CAST(i AS DOUBLE)",
		"-i":                         "-i",
		"0.908 * bi":                 "0.908 * bi",
		"ts - INTERVAL '1 day'":      "ts - CAST('1 day' AS INTERVAL)",
		"coalesce(s, 'it''s')":       "coalesce(s, 'it''s')",
		"sum_of(1)":                  "",
		"replace(s, '(', ' ') = 'x'": "replace(s, '(', ' ') = 'x'",
	} {
		e, err := parseExpr(in, goldenFields)
		if want == "" {
			if err == nil {
				t.Errorf("%s was taken", in)
			}
			continue
		}
		if err != nil || e.Text != want {
			t.Errorf("%s reads as %s, %v; want %s", in, e, err, want)
		}
	}
}

func TestRefusalsSayWhatThereIs(t *testing.T) {
	t.Parallel()
	_, err := parseExpr("lower(i)", goldenFields)
	var m *Mismatch
	if !errors.As(err, &m) || m.Error() != "lower does not take (INTEGER); it takes (VARCHAR)" {
		t.Errorf("got %v", err)
	}
	_, err = parseExpr("lenght(s)", goldenFields)
	var u *Unknown
	if !errors.As(err, &u) || !slices.Contains(u.Similar, "length") {
		t.Errorf("got %v", err)
	}
	_, err = parseExpr("st.nope", goldenFields)
	if !errors.As(err, &m) || !strings.Contains(m.Error(), "it has a, b") {
		t.Errorf("got %v", err)
	}
	_, err = parseExpr("regexp_matches(s, '(')", goldenFields)
	if !errors.As(err, &m) || !strings.Contains(m.Error(), "missing ): (") {
		t.Errorf("got %v", err)
	}
}

func TestMemoGivesUpOnTextsThatNeverRepeat(t *testing.T) {
	t.Parallel()
	e := &Expr{}
	c := &call{expr: e}
	for i := range maxMemoTexts + 2 {
		s := "x" + strconv.Itoa(i)
		if got := c.remember(s, strings.ToUpper); got != strings.ToUpper(s) {
			t.Fatalf("%q gives %q", s, got)
		}
	}
	if !e.memo.off || len(e.memo.known) != 0 {
		t.Error("the memo still holds texts that never came again")
	}
}

// Whatever text a cast meets, it answers or fails.
func FuzzCastsOfTexts(f *testing.F) {
	for _, s := range []string{"2024-02-29 12:00:00+01", "1 day -3 hours", "-1.5e3", "[1, 'a']", "{'a': 1}", `{"a": [1]}`, "0x1f", "1_0"} {
		f.Add(s)
	}
	var casts []*Expr
	col := Column(0, row.Field{Name: "s", Type: tVarchar})
	for _, fld := range goldenFields {
		e, err := Cast(col, fld.Type, false)
		if err != nil {
			f.Fatal(err)
		}
		casts = append(casts, e)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := &row.Batch{Len: 1, Cols: []*row.Vector{{Type: tVarchar, Str: []string{s}}}}
		for _, e := range casts {
			var errs Errors
			v := e.Clone().Eval(b, nil, &errs)
			if !errs.Any() {
				row.TextOf(v, 0)
			}
		}
	})
}

// JSON is well-formed when it comes from a column; if it is not, nothing panics.
func FuzzJSONPaths(f *testing.F) {
	for _, s := range []string{`{"a": [1, "x\u00e9"]}`, `"a`, `{"a`, `[1,`, `-`, ``, `{"a":tru`} {
		f.Add(s)
	}
	fields := []row.Field{{Name: "j", Type: tJSON}}
	var all []*Expr
	for _, text := range []string{"j->'a'", "j->>'$.a[0]'", "j->'$.a[#-1]'", "json_type(j)", "json_array_length(j)", "json_keys(j)", "json(j)", "j::BIGINT", "j::VARCHAR[]", "to_json(j)", "j::STRUCT(a BIGINT[])"} {
		e, err := parseExpr(text, fields)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, e)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := &row.Batch{Len: 1, Cols: []*row.Vector{{Type: tJSON, Str: []string{s}}}}
		for _, e := range all {
			var errs Errors
			v := e.Clone().Eval(b, nil, &errs)
			row.TextOf(v, 0)
		}
	})
}
