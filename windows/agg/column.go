package agg

import (
	"encoding/binary"
	"math"

	"tidemark/storage/row"
)

// stateVersion is the first byte of every encoded state, where its column has no version of its own.
const stateVersion = 1

// rows is what one Add brings: the k-th selected row goes into slots[k].
type rows struct {
	slots, sel []int32
	args       []*row.Vector
	weights    []int64
	ranks      []Rank
}

// row returns the number of the k-th selected row.
func (r *rows) row(k int) int {
	if r.sel == nil {
		return k
	}
	return int(r.sel[k])
}

// weight returns the weight of row i.
func (r *rows) weight(i int) int64 {
	if r.weights == nil {
		return 1
	}
	return r.weights[i]
}

// rank returns the rank of row i; all are equal when none were given.
func (r *rows) rank(i int) Rank {
	if r.ranks == nil {
		return Rank{}
	}
	return r.ranks[i]
}

// null reports whether one of the first n arguments of row i is NULL.
func (r *rows) null(n, i int) bool {
	for _, v := range r.args[:n] {
		if v.IsNull(i) || v.Type.Kind == row.Null {
			return true
		}
	}
	return false
}

// column is a Column of states of the type S; its functions are the aggregate.
type column[S any] struct {
	states []S
	extra  int // bytes that states hold outside their slots

	addAll func(c *column[S], r *rows)
	merge  func(dst, src *S) (grown int)
	result func(s *S, out *row.Vector) error
	encode func(s *S, dst []byte) []byte
	decode func(s *S, d *decoder) (grown int)
	// size returns what s holds outside its slot; nil when it holds nothing.
	size func(s *S) int
	each int // bytes a slot
	// entries, note and noted are those of Differential; nil where a state can't tell what changed in it.
	entries func(s *S) int
	note    func(s *S, on bool)
	noted   func(s *S, dst []byte) (out []byte, entries int)
	// version is that of what encode writes; 0: stateVersion. Decode is told which one it reads.
	version byte
}

func (c *column[S]) writes() byte { return max(c.version, stateVersion) }

func (c *column[S]) Grow(n int) {
	if n <= len(c.states) {
		return
	}
	if n <= cap(c.states) {
		c.states = c.states[:n]
		return
	}
	grown := make([]S, n, max(n, 2*cap(c.states)))
	copy(grown, c.states)
	c.states = grown
}

func (c *column[S]) Add(slots, sel []int32, args []*row.Vector, weights []int64, ranks []Rank) {
	c.addAll(c, &rows{slots, sel, args, weights, ranks})
}

func (c *column[S]) Merge(dst, src int32) { c.extra += c.merge(&c.states[dst], &c.states[src]) }

func (c *column[S]) Reset(slot int32) {
	if c.size != nil {
		c.extra -= c.size(&c.states[slot])
	}
	var zero S
	c.states[slot] = zero
}

func (c *column[S]) Result(slot int32, out *row.Vector) error {
	return c.result(&c.states[slot], out)
}

func (c *column[S]) Encode(slot int32, dst []byte) []byte {
	return c.encode(&c.states[slot], append(dst, c.writes()))
}

func (c *column[S]) Decode(slot int32, src []byte) ([]byte, error) {
	c.Reset(slot)
	return c.DecodeMore(slot, src)
}

func (c *column[S]) differs() bool { return c.entries != nil }

func (c *column[S]) Entries(slot int32) int { return c.entries(&c.states[slot]) }

func (c *column[S]) Note(slot int32, on bool) { c.note(&c.states[slot], on) }

func (c *column[S]) EncodeNoted(slot int32, dst []byte) ([]byte, int) {
	return c.noted(&c.states[slot], append(dst, c.writes()))
}

func (c *column[S]) DecodeMore(slot int32, src []byte) ([]byte, error) {
	d := decoder{Reader: row.Reader{Rest: src}}
	if d.version = d.Byte(); d.version < stateVersion || d.version > c.writes() {
		return nil, errBadState
	}
	c.extra += c.decode(&c.states[slot], &d)
	if d.Failed {
		c.Reset(slot)
		return nil, errBadState
	}
	return d.Rest, nil
}

func (c *column[S]) Bytes() int { return len(c.states)*c.each + c.extra }

// perRow is addAll for an aggregate whose rows are taken one by one. Rows with a NULL among the
// first n arguments are left out.
func perRow[S any](n int, add func(s *S, r *rows, i int, w int64) (grown int)) func(c *column[S], r *rows) {
	return func(c *column[S], r *rows) {
		for k, slot := range r.slots {
			i := r.row(k)
			w := r.weight(i)
			if w == 0 || r.null(n, i) {
				continue
			}
			c.extra += add(&c.states[slot], r, i, w)
		}
	}
}

// decoder reads states.
type decoder struct {
	row.Reader
	version byte
}

// length reads a count of things that take at least one byte each.
func (d *decoder) length() int { return d.Length(len(d.Rest)) }

func (d *decoder) uint64() uint64 {
	if b := d.Bytes(8); !d.Failed {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) float() float64 { return math.Float64frombits(d.uint64()) }

func appendUint64(dst []byte, x uint64) []byte { return binary.LittleEndian.AppendUint64(dst, x) }

func appendFloat(dst []byte, f float64) []byte { return appendUint64(dst, math.Float64bits(f)) }

func appendVarint(dst []byte, x int64) []byte { return binary.AppendVarint(dst, x) }

func appendUvarint(dst []byte, x uint64) []byte { return binary.AppendUvarint(dst, x) }
