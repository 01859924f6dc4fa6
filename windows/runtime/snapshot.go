package runtime

import (
	"errors"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// Snapshot is all rows of a view at one position. What Changes gives behind the position leads on
// from it.
type Snapshot struct {
	Fields   []row.Field
	Rows     *row.Batch
	Keys     [][]byte
	Status   []windows.Status
	Revision []int32
	Times    []windows.Micros
	AsOf     AsOf
	Position stream.Position
}

// Snapshot returns the rows of a view or alert as they are, in the order of their keys.
func (s *Service) Snapshot(name string) (*Snapshot, error) {
	v, snap, h, p, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	return v.rowsAt(snap, h, p)
}

// rowsAt reads all rows of the version that is served at a snapshot of the store.
func (v *view) rowsAt(snap *kv.Snapshot, h head, p progress) (*Snapshot, error) {
	fields, err := loadFields(h.Fields)
	if err != nil {
		return nil, err
	}
	out := &Snapshot{Fields: fields, Rows: row.NewBatch(fields, int(p.Rows)), AsOf: p.AsOf, Position: v.outside(p.Position)}
	prefix := rowsKey(v.id, h.Version)
	it := snap.Iter(prefix, kv.PrefixEnd(prefix))
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var head rowHead
		var values []byte
		if head, values, err = splitRow(it.Value()); err != nil {
			continue
		}
		err = appendStored(out.Rows, values)
		out.Keys = append(out.Keys, append([]byte{}, it.Key()[len(prefix):]...))
		out.Status, out.Revision = append(out.Status, head.status), append(out.Revision, head.revision)
		out.Times = append(out.Times, head.time)
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return out, err
}

// standing reads which version is served at a snapshot of the store, and how far it is.
func (v *view) standing(snap *kv.Snapshot) (head, progress, error) {
	if v.deleted() {
		return head{}, progress{}, unknownView(v.name)
	}
	h, err := getJSON[head](snap, headKey(v.id))
	if errors.Is(err, kv.ErrNotFound) {
		h, _ = v.published() // nothing was switched yet: it is the first version
		err = nil
	}
	if err != nil {
		return head{}, progress{}, err
	}
	p, err := getJSON[progress](snap, progressKey(v.id, h.Version))
	if errors.Is(err, kv.ErrNotFound) {
		return h, v.svc.beginning(h.ViewVersion), nil
	}
	return h, p, err
}
