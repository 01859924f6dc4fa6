package live

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// pacedConn watches how fast a client takes what is written. A write deadline for a whole message
// would cut off who reads a large snapshot slowly; this one begins anew with every piece that is
// taken, so only who takes nothing at all is cut off.
type pacedConn struct {
	net.Conn
	// patience is how long nothing may be taken.
	patience time.Duration
	// stalled is called once, in the middle of a write, when that time is over. The write then goes
	// on for the same time again, at most maxGrace: a client that wakes up gets to know why it is
	// cut off.
	stalled func()

	gaveUp atomic.Bool
	killed atomic.Bool
}

const (
	pieceBytes = 32 << 10
	maxGrace   = 10 * time.Second
)

var longAgo = time.Unix(1, 0)

func (c *pacedConn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		wait := c.patience
		if c.gaveUp.Load() {
			wait = min(wait, maxGrace)
		}
		_ = c.SetWriteDeadline(time.Now().Add(wait))
		if c.killed.Load() {
			_ = c.SetWriteDeadline(longAgo)
		}
		k, err := c.Conn.Write(p[n:min(len(p), n+pieceBytes)])
		n += k
		switch {
		case err == nil || k > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case c.killed.Load() || !errors.Is(err, os.ErrDeadlineExceeded) || c.gaveUp.Swap(true):
			return n, err
		}
		c.stalled()
	}
	return n, nil
}

// kill makes all reads and writes fail from now on. The connection is closed later, by its owner:
// closing it here would end Fiber's hijack while the pumps still use it.
func (c *pacedConn) kill() {
	c.killed.Store(true)
	_ = c.SetDeadline(longAgo)
	// fasthttp takes all deadlines away when it gives a connection up, which may be just now.
	time.AfterFunc(100*time.Millisecond, func() { _ = c.SetDeadline(longAgo) })
}

// pacedWriter hands gorilla a paced connection.
type pacedWriter struct {
	http.ResponseWriter
	conn *pacedConn
}

func (w *pacedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := w.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("the connection can't be taken over")
	}
	c, rw, err := h.Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.conn.Conn = c
	return w.conn, rw, nil
}
