package engine

import (
	"unsafe"

	"tidemark/windows"
)

// Here is how rows that wait until they are final, or were given on since they are, leave the memory
// and come back.

func (o *finalOnly) colds() *cold { return &o.cold }

func (o *finalOnly) resident() int64 { return int64(len(o.table)) }

func (o *finalOnly) notFinal() windows.Micros { return o.e.wm + 1 }

func (o *finalOnly) stateKey(key string) []byte {
	return append([]byte{spaceFinal, o.id}, key...)
}

// find finds a row by its key, in memory or in the store.
func (o *finalOnly) find(key []byte) (int32, bool) {
	slot, ok := o.table[string(key)]
	if ok || o.cold.count == 0 {
		return slot, ok
	}
	return o.fetch(key)
}

// fetch brings a row back that is not in memory.
func (o *finalOnly) fetch(key []byte) (int32, bool) {
	if !o.cold.fetch(o.stateKey(string(key)), key, o.load) {
		return -1, false
	}
	slot := o.table[string(key)]
	o.time.add(o.at[slot].finalAt, slot, o.e.wm)
	o.at[slot].used = true
	return slot, true
}

// fetchDue brings the rows back that become final as the watermark goes to wm.
func (o *finalOnly) fetchDue(wm windows.Micros) {
	for _, key := range o.cold.dueAt(wm) {
		o.find(key)
	}
}

// forgetCold drops closed rows that are not in memory.
func (o *finalOnly) forgetCold(wm windows.Micros) {
	for _, key := range o.cold.closedAt(wm, o.e.cfg.AllowedLateness) {
		if _, here := o.table[string(key)]; here {
			continue
		}
		if slot, ok := o.fetch(key); ok {
			o.drop(slot)
		}
	}
}

const finalRowBytes = int64(unsafe.Sizeof(finalRow{})) + stringBytes + 24 // and its share of table and timeline

// memory is about what the rows take: their columns about as much as their keys once more.
func (o *finalOnly) memory() int64 {
	return int64(len(o.table))*(finalRowBytes+16*int64(len(o.store.cols))) + 2*o.keyBytes
}

// evict is the clock of the rows.
func (o *finalOnly) evict(excess int64) (freed int64) {
	return turn(&o.hand, len(o.at), excess, func(i int32) *bool { return &o.at[i].used }, func(i int32) int64 {
		x := &o.at[i]
		if !x.live || x.changed || x.finalAt == windows.AtOnce || x.listed != listed(x.finalAt) {
			return 0
		}
		was, at := o.memory(), x.finalAt
		o.clear(i)
		n := was - o.memory()
		o.cold.left(at, n)
		o.time.left(len(o.table), func() {
			for i := range o.at {
				if x := &o.at[i]; x.live {
					o.time.add(x.finalAt, int32(i), o.e.wm)
				}
			}
		})
		return n
	})
}

// clear makes the slot of a row free.
func (o *finalOnly) clear(slot int32) {
	x := &o.at[slot]
	delete(o.table, x.key)
	o.keyBytes -= int64(len(x.key))
	o.store.clear(int(slot))
	*x = finalRow{changed: x.changed}
	o.free = append(o.free, slot)
}
