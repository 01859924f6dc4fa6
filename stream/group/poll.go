package group

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// Poll is what a member asks for.
type Poll struct {
	Member string
	// Max is how many events at most; 0 is 100.
	Max int
	// Wait is how long to wait for the first event.
	Wait time.Duration
	// AtMostOnce commits the events before they are answered.
	AtMostOnce bool
	// Generation of an earlier answer, or 0: a member that has lost its place is then told so, in
	// place of joining again.
	Generation Generation
	// Session is how long the member may be silent; 0 is the service's.
	Session time.Duration
}

// Polled is the answer to a poll.
type Polled struct {
	// Generation belongs in the commit of these events.
	Generation Generation
	// Partitions are those that the member holds.
	Partitions []stream.Partition
	// Committed are the offsets behind which the group stands in them.
	Committed []stream.Offset
	Events    []Event
	// Rewound are the partitions whose committed offset lay past the end of another history of the
	// log, from which the group goes on.
	Rewound []Moved
}

// Event is an event as a member gets it.
type Event struct {
	stream.Place
	Time, AppendTime stream.Micros
	// Key is nil where the event has none.
	Key *string
	Raw []byte
	// Attempts are the failed attempts before.
	Attempts int
	// DeadLetter is the id of the dead letter that is given again; "" for events of the log.
	DeadLetter string
}

func (r *Poll) check(o Options) error {
	if err := checkMember(r.Member); err != nil {
		return err
	}
	if r.Max == 0 {
		r.Max = 100
	}
	if r.Session == 0 {
		r.Session = o.Session
	} else if r.Session < MinSession || r.Session > MaxSession {
		return problem.New(400, "bad_poll", "session_timeout is %v", r.Session).WithHint("give a time from 1s to 1h, or leave it out")
	}
	if r.Max < 1 || r.Max > MaxEvents {
		return problem.New(400, "bad_poll", "max is %d", r.Max).WithHint("give 1 to %d", MaxEvents)
	}
	if r.Wait < 0 || r.Wait > MaxWait {
		return problem.New(400, "bad_poll", "wait is %v", r.Wait).WithHint("give a time up to 60s and poll again")
	}
	return nil
}

func checkMember(name string) error {
	if name == "" || len(name) > 128 || !utf8.ValidString(name) {
		return problem.New(400, "bad_member", "the member's name has %d bytes", len(name)).
			WithHint(`send "member": a name of 1 to 128 bytes that no other process of the group has, such as host and process id`)
	}
	return nil
}

// Poll gives a member events of the partitions that it holds, from the committed offsets on. A member
// that is not in the group joins it. What the poll before gave and was not committed counts as a
// failed attempt. The error is a *problem.Problem when it is the member's to mend; a context that ends
// gives an answer without events.
func (s *Service) Poll(ctx context.Context, id stream.ID, name string, r Poll) (*Polled, error) {
	if err := r.check(s.o); err != nil {
		return nil, err
	}
	arrived, unwatch := s.log.Watch(id)
	defer unwatch()
	deadline := time.NewTimer(r.Wait)
	defer deadline.Stop()
	var mine chan struct{}
	first := true
	for {
		g, err := s.lock(id, name, first)
		if err != nil {
			return nil, err
		}
		if !first && g.mu.sessions[r.Member].superseded(mine) {
			defer s.unlock(g)
			return &Polled{Generation: g.mu.state.Generation}, nil // another poll of this member has taken its place
		}
		out, err := s.pollLocked(g, r, first)
		if err != nil || len(out.Events) > 0 || r.Wait == 0 || ctx.Err() != nil {
			s.restLocked(g, r.Member)
			s.unlock(g)
			return out, err
		}
		if first {
			first, mine = false, make(chan struct{})
			g.mu.sessions[r.Member].waiting = mine
		}
		changed := g.mu.changed
		expiry, ok := s.nextExpiryLocked(g)
		s.unlock(g)
		if !ok {
			expiry = MaxWait
		}
		ends := time.NewTimer(expiry)
		over := false
		select {
		case <-arrived:
		case <-changed:
		case <-ends.C:
		case <-mine:
		case <-deadline.C:
			over = true
		case <-ctx.Done():
			over = true
		}
		ends.Stop()
		if over {
			return s.end(id, name, r, mine, out)
		}
	}
}

// superseded reports whether a waiting poll is no longer the one of its member.
func (s *session) superseded(mine chan struct{}) bool {
	return s == nil || mine != nil && s.waiting != mine
}

// restLocked notes that no poll of a member waits any more.
func (s *Service) restLocked(g *group, member string) {
	if ses := g.mu.sessions[member]; ses != nil {
		ses.waiting, ses.seen = nil, s.o.Monotonic()
	}
}

// end ends a poll whose time is over.
func (s *Service) end(id stream.ID, name string, r Poll, mine chan struct{}, out *Polled) (*Polled, error) {
	g, err := s.lock(id, name, false)
	if err != nil {
		return out, nil // deleted meanwhile: there is nothing to give
	}
	defer s.unlock(g)
	if ses := g.mu.sessions[r.Member]; !ses.superseded(mine) {
		s.restLocked(g, r.Member)
	}
	return out, nil
}

// pollLocked is one look of a poll. The first joins the group and settles what the poll before gave.
func (s *Service) pollLocked(g *group, r Poll, first bool) (*Polled, error) {
	e, err := s.beginLocked(g)
	if err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if !done {
			e.batch.Discard()
		}
	}()
	if first {
		if err := e.enter(r); err != nil {
			return nil, err
		}
	}
	e.expire()
	e.rebalance()
	events, err := e.deliver(r)
	if err != nil {
		return nil, err
	}
	out := &Polled{Generation: e.state.Generation, Events: events, Rewound: e.rewound}
	for p := range e.state.parts {
		if at := &e.state.parts[p]; at.Holder == r.Member {
			out.Partitions = append(out.Partitions, stream.Partition(p))
			out.Committed = append(out.Committed, at.Committed)
		}
	}
	done = true
	return out, e.commitLocked()
}

// enter is the beginning of a poll: the member joins or shows that it is there, and what it was given
// before and did not commit has failed.
func (e *edit) enter(r Poll) error {
	span, member := e.state.Members[r.Member]
	switch {
	case r.Generation > e.state.Generation:
		return fenced("the group is at generation %d, the poll names %d", e.state.Generation, r.Generation)
	case !member && r.Generation > 0:
		return fenced("the member %q is no longer in the group", r.Member)
	case !member && len(e.state.Members) >= e.s.o.MaxMembers:
		return problem.New(422, "too_many_members", "the group has %d members already", len(e.state.Members)).WithHint("take another group, or fewer members")
	case !member || span != r.Session:
		e.state.Members[r.Member] = r.Session
		e.headDirty = true
		if !member {
			e.bump()
		}
	}
	ses := e.g.mu.sessions[r.Member]
	if ses == nil {
		ses = &session{}
		e.g.mu.sessions[r.Member] = ses
	}
	ses.seen = e.s.o.Monotonic()
	if ses.waiting != nil {
		close(ses.waiting) // the older poll ends without events
		ses.waiting = nil
	}
	for p := range e.state.parts {
		if e.state.parts[p].Holder == r.Member {
			e.failed(stream.Partition(p), "not_committed", "the member polled again before it had committed the event")
		}
	}
	return nil
}

func fenced(detail string, args ...any) *problem.Problem {
	return problem.New(409, "fenced", detail, args...).
		WithHint("drop what is in hand: it is given out again; then poll without a generation to go on")
}

// deliver takes events for a member. Those that may have killed somebody come alone (see the package).
func (e *edit) deliver(r Poll) ([]Event, error) {
	var mine []stream.Partition
	for p := range e.state.parts {
		if e.state.parts[p].Holder == r.Member && e.want[p] == r.Member {
			mine = append(mine, stream.Partition(p))
		}
	}
	ses := e.g.mu.sessions[r.Member]
	if len(mine) == 0 {
		return nil, nil
	}
	turn := ses.turn % len(mine)
	mine = slices.Concat(mine[turn:], mine[:turn])
	var events []Event
	left, bytes := r.Max, e.s.o.MaxBytes
	for i, p := range mine {
		at := &e.state.parts[p]
		alone := at.replayReady() || at.suspected()
		if alone && len(events) > 0 {
			continue
		}
		var got []Event
		var err error
		if at.replayReady() {
			got, err = e.giveAgain(p, r.AtMostOnce)
		} else {
			got, err = e.give(p, e.chunk(p, left), bytes, r.AtMostOnce)
		}
		if err != nil {
			return nil, err
		}
		if len(events) == 0 && len(got) > 0 {
			ses.turn = (turn + i + 1) % len(mine)
		}
		events = append(events, got...)
		left -= len(got)
		for _, ev := range got {
			bytes -= len(ev.Raw)
		}
		if alone && len(got) > 0 || left <= 0 || bytes <= 0 {
			break
		}
	}
	if len(events) == 1 && !r.AtMostOnce {
		e.part(events[0].Partition).Alone = true
	}
	return events, nil
}

// chunk is how many events of a partition may come together: fewer after each failure.
func (e *edit) chunk(p stream.Partition, most int) int {
	at := &e.state.parts[p]
	switch left := float64(at.Suspect[0] - at.Committed); {
	case !at.suspected():
		return most
	case left <= 0 || at.Committed < at.Suspect[1] || e.s.o.MaxAttempts < 3:
		return 1
	default:
		return min(most, max(1, int(math.Sqrt(left))))
	}
}

// give takes the next events of a partition from the log.
func (e *edit) give(p stream.Partition, most, bytes int, commit bool) ([]Event, error) {
	at := &e.state.parts[p]
	next := at.Committed
	end := e.stats[p].Next
	if next < at.Suspect[0] {
		end = min(end, at.Suspect[0])
	}
	if next < at.Suspect[1] {
		end = min(end, at.Suspect[1])
	}
	if next >= end {
		return nil, nil
	}
	batches, err := e.s.log.Slice(e.g.id, p, next, most+len(at.fails))
	if gone, ok := errors.AsType[*stream.OffsetGone](err); ok && gone.First > next { // retention went on meanwhile
		e.expired(p, gone.First)
		return e.give(p, most, bytes, commit)
	}
	if err != nil {
		return nil, err
	}
	var events []Event
	if len(batches) > 0 { // what compaction has removed before the next event needs no commit
		first := batches[0].End()
		if i := batches[0].Index(next); i < batches[0].Len {
			first = offsetOf(batches[0], i)
		}
		if first > next {
			e.commitTo(p, first)
			return e.give(p, most, bytes, commit)
		}
	}
	for _, b := range batches {
		for i := 0; i < b.Len && next < end && len(events) < most && bytes > 0; i++ {
			o := offsetOf(b, i)
			if o < next {
				continue
			}
			if o >= end {
				break
			}
			next = o + 1
			if at.fails[o].Dead {
				continue
			}
			ev := eventOf(b, i)
			ev.Attempts = at.attempts(o)
			bytes -= len(ev.Raw)
			events = append(events, ev)
		}
	}
	switch {
	case next == at.Committed:
	case len(events) == 0 || commit:
		e.commitTo(p, next)
		at.Given = max(at.Given, at.Committed)
	default:
		at = e.part(p)
		at.Given, at.Until, at.Alone = max(at.Given, next), next, false
		at.Delivery++
	}
	return events, nil
}

// offsetOf is the offset of event i of a batch.
func offsetOf(b *stream.Batch, i int) stream.Offset { return b.Offset(i) }

func eventOf(b *stream.Batch, i int) Event {
	ev := Event{
		Place: stream.Place{Partition: b.Partition, Offset: offsetOf(b, i)}, Time: b.Times[i], AppendTime: b.AppendTime, Raw: b.Raw(i),
	}
	if b.Keys != nil && !b.Keys.IsNull(i) {
		k := b.Keys.Str[i]
		ev.Key = &k
	}
	return ev
}
