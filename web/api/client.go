package api

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchClient calls gone when the client closes its connection while its request is being worked
// on: fasthttp does not look then. It looks without taking anything, so what a client may have sent
// already for its next request stays where it is. The function that it returns ends the watch.
func watchClient(conn net.Conn, gone func()) (stop func()) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return func() {}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if closedByPeer(raw) {
					gone()
					return
				}
			}
		}
	}()
	return func() { close(done) }
}

func closedByPeer(raw syscall.RawConn) bool {
	closed := false
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = n == 0 && err == nil || err == unix.ECONNRESET
	})
	return closed || err != nil
}
