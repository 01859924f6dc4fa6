package runtime

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"tidemark/storage/kv"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

// Explanation is how a view runs, and what it keeps.
type Explanation struct {
	Plan     string          `json:"plan"`
	Warnings []query.Warning `json:"warnings"`
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
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	snap, h, p, err := v.open()
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	info, err := v.info()
	if err != nil {
		return nil, err
	}
	out := &Explanation{Plan: info.Plan, Warnings: info.Warnings, Position: p.Position.String(), State: []StateSize{}, Memory: v.memory()}
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
