package agg

import (
	"encoding/binary"
	"hash/maphash"

	"tidemark/storage/row"
)

// textSet is a set of byte strings whose members only come. They lie one after the other as they
// are encoded, in the order in which they came: length, bytes, and a byte with the mask of the calls
// that took it, oneTime where there is but one. places find them, by open addressing.
type textSet struct {
	members []byte
	// places are a power of two, at most 3/4 full: 24 bits of a member's hash above where it begins
	// in members, plus 1; 0 is free.
	places []uint64
	n      int
	// notedAt and notedN are how far it was noted: what came behind is what changed.
	notedAt, notedN int
	shared          *sharedTexts // nil where the set is that of one call
}

// sharedTexts is what a textSet keeps besides for several calls.
type sharedTexts struct {
	counts [MostSharers]int64
	// again are members from before it was noted, which more calls took since, with these.
	again []againText
}

type againText struct {
	at   int
	mask uint8
}

var textSeed = maphash.MakeSeed()

const (
	placeBits = 40
	placeMask = 1<<placeBits - 1
)

// add returns the bytes by which the set grew.
func (s *textSet) add(key []byte, mask uint8) (grown int) {
	h := maphash.Bytes(textSeed, key)
	if len(s.places) > 0 {
		full := uint64(len(s.places) - 1)
		for at := h & full; s.places[at] != 0; at = (at + 1) & full {
			p := s.places[at]
			if p>>placeBits != h>>placeBits {
				continue
			}
			if begin := int(p&placeMask) - 1; string(s.member(begin)) == string(key) {
				s.more(begin, mask)
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
	s.members = append(s.members, 0)
	s.more(was, mask)
	return grown + len(s.members) - was
}

// oneTime is the count of a member, as a bag has it, and its mask.
const oneTime = 2

// more adds to the mask of the member that begins at a place.
func (s *textSet) more(at int, mask uint8) {
	n, size := binary.Uvarint(s.members[at:])
	has := &s.members[at+size+int(n)]
	mask &^= *has
	if *has |= mask; s.shared == nil || mask == 0 {
		return
	}
	for i := range s.shared.counts {
		s.shared.counts[i] += int64(mask >> i & 1)
	}
	if at < s.notedAt {
		s.shared.again = append(s.shared.again, againText{at, mask})
	}
}

// member is the member that begins at a place.
func (s *textSet) member(at int) []byte {
	n, size := binary.Uvarint(s.members[at:])
	return s.members[at+size : at+size+int(n)]
}

func (s *textSet) put(h uint64, at int) {
	full := uint64(len(s.places) - 1)
	place := h & full
	for s.places[place] != 0 {
		place = (place + 1) & full
	}
	s.places[place] = h>>placeBits<<placeBits | uint64(at+1)
}

func (s *textSet) grow() int {
	was := len(s.places)
	s.places = make([]uint64, max(8, 2*was))
	s.each(func(at int, key []byte, _ uint8) { s.put(maphash.Bytes(textSeed, key), at) })
	return 8 * (len(s.places) - was)
}

func (s *textSet) each(f func(at int, key []byte, mask uint8)) {
	for at := 0; at < len(s.members); {
		n, size := binary.Uvarint(s.members[at:])
		end := at + size + int(n)
		f(at, s.members[at+size:end], s.members[end])
		at = end + 1
	}
}

// newTextSets are the sets of the arguments of rows that only come. They are encoded as bags are.
func newTextSets(args int) Column {
	var buf []byte
	return &column[textSet]{
		each: 80,
		addAll: perRow(args, func(s *textSet, r *rows, i int, w int64) int {
			if w < 0 {
				return 0
			}
			buf = buf[:0]
			for _, v := range r.args[:args] {
				buf = row.AppendKey(buf, v, i)
			}
			return s.add(buf, oneTime)
		}),
		merge: func(dst, src *textSet) (grown int) {
			src.each(func(_ int, key []byte, mask uint8) { grown += dst.add(key, mask) })
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
				grown += s.add(key, oneTime)
			}
			return grown
		},
		size:    func(s *textSet) int { return len(s.members) + 8*len(s.places) },
		entries: func(s *textSet) int { return s.n },
		note: func(s *textSet, on bool) {
			if s.notedAt, s.notedN = 0, 0; on {
				s.notedAt, s.notedN = len(s.members), s.n
			}
		},
		noted: func(s *textSet, dst []byte) ([]byte, int) {
			n := s.n - s.notedN
			dst = append(appendUvarint(dst, uint64(n)), s.members[s.notedAt:]...)
			s.notedAt, s.notedN = len(s.members), s.n
			return dst, n
		},
	}
}

type sharedTextSets struct {
	*column[textSet]
	args int
	buf  []byte
}

// newSharedTextSets are textSets for several calls. The encoding of a state has masks for counts, and
// may have a member again, with more of its mask.
func newSharedTextSets(args int) SharedColumn {
	c := newTextSets(args).(*column[textSet])
	add := func(s *textSet, key []byte, mask uint8) (grown int) {
		if s.shared == nil {
			s.shared = &sharedTexts{}
			grown = sharedTextBytes
		}
		return grown + s.add(key, mask)
	}
	out := &sharedTextSets{column: c, args: args}
	c.addAll = perRow(args, func(s *textSet, r *rows, i int, w int64) int {
		if w < 0 {
			return 0
		}
		return add(s, out.key(r, i), 1)
	})
	c.merge = func(dst, src *textSet) (grown int) {
		src.each(func(_ int, key []byte, mask uint8) { grown += add(dst, key, mask) })
		return grown
	}
	c.result = func(s *textSet, out *row.Vector) error {
		out.AppendInt64(s.count(0))
		return nil
	}
	c.decode = func(s *textSet, d *decoder) (grown int) {
		for range d.length() {
			key, mask := d.Bytes(d.length()), d.Byte()
			if d.Failed {
				return grown
			}
			grown += add(s, key, mask)
		}
		return grown
	}
	size, note := c.size, c.note
	c.size = func(s *textSet) int {
		if s.shared != nil {
			return size(s) + sharedTextBytes
		}
		return size(s)
	}
	c.note = func(s *textSet, on bool) {
		if note(s, on); s.shared != nil {
			s.shared.again = nil
		}
	}
	c.noted = func(s *textSet, dst []byte) ([]byte, int) {
		n := s.n - s.notedN
		var again []againText
		if s.shared != nil {
			again = s.shared.again
			s.shared.again = nil
		}
		dst = append(appendUvarint(dst, uint64(n+len(again))), s.members[s.notedAt:]...)
		for _, m := range again {
			key := s.member(m.at)
			dst = append(append(appendUvarint(dst, uint64(len(key))), key...), m.mask)
		}
		s.notedAt, s.notedN = len(s.members), s.n
		return dst, n + len(again)
	}
	return out
}

const sharedTextBytes = 96

// count is how many members a call took.
func (s *textSet) count(call int) int64 {
	if s.shared == nil {
		return 0
	}
	return s.shared.counts[call]
}

func (c *sharedTextSets) key(r *rows, i int) []byte {
	c.buf = c.buf[:0]
	for _, v := range r.args[:c.args] {
		c.buf = row.AppendKey(c.buf, v, i)
	}
	return c.buf
}

func (c *sharedTextSets) AddShared(slots, sel []int32, args []*row.Vector, weights []int64, masks []uint8) {
	r := rows{slots: slots, sel: sel, args: args, weights: weights}
	for k, slot := range slots {
		i := r.row(k)
		if masks[i] == 0 || r.null(c.args, i) || r.weight(i) <= 0 {
			continue
		}
		s := &c.states[slot]
		if s.shared == nil {
			s.shared = &sharedTexts{}
			c.extra += sharedTextBytes
		}
		c.extra += s.add(c.key(&r, i), masks[i])
	}
}

func (c *sharedTextSets) ResultOf(slot int32, call int, out *row.Vector) {
	out.AppendInt64(c.states[slot].count(call))
}
