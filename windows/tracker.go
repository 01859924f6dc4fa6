package windows

import (
	"encoding/binary"
	"errors"

	"tidemark/stream"
)

// TrackedStream says how a view takes the watermark of one of its streams.
type TrackedStream struct {
	Stream stream.ID
	// MaxOutOfOrderness is the view's own, or the stream's.
	MaxOutOfOrderness Micros
	// IdleAdvance lets the stream's watermark follow the log's time while all its partitions are
	// idle (W5).
	IdleAdvance bool
	// Table marks a stream that gives no watermark and holds none back (W6).
	Table bool
}

// Tracker works out a view's watermark from the entries of the log, in the log's order. It reads
// no clock: what passes while a stream is silent stands in the log as control records.
//
// State of a partition: the largest counted time, and whether it is idle. State of a stream: the
// largest advance_to, the largest value that its watermark ever had, and, while all its partitions
// are idle, the value that goes on with the time between control records.
type Tracker struct {
	appendTime bool
	streams    []trackedStream
	byID       map[stream.ID]int
	watermark  Micros
}

type trackedStream struct {
	TrackedStream
	parts   []partition
	advance Micros // NoWatermark: none
	ever    Micros // the largest value that the stream's watermark had
	value   Micros // the stream's watermark now
	allIdle bool
	idled   bool   // was all idle once
	lastAt  Micros // append time of the last control record while all are idle
}

type partition struct {
	max  Micros // largest counted time; NoWatermark: none
	idle bool
}

// NewTracker returns a tracker of a view that has seen nothing. With appendTime the watermark is
// the append time of the last record (W8).
func NewTracker(appendTime bool, streams []TrackedStream) *Tracker {
	t := &Tracker{appendTime: appendTime, watermark: NoWatermark, byID: map[stream.ID]int{}}
	for _, s := range streams {
		if _, known := t.byID[s.Stream]; known {
			continue // a stream that is read twice
		}
		t.byID[s.Stream] = len(t.streams)
		t.streams = append(t.streams, trackedStream{TrackedStream: s, advance: NoWatermark, ever: NoWatermark, value: NoWatermark})
	}
	return t
}

// Watermark is the view's watermark now, or NoWatermark.
func (t *Tracker) Watermark() Micros { return t.watermark }

// Batch takes a batch in and sets met[i], for each event, to the watermark that it meets: the one
// made by everything before it (T4). It returns met, grown to the length of the batch.
func (t *Tracker) Batch(b *stream.Batch, met []Micros) []Micros {
	if cap(met) < b.Len {
		met = make([]Micros, b.Len)
	}
	met = met[:b.Len]
	n, ok := t.byID[b.Stream]
	if !ok || b.Len == 0 {
		fill(met, t.watermark)
		return met
	}
	s := &t.streams[n]
	if t.appendTime {
		met[0] = t.watermark
		if !s.Table {
			t.raise(b.AppendTime)
		}
		fill(met[1:], t.watermark)
		return met
	}
	p := s.partition(b.Partition)
	top := b.AppendTime + b.MaxSkew
	largest := p.max
	// The first event ends the partition's idleness; what holds the view back beside this
	// partition stays the same for the whole batch.
	met[0] = t.watermark
	p.idle, s.allIdle = false, false
	if c := min(b.Times[0], top); c > largest {
		largest = c
	}
	p.max = largest
	t.settle(s)
	if s.Table {
		fill(met[1:], t.watermark)
		for _, at := range b.Times[1:] {
			p.max = max(p.max, min(at, top))
		}
		return met
	}
	others := s.leastBut(int(b.Partition))
	beside := t.leastBeside(n)
	for i := 1; i < b.Len; i++ {
		met[i] = t.watermark
		c := min(b.Times[i], top)
		if c <= largest {
			continue
		}
		largest = c
		own := max(earlier(c, s.MaxOutOfOrderness), s.advance)
		s.value = min(own, others)
		s.ever = max(s.ever, s.value)
		t.raise(min(s.value, beside))
	}
	p.max = largest
	if b.Offsets != nil && b.Removed > p.max { // events that compaction has removed moved it (W1)
		p.max = b.Removed
		t.settle(s)
	}
	return met
}

// Control takes a control record in.
func (t *Tracker) Control(c *stream.Control) {
	n, ok := t.byID[c.Stream]
	if !ok {
		return
	}
	s := &t.streams[n]
	if t.appendTime && !s.Table {
		t.raise(c.AppendTime)
	}
	if s.allIdle {
		if s.IdleAdvance && s.value != NoWatermark && c.AppendTime > s.lastAt {
			s.value = Later(s.value, c.AppendTime-s.lastAt)
		}
		s.lastAt = max(s.lastAt, c.AppendTime)
	}
	switch c.Kind {
	case stream.Partitions:
		first := len(s.parts) == 0
		for len(s.parts) < int(c.Value) {
			s.parts = append(s.parts, partition{max: NoWatermark, idle: !first})
		}
	case stream.Idle:
		s.partition(c.Partition).idle = true
	case stream.Advance:
		s.advance = max(s.advance, c.Value)
		if s.allIdle {
			s.value = max(s.value, c.Value)
		}
	}
	if !s.allIdle && s.noneAwake() {
		s.allIdle, s.lastAt = true, c.AppendTime
		s.value = s.ever
		if !s.idled {
			for i := range s.parts {
				s.value = max(s.value, s.own(&s.parts[i]))
			}
			s.value = max(s.value, s.advance)
		}
	}
	s.idled = s.idled || s.allIdle && s.value != NoWatermark
	t.settle(s)
}

// settle works out a stream's value from its partitions, unless all are idle, and the view's.
func (t *Tracker) settle(s *trackedStream) {
	if !s.allIdle {
		s.value = s.leastBut(-1)
	}
	s.ever = max(s.ever, s.value)
	if !s.Table && !t.appendTime {
		t.raise(t.leastBeside(-1))
	}
}

// raise lifts the view's watermark; it never goes back (W6).
func (t *Tracker) raise(to Micros) {
	if to != Never {
		t.watermark = max(t.watermark, to)
	}
}

// leastBeside is the least value of all streams but number n that are no tables; Never when there
// is none.
func (t *Tracker) leastBeside(n int) Micros {
	least := Never
	for i := range t.streams {
		if i != n && !t.streams[i].Table {
			least = min(least, t.streams[i].value)
		}
	}
	return least
}

func (s *trackedStream) partition(p stream.Partition) *partition {
	for len(s.parts) <= int(p) {
		s.parts = append(s.parts, partition{max: NoWatermark})
	}
	return &s.parts[p]
}

// own is a partition's watermark (W1).
func (s *trackedStream) own(p *partition) Micros {
	if p.max == NoWatermark {
		return s.advance
	}
	return max(earlier(p.max, s.MaxOutOfOrderness), s.advance)
}

// leastBut is the least watermark of the partitions that are not idle, partition n left out. A
// stream without such a partition gives Never, or NoWatermark when none was left out.
func (s *trackedStream) leastBut(n int) Micros {
	least := Never
	for i := range s.parts {
		if i != n && !s.parts[i].idle {
			least = min(least, s.own(&s.parts[i]))
		}
	}
	if least == Never && n < 0 {
		return s.advance
	}
	return least
}

func (s *trackedStream) noneAwake() bool {
	for i := range s.parts {
		if !s.parts[i].idle {
			return false
		}
	}
	return len(s.parts) > 0
}

// PartitionState says where one partition of a view's stream stands.
type PartitionState struct {
	// MaxCounted is the largest counted time, NoWatermark before the first event.
	MaxCounted Micros
	Idle       bool
	// Watermark is the partition's own, for this view.
	Watermark Micros
}

// StreamState says where a stream of a view stands, for what holds the view back.
type StreamState struct {
	Stream     stream.ID
	Table      bool
	Watermark  Micros
	AllIdle    bool
	Advance    Micros
	Partitions []PartitionState
}

// Streams tells where each stream stands.
func (t *Tracker) Streams() []StreamState {
	out := make([]StreamState, len(t.streams))
	for i := range t.streams {
		s := &t.streams[i]
		out[i] = StreamState{Stream: s.Stream, Table: s.Table, Watermark: s.value, AllIdle: s.allIdle, Advance: s.advance}
		for j := range s.parts {
			p := &s.parts[j]
			out[i].Partitions = append(out[i].Partitions, PartitionState{MaxCounted: p.max, Idle: p.idle, Watermark: s.own(p)})
		}
	}
	return out
}

// Seed sets a stream's state as it stands at the place in the log where a view begins to read,
// when that is not the log's beginning. at is the append time of the last record before it.
func (t *Tracker) Seed(seed StreamState, at Micros) {
	n, ok := t.byID[seed.Stream]
	if !ok {
		return
	}
	s := &t.streams[n]
	s.advance, s.allIdle, s.idled, s.lastAt = seed.Advance, seed.AllIdle, seed.AllIdle, at
	s.parts = s.parts[:0]
	for _, p := range seed.Partitions {
		s.parts = append(s.parts, partition{max: p.MaxCounted, idle: p.Idle})
	}
	if s.allIdle {
		s.value = max(seed.Watermark, s.advance)
		for i := range s.parts {
			s.value = max(s.value, s.own(&s.parts[i]))
		}
	}
	if t.appendTime && !s.Table {
		t.raise(at)
	}
	t.settle(s)
}

// The encoding, version 1: the view's watermark, the number of streams; a stream: its number,
// advance, ever, value, lastAt, flags (1 all idle, 2 was all idle), the number of partitions; a
// partition: the largest counted time, 1 when idle. Integers are fixed 8 bytes, big endian, but
// flags, one byte each.
const trackerVersion = 1

// Encode appends the tracker's state.
func (t *Tracker) Encode(dst []byte) []byte {
	dst = append(dst, trackerVersion)
	num := func(n int64) { dst = binary.BigEndian.AppendUint64(dst, uint64(n)) }
	num(t.watermark)
	num(int64(len(t.streams)))
	for i := range t.streams {
		s := &t.streams[i]
		num(int64(s.Stream))
		num(s.advance)
		num(s.ever)
		num(s.value)
		num(s.lastAt)
		dst = append(dst, flag(s.allIdle)|flag(s.idled)<<1)
		num(int64(len(s.parts)))
		for _, p := range s.parts {
			num(p.max)
			dst = append(dst, flag(p.idle))
		}
	}
	return dst
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

var errTrackerState = errors.New("watermark state: damaged or of a newer version")

// Decode sets the state that Encode wrote. Streams that the tracker does not have are left out.
func (t *Tracker) Decode(src []byte) error {
	bad := false
	num := func() int64 {
		if len(src) < 8 {
			bad = true
			return 0
		}
		n := int64(binary.BigEndian.Uint64(src))
		src = src[8:]
		return n
	}
	char := func() byte {
		if len(src) == 0 {
			bad = true
			return 0
		}
		c := src[0]
		src = src[1:]
		return c
	}
	if char() != trackerVersion {
		return errTrackerState
	}
	t.watermark = num()
	for n := num(); n > 0 && !bad; n-- {
		id := stream.ID(num())
		var s trackedStream
		s.advance, s.ever, s.value, s.lastAt = num(), num(), num(), num()
		f := char()
		s.allIdle, s.idled = f&1 != 0, f&2 != 0
		for p := num(); p > 0 && !bad; p-- {
			s.parts = append(s.parts, partition{max: num(), idle: char() == 1})
		}
		if i, ok := t.byID[id]; ok {
			s.TrackedStream = t.streams[i].TrackedStream
			t.streams[i] = s
		}
	}
	if bad || len(src) > 0 {
		return errTrackerState
	}
	return nil
}

func fill(s []Micros, v Micros) {
	for i := range s {
		s[i] = v
	}
}
