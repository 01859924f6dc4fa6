package agg

import (
	"slices"

	"tidemark/storage/row"
)

// newCountDistinct is count(DISTINCT x, …).
func newCountDistinct(s Spec) (*Func, error) {
	if len(s.Args) == 0 {
		return nil, &Mismatch{Name: "count(DISTINCT)", Reason: "it needs an argument"}
	}
	if len(s.Args) > 1 {
		return nil, &Mismatch{Name: "count(DISTINCT)", Types: s.Args, Reason: "it takes one argument; count several together as one value: count(DISTINCT {'a': …, 'b': …})"}
	}
	f := &Func{Type: row.Scalar(row.BigInt), Args: s.Args}
	if !s.Retract && len(s.Args) == 1 && s.Args[0].Class() == row.Int64Class {
		f.column, f.shared = newIntSets, newSharedSets
		return f, nil
	}
	n := len(s.Args)
	if !s.Retract {
		f.column, f.shared = func() Column { return newTextSets(n) }, func() SharedColumn { return newSharedTextSets(n) }
		return f, nil
	}
	f.column = func() Column {
		return bagColumn(n, func(r *rows, i int, dst []byte) []byte {
			for _, v := range r.args[:n] {
				dst = row.AppendKey(dst, v, i)
			}
			return dst
		}, func(b *bag, out *row.Vector) error { out.AppendInt64(int64(b.above)); return nil })
	}
	return f, nil
}

// intSet is a set of 64-bit integers by open addressing; 0 marks a free place, so that zero itself
// is noted apart. Members only come, which keeps probing simple.
type intSet struct {
	places []int64 // a power of two, at most 3/4 full
	n      int     // members in places
	zero   bool
	// news are the members that came since it was noted; nil where nothing is noted.
	news *[]int64
}

func hashInt(x int64) uint64 {
	h := uint64(x) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// add returns the bytes by which the set grew.
func (s *intSet) add(x int64) (grown int) {
	if x == 0 {
		if !s.zero {
			s.zero = true
			s.tell(0)
		}
		return 0
	}
	if 4*(s.n+1) > 3*len(s.places) {
		grown = s.grow()
	}
	mask := uint64(len(s.places) - 1)
	for at := hashInt(x) & mask; ; at = (at + 1) & mask {
		switch s.places[at] {
		case x:
			return grown
		case 0:
			s.places[at] = x
			s.n++
			s.tell(x)
			return grown
		}
	}
}

func (s *intSet) tell(x int64) {
	if s.news != nil {
		*s.news = append(*s.news, x)
	}
}

func (s *intSet) grow() int {
	old := s.places
	s.places = make([]int64, max(8, 2*len(old)))
	mask := uint64(len(s.places) - 1)
	for _, x := range old {
		if x == 0 {
			continue
		}
		at := hashInt(x) & mask
		for s.places[at] != 0 {
			at = (at + 1) & mask
		}
		s.places[at] = x
	}
	return 8 * (len(s.places) - len(old))
}

func (s *intSet) each(f func(x int64)) {
	if s.zero {
		f(0)
	}
	for _, x := range s.places {
		if x != 0 {
			f(x)
		}
	}
}

func (s *intSet) len() int {
	if s.zero {
		return s.n + 1
	}
	return s.n
}

func newIntSets() Column {
	return &column[intSet]{
		each: 48,
		addAll: func(c *column[intSet], r *rows) {
			x := r.args[0].I64
			nulls := len(r.args[0].Nulls) > 0 || r.args[0].Type.Kind == row.Null
			for k, slot := range r.slots {
				i := r.row(k)
				if nulls && r.null(1, i) || r.weights != nil && r.weights[i] <= 0 {
					continue
				}
				c.extra += c.states[slot].add(x[i])
			}
		},
		merge: func(dst, src *intSet) (grown int) {
			src.each(func(x int64) { grown += dst.add(x) })
			return grown
		},
		result: func(s *intSet, out *row.Vector) error { out.AppendInt64(int64(s.len())); return nil },
		encode: func(s *intSet, dst []byte) []byte {
			dst = slices.Grow(appendUvarint(dst, uint64(s.len())), 4*s.len())
			if s.zero {
				dst = append(dst, 0)
			}
			for _, x := range s.places {
				if x != 0 {
					dst = appendVarint(dst, x)
				}
			}
			return dst
		},
		decode: func(s *intSet, d *decoder) (grown int) {
			for range d.length() {
				x := d.Varint()
				if d.Failed {
					return grown
				}
				grown += s.add(x)
			}
			return grown
		},
		size:    func(s *intSet) int { return 8 * len(s.places) },
		entries: (*intSet).len,
		note: func(s *intSet, on bool) {
			if s.news = nil; on {
				s.news = &[]int64{}
			}
		},
		noted: func(s *intSet, dst []byte) ([]byte, int) {
			news := *s.news
			dst = appendUvarint(dst, uint64(len(news)))
			for _, x := range news {
				dst = appendVarint(dst, x)
			}
			if *s.news = news[:0]; cap(news) > 4096 {
				*s.news = nil
			}
			return dst, len(news)
		},
	}
}

// newDistinct is any other aggregate with DISTINCT: a bag of the different arguments, each with
// its earliest place in the order, over which the plain aggregate is computed for a result.
func newDistinct(s Spec) (*Func, error) {
	plain := s
	plain.Distinct, plain.Retract, plain.Order = false, false, nil
	inner, err := New(plain)
	if err != nil {
		return nil, err
	}
	n := len(inner.Args)
	f := &Func{Type: inner.Type, Args: inner.Args, Ordered: inner.Ordered, Approximate: inner.Approximate}
	// With an order an entry is the value and the place; the earliest place of a value counts.
	nulls := n
	switch s.Name {
	case "list", "array_agg", "first", "last", "arbitrary":
		nulls = 0
	}
	f.column = func() Column {
		one := make([]*row.Vector, n)
		for k, t := range inner.Args {
			one[k] = row.NewVector(t, 1)
		}
		return bagColumn(nulls, func(r *rows, i int, dst []byte) []byte {
			from := len(dst)
			for _, v := range r.args[:n] {
				dst = row.AppendKey(dst, v, i)
			}
			cut := len(dst)
			if f.Ordered {
				dst = appendRank(appendOrder(dst, s.Order, r, n, i), r.rank(i))
			}
			return sealEntry(dst, from, cut)
		}, func(b *bag, out *row.Vector) error {
			places, err := distinctPlaces(b)
			if err != nil {
				return err
			}
			column := inner.NewColumn()
			column.Grow(1)
			slot := []int32{0}
			for rank, p := range places {
				src := []byte(p)
				for k, t := range inner.Args {
					one[k].Reset(t)
					if src, err = row.DecodeKey(t, src, one[k]); err != nil {
						return err
					}
				}
				column.Add(slot, nil, one, nil, []Rank{{Sequence: int64(rank)}})
			}
			return column.Result(0, out)
		})
	}
	return f, nil
}

// distinctPlaces returns the different values, ordered by their earliest place.
func distinctPlaces(b *bag) ([]string, error) {
	type placed struct{ place, value string }
	var all []placed
	for _, k := range b.keys() { // by value, then place: the first of each value is its earliest
		value, place, err := cutEntry(k)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 || all[len(all)-1].value != value {
			all = append(all, placed{place, value})
		}
	}
	sortBy(all, func(p placed) string { return p.place })
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.value
	}
	return out, nil
}
