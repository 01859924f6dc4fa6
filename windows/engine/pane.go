package engine

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"

	"tidemark/storage/row"
	"tidemark/windows"
)

// paneSpan cuts time into panes: the widest pieces of which every window of a hop holds whole ones.
// Panes are numbered; a window has the number of its first pane.
type paneSpan struct {
	origin, width windows.Micros
	size, slide   int64 // in panes
	// from is the least start of windows that are given out (R2).
	from *windows.Micros
	// allowed is how long after its end a window takes events.
	allowed windows.Micros
}

// newPaneSpan returns nil where windows don't share panes.
func newPaneSpan(slide, size windows.Interval, from *windows.Micros) *paneSpan {
	every, ok1 := slide.Span()
	long, ok2 := size.Span()
	if !ok1 || !ok2 || every <= 0 || long <= every {
		return nil
	}
	width := every
	for rest := long; rest != 0; {
		width, rest = rest, width%rest
	}
	return &paneSpan{origin: slide.Bucket(0), width: width, size: long / width, slide: every / width, from: from}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// pane is the pane that holds t.
func (p *paneSpan) pane(t windows.Micros) int64 { return floorDiv(t-p.origin, p.width) }

func (p *paneSpan) start(w int64) windows.Micros { return p.origin + w*p.width }
func (p *paneSpan) end(w int64) windows.Micros   { return p.origin + (w+p.size)*p.width }

// first and last are the earliest and the latest window that hold a pane.
func (p *paneSpan) first(pane int64) int64 {
	w := -floorDiv(-(pane-p.size+1), p.slide) * p.slide
	if p.from != nil {
		for p.start(w) < *p.from && w <= pane {
			w += p.slide
		}
	}
	return w
}

func (p *paneSpan) last(pane int64) int64 { return floorDiv(pane, p.slide) * p.slide }

// lastFinal is the latest window that is final at wm.
func (p *paneSpan) lastFinal(wm windows.Micros) int64 {
	return floorDiv(floorDiv(wm-p.origin, p.width)-p.size, p.slide) * p.slide
}

// panes keeps, for an aggregate behind a hop, one partial aggregate a pane and group: its leaves. An
// event touches one of them, however many windows it lies in. The groups of the aggregate itself,
// one a window and key, are filled from leaves when their rows are needed: when the window becomes
// final, when a late event corrects it, and, where provisional rows are given out, when those are.
//
// Leaves of one group are merged over a tree of aligned blocks of panes (Tangwongsan and others,
// General Incremental Sliding-Window Aggregation, 2015), so a window of n panes takes about
// 2·log₂ n merges. Inner nodes are made when they are first asked for, and thrown away when a leaf
// beneath changes; they are no part of the saved state.
//
// A late event that some of its windows refuse must not be seen by those, although they may still
// be given out at the end of the entry. It goes into states of their own, one for each window that
// takes it: extras. Its leaf is there, maybe empty, so that its group is found.
//
//	P1  A window's row is made of its leaves and extras alone, in the order of time: how often it
//	    was filled before has no influence (G1).
//	P2  A leaf is there as long as a window that holds it is not closed.
type panes struct {
	*paneSpan
	a      *aggregate
	bounds []int8 // for each key of the aggregate: 1 the window's start, 2 its end, 0 a column of the group
	keys   []int  // the input's columns of the latter
	pane   int    // the input's column that tells the pane

	table   table
	groups  []paneGroup
	free    []int32
	keyCols *store

	// at are the groups with a leaf in a pane. Panes wait in ahead until a window that holds them is
	// final, then in closing until the last one is closed.
	at             map[int64][]int32
	ahead, closing timeHeap
	// swept is the last window that became final; cur are the groups with leaves in later windows,
	// of panes that are no longer ahead.
	swept  int64
	begun  bool
	cur    []int32
	closed windows.Micros // the watermark when the last entry ended

	dirty   []int32 // groups with leaves whose provisional rows were not given out yet
	late    []paneOf
	changed []paneOf
	gone    [][]byte
	nodes   map[node]int32
	extras  map[int64]map[int32]*extra // by window and group
	cold    cold                       // by number of pane, or of window
	hand    int                        // as in marks
	// parts is how many leaves and extras there are; keyBytes what the keys of groups take.
	parts, keyBytes int64

	keyBuf   []byte
	kept     []int32
	exSel    []int32
	exTo     []int32
	boundVec *row.Vector
}

type paneGroup struct {
	key    string
	leaves []leaf // by pane
	extras int
	inCur  bool
	dirty  bool
	used   bool // since the clock's hand passed it
}

type leaf struct {
	pane    int64
	slot    int32 // of the aggregate, which counts its rows
	dirty   bool  // changed since provisional rows were given out
	late    bool  // in late
	changed bool  // in changed
	cached  bool  // a node may hold it
	saved   bool
	// unlisted: the index doesn't have it, or not behind the leaf that it lies behind now.
	unlisted bool
}

type paneOf struct {
	group int32
	pane  int64
	// extra: pane is a window's number.
	extra bool
}

// node is 2^level panes from number<<level on.
type node struct {
	group  int32
	level  uint8
	number int64
}

type extra struct {
	slot           int32
	rows           int64
	changed, saved bool
}

func newPanes(a *aggregate, span *paneSpan, bounds []int8) *panes {
	p := &panes{
		paneSpan: span, a: a, bounds: bounds, at: map[int64][]int32{}, nodes: map[node]int32{}, extras: map[int64]map[int32]*extra{},
		cold: newCold(a.e, spacePane, a.id), closed: windows.NoWatermark, boundVec: row.NewVector(row.Scalar(row.Timestamp), 1),
	}
	var fields []row.Field
	for k, col := range a.keys {
		if bounds[k] != 0 {
			p.pane = col
			continue
		}
		p.keys = append(p.keys, col)
		fields = append(fields, a.fields[k])
	}
	p.keyCols = newUnsigned(fields)
	p.boundVec.Resize(1)
	p.table.keyOf = func(g int32) string { return p.groups[g].key }
	return p
}

// search is the number of the first leaf at or behind a pane.
func (g *paneGroup) search(pane int64) int {
	if n := len(g.leaves); n > 0 && g.leaves[n-1].pane <= pane {
		if g.leaves[n-1].pane == pane {
			return n - 1
		}
		return n
	}
	at, _ := slices.BinarySearchFunc(g.leaves, pane, func(l leaf, pane int64) int { return cmp.Compare(l.pane, pane) })
	return at
}

// feed adds rows that follow from events to the leaves of their groups.
func (p *panes) feed(c *chunk, sel []int32) {
	a := p.a
	a.slots, p.kept, p.exSel, p.exTo = a.slots[:0], p.kept[:0], p.exSel[:0], p.exTo[:0]
	times := c.Cols[p.pane].I64
	lastGroup, lastAt, lastSlot, lastKey := int32(-1), windows.Micros(0), int32(-1), ""
	fed := chunk{Batch: c.Batch, sel: sel}
	for k, n := 0, fed.rows(); k < n; k++ {
		i := fed.row(k)
		p.keyBuf = row.AppendRowKey(p.keyBuf[:0], &c.Batch, p.keys, i)
		partial := c.f.partial != nil && c.f.partial[i]
		if lastGroup < 0 || times[i] != lastAt || string(p.keyBuf) != lastKey || partial {
			g := lastGroup
			if g < 0 || string(p.keyBuf) != lastKey {
				g = p.group(c, i)
				p.groups[g].used = true
			}
			pane := p.paneSpan.pane(times[i])
			l := p.leaf(g, pane)
			p.touch(g, l)
			if partial {
				p.split(g, pane, i, a.e.met[c.f.event(i)])
				lastGroup = -1
				continue
			}
			lastGroup, lastAt, lastSlot, lastKey = g, times[i], l.slot, p.groups[g].key
		}
		a.groups[lastSlot].rows++
		if c.f.partial != nil {
			p.kept = append(p.kept, int32(i))
		}
		a.slots = append(a.slots, lastSlot)
	}
	if c.f.partial != nil {
		sel = p.kept
	}
	if len(a.slots) > 0 {
		a.add(c, sel, a.slots)
	}
	if len(p.exSel) > 0 {
		a.add(c, p.exSel, p.exTo)
	}
}

// split adds a row to the windows that take it, one by one.
func (p *panes) split(g int32, pane int64, i int, met windows.Micros) {
	for w := p.first(pane); w <= p.last(pane); w += p.slide {
		if met >= windows.Later(p.end(w), p.allowed) {
			continue
		}
		x := p.extra(w, g)
		x.rows++
		if !x.changed {
			x.changed = true
			p.changed = append(p.changed, paneOf{g, w, true})
		}
		p.exSel, p.exTo = append(p.exSel, int32(i)), append(p.exTo, x.slot)
	}
}

func (p *panes) extra(w int64, g int32) *extra {
	byGroup := p.extras[w]
	if byGroup == nil {
		byGroup = map[int32]*extra{}
		p.extras[w] = byGroup
	}
	x := byGroup[g]
	if x == nil {
		x = &extra{slot: p.a.state()}
		byGroup[g] = x
		p.groups[g].extras++
		p.parts++
	}
	return x
}

// group finds or makes the group whose key is in keyBuf.
func (p *panes) group(c *chunk, i int) int32 {
	g, ok := p.find(p.keyBuf)
	if !ok {
		g = p.newGroup(string(p.keyBuf))
		p.keyCols.set(int(g), c.Cols, p.keys, i)
	}
	return g
}

func (p *panes) newGroup(key string) int32 {
	var g int32
	if n := len(p.free); n > 0 {
		g = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		g = int32(len(p.groups))
		p.groups = append(p.groups, paneGroup{})
	}
	p.groups[g].key = key
	p.table.put(key, g)
	p.keyBytes += int64(len(key))
	return g
}

// leaf finds or makes the leaf of a group and pane.
func (p *panes) leaf(g int32, pane int64) *leaf {
	group := &p.groups[g]
	at := group.search(pane)
	if at < len(group.leaves) && group.leaves[at].pane == pane {
		return &group.leaves[at]
	}
	p.insert(g, at, pane).unlisted = true
	p.uncache(g, pane)
	p.list(g, pane)
	if at+1 < len(group.leaves) { // K5
		next := &group.leaves[at+1]
		next.unlisted = true
		p.toSave(g, next)
	}
	return &group.leaves[at]
}

// insert makes a leaf, which is the at-th of its group.
func (p *panes) insert(g int32, at int, pane int64) *leaf {
	group := &p.groups[g]
	group.leaves = slices.Insert(group.leaves, at, leaf{pane: pane, slot: p.a.state()})
	p.parts++
	return &group.leaves[at]
}

func (p *panes) toSave(g int32, l *leaf) {
	if !l.changed {
		l.changed = true
		p.changed = append(p.changed, paneOf{group: g, pane: l.pane})
	}
}

// list notes that a group has a leaf in a pane.
func (p *panes) list(g int32, pane int64) {
	behind := p.begun && pane < p.swept+p.size // a final window reaches as far
	groups, known := p.at[pane]
	if !known {
		if behind {
			heap.Push(&p.closing, pane)
		} else {
			heap.Push(&p.ahead, pane)
		}
	}
	p.at[pane] = append(groups, g)
	if behind && p.last(pane) > p.swept {
		p.join(g)
	}
}

// join puts a group into cur.
func (p *panes) join(g int32) {
	if !p.groups[g].inCur {
		p.groups[g].inCur = true
		p.cur = append(p.cur, g)
	}
}

// touch notes that a leaf changes.
func (p *panes) touch(g int32, l *leaf) {
	e := p.a.e
	if l.cached {
		l.cached = false
		p.uncache(g, l.pane)
	}
	p.toSave(g, l)
	if !l.dirty && (!e.cfg.EmitFinal || e.loose) {
		l.dirty = true
		p.soil(g)
	}
	if !l.late && p.end(p.first(l.pane)) <= e.wm {
		l.late = true
		p.late = append(p.late, paneOf{group: g, pane: l.pane})
	}
}

func (p *panes) soil(g int32) {
	if group := &p.groups[g]; !group.dirty {
		group.dirty = true
		p.dirty = append(p.dirty, g)
	}
}

// sweep fills the windows that become final at wm.
func (p *panes) sweep(wm windows.Micros) {
	if wm == windows.NoWatermark {
		return
	}
	final := p.lastFinal(wm)
	if p.begun && final <= p.swept {
		return
	}
	p.sweepCold(final)
	for w, known := p.swept+p.slide, p.begun; ; w += p.slide {
		if len(p.cur) == 0 {
			if len(p.ahead) == 0 {
				break
			}
			if next := p.first(p.ahead[0]); !known || next > w {
				w = next
			}
		}
		known = true
		if w > final {
			break
		}
		for len(p.ahead) > 0 && p.ahead[0] < w+p.size {
			pane := heap.Pop(&p.ahead).(int64)
			heap.Push(&p.closing, pane)
			for _, g := range p.at[pane] {
				p.join(g)
			}
		}
		still := p.cur[:0]
		for _, g := range p.cur {
			p.fill(w, g)
			group := &p.groups[g]
			if n := len(group.leaves); n > 0 && group.leaves[n-1].pane >= w+p.slide {
				still = append(still, g)
			} else {
				group.inCur = false
			}
		}
		p.cur = still
	}
	p.swept, p.begun = final, true
}

// correct fills the windows that late events changed after they were final.
func (p *panes) correct() {
	for _, of := range p.late {
		group := &p.groups[of.group]
		at := group.search(of.pane)
		if at == len(group.leaves) || group.leaves[at].pane != of.pane {
			continue
		}
		group.leaves[at].late = false
		for w := p.first(of.pane); w <= p.last(of.pane) && p.end(w) <= p.a.e.wm; w += p.slide {
			if !p.wasClosed(w) {
				p.fill(w, of.group)
			}
		}
	}
	p.late = p.late[:0]
}

// wasClosed reports whether a window was closed when the entry began.
func (p *panes) wasClosed(w int64) bool {
	return windows.Later(p.end(w), p.a.e.cfg.AllowedLateness) <= p.closed
}

// flush fills the open windows that changed.
func (p *panes) flush() {
	for _, g := range p.dirty {
		group := &p.groups[g]
		if !group.dirty {
			continue
		}
		group.dirty = false
		done := false
		var next int64
		for k := range group.leaves {
			l := &group.leaves[k]
			if !l.dirty {
				continue
			}
			l.dirty = false
			p.toSave(g, l)
			w := p.first(l.pane)
			if done {
				w = max(w, next)
			}
			for ; w <= p.last(l.pane); w += p.slide {
				if p.end(w) > p.a.e.wm {
					p.fill(w, g)
				}
			}
			next, done = w, true
		}
	}
	p.dirty = p.dirty[:0]
}

// fill makes the aggregate's group of a window and a group anew.
func (p *panes) fill(w int64, g int32) {
	a, group := p.a, &p.groups[g]
	if p.from != nil && p.start(w) < *p.from {
		return
	}
	from, to := group.search(w), group.search(w+p.size)
	rows := int64(0) // enough to know that there are some
	for k := from; k < to && rows == 0; k++ {
		rows = a.groups[group.leaves[k].slot].rows
	}
	var x *extra
	if len(p.extras) > 0 {
		if x = p.extras[w][g]; x != nil {
			rows += x.rows
		}
	}
	if rows == 0 {
		return
	}
	p.windowKey(w, group.key, g)
	slot, ok := a.find(p.keyBuf)
	if !ok {
		slot = a.newSlot(string(p.keyBuf))
		own := 0
		for k, b := range p.bounds {
			v := a.keyCols.cols[k]
			if b == 0 {
				setValue(v, int(slot), p.keyCols.cols[own], int(g))
				own++
				continue
			}
			p.boundVec.I64[0] = p.bound(w, b)
			setValue(v, int(slot), p.boundVec, 0)
		}
	} else {
		for _, col := range a.cols {
			col.Reset(slot)
		}
	}
	p.merge(slot, g, w, w+p.size, from, to)
	if x != nil {
		a.merge(slot, x.slot)
	}
	a.groups[slot].rows = rows
	a.marks.rise(slot, p.end(w))
	a.marks.touch(slot)
}

func (p *panes) bound(w int64, b int8) windows.Micros {
	if b == 1 {
		return p.start(w)
	}
	return p.end(w)
}

// windowKey writes the key of a window's group into keyBuf.
func (p *panes) windowKey(w int64, key string, g int32) {
	p.keyBuf = p.keyBuf[:0]
	own := 0
	for _, b := range p.bounds {
		if b == 0 {
			p.keyBuf = row.AppendKey(p.keyBuf, p.keyCols.cols[own], int(g))
			own++
			continue
		}
		p.boundVec.I64[0] = p.bound(w, b)
		p.keyBuf = row.AppendKey(p.keyBuf, p.boundVec, 0)
	}
}

// fewLeaves are merged one by one: a node would not pay.
const fewLeaves = 4

// merge adds the leaves from … to−1 of a group, which are those of the panes first … end−1, to a
// slot, in the largest aligned blocks that there are.
func (p *panes) merge(slot, g int32, first, end int64, from, to int) {
	for from < to {
		leaves := p.groups[g].leaves
		if to-from <= fewLeaves {
			for _, l := range leaves[from:to] {
				p.a.merge(slot, l.slot)
			}
			return
		}
		pane := leaves[from].pane
		level := 0
		for {
			start := pane >> (level + 1) << (level + 1)
			if start < first || start+1<<(level+1) > end {
				break
			}
			level++
		}
		number := pane >> level
		first = (number + 1) << level
		next := from + p.groups[g].searchFrom(from, to, first)
		if next-from <= fewLeaves {
			for _, l := range leaves[from:next] {
				p.a.merge(slot, l.slot)
			}
		} else {
			p.a.merge(slot, p.node(g, level, number, from, next))
		}
		from = next
	}
}

// searchFrom is how many of the leaves from … to−1 lie before a pane.
func (g *paneGroup) searchFrom(from, to int, pane int64) int {
	n, _ := slices.BinarySearchFunc(g.leaves[from:to], pane, func(l leaf, pane int64) int { return cmp.Compare(l.pane, pane) })
	return n
}

// node finds or makes the slot of a block, which holds the leaves from … to−1.
func (p *panes) node(g int32, level int, number int64, from, to int) int32 {
	key := node{g, uint8(level), number}
	if slot, ok := p.nodes[key]; ok {
		return slot
	}
	slot := p.a.state()
	p.nodes[key] = slot
	middle := (2*number + 1) << (level - 1)
	half := from + p.groups[g].searchFrom(from, to, middle)
	for _, part := range []struct {
		number   int64
		from, to int
	}{{2 * number, from, half}, {2*number + 1, half, to}} {
		if part.to-part.from > fewLeaves {
			p.a.merge(slot, p.node(g, level-1, part.number, part.from, part.to))
			continue
		}
		for k := part.from; k < part.to; k++ {
			l := &p.groups[g].leaves[k]
			l.cached = true
			p.a.merge(slot, l.slot)
		}
	}
	return slot
}

// uncache throws away the nodes above a pane.
func (p *panes) uncache(g int32, pane int64) {
	if len(p.nodes) == 0 {
		return
	}
	for level := 1; level <= bits.Len64(uint64(p.size)); level++ {
		key := node{g, uint8(level), pane >> level}
		if slot, ok := p.nodes[key]; ok {
			delete(p.nodes, key)
			p.a.release(slot)
		}
	}
}

// forget drops what no window that is not closed holds.
func (p *panes) forget(wm windows.Micros) {
	lateness := p.a.e.cfg.AllowedLateness
	p.forgetCold(wm)
	for len(p.closing) > 0 && p.isClosed(p.closing[0], wm) {
		pane := heap.Pop(&p.closing).(int64)
		for _, g := range p.at[pane] {
			p.drop(g, pane)
		}
		delete(p.at, pane)
	}
	if wm != p.closed {
		for w, byGroup := range p.extras {
			if windows.Later(p.end(w), lateness) > wm {
				continue
			}
			for g, x := range byGroup {
				if x.saved {
					p.a.losePieces(x.slot, p.stateKey(true, w, p.groups[g].key))
					p.void(true, w, p.groups[g].key)
				}
				p.a.release(x.slot)
				p.groups[g].extras--
				p.parts--
				p.dropEmpty(g)
			}
			delete(p.extras, w)
		}
	}
	p.closed = wm
}

func (p *panes) drop(g int32, pane int64) {
	group := &p.groups[g]
	at := group.search(pane)
	if at == len(group.leaves) || group.leaves[at].pane != pane {
		return
	}
	l := group.leaves[at]
	p.uncache(g, pane)
	if l.saved {
		p.a.losePieces(l.slot, p.stateKey(false, pane, group.key))
		p.void(false, pane, group.key)
	}
	p.a.release(l.slot)
	group.leaves = slices.Delete(group.leaves, at, at+1)
	p.parts--
	p.dropEmpty(g)
}

func (p *panes) dropEmpty(g int32) {
	group := &p.groups[g]
	if len(group.leaves) > 0 || group.extras > 0 {
		return
	}
	if group.inCur {
		p.cur = slices.DeleteFunc(p.cur, func(x int32) bool { return x == g })
	}
	p.vacate(g)
}

// vacate makes the number of a group free.
func (p *panes) vacate(g int32) {
	group := &p.groups[g]
	p.table.drop(group.key)
	p.keyBytes -= int64(len(group.key))
	p.keyCols.clear(int(g))
	*group = paneGroup{leaves: group.leaves[:0]}
	p.free = append(p.free, g)
}

func (p *panes) pending() bool { return len(p.dirty) > 0 }
func (p *panes) open() bool    { return len(p.cur) > 0 || len(p.ahead) > 0 || p.cold.open() }
