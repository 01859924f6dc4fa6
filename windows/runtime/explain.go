package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tidemark/storage/kv"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

// Explanation is how a view runs, and what it keeps.
type Explanation struct {
	Plan     string          `json:"plan"`
	Warnings []query.Warning `json:"warnings"`
	// Operators are the plan line by line, with what each of them keeps.
	Operators []OperatorSize `json:"operators"`
	// Shared is what this view has in common with others, or within itself.
	Shared []Shared `json:"shared"`
	// State is what is kept for each operator; as it is stored, at Position.
	State    []StateSize `json:"state"`
	Position string      `json:"position"`
	// Memory is where that is, as of the last epoch: in memory, or in the store alone.
	Memory engine.Memory `json:"memory"`
	// Rows are the view's rows, Late and Errors what it left out, with their bytes.
	Rows   StateSize `json:"rows"`
	Late   StateSize `json:"late_events"`
	Errors StateSize `json:"row_errors"`
	// Changes is the change stream: its epochs.
	Changes StateSize `json:"change_stream"`
}

// OperatorSize is one operator of the plan.
type OperatorSize struct {
	// Text is the operator's line of the plan, Depth how far it stands from the rows that come out.
	Text  string `json:"text"`
	Depth int    `json:"depth"`
	// Operator is the number of an operator with state, Rows and Bytes what it keeps in all.
	Operator *int  `json:"operator,omitempty"`
	Rows     int64 `json:"rows"`
	Bytes    int64 `json:"bytes"`
	// Unbounded says why its state grows for ever; absent: it does not.
	Unbounded string `json:"unbounded,omitempty"`
	// SharedAs numbers an operator that several read; Again: it was written before.
	SharedAs int  `json:"shared_as,omitempty"`
	Again    bool `json:"again,omitempty"`
}

// Shared is something that is computed, or kept, once.
type Shared struct {
	// Kind is view (computed again within this one), events (of Stream: read and decoded once while they are among the newest, for all of Views),
	// panes (of a hop: one event is counted once, not once a window) or operator (read by several).
	Kind   string `json:"kind"`
	Stream string `json:"stream,omitempty"`
	// Views are the other views and alerts that share it.
	Views []string `json:"views,omitempty"`
	// Text says it in words.
	Text string `json:"text"`
}

// StateSize is how much is kept of one kind.
type StateSize struct {
	Kind string `json:"kind,omitempty"`
	// Operator is the operator's number, from the rows that come out down to the streams; absent where
	// there is one for the whole plan.
	Operator *int  `json:"operator,omitempty"`
	Rows     int64 `json:"rows"`
	Bytes    int64 `json:"bytes"`
}

// Explain counts what a view keeps. It reads through all of it: ctx bounds that.
func (s *Service) Explain(ctx context.Context, name string) (*Explanation, error) {
	v, snap, h, p, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	info, err := v.info()
	if err != nil {
		return nil, err
	}
	out := &Explanation{Plan: info.Plan, Warnings: info.Warnings, Position: v.outside(p.Position).String(), State: []StateSize{}, Memory: v.memory()}
	type part struct {
		kind     string
		operator int
	}
	sizes := map[part]*StateSize{}
	prefix := engineKey(v.id, h.Version)
	err = count(ctx, snap, prefix, func(key []byte, bytes int64) {
		kind, operator := engine.Describe(key[len(prefix):])
		at := part{kind, operator}
		if sizes[at] == nil {
			sizes[at] = &StateSize{Kind: kind}
			if operator >= 0 {
				sizes[at].Operator = &at.operator
			}
		}
		sizes[at].Rows++
		sizes[at].Bytes += bytes
	})
	for _, one := range sizes {
		out.State = append(out.State, *one)
	}
	if perr := s.outline(v, h, out); perr != nil {
		return nil, perr
	}
	number := func(z StateSize) int {
		if z.Operator == nil {
			return -1
		}
		return *z.Operator
	}
	slices.SortFunc(out.State, func(a, b StateSize) int {
		return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a.Kind, b.Kind))
	})
	for _, of := range []struct {
		prefix []byte
		size   *StateSize
	}{
		{rowsKey(v.id, h.Version), &out.Rows},
		{versionKey(kv.Late, v.id, h.Version), &out.Late},
		{errorsKey(v.id, h.Version), &out.Errors},
		{spaceKey(kv.Changes, v.id), &out.Changes},
	} {
		err = errors.Join(err, count(ctx, snap, of.prefix, func(_ []byte, bytes int64) {
			of.size.Rows++
			of.size.Bytes += bytes
		}))
	}
	return out, err
}

// count visits the keys under a prefix with the bytes that key and value take.
func count(ctx context.Context, snap *kv.Snapshot, prefix []byte, f func(key []byte, bytes int64)) error {
	it := snap.Iter(prefix, kv.PrefixEnd(prefix))
	var err error
	n := 0
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		f(it.Key(), int64(len(it.Key())+len(it.Value())))
		if n++; n%1024 == 0 {
			err = ctx.Err()
		}
	}
	return errors.Join(err, it.Close())
}

// outline adds the plan's lines and what is shared.
func (s *Service) outline(v *view, h head, out *Explanation) error {
	out.Operators, out.Shared = []OperatorSize{}, []Shared{}
	doc := v.served(h.Version)
	plan, err := s.compile(doc)
	if err != nil {
		return err
	}
	for _, l := range query.Outline(plan) {
		one := OperatorSize{Text: l.Text, Depth: l.Depth, Unbounded: l.Unbounded, SharedAs: l.Number, Again: l.Again}
		if l.Operator >= 0 {
			one.Operator = &l.Operator
		}
		for _, z := range out.State {
			if z.Operator == nil || l.Operator != *z.Operator {
				continue
			}
			one.Rows += z.Rows
			one.Bytes += z.Bytes
			if z.Kind == engine.Panes {
				out.Shared = append(out.Shared, Shared{Kind: "panes", Text: fmt.Sprintf("the windows of the hop under %q share %d panes", l.Text, z.Rows)})
			}
		}
		if l.Number > 0 && !l.Again {
			out.Shared = append(out.Shared, Shared{Kind: "operator", Text: fmt.Sprintf("%q is computed once and read by several operators", l.Text)})
		}
		out.Operators = append(out.Operators, one)
	}
	for _, b := range doc.Sources {
		var others []string
		for _, name := range s.Readers(b.ID) {
			if name != v.name {
				others = append(others, name)
			}
		}
		if len(others) > 0 {
			out.Shared = append(out.Shared, Shared{
				Kind: "events", Stream: b.Name, Views: others,
				Text: fmt.Sprintf("the newest events of %s are decoded once for this view and %s", b.Name, strings.Join(others, ", ")),
			})
		}
	}
	for _, b := range plan.Beneath {
		out.Shared = append(out.Shared, Shared{
			Kind: "view", Views: []string{b.Name},
			Text: fmt.Sprintf("the view %s is a part of this plan: what it computes is computed here again, with state of its own", b.Name),
		})
	}
	return nil
}
