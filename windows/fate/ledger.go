package fate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/judge"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// Entry is one change of a row.
type Entry struct {
	// Op is "+" where the row appears and "-" where it is withdrawn.
	Op       string          `json:"op"`
	Status   string          `json:"status,omitempty"`
	Revision int32           `json:"revision"`
	Position string          `json:"position"`
	Sequence stream.Sequence `json:"sequence"`
	// AsOf is that of the epoch that made the change.
	AsOf runtime.AsOf    `json:"as_of"`
	Row  json.RawMessage `json:"row"`
	// Evidence are the events behind a change that was made at their very batch: partition and
	// offset of each, by stream. Withdrawals and changes that a watermark made have none.
	Evidence map[string][][2]int64 `json:"evidence,omitempty"`
}

// History is a run of the changes of one row, oldest first.
type History struct {
	Items []Entry `json:"items"`
	// Next is the position to go on from; nil at the end.
	Next *string `json:"next"`
}

// RowHistory gives the changes of the rows that have these values in these columns. key is a JSON
// object; with all columns of the row key it is one row. after is the position of the last change
// of the page before, or empty.
func (f *Fates) RowHistory(ctx context.Context, view, key, after string, limit int) (*History, error) {
	fields, err := f.Views.Fields(view)
	if err != nil {
		return nil, err
	}
	wanted, err := parseKey(fields, key)
	if err != nil {
		return nil, err
	}
	from := stream.Position{}
	if after != "" {
		if from, err = stream.ParsePosition(after); err != nil {
			return nil, problem.New(400, "bad_cursor", "this is no cursor of this list").WithHint(`take "next" of the page before, or leave cursor out`)
		}
	}
	reader, err := f.Views.Changes(view, from)
	var gap *runtime.Gap
	if errors.As(err, &gap) {
		return nil, problem.New(410, "position_gone", "the change stream of %s begins behind this position now", view).WithHint("begin without a cursor")
	}
	if err != nil {
		return nil, err
	}
	proof, err := f.Views.Proof(view)
	if err != nil {
		return nil, err
	}
	plan, err := proof.Compile()
	if err != nil {
		return nil, err
	}
	w := &witness{f: f, proof: proof, plan: plan, wanted: wanted}
	out := &History{Items: []Entry{}}
	for {
		if err := ctx.Err(); err != nil {
			return nil, problem.New(504, "deadline", "the change stream of %s is too long to be read in time", view).WithHint("ask again from \"next\" on, with a smaller limit")
		}
		e, ok, err := reader.Next()
		if errors.As(err, &gap) {
			return nil, problem.New(410, "position_gone", "the change stream of %s was begun anew meanwhile", view).WithHint("ask again")
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			return out, nil
		}
		for i := range e.Changes.Len() {
			if !wanted.matches(e.Changes.Rows, i) {
				continue
			}
			entry, err := w.entry(e, i)
			if err != nil {
				return nil, err
			}
			out.Items = append(out.Items, entry)
		}
		if len(out.Items) >= limit { // an epoch is never split
			next := e.To.String()
			out.Next = &next
			return out, nil
		}
	}
}

// rowKey are values of some columns.
type rowKey struct {
	fields []row.Field
	cols   []int
	values []*row.Vector
}

func parseKey(fields []row.Field, text string) (*rowKey, error) {
	k := &rowKey{fields: fields}
	bad := func(format string, args ...any) error {
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.Name
		}
		return problem.New(400, "bad_key", format, args...).
			WithHint(`give key columns with their values as JSON, such as ?key={%q:…}; the columns are %s`, names[0], strings.Join(names, ", "))
	}
	if !json.Valid([]byte(text)) {
		return nil, bad("the key is no JSON object")
	}
	err := row.EachMember(bytes.TrimSpace([]byte(text)), func(name string, value []byte) error {
		c := row.FieldIndex(fields, name)
		if c < 0 {
			return bad("the view has no column %s", row.QuoteName(name))
		}
		v := row.NewVector(fields[c].Type, 1)
		if bytes.Equal(value, []byte("null")) {
			v.AppendNull()
		} else if err := row.ParseJSONValue(v, value); err != nil {
			return bad("%s: %v", fields[c].Name, err)
		}
		k.cols, k.values = append(k.cols, c), append(k.values, v)
		return nil
	})
	var p *problem.Problem
	switch {
	case errors.As(err, &p):
		return nil, p
	case err != nil || len(k.cols) == 0 && len(fields) > 0 && strings.TrimSpace(text) != "{}":
		return nil, bad("the key is no JSON object")
	}
	return k, nil
}

func (k *rowKey) matches(b *row.Batch, i int) bool {
	for n, c := range k.cols {
		if !same(b.Cols[c], i, k.values[n], 0) {
			return false
		}
	}
	return true
}

func same(a *row.Vector, i int, b *row.Vector, j int) bool {
	return bytes.Equal(row.AppendKey(nil, a, i), row.AppendKey(nil, b, j))
}

// witness finds the events behind changes.
type witness struct {
	f      *Fates
	proof  *runtime.Proof
	plan   *query.Plan
	wanted *rowKey
}

func (w *witness) entry(e *runtime.Epoch, i int) (Entry, error) {
	c := e.Changes
	out := Entry{
		Op: "+", Status: c.Status[i].String(), Revision: c.Revision[i], Position: e.To.String(), Sequence: c.Sequences[i], AsOf: e.AsOf,
		Row: row.AppendJSONRow(nil, e.Fields, c.Rows, i),
	}
	if c.Ops[i] < 0 {
		out.Op = "-"
	}
	if c.Ops[i] < 0 || c.Status[i] != windows.Corrected {
		return out, nil
	}
	ids := make([]stream.ID, len(w.proof.Sources))
	for n, s := range w.proof.Sources {
		ids[n] = s.ID
	}
	reader := w.f.Log.Read(ids, c.Sequences[i]-1)
	defer reader.Close()
	entry, ok, err := reader.Next()
	var trimmed *stream.Trimmed
	if errors.As(err, &trimmed) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("read the events behind a change: %w", err)
	}
	if !ok || entry.Batch == nil || entry.Sequence() != c.Sequences[i] {
		return out, nil
	}
	b := entry.Batch
	for _, s := range w.proof.Sources {
		if s.ID != b.Stream {
			continue
		}
		for n := range b.Len {
			if w.made(b, n, c.Rows, i) {
				if out.Evidence == nil {
					out.Evidence = map[string][][2]int64{}
				}
				out.Evidence[s.Name] = append(out.Evidence[s.Name], [2]int64{int64(b.Partition), int64(b.Offset(n))})
			}
		}
	}
	return out, nil
}

// made reports whether an event belongs to a row: to one of its groups, with the columns of the row
// that follow from the group's keys.
func (w *witness) made(b *stream.Batch, n int, rows *row.Batch, i int) bool {
	for _, g := range judge.Groups(w.plan, b, n) {
		for k := range g.Rows.Len {
			if w.belongs(g, k, rows, i) {
				return true
			}
		}
	}
	return false
}

func (w *witness) belongs(g judge.Group, k int, rows *row.Batch, i int) bool {
	for visible, root := range w.plan.Visible {
		key := keyBehind(w.plan.Root, root, g.Aggregate)
		if key < 0 {
			continue
		}
		in, out := g.Rows.Cols[g.Aggregate.Keys[key]], rows.Cols[visible]
		own := g.Aggregate.Keys[key]
		switch {
		case own != g.Start && own != g.End:
			if !same(in, k, out, i) {
				return false
			}
		case g.Kind == windows.Session && own == g.Start && out.I64[i] > in.I64[k],
			g.Kind == windows.Session && own == g.End && out.I64[i] < in.I64[k],
			g.Kind == windows.Slide && (out.I64[i] < in.I64[k] || out.I64[i]-in.I64[k] > sizeOf(g)): // the event's own window is its earliest
			return false
		}
	}
	return true
}

// keyBehind is the number of the aggregate's key that a column of a node is; −1: it is none.
func keyBehind(n query.Node, col int, of *query.Aggregate) int {
	for {
		switch in := n.(type) {
		case *query.Aggregate:
			if in == of && col < len(in.Keys) {
				return col
			}
			if in == of || col >= len(in.Keys) {
				return -1
			}
			n, col = in.In, in.Keys[col]
		case *query.Project:
			if col = in.Exprs[col].ColumnNumber(); col < 0 {
				return -1
			}
			n = in.In
		case *query.Union: // its branches have the same columns
			for _, branch := range in.Ins {
				if key := keyBehind(branch, col, of); key >= 0 {
					return key
				}
			}
			return -1
		default:
			inputs := n.Inputs()
			if len(inputs) != 1 || col >= len(inputs[0].Fields()) {
				return -1
			}
			n = inputs[0]
		}
	}
}
