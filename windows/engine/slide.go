package engine

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"slices"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/agg"
	"tidemark/windows/expr"
	"tidemark/windows/query"
)

// sliding gives each event in every window of its key that holds it: there is one for each
// distinct event time of the key. An event is judged by its own window alone (L4); taken, it makes
// its own window, with all that lies in it, and comes into the later ones that hold it. Windows
// only ever grow, so nothing is withdrawn.
//
// The rows of the last size + allowed lateness are kept. What the WHERE of the SELECT removes
// makes a window all the same, as in the batch answer.
type sliding struct {
	e       *Engine
	id      byte
	number  int
	kind    windows.Sliding
	timeCol int
	keys    []int
	where   *expr.Expr
	unsure  query.Unsure
	outs    targets
	options Function

	table    map[string]int32
	lists    []slideKey
	freeKeys []int32
	changed  []int32 // keys with rows to be saved
	lost     []lost  // keys
	cold     cold
	hand     int // as in marks
	// About the memory that keys and rows take: of all keys, and of the rows' texts.
	keyBytes, textBytes int64

	rows  []slideRow
	store *store
	free  []int32
	old   slideHeap // all rows, the oldest first
	added []int32   // rows to be saved
	gone  [][]byte

	// The batch in work.
	in         chunk
	passes     []int32 // rows whose own window passes the WHERE
	start, end *row.Vector

	errs   expr.Errors
	keyBuf []byte
	from   []int32
}

// slideKey is the rows of one key, by time and, within one time, as they came.
type slideKey struct {
	key     string
	rows    []int32
	live    bool
	changed bool // in changed
	used    bool // since the clock's hand passed it
	listed  listing
}

type slideRow struct {
	of   int32 // its key
	time windows.Micros
	rank agg.Rank
	// partition is that of the event.
	partition stream.Partition
	live      bool
	save      bool
}

// slideHeap orders rows by time.
type slideHeap struct {
	rows *[]slideRow
	at   []int32
}

func (h slideHeap) Len() int           { return len(h.at) }
func (h slideHeap) Less(i, j int) bool { return (*h.rows)[h.at[i]].time < (*h.rows)[h.at[j]].time }
func (h slideHeap) Swap(i, j int)      { h.at[i], h.at[j] = h.at[j], h.at[i] }
func (h *slideHeap) Push(x any)        { h.at = append(h.at, x.(int32)) }
func (h *slideHeap) Pop() any {
	x := h.at[len(h.at)-1]
	h.at = h.at[:len(h.at)-1]
	return x
}

func newSliding(e *Engine, id byte, in []row.Field) *sliding {
	ts := row.Scalar(row.Timestamp)
	o := &sliding{
		e: e, id: id, table: map[string]int32{}, store: newStore(in), start: row.NewVector(ts, 0), end: row.NewVector(ts, 0),
		cold: newCold(e, spaceSlide, id),
	}
	o.old.rows = &o.rows
	return o
}

// take keeps the batch until its step, and lets what lies behind compute each event with its own
// window, to find those that fail (E1).
func (o *sliding) take(c *chunk) {
	o.in = *c
	o.in.f = &frame{up: c.f, batch: true, origin: c.f.origin}
	o.start.Resize(c.Len)
	o.end.Resize(c.Len)
	for i, t := range c.Cols[o.timeCol].I64 {
		o.start.I64[i], o.end.I64[i] = o.kind.Own(t)
	}
	own := o.in
	own.Cols = append(slices.Clip(c.Cols), o.start, o.end)
	own.f = &frame{up: c.f, batch: true, origin: c.f.origin, trial: true}
	if o.where != nil {
		all := own
		own.sel = o.e.keep(o.where, &all, &o.errs, nil)
		o.passes = own.sel
		if o.unsure.Moving {
			own.sel = o.e.mayPass(o.where, o.unsure, &all, &o.errs)
		}
	}
	o.outs.send(&own)
	o.e.wait(o, &o.in)
}

// judge refuses events whose own window is closed.
func (o *sliding) judge() {
	c, e := &o.in, o.e
	if c.f == nil {
		return
	}
	times := c.Cols[o.timeCol].I64
	c.each(func(i int) {
		ev := c.f.event(i)
		t, met := times[i], e.met[ev]
		if t >= met || e.failed(ev) || c.f.wasRefused(i) {
			return
		}
		if met > windows.Later(t, o.options.AllowedLateness) {
			if c.f.refused == nil {
				c.f.refused = make([]bool, c.Len)
			}
			c.f.refused[i] = true
			e.anyRefused = true
		} else {
			e.cuts = append(e.cuts, cut{event: ev, finalAt: windows.AtOnce})
		}
		if o.given(i) && !o.options.Quiet {
			e.markLate(ev)
		}
	})
}

// given reports whether the own window of row i is given out: it passes the WHERE and did not begin
// before the view (R2).
func (o *sliding) given(i int) bool {
	if from := o.e.cfg.WindowsFrom; from != nil && o.start.I64[i] < *from {
		return false
	}
	if o.where == nil {
		return true
	}
	_, ok := slices.BinarySearch(o.passes, int32(i))
	return ok
}

func (o *sliding) outcomes() {
	c := &o.in
	if c.f == nil || o.options.Quiet {
		return
	}
	c.each(func(i int) {
		ev := c.f.event(i)
		if !o.e.late[ev] || o.e.failed(ev) || !o.given(i) {
			return
		}
		n := o.e.note(ev)
		switch {
		case c.f.refused != nil && c.f.refused[i]:
			n.refused = append(n.refused, Refusal{Function: o.number, Start: o.start.I64[i], End: o.end.I64[i]})
		case !c.f.wasRefused(i):
			n.taken = true
			n.corrected = n.corrected || o.e.met[ev] > o.end.I64[i]
		}
	})
}

func (o *sliding) done() { o.in = chunk{} }

// feed takes events and gives out the rows that they add.
func (o *sliding) feed(c *chunk, sel []int32) {
	out := &chunk{f: &frame{}}
	start, end := row.NewVector(o.start.Type, 0), row.NewVector(o.end.Type, 0)
	o.from = o.from[:0]
	add := func(r int32, window windows.Micros) {
		from, _ := o.kind.Own(window)
		if o.e.cfg.WindowsFrom != nil && from < *o.e.cfg.WindowsFrom {
			return
		}
		o.from = append(o.from, r)
		start.AppendInt64(from)
		end.AppendInt64(window)
		out.f.finalAt = append(out.f.finalAt, windows.Slide.FinalAt(window))
		out.f.ranks = append(out.f.ranks, o.rows[r].rank)
		out.f.times = append(out.f.times, window)
		if o.e.cfg.Evidence {
			x := &o.rows[r]
			out.f.evidence = append(out.f.evidence, []stream.Place{{Partition: x.partition, Offset: stream.Offset(x.rank.Offset)}})
		}
	}
	fed := chunk{Batch: c.Batch, sel: sel, f: c.f}
	fed.each(func(i int) {
		o.keyBuf = row.AppendRowKey(o.keyBuf[:0], &c.Batch, o.keys, i)
		t := c.Cols[o.timeCol].I64[i]
		n, ok := o.find(o.keyBuf)
		if !ok {
			n = o.newKey(string(o.keyBuf))
		}
		k := &o.lists[n]
		at, known := o.place(k, t)
		r := o.keep(c, i, n, t)
		k.rows = slices.Insert(k.rows, at, r)
		if known {
			add(r, t)
		} else {
			first, _ := o.kind.Own(t)
			from := o.search(k, first)
			for _, other := range k.rows[from : at+1] {
				add(other, t)
			}
		}
		last := t
		for _, other := range k.rows[at+1:] {
			w := o.rows[other].time
			if !o.kind.Holds(t, w) {
				break
			}
			if w != last {
				last = w
				add(r, w)
			}
		}
	})
	if len(o.from) == 0 {
		return
	}
	out.Len = len(o.from)
	for _, v := range o.store.cols {
		w := row.NewVector(v.Type, out.Len)
		gather(w, v, o.from)
		out.Cols = append(out.Cols, w)
	}
	out.Cols = append(out.Cols, start, end)
	if o.where != nil {
		out.sel = o.e.keep(o.where, out, &o.errs, nil)
	}
	o.outs.send(out)
}

// search is the place of the first row of a key with a time of t or later.
func (o *sliding) search(k *slideKey, t windows.Micros) int {
	at, _ := slices.BinarySearchFunc(k.rows, t, func(r int32, t windows.Micros) int {
		if o.rows[r].time < t {
			return -1
		}
		return 1
	})
	return at
}

// place is where a new row with time t goes, and whether the key has one of that time.
func (o *sliding) place(k *slideKey, t windows.Micros) (at int, known bool) {
	at = o.search(k, t+1)
	return at, at > 0 && o.rows[k.rows[at-1]].time == t
}

// newKey makes a key without rows.
func (o *sliding) newKey(key string) int32 {
	var n int32
	if k := len(o.freeKeys); k > 0 {
		n = o.freeKeys[k-1]
		o.freeKeys = o.freeKeys[:k-1]
	} else {
		n = int32(len(o.lists))
		o.lists = append(o.lists, slideKey{})
	}
	o.lists[n] = slideKey{key: key, live: true, changed: o.lists[n].changed}
	o.table[key] = n
	o.keyBytes += int64(len(key))
	return n
}

// keep keeps row i of c, of key n.
func (o *sliding) keep(c *chunk, i int, n int32, t windows.Micros) int32 {
	r := o.newRow(n, t, o.e.rank(c.f, i), o.e.in.Partition)
	o.store.set(int(r), c.Cols, nil, i)
	o.textBytes += o.store.textBytes(int(r))
	o.rows[r].save = true
	o.added = append(o.added, r)
	k := &o.lists[n]
	k.used = true
	if !k.changed {
		k.changed = true
		o.changed = append(o.changed, n)
	}
	return r
}

func (o *sliding) newRow(of int32, t windows.Micros, rank agg.Rank, p stream.Partition) int32 {
	var r int32
	if n := len(o.free); n > 0 {
		r = o.free[n-1]
		o.free = o.free[:n-1]
	} else {
		r = int32(len(o.rows))
		o.rows = append(o.rows, slideRow{})
	}
	o.rows[r] = slideRow{of: of, time: t, rank: rank, partition: p, live: true}
	heap.Push(&o.old, r)
	return r
}

// Differences are given out at once, so there is nothing to flush.
func (o *sliding) settle(_, _ windows.Micros) {}
func (o *sliding) correct(windows.Micros)     {}
func (o *sliding) flush()                     {}
func (o *sliding) pending() bool              { return false }

// forget drops rows that no window can take any more: those of size + allowed lateness ago.
func (o *sliding) forget(wm windows.Micros) {
	o.fetchClosed(wm)
	for len(o.old.at) > 0 {
		r := o.old.at[0]
		x := &o.rows[r]
		if windows.Later(windows.Later(x.time, o.kind.Size), o.options.AllowedLateness) >= wm {
			return
		}
		heap.Pop(&o.old)
		if !x.save { // what was never saved needs no deletion
			o.gone = append(o.gone, o.rowKey(x))
		}
		of, k := x.of, &o.lists[x.of]
		k.rows = k.rows[1:] // rows of a key leave in the order of their times
		o.clear(r)
		if len(k.rows) == 0 {
			o.lost = append(o.lost, lost{k.key, k.listed})
			o.cold.drop(k.key)
			o.clearKey(of)
		}
	}
}

// clear makes the number of a row free.
func (o *sliding) clear(r int32) {
	o.textBytes -= o.store.textBytes(int(r))
	o.rows[r] = slideRow{}
	o.store.clear(int(r))
	o.free = append(o.free, r)
}

// clearKey makes the number of a key free, which has no rows here.
func (o *sliding) clearKey(n int32) {
	k := &o.lists[n]
	delete(o.table, k.key)
	o.keyBytes -= int64(len(k.key))
	*k = slideKey{changed: k.changed}
	o.freeKeys = append(o.freeKeys, n)
}

// keptRowKey is the key of an event's row that an operator keeps by its key: in the order of event
// time, then of the log.
func keptRowKey(space, operator byte, key string, t windows.Micros, rank agg.Rank) []byte {
	out := append([]byte{space, operator}, key...)
	out = binary.BigEndian.AppendUint64(out, uint64(t)^1<<63)
	out = binary.BigEndian.AppendUint64(out, uint64(rank.Sequence))
	return binary.BigEndian.AppendUint64(out, uint64(rank.Offset))
}

// A row is kept under its key, its time, sequence and offset; the value is the event's partition
// and the row.
func (o *sliding) rowKey(x *slideRow) []byte {
	return keptRowKey(spaceSlide, o.id, o.lists[x.of].key, x.time, x.rank)
}

func (o *sliding) save(w *writes) {
	o.cold.unlist(w, o.lost, nil)
	o.lost = o.lost[:0]
	for _, key := range o.gone {
		w.drop(key)
	}
	o.gone = o.gone[:0]
	for _, r := range o.added {
		x := &o.rows[r]
		if !x.live || !x.save {
			continue
		}
		x.save = false
		dst := binary.AppendVarint([]byte{stateFormat}, int64(x.partition))
		for _, v := range o.store.cols {
			dst = row.AppendValue(dst, v, int(r))
		}
		w.set(o.rowKey(x), dst)
	}
	o.added = o.added[:0]
	for _, n := range o.changed {
		k := &o.lists[n]
		if k.live && k.changed && o.e.store != nil {
			k.listed = o.cold.list(w, k.listed, o.last(k), k.key)
		}
		k.changed = false
	}
	o.changed = o.changed[:0]
}

func (o *sliding) load(key, value []byte) error {
	n := len(key) - 24
	if n < 0 {
		return errState
	}
	num := func(at int) int64 { return int64(binary.BigEndian.Uint64(key[at:])) }
	t := int64(uint64(num(n)) ^ 1<<63)
	in := reader{src: value}
	in.format()
	p := stream.Partition(in.varint())
	of, ok := o.table[string(key[:n])]
	if !ok {
		of = o.newKey(string(key[:n]))
	}
	r := o.newRow(of, t, agg.Rank{Sequence: num(n + 8), Offset: num(n + 16)}, p)
	in.values(o.store, int(r))
	o.textBytes += o.store.textBytes(int(r))
	o.lists[of].rows = append(o.lists[of].rows, r)
	return in.end()
}

// loaded orders the rows of each key.
func (o *sliding) loaded() error {
	for n := range o.lists {
		o.order(&o.lists[n])
	}
	return nil
}

// order orders the rows of a key that was loaded: by time and, within one, by their place in the log.
func (o *sliding) order(k *slideKey) {
	slices.SortFunc(k.rows, func(a, b int32) int {
		x, y := &o.rows[a], &o.rows[b]
		return cmp.Or(cmp.Compare(x.time, y.time), x.rank.Compare(y.rank))
	})
	if o.e.store != nil {
		k.listed = listed(o.last(k))
	}
}
