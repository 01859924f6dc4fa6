package history

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// known are the relations of these tests.
func known(name string) bool { return name == "s" || name == "revenue" }

// newParser opens a parser of the test's own.
func newParser(t *testing.T) *Parser {
	t.Helper()
	p, err := NewParser(256 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// admit parses and gates.
func admit(p *Parser, sql string) error {
	ast, err := p.ParseSQL(sql)
	if err != nil {
		return err
	}
	return Gate(ast, known)
}

// analysts are texts that must pass.
var analysts = []string{
	"SELECT 1",
	"FROM s",
	"SELECT * FROM s WHERE a > 1 AND b LIKE 'x%' OR c IS NULL ORDER BY a DESC NULLS LAST LIMIT 10 OFFSET 5",
	"SELECT b, count(*), count(DISTINCT a), sum(a) FILTER (WHERE a > 0), avg(a), string_agg(b, ',' ORDER BY a) FROM s GROUP BY ALL HAVING count(*) > 1",
	"SELECT approx_quantile(a, 0.5), quantile_cont(a, [0.5, 0.9]), median(a), mode(a), histogram(a), arg_max(b, a), first(a ORDER BY b) FROM s",
	"SELECT row_number() OVER w, lag(a, 1, 0) OVER (PARTITION BY b ORDER BY a), sum(a) OVER w FROM s WINDOW w AS (PARTITION BY b ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
	"SELECT * FROM s QUALIFY row_number() OVER (PARTITION BY b ORDER BY a) <= 3",
	"WITH x AS (SELECT a FROM s), y AS (SELECT a FROM x) SELECT * FROM y JOIN x USING (a) LEFT JOIN revenue r ON r.a = x.a",
	"WITH x AS MATERIALIZED (SELECT a FROM s) SELECT * FROM x, x y",
	"SELECT * FROM s ASOF JOIN revenue r ON s.b = r.b AND s.a >= r.a",
	"SELECT a FROM s UNION ALL SELECT a FROM revenue EXCEPT SELECT 1 INTERSECT SELECT 2",
	"SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END, coalesce(a, 1), nullif(a, 1), a::VARCHAR, TRY_CAST(b AS INTEGER), a BETWEEN 1 AND 2, a IN (1, 2), a IN (SELECT a FROM s), EXISTS (SELECT 1) FROM s",
	"SELECT date_trunc('hour', ts), time_bucket(INTERVAL '5 minutes', ts), extract(year FROM ts), ts - INTERVAL 5 MINUTE, strftime(ts, '%Y'), DATE '2024-01-01', epoch_ms(ts), age(ts, ts) FROM s",
	"SELECT j->>'$.a', j->'b', json_extract(j, '$.a'), j.a.b, [1, 2][1], {'x': 1}.x, j->-1, j->>-1, list_transform([1], x -> x + 1), [x * 2 FOR x IN [1, 2] IF x > 1], struct_pack(a := 1) FROM s",
	"SELECT unnest([1, 2]), * EXCLUDE (a) REPLACE (b || 'x' AS b), COLUMNS('a.*'), round(a, 2), lower(b), regexp_replace(b, 'a', 'b'), b[1:2] FROM s",
	"SELECT * FROM range(10) r(n), generate_series(0, 100, 5), generate_series(10, -10, -1), unnest([1, 2]) AS u(x), (VALUES (1, 'a'), (2, 'b')) v(k, w)",
	"SELECT now(), current_date, random(), uuid() FROM s USING SAMPLE 10 PERCENT",
	"SELECT $1, ?, a FROM s WHERE a = $2",
	"SELECT window_start, sum(a) FROM tumble(s, ts, INTERVAL '5 minutes') GROUP BY ALL",
	"SELECT window_start, sum(a) FROM tumble((SELECT * FROM s WHERE a > 0), ts, INTERVAL '5 minutes') GROUP BY ALL",
	"SELECT count(*) FROM hop(S, ts, INTERVAL 1 MINUTE, INTERVAL 5 MINUTE) JOIN session(revenue, ts, INTERVAL 1 MINUTE, b) USING (window_start)",
	"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
	"SELECT * FROM s POSITIONAL JOIN revenue",
	"SELECT sum(a) FROM s GROUP BY GROUPING SETS ((a), (b), ()), CUBE (c)",
	"SELECT (SELECT max(a) FROM revenue r WHERE r.b = s.b), ALL_ROWS.a FROM s, LATERAL (SELECT s.a + 1) ALL_ROWS(a)",
	"SELECT 1 AS \"select\" -- a comment",
	"PIVOT s ON b IN ('x', 'y') USING sum(a)",
	"UNPIVOT s ON a, c",
	"SELECT 'a' COLLATE NOCASE, 5 // 2, 5 % 2, -a, NOT (a > 1), a IS DISTINCT FROM 1, b ~ 'x', b SIMILAR TO 'y', b ILIKE 'z' FROM s",
	"SELECT if(a > 1, 1, 2), ifnull(a, 1), greatest(a, 1), stddev(a), corr(a, a), bool_and(a > 1), any_value(a), list(a), max_by(a, b) FROM s",
}

func TestGateLetsAnalystsThrough(t *testing.T) {
	t.Parallel()
	p := newParser(t)
	for _, sql := range analysts {
		ast, err := p.ParseSQL(sql)
		if err == nil {
			err = Gate(ast, known)
		}
		if err != nil {
			t.Errorf("%s\n\trefused: %v (at %d)", sql, err, problem.From(err).Position)
			continue
		}
		if _, err := p.SQLFromAST(ast); err != nil {
			t.Errorf("%s\n\tis not written again: %v", sql, err)
		}
	}
}

// hostile are the texts of which none may do anything. FILE stands for a file that exists.
var hostile = []struct {
	name, sql string
	status    int
}{
	// files by table function, replacement scan and scalar function
	{"read_csv", "SELECT * FROM read_csv('FILE')", 422},
	{"read_csv_auto", "FROM read_csv_auto('FILE')", 422},
	{"read_text", "SELECT content FROM read_text('FILE')", 422},
	{"read_blob", "SELECT content FROM read_blob('FILE')", 422},
	{"read_json", "SELECT * FROM read_json('FILE')", 422},
	{"read_parquet", "SELECT * FROM read_parquet('FILE')", 422},
	{"parquet_metadata", "SELECT * FROM parquet_metadata('FILE')", 422},
	{"glob", "SELECT * FROM glob('/etc/*')", 422},
	{"sniff_csv", "SELECT * FROM sniff_csv('FILE')", 422},
	{"a file as a table", "SELECT * FROM 'FILE'", 422},
	{"a file as a quoted table", `SELECT * FROM "FILE"`, 422},
	{"a file behind its CTE's name", `WITH "FILE" AS (SELECT * FROM "FILE") SELECT * FROM "FILE"`, 422},
	{"a file in a subquery", "SELECT (SELECT count(*) FROM 'FILE')", 422},
	{"a file in a join", "SELECT * FROM s JOIN 'FILE' f ON true", 422},
	{"a file in IN", "SELECT * FROM s WHERE a IN (SELECT 1 FROM 'FILE')", 422},
	{"a file in a CTE", "WITH x AS (FROM 'FILE') SELECT 1", 422},
	{"a file in a union", "SELECT 1 UNION ALL SELECT 2 FROM 'FILE'", 422},
	{"a file in ORDER BY", "SELECT a FROM s ORDER BY (SELECT count(*) FROM 'FILE')", 422},
	{"a file in LIMIT", "SELECT a FROM s LIMIT (SELECT count(*) FROM 'FILE')", 422},
	{"a file in REPLACE", "SELECT * REPLACE ((SELECT count(*) FROM 'FILE') AS a) FROM s", 422},
	{"a file in a frame", "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN (SELECT count(*) FROM 'FILE') PRECEDING AND CURRENT ROW) FROM s", 422},
	{"a file in FILTER", "SELECT count(*) FILTER (WHERE (SELECT true FROM 'FILE')) FROM s", 422},
	{"a file in QUALIFY", "SELECT a FROM s QUALIFY (SELECT true FROM 'FILE')", 422},
	{"a file in a lambda", "SELECT list_transform([1], x -> (SELECT count(*) FROM 'FILE'))", 422},
	{"a file in PIVOT", "FROM (PIVOT 'FILE' ON a IN (1) USING count(*))", 422},
	{"a file in a window function", "SELECT * FROM tumble('FILE', ts, INTERVAL 1 MINUTE)", 422},
	{"a file in a window function's subquery", "SELECT * FROM tumble((SELECT * FROM 'FILE'), ts, INTERVAL 1 MINUTE)", 422},
	{"a file in a window function's name", `SELECT * FROM tumble("FILE", ts, INTERVAL 1 MINUTE)`, 422},
	{"the network", "SELECT * FROM 'https://127.0.0.1:1/x.parquet'", 422},
	{"another schema", "SELECT * FROM information_schema.tables", 422},
	{"our own tables", "SELECT * FROM tidemark.relations", 422},
	{"the catalog", "SELECT * FROM pg_catalog.pg_class", 422},
	{"an unknown relation", "SELECT * FROM secret", 422},
	{"sqlite_master", "SELECT * FROM sqlite_master", 422},

	// statements
	{"COPY TO", "COPY s TO 'FILE'", 422},
	{"COPY FROM", "COPY s FROM 'FILE'", 422},
	{"COPY of a query", "COPY (SELECT 1) TO 'FILE' (USE_TMP_FILE false)", 422},
	{"EXPORT", "EXPORT DATABASE 'FILE.d'", 422},
	{"ATTACH a file", "ATTACH 'FILE' AS x", 422},
	{"ATTACH memory", "ATTACH ':memory:' AS x", 422},
	{"USE", "USE memory", 422},
	{"INSTALL", "INSTALL httpfs", 422},
	{"LOAD", "LOAD 'FILE'", 422},
	{"SET", "SET memory_limit = '100GB'", 422},
	{"RESET", "RESET memory_limit", 422},
	{"SET VARIABLE", "SET VARIABLE x = 1", 422},
	{"PRAGMA", "PRAGMA database_list", 422},
	{"PRAGMA profiling", "PRAGMA enable_profiling = 'json'", 422},
	{"CALL", "CALL pragma_version()", 422},
	{"CREATE", "CREATE TABLE x (a INTEGER)", 422},
	{"CREATE TEMP VIEW", "CREATE TEMP VIEW s AS SELECT 1", 422},
	{"CREATE MACRO", "CREATE MACRO f(x) AS x", 422},
	{"DROP", "DROP TABLE s", 422},
	{"ALTER", "ALTER TABLE s ADD COLUMN z INTEGER", 422},
	{"BEGIN", "BEGIN TRANSACTION", 422},
	{"CHECKPOINT", "CHECKPOINT", 422},
	{"VACUUM", "VACUUM", 422},
	{"EXPLAIN", "EXPLAIN ANALYZE SELECT 1", 422},
	{"INSERT", "INSERT INTO s VALUES (1)", 422},
	{"UPDATE", "UPDATE s SET a = 1", 422},
	{"DELETE", "DELETE FROM s", 422},
	{"INSERT in a CTE", "WITH x AS (INSERT INTO s VALUES (1) RETURNING a) SELECT * FROM x", 422},
	{"INSERT behind a comment", "/* SELECT 1 */ INSERT INTO s VALUES (1)", 422},
	{"two statements", "SELECT 1; SELECT 2", 422},
	{"DROP behind a SELECT", "SELECT 1; DROP TABLE s", 422},
	{"DROP behind a parenthesis", "SELECT 1) ; DROP TABLE s; SELECT (1", 422},
	{"PREPARE", "PREPARE p AS SELECT 1", 422},
	{"DESCRIBE", "DESCRIBE s", 422},
	{"SHOW", "SHOW TABLES", 422},
	{"SUMMARIZE", "SUMMARIZE s", 422},
	{"SHOW in FROM", "SELECT * FROM (SHOW ALL TABLES)", 422},
	{"nothing", "", 422},
	{"a comment alone", "-- nothing", 422},
	{"a NUL", "SELECT 1\x00; DROP TABLE s", 422},
	{"no UTF-8", "SELECT '\xff'", 422},

	// functions that run text, read settings or the catalog, change state, or need zones
	{"query", "SELECT * FROM query('SELECT 1')", 422},
	{"query_table", "SELECT * FROM query_table('s')", 422},
	{"query_table of a file", "SELECT * FROM query_table(['FILE'])", 422},
	{"json_execute_serialized_sql", "SELECT * FROM json_execute_serialized_sql('{}')", 422},
	{"json_serialize_plan", "SELECT json_serialize_plan('SELECT * FROM ''FILE''')", 422},
	{"json_serialize_sql", "SELECT json_serialize_sql('SELECT 1')", 422},
	{"duckdb_databases", "SELECT * FROM duckdb_databases()", 422},
	{"duckdb_settings", "SELECT * FROM duckdb_settings()", 422},
	{"duckdb_secrets", "SELECT * FROM duckdb_secrets()", 422},
	{"pragma_database_size", "SELECT * FROM pragma_database_size()", 422},
	{"pragma_table_info", "SELECT * FROM pragma_table_info('s')", 422},
	{"current_setting", "SELECT current_setting('temp_directory')", 422},
	{"getenv", "SELECT getenv('HOME')", 422},
	{"getvariable", "SELECT getvariable('x')", 422},
	{"setseed", "SELECT setseed(0.5)", 422},
	{"nextval", "SELECT nextval('x')", 422},
	{"a schema before a function", "SELECT pg_catalog.lower('X')", 422},
	{"timezone", "SELECT ts AT TIME ZONE 'Europe/Berlin' FROM s", 422},
	{"an unknown function", "SELECT no_such_function(1)", 422},
	{"checkpoint as a function", "SELECT * FROM checkpoint()", 422},
	{"seq_scan", "SELECT * FROM seq_scan('s')", 422},
	{"test_all_types", "SELECT * FROM test_all_types()", 422},
	{"repeat as a table", "SELECT * FROM repeat('x', 1000000000)", 422},
	{"a long range", "SELECT * FROM range(1000001)", 422},
	{"a computed range", "SELECT * FROM range(1000 * 1000 * 1000)", 422},
	{"a range backwards", "SELECT * FROM range(0, -2000000, -1)", 422},
	{"a range of times", "SELECT * FROM range(TIMESTAMP '2000-01-01', TIMESTAMP '2024-01-01', INTERVAL 1 SECOND)", 422},
	{"a window function outside FROM", "SELECT tumble(s, ts, INTERVAL 1 MINUTE) FROM s", 422},

	// size
	{"a long text", "SELECT '" + strings.Repeat("x", MaxSQLBytes) + "'", 413},
	{"many nodes", "SELECT 1 IN (" + strings.Repeat("1, ", 2500) + "1)", 422},
	{"deep calls", "SELECT " + strings.Repeat("upper(", 250) + "'x'" + strings.Repeat(")", 250), 422},
	{"very deep calls", "SELECT " + strings.Repeat("upper(", 900) + "'x'" + strings.Repeat(")", 900), 422},
	{"deep parentheses", "SELECT " + strings.Repeat("(", 15000) + "1" + strings.Repeat(")", 15000), 422},
	{"deep subqueries", strings.Repeat("SELECT (", 250) + "SELECT 1" + strings.Repeat(")", 250), 422},
}

// TestHostileSQLDoesNothing: each text is refused as a problem with a hint, and afterwards all
// files in and beside the data directory are what they were. Then each is run without the gate.
func TestHostileSQLDoesNothing(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	file := filepath.Join(outside, "secret.csv")
	if err := os.WriteFile(file, []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h := start(t, dir)
	fields := []row.Field{{Name: "a", Type: row.Scalar(row.BigInt)}, {Name: "ts", Type: row.Scalar(row.Timestamp)}}
	if err := h.Apply(context.Background(), row.SinkBatch{
		Relation: "s", ID: 1, Version: 1, Fields: fields, To: []byte("1"),
		Rows: rowsOf(t, fields, []string{"1", `"2024-01-01T00:00:00Z"`}),
	}); err != nil {
		t.Fatal(err)
	}
	before := hashes(t, dir, outside)
	for _, c := range hostile {
		sql := strings.ReplaceAll(c.sql, "FILE", file)
		err := admit(h.Parser, sql)
		if err == nil {
			t.Errorf("%s: %s passes the gate", c.name, sql)
			continue
		}
		p := problem.From(err)
		if p.Status != c.status || p.Hint == "" || p.Detail == "" {
			t.Errorf("%s: status %d, detail %q, hint %q, want status %d", c.name, p.Status, p.Detail, p.Hint, c.status)
		}
		if p.Position >= len(sql) && sql != "" {
			t.Errorf("%s: position %d of %d", c.name, p.Position, len(sql))
		}
	}
	if after := hashes(t, dir, outside); after != before {
		t.Errorf("files changed:\nbefore\n%s\nafter\n%s", before, after)
	}
	// The second fence: what would slip through the gate meets a DuckDB that is shut in.
	before = hashes(t, outside)
	for _, c := range hostile {
		sql := strings.ReplaceAll(c.sql, "FILE", file)
		if len(sql) > 2000 || strings.Contains(sql, "repeat(") {
			continue
		}
		var out bytes.Buffer
		_, err := h.Query(context.Background(), Query{SQL: sql, MaxRows: 5}, &out)
		if err == nil && (strings.Contains(out.String(), `"b":2`) || strings.Contains(out.String(), "a,b")) {
			t.Errorf("%s: DuckDB read the file: %s", c.name, out.String())
		}
	}
	if after := hashes(t, outside); after != before {
		t.Errorf("files outside changed:\nbefore\n%s\nafter\n%s", before, after)
	}
	if got := ask(t, h, "SELECT * FROM s"); got != `{"a":1,"ts":"2024-01-01T00:00:00Z"}` {
		t.Errorf("the relation is now %s", got)
	}
}

// hashes lists the files of some folders with their hashes.
func hashes(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%x %s\n", sha256.Sum256(content), path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// ask runs a query and returns its rows, one JSON object a line.
func ask(t *testing.T, h *History, sql string, params ...any) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := h.Query(context.Background(), Query{SQL: sql, Params: params, Format: FormatNDJSON}, &out); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func TestGateNamesThePlace(t *testing.T) {
	t.Parallel()
	p := newParser(t)
	for _, c := range []struct{ sql, at string }{
		{"SELECT a FROM secret", "secret"},
		{"SELECT a, current_setting('x') FROM s", "current_setting"},
		{"SELECT a FROM s JOIN other.t ON true", "other.t"},
		{"SELECT ts AT TIME ZONE 'UTC' FROM s", "AT TIME ZONE"},
		{"SELECT 1; SELECT 2", "2"},
		{"SELECT * FROM tumble(secret, ts, INTERVAL 1 MINUTE)", "secret"},
		{"SELECT a FRM s", "s"},
	} {
		err := admit(p, c.sql)
		if got, want := problem.From(err).Position, strings.LastIndex(c.sql, c.at); got != want {
			t.Errorf("%s: position %d, want %d (%v)", c.sql, got, want, err)
		}
	}
}

func TestParseErrorIsAProblem(t *testing.T) {
	t.Parallel()
	p := newParser(t)
	_, err := p.ParseSQL("SELECT a FRM s WHERE")
	var pe *ParseError
	if !errors.As(err, &pe) || pe.Position < 0 || pe.Message == "" {
		t.Fatalf("got %#v", err)
	}
	if pr := problem.From(err); pr.Status != 422 || pr.Position != pe.Position {
		t.Errorf("the problem is %+v", pr)
	}
}

func TestFunctionListKnowsDuckDB(t *testing.T) {
	t.Parallel()
	p := newParser(t)
	rows, err := p.db.Query("SELECT DISTINCT lower(function_name) FROM duckdb_functions()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	there := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		there[name] = true
	}
	// What DuckDB's parser makes of its own syntax is in no catalog.
	syntax := " -> coalesce if ifnull grouping grouping_id cume_dist dense_rank first_value last_value lag lead nth_value ntile percent_rank rank row_number unnest row struct_concat current_time current_timestamp approx_top_k "
	for _, name := range Functions() {
		if !there[strings.ToLower(name)] && !strings.Contains(syntax, " "+name+" ") {
			t.Errorf("functions.txt lists %s, which DuckDB does not have", name)
		}
	}
}
