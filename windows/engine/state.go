package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// Keys of the state, each a letter and what follows:
//
//	t               the tracker
//	c               the counts
//	h id key n      what a pane or a window of a hop holds of a group, for the aggregate with this number
//	g id groupkey   a group of the aggregate with this number (one byte); see sessionKey
//	s id key        the sessions of a key of the session function with this number
//	w id key …      a row of the slide function with this number
//	x id key …      a row of the session function with this number
//	d id … call n   the n-th piece of a call's large state; … is the letter and the rest of the key of the
//	                g or h that it belongs to, see pieces.go
//	p id key        a partition of the operator with this number
//	f id row        a row that waits until it is final, or was given on since it is
//	r rowkey        an entry of the emitter
//	i space id …    the index of g, p, f and r by finalAt, see cold, and of h by number, see panespill.go
//	v               the format; see header
//
// Values begin with the number of their format. Integers are varints; a watermark is 8 bytes, big
// endian; columns are written with row.AppendValue one after the other; a length comes before bytes
// that others follow.
const (
	spaceTracker    = 't'
	spaceCounts     = 'c'
	spaceGroup      = 'g'
	spaceSession    = 's'
	spaceSlide      = 'w'
	spaceSessionRow = 'x'
	spacePartition  = 'p'
	spaceFinal      = 'f'
	spacePane       = 'h'
	spacePiece      = 'd'
	spaceRow        = 'r'
	spaceIndex      = 'i'
	spaceFormat     = 'v'
)

const stateFormat = 1

var errState = errors.New("the state of a view is damaged or of a newer version")

// writes collects writes; deletions come before what is set, so that a key that went and came
// again is there.
type writes struct {
	list []Write
	// Values are put together in scratch and copied to mem, many to a piece of memory.
	scratch, mem []byte
}

// value is empty memory to put a value together in, kept gives the value memory of its own.
func (w *writes) value() []byte { return w.scratch[:0] }

func (w *writes) kept(value []byte) []byte {
	w.scratch = value
	return w.copied(value)
}

// copied gives a copy of a value memory of its own.
func (w *writes) copied(value []byte) []byte {
	if cap(w.mem)-len(w.mem) < len(value) {
		w.mem = make([]byte, 0, max(min(2*cap(w.mem), 64<<10), 512, len(value)))
	}
	n := len(w.mem)
	w.mem = append(w.mem, value...)
	return w.mem[n:len(w.mem):len(w.mem)]
}

func (w *writes) set(key, value []byte) { w.list = append(w.list, Write{key, value}) }

func (w *writes) drop(key []byte) { w.list = append(w.list, Write{Key: key}) }

// Take gives what came of the entries since the last Take, and with all also the provisional
// changes up to here. Late records, row errors and final changes are given out in any case.
func (e *Engine) Take(all bool) *Output {
	if all && !e.cfg.EmitFinal {
		for _, op := range e.ops {
			op.flush()
		}
		e.emit.flush()
	}
	out := e.out
	e.out = &Output{}
	out.Changes = e.emit.changes
	e.emit.begin(out.Changes.Len())
	out.Counts = e.counts
	out.Watermark = e.tracker.Watermark()

	w := &writes{}
	w.set([]byte{spaceTracker}, e.tracker.Encode(nil))
	w.set([]byte{spaceCounts}, e.counts.encode())
	for _, o := range e.sessions {
		o.save(w)
	}
	for _, op := range e.ops {
		op.save(w)
	}
	e.emit.save(w)
	if e.store != nil {
		e.saveHeader(w)
	}
	out.Writes = w.list
	return out
}

// Load brings back one entry of the state that Take wrote, in any order; Loaded ends that.
func (e *Engine) Load(key, value []byte) error {
	if len(key) == 0 {
		return errState
	}
	var err error
	switch key[0] {
	case spaceTracker:
		err = e.tracker.Decode(value)
		e.wm = e.tracker.Watermark()
	case spaceCounts:
		err = e.counts.decode(value)
	case spaceGroup, spaceSession, spaceSlide, spaceSessionRow, spacePartition, spaceFinal, spacePane:
		err = errState
		if part := e.part(key); part != nil {
			err = part.load(key[2:], value)
		}
	case spaceRow:
		err = e.emit.load(key[1:], value)
	case spaceIndex, spaceFormat, spacePiece: // pieces come with what they belong to
	default:
		err = errState
	}
	if err != nil {
		return fmt.Errorf("load state under %q: %w", key, err)
	}
	return nil
}

// loader is what loads one entry.
type loader interface{ load(key, value []byte) error }

// part finds the operator that a key of the state belongs to.
func (e *Engine) part(key []byte) loader {
	if len(key) < 2 {
		return nil
	}
	for _, op := range e.ops {
		switch o := op.(type) {
		case *aggregate:
			if key[0] == spaceGroup && key[1] == o.id {
				return o
			}
			if key[0] == spacePane && key[1] == o.id && o.panes != nil {
				return o.panes
			}
		case *topN:
			if key[0] == spacePartition && key[1] == o.id {
				return o
			}
		case *over:
			if key[0] == spacePartition && key[1] == o.id {
				return o
			}
		case *finalOnly:
			if key[0] == spaceFinal && key[1] == o.id {
				return o
			}
		case *sliding:
			if key[0] == spaceSlide && key[1] == o.id {
				return o
			}
		case *sessionRows:
			if key[0] == spaceSessionRow && key[1] == o.o.id {
				return o
			}
		}
	}
	for _, o := range e.sessions {
		if key[0] == spaceSession && key[1] == o.id {
			return o
		}
	}
	return nil
}

// Loaded is called when everything has been loaded.
func (e *Engine) Loaded() error {
	for _, o := range e.sessions {
		if err := o.loaded(); err != nil {
			return err
		}
	}
	for _, op := range e.ops {
		if err := op.loaded(); err != nil {
			return err
		}
	}
	return e.emit.loaded()
}

func (c *Counts) encode() []byte {
	dst := []byte{stateFormat}
	for _, n := range []int64{c.Events, c.LateDropped, c.LatePartial, c.LateCorrected, c.RowErrors, c.Filtered} {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

func (c *Counts) decode(src []byte) error {
	r := reader{src: src}
	r.format()
	for _, n := range []*int64{&c.Events, &c.LateDropped, &c.LatePartial, &c.LateCorrected, &c.RowErrors, &c.Filtered} {
		*n = r.varint()
	}
	return r.end()
}

// A group: format, flags (1 changed since it was last given out, 2 a row is given out behind it,
// 4 its rows are counted by finalAt, 8 evidence, 16 an entry of the emitter has its row, 32 that one
// has another key, 64 the row behind it was given out with another finalAt), how many rows are in it,
// finalAt, the state of each call (or where its pieces are), with flag 2 the row, with 64 its finalAt, with 4 the number of
// counts and for each finalAt and count, with 8 the places, with 32 the entry's key.
func (a *aggregate) save(w *writes) {
	a.saveLostPieces(w)
	if a.panes != nil {
		a.panes.save(w)
	}
	a.cold.unlist(w, a.gone, a.stateKey)
	a.gone = a.gone[:0]
	a.marks.save(func(slot int32) {
		g, k := &a.groups[slot], &a.marks.at[slot]
		linked, entry := g.entry >= 0, ""
		if linked {
			entry = a.e.emit.entries[g.entry].key
		}
		other := linked && entry != g.key
		earlier := g.given && g.givenAt != k.finalAt
		dst := append(w.value(), stateFormat, bit(k.dirty)|bit(g.given)<<1|bit(g.ends != nil)<<2|bit(g.evidence != nil)<<3|bit(linked)<<4|bit(other)<<5|bit(earlier)<<6)
		dst = binary.AppendVarint(dst, g.rows)
		dst = binary.BigEndian.AppendUint64(dst, uint64(k.finalAt))
		name := a.stateKey(g.key)
		dst = a.encode(w, slot, name, dst)
		if g.given {
			for _, v := range a.given.cols {
				dst = row.AppendValue(dst, v, int(slot))
			}
		}
		if earlier {
			dst = binary.BigEndian.AppendUint64(dst, uint64(g.givenAt))
		}
		if g.ends != nil {
			dst = appendEnds(dst, g.ends)
		}
		if g.evidence != nil {
			dst = appendPlaces(dst, g.evidence)
		}
		if other {
			dst = append(dst, entry...)
		}
		w.set(name, w.kept(dst))
		if a.spills() {
			k.listed = a.cold.list(w, k.listed, k.finalAt, g.key)
		}
	})
}

func appendEnds(dst []byte, ends map[windows.Micros]int64) []byte {
	dst = binary.AppendVarint(dst, int64(len(ends)))
	for _, at := range slices.Sorted(maps.Keys(ends)) {
		dst = binary.BigEndian.AppendUint64(dst, uint64(at))
		dst = binary.AppendVarint(dst, ends[at])
	}
	return dst
}

func appendPlaces(dst []byte, places []stream.Place) []byte {
	dst = binary.AppendVarint(dst, int64(len(places)))
	for _, p := range places {
		dst = binary.AppendVarint(dst, int64(p.Partition))
		dst = binary.AppendVarint(dst, int64(p.Offset))
	}
	return dst
}

func (a *aggregate) stateKey(key string) []byte {
	return append([]byte{spaceGroup, a.id}, key...)
}

func (a *aggregate) load(key, value []byte) error {
	slot, ok := a.table.get(key)
	switch {
	case ok:
	case a.sess != nil:
		var err error
		if slot, err = a.newOf(key); err != nil {
			return err
		}
	default:
		slot = a.newSlot(string(key))
		rest := key
		for _, v := range a.keyCols.cols {
			one := row.NewVector(v.Type, 1)
			var err error
			if rest, err = row.DecodeKey(v.Type, rest, one); err != nil {
				return err
			}
			setValue(v, int(slot), one, 0)
		}
	}
	g := &a.groups[slot]
	r := reader{src: value}
	r.format()
	flags := r.byte()
	g.rows = r.varint()
	a.marks.restore(slot, r.watermark(), flags&1 != 0)
	if r.bad {
		return errState
	}
	var err error
	if r.src, err = a.decode(slot, a.stateKey(g.key), r.src); err != nil {
		return err
	}
	if g.given = flags&2 != 0; g.given {
		if a.given == nil {
			return errState
		}
		r.values(a.given, int(slot))
		g.givenAt = a.marks.at[slot].finalAt
	}
	if flags&64 != 0 {
		g.givenAt = r.watermark()
	}
	if flags&4 != 0 {
		g.ends = r.ends()
	}
	if flags&8 != 0 {
		g.evidence = r.places()
	}
	a.linked, a.linkedTo = flags&16 != 0, g.key
	if flags&32 != 0 {
		a.linkedTo = string(r.src)
		r.src = nil
	}
	if finalAt := a.marks.at[slot].finalAt; a.spills() {
		a.marks.at[slot].listed = listed(finalAt)
	}
	return r.end()
}

func (a *aggregate) loaded() error {
	a.marks.loaded()
	if a.panes != nil {
		a.panes.loaded()
	}
	return nil
}

// An entry: format, flags (1 a row is given out, 2 staged, 4 a row is staged, 8 opened, 16 its group is
// known, 32 the group's key is the row key, 64 evidence), status, revision, finalAt, time, with 1 the row, with 4
// the staged row, with 64 the places, with 16 the number of the aggregate and, without 32, the group's key.
func (m *emitter) save(w *writes) {
	m.cold.unlist(w, m.gone, m.stateKey)
	m.gone = m.gone[:0]
	for _, x := range m.changed {
		en := &m.entries[x]
		if !en.changed {
			continue
		}
		en.changed = false
		if !en.live {
			continue
		}
		same := en.owner != nil && en.owner.groups[en.slot].key == en.key
		dst := append(w.value(), stateFormat, bit(en.there)|bit(en.staged)<<1|bit(en.staged && en.next >= 0)<<2|bit(en.opened)<<3|
			bit(en.owner != nil)<<4|bit(same)<<5|bit(en.evidence != nil)<<6, byte(en.status))
		dst = binary.AppendVarint(dst, int64(en.revision))
		dst = binary.BigEndian.AppendUint64(dst, uint64(en.finalAt))
		dst = binary.BigEndian.AppendUint64(dst, uint64(en.time))
		if en.there {
			for _, v := range m.cur.cols {
				dst = row.AppendValue(dst, v, int(x))
			}
		}
		if en.staged && en.next >= 0 {
			for _, v := range m.stage.Cols {
				dst = row.AppendValue(dst, v, int(en.next))
			}
		}
		if en.evidence != nil {
			dst = appendPlaces(dst, en.evidence)
		}
		if en.owner != nil {
			dst = append(dst, en.owner.id)
			if !same {
				dst = append(dst, en.owner.groups[en.slot].key...)
			}
		}
		w.set(m.stateKey(en.key), w.kept(dst))
		m.sized(x, len(dst))
		if m.e.store != nil {
			at := en.finalAt
			if en.owner != nil { // its group is in the index
				at = windows.Never
			}
			en.listed = m.cold.list(w, en.listed, at, en.key)
		}
	}
	m.changed = m.changed[:0]
}

func (m *emitter) stateKey(key string) []byte { return append([]byte{spaceRow}, key...) }

func (m *emitter) load(key, value []byte) error {
	x, ok := m.table.get(key)
	if !ok {
		x = m.newEntry(key)
	}
	m.sized(x, len(value))
	en := &m.entries[x]
	r := reader{src: value}
	r.format()
	flags := r.byte()
	en.status = windows.Status(r.byte())
	en.revision = int32(r.varint())
	en.finalAt = r.watermark()
	en.time = r.watermark()
	en.there, en.opened = flags&1 != 0, flags&8 != 0
	if en.there {
		r.values(m.cur, int(x))
	}
	if flags&2 != 0 {
		en.staged, en.next = true, -1
		m.touched = append(m.touched, x)
		if flags&4 != 0 {
			en.next = int32(m.stage.Len)
			r.values(&store{cols: m.stage.Cols}, m.stage.Len)
			m.stage.Len++
		}
	}
	if flags&64 != 0 {
		en.evidence = r.places()
	}
	if flags&16 != 0 {
		id, group := r.byte(), string(r.src)
		if flags&32 != 0 {
			group = en.key
		}
		r.src = nil
		m.links = append(m.links, link{x, id, strings.Clone(group)})
	} else if m.e.store != nil {
		en.listed = listed(en.finalAt)
	}
	return r.end()
}

// link is an entry's group, found when all groups are there.
type link struct {
	entry int32
	id    byte
	group string
}

func (m *emitter) loaded() error {
	for _, l := range m.links {
		m.linked(l, func(a *aggregate, key []byte) (int32, bool) { return a.table.get(key) })
	}
	m.links = nil
	for x := range m.entries {
		if en := &m.entries[x]; en.live {
			m.time.add(en.finalAt, int32(x), m.e.wm)
		}
	}
	return nil
}

// reader reads what the encoders wrote; after the first mistake everything is zero.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.src) == 0 {
		r.bad = true
		return 0
	}
	c := r.src[0]
	r.src = r.src[1:]
	return c
}

func (r *reader) format() { r.bad = r.bad || r.byte() != stateFormat }

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.src)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.src = r.src[size:]
	return n
}

func (r *reader) watermark() windows.Micros {
	if len(r.src) < 8 {
		r.bad = true
		return 0
	}
	n := binary.BigEndian.Uint64(r.src)
	r.src = r.src[8:]
	return int64(n)
}

func (r *reader) bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.src)) {
		r.bad = true
		return nil
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) ends() map[windows.Micros]int64 {
	out := map[windows.Micros]int64{}
	for n := r.varint(); n > 0 && !r.bad; n-- {
		at := r.watermark()
		out[at] = r.varint()
	}
	return out
}

func (r *reader) places() []stream.Place {
	var out []stream.Place
	for n := r.varint(); n > 0 && !r.bad; n-- {
		p := stream.Partition(r.varint())
		out = append(out, stream.Place{Partition: p, Offset: stream.Offset(r.varint())})
	}
	return out
}

// values reads one row into row i of a store.
func (r *reader) values(s *store, i int) {
	for _, v := range s.cols {
		one := row.NewVector(v.Type, 1)
		rest, err := row.DecodeKey(v.Type, r.src, one)
		if err != nil {
			r.bad = true
			return
		}
		r.src = rest
		setValue(v, i, one, 0)
	}
}

func (r *reader) end() error {
	if r.bad || len(r.src) > 0 {
		return errState
	}
	return nil
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
