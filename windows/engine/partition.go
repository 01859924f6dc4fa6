package engine

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/agg"
	"tidemark/windows/query"
)

// partitions keeps rows in partitions, in order, for operators that look at a row's neighbours.
type partitions struct {
	e        *Engine
	id       byte
	cols     []int // a partition's rows agree in these
	order    []query.Sort
	peers    int // rows that agree in the first keys of order, this many, are peers
	byLog    bool
	then     []int
	windowed bool
	// keep, where it is not 0, is how many rows of a partition can ever be of use.
	keep int64
	// best, where it is not nil, says which rows of a partition can ever be of use.
	best *query.Best
	// give gives out what changed in partitions.
	give func(slots []int32)

	table map[string]int32
	parts []part
	marks marks
	rows  sorted
	gone  []lost
	cold  cold
	// keyBytes is what the keys of partitions take.
	keyBytes int64

	keyBuf, sortBuf []byte
	saving          []int32      // scratch: rows of the partition that is saved
	out             *differences // scratch: what is given out
}

// part is one partition.
type part struct {
	key   string
	rows  []int32 // in order
	given []int32 // the rows given out; some may have left the partition since
	// givenAt is the finalAt that was given out with them: what lies behind counts by that.
	givenAt windows.Micros
	ends    map[windows.Micros]int64
}

func newPartitions(e *Engine, id byte, in []row.Field) partitions {
	return partitions{e: e, id: id, table: map[string]int32{}, marks: marks{e: e}, rows: sorted{store: newStore(in)}, cold: newCold(e, spacePartition, id)}
}

func (o *partitions) feed(c *chunk, sel []int32) {
	fed := chunk{Batch: c.Batch, sel: sel, f: c.f}
	fed.each(func(i int) {
		if o.best != nil && c.Cols[o.best.Col].IsNull(i) {
			return
		}
		o.keyBuf = row.AppendRowKey(o.keyBuf[:0], &c.Batch, o.cols, i)
		slot, ok := o.find(o.keyBuf)
		if !ok {
			slot = o.newPart(string(o.keyBuf))
		}
		p := &o.parts[slot]
		if o.windowed {
			p.ends = countEnd(&o.marks, slot, p.ends, c.f.final(i), c.Weight(i), o.e.loose)
		}
		if o.best != nil && !o.outdo(p, c.Cols[o.best.Col], i) {
			return
		}
		meta := o.e.meta(c.f, i)
		o.sortBuf = appendSort(o.sortBuf[:0], c.Cols, o.order[:o.peers], i)
		peers := len(o.sortBuf)
		o.sortBuf = appendSort(o.sortBuf, c.Cols, o.order[o.peers:], i)
		if o.byLog {
			o.sortBuf = appendRank(o.sortBuf, meta.rank)
			for _, col := range o.then {
				o.sortBuf = row.AppendKey(o.sortBuf, c.Cols[col], i)
			}
		}
		if n := len(p.rows); o.keep > 0 && int64(n) >= o.keep && c.Weight(i) > 0 && o.rows.at[p.rows[n-1]].sort <= string(o.sortBuf) {
			return // it would be the first to leave again
		}
		if c.Weight(i) < 0 {
			p.rows = o.rows.remove(p.rows, o.sortBuf, c.Cols, i)
		} else {
			p.rows = o.rows.insert(p.rows, o.sortBuf, peers, c.Cols, i, meta)
			if n := len(p.rows); o.keep > 0 && int64(n) > o.keep {
				o.rows.leave(p.rows[n-1])
				p.rows = p.rows[:n-1]
			}
		}
		o.marks.touch(slot)
	})
}

// outdo takes the rows out of a partition that are worse than the one with value i of v, and reports
// whether that one, which is not NULL, is as good as those that stay. A partition of a state from before worse rows were
// left out may hold some until then; they do no harm.
func (o *partitions) outdo(p *part, v *row.Vector, i int) bool {
	held := o.rows.store.cols[o.best.Col]
	compare := func(r int32) int { // of the one that comes with one that is here
		switch {
		case held.IsNull(int(r)):
			return 1
		case o.best.Least:
			return cmp.Compare(held.I64[r], v.I64[i])
		}
		return cmp.Compare(v.I64[i], held.I64[r])
	}
	if len(p.rows) == 0 {
		return true
	}
	first := compare(p.rows[0])
	if first > 0 {
		p.rows = slices.DeleteFunc(p.rows, func(r int32) bool {
			worse := compare(r) > 0
			if worse {
				o.rows.leave(r)
			}
			return worse
		})
	}
	return first >= 0
}

// countEnd keeps a partition's finalAt: the latest of its rows. Only in a loose plan can that go
// back, and only there the rows are counted.
func countEnd(m *marks, slot int32, ends map[windows.Micros]int64, at windows.Micros, weight int64, loose bool) map[windows.Micros]int64 {
	if !loose {
		m.rise(slot, at)
		return nil
	}
	if ends == nil {
		ends = map[windows.Micros]int64{}
	}
	if ends[at] += weight; ends[at] == 0 {
		delete(ends, at)
	}
	latest := windows.AtOnce
	for at := range ends {
		latest = max(latest, at)
	}
	if len(ends) > 0 { // what is empty stays where it was
		m.move(slot, latest)
	}
	return ends
}

func (o *partitions) newPart(key string) int32 {
	finalAt := windows.Never
	if o.windowed {
		finalAt = windows.AtOnce
	}
	slot, grown := o.marks.take(finalAt)
	if grown {
		o.parts = append(o.parts, part{})
	}
	o.parts[slot] = part{key: key}
	o.table[key] = slot
	o.keyBytes += int64(len(key))
	return slot
}

func (o *partitions) settle(_, wm windows.Micros) {
	o.fetchDue(wm)
	o.give(o.marks.due(wm))
	if o.e.loose {
		o.flush()
	}
}

func (o *partitions) correct(windows.Micros) {
	if len(o.marks.late) > 0 {
		o.give(o.marks.corrected())
	}
}

func (o *partitions) flush()        { o.give(o.marks.all()) }
func (o *partitions) pending() bool { return o.marks.pending() }
func (o *partitions) open() bool    { return o.marks.open() || o.cold.open() }

func (o *partitions) forget(wm windows.Micros) {
	o.forgetCold(wm)
	o.marks.closed(wm, o.drop)
}

// dropEmpty lets go of the partitions that have no rows any more.
func (o *partitions) dropEmpty(slots []int32) {
	for _, slot := range slots {
		if len(o.parts[slot].rows) == 0 {
			o.drop(slot)
		}
	}
}

func (o *partitions) drop(slot int32) {
	key := o.parts[slot].key
	o.gone = append(o.gone, lost{key, o.marks.at[slot].listed})
	o.cold.drop(key)
	o.clear(slot)
	o.marks.drop(slot)
}

// A partition: format, flags (1 changed since it was last given out, 2 rows counted by finalAt, 4 its
// rows were given out with another finalAt), finalAt, with 4 that other, with 2 the counts, the number of rows, and each row as sorted writes it: those in the
// partition in order, then those that were given out and have left it.
func (o *partitions) save(w *writes) {
	o.cold.unlist(w, o.gone, o.stateKey)
	o.gone = o.gone[:0]
	o.marks.save(func(slot int32) {
		p, k := &o.parts[slot], &o.marks.at[slot]
		earlier := len(p.given) > 0 && p.givenAt != k.finalAt
		dst := append(w.value(), stateFormat, bit(k.dirty)|bit(p.ends != nil)<<1|bit(earlier)<<2)
		dst = binary.BigEndian.AppendUint64(dst, uint64(k.finalAt))
		if earlier {
			dst = binary.BigEndian.AppendUint64(dst, uint64(p.givenAt))
		}
		if p.ends != nil {
			dst = appendEnds(dst, p.ends)
		}
		rows := append(o.saving[:0], p.rows...)
		for _, r := range p.given {
			if !o.rows.at[r].in {
				rows = append(rows, r)
			}
		}
		dst = binary.AppendVarint(dst, int64(len(rows)))
		for _, r := range rows {
			dst = o.rows.append(dst, r)
		}
		o.saving = rows
		w.set(o.stateKey(p.key), w.kept(dst))
		if o.e.store != nil {
			k.listed = o.cold.list(w, k.listed, k.finalAt, p.key)
		}
	})
}

func (o *partitions) load(key, value []byte) error {
	slot := o.newPart(string(key))
	p := &o.parts[slot]
	r := reader{src: value}
	r.format()
	flags := r.byte()
	o.marks.restore(slot, r.watermark(), flags&1 != 0)
	p.givenAt = o.marks.at[slot].finalAt
	if flags&4 != 0 {
		p.givenAt = r.watermark()
	}
	if flags&2 != 0 {
		p.ends = r.ends()
	}
	for n := r.varint(); n > 0 && !r.bad; n-- {
		x := o.rows.read(&r)
		if o.rows.at[x].in {
			p.rows = append(p.rows, x)
		}
		if o.rows.at[x].number > 0 {
			p.given = append(p.given, x)
		}
	}
	if k := &o.marks.at[slot]; o.e.store != nil {
		k.listed = listed(k.finalAt)
	}
	return r.end()
}

func (o *partitions) loaded() error {
	o.marks.loaded()
	return nil
}

// sorted keeps rows under numbers, for operators that order them.
type sorted struct {
	store *store
	out   *store // the values that were given out behind a row's columns; nil: its number or nothing
	at    []sortedRow
	unset []int32
	// sortBytes is what the orders of rows take.
	sortBytes int64
}

type sortedRow struct {
	sort   string
	peers  int // how much of sort peers share
	meta   meta
	in     bool  // in its partition's list
	number int64 // its place when it was given out, from 1; 0: it was not
	next   int64 // scratch: as it will be given out
}

// meta is what is known of a row besides its columns.
type meta struct {
	rank     agg.Rank
	time     windows.Micros
	evidence []stream.Place
}

// meta is that of row i of a frame.
func (e *Engine) meta(f *frame, i int) meta {
	var m meta
	switch {
	case f.ranks != nil:
		m.rank = f.ranks[i]
	case f.batch:
		m.rank = e.rank(f, i)
	}
	m.time = e.emit.timeOf(f, i)
	if e.cfg.Evidence {
		m.evidence = e.evidence(nil, f, i)
	}
	return m
}

// insert puts row i of cols into a list, behind those of the same order.
func (s *sorted) insert(list []int32, key []byte, peers int, cols []*row.Vector, i int, m meta) []int32 {
	x := s.fresh(sortedRow{sort: string(key), peers: peers, meta: m, in: true})
	s.store.set(int(x), cols, nil, i)
	at, _ := slices.BinarySearchFunc(list, s.at[x].sort, func(y int32, key string) int {
		if s.at[y].sort <= key {
			return -1
		}
		return 1
	})
	return slices.Insert(list, at, x)
}

// remove takes a row that equals row i of cols from a list.
func (s *sorted) remove(list []int32, key []byte, cols []*row.Vector, i int) []int32 {
	at, _ := slices.BinarySearchFunc(list, string(key), func(y int32, key string) int { return strings.Compare(s.at[y].sort, key) })
	for k := at; k < len(list) && s.at[list[k]].sort == string(key); k++ {
		if exactRow(s.store.cols, int(list[k]), cols, nil, i) {
			s.leave(list[k])
			return slices.Delete(list, k, k+1)
		}
	}
	return list
}

// leave takes a row out of its partition; one that was given out is kept until it is withdrawn.
func (s *sorted) leave(x int32) {
	s.at[x].in = false
	if s.at[x].number == 0 {
		s.free(x)
	}
}

func (s *sorted) fresh(r sortedRow) int32 {
	var x int32
	if n := len(s.unset); n > 0 {
		x = s.unset[n-1]
		s.unset = s.unset[:n-1]
	} else {
		x = int32(len(s.at))
		s.at = append(s.at, sortedRow{})
	}
	s.at[x] = r
	s.sortBytes += int64(len(r.sort))
	return x
}

func (s *sorted) free(x int32) {
	s.sortBytes -= int64(len(s.at[x].sort))
	s.at[x] = sortedRow{}
	s.store.clear(int(x))
	s.unset = append(s.unset, x)
}

// emit gives out a row; the caller adds what comes behind its columns.
func (s *sorted) emit(d *differences, x int32, weight int64, finalAt windows.Micros) {
	r := &s.at[x]
	for c, v := range s.store.cols {
		d.Cols[c].AppendFrom(v, int(x))
	}
	d.mark(weight, finalAt)
	d.f.ranks = append(d.f.ranks, r.meta.rank)
	d.f.times = append(d.f.times, r.meta.time)
	if r.meta.evidence != nil || d.f.evidence != nil {
		for len(d.f.evidence) < d.Len-1 {
			d.f.evidence = append(d.f.evidence, nil)
		}
		d.f.evidence = append(d.f.evidence, r.meta.evidence)
	}
}

// append writes a row: its order, flags (1 in the partition), number, rank, time, how much of the
// order peers share, places, columns, and, where it was given out with values, those.
func (s *sorted) append(dst []byte, x int32) []byte {
	r := &s.at[x]
	dst = binary.AppendVarint(dst, int64(len(r.sort)))
	dst = append(dst, r.sort...)
	dst = append(dst, bit(r.in))
	for _, n := range []int64{r.number, r.meta.rank.Sequence, r.meta.rank.Offset, r.meta.time, int64(r.peers)} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = appendPlaces(dst, r.meta.evidence)
	for _, v := range s.store.cols {
		dst = row.AppendValue(dst, v, int(x))
	}
	if s.out != nil && r.number > 0 {
		for _, v := range s.out.cols {
			dst = row.AppendValue(dst, v, int(x))
		}
	}
	return dst
}

func (s *sorted) read(r *reader) int32 {
	x := s.fresh(sortedRow{})
	k := &s.at[x]
	k.sort = string(r.bytes(r.varint()))
	s.sortBytes += int64(len(k.sort))
	k.in = r.byte() == 1
	for _, n := range []*int64{&k.number, &k.meta.rank.Sequence, &k.meta.rank.Offset, &k.meta.time} {
		*n = r.varint()
	}
	k.peers = int(r.varint())
	k.meta.evidence = r.places()
	r.values(s.store, int(x))
	if s.out != nil && k.number > 0 {
		r.values(s.out, int(x))
	}
	return x
}

// appendSort writes the order of row i so that bytes compare as the rows do.
func appendSort(dst []byte, cols []*row.Vector, order []query.Sort, i int) []byte {
	for _, k := range order {
		v := cols[k.Col]
		if v.IsNull(i) {
			dst = append(dst, bit(k.NullsLast)<<1)
			continue
		}
		dst = append(dst, 1)
		from := len(dst)
		dst = row.AppendKey(dst, v, i)
		if k.Desc {
			for n := from; n < len(dst); n++ {
				dst[n] = ^dst[n]
			}
		}
	}
	return dst
}

// appendRank writes a place in the log so that bytes compare as places do.
func appendRank(dst []byte, r agg.Rank) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Sequence))
	return binary.BigEndian.AppendUint64(dst, uint64(r.Offset))
}
