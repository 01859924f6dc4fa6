package group

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// Commit says that a member has done with everything before some offsets.
type Commit struct {
	Member string
	// Generation of the poll that gave the events; 0: not told.
	Generation Generation
	// Offsets are the next ones to read.
	Offsets map[stream.Partition]stream.Offset
}

// Committed is the answer to a commit: where the group stands now.
type Committed struct {
	Generation Generation
	Offsets    map[stream.Partition]stream.Offset
}

// Commit makes offsets durable, all or none. One at or below what is committed already changes
// nothing (I3). A partition that the member does not hold, or got anew since the generation, is a
// problem 409 (I2).
func (s *Service) Commit(id stream.ID, name string, c Commit) (*Committed, error) {
	if err := checkMember(c.Member); err != nil {
		return nil, err
	}
	if len(c.Offsets) == 0 {
		return nil, problem.New(400, "bad_commit", "no offsets are given").WithHint(`send {"member":"m1","offsets":{"0":123}}: 123 is the next offset to read`)
	}
	out := &Committed{Offsets: map[stream.Partition]stream.Offset{}}
	err := s.change(id, name, c.Member, func(e *edit) error {
		for _, p := range slices.Sorted(maps.Keys(c.Offsets)) {
			o := c.Offsets[p]
			at, err := e.held(p, c.Member, c.Generation)
			if err != nil {
				return err
			}
			if o < 0 {
				return problem.New(400, "bad_commit", "offset %d is below 0", o).WithHint("commit the next offset to read")
			}
			if o > at.Given && o > at.Committed {
				return problem.New(409, "not_given", "offset %d of partition %d is past what the member was given, which ends before %d", o, p, at.Given).
					WithHint("commit the offset of the last event done, plus 1").With("given", at.Given)
			}
		}
		for p, o := range c.Offsets {
			e.commitTo(p, o)
			e.ackReplay(p, o)
			out.Offsets[p] = e.state.parts[p].Committed
		}
		return nil
	}, &out.Generation)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Nack says that a member failed at an event.
type Nack struct {
	Member     string
	Generation Generation
	stream.Place
	Reason string
}

// Nacked is the answer to a nack.
type Nacked struct {
	Generation Generation
	// Attempts are the failed attempts by now.
	Attempts int
	// DeadLetter is the id of the dead letter that the event has become; "" when it will be given again.
	DeadLetter string
}

// Nack counts a failed attempt. After the last one the event is a dead letter of the group, else it is
// given again by the next poll. Sent twice for one delivery, it counts once.
func (s *Service) Nack(id stream.ID, name string, n Nack) (*Nacked, error) {
	if err := checkMember(n.Member); err != nil {
		return nil, err
	}
	if n.Reason = shorten(n.Reason); n.Reason == "" {
		n.Reason = "the member gave no reason"
	}
	out := &Nacked{}
	err := s.change(id, name, n.Member, func(e *edit) error {
		at, err := e.held(n.Partition, n.Member, n.Generation)
		switch {
		case err != nil:
			return err
		case at.Replay != nil && *at.Replay == n.Offset:
			out.Attempts, out.DeadLetter, err = e.failReplay(n.Partition, "nack", n.Reason)
			return err
		case n.Offset < at.Committed:
			return problem.New(409, "already_committed", "%v is committed already", n.Place).
				WithHint("nack an event before its offset is committed; POST …/seek goes back")
		case n.Offset >= at.Given:
			return problem.New(409, "not_given", "%v was not given to the member", n.Place).WithHint("nack an event that the last poll gave")
		case at.fails[n.Offset].Dead:
			out.Attempts, out.DeadLetter = at.fails[n.Offset].Attempts, e.letterID(n.Place)
			return nil
		case at.fails[n.Offset].Code == "nack" && at.fails[n.Offset].Delivery == at.Delivery:
			out.Attempts = at.fails[n.Offset].Attempts
			return nil
		}
		e.part(n.Partition).Until = 0 // the member has said what failed: nothing else did
		out.Attempts, out.DeadLetter, err = e.fail(n.Place, "nack", n.Reason, true)
		return err
	}, &out.Generation)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func shorten(reason string) string {
	reason = strings.ToValidUTF8(reason, "�")
	if len(reason) <= MaxReason {
		return reason
	}
	cut := MaxReason
	for !utf8.RuneStart(reason[cut]) {
		cut--
	}
	return reason[:cut]
}

// Leave takes a member out of the group. What it was given and did not commit is given to others, and
// counts as no attempt.
func (s *Service) Leave(id stream.ID, name, member string) error {
	if err := checkMember(member); err != nil {
		return err
	}
	var g Generation
	return s.change(id, name, member, func(e *edit) error {
		if _, ok := e.state.Members[member]; ok {
			if ses := e.g.mu.sessions[member]; ses != nil && ses.waiting != nil {
				close(ses.waiting)
			}
			e.remove(member, false)
		}
		return nil
	}, &g)
}

// change makes one change of a group that is there. A call shows that its member is alive; sessions
// of others are judged, and partitions that are drained by the change move.
func (s *Service) change(id stream.ID, name, member string, f func(*edit) error, generation *Generation) error {
	g, err := s.lock(id, name, false)
	if err != nil {
		return err
	}
	defer s.unlock(g)
	e, err := s.beginLocked(g)
	if err != nil {
		return err
	}
	if ses := g.mu.sessions[member]; ses != nil {
		ses.seen = s.o.Monotonic()
	}
	if err := f(e); err != nil {
		e.batch.Discard()
		return err
	}
	e.expire()
	e.rebalance()
	*generation = e.state.Generation
	return e.commitLocked()
}

// held returns a partition that a member holds since a generation or before; else a problem (I2).
func (e *edit) held(p stream.Partition, member string, g Generation) (*partition, error) {
	if p < 0 || int(p) >= len(e.state.parts) {
		return nil, problem.New(404, "unknown_partition", "the stream has no partition %d; it has %d", p, len(e.state.parts)).
			WithHint("partitions are numbered from 0")
	}
	at := &e.state.parts[p]
	switch {
	case at.Holder != member:
		return nil, fenced("the member %q does not hold partition %d", member, p).With("generation", e.state.Generation)
	case g != 0 && (g < at.Since || g > e.state.Generation):
		return nil, fenced("partition %d was given out anew at generation %d; the request is of generation %d", p, at.Since, g).With("generation", e.state.Generation)
	}
	return at, nil
}

// commitTo moves a partition's committed offset forward, and forgets what lies before it.
func (e *edit) commitTo(p stream.Partition, to stream.Offset) {
	at := &e.state.parts[p]
	for at.fails[max(to, at.Committed)].Dead {
		to = max(to, at.Committed) + 1
	}
	if to <= at.Committed {
		return
	}
	at = e.part(p)
	at.Committed = to
	at.Given = max(at.Given, to)
	for i, s := range at.Suspect {
		if s <= to {
			at.Suspect[i] = 0
		}
	}
	if at.Until <= to {
		at.Until = 0
	}
	e.forgetFails(p, to)
}

// forgetFails removes the records of failures below an offset.
func (e *edit) forgetFails(p stream.Partition, below stream.Offset) {
	at := &e.state.parts[p]
	kept := map[stream.Offset]fail{}
	for o, f := range at.fails {
		if o >= below {
			kept[o] = f
			continue
		}
		e.batch.Delete(eventKey(e.g.id, e.g.name, kindFail, stream.Place{Partition: p, Offset: o}))
	}
	if len(kept) != len(at.fails) {
		at.fails = kept
	}
}

// resetTo puts a partition to an offset, forwards or backwards, and takes it from its holder's hands:
// commits of what was given before are refused.
func (e *edit) resetTo(p stream.Partition, to stream.Offset) {
	e.bump()
	at := e.part(p)
	e.forgetFails(p, 1<<62)
	at.Committed, at.Suspect = to, [2]stream.Offset{}
	e.handOver(p, at.Holder)
}
