package live

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

// An outbox is the way out of a websocket. Whoever has a message writes it himself, as far as the
// kernel takes it without waiting; so a client that keeps up costs one system call and no
// goroutine. What the kernel does not take waits here, and a goroutine that lives as long as
// something waits writes it. Nothing overtakes, and no frame is cut in two by another one.
//
// It is the connection that gorilla reads from; the control frames that gorilla writes (pongs, the
// answer to a close frame) go the same way out.
type outbox struct {
	net.Conn
	hub *Hub
	// raw writes without waiting; nil when that can't be done (TLS): then everything waits.
	raw syscall.RawConn
	try attempt
	// stalled is called in the middle of a write for a subscription when its client has taken nothing
	// for a while. The write then goes on for the same time again, at most maxGrace: a client that
	// wakes up gets to know why it is cut off.
	stalled func(*subscription)
	// done is closed when nothing is written any more.
	done chan struct{}
	mu   struct {
		sync.Mutex
		waiting []piece // at most maxWaiting, and a few control frames
		pumping bool    // a goroutine writes what waits
		ending  bool    // nothing more is taken
		// goodbye are the last frames; nil: there are none.
		goodbye func() []byte
		// room, when not nil, is closed when something that waited was written.
		room chan struct{}
	}
}

const (
	// maxWaiting bounds the messages that wait for a client; a reader with more for it waits, or
	// leaves the cast.
	maxWaiting = 16
	// maxControl bounds the control frames that wait beside them; who sends pings and reads nothing
	// gets no more answers.
	maxControl = 4
	// maxCopied is the size up to which messages are put together in a buffer.
	maxCopied = 64 << 10
	// pieceBytes is how much of a long message is written in one go: the deadline begins anew with
	// every piece that is taken, so only who takes nothing at all is cut off.
	pieceBytes = 32 << 10
	maxGrace   = 10 * time.Second
)

// piece is a frame that waits, or the rest of one.
type piece struct {
	own      []byte // what only this client gets
	shared   []byte // and the content behind it
	sub      *subscription
	position *string
	begun    bool // a part of it was written: the rest must follow
}

// verdict is what becomes of messages that are offered.
type verdict uint8

const (
	taken verdict = iota // they are on their way, or will be
	full                 // none was taken: the client is behind
	ended                // the connection has
)

var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func newOutbox(h *Hub, conn net.Conn, stalled func(*subscription)) *outbox {
	o := &outbox{Conn: conn, hub: h, stalled: stalled, done: make(chan struct{})}
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			boundUnsent(raw)
			o.raw = raw
		}
	}
	o.try.once = o.try.write
	return o
}

// offer takes messages of a subscription, all or none, without waiting for the client.
func (o *outbox) offer(s *subscription, batch []*content) verdict {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.ending {
		return ended
	}
	size := 0
	for _, c := range batch {
		size += len(c.rest)
	}
	if o.mu.pumping && !o.fitsLocked(s, len(batch)) {
		return full
	}
	if o.mu.pumping || size > maxCopied || o.raw == nil {
		for _, c := range batch {
			own := s.appendStart(nil, c)
			o.hub.stats.count(len(own) + len(c.rest))
			o.mu.waiting = append(o.mu.waiting, piece{own: own, shared: c.rest, sub: s, position: c.position})
		}
		o.pumpLocked()
		return taken
	}
	pooled := scratch.Get().(*[]byte)
	buf := (*pooled)[:0]
	var ends [maxBatch][2]int // where the content of each message begins, and ends
	for i, c := range batch {
		buf = s.appendStart(buf, c)
		ends[i][0] = len(buf)
		buf = append(buf, c.rest...)
		ends[i][1] = len(buf)
		o.hub.stats.count(ends[i][1] - ends[i][0])
	}
	n, err := o.tryLocked(buf)
	if err == nil {
		o.keepLocked(s, batch, buf, ends, n)
	}
	*pooled = buf
	scratch.Put(pooled)
	if err != nil {
		o.breakLocked()
		return ended
	}
	return taken
}

// keepLocked lets what lies behind the first n bytes wait.
func (o *outbox) keepLocked(s *subscription, batch []*content, buf []byte, ends [maxBatch][2]int, n int) {
	from := 0
	for i, c := range batch {
		body, end := ends[i][0], ends[i][1]
		switch {
		case n >= end:
			s.standAt(c.position)
		case n < body:
			own := bytes.Clone(buf[max(n, from):body])
			o.mu.waiting = append(o.mu.waiting, piece{own: own, shared: c.rest, sub: s, position: c.position, begun: n > from})
		default:
			o.mu.waiting = append(o.mu.waiting, piece{shared: c.rest[n-body:], sub: s, position: c.position, begun: true})
		}
		from = end
	}
	if n < len(buf) {
		o.pumpLocked()
	}
}

// fitsLocked says whether so many more messages may wait. Of a view that folds only one may: what
// comes next is folded into it until it is on its way.
func (o *outbox) fitsLocked(s *subscription, n int) bool {
	if len(o.mu.waiting) == 0 {
		return true
	}
	if len(o.mu.waiting)+n > maxWaiting {
		return false
	}
	return !s.folds() || !slices.ContainsFunc(o.mu.waiting, func(p piece) bool { return p.sub == s })
}

// room returns a channel that is closed once so many more messages of the subscription may fit.
func (o *outbox) room(s *subscription, n int) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.ending || !o.mu.pumping || o.fitsLocked(s, n) {
		return closed
	}
	if o.mu.room == nil {
		o.mu.room = make(chan struct{})
	}
	return o.mu.room
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (o *outbox) roomLocked() {
	if o.mu.room != nil {
		close(o.mu.room)
		o.mu.room = nil
	}
}

// Write takes a control frame.
func (o *outbox) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	if !o.mu.pumping && !o.mu.ending {
		var err error
		if n, err = o.tryLocked(p); err != nil {
			o.breakLocked()
			return n, err
		}
	}
	if n < len(p) && len(o.mu.waiting) < maxWaiting+maxControl {
		o.mu.waiting = append(o.mu.waiting, piece{own: bytes.Clone(p[n:]), begun: n > 0})
		if !o.mu.ending {
			o.pumpLocked()
		}
	}
	return len(p), nil
}

// finish ends the outbox: what waits and was not begun is dropped, its reader knows its position.
// The first goodbye counts.
func (o *outbox) finish(goodbye func() []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.ending {
		return
	}
	o.mu.ending, o.mu.goodbye = true, goodbye
	o.mu.waiting = slices.DeleteFunc(o.mu.waiting, func(p piece) bool { return p.sub != nil && !p.begun })
	o.roomLocked()
	switch {
	case o.mu.pumping: // it will come to it
	case goodbye == nil && len(o.mu.waiting) == 0:
		close(o.done)
	default:
		o.pumpLocked()
	}
}

// breakLocked gives the connection up.
func (o *outbox) breakLocked() {
	_ = o.Conn.Close()
	was := o.mu.ending
	o.mu.ending, o.mu.goodbye, o.mu.waiting = true, nil, nil
	o.roomLocked()
	if !o.mu.pumping && !was {
		close(o.done)
	}
}

// kill ends all reads and writes at once.
func (o *outbox) kill() {
	o.finish(nil)
	_ = o.Conn.Close()
}

// pumpLocked starts the goroutine that writes what waits, if there is none.
func (o *outbox) pumpLocked() {
	if !o.mu.pumping {
		o.mu.pumping = true
		go o.pump()
	}
}

func (o *outbox) pump() {
	defer o.hub.guard("writer", func() { // what was being written is cut off in its middle
		o.mu.Lock()
		defer o.mu.Unlock()
		o.breakLocked()
		close(o.done)
	})
	gaveUp := false
	for {
		p, goodbye, more := o.head()
		if !more {
			return
		}
		err := o.write(&p, &gaveUp)
		o.mu.Lock()
		if err != nil {
			o.breakLocked()
		} else if !goodbye {
			o.mu.waiting = slices.Delete(o.mu.waiting, 0, 1)
			o.roomLocked()
		}
		o.mu.Unlock()
		switch {
		case err == nil && goodbye: // the client has a moment to answer
			_ = o.SetReadDeadline(time.Now().Add(closePatience))
		case err == nil && p.sub != nil:
			p.sub.standAt(p.position)
		}
	}
}

// head is what is to be written next; without any, the pump is no more.
func (o *outbox) head() (p piece, goodbye, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(o.mu.waiting) > 0:
		o.mu.waiting[0].begun = true
		return o.mu.waiting[0], false, true
	case o.mu.goodbye != nil:
		p.own = o.mu.goodbye()
		o.mu.goodbye = nil
		return p, true, true
	case o.mu.ending:
		close(o.done)
	default:
		_ = o.Conn.SetWriteDeadline(time.Time{})
		o.mu.waiting = nil
	}
	o.mu.pumping = false
	return p, false, false
}

// write writes one frame and waits for the client as long as it takes anything.
func (o *outbox) write(p *piece, gaveUp *bool) error {
	if len(p.own)+len(p.shared) <= maxCopied {
		pooled := scratch.Get().(*[]byte)
		defer scratch.Put(pooled)
		*pooled = append(append((*pooled)[:0], p.own...), p.shared...)
		return o.paced(*pooled, p.sub, gaveUp)
	}
	if err := o.paced(p.own, p.sub, gaveUp); err != nil {
		return err
	}
	return o.paced(p.shared, p.sub, gaveUp)
}

func (o *outbox) paced(b []byte, sub *subscription, gaveUp *bool) error {
	for len(b) > 0 {
		wait := o.hub.opts.StallAfter
		if *gaveUp {
			wait = min(wait, maxGrace)
		}
		_ = o.Conn.SetWriteDeadline(time.Now().Add(wait))
		n, err := o.Conn.Write(b[:min(len(b), pieceBytes)])
		b = b[n:]
		timeout, ok := err.(net.Error)
		switch {
		case err == nil || n > 0 && ok && timeout.Timeout():
			continue
		case *gaveUp || !ok || !timeout.Timeout():
			return err
		}
		*gaveUp = true
		o.stalled(sub)
	}
	return nil
}

// SetWriteDeadline does nothing: the pump has its own patience, and who does not wait needs none.
func (o *outbox) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is about reading, for the same reason.
func (o *outbox) SetDeadline(t time.Time) error { return o.Conn.SetReadDeadline(t) }

// attempt writes as much as the kernel takes at once.
type attempt struct {
	once func(fd uintptr) bool // write, as a value that is made once
	p    []byte
	n    int
	err  error
}

func (a *attempt) write(fd uintptr) bool {
	for {
		a.n, a.err = syscall.Write(int(fd), a.p)
		switch a.err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			a.err = nil
		}
		a.n = max(a.n, 0)
		return true // whatever came of it: nobody waits here
	}
}

func (o *outbox) tryLocked(p []byte) (int, error) {
	if o.raw == nil {
		return 0, nil
	}
	o.try.p = p
	err := o.raw.Write(o.try.once)
	o.try.p = nil
	if err == nil {
		err = o.try.err
	}
	return o.try.n, err
}

// appendFrame appends the header of a frame that is not cut in parts.
func appendFrame(b []byte, opcode byte, n int) []byte {
	b = append(b, 0x80|opcode)
	switch {
	case n < 126:
		return append(b, byte(n))
	case n <= 0xFFFF:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
}

var pingFrame = appendFrame(nil, websocket.PingMessage, 0)
