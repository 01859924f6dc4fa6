package engine

import (
	"tidemark/storage/row"
	"tidemark/windows"
)

// Here is what an aggregate does whose groups are those of sessions. Its keys hold the session's
// number where the plan has a bound.

// sessionOf is the session of a group.
func (a *aggregate) sessionOf(slot int32) int32 {
	for i, b := range a.bounds {
		if b != 0 {
			return int32(a.keyCols.cols[i].I64[slot])
		}
	}
	return -1
}

// outside reports whether a group's session is not given out, because it began before the view did
// (R2).
func (a *aggregate) outside(slot int32) bool {
	return a.sess != nil && !a.sess.givenOut(a.sess.all[a.sessionOf(slot)].start)
}

// putBounds writes the sessions' bounds over their numbers, in the rows that are given out.
func (a *aggregate) putBounds(slots []int32) {
	for i, b := range a.bounds {
		if b == 0 {
			continue
		}
		v := a.result.Cols[i]
		for n := range slots {
			switch s := &a.sess.all[v.I64[n]]; b {
			case 1:
				v.I64[n] = s.start
			case 2:
				v.I64[n] = s.end
			}
		}
	}
}

// sessionMoved notes that a session's bounds changed.
func (a *aggregate) sessionMoved(s *session) {
	for _, slot := range s.slots {
		a.marks.touch(slot)
		a.marks.move(slot, windows.Session.FinalAt(s.end))
	}
}

// mergeSession makes a group one of session x: its own session became a part of that.
func (a *aggregate) mergeSession(slot, x int32) {
	for i, b := range a.bounds {
		if b != 0 {
			a.keyCols.cols[i].I64[slot] = int64(x)
		}
	}
	key := []byte{}
	for _, v := range a.keyCols.cols {
		key = row.AppendKey(key, v, int(slot))
	}
	g := &a.groups[slot]
	into, ok := a.table.get(key)
	if !ok { // x has no such group yet: this becomes it
		a.table.drop(g.key)
		a.gone = append(a.gone, lost{key: g.key})
		a.keyBytes += int64(len(key) - len(g.key))
		g.key = string(key)
		a.table.put(g.key, slot)
		s := &a.sess.all[x]
		s.slots = append(s.slots, slot)
		a.marks.touch(slot)
		if g.entry >= 0 {
			a.e.emit.toSave(g.entry) // it is saved with its group's key
		}
		return
	}
	for _, col := range a.cols {
		col.Merge(into, slot)
	}
	a.groups[into].rows += g.rows
	a.groups[into].evidence = append(a.groups[into].evidence, g.evidence...)
	a.marks.touch(into)
	if g.entry >= 0 {
		a.e.emit.withdraw(g.entry)
		g.entry = -1
	}
	if g.given { // its row is withdrawn behind it, at the end of this step
		a.table.drop(g.key)
		a.gone = append(a.gone, lost{key: g.key})
		a.keyBytes -= int64(len(g.key)) + stringBytes
		g.key, g.rows = "", 0
		a.marks.touch(slot)
		return
	}
	a.drop(slot)
}

// refresh gives out a group that changed, before what was given out of it becomes final.
func (a *aggregate) refresh(slot int32) {
	a.give(a.marks.one(slot))
}
