package pebblelog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"tidemark/stream"
)

// Slice returns batches of a partition from an offset on; see [stream.Log].
func (l *Log) Slice(id stream.ID, p stream.Partition, from stream.Offset, events int) ([]*stream.Batch, error) {
	st, err := l.partition(id, p)
	if err != nil {
		return nil, err
	}
	if from < st.First {
		return nil, &stream.OffsetGone{First: st.First}
	}
	if from >= st.Next || events <= 0 {
		return nil, nil
	}
	l.mu.RLock()
	out, ok := l.mu.tail.partition(id, p, from, events)
	l.mu.RUnlock()
	if ok {
		return out, nil
	}
	it := l.kv.Iter(batchKey(id, p, st.First), batchKey(id, p, st.Next))
	next, gaps := from, l.mayHaveGaps(id)
	ok = it.SeekLT(batchKey(id, p, from+1))
	if !ok && gaps {
		ok = it.First()
	}
	for ; ok && events > 0; ok = it.Next() {
		key := it.Key()
		var b *stream.Batch
		if b, err = l.codec.decodeBatch(key, slices.Clone(it.Value())); err != nil {
			err = l.atBatch(id, p, baseOf(key), err)
			break
		}
		if !gaps && (b.Base > next || len(out) > 0 && b.Base != next) {
			err = l.missing(id, p, next, b.Base)
			break
		}
		next = b.End()
		if n := b.Len - b.Index(from); n > 0 {
			out = append(out, b)
			events -= n
		}
	}
	if !gaps && events > 0 && next < st.Next && err == nil && it.Err() == nil {
		err = l.missing(id, p, next, st.Next)
	}
	if cerr := it.Close(); cerr != nil {
		err = errors.Join(err, l.atBatch(id, p, next, cerr))
	}
	if err != nil {
		if st, e := l.partition(id, p); e != nil || from < st.First { // removed meanwhile
			return nil, cmp.Or(e, error(&stream.OffsetGone{First: st.First}))
		}
	}
	return out, err
}

// OffsetAt is the first offset of a partition whose append time is at or after an instant; the next
// offset when there is none.
func (l *Log) OffsetAt(id stream.ID, p stream.Partition, at stream.Micros) (stream.Offset, error) {
	st, err := l.partition(id, p)
	if err != nil {
		return 0, err
	}
	it := l.kv.Iter(batchKey(id, p, st.First), batchKey(id, p, st.Next))
	low, high := st.First, st.Next // every batch before low is older, every one from high on is not
	for low < high {
		middle := low + (high-low)/2
		if !it.SeekLT(batchKey(id, p, middle+1)) {
			break
		}
		h, err := decodeHeader(it.Key(), it.Value())
		if err != nil {
			return 0, errors.Join(l.atBatch(id, p, baseOf(it.Key()), err), it.Close())
		}
		if h.batch.AppendTime >= at {
			high = max(low, h.batch.Base)
		} else {
			low = max(middle+1, h.batch.Base+h.span) // compaction may have removed what lay behind it
		}
	}
	return low, it.Close()
}

// partition returns where a partition stands.
func (l *Log) partition(id stream.ID, p stream.Partition) (stream.PartitionStats, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s, ok := l.mu.stats[id]
	if !ok {
		return stream.PartitionStats{}, unknownStream(id)
	}
	if p < 0 || int(p) >= len(s.Partitions) {
		return stream.PartitionStats{}, fmt.Errorf("stream %d has no partition %d", id, p)
	}
	st := s.Partitions[p]
	if first := l.mu.marks[id].First; int(p) < len(first) {
		st.First = max(st.First, first[p])
	}
	return st, nil
}
