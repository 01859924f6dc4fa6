package query

import "testing"

// The names of columns without an alias are DuckDB's, so that a view and the same text on history
// have the same columns. The names here are what DuckDB 1.1.3 answers.
func TestColumnNamesAreDuckDBs(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"count(*)":                         "count_star()",
		"SUM(Amount)":                      "sum(Amount)",
		"sum(amount) FILTER (WHERE b > 1)": "sum(amount) FILTER (WHERE (b > 1))",
		"count(DISTINCT a)":                "count(DISTINCT a)",
		"string_agg(c, ',' ORDER BY a DESC, b NULLS FIRST)": "string_agg(c, ',' ORDER BY a DESC, b NULLS FIRST)",
		"max(a+b*2)":                             "max((a + (b * 2)))",
		"-a":                                     "-(a)",
		"a::VARCHAR":                             "CAST(a AS VARCHAR)",
		"TRY_CAST(a AS INTEGER)":                 "TRY_CAST(a AS INTEGER)",
		"CASE WHEN a>1 THEN 'x' ELSE 'y''z' END": "CASE  WHEN ((a > 1)) THEN ('x') ELSE 'y''z' END",
		"CASE a WHEN 1 THEN 2 END":               "CASE  WHEN ((a = 1)) THEN (2) ELSE NULL END",
		"if(bo,a,b)":                             "CASE  WHEN (bo) THEN (a) ELSE b END",
		"a BETWEEN 1 AND 2":                      "(a BETWEEN 1 AND 2)",
		"a NOT BETWEEN 1 AND 2":                  "(NOT (a BETWEEN 1 AND 2))",
		"a IN (1,2)":                             "(a IN (1, 2))",
		"a NOT IN (1)":                           "(a NOT IN (1))",
		"a IS NULL":                              "(a IS NULL)",
		"a IS NOT NULL":                          "(a IS NOT NULL)",
		"NOT bo":                                 "(NOT bo)",
		"c LIKE 'x%'":                            "(c ~~ 'x%')",
		"coalesce(a,b)":                          "COALESCE(a, b)",
		"nullif(a,b)":                            `"nullif"(a, b)`,
		"a=b AND b=1 OR bo":                      "(((a = b) AND (b = 1)) OR bo)",
		"a IS DISTINCT FROM b":                   "(a IS DISTINCT FROM b)",
		"l[1]":                                   "l[1]",
		"[1,2]":                                  "main.list_value(1, 2)",
		"{'a':1}":                                "main.struct_pack(a := 1)",
		"1.5":                                    "1.5",
		"1e3":                                    "1000.0",
		"TRUE":                                   "CAST('t' AS BOOLEAN)",
		"NULL":                                   "NULL",
		"'x'":                                    "'x'",
		"INTERVAL 5 MINUTE":                      "to_minutes(CAST(trunc(CAST(5 AS DOUBLE)) AS BIGINT))",
		"INTERVAL '1 day'":                       "CAST('1 day' AS INTERVAL)",
		"TIMESTAMP '2024-01-01'":                 "CAST('2024-01-01' AS TIMESTAMP)",
		"a IS TRUE":                              "(CAST(a AS BOOLEAN) IS NOT DISTINCT FROM true)",
		"extract(hour FROM ts)":                  "main.date_part('hour', ts)",
		`"A" || c`:                               "(A || c)",
		`lower("X y")`:                           `lower("X y")`,
		`max("select")`:                          `max("select")`,
		"c LIKE 'a' ESCAPE 'b'":                  "main.like_escape(c, 'a', 'b')",
		"(d).e":                                  "(d).e",
		"a // 2":                                 "(a // 2)",
		"- (a)":                                  "-(a)",
		"12345678901234567890":                   "12345678901234567890",
		"date_trunc('hour', ts)":                 "date_trunc('hour', ts)",
		"first(a)":                               `"first"(a)`,
		"a::DECIMAL(5,2)":                        "CAST(a AS DECIMAL(5,2))",
	} {
		tree, err := parserKept.parse("SELECT " + sql)
		if err != nil {
			t.Fatal(err)
		}
		q := decodeStatement(decodeTree(tree)["statements"].([]any)[0]).(*selectQuery)
		e := q.items[0]
		if got := textOf(e); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
