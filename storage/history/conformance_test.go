package history_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"tidemark/storage/history"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/runtime/sinktest"
)

func TestHistoryIsASink(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		t.Parallel()
		h, err := history.Start(context.Background(), history.Options{Dir: t.TempDir(), MemoryLimit: 256 << 20, Threads: 1, ParserMemory: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		return sinktest.Harness{
			Sink: h,
			Kill: func() {
				if s := h.Status(); s.Running {
					_ = syscall.Kill(s.PID, syscall.SIGKILL)
				}
			},
			Rows: func(relation string, fields []row.Field) (*row.Batch, error) {
				var names []string
				for _, f := range fields {
					names = append(names, row.QuoteName(f.Name))
				}
				_, rows, _, err := h.Rows(context.Background(), history.Query{SQL: "SELECT " + strings.Join(names, ", ") + " FROM " + relation})
				if p := problem.From(err); err != nil && p.Status == 422 && strings.Contains(p.Detail, "does not exist") {
					return row.NewBatch(fields, 0), nil
				}
				return rows, err
			},
		}
	})
}

// TestKeptTreesAreDuckDBs: the planner's tests read trees that were kept; DuckDB still gives the
// same ones. A difference after an upgrade of DuckDB is to be read, then kept.
func TestKeptTreesAreDuckDBs(t *testing.T) {
	t.Parallel()
	kept := map[string]json.RawMessage{}
	text, err := os.ReadFile("../../windows/query/testdata/asts.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	p, err := history.NewParser(256 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for sql, want := range kept {
		got, err := p.ParseSQL(sql)
		if err != nil {
			if !strings.Contains(string(want), `"error":true`) {
				t.Errorf("%s: %v", sql, err)
			}
			continue
		}
		if string(got) != string(want) {
			t.Errorf("%s\ngot  %s\nkept %s", sql, got, want)
		}
	}
	if len(kept) < 10 {
		t.Errorf("only %d trees are kept", len(kept))
	}
}
