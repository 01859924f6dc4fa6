package judge

import (
	"tidemark/stream"
	"tidemark/windows"
)

// clock is what a view's watermark is made of.
type clock struct {
	appendTime bool
	streams    []*streamClock
	view       windows.Micros // the largest value reached (W6)
}

type streamClock struct {
	windows.TrackedStream
	largest map[stream.Partition]windows.Micros // largest counted time (W1)
	awake   map[stream.Partition]bool           // partitions that are not idle
	known   int                                 // partitions of the stream
	advance *windows.Micros
	best    *windows.Micros // the largest value it ever had
	idle    *windows.Micros // its value while all partitions are idle (W5)
	slept   bool            // all partitions were idle before
	at      windows.Micros  // append time of the last control record while all are idle
}

func newClock(appendTime bool, streams []windows.TrackedStream) *clock {
	c := &clock{appendTime: appendTime, view: windows.NoWatermark}
	for _, s := range streams {
		if c.of(s.Stream) == nil {
			c.streams = append(c.streams, &streamClock{
				TrackedStream: s, largest: map[stream.Partition]windows.Micros{}, awake: map[stream.Partition]bool{},
			})
		}
	}
	return c
}

func (c *clock) of(id stream.ID) *streamClock {
	for _, s := range c.streams {
		if s.Stream == id {
			return s
		}
	}
	return nil
}

// begin forgets what the view's watermark was before the view began: it has that which the streams
// have there (R2).
func (c *clock) begin() {
	if !c.appendTime {
		c.view = windows.NoWatermark
		c.settle()
	}
}

// event takes one event in.
func (c *clock) event(b *stream.Batch, i int) {
	s := c.of(b.Stream)
	if s == nil {
		return
	}
	if c.appendTime {
		c.tick(s, b.AppendTime)
		return
	}
	s.known = max(s.known, int(b.Partition)+1)
	s.awake[b.Partition] = true
	s.idle = nil
	if was, ok := s.largest[b.Partition]; !ok || b.Counted(i) > was {
		s.largest[b.Partition] = b.Counted(i)
	}
	c.settle()
}

func (c *clock) tick(s *streamClock, at windows.Micros) {
	if !s.Table {
		c.view = max(c.view, at)
	}
}

// control takes a control record in.
func (c *clock) control(r *stream.Control) {
	s := c.of(r.Stream)
	if s == nil {
		return
	}
	if c.appendTime {
		c.tick(s, r.AppendTime)
		return
	}
	if s.idle != nil {
		if s.IdleAdvance {
			*s.idle += max(0, r.AppendTime-s.at)
		}
		s.at = r.AppendTime
	}
	switch r.Kind {
	case stream.Partitions:
		first := s.known == 0
		for p := s.known; p < int(r.Value); p++ {
			s.awake[stream.Partition(p)] = first
		}
		s.known = max(s.known, int(r.Value))
	case stream.Idle:
		s.known = max(s.known, int(r.Partition)+1)
		s.awake[r.Partition] = false
	case stream.Advance:
		if s.advance == nil || *s.advance < r.Value {
			to := r.Value
			s.advance = &to
		}
		if s.idle != nil {
			*s.idle = max(*s.idle, r.Value)
		}
	}
	if s.idle == nil && s.sleeps() {
		// The first time all are idle: the greatest of the partitions. Later: the largest value ever.
		from := s.best
		if !s.slept {
			if from = s.greatest(); s.best != nil && *s.best > *from {
				from = s.best
			}
		}
		if from != nil {
			start := *from
			s.idle, s.slept = &start, true
		}
		s.at = r.AppendTime
	}
	c.settle()
}

func (s *streamClock) sleeps() bool {
	for _, awake := range s.awake {
		if awake {
			return false
		}
	}
	return s.known > 0
}

// partition is a partition's watermark (W1), nil when there is none.
func (s *streamClock) partition(p stream.Partition) *windows.Micros {
	largest, ok := s.largest[p]
	if !ok {
		return s.advance
	}
	at := largest - s.MaxOutOfOrderness
	if s.advance != nil {
		at = max(at, *s.advance)
	}
	return &at
}

func (s *streamClock) greatest() *windows.Micros {
	best := s.advance
	for p := range s.largest {
		if at := s.partition(p); best == nil || *at > *best {
			best = at
		}
	}
	return best
}

// value is the stream's watermark (W5), nil when there is none.
func (s *streamClock) value() *windows.Micros {
	if s.idle != nil {
		return s.idle
	}
	if s.known == 0 {
		return s.advance
	}
	var least *windows.Micros
	for p, awake := range s.awake {
		if !awake {
			continue
		}
		at := s.partition(p)
		if at == nil {
			return nil
		}
		if least == nil || *at < *least {
			least = at
		}
	}
	return least
}

// settle works out the view's watermark (W6).
func (c *clock) settle() {
	least, missing := windows.Never, false
	for _, s := range c.streams {
		at := s.value()
		if at != nil && (s.best == nil || *at > *s.best) {
			best := *at
			s.best = &best
		}
		switch {
		case s.Table:
		case at == nil:
			missing = true
		default:
			least = min(least, *at)
		}
	}
	if !missing && least != windows.Never {
		c.view = max(c.view, least)
	}
}
