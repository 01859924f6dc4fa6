package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/storage/problem"
)

// fails runs a query that must fail before its first byte and returns the problem.
func fails(t *testing.T, h *History, q Query) *problem.Problem {
	t.Helper()
	var out bytes.Buffer
	_, err := h.Query(bg, q, &out)
	var p *problem.Problem
	if !errors.As(err, &p) {
		t.Fatalf("%.200s: got %v, want a problem", q.SQL, err)
	}
	if out.Len() > 0 {
		t.Errorf("%.200s: %q was written before the error", q.SQL, out.String())
	}
	if p.Hint == "" {
		t.Errorf("%.200s: no hint in %+v", q.SQL, p)
	}
	return p
}

func answer(t *testing.T, h *History, q Query) (string, Stats) {
	t.Helper()
	var out bytes.Buffer
	s, err := h.Query(bg, q, &out)
	if err != nil {
		t.Fatalf("%.200s: %v", q.SQL, err)
	}
	return out.String(), s
}

func TestAnswerHasTheFormAskedFor(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	sql := `SELECT * FROM (VALUES (1, 'a', TIMESTAMP '2024-01-01 12:00:00', 1.50), (NULL, '=1+1', NULL, -2.00)) v(n, t, "at time", d)`
	got, _ := answer(t, h, Query{SQL: sql})
	want := `{"columns":[{"name":"n","type":"INTEGER"},{"name":"t","type":"VARCHAR"},{"name":"at time","type":"TIMESTAMP"},{"name":"d","type":"DECIMAL(3,2)"}],"rows":[
{"n":1,"t":"a","at time":"2024-01-01T12:00:00Z","d":1.50},
{"n":null,"t":"=1+1","at time":null,"d":-2.00}
],"truncated":false}
`
	if got != want {
		t.Errorf("JSON:\n%s\nwant\n%s", got, want)
	}
	got, _ = answer(t, h, Query{SQL: sql, Format: FormatNDJSON})
	if want := `{"n":1,"t":"a","at time":"2024-01-01T12:00:00Z","d":1.50}` + "\n" + `{"n":null,"t":"=1+1","at time":null,"d":-2.00}` + "\n"; got != want {
		t.Errorf("NDJSON:\n%s\nwant\n%s", got, want)
	}
	got, _ = answer(t, h, Query{SQL: sql, Format: FormatCSV})
	if want := "n,t,at time,d\n1,a,2024-01-01T12:00:00Z,1.50\n,'=1+1,,-2.00\n"; got != want {
		t.Errorf("CSV:\n%s\nwant\n%s", got, want)
	}
	got, _ = answer(t, h, Query{SQL: "SELECT 1 AS n WHERE false"})
	if want := `{"columns":[{"name":"n","type":"INTEGER"}],"rows":[],"truncated":false}` + "\n"; got != want {
		t.Errorf("no rows: %s", got)
	}
	if p := fails(t, h, Query{SQL: "SELECT 1", Format: "xml"}); p.Status != 406 {
		t.Errorf("an unknown form is %d", p.Status)
	}
}

func TestCSVTextIsNoFormula(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	got, _ := answer(t, h, Query{Format: FormatCSV, SQL: `SELECT '+x' AS "=f", '-1' AS a, '@s' AS b, chr(9) || 'x' AS c, chr(13) AS d, -1 AS e, '"q", r' AS f, '' AS g, ['=x'] AS h, 'NaN'::DOUBLE AS i`})
	if want := "'=f,a,b,c,d,e,f,g,h,i\n'+x,'-1,'@s,'\tx,\"'\r\",-1,\"\"\"q\"\", r\",\"\",\"[\"\"=x\"\"]\",NaN\n"; got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestEveryResultTypeIsJSON: types that tables never have come out of expressions.
func TestEveryResultTypeIsJSON(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	for _, c := range []struct{ expr, typ, want string }{
		{"NULL", "INTEGER", "null"},
		{"true", "BOOLEAN", "true"},
		{"255::UTINYINT", "UTINYINT", "255"},
		{"65535::USMALLINT", "USMALLINT", "65535"},
		{"4294967295::UINTEGER", "UINTEGER", "4294967295"},
		{"18446744073709551615::UBIGINT", "UBIGINT", "18446744073709551615"},
		{"'340282366920938463463374607431768211455'::UHUGEINT", "UHUGEINT", "340282366920938463463374607431768211455"},
		{"sum(9223372036854775807::BIGINT)", "HUGEINT", "9223372036854775807"},
		{"'-170141183460469231731687303715884105728'::HUGEINT", "HUGEINT", "-170141183460469231731687303715884105728"},
		{"'nan'::DOUBLE", "DOUBLE", `"NaN"`},
		{"'-inf'::FLOAT", "FLOAT", `"-Infinity"`},
		{"1.10::DECIMAL(38,2)", "DECIMAL(38,2)", "1.10"},
		{"TIME '12:34:56.5'", "TIME", `"12:34:56.5"`},
		{"TIME '12:34:56'", "TIME", `"12:34:56"`},
		{"'2024-01-01 00:00:00+02'::TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE", `"2023-12-31T22:00:00Z"`},
		{"'2023-12-31 23:59:59.9999999'::TIMESTAMP_NS", "TIMESTAMP_NS", `"2023-12-31T23:59:59.999999Z"`},
		{"'2024-01-01 00:00:01'::TIMESTAMP_S", "TIMESTAMP_S", `"2024-01-01T00:00:01Z"`},
		{"DATE '0001-01-01'", "DATE", `"0001-01-01"`},
		{"INTERVAL '1 month 2 days 3 seconds'", "INTERVAL", `"1 month 2 days 00:00:03"`},
		{"'00000000-0000-0000-0000-0000000000ff'::UUID", "UUID", `"00000000-0000-0000-0000-0000000000ff"`},
		{"'10'::BIT", "BIT", `"10"`},
		{"'x'::ENUM('x', 'y, )')", "ENUM('x', 'y, )')", `"x"`},
		{"'\\x00\\xFF'::BLOB", "BLOB", `"AP8="`},
		{"'{\"a\":  1}'::JSON", "JSON", `{"a":  1}`},
		{"[1, NULL]", "INTEGER[]", "[1,null]"},
		{"[1, 2]::INTEGER[2]", "INTEGER[2]", "[1,2]"},
		{"[[TIMESTAMP '2024-01-01'], NULL]", "TIMESTAMP[][]", `[["2024-01-01T00:00:00Z"],null]`},
		{"{'b': 1, 'a': 'x', 'c d': {'e': DATE '2024-01-01'}}", `STRUCT(b INTEGER, a VARCHAR, "c d" STRUCT(e DATE))`, `{"b":1,"a":"x","c d":{"e":"2024-01-01"}}`},
		{"MAP {'k': 1, 'j': NULL}", "MAP(VARCHAR, INTEGER)", `{"j":null,"k":1}`},
		{"MAP {2: [1.5]}", "MAP(INTEGER, DECIMAL(2,1)[])", `{"2":[1.5]}`},
		{"{'j': '[1]'::JSON, 'u': 1::UHUGEINT, 'e': 'x'::ENUM('x')}", "STRUCT(j JSON, u UHUGEINT, e ENUM('x'))", `{"j":[1],"u":1,"e":"x"}`},
		{"union_value(k := 1)", "UNION(k INTEGER)", `"1"`},
		{"histogram(2)", "MAP(INTEGER, UBIGINT)", `{"2":1}`},
	} {
		got, _ := answer(t, h, Query{SQL: "SELECT " + c.expr + " AS x"})
		typ, _ := json.Marshal(c.typ)
		want := fmt.Sprintf("{\"columns\":[{\"name\":\"x\",\"type\":%s}],\"rows\":[\n{\"x\":%s}\n],\"truncated\":false}\n", typ, c.want)
		if got != want {
			t.Errorf("%s:\ngot  %swant %s", c.expr, got, want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: not JSON: %s", c.expr, got)
		}
	}
}

func TestColumnsOfOneNameAreKeptApart(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	expect(t, h, `SELECT 1 AS a, 2 AS a, 3 AS "A"`, `{"a":1,"a_1":2,"A_2":3}`)
}

func TestParametersAreBoundExactly(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "n BIGINT, t VARCHAR, at TIMESTAMP", "", "p", []string{"9007199254740993", `"x' OR true --"`, `"2024-01-01T12:00:00Z"`}))
	for _, c := range []struct {
		where  string
		params []any
		n      int
	}{
		{"n = $1", []any{json.Number("9007199254740993")}, 1},
		{"n = ?", []any{json.RawMessage("9007199254740992")}, 0},
		{"n = ?", []any{int64(9007199254740993)}, 1},
		{"t = $1", []any{"x' OR true --"}, 1},
		{"t = $1", []any{"' OR true --"}, 0},
		{"at = $1", []any{"2024-01-01T12:00:00Z"}, 1},
		{"at > $1 AND at < $2", []any{"2024-01-01", "2024-01-02"}, 1},
		{"$2 AND n > $1", []any{1.5, true}, 1},
		{"t IS NOT DISTINCT FROM $1", []any{nil}, 0},
		{"n < $1", []any{json.Number("170141183460469231731687303715884105727")}, 1},
	} {
		got := ask(t, h, "SELECT count(*) AS n FROM s WHERE "+c.where, c.params...)
		if want := fmt.Sprintf(`{"n":%d}`, c.n); got != want {
			t.Errorf("%s with %v: %s, want %s", c.where, c.params, got, want)
		}
	}
	for _, params := range [][]any{{}, {[]int{1}}, {"a\x00b"}, {json.Number("1e999")}} {
		if p := fails(t, h, Query{SQL: "SELECT * FROM s WHERE t = $1", Params: params}); p.Status != 422 {
			t.Errorf("params %v: %+v", params, p)
		}
	}
}

func TestErrorsNameThePlaceInTheUsersText(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "a BIGINT, t VARCHAR", "", "p", []string{"1", `"x"`}))
	for _, c := range []struct{ sql, at string }{
		{"SELECT a,\n  nope\nFROM s", "nope"},
		{"SELECT a FROM s /* nope */ WHERE a > 1 AND nope > 2", "nope > 2"},
		{"SELECT lower(a, 1) FROM s", "lower"},
		{"SELECT sum(t) FROM s", "sum"},
		{"SELECT a FROM s WHERE t = 'nope' OR NOPE", "NOPE"},
		{"SELECT " + strings.Repeat("a + ", 100) + "nope FROM s", "nope"},
		{"SELECT 'ü', nope FROM s", "nope"},
	} {
		ast, err := h.ParseSQL(c.sql)
		if err != nil {
			t.Fatal(err)
		}
		if err := Gate(ast, known); err != nil {
			t.Fatal(err)
		}
		ran, err := h.SQLFromAST(ast)
		if err != nil {
			t.Fatal(err)
		}
		p := fails(t, h, Query{SQL: ran, Source: c.sql})
		if want := strings.LastIndex(c.sql, c.at); p.Status != 422 || p.Position != want {
			t.Errorf("%.80s: status %d, position %d, want %d (%s)", c.sql, p.Status, p.Position, want, p.Detail)
		}
		if strings.Contains(p.Detail, "LINE") || strings.Contains(p.Detail, "\n") {
			t.Errorf("%.80s: detail %q", c.sql, p.Detail)
		}
	}
	if p := fails(t, h, Query{SQL: "SELECT t::INTEGER FROM s"}); p.Status != 422 || !strings.Contains(p.Detail, "Could not convert") {
		t.Errorf("a failed cast is %+v", p)
	}
	if p := fails(t, h, Query{SQL: "SELECT a + 9223372036854775807 FROM s"}); p.Status != 422 || !strings.Contains(p.Detail, "Overflow") {
		t.Errorf("an overflow is %+v", p)
	}
}

func TestMaxRowsCutsAndSaysSo(t *testing.T) { // 57
	t.Parallel()
	h := start(t, t.TempDir())
	got, s := answer(t, h, Query{SQL: "SELECT * FROM range(10) r(n) ORDER BY n DESC", MaxRows: 3})
	if !strings.Contains(got, `"truncated":true`) || !s.Truncated || s.Rows != 3 || !strings.Contains(got, "{\"n\":9},\n{\"n\":8},\n{\"n\":7}\n]") {
		t.Errorf("%+v %s", s, got)
	}
	got, s = answer(t, h, Query{SQL: "SELECT * FROM range(3)", MaxRows: 3})
	if !strings.Contains(got, `"truncated":false`) || s.Truncated || s.Rows != 3 {
		t.Errorf("%+v %s", s, got)
	}
	if _, s = answer(t, h, Query{SQL: "SELECT * FROM range(1000000)"}); s.Rows != DefaultMaxRows || !s.Truncated {
		t.Errorf("without max_rows: %+v", s)
	}
	// More than is held back, in many frames.
	got, s = answer(t, h, Query{SQL: "SELECT range AS n, repeat('x', 100) AS t FROM range(100000)", MaxRows: 200000, Format: FormatNDJSON})
	if s.Rows != 100000 || strings.Count(got, "\n") != 100000 || !strings.HasSuffix(got, "{\"n\":99999,\"t\":\""+strings.Repeat("x", 100)+"\"}\n") {
		t.Errorf("%+v, %d bytes", s, len(got))
	}
}

func TestMemoryBombsAreTooLarge(t *testing.T) { // 55
	t.Parallel()
	h := start(t, t.TempDir())
	for _, sql := range []string{
		"SELECT len(repeat('x', 1000000000) || repeat('y', 1000000000) || repeat('z', 2000000000))",
		"SELECT len(range(1000000000))",
		"SELECT len(list_resize([1], 2000000000, 0))",
		"SELECT length(string_agg(repeat('x', 1000000), '')) FROM range(2000)",
		"SELECT count(DISTINCT a.range * 1000000 + b.range) FROM range(1000000) a, range(1000000) b",
		"SELECT list(a.range) FROM range(1000000) a, range(1000) b",
	} {
		p := fails(t, h, Query{SQL: sql, Timeout: time.Second})
		if p.Status == 504 || p.Status == 422 && p.Code == "too_large" || p.Status == 422 && strings.Contains(p.Detail, "Cannot create a list") {
			continue
		}
		t.Errorf("%s: %d %s %s", sql, p.Status, p.Code, p.Detail)
	}
	expect(t, h, "SELECT 1 AS n", `{"n":1}`)
}

// endless are queries that end at their deadline only.
var endless = []string{
	"SELECT count(hash(a.range, b.range)) FROM range(1000000) a, range(1000000) b",
	"SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c WHERE a.range + b.range + c.range = -1", // a join that looks at its interrupt twice a minute
	"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r WHERE n < 0",
	"SELECT levenshtein(repeat('ab', 100000), repeat('ba', 100000))", // not to be interrupted
}

func TestDeadlineEndsEveryQuery(t *testing.T) { // 54
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "a BIGINT", "", "p", []string{"1"}))
	for _, sql := range endless {
		expect(t, h, "SELECT 1 AS n", `{"n":1}`) // a child is there
		if p := fails(t, h, Query{SQL: sql, Timeout: 300 * time.Millisecond}); p.Status != 504 {
			t.Errorf("%s: %+v", sql, p)
		}
	}
	if s := h.Status(); s.Killed == 0 || s.Active != 0 {
		t.Errorf("status %+v: nothing was killed, though one query can't be interrupted", s)
	}
	expect(t, h, "SELECT a FROM s", `{"a":1}`)
}

func TestOtherQueriesOutliveAKill(t *testing.T) { // I4
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "a BIGINT", "", "p", []string{"1"}))
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		if p := fails(t, h, Query{SQL: endless[3], Timeout: 300 * time.Millisecond}); p.Status != 504 {
			t.Errorf("%+v", p)
		}
	}()
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			// Runs longer than the other's deadline, then is repeated from the start.
			got := ask(t, h, "SELECT count(*) AS n, (SELECT count(*) FROM s) AS s FROM range(1000000) a, range(60) b WHERE hash(a.range + b.range) <> 1")
			if got != `{"n":60000000,"s":1}` {
				t.Errorf("got %s", got)
			}
		}()
	}
	wg.Wait()
	if s := h.Status(); s.Killed != 1 || s.Restarts != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestCancelledRequestCancelsTheQuery(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(bg)
	done := make(chan error, 1)
	go func() {
		_, err := h.Query(ctx, Query{SQL: endless[0]}, &bytes.Buffer{})
		done <- err
	}()
	for h.Status().Active == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if s := h.Status(); s.Active != 0 || s.Killed != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestFullQueueIsRefused(t *testing.T) {
	t.Parallel()
	opts := testOptions(t.TempDir())
	opts.Queries, opts.Queue = 2, 1
	h, err := Start(bg, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, cancel := context.WithCancel(bg)
	var wg sync.WaitGroup
	for range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, _ = h.Query(ctx, Query{SQL: endless[0]}, &bytes.Buffer{})
		}()
	}
	for s := h.Status(); s.Active < 2 || s.Waiting < 1; s = h.Status() {
		time.Sleep(time.Millisecond)
	}
	p := fails(t, h, Query{SQL: "SELECT 1"})
	if p.Status != 429 || p.RetryAfter == 0 {
		t.Errorf("got %+v", p)
	}
	if s := h.Status(); s.Refused != 1 {
		t.Errorf("status %+v", s)
	}
	cancel()
	wg.Wait()
	expect(t, h, "SELECT 1 AS n", `{"n":1}`)
}

// slowReader takes nothing until it is let go.
type slowReader struct {
	free <-chan struct{}
	n    int
}

func (s *slowReader) Write(p []byte) (int, error) {
	<-s.free
	s.n += len(p)
	return len(p), nil
}

func TestSlowReaderIsNotADeadline(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	free := make(chan struct{})
	w := &slowReader{free: free}
	done := make(chan error, 1)
	go func() {
		_, err := h.Query(bg, Query{SQL: "SELECT range AS n, repeat('x', 1000) AS t FROM range(50000)", MaxRows: 100000, Timeout: 2 * time.Second}, w)
		done <- err
	}()
	time.AfterFunc(2500*time.Millisecond, func() { close(free) }) // past deadline and kill
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
	if s := h.Status(); s.Killed != 0 || w.n < 50_000_000 {
		t.Errorf("%+v, %d bytes", s, w.n)
	}
}

func TestQueriesShareNothing(t *testing.T) { // 58
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "a BIGINT", "", "p", []string{"1"}))
	for _, sql := range []string{"CREATE TEMP VIEW s AS SELECT 2 AS a", "SELECT 1) ; CREATE TEMP TABLE s AS SELECT (2", "BEGIN TRANSACTION"} {
		fails(t, h, Query{SQL: sql})
	}
	expect(t, h, "SELECT a FROM s", `{"a":1}`)
}
