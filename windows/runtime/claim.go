package runtime

import (
	"encoding/json"
	"errors"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
)

// RefusedEvent is a late record as the view keeps it.
type RefusedEvent struct {
	Stream    string
	Place     stream.Place
	Sequence  stream.Sequence
	Watermark windows.Micros
	Partial   bool
	Time      windows.Micros
}

// FailedEvent is a row error as the view keeps it.
type FailedEvent struct {
	Stream string
	Place  stream.Place
	Code   string
}

// Claim is what a view says of itself at one position: its rows, and the events that it left out.
// It is read from a snapshot of the store as it is asked for, so that none of it has to be in memory.
// It belongs to one goroutine; Close ends it.
type Claim struct {
	Fields   []row.Field
	AsOf     AsOf
	Position stream.Position
	// Count is how many rows there are.
	Count int64
	// Forgotten is the sequence up to which late records and row errors have expired (R3).
	Forgotten stream.Sequence

	v       *view
	version uint32
	snap    *kv.Snapshot
}

// Claim returns what a view says and the proof that goes with it, both of one epoch.
func (s *Service) Claim(name string) (*Claim, *Proof, error) {
	v, snap, h, p, err := s.open(name)
	if err != nil {
		return nil, nil, err
	}
	fields, err := loadFields(h.Fields)
	if err != nil {
		return nil, nil, errors.Join(err, snap.Close())
	}
	c := &Claim{
		Fields: fields, AsOf: p.AsOf, Position: v.outside(p.Position), Count: p.Rows, Forgotten: p.Forgotten,
		v: v, version: h.Version, snap: snap,
	}
	return c, v.proof(v.served(h.Version), h.Version, p), nil
}

// Close releases what the claim is read from.
func (c *Claim) Close() error { return c.snap.Close() }

// claimRows is how many rows f of Rows gets at once.
const claimRows = 2048

// Rows gives all rows in the order of their keys, some at a time. What f gets is its own.
func (c *Claim) Rows(f func(keys [][]byte, rows *row.Batch) error) error {
	prefix := rowsKey(c.v.id, c.version)
	it := c.snap.Iter(prefix, kv.PrefixEnd(prefix))
	rows, keys := row.NewBatch(c.Fields, claimRows), [][]byte(nil)
	give := func() error {
		if rows.Len == 0 {
			return nil
		}
		err := f(keys, rows)
		rows, keys = row.NewBatch(c.Fields, claimRows), nil
		return err
	}
	var err error
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var values []byte
		if _, values, err = splitRow(it.Value()); err != nil {
			break
		}
		if err = appendStored(rows, values); err != nil {
			break
		}
		if keys = append(keys, append([]byte{}, it.Key()[len(prefix):]...)); rows.Len == claimRows {
			err = give()
		}
	}
	if err == nil {
		err = give()
	}
	return errors.Join(err, it.Close())
}

// Late returns the view's late records in the order in which it wrote them, which is the log's. stop
// ends the reading.
func (c *Claim) Late() (next func() (r RefusedEvent, ok bool, err error), stop func() error) {
	prefix := versionKey(kv.Late, c.v.id, c.version)
	it := c.snap.Iter(prefix, kv.PrefixEnd(prefix))
	began := false
	return func() (RefusedEvent, bool, error) {
		ok := false
		if began {
			ok = it.Next()
		} else {
			ok, began = it.First(), true
		}
		if !ok {
			return RefusedEvent{}, false, nil
		}
		var r lateRecord
		if err := json.Unmarshal(it.Value(), &r); err != nil {
			return RefusedEvent{}, false, err
		}
		return RefusedEvent{
			r.Stream, stream.Place{Partition: r.Partition, Offset: r.Offset}, r.Sequence, r.Watermark, r.Outcome == string(engine.LatePartial), r.Time,
		}, true, nil
	}, it.Close
}

// Errors gives all row errors, in the order of streams, partitions and offsets.
func (c *Claim) Errors(f func(FailedEvent)) error {
	prefix := errorsKey(c.v.id, c.version)
	return c.errors(prefix, kv.PrefixEnd(prefix), f)
}

// ErrorsIn gives the row errors of a stream's events from one place up to, but not with, an offset.
func (c *Claim) ErrorsIn(id stream.ID, from stream.Place, to stream.Offset, f func(FailedEvent)) error {
	return c.errors(errorKey(c.v.id, c.version, id, from), errorKey(c.v.id, c.version, id, stream.Place{Partition: from.Partition, Offset: to}), f)
}

func (c *Claim) errors(from, to []byte, f func(FailedEvent)) error {
	return between(c.snap, from, to, func(r rowError) {
		f(FailedEvent{r.Stream, stream.Place{Partition: r.Partition, Offset: r.Offset}, r.Code})
	})
}
