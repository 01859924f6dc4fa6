package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// benchServer is a server process of a benchmark.
type benchServer struct {
	addr string
	cmd  *exec.Cmd
	once sync.Once
}

func startBenchServer(ctx context.Context, dir string) (*benchServer, error) {
	return startPinned(ctx, "serve", "--data", dir, "--log-level", "error")
}

// startPinned starts a command of this binary that serves on loopback, on one core where taskset
// exists, and waits until it is ready.
func startPinned(ctx context.Context, args ...string) (*benchServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args = append(append([]string{exe}, args...), "--listen", addr)
	if taskset, err := exec.LookPath("taskset"); err == nil {
		args = append([]string{taskset, "-c", "0"}, args...)
	}
	s := &benchServer{addr: addr, cmd: exec.Command(args[0], args[1:]...)}
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 600 {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == 200 {
				return s, nil
			}
		}
		select {
		case <-ctx.Done():
			s.stop()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.stop()
	return nil, fmt.Errorf("the server did not become ready")
}

func (s *benchServer) client() *client { return serverFlags{Server: "http://" + s.addr}.client() }

// cpu is the time that the server process has used so far.
func (s *benchServer) cpu() time.Duration { return cpuOf(s.cmd.Process.Pid) }

func (s *benchServer) stop() {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
	})
}

// resident is what the server holds in memory, in bytes.
func (s *benchServer) resident() int64 { return residentOf(s.cmd.Process.Pid) }

// settle waits until the server does hardly anything, at most ten seconds.
func (s *benchServer) settle(ctx context.Context) error {
	before := s.cpu()
	for range 40 {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		now := s.cpu()
		if now-before <= 20*time.Millisecond {
			return nil
		}
		before = now
	}
	return nil
}
