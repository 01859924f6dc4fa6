package engine

import (
	"encoding/binary"

	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/query"
)

// finalOnly gives on rows from the moment on at which they are final: all that there is of a view
// that gives out final rows only, for the views above it (V3). Rows that are not final are kept
// here; those that were given on are remembered until their windows are closed.
type finalOnly struct {
	e    *Engine
	id   byte
	outs targets

	store   *store
	at      []finalRow
	free    []int32
	table   map[string]int32 // by all columns
	time    timeline
	changed []int32
	gone    []lost
	cold    cold
	hand    int // as in marks
	// keyBytes is what the keys take.
	keyBytes int64
	keyBuf   []byte
}

type finalRow struct {
	key     string
	weight  int64 // how often the row is there
	given   int64 // how often it was given on
	finalAt windows.Micros
	meta    meta
	live    bool
	changed bool
	used    bool // since the clock's hand passed it
	listed  listing
}

func newFinalOnly(e *Engine, id byte, n *query.FinalOnly) *finalOnly {
	return &finalOnly{e: e, id: id, store: newStore(n.Fields()), table: map[string]int32{}, cold: newCold(e, spaceFinal, id)}
}

func (o *finalOnly) take(c *chunk) {
	if !c.f.batch {
		o.feed(c, c.sel)
		return
	}
	trial := *c
	trial.f = &frame{up: c.f, batch: true, origin: c.f.origin, trial: true}
	o.outs.send(&trial)
	o.e.wait(o, c)
}

func (o *finalOnly) feed(c *chunk, sel []int32) {
	d := o.differences()
	fed := chunk{Batch: c.Batch, sel: sel, f: c.f}
	fed.each(func(i int) {
		o.keyBuf = o.keyBuf[:0]
		for _, v := range c.Cols {
			o.keyBuf = row.AppendKey(o.keyBuf, v, i)
		}
		slot, ok := o.find(o.keyBuf)
		if !ok {
			slot = o.fresh(string(o.keyBuf))
			o.store.set(int(slot), c.Cols, nil, i)
		}
		x := &o.at[slot]
		x.used = true
		x.weight += c.Weight(i)
		if c.Weight(i) > 0 {
			x.meta = o.e.meta(c.f, i)
			if at := c.f.final(i); !ok || at != x.finalAt {
				x.finalAt = at
				o.time.add(at, slot, o.e.wm)
			}
		}
		if x.weight < x.given || x.finalAt <= o.e.wm {
			o.give(d, slot)
		}
		o.toSave(slot)
	})
	d.send(o.outs)
}

func (o *finalOnly) differences() *differences {
	d := &differences{chunk{f: &frame{}}}
	for _, v := range o.store.cols {
		d.Cols = append(d.Cols, row.NewVector(v.Type, 0))
	}
	return d
}

// give gives on what of a row has not been given yet, and takes back what is no longer there.
func (o *finalOnly) give(d *differences, slot int32) {
	x := &o.at[slot]
	if x.weight != x.given {
		for c, v := range d.Cols {
			v.AppendFrom(o.store.cols[c], int(slot))
		}
		d.mark(x.weight-x.given, x.finalAt)
		d.f.ranks, d.f.times = append(d.f.ranks, x.meta.rank), append(d.f.times, x.meta.time)
		if o.e.cfg.Evidence {
			d.f.evidence = append(d.f.evidence, x.meta.evidence)
		}
		x.given = x.weight
		o.toSave(slot)
	}
}

func (o *finalOnly) fresh(key string) int32 {
	var slot int32
	if n := len(o.free); n > 0 {
		slot = o.free[n-1]
		o.free = o.free[:n-1]
	} else {
		slot = int32(len(o.at))
		o.at = append(o.at, finalRow{})
	}
	o.at[slot] = finalRow{key: key, live: true, changed: o.at[slot].changed}
	o.table[key] = slot
	o.keyBytes += int64(len(key))
	return slot
}

func (o *finalOnly) toSave(slot int32) {
	if x := &o.at[slot]; !x.changed {
		x.changed = true
		o.changed = append(o.changed, slot)
	}
}

func (o *finalOnly) drop(slot int32) {
	x := &o.at[slot]
	o.gone = append(o.gone, lost{x.key, x.listed})
	o.cold.drop(x.key)
	o.clear(slot)
}

// settle gives on the rows that became final.
func (o *finalOnly) settle(_, wm windows.Micros) {
	o.fetchDue(wm)
	if !o.time.anyDue(wm) {
		return
	}
	d := o.differences()
	o.time.eachDue(wm, func(at windows.Micros, slots []int32) {
		for _, slot := range slots {
			if x := &o.at[slot]; x.live && x.finalAt == at {
				o.give(d, slot)
			}
		}
	})
	d.send(o.outs)
}

// forget drops the rows whose windows are closed, and those that came and went.
func (o *finalOnly) forget(wm windows.Micros) {
	o.forgetCold(wm)
	o.time.eachClosed(wm, o.e.cfg.AllowedLateness, func(at windows.Micros, slots []int32) {
		for _, slot := range slots {
			if x := &o.at[slot]; x.live && x.finalAt == at {
				o.drop(slot)
			}
		}
	})
	o.dropEmpty()
}

// dropEmpty drops the rows that came and went.
func (o *finalOnly) dropEmpty() {
	for _, slot := range o.changed {
		if x := &o.at[slot]; x.live && x.weight == 0 && x.given == 0 {
			o.drop(slot)
		}
	}
}

func (o *finalOnly) correct(windows.Micros) {}
func (o *finalOnly) flush()                 {}
func (o *finalOnly) pending() bool          { return false }
func (o *finalOnly) open() bool             { return len(o.time.due) > 0 || o.cold.open() }

// A row: format, how often it is there and was given on, finalAt, its place in the log, its time,
// its events, its columns.
func (o *finalOnly) save(w *writes) {
	o.dropEmpty()
	o.cold.unlist(w, o.gone, o.stateKey)
	o.gone = o.gone[:0]
	for _, slot := range o.changed {
		x := &o.at[slot]
		if x.changed && x.live {
			dst := binary.AppendVarint(binary.AppendVarint([]byte{stateFormat}, x.weight), x.given)
			dst = binary.BigEndian.AppendUint64(dst, uint64(x.finalAt))
			for _, n := range []int64{x.meta.rank.Sequence, x.meta.rank.Offset, x.meta.time} {
				dst = binary.AppendVarint(dst, n)
			}
			dst = appendPlaces(dst, x.meta.evidence)
			for _, v := range o.store.cols {
				dst = row.AppendValue(dst, v, int(slot))
			}
			w.set(o.stateKey(x.key), dst)
			if o.e.store != nil {
				x.listed = o.cold.list(w, x.listed, x.finalAt, x.key)
			}
		}
		x.changed = false
	}
	o.changed = o.changed[:0]
}

func (o *finalOnly) load(key, value []byte) error {
	slot := o.fresh(string(key))
	x := &o.at[slot]
	r := reader{src: value}
	r.format()
	x.weight, x.given = r.varint(), r.varint()
	x.finalAt = r.watermark()
	for _, n := range []*int64{&x.meta.rank.Sequence, &x.meta.rank.Offset, &x.meta.time} {
		*n = r.varint()
	}
	x.meta.evidence = r.places()
	r.values(o.store, int(slot))
	if o.e.store != nil {
		x.listed = listed(x.finalAt)
	}
	return r.end()
}

// loaded puts the rows on the timeline: the watermark is known now.
func (o *finalOnly) loaded() error {
	for slot := range o.at {
		if x := &o.at[slot]; x.live {
			o.time.add(x.finalAt, int32(slot), o.e.wm)
		}
	}
	return nil
}
