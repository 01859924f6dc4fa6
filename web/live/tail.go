package live

import (
	"sync"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// A tail is the newest part of a view's change stream, read and encoded once for all who follow
// the view. Who is further behind reads the change stream alone until it has caught up.
type tail struct {
	views Views
	rel   Relation
	users int // guarded by the hub

	mu struct {
		sync.Mutex
		// changes is the one reader; nil before the first use and after an error.
		changes Changes
		// epochs lie between from and the reader's position, without holes.
		from   stream.Position
		epochs []*sharedEpoch
		held   int // changes in epochs
	}
}

// A tail holds at most so much, and always the newest epoch.
const (
	maxTailEpochs  = 64
	maxTailChanges = 50_000
)

// sharedEpoch is an epoch whose rows are encoded when the first reader wants them.
type sharedEpoch struct {
	*Epoch
	once sync.Once
	rows [][]byte
}

// row is row i as JSON, encoded once.
func (e *sharedEpoch) row(fields []row.Field, i int) []byte {
	e.once.Do(func() { e.rows = encodeRows(fields, e.Changes) })
	return e.rows[i]
}

func encodeRows(fields []row.Field, c *windows.Changes) [][]byte {
	out := make([][]byte, c.Rows.Len)
	var all []byte
	for i := range out {
		from := len(all)
		all = row.AppendJSONRow(all, fields, c.Rows, i)
		out[i] = all[from:len(all):len(all)] // earlier ones stay valid when all moves
	}
	return out
}

// follow returns the tail of a view, shared by its readers, and the function that leaves it.
func (h *Hub) follow(rel Relation) (*tail, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.mu.tails[rel]
	if t == nil {
		t = &tail{views: h.opts.Views, rel: rel}
		h.mu.tails[rel] = t
	}
	t.users++
	return t, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(h.mu.tails, rel)
		}
	}
}

// next is the first epoch behind a position, nil when there is none now; at is where the reader
// stands then. covered is false when the tail no longer reaches back to the position.
func (t *tail) next(after stream.Position) (e *sharedEpoch, at stream.Position, covered bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.changes == nil {
		if t.mu.changes, err = t.views.Changes(t.rel.Name, &after); err != nil {
			t.mu.changes = nil
			return nil, after, true, err
		}
		t.mu.from, t.mu.epochs, t.mu.held = after, nil, 0
	}
	if before(after, t.mu.from) || after.Log != t.mu.from.Log {
		return nil, after, false, nil
	}
	for {
		for _, e := range t.mu.epochs {
			if before(after, e.To) {
				return e, e.To, true, nil
			}
		}
		more, err := t.readLocked()
		if err != nil {
			t.mu.changes = nil // what it says is of this reader's position too: the next one begins anew
			return nil, after, true, err
		}
		if !more {
			if end := t.mu.changes.Position(); before(after, end) {
				after = end // the epochs up to there changed nothing
			}
			return nil, after, true, nil
		}
	}
}

// readLocked takes one more epoch in and lets go of the oldest ones.
func (t *tail) readLocked() (more bool, err error) {
	e, ok, err := t.mu.changes.Next()
	if err != nil || !ok {
		return false, err
	}
	t.mu.epochs = append(t.mu.epochs, &sharedEpoch{Epoch: e})
	t.mu.held += size(e)
	for len(t.mu.epochs) > 1 && (len(t.mu.epochs) > maxTailEpochs || t.mu.held > maxTailChanges) {
		oldest := t.mu.epochs[0]
		t.mu.from, t.mu.held = oldest.To, t.mu.held-size(oldest.Epoch)
		t.mu.epochs = append(t.mu.epochs[:0:0], t.mu.epochs[1:]...)
	}
	return true, nil
}

func size(e *Epoch) int {
	if e.Changes == nil {
		return 0
	}
	return e.Changes.Len()
}

// follower reads a view's epochs: alone while it is far behind, from the shared tail else.
type follower struct {
	views Views
	tail  *tail
	at    stream.Position
	own   Changes // not nil while it reads alone
	// held was read and lies behind the limit.
	held *sharedEpoch
}

// next returns the next epoch, nil when there is none now, or none up to the limit.
func (f *follower) next(limit *stream.Position) (*sharedEpoch, error) {
	if f.held == nil {
		var err error
		if f.held, err = f.read(); err != nil || f.held == nil {
			return nil, err
		}
	}
	if limit != nil && before(*limit, f.held.To) {
		return nil, nil
	}
	e := f.held
	f.held = nil
	return e, nil
}

func (f *follower) read() (*sharedEpoch, error) {
	if f.own == nil {
		e, at, covered, err := f.tail.next(f.at)
		if err != nil {
			return nil, err
		}
		if covered {
			f.at = at
			return e, nil
		}
		if f.own, err = f.views.Changes(f.tail.rel.Name, &f.at); err != nil {
			f.own = nil
			return nil, err
		}
	}
	e, ok, err := f.own.Next()
	if err != nil {
		return nil, err
	}
	f.at = f.own.Position()
	if !ok { // it has caught up
		f.own = nil
		return nil, nil
	}
	return &sharedEpoch{Epoch: e}, nil
}
