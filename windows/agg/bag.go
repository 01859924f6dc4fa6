package agg

import (
	"container/heap"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"tidemark/storage/row"
)

// bag is a multiset of byte strings with weights. A count of zero is not kept; one below zero is,
// because a withdrawal may come before what it withdraws.
type bag struct {
	counts map[string]int64
	// least is a heap of keys, in use after the first call of first. It may hold keys whose count
	// is not above zero; queued knows which keys it holds.
	least  keyHeap
	queued map[string]struct{}
	size   int
	above  int // how many keys have a count above zero
	// news is what was added to the counts since it was noted; nil where nothing is noted.
	news map[string]int64
}

// bagEntry is about what a map entry takes beside its key.
const bagEntry = 40

func (b *bag) add(key []byte, w int64) (grown int) {
	old := b.size
	n, ok := b.counts[string(key)]
	switch {
	case n <= 0 && n+w > 0:
		b.above++
	case n > 0 && n+w <= 0:
		b.above--
	}
	if b.news != nil {
		if sum := b.news[string(key)] + w; sum == 0 {
			delete(b.news, string(key))
		} else {
			b.news[string(key)] = sum
		}
	}
	switch {
	case !ok:
		if b.counts == nil {
			b.counts = map[string]int64{}
		}
		k := string(key)
		b.counts[k] = w
		b.size += len(k) + bagEntry
		b.queue(k)
	case n+w == 0:
		delete(b.counts, string(key))
		b.size -= len(key) + bagEntry
	default:
		b.counts[string(key)] = n + w
		if n <= 0 && b.queued != nil {
			b.queue(string(key))
		}
	}
	return b.size - old
}

func (b *bag) queue(k string) {
	if b.queued == nil {
		return
	}
	if _, ok := b.queued[k]; !ok {
		b.queued[k] = struct{}{}
		heap.Push(&b.least, k)
	}
}

// first returns the least key whose count is above zero. Keys that went away are dropped from the
// heap only when they come to its top, so that a change costs O(log n).
func (b *bag) first() (string, bool) {
	if b.queued == nil {
		b.queued = make(map[string]struct{}, len(b.counts))
		for k := range b.counts {
			b.queued[k] = struct{}{}
			b.least = append(b.least, k)
		}
		heap.Init(&b.least)
	}
	for len(b.least) > 0 {
		if k := b.least[0]; b.counts[k] > 0 {
			return k, true
		}
		delete(b.queued, heap.Pop(&b.least).(string))
	}
	return "", false
}

// keys returns the keys with a count above zero in order.
func (b *bag) keys() []string {
	out := make([]string, 0, len(b.counts))
	for k, n := range b.counts {
		if n > 0 {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

func (b *bag) merge(o *bag) (grown int) {
	for k, n := range o.counts {
		grown += b.add([]byte(k), n)
	}
	return grown
}

func (b *bag) encode(dst []byte) []byte { return encodeCounts(dst, b.counts) }

func encodeCounts(dst []byte, counts map[string]int64) []byte {
	dst = appendUvarint(dst, uint64(len(counts)))
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		dst = appendVarint(appendString(dst, k), counts[k])
	}
	return dst
}

// note begins to note what is added, or ends that.
func (b *bag) note(on bool) {
	if b.news = nil; on {
		b.news = map[string]int64{}
	}
}

// noted appends what was added since it was noted.
func (b *bag) noted(dst []byte) ([]byte, int) {
	n := len(b.news)
	dst = encodeCounts(dst, b.news)
	if n > 4096 {
		b.news = map[string]int64{}
	} else {
		clear(b.news)
	}
	return dst, n
}

func (b *bag) decode(d *decoder) (grown int) {
	for range d.length() {
		k := d.string()
		n := d.Varint()
		if d.Failed {
			return grown
		}
		grown += b.add([]byte(k), n)
	}
	return grown
}

// keyHeap is a heap of strings for container/heap.
type keyHeap []string

func (h keyHeap) Len() int           { return len(h) }
func (h keyHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h keyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *keyHeap) Push(x any)        { *h = append(*h, x.(string)) }
func (h *keyHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// bagColumn is a column of bags; key makes the entry of row i.
func bagColumn(nulls int, key func(r *rows, i int, dst []byte) []byte, result func(b *bag, out *row.Vector) error) *column[bag] {
	var buf []byte
	return &column[bag]{
		each: 80,
		addAll: perRow(nulls, func(b *bag, r *rows, i int, w int64) int {
			buf = key(r, i, buf[:0])
			return b.add(buf, w)
		}),
		merge:   func(dst, src *bag) int { return dst.merge(src) },
		result:  result,
		encode:  func(b *bag, dst []byte) []byte { return b.encode(dst) },
		decode:  func(b *bag, d *decoder) int { return b.decode(d) },
		size:    func(b *bag) int { return b.size },
		entries: func(b *bag) int { return len(b.counts) },
		note:    (*bag).note,
		noted:   func(b *bag, dst []byte) ([]byte, int) { return b.noted(dst) },
	}
}

// An entry of an ordered aggregate is its sort key, then the value (as encodeValue has it, because
// the key of an INTERVAL does not give it back exactly), then how long the sort key is, in four
// bytes. Sort keys end by themselves, so entries are ordered by sort key and value.

func sealEntry(dst []byte, from, cut int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(cut-from))
}

// entryValue appends the value of an entry to out.
func entryValue(entry string, out *row.Vector) error {
	n := len(entry) - 4
	if n < 0 {
		return errBadState
	}
	cut := int(binary.BigEndian.Uint32([]byte(entry[n:])))
	if cut > n {
		return errBadState
	}
	d := decoder{Reader: row.Reader{Rest: []byte(entry[cut:n])}}
	v := decodeValue(&d, out.Type)
	if d.Failed || len(d.Rest) > 0 {
		return errBadState
	}
	out.AppendFrom(v, 0)
	return nil
}

// invert turns the order of a key round. Inverted keys still end by themselves.
func invert(key []byte) {
	for i := range key {
		key[i] = ^key[i]
	}
}

// appendRank writes a rank so that its bytes are ordered as ranks are.
func appendRank(dst []byte, r Rank) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Sequence)^1<<63)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Offset)^1<<63)
	for i := 0; i < len(r.Row); i++ {
		if r.Row[i] == 0 {
			dst = append(dst, 0, 0xff)
		} else {
			dst = append(dst, r.Row[i])
		}
	}
	return append(dst, 0, 0)
}

// appendOrder writes the ORDER BY keys of row i, which follow the first n arguments.
func appendOrder(dst []byte, order []Order, r *rows, n, i int) []byte {
	for k, o := range order {
		v := r.args[n+k]
		if v.IsNull(i) || v.Type.Kind == row.Null {
			if o.NullsLast {
				dst = append(dst, 2)
			} else {
				dst = append(dst, 0)
			}
			continue
		}
		dst = append(dst, 1)
		from := len(dst)
		if dst = row.AppendKey(dst, v, i); o.Desc {
			invert(dst[from:])
		}
	}
	return dst
}

// best is the least entry so far, for rows that only come.
type best struct {
	entry string
	has   bool
}

// newBest gives the value of argument value of the row with the least sort key; rows with a NULL
// among the first nulls arguments are left out. Among equal keys the log decides.
func newBest(s Spec, nulls int, sort func(r *rows, i int, dst []byte) []byte, value int) *Func {
	t := s.Args[value]
	f := &Func{Type: t, Args: s.Args, Ordered: true}
	entry := func(r *rows, i int, dst []byte) []byte {
		from := len(dst)
		dst = sort(r, i, dst)
		cut := len(dst)
		dst = encodeValue(dst, r.args[value], i)
		return sealEntry(dst, from, cut)
	}
	if s.Retract {
		f.column = func() Column {
			return bagColumn(nulls, entry, func(b *bag, out *row.Vector) error {
				k, ok := b.first()
				if !ok {
					out.AppendNull()
					return nil
				}
				return entryValue(k, out)
			})
		}
		return f
	}
	f.column = func() Column {
		var buf []byte
		take := func(s *best, e string) int {
			if s.has && e >= s.entry {
				return 0
			}
			grown := len(e) - len(s.entry)
			s.entry, s.has = strings.Clone(e), true
			return grown
		}
		return &column[best]{
			each: 24,
			addAll: perRow(nulls, func(s *best, r *rows, i int, w int64) int {
				if w < 0 {
					return 0
				}
				buf = entry(r, i, buf[:0])
				if s.has && string(buf) >= s.entry {
					return 0
				}
				return take(s, string(buf))
			}),
			merge: func(dst, src *best) int {
				if !src.has {
					return 0
				}
				return take(dst, src.entry)
			},
			result: func(s *best, out *row.Vector) error {
				if !s.has {
					out.AppendNull()
					return nil
				}
				return entryValue(s.entry, out)
			},
			encode: func(s *best, dst []byte) []byte {
				if !s.has {
					return append(dst, 0)
				}
				return appendString(append(dst, 1), s.entry)
			},
			decode: func(s *best, d *decoder) int {
				if d.Byte() == 0 {
					return 0
				}
				if e := d.string(); !d.Failed {
					return take(s, e)
				}
				return 0
			},
			size: func(s *best) int { return len(s.entry) },
		}
	}
	return f
}

// newFirst is first, last (NULL counts as a value) and any_value (it does not).
func newFirst(s Spec, last, skipNull bool) (*Func, error) {
	if len(s.Args) != 1 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes one argument"}
	}
	nulls := 0
	if skipNull {
		nulls = 1
	}
	return newBest(s, nulls, func(r *rows, i int, dst []byte) []byte {
		from := len(dst)
		dst = appendRank(appendOrder(dst, s.Order, r, 1, i), r.rank(i))
		if last {
			invert(dst[from:])
		}
		return dst
	}, 0), nil
}

// newArg is arg_min (sign −1) and arg_max (sign 1): argument 0 of the row with the least or
// greatest argument 1. Of equal ones the earliest counts; rows with a NULL are left out, for the
// _null variants only those with a NULL as argument 1.
func newArg(s Spec, sign int, keepNull bool) (*Func, error) {
	if len(s.Args) != 2 {
		return nil, &Mismatch{Name: s.Name, Types: s.Args, Reason: "it takes the value to give and the value to compare"}
	}
	nulls := 2
	if keepNull {
		nulls = 0
	}
	f := newBest(s, nulls, func(r *rows, i int, dst []byte) []byte {
		from := len(dst)
		dst = row.AppendKey(dst, r.args[1], i)
		if sign > 0 {
			invert(dst[from:])
		}
		return appendRank(appendOrder(dst, s.Order, r, 2, i), r.rank(i))
	}, 0)
	if !keepNull {
		return f, nil
	}
	column := f.column
	f.column = func() Column { return &skipping{Column: column(), arg: 1} }
	return f, nil
}

// skipping leaves out the rows in which one argument is NULL.
type skipping struct {
	Column
	arg        int
	slots, sel []int32
}

func (c *skipping) Add(slots, sel []int32, args []*row.Vector, weights []int64, ranks []Rank) {
	r := rows{slots: slots, sel: sel}
	c.slots, c.sel = c.slots[:0], c.sel[:0]
	for k, slot := range slots {
		if i := r.row(k); !args[c.arg].IsNull(i) {
			c.slots, c.sel = append(c.slots, slot), append(c.sel, int32(i))
		}
	}
	c.Column.Add(c.slots, c.sel, args, weights, ranks)
}
