package live

import (
	"context"
	"time"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// group is a subscription's share in a consumer group: what is on its way and not acknowledged.
type group struct {
	key groupKey
	// acked is the last durable ack as text; "" before the first.
	acked string
	at    stream.Position
	max   int
	// flight are the frames that were sent and not acknowledged, oldest first.
	flight []flight
	count  int // entries in flight
	// moved is when the group last made progress while something was in flight.
	moved time.Time
}

type flight struct {
	position stream.Position
	entries  int
}

const maxGroupName = 64

// joinGroup makes the subscription the group's reader, if it names one, and moves from to the
// group's last ack. When another reader holds the group the socket is closed.
func (s *subscription) joinGroup(from *start) error {
	if s.op.Group == "" {
		return nil
	}
	if s.rel.Kind == LateOf || s.hub.opts.Groups == nil {
		return problem.New(400, "no_groups", "%s can't be read in a group", s.op.To).
			WithHint("keep the position of the last frame and subscribe from there")
	}
	if s.client.Looks {
		return problem.New(403, "read_only_link", "a link joins no groups: what it acknowledges would be lost to the group's own reader").
			WithHint("subscribe without group, or use a key")
	}
	if len(s.op.Group) > maxGroupName {
		return problem.New(400, "bad_group", "the group's name has %d bytes; at most %d are taken", len(s.op.Group), maxGroupName).
			WithHint("take a shorter name")
	}
	if s.op.MaxInFlight < 0 {
		return problem.New(400, "bad_max_in_flight", "max_in_flight is %d", s.op.MaxInFlight).
			WithHint("leave it out, or give a number from 1 to %d", s.hub.opts.MaxInFlight)
	}
	key := groupKey{s.rel, s.op.Group}
	if !s.hub.claim(s, key) {
		s.out.end(farewell{code: closeGroupTaken, reason: clip("group "+s.op.Group+" of "+s.op.To+" has its reader elsewhere", 120)})
		return errEnding
	}
	g := &group{key: key, max: s.hub.opts.MaxInFlight}
	if n := s.op.MaxInFlight; n > 0 && n < g.max {
		g.max = n
	}
	text, ok, err := s.hub.opts.Groups.Acked(s.rel, s.op.Group)
	if err != nil {
		s.hub.release(s, key)
		return err
	}
	switch {
	case ok:
		at, err := stream.ParsePosition(text)
		if err != nil {
			s.hub.release(s, key)
			return err
		}
		g.acked, g.at = text, at
		s.stand.Store(&text)
		*from = start{kind: "position", at: at, text: text}
	case from.kind == "":
		from.kind = "earliest" // a group misses nothing unless it says so
	}
	s.group = g
	return nil
}

// room waits until the group may get more, and says how many entries (I6). Without a group it is
// as many as a frame may hold.
func (s *subscription) room(ctx context.Context) (int, error) {
	g := s.group
	if g == nil {
		return maxFrameEntries, nil
	}
	for g.count >= g.max {
		left := s.hub.opts.StallAfter - time.Since(g.moved)
		if left <= 0 {
			s.hub.stats.CutOff.Add(1)
			s.out.tooSlow(s)
			return 0, errEnding
		}
		timer := time.NewTimer(min(left, s.untilProgress()+time.Millisecond))
		select {
		case <-s.bell:
			if err := s.takeAck(ctx); err != nil {
				return 0, err
			}
		case <-timer.C:
			if s.untilProgress() > 0 {
				break
			}
			s.quiet = time.Now()
			if err := s.emit(ctx, progressContent(g.flight[len(g.flight)-1].position, nil, time.Since(g.moved))); err != nil {
				return 0, err
			}
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		}
		timer.Stop()
	}
	return min(g.max-g.count, maxFrameEntries), nil
}

// note remembers a message that is on its way.
func (s *subscription) note(c *content) {
	g := s.group
	if g == nil || c.entries == 0 {
		return
	}
	if g.count == 0 {
		g.moved = time.Now()
	}
	g.flight = append(g.flight, flight{c.place, c.entries})
	g.count += c.entries
}

// takeAck makes the newest ack durable and answers it.
func (s *subscription) takeAck(ctx context.Context) error {
	s.mu.Lock()
	text := s.mu.ack
	s.mu.ack = ""
	s.mu.Unlock()
	if text == "" {
		return nil
	}
	refuse := func(detail, hint string) error {
		return s.emit(ctx, errorContent(problem.New(400, "bad_ack", "%s", detail).WithHint("%s", hint)))
	}
	acked := func(position string) error {
		return s.emit(ctx, (&content{kind: "acked", rest: appendPosition(nil, position)}).end("}"))
	}
	g := s.group
	at, err := stream.ParsePosition(text)
	if log := s.hub.opts.Log.ID(); err != nil || at.Log != log && at.Log != log.Of(s.rel.ID) {
		return refuse("the position of the ack is none of this log", "acknowledge the position of a frame that was received")
	}
	taken, n := 0, 0
	for _, f := range g.flight {
		if before(at, f.position) {
			break
		}
		taken, n = taken+1, n+f.entries
	}
	switch {
	case taken > 0 && g.flight[taken-1].position == at:
	case taken == 0 && g.acked != "" && g.at.Log == at.Log && !before(g.at, at): // acknowledged before
		return acked(g.acked)
	default:
		return refuse("the position of the ack is of no frame that was sent", "acknowledge the position of a frame that was received")
	}
	if err := s.hub.opts.Groups.Ack(ctx, s.rel, s.op.Group, text); err != nil {
		return err
	}
	g.acked, g.at, g.moved = text, at, time.Now()
	s.stand.Store(&text)
	g.flight = append(g.flight[:0], g.flight[taken:]...)
	g.count -= n
	return acked(text)
}

// before reports whether a lies before b in one log.
func before(a, b stream.Position) bool {
	return a.Sequence < b.Sequence || a.Sequence == b.Sequence && a.Within < b.Within
}
