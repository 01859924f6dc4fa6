package engine

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"tidemark/windows"
)

// Here is how panes leave the memory and come back: all that there is of a group, its leaves and its
// extras, together. The index has each of them under the number of its pane or window, because that
// is how time asks for them, with the number of the leaf before it in the same group as its value:
//
//	K4  A group in memory is in memory as a whole.
//	K5  Of the leaves of a group that is not in memory, the index tells of one whether it is the first
//	    from a pane on.
//
// A group that is not in memory when windows become final gives its rows and stays where it was:
// nothing of it changes.

func (p *panes) colds() *cold { return &p.cold }

func (p *panes) resident() int64 { return p.parts }

// notFinal is the first pane of which a window is not final.
func (p *panes) notFinal() int64 {
	if p.a.e.wm == windows.NoWatermark {
		return math.MinInt64
	}
	return p.lastFinal(p.a.e.wm) + p.slide
}

// indexed is what the index has behind the number of a leaf or an extra.
func indexed(extra bool, key string) string { return string([]byte{bit(extra)}) + key }

// void notes that the store's leaf, or extra, is no more.
func (p *panes) void(extra bool, number int64, key string) {
	p.gone = append(p.gone, p.stateKey(extra, number, key))
	if p.a.e.store != nil {
		p.gone = append(p.gone, p.cold.indexKey(number, indexed(extra, key)))
	}
	if p.cold.count > 0 {
		if p.cold.gone == nil {
			p.cold.gone = map[string]struct{}{}
		}
		p.cold.gone[string(p.gone[len(p.gone)-1])] = struct{}{}
	}
}

func (p *panes) isVoid(extra bool, number int64, key string) bool { // K2
	if len(p.cold.gone) == 0 {
		return false
	}
	_, void := p.cold.gone[string(p.cold.indexKey(number, indexed(extra, key)))]
	return void
}

// find finds the group of a key, in memory or in the store.
func (p *panes) find(key []byte) (int32, bool) {
	g, ok := p.table.get(key)
	if ok || p.cold.count == 0 {
		return g, ok
	}
	if g, ok = p.fetch(string(key)); !ok {
		return -1, false
	}
	group := &p.groups[g]
	n := int64(len(group.leaves) + group.extras)
	p.cold.bytes -= p.cold.bytes / p.cold.count * n
	p.cold.count -= n
	for _, l := range group.leaves {
		p.list(g, l.pane)
	}
	return g, true
}

// fetch loads a group that is not in memory. It is on no list yet.
func (p *panes) fetch(key string) (int32, bool) {
	e := p.a.e
	e.reads++
	from := append([]byte{spacePane, p.a.id}, key...)
	to := append(slices.Clone(from), 2)
	found := false
	e.breaks(e.store.Scan(from, to, func(name, value []byte) bool {
		if len(name) != len(from)+9 {
			e.breaks(errState)
			return false
		}
		extra, number := paneNumber(name)
		if p.isVoid(extra, number, key) {
			return true
		}
		found = true
		_, err := p.restore(name[2:], value)
		e.breaks(err)
		return err == nil
	}))
	if !found || e.broken != nil {
		return -1, false
	}
	return p.table.get([]byte(key))
}

// paneNumber reads the end of a state's key.
func paneNumber(key []byte) (extra bool, number int64) {
	end := key[len(key)-9:]
	return end[0] == 1, int64(binary.BigEndian.Uint64(end[1:]) ^ 1<<63)
}

// scan calls f with the places in the index from one number to another, both ends in, of what is in
// the store alone, and returns the next number behind.
func (p *panes) scan(from, to int64, f func(number int64, extra bool, key string, value []byte)) (next int64) {
	e := p.a.e
	next = windows.Never
	lower := p.cold.indexKey(from, "")
	e.breaks(e.store.Scan(lower, []byte{spaceIndex, p.cold.space, p.cold.id + 1}, func(name, value []byte) bool {
		if len(name) <= len(lower) {
			e.breaks(errState)
			return false
		}
		number := int64(binary.BigEndian.Uint64(name[3:]) ^ 1<<63)
		if number > to {
			next = number
			return false
		}
		if _, void := p.cold.gone[string(name)]; void {
			return true
		}
		rest := name[len(lower):]
		if _, here := p.table.get(rest[1:]); !here {
			f(number, rest[0] == 1, string(rest[1:]), value)
		}
		return e.broken == nil
	}))
	return next
}

// sweepCold fills the windows that become final behind the last one that did, of groups that are not
// in memory.
func (p *panes) sweepCold(final int64) {
	if p.cold.count == 0 || p.cold.due > final+p.size-1 {
		return
	}
	from := int64(math.MinInt64)
	if p.begun {
		from = p.swept + p.slide
	}
	due := windows.Never
	next := p.scan(from, final+p.size-1, func(number int64, extra bool, key string, value []byte) {
		if extra {
			return // its leaf is there
		}
		if number >= final+p.slide {
			due = min(due, number)
		}
		if len(value) == 8 && int64(binary.BigEndian.Uint64(value)) >= from {
			return // its group was met already
		}
		g, ok := p.fetch(key)
		if !ok {
			p.a.e.breaks(errState)
			return
		}
		w := from
		for k := range p.groups[g].leaves {
			pane := p.groups[g].leaves[k].pane
			for w = max(w, p.first(pane)); w <= min(p.last(pane), final); w += p.slide {
				p.fill(w, g)
			}
		}
		p.clear(g)
	})
	p.cold.due = min(due, next)
}

// forgetCold drops what is closed of groups that are not in memory.
func (p *panes) forgetCold(wm windows.Micros) {
	if p.cold.count == 0 || wm == windows.NoWatermark || p.cold.closing == windows.Never || !p.isClosed(p.cold.closing, wm) {
		return
	}
	last := p.lastFinal(wm - p.a.e.cfg.AllowedLateness)
	to := last + p.slide - 1
	p.cold.closing = p.scan(p.cold.closing, to, func(number int64, extra bool, key string, _ []byte) {
		p.a.loseColdPieces(p.stateKey(extra, number, key))
		p.void(extra, number, key)
		p.cold.came()
	})
}

// isClosed reports whether all windows that hold a pane are closed.
func (p *panes) isClosed(pane int64, wm windows.Micros) bool {
	return windows.Later(p.end(p.last(pane)), p.a.e.cfg.AllowedLateness) <= wm
}

const (
	paneGroupBytes = int64(unsafe.Sizeof(paneGroup{})) + stringBytes + 24 // and its share of the table
	leafBytes      = int64(unsafe.Sizeof(leaf{})) + 8                     // and its place in the list of its pane
)

// memory is about what groups and leaves take beside the states of their calls.
func (p *panes) memory() int64 {
	return int64(p.table.used)*(paneGroupBytes+16*int64(len(p.keys))) + p.keyBytes + p.parts*leafBytes
}

// evictable reports whether all of a group is in the store as it is here.
func (p *panes) evictable(g int32) bool {
	group := &p.groups[g]
	if group.dirty || len(group.leaves)+group.extras == 0 {
		return false
	}
	for i := range group.leaves {
		if l := &group.leaves[i]; l.changed || l.late || l.dirty {
			return false
		}
	}
	if group.extras > 0 {
		for _, byGroup := range p.extras {
			if x := byGroup[g]; x != nil && x.changed {
				return false
			}
		}
	}
	return true
}

// evict is the clock of the groups.
func (p *panes) evict(excess int64) (freed int64) {
	was, left := p.a.memory(), false
	freed = turn(&p.hand, len(p.groups), excess, func(g int32) *bool { return &p.groups[g].used }, func(g int32) int64 {
		if !p.evictable(g) {
			return 0
		}
		p.leave(g)
		left = true
		now := p.a.memory()
		n := was - now
		was = now
		p.cold.bytes += n
		return n
	})
	if left {
		p.unlist()
	}
	return freed
}

// leave lets go of a group.
func (p *panes) leave(g int32) {
	group, c := &p.groups[g], &p.cold
	open := p.notFinal()
	n := int64(len(group.leaves) + group.extras)
	c.count += n
	p.a.e.spilled += n
	for _, l := range group.leaves {
		c.closing = min(c.closing, l.pane)
		if l.pane >= open {
			c.due = min(c.due, l.pane)
		}
	}
	if group.extras > 0 {
		for w, byGroup := range p.extras {
			if byGroup[g] != nil {
				c.closing = min(c.closing, w)
			}
		}
	}
	p.clear(g)
}

// clear empties a group that goes on in the store. Lists may have its number still.
func (p *panes) clear(g int32) {
	group := &p.groups[g]
	for _, l := range group.leaves {
		p.uncache(g, l.pane)
		p.a.release(l.slot)
	}
	if group.extras > 0 {
		for w, byGroup := range p.extras {
			if x := byGroup[g]; x != nil {
				p.a.release(x.slot)
				if delete(byGroup, g); len(byGroup) == 0 {
					delete(p.extras, w)
				}
			}
		}
	}
	p.parts -= int64(len(group.leaves) + group.extras)
	p.vacate(g)
	group.leaves = nil
}

// unlist takes the numbers of groups that have left off the lists.
func (p *panes) unlist() {
	gone := func(g int32) bool { return len(p.groups[g].leaves) == 0 }
	for pane, groups := range p.at {
		p.at[pane] = slices.DeleteFunc(groups, gone)
	}
	p.cur = slices.DeleteFunc(p.cur, func(g int32) bool { return !p.groups[g].inCur })
}
