package engine

import (
	"slices"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/agg"
	"tidemark/windows/query"
)

// aggregate keeps one state a group and call, in columns by slot number.
//
// What it gives out takes one of two forms. Where only filters, projections and the emitter come
// behind it, it gives the present rows of the groups that changed (upsert): the emitter knows what
// it gave out before. Where another operator with state comes behind, it keeps the last row of
// each group and gives differences.
type aggregate struct {
	e     *Engine
	id    byte
	keys  []int
	ties  []int
	then  []int
	calls []query.AggCall
	// cols are the states; most have those of one call, shared ones (nil for others) those of several.
	cols   []agg.Column
	shared []agg.SharedColumn
	// callsOf are the calls of each column, places where each call is.
	callsOf [][]int
	places  []callPlace
	// diffs are the columns that can tell what changed in a state, nil for others; differs: there is one.
	diffs    []agg.Differential
	differs  bool
	windowed bool
	ordered  bool // a call wants ranks
	outs     targets
	fields   []row.Field

	table   table
	groups  []group
	marks   marks
	keyCols *store
	gone    []lost
	cold    cold
	// pieces tells of the large states where they lie, lostPieces which are to go.
	pieces     map[pieceOf]pieces
	lostPieces [][]byte
	// About the memory that groups take: of a slot, of each call's empty state, of all keys.
	slotBytes int64
	each      []int
	keyBytes  int64
	// given are the rows given out last; nil in the upsert form.
	given *store
	// sess, where the groups are those of sessions, has their bounds; of says how the keys follow from
	// them.
	sess *sessions
	of   *windowGroups
	// panes, where the windows are those of a hop that share them, keeps what is fed.
	panes *panes

	piece []byte

	// Scratch memory; linked and linkedTo say which entry the group that was loaded last has.
	linked   bool
	linkedTo string

	keyBuf []byte
	slots  []int32
	subSel []int32
	subTo  []int32
	args   []*row.Vector
	masks  []uint8
	ranks  []agg.Rank
	result row.Batch
}

type group struct {
	key   string
	rows  int64 // how many rows are in the group
	entry int32 // the emitter's entry; −1: none
	given bool  // a row of it is given out (differences only)
	// givenAt is the finalAt that was given out with it: what lies behind counts by that.
	givenAt windows.Micros
	// ends counts the rows by finalAt, where rows can be withdrawn from a window that stays.
	ends     map[windows.Micros]int64
	evidence []stream.Place
}

func newAggregate(e *Engine, id byte, n *query.Aggregate, upsert bool, of *windowGroups) (*aggregate, error) {
	a := &aggregate{
		e: e, id: id, keys: n.Keys, ties: n.Ties, then: n.Then, calls: n.Calls, windowed: n.Windowed, fields: n.Fields(), of: of,
		keyCols: newUnsigned(n.Fields()[:len(n.Keys)]), marks: marks{e: e}, cold: newCold(e, spaceGroup, id),
		pieces: map[pieceOf]pieces{},
	}
	a.table.keyOf = func(slot int32) string { return a.groups[slot].key }
	for i, c := range n.Calls {
		f := c.Func
		if of != nil && c.Spec.Retract {
			// Sessions take rows from each other by merging groups: nothing is ever taken away.
			spec := c.Spec
			spec.Retract = false
			var err error
			if f, err = agg.New(spec); err != nil {
				return nil, err
			}
		}
		a.ordered = a.ordered || f.Ordered
		a.addCall(i, f)
	}
	for _, f := range n.Fields() {
		a.result.Cols = append(a.result.Cols, row.NewVector(f.Type, 0))
	}
	if !upsert {
		a.given = newStore(n.Fields())
	}
	for _, col := range a.cols {
		d := agg.DifferentialOf(col)
		a.diffs, a.differs = append(a.diffs, d), a.differs || d != nil
	}
	a.slotBytes = a.slotSize()
	if len(n.Keys) == 0 { // N1
		a.marks.touch(a.slot(nil, nil, 0))
	}
	return a, nil
}

// callPlace is where a call's states are: in a column, and of a shared one which bit.
type callPlace struct{ col, bit int }

// addCall gives the i-th call a column: a new one, or that of another call which counts the different
// values of the same argument.
func (a *aggregate) addCall(i int, f *agg.Func) {
	if shared := f.NewShared(); shared != nil {
		for col, calls := range a.callsOf {
			other := a.calls[calls[0]]
			if len(calls) == agg.MostSharers || !other.Spec.Distinct || other.Func.Name != f.Name || !slices.Equal(other.Args, a.calls[i].Args) {
				continue
			}
			if a.shared[col] == nil {
				a.cols[col], a.shared[col], a.each[col] = shared, shared, emptyBytes(f.NewShared())
			}
			a.places = append(a.places, callPlace{col, len(calls)})
			a.callsOf[col] = append(calls, i)
			return
		}
	}
	a.places = append(a.places, callPlace{col: len(a.cols)})
	a.cols, a.shared, a.callsOf = append(a.cols, f.NewColumn()), append(a.shared, nil), append(a.callsOf, []int{i})
	a.each = append(a.each, emptyBytes(f.NewColumn()))
}

// emptyBytes is what the state of a column without rows takes.
func emptyBytes(one agg.Column) int {
	one.Grow(1)
	return one.Bytes()
}

// valueOf appends a call's result to out.
func (a *aggregate) valueOf(at callPlace, slot int32, out *row.Vector) error {
	if shared := a.shared[at.col]; shared != nil {
		shared.ResultOf(slot, at.bit, out)
		return nil
	}
	return a.cols[at.col].Result(slot, out)
}

// take gets rows: those that follow from events wait for their step.
func (a *aggregate) take(c *chunk) {
	if c.f.batch {
		a.e.wait(a, c)
		return
	}
	a.feed(c, c.sel)
}

// feed adds rows to their groups.
func (a *aggregate) feed(c *chunk, sel []int32) {
	if a.panes != nil {
		a.panes.feed(c, sel)
		return
	}
	a.slots = a.slots[:0]
	last, lastKey := int32(-1), ""
	n := c.Len
	if sel != nil {
		n = len(sel)
	}
	for k := range n {
		i := k
		if sel != nil {
			i = int(sel[k])
		}
		if a.sess != nil {
			a.keyBuf = a.sessionKey(a.keyBuf[:0], c.Cols, a.keys, i)
		} else {
			a.keyBuf = row.AppendRowKey(a.keyBuf[:0], &c.Batch, a.keys, i)
		}
		slot := last
		if last < 0 || string(a.keyBuf) != lastKey {
			slot = a.slot(a.keyBuf, c, i)
			last, lastKey = slot, a.groups[slot].key
		}
		g := &a.groups[slot]
		g.rows += c.Weight(i)
		if a.windowed {
			g.ends = countEnd(&a.marks, slot, g.ends, c.f.final(i), c.Weight(i), a.e.loose)
		}
		a.marks.touch(slot)
		a.slots = append(a.slots, slot)
		if a.e.cfg.Evidence {
			g.evidence = a.e.evidence(g.evidence, c.f, i)
		}
	}
	a.add(c, sel, a.slots)
}

// add adds rows to the states of all calls; slots has one element a row of sel.
func (a *aggregate) add(c *chunk, sel, slots []int32) {
	var ranks []agg.Rank
	if a.ordered && len(slots) > 0 {
		ranks = a.rankOf(c, sel)
	}
	for i, calls := range a.callsOf {
		call := a.calls[calls[0]]
		a.args = a.args[:0]
		for _, col := range call.Args {
			a.args = append(a.args, c.Cols[col])
		}
		if shared := a.shared[i]; shared != nil {
			shared.AddShared(slots, sel, a.args, c.Weights, a.takers(c, calls))
			continue
		}
		rows, to := sel, slots
		if call.Filter >= 0 {
			rows, to = a.only(c.Cols[call.Filter], sel, slots)
		}
		a.cols[i].Add(to, rows, a.args, c.Weights, ranks)
	}
}

// takers gives for each row of c the calls, by bit, whose FILTER it passes.
func (a *aggregate) takers(c *chunk, calls []int) []uint8 {
	if cap(a.masks) < c.Len {
		a.masks = make([]uint8, c.Len)
	}
	masks := a.masks[:c.Len]
	clear(masks)
	for bit, n := range calls {
		filter := a.calls[n].Filter
		if filter < 0 {
			for i := range masks {
				masks[i] |= 1 << bit
			}
			continue
		}
		pass := c.Cols[filter]
		for i, p := range pass.I64[:c.Len] {
			if p != 0 && !pass.IsNull(i) {
				masks[i] |= 1 << bit
			}
		}
	}
	return masks
}

// only selects the rows for which a call's FILTER is true.
func (a *aggregate) only(pass *row.Vector, sel, slots []int32) (rows, to []int32) {
	a.subSel, a.subTo = a.subSel[:0], a.subTo[:0]
	for k, slot := range slots {
		i := int32(k)
		if sel != nil {
			i = sel[k]
		}
		if pass.I64[i] != 0 && !pass.IsNull(int(i)) {
			a.subSel = append(a.subSel, i)
			a.subTo = append(a.subTo, slot)
		}
	}
	return a.subSel, a.subTo
}

// slot finds or makes the group of a key; row i of c holds its columns.
func (a *aggregate) slot(key []byte, c *chunk, i int) int32 {
	slot, ok := a.find(key)
	if ok {
		return slot
	}
	slot = a.newSlot(string(key))
	if c != nil {
		a.keyCols.set(int(slot), c.Cols, a.keys, i)
	}
	if a.sess != nil {
		s := &a.sess.all[a.sessionOf(slot)]
		s.slots = append(s.slots, slot)
	}
	return slot
}

func (a *aggregate) newSlot(key string) int32 {
	finalAt := windows.Never
	if a.windowed {
		finalAt = windows.AtOnce
	}
	slot, grown := a.marks.take(finalAt)
	if grown {
		a.groups = append(a.groups, group{})
		for _, col := range a.cols {
			col.Grow(len(a.groups))
		}
	}
	a.groups[slot] = group{key: key, entry: -1}
	a.table.put(key, slot)
	a.keyBytes += int64(len(key)) + stringBytes
	return slot
}

// settle gives out the groups whose windows became final, and in a loose plan all.
func (a *aggregate) settle(_, wm windows.Micros) {
	a.fetchDue(wm)
	if a.panes != nil {
		a.panes.sweep(wm)
	}
	a.give(a.marks.due(wm))
	if a.e.loose {
		a.flush()
	}
}

// correct gives out what changed in windows that were final.
func (a *aggregate) correct(windows.Micros) {
	if a.panes != nil {
		a.panes.correct()
	}
	if len(a.marks.late) > 0 {
		a.give(a.marks.corrected())
	}
}

func (a *aggregate) flush() {
	if a.panes != nil {
		a.panes.flush()
	}
	a.give(a.marks.all())
}

func (a *aggregate) pending() bool {
	return a.marks.pending() || a.panes != nil && a.panes.pending()
}

func (a *aggregate) open() bool {
	return a.marks.open() || a.cold.open() || a.sess != nil && a.sess.cold.open() || a.panes != nil && a.panes.open()
}

// give gives out the rows of groups, and lets go of those that are empty.
func (a *aggregate) give(slots []int32) {
	if len(slots) == 0 {
		return
	}
	r := &a.result
	for _, v := range r.Cols {
		v.Resize(0)
	}
	r.Len = len(slots)
	k := len(a.keys)
	for i := range k {
		gather(r.Cols[i], a.keyCols.cols[i], slots)
	}
	if a.sess != nil {
		a.putBounds(slots)
	}
	// A group whose result fails is left out until it computes again (E1).
	absent := make([]bool, len(slots))
	anyAbsent := false
	for n, slot := range slots {
		if a.groups[slot].rows == 0 && k > 0 || a.outside(slot) {
			absent[n], anyAbsent = true, true
		}
	}
	for i, at := range a.places {
		out := r.Cols[k+i]
		for n, slot := range slots {
			if absent[n] {
				out.AppendNull()
				continue
			}
			if err := a.valueOf(at, slot, out); err != nil {
				absent[n], anyAbsent = true, true
				out.AppendNull()
			}
		}
	}
	f := &frame{finalAt: make([]windows.Micros, len(slots))}
	for n, slot := range slots {
		f.finalAt[n] = a.marks.at[slot].finalAt
	}
	if a.e.cfg.Evidence {
		for _, slot := range slots {
			f.evidence = append(f.evidence, a.groups[slot].evidence)
			a.groups[slot].evidence = nil
		}
	}
	if a.given == nil {
		f.upsert, f.owner, f.slots = true, a, slots
		var sel []int32
		if anyAbsent {
			sel = make([]int32, 0, len(slots))
			for n := range slots {
				if !absent[n] {
					sel = append(sel, int32(n))
				}
			}
		}
		a.outs.send(&chunk{Batch: *r, sel: sel, f: f})
	} else {
		a.differences(slots, absent, f)
	}
	for _, slot := range slots {
		switch {
		case a.groups[slot].rows == 0 && k > 0:
			a.drop(slot)
		case a.panes != nil: // they have all of it, and fill it again when it changes
			for _, col := range a.cols {
				col.Reset(slot)
			}
		}
	}
}

// differences gives out what changed since the last time, as −old and +new.
func (a *aggregate) differences(slots []int32, absent []bool, f *frame) {
	d := newDifferences(a.fields, 2*len(slots))
	for n, slot := range slots {
		g := &a.groups[slot]
		at := f.final(n)
		if g.given && !absent[n] && g.givenAt == at && exactRow(a.given.cols, int(slot), a.result.Cols, nil, n) {
			continue
		}
		if g.given {
			d.add(a.given.cols, int(slot), -1, f, n)
			d.f.finalAt[d.Len-1] = g.givenAt
		}
		g.given, g.givenAt = !absent[n], at
		if g.given {
			d.add(a.result.Cols, n, 1, f, n)
			a.given.set(int(slot), a.result.Cols, nil, n)
		}
		a.marks.toSave(slot)
	}
	d.send(a.outs)
}

// forget drops the groups that are closed; their rows stay as they were given out (G3).
func (a *aggregate) forget(wm windows.Micros) {
	a.forgetCold(wm)
	a.marks.closed(wm, a.drop)
	if a.panes != nil {
		a.panes.forget(wm)
	}
}

// state takes a slot that is no group: a part of some.
func (a *aggregate) state() int32 {
	slot, grown := a.marks.take(windows.Never)
	if grown {
		a.groups = append(a.groups, group{})
		for _, col := range a.cols {
			col.Grow(len(a.groups))
		}
	}
	a.groups[slot] = group{entry: -1}
	a.marks.at[slot].changed = false // the group that it was is gone
	return slot
}

// release lets go of a slot that state gave.
func (a *aggregate) release(slot int32) {
	for _, col := range a.cols {
		col.Reset(slot)
	}
	a.leavePieces(slot)
	a.marks.drop(slot)
}

// merge adds the states of slot src to those of dst.
func (a *aggregate) merge(dst, src int32) {
	for _, col := range a.cols {
		col.Merge(dst, src)
	}
}

// drop lets go of a group.
func (a *aggregate) drop(slot int32) {
	g := &a.groups[slot]
	if g.key != "" { // else it became a part of another group
		a.gone = append(a.gone, lost{g.key, a.marks.at[slot].listed})
		a.losePieces(slot, a.stateKey(g.key))
		a.cold.drop(g.key)
	}
	if g.entry >= 0 {
		a.e.emit.unlink(g.entry)
	}
	a.clear(slot)
	a.marks.drop(slot)
}

// rankOf gives the place in the log of each row of c, for calls that depend on order; the windows of
// one event follow each other. Rows that are no events follow their own columns, from left to right, nulls last (N3).
func (a *aggregate) rankOf(c *chunk, sel []int32) []agg.Rank {
	if a.ties == nil && a.then == nil && c.f.ranks != nil {
		return c.f.ranks
	}
	if cap(a.ranks) < c.Len {
		a.ranks = make([]agg.Rank, c.Len)
	}
	ranks := a.ranks[:c.Len]
	one := func(i int) {
		if a.ties == nil {
			switch {
			case c.f.ranks != nil:
				ranks[i] = c.f.ranks[i]
			case c.f.batch:
				ranks[i] = a.e.rank(c.f, i)
			}
			if a.then != nil { // rows of one event
				a.keyBuf = row.AppendRowKey(a.keyBuf[:0], &c.Batch, a.then, i)
				ranks[i].Row = string(a.keyBuf)
			}
			return
		}
		a.keyBuf = a.keyBuf[:0]
		for _, col := range a.ties {
			v := c.Cols[col]
			if v.IsNull(i) {
				a.keyBuf = append(a.keyBuf, 1)
				continue
			}
			a.keyBuf = row.AppendKey(append(a.keyBuf, 0), v, i)
		}
		ranks[i] = agg.Rank{Row: string(a.keyBuf)}
	}
	if sel == nil {
		for i := range c.Len {
			one(i)
		}
	}
	for _, i := range sel {
		one(int(i))
	}
	return ranks
}
