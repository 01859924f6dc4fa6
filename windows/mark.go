package windows

import "tidemark/stream"

// Mark sets a stream's state as it stood before the oldest entry that the log still has, where a view
// begins that reads from there (W1). It comes before the stream's first entry. A mark of sequence 0
// says that nothing was removed.
func (t *Tracker) Mark(id stream.ID, m stream.Mark) {
	n, ok := t.byID[id]
	if !ok || m.Sequence == 0 {
		return
	}
	s := &t.streams[n]
	s.advance, s.allIdle, s.idled, s.lastAt = m.Advance, m.AllIdle, m.Idled, m.LastControl
	s.parts = s.parts[:0]
	for _, p := range m.Parts {
		s.parts = append(s.parts, partition{max: p.MaxCounted, idle: p.Idle})
	}
	s.ever = m.Ever.At(s.MaxOutOfOrderness)
	if s.allIdle {
		s.value = m.Value.At(s.MaxOutOfOrderness)
	}
	switch {
	case t.appendTime && !s.Table:
		t.raise(m.AppendTime)
	case !t.appendTime && !s.Table && len(t.streams) == 1:
		t.raise(s.ever) // the view's own largest value (W6)
	}
	t.settle(s)
}
