package runtime

import (
	"sync/atomic"
	"time"

	"tidemark/windows"
	"tidemark/windows/engine"
)

// EpochBounds are the upper bounds of the buckets of [Times].
var EpochBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2500 * time.Millisecond, 10 * time.Second,
}

// Times counts spans: Up[i] are those of at most EpochBounds[i].
type Times struct {
	Count int64
	Sum   time.Duration
	Up    [len(EpochBounds)]int64
}

// times is Times in the making.
type times struct {
	count, sum atomic.Int64
	up         [len(EpochBounds)]atomic.Int64
}

func (t *times) note(d time.Duration) {
	for i, bound := range EpochBounds {
		if d <= bound {
			t.up[i].Add(1)
		}
	}
	t.sum.Add(int64(d))
	t.count.Add(1)
}

func (t *times) read() Times {
	out := Times{Count: t.count.Load(), Sum: time.Duration(t.sum.Load())}
	for i := range t.up {
		out.Up[i] = t.up[i].Load()
	}
	return out
}

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
	// WatermarkMicros is the view's watermark; windows.NoWatermark: it has none.
	WatermarkMicros windows.Micros
	// EpochTimes are how long epochs took, from their first entry to the end of their fsync.
	EpochTimes Times
	// SealedRows can't be made again from the log (R4).
	SealedRows int64
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
		watermark, sealed := v.mu.progress.AsOf.Watermark, v.mu.progress.Sealed
		v.mu.Unlock()
		out[i] = Gauges{
			Name: v.name, Kind: string(v.kind), State: state, Epochs: v.gauges.epochs.Load(), Changes: v.gauges.changes.Load(),
			Events: c.Events, LateDropped: c.LateDropped, LatePartial: c.LatePartial, LateCorrected: c.LateCorrected, RowErrors: c.RowErrors,
			Memory: v.memory(), Rows: rows, PendingEvents: v.gauges.pending.Load(), PendingBound: int64(s.PendingEvents), LastCommitMicros: v.gauges.lastCommit.Load(),
			WatermarkMicros: watermark, EpochTimes: v.gauges.took.read(),
		}
		if sealed != nil {
			out[i].SealedRows = sealed.Rows
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
