package stream

import "math"

// NoTime in a [Mark] stands for a time that there is none of yet; less than every time.
const NoTime Micros = math.MinInt64

// Mark is where a stream stood right before the oldest entry that its log still holds: what a fold
// that begins there must know of what retention removed, so that it makes the same watermarks as
// one that saw everything (W1). The zero Mark, with Sequence 0, says that nothing was removed.
//
// What a view's own max_out_of_orderness changes is not settled in it: a stream's watermark for a
// view, at any moment, is max(Counted − max_out_of_orderness, Advance) of a [MarkTime].
type Mark struct {
	// Sequence is the last one that was removed.
	Sequence Sequence
	// AppendTime is that of the last entry that was removed.
	AppendTime Micros
	// Parts are the partitions that the stream had then.
	Parts []MarkPart
	// Advance is the largest advance_to; NoTime: none.
	Advance Micros
	// Ever is the largest value that the stream's watermark had; Value the present one while
	// AllIdle: it goes on from there by the append time that passes behind LastControl (W5).
	Ever, Value MarkTime
	AllIdle     bool
	// Idled says that the stream was all idle before with a watermark.
	Idled       bool
	LastControl Micros
	// First is the next offset of each partition: the base of the first batch that follows.
	First []Offset
}

// MarkPart is one partition in a [Mark].
type MarkPart struct {
	MaxCounted Micros // NoTime: no event yet
	Idle       bool
}

// MarkTime is a watermark before a view's max_out_of_orderness is known.
type MarkTime struct {
	Counted Micros // to be reduced by max_out_of_orderness; NoTime: none
	Advance Micros // not to be reduced; NoTime: none
}

// At is the watermark for a view with a max_out_of_orderness; NoTime when there is none.
func (m MarkTime) At(maxOutOfOrderness Micros) Micros {
	if m.Counted == NoTime {
		return m.Advance
	}
	return max(m.Counted-maxOutOfOrderness, m.Advance)
}

func (m MarkTime) later(o MarkTime) MarkTime {
	return MarkTime{max(m.Counted, o.Counted), max(m.Advance, o.Advance)}
}

func (m MarkTime) none() bool { return m.Counted == NoTime && m.Advance == NoTime }

// plus is the watermark after some time has passed.
func (m MarkTime) plus(d Micros) MarkTime {
	if m.Counted != NoTime {
		m.Counted += d
	}
	if m.Advance != NoTime {
		m.Advance += d
	}
	return m
}

// NewMark is the mark of a stream before its first entry.
func NewMark() Mark {
	none := MarkTime{NoTime, NoTime}
	return Mark{Advance: NoTime, Ever: none, Value: none}
}

// Clone is a mark that can be folded on without changing m.
func (m Mark) Clone() Mark {
	m.Parts = append([]MarkPart(nil), m.Parts...)
	m.First = append([]Offset(nil), m.First...)
	return m
}

// Events takes a batch in: its place, how many offsets it stands for, and the largest counted time
// of its events.
func (m *Mark) Events(s Sequence, at Micros, p Partition, base Offset, span Offset, counted Micros) {
	for len(m.Parts) <= int(p) {
		m.Parts = append(m.Parts, MarkPart{MaxCounted: NoTime})
	}
	for len(m.First) < len(m.Parts) {
		m.First = append(m.First, 0)
	}
	m.Sequence, m.AppendTime = s, at
	m.First[p] = base + span
	part := &m.Parts[p]
	part.Idle, m.AllIdle = false, false
	part.MaxCounted = max(part.MaxCounted, counted)
	m.settle()
}

// Control takes a control record in. idleAdvance is the stream's setting of that name.
func (m *Mark) Control(c *Control, idleAdvance bool) {
	m.Sequence, m.AppendTime = c.Sequence, c.AppendTime
	if m.AllIdle {
		if idleAdvance && c.AppendTime > m.LastControl {
			m.Value = m.Value.plus(c.AppendTime - m.LastControl)
		}
		m.LastControl = max(m.LastControl, c.AppendTime)
	}
	switch c.Kind {
	case Partitions:
		first := len(m.Parts) == 0
		for len(m.Parts) < int(c.Value) {
			m.Parts = append(m.Parts, MarkPart{MaxCounted: NoTime, Idle: !first})
		}
		for len(m.First) < len(m.Parts) {
			m.First = append(m.First, 0)
		}
	case Idle:
		for len(m.Parts) <= int(c.Partition) {
			m.Parts = append(m.Parts, MarkPart{MaxCounted: NoTime})
		}
		m.Parts[c.Partition].Idle = true
	case Advance:
		m.Advance = max(m.Advance, c.Value)
		if m.AllIdle {
			m.Value.Advance = max(m.Value.Advance, c.Value)
		}
	}
	if !m.AllIdle && m.noneAwake() {
		m.AllIdle, m.LastControl = true, c.AppendTime
		m.Value = m.Ever
		if !m.Idled { // at the first idling: the greatest of the partitions
			for _, p := range m.Parts {
				m.Value.Counted = max(m.Value.Counted, p.MaxCounted)
			}
			m.Value.Advance = max(m.Value.Advance, m.Advance)
		}
	}
	if m.AllIdle && !m.Value.none() { // also where the first watermark comes while all are idle
		m.Idled = true
	}
	m.settle()
}

// settle works out the stream's watermark while a partition is awake, and the largest so far. The
// least of max(counted − x, advance) over some partitions is that of the least counted.
func (m *Mark) settle() {
	if !m.AllIdle {
		v := MarkTime{Counted: math.MaxInt64, Advance: m.Advance}
		for _, p := range m.Parts {
			if !p.Idle {
				v.Counted = min(v.Counted, p.MaxCounted)
			}
		}
		if v.Counted == math.MaxInt64 {
			v.Counted = NoTime
		}
		m.Value = v
	}
	m.Ever = m.Ever.later(m.Value)
}

func (m *Mark) noneAwake() bool {
	for _, p := range m.Parts {
		if !p.Idle {
			return false
		}
	}
	return len(m.Parts) > 0
}
