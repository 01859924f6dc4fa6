package pebblelog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// commit is one atomic write of the log while it is made and until it is durable.
type commit struct {
	kv      *kv.Batch // nil when there is nothing to write
	at      stream.Micros
	mono    time.Duration
	hour    uint32
	end     stream.Sequence
	touched map[stream.ID]*streamState
	dropped []stream.ID
	parts   map[partOf]*part
	ids     map[idOf]stream.Place
	answers []stream.IdempotencyKey
	// answersFrom is the first hour whose answers are still told.
	answersFrom uint32
	entries     []tailEntry
	calls       []*call
	durable     chan struct{} // closed after the fsync
	checked     chan struct{} // of CheckTimers; nil for others
	spoiled     error         // the store could not be read: the commit is not made
}

type partOf struct {
	stream    stream.ID
	partition stream.Partition
}

type idOf struct {
	stream stream.ID
	id     stream.EventID
}

type tailEntry struct {
	entry stream.Entry
	bytes int
}

// part is what a commit holds for one partition: rows of requests, in order.
type part struct {
	base stream.Offset
	rows int
	segs []segment
}

// segment is some events of one request.
type segment struct {
	req *stream.Events
	sel []int32
}

func (q *sequencer) newCommit() *commit {
	at := q.now()
	return &commit{
		kv: q.l.kv.NewBatch(), at: at, mono: q.l.o.Monotonic(), hour: hourOf(at), end: q.end, durable: make(chan struct{}),
		touched: map[stream.ID]*streamState{}, parts: map[partOf]*part{}, ids: map[idOf]stream.Place{},
	}
}

// fail answers all calls of a commit that was not made.
func (c *commit) fail(err error) {
	for _, call := range c.calls {
		call.answer(fmt.Errorf("the log could not write: %w", err))
	}
	if c.checked != nil {
		close(c.checked)
	}
}

// control adds a control record of a stream.
func (c *commit) control(s *streamState, r stream.Control) {
	c.end++
	r.Stream, r.Sequence, r.AppendTime = s.id, c.end, c.at
	key := indexKey(s.id, r.Sequence)
	c.kv.Set(key, encodeControl(key, &r))
	c.entries = append(c.entries, tailEntry{stream.Entry{Control: &r}, 128})
	s.silent = c.mono
}

// partition writes the state of a partition.
func (c *commit) partition(s *streamState, p stream.Partition) {
	c.kv.Set(partitionKey(s.id, p), encodePartition(s.stats.Partitions[p]))
}

// addEvents gives the events of a call their offsets, leaving out duplicates. A call that can't be
// taken is refused before anything of it is in the commit.
func (q *sequencer) addEvents(c *commit, call *call) error {
	if err := q.checkCall(c, call); err != nil {
		return err
	}
	call.appended = make([]stream.Appended, len(call.events))
	for i, r := range call.events {
		if err := q.addRequest(c, r, &call.appended[i]); err != nil {
			c.spoiled = err // part of the call is in the commit already
			return err
		}
		if r.Idempotency != nil {
			c.answers = append(c.answers, r.Idempotency.Key)
		}
	}
	return nil
}

func (q *sequencer) checkCall(c *commit, call *call) error {
	if types := (columnTypes{}); len(call.events) > 1 && !types.agree(call) {
		return fmt.Errorf("append: a call holds two requests for one stream whose columns differ in type")
	}
	for _, r := range call.events {
		s := q.streams[r.Stream]
		if s == nil {
			return unknownStream(r.Stream)
		}
		for _, p := range r.Partitions {
			if p < 0 || int(p) >= len(s.stats.Partitions) {
				return fmt.Errorf("append: stream %s has no partition %d", s.settings.Name, p)
			}
		}
		if r.Idempotency != nil {
			known, err := q.remembered(c, r.Idempotency.Key)
			if err != nil {
				return err
			}
			if known {
				return stream.ErrRemembered
			}
		}
	}
	return nil
}

func (q *sequencer) addRequest(c *commit, r *stream.Events, out *stream.Appended) error {
	s := q.edit(c, r.Stream)
	var mine []stream.Range
	for i, p := range r.Partitions {
		var id stream.EventID
		if r.IDs != nil && s.settings.DedupeWindow > 0 {
			id = r.IDs[i]
		}
		if id != (stream.EventID{}) {
			of, known, err := q.find(c, s, id)
			if err != nil {
				return err
			}
			if known {
				out.Duplicates = append(out.Duplicates, stream.Duplicate{Index: i, Of: of})
				continue
			}
		}
		pt := c.parts[partOf{s.id, p}]
		if pt == nil {
			pt = &part{base: s.stats.Partitions[p].Next}
			c.parts[partOf{s.id, p}] = pt
		}
		offset := pt.base + stream.Offset(pt.rows)
		pt.rows++
		if n := len(pt.segs); n == 0 || pt.segs[n-1].req != r {
			pt.segs = append(pt.segs, segment{req: r})
			mine = append(mine, stream.Range{Partition: p, First: offset})
		}
		seg := &pt.segs[len(pt.segs)-1]
		seg.sel = append(seg.sel, int32(i))
		if id != (stream.EventID{}) {
			c.ids[idOf{s.id, id}] = stream.Place{Partition: p, Offset: offset}
		}
	}
	slices.SortFunc(mine, func(a, b stream.Range) int { return cmp.Compare(a.Partition, b.Partition) })
	for i := range mine {
		pt := c.parts[partOf{s.id, mine[i].Partition}]
		mine[i].Last = pt.base + stream.Offset(pt.rows) - 1
	}
	out.Ranges = mine
	s.stats.Accepted += int64(r.Len() - len(out.Duplicates))
	s.stats.Duplicates += int64(len(out.Duplicates))
	for i := range r.DeadLetters {
		s.lastDeadLetter++
		s.stats.DeadLetters++
		d := r.DeadLetters[i]
		d.Number, d.FirstSeen = s.lastDeadLetter, c.at
		r.DeadLetters[i].Number, r.DeadLetters[i].FirstSeen = d.Number, d.FirstSeen
		out.DeadLetters = append(out.DeadLetters, d.Number)
		key := deadLetterKey(s.id, d.Number)
		c.kv.Set(key, encodeDeadLetter(key, d))
	}
	return nil
}

// finish turns what a commit gathered into writes.
func (q *sequencer) finish(c *commit) error {
	order := slices.SortedFunc(maps.Keys(c.parts), func(a, b partOf) int { // I1
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.partition, b.partition))
	})
	for _, at := range order {
		q.finishPart(c, at, c.parts[at])
	}
	c.writeIDs()
	for _, call := range c.calls {
		for i := range call.appended {
			call.appended[i].Sequence = c.end
		}
		for _, r := range call.events {
			if r.Idempotency != nil {
				c.kv.Set(answerKey(c.hour, r.Idempotency.Key), encodeAnswer(r.Idempotency, call.appended, c.at))
			}
		}
	}
	for id, s := range c.touched {
		c.kv.Set(countersKey(id), s.encodeCounters())
	}
	q.expire(c)
	if c.kv.Empty() {
		c.at = q.at
		return nil
	}
	c.kv.Set(endKey, encodeEnd(c.end, c.at))
	return nil
}

// writeIDs writes where the new ids lie. In order, because the store's memory table is an ordered
// list: neighbours are found from each other, while ids at random search it from the top each time.
func (c *commit) writeIDs() {
	order := make([]idOf, 0, len(c.ids))
	for k := range c.ids {
		order = append(order, k)
	}
	slices.SortFunc(order, func(a, b idOf) int {
		return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(binary.BigEndian.Uint64(a.id[:]), binary.BigEndian.Uint64(b.id[:])))
	})
	var key, value []byte
	for i, k := range order {
		if i == 0 || k.stream != order[i-1].stream {
			key = idHourKey(k.stream, c.hour)
		}
		key = append(key[:idPrefixLen], k.id[:]...)
		value = appendID(value[:0], c.ids[k], c.at)
		c.kv.Set(key, value)
	}
}

// finishPart makes one batch of what a commit holds for one partition.
func (q *sequencer) finishPart(c *commit, at partOf, pt *part) {
	s := c.touched[at.stream]
	c.end++
	b := stream.Batch{
		Stream: at.stream, Partition: at.partition, Base: pt.base, Sequence: c.end, AppendTime: c.at,
		MaxSkew: s.settings.MaxSkew.Microseconds(), Len: pt.rows,
	}
	pt.gather(&b)
	key := batchKey(at.stream, at.partition, pt.base)
	value := q.l.codec.encodeBatch(key, &b, pt.payloads)
	c.kv.Set(key, value)
	pointer := indexKey(at.stream, c.end)
	c.kv.Set(pointer, encodePointer(pointer, &b))

	st := &s.stats.Partitions[at.partition]
	st.Next += stream.Offset(pt.rows)
	s.sums[at.partition] = binary.BigEndian.Uint32(value[1:])
	st.Bytes += int64(len(value))
	st.Idle, st.LastAppend, s.stats.LastAppend = false, c.at, c.at
	for i := range b.Len {
		if t := b.Counted(i); !st.HasCounted || t > st.MaxCounted { // W1
			st.HasCounted, st.MaxCounted = true, t
		}
	}
	s.quiet[at.partition], s.silent = c.mono, c.mono
	c.partition(s, at.partition)
	batch, size := q.l.codec.encoded(&b)
	c.entries = append(c.entries, tailEntry{stream.Entry{Batch: batch}, size})
}

// gather copies the events of a part into the batch's own memory: requests are their senders'
// again when they are answered, the batch stays in the tail.
func (pt *part) gather(b *stream.Batch) {
	columns := 0
	for _, seg := range pt.segs {
		columns = max(columns, len(seg.req.Columns))
	}
	for number := range columns {
		v := pt.column(func(r *stream.Events) *row.Vector { return columnOf(r, number) })
		if v != nil {
			if b.Columns == nil {
				b.Columns = make([]*row.Vector, columns)
			}
			b.Columns[number] = v
		}
	}
	b.Times = make([]stream.Micros, 0, pt.rows)
	for _, seg := range pt.segs {
		for _, i := range seg.sel {
			t := seg.req.Times[i]
			if t == stream.AtAppend {
				t = b.AppendTime
			}
			b.Times = append(b.Times, t)
		}
	}
	if number := timesIn(b); number >= 0 {
		b.Times = b.Columns[number].I64
	}
	if number := pt.keysIn(b); number >= 0 {
		b.Keys = b.Columns[number]
	} else if b.Keys = pt.column(func(r *stream.Events) *row.Vector { return r.Keys }); b.Keys == nil {
		b.Keys = row.NewVector(row.Scalar(row.Varchar), pt.rows)
		for range pt.rows {
			b.Keys.AppendNull()
		}
	}
}

func columnOf(r *stream.Events, number int) *row.Vector {
	if number < len(r.Columns) {
		return r.Columns[number]
	}
	return nil
}

// keysIn is the number of a VARCHAR column that has the keys; −1 when none has.
func (pt *part) keysIn(b *stream.Batch) int {
	for number, v := range b.Columns {
		if v != nil && v.Type.Kind == row.Varchar && pt.hasKeys(number) {
			return number
		}
	}
	return -1
}

func (pt *part) hasKeys(number int) bool {
	for _, seg := range pt.segs {
		v, keys := columnOf(seg.req, number), seg.req.Keys
		if v == nil || keys == nil {
			return false
		}
		for _, i := range seg.sel {
			if null := keys.IsNull(int(i)); v.IsNull(int(i)) != null || !null && v.Str[i] != keys.Str[i] {
				return false
			}
		}
	}
	return true
}

// payloads gives out the payloads of the part with their values, in order.
func (pt *part) payloads(yield func(raw []byte, values []stream.Value) bool) {
	for _, seg := range pt.segs {
		r, next, rest := seg.req, int32(0), seg.req.Values
		for _, i := range seg.sel {
			var values []stream.Value
			if r.Values != nil {
				for ; next < i; next++ {
					rest = rest[r.ValueCounts[next]:]
				}
				values = rest[:r.ValueCounts[i]]
			}
			if !yield(rawOf(r, i), values) {
				return
			}
		}
	}
}

func rawOf(r *stream.Events, i int32) []byte {
	from := uint32(0)
	if i > 0 {
		from = r.RawEnds[i-1]
	}
	return r.RawData[from:r.RawEnds[i]]
}

// column gathers one column of a part; nil when it has no value there.
func (pt *part) column(of func(*stream.Events) *row.Vector) *row.Vector {
	var v *row.Vector
	done, values := 0, false
	for _, seg := range pt.segs {
		src := of(seg.req)
		if src != nil && src.Type.Kind == row.Null {
			src = nil
		}
		if src != nil && v == nil {
			v = row.NewVector(src.Type, pt.rows)
			for range done {
				v.AppendNull()
			}
		}
		done += len(seg.sel)
		switch {
		case v == nil:
		case src == nil:
			for range seg.sel {
				v.AppendNull()
			}
		case len(seg.sel) == src.Len():
			v.AppendAll(src)
		default:
			v.AppendSelected(src, seg.sel)
		}
	}
	for i := 0; v != nil && i < done && !values; i++ {
		values = !v.IsNull(i)
	}
	if !values {
		return nil
	}
	ownStrings(v)
	return v
}

// ownStrings moves a vector's strings into memory of their own, all in one piece.
func ownStrings(v *row.Vector) {
	size := 0
	for _, s := range v.Str {
		size += len(s)
	}
	if size == 0 {
		return
	}
	var all strings.Builder
	all.Grow(size)
	for _, s := range v.Str {
		all.WriteString(s)
	}
	text := all.String()
	for i, s := range v.Str {
		v.Str[i], text = text[:len(s)], text[len(s):]
	}
}
