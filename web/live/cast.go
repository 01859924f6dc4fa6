package live

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A cast reads for all subscriptions that want the same and have caught up: it reads and selects
// once, makes each message once, and hands it to all its members in one go. It never waits for one
// of them. Whose client has no room leaves the cast with what it could not take, and is read for by
// a goroutine of its own, from the same place on, until it has caught up again.
type cast struct {
	hub   *Hub
	key   castKey
	users int // guarded by the hub: members, and those who try to be
	// ctx ends when there are no users any more.
	ctx    context.Context
	cancel context.CancelFunc
	poke   chan struct{} // somebody waits for the next step
	mu     struct {
		sync.Mutex
		// r is the reader; nil before the first member brought it.
		r       reader
		members []*subscription
		quiet   time.Time // when progress was told last
		// stepped, when not nil, is closed after the next step.
		stepped chan struct{}
		over    bool // it has ended
	}
}

// castKey is what members of a cast have in common.
type castKey struct {
	rel                Relation
	name               string
	where, span, order string
	shown              string
	limit              int
	raw                bool
}

// maxBatch bounds the messages that a member gets in one write.
const maxBatch = 8

// joining is what became of a try to join a cast.
type joining struct {
	// joined: the cast reads for the subscription now. kept: with its reader.
	joined, kept bool
	// pending are messages that must be handed over before the next try.
	pending []*content
	// later is closed when the next try is worth it; nil: after what arrives next.
	later <-chan struct{}
}

// castOf finds or makes the cast for a subscription, and counts as its user.
func (h *Hub) castOf(s *subscription) *cast {
	key := castKey{s.rel, s.op.To, s.op.Where, string(s.op.Range), s.op.Order, s.op.showing(), s.op.Limit, s.raw()}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.mu.casts[key]
	if c == nil {
		c = &cast{hub: h, key: key, poke: make(chan struct{}, 1)}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		h.mu.casts[key] = c
	}
	c.users++
	return c
}

// release takes users away; without any the cast ends.
func (c *cast) release(n int) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.users -= n; c.users == 0 {
		c.cancel()
		if c.hub.mu.casts[c.key] == c {
			delete(c.hub.mu.casts, c.key)
		}
	}
}

// join lets a cast read for a subscription that has caught up, if both are at the same place.
func (h *Hub) join(s *subscription, r reader) (out joining, err error) {
	c := h.castOf(s)
	defer func() {
		if !out.joined {
			c.release(1)
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.over {
		return out, nil
	}
	if c.mu.r == nil {
		if !c.addLocked(s) {
			return out, s.ctx.Err()
		}
		c.mu.r, c.mu.quiet = r, s.quiet
		h.stats.Casts.Add(1)
		go c.run()
		return joining{joined: true, kept: true}, nil
	}
	to := c.mu.r.at()
	if from := r.at(); from.Log != to.Log || before(to, from) {
		return joining{later: c.stepLocked()}, nil // it has not read so far yet
	}
	var lacks []*content
	for caughtUp := false; !caughtUp && len(lacks) < maxBatch-2; {
		var one *content
		if one, caughtUp, err = r.next(maxFrameEntries, &to); err != nil {
			return joining{pending: lacks}, err
		}
		if one != nil {
			lacks = append(lacks, one)
		}
	}
	if r.at() != to {
		return joining{pending: lacks, later: c.stepLocked()}, nil
	}
	if one := r.meet(c.mu.r); one != nil {
		lacks = append(lacks, one)
	}
	if s.quiet.Before(c.mu.quiet) {
		lacks = append(lacks, c.mu.r.progress())
	}
	if len(lacks) > 0 && s.out.offer(s, lacks) != taken {
		return joining{pending: lacks}, nil
	}
	if !c.addLocked(s) {
		return out, s.ctx.Err()
	}
	return joining{joined: true}, nil
}

// stepLocked returns a channel that is closed after the next step, and asks for it.
func (c *cast) stepLocked() <-chan struct{} {
	if c.mu.stepped == nil {
		c.mu.stepped = make(chan struct{})
	}
	select {
	case c.poke <- struct{}{}:
	default:
	}
	return c.mu.stepped
}

// addLocked makes a subscription a member, unless it is being stopped.
func (c *cast) addLocked(s *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.mu.cast, s.slot = c, len(c.mu.members)
	c.mu.members = append(c.mu.members, s)
	c.hub.stats.Shared.Add(1)
	return true
}

// dropLocked takes a member out.
func (c *cast) dropLocked(s *subscription) {
	last := len(c.mu.members) - 1
	c.mu.members[last].slot = s.slot
	c.mu.members[s.slot] = c.mu.members[last]
	c.mu.members[last] = nil
	c.mu.members = c.mu.members[:last]
	c.hub.stats.Shared.Add(-1)
	s.mu.Lock()
	s.mu.cast = nil
	s.mu.Unlock()
}

// remove ends a member that is being stopped. Who is no member any more ends by itself.
func (c *cast) remove(s *subscription) {
	c.mu.Lock()
	member := s.slot < len(c.mu.members) && c.mu.members[s.slot] == s
	if member {
		c.dropLocked(s)
	}
	c.mu.Unlock()
	if member {
		c.release(1)
		s.finish(nil)
	}
}

// run reads until the cast has no members, or its reader fails.
func (c *cast) run() {
	defer c.hub.stats.Casts.Add(-1)
	defer c.breakUp(true) // after a panic; else it has been done
	defer c.hub.guard("cast of "+c.key.name, func() {})
	timer := time.NewTimer(0)
	defer timer.Stop()
	var batch []*content
	for c.ctx.Err() == nil {
		var caughtUp bool
		var err error
		if batch, caughtUp, err = c.step(batch[:0]); err == nil && caughtUp {
			err = c.hub.stillThere(c.key.name, c.key.rel)
		}
		if err != nil {
			break // each member will meet it, and tell its client
		}
		if caughtUp {
			timer.Reset(max(0, min(c.hub.opts.ProgressEvery-time.Since(c.mu.quiet), c.mu.r.due())))
			select {
			case <-c.mu.r.arrived():
			case <-c.poke:
			case <-timer.C:
			case <-c.ctx.Done():
			}
		}
		_ = pause(c.ctx, c.mu.r.patience())
	}
	c.breakUp(false)
}

// step reads what has come, at most a batch, and hands it out.
func (c *cast) step(batch []*content) (_ []*content, caughtUp bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.mu.r
	for size := 0; !caughtUp && err == nil && len(batch) < maxBatch-1 && size < maxCopied/2 && r.patience() == 0; {
		var one *content
		if one, caughtUp, err = r.next(maxFrameEntries, nil); one != nil {
			batch = append(batch, one)
			size += len(one.rest)
		}
	}
	if caughtUp && time.Since(c.mu.quiet) >= c.hub.opts.ProgressEvery {
		c.mu.quiet = time.Now()
		batch = append(batch, r.progress())
	}
	if len(batch) > 0 {
		c.handOutLocked(batch)
	}
	c.steppedLocked()
	return batch, caughtUp, err
}

func (c *cast) steppedLocked() {
	if c.mu.stepped != nil {
		close(c.mu.stepped)
		c.mu.stepped = nil
	}
}

// handOutLocked gives every member the same messages. Who has no room for them leaves.
func (c *cast) handOutLocked(batch []*content) {
	behind := c.offerLocked(batch)
	for _, s := range behind {
		r, err := c.mu.r.fork()
		c.dropLocked(s)
		s.quiet = c.mu.quiet
		pending := slices.Clone(batch)
		go s.alive(func() error {
			if err != nil {
				return err
			}
			return s.read(s.ctx, r, pending)
		})
	}
	if len(behind) > 0 {
		c.hub.stats.FellBehind.Add(int64(len(behind)))
		c.release(len(behind))
	}
}

// membersEach is how many members are worth another core.
const membersEach = 256

// offerLocked offers messages to all members, on several cores when they are many. It returns those
// who have no room. Whose connection is gone is ended by its socket.
func (c *cast) offerLocked(batch []*content) (behind []*subscription) {
	parts := min(len(c.mu.members)/membersEach, runtime.GOMAXPROCS(0))
	if parts < 2 {
		return offerAll(c.mu.members, batch)
	}
	each := make([][]*subscription, parts)
	var offering sync.WaitGroup
	for i := range parts {
		from, to := len(c.mu.members)*i/parts, len(c.mu.members)*(i+1)/parts
		offering.Go(func() { each[i] = offerAll(c.mu.members[from:to], batch) })
	}
	offering.Wait()
	return slices.Concat(each...)
}

func offerAll(members []*subscription, batch []*content) (behind []*subscription) {
	for _, s := range members {
		if s.out.offer(s, batch) == full {
			behind = append(behind, s)
		}
	}
	return behind
}

// breakUp ends the cast: its members go on alone, or end with it after a panic.
func (c *cast) breakUp(panicked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.over {
		return
	}
	c.mu.over = true
	c.hub.mu.Lock()
	if c.hub.mu.casts[c.key] == c {
		delete(c.hub.mu.casts, c.key)
	}
	c.hub.mu.Unlock()
	left, r := len(c.mu.members), c.mu.r // which is not changed any more
	for i := left - 1; i >= 0; i-- {
		s := c.mu.members[i]
		c.dropLocked(s)
		s.quiet = c.mu.quiet
		go s.alive(func() error {
			if panicked {
				return errPanic
			}
			own, err := r.fork()
			if err != nil {
				return err
			}
			return s.read(s.ctx, own, nil)
		})
	}
	r.close()
	c.steppedLocked()
	c.release(left)
}
