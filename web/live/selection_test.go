package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/storage/row"
	"tidemark/windows"
)

var testFields = []row.Field{{Name: "name", Type: row.Scalar(row.Varchar)}, {Name: "amount", Type: row.Scalar(row.BigInt)}}

type modelRow struct {
	name   string
	amount int64 // −1: null
	status windows.Status
	rev    int32
}

func (r modelRow) append(b *row.Batch) {
	b.Cols[0].AppendString(r.name)
	if r.amount < 0 {
		b.Cols[1].AppendNull()
	} else {
		b.Cols[1].AppendInt64(r.amount)
	}
	b.Len++
}

type aboveSelector struct{ least int64 }

func (a aboveSelector) Where([]row.Field, string) (func(*row.Batch) ([]int32, error), error) {
	return func(b *row.Batch) ([]int32, error) {
		var out []int32
		for i := range b.Len {
			if !b.Cols[1].IsNull(i) && b.Cols[1].I64[i] >= a.least {
				out = append(out, int32(i))
			}
		}
		return out, nil
	}, nil
}

func (aboveSelector) Order(_ []row.Field, text string) ([]OrderKey, error) {
	return []OrderKey{{Column: 1, Desc: strings.Contains(text, "DESC"), NullsLast: strings.Contains(text, "LAST")}}, nil
}

// TestSnapshotAndChangesAreTheSelection is I2: however epochs are folded into frames, what a
// client has after each frame is what the selection takes of the view then.
func TestSnapshotAndChangesAreTheSelection(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Int64Range(0, 4).Draw(t, "least")
		o := op{Limit: rapid.IntRange(0, 3).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "where") {
			o.Where = "amount >= least"
		}
		o.Order = rapid.SampledFrom([]string{"", "amount", "amount DESC", "amount LAST", "amount DESC LAST"}).Draw(t, "order")
		h := NewHub(Options{Selector: aboveSelector{least}})

		model := map[string]modelRow{}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			set(t, model, nil)
		}
		sel, err := newSelection(h, o, testFields)
		if err != nil {
			t.Fatal(err)
		}
		snap := &Snapshot{Rows: row.NewBatch(testFields, 0)}
		for _, key := range slices.Sorted(maps.Keys(model)) {
			model[key].append(snap.Rows)
			snap.Keys, snap.Status = append(snap.Keys, []byte(key)), append(snap.Status, model[key].status)
		}
		rows, err := sel.fill(snap)
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]int{} // rows that the client has, by their text
		for _, r := range rows {
			has[string(r.json)]++
		}
		check := func() {
			t.Helper()
			want := map[string]int{}
			for _, text := range asked(model, o, least) {
				want[text]++
			}
			if !maps.Equal(has, want) {
				t.Fatalf("the client has %v, the selection is %v", has, want)
			}
		}
		check()
		for range rapid.IntRange(1, 8).Draw(t, "frames") {
			var sum folder
			for range rapid.IntRange(1, 4).Draw(t, "epochs") {
				c := &windows.Changes{Rows: row.NewBatch(testFields, 0)}
				for range rapid.IntRange(0, 4).Draw(t, "changes") {
					set(t, model, c)
				}
				out, err := sel.take(&sharedEpoch{Epoch: &Epoch{Changes: c}})
				if err != nil {
					t.Fatal(err)
				}
				sum.add(out)
			}
			for _, c := range sel.settle(sum.changes()) {
				has[string(c.row)] += int(c.op)
				if has[string(c.row)] < 0 {
					t.Fatalf("%s is withdrawn and was not there", c.row)
				}
				if has[string(c.row)] == 0 {
					delete(has, string(c.row))
				}
			}
			check()
		}
	})
}

// set puts, changes or removes one row of the model and notes the changes.
func set(t *rapid.T, model map[string]modelRow, c *windows.Changes) {
	key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "key")
	note := func(op int8, r modelRow) {
		if c == nil {
			return
		}
		r.append(c.Rows)
		c.Ops, c.Keys = append(c.Ops, op), append(c.Keys, []byte(key))
		c.Status, c.Revision = append(c.Status, r.status), append(c.Revision, r.rev)
	}
	old, was := model[key]
	if was {
		gone := old
		gone.status, gone.rev = windows.None, 0
		if old.rev > 0 {
			gone.status, gone.rev = windows.Corrected, old.rev+1
		}
		note(-1, gone)
		delete(model, key)
	}
	if was && rapid.Bool().Draw(t, "remove") {
		return
	}
	r := modelRow{name: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), amount: rapid.Int64Range(-1, 6).Draw(t, "amount"), status: windows.Provisional}
	if old.rev > 0 || rapid.Bool().Draw(t, "final") {
		r.status, r.rev = windows.Final, old.rev+1
		if r.rev > 1 {
			r.status = windows.Corrected
		}
	}
	note(+1, r)
	model[key] = r
}

// asked is what the selection takes of the model, worked out in another way.
func asked(model map[string]modelRow, o op, least int64) []string {
	keys := slices.Sorted(maps.Keys(model))
	if o.Where != "" {
		keys = slices.DeleteFunc(keys, func(k string) bool { return model[k].amount < least })
	}
	if o.Order != "" {
		slices.SortStableFunc(keys, func(a, b string) int {
			x, y := model[a].amount, model[b].amount
			switch {
			case x < 0 || y < 0:
				first := -1
				if strings.Contains(o.Order, "LAST") {
					first = 1
				}
				if (x < 0) == (y < 0) {
					return 0
				}
				if x < 0 {
					return first
				}
				return -first
			case strings.Contains(o.Order, "DESC"):
				return cmp.Compare(y, x)
			}
			return cmp.Compare(x, y)
		})
	}
	if o.Limit > 0 {
		keys = keys[:min(o.Limit, len(keys))]
	}
	var out []string
	for _, k := range keys {
		amount := "null"
		if model[k].amount >= 0 {
			amount = fmt.Sprint(model[k].amount)
		}
		out = append(out, fmt.Sprintf(`{"name":%q,"amount":%s}`, model[k].name, amount))
	}
	return out
}
