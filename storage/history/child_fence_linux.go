//go:build cgo

package history

import (
	"os"

	"golang.org/x/sys/unix"
)

// addressSpaceMargin is what the limit on the address space leaves above DuckDB's memory limit:
// a bare Go and DuckDB process dies at 1.5 GiB and runs at 2.3.
const addressSpaceMargin = 4 << 30

// fenceProcess bounds this process from outside DuckDB: its address space, so that what slips
// DuckDB's own count fails with an error; no core files, which would hold rows; and the kernel
// takes this process first when memory runs out.
func fenceProcess(memory int64) error {
	if !raceDetector { // the detector maps terabytes
		limit := uint64(memory) + addressSpaceMargin
		if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	// Not permitted in some containers; the other fences hold without it.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	return nil
}

// giveWay lets the calling thread run only when others need less: loading is behind the log, and
// those who wait for an acknowledgement or an answer go first. It can't be taken back.
func giveWay() { _ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), loaderNice) }

// loaderNice is the thread's nice value: it gets a third of what another gets that wants all.
const loaderNice = 5
