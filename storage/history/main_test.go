package history

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"tidemark/storage/row"
)

func TestMain(m *testing.M) {
	ChildMain()
	goleak.VerifyTestMain(m)
}

// testOptions keep tests small.
func testOptions(dir string) Options {
	return Options{Dir: dir, MemoryLimit: 256 << 20, Threads: 1, ParserMemory: 256 << 20}
}

// start opens history in a directory of the test's own.
func start(t *testing.T, dir string) *History {
	t.Helper()
	h, err := Start(context.Background(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil && err.Error() != "history is closed twice" {
			t.Error(err)
		}
	})
	return h
}

// rowsOf makes a batch from JSON values, one text a cell.
func rowsOf(t *testing.T, fields []row.Field, rows ...[]string) *row.Batch {
	t.Helper()
	b := row.NewBatch(fields, len(rows))
	for _, r := range rows {
		for c, text := range r {
			if text == "null" {
				b.Cols[c].AppendNull()
				continue
			}
			if err := row.ParseJSONValue(b.Cols[c], []byte(text)); err != nil {
				t.Fatalf("%s: %v", fields[c].Name, err)
			}
		}
		b.Len++
	}
	return b
}
