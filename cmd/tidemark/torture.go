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
	"sync/atomic"
	"syscall"
	"time"

	"tidemark/storage/problem"
)

type benchTortureCmd struct {
	Kills   int    `help:"How often the server is killed." default:"50"`
	Clients int    `help:"Clients that send at the same time." default:"8"`
	Events  int    `help:"Events a request." default:"20"`
	Seed    uint64 `help:"Seed of the moments at which the server is killed; 0: another each time." default:"0"`
	Dir     string `help:"Directory for the data (default: a temporary one)." default:""`
}

func (*benchTortureCmd) Help() string {
	return `Kills a serving process (SIGKILL) again and again while clients send, each time at a moment drawn at
random, and starts it again. A client repeats a request until it is acknowledged: half of them with events that
carry ids, half with an Idempotency-Key. At the end every partition is read: each acknowledged event must be there
once, and offsets must have no gap. Then the server is stopped, and its directory checked.`
}

// tortureStreams are what the clients send to: told apart by ids, and by idempotency keys.
var tortureStreams = [2]string{"torture_ids", "torture_keys"}

func (c *benchTortureCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-torture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	seed := c.Seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	v, err := newVictim(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer v.kill()
	if err := v.start(ctx); err != nil {
		return err
	}
	for i, id := range []string{`"id_field":"id",`, ""} {
		body := fmt.Sprintf(`{%s"partitions":3,"columns":{"id":"VARCHAR","n":"BIGINT"}}`, id)
		if err := v.client().call(ctx, "PUT", "/v1/streams/"+tortureStreams[i], []byte(body), nil, nil); err != nil {
			return err
		}
	}
	w := &witnesses{stop: make(chan struct{})}
	var clients sync.WaitGroup
	for n := range c.Clients {
		clients.Go(func() { w.send(ctx, v, n, c.Events) })
	}
	killErr := c.killAgainAndAgain(ctx, v, rand.New(rand.NewPCG(seed, 0)))
	close(w.stop)
	clients.Wait()
	if err := errors.Join(killErr, context.Cause(ctx)); err != nil {
		return err
	}
	report, err := w.compare(ctx, v)
	if err != nil {
		return err
	}
	ended := v.terminate()
	fmt.Printf("%d kills, seed %d\n%s", c.Kills, seed, report.text())
	fmt.Printf("SIGTERM: %s\n", ended)
	if err := check(v.dir, os.Stdout); err != nil {
		return err
	}
	if !report.good() || ended != "exit code 0" {
		return fmt.Errorf("the promise was broken: repeat with --seed %d", seed)
	}
	return nil
}

// killAgainAndAgain kills the server at random moments after it is ready.
func (c *benchTortureCmd) killAgainAndAgain(ctx context.Context, v *victim, rng *rand.Rand) error {
	for n := range c.Kills {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(20+rng.IntN(400)) * time.Millisecond):
		}
		v.kill()
		if err := v.start(ctx); err != nil {
			return fmt.Errorf("start after kill %d: %w", n+1, err)
		}
	}
	return nil
}

// victim is a serving process that is killed and started again on one directory and address.
type victim struct {
	dir, addr, exe string
	// more are arguments of the server; pinned asks for one core, where taskset exists.
	more   []string
	pinned bool
	cmd    *exec.Cmd
	log    bytes.Buffer
}

func newVictim(dir string) (*victim, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &victim{dir: dir, addr: ln.Addr().String()}
	if v.exe, err = os.Executable(); err != nil {
		return nil, err
	}
	return v, ln.Close()
}

func (v *victim) client() *client { return serverFlags{Server: "http://" + v.addr}.client() }

// start starts the process and waits until it is ready.
func (v *victim) start(ctx context.Context) error {
	v.log.Reset()
	args := append([]string{v.exe, "serve", "--data", v.dir, "--listen", v.addr, "--log-level", "error", "--history-memory", "256MB", "--history-threads", "1"}, v.more...)
	if taskset, err := exec.LookPath("taskset"); err == nil && v.pinned {
		args = append([]string{taskset, "-c", "0"}, args...) // which becomes the server itself
	}
	v.cmd = exec.Command(args[0], args[1:]...)
	v.cmd.Stderr = &v.log
	if err := v.cmd.Start(); err != nil {
		return err
	}
	for range 1200 {
		if err := v.client().call(ctx, "GET", "/readyz", nil, nil, nil); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(25 * time.Millisecond):
		}
		if err := v.cmd.Process.Signal(syscall.Signal(0)); err != nil {
			break
		}
	}
	v.kill()
	return fmt.Errorf("the server did not become ready: %s", v.log.String())
}

func (v *victim) pid() int { return v.cmd.Process.Pid }

func (v *victim) kill() {
	if v.cmd != nil {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait()
		v.cmd = nil
	}
}

// terminate ends the server as an operator does, and says how it ended.
func (v *victim) terminate() string {
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err.Error()
	}
	done := make(chan error, 1)
	go func() { done <- v.cmd.Wait() }()
	select {
	case <-done:
		code := v.cmd.ProcessState.ExitCode()
		v.cmd = nil
		return fmt.Sprint("exit code ", code)
	case <-time.After(15 * time.Second):
		return "it had not ended after 15 s"
	}
}

// witnesses know what was sent and what was acknowledged, outside the server.
type witnesses struct {
	stop    chan struct{}
	sent    atomic.Int64
	repeats atomic.Int64
	mu      sync.Mutex
	acked   [2][]string // ids of acknowledged events, by stream
	refused []string    // answers that no client should get
}

// send sends request after request, each until it is acknowledged.
func (w *witnesses) send(ctx context.Context, v *victim, number, events int) {
	s := number % 2
	for n := 0; ; n++ {
		select {
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		default:
		}
		var body strings.Builder
		ids := make([]string, events)
		for i := range ids {
			ids[i] = fmt.Sprintf("%d-%d-%d", number, n, i)
			fmt.Fprintf(&body, `{"id":%q,"n":%d}`+"\n", ids[i], n)
		}
		w.sent.Add(int64(events))
		headers := map[string]string{"Content-Type": "application/x-ndjson"}
		if s == 1 {
			headers["Idempotency-Key"] = fmt.Sprintf("%d-%d", number, n)
		}
		if !w.untilAcknowledged(ctx, v, "/v1/streams/"+tortureStreams[s]+"/events", body.String(), headers) {
			return
		}
		w.mu.Lock()
		w.acked[s] = append(w.acked[s], ids...)
		w.mu.Unlock()
	}
}

func (w *witnesses) untilAcknowledged(ctx context.Context, v *victim, path, body string, headers map[string]string) bool {
	cl := serverFlags{Server: "http://" + v.addr}.client()
	cl.http = &http.Client{Timeout: 20 * time.Second}
	for try := 0; ctx.Err() == nil; try++ {
		if try > 0 {
			w.repeats.Add(1)
			time.Sleep(10 * time.Millisecond)
		}
		err := cl.call(ctx, "POST", path, []byte(body), headers, nil)
		if err == nil {
			return true
		}
		// 409: the request before was cut off and is still at work.
		var p *problem.Problem
		if errors.As(err, &p) && p.Status != 429 && p.Status != 503 && p.Status != 409 {
			w.mu.Lock()
			w.refused = append(w.refused, p.Error())
			w.mu.Unlock()
			return false
		}
	}
	return false
}

// tortureReport is what was found.
type tortureReport struct {
	sent, repeats, acked, found, doubled, lost, unknown int64
	gaps, refused                                       []string
}

func (r *tortureReport) good() bool {
	return r.doubled == 0 && r.lost == 0 && r.unknown == 0 && len(r.gaps) == 0 && len(r.refused) == 0 && r.acked > 0
}

func (r *tortureReport) text() string {
	out := fmt.Sprintf("sent %d events, requests repeated %d times\nacknowledged %d, found %d, doubled %d, lost %d\n",
		r.sent, r.repeats, r.acked, r.found, r.doubled, r.lost)
	for _, g := range append(r.gaps, r.refused...) {
		out += g + "\n"
	}
	return out
}

// compare reads every partition and compares it with what was acknowledged.
func (w *witnesses) compare(ctx context.Context, v *victim) (*tortureReport, error) {
	r := &tortureReport{sent: w.sent.Load(), repeats: w.repeats.Load(), refused: w.refused}
	for s, name := range tortureStreams {
		found := map[string]int{}
		for p := range 3 {
			next := int64(0)
			for {
				var page struct {
					Events []struct {
						Offset int64
						Event  struct{ ID string }
					}
				}
				if err := w.page(ctx, v, fmt.Sprintf("/v1/streams/%s/partitions/%d/events?offset=%d&limit=5000", name, p, next), &page); err != nil {
					return nil, err
				}
				if len(page.Events) == 0 {
					break
				}
				for _, e := range page.Events {
					if e.Offset != next {
						r.gaps = append(r.gaps, fmt.Sprintf("%s, partition %d: offset %d follows %d", name, p, e.Offset, next-1))
					}
					next = e.Offset + 1
					found[e.Event.ID]++
				}
			}
		}
		for _, n := range found {
			r.found++
			r.doubled += int64(n - 1)
		}
		for _, id := range w.acked[s] {
			r.acked++
			if found[id] == 0 {
				r.lost++
			}
		}
	}
	r.unknown = max(0, r.found-r.sent)
	return r, nil
}

func (w *witnesses) page(ctx context.Context, v *victim, path string, into any) error {
	resp, err := v.client().do(ctx, "GET", path, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
