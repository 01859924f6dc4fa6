package runtime

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

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

// An entry of a change stream, version 1: the version; From's log, sequence and within (uvarints;
// To's sequence and within are the key, its log is From's); the as_of as JSON behind its length; the
// number of changes; for each one its op (1 for +, 0 for −) and status in one byte, its revision and
// sequence (uvarints, the sequence as the difference to the one before, zigzag), its time (zigzag
// varint) and its key behind the length; 1 when evidence follows: for each change the number of
// places, then partition and offset of each; the rows as row.EncodeBatch writes them.
const epochFormat = 1

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
	before := int64(0)
	for i := range c.Len() {
		op := byte(c.Status[i]) << 1
		if c.Ops[i] > 0 {
			op |= 1
		}
		dst = append(dst, op)
		dst = binary.AppendUvarint(dst, uint64(c.Revision[i]))
		dst = binary.AppendVarint(dst, int64(c.Sequences[i])-before)
		before = int64(c.Sequences[i])
		dst = binary.AppendVarint(dst, timeAt(c, i))
		dst = appendSized(dst, c.Keys[i])
	}
	if c.Evidence == nil {
		dst = append(dst, 0)
	} else {
		dst = append(dst, 1)
		for _, places := range c.Evidence {
			dst = binary.AppendUvarint(dst, uint64(len(places)))
			for _, p := range places {
				dst = binary.AppendUvarint(dst, uint64(p.Partition))
				dst = binary.AppendUvarint(dst, uint64(p.Offset))
			}
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
	if d.byte() != epochFormat {
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
	before := int64(0)
	for i := range n {
		op := d.byte()
		c.Ops[i], c.Status[i] = 2*int8(op&1)-1, windows.Status(op>>1)
		c.Revision[i] = int32(d.uvarint())
		before += d.varint()
		c.Sequences[i] = stream.Sequence(before)
		c.Times[i] = d.varint()
		c.Keys[i] = append([]byte{}, d.sized()...)
	}
	if d.byte() == 1 {
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
