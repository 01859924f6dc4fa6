package history

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

func scratchRows(t *testing.T, h *History, s Scratch) ([]string, error) {
	t.Helper()
	var got []string
	_, err := h.Scratch(bg, s, func(fields []row.Field, rows *row.Batch) error {
		for i := range rows.Len {
			got = append(got, string(row.AppendJSONRow(nil, fields, rows, i)))
		}
		return nil
	})
	return got, err
}

func TestScratchTablesHideRelationsAndEndWithTheirRequest(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "n BIGINT", "", "1", []string{"1"}))
	fields := fieldsOf(t, "n BIGINT, doc JSON")
	s := Scratch{
		Tables: []ScratchTable{{"s", fields}, {"left_out", fieldsOf(t, "n BIGINT")}},
		Load: func(put func(int, *row.Batch) error) (string, error) {
			for i := range 3 {
				if err := put(0, rowsOf(t, fields, []string{fmt.Sprint(10 * i), `{"a":1.50}`})); err != nil {
					return "", err
				}
			}
			err := put(1, rowsOf(t, fieldsOf(t, "n BIGINT"), []string{"10"}))
			return "SELECT n, doc FROM s WHERE NOT EXISTS (SELECT 1 FROM left_out AS x WHERE x.n = s.n) ORDER BY n", err
		},
	}
	for range 2 {
		got, err := scratchRows(t, h, s)
		if err != nil || fmt.Sprint(got) != `[{"n":0,"doc":{"a":1.50}} {"n":20,"doc":{"a":1.50}}]` {
			t.Errorf("got %v, %v", got, err)
		}
	}
	_, rows, _, err := h.Rows(bg, Query{SQL: "SELECT n FROM s"})
	if err != nil || rows.Len != 1 || rows.Cols[0].I64[0] != 1 {
		t.Errorf("the relation itself: %v, %v", rows, err)
	}
}

func TestScratchThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	fields := fieldsOf(t, "n BIGINT")
	load := func(sql string, err error) Scratch {
		return Scratch{Tables: []ScratchTable{{"s", fields}}, Load: func(put func(int, *row.Batch) error) (string, error) {
			if err := put(0, rowsOf(t, fields, []string{"1"})); err != nil {
				return "", err
			}
			return sql, err
		}}
	}
	var p *problem.Problem
	if _, err := scratchRows(t, h, load("SELECT nothing FROM s", nil)); !errors.As(err, &p) || p.Status != 422 {
		t.Errorf("bad SQL: %v", err)
	}
	broken := errors.New("the log ends here")
	if _, err := scratchRows(t, h, load("", broken)); !errors.Is(err, broken) {
		t.Errorf("a load that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if _, err := h.Scratch(ctx, load("SELECT n FROM s", nil), nil); err == nil {
		t.Error("cancelled, and no error")
	}
	if got, err := scratchRows(t, h, load("SELECT n FROM s", nil)); err != nil || len(got) != 1 {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

// The driver writes NULLs of long lists where the elements were before DuckDB moved them.
func TestNullsInListsSurviveMoreElementsThanAVectorHas(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	fields := fieldsOf(t, "n BIGINT, l BIGINT[], s STRUCT(d DOUBLE, j JSON)[], m DECIMAL(12,2)[][], at TIMESTAMP[], t STRUCT(h HUGEINT, b BOOLEAN[])")
	want := []string{"", `[1,null,-3]`, `[{"d":-0.1,"j":{"a": 1.50}},{"d":null,"j":null},null]`, `[[1.05,null],null,[]]`, `["2024-02-29T12:00:00.5Z",null]`, `{"h":170141183460469231731687303715884105727,"b":[true,null,false]}`}
	var rows [][]string
	for i := range 5000 {
		rows = append(rows, append([]string{fmt.Sprint(i)}, want[1:]...))
	}
	all := rowsOf(t, fields, rows...)
	got, err := scratchRows(t, h, Scratch{Tables: []ScratchTable{{"s", fields}}, Load: func(put func(int, *row.Batch) error) (string, error) {
		return "SELECT * FROM s ORDER BY n", put(0, all)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != all.Len {
		t.Fatalf("%d rows, want %d", len(got), all.Len)
	}
	for i, g := range got {
		if w := string(row.AppendJSONRow(nil, fields, all, i)); g != w {
			t.Fatalf("row %d\n got %s\nwant %s", i, g, w)
		}
	}
}
