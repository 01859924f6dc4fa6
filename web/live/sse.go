package live

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// eventStream answers a subscription as server-sent events: the messages of the websocket, each
// with its position as id, so that a browser that comes back goes on where it was.
type eventStream struct {
	hub  *Hub
	conn net.Conn
	w    *bufio.Writer
	// filled is signalled when something waits, ended closed when nothing more will.
	filled  chan struct{}
	ended   chan struct{}
	endOnce sync.Once
	mu      struct {
		sync.Mutex
		waiting []eventOut // at most maxWaiting
		room    chan struct{}
		away    []byte // the last message of a server that stops
	}
}

// eventOut is a message that waits; its content is shared.
type eventOut struct {
	own []byte
	c   *content
}

func (h *Hub) eventStream(c *fiber.Ctx, o op) error {
	if o.Group != "" {
		return problem.New(400, "no_groups", "server-sent events can't be acknowledged, so they are read without a group").
			WithHint("use a websocket, or keep the last id yourself")
	}
	if last := c.Get("Last-Event-ID"); last != "" {
		o.From = row.AppendJSONString(nil, last)
	}
	client := h.opts.Client(c)
	s := &eventStream{hub: h, conn: c.Context().Conn(), filled: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := h.admit(s, client); err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, "text/event-stream; charset=utf-8")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set("X-Accel-Buffering", "no")
	// The writer runs when the handler has returned: it must not touch c.
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer h.leave(s)
		defer h.guard("event stream", s.stop)
		s.w = w
		sub := newSubscription(context.Background(), h, o, s, client, nil)
		sub.start()
		defer sub.stop()
		s.write(sub)
	})
	return nil
}

// write sends what waits until the stream ends.
func (s *eventStream) write(sub *subscription) {
	for {
		over := false
		select {
		case <-s.filled:
		case <-sub.done: // what it said last waits
			over = true
		case <-s.ended:
			over = true
		}
		s.mu.Lock()
		out, away := s.mu.waiting, s.mu.away
		s.mu.waiting = nil
		if s.mu.room != nil {
			close(s.mu.room)
			s.mu.room = nil
		}
		s.mu.Unlock()
		if !s.send(out, away) || over {
			s.stop()
			return
		}
	}
}

// send writes messages and sees them on their way.
func (s *eventStream) send(out []eventOut, away []byte) bool {
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.hub.opts.StallAfter))
	for _, m := range out {
		if m.c.position != nil {
			_, _ = s.w.WriteString("id: " + *m.c.position + "\n")
		}
		_, _ = s.w.WriteString("data: ")
		_, _ = s.w.Write(m.own)
		if bytes.IndexByte(m.c.rest, '\n') < 0 {
			_, _ = s.w.Write(m.c.rest)
		} else {
			_, _ = s.w.Write(bytes.ReplaceAll(m.c.rest, []byte("\n"), []byte("\ndata: ")))
		}
		_, _ = s.w.WriteString("\n\n")
		s.hub.stats.count(len(m.own) + len(m.c.rest))
	}
	if away != nil {
		_, _ = s.w.WriteString("data: " + string(away) + "\n\n")
	}
	return s.w.Flush() == nil
}

func (s *eventStream) offer(sub *subscription, batch []*content) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		return ended
	default:
	}
	if n := len(s.mu.waiting); n > 0 && (sub.folds() || n+len(batch) > maxWaiting) {
		return full
	}
	for _, c := range batch {
		s.mu.waiting = append(s.mu.waiting, eventOut{sub.appendBeginning(nil, c), c})
	}
	select {
	case s.filled <- struct{}{}:
	default:
	}
	return taken
}

func (s *eventStream) room(*subscription, int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.waiting) == 0 {
		return closed
	}
	if s.mu.room == nil {
		s.mu.room = make(chan struct{})
	}
	return s.mu.room
}

// stop ends the stream. Server-sent events have no close codes.
func (s *eventStream) stop() { s.endOnce.Do(func() { close(s.ended) }) }

func (s *eventStream) end(farewell)          { s.stop() }
func (s *eventStream) tooSlow(*subscription) { s.stop() }
func (s *eventStream) revoke()               { s.stop() }

func (s *eventStream) sendAway(after time.Duration) {
	s.mu.Lock()
	s.mu.away = reconnectMessage(after)
	s.mu.Unlock()
	s.stop()
}

func (s *eventStream) kill() {
	s.stop()
	_ = s.conn.SetDeadline(longAgo)
}

var longAgo = time.Unix(1, 0)
