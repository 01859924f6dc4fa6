//go:build cgo

package history

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// process is one life of the child.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	client *http.Client
	// done is closed when the process has ended; then err says how.
	done chan struct{}
	err  error
	// served says that it answered at least once.
	served atomic.Bool
	// killed says that we ended it, for a query that outlived its deadline.
	killed atomic.Bool
}

// startWithin bounds opening the file: replaying DuckDB's log takes time.
const startWithin = 2 * time.Minute

// openFailures in a row and the parent itself sets the file aside: it makes the child die, so the
// child can't.
const openFailures = 3

// supervise keeps a child running until Close. first gets the outcome of the first start.
func (h *History) supervise(first chan<- error) {
	useless, unopened := 0, 0 // lives in a row that answered nothing, starts that failed
	for {
		p, said, err := h.startProcess()
		if err != nil {
			unopened++
			h.note(err.Error())
			h.log.Error("history could not start", "err", err)
			if unopened == openFailures {
				h.setAsideBy(err)
			}
			if unopened > openFailures && first != nil {
				first <- err
				return
			}
		} else {
			unopened = 0
			if said.SetAside != "" {
				h.mu.Lock()
				h.mu.setAside, h.mu.reason = said.SetAside, said.Reason
				h.mu.Unlock()
				h.log.Error("history's file would not open; it was set aside and is built again from the log", "file", said.SetAside, "err", said.Reason)
			}
			h.setProcess(p)
			if first != nil {
				first <- nil
				first = nil
			}
			select {
			case <-p.done:
			case <-h.ended:
				h.setProcess(nil)
				p.end()
				return
			}
			h.setProcess(nil)
			h.counts.restarts.Add(1)
			h.note(fmt.Sprintf("ended: %v", p.err))
			if !p.killed.Load() {
				h.log.Warn("history's process ended and is started again", "err", p.err)
			}
			if p.served.Load() || p.killed.Load() {
				useless = 0
				continue
			}
		}
		useless++
		select {
		case <-time.After(restartDelay(useless)):
		case <-h.ended:
			if first != nil {
				first <- errClosed
			}
			return
		}
	}
}

func (h *History) note(fault string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.fault = fault
}

// setAsideBy moves a file away that ends every child that opens it.
func (h *History) setAsideBy(cause error) {
	name, err := setAside(h.opts.Dir)
	if err != nil {
		h.log.Error("history's file could not be set aside", "err", err)
		return
	}
	h.mu.Lock()
	h.mu.setAside, h.mu.reason = name, cause.Error()
	h.mu.Unlock()
	h.log.Error("history's file ends every process that opens it; it was set aside and is built again from the log", "file", name, "err", cause)
}

// startProcess starts a child and waits until it serves.
func (h *History) startProcess() (*process, hello, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, hello{}, err
	}
	cfg, err := json.Marshal(childConfig{Dir: h.opts.Dir, Socket: h.socket, Memory: h.opts.MemoryLimit, Threads: h.opts.Threads})
	if err != nil {
		return nil, hello{}, err
	}
	p := &process{cmd: exec.Command(exe, childArgument, string(cfg)), done: make(chan struct{})}
	p.cmd.Env = []string{} // nothing of ours: keys may be in the environment
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, hello{}, err
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, hello{}, err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, hello{}, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, hello{}, err
	}
	greeting := make(chan hello, 1)
	var readers [2]chan struct{}
	for i := range readers {
		readers[i] = make(chan struct{})
	}
	go func() {
		defer close(readers[0])
		r := bufio.NewReaderSize(stdout, 4096)
		line, _ := r.ReadBytes('\n')
		var said hello
		if err := json.Unmarshal(line, &said); err != nil {
			said.Error = "it ended while it opened its file"
		}
		greeting <- said
		_, _ = io.Copy(io.Discard, r) // DuckDB's profiling would write here
	}()
	go func() {
		defer close(readers[1])
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			h.log.Warn("history's process says", "text", lines.Text())
		}
		_, _ = io.Copy(io.Discard, stderr) // a line too long to scan
	}()
	go func() {
		for _, c := range readers { // Wait closes the pipes, so they are read first
			<-c
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	var said hello
	select {
	case said = <-greeting:
	case <-time.After(startWithin):
		said.Error = fmt.Sprintf("it did not open its file within %s", startWithin)
	case <-h.ended:
		said.Error = errClosed.Error()
	}
	if said.Error != "" {
		_ = p.cmd.Process.Kill()
		<-p.done
		return nil, hello{}, errors.New(said.Error)
	}
	p.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", h.socket)
		},
		MaxIdleConnsPerHost: 4,
		DisableCompression:  true,
	}}
	return p, said, nil
}

// end asks the child to close its file and end, and waits for it.
func (p *process) end() {
	_ = p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(childEndsWithin + time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	p.client.CloseIdleConnections()
}

// kill ends the child at once.
func (p *process) kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.done
}
