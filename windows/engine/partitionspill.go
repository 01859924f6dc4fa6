package engine

import (
	"unsafe"

	"tidemark/windows"
)

// Here is how partitions in order leave the memory and come back, each as a whole.

func (o *partitions) colds() *cold { return &o.cold }

func (o *partitions) resident() int64 { return int64(len(o.table)) }

func (o *partitions) notFinal() windows.Micros { return o.e.wm + 1 }

func (o *partitions) stateKey(key string) []byte {
	return append([]byte{spacePartition, o.id}, key...)
}

// find finds a partition by its key, in memory or in the store.
func (o *partitions) find(key []byte) (int32, bool) {
	slot, ok := o.table[string(key)]
	if ok || o.cold.count == 0 {
		return slot, ok
	}
	return o.fetch(key)
}

// fetch brings a partition back that is not in memory.
func (o *partitions) fetch(key []byte) (int32, bool) {
	if !o.cold.fetch(o.stateKey(string(key)), key, o.load) {
		return -1, false
	}
	slot := o.table[string(key)]
	o.marks.arrived(slot)
	return slot, true
}

// fetchDue brings the partitions back that become final as the watermark goes to wm, where their rows
// wait for that.
func (o *partitions) fetchDue(wm windows.Micros) {
	if !o.e.cfg.EmitFinal {
		return
	}
	for _, key := range o.cold.dueAt(wm) {
		o.find(key)
	}
}

// forgetCold drops closed partitions that are not in memory.
func (o *partitions) forgetCold(wm windows.Micros) {
	for _, key := range o.cold.closedAt(wm, o.e.cfg.AllowedLateness) {
		if _, here := o.table[string(key)]; here {
			continue
		}
		if slot, ok := o.fetch(key); ok {
			o.drop(slot)
		}
	}
}

const (
	partBytes      = int64(unsafe.Sizeof(part{})+unsafe.Sizeof(mark{})) + stringBytes + 24 // and its share of table and timeline
	sortedRowBytes = int64(unsafe.Sizeof(sortedRow{})) + 8                                 // and its places in the lists of its partition
)

// memory is about what the partitions and their rows take: a row's columns as much as its order.
func (o *partitions) memory() int64 {
	cols := len(o.rows.store.cols)
	if o.rows.out != nil {
		cols += len(o.rows.out.cols)
	}
	rows := int64(len(o.rows.at) - len(o.rows.unset))
	return rows*(sortedRowBytes+16*int64(cols)) + 2*o.rows.sortBytes + int64(len(o.table))*partBytes + o.keyBytes
}

// evict is the clock of the partitions.
func (o *partitions) evict(excess int64) (freed int64) {
	m := &o.marks
	return turn(&m.hand, len(m.at), excess, func(i int32) *bool { return &m.at[i].used }, func(i int32) int64 {
		k := &m.at[i]
		if !k.live || k.changed || k.late || k.dirty && !o.e.cfg.EmitFinal || k.finalAt == windows.AtOnce || k.listed != listed(k.finalAt) {
			return 0
		}
		was, at := o.memory(), k.finalAt
		o.clear(i)
		m.leave(i)
		n := was - o.memory()
		o.cold.left(at, n)
		return n
	})
}

// clear empties a slot, whose key is no longer found.
func (o *partitions) clear(slot int32) {
	p := &o.parts[slot]
	for _, r := range p.given {
		if !o.rows.at[r].in {
			o.rows.free(r)
		}
	}
	for _, r := range p.rows {
		o.rows.free(r)
	}
	delete(o.table, p.key)
	o.keyBytes -= int64(len(p.key))
	*p = part{}
}
