package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"tidemark/storage/row"
	"tidemark/windows/runtime/viewtest"
	"tidemark/windows/verify"
)

// TestVerifyIsEqualForEveryScenarioWhileEventsFlow asks verify itself of the view of every scenario,
// over the real runtime and the real log: while the second half of the events is appended, and when
// all are taken in.
func TestVerifyIsEqualForEveryScenarioWhileEventsFlow(t *testing.T) { // T1, R4
	t.Parallel()
	told := 0
	for _, file := range files(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "view") && !strings.Contains(string(text), "\nview") {
			continue // SQL that is refused
		}
		told++
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := newScript(t, file)
			s.run(string(text))
			s.verified()
		})
	}
	if told < 150 {
		t.Errorf("only %d scenarios have a view", told)
	}
}

// verified appends what the scenario sends to a real log and verifies the view on the way.
func (s *script) verified() {
	s.t.Helper()
	w := viewtest.New(s.t, func(w *viewtest.World) { w.Options.Parse = duck.ParseSQL })
	ids := s.declareIn(w)
	v := &verify.Verifier{Views: w.Views, Log: w.Log, Parse: duck.ParseSQL, FromAST: duck.SQLFromAST, Scratch: scratch}
	ask := func(when string) {
		res, err := v.Verify(s.t.Context(), "v", func(int64, int64) {})
		if err != nil {
			s.t.Errorf("%s: %v", when, err)
			return
		}
		failing := when == "while events flow" && strings.Contains(res.Reason, "can't be computed") // a group that computes again later (E1)
		if res.Result != verify.Equal && !s.untold(res) && !failing {
			text, _ := json.Marshal(res)
			s.t.Errorf("%s, %s\n%.3000s", when, s.sql, text)
		}
	}
	flowing := make(chan struct{})
	receipt := ""
	for i, e := range s.log {
		if i == len(s.log)/2 {
			go func() {
				defer close(flowing)
				ask("while events flow")
			}()
		}
		if r := s.appendTo(w, ids, e); r != "" {
			receipt = r
		}
	}
	<-flowing
	if receipt != "" {
		w.Until("v", receipt)
	}
	ask("at the end")
	v.Dir, v.PartBytes = s.t.TempDir(), 64
	ask("in small parts")
	if left, err := os.ReadDir(v.Dir); err != nil || len(left) > 0 {
		s.t.Errorf("%v are left: %v", left, err)
	}
}

// untold reports whether a view is of those that verify can't tell (R4): two executions of a sketch
// may estimate differently.
func (s *script) untold(res *verify.Result) bool {
	return res.Result == verify.CannotTell && strings.Contains(res.Reason, "is a sketch")
}

// What differs is counted to the last row, and listed up to a limit, in parts as well as at once.
func TestVerifyListsDifferencesUpToALimit(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t, func(w *viewtest.World) { w.Options.Parse = duck.ParseSQL })
	w.Stream("s", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","k":"BIGINT","x":"DOUBLE"}}`)
	w.View("v", `{"sql":"SELECT k, sum(x) AS total, count(*) AS n FROM s GROUP BY ALL"}`)
	const keys = verify.MaxDifferences + 2000
	receipt := ""
	for from := 0; from < keys; from += 1000 {
		var events []string
		for k := from; k < from+1000; k++ {
			events = append(events, fmt.Sprintf(`{"ts":"12:00:00","k":%d,"x":%d.1}`, k, k))
		}
		receipt = w.Post("s", 0, events...)
	}
	w.Until("v", receipt)
	for _, part := range []int{0, 1000} {
		// verified changes the batch answer before it is compared.
		verified := func(change func(rows *row.Batch) *row.Batch) *verify.Result {
			t.Helper()
			v := &verify.Verifier{Views: w.Views, Log: w.Log, Parse: duck.ParseSQL, FromAST: duck.SQLFromAST, Dir: t.TempDir(), PartBytes: part}
			v.Scratch = func(ctx context.Context, tables []verify.Table, load func(func(int, *row.Batch) error) (string, error), each func([]row.Field, *row.Batch) error) error {
				return scratch(ctx, tables, load, func(fields []row.Field, rows *row.Batch) error { return each(fields, change(rows)) })
			}
			res, err := v.Verify(t.Context(), "v", func(int64, int64) {})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		nothing := verified(func(rows *row.Batch) *row.Batch {
			return row.NewBatch([]row.Field{{Type: rows.Cols[0].Type}, {Type: rows.Cols[1].Type}, {Type: rows.Cols[2].Type}}, 0)
		})
		if nothing.Result != verify.Different || nothing.DifferenceCount != keys || len(nothing.Differences) != verify.MaxDifferences || nothing.Rows != keys {
			t.Errorf("%s: %d of %d differ, %d are listed", nothing.Result, nothing.DifferenceCount, nothing.Rows, len(nothing.Differences))
		}
		twice := verified(func(rows *row.Batch) *row.Batch { rows.AppendAll(rows); return rows })
		if twice.DifferenceCount != keys || len(twice.Differences) != verify.MaxDifferences || twice.Differences[0].Live != nil {
			t.Errorf("rows that are there twice: %d differ, %d are listed", twice.DifferenceCount, len(twice.Differences))
		}
		few := verified(func(rows *row.Batch) *row.Batch {
			for i, k := range rows.Cols[0].I64 {
				switch k {
				case 77:
					rows.Cols[1].F64[i] += 1e-13 // another order of addition
				case 500, 11_111:
					rows.Cols[1].F64[i] += 1e-3
				}
			}
			return rows
		})
		text, err := json.Marshal(few.Differences)
		if want := `[{"live":{"k":500,"total":500.1,"n":1},"batch":{"k":500,"total":500.101,"n":1}},{"live":{"k":11111,"total":11111.1,"n":1},"batch":{"k":11111,"total":11111.101,"n":1}}]`; err != nil || string(text) != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
		if few.DifferenceCount != 2 || len(few.Sample) == 0 || string(few.Sample[len(few.Sample)-1].Live) != fmt.Sprintf(`{"k":%d,"total":%d.1,"n":1}`, keys-1, keys-1) {
			t.Errorf("%d differ, the sample is %s", few.DifferenceCount, few.Sample)
		}
	}
}
