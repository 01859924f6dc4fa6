package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"tidemark/windows"
)

// Store has what Takes have written, as far as it was committed.
type Store interface {
	// Get gives a copy of the value of a key, or nil where there is none.
	Get(key []byte) ([]byte, error)
	// Scan calls f with the keys from ≤ key < to and their values, in order, until f returns false.
	// A nil bound is open. What f is given lasts until it returns.
	Scan(from, to []byte, f func(key, value []byte) bool) error
}

// ErrFormat says that a state was written in another format than this one. A view is made again of
// the log then.
var ErrFormat = errors.New("the state of the view has another format")

// formatNumber is that of the state as a whole: which keys there are, and how entries belong
// together. It stands under spaceFormat. States from before it was written have no index (and those
// of a hop, maybe, no panes).
const formatNumber = 3

// FormatKey is the key of a state's format.
func FormatKey() []byte { return []byte{spaceFormat} }

// CheckFormat gives ErrFormat when the value of FormatKey is not that of a state that an engine goes
// on with; nil stands for a state without it.
func CheckFormat(value []byte) error {
	if n, size := binary.Uvarint(value); size <= 0 || n != formatNumber {
		return fmt.Errorf("%w: %d, and this program has %d", ErrFormat, n, formatNumber)
	}
	return nil
}

// wholeBytes is how large a state may be to be loaded as a whole at the start, where its limit is
// not less. A larger one is loaded entry by entry, when it is asked for.
const wholeBytes = 128 << 20

// header is the value under spaceFormat: the format's number, flags (1: something waits to be given
// out), about how many bytes the state takes in memory, and for each operator that can leave
// entries in the store its space, number and how many entries it has.
type header struct {
	waits  bool
	bytes  int64
	counts map[[2]byte]int64
}

// saveHeader notes what a start must know of the state before it has loaded any of it.
func (e *Engine) saveHeader(w *writes) {
	waits, _ := e.Pending()
	m := e.Memory()
	dst := binary.AppendUvarint(nil, formatNumber)
	dst = append(dst, bit(waits))
	dst = binary.AppendVarint(dst, m.Bytes+m.SpilledBytes)
	for _, p := range e.spilling() {
		c := p.colds()
		dst = append(dst, c.space, c.id)
		dst = binary.AppendVarint(dst, p.resident()+c.count)
	}
	w.set(FormatKey(), dst)
}

func readHeader(value []byte) (h header, err error) {
	if err := CheckFormat(value); err != nil {
		return h, err
	}
	_, size := binary.Uvarint(value)
	r := reader{src: value[size:]}
	h.waits, h.bytes, h.counts = r.byte()&1 != 0, r.varint(), map[[2]byte]int64{}
	for len(r.src) > 0 && !r.bad {
		part := [2]byte{r.byte(), r.byte()}
		h.counts[part] = r.varint()
	}
	return h, r.end()
}

// spiller is an operator that can leave entries in the store.
type spiller interface {
	colds() *cold
	// resident is how many of its entries are in memory.
	resident() int64
	// notFinal is where in its index what is not final begins.
	notFinal() int64
	// evict lets go of entries that have not been used for longest, until excess bytes are free or
	// none is left that can go.
	evict(excess int64) (freed int64)
}

// spilling are the operators that can leave entries in the store, in the order of the rows' way.
func (e *Engine) spilling() []spiller {
	if e.store == nil {
		return nil
	}
	var out []spiller
	for _, o := range e.sessions {
		out = append(out, o)
	}
	for _, op := range e.ops {
		switch o := op.(type) {
		case *aggregate:
			if len(o.keys) > 0 {
				out = append(out, o)
			}
			if o.panes != nil {
				out = append(out, o.panes)
			}
		case *sliding:
			out = append(out, o)
		case *topN:
			out = append(out, o)
		case *over:
			out = append(out, o)
		case *finalOnly:
			out = append(out, o)
		}
	}
	if !e.emit.passThrough {
		out = append(out, e.emit)
	}
	return out
}

// Recover brings back the state that a store has, for an engine that has seen nothing, and from
// then on the engine may leave in the store what it is not working with. A state that takes more
// than limit in memory (0: no limit), or much, is not loaded: its entries come when they are asked
// for.
func (e *Engine) Recover(s Store, limit int64) error {
	e.store = s
	value, err := s.Get(FormatKey())
	if err != nil {
		return err
	}
	if value == nil {
		empty := true
		if err := s.Scan(nil, nil, func(_, _ []byte) bool { empty = false; return false }); err != nil || empty {
			return errors.Join(err, e.Loaded())
		}
		return CheckFormat(nil)
	}
	h, err := readHeader(value)
	if err != nil {
		return fmt.Errorf("the format of the state: %w", err)
	}
	parts := e.spilling()
	whole := len(parts) == 0 || h.waits || h.bytes <= wholeBytes && (limit == 0 || h.bytes <= limit)
	// All but the format, the index, and pieces, which come with what they belong to.
	from := [][2]byte{{0, spacePiece}, {spacePiece + 1, spaceIndex}, {spaceIndex + 1, spaceFormat}, {spaceFormat + 1, 0}}
	if !whole {
		from = [][2]byte{{spaceCounts, spaceCounts + 1}, {spaceTracker, spaceTracker + 1}}
	}
	for _, f := range from {
		if err := e.loadRange(f[0], f[1]); err != nil {
			return err
		}
	}
	for _, p := range parts {
		c := p.colds()
		if c.count = h.counts[[2]byte{c.space, c.id}]; whole {
			c.count = 0
		}
		if c.count > 0 {
			c.bytes = h.bytes / int64(len(parts))
			c.due, c.closing = c.next(p.notFinal()), c.next(windows.NoWatermark)
		}
	}
	if !whole {
		if err := e.loadPinned(); err != nil {
			return err
		}
	}
	return errors.Join(e.Loaded(), e.broken)
}

// loadRange loads the entries whose spaces lie between from and to; 0 is an open end.
func (e *Engine) loadRange(from, to byte) error {
	var upper []byte
	if to > 0 {
		upper = []byte{to}
	}
	var failed error
	err := e.store.Scan([]byte{from}, upper, func(key, value []byte) bool {
		failed = e.Load(append([]byte{}, key...), append([]byte{}, value...))
		return failed == nil
	})
	return errors.Join(err, failed)
}

// loadPinned loads the groups that never leave the memory: those of aggregates without keys.
func (e *Engine) loadPinned() error {
	for _, op := range e.ops {
		a, ok := op.(*aggregate)
		if !ok || len(a.keys) > 0 {
			continue
		}
		name := a.stateKey("")
		v, err := e.store.Get(name)
		if err == nil && v != nil {
			err = e.Load(name, v)
		}
		if err != nil {
			return err
		}
		if a.linked { // K3
			e.emit.find([]byte(a.linkedTo))
		}
	}
	return nil
}

// Err is why the engine can't go on: the store could not be read. What it gave since the last Take
// that was committed is void.
func (e *Engine) Err() error { return e.broken }

// breaks notes the first error of the store.
func (e *Engine) breaks(err error) {
	if e.broken == nil && err != nil {
		e.broken = fmt.Errorf("read the state of the view: %w", err)
	}
}

// Memory is what an engine keeps, and where.
type Memory struct {
	// Bytes is about what the state takes in memory, SpilledBytes what the entries that are in the
	// store alone would take.
	Bytes        int64 `json:"bytes"`
	SpilledBytes int64 `json:"spilled_bytes"`
	// Entries are the groups, the panes of groups, the sessions, the keys of slides, the partitions, the
	// rows that wait and those given out, Spilled those of them that are in the store alone.
	Entries int64 `json:"entries"`
	Spilled int64 `json:"spilled_entries"`
	// Evicted is how many entries have left the memory since the start, Reads how often the store
	// was asked for one.
	Evicted int64 `json:"evicted"`
	Reads   int64 `json:"misses"`
}

// Memory tells what the engine keeps.
func (e *Engine) Memory() Memory {
	m := Memory{Evicted: e.spilled, Reads: e.reads}
	for _, op := range e.ops {
		if o, ok := op.(interface{ memory() int64 }); ok {
			m.Bytes += o.memory()
		}
	}
	for _, o := range e.sessions {
		m.Bytes += o.memory()
	}
	m.Bytes += e.emit.memory()
	for _, p := range e.spilling() {
		c := p.colds()
		m.SpilledBytes += c.bytes
		m.Spilled += c.count
		m.Entries += p.resident() + c.count
	}
	return m
}

// Evict lets go of what has not been used for longest until the state takes at most limit bytes of
// memory, as far as it can: what changed since it was saved stays. Everything that the last Take
// wrote must have been committed. It leaves a margin, so that not every epoch evicts.
func (e *Engine) Evict(limit int64) {
	excess := e.Memory().Bytes - limit
	if excess <= 0 {
		return
	}
	excess += limit / 16
	for _, p := range e.spilling() {
		excess -= p.evict(excess)
	}
	e.emit.evicted()
}

// rowsMemory is about what n rows with as many columns take, each with so many bytes beside them.
func rowsMemory(n int, beside uintptr, cols int) int64 {
	return int64(n) * (int64(beside) + 16*int64(cols))
}

// under calls f with the entries of the store whose keys begin with prefix.
func (e *Engine) under(prefix []byte, f func(key, value []byte) error) error {
	e.reads++
	to := slices.Clone(prefix)
	for to[len(to)-1] == 0xff { // no space is 0xff
		to = to[:len(to)-1]
	}
	to[len(to)-1]++
	var failed error
	err := e.store.Scan(prefix, to, func(key, value []byte) bool {
		failed = f(key, value)
		return failed == nil
	})
	return errors.Join(err, failed)
}
