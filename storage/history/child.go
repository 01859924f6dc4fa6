//go:build cgo

package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/marcboeker/go-duckdb"
)

// childArgument is the first argument of a process that is a child.
const childArgument = "history"

// fileName is the DuckDB file in the data directory; walName is its log.
const (
	fileName = "history.duckdb"
	walName  = fileName + ".wal"
)

// ChildMain runs the child and ends the process when this process was started as one. Else it
// returns false. main and every TestMain that opens history call it before anything else.
func ChildMain() bool {
	if len(os.Args) != 3 || os.Args[1] != childArgument || !strings.HasPrefix(os.Args[2], "{") {
		return false
	}
	var cfg childConfig
	if err := json.Unmarshal([]byte(os.Args[2]), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(2)
	}
	// A terminal or a service manager signals all processes at once. This one ends when its parent
	// does, so that the parent can finish what is in flight.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	if err := runChild(cfg); err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(1)
	}
	os.Exit(0)
	return true
}

// child is the process that owns the file.
type child struct {
	db     *sql.DB
	loader *loader

	mu struct {
		sync.Mutex
		// running are the interrupts of the queries that run, by number.
		running map[uint64]context.CancelFunc
	}
}

// runChild opens the file, serves, and returns when standard input closes: the parent is gone or
// wants an end.
func runChild(cfg childConfig) error {
	if err := fenceProcess(cfg.Memory); err != nil {
		return err
	}
	// The parent's death must reach us also while the file is being opened or a query runs.
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(orphaned)
		time.Sleep(childEndsWithin)
		os.Exit(0)
	}()
	// The working directory makes the file's name plain: the driver reads its name as a URL.
	if err := os.Chdir(cfg.Dir); err != nil {
		return err
	}
	var h hello
	db, err := openFile(cfg)
	for tries := 0; err != nil && isLocked(err) && tries < 200; tries++ {
		time.Sleep(50 * time.Millisecond) // the child of a server that was just killed is still ending
		db, err = openFile(cfg)
	}
	if err != nil && !isLocked(err) {
		h.Reason = plainMessage(err.Error())
		if h.SetAside, err = setAside("."); err != nil {
			return err
		}
		db, err = openFile(cfg)
	}
	if err != nil {
		return greet(hello{Error: plainMessage(err.Error())})
	}
	c := &child{db: db}
	c.mu.running = map[uint64]context.CancelFunc{}
	if c.loader, err = newLoader(db); err != nil {
		// The file opens and is not ours to read: the same as one that does not open.
		h.Reason = plainMessage(err.Error())
		db.Close()
		if h.SetAside, err = setAside("."); err != nil {
			return err
		}
		if db, err = openFile(cfg); err == nil {
			c.db = db
			c.loader, err = newLoader(db)
		}
		if err != nil {
			return greet(hello{Error: plainMessage(err.Error())})
		}
	}
	_ = os.Remove(cfg.Socket)
	ln, err := net.Listen("unix", cfg.Socket)
	if err != nil {
		return greet(hello{Error: err.Error()})
	}
	if err := os.Chmod(cfg.Socket, 0o600); err != nil {
		return greet(hello{Error: err.Error()})
	}
	server := &http.Server{Handler: c.handler()}
	go func() { _ = server.Serve(ln) }()
	if err := greet(h); err != nil {
		return err
	}
	<-orphaned
	c.interruptAll()
	_ = server.Close()
	c.loader.close()
	return c.db.Close()
}

// childEndsWithin is how long the child takes to close its file when its parent is gone.
const childEndsWithin = 3 * time.Second

// greet writes the line that the parent waits for. One that names an error ends the child.
func greet(h hello) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(append(b, '\n')); err != nil {
		return err
	}
	if h.Error != "" {
		return errors.New(h.Error)
	}
	return nil
}

// openFile opens the file and shuts DuckDB in. A connection is thrown away after its use, so that
// no query finds what another left behind.
func openFile(cfg childConfig) (*sql.DB, error) {
	connector, err := duckdb.NewConnector(fileName, nil)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(0)
	for _, s := range settings(cfg.Memory, cfg.Threads) {
		if _, err := db.Exec(s); err != nil {
			db.Close()
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	return db, nil
}

// isLocked says that another process has the file open: a child of a server that was just killed.
func isLocked(err error) bool { return strings.Contains(err.Error(), "Could not set lock on file") }

// setAside moves the file and its log out of the way and returns the file's new name. The one set
// aside before is removed, so that a bad disk does not fill itself.
func setAside(dir string) (string, error) {
	if old, err := filepath.Glob(filepath.Join(dir, fileName+".damaged-*")); err == nil {
		for _, name := range old {
			_ = os.Remove(name)
		}
	}
	name := fileName + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	err := os.Rename(filepath.Join(dir, fileName), filepath.Join(dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("set the history file aside: %w", err)
	}
	err = os.Rename(filepath.Join(dir, walName), filepath.Join(dir, name+".wal"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("set the history file's log aside: %w", err)
	}
	return name, nil
}

// handler is the child's side of wire.go.
func (c *child) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /load", c.load)
	mux.HandleFunc("POST /position", c.position)
	mux.HandleFunc("POST /drop", c.drop)
	mux.HandleFunc("POST /relations", c.relations)
	mux.HandleFunc("POST /query", c.query)
	mux.HandleFunc("POST /cancel", c.cancel)
	mux.HandleFunc("POST /scratch", c.scratch)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				fmt.Fprintf(os.Stderr, "panic: %v\n%s", v, debug.Stack())
				answerError(w, &wireError{Status: 500, Code: "internal", Detail: "history could not do this", Position: -1})
			}
		}()
		mux.ServeHTTP(w, r)
	})
}

func (c *child) interruptAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stop := range c.mu.running {
		stop()
	}
}

func (c *child) load(w http.ResponseWriter, r *http.Request) {
	kind, payload, err := readFrame(r.Body)
	var head loadHead
	if err == nil && kind == frameHead {
		err = json.Unmarshal(payload, &head)
	}
	var rows []byte
	if err == nil {
		_, rows, err = readFrame(r.Body)
	}
	if err != nil {
		answerError(w, &wireError{Status: 400, Code: "bad_load", Detail: err.Error(), Position: -1})
		return
	}
	// A parent that gives up waiting does not stop a batch halfway.
	answer, err := c.loader.apply(context.WithoutCancel(r.Context()), head, rows)
	if err != nil {
		answerError(w, loadError(err))
		endIfFatal(err)
		return
	}
	answerJSON(w, answer)
}

func (c *child) position(w http.ResponseWriter, r *http.Request) {
	var head loadHead
	if err := json.NewDecoder(r.Body).Decode(&head); err != nil {
		answerError(w, &wireError{Status: 400, Code: "bad_load", Detail: err.Error(), Position: -1})
		return
	}
	answerJSON(w, loadAnswer{Held: c.loader.held(head)})
}

func (c *child) drop(w http.ResponseWriter, r *http.Request) {
	var head loadHead
	err := json.NewDecoder(r.Body).Decode(&head)
	if err == nil {
		err = c.loader.drop(context.WithoutCancel(r.Context()), head.Relation)
	}
	if err != nil {
		answerError(w, loadError(err))
		endIfFatal(err)
		return
	}
	answerJSON(w, loadAnswer{Applied: true})
}

func (c *child) relations(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, c.loader.relations())
}

// endIfFatal ends the process, once its answer is out, when DuckDB has given itself up: it would
// refuse all work from here on, and a new process starts from the file.
func endIfFatal(err error) {
	if !isFatal(err) {
		return
	}
	fmt.Fprintln(os.Stderr, "fatal:", plainMessage(err.Error()))
	go func() {
		time.Sleep(100 * time.Millisecond)
		os.Exit(1)
	}()
}

func (c *child) cancel(w http.ResponseWriter, r *http.Request) {
	var req queryRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		answerError(w, &wireError{Status: 400, Code: "bad_query", Detail: err.Error(), Position: -1})
		return
	}
	c.mu.Lock()
	stop := c.mu.running[req.ID]
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	answerJSON(w, struct{}{})
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func answerError(w http.ResponseWriter, e *wireError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(e)
}
