package agg

import "tidemark/storage/row"

// MostSharers is how many calls can share one set.
const MostSharers = 8

// SharedColumn is the states of several calls of one aggregate that differ in their FILTER alone: one
// set of all values, each with a bit for every call that has taken it.
type SharedColumn interface {
	Column
	// AddShared is Add; the bits of masks, by row number, tell which calls take a row.
	AddShared(slots []int32, sel []int32, args []*row.Vector, weights []int64, masks []uint8)
	// ResultOf is Result, of one call.
	ResultOf(slot int32, call int, out *row.Vector)
}

// NewShared returns a column for several calls, or nil where they can't share one.
func (f *Func) NewShared() SharedColumn {
	if f.shared == nil {
		return nil
	}
	return f.shared()
}

// sharedSet is an intSet whose members have masks.
type sharedSet struct {
	places []int64
	masks  []uint8 // by place
	n      int     // members in places
	zero   uint8   // the mask of zero
	counts [MostSharers]int64
	// news are the bits that came since it was noted; nil where nothing is noted.
	news *[]sharedMember
}

type sharedMember struct {
	x    int64
	mask uint8
}

// add returns the bytes by which the set grew.
func (s *sharedSet) add(x int64, mask uint8) (grown int) {
	if x == 0 {
		s.tell(0, mask&^s.zero)
		s.zero |= mask
		return 0
	}
	if 4*(s.n+1) > 3*len(s.places) {
		grown = s.grow()
	}
	full := uint64(len(s.places) - 1)
	at := hashInt(x) & full
	for ; s.places[at] != x; at = (at + 1) & full {
		if s.places[at] == 0 {
			s.places[at] = x
			s.n++
			break
		}
	}
	if more := mask &^ s.masks[at]; more != 0 {
		s.masks[at] |= more
		s.tell(x, more)
	}
	return grown
}

// tell counts and notes the bits that are new of a member.
func (s *sharedSet) tell(x int64, more uint8) {
	if more == 0 {
		return
	}
	for i := range s.counts {
		s.counts[i] += int64(more >> i & 1)
	}
	if s.news != nil {
		*s.news = append(*s.news, sharedMember{x, more})
	}
}

func (s *sharedSet) grow() int {
	places, masks := s.places, s.masks
	n := max(8, 2*len(places))
	s.places, s.masks = make([]int64, n), make([]uint8, n)
	full := uint64(n - 1)
	for i, x := range places {
		if x == 0 {
			continue
		}
		at := hashInt(x) & full
		for s.places[at] != 0 {
			at = (at + 1) & full
		}
		s.places[at], s.masks[at] = x, masks[i]
	}
	return 9 * (n - len(places))
}

func (s *sharedSet) each(f func(x int64, mask uint8)) {
	if s.zero != 0 {
		f(0, s.zero)
	}
	for at, x := range s.places {
		if x != 0 {
			f(x, s.masks[at])
		}
	}
}

func (s *sharedSet) len() int {
	if s.zero != 0 {
		return s.n + 1
	}
	return s.n
}

type sharedSets struct{ *column[sharedSet] }

func newSharedSets() SharedColumn {
	return sharedSets{&column[sharedSet]{
		each: 136,
		addAll: perRow(1, func(s *sharedSet, r *rows, i int, w int64) int {
			if w < 0 {
				return 0
			}
			return s.add(r.args[0].I64[i], 1)
		}),
		merge: func(dst, src *sharedSet) (grown int) {
			src.each(func(x int64, mask uint8) { grown += dst.add(x, mask) })
			return grown
		},
		result: func(s *sharedSet, out *row.Vector) error { out.AppendInt64(s.counts[0]); return nil },
		encode: func(s *sharedSet, dst []byte) []byte {
			dst = appendUvarint(dst, uint64(s.len()))
			s.each(func(x int64, mask uint8) { dst = append(appendVarint(dst, x), mask) })
			return dst
		},
		decode: func(s *sharedSet, d *decoder) (grown int) {
			for range d.length() {
				x, mask := d.Varint(), d.Byte()
				if d.Failed {
					return grown
				}
				grown += s.add(x, mask)
			}
			return grown
		},
		size:    func(s *sharedSet) int { return 9 * len(s.places) },
		entries: (*sharedSet).len,
		note: func(s *sharedSet, on bool) {
			if s.news = nil; on {
				s.news = &[]sharedMember{}
			}
		},
		noted: func(s *sharedSet, dst []byte) ([]byte, int) {
			news := *s.news
			dst = appendUvarint(dst, uint64(len(news)))
			for _, m := range news {
				dst = append(appendVarint(dst, m.x), m.mask)
			}
			if *s.news = news[:0]; cap(news) > 4096 {
				*s.news = nil
			}
			return dst, len(news)
		},
	}}
}

func (c sharedSets) AddShared(slots, sel []int32, args []*row.Vector, weights []int64, masks []uint8) {
	r := rows{slots: slots, sel: sel, args: args, weights: weights}
	x := args[0].I64
	nulls := len(args[0].Nulls) > 0 || args[0].Type.Kind == row.Null
	for k, slot := range slots {
		i := r.row(k)
		if masks[i] == 0 || nulls && r.null(1, i) || weights != nil && weights[i] <= 0 {
			continue
		}
		c.extra += c.states[slot].add(x[i], masks[i])
	}
}

func (c sharedSets) ResultOf(slot int32, call int, out *row.Vector) {
	out.AppendInt64(c.states[slot].counts[call])
}
