package engine

import (
	"encoding/binary"
	"slices"

	"tidemark/storage/row"
	"tidemark/windows"
)

// Here is what an aggregate does whose groups are those of sessions. Its keys hold the session's
// number where the plan has a bound.

// sessionOf is the session of a group.
func (a *aggregate) sessionOf(slot int32) int32 {
	return int32(a.keyCols.cols[a.of.bound].I64[slot])
}

// sessionKey adds to dst the key of the group that row i of cols belongs to; keys names the columns of
// its keys, nil: all. The groups of a session key lie together: its length, the key, the session's number
// within it, and then what is neither a bound nor a key of the function.
func (a *aggregate) sessionKey(dst []byte, cols []*row.Vector, keys []int, i int) []byte {
	s := &a.sess.all[cols[column(keys, a.of.bound)].I64[i]]
	dst = binary.BigEndian.AppendUint32(appendOf(dst, s.key), uint32(s.id))
	for k, of := range a.of.keys {
		if of < 0 && a.of.bounds[k] == 0 {
			dst = row.AppendKey(dst, cols[column(keys, k)], i)
		}
	}
	return dst
}

// appendOf adds what the keys of all groups of a session key begin with.
func appendOf(dst []byte, key string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(key))), key...)
}

// newOf makes the group that is loaded under a key, in its session.
func (a *aggregate) newOf(key []byte) (int32, error) {
	n, size := binary.Uvarint(key)
	if size <= 0 || n > uint64(len(key)-size) || len(key)-size-int(n) < 4 {
		return -1, errState
	}
	own, rest := key[size:size+int(n)], key[size+int(n):]
	x := a.sess.numbered(string(own), int32(binary.BigEndian.Uint32(rest)))
	rest = rest[4:]
	slot := a.newSlot(string(key))
	s := &a.sess.all[x]
	s.slots = append(s.slots, slot)
	decode := func(k int, from []byte) (*row.Vector, []byte, error) {
		v := row.NewVector(a.keyCols.cols[k].Type, 1)
		from, err := row.DecodeKey(v.Type, from, v)
		return v, from, err
	}
	var v *row.Vector
	var err error
	for _, col := range a.sess.keys {
		same := func(of int) bool { return of >= 0 && a.sess.keys[of] == col }
		if v, own, err = decode(slices.IndexFunc(a.of.keys, same), own); err != nil {
			return -1, err
		}
		for k, of := range a.of.keys {
			if same(of) {
				setValue(a.keyCols.cols[k], int(slot), v, 0)
			}
		}
	}
	for k, of := range a.of.keys {
		switch to := a.keyCols.cols[k]; {
		case a.of.bounds[k] != 0:
			hold(to, int(slot))
			to.I64[slot] = int64(x)
		case of < 0:
			if v, rest, err = decode(k, rest); err != nil {
				return -1, err
			}
			setValue(to, int(slot), v, 0)
		}
	}
	return slot, nil
}

// outside reports whether a group's session is not given out, because it began before the view did
// (R2).
func (a *aggregate) outside(slot int32) bool {
	return a.sess != nil && !a.sess.givenOut(a.sess.all[a.sessionOf(slot)].start)
}

// putBounds writes the sessions' bounds over their numbers, in the rows that are given out.
func (a *aggregate) putBounds(slots []int32) {
	for i, b := range a.of.bounds {
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
	for i, b := range a.of.bounds {
		if b != 0 {
			a.keyCols.cols[i].I64[slot] = int64(x)
		}
	}
	key := a.sessionKey(nil, a.keyCols.cols, nil, int(slot))
	g := &a.groups[slot]
	into, ok := a.table.get(key)
	if !ok { // x has no such group yet: this becomes it
		a.table.drop(g.key)
		a.gone = append(a.gone, lost{key: g.key})
		a.losePieces(slot, a.stateKey(g.key))
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
		a.losePieces(slot, a.stateKey(g.key))
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
