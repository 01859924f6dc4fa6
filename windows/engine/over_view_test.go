package engine

import (
	"testing"

	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/agg"
	"tidemark/windows/expr"
	"tidemark/windows/query"
)

const perMinute = "SELECT window_start AS minute, count(*) AS n, sum(v) AS total FROM tumble(clicks, ts, INTERVAL '1 minute') GROUP BY ALL"

// perHour puts the sums of hours over a plan whose columns are minute, n and total.
func perHour(t *testing.T) func(*query.Plan) {
	return func(p *query.Plan) {
		assign := query.NewAssign(p.Root, windows.Tumble, p.Visible[0], windows.Interval{Micros: 3600 * windows.MicrosPerSecond}, windows.Interval{})
		assign.Number = 1
		cols := []int{len(p.Root.Fields()), p.Visible[1], p.Visible[2]}
		var exprs []*expr.Expr
		var names []string
		for _, c := range cols {
			f := assign.Fields()[c]
			exprs, names = append(exprs, expr.Column(c, f)), append(names, f.Name)
		}
		var calls []query.AggCall
		for i := 1; i <= 2; i++ {
			spec := agg.Spec{Name: "sum", Args: []row.Type{exprs[i].Type}, Retract: true}
			f, err := agg.New(spec)
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, query.AggCall{Func: f, Spec: spec, Args: []int{i}, Filter: -1, Text: names[i]})
		}
		p.Root = query.NewAggregate(query.NewProject(assign, exprs, names), []int{0}, calls, true)
		p.Columns, p.Visible, p.Key = p.Root.Fields(), []int{0, 1, 2}, []int{0}
	}
}

// An hour is final when the minutes that could come into it are; the event that is late where it
// enters is late once, and corrects the hour. V1, V2, V3
func TestCorrectionFlowsThroughWindowOverWindow(t *testing.T) {
	t.Parallel()
	s := &script{t: t, wrap: perHour(t)}
	want := "stream clicks v BIGINT\nview lateness 1h: " + perMinute + `
send clicks 10:00:10 1; 10:00:50 2; 10:30 4; 10:59:30 8; 11:00:30 16
expect
  + 10:00 4 15 final
  + 11:00 1 16 provisional
send clicks 10:15:20 32
expect
  - 10:00 4 15 corrected, revision 2
  + 10:00 5 47 corrected, revision 2
send clicks 11:30 64
advance clicks 12:30
expect
  - 11:00 1 16
  + 11:00 2 80 final
counts
  events 7, corrected 1, partial 0, dropped 0, errors 0, filtered 0
`
	s.run(want)
	if got := s.out.String(); got != want {
		t.Error(diff(want, got))
	}
}

// A quiet function refuses without a word: the view beneath tells of its late events.
func TestQuietFunctionCountsNothing(t *testing.T) { // V1
	t.Parallel()
	s := &script{t: t, wrap: perHour(t)}
	s.functions = map[int]Function{0: {Quiet: true}}
	want := "stream clicks v BIGINT\nview lateness 1h: " + perMinute + `
send clicks 10:00:10 1; 10:02 2; 10:00:50 4
expect
  + 10:00 2 3 provisional
late
counts
  events 3, corrected 0, partial 0, dropped 0, errors 0, filtered 0
`
	s.run(want)
	if got := s.out.String(); got != want {
		t.Error(diff(want, got))
	}
}

// The number of an operator is a byte of the keys under which it keeps its state: two with one number
// would take each other's.
func TestMoreOperatorsThanNumbersAreRefused(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		s := &script{t: t}
		s.reset()
		s.declare("s k VARCHAR, v BIGINT")
		s.sql = "SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k"
		plan, err := query.Compile(parseKept, s, s.sql, query.Options{})
		s.must(err)
		s.cfg.Streams = []windows.TrackedStream{{Stream: 1}}
		root := plan.Root
		have := mostOperators - 1
		if more {
			have++
		}
		for range have {
			root = query.NewOver(root, []query.OverCall{{Name: "row_number", Type: row.Scalar(row.BigInt), Filter: -1, Default: -1}})
		}
		plan.Root = root
		if _, err := New(plan, s.cfg); (err != nil) != more {
			t.Errorf("%d operators: %v", have+1, err)
		}
	}
}
