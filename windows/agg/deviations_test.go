package agg

import (
	"math"
	"testing"

	"tidemark/storage/row"
)

// deviation is a column of stddev_pop over rows that may be taken away again.
func deviation(t *testing.T, name string, retract bool) (*Func, Column) {
	t.Helper()
	double := row.Scalar(row.Double)
	args := []row.Type{double}
	if name == "covar_pop" {
		args = append(args, double)
	}
	f, err := New(Spec{Name: name, Args: args, Retract: retract, Const: make([]*row.Vector, len(args))})
	if err != nil {
		t.Fatal(err)
	}
	c := f.NewColumn()
	c.Grow(2)
	return f, c
}

func put(c Column, slot int32, weight int64, values ...float64) {
	v := row.NewVector(row.Scalar(row.Double), len(values))
	var slots []int32
	var weights []int64
	for _, x := range values {
		v.AppendFloat64(x)
		slots, weights = append(slots, slot), append(weights, weight)
	}
	c.Add(slots, nil, []*row.Vector{v, v}, weights, nil)
}

func TestWhatIsTakenAwayLeavesNoErrorInADeviation(t *testing.T) { // A2, A3
	t.Parallel()
	for _, name := range []string{"var_pop", "covar_pop"} {
		f, c := deviation(t, name, true)
		put(c, 0, 1, 1, 2, 1e200, 3, math.NaN(), 1e-200)
		put(c, 1, 1, math.Inf(1), -1e17)
		c.Merge(0, 1)
		put(c, 0, -1, 1e200, math.Inf(1), math.NaN(), -1e17, 1e-200)
		rest, err := c.Decode(1, c.Encode(0, nil))
		if err != nil || len(rest) > 0 {
			t.Fatal(rest, err)
		}
		for slot := range int32(2) {
			if got := result(t, f, c, slot); got != "0.6666666666666666" {
				t.Errorf("%s in slot %d is %s", name, slot, got)
			}
		}
	}
}

// States of before sums were exact, and of before NaN was counted apart, go on.
func TestOlderStatesOfDeviationsAreRead(t *testing.T) { // A5
	t.Parallel()
	for _, name := range []string{"var_pop", "covar_pop"} {
		_, old := deviation(t, name, false)
		put(old, 0, 1, 1, 2, 3)
		second := old.Encode(0, nil)
		first := append([]byte{1}, second[1:]...)
		if name == "var_pop" {
			first = first[:len(first)-1] // odd came last
		} else {
			first = append(first[:2:2], first[3:]...) // and behind n
		}
		for _, state := range [][]byte{first, second} {
			f, c := deviation(t, name, true)
			if rest, err := c.Decode(0, state); err != nil || len(rest) > 0 {
				t.Fatal(rest, err)
			}
			put(c, 0, -1, 3)
			if got := result(t, f, c, 0); got != "0.25" {
				t.Errorf("%s is %s", name, got)
			}
		}
	}
}
