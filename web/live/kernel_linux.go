package live

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much of what a client has not asked for yet may lie in the kernel. Without a
// bound that is megabytes for a client that stands still, and a slow client of a view that folds
// would get all of it before anything newer.
const unsentBytes = 128 << 10

// boundUnsent sets the bound. A kernel that knows none keeps its own.
func boundUnsent(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}
