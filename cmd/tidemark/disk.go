package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// freeSpace is how many bytes the disk under dir has left for us.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// diskSize is the size of the disk under dir in bytes.
func diskSize(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return st.Blocks * uint64(st.Bsize), nil
}
