package live

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"tidemark/storage/problem"
)

// socket is one websocket.
type socket struct {
	hub    *Hub
	conn   *websocket.Conn
	net    *pacedConn
	client Client
	// out hands frames to the writer, one at a time.
	out chan frame
	// ending is closed once the socket is to end; farewell is set before.
	ending   chan struct{}
	endOnce  sync.Once
	farewell farewell

	ctx    context.Context // ends with the socket; its subscriptions' parent
	cancel context.CancelFunc
	// running are the subscriptions' goroutines.
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		subs    map[string]*subscription
		current *subscription // whose frame is being written
	}
}

// frame is one message on its way out.
type frame struct {
	data []byte
	sub  *subscription
	// position is where the reader stands once it has this message; empty: where it stood.
	position string
}

// farewell is how a socket ends. Code 0: the client is gone, nothing is said.
type farewell struct {
	code   int
	reason string
	last   []byte // a message before the close frame
	// sub, when not nil, is the reader whose place is the reason.
	sub *subscription
}

var errEnding = errors.New("the socket ends")

// closePatience is how long the other side may take to answer a close frame.
const closePatience = 2 * time.Second

// maxLinger is how much of a message that is too large is read and thrown away.
const maxLinger = 16 << 20

// serve runs a socket until it ends; first, when not nil, is what the address asked for.
func (h *Hub) serve(conn *websocket.Conn, paced *pacedConn, client Client, first *op) {
	s := &socket{hub: h, conn: conn, net: paced, client: client, out: make(chan frame), ending: make(chan struct{})}
	s.mu.subs = map[string]*subscription{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	defer s.cancel()
	paced.stalled = s.stalled
	if err := h.admit(s, client); err != nil {
		s.end(farewell{code: websocket.CloseTryAgainLater, reason: clip(err.Error(), 120)})
	} else {
		defer h.leave(s)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		defer h.guard("writer", s.kill)
		s.write()
	})
	func() {
		defer h.guard("reader", s.fail)
		if first != nil {
			s.do(*first)
		}
		s.read()
	}()
	s.end(farewell{}) // the client is gone; does nothing when a farewell is on its way
	s.cancel()
	s.hangUp(&writer)
	s.running.Wait()
	_ = conn.Close() // both pumps have ended: now Fiber may have its connection back
}

// hangUp waits for the writer. The reader has ended, so nobody answers what it still writes.
func (s *socket) hangUp(writer *sync.WaitGroup) {
	patience := time.AfterFunc(closePatience, s.kill)
	defer patience.Stop()
	writer.Wait()
}

// end asks the writer to say goodbye and stop. The first farewell counts.
func (s *socket) end(f farewell) {
	s.endOnce.Do(func() {
		s.farewell = f
		close(s.ending)
	})
}

func (s *socket) isEnding() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

func (s *socket) sendAway(after time.Duration) {
	s.end(farewell{code: websocket.CloseServiceRestart, reason: "the server restarts", last: reconnectMessage(after)})
}

func (s *socket) fail() {
	s.end(farewell{code: websocket.CloseInternalServerErr, reason: "the server made a mistake"})
}

func (s *socket) kill() {
	s.end(farewell{})
	s.net.kill()
}

// stalled is called while a write waits for a client that takes nothing (I7).
func (s *socket) stalled() {
	s.hub.stats.CutOff.Add(1)
	s.mu.Lock()
	sub := s.mu.current
	s.mu.Unlock()
	s.tooSlow(sub)
}

func (s *socket) tooSlow(sub *subscription) {
	if sub != nil {
		s.hub.opts.Logger.Warn("a reader is too slow and is cut off", "relation", sub.op.To)
	}
	s.end(farewell{code: closeTooSlow, sub: sub})
}

// read takes the client's messages until the connection ends.
func (s *socket) read() {
	s.conn.SetReadLimit(s.hub.opts.MaxMessage)
	alive := func() { _ = s.conn.SetReadDeadline(time.Now().Add(3 * s.hub.opts.PingEvery)) }
	alive()
	s.conn.SetPongHandler(func(string) error {
		if !s.isEnding() {
			alive()
		}
		return nil
	})
	for {
		kind, data, err := s.conn.ReadMessage()
		if errors.Is(err, websocket.ErrReadLimit) {
			s.linger()
		}
		if err != nil {
			return
		}
		if s.isEnding() {
			continue // read on until the client has answered the close frame
		}
		alive()
		if kind != websocket.TextMessage {
			s.end(farewell{code: closeBadMessage, reason: "messages are JSON in text frames"})
			continue
		}
		o, err := parseOp(data)
		if err != nil {
			s.end(farewell{code: closeBadMessage, reason: clip(err.Error(), 120)})
			continue
		}
		s.do(o)
	}
}

// linger reads the rest of a message that was too large, for which gorilla has sent the close frame:
// closing with unread input would reset the connection, and the client would not get to know why.
func (s *socket) linger() {
	_ = s.net.SetReadDeadline(time.Now().Add(closePatience))
	_, _ = io.CopyN(io.Discard, s.net, maxLinger)
}

// write is the only goroutine that writes messages. It ends with the farewell.
func (s *socket) write() {
	ping := time.NewTicker(s.hub.opts.PingEvery)
	defer ping.Stop()
	for !s.isEnding() {
		select {
		case <-s.ending:
		case <-s.client.Revoked:
			s.end(farewell{code: closeNoKey, reason: "the key was revoked or changed"})
		case f := <-s.out:
			s.mu.Lock()
			s.mu.current = f.sub
			s.mu.Unlock()
			if err := s.conn.WriteMessage(websocket.TextMessage, f.data); err != nil {
				s.kill()
				return
			}
			s.hub.stats.Frames.Add(1)
			s.hub.stats.Bytes.Add(int64(len(f.data)))
			if f.sub != nil && f.position != "" && f.sub.group == nil {
				f.sub.stand.Store(&f.position)
			}
		case <-ping.C:
			if err := s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(s.hub.opts.StallAfter)); err != nil {
				s.kill()
				return
			}
		}
	}
	s.sayGoodbye()
}

func (s *socket) sayGoodbye() {
	s.cancel()
	f := s.farewell
	if f.code == 0 {
		s.net.kill()
		return
	}
	if f.last != nil && s.conn.WriteMessage(websocket.TextMessage, f.last) != nil {
		s.net.kill()
		return
	}
	if f.sub != nil {
		f.reason = f.sub.standing()
	}
	message := websocket.FormatCloseMessage(f.code, clip(f.reason, 120))
	if s.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(closePatience)) != nil {
		s.net.kill()
		return
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(closePatience))
}

// emit hands a frame to the writer.
func (s *socket) emit(ctx context.Context, f frame) error {
	select {
	case s.out <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ending:
		return errEnding
	}
}

// do carries out one message of the client.
func (s *socket) do(o op) {
	s.mu.Lock()
	sub := s.mu.subs[o.ID]
	n := len(s.mu.subs)
	s.mu.Unlock()
	refuse := func(p *problem.Problem) {
		_ = s.emit(s.ctx, frame{data: errorMessage(o.ID, p)})
	}
	switch o.Op {
	case "subscribe":
		switch {
		case sub != nil:
			refuse(problem.New(409, "id_in_use", "a subscription with the id %q is running", o.ID).
				WithHint("unsubscribe it first, or use another id"))
		case n >= s.hub.opts.MaxSubscriptions:
			refuse(problem.New(429, "too_many_subscriptions", "this connection has %d subscriptions already", n).
				WithHint("unsubscribe what is not needed, or open another connection"))
		default:
			s.subscribe(o)
		}
	case "unsubscribe", "ack":
		if sub == nil {
			refuse(problem.New(404, "unknown_id", "there is no subscription with the id %q", o.ID).
				WithHint("it may have ended with an error message before"))
			return
		}
		if o.Op == "ack" {
			sub.ring(o.Position)
			return
		}
		sub.cancel()
		<-sub.done
	}
}

// subscribe starts a subscription's goroutine.
func (s *socket) subscribe(o op) {
	sub := newSubscription(s.hub, o, s, s.client)
	var ctx context.Context
	ctx, sub.cancel = context.WithCancel(s.ctx)
	s.mu.Lock()
	s.mu.subs[o.ID] = sub
	s.mu.Unlock()
	sub.leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.subs[o.ID] == sub {
			delete(s.mu.subs, o.ID)
		}
	}
	s.running.Go(func() {
		defer func() {
			sub.cancel()
			sub.leave()
			close(sub.done)
		}()
		defer s.hub.guard("subscription to "+o.To, func() {
			_ = s.emit(ctx, frame{data: errorMessage(o.ID, problem.From(errors.New("panic")))})
		})
		sub.run(ctx)
	})
}
