package pebblelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// Checked is what Check has looked at.
type Checked struct {
	Streams, Partitions, Batches int
	Events                       int64
	Records                      int // all others of the log: index, ids, answers, dead letters
}

// Check verifies every checksum of the log in a store, that offsets have no gaps, that every batch
// is in its stream's index, and that the log ends where its witness saw it end. It tells report of
// everything that is wrong, with stream, partition and offset, and writes nothing.
func Check(store *kv.Store, w WitnessFile, report func(what string)) (Checked, error) {
	l := &Log{kv: store, o: Options{Witness: w}.WithDefaults()}
	c := &checker{l: l, report: report, q: &sequencer{l: l, streams: map[stream.ID]*streamState{}}}
	var err error
	if l.codec, err = newCodec(); err != nil {
		return Checked{}, err
	}
	defer l.codec.close()
	// A store without a log may be new; whether it should have one the witness tells.
	if l.id, l.ancestors, err = identityOf(store); err != nil && !errors.Is(err, kv.ErrNotFound) {
		report(err.Error())
	}
	if value, err := store.Get(endKey); err == nil {
		var ok bool
		if c.q.end, c.q.at, ok = decodeEnd(value); !ok {
			report("the record of the log's end can't be read")
		}
	} else if !errors.Is(err, kv.ErrNotFound) {
		report("the record of the log's end: " + err.Error())
	}
	if err := c.q.readStreams(); err != nil {
		report(err.Error())
	}
	for _, id := range sortedIDs(c.q.streams) {
		s := c.q.streams[id]
		c.done.Streams++
		c.q.checkEnds(s)
		c.index(s)
		for p := range s.stats.Partitions {
			c.partition(s, stream.Partition(p))
		}
		c.small(s)
	}
	c.answers()
	if err := c.q.compare(); err != nil {
		report(err.Error())
	}
	for _, what := range l.Lost() {
		report(what)
	}
	return c.done, nil
}

type checker struct {
	l      *Log
	q      *sequencer
	report func(string)
	done   Checked
	// pointed holds the batches that the index of the present stream points to.
	pointed map[stream.Place]stream.Sequence
}

func sortedIDs(m map[stream.ID]*streamState) []stream.ID {
	out := make([]stream.ID, 0, len(m))
	for id := range m {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (c *checker) index(s *streamState) {
	c.pointed = map[stream.Place]stream.Sequence{}
	it := c.l.kv.Iter(indexKey(s.id, 0), kv.PrefixEnd(streamPrefix(kv.Sequences, s.id)))
	last := s.mark.Sequence
	for ok := it.First(); ok; ok = it.Next() {
		c.done.Records++
		rec, err := decodeIndex(it.Key(), it.Value())
		if err != nil {
			c.report(fmt.Sprintf("stream %s, index record of sequence %d: %v", s.settings.Name, rec.sequence, err))
			continue
		}
		last = rec.sequence
		if rec.control == nil {
			c.pointed[stream.Place{Partition: rec.partition, Offset: rec.base}] = rec.sequence
		}
	}
	if err := it.Close(); err != nil {
		c.report(fmt.Sprintf("stream %s, index behind sequence %d: %v", s.settings.Name, last, err))
		c.pointed = nil // what it points to is not known
	}
}

func (c *checker) partition(s *streamState, p stream.Partition) {
	c.done.Partitions++
	st := s.stats.Partitions[p]
	from := batchKey(s.id, p, 0)
	it := c.l.kv.Iter(from, kv.PrefixEnd(from[:13]))
	next, whole := st.First, true
	at := func(base stream.Offset, err error) {
		c.report(fmt.Sprintf("stream %s, partition %d, batch at offset %d: %v", s.settings.Name, p, base, err))
	}
	for ok := it.First(); ok; ok = it.Next() {
		c.done.Batches++
		key, value := it.Key(), it.Value()
		base := baseOf(key)
		h, err := decodeHeader(key, value)
		if err != nil {
			at(base, err)
			whole = false
			continue
		}
		if b, err := c.l.codec.decodeBatch(key, value); err != nil {
			at(base, err)
		} else if _, err := c.l.codec.decodePayloads(h.payloads, h.version, b.Len, b.Columns, false); err != nil {
			at(base, err)
		}
		c.done.Events += int64(h.batch.Len)
		if whole && base != next && (!s.compacted() || base < next) {
			c.report(fmt.Sprintf("stream %s, partition %d: behind offset %d follows a batch at offset %d", s.settings.Name, p, next, base))
		}
		next, whole = base+h.span, true
		place := stream.Place{Partition: p, Offset: base}
		if c.pointed != nil && c.pointed[place] != h.batch.Sequence {
			c.report(fmt.Sprintf("stream %s, partition %d, batch at offset %d: it is not in the index at sequence %d", s.settings.Name, p, base, h.batch.Sequence))
		}
		delete(c.pointed, place)
	}
	if err := it.Close(); err != nil {
		at(next, err)
		return
	}
	for place, sequence := range c.pointed {
		if place.Partition == p {
			c.report(fmt.Sprintf("stream %s, partition %d, batch at offset %d: it is missing, and sequence %d points to it", s.settings.Name, p, place.Offset, sequence))
		}
	}
}

// small checks a stream's ids and dead letters.
func (c *checker) small(s *streamState) {
	prefix := streamPrefix(kv.IDs, s.id)
	c.walk(prefix, fmt.Sprintf("stream %s, an id", s.settings.Name), func(_, value []byte) error {
		if _, _, ok := decodeID(value); !ok {
			return errDamaged
		}
		return nil
	})
	prefix = streamPrefix(kv.DeadLetters, s.id)
	c.walk(prefix, fmt.Sprintf("stream %s, a dead letter", s.settings.Name), func(key, value []byte) error {
		if len(key) != 17 {
			return errDamaged
		}
		if _, err := decodeDeadLetter(key, value); err != nil {
			return fmt.Errorf("number %d: %w", binary.BigEndian.Uint64(key[9:]), err)
		}
		return nil
	})
}

func (c *checker) answers() {
	c.walk([]byte{byte(kv.Idempotency)}, "a kept answer", func(_, value []byte) error {
		if _, _, ok := decodeAnswer(value); !ok {
			return errDamaged
		}
		return nil
	})
}

func (c *checker) walk(prefix []byte, what string, check func(key, value []byte) error) {
	it := c.l.kv.Iter(prefix, kv.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		c.done.Records++
		if err := check(it.Key(), it.Value()); err != nil {
			c.report(what + ": " + err.Error())
		}
	}
	if err := it.Close(); err != nil {
		c.report(what + ": " + err.Error())
	}
}
