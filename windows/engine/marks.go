package engine

import "tidemark/windows"

// marks knows of each slot of an operator (a group, a partition) whether it changed and where it
// stands on the way from open to closed, and so what must be given out when.
type marks struct {
	e       *Engine
	at      []mark
	free    []int32
	time    timeline
	dirty   []int32 // slots that changed since they were given out; some may not be dirty any more
	late    []int32 // slots that changed after they were final
	changed []int32 // slots to be saved
	order   []int32 // scratch: the slots that are given out now
	hand    int     // of the clock that finds what was not used for long
}

type mark struct {
	finalAt windows.Micros
	live    bool
	dirty   bool // changed since it was given out
	late    bool // in late
	final   bool // its window is final
	changed bool // in changed
	used    bool // since the clock's hand passed it; see evict
	listed  listing
}

// take gives a free slot, a new one where there is none; grown says so.
func (m *marks) take(finalAt windows.Micros) (slot int32, grown bool) {
	if n := len(m.free); n > 0 {
		slot = m.free[n-1]
		m.free = m.free[:n-1]
	} else {
		slot, grown = int32(len(m.at)), true
		m.at = append(m.at, mark{})
	}
	was := m.at[slot]
	m.at[slot] = mark{finalAt: finalAt, live: true, late: was.late, changed: was.changed}
	return slot, grown
}

// drop makes a slot free.
func (m *marks) drop(slot int32) {
	was := m.at[slot]
	m.at[slot] = mark{late: was.late, changed: was.changed}
	m.free = append(m.free, slot)
}

// rise notes that a row with this finalAt came into a slot: the latest decides (C2).
func (m *marks) rise(slot int32, at windows.Micros) {
	if at > m.at[slot].finalAt {
		m.move(slot, at)
	}
}

// move sets when a slot is final.
func (m *marks) move(slot int32, at windows.Micros) {
	k := &m.at[slot]
	if k.finalAt == at {
		return
	}
	k.finalAt = at
	if k.final && at > m.e.wm {
		// The window was opened again: that is a correction of what was final (C4).
		k.final = false
		m.touchLate(slot)
	}
	m.time.add(at, slot, m.e.wm)
	if at <= m.e.wm {
		k.final = true
	}
}

// touch notes that a slot changed.
func (m *marks) touch(slot int32) {
	k := &m.at[slot]
	k.used = true
	if !k.dirty {
		k.dirty = true
		m.dirty = append(m.dirty, slot)
	}
	m.toSave(slot)
	if k.final {
		m.touchLate(slot)
	}
}

func (m *marks) toSave(slot int32) {
	if k := &m.at[slot]; !k.changed {
		k.changed = true
		m.changed = append(m.changed, slot)
	}
}

func (m *marks) touchLate(slot int32) {
	if k := &m.at[slot]; !k.late {
		k.late = true
		m.late = append(m.late, slot)
	}
}

// collect puts a slot that changed among those to be given out, once.
func (m *marks) collect(slot int32) {
	if k := &m.at[slot]; k.live && k.dirty {
		k.dirty = false
		m.order = append(m.order, slot)
	}
}

// due are the changed slots that became final at wm.
func (m *marks) due(wm windows.Micros) []int32 {
	m.order = m.order[:0]
	m.time.eachDue(wm, func(at windows.Micros, slots []int32) {
		for _, slot := range slots {
			k := &m.at[slot]
			if k.live && k.finalAt == at && !k.final {
				k.final = true
				m.collect(slot)
			}
		}
	})
	return m.order
}

// corrected are the slots that changed after they were final.
func (m *marks) corrected() []int32 {
	m.order = m.order[:0]
	for _, slot := range m.late {
		m.at[slot].late = false
		m.collect(slot)
	}
	m.late = m.late[:0]
	return m.order
}

// all are the slots that changed.
func (m *marks) all() []int32 {
	m.order = m.order[:0]
	for _, slot := range m.dirty {
		m.collect(slot)
	}
	m.dirty = m.dirty[:0]
	return m.order
}

// one is a slot, if it changed.
func (m *marks) one(slot int32) []int32 {
	m.order = m.order[:0]
	m.collect(slot)
	return m.order
}

// closed calls drop with each slot that is closed at wm.
func (m *marks) closed(wm windows.Micros, drop func(slot int32)) {
	m.time.eachClosed(wm, m.e.cfg.AllowedLateness, func(at windows.Micros, slots []int32) {
		for _, slot := range slots {
			if k := &m.at[slot]; k.live && k.finalAt == at {
				drop(slot)
			}
		}
	})
}

// save calls f with each live slot that is to be saved.
func (m *marks) save(f func(slot int32)) {
	for _, slot := range m.changed {
		k := &m.at[slot]
		if k.changed && k.live {
			f(slot)
		}
		k.changed = false
	}
	m.changed = m.changed[:0]
	m.tidy()
}

// tidy takes what is no longer dirty, or listed twice, off the list.
func (m *marks) tidy() {
	kept := m.dirty[:0]
	for _, slot := range m.dirty {
		if k := &m.at[slot]; k.dirty {
			k.dirty = false
			kept = append(kept, slot)
		}
	}
	for _, slot := range kept {
		m.at[slot].dirty = true
	}
	m.dirty = kept
}

// restore marks a slot that was loaded.
func (m *marks) restore(slot int32, finalAt windows.Micros, dirty bool) {
	m.at[slot].finalAt = finalAt
	if m.at[slot].dirty = dirty; dirty {
		m.dirty = append(m.dirty, slot)
	}
}

// loaded puts the slots on the timeline: the watermark is known now.
func (m *marks) loaded() {
	for i := range m.at {
		if k := &m.at[i]; k.live {
			m.time.add(k.finalAt, int32(i), m.e.wm)
			k.final = k.finalAt <= m.e.wm
			k.changed = false
		}
	}
	m.changed = m.changed[:0]
}

// arrived puts a slot that was loaded alone where it belongs at the present watermark.
func (m *marks) arrived(slot int32) {
	k := &m.at[slot]
	m.time.add(k.finalAt, slot, m.e.wm)
	k.final, k.used = k.finalAt <= m.e.wm, true
}

// leave makes the slot of an entry free that goes on in the store.
func (m *marks) leave(slot int32) {
	m.drop(slot)
	m.time.left(len(m.at)-len(m.free), func() {
		for i := range m.at {
			if k := &m.at[i]; k.live && k.finalAt != windows.AtOnce {
				m.time.add(k.finalAt, int32(i), m.e.wm)
			}
		}
	})
}

func (m *marks) pending() bool {
	for _, slot := range m.dirty {
		if k := &m.at[slot]; k.live && k.dirty {
			return true
		}
	}
	return false
}

func (m *marks) open() bool { return len(m.time.due) > 0 }
