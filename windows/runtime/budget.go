package runtime

import (
	"errors"
	"sync"

	"tidemark/storage/kv"
	"tidemark/windows/engine"
)

// budget shares the memory for the state of views out among their workers. As long as all of them
// together stay within it, nobody has to give anything up; beyond it those that have more than
// their equal part do, down to that part at the most.
type budget struct {
	bytes int64 // 0: no bound
	mu    struct {
		sync.Mutex
		used  map[*worker]int64
		total int64
	}
}

// take notes what a worker's state takes, and says how much it may keep.
func (b *budget) take(w *worker, bytes int64) (limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.used == nil {
		b.mu.used = map[*worker]int64{}
	}
	b.mu.total += bytes - b.mu.used[w]
	b.mu.used[w] = bytes
	if b.bytes == 0 || b.mu.total <= b.bytes {
		return bytes
	}
	return min(bytes, max(b.bytes/int64(len(b.mu.used)), bytes-(b.mu.total-b.bytes)))
}

// leave forgets a worker.
func (b *budget) leave(w *worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.total -= b.mu.used[w]
	delete(b.mu.used, w)
}

// StateMemory is about what the state of all views takes in memory, and its bound; 0: there is none.
func (s *Service) StateMemory() (bytes, bound int64) {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.budget.mu.total, s.budget.bytes
}

// spill lets the engine go of what is over its part of the budget, and tells where its state is. What
// the last Take wrote is committed, or nothing was taken since the state was read.
func (w *worker) spill() {
	m := w.eng.Memory()
	if limit := w.svc.budget.take(w, m.Bytes); limit < m.Bytes {
		w.eng.Evict(limit)
		m = w.eng.Memory()
		w.svc.budget.take(w, m.Bytes)
	}
	if w.serving {
		w.v.gauges.memory.Store(&m)
	}
}

// committed is the engine's state as the store has it.
type committed struct {
	kv     *kv.Store
	prefix []byte
}

func (c committed) key(key []byte) []byte {
	return append(c.prefix[:len(c.prefix):len(c.prefix)], key...)
}

// Get implements engine.Store.
func (c committed) Get(key []byte) ([]byte, error) {
	v, err := c.kv.Get(c.key(key))
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if v == nil && err == nil {
		v = []byte{}
	}
	return v, err
}

// Scan implements engine.Store.
func (c committed) Scan(from, to []byte, f func(key, value []byte) bool) error {
	upper := kv.PrefixEnd(c.prefix)
	if to != nil {
		upper = c.key(to)
	}
	it := c.kv.Iter(c.key(from), upper)
	for ok := it.First(); ok && f(it.Key()[len(c.prefix):], it.Value()); ok = it.Next() {
	}
	return it.Close()
}

// state is the engine's state of one version of a view.
func (v *view) state(version uint32) committed {
	return committed{v.svc.kv, engineKey(v.id, version)}
}

// old reports whether the state of a version is in a format that an engine of this program does not go
// on with: it is made again of the log then.
func (v *view) old(version uint32) bool {
	if _, err := v.svc.kv.Get(progressKey(v.id, version)); err != nil {
		return false // nothing was committed yet, or the worker says what is wrong
	}
	value, err := v.state(version).Get(engine.FormatKey())
	return err == nil && engine.CheckFormat(value) != nil
}
