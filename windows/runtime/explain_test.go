package runtime_test

import (
	"testing"

	"tidemark/windows/runtime/viewtest"
)

func TestExplainCountsWhatEachOperatorKeeps(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:11", "FR", 5), sale("12:00:12", "FR", 5)))
	x, err := w.Views.Explain(t.Context(), "revenue")
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]int64{}
	for _, s := range x.State {
		if s.Bytes <= 0 {
			t.Errorf("%+v", s)
		}
		if s.Operator != nil {
			kept[s.Kind] += s.Rows
		}
	}
	if kept["groups of an aggregate"] != 2 || x.Rows.Rows != 2 || x.Rows.Bytes == 0 || x.Changes.Rows == 0 || x.Plan == "" {
		t.Errorf("%+v", x)
	}
}
