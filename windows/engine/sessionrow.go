package engine

import (
	"encoding/binary"
	"slices"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/agg"
	"tidemark/windows/expr"
)

// sessionRows keeps the rows of sessions, where what lies behind wants more than one group a
// session. When a session's bounds change, all its rows are withdrawn and given out with the new
// ones.
type sessionRows struct {
	o    *sessions
	outs targets
	// filters says that the WHERE reads the bounds, so that rows go through it when they are given out.
	filters bool

	fields []row.Field
	store  *store
	at     []sessionRow
	free   []int32
	dirty  []int32 // sessions
	added  []int32 // rows to be saved
	gone   [][]byte
	// textBytes is what the texts of all rows take.
	textBytes int64

	start, end *row.Vector
	errs       expr.Errors
}

type sessionRow struct {
	key        string
	time       windows.Micros
	rank       agg.Rank
	partition  stream.Partition
	given      bool // given out, with these bounds
	start, end windows.Micros
	live, save bool
}

// own adds the window that each row would have alone.
func (r *sessionRows) own(c *chunk) *chunk {
	out := *c
	r.start.Resize(c.Len)
	r.end.Resize(c.Len)
	for i, t := range c.Cols[r.o.timeCol].I64 {
		r.start.I64[i], r.end.I64[i] = r.o.kind.Own(t)
	}
	n := len(c.Cols) - 2
	out.Cols = append(slices.Clone(c.Cols[:n]), r.start, r.end)
	return &out
}

// take keeps a batch until its step, and lets what lies behind compute each event with its own
// window, to find those that fail (E1).
func (r *sessionRows) take(c *chunk) {
	trial := r.own(c)
	trial.f = &frame{up: c.f, batch: true, origin: c.f.origin, trial: true}
	r.outs.send(trial)
	r.o.e.wait(r, c)
}

// feed keeps rows; their sessions are known by now.
func (r *sessionRows) feed(c *chunk, sel []int32) {
	ids := c.Cols[len(c.Cols)-1].I64
	times := c.Cols[r.o.timeCol].I64
	fed := chunk{Batch: c.Batch, sel: sel, f: c.f}
	fed.each(func(i int) {
		x := int32(ids[i])
		s := &r.o.all[x]
		n := r.newRow(sessionRow{key: s.key, time: times[i], rank: r.o.e.rank(c.f, i), partition: r.o.e.in.Partition, live: true})
		r.store.set(int(n), c.Cols[:len(c.Cols)-2], nil, i)
		r.textBytes += r.store.textBytes(int(n))
		r.toSave(n)
		s.slots = append(s.slots, n)
		r.touch(x)
	})
}

func (r *sessionRows) newRow(x sessionRow) int32 {
	var n int32
	if k := len(r.free); k > 0 {
		n = r.free[k-1]
		r.free = r.free[:k-1]
	} else {
		n = int32(len(r.at))
		r.at = append(r.at, sessionRow{})
	}
	r.at[n] = x
	return n
}

func (r *sessionRows) toSave(n int32) {
	if x := &r.at[n]; !x.save {
		x.save = true
		r.added = append(r.added, n)
	}
}

// touch notes that a session has new rows or bounds.
func (r *sessionRows) touch(x int32) { r.dirty = append(r.dirty, x) }

// Rows move between windows, so everything is given out at the end of each step.
func (r *sessionRows) settle(_, _ windows.Micros) { r.flush() }
func (r *sessionRows) correct(windows.Micros)     {}
func (r *sessionRows) pending() bool              { return len(r.dirty) > 0 }
func (r *sessionRows) forget(windows.Micros)      {}

func (r *sessionRows) flush() {
	if len(r.dirty) == 0 {
		return
	}
	slices.Sort(r.dirty)
	d := newDifferences(r.fields, 0)
	n := len(r.fields) - 2
	add := func(slot int32, start, end windows.Micros, weight int64) {
		if !r.o.givenOut(start) {
			return
		}
		x := &r.at[slot]
		for c, v := range d.Cols[:n] {
			v.AppendFrom(r.store.cols[c], int(slot))
		}
		d.Cols[n].AppendInt64(start)
		d.Cols[n+1].AppendInt64(end)
		d.mark(weight, windows.Session.FinalAt(end))
		d.f.ranks = append(d.f.ranks, x.rank)
		d.f.times = append(d.f.times, end)
		if r.o.e.cfg.Evidence {
			d.f.evidence = append(d.f.evidence, []stream.Place{{Partition: x.partition, Offset: stream.Offset(x.rank.Offset)}})
		}
	}
	for _, x := range slices.Compact(r.dirty) {
		s := &r.o.all[x]
		if !s.live {
			continue
		}
		for _, slot := range s.slots {
			k := &r.at[slot]
			if k.given && k.start == s.start && k.end == s.end {
				continue
			}
			if k.given {
				add(slot, k.start, k.end, -1)
			}
			add(slot, s.start, s.end, 1)
			k.given, k.start, k.end = true, s.start, s.end
			r.toSave(slot)
		}
	}
	r.dirty = r.dirty[:0]
	if r.filters && d.Len > 0 {
		d.sel = r.o.e.keep(r.o.where, &d.chunk, &r.errs, nil)
	}
	d.send(r.outs)
}

// drop forgets the rows of a session whose bounds are forgotten.
func (r *sessionRows) drop(slots []int32) {
	for _, n := range slots {
		r.gone = append(r.gone, r.rowKey(&r.at[n]))
		r.clear(n)
	}
}

// clear makes the number of a row free.
func (r *sessionRows) clear(n int32) {
	r.textBytes -= r.store.textBytes(int(n))
	r.at[n] = sessionRow{}
	r.store.clear(int(n))
	r.free = append(r.free, n)
}

// A row is kept under its key, its time, sequence and offset; the value is the event's partition,
// whether the row was given out (1) and with which bounds, and the row.
func (r *sessionRows) rowKey(x *sessionRow) []byte {
	return keptRowKey(spaceSessionRow, r.o.id, x.key, x.time, x.rank)
}

func (r *sessionRows) save(w *writes) {
	for _, key := range r.gone {
		w.drop(key)
	}
	r.gone = r.gone[:0]
	for _, n := range r.added {
		x := &r.at[n]
		if !x.live || !x.save {
			continue
		}
		x.save = false
		dst := binary.AppendVarint([]byte{stateFormat}, int64(x.partition))
		dst = append(dst, bit(x.given))
		dst = binary.BigEndian.AppendUint64(dst, uint64(x.start))
		dst = binary.BigEndian.AppendUint64(dst, uint64(x.end))
		for _, v := range r.store.cols {
			dst = row.AppendValue(dst, v, int(n))
		}
		w.set(r.rowKey(x), dst)
	}
	r.added = r.added[:0]
}

func (r *sessionRows) load(key, value []byte) error {
	_, err := r.restore(key, value)
	return err
}

// restore loads a row, which is in no session yet.
func (r *sessionRows) restore(key, value []byte) (slot int32, err error) {
	n := len(key) - 24
	if n < 0 {
		return -1, errState
	}
	num := func(at int) int64 { return int64(binary.BigEndian.Uint64(key[at:])) }
	in := reader{src: value}
	in.format()
	x := sessionRow{
		key: string(key[:n]), time: int64(uint64(num(n)) ^ 1<<63), live: true,
		rank: agg.Rank{Sequence: num(n + 8), Offset: num(n + 16)}, partition: stream.Partition(in.varint()),
	}
	x.given = in.byte() == 1
	x.start, x.end = in.watermark(), in.watermark()
	slot = r.newRow(x)
	in.values(r.store, int(slot))
	r.textBytes += r.store.textBytes(int(slot))
	return slot, in.end()
}

func (r *sessionRows) loaded() error { return nil }

// all are the rows.
func (r *sessionRows) all() []int32 {
	var slots []int32
	for n := range r.at {
		if r.at[n].live {
			slots = append(slots, int32(n))
		}
	}
	return slots
}

// find puts rows that were loaded into their sessions, in the order of the log.
func (r *sessionRows) find(slots []int32) error {
	slices.SortFunc(slots, func(a, b int32) int { return r.at[a].rank.Compare(r.at[b].rank) })
	for _, n := range slots {
		k := &r.at[n]
		found := false
		for _, x := range r.o.table[k.key] {
			if s := &r.o.all[x]; k.time >= s.start && k.time < s.end {
				s.slots, k.key = append(s.slots, n), s.key
				if found = true; !k.given || k.start != s.start || k.end != s.end {
					r.touch(x)
				}
			}
		}
		if !found {
			return errState
		}
	}
	return nil
}
