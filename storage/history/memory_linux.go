//go:build cgo

package history

import "golang.org/x/sys/unix"

// totalMemory is the machine's memory in bytes.
func totalMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 4 << 30
	}
	return int64(info.Totalram) * int64(info.Unit)
}
