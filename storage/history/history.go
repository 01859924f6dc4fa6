//go:build cgo

package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Options say how history is kept and how much it may take.
type Options struct {
	// Dir is the data directory; the file is Dir/history.duckdb. It must exist.
	Dir string
	// MemoryLimit is DuckDB's limit in the child, in bytes. Zero means a quarter of the
	// machine's memory, at most 4 GiB.
	MemoryLimit int64
	// Threads of the child's DuckDB. Zero means half of the cores, at least 1.
	Threads int
	// ParserMemory is the limit of the parser in this process. Zero means 64 MiB.
	ParserMemory int64
	// Queries run at once; zero means 8. Queue is how many more wait; zero means 32, negative none.
	Queries, Queue int
	// Logger gets starts, ends and faults of the child. Nil means slog.Default().
	Logger *slog.Logger
}

// WithDefaults returns a copy with every zero filled in.
func (o Options) WithDefaults() Options {
	if o.MemoryLimit <= 0 {
		o.MemoryLimit = min(totalMemory()/4, 4<<30)
	}
	if o.Threads <= 0 {
		o.Threads = max(runtime.NumCPU()/2, 1)
	}
	if o.ParserMemory <= 0 {
		o.ParserMemory = 64 << 20
	}
	if o.Queries <= 0 {
		o.Queries = 8
	}
	switch {
	case o.Queue == 0:
		o.Queue = 32
	case o.Queue < 0:
		o.Queue = 0
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// History keeps rows and answers SQL over them. It is safe for concurrent use.
type History struct {
	*Parser
	opts   Options
	log    *slog.Logger
	socket string
	// socketDir is a folder of our own that holds the socket, or "".
	socketDir string

	ended chan struct{} // closed by Close
	wait  sync.WaitGroup

	slots   chan struct{} // one element a running query
	waiting atomic.Int64
	lastID  atomic.Uint64
	counts  counts

	mu struct {
		sync.Mutex
		// proc is the child that serves; nil while there is none, then changed is closed when
		// that changes.
		proc     *process
		changed  chan struct{}
		fault    string // why the last child could not start or ended
		setAside string
		reason   string
	}
}

type counts struct{ queries, refused, killed, restarts, loads, rows atomic.Int64 }

// Status says how history stands, for /ops and metrics. Counts are since the start.
type Status struct {
	// Running is false while the child is being started again.
	Running bool
	PID     int
	// Restarts counts children that ended unasked, Killed those that we ended for a query that
	// outlived its deadline.
	Restarts, Killed int64
	// Queries, Refused count queries run and refused for a full queue; Active and Waiting are
	// those of now.
	Queries, Refused, Active, Waiting int64
	// Loads and Rows count what was taken in.
	Loads, Rows int64
	// SetAside is the name of a file that would not open and was replaced by an empty one, which
	// is being filled again; Reason is why. Empty: it did not happen since the start.
	SetAside, Reason string
	// Fault is why the last child ended or could not start; empty: none did.
	Fault string
}

// Start opens the parser and starts the child, which has opened the file when Start returns. ctx
// bounds the start only.
func Start(ctx context.Context, opts Options) (*History, error) {
	h := &History{opts: opts.WithDefaults(), ended: make(chan struct{})}
	h.log = h.opts.Logger.With("part", "history")
	h.slots = make(chan struct{}, h.opts.Queries)
	h.mu.changed = make(chan struct{})
	dir, err := filepath.Abs(h.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("start history: %w", err)
	}
	h.opts.Dir = dir
	if err := h.placeSocket(); err != nil {
		return nil, fmt.Errorf("start history: %w", err)
	}
	if h.Parser, err = NewParser(h.opts.ParserMemory); err != nil {
		h.removeSocket()
		return nil, err
	}
	first := make(chan error, 1)
	h.wait.Add(1)
	go func() {
		defer h.wait.Done()
		h.supervise(first)
	}()
	select {
	case err = <-first:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_ = h.Close()
		return nil, fmt.Errorf("start history: %w", err)
	}
	return h, nil
}

// maxSocketPath is what fits with a margin into the kernel's 107 bytes.
const maxSocketPath = 100

// placeSocket names the socket: in the data directory when its path is short enough, else in a
// folder of its own.
func (h *History) placeSocket() error {
	h.socket = filepath.Join(h.opts.Dir, "history.sock")
	if len(h.socket) <= maxSocketPath {
		return nil
	}
	dir, err := os.MkdirTemp("", "tidemark-") // 0700
	if err != nil {
		return err
	}
	h.socketDir = dir
	h.socket = filepath.Join(dir, "history.sock")
	return nil
}

func (h *History) removeSocket() {
	_ = os.Remove(h.socket)
	if h.socketDir != "" {
		_ = os.Remove(h.socketDir)
	}
}

// Close ends the child, letting it close its file, and the parser. What runs gets an error.
func (h *History) Close() error {
	select {
	case <-h.ended:
		return errors.New("history is closed twice")
	default:
	}
	close(h.ended)
	h.wait.Wait()
	h.removeSocket()
	return h.Parser.Close()
}

// Status says how history stands.
func (h *History) Status() Status {
	s := Status{
		Restarts: h.counts.restarts.Load(), Killed: h.counts.killed.Load(), Queries: h.counts.queries.Load(),
		Refused: h.counts.refused.Load(), Active: int64(len(h.slots)), Waiting: h.waiting.Load(),
		Loads: h.counts.loads.Load(), Rows: h.counts.rows.Load(),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Fault, s.SetAside, s.Reason = h.mu.fault, h.mu.setAside, h.mu.reason
	if h.mu.proc != nil {
		s.Running, s.PID = true, h.mu.proc.cmd.Process.Pid
	}
	return s
}

// errClosed is the error of calls during and after Close.
var errClosed = errors.New("history is closed")

// process waits for a child that serves.
func (h *History) process(ctx context.Context) (*process, error) {
	for {
		h.mu.Lock()
		p, changed, fault := h.mu.proc, h.mu.changed, h.mu.fault
		h.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-changed:
		case <-h.ended:
			return nil, errClosed
		case <-ctx.Done():
			if fault != "" {
				return nil, fmt.Errorf("history's process is not there (%s): %w", fault, ctx.Err())
			}
			return nil, ctx.Err()
		}
	}
}

// setProcess makes p, or nil, the child that serves.
func (h *History) setProcess(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.proc = p
	close(h.mu.changed)
	h.mu.changed = make(chan struct{})
}

// restartDelay is the pause after n lives in a row that answered nothing.
func restartDelay(n int) time.Duration {
	return min(50*time.Millisecond<<min(n, 10), 5*time.Second)
}
