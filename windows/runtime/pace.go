package runtime

import "time"

// pending is what an epoch holds that is not committed yet.
type pending struct {
	entries int
	events  int
	since   time.Time // when its first entry was taken
	// provisional and final say what changes the epoch would give out.
	provisional, final bool
}

// pace decides when an epoch ends. It is the one place in windows where a clock has a say, and all
// that it decides is how much of the log one epoch takes (C5).
type pace struct {
	throttle time.Duration // between two epochs that hold provisional changes; 0: none
	epoch    time.Duration // how long changes gather
	// maxEvents ends an epoch with final changes, or none, whatever the pace, because its size
	// grows with the events; maxPending ends any.
	maxEvents, maxPending int

	lastProvisional time.Time // when the last epoch with provisional changes was committed
	last            time.Time // when any was
}

// patience is how long an epoch may take more entries while there is more to read, and how often
// epochs without a change, which only move the position, are committed.
const patience = 100 * time.Millisecond

// due says whether the epoch is to be committed now, and if not, how long to wait for more at
// most. drained says that there is nothing more to read now.
func (p *pace) due(now time.Time, in pending, drained bool) (commit bool, wait time.Duration) {
	if in.entries == 0 {
		return false, 0
	}
	if in.events >= p.maxPending || in.final && in.events >= p.maxEvents {
		return true, 0
	}
	ready := in.since.Add(p.epoch)
	switch {
	case in.final:
	case in.provisional:
		ready = later(ready, p.lastProvisional.Add(p.throttle))
	default:
		ready = later(ready, p.last.Add(min(p.throttle, patience)))
	}
	if !drained && p.epoch < patience {
		ready = later(ready, in.since.Add(patience))
	}
	if wait = ready.Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}

// committed notes that an epoch was committed.
func (p *pace) committed(now time.Time, in pending) {
	p.last = now
	if in.provisional {
		p.lastProvisional = now
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
