package pebblelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// chunk is how many index records a reader takes at a time of one stream.
const chunk = 256

// logReader merges the entries of some streams by sequence. Near the end of the log it reads the
// tail, further back the streams' index, whose records are far smaller than the batches.
type logReader struct {
	l       *Log
	streams []streamReader
	// from is the end of the log when the last look at all streams found nothing more.
	from stream.Sequence
}

type streamReader struct {
	id stream.ID
	// next are the entries that were looked up and not given out; those from the store have only
	// their index record yet.
	next []readerEntry
	// start is what was before the first entry, of a reader that began with the oldest.
	start stream.Mark
	// expect is the offset at which the next batch of a partition must begin, where it is known.
	expect map[stream.Partition]stream.Offset
	// upTo: everything of the stream up to here was given out or is in next.
	upTo stream.Sequence
}

type readerEntry struct {
	sequence stream.Sequence
	entry    stream.Entry
	index    indexRecord // of a batch whose entry is empty
}

// Read returns a reader of the entries of some streams behind a sequence; see [stream.Log].
func (l *Log) Read(ids []stream.ID, after stream.Sequence) stream.Reader {
	r := &logReader{l: l, from: -1}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		s := streamReader{id: id, upTo: after, expect: map[stream.Partition]stream.Offset{}}
		if after == 0 {
			s.start, s.expect = l.beginnings(id)
			s.upTo = s.start.Sequence
		}
		r.streams = append(r.streams, s)
	}
	return r
}

// Next returns the next durable entry.
func (r *logReader) Next() (stream.Entry, bool, error) {
	for {
		least := -1
		for i := range r.streams {
			s := &r.streams[i]
			if len(s.next) > 0 && (least < 0 || s.next[0].sequence < r.streams[least].next[0].sequence) {
				least = i
			}
		}
		// The least is next if no stream can have an entry before it that was not looked up yet.
		bound := stream.Sequence(0)
		if least >= 0 {
			bound = r.streams[least].next[0].sequence
		} else if bound = r.l.End(); bound == r.from {
			return stream.Entry{}, false, nil
		}
		again := false
		for i := range r.streams {
			s := &r.streams[i]
			if len(s.next) == 0 && s.upTo < bound {
				if err := r.l.lookUp(s); err != nil {
					return stream.Entry{}, false, err
				}
				again = again || len(s.next) > 0
			}
		}
		switch {
		case again:
		case least < 0:
			r.from = bound
			return stream.Entry{}, false, nil
		default:
			e, ok, err := r.l.resolve(&r.streams[least])
			if ok || err != nil {
				return e, ok, err
			}
		}
	}
}

// Start is where a stream stood before the first entry.
func (r *logReader) Start(id stream.ID) stream.Mark {
	for i := range r.streams {
		if r.streams[i].id == id {
			return r.streams[i].start.Clone()
		}
	}
	return stream.Mark{}
}

// Close releases the reader, which holds nothing of the store.
func (r *logReader) Close() error {
	r.streams = nil
	return nil
}

// resolve takes the first entry of a stream that was looked up. ok is false when the stream was
// dropped meanwhile.
func (l *Log) resolve(s *streamReader) (stream.Entry, bool, error) {
	first := s.next[0]
	if first.entry != (stream.Entry{}) {
		s.next = s.next[1:]
		return first.entry, true, l.follows(s, first.entry.Batch)
	}
	key := batchKey(s.id, first.index.partition, first.index.base)
	value, err := l.kv.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		if _, known := l.Stats(s.id); known != nil {
			s.next = nil
			return stream.Entry{}, false, nil
		}
		if l.isTrimmed(s.id, first.sequence-1) {
			return stream.Entry{}, false, l.trimmed(s.id)
		}
		if l.mayHaveGaps(s.id) {
			if _, gone := l.kv.Get(indexKey(s.id, first.sequence)); errors.Is(gone, kv.ErrNotFound) { // compacted meanwhile
				s.next = s.next[1:]
				return stream.Entry{}, false, nil
			}
		}
	}
	var b *stream.Batch
	if err == nil {
		b, err = l.codec.decodeBatch(key, value)
	}
	if err == nil && b.Sequence != first.sequence {
		err = fmt.Errorf("its sequence is %d and should be %d: %w", b.Sequence, first.sequence, errDamaged)
	}
	if err != nil {
		return stream.Entry{}, false, l.atBatch(s.id, first.index.partition, first.index.base, err)
	}
	if err := l.follows(s, b); err != nil {
		return stream.Entry{}, false, err
	}
	s.next = s.next[1:]
	return stream.Entry{Batch: b}, true, nil
}

// follows checks that no batch is missing before b: a store that lost a table in its middle opens
// without an error.
func (l *Log) follows(s *streamReader, b *stream.Batch) error {
	if b == nil {
		return nil
	}
	if want, known := s.expect[b.Partition]; known && b.Base != want && !l.mayHaveGaps(s.id) {
		return l.missing(s.id, b.Partition, want, b.Base)
	}
	s.expect[b.Partition] = b.End()
	return nil
}

// missing is the error of events that should lie between two offsets and do not.
func (l *Log) missing(id stream.ID, p stream.Partition, from, to stream.Offset) error {
	return fmt.Errorf("stream %s, partition %d: the events from offset %d up to %d are missing: %w", l.name(id), p, from, to, errDamaged)
}

// atBatch says which batch an error is about.
func (l *Log) atBatch(id stream.ID, p stream.Partition, base stream.Offset, err error) error {
	return fmt.Errorf("stream %s, partition %d, batch at offset %d: %w", l.name(id), p, base, err)
}

// lookUp finds the next entries of a stream, as far as they are durable (I3).
func (l *Log) lookUp(s *streamReader) error {
	s.next = s.next[:0]
	l.mu.RLock()
	end := l.mu.end
	entries, ok := l.mu.tail.after(s.id, s.upTo, chunk)
	l.mu.RUnlock()
	if ok {
		for _, e := range entries {
			s.next = append(s.next, readerEntry{sequence: e.Sequence(), entry: e})
		}
		s.upTo = end
		if len(entries) == chunk {
			s.upTo = s.next[chunk-1].sequence
		}
		return nil
	}
	it := l.kv.Iter(indexKey(s.id, s.upTo+1), indexKey(s.id, end+1))
	if l.isTrimmed(s.id, s.upTo) { // asked after the iterator was made: it sees all or we hear of it
		return errors.Join(l.trimmed(s.id), it.Close())
	}
	for ok := it.First(); ok && len(s.next) < chunk; ok = it.Next() {
		rec, err := decodeIndex(it.Key(), it.Value())
		if err != nil {
			at := binary.BigEndian.Uint64(it.Key()[9:])
			return errors.Join(fmt.Errorf("stream %s, index record of sequence %d: %w", l.name(s.id), at, err), it.Close())
		}
		e := readerEntry{sequence: rec.sequence, index: rec}
		if rec.control != nil {
			e.entry.Control = rec.control
		}
		s.next = append(s.next, e)
	}
	s.upTo = end
	if len(s.next) == chunk {
		s.upTo = s.next[chunk-1].sequence
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("stream %s, index behind sequence %d: %w", l.name(s.id), s.upTo, err)
	}
	return nil
}
