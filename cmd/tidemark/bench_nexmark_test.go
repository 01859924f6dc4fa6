package main

import (
	"path/filepath"
	"testing"

	"tidemark/cmd/tidemark/nexmark"
)

// nexmarkRows are how many rows each query gives over the first 50,000 events of seed 1.
var nexmarkRows = map[string]int64{
	"q0":  46000,
	"q1":  46000,
	"q2":  186,
	"q5b": 7,
	"q7b": 1,
	"q11": 933,
	"q12": 933,
	"q14": 13019,
	"q15": 1,
	"q16": 9035,
	"q17": 2995,
	"q18": 13566,
	"q19": 21725,
	"q21": 43793,
	"q22": 46000,
}

// Each query of the workload gives the rows that DuckDB gives for the same SQL over the same events
// (T1), in order and out of order, and always as many.
func TestNexmarkViewsGiveWhatDuckDBGives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		disorder int64
	}{{"in order", 1}, {"out of order", 10_000}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			house, err := openAuctions(t.Context(), filepath.Join(t.TempDir(), "data"), true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(house.close)
			if _, err := house.fill(t.Context(), nexmark.New(nexmark.Options{Seed: 1, Disorder: c.disorder}), 50_000); err != nil {
				t.Fatal(err)
			}
			if err := house.read(); err != nil {
				t.Fatal(err)
			}
			for _, q := range nexmark.Queries {
				view, err := house.rows(q, 7_000)
				if err != nil {
					t.Fatalf("%s: %v", q.Name, err)
				}
				batch, err := house.batchRows(t.Context(), q)
				if err != nil {
					t.Fatalf("%s in DuckDB: %v", q.Name, err)
				}
				if view != batch {
					t.Errorf("%s: the view has %d rows, DuckDB %d, or they differ", q.Name, view.count, batch.count)
				}
				if want := nexmarkRows[q.Name]; c.disorder == 1 && view.count != want {
					t.Errorf("%s: %d rows, want %d", q.Name, view.count, want)
				}
			}
		})
	}
}
