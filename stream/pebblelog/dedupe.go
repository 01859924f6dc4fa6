package pebblelog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// Where the event with an id lies, version 1, frozen:
//
//	version 1 · uvarint partition, offset · zigzag append time
//
// The records of one hour of append time lie together and fall by one range deletion when the
// whole hour is behind the stream's dedupe window.

func appendID(dst []byte, p stream.Place, at stream.Micros) []byte {
	dst = binary.AppendUvarint(append(dst, stateVersion), uint64(p.Partition))
	return binary.AppendVarint(binary.AppendUvarint(dst, uint64(p.Offset)), at)
}

func decodeID(value []byte) (p stream.Place, at stream.Micros, ok bool) {
	d := row.Reader{Rest: value}
	if d.Byte() != stateVersion {
		return p, 0, false
	}
	p = stream.Place{Partition: stream.Partition(d.Uvarint()), Offset: stream.Offset(d.Uvarint())}
	at = d.Varint()
	return p, at, d.Done()
}

// find looks for an id among the events of this commit and those appended within the stream's
// dedupe window, commits in flight included: the store shows them already.
func (q *sequencer) find(c *commit, s *streamState, id stream.EventID) (of stream.Place, known bool, err error) {
	if p, ok := c.ids[idOf{s.id, id}]; ok {
		return p, true, nil
	}
	window := s.settings.DedupeWindow.Microseconds()
	q.scratch = s.ids.maybe(hourOf(c.at-window), id, q.scratch[:0])
	for _, hour := range q.scratch {
		value, err := q.l.kv.Get(idKey(s.id, hour, id))
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return of, false, err
		}
		p, at, ok := decodeID(value)
		if !ok {
			return of, false, fmt.Errorf("stream %s: the record of an id: %w", s.settings.Name, errDamaged)
		}
		if c.at-at < window { // R5
			return p, true, nil
		}
	}
	return of, false, nil
}

// readIDs builds the filters of a stream from the ids in the store.
func (q *sequencer) readIDs(s *streamState) error {
	prefix := streamPrefix(kv.IDs, s.id)
	it := q.l.kv.Iter(prefix, kv.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		if len(key) != 29 {
			_ = it.Close()
			return fmt.Errorf("stream %s: the key of an id: %w", s.settings.Name, errDamaged)
		}
		s.ids.add(binary.BigEndian.Uint32(key[9:]), [16]byte(key[13:]))
	}
	return it.Close()
}

// bytesPerID is about what one id takes on disk.
const bytesPerID = 50

// shorten moves the first hour whose ids are remembered up when they take more than DedupeMax: then
// the window is shorter than asked for, which the stream's stats and one line in the log say.
func (q *sequencer) shorten(s *streamState, first uint32) uint32 {
	shorter := s.ids.within(int(q.l.o.DedupeMax / bytesPerID))
	switch {
	case shorter > first:
		if !s.stats.DedupeShortened {
			s.stats.DedupeShortened = true
			q.l.o.Logger.Warn("the ids of the dedupe_window take more than dedupe_max: the oldest are forgotten early, so an event sent again after that is taken again",
				"stream", s.settings.Name, "window", s.settings.DedupeWindow, "dedupe_max", q.l.o.DedupeMax)
		}
		return shorter
	case s.stats.DedupeShortened && !s.ids.older(first):
		s.stats.DedupeShortened = false
	}
	return first
}

// expire lets hours fall that nobody asks for any more: ids of the streams that the commit touches,
// and kept answers.
func (q *sequencer) expire(c *commit) {
	for id, s := range c.touched {
		first := hourOf(c.at - s.settings.DedupeWindow.Microseconds())
		first = q.shorten(s, first)
		if s.ids.older(first) {
			c.kv.DeleteRange(streamPrefix(kv.IDs, id), idHourKey(id, first))
			s.ids.forget(first)
		}
	}
	c.answersFrom = hourOf(c.at - answerWindow.Microseconds())
	q.l.answers.RLock()
	older := q.l.answers.hours.older(c.answersFrom)
	q.l.answers.RUnlock()
	if older {
		c.kv.DeleteRange([]byte{byte(kv.Idempotency)}, answerHourKey(c.answersFrom))
	}
}
