package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

type benchTortureViewsCmd struct {
	Kills int    `help:"How often the server is killed." default:"50"`
	Rate  int    `help:"Events a second that are sent. Each comparison reads the whole log." default:"100"`
	Seed  uint64 `help:"Seed of the moments and of the events; 0: another each time." default:"0"`
	Dir   string `help:"Directory for the data (default: a temporary one)." default:""`
}

func (*benchTortureViewsCmd) Help() string {
	return `Kills a serving process (SIGKILL) again and again while events flow through ten views of all kinds, each
time at a moment drawn at random, and starts it again. After each start every view is compared with its batch
answer, which is worked out from the log; watermarks must not go back; and readers that resume by position must see
every final row of a view once, and revisions that only rise.`
}

// tortureViews are views of all kinds over one stream.
var tortureViews = map[string]string{
	"tumbles":  `"sql":"SELECT window_start, k, count(*) AS n, sum(x) AS s FROM tumble(torture, ts, INTERVAL '10 seconds') GROUP BY ALL","allowed_lateness":"20s"`,
	"strict":   `"sql":"SELECT window_start, k, min(x) AS low FROM tumble(torture, ts, INTERVAL '10 seconds') GROUP BY ALL","late":"drop"`,
	"settled":  `"sql":"SELECT window_start, k, count(*) AS n FROM tumble(torture, ts, INTERVAL '5 seconds') GROUP BY ALL","emit":"final","allowed_lateness":"10s"`,
	"hops":     `"sql":"SELECT window_start, count(*) AS n, avg(x) AS mean FROM hop(torture, ts, INTERVAL '5 seconds', INTERVAL '15 seconds') GROUP BY ALL","allowed_lateness":"5s"`,
	"sessions": `"sql":"SELECT window_start, window_end, k, count(*) AS n FROM session(torture, ts, INTERVAL '2 seconds', k) GROUP BY ALL","allowed_lateness":"5s"`,
	"slides":   `"sql":"SELECT window_end, k, max(x) AS top FROM slide(torture, ts, INTERVAL '3 seconds', k) GROUP BY ALL","late":"drop"`,
	"totals":   `"sql":"SELECT k, count(*) AS n, sum(x) AS s FROM torture GROUP BY ALL"`,
	"passing":  `"sql":"SELECT k, x FROM torture WHERE x % 50 = 0"`,
	"best":     `"sql":"SELECT window_start, k, x FROM tumble(torture, ts, INTERVAL '10 seconds') QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY x DESC) <= 3","allowed_lateness":"10s"`,
	"nested":   `"sql":"SELECT window_start, max(n) AS most FROM (SELECT window_start, k, count(*) AS n FROM tumble(torture, ts, INTERVAL '10 seconds') GROUP BY ALL) GROUP BY ALL","throttle":"0s"`,
}

// followedViews are those whose final rows a reader counts.
var followedViews = []string{"tumbles", "settled", "hops", "sessions"}

func (c *benchTortureViewsCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-torture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	seed := c.Seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t := &viewTorture{rng: rand.New(rand.NewPCG(seed, 0)), watermarks: map[string]string{}}
	if t.victim, err = newVictim(filepath.Join(dir, "data")); err != nil {
		return err
	}
	defer t.victim.kill()
	if err := t.victim.start(ctx); err != nil {
		return err
	}
	if err := t.define(ctx); err != nil {
		return err
	}
	load, stop := context.WithCancel(ctx)
	defer stop()
	var work sync.WaitGroup
	work.Go(func() { t.send(load, rand.New(rand.NewPCG(seed, 1)), c.Rate) })
	for _, v := range followedViews {
		r := &finalReader{view: v, addr: t.victim.addr, seen: map[string]int{}}
		t.readers = append(t.readers, r)
		work.Go(func() { r.follow(load) })
	}
	began := time.Now()
	err = t.rounds(ctx, c.Kills)
	stop()
	work.Wait()
	if err == nil {
		err = t.last(ctx)
	}
	fmt.Printf("%d kills in %s, seed %d: %d events sent, %d comparisons equal\n", t.kills, time.Since(began).Round(time.Second), seed, t.sent, t.equal)
	for _, r := range t.readers {
		fmt.Printf("  %s: %d final rows seen once each, %d corrections, %d connections\n", r.view, r.finals, r.corrections, r.connections)
	}
	if err != nil {
		return fmt.Errorf("%w: repeat with --seed %d", err, seed)
	}
	return nil
}

// viewTorture is one run.
type viewTorture struct {
	victim     *victim
	rng        *rand.Rand
	readers    []*finalReader
	watermarks map[string]string

	kills, equal int
	sent         int64 // by the sender alone, until it has ended
}

func (t *viewTorture) define(ctx context.Context) error {
	cl := t.victim.client()
	body := `{"time_field":"ts","id_field":"id","partitions":3,"max_out_of_orderness":"2s","idle_timeout":"2s","columns":{"id":"VARCHAR","ts":"TIMESTAMP","k":"VARCHAR","x":"BIGINT"}}`
	if err := cl.call(ctx, "PUT", "/v1/streams/torture", []byte(body), nil, nil); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(tortureViews)) {
		if err := cl.call(ctx, "PUT", "/v1/views/"+name, []byte("{"+tortureViews[name]+"}"), nil, nil); err != nil {
			return fmt.Errorf("view %s: %w", name, err)
		}
	}
	return nil
}

// send posts events around now, some of them late, each request until it is acknowledged.
func (t *viewTorture) send(ctx context.Context, rng *rand.Rand, rate int) {
	w := &witnesses{stop: make(chan struct{})}
	events := max(1, rate/20)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		var body strings.Builder
		for i := range events {
			at := time.Now().UTC().Add(-time.Duration(rng.IntN(1500)) * time.Millisecond)
			if rng.IntN(20) == 0 {
				at = at.Add(-time.Duration(rng.IntN(40)) * time.Second)
			}
			fmt.Fprintf(&body, `{"id":"%d-%d","ts":%q,"k":"key-%d","x":%d}`+"\n", n, i, at.Format("2006-01-02T15:04:05.000Z"), rng.IntN(12), rng.IntN(10_000))
		}
		headers := map[string]string{"Content-Type": "application/x-ndjson"}
		if w.untilAcknowledged(ctx, t.victim, "/v1/streams/torture/events", body.String(), headers) {
			t.sent += int64(events)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (t *viewTorture) rounds(ctx context.Context, kills int) error {
	for range kills {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(50+t.rng.IntN(600)) * time.Millisecond):
		}
		t.victim.kill()
		t.kills++
		if err := t.victim.start(ctx); err != nil {
			return fmt.Errorf("start after kill %d: %w", t.kills, err)
		}
		if err := t.check(ctx); err != nil {
			return fmt.Errorf("after kill %d: %w", t.kills, err)
		}
	}
	return nil
}

// check compares every view with its batch answer and looks at its watermark.
func (t *viewTorture) check(ctx context.Context) error {
	cl := t.victim.client()
	for _, name := range slices.Sorted(maps.Keys(tortureViews)) {
		var about struct {
			State, Reason string
			Watermark     *string
		}
		if err := cl.call(ctx, "GET", "/v1/views/"+name, nil, nil, &about); err != nil {
			return err
		}
		if about.State == "failed" {
			return fmt.Errorf("view %s has failed: %s", name, about.Reason)
		}
		now := ""
		if about.Watermark != nil {
			at, err := time.Parse(time.RFC3339, *about.Watermark)
			if err != nil {
				return err
			}
			now = at.UTC().Format("2006-01-02T15:04:05.000000")
		}
		if now < t.watermarks[name] {
			return fmt.Errorf("the watermark of %s went back from %s to %s", name, t.watermarks[name], now)
		}
		t.watermarks[name] = now
		var verdict json.RawMessage
		if err := cl.call(ctx, "POST", "/v1/views/"+name+"/verify?wait=60s", nil, nil, &verdict); err != nil {
			return fmt.Errorf("verify %s: %w", name, err)
		}
		if !bytes.HasPrefix(verdict, []byte(`{"result":"equal"`)) {
			return fmt.Errorf("view %s is not its batch answer: %.3000s", name, verdict)
		}
		t.equal++
	}
	for _, r := range t.readers {
		if err := r.err(); err != nil {
			return err
		}
	}
	return nil
}

// last checks everything at rest: what the readers saw is what the views hold.
func (t *viewTorture) last(ctx context.Context) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	for _, r := range t.readers {
		// Read on to where the view stands now.
		var about struct{ Position string }
		if err := t.victim.client().call(ctx, "GET", "/v1/views/"+r.view, nil, nil, &about); err != nil {
			return err
		}
		end, cancel := context.WithTimeout(ctx, 20*time.Second)
		r.until = about.Position
		r.follow(end)
		cancel()
		if err := r.err(); err != nil {
			return err
		}
		var rows struct {
			Rows     []json.RawMessage
			Statuses []string
		}
		if err := t.victim.client().call(ctx, "GET", "/v1/views/"+r.view+"/rows?limit=1000000&final=true", nil, nil, &rows); err != nil {
			return err
		}
		if len(rows.Rows) == 0 || r.finals < len(rows.Rows) {
			return fmt.Errorf("view %s has %d final rows, its reader saw %d", r.view, len(rows.Rows), r.finals)
		}
	}
	return nil
}

// finalReader follows a view's changes, over all kills, by position.
type finalReader struct {
	view, addr, until string
	position          string

	mu                               sync.Mutex
	seen                             map[string]int // the revision that was seen last, by row key
	finals, corrections, connections int
	failed                           error
}

func (r *finalReader) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// keyMembers are the columns of the followed views that make the row key.
var keyMembers = []string{"window_start", "window_end", "k"}

func (r *finalReader) follow(ctx context.Context) {
	for ctx.Err() == nil && r.err() == nil {
		if done := r.connect(ctx); done {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// connect reads until the connection breaks, or until is behind it.
func (r *finalReader) connect(ctx context.Context) (done bool) {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.addr+"/v1/live/"+r.view+"?from=earliest&fold=false", nil)
	if err != nil {
		return true
	}
	req.Header.Set("Accept", "text/event-stream")
	if r.position != "" {
		req.Header.Set("Last-Event-ID", r.position)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		if resp.StatusCode < 500 {
			r.fail(fmt.Errorf("reader of %s: %d %s", r.view, resp.StatusCode, text))
		}
		return false
	}
	r.mu.Lock()
	r.connections++
	r.mu.Unlock()
	lines := bufio.NewReaderSize(resp.Body, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return false // a message that is cut off is not taken: it comes again
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var m changesMessage
		if err := json.Unmarshal(data, &m); err != nil {
			r.fail(fmt.Errorf("reader of %s: %w in %.300s", r.view, err, data))
			return true
		}
		if r.take(m); r.err() != nil || r.until != "" && m.Position == r.until {
			return true
		}
	}
}

type changesMessage struct {
	Type, Position string
	Changes        []struct {
		Op, Status string
		Revision   int
		Row        map[string]json.RawMessage
	}
}

func (r *finalReader) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = errors.Join(r.failed, err)
}

// take counts what a message holds. Its position is kept with it, as a reader does that stores both
// in one transaction.
func (r *finalReader) take(m changesMessage) {
	switch m.Type {
	case "changes":
	case "gap", "error":
		r.fail(fmt.Errorf("reader of %s: a message of type %s", r.view, m.Type))
		return
	default:
		if m.Position != "" && m.Type != "snapshot" {
			r.position = m.Position
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position = m.Position
	for _, c := range m.Changes {
		if c.Op != "+" || c.Revision == 0 {
			continue
		}
		var key strings.Builder
		for _, member := range keyMembers {
			key.Write(c.Row[member])
			key.WriteByte(' ')
		}
		before := r.seen[key.String()]
		switch {
		case c.Status == "final" && before != 0:
			r.failed = fmt.Errorf("reader of %s: the row %sis final a second time", r.view, key.String())
			return
		case c.Revision <= before:
			r.failed = fmt.Errorf("reader of %s: the row %shas revision %d after %d", r.view, key.String(), c.Revision, before)
			return
		}
		if before == 0 {
			r.finals++
		} else {
			r.corrections++
		}
		r.seen[key.String()] = c.Revision
	}
}
