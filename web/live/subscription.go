package live

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// outlet is where a subscription's frames go: a socket or an event stream.
type outlet interface {
	// emit hands over one frame; it returns once the client's line is free to take it.
	emit(ctx context.Context, f frame) error
	// end closes the client's connection.
	end(f farewell)
	// tooSlow closes it because the subscription made no progress (I7).
	tooSlow(s *subscription)
}

// subscription is one relation that one client follows.
type subscription struct {
	hub    *Hub
	op     op
	out    outlet
	client Client
	rel    Relation
	seq    int64
	quiet  time.Time // when progress was told last
	// answered: subscribed was sent. reached: the reader has caught up once.
	answered, reached bool
	cancel            context.CancelFunc
	done              chan struct{}
	// leave frees the id, so that it may be used again when an error message is on its way.
	leave func()
	// stand is where the client can go on: behind the last frame that was written, in a group
	// behind the last ack.
	stand atomic.Pointer[string]
	// acks holds the newest ack of the client: acks are cumulative.
	acks struct {
		sync.Mutex
		newest string
	}
	bell  chan struct{} // an ack is there
	group *group
}

func newSubscription(h *Hub, o op, out outlet, client Client) *subscription {
	return &subscription{hub: h, op: o, out: out, client: client, done: make(chan struct{}), bell: make(chan struct{}, 1)}
}

// ring leaves an ack for the subscription's goroutine.
func (s *subscription) ring(position string) {
	s.acks.Lock()
	s.acks.newest = position
	s.acks.Unlock()
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// standing is what a close frame says of the reader: its id and its last position.
func (s *subscription) standing() string {
	position := ""
	if p := s.stand.Load(); p != nil {
		position = *p
	}
	b := append([]byte(`{"id":`), row.AppendJSONString(nil, s.op.ID)...)
	if len(b)+len(position) > 100 {
		b = []byte(`{"id":""`)
	}
	b = appendPosition(b, position)
	return string(append(b, '}'))
}

// run follows the relation until ctx ends or the subscription fails.
func (s *subscription) run(ctx context.Context) {
	s.hub.stats.Subscriptions.Add(1)
	defer s.hub.stats.Subscriptions.Add(-1)
	err := s.follow(ctx)
	if err == nil || ctx.Err() != nil || errors.Is(err, errEnding) {
		return
	}
	p := problem.From(err)
	if p.Status == 500 {
		s.hub.opts.Logger.Error("live reader failed", "relation", s.op.To, "err", err)
	}
	if s.leave != nil {
		s.leave()
	}
	_ = s.out.emit(ctx, frame{data: errorMessage(s.op.ID, p)})
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
			if s.op.Where, err = s.client.Narrow(s.rel, s.op.Where); err != nil {
				return err
			}
		}
		return s.view(ctx, from)
	}
	if s.op.Where != "" || len(s.op.Range) > 0 || s.op.Order != "" || s.op.Limit != 0 {
		return problem.New(400, "no_selection", "where, range, order and limit select rows of views; %s is none", s.op.To).
			WithHint("make a view that filters, and subscribe to that")
	}
	if from.kind == "snapshot" {
		return problem.New(400, "no_snapshot", "%s has no snapshot: it is no view", s.op.To).
			WithHint(`subscribe from "latest", "earliest", a position or {"time":"…"}`)
	}
	leave, err := s.joinGroup(&from)
	if err != nil || leave == nil {
		return err
	}
	defer leave()
	switch s.rel.Kind {
	case Stream:
		return s.stream(ctx, from)
	case Alert:
		return s.numbered(ctx, from, alertSource{s.hub.opts.Alerts, s.rel.Name})
	default:
		return s.numbered(ctx, from, lateSource{s.hub.opts.Views, s.rel.Name})
	}
}

// subscribed answers the subscription.
func (s *subscription) subscribed(ctx context.Context, position string, recovered bool) error {
	s.answered, s.quiet = true, time.Now()
	b := appendPosition(begin("subscribed", s.op.ID), position)
	if recovered {
		b = append(b, `,"recovered":true}`...)
	} else {
		b = append(b, `,"recovered":false}`...)
	}
	return s.emit(ctx, frame{data: b, position: position})
}

// gap tells that the position that the client asked for, or stood at, is gone (I4).
func (s *subscription) gap(ctx context.Context, from, oldest string) error {
	s.hub.stats.Gaps.Add(1)
	b := begin("gap", s.op.ID)
	b = append(append(append(b, `,"from":"`...), from...), `","oldest":"`...)
	b = append(append(b, oldest...), '"')
	return s.emit(ctx, frame{data: append(s.appendNext(b), '}')})
}

// appendNext numbers a message that carries data (I5).
func (s *subscription) appendNext(b []byte) []byte {
	s.seq++
	return appendSeq(b, s.seq)
}

func (s *subscription) emit(ctx context.Context, f frame) error {
	f.sub = s
	return s.out.emit(ctx, f)
}

// progress says where the reader stands: once when it has caught up with where the relation stood
// when it subscribed, and from then on whenever nothing was said for a while, so that silence is
// provable. Before that there is none: it would be taken for the end of what was to be caught up with.
func (s *subscription) progress(ctx context.Context, position string, asOf json.RawMessage, lag time.Duration, caughtUp bool) error {
	if s.reached && s.untilProgress() > 0 || !s.reached && !caughtUp {
		return nil
	}
	s.reached = true
	return s.sayProgress(ctx, position, asOf, lag)
}

func (s *subscription) sayProgress(ctx context.Context, position string, asOf json.RawMessage, lag time.Duration) error {
	s.quiet = time.Now()
	b := appendAsOf(appendPosition(begin("progress", s.op.ID), position), asOf)
	b = append(b, `,"lag_ms":`...)
	b = appendInt(b, max(0, lag.Milliseconds()))
	return s.emit(ctx, frame{data: append(b, '}'), position: position})
}

// untilProgress is the time until the next progress message is due.
func (s *subscription) untilProgress() time.Duration {
	return max(0, s.hub.opts.ProgressEvery-time.Since(s.quiet))
}

// stillThere says whether the relation is the one that was subscribed to: a stream or an alert
// that is made anew under the same name is another one.
func (s *subscription) stillThere() error {
	now, err := s.hub.opts.Relations(s.op.To)
	if err == nil && now.ID != s.rel.ID {
		err = problem.New(404, "unknown_relation", "%s was deleted; there is another one of that name now", s.op.To).WithHint("subscribe again")
	}
	return err
}

// wait sleeps until something may have come, an ack has, progress is due or ctx ends.
func (s *subscription) wait(ctx context.Context, arrived <-chan struct{}) error {
	if err := s.stillThere(); err != nil {
		return err
	}
	timer := time.NewTimer(s.untilProgress())
	defer timer.Stop()
	select {
	case <-arrived:
	case <-s.bell:
		return s.takeAck(ctx)
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
