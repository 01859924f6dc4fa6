package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"tidemark/storage"
	"tidemark/stream"
	"tidemark/stream/pebblelog"
)

type benchTortureOverloadCmd struct {
	Duration    time.Duration `help:"How long the server is overloaded." default:"60s"`
	Times       float64       `help:"How many times what the server can take is sent." default:"3"`
	Memory      string        `help:"The server's --memory." default:"512MB"`
	Connections int           `help:"Connections while it is overloaded, each with one request in flight." default:"1500"`
	Events      int           `help:"Events a request." default:"100"`
	Dir         string        `help:"Directory for the data (default: a temporary one)." default:""`
}

func (*benchTortureOverloadCmd) Help() string {
	return `Measures what a serving process takes with 16 connections, then sends several times as much in open loop, and
then little again. Prints the most memory that server and history's process held, beside their bounds; how requests were
answered; and how long after the overload a second passed in which little load is served as before it. Then the server is
killed and started again, and every acknowledged event must be in the log once.`
}

// overload is what the clients of an overloaded server know.
type overload struct {
	c      *benchTortureOverloadCmd
	v      *victim
	client *fasthttp.HostClient
	bodies [][]byte
	number atomic.Int64

	mu      sync.Mutex
	acked   []int64 // numbers of requests that were answered 200
	unknown int64   // requests without an answer: their events may be in the log
	strange []string
}

// phase is what a time of load was answered with.
type phase struct {
	sent, acked, refused int64
	delays               []time.Duration // of acknowledged requests
	took                 time.Duration
}

func (p *phase) at(q float64) time.Duration {
	if len(p.delays) == 0 {
		return 0
	}
	slices.Sort(p.delays)
	return p.delays[int(q*float64(len(p.delays)-1))]
}

func (c *benchTortureOverloadCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-overload-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	v, err := newVictim(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	v.more = []string{"--memory", c.Memory}
	v.pinned = true
	defer v.kill()
	if err := v.start(ctx); err != nil {
		return err
	}
	columns := `"columns":{"id":"VARCHAR","ts":"TIMESTAMP","auction":"BIGINT","bidder":"BIGINT","price":"BIGINT","channel":"VARCHAR","url":"VARCHAR","extra":"VARCHAR"}`
	if err := v.client().call(ctx, "PUT", "/v1/streams/bids", []byte(`{"partitions":2,"key_field":"channel","time_field":"ts",`+columns+`}`), nil, nil); err != nil {
		return err
	}
	o := &overload{
		c: c, v: v, bodies: (&benchIngestCmd{Events: c.Events}).bodies(),
		client: &fasthttp.HostClient{Addr: v.addr, MaxConns: c.Connections + 16, ReadTimeout: 60 * time.Second, MaxIdleConnDuration: time.Minute, MaxIdemponentCallAttempts: 1},
	}
	verdict, err := o.story(ctx)
	if err != nil {
		return err
	}
	if len(verdict) > 0 {
		return fmt.Errorf("the promise was broken: %s", verdict)
	}
	return nil
}

// normalWithin is how soon after an overload a second must be as before.
const normalWithin = 10 * time.Second

// story runs the phases and says which promises were broken.
func (o *overload) story(ctx context.Context) (broken []string, err error) {
	o.load(ctx, 16, 2*time.Second, 0) // the first requests find everything cold
	full := o.load(ctx, 16, 5*time.Second, 0)
	capacity := float64(full.acked) / full.took.Seconds()
	before := o.load(ctx, 16, 3*time.Second, capacity/5)

	memory := o.watchMemory()
	over := o.load(ctx, o.c.Connections, o.c.Duration, o.c.Times*capacity)
	ended := time.Now()
	recovered := time.Duration(-1)
	limit := max(4*before.at(0.99), 50*time.Millisecond)
	for ctx.Err() == nil && time.Since(ended) < 3*normalWithin {
		if p := o.load(ctx, 16, time.Second, capacity/5); p.refused == 0 && p.acked > 0 && p.at(0.99) <= limit {
			recovered = time.Since(ended)
			break
		}
	}
	peaks := memory()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	rate := func(n int64, p *phase) float64 { return float64(n) * float64(o.c.Events) / p.took.Seconds() }
	fmt.Printf("alone, 16 connections      %9.0f events/s, p50 %s, p99 %s\n", rate(full.acked, full), short(full.at(0.5)), short(full.at(0.99)))
	fmt.Printf("a fifth of that            p50 %s, p99 %s\n", short(before.at(0.5)), short(before.at(0.99)))
	fmt.Printf("overload, %4d connections %9.0f events/s sent (%.1f times), %.0f acknowledged, %.0f refused, for %s; acknowledged p50 %s, p99 %s\n",
		o.c.Connections, rate(over.sent, over), float64(over.sent)/over.took.Seconds()/capacity, rate(over.acked, over), rate(over.refused, over), over.took.Round(time.Second), short(over.at(0.5)), short(over.at(0.99)))
	for _, p := range peaks {
		fmt.Printf("%-26s %d MB at most, bound %d MB + 20 %%\n", p.name, p.peak>>20, p.bound>>20)
		if p.peak > p.bound+p.bound/5 {
			broken = append(broken, fmt.Sprintf("%s held %d MB", p.name, p.peak>>20))
		}
	}
	switch {
	case recovered < 0:
		fmt.Printf("recovery                   not within %s\n", 3*normalWithin)
		broken = append(broken, "it did not recover")
	default:
		fmt.Printf("recovery                   %s until a second with p99 under %s and nothing refused had passed\n", recovered.Round(100*time.Millisecond), short(limit))
		if recovered > normalWithin+time.Second {
			broken = append(broken, "recovery took "+recovered.String())
		}
	}
	return o.compare(ctx, broken)
}

func short(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// load sends requests for a time: at a rate, whatever the answers, or as fast as connections allow.
func (o *overload) load(ctx context.Context, connections int, span time.Duration, rate float64) *phase {
	var total phase
	var mu sync.Mutex
	var wg sync.WaitGroup
	var due atomic.Int64
	start := time.Now()
	end := start.Add(span)
	for range connections {
		wg.Go(func() {
			mine, body := phase{}, []byte(nil)
			var acked []int64
			for ctx.Err() == nil {
				at := time.Now()
				if rate > 0 {
					at = start.Add(time.Duration(float64(due.Add(1)) / rate * float64(time.Second)))
				}
				if at.After(end) || time.Now().After(end) {
					break
				}
				time.Sleep(time.Until(at))
				number := o.number.Add(1)
				body = append(body[:0], o.bodies[number%rendered]...)
				stamp(body, number)
				sent := time.Now()
				status, err := o.post(body)
				mine.sent++
				switch {
				case err == nil && status == 200:
					mine.acked++
					mine.delays = append(mine.delays, time.Since(sent))
					acked = append(acked, number)
				case err == nil && (status == 429 || status == 503):
					mine.refused++
				default:
					o.note(status, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.sent += mine.sent
			total.acked += mine.acked
			total.refused += mine.refused
			total.delays = append(total.delays, mine.delays...)
			o.mu.Lock()
			defer o.mu.Unlock()
			o.acked = append(o.acked, acked...)
		})
	}
	wg.Wait()
	total.took = time.Since(start)
	return &total
}

func (o *overload) post(body []byte) (status int, err error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://" + o.v.addr + "/v1/streams/bids/events")
	req.Header.SetMethod("POST")
	req.Header.SetContentType("application/x-ndjson")
	req.SetBodyRaw(body)
	err = o.client.Do(req, resp)
	return resp.StatusCode(), err
}

// note keeps answers that no client should get, and counts those that never came.
func (o *overload) note(status int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.unknown++
	}
	if len(o.strange) < 5 {
		o.strange = append(o.strange, fmt.Sprintf("status %d, %v", status, err))
	}
}

// held is what a process held at most, and may hold.
type held struct {
	name        string
	pid         int
	peak, bound int64
}

// watchMemory looks at the memory of server and history until the function that it returns is called.
func (o *overload) watchMemory() func() []held {
	memory, _ := parseSize(o.c.Memory) // the server has taken it
	list := []held{{name: "server", pid: o.v.pid(), bound: memory}}
	for _, pid := range childrenOf(o.v.pid()) {
		list = append(list, held{name: "history", pid: pid, bound: 256 << 20})
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			for i := range list {
				list[i].peak = max(list[i].peak, residentOf(list[i].pid))
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return func() []held {
		close(stop)
		<-done
		return list
	}
}

// compare kills the server, starts it again, ends it, and looks for every acknowledged event.
func (o *overload) compare(ctx context.Context, broken []string) ([]string, error) {
	o.v.kill()
	if err := o.v.start(ctx); err != nil {
		return nil, err
	}
	if ended := o.v.terminate(); ended != "exit code 0" {
		broken = append(broken, "SIGTERM: "+ended)
	}
	found, err := o.found(ctx)
	if err != nil {
		return nil, err
	}
	lost, doubled := int64(0), int64(0)
	for _, number := range o.acked {
		n := int64(found[number])
		lost += max(0, int64(o.c.Events)-n)
	}
	for _, n := range found {
		doubled += max(0, int64(n)-int64(o.c.Events))
	}
	fmt.Printf("after kill -9              %d events acknowledged, %d lost, %d doubled; %d requests without an answer\n", len(o.acked)*o.c.Events, lost, doubled, o.unknown)
	if lost > 0 || doubled > 0 {
		broken = append(broken, fmt.Sprintf("%d lost, %d doubled", lost, doubled))
	}
	for _, s := range o.strange {
		broken = append(broken, "answered with "+s)
	}
	return broken, nil
}

// found counts the events of each request that are in the log.
func (o *overload) found(ctx context.Context) (map[int64]int, error) {
	quiet := slog.New(slog.DiscardHandler)
	dir, err := storage.Open(o.v.dir, storage.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	log, err := pebblelog.Open(dir.KV, pebblelog.Options{TimerPeriod: -1, KeepPeriod: -1, WitnessPeriod: -1, Logger: quiet})
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	out := map[int64]int{}
	r := log.Read(log.Declared(), 0)
	for ctx.Err() == nil && err == nil {
		var e stream.Entry
		var ok bool
		if e, ok, err = r.Next(); err != nil || !ok {
			break
		}
		if e.Batch == nil {
			continue
		}
		for _, id := range e.Batch.Columns[0].Str {
			var number int64
			for _, c := range id[:16] {
				number = number*10 + int64(c-'0')
			}
			out[number]++
		}
	}
	return out, errors.Join(err, context.Cause(ctx), r.Close(), log.Close(), dir.Close())
}
