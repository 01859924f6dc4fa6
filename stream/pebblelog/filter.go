package pebblelog

import (
	"encoding/binary"
	"slices"
)

// filter is a set of 128-bit hashes that answers "surely not in it" or "maybe": a chain of blocked
// Bloom filters, each four times as large as the one before, so that it grows with what it holds.
// 16 bits a hash: a part gives a wrong "maybe" about twice in a thousand, and each costs a look into
// the store.
type filter struct {
	parts []bloom
	added int
}

type bloom struct {
	blocks []block
	room   int // hashes that may still be added
}

// block is one cache line: all bits of a hash lie in one block.
type block [8]uint64

const (
	firstRoom     = 1 << 10
	largestRoom   = 1 << 22
	bitsPerHash   = 16
	probesPerHash = 7 // of 9 bits each, from 64
)

func (f *filter) add(hash [16]byte) {
	if len(f.parts) == 0 || f.parts[len(f.parts)-1].room == 0 {
		room := firstRoom
		for range f.parts {
			room = min(4*room, largestRoom)
		}
		f.parts = append(f.parts, bloom{blocks: make([]block, (room*bitsPerHash+511)/512), room: room})
	}
	p := &f.parts[len(f.parts)-1]
	p.room--
	f.added++
	b, bits := p.at(hash)
	for range probesPerHash {
		b[bits>>6&7] |= 1 << (bits & 63)
		bits >>= 9
	}
}

func (f *filter) maybe(hash [16]byte) bool {
	for i := range f.parts {
		b, bits := f.parts[i].at(hash)
		in := true
		for range probesPerHash {
			in = in && b[bits>>6&7]&(1<<(bits&63)) != 0
			bits >>= 9
		}
		if in {
			return true
		}
	}
	return false
}

// at returns the block of a hash and the bits that say which of its bits are meant.
func (b *bloom) at(hash [16]byte) (*block, uint64) {
	h := binary.LittleEndian.Uint64(hash[:])
	return &b.blocks[int(h%uint64(len(b.blocks)))], binary.LittleEndian.Uint64(hash[8:])
}

// hours are filters by hour of append time.
type hours struct {
	byHour map[uint32]*filter
	order  []uint32 // ascending
}

func newHours() *hours { return &hours{byHour: map[uint32]*filter{}} }

func (h *hours) add(hour uint32, hash [16]byte) {
	f := h.byHour[hour]
	if f == nil {
		f = &filter{}
		h.byHour[hour] = f
		h.order = append(h.order, hour)
		slices.Sort(h.order)
	}
	f.add(hash)
}

// maybe returns the hours, from `from` on and newest first, that may hold the hash.
func (h *hours) maybe(from uint32, hash [16]byte, into []uint32) []uint32 {
	for i := len(h.order) - 1; i >= 0 && h.order[i] >= from; i-- {
		if h.byHour[h.order[i]].maybe(hash) {
			into = append(into, h.order[i])
		}
	}
	return into
}

// within is the first hour from which on all hours together hold at most n hashes; the newest hour is
// always within.
func (h *hours) within(n int) uint32 {
	for i := len(h.order) - 1; i >= 0; i-- {
		if n -= h.byHour[h.order[i]].added; n < 0 {
			return h.order[min(i+1, len(h.order)-1)]
		}
	}
	return 0
}

// older reports whether there is an hour before `before`.
func (h *hours) older(before uint32) bool { return len(h.order) > 0 && h.order[0] < before }

// forget drops the hours before `before`.
func (h *hours) forget(before uint32) {
	for len(h.order) > 0 && h.order[0] < before {
		delete(h.byHour, h.order[0])
		h.order = h.order[1:]
	}
}
