package agg

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/storage/row"
)

func ints(xs ...int64) *row.Vector { return &row.Vector{Type: row.Scalar(row.BigInt), I64: xs} }

func doubles(xs ...float64) *row.Vector { return &row.Vector{Type: row.Scalar(row.Double), F64: xs} }

func mustNew(t testing.TB, s Spec) *Func {
	t.Helper()
	f, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func result(t *testing.T, f *Func, c Column, slot int32) string {
	t.Helper()
	out := row.NewVector(f.Type, 1)
	if err := c.Result(slot, out); err != nil {
		return "!" + err.Error()
	}
	return row.TextOf(out, 0)
}

func TestSumOfDoublesForgetsWhatWasTakenAway(t *testing.T) { // A2
	t.Parallel()
	f := mustNew(t, Spec{Name: "sum", Args: []row.Type{row.Scalar(row.Double)}, Retract: true})
	c := f.NewColumn()
	c.Grow(1)
	x := doubles(0.1, 1e300, math.Inf(1), math.NaN(), 0.2)
	c.Add(make([]int32, 5), nil, []*row.Vector{x}, nil, nil)
	if got := result(t, f, c, 0); got != "nan" {
		t.Errorf("with NaN and infinity: %s", got)
	}
	c.Add(make([]int32, 3), []int32{1, 2, 3}, []*row.Vector{x}, []int64{0, -1, -1, -1, 0}, nil)
	if got := result(t, f, c, 0); got != "0.30000000000000004" {
		t.Errorf("after 1e300, infinity and NaN went: %s", got)
	}
}

func TestSumPast128BitsFailsUntilItFitsAgain(t *testing.T) {
	t.Parallel()
	f := mustNew(t, Spec{Name: "sum", Args: []row.Type{row.Scalar(row.HugeInt)}, Retract: true})
	c := f.NewColumn()
	c.Grow(1)
	x := &row.Vector{Type: row.Scalar(row.HugeInt), I128: []row.Int128{row.MaxInt128, row.FromInt64(5)}}
	c.Add([]int32{0, 0}, nil, []*row.Vector{x}, nil, nil)
	var failed *Failure
	if err := c.Result(0, row.NewVector(f.Type, 1)); !errors.As(err, &failed) || failed.Code != "out_of_range" {
		t.Errorf("got %v, want out_of_range", err)
	}
	c.Add([]int32{0}, []int32{1}, []*row.Vector{x}, []int64{0, -1}, nil)
	if got := result(t, f, c, 0); got != row.MaxInt128.String() {
		t.Errorf("got %s", got)
	}
}

func TestMaxComesBackWhenTheGreatestGoes(t *testing.T) { // A2
	t.Parallel()
	f := mustNew(t, Spec{Name: "max", Args: []row.Type{row.Scalar(row.BigInt)}, Retract: true})
	c := f.NewColumn()
	c.Grow(1)
	r := rand.New(rand.NewPCG(1, 1))
	x := ints(3, 9, 9, -4, 0, 12, 7)
	counts := make([]int, len(x.I64))
	for step := range 2000 {
		i := r.IntN(len(x.I64))
		w := int64(1)
		if counts[i] > 0 && r.IntN(2) == 0 {
			w = -1
		}
		counts[i] += int(w)
		weights := make([]int64, len(x.I64))
		weights[i] = w
		c.Add([]int32{0}, []int32{int32(i)}, []*row.Vector{x}, weights, nil)
		want := "NULL"
		best := int64(math.MinInt64)
		for k, n := range counts {
			if n > 0 && x.I64[k] >= best {
				best = x.I64[k]
				want = fmt.Sprint(best)
			}
		}
		if got := result(t, f, c, 0); got != want {
			t.Fatalf("step %d: max of %v is %s, want %s", step, counts, got, want)
		}
	}
}

func TestFirstFollowsTheLogAndNotTheCalls(t *testing.T) { // A4, N3
	t.Parallel()
	for _, retract := range []bool{false, true} {
		for name, want := range map[string]string{"first": "30", "last": "20", "list": "[30, 10, 20]"} {
			f := mustNew(t, Spec{Name: name, Args: []row.Type{row.Scalar(row.BigInt)}, Retract: retract})
			c := f.NewColumn()
			c.Grow(2)
			rs := []Rank{{Sequence: 2, Offset: 0}, {Sequence: 2, Offset: 1}, {Sequence: 1, Offset: 9}}
			c.Add([]int32{0, 0}, []int32{1, 0}, []*row.Vector{ints(10, 20, 30)}, nil, rs)
			c.Add([]int32{1}, []int32{2}, []*row.Vector{ints(10, 20, 30)}, nil, rs)
			c.Merge(0, 1)
			if got := result(t, f, c, 0); got != want {
				t.Errorf("%s (retract %v): got %s, want %s", name, retract, got, want)
			}
		}
	}
}

func TestEmptyGroupIsNullExceptForCounts(t *testing.T) { // A1, N1
	t.Parallel()
	half := doubles(0.5)
	for _, name := range Names() {
		args := []row.Type{row.Scalar(row.BigInt)}
		switch name {
		case "bool_and", "bool_or", "count_if":
			args[0] = row.Scalar(row.Boolean)
		case "arg_min", "arg_max", "min_by", "max_by", "argmin", "argmax", "arg_min_null", "arg_max_null",
			"corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept":
			args = append(args, args[0])
		case "quantile", "quantile_cont", "quantile_disc", "percentile_cont", "percentile_disc", "approx_quantile":
			args = append(args, half.Type)
		}
		want := "NULL"
		switch name {
		case "count", "count_star", "approx_count_distinct":
			want = "0"
		case "entropy":
			want = "0.0"
		}
		f := mustNew(t, Spec{Name: name, Args: args, Const: []*row.Vector{nil, half}})
		c := f.NewColumn()
		c.Grow(1)
		if got := result(t, f, c, 0); got != want {
			t.Errorf("%s of nothing is %s, want %s", name, got, want)
		}
	}
}

func TestSketchesAreWithinTheirError(t *testing.T) {
	t.Parallel()
	const n = 50_000
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i + 1)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { x[i], x[j] = x[j], x[i] })
	for _, q := range []float64{0.01, 0.5, 0.99} {
		for _, retract := range []bool{false, true} {
			f := mustNew(t, Spec{Name: "approx_quantile", Args: []row.Type{row.Scalar(row.Double), row.Scalar(row.Double)}, Const: []*row.Vector{nil, doubles(q)}, Retract: retract})
			c := f.NewColumn()
			c.Grow(2)
			c.Add(make([]int32, n/2), nil, []*row.Vector{doubles(x[:n/2]...), nil}, nil, nil)
			second := make([]int32, n-n/2)
			for i := range second {
				second[i] = 1
			}
			c.Add(second, nil, []*row.Vector{doubles(x[n/2:]...), nil}, nil, nil)
			c.Merge(0, 1)
			out := row.NewVector(f.Type, 1)
			if err := c.Result(0, out); err != nil {
				t.Fatal(err)
			}
			if want := q * n; math.Abs(out.F64[0]-want) > 0.01*want {
				t.Errorf("approx_quantile at %v is %v, want about %v", q, out.F64[0], want)
			}
		}
	}
	f := mustNew(t, Spec{Name: "approx_count_distinct", Args: []row.Type{row.Scalar(row.Double)}})
	c := f.NewColumn()
	c.Grow(1)
	c.Add(make([]int32, n), nil, []*row.Vector{doubles(x...)}, nil, nil)
	out := row.NewVector(f.Type, 1)
	if err := c.Result(0, out); err != nil || math.Abs(float64(out.I64[0])-n) > 0.03*n {
		t.Errorf("approx_count_distinct of %d is %v, %v", n, out.I64, err)
	}
}

func TestUnknownAndMismatch(t *testing.T) {
	t.Parallel()
	var u *Unknown
	if _, err := New(Spec{Name: "summ"}); !errors.As(err, &u) {
		t.Errorf("got %v", err)
	}
	var m *Mismatch
	for _, s := range []Spec{
		{Name: "sum", Args: []row.Type{row.Scalar(row.Varchar)}},
		{Name: "avg", Args: []row.Type{row.Scalar(row.Timestamp)}},
		{Name: "arg_max", Args: []row.Type{row.Scalar(row.BigInt)}},
		{Name: "quantile_cont", Args: []row.Type{row.Scalar(row.BigInt)}},
		{Name: "quantile_cont", Args: []row.Type{row.Scalar(row.BigInt), row.Scalar(row.Double)}},
		{Name: "quantile_cont", Args: []row.Type{row.Scalar(row.Varchar), row.Scalar(row.Double)}, Const: []*row.Vector{nil, doubles(0.5)}},
		{Name: "string_agg", Args: []row.Type{row.Scalar(row.Varchar), row.Scalar(row.Varchar)}},
		{Name: "bool_and", Args: []row.Type{row.Scalar(row.BigInt)}},
		{Name: "count", Distinct: true},
	} {
		if _, err := New(s); !errors.As(err, &m) {
			t.Errorf("%s of %v: got %v", s.Name, s.Args, err)
		}
	}
	if !slices.IsSorted(Names()) || !Known("SUM") || Known("summ") {
		t.Error("names are not in order or not known")
	}
}

func BenchmarkAdd(b *testing.B) {
	const n = 4096
	r := rand.New(rand.NewPCG(1, 1))
	slots := make([]int32, n)
	x, f := make([]int64, n), make([]float64, n)
	rs := make([]Rank, n)
	for i := range n {
		slots[i], x[i], f[i], rs[i].Offset = r.Int32N(100), r.Int64N(100_000), r.Float64(), int64(i)
	}
	for _, name := range []string{"count", "sum", "avg", "max", "count distinct", "first", "arg_max", "variance", "sum double", "max retract"} {
		b.Run(name, func(b *testing.B) {
			s := Spec{Name: name, Args: []row.Type{row.Scalar(row.BigInt)}}
			v := ints(x...)
			args := []*row.Vector{v}
			switch name {
			case "count distinct":
				s.Name, s.Distinct = "count", true
			case "arg_max":
				s.Args, args = append(s.Args, v.Type), append(args, v)
			case "variance":
				args = []*row.Vector{doubles(f...)}
			case "sum double":
				s.Name, s.Args, args = "sum", []row.Type{row.Scalar(row.Double)}, []*row.Vector{doubles(f...)}
			case "max retract":
				s.Name, s.Retract = "max", true
			}
			c := mustNew(b, s).NewColumn()
			c.Grow(100)
			for b.Loop() {
				c.Add(slots, nil, args, nil, rs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
		})
	}
}
