package live

import (
	"sync"
	"time"
)

// sharedSnapshot is a snapshot of a selection, read, selected and encoded once for all who ask for it
// while the view stands where it stood. A thousand dashboards that open at once cost one.
type sharedSnapshot struct {
	// reader stands at the snapshot; it is copied from, and never reads.
	reader *viewReader
	parts  []*content
	made   time.Time
}

// snapshots makes those of one selection, one after the other.
type snapshots struct {
	sync.Mutex
	last *sharedSnapshot
}

// snapshotLasts is how long one is kept at the most for others who ask.
const snapshotLasts = 2 * time.Second

// snapshot returns the one of what a reader selects, as it is now.
func (h *Hub) snapshot(r *viewReader) (*sharedSnapshot, error) {
	key := castKey{rel: r.changes.tail.rel, where: r.op.Where, span: string(r.op.Range), order: r.op.Order, shown: r.op.showing(), limit: r.op.Limit}
	h.mu.Lock()
	st := h.mu.snapshots[key]
	if st == nil {
		st = &snapshots{}
		h.mu.snapshots[key] = st
		time.AfterFunc(snapshotLasts, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.mu.snapshots, key)
		})
	}
	h.mu.Unlock()
	st.Lock()
	defer st.Unlock()
	if st.last != nil && st.last.holds() {
		return st.last, nil
	}
	fresh, err := newSnapshot(r)
	st.last = fresh
	return fresh, err
}

// holds reports whether a new one would be the same.
func (s *sharedSnapshot) holds() bool {
	r := s.reader
	head, err := r.hub.opts.Views.Head(r.name)
	return err == nil && head.Position == r.position && (!r.sel.moving || time.Since(s.made) < moveEvery)
}

func newSnapshot(r *viewReader) (*sharedSnapshot, error) {
	snap, err := r.hub.opts.Views.Snapshot(r.name)
	if err != nil {
		return nil, err
	}
	own := &viewReader{hub: r.hub, name: r.name, op: r.op, position: snap.Position, asOf: snap.AsOf}
	if own.sel, err = newSelection(r.hub, r.op, snap.Fields); err != nil {
		return nil, err
	}
	rows, err := own.sel.fill(snap)
	if err != nil {
		return nil, err
	}
	s := &sharedSnapshot{reader: own, made: time.Now()}
	for more := true; more; {
		part := rows[:min(len(rows), maxSnapshotRows)]
		rows = rows[len(part):]
		more = len(rows) > 0
		s.parts = append(s.parts, own.part(part, more))
	}
	return s, nil
}
