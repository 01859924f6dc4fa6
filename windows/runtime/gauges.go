package runtime

import "tidemark/windows/engine"

// Gauges are the figures of one view, for operators.
type Gauges struct {
	Name  string
	Kind  string
	State State
	// Epochs and Changes count since the process started.
	Epochs, Changes int64
	// Events are those that the view has read since its beginning.
	Events, LateDropped, LatePartial, LateCorrected, RowErrors int64
	Rows                                                       int64
	// PendingEvents are in the epoch in work; PendingBound is the most there can be, but for what
	// one batch holds.
	PendingEvents, PendingBound int64
	// LastCommitMicros is when the last epoch was committed, in microseconds since 1970; 0: not yet.
	LastCommitMicros int64
	// Memory is where the state of the view is.
	Memory engine.Memory
}

// Gauges returns the figures of all views and alerts, by name.
func (s *Service) Gauges() []Gauges {
	views := s.list()
	out := make([]Gauges, len(views))
	for i, v := range views {
		v.mu.Lock()
		c, rows, state := v.mu.progress.Counts, v.mu.progress.Rows, v.stateLocked()
		v.mu.Unlock()
		out[i] = Gauges{
			Name: v.name, Kind: string(v.kind), State: state, Epochs: v.gauges.epochs.Load(), Changes: v.gauges.changes.Load(),
			Events: c.Events, LateDropped: c.LateDropped, LatePartial: c.LatePartial, LateCorrected: c.LateCorrected, RowErrors: c.RowErrors,
			Memory: v.memory(), Rows: rows, PendingEvents: v.gauges.pending.Load(), PendingBound: int64(s.PendingEvents), LastCommitMicros: v.gauges.lastCommit.Load(),
		}
	}
	return out
}

// memory tells where the state of the view is, as of its last epoch.
func (v *view) memory() engine.Memory {
	if m := v.gauges.memory.Load(); m != nil {
		return *m
	}
	return engine.Memory{}
}
