package pebblelog

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// sequencer puts everything that happens to the log into one order. Its goroutine alone touches it.
type sequencer struct {
	l       *Log
	streams map[stream.ID]*streamState
	end     stream.Sequence
	at      stream.Micros // append time of the last commit
	opened  time.Duration // on the monotonic clock
	steps   stepWatch
	scratch []uint32
	// syncing is closed when the fsync of the last commit that was sent is over; nil: it is.
	syncing <-chan struct{}
}

// run takes what waits, commit by commit, and looks at the timers, until the queue is closed and
// empty.
func (q *sequencer) run() {
	defer close(q.l.inFlight)
	var period <-chan time.Time
	if q.l.o.TimerPeriod > 0 {
		t := time.NewTicker(q.l.o.TimerPeriod)
		defer t.Stop()
		period = t.C
	}
	for {
		select {
		case <-q.l.queue.wake:
			if over := q.serve(); over {
				return
			}
		case <-period:
			q.timers(nil)
		case done := <-q.l.checks:
			q.timers(done)
		}
	}
}

// gather waits until the fsync of the commit before is over, so that all calls that come meanwhile
// share the next one: made at once it would hold the first of them, and the others would have to
// wait for its fsync too. Where much waits already the next one is made beside the fsync.
func (q *sequencer) gather() {
	if q.syncing == nil {
		return
	}
	select {
	case <-q.syncing:
		q.syncing = nil
	case <-q.l.queue.plenty:
	}
}

// serve makes one commit of calls that wait.
func (q *sequencer) serve() (over bool) {
	q.gather()
	calls, over := q.l.queue.take(q.fitter())
	if len(calls) == 0 {
		return over
	}
	signal(q.l.queue.wake) // there may be more
	if err := q.l.broken.Load(); err != nil {
		for _, c := range calls {
			c.answer(*err)
		}
		return over
	}
	c := q.newCommit()
	for _, call := range calls {
		if err := q.add(c, call); err != nil {
			call.answer(err)
			continue
		}
		c.calls = append(c.calls, call)
	}
	if c.spoiled != nil {
		c.kv.Discard()
		c.fail(c.spoiled)
		return over
	}
	q.send(c)
	return over
}

// fitter decides which calls from the front of the queue share a commit: requests with events up
// to CommitBytes whose columns agree in type (they differ only while a column is widened), or one
// call of another kind.
func (q *sequencer) fitter() func(*call) bool {
	bytes, taken, alone := 0, 0, false
	types := columnTypes{}
	return func(c *call) bool {
		if alone || taken > 0 && (c.events == nil || bytes+c.bytes > q.l.o.CommitBytes || !types.agree(c)) {
			return false
		}
		if taken == 0 {
			alone = c.events == nil || !types.agree(c)
		}
		taken++
		bytes += c.bytes
		return true
	}
}

// columnTypes are the types of the columns that a commit has by now, by number.
type columnTypes map[stream.ID][]row.Type

// agree takes in a call's columns and says whether all fit those before.
func (t columnTypes) agree(c *call) bool {
	for _, r := range c.events {
		of := t[r.Stream]
		if n := len(r.Columns); n > len(of) {
			of = slices.Grow(of, n-len(of))[:n] // beyond its length a slice that only grows is zero
			t[r.Stream] = of
		}
		for i, v := range r.Columns {
			if v == nil || v.Type.Kind == row.Null {
				continue
			}
			if have := &of[i]; have.Kind == row.Null {
				*have = v.Type
			} else if have.Kind != v.Type.Kind || !have.Equal(v.Type) {
				return false
			}
		}
	}
	return true
}

// now is the next append time: the clock's, unless that went back (W8).
func (q *sequencer) now() stream.Micros {
	wall := q.l.o.Clock()
	q.steps.look(q.l.o, wall, q.l.o.Monotonic())
	return max(q.at, wall.UnixMicro())
}

// add makes a call part of a commit, or says why it can't be.
func (q *sequencer) add(c *commit, call *call) error {
	switch {
	case call.events != nil:
		return q.addEvents(c, call)
	case call.declare != nil:
		return q.addDeclare(c, call.stream, *call.declare)
	case call.advance != nil:
		s := q.edit(c, call.stream)
		if s == nil {
			return unknownStream(call.stream)
		}
		if !s.stats.HasAdvance || *call.advance > s.stats.Advance { // W3
			s.stats.HasAdvance, s.stats.Advance = true, *call.advance
			c.control(s, stream.Control{Kind: stream.Advance, Value: *call.advance})
		}
		call.sequence = c.end
	case call.remove != nil:
		q.addRemoval(c, call.stream, call.remove)
	case call.rewrite != nil:
		q.addRewrite(c, call.stream, call.rewrite)
	case call.drop:
		if q.streams[call.stream] != nil {
			for _, space := range spacesOfStream {
				c.kv.DeletePrefix(streamPrefix(space, call.stream))
			}
			c.kv.Set(droppedKey(call.stream), []byte{stateVersion})
			c.dropped = append(c.dropped, call.stream)
		}
	}
	return nil
}

// edit returns the state of a stream as this commit changes it; nil when there is no such stream.
func (q *sequencer) edit(c *commit, id stream.ID) *streamState {
	if s := c.touched[id]; s != nil {
		return s
	}
	s := q.streams[id]
	if s == nil {
		return nil
	}
	s = s.clone()
	c.touched[id] = s
	return s
}

func (q *sequencer) addDeclare(c *commit, id stream.ID, set stream.Settings) error {
	if set.Partitions < 1 {
		return fmt.Errorf("declare stream %s: %d partitions", set.Name, set.Partitions)
	}
	s := q.edit(c, id)
	isNew := s == nil
	if isNew {
		s = &streamState{id: id, ids: newHours()}
		c.touched[id] = s
	}
	have := len(s.stats.Partitions)
	if set.Partitions < have {
		delete(c.touched, id)
		return problem.New(409, "fewer_partitions", "stream %s has %d partitions and can't have %d", set.Name, have, set.Partitions).
			WithHint("partitions can only be added; make a new stream to have fewer")
	}
	s.settings = set
	c.kv.Set(settingsKey(id), encodeSettings(set))
	for p := have; p < set.Partitions; p++ {
		s.stats.Partitions = append(s.stats.Partitions, stream.PartitionStats{Idle: !isNew}) // R6
		s.quiet = append(s.quiet, c.mono)
		s.sums = append(s.sums, 0)
		c.partition(s, stream.Partition(p))
	}
	if set.Partitions > have {
		c.control(s, stream.Control{Kind: stream.Partitions, Value: int64(set.Partitions)})
	}
	return nil
}

// send writes a commit and hands it to the syncer (I6).
func (q *sequencer) send(c *commit) {
	if err := q.finish(c); err != nil {
		c.kv.Discard()
		c.fail(err)
		return
	}
	if c.kv.Empty() {
		c.kv.Discard()
		c.kv = nil
	} else if err := c.kv.CommitAsync(); err != nil {
		q.l.fail(err)
		c.fail(err)
		return
	}
	q.end, q.at = c.end, c.at
	maps.Copy(q.streams, c.touched)
	for _, id := range c.dropped {
		delete(q.streams, id)
	}
	for k := range c.ids {
		c.touched[k.stream].ids.add(c.hour, k.id)
	}
	q.l.answers.Lock()
	for _, key := range c.answers {
		q.l.answers.inFlight[key] = struct{}{}
	}
	q.l.answers.Unlock()
	c.calls = slices.DeleteFunc(c.calls, func(call *call) bool {
		if call.noSync {
			call.answer(nil)
		}
		return call.noSync
	})
	q.syncing = c.durable
	q.l.inFlight <- c
}

// syncCommits waits for the fsync of one commit after the other, shows it, and answers its calls.
func (l *Log) syncCommits() {
	for c := range l.inFlight {
		if c.kv != nil {
			if err := c.kv.Wait(); err != nil {
				l.fail(err)
			}
		}
		close(c.durable)
		if err := l.broken.Load(); err != nil {
			c.fail(*err)
			continue
		}
		l.publish(c)
		for _, call := range c.calls {
			call.answer(nil)
		}
		if c.checked != nil {
			close(c.checked)
		}
	}
}

// publish shows a durable commit to readers.
func (l *Log) publish(c *commit) {
	l.answers.Lock()
	for _, key := range c.answers {
		l.answers.hours.add(c.hour, [16]byte(key[:16]))
		delete(l.answers.inFlight, key)
	}
	l.answers.hours.forget(c.answersFrom)
	l.answers.Unlock()

	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.end, l.mu.at = c.end, c.at
	for id, s := range c.touched {
		l.mu.stats[id] = s.publicStats()
		l.mu.settings[id], l.mu.sums[id] = s.settings, s.sums
		if s.mark.Sequence > l.mu.marks[id].Sequence { // that of a removal in flight is there already
			l.mu.marks[id] = s.mark
		}
		l.mu.deadLetters[id] = s.lastDeadLetter
	}
	for _, e := range c.entries {
		l.mu.tail.push(e.entry, e.bytes)
	}
	for _, id := range c.dropped {
		delete(l.mu.stats, id)
		delete(l.mu.settings, id)
		delete(l.mu.marks, id)
		delete(l.mu.compact, id)
		delete(l.mu.sums, id)
		delete(l.mu.deadLetters, id)
		delete(l.mu.clock, id)
		l.mu.tail.drop(id)
		c.touched[id] = nil // so that watchers of the stream hear of its end
	}
	l.notifyLocked(c.touched)
	select {
	case l.witnessDue <- struct{}{}:
	default:
	}
}
