package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// cpuOf is the time that a process has used so far; 0 when it can't be read.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	var user, system int64
	fields := strings.Fields(rest)
	if len(fields) > 12 {
		fmt.Sscan(fields[11], &user)
		fmt.Sscan(fields[12], &system)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}

// keepOffServer keeps this process, all its threads, off the core that a benchmark's server has,
// where there are others and taskset exists.
func keepOffServer() {
	if taskset, err := exec.LookPath("taskset"); err == nil && runtime.NumCPU() > 1 {
		_ = exec.Command(taskset, "-a", "-p", "-c", fmt.Sprintf("1-%d", runtime.NumCPU()-1), strconv.Itoa(os.Getpid())).Run()
	}
}

// residentOf is what a process holds in memory, in bytes; 0 when it can't be read.
func residentOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kb int64
	fmt.Sscan(rest, &kb)
	return kb << 10
}

// childrenOf are the processes that a process has started: for a server that is history's.
func childrenOf(pid int) []int {
	var out []int
	all, _ := os.ReadDir("/proc")
	for _, p := range all {
		n, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			out = append(out, n)
		}
	}
	return out
}

// metric reads one figure without labels from a server's /metrics; 0 when it is not there.
func metric(ctx context.Context, cl *client, name string) float64 {
	resp, err := cl.do(ctx, "GET", "/metrics", nil, nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, _ := strconv.ParseFloat(value, 64)
			return f
		}
	}
	return 0
}
