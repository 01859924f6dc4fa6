package history

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
)

func TestArrowStreamHoldsTheRows(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	sql := `SELECT range AS n, n::TINYINT AS a, n::SMALLINT AS b, n::INTEGER AS c, n::HUGEINT AS d, n::FLOAT AS e, n::DOUBLE AS f, n * 1.5 AS g,
		'x' || n AS h, n > 1 AS i, DATE '2024-01-01' AS j, TIMESTAMP '2024-01-01 00:00:00.000001' AS k, 'b'::BLOB AS l, [n] AS m, NULL AS o, INTERVAL 1 DAY AS p
		FROM range(3)`
	got, s := answer(t, h, Query{SQL: sql, Format: FormatArrow})
	if s.Rows != 3 {
		t.Errorf("%+v", s)
	}
	r, err := ipc.NewReader(strings.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var rows []string
	for r.Next() {
		b, err := r.RecordBatch().MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, string(b))
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	line := strings.Split(strings.Join(rows, ""), "\n")[2]
	want := `{"a":2,"b":2,"c":2,"d":"2","e":2,"f":2,"g":"3","h":"x2","i":true,"j":"2024-01-01","k":"2024-01-01T00:00:00.000001Z","l":"Yg==","m":"[2]","n":2,"o":null,"p":"1 day"}`
	if !strings.Contains(line, want) {
		t.Errorf("got  %s\nwant %s", line, want)
	}

	// Without rows there is a schema all the same.
	got, _ = answer(t, h, Query{SQL: "SELECT 1 AS n WHERE false", Format: FormatArrow})
	if r, err = ipc.NewReader(strings.NewReader(got)); err != nil || r.Schema().Field(0).Name != "n" {
		t.Errorf("%v", err)
	}
	var out bytes.Buffer
	if _, err := h.Query(bg, Query{SQL: "SELECT '170141183460469231731687303715884105727'::HUGEINT AS n", Format: FormatArrow}, &out); err == nil || out.Len() > 0 {
		t.Errorf("39 digits: %v, %d bytes", err, out.Len())
	}
}
