package agg

import (
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/storage/row"
)

// Calls that share a set have each the values that they took, on every road that a state takes.
func TestCallsThatShareASetCountEachItsOwn(t *testing.T) {
	t.Parallel()
	for _, kind := range []row.Kind{row.BigInt, row.Varchar} {
		t.Run(row.Scalar(kind).String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { sharing(t, row.Scalar(kind)) })
		})
	}
}

func sharing(t *rapid.T, of row.Type) {
	f, err := New(Spec{Name: "count", Args: []row.Type{of}, Distinct: true})
	if err != nil {
		t.Fatal(err)
	}
	c := f.NewShared()
	c.Grow(3)
	d := DifferentialOf(c)
	want := map[int64]uint8{}
	check := func(slot int32, what string) {
		for call := range MostSharers {
			n := int64(0)
			for mask := range maps.Values(want) {
				n += int64(mask >> call & 1)
			}
			out := row.NewVector(f.Type, 1)
			if c.ResultOf(slot, call, out); out.I64[0] != n {
				t.Fatalf("%s: call %d has %d values, want %d of %v", what, call, out.I64[0], n, want)
			}
		}
	}
	var saved []byte
	noting := false
	for range rapid.IntRange(1, 6).Draw(t, "batches") {
		v := row.NewVector(f.Args[0], 0)
		n := rapid.IntRange(0, 20).Draw(t, "rows")
		slots, masks := make([]int32, n), make([]uint8, n)
		for i := range n {
			masks[i] = rapid.Byte().Draw(t, "mask")
			masks[i] &= rapid.Byte().Draw(t, "and")
			if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
				v.AppendNull()
				continue
			}
			x := rapid.Int64Range(-5, 20).Draw(t, "value")
			if of.Kind == row.Varchar {
				v.AppendString(strings.Repeat("x", int(x+5)))
			} else {
				v.AppendInt64(x)
			}
			if masks[i] != 0 {
				want[x] |= masks[i]
			}
		}
		c.AddShared(slots, nil, []*row.Vector{v}, nil, masks)
		check(0, "added")
		switch {
		case noting:
			saved, _ = d.EncodeNoted(0, saved)
		case rapid.Bool().Draw(t, "note"):
			saved = d.Encode(0, nil)
			d.Note(0, true)
			noting = true
		}
	}
	c.Merge(1, 0)
	c.Merge(1, 0)
	check(1, "merged")
	if !noting {
		saved = c.Encode(0, nil)
	}
	for len(saved) > 0 {
		if saved, err = d.DecodeMore(2, saved); err != nil {
			t.Fatal(err)
		}
	}
	check(2, "decoded")
	if d.Entries(2) != len(want) {
		t.Fatalf("%d entries, want %d", d.Entries(2), len(want))
	}
	if c.Reset(0); c.Bytes() < 0 {
		t.Fatalf("%d bytes after a reset", c.Bytes())
	}
}
