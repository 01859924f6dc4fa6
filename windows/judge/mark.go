package judge

import (
	"tidemark/stream"
	"tidemark/windows"
)

// Mark sets where a stream stood before the oldest entry that the log still has (W1). It comes before
// the first Step. A mark of sequence 0 says that nothing was removed.
func (j *Judge) Mark(id stream.ID, m stream.Mark) {
	s := j.clock.of(id)
	if s == nil || m.Sequence == 0 {
		return
	}
	some := func(at windows.Micros) *windows.Micros {
		if at == stream.NoTime {
			return nil
		}
		return &at
	}
	s.known = len(m.Parts)
	for p, part := range m.Parts {
		s.awake[stream.Partition(p)] = !part.Idle
		if part.MaxCounted != stream.NoTime {
			s.largest[stream.Partition(p)] = part.MaxCounted
		}
	}
	s.advance, s.best, s.slept, s.at = some(m.Advance), some(m.Ever.At(s.MaxOutOfOrderness)), m.Idled, m.LastControl
	if m.AllIdle {
		s.idle = some(m.Value.At(s.MaxOutOfOrderness))
	}
	switch {
	case j.clock.appendTime:
		j.clock.tick(s, m.AppendTime)
		return
	case len(j.clock.streams) == 1 && !s.Table && s.best != nil:
		j.clock.view = max(j.clock.view, *s.best)
	}
	j.clock.settle()
}
