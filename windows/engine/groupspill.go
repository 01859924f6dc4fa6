package engine

import (
	"slices"
	"unsafe"

	"tidemark/storage/row"
	"tidemark/windows"
)

// Here is how groups leave the memory and come back. Where the emitter has a group's row in an entry
// (upsert), the two go together:
//
//	K3  An entry that has the row of a group is in memory when the group is, and only then.

// spills reports whether groups may leave the memory for themselves. Those of sessions do so with them;
// the one group of a view without keys is always at work.
func (a *aggregate) spills() bool {
	return a.e.store != nil && len(a.keys) > 0 && a.sess == nil
}

func (a *aggregate) colds() *cold { return &a.cold }

func (a *aggregate) resident() int64 { return int64(a.table.used) }

func (a *aggregate) notFinal() windows.Micros { return a.e.wm + 1 }

// find finds the group of a key, in memory or in the store.
func (a *aggregate) find(key []byte) (int32, bool) {
	slot, ok := a.table.get(key)
	if ok || a.cold.count == 0 || a.sess != nil { // K7
		return slot, ok
	}
	return a.fetch(string(key))
}

// fetch brings a group back that is not in memory, with its entry.
func (a *aggregate) fetch(key string) (int32, bool) {
	if !a.cold.fetch(a.stateKey(key), []byte(key), a.load) {
		return -1, false
	}
	slot, _ := a.table.get([]byte(key))
	a.arrived(slot)
	return slot, true
}

// arrived puts the group that was loaded last where it belongs, with its entry.
func (a *aggregate) arrived(slot int32) {
	a.marks.arrived(slot)
	if a.linked {
		if x, ok := a.e.emit.find([]byte(a.linkedTo)); ok {
			a.e.emit.own(x, a, slot)
			if a.sess != nil && a.e.emit.entries[x].finalAt != a.marks.at[slot].finalAt {
				a.refresh(slot) // its session has grown since the row was staged, and time goes by the entry
			}
		}
	}
}

// fetchDue brings the groups back that become final as the watermark goes to wm, and the entries
// whose rows do.
func (a *aggregate) fetchDue(wm windows.Micros) {
	if a.given != nil && !a.e.cfg.EmitFinal {
		return // they were given out as they are, and nobody behind waits for that
	}
	if a.sess != nil {
		a.sess.fetchDue(wm)
	}
	for _, key := range a.cold.dueAt(wm) {
		a.find(key)
	}
}

// forgetCold drops closed groups that are not in memory.
func (a *aggregate) forgetCold(wm windows.Micros) {
	for _, key := range a.cold.closedAt(wm, a.e.cfg.AllowedLateness) {
		if _, here := a.table.get(key); here {
			continue
		}
		slot, ok := a.fetch(string(key))
		if !ok {
			continue
		}
		x := a.groups[slot].entry
		a.drop(slot)
		if x >= 0 {
			a.e.emit.close(x)
		}
	}
}

const (
	groupBytes = int64(unsafe.Sizeof(group{})+unsafe.Sizeof(mark{})) + 24 // and its share of table and timeline
	// stringBytes is what memory a string takes beside its bytes.
	stringBytes = 16
)

// memory is about what the groups take; slots that are free count nothing, they are used again.
func (a *aggregate) memory() int64 {
	free := len(a.marks.free)
	live := int64(len(a.groups) - free)
	n := live*a.slotBytes + 2*a.keyBytes
	for i, col := range a.cols {
		n += int64(col.Bytes() - free*a.each[i])
	}
	if a.panes != nil {
		n += a.panes.memory()
	}
	return n
}

// slotSize is about what a group takes beside its key and states.
func (a *aggregate) slotSize() int64 {
	n := groupBytes
	width := func(fields []row.Field) {
		for _, f := range fields {
			switch f.Type.Class() {
			case row.StringClass, row.Int128Class:
				n += 16
			default:
				n += 8
			}
		}
	}
	width(a.fields[:len(a.keys)])
	if a.given != nil {
		width(a.fields)
	}
	return n
}

// evictable reports whether a group, and the entry with its row, are in the store as they are here.
func (a *aggregate) evictable(slot int32) bool {
	g, k := &a.groups[slot], &a.marks.at[slot]
	switch {
	case !k.live || g.key == "" || k.changed || k.late || k.dirty && !a.e.cfg.EmitFinal:
		return false
	case k.finalAt == windows.AtOnce || a.sess == nil && k.listed != listed(k.finalAt):
		return false
	case g.entry < 0:
		return true
	}
	return a.e.emit.saved(g.entry) && (a.sess != nil || a.e.emit.entries[g.entry].finalAt == k.finalAt)
}

// evict is the clock of the groups.
func (a *aggregate) evict(excess int64) (freed int64) {
	if !a.spills() {
		return 0
	}
	m := &a.marks
	was := a.memory() + a.e.emit.memory()
	return turn(&m.hand, len(m.at), excess, func(i int32) *bool { return &m.at[i].used }, func(i int32) int64 {
		if !a.evictable(i) {
			return 0
		}
		at := m.at[i].finalAt
		a.leave(i)
		now := a.memory() + a.e.emit.memory()
		n := was - now
		was = now
		a.cold.left(at, n)
		return n
	})
}

// leave lets go of a group, and of the entry with its row.
func (a *aggregate) leave(slot int32) {
	if x := a.groups[slot].entry; x >= 0 {
		a.e.emit.evictOne(x)
	}
	a.clear(slot)
	a.marks.leave(slot)
}

// clear empties a slot, whose key is no longer found.
func (a *aggregate) clear(slot int32) {
	g := &a.groups[slot]
	if g.key != "" { // else it became a part of another group
		a.table.drop(g.key)
		a.keyBytes -= int64(len(g.key)) + stringBytes
	}
	if a.sess != nil {
		s := &a.sess.all[a.sessionOf(slot)]
		s.slots = slices.DeleteFunc(s.slots, func(x int32) bool { return x == slot })
	}
	*g = group{entry: -1}
	for _, col := range a.cols {
		col.Reset(slot)
	}
	a.leavePieces(slot)
	a.keyCols.clear(int(slot))
	if a.given != nil {
		a.given.clear(int(slot))
	}
}
