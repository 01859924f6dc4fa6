package runtime_test

import (
	"fmt"
	"strings"
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

func TestExplainSaysWhatEachLineKeepsSharesAndNeverForgets(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	for _, name := range []string{"tumbles", "sessions", "slides", "hops", "best", "above"} {
		w.View(name, manyViews[name])
	}
	w.View("countries", "SELECT country, count(*) AS n FROM checkouts GROUP BY ALL")
	last := w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:11", "FR", 5), sale("12:00:12", "FR", 5))
	for name, want := range map[string]struct {
		lines     []string // those with state: what they begin with, and their entries
		unbounded string
		shared    []string
	}{
		"tumbles":   {lines: []string{"aggregate sum(amount), count_star() by window_start, country (windowed) 2"}, shared: []string{"events"}},
		"sessions":  {lines: []string{"aggregate count_star() by window_start, window_end, country (windowed) 2", "session 0 by _time gap 20 seconds per country 2"}, shared: []string{"events"}},
		"slides":    {lines: []string{`aggregate max(amount) by window_end, country (windowed) 3`, "slide 0 by _time size 1 minute per country 3"}, shared: []string{"events"}},
		"hops":      {lines: []string{"aggregate count_star() by window_start (windowed) 4"}, shared: []string{"panes", "events"}},
		"best":      {lines: []string{"first 2 per window_start by amount DESC, the log (windowed) 1"}, shared: []string{"events"}},
		"above":     {lines: []string{"aggregate max(revenue) by window_start (windowed) 1", "aggregate sum(amount), count_star() by window_start, country (windowed) 2"}, shared: []string{"events", "view"}},
		"countries": {lines: []string{"aggregate count_star() by country 2"}, unbounded: "its groups are kept for ever: no key is a window's bound", shared: []string{"events"}},
	} {
		w.Until(name, last)
		x, err := w.Views.Explain(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		var lines, shared []string
		entries, sum := int64(0), int64(0)
		unbounded := ""
		for i, o := range x.Operators {
			if o.Operator != nil {
				lines = append(lines, fmt.Sprintf("%s %d", o.Text, o.Rows))
				entries += o.Rows
			}
			unbounded += o.Unbounded
			if i == 0 && o.Depth != 0 || o.Operator == nil && o.Rows > 0 {
				t.Errorf("%s: %+v", name, o)
			}
		}
		for _, z := range x.State {
			if z.Operator != nil {
				sum += z.Rows
			}
		}
		for _, s := range x.Shared {
			shared = append(shared, s.Kind)
		}
		if entries != sum {
			t.Errorf("%s: the lines keep %d entries, the state has %d", name, entries, sum)
		}
		diff(t, name+"\n"+strings.Join(lines, "\n")+"\n"+unbounded+"\n"+strings.Join(shared, " "), name+"\n"+strings.Join(want.lines, "\n")+"\n"+want.unbounded+"\n"+strings.Join(want.shared, " "))
	}
}
