package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidemark/storage/history"
)

// runAsTidemark lets the test binary be the tidemark binary: the tests start real processes, so
// that they can be killed.
const runAsTidemark = "TIDEMARK_TEST_RUN"

func TestMain(m *testing.M) {
	if history.ChildMain() {
		return
	}
	if os.Getenv(runAsTidemark) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// patience bounds every wait in these tests; nothing is measured.
const patience = 60 * time.Second

// tidemark is a command of the real binary, not yet started.
func tidemark(ctx context.Context, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), runAsTidemark+"=1")
	return cmd
}

// server is a real server process on a data directory of its own.
type server struct {
	t    *testing.T
	dir  string
	addr string
	args []string
	cmd  *exec.Cmd
	done chan struct{}
	log  *lockedBuffer
	demo bool   // `tidemark demo` in place of `serve`
	key  string // what requests carry; empty: nothing

	opened time.Time // of the till, see sell
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ports are those that tests of this process have.
var ports sync.Map

// freeAddress is an address that nobody else gets: a port that was let go is soon given to another test
// or connection otherwise, and a test would talk to a server that is not its own. Ports under 32,768
// are not given to outgoing connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))
		if _, taken := ports.LoadOrStore(address, true); taken {
			continue
		}
		if ln, err := net.Listen("tcp", address); err == nil {
			ln.Close()
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}

// tempDir is a directory that goes with the test. A server that was killed leaves its history process
// a moment behind, which may still write while the directory is removed.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidemark-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(patience); os.RemoveAll(dir) != nil && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
	})
	return dir
}

// startServer starts `tidemark serve` and waits until it is ready.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: filepath.Join(tempDir(t), "data"), addr: freeAddress(t), args: args, log: &lockedBuffer{}}
	s.start()
	t.Cleanup(func() {
		s.stop(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the server's log:\n%s", tailOf(s.log.String(), 6000))
		}
	})
	return s
}

func tailOf(s string, n int) string { return s[max(0, len(s)-n):] }

func (s *server) start() {
	s.t.Helper()
	command := "serve"
	if s.demo {
		command = "demo"
	}
	args := append([]string{command, "--data", s.dir, "--listen", s.addr, "--history-memory", "256MB", "--history-threads", "1"}, s.args...)
	s.cmd = tidemark(context.Background(), args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(s.cmd, s.done)
	s.eventually("the server is ready", func() error {
		select {
		case <-s.done:
			s.t.Fatalf("the server ended at its start:\n%s", tailOf(s.log.String(), 4000))
		default:
		}
		resp, err := http.Get(s.url("/readyz"))
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			return errors.New(resp.Status)
		}
		return nil
	})
}

func (s *server) url(path string) string { return "http://" + s.addr + path }

// stop ends the server with a signal and returns its exit code.
func (s *server) stop(sig syscall.Signal) int {
	select {
	case <-s.done:
	default:
		_ = s.cmd.Process.Signal(sig)
		select {
		case <-s.done:
		case <-time.After(patience):
			s.t.Fatalf("the server did not end after %v", sig)
		}
	}
	return s.cmd.ProcessState.ExitCode()
}

// kill is kill -9, and a start on the same data.
func (s *server) restartAfterKill() {
	s.stop(syscall.SIGKILL)
	s.start()
}

// eventually waits until check returns nil.
func (s *server) eventually(what string, check func() error) {
	s.t.Helper()
	end := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// call sends a request and returns status and body.
func (s *server) call(method, path, body string) (int, []byte) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url(path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, text
}

// tryPost posts NDJSON; a connection that fails is status 0.
func (s *server) tryPost(path, body string) (int, string) {
	resp, err := http.Post(s.url(path), "application/x-ndjson", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// must is call for requests that have to succeed; out takes the decoded answer when not nil.
func (s *server) must(method, path, body string, out any) {
	s.t.Helper()
	status, text := s.call(method, path, body)
	if status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if out == nil {
		return
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(out); err != nil {
		s.t.Fatalf("%s %s: %v in %.300s", method, path, err, text)
	}
}

type rowMap = map[string]any

// settle waits until the view holds everything that its streams hold.
func (s *server) settle(view string) {
	s.t.Helper()
	s.eventually("view "+view+" settles", func() error {
		var v struct {
			State     string
			LagEvents int64 `json:"lag_events"`
		}
		s.must("GET", "/v1/views/"+view, "", &v)
		if v.State == "live" && v.LagEvents == 0 {
			return nil
		}
		return fmt.Errorf("state %s, lag_events %d", v.State, v.LagEvents)
	})
}

func (s *server) rows(view, query string) []rowMap {
	s.t.Helper()
	var answer struct{ Rows []rowMap }
	s.must("GET", "/v1/views/"+view+"/rows?limit=1000000"+query, "", &answer)
	return answer.Rows
}

// query asks history and waits until it holds all of a stream.
func (s *server) query(sql string) []rowMap {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"sql": sql, "max_rows": 1_000_000})
	var answer struct{ Rows []rowMap }
	s.must("POST", "/v1/query", string(body), &answer)
	return answer.Rows
}

// historyHas waits until history holds n events of a stream.
func (s *server) historyHas(stream string, n int) {
	s.t.Helper()
	s.eventually("history holds "+stream, func() error {
		body, _ := json.Marshal(map[string]any{"sql": "SELECT count(*) AS n FROM " + stream})
		status, text := s.call("POST", "/v1/query", string(body))
		if want := fmt.Sprintf(`"n":%d`, n); status != 200 || !bytes.Contains(text, []byte(want)) {
			return fmt.Errorf("%d %.200s, not %s", status, text, want)
		}
		return nil
	})
}

// canonical makes rows comparable as multisets.
func canonical(rows []rowMap) map[string]int {
	out := map[string]int{}
	for _, r := range rows {
		b, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		out[string(b)]++
	}
	return out
}

// sameRows compares two multisets of rows and shows a few differences.
func sameRows(t *testing.T, what string, got, want []rowMap) {
	t.Helper()
	g, w := canonical(got), canonical(want)
	shown := 0
	show := func(format string, row string, n int) {
		if shown++; shown <= 5 {
			t.Errorf("%s: "+format, what, n, row)
		}
	}
	for r, n := range w {
		if g[r] != n {
			show("missing (%d): %s", r, n-g[r])
		}
	}
	for r, n := range g {
		if w[r] != n {
			show("too many (%d): %s", r, n-w[r])
		}
	}
	if shown > 0 {
		t.Errorf("%s: %d rows, %d expected, %d differences", what, len(got), len(want), shown)
	}
}
