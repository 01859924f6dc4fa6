package pebblelog

import (
	"slices"

	"tidemark/storage/row"
	"tidemark/stream"
)

// tail keeps the newest entries decoded, so that readers near the end of the log read no store and
// decode nothing. It holds an unbroken end of every stream's entries and drops the oldest of all
// when it is over its bound.
type tail struct {
	max, bytes int
	opened     stream.Sequence // entries up to here were never in the tail
	streams    map[stream.ID]*streamTail
	order      []tailPlace // oldest first
}

type streamTail struct {
	entries []stream.Entry
	floor   stream.Sequence // entries up to here are not in the tail
}

type tailPlace struct {
	stream stream.ID
	bytes  int
}

func newTail(maxBytes int, end stream.Sequence) tail {
	return tail{max: maxBytes, opened: end, streams: map[stream.ID]*streamTail{}}
}

func (t *tail) push(e stream.Entry, bytes int) {
	id := e.Stream()
	s := t.streams[id]
	if s == nil {
		s = &streamTail{floor: t.opened}
		t.streams[id] = s
	}
	s.entries = append(s.entries, e)
	t.order = append(t.order, tailPlace{id, bytes})
	t.bytes += bytes
	for t.bytes > t.max && len(t.order) > 0 {
		oldest := t.order[0]
		t.order = t.order[1:]
		t.bytes -= oldest.bytes
		if s := t.streams[oldest.stream]; s != nil {
			s.floor = s.entries[0].Sequence()
			s.entries[0] = stream.Entry{}
			s.entries = s.entries[1:]
		}
	}
}

// drop forgets a stream.
func (t *tail) drop(id stream.ID) {
	delete(t.streams, id)
	t.order = slices.DeleteFunc(t.order, func(p tailPlace) bool {
		if p.stream == id {
			t.bytes -= p.bytes
		}
		return p.stream == id
	})
}

// after returns up to n entries of a stream behind a sequence; ok is false when the tail does not
// reach back that far.
func (t *tail) after(id stream.ID, after stream.Sequence, n int) (entries []stream.Entry, ok bool) {
	s := t.streams[id]
	if s == nil {
		return nil, after >= t.opened
	}
	if after < s.floor {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(s.entries, after+1, func(e stream.Entry, want stream.Sequence) int { return int(e.Sequence() - want) })
	return slices.Clone(s.entries[i:min(i+n, len(s.entries))]), true // eviction clears what it drops
}

// partition returns the batches of a partition from the one that holds offset on; ok is false when
// the tail does not hold that one.
func (t *tail) partition(id stream.ID, p stream.Partition, from stream.Offset, events int) (batches []*stream.Batch, ok bool) {
	s := t.streams[id]
	if s == nil {
		return nil, false
	}
	for _, e := range s.entries {
		b := e.Batch
		if b == nil || b.Partition != p || b.End() <= from {
			continue
		}
		if len(batches) == 0 && b.Base > from {
			return nil, false
		}
		batches = append(batches, b)
		if events -= b.Len - int(max(0, from-b.Base)); events <= 0 {
			break
		}
	}
	return batches, len(batches) > 0
}

// sizeOfBatch is about how much memory a decoded batch holds.
func sizeOfBatch(b *stream.Batch, raw int) int {
	n := 256 + raw + 12*b.Len + sizeOfVector(b.Keys)
	for _, v := range b.Columns {
		if v != nil {
			n += sizeOfVector(v)
		}
	}
	return n
}

func sizeOfVector(v *row.Vector) int {
	n := 64 + 8*len(v.Nulls) + 8*len(v.I64) + 8*len(v.F64) + 16*len(v.I128) + 16*len(v.Str)
	for _, s := range v.Str {
		n += len(s)
	}
	return n
}
