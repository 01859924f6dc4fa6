package history

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
)

func TestParquetFileHoldsTheRows(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	query := `SELECT range AS n, (n % 200 - 100)::TINYINT AS a, (n % 60000 - 30000)::SMALLINT AS b, n::INTEGER AS c, n::HUGEINT - 5 AS d, n::FLOAT AS e, n::DOUBLE AS f, n * -1.5 AS g,
		'x' || n AS h, n > 1 AS i, DATE '2024-01-01' AS j, TIMESTAMP '2024-01-01 00:00:00.000001' AS k, 'b'::BLOB AS l, [n] AS m,
		CASE WHEN n % 2 = 0 THEN n END AS o, INTERVAL 1 DAY AS p, (n + 0.25)::DECIMAL(30,2) AS q FROM range(250000)`
	got, s := answer(t, h, Query{SQL: query, Format: FormatParquet, MaxRows: 1_000_000})
	if s.Rows != 250_000 {
		t.Errorf("%+v", s)
	}
	r, err := file.NewParquetReader(strings.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	if r.NumRows() != 250_000 || r.NumRowGroups() < 2 {
		t.Errorf("%d rows in %d groups", r.NumRows(), r.NumRowGroups())
	}
	_ = r.Close()
	// DuckDB itself reads the file, and finds what it was asked for.
	at := filepath.Join(t.TempDir(), "answer.parquet")
	if err := os.WriteFile(at, []byte(got), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var same, all int
	var types string
	compared := fmt.Sprintf(`SELECT count(*), (SELECT count(*) FROM (SELECT n, a, b, c, d, e, f, g, h, i, j, l, o, q FROM read_parquet('%[1]s')
		EXCEPT SELECT n, a, b, c, d, e, f, g, h, i, j, l, o, q FROM (%[2]s))) FROM read_parquet('%[1]s') WHERE k = TIMESTAMPTZ '2024-01-01 00:00:00.000001+00' AND m = '[' || n || ']' AND p = '1 day'`, at, query)
	if err := db.QueryRow(compared).Scan(&all, &same); err != nil || all != 250_000 || same != 0 {
		t.Errorf("%d rows, %d differ: %v", all, same, err)
	}
	if err := db.QueryRow(fmt.Sprintf(`SELECT string_agg(column_type, ' ') FROM (DESCRIBE SELECT * FROM read_parquet('%s'))`, at)).Scan(&types); err != nil ||
		types != "BIGINT TINYINT SMALLINT INTEGER DECIMAL(38,0) FLOAT DOUBLE DECIMAL(21,1) VARCHAR BOOLEAN DATE TIMESTAMP WITH TIME ZONE BLOB VARCHAR BIGINT VARCHAR DECIMAL(30,2)" {
		t.Errorf("%s %v", types, err)
	}

	// Without rows there is a file all the same, and what can't be told is no file at all.
	got, _ = answer(t, h, Query{SQL: "SELECT 1 AS n WHERE false", Format: FormatParquet})
	if r, err = file.NewParquetReader(strings.NewReader(got)); err != nil || r.NumRows() != 0 || r.MetaData().Schema.Column(0).Name() != "n" {
		t.Errorf("%v", err)
	}
	var out bytes.Buffer
	if _, err := h.Query(bg, Query{SQL: "SELECT '170141183460469231731687303715884105727'::HUGEINT AS n", Format: FormatParquet}, &out); err == nil || out.Len() > 0 {
		t.Errorf("39 digits: %v, %d bytes", err, out.Len())
	}
}
