package engine

import (
	"slices"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// emitter is the last operator. It knows the row of each key that is given out, and makes changes
// with status and revision (C3, C4).
//
// New rows are staged first. Three moments take them from there:
//
//	settle    a step's end: the first final row of a key, as it is now
//	correct   an entry's end: whatever happened to keys that have been final
//	flush     a Take of everything: provisional rows
type emitter struct {
	e       *Engine
	visible []int
	key     []int
	fields  []row.Field
	// passThrough views need no memory: each row is final once, revision 1 (C1).
	passThrough bool

	table   table
	entries []entry
	free    []int32
	cur     *store // the rows that are given out, by entry
	stage   *row.Batch
	touched []int32 // entries with a staged row, or a staged absence
	time    timeline
	changed []int32
	gone    []lost
	links   []link // while loading
	cold    cold
	// About the memory that entries take: of keys, and of rows as they were saved.
	keyBytes, valueBytes int64
	hand                 int // as in marks

	changes *windows.Changes
	keys    []byte // memory of the changes' keys
	keyBuf  []byte
}

// entry is what is known of one row key.
type entry struct {
	key      string
	revision int32 // of the last final or corrected change; 0: never final
	status   windows.Status
	finalAt  windows.Micros
	time     windows.Micros // the row's own, for retention
	next     int32          // staged row; −1: staged as absent
	owner    *aggregate     // the group that the row comes from, where it is known
	slot     int32
	live     bool
	there    bool // a row is given out, in cur
	staged   bool
	opened   bool // was staged while its window was open
	changed  bool
	used     bool  // since the clock's hand passed it
	size     int32 // of the saved value
	listed   listing
	evidence []stream.Place // the events of what is staged
}

func newEmitter(e *Engine) *emitter {
	m := &emitter{
		e: e, visible: e.plan.Visible, key: e.plan.Key, fields: e.plan.Columns, passThrough: e.plan.PassThrough,
		cur: newUnsigned(e.plan.Columns), stage: row.NewBatch(e.plan.Columns, 0), cold: newCold(e, spaceRow, 0),
	}
	m.table.keyOf = func(x int32) string { return m.entries[x].key }
	m.begin(0)
	return m
}

// begin begins a new set of changes, about as many as before.
func (m *emitter) begin(before int) {
	n := min(before+before/8, 1<<16)
	m.changes = &windows.Changes{
		Rows: row.NewBatch(m.fields, n), Ops: make([]int8, 0, n), Keys: make([][]byte, 0, n), Status: make([]windows.Status, 0, n),
		Revision: make([]int32, 0, n), Sequences: make([]stream.Sequence, 0, n), Times: make([]windows.Micros, 0, n),
	}
	m.keys = nil
}

func (m *emitter) take(c *chunk) {
	switch {
	case c.f.batch:
		m.e.wait(m, c)
	case c.f.upsert:
		m.upsert(c)
	default:
		m.feed(c, c.sel)
	}
}

// feed takes rows with weights.
func (m *emitter) feed(c *chunk, sel []int32) {
	if m.passThrough {
		m.pass(c, sel)
		return
	}
	n := c.Len
	if sel != nil {
		n = len(sel)
	}
	for k := range n {
		i := k
		if sel != nil {
			i = int(sel[k])
		}
		m.keyBuf = row.AppendRowKey(m.keyBuf[:0], &c.Batch, m.key, i)
		if c.Weight(i) < 0 {
			// The + of an update, if there is one, comes behind and replaces this.
			if x, ok := m.find(m.keyBuf); ok && !m.replaced(x, c, i) {
				m.put(x, nil, i, c.f)
			}
			continue
		}
		x := m.entry(m.keyBuf)
		m.entries[x].time = m.timeOf(c.f, i)
		m.put(x, c.Cols, i, c.f)
	}
}

// timeOf is a row's own time: its window's end, else that of its event.
func (m *emitter) timeOf(f *frame, i int) windows.Micros {
	switch {
	case f.times != nil:
		return f.times[i]
	case f.batch:
		return m.e.in.Times[f.event(i)]
	}
	return f.final(i)
}

// replaced reports whether a row other than row i of c is staged for a key already: then the
// withdrawal of row i says nothing new.
func (m *emitter) replaced(x int32, c *chunk, i int) bool {
	en := &m.entries[x]
	return en.staged && en.next >= 0 && !sameRow(m.stage.Cols, int(en.next), c.Cols, m.visible, i)
}

// upsert takes the present rows of groups; groups that are not selected have none.
func (m *emitter) upsert(c *chunk) {
	k := 0
	for n, slot := range c.f.slots {
		there := c.sel == nil
		if !there && k < len(c.sel) && int(c.sel[k]) == n {
			there = true
			k++
		}
		a := c.f.owner
		x := a.groups[slot].entry
		if !there {
			if x >= 0 {
				m.put(x, nil, n, c.f)
			}
			continue
		}
		if x < 0 || a.sess != nil {
			m.keyBuf = row.AppendRowKey(m.keyBuf[:0], &c.Batch, m.key, n)
		}
		if x >= 0 && a.sess != nil && m.entries[x].key != string(m.keyBuf) {
			m.withdraw(x) // the session's bounds changed, and so the row key
			x = -1
		}
		if x < 0 {
			x = m.entry(m.keyBuf)
			m.own(x, a, slot)
			a.marks.toSave(slot) // with its entry
		}
		m.entries[x].time = m.timeOf(c.f, n)
		m.put(x, c.Cols, n, c.f)
	}
}

// entry finds or makes the entry of a key.
func (m *emitter) entry(key []byte) int32 {
	if x, ok := m.find(key); ok {
		return x
	}
	return m.newEntry(key)
}

func (m *emitter) newEntry(key []byte) int32 {
	var x int32
	if n := len(m.free); n > 0 {
		x = m.free[n-1]
		m.free = m.free[:n-1]
	} else {
		x = int32(len(m.entries))
		m.entries = append(m.entries, entry{})
	}
	en := &m.entries[x]
	*en = entry{key: string(key), live: true, finalAt: windows.Never, time: windows.NoTime, changed: en.changed}
	m.table.put(en.key, x)
	m.keyBytes += int64(len(key))
	return x
}

// put stages row i of cols, or with nil cols the absence of a row.
func (m *emitter) put(x int32, cols []*row.Vector, i int, f *frame) {
	en := &m.entries[x]
	at := f.final(i)
	if m.e.cfg.Evidence {
		en.evidence = m.e.evidence(en.evidence, f, i)
	}
	if at != en.finalAt {
		en.finalAt = at
		m.time.add(at, x, m.e.wm)
	}
	en.used = true
	if !en.staged {
		en.staged = true
		m.touched = append(m.touched, x)
	}
	m.toSave(x) // what is staged is state too
	en.next = -1
	if cols != nil {
		en.next = int32(m.stage.Len)
		for c, v := range m.stage.Cols {
			v.AppendFrom(cols[m.visible[c]], i)
			if n := len(v.F64); n > 0 {
				v.F64[n-1] += 0 // as the row comes back from the state: −0 is 0
			}
		}
		m.stage.Len++
	}
}

// withdraw stages the absence of a row whose group has another key now, or is gone.
func (m *emitter) withdraw(x int32) {
	m.put(x, nil, 0, &frame{finalAt: []windows.Micros{m.entries[x].finalAt}})
	m.unlink(x)
}

// own makes an entry that of a group's row.
func (m *emitter) own(x int32, a *aggregate, slot int32) {
	a.groups[slot].entry = x
	m.entries[x].owner, m.entries[x].slot = a, slot
}

// linked makes an entry that of the group that it was saved with, if that is found.
func (m *emitter) linked(l link, find func(a *aggregate, key []byte) (int32, bool)) {
	for _, op := range m.e.ops {
		if a, ok := op.(*aggregate); ok && a.id == l.id {
			if slot, ok := find(a, []byte(l.group)); ok {
				m.own(l.entry, a, slot)
			}
		}
	}
}

// unlink forgets the group that an entry comes from.
func (m *emitter) unlink(x int32) {
	m.entries[x].owner = nil
	m.toSave(x)
}

// settle gives out the first final rows as the watermark goes from start to wm.
func (m *emitter) settle(start, wm windows.Micros) {
	m.fetchDue(wm)
	for n := 0; n < len(m.touched); n++ {
		x := m.touched[n]
		en := m.fresh(x, wm)
		if !en.staged || en.revision > 0 {
			continue
		}
		switch {
		case en.finalAt > wm:
			if !en.opened {
				en.opened = true
				m.toSave(x)
			}
		case en.next >= 0 && (en.finalAt > start || en.opened):
			m.firstFinal(x, m.stage.Cols, int(en.next))
			m.unstage(x)
		}
	}
	m.time.eachDue(wm, func(at windows.Micros, xs []int32) {
		for _, x := range xs {
			en := m.fresh(x, wm)
			switch {
			case !en.live || en.finalAt != at || en.staged || !en.there || en.status != windows.Provisional:
			case en.revision == 0:
				m.firstFinal(x, m.cur.cols, int(x))
			default: // it was opened again, and is final again
				m.restage(x)
			}
		}
	})
	m.compact()
}

// fresh is an entry as it is now. A session may have grown since its row was staged or given out,
// so before the row becomes final its group is asked again.
func (m *emitter) fresh(x int32, wm windows.Micros) *entry {
	if en := &m.entries[x]; en.live && en.finalAt <= wm && en.owner != nil && en.owner.sess != nil {
		en.owner.refresh(en.slot)
	}
	return &m.entries[x]
}

// restage stages the row that is given out once more: its status is to change.
func (m *emitter) restage(x int32) {
	en := &m.entries[x]
	en.staged = true
	en.next = int32(m.stage.Len)
	for c, v := range m.stage.Cols {
		v.AppendFrom(m.cur.cols[c], int(x))
	}
	m.stage.Len++
	m.touched = append(m.touched, x)
	m.toSave(x)
}

// firstFinal gives out the first final row of a key. C3
func (m *emitter) firstFinal(x int32, cols []*row.Vector, i int) {
	en := &m.entries[x]
	if en.there {
		m.change(x, -1, m.cur.cols, int(x), windows.None, 0)
	}
	en.revision = 1
	m.show(x, cols, i, windows.Final)
}

// show gives out a row of a key, with the revision that the key has now.
func (m *emitter) show(x int32, cols []*row.Vector, i int, s windows.Status) {
	en := &m.entries[x]
	revision := en.revision
	if s == windows.Provisional {
		revision = 0
	}
	m.change(x, 1, cols, i, s, revision)
	en.there, en.status = true, s
	if m.cur.cols == nil || len(cols) == 0 || &cols[0] != &m.cur.cols[0] {
		m.cur.set(int(x), cols, nil, i)
	}
}

// hide withdraws the row of a key. That of a row that had been final is a correction. C4
func (m *emitter) hide(x int32) {
	en := &m.entries[x]
	if en.status == windows.Provisional {
		m.change(x, -1, m.cur.cols, int(x), windows.None, 0)
	} else {
		m.change(x, -1, m.cur.cols, int(x), windows.Corrected, en.revision)
	}
	en.there = false
}

// correct gives out, once for each key, what happened to it after it was final.
func (m *emitter) correct(wm windows.Micros) {
	if len(m.touched) == 0 {
		return
	}
	kept := m.touched[:0]
	for _, x := range m.touched {
		en := &m.entries[x]
		if en.staged && !m.correctOne(x, wm) {
			kept = append(kept, x)
		}
	}
	m.touched = kept
	m.compact()
}

// correctOne reports whether what was staged for a key is dealt with.
func (m *emitter) correctOne(x int32, wm windows.Micros) bool {
	en := &m.entries[x]
	wasFinal := en.there && en.status != windows.Provisional
	open := en.finalAt > wm
	switch {
	case open && !wasFinal:
		if en.next >= 0 || en.there {
			return false // provisional
		}
		m.unstage(x)
		if en.revision == 0 {
			m.drop(x)
		}
		return true
	case open:
		en.revision++
		m.hide(x)
		if en.next >= 0 && !m.e.cfg.EmitFinal {
			m.show(x, m.stage.Cols, int(en.next), windows.Provisional)
			return m.unstage(x)
		}
		return en.next < 0 && m.unstage(x)
	case en.next < 0 && en.there && !wasFinal:
		return false // the withdrawal of a provisional row is provisional
	case en.next < 0:
		if wasFinal {
			en.revision++
			m.hide(x)
		}
		m.unstage(x)
		if en.revision == 0 {
			m.drop(x)
		}
		return true
	case wasFinal && sameRow(m.stage.Cols, int(en.next), m.cur.cols, nil, int(x)):
	default:
		// A row that first appears after its window was final has revision 2: the missing row
		// was the first.
		en.revision = max(en.revision+1, 2)
		if en.there {
			m.hide(x)
		}
		m.show(x, m.stage.Cols, int(en.next), windows.Corrected)
	}
	return m.unstage(x)
}

func (m *emitter) unstage(x int32) bool {
	en := &m.entries[x]
	en.staged, en.evidence = false, nil
	m.toSave(x)
	return true
}

// flush gives out provisional rows.
func (m *emitter) flush() {
	if m.e.cfg.EmitFinal {
		return
	}
	for _, x := range m.touched {
		en := &m.entries[x]
		if !en.staged {
			continue
		}
		switch {
		case en.next < 0:
			if en.there {
				m.hide(x)
			}
		case en.there && sameRow(m.stage.Cols, int(en.next), m.cur.cols, nil, int(x)):
		default:
			if en.there {
				m.hide(x)
			}
			m.show(x, m.stage.Cols, int(en.next), windows.Provisional)
		}
		m.unstage(x)
		if !en.there && en.revision == 0 {
			m.drop(x)
		}
	}
	m.touched = m.touched[:0]
	m.stage.Reset()
}

// compact lets go of staged rows that nobody refers to.
func (m *emitter) compact() {
	if m.stage.Len < 1024 || m.stage.Len < 2*len(m.touched) {
		return
	}
	next := row.NewBatch(m.fields, len(m.touched))
	m.touched = slices.DeleteFunc(m.touched, func(x int32) bool { return !m.entries[x].staged })
	for _, x := range m.touched {
		if en := &m.entries[x]; en.next >= 0 {
			next.AppendFrom(m.stage, int(en.next))
			en.next = int32(next.Len - 1)
		}
	}
	m.stage = next
}

// forget drops the keys whose windows are closed. Their rows stay given out.
func (m *emitter) forget(wm windows.Micros) {
	m.forgetCold(wm)
	m.time.eachClosed(wm, m.e.cfg.AllowedLateness, func(at windows.Micros, xs []int32) {
		for _, x := range xs {
			if en := &m.entries[x]; en.live && en.finalAt == at {
				m.close(x)
			}
		}
	})
}

func (m *emitter) drop(x int32) {
	en := &m.entries[x]
	m.gone = append(m.gone, lost{en.key, en.listed})
	m.cold.drop(en.key)
	if en.owner != nil {
		en.owner.groups[en.slot].entry = -1
		en.owner.marks.toSave(en.slot)
	}
	if en.staged {
		m.touched = slices.DeleteFunc(m.touched, func(y int32) bool { return y == x })
	}
	m.clear(x)
}

func (m *emitter) pending() bool { return len(m.touched) > 0 }

func (m *emitter) open() bool { return len(m.time.due) > 0 || m.cold.open() }

// change adds one change of the key x: row i of cols.
func (m *emitter) change(x int32, op int8, cols []*row.Vector, i int, s windows.Status, revision int32) {
	en, ch := &m.entries[x], m.changes
	for c, v := range ch.Rows.Cols {
		v.AppendFrom(cols[c], i)
	}
	ch.Rows.Len++
	m.note(op, m.keep(en.key), s, revision, en.time)
	if m.e.cfg.Evidence {
		ch.Evidence = append(ch.Evidence, en.evidence)
	}
	m.toSave(x)
}

func (m *emitter) toSave(x int32) {
	if en := &m.entries[x]; !en.changed {
		en.changed = true
		m.changed = append(m.changed, x)
	}
}

// keep copies a key to memory that belongs to the changes.
func (m *emitter) keep(key string) []byte {
	if cap(m.keys)-len(m.keys) < len(key) {
		m.keys = make([]byte, 0, max(4096, len(key)))
	}
	n := len(m.keys)
	m.keys = append(m.keys, key...)
	return m.keys[n:len(m.keys):len(m.keys)]
}

func (m *emitter) note(op int8, key []byte, s windows.Status, revision int32, at windows.Micros) {
	ch := m.changes
	if at == windows.Never || at == windows.AtOnce {
		at = windows.NoTime
	}
	ch.Ops = append(ch.Ops, op)
	ch.Keys = append(ch.Keys, key)
	ch.Status = append(ch.Status, s)
	ch.Revision = append(ch.Revision, revision)
	ch.Sequences = append(ch.Sequences, m.e.sequence)
	ch.Times = append(ch.Times, at)
}

// pass gives out rows that need no memory.
func (m *emitter) pass(c *chunk, sel []int32) {
	rows := m.changes.Rows
	for i, v := range rows.Cols {
		from := c.Cols[m.visible[i]]
		if sel == nil {
			v.AppendAll(from)
		} else {
			gather(v, from, sel)
		}
	}
	n := c.Len
	if sel != nil {
		n = len(sel)
	}
	for k := range n {
		i := k
		if sel != nil {
			i = int(sel[k])
		}
		m.keyBuf = row.AppendRowKey(m.keyBuf[:0], &c.Batch, m.key, i)
		m.note(1, m.keep(string(m.keyBuf)), windows.Final, 1, m.timeOf(c.f, i))
		if m.e.cfg.Evidence {
			m.changes.Evidence = append(m.changes.Evidence, m.e.evidence(nil, c.f, i))
		}
		rows.Len++
	}
}
