package engine

import (
	"container/heap"

	"tidemark/windows"
)

// timeline knows which slots become final, and later closed, at which watermark. A slot may be
// listed at a time that is no longer its own, or twice; who takes it off looks at the slot.
type timeline struct {
	at      map[windows.Micros][]int32
	due     timeHeap // times at which slots become final
	closing timeHeap // times that were due and whose slots will be closed
	stale   int      // slots that are listed and have left; see left
}

type timeHeap []windows.Micros

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h timeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap) Push(x any)        { *h = append(*h, x.(windows.Micros)) }
func (h *timeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// add lists a slot at a time. Slots that are never final are not listed. A time that was due
// already, at watermark wm, is only waiting to be closed.
func (t *timeline) add(at windows.Micros, slot int32, wm windows.Micros) {
	if at == windows.Never {
		return
	}
	if t.at == nil {
		t.at = map[windows.Micros][]int32{}
	}
	slots, known := t.at[at]
	if !known {
		if at <= wm {
			heap.Push(&t.closing, at)
		} else {
			heap.Push(&t.due, at)
		}
	}
	t.at[at] = append(slots, slot)
}

// left notes that a slot is not here any more. When that is so of most that are listed, the list is made
// anew: list adds the slots that are here, so many.
func (t *timeline) left(here int, list func()) {
	if t.stale++; t.stale > 1024 && t.stale > here {
		*t = timeline{}
		list()
	}
}

// anyDue reports whether a time is due at wm.
func (t *timeline) anyDue(wm windows.Micros) bool { return len(t.due) > 0 && t.due[0] <= wm }

// eachDue calls f with the slots of each time that became due at wm, oldest first.
func (t *timeline) eachDue(wm windows.Micros, f func(at windows.Micros, slots []int32)) {
	for t.anyDue(wm) {
		at := heap.Pop(&t.due).(windows.Micros)
		heap.Push(&t.closing, at)
		f(at, t.at[at])
	}
}

// eachClosed calls f with the slots of each time that is closed at wm, oldest first, and forgets
// the time.
func (t *timeline) eachClosed(wm, lateness windows.Micros, f func(at windows.Micros, slots []int32)) {
	for len(t.closing) > 0 && windows.Later(t.closing[0], lateness) <= wm {
		at := heap.Pop(&t.closing).(windows.Micros)
		slots := t.at[at]
		delete(t.at, at)
		f(at, slots)
	}
}
