package web

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// CheckListen says whether an address may be listened on: without keys loopback only.
func CheckListen(address string, keys bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--listen %s: %w: write it as host:port, such as 127.0.0.1:8080", address, err)
	}
	if host == "localhost" || keys {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--listen %s: without keys everybody who reaches this address could read and change everything: "+
		"listen on 127.0.0.1, make an admin key with: tidemark key create NAME --scope admin, and start again", address)
}

// lingeringListener hands out lingering connections.
type lingeringListener struct{ net.Listener }

func (l lingeringListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &lingeringConn{TCPConn: tcp}, nil
	}
	return c, nil
}

// lingeringConn is closed gently when a request was refused before it was read whole. A plain
// close with unread input makes the kernel send a reset, and the client then loses the 413 that
// would have told it why.
type lingeringConn struct {
	*net.TCPConn
	linger atomic.Bool
}

// How much of a refused request is read and thrown away, and for how long.
const (
	lingerBytes = 64 << 20
	lingerTime  = 2 * time.Second
)

// lingerOn has a connection closed gently, also one beneath TLS.
func lingerOn(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if l, ok := c.(*lingeringConn); ok {
		l.linger.Store(true)
	}
}

// Close closes the connection, after a while of reading when the last request was refused unread.
func (c *lingeringConn) Close() error {
	if c.linger.Swap(false) {
		_ = c.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c.TCPConn, lingerBytes)
	}
	return c.TCPConn.Close()
}
