package live

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"tidemark/storage/problem"
)

// socket is one websocket. Its goroutine reads; see outbox for who writes.
type socket struct {
	hub    *Hub
	conn   *websocket.Conn
	out    *outbox
	client Client
	// ending is closed once the socket is to end.
	ending  chan struct{}
	endOnce sync.Once

	ctx    context.Context // ends with the socket; its subscriptions' parent
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex
		subs  map[string]*subscription
		ping  *time.Timer
		ended bool
	}
}

// farewell is how a socket ends. Code 0: the client is gone, nothing is said.
type farewell struct {
	code   int
	reason string
	last   []byte // a message before the close frame
	// sub, when not nil, is the reader whose place is the reason.
	sub *subscription
}

// closePatience is how long the other side may take to answer a close frame.
const closePatience = 2 * time.Second

// maxLinger is how much of a message that is too large is read and thrown away.
const maxLinger = 16 << 20

// serve makes a websocket of a connection and starts its goroutine; first, when not nil, is what the
// address asked for.
func (h *Hub) serve(conn net.Conn, handshake *http.Request, answer http.Header, client Client, first *op) {
	s := &socket{hub: h, client: client, ending: make(chan struct{})}
	s.out = newOutbox(h, conn, s.stalled)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.subs = map[string]*subscription{}
	defer h.guard("handshake", s.kill)
	var err error
	if s.conn, err = upgrader.Upgrade(&takenOver{conn: s.out}, handshake, answer); err != nil {
		s.kill()
		return
	}
	switch err := h.admit(s, client); {
	case err != nil && problem.From(err).Code == serverStops: // it came while the others were being sent away
		s.sendAway(time.Second)
	case err != nil:
		s.end(farewell{code: websocket.CloseTryAgainLater, reason: clip(err.Error(), 120)})
	default:
		s.mu.Lock()
		s.mu.ping = time.AfterFunc(h.opts.PingEvery, s.ping)
		s.mu.Unlock()
	}
	go s.run(first) // with a stack of its own, which is small
}

// run reads until the socket ends.
func (s *socket) run(first *op) {
	defer s.hub.leave(s)
	func() {
		defer s.hub.guard("reader", s.fail)
		if first != nil {
			s.aside(func() { s.do(*first) })
		}
		s.read()
	}()
	s.end(farewell{}) // the client is gone; does nothing when a farewell is on its way
	s.leaveAll()
	s.hangUp()
	_ = s.out.Close()
}

// aside runs f in a goroutine and waits for it. What f needs of a stack would stay with the reader
// for as long as the socket lives, else.
func (s *socket) aside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.hub.guard("reader", s.fail)
		f()
	}()
	<-done
}

// leaveAll ends the subscriptions and the pings.
func (s *socket) leaveAll() {
	s.mu.Lock()
	s.mu.ended = true
	if s.mu.ping != nil {
		s.mu.ping.Stop()
	}
	subs := slices.Collect(maps.Values(s.mu.subs))
	s.mu.Unlock()
	for _, sub := range subs {
		sub.stop()
	}
}

// hangUp waits for what is still written. The reader has ended, so nobody answers it.
func (s *socket) hangUp() {
	patience := time.AfterFunc(closePatience, s.kill)
	defer patience.Stop()
	<-s.out.done
}

// ping asks whether the client is there, and is called again.
func (s *socket) ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		return
	}
	_, _ = s.out.Write(pingFrame)
	s.mu.ping.Reset(s.hub.opts.PingEvery)
}

// end says goodbye and stops. The first farewell counts.
func (s *socket) end(f farewell) {
	s.endOnce.Do(func() {
		close(s.ending)
		s.cancel()
		if f.code == 0 {
			s.out.finish(nil)
			return
		}
		s.out.finish(func() []byte { return f.frames() })
	})
}

// frames are what is written last.
func (f farewell) frames() (b []byte) {
	if f.last != nil {
		b = append(appendFrame(b, websocket.TextMessage, len(f.last)), f.last...)
	}
	if f.sub != nil {
		f.reason = f.sub.standing()
	}
	reason := websocket.FormatCloseMessage(f.code, clip(f.reason, 120))
	return append(appendFrame(b, websocket.CloseMessage, len(reason)), reason...)
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

func (s *socket) revoke() {
	s.end(farewell{code: closeNoKey, reason: "the key was revoked or changed, or the session ended"})
}

func (s *socket) kill() {
	s.end(farewell{})
	s.out.kill()
}

// stalled is called while a write waits for a client that takes nothing (I7).
func (s *socket) stalled(sub *subscription) {
	s.hub.stats.CutOff.Add(1)
	s.tooSlow(sub)
}

func (s *socket) tooSlow(sub *subscription) {
	if sub != nil {
		s.hub.opts.Logger.Warn("a reader is too slow and is cut off", "relation", sub.op.To)
	}
	s.end(farewell{code: closeTooSlow, sub: sub})
}

func (s *socket) offer(sub *subscription, batch []*content) verdict { return s.out.offer(sub, batch) }
func (s *socket) room(sub *subscription, n int) <-chan struct{}     { return s.out.room(sub, n) }

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
		s.aside(func() {
			o, err := parseOp(data)
			if err != nil {
				s.end(farewell{code: closeBadMessage, reason: clip(err.Error(), 120)})
				return
			}
			s.do(o)
		})
	}
}

// linger reads the rest of a message that was too large, for which gorilla has sent the close frame:
// closing with unread input would reset the connection, and the client would not get to know why.
func (s *socket) linger() {
	_ = s.out.SetReadDeadline(time.Now().Add(closePatience))
	_, _ = io.CopyN(io.Discard, s.out, maxLinger)
}

// do carries out one message of the client.
func (s *socket) do(o op) {
	s.mu.Lock()
	sub := s.mu.subs[o.ID]
	n := len(s.mu.subs)
	s.mu.Unlock()
	refuse := func(p *problem.Problem) {
		unknown := newSubscription(s.ctx, s.hub, op{To: o.To, ID: o.ID}, s, s.client, nil)
		defer unknown.cancel()
		_ = unknown.emit(s.ctx, errorContent(p))
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
		switch {
		case sub == nil:
			refuse(problem.New(404, "unknown_id", "there is no subscription with the id %q", o.ID).
				WithHint("it may have ended with an error message before"))
		case o.Op == "unsubscribe":
			sub.stop()
		case sub.bell == nil:
			refuse(problem.New(400, "bad_ack", "this subscription has no group, so there is nothing to acknowledge").
				WithHint(`subscribe with "group"`))
		default:
			sub.ring(o.Position)
		}
	}
}

// subscribe starts a subscription.
func (s *socket) subscribe(o op) {
	var sub *subscription
	sub = newSubscription(s.ctx, s.hub, o, s, s.client, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.subs[o.ID] == sub {
			delete(s.mu.subs, o.ID)
		}
	})
	s.mu.Lock()
	s.mu.subs[o.ID] = sub
	s.mu.Unlock()
	sub.start()
}
