package engine

import (
	"slices"
	"unsafe"

	"tidemark/windows"
)

// Here is how the emitter's entries leave the memory and come back: one with the row of a group
// together with that (K3), any other for itself.

func (m *emitter) colds() *cold { return &m.cold }

func (m *emitter) resident() int64 { return int64(m.table.used) }

func (m *emitter) notFinal() windows.Micros { return m.e.wm + 1 }

// find finds the entry of a key, in memory or in the store.
func (m *emitter) find(key []byte) (int32, bool) {
	x, ok := m.table.get(key)
	if ok || m.cold.count == 0 {
		return x, ok
	}
	return m.fetch(string(key))
}

// fetch brings an entry back that is not in memory, with the group whose row it has.
func (m *emitter) fetch(key string) (int32, bool) {
	if !m.cold.fetch(m.stateKey(key), []byte(key), m.load) {
		return -1, false
	}
	x, _ := m.table.get([]byte(key))
	m.time.add(m.entries[x].finalAt, x, m.e.wm)
	m.entries[x].used = true
	if n := len(m.links); n > 0 {
		l := m.links[n-1]
		m.links = m.links[:n-1]
		m.linked(l, (*aggregate).find)
	}
	return x, true
}

// fetchDue brings entries back whose rows become final as the watermark goes to wm.
func (m *emitter) fetchDue(wm windows.Micros) {
	for _, key := range m.cold.dueAt(wm) {
		m.find(key)
	}
}

// forgetCold drops closed entries that are not in memory.
func (m *emitter) forgetCold(wm windows.Micros) {
	for _, key := range m.cold.closedAt(wm, m.e.cfg.AllowedLateness) {
		if _, here := m.table.get(key); here {
			continue
		}
		if x, ok := m.fetch(string(key)); ok {
			m.close(x)
		}
	}
}

// close drops an entry whose window is closed.
func (m *emitter) close(x int32) {
	if en := &m.entries[x]; en.there && en.status == windows.Provisional { // withdrawn before it was final
		m.hide(x)
	}
	m.drop(x)
}

const entryBytes = int64(unsafe.Sizeof(entry{})) + 24 // and its share of table and timeline

// memory is about what the entries take. A row takes about twice what it takes encoded.
func (m *emitter) memory() int64 {
	return int64(m.table.used)*(entryBytes+stringBytes) + m.keyBytes + 2*m.valueBytes
}

// sized notes how long the saved value of an entry is.
func (m *emitter) sized(x int32, size int) {
	en := &m.entries[x]
	m.valueBytes += int64(size) - int64(en.size)
	en.size = int32(size)
}

// saved reports whether an entry is in the store as it is here, and waits for nothing but time. What is
// staged of a view that gives out final rows only does, since nothing else is to be given out of it.
func (m *emitter) saved(x int32) bool {
	en := &m.entries[x]
	return !en.changed && (!en.staged || m.e.cfg.EmitFinal)
}

// evicted takes what was staged of entries that have left off the list.
func (m *emitter) evicted() {
	m.touched = slices.DeleteFunc(m.touched, func(x int32) bool { return !m.entries[x].staged })
	if len(m.touched) == 0 {
		m.stage.Reset()
	}
	m.compact()
}

// evict is the clock of the entries that go for themselves.
func (m *emitter) evict(excess int64) (freed int64) {
	return turn(&m.hand, len(m.entries), excess, func(i int32) *bool { return &m.entries[i].used }, func(i int32) int64 {
		en := &m.entries[i]
		if !en.live || en.owner != nil || !m.saved(i) || en.finalAt == windows.AtOnce || en.listed != listed(en.finalAt) {
			return 0
		}
		was := m.memory()
		m.evictOne(i)
		return was - m.memory()
	})
}

// evictOne lets go of an entry.
func (m *emitter) evictOne(x int32) {
	was, at, owned := m.memory(), m.entries[x].finalAt, m.entries[x].owner != nil
	m.clear(x)
	m.time.left(m.table.used, func() {
		for i := range m.entries {
			if en := &m.entries[i]; en.live && en.finalAt != windows.AtOnce {
				m.time.add(en.finalAt, int32(i), m.e.wm)
			}
		}
	})
	if owned { // its group is in the index, and counts its bytes
		m.cold.count++
		m.e.spilled++
		return
	}
	m.cold.left(at, was-m.memory())
}

// clear makes the number of an entry free.
func (m *emitter) clear(x int32) {
	en := &m.entries[x]
	m.table.drop(en.key)
	m.keyBytes -= int64(len(en.key))
	m.valueBytes -= int64(en.size)
	*en = entry{changed: en.changed}
	m.cur.clear(int(x))
	m.free = append(m.free, x)
}
