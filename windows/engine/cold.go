package engine

import (
	"encoding/binary"

	"tidemark/windows"
)

// cold is what an operator knows of those of its entries that are in the store and not in memory. An
// entry is in one place or the other:
//
//	K1  An entry that is not in memory is in the store as it was when it left, and its place in the
//	    index says when it is final.
//	K2  What the store has of an entry that is in memory, or that was dropped since the last Take,
//	    is void.
//
// Time has to find entries that nobody asks for by key: those that become final, and those that are
// closed. So the store has an index of the entries by finalAt, and cold knows the next time in it
// on either side.
type cold struct {
	e         *Engine
	space, id byte
	// count is how many entries are cold; bytes is about what they would take in memory.
	count, bytes int64
	// due: no cold entry becomes final after the watermark and before it.
	due windows.Micros
	// closing: no cold entry has a lesser finalAt.
	closing windows.Micros
	// gone are the keys that were dropped since the last Take.
	gone map[string]struct{}
}

func newCold(e *Engine, space, id byte) cold {
	return cold{e: e, space: space, id: id, due: windows.Never, closing: windows.Never}
}

// indexKey is the place of an entry in the index: space, number, finalAt so that bytes compare as
// times do, the entry's key.
func (c *cold) indexKey(at windows.Micros, key string) []byte {
	dst := binary.BigEndian.AppendUint64([]byte{spaceIndex, c.space, c.id}, uint64(at)^1<<63)
	return append(dst, key...)
}

// left notes that an entry left the memory.
func (c *cold) left(at windows.Micros, bytes int64) {
	c.count++
	c.bytes += bytes
	c.e.spilled++
	if at == windows.Never {
		return
	}
	if at > c.e.wm {
		c.due = min(c.due, at)
	}
	c.closing = min(c.closing, at)
}

// came notes that an entry came back.
func (c *cold) came() {
	c.bytes -= c.bytes / max(c.count, 1)
	c.count--
}

// void reports whether what the store has of a key that is not in memory is no more (K2).
func (c *cold) void(key []byte) bool {
	_, void := c.gone[string(key)]
	return void
}

// read gives what the store has of a key, or nil.
func (c *cold) read(name []byte, key []byte) []byte {
	if c.void(key) {
		return nil
	}
	c.e.reads++
	v, err := c.e.store.Get(name)
	if err != nil {
		c.e.breaks(err)
		return nil
	}
	return v
}

// fetch brings an entry back by what the store has of it, if anything; load puts it into memory.
func (c *cold) fetch(name, key []byte, load func(key, value []byte) error) bool {
	v := c.read(name, key)
	if v == nil {
		return false
	}
	if err := load(key, v); err != nil {
		c.e.breaks(err)
		return false
	}
	c.came()
	return true
}

// turn is the clock by which entries leave the memory: the hand goes round n of them, at most twice,
// until enough is free. One that was used since the hand came by last gets another round; leave
// answers what came free, 0 for one that has to stay.
func turn(hand *int, n int, excess int64, used func(i int32) *bool, leave func(i int32) int64) (freed int64) {
	for steps := 2 * n; steps > 0 && freed < excess; steps-- {
		if *hand++; *hand >= n {
			*hand = 0
		}
		i := int32(*hand)
		if u := used(i); *u {
			*u = false
			continue
		}
		freed += leave(i)
	}
	return freed
}

// drop notes that an entry in memory is no more.
func (c *cold) drop(key string) {
	if c.count == 0 {
		return // nobody will ask the store before the next Take
	}
	if c.gone == nil {
		c.gone = map[string]struct{}{}
	}
	c.gone[key] = struct{}{}
}

// saved is called when the writes of a Take are made.
func (c *cold) saved() { clear(c.gone) }

// dueAt gives the keys of the index that become final as the watermark goes to wm. Some may be in
// memory.
func (c *cold) dueAt(wm windows.Micros) (keys [][]byte) {
	if c.count == 0 || c.due > wm {
		return nil
	}
	keys, c.due = c.between(c.e.wm+1, wm)
	return keys
}

// closedAt gives the keys of the index that are closed at wm.
func (c *cold) closedAt(wm, lateness windows.Micros) (keys [][]byte) {
	if c.count == 0 || wm == windows.NoWatermark || windows.Later(c.closing, lateness) > wm {
		return nil
	}
	keys, c.closing = c.between(c.closing, wm-lateness)
	return keys
}

// between gives the keys of the index from one time to another, both ends in, and the next time
// behind.
func (c *cold) between(from, to windows.Micros) (keys [][]byte, next windows.Micros) {
	next = windows.Never
	lower := c.indexKey(from, "")
	err := c.e.store.Scan(lower, []byte{spaceIndex, c.space, c.id + 1}, func(key, _ []byte) bool {
		if len(key) < len(lower) {
			c.e.breaks(errState)
			return false
		}
		at := windows.Micros(binary.BigEndian.Uint64(key[3:]) ^ 1<<63)
		if at > to {
			next = at
			return false
		}
		key = key[len(lower):]
		if !c.void(key) {
			keys = append(keys, append([]byte{}, key...))
		}
		return true
	})
	if err != nil {
		c.e.breaks(err)
	}
	return keys, next
}

// next is the first time in the index from a time on.
func (c *cold) next(from windows.Micros) windows.Micros {
	at := windows.Never
	c.e.breaks(c.e.store.Scan(c.indexKey(from, ""), []byte{spaceIndex, c.space, c.id + 1}, func(key, _ []byte) bool {
		at = windows.Micros(binary.BigEndian.Uint64(key[3:]) ^ 1<<63)
		return false
	}))
	return at
}

// open reports whether an entry may become final.
func (c *cold) open() bool { return c.count > 0 && c.due != windows.Never }

// listing is an entry's place in the index as the store has it.
type listing struct {
	at windows.Micros
	in bool
}

// listed is the place of an entry that is final at a time.
func listed(at windows.Micros) listing { return listing{at: at, in: at != windows.Never} }

// list brings the index up to date for an entry that is saved; at is windows.Never where it is not
// to be in the index.
func (c *cold) list(w *writes, was listing, at windows.Micros, key string) listing {
	now := listed(at)
	if was == now || !was.in && !now.in {
		return now
	}
	if was.in {
		w.drop(c.indexKey(was.at, key))
	}
	if now.in {
		w.set(c.indexKey(now.at, key), []byte{})
	}
	return now
}

// lost is an entry that was dropped, as it was saved.
type lost struct {
	key    string
	listed listing
}

// unlist takes dropped entries out of the store; name gives an entry's key there, nil: it has none.
func (c *cold) unlist(w *writes, gone []lost, name func(key string) []byte) {
	for _, g := range gone {
		if name != nil {
			w.drop(name(g.key))
		}
		if g.listed.in {
			w.drop(c.indexKey(g.listed.at, g.key))
		}
	}
	c.saved()
}
