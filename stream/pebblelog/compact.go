package pebblelog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// Compaction keeps, of a stream that asks for it, the last event of each key (B2); offsets and order
// stay. One pass of the keeper reads the keys of what came since the pass before, as many as fit
// into memory, then goes through the stream from its oldest batch up to there and writes the batches
// without what a later event of its key replaces. It writes some batches at a time, oldest first,
// each time as one commit of the sequencer; a crash in between leaves a stream that is compacted in
// part, and the next pass does the rest.
//
// The last batch of a partition is never touched: it is what the witness and the next start look at.
// A batch of which nothing is left goes, with its index record; what its events did to the
// partition's watermark is carried on to the next batch (W1).

// tombstoneLife is how long, in append time, a null body stays as the last event of its key.
const tombstoneLife = 24 * time.Hour

// rewriteBytes is about how much one commit of compaction writes.
const rewriteBytes = 1 << 20

// compactState, version 1, frozen: version 1 · uvarint sequence up to which the stream is compacted,
// bytes that it had then · zigzag append time of the log then · byte 1 and zigzag append time of the
// oldest tombstone, or byte 0.
type compactState struct {
	to              stream.Sequence
	bytes           int64
	at              stream.Micros
	hasTombstone    bool
	oldestTombstone stream.Micros // append time of the oldest tombstone
}

func (c compactState) encode() []byte {
	out := binary.AppendUvarint([]byte{stateVersion}, uint64(c.to))
	out = binary.AppendVarint(binary.AppendUvarint(out, uint64(c.bytes)), c.at)
	return appendOptional(out, c.hasTombstone, c.oldestTombstone)
}

func decodeCompactState(value []byte) (c compactState, ok bool) {
	d := row.Reader{Rest: value}
	if d.Byte() != stateVersion {
		return c, false
	}
	c.to, c.bytes, c.at = stream.Sequence(d.Uvarint()), int64(d.Uvarint()), d.Varint()
	c.hasTombstone, c.oldestTombstone = optional(&d)
	return c, d.Done()
}

func compactKey(id stream.ID) []byte { return append(streamPrefix(kv.Counters, id), 'k') }

// due reports whether a pass is worth its while: half of the bytes came since the last one, or a
// tombstone has lived long enough and the last pass is an hour ago.
func (c compactState) due(bytes int64, end stream.Sequence, at stream.Micros) bool {
	if end > c.to && 2*(bytes-c.bytes) >= bytes && bytes > 0 {
		return true
	}
	return c.hasTombstone && at-c.oldestTombstone >= tombstoneLife.Microseconds() && at-c.at >= time.Hour.Microseconds()
}

// rewrite is what one commit of compaction changes.
type rewrite struct {
	set     [][2][]byte
	deleted [][]byte
	bytes   []int64 // by partition: what it grows by
	size    int
	done    *compactState // with the last one of a pass
}

type keyHash [16]byte

func hashKey(key string) keyHash {
	sum := sha256.Sum256([]byte(key))
	return keyHash(sum[:16])
}

// pass is one pass over a stream.
type pass struct {
	l     *Log
	id    stream.ID
	codec *codec
	// newest is where the last event of each key lies, of the keys that came since the last pass.
	newest map[keyHash]seenAt
	upTo   stream.Sequence
	next   []stream.Offset // the end of each partition when the pass began
	// lastsFrom is the first sequence of the batches that are not touched: nothing before a
	// tombstone may stand in one of them when it goes.
	lastsFrom stream.Sequence
	now       stream.Micros
	out       rewrite
	state     compactState
	carried   []*emptied // by partition
}

// seenAt is an event's place in the log's order.
type seenAt struct {
	sequence stream.Sequence
	offset   stream.Offset
}

func (s seenAt) behind(o seenAt) bool {
	return s.sequence > o.sequence || s.sequence == o.sequence && s.offset > o.offset
}

// emptied is a batch of which nothing is left, as long as no batch behind it has taken over what it
// did to the watermark.
type emptied struct {
	batch *stream.Batch
	key   []byte
	size  int64
}

// compact runs a pass over a stream if there is reason to.
func (l *Log) compact(ctx context.Context, id stream.ID) error {
	l.mu.RLock()
	set, state, at := l.mu.settings[id], l.mu.compact[id], l.mu.at
	l.mu.RUnlock()
	stats, err := l.Stats(id)
	if err != nil || !set.Compact {
		return nil // dropped meanwhile, or keeps everything
	}
	bytes := int64(0)
	for _, p := range stats.Partitions {
		bytes += p.Bytes
	}
	if !state.due(bytes, l.End(), at) {
		return nil
	}
	p := &pass{
		l: l, id: id, newest: map[keyHash]seenAt{}, now: at, carried: make([]*emptied, len(stats.Partitions)), state: state,
		out: rewrite{bytes: make([]int64, len(stats.Partitions))}, lastsFrom: math.MaxInt64,
	}
	for _, st := range stats.Partitions {
		p.next = append(p.next, st.Next)
	}
	if p.codec, err = newCodec(); err != nil {
		return err
	}
	defer p.codec.close()
	if err := p.readKeys(ctx); err != nil {
		return err
	}
	if err := p.write(ctx); err != nil {
		return err
	}
	l.o.Logger.Info("compacted", "stream", set.Name, "sequence", p.upTo, "keys", len(p.newest), "bytes", p.state.bytes)
	return nil
}

// batches calls do for each batch between two sequences, in order.
func (p *pass) batches(ctx context.Context, after, upTo stream.Sequence, do func(*stream.Batch, []byte, int64) (more bool, err error)) error {
	it := p.l.kv.Iter(indexKey(p.id, after+1), indexKey(p.id, upTo+1))
	for ok := it.First(); ok; ok = it.Next() {
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), it.Close())
		}
		rec, err := decodeIndex(it.Key(), it.Value())
		if err == nil && rec.control != nil {
			continue
		}
		key := batchKey(p.id, rec.partition, rec.base)
		var value []byte
		if err == nil {
			value, err = p.l.kv.Get(key)
		}
		if errors.Is(err, kv.ErrNotFound) {
			continue // this pass has removed it
		}
		var b *stream.Batch
		if err == nil {
			b, err = p.codec.decodeBatch(key, value)
		}
		if err != nil {
			return errors.Join(p.l.atBatch(p.id, rec.partition, rec.base, err), it.Close())
		}
		if more, err := do(b, key, int64(len(value))); err != nil || !more {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

// readKeys notes the last event of each key that came since the last pass, and how far it got.
func (p *pass) readKeys(ctx context.Context) error {
	end := p.l.End()
	p.upTo = end
	err := p.batches(ctx, p.state.to, end, func(b *stream.Batch, _ []byte, _ int64) (bool, error) {
		for i := range b.Len {
			if !b.Keys.IsNull(i) {
				p.newest[hashKey(b.Keys.Str[i])] = seenAt{b.Sequence, b.Offset(i)}
			}
		}
		if len(p.newest) >= p.l.o.CompactKeys {
			p.upTo = b.Sequence
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for part, next := range p.next {
		it := p.l.kv.Iter(batchKey(p.id, stream.Partition(part), 0), batchKey(p.id, stream.Partition(part), next))
		var err error
		if it.Last() {
			var h batchHeader
			if h, err = decodeHeader(it.Key(), it.Value()); err == nil {
				p.lastsFrom = min(p.lastsFrom, h.batch.Sequence)
			}
		}
		if err = errors.Join(err, it.Close()); err != nil {
			return err
		}
	}
	return nil
}

// write goes through the stream and writes its batches without what is replaced.
func (p *pass) write(ctx context.Context) error {
	mark, err := p.l.Mark(p.id)
	if err != nil {
		return nil // dropped meanwhile
	}
	p.state.hasTombstone = false
	upTo := p.upTo
	err = p.batches(ctx, mark.Sequence, upTo, func(b *stream.Batch, key []byte, size int64) (bool, error) {
		if b.End() >= p.next[b.Partition] {
			p.last(b)
			return true, nil
		}
		p.one(b, key, size)
		if p.out.size >= rewriteBytes {
			return true, p.flush(ctx)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for part, e := range p.carried { // no batch behind it could take over: its last event stays
		if e != nil {
			p.replace(e.batch, []int32{int32(e.batch.Len - 1)}, e.key, e.size)
			p.carried[part] = nil
			p.upTo = min(p.upTo, e.batch.Sequence-1)
		}
	}
	stats, err := p.l.Stats(p.id)
	if err != nil {
		return nil
	}
	p.state.to, p.state.at, p.state.bytes = p.upTo, p.now, 0
	for part, st := range stats.Partitions {
		p.state.bytes += st.Bytes
		if part < len(p.out.bytes) {
			p.state.bytes += p.out.bytes[part]
		}
	}
	p.out.done = &p.state
	return p.flush(ctx)
}

// last looks at the last batch of a partition, which stays as it is. When events of it are replaced
// the next pass must know by what, so it begins there.
func (p *pass) last(b *stream.Batch) {
	p.noteTombstones(b, nil)
	for i := range b.Len {
		if !p.stays(b, i) {
			p.upTo = min(p.upTo, b.Sequence-1)
		}
	}
	if e := p.carried[b.Partition]; e != nil && e.batch.Removed <= topCounted(b) {
		p.drop(e)
		p.carried[b.Partition] = nil
	}
}

// one decides what is left of a batch.
func (p *pass) one(b *stream.Batch, key []byte, size int64) {
	var stay []int32
	for i := range b.Len {
		if p.stays(b, i) {
			stay = append(stay, int32(i))
		}
	}
	before := p.carried[b.Partition]
	carry := stream.NoTime
	if before != nil {
		carry = before.batch.Removed
	}
	if len(stay) == 0 {
		gone := *b
		gone.Removed = max(carry, topCounted(b))
		p.carried[b.Partition] = &emptied{batch: &gone, key: key, size: size}
		if before != nil {
			p.drop(before)
		}
		return
	}
	p.noteTombstones(b, stay)
	if before != nil {
		p.drop(before)
		p.carried[b.Partition] = nil
	}
	if len(stay) == b.Len && carry <= topCounted(b) {
		return
	}
	changed := *b
	changed.Removed = max(carry, topCounted(b))
	p.replace(&changed, stay, key, size)
}

// topCounted is the largest counted time of a batch, of removed events too.
func topCounted(b *stream.Batch) stream.Micros {
	top := stream.NoTime
	if b.Offsets != nil {
		top = b.Removed
	}
	for i := range b.Len {
		top = max(top, b.Counted(i))
	}
	return top
}

// stays reports whether an event is the last of its key, as far as is known, or has none.
func (p *pass) stays(b *stream.Batch, i int) bool {
	if b.Keys.IsNull(i) {
		return true
	}
	last, known := p.newest[hashKey(b.Keys.Str[i])]
	if known && last.behind(seenAt{b.Sequence, b.Offset(i)}) {
		return false
	}
	old := p.now-b.AppendTime >= tombstoneLife.Microseconds()
	return !(old && b.Sequence < p.lastsFrom && isTombstone(b, i) && !p.mayStay(b.Keys.Str[i]))
}

// mayStay reports whether an event of a key may stay, although it is replaced, to carry on what its
// batch did to the watermark.
func (p *pass) mayStay(key string) bool {
	for _, e := range p.carried {
		if e != nil && !e.batch.Keys.IsNull(e.batch.Len-1) && e.batch.Keys.Str[e.batch.Len-1] == key {
			return true
		}
	}
	return false
}

func isTombstone(b *stream.Batch, i int) bool { return !b.Keys.IsNull(i) && string(b.Raw(i)) == "null" }

// noteTombstones remembers how old the oldest tombstone is that stays; nil: all events do.
func (p *pass) noteTombstones(b *stream.Batch, stay []int32) {
	if p.state.hasTombstone && p.state.oldestTombstone <= b.AppendTime {
		return
	}
	for i := range b.Len {
		if (stay == nil || slices.Contains(stay, int32(i))) && isTombstone(b, i) {
			p.state.hasTombstone, p.state.oldestTombstone = true, b.AppendTime
			return
		}
	}
}

// drop removes a batch and its index record.
func (p *pass) drop(e *emptied) {
	p.out.deleted = append(p.out.deleted, e.key, indexKey(p.id, e.batch.Sequence))
	p.out.bytes[e.batch.Partition] -= e.size
	p.out.size += 64
}

// replace writes a batch with some of its events.
func (p *pass) replace(b *stream.Batch, stay []int32, key []byte, size int64) {
	out := stream.Batch{
		Stream: b.Stream, Partition: b.Partition, Base: b.Base, Sequence: b.Sequence, AppendTime: b.AppendTime, MaxSkew: b.MaxSkew,
		Len: len(stay), Span: b.End() - b.Base, Removed: b.Removed, Offsets: make([]stream.Offset, 0, len(stay)),
	}
	for _, i := range stay {
		out.Offsets = append(out.Offsets, b.Offset(int(i)))
		out.Times = append(out.Times, b.Times[i])
	}
	out.Keys = row.NewVector(b.Keys.Type, len(stay))
	out.Keys.AppendSelected(b.Keys, stay)
	for _, v := range b.Columns {
		if v == nil {
			out.Columns = append(out.Columns, nil)
			continue
		}
		w := row.NewVector(v.Type, len(stay))
		w.AppendSelected(v, stay)
		out.Columns = append(out.Columns, w)
	}
	values := p.values(b, key)
	value := slices.Clone(p.codec.encodeBatch(key, &out, func(yield func([]byte, []stream.Value) bool) {
		for _, i := range stay {
			var mine []stream.Value
			if values != nil {
				mine = values[i]
			}
			if !yield(b.Raw(int(i)), mine) {
				return
			}
		}
	}))
	p.out.set = append(p.out.set, [2][]byte{key, value})
	p.out.bytes[b.Partition] += int64(len(value)) - size
	p.out.size += len(value)
}

// values are where the values of a stored batch's payloads stand; nil when it does not tell: then the
// payloads are kept whole.
func (p *pass) values(b *stream.Batch, key []byte) [][]stream.Value {
	stored, err := p.l.kv.Get(key)
	if err != nil {
		return nil
	}
	h, err := decodeHeader(key, stored)
	if err != nil {
		return nil
	}
	all, err := p.codec.decodePayloads(h.payloads, h.version, b.Len, b.Columns, true)
	if err != nil || all.values == nil {
		return nil
	}
	out := make([][]stream.Value, 0, b.Len)
	for _, values := range all.each {
		out = append(out, values)
	}
	return out
}

// flush commits what has gathered.
func (p *pass) flush(ctx context.Context) error {
	r := p.out
	p.out = rewrite{bytes: make([]int64, len(r.bytes))}
	if len(r.set) == 0 && len(r.deleted) == 0 && r.done == nil {
		return nil
	}
	return p.l.submit(ctx, &call{stream: p.id, rewrite: &r})
}

// addRewrite makes one step of compaction part of a commit.
func (q *sequencer) addRewrite(c *commit, id stream.ID, r *rewrite) {
	if q.streams[id] == nil {
		return
	}
	c.at = q.at // nothing is appended: the log's time stands still
	s := q.edit(c, id)
	for _, w := range r.set {
		c.kv.Set(w[0], w[1])
	}
	for _, key := range r.deleted {
		c.kv.Delete(key)
	}
	for p, grown := range r.bytes {
		s.stats.Partitions[p].Bytes += grown
		if grown != 0 {
			c.partition(s, stream.Partition(p))
		}
	}
	s.isCompacted = true
	if r.done != nil {
		s.compact = *r.done
	}
	c.kv.Set(compactKey(id), s.compact.encode())
	// The store shows the commit before it is durable: from now on readers expect gaps.
	q.l.mu.Lock()
	q.l.mu.compact[id] = s.compact
	q.l.mu.Unlock()
}

// mayHaveGaps reports whether events may be missing in the middle of a stream's partitions.
func (l *Log) mayHaveGaps(id stream.ID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, compacted := l.mu.compact[id]
	return compacted
}
