package live

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// eventStream answers a subscription as server-sent events: the messages of the websocket, each
// with its position as id, so that a browser that comes back goes on where it was.
type eventStream struct {
	hub    *Hub
	conn   net.Conn
	w      *bufio.Writer
	ctx    context.Context
	cancel context.CancelFunc
	away   atomic.Pointer[[]byte] // the last message of a server that stops
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
	s := &eventStream{hub: h, conn: c.Context().Conn()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := h.admit(s, client); err != nil {
		s.cancel()
		return err
	}
	c.Set(fiber.HeaderContentType, "text/event-stream; charset=utf-8")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set("X-Accel-Buffering", "no")
	// The writer runs when the handler has returned: it must not touch c.
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer h.leave(s)
		defer s.cancel()
		defer h.guard("event stream", func() {})
		s.w = w
		defer s.endWith(client.Revoked)()
		newSubscription(h, o, s, client).run(s.ctx)
		if last := s.away.Load(); last != nil {
			_ = s.send(frame{data: *last})
		}
	})
	return nil
}

// endWith ends the stream when revoked is closed. The function that it returns ends the watch.
func (s *eventStream) endWith(revoked <-chan struct{}) (stop func()) {
	if revoked == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-revoked:
			s.cancel()
		case <-done:
		}
	}()
	return func() { close(done) }
}

func (s *eventStream) emit(ctx context.Context, f frame) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.send(f)
}

// send writes one message and sees it on its way. Only the stream's own goroutine calls it.
func (s *eventStream) send(f frame) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.hub.opts.StallAfter))
	if f.position != "" {
		_, _ = s.w.WriteString("id: " + f.position + "\n")
	}
	_, _ = s.w.WriteString("data: ")
	_, _ = s.w.Write(bytes.ReplaceAll(f.data, []byte("\n"), []byte("\ndata: ")))
	_, _ = s.w.WriteString("\n\n")
	if err := s.w.Flush(); err != nil {
		s.cancel()
		return errEnding
	}
	s.hub.stats.Frames.Add(1)
	s.hub.stats.Bytes.Add(int64(len(f.data)))
	return nil
}

// end stops the stream. Server-sent events have no close codes.
func (s *eventStream) end(farewell) { s.cancel() }

func (s *eventStream) tooSlow(*subscription) { s.cancel() }

func (s *eventStream) sendAway(after time.Duration) {
	last := reconnectMessage(after)
	s.away.Store(&last)
	s.cancel()
}

func (s *eventStream) kill() {
	s.cancel()
	_ = s.conn.SetDeadline(longAgo)
}
