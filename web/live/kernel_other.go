//go:build !linux

package live

import "syscall"

// boundUnsent does nothing here: what lies in the kernel is bounded by its send buffers.
func boundUnsent(syscall.RawConn) {}
