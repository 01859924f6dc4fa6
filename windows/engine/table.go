package engine

import "hash/maphash"

// table finds slots by key: open addressing with linear probing, a hash beside each slot so that
// keys are compared only where they are nearly sure to be equal. Go's map of strings was tried:
// it took a third more of the time of a grouped view.
//
// The keys themselves are the owner's: keyOf gives that of a slot.
type table struct {
	keyOf   func(slot int32) string
	entries []tableEntry // a power of two long, or empty
	used    int
}

type tableEntry struct {
	hash uint32
	slot int32 // plus one; 0: free
}

var tableSeed = maphash.MakeSeed()

func hashKey(key []byte) uint32 {
	h := maphash.Bytes(tableSeed, key)
	return uint32(h) ^ uint32(h>>32)
}

// get finds the slot of a key.
func (t *table) get(key []byte) (int32, bool) {
	if t.used == 0 {
		return -1, false
	}
	h := hashKey(key)
	mask := uint32(len(t.entries) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		e := t.entries[i]
		if e.slot == 0 {
			return -1, false
		}
		if e.hash == h && t.keyOf(e.slot-1) == string(key) {
			return e.slot - 1, true
		}
	}
}

// put adds the slot of a key that is not there.
func (t *table) put(key string, slot int32) {
	if 4*(t.used+1) > 3*len(t.entries) {
		t.grow()
	}
	t.used++
	t.place(tableEntry{hashKey([]byte(key)), slot + 1})
}

func (t *table) place(e tableEntry) {
	mask := uint32(len(t.entries) - 1)
	i := e.hash & mask
	for t.entries[i].slot != 0 {
		i = (i + 1) & mask
	}
	t.entries[i] = e
}

func (t *table) grow() {
	old := t.entries
	t.entries = make([]tableEntry, max(16, 2*len(old)))
	for _, e := range old {
		if e.slot != 0 {
			t.place(e)
		}
	}
}

// drop takes a key out; what was pushed behind it by probing moves up.
func (t *table) drop(key string) {
	if t.used == 0 {
		return
	}
	h := hashKey([]byte(key))
	mask := uint32(len(t.entries) - 1)
	i := h & mask
	for ; ; i = (i + 1) & mask {
		e := t.entries[i]
		if e.slot == 0 {
			return
		}
		if e.hash == h && t.keyOf(e.slot-1) == key {
			break
		}
	}
	t.used--
	for {
		t.entries[i] = tableEntry{}
		hole := i
		for {
			i = (i + 1) & mask
			e := t.entries[i]
			if e.slot == 0 {
				return
			}
			// It may move when its own place is not between the hole and where it lies.
			if home := e.hash & mask; (i-home)&mask >= (i-hole)&mask {
				t.entries[hole] = e
				break
			}
		}
	}
}
