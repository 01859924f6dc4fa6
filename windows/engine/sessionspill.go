package engine

import (
	"unsafe"

	"tidemark/windows"
)

// Here is how sessions leave the memory and come back: all that there is of a key, the bounds of its
// sessions and what lies behind them, together. The index has each session by finalAt.
//
//	K7  The groups of a session, or its rows, are in memory when the sessions of its key are, and only
//	    then.

func (o *sessions) colds() *cold { return &o.cold }

func (o *sessions) resident() int64 { return int64(len(o.all) - len(o.free)) }

func (o *sessions) notFinal() windows.Micros { return o.e.wm + 1 }

// find finds the sessions of a key, in memory or in the store.
func (o *sessions) find(key []byte) []int32 {
	list, ok := o.table[string(key)]
	if ok || o.cold.count == 0 {
		return list
	}
	return o.fetch(string(key))
}

// fetch brings the sessions of a key back that are not in memory.
func (o *sessions) fetch(key string) []int32 {
	if !o.cold.fetch(o.stateKey(key), []byte(key), o.load) {
		return nil
	}
	list := o.table[key]
	for i, x := range list {
		o.time.add(windows.Session.FinalAt(o.all[x].end), x, o.e.wm)
		if i > 0 {
			o.cold.came()
		}
	}
	if o.rows != nil {
		o.e.breaks(o.rows.fetch(key))
	} else {
		o.e.breaks(o.agg.fetchOf(key))
	}
	if len(o.table[key]) != len(list) { // a group without its session
		o.e.breaks(errState)
	}
	return list
}

// fetchDue brings the sessions back that become final as the watermark goes to wm.
func (o *sessions) fetchDue(wm windows.Micros) {
	for _, key := range o.cold.dueAt(wm) {
		o.find(key)
	}
}

// fetchClosed brings those back that are to be forgotten.
func (o *sessions) fetchClosed(wm windows.Micros) {
	for _, key := range o.cold.closedAt(wm, windows.Later(o.options.AllowedLateness, o.kind.Gap)) {
		o.find(key)
	}
}

const sessionBytes = int64(unsafe.Sizeof(session{})) + stringBytes + 40 // and its share of table, timeline and list of groups

// memory is about what the bounds take.
func (o *sessions) memory() int64 { return o.resident()*sessionBytes + o.keyBytes }

// weight is about what the sessions take with all that leaves with them.
func (o *sessions) weight() int64 {
	if o.rows != nil {
		return o.memory() + o.rows.memory()
	}
	return o.memory() + o.agg.memory() + o.e.emit.memory()
}

// evictable reports whether all that there is of a key is in the store as it is here.
func (o *sessions) evictable(key string) bool {
	for _, x := range o.table[key] {
		s := &o.all[x]
		if s.changed || s.used || s.listed != listed(windows.Session.FinalAt(s.end)) {
			return false
		}
		for _, slot := range s.slots {
			if o.rows != nil && o.rows.at[slot].save || o.rows == nil && !o.agg.evictable(slot) {
				return false
			}
		}
	}
	return o.rows == nil || !o.rows.pending()
}

// evict is the clock of the sessions.
func (o *sessions) evict(excess int64) (freed int64) {
	was := o.weight()
	return turn(&o.hand, len(o.all), excess, func(x int32) *bool { return &o.all[x].used }, func(x int32) int64 {
		key := o.all[x].key
		if !o.all[x].live || !o.evictable(key) {
			return 0
		}
		o.leave(key)
		now := o.weight()
		n := was - now
		was = now
		o.cold.bytes += n
		return n
	})
}

// leave lets go of the sessions of a key.
func (o *sessions) leave(key string) {
	for _, x := range o.table[key] {
		s := &o.all[x]
		slots := s.slots
		s.slots = nil
		for _, slot := range slots {
			if o.rows != nil {
				o.rows.clear(slot)
			} else {
				o.agg.leave(slot)
				o.agg.cold.left(windows.Never, 0) // with its session
			}
		}
		o.cold.left(windows.Session.FinalAt(s.end), 0)
		o.vacate(x, x)
		o.free = append(o.free, x)
		o.time.left(int(o.resident()), o.list)
	}
	delete(o.table, key)
}

// list puts the sessions that are here on the timeline.
func (o *sessions) list() {
	for x := range o.all {
		if s := &o.all[x]; s.live {
			o.time.add(windows.Session.FinalAt(s.end), int32(x), o.e.wm)
		}
	}
}

// fetchOf brings the groups of a session key back.
func (a *aggregate) fetchOf(key string) error {
	return a.e.under(appendOf([]byte{spaceGroup, a.id}, key), func(name, value []byte) error {
		if err := a.load(name[2:], value); err != nil {
			return err
		}
		a.cold.came()
		slot, _ := a.table.get(name[2:])
		a.arrived(slot)
		return nil
	})
}

// fetch brings the rows of a session key back.
func (r *sessionRows) fetch(key string) error {
	var slots []int32
	err := r.o.e.under(append([]byte{spaceSessionRow, r.o.id}, key...), func(name, value []byte) error {
		slot, err := r.restore(name[2:], value)
		slots = append(slots, slot)
		return err
	})
	if err != nil {
		return err
	}
	return r.find(slots)
}

// memory is about what the rows take.
func (r *sessionRows) memory() int64 {
	return rowsMemory(len(r.at)-len(r.free), unsafe.Sizeof(sessionRow{})+4, len(r.store.cols)) + r.textBytes
}
