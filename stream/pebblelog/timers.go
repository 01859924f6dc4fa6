package pebblelog

import (
	"maps"
	"slices"
	"time"

	"tidemark/stream"
)

// clockPeriod is the least time between a stream's last record and a clock record (W7).
const clockPeriod = time.Second

// CheckTimers looks at the timers now and returns when what they gave is durable. With a negative
// TimerPeriod it is the only way that they are looked at: for tests with a clock of their own.
func (l *Log) CheckTimers() {
	done := make(chan struct{})
	select {
	case l.checks <- done:
		<-done
	case <-l.stopped:
	}
}

// timers declares partitions idle and tells the time to silent streams that want to know it. The
// sequencer does it, so that no event can be taken in between (W4, W7).
func (q *sequencer) timers(checked chan struct{}) {
	now := q.l.o.Monotonic()
	q.l.space.look(q.l.o, now)
	c := (*commit)(nil)
	if q.l.refusal() == nil {
		c = q.timerCommit(now)
	}
	switch {
	case c != nil:
		c.checked = checked
		q.send(c)
	case checked != nil:
		close(checked)
	}
}

// timerCommit makes the commit of what is due; nil when nothing is.
func (q *sequencer) timerCommit(now time.Duration) *commit {
	var c *commit
	for _, id := range slices.Sorted(maps.Keys(q.streams)) {
		s := q.streams[id]
		idle := s.dueIdle(now)
		clock := len(idle) == 0 && s.dueClock(now, q.opened) && q.l.clockWanted(id)
		if len(idle) == 0 && !clock {
			continue
		}
		if c == nil {
			c = q.newCommit()
		}
		s = q.edit(c, id)
		for _, p := range idle {
			s.stats.Partitions[p].Idle = true
			c.partition(s, p)
			c.control(s, stream.Control{Kind: stream.Idle, Partition: p})
		}
		if clock {
			c.control(s, stream.Control{Kind: stream.Clock})
		}
	}
	return c
}

// dueIdle are the partitions that had no event for the idle timeout and are not idle yet.
func (s *streamState) dueIdle(now time.Duration) (due []stream.Partition) {
	if s.settings.IdleTimeout <= 0 {
		return nil
	}
	for p, since := range s.quiet {
		if !s.stats.Partitions[p].Idle && now-since >= s.settings.IdleTimeout {
			due = append(due, stream.Partition(p))
		}
	}
	return due
}

// dueClock reports whether a stream is silent long enough for a clock record, and the server is not
// in its first idle timeout.
func (s *streamState) dueClock(now, opened time.Duration) bool {
	return now-s.silent >= clockPeriod && now-opened >= s.settings.IdleTimeout
}

// stepWatch notices that the wall clock jumped against the monotonic one.
type stepWatch struct {
	wall time.Time
	mono time.Duration
}

// largeStep is the jump of the wall clock that is reported (W8).
const largeStep = time.Hour

func newStepWatch(o Options, now time.Duration) stepWatch { return stepWatch{o.Clock(), now} }

func (w *stepWatch) look(o Options, wall time.Time, mono time.Duration) {
	// Round strips Go's own monotonic reading: it would hide the very step that is looked for.
	step := wall.Round(0).Sub(w.wall.Round(0)) - (mono - w.mono)
	if step > largeStep || step < -largeStep {
		o.Logger.Warn("the clock jumped; append times never go back, so a clock that is behind is not followed", "step", step.Round(time.Second))
	}
	w.wall, w.mono = wall, mono
}
