package live

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// outlet is where a subscription's messages go: a socket or an event stream.
type outlet interface {
	// offer takes messages, all or none, and does not wait for the client. The subscription belongs
	// to the caller meanwhile.
	offer(s *subscription, batch []*content) verdict
	// room returns a channel that is closed once it is worth offering so many again.
	room(s *subscription, n int) <-chan struct{}
	// end closes the client's connection.
	end(f farewell)
	// tooSlow closes it because the subscription made no progress (I7).
	tooSlow(s *subscription)
}

var (
	errEnding = errors.New("the socket ends")
	// errShared ends the goroutine of a subscription that a cast reads for from now on.
	errShared = errors.New("a cast reads for it")
	errPanic  = errors.New("panic")
)

// subscription is one relation that one client follows. A goroutine of its own reads for it until
// it has caught up, then a cast does, for all who want the same; it is back on its own when its
// client falls behind. What is not guarded belongs to who reads for it.
type subscription struct {
	hub    *Hub
	op     op
	id     []byte // as JSON
	out    outlet
	client Client
	rel    Relation
	seq    int64
	quiet  time.Time // when progress was told last
	// answered: subscribed was sent. reached: the reader has caught up once.
	answered, reached bool
	ctx               context.Context
	cancel            context.CancelFunc
	// done is closed when nothing more is said.
	done chan struct{}
	// leave frees the id, so that it may be used again when an error message is on its way.
	leave func()
	// stand is where the client can go on: behind the last message that was written, in a group
	// behind the last ack.
	stand atomic.Pointer[string]
	group *group
	bell  chan struct{} // an ack is there; nil without a group
	mu    struct {
		sync.Mutex
		// ack is the newest one of the client: acks are cumulative.
		ack string
		// cast reads for it; slot is its place among the cast's members, which the cast guards.
		cast *cast
	}
	slot int
}

// newSubscription returns a subscription that nobody reads for yet.
func newSubscription(ctx context.Context, h *Hub, o op, out outlet, client Client, leave func()) *subscription {
	s := &subscription{hub: h, op: o, id: row.AppendJSONString(nil, o.ID), out: out, client: client, leave: leave, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if o.Group != "" {
		s.bell = make(chan struct{}, 1)
	}
	return s
}

// start begins to read. done is closed when it has ended, by itself or by stop.
func (s *subscription) start() {
	s.hub.stats.Subscriptions.Add(1)
	go s.alive(func() error { return s.follow(s.ctx) })
}

// alive runs what reads for the subscription, as a goroutine.
func (s *subscription) alive(read func() error) {
	err := errPanic
	defer func() {
		if !errors.Is(err, errShared) {
			s.finish(err)
		}
	}()
	defer s.hub.guard("subscription to "+s.op.To, func() {})
	err = read()
}

// stop ends the subscription and returns when nothing more is said.
func (s *subscription) stop() {
	s.cancel()
	s.mu.Lock()
	c := s.mu.cast
	s.mu.Unlock()
	if c != nil {
		c.remove(s)
	}
	<-s.done
}

// finish says why the subscription ends, unless its client ends it. Its reader calls it last.
func (s *subscription) finish(err error) {
	if s.group != nil {
		s.hub.release(s, s.group.key)
	}
	if s.leave != nil {
		s.leave()
	}
	if err != nil && s.ctx.Err() == nil && !errors.Is(err, errEnding) {
		p := problem.From(err)
		if p.Status == 500 {
			s.hub.opts.Logger.Error("live reader failed", "relation", s.op.To, "err", err)
		}
		_ = s.emit(s.ctx, errorContent(p))
	}
	s.cancel()
	s.hub.stats.Subscriptions.Add(-1)
	close(s.done)
}

// ring leaves an ack for the subscription's goroutine.
func (s *subscription) ring(position string) {
	s.mu.Lock()
	s.mu.ack = position
	s.mu.Unlock()
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// standAt notes that a message was written.
func (s *subscription) standAt(position *string) {
	if position != nil && s.bell == nil {
		s.stand.Store(position)
	}
}

// standing is what a close frame says of the reader: its id and its last position.
func (s *subscription) standing() string {
	position := ""
	if p := s.stand.Load(); p != nil {
		position = *p
	}
	b := append([]byte(`{"id":`), s.id...)
	if len(b)+len(position) > 100 {
		b = []byte(`{"id":""`)
	}
	b = appendPosition(b, position)
	return string(append(b, '}'))
}

// folds says whether what waits for the client may be added up.
func (s *subscription) folds() bool { return s.rel.Kind == View && !s.raw() }

// raw: every epoch of a view is a message of its own.
func (s *subscription) raw() bool { return s.op.Fold != nil && !*s.op.Fold }

// appendStart appends the header of a message's frame and the message up to its content. It counts it.
func (s *subscription) appendStart(b []byte, c *content) []byte {
	var room [160]byte
	beginning := s.appendBeginning(room[:0], c)
	return append(appendFrame(b, websocket.TextMessage, len(beginning)+len(c.rest)), beginning...)
}

func (s *subscription) appendBeginning(b []byte, c *content) []byte {
	if c.numbered {
		s.seq++
	}
	return appendBeginning(b, c, s.id, s.seq)
}

// emit hands over messages and waits for the client to have room for them.
func (s *subscription) emit(ctx context.Context, batch ...*content) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch s.out.offer(s, batch) {
		case taken:
			return nil
		case ended:
			return errEnding
		}
		select {
		case <-s.out.room(s, len(batch)):
		case <-ctx.Done():
		}
	}
}

// follow finds out what is asked and reads it.
func (s *subscription) follow(ctx context.Context) error {
	from, err := parseStart(s.op.From)
	if err != nil {
		return err
	}
	if s.rel, err = s.hub.opts.Relations(s.op.To); err != nil {
		return err
	}
	if err := s.client.may(s.rel); err != nil {
		return err
	}
	if s.rel.Kind == View {
		if s.op.Group != "" {
			return problem.New(400, "no_groups", "%s is a view, and views are read without groups", s.op.To).
				WithHint("keep the position of the last frame and subscribe from there, or make an alert of the view")
		}
		if s.client.Narrow != nil {
			if s.op.Where, s.op.shown, err = s.client.Narrow(s.rel, s.op.Where, s.op.Order); err != nil {
				return err
			}
		}
		r, err := s.view(ctx, from)
		if err != nil {
			return err
		}
		return s.read(ctx, r, nil)
	}
	if s.op.Where != "" || len(s.op.Range) > 0 || s.op.Order != "" || s.op.Limit != 0 {
		return problem.New(400, "no_selection", "where, range, order and limit select rows of views; %s is none", s.op.To).
			WithHint("make a view that filters, and subscribe to that")
	}
	if from.kind == "snapshot" {
		return problem.New(400, "no_snapshot", "%s has no snapshot: it is no view", s.op.To).
			WithHint(`subscribe from "latest", "earliest", a position or {"time":"…"}`)
	}
	if err := s.joinGroup(&from); err != nil {
		return err
	}
	var r reader
	switch s.rel.Kind {
	case Stream:
		r, err = s.stream(ctx, from)
	case Alert:
		r, err = s.numbered(ctx, from, alertSource{s.hub.opts.Alerts, s.rel.Name})
	default:
		r, err = s.numbered(ctx, from, lateSource{s.hub.opts.Views, s.rel.Name})
	}
	if err != nil {
		return err
	}
	return s.read(ctx, r, nil)
}

// read reads for the subscription alone, until a cast can: errShared. pending is what the client
// could not take in time.
func (s *subscription) read(ctx context.Context, r reader, pending []*content) error {
	kept := false // the cast has it
	defer func() {
		if !kept {
			r.close()
		}
	}()
	if len(pending) > 0 {
		if err := s.emit(ctx, pending...); err != nil {
			return err
		}
	}
	for caughtUp := false; ; {
		var later <-chan struct{}
		if caughtUp {
			if err := s.hub.stillThere(s.op.To, s.rel); err != nil {
				return err
			}
		}
		if caughtUp && s.reached && s.group == nil {
			outcome, err := s.hub.join(s, r)
			if kept = outcome.kept; outcome.joined {
				return errShared
			}
			if len(outcome.pending) > 0 {
				if err := s.emit(ctx, outcome.pending...); err != nil {
					return err
				}
			}
			if err != nil {
				if err := s.recover(ctx, r, err); err != nil {
					return err
				}
				caughtUp = false
			}
			if err != nil || len(outcome.pending) > 0 {
				continue
			}
			later = outcome.later
		}
		if caughtUp {
			again, err := s.rest(ctx, r, later)
			if err != nil {
				return err
			}
			if again {
				continue
			}
		}
		if err := pause(ctx, r.patience()); err != nil {
			return err
		}
		room, err := s.room(ctx)
		if err != nil {
			return err
		}
		var c *content
		if c, caughtUp, err = r.next(room, nil); err != nil {
			if err := s.recover(ctx, r, err); err != nil {
				return err
			}
			caughtUp = false
			continue
		}
		if c != nil {
			s.note(c)
			if err := s.emit(ctx, c); err != nil {
				return err
			}
		}
		if err := s.progress(ctx, r, caughtUp); err != nil {
			return err
		}
		if !caughtUp {
			if err := s.listen(ctx); err != nil {
				return err
			}
		}
	}
}

// recover goes on behind a gap; any other error ends the subscription.
func (s *subscription) recover(ctx context.Context, r reader, err error) error {
	if !errors.As(err, new(*Gap)) {
		return err
	}
	return r.skipGap(ctx, s)
}

// subscribed answers the subscription.
func (s *subscription) subscribed(ctx context.Context, position string, recovered bool) error {
	return s.answer(ctx, &content{kind: "subscribed", rest: appendPosition(nil, position), position: &position}, recovered)
}

// subscribedBefore answers a subscription whose rows are yet to come: who has got this alone does not
// stand at the position yet, and to go on from it would leave them out.
func (s *subscription) subscribedBefore(ctx context.Context, snapshot string, recovered bool) error {
	return s.answer(ctx, &content{kind: "subscribed", rest: appendPosition(nil, snapshot)}, recovered)
}

func (s *subscription) answer(ctx context.Context, c *content, recovered bool) error {
	s.answered, s.quiet = true, time.Now()
	if recovered {
		return s.emit(ctx, c.end(`,"recovered":true}`))
	}
	return s.emit(ctx, c.end(`,"recovered":false}`))
}

// gap tells that the position that the client asked for, or stood at, is gone (I4).
func (s *subscription) gap(ctx context.Context, from, oldest string) error {
	s.hub.stats.Gaps.Add(1)
	return s.emit(ctx, &content{kind: "gap", rest: []byte(`,"from":"` + from + `","oldest":"` + oldest + `"}`), numbered: true})
}

// progress says where the reader stands: once when it has caught up with where the relation stood
// when it subscribed, and from then on whenever nothing was said for a while, so that silence is
// provable. Before that there is none: it would be taken for the end of what was to be caught up with.
func (s *subscription) progress(ctx context.Context, r reader, caughtUp bool) error {
	if s.reached && s.untilProgress() > 0 || !s.reached && !caughtUp && !r.reached() {
		return nil
	}
	s.reached, s.quiet = true, time.Now()
	return s.emit(ctx, r.progress())
}

// untilProgress is the time until the next progress message is due.
func (s *subscription) untilProgress() time.Duration {
	return max(0, s.hub.opts.ProgressEvery-time.Since(s.quiet))
}

// rest sleeps until something may have come, an ack has, progress is due or ctx ends. again is true
// when later came: the cast may have room.
func (s *subscription) rest(ctx context.Context, r reader, later <-chan struct{}) (again bool, err error) {
	timer := time.NewTimer(min(s.untilProgress(), r.due()))
	defer timer.Stop()
	select {
	case <-r.arrived():
	case <-later:
		return true, nil
	case <-s.bell:
		err = s.takeAck(ctx)
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return false, err
}

// listen takes an ack that came while the reader was busy.
func (s *subscription) listen(ctx context.Context) error {
	select {
	case <-s.bell:
		return s.takeAck(ctx)
	default:
		return ctx.Err()
	}
}
