package pebblelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// Retention removes the oldest entries of a stream, in the order of sequences over all its
// partitions, so that what is left is an end of the stream as it was. The walk that finds how far it
// goes is the keeper's; the removal is a commit of the sequencer: one range deletion a partition and
// one of the index, with the mark of what was removed (W1) in the same write.

// keeperPeriod is how often the keeper looks at every stream.
const keeperPeriod = time.Minute

// removal is what retention removes of one stream, as the keeper found it.
type removal struct {
	mark  stream.Mark
	bytes []int64 // by partition
}

// keep looks at all streams now and then until ctx ends.
func (l *Log) keep(ctx context.Context) {
	t := time.NewTicker(l.o.KeepPeriod)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := l.Keep(ctx); err != nil && ctx.Err() == nil {
			l.o.Logger.Warn("retention and compaction did not end; they are tried again", "err", err)
		}
	}
}

// Keep removes what is past the streams' retention and compacts what can be; see [Options].KeepPeriod.
func (l *Log) Keep(ctx context.Context) error {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	var all error
	for _, id := range l.Declared() {
		if err := l.refusal(); err != nil {
			return errors.Join(all, err)
		}
		if err := errors.Join(l.retain(ctx, id), l.compact(ctx, id)); err != nil {
			all = errors.Join(all, fmt.Errorf("stream %s: %w", l.name(id), err))
		}
	}
	return all
}

// retain removes what is past the retention of one stream.
func (l *Log) retain(ctx context.Context, id stream.ID) error {
	l.mu.RLock()
	set := l.mu.settings[id]
	l.mu.RUnlock()
	if set.Retention == (stream.Retention{}) {
		return nil
	}
	r, err := l.findRemoval(ctx, id, set)
	if err != nil || r == nil {
		return err
	}
	if err := l.submit(ctx, &call{stream: id, remove: r}); err != nil {
		return err
	}
	l.o.Logger.Info("retention has removed the oldest events", "stream", set.Name, "first_offsets", r.mark.First, "sequence", r.mark.Sequence)
	return nil
}

// findRemoval walks from the oldest entry of a stream to the first one that stays; nil when all do.
func (l *Log) findRemoval(ctx context.Context, id stream.ID, set stream.Settings) (*removal, error) {
	stats, err := l.Stats(id)
	if err != nil {
		return nil, nil // dropped meanwhile
	}
	mark, err := l.Mark(id)
	if err != nil {
		return nil, nil
	}
	if mark.Sequence == 0 {
		mark = stream.NewMark()
	}
	r := &removal{mark: mark.Clone(), bytes: make([]int64, len(stats.Partitions))}
	before := mark.Sequence
	due := dueCheck{set: set.Retention, oldest: l.ages.now(l.o) - set.Retention.Age.Microseconds()}
	for _, p := range stats.Partitions {
		due.bytes += p.Bytes
	}
	it := l.kv.Iter(indexKey(id, before+1), indexKey(id, l.End()+1))
	for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
		rec, err := decodeIndex(it.Key(), it.Value())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("index record of sequence %d: %w", rec.sequence, err), it.Close())
		}
		if c := rec.control; c != nil {
			if !due.control(c.AppendTime) {
				break
			}
			r.mark.Control(c, set.IdleAdvance)
			continue
		}
		key := batchKey(id, rec.partition, rec.base)
		value, err := l.kv.Get(key)
		var h batchHeader
		if err == nil {
			h, err = decodeHeader(key, value)
		}
		if err != nil {
			return nil, errors.Join(l.atBatch(id, rec.partition, rec.base, err), it.Close())
		}
		if !due.batch(h.batch.AppendTime, int64(len(value))) {
			break
		}
		r.mark.Events(h.batch.Sequence, h.batch.AppendTime, rec.partition, rec.base, h.span, h.counted())
		r.bytes[rec.partition] += int64(len(value))
	}
	if err := errors.Join(it.Close(), context.Cause(ctx)); err != nil || r.mark.Sequence == before {
		return nil, err
	}
	return r, nil
}

// dueCheck says which entries, asked for from the oldest on, are past a retention.
type dueCheck struct {
	set    stream.Retention
	oldest stream.Micros // append time of the oldest event that stays
	bytes  int64         // of what is left
}

func (d *dueCheck) batch(at stream.Micros, size int64) bool {
	old := d.set.Age > 0 && at < d.oldest
	// The bound is on what is kept, and the newest batch is kept whatever its size.
	over := d.set.Bytes > 0 && d.bytes > d.set.Bytes && d.bytes > size
	d.bytes -= size
	return old || over
}

func (d *dueCheck) control(at stream.Micros) bool {
	return d.set.Age > 0 && at < d.oldest || d.set.Bytes > 0 && d.bytes > d.set.Bytes
}

// counted is the largest counted time among a batch's events: the cap is the same for all of them.
func (h *batchHeader) counted() stream.Micros {
	counted := min(h.greatest, h.batch.AppendTime+h.batch.MaxSkew)
	if h.compacted {
		counted = max(counted, h.batch.Removed)
	}
	return counted
}

// ages tells the time that retention goes by: the wall clock, but never ahead of what has passed
// since the log was opened, so that a clock that jumps forwards removes nothing (P12).
type ages struct {
	wall time.Time
	mono time.Duration
}

func newAges(o Options) ages { return ages{o.Clock(), o.Monotonic()} }

func (a ages) now(o Options) stream.Micros {
	return min(o.Clock().UnixMicro(), a.wall.Add(o.Monotonic()-a.mono).UnixMicro())
}

// addRemoval makes a removal part of a commit. What the keeper found may be old news by now.
func (q *sequencer) addRemoval(c *commit, id stream.ID, r *removal) {
	if old := q.streams[id]; old == nil || old.mark.Sequence >= r.mark.Sequence {
		return
	}
	c.at = q.at // nothing is appended: the log's time stands still
	s := q.edit(c, id)
	for p := range s.stats.Partitions {
		st := &s.stats.Partitions[p]
		if p >= len(r.mark.First) || r.mark.First[p] <= st.First {
			continue
		}
		c.kv.DeleteRange(batchKey(id, stream.Partition(p), st.First), batchKey(id, stream.Partition(p), r.mark.First[p]))
		st.First = r.mark.First[p]
		st.Bytes -= r.bytes[p]
		if st.First == st.Next {
			s.sums[p] = 0
		}
		c.partition(s, stream.Partition(p))
	}
	c.kv.DeleteRange(indexKey(id, 0), indexKey(id, r.mark.Sequence+1))
	s.mark = r.mark
	c.kv.Set(markKey(id), encodeMark(s.mark))
	// The store shows the commit before it is durable: readers must not take for damage what it
	// removes.
	q.l.mu.Lock()
	q.l.mu.marks[id] = s.mark
	q.l.mu.Unlock()
}

// Mark is where a stream stood before its oldest entry; see [stream.Log].
func (l *Log) Mark(id stream.ID) (stream.Mark, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if _, ok := l.mu.stats[id]; !ok {
		return stream.Mark{}, unknownStream(id)
	}
	return l.mu.marks[id].Clone(), nil
}

// trimmed is the error of a reader that stands before a stream's oldest entry.
func (l *Log) trimmed(id stream.ID) error {
	m, err := l.Mark(id)
	if err != nil {
		return err
	}
	e := &stream.Trimmed{Stream: id, Name: l.name(id), Sequence: m.Sequence}
	stats, err := l.Stats(id)
	if err != nil {
		return err
	}
	for _, p := range stats.Partitions {
		e.First = append(e.First, p.First)
	}
	return e
}

// A mark, version 1, frozen:
//
//	version 1 · uvarint sequence · zigzag append time, advance, ever (counted, advance), value
//	(counted, advance), last control · flags (1 all idle, 2 idled) · uvarint number of partitions;
//	each: zigzag largest counted time · byte 1 when idle, else 0 · uvarint first offset
//
// and CRC-32C(4) of the key-less bytes before it.
func encodeMark(m stream.Mark) []byte {
	out := binary.AppendUvarint([]byte{stateVersion}, uint64(m.Sequence))
	for _, v := range []stream.Micros{m.AppendTime, m.Advance, m.Ever.Counted, m.Ever.Advance, m.Value.Counted, m.Value.Advance, m.LastControl} {
		out = binary.AppendVarint(out, v)
	}
	out = append(out, bit(m.AllIdle)|bit(m.Idled)<<1)
	out = binary.AppendUvarint(out, uint64(len(m.Parts)))
	for p, part := range m.Parts {
		out = append(binary.AppendVarint(out, part.MaxCounted), bit(part.Idle))
		out = binary.AppendUvarint(out, uint64(m.First[p]))
	}
	return binary.BigEndian.AppendUint32(out, checksum(nil, out))
}

func decodeMark(value []byte) (m stream.Mark, ok bool) {
	if len(value) < 5 || value[0] != stateVersion || binary.BigEndian.Uint32(value[len(value)-4:]) != checksum(nil, value[:len(value)-4]) {
		return m, false
	}
	d := row.Reader{Rest: value[1 : len(value)-4]}
	m.Sequence = stream.Sequence(d.Uvarint())
	for _, v := range []*stream.Micros{&m.AppendTime, &m.Advance, &m.Ever.Counted, &m.Ever.Advance, &m.Value.Counted, &m.Value.Advance, &m.LastControl} {
		*v = d.Varint()
	}
	flags := d.Byte()
	m.AllIdle, m.Idled = flags&1 != 0, flags&2 != 0
	for range d.Length(stream.MaxPartitions) {
		m.Parts = append(m.Parts, stream.MarkPart{MaxCounted: d.Varint(), Idle: d.Byte() == 1})
		m.First = append(m.First, stream.Offset(d.Uvarint()))
	}
	return m, d.Done()
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// beginnings are the offsets at which the first batch of each partition must lie behind a mark.
func (l *Log) beginnings(id stream.ID) (m stream.Mark, first map[stream.Partition]stream.Offset) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	m, first = l.mu.marks[id].Clone(), map[stream.Partition]stream.Offset{}
	for p := range l.mu.stats[id].Partitions {
		first[stream.Partition(p)] = 0
		if p < len(m.First) {
			first[stream.Partition(p)] = m.First[p]
		}
	}
	return m, first
}

// isTrimmed reports whether entries behind a sequence were removed.
func (l *Log) isTrimmed(id stream.ID, after stream.Sequence) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return after < l.mu.marks[id].Sequence
}

func markKey(id stream.ID) []byte { return append(streamPrefix(kv.Counters, id), 'm') }
