package agg

import (
	"encoding/binary"
	"hash/maphash"

	"tidemark/storage/row"
)

// textSet is a set of byte strings whose members only come. They lie one after the other as they
// are encoded, in the order in which they came; places find them, by open addressing.
type textSet struct {
	members []byte
	// places are a power of two, at most 3/4 full: 24 bits of a member's hash above where it begins
	// in members, plus 1; 0 is free.
	places []uint64
	n      int
	// notedAt and notedN are how far it was noted: what came behind is what changed.
	notedAt, notedN int
}

var textSeed = maphash.MakeSeed()

const (
	placeBits = 40
	placeMask = 1<<placeBits - 1
)

// add returns the bytes by which the set grew.
func (s *textSet) add(key []byte) (grown int) {
	h := maphash.Bytes(textSeed, key)
	if len(s.places) > 0 {
		mask := uint64(len(s.places) - 1)
		for at := h & mask; s.places[at] != 0; at = (at + 1) & mask {
			if p := s.places[at]; p>>placeBits == h>>placeBits && string(s.member(int(p&placeMask)-1)) == string(key) {
				return 0
			}
		}
	}
	if 4*(s.n+1) > 3*len(s.places) {
		grown = s.grow()
	}
	s.put(h, len(s.members))
	s.n++
	was := len(s.members)
	s.members = append(appendUvarint(s.members, uint64(len(key))), key...)
	s.members = append(s.members, oneTime)
	return grown + len(s.members) - was
}

// oneTime is the count of a member, as a bag has it.
const oneTime = 2

// member is the member that begins at a place.
func (s *textSet) member(at int) []byte {
	n, size := binary.Uvarint(s.members[at:])
	return s.members[at+size : at+size+int(n)]
}

func (s *textSet) put(h uint64, at int) {
	mask := uint64(len(s.places) - 1)
	place := h & mask
	for s.places[place] != 0 {
		place = (place + 1) & mask
	}
	s.places[place] = h>>placeBits<<placeBits | uint64(at+1)
}

func (s *textSet) grow() int {
	was := len(s.places)
	s.places = make([]uint64, max(8, 2*was))
	s.each(func(at int, key []byte) { s.put(maphash.Bytes(textSeed, key), at) })
	return 8 * (len(s.places) - was)
}

func (s *textSet) each(f func(at int, key []byte)) {
	for at := 0; at < len(s.members); {
		n, size := binary.Uvarint(s.members[at:])
		end := at + size + int(n)
		f(at, s.members[at+size:end])
		at = end + 1
	}
}

// newTextSets are the sets of the arguments of rows that only come. They are encoded as bags are.
func newTextSets(args int) Column {
	var buf []byte
	return &column[textSet]{
		each: 72,
		addAll: perRow(args, func(s *textSet, r *rows, i int, w int64) int {
			if w < 0 {
				return 0
			}
			buf = buf[:0]
			for _, v := range r.args[:args] {
				buf = row.AppendKey(buf, v, i)
			}
			return s.add(buf)
		}),
		merge: func(dst, src *textSet) (grown int) {
			src.each(func(_ int, key []byte) { grown += dst.add(key) })
			return grown
		},
		result: func(s *textSet, out *row.Vector) error { out.AppendInt64(int64(s.n)); return nil },
		encode: func(s *textSet, dst []byte) []byte { return append(appendUvarint(dst, uint64(s.n)), s.members...) },
		decode: func(s *textSet, d *decoder) (grown int) {
			for range d.length() {
				key := d.Bytes(d.length())
				d.Varint() // how often: a bag counts
				if d.Failed {
					return grown
				}
				grown += s.add(key)
			}
			return grown
		},
		size:    func(s *textSet) int { return len(s.members) + 8*len(s.places) },
		entries: func(s *textSet) int { return s.n },
		note:    func(s *textSet, _ bool) { s.notedAt, s.notedN = len(s.members), s.n },
		noted: func(s *textSet, dst []byte) ([]byte, int) {
			n := s.n - s.notedN
			dst = append(appendUvarint(dst, uint64(n)), s.members[s.notedAt:]...)
			s.notedAt, s.notedN = len(s.members), s.n
			return dst, n
		},
	}
}
