package runtime

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// Epoch is what a view's rows did between two positions.
type Epoch struct {
	From, To stream.Position
	AsOf     AsOf
	// Fields are the columns of Changes.Rows.
	Fields  []row.Field
	Changes *windows.Changes
}

// An entry of a change stream, version 2: the version; From's log, sequence and within (uvarints; To's
// sequence and within are the key, its log is From's); the as_of as JSON behind its length; the number
// of changes; a byte, 1 when rows have times, plus 2 when evidence follows; then, each for all changes:
// the op (1 for +, 0 for −) and, shifted, the status in a byte; the revision (uvarint); the sequence and,
// if any, the time as the difference to the one before (zigzag varints); how many bytes of the key are
// those of the one before, which is all of them in the + of an update, and the others behind their
// number; the number of places of evidence, if any, then partition and offset of each; the rows as
// row.EncodeBatch writes them.
//
// Version 1, which is read, has op, revision, sequence, time (as it is) and key of one change after the
// other, and a byte that is 1 in front of evidence. Both frozen.
const (
	epochFormat    = 2
	oldEpochFormat = 1

	epochHasTimes    = 1
	epochHasEvidence = 2
)

var errBadEpoch = errors.New("an entry of the change stream is damaged or of a newer version")

func encodeEpoch(dst []byte, e *Epoch) ([]byte, error) {
	asOf, err := json.Marshal(e.AsOf)
	if err != nil {
		return nil, err
	}
	c := e.Changes
	dst = append(dst, epochFormat)
	dst = binary.AppendUvarint(dst, uint64(e.From.Log))
	dst = binary.AppendUvarint(dst, uint64(e.From.Sequence))
	dst = binary.AppendUvarint(dst, uint64(e.From.Within))
	dst = appendSized(dst, asOf)
	dst = binary.AppendUvarint(dst, uint64(c.Len()))
	flags := byte(0)
	if slices.ContainsFunc(c.Times, func(at windows.Micros) bool { return at != windows.NoTime }) {
		flags |= epochHasTimes
	}
	if c.Evidence != nil {
		flags |= epochHasEvidence
	}
	dst = append(dst, flags)
	for i := range c.Len() {
		op := byte(c.Status[i]) << 1
		if c.Ops[i] > 0 {
			op |= 1
		}
		dst = append(dst, op)
	}
	for _, r := range c.Revision {
		dst = binary.AppendUvarint(dst, uint64(r))
	}
	before := int64(0)
	for _, at := range c.Sequences {
		dst = binary.AppendVarint(dst, int64(at)-before)
		before = int64(at)
	}
	if flags&epochHasTimes != 0 {
		before = 0
		for _, at := range c.Times {
			dst = binary.AppendVarint(dst, at-before)
			before = at
		}
	}
	var last []byte
	for _, key := range c.Keys {
		shared := 0
		for shared < min(len(key), len(last)) && key[shared] == last[shared] {
			shared++
		}
		dst = binary.AppendUvarint(dst, uint64(shared))
		dst, last = appendSized(dst, key[shared:]), key
	}
	for _, places := range c.Evidence {
		dst = binary.AppendUvarint(dst, uint64(len(places)))
		for _, p := range places {
			dst = binary.AppendUvarint(dst, uint64(p.Partition))
			dst = binary.AppendUvarint(dst, uint64(p.Offset))
		}
	}
	return row.EncodeBatch(dst, e.Fields, c.Rows), nil
}

// timeAt is the own time of the row of change i.
func timeAt(c *windows.Changes, i int) windows.Micros {
	if c.Times == nil {
		return windows.NoTime
	}
	return c.Times[i]
}

func appendSized(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// decodeEpoch reads an entry that ends at a place in the log. It keeps no part of src.
func decodeEpoch(src []byte, sequence stream.Sequence, within int32) (*Epoch, error) {
	d := decoder{src: src}
	format := d.byte()
	if format != epochFormat && format != oldEpochFormat {
		return nil, errBadEpoch
	}
	e := &Epoch{Changes: &windows.Changes{}}
	e.From = stream.Position{Log: stream.LogID(d.uvarint()), Sequence: stream.Sequence(d.uvarint()), Within: int32(d.uvarint())}
	e.To = stream.Position{Log: e.From.Log, Sequence: sequence, Within: within}
	asOf := d.sized()
	n := d.count()
	c := e.Changes
	c.Ops, c.Keys = make([]int8, n), make([][]byte, n)
	c.Status, c.Revision = make([]windows.Status, n), make([]int32, n)
	c.Sequences, c.Times = make([]stream.Sequence, n), make([]windows.Micros, n)
	var evidence bool
	if format == oldEpochFormat {
		evidence = d.oneByOne(c)
	} else {
		evidence = d.oneForAll(c)
	}
	if evidence {
		c.Evidence = make([][]stream.Place, n)
		for i := range n {
			for range d.count() {
				c.Evidence[i] = append(c.Evidence[i], stream.Place{Partition: stream.Partition(d.uvarint()), Offset: stream.Offset(d.uvarint())})
			}
		}
	}
	if d.bad {
		return nil, errBadEpoch
	}
	if err := json.Unmarshal(asOf, &e.AsOf); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadEpoch, err)
	}
	var err error
	if e.Fields, c.Rows, err = row.DecodeBatch(append([]byte{}, d.src...)); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadEpoch, err)
	}
	if c.Rows.Len != n {
		return nil, errBadEpoch
	}
	return e, nil
}

func setOp(c *windows.Changes, i int, op byte) {
	c.Ops[i], c.Status[i] = 2*int8(op&1)-1, windows.Status(op>>1)
}

// oneForAll reads what version 2 has of the changes, and whether evidence follows.
func (d *decoder) oneForAll(c *windows.Changes) (evidence bool) {
	flags := d.byte()
	for i := range c.Ops {
		setOp(c, i, d.byte())
	}
	for i := range c.Revision {
		c.Revision[i] = int32(d.uvarint())
	}
	before := int64(0)
	for i := range c.Sequences {
		before += d.varint()
		c.Sequences[i] = stream.Sequence(before)
	}
	before = 0
	for i := range c.Times {
		if flags&epochHasTimes == 0 {
			c.Times[i] = windows.NoTime
			continue
		}
		before += d.varint()
		c.Times[i] = before
	}
	var last []byte
	for i := range c.Keys {
		shared, rest := d.uvarint(), d.sized()
		if shared > uint64(len(last)) || flags&^(epochHasTimes|epochHasEvidence) != 0 {
			d.bad = true
			return false
		}
		c.Keys[i] = append(append(make([]byte, 0, int(shared)+len(rest)), last[:shared]...), rest...)
		last = c.Keys[i]
	}
	return flags&epochHasEvidence != 0
}

// oneByOne is oneForAll of version 1.
func (d *decoder) oneByOne(c *windows.Changes) (evidence bool) {
	before := int64(0)
	for i := range c.Ops {
		setOp(c, i, d.byte())
		c.Revision[i] = int32(d.uvarint())
		before += d.varint()
		c.Sequences[i] = stream.Sequence(before)
		c.Times[i] = d.varint()
		c.Keys[i] = append([]byte{}, d.sized()...)
	}
	return d.byte() == 1
}

// decoder takes numbers off a text; bad is set when it ends too early.
type decoder struct {
	src []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.src) == 0 {
		d.bad = true
		return 0
	}
	b := d.src[0]
	d.src = d.src[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.src)
	if n <= 0 {
		d.bad, d.src = true, nil
		return 0
	}
	d.src = d.src[n:]
	return x
}

func (d *decoder) varint() int64 {
	x, n := binary.Varint(d.src)
	if n <= 0 {
		d.bad, d.src = true, nil
		return 0
	}
	d.src = d.src[n:]
	return x
}

// count is a number of things of which each has at least a byte.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.src)) {
		d.bad, d.src = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) sized() []byte {
	n := d.count()
	if d.bad {
		return nil
	}
	b := d.src[:n]
	d.src = d.src[n:]
	return b
}
