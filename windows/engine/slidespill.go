package engine

import (
	"container/heap"
	"slices"
	"unsafe"

	"tidemark/windows"
)

// Here is how the rows of slides leave the memory and come back: all rows of a key together. The index
// has a key by its last row, because behind that no row of it is wanted. Rows of a key that is not in
// memory stay in the store until then; older ones than those that are kept lie in no window that an
// event may still come into.

func (o *sliding) colds() *cold { return &o.cold }

func (o *sliding) resident() int64 { return int64(len(o.table)) }

func (o *sliding) notFinal() windows.Micros { return o.e.wm + 1 }

// last is the first time behind the rows of a key.
func (o *sliding) last(k *slideKey) windows.Micros { return o.rows[k.rows[len(k.rows)-1]].time + 1 }

// find finds a key, in memory or in the store.
func (o *sliding) find(key []byte) (int32, bool) {
	n, ok := o.table[string(key)]
	if ok || o.cold.count == 0 || o.cold.void(key) {
		return n, ok
	}
	o.e.breaks(o.e.under(append([]byte{spaceSlide, o.id}, key...), func(name, value []byte) error {
		return o.load(name[2:], value)
	}))
	if n, ok = o.table[string(key)]; ok {
		o.order(&o.lists[n])
		o.lists[n].used = true
		o.cold.came()
	}
	return n, ok
}

// fetchClosed brings those keys back of which no row is wanted any more, to be forgotten.
func (o *sliding) fetchClosed(wm windows.Micros) {
	for _, key := range o.cold.closedAt(wm, windows.Later(o.kind.Size, o.options.AllowedLateness)) {
		o.find(key)
	}
}

const slideKeyBytes = int64(unsafe.Sizeof(slideKey{})) + stringBytes + 24 // and its share of the table

// memory is about what the rows and their keys take.
func (o *sliding) memory() int64 {
	rows := rowsMemory(len(o.rows)-len(o.free), unsafe.Sizeof(slideRow{})+8, len(o.store.cols)) // and its places in list and heap
	return rows + o.textBytes + o.resident()*slideKeyBytes + o.keyBytes
}

// evict is the clock of the keys.
func (o *sliding) evict(excess int64) (freed int64) {
	freed = turn(&o.hand, len(o.lists), excess, func(n int32) *bool { return &o.lists[n].used }, func(n int32) int64 {
		k := &o.lists[n]
		if !k.live || k.changed || k.listed != listed(o.last(k)) {
			return 0
		}
		was, at := o.memory(), o.last(k)
		for _, r := range k.rows {
			o.clear(r)
		}
		o.clearKey(n)
		o.cold.left(at, was-o.memory())
		return was - o.memory()
	})
	if freed > 0 {
		o.old.at = slices.DeleteFunc(o.old.at, func(r int32) bool { return !o.rows[r].live })
		heap.Init(&o.old)
	}
	return freed
}
