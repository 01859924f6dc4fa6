package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/storage/kv"
)

// benchCmd holds the benchmarks. Each prints a ratio of two figures that were measured in the same
// run on the same machine; the absolute figures beside it are for orientation only.
type benchCmd struct {
	Ingest   benchIngestCmd   `cmd:"" help:"Durable ingest over HTTP against bare synced writes of the same bytes."`
	Nexmark  benchNexmarkCmd  `cmd:"" help:"The queries of the Nexmark workload as views over one log."`
	Windows  benchWindowsCmd  `cmd:"" help:"What an event costs in hopping windows, by how many overlap."`
	Views    benchViewsCmd    `cmd:"" help:"What many views on one stream cost, against one."`
	State    benchStateCmd    `cmd:"" help:"A view with very many groups, with and without a bound on its memory."`
	Latency  benchLatencyCmd  `cmd:"" help:"From the POST of an event to the websocket that shows its view, beside the fsync's share."`
	Fanout   benchFanoutCmd   `cmd:"" help:"Many websockets on one view, against a bare broadcast of the same frames."`
	Recovery benchRecoveryCmd `cmd:"" help:"Kill a server under full load, and time until its views are fresh again and how fast they replay the log."`
	Torture  benchTortureCmd  `cmd:"" help:"Kill a serving process under load, again and again, and count what is lost."`

	TortureViews    benchTortureViewsCmd    `cmd:"" help:"The same under ten views: their rows are compared with the batch answer after each kill."`
	TortureOverload benchTortureOverloadCmd `cmd:"" help:"Send several times what a server can take, and see what it holds, answers and loses."`

	StatePart benchStatePartCmd `cmd:"" hidden:"" help:"One process of state."`
	Broadcast benchBroadcastCmd `cmd:"" hidden:"" help:"The other side of fanout."`
}

type benchIngestCmd struct {
	Duration    time.Duration `help:"How long each part runs." default:"10s"`
	Connections int           `help:"Connections, each with one request in flight." default:"16"`
	Events      int           `help:"Events a request." default:"100"`
	IDs         bool          `help:"Give the stream an id_field, so that every event is checked for duplicates." name:"ids"`
	Dir         string        `help:"Directory for the data; it must be on the disk that is to be measured." default:""`
}

func (*benchIngestCmd) Help() string {
	return `Starts a server of its own on an empty directory. Client and server are asked to keep to one core
each (taskset, where it exists). The limit is the same bytes written to the same kind of store in synced batches,
by as many writers as there are connections.`
}

// rendered is how many different request bodies there are.
const rendered = 64

func (c *benchIngestCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	bodies := c.bodies()
	srv, err := startBenchServer(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer srv.stop()
	idField := ""
	if c.IDs {
		idField = `"id_field":"id",`
	}
	columns := `"columns":{"id":"VARCHAR","ts":"TIMESTAMP","auction":"BIGINT","bidder":"BIGINT","price":"BIGINT","channel":"VARCHAR","url":"VARCHAR","extra":"VARCHAR"}`
	if err := srv.client().call(ctx, "PUT", "/v1/streams/bids", []byte(`{"time_field":"ts",`+idField+columns+`}`), nil, nil); err != nil {
		return err
	}
	children := childrenOf(srv.cmd.Process.Pid)
	beside := func() (cpu time.Duration) {
		for _, pid := range children {
			cpu += cpuOf(pid)
		}
		return cpu
	}
	syncsBefore, err := readFsyncs(ctx, srv.client())
	if err != nil {
		return err
	}
	keepOffServer()
	before, besideBefore, ownBefore := srv.cpu(), beside(), cpuOf(os.Getpid())
	served, err := c.load(ctx, srv.addr, bodies)
	if err != nil {
		return err
	}
	cpu, besideCPU, own := srv.cpu()-before, beside()-besideBefore, cpuOf(os.Getpid())-ownBefore
	syncs, err := readFsyncs(ctx, srv.client())
	if err != nil {
		return err
	}
	syncs = syncs.since(syncsBefore)
	rows := metric(ctx, srv.client(), "tidemark_history_rows_total")
	srv.stop()

	limit, err := c.bare(filepath.Join(dir, "bare"), bodies)
	if err != nil {
		return err
	}
	events := float64(served.requests) * float64(c.Events)
	fmt.Printf("%-34s %12s %12s %10s %10s %10s\n", "", "events/s", "MB/s", "p50", "p99", "CPU s/M")
	served.print("HTTP, NDJSON, 200 after fsync", c.Events, cpu.Seconds()/events*1e6)
	limit.print("bare store, synced batches", c.Events, 0)
	fmt.Printf("ratio %.2f (aim: 0.5 or more)\n", served.rate()/limit.rate())
	fmt.Printf("the server's fsyncs: %.0f events each, p50 %s, p99 %s; this load generator: %.2f CPU s per million events\n",
		events/max(syncs.total(), 1), syncs.quantile(0.5).Round(10*time.Microsecond), syncs.quantile(0.99).Round(10*time.Microsecond), own.Seconds()/events*1e6)
	fmt.Printf("history's process, on the same core: %.0f %% of the events loaded by the end, %.2f CPU s per million rows\n",
		100*rows/events, besideCPU.Seconds()/max(rows, 1)*1e6)
	return nil
}

// bodies renders the requests before anything is measured. Ids are made unique at send time by
// writing a counter over a place of fixed width.
func (c *benchIngestCmd) bodies() [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	letters := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 8)
	at := time.Now().UTC().Add(-time.Hour)
	list := make([][]byte, rendered)
	for i := range list {
		var b []byte
		for n := range c.Events {
			at = at.Add(time.Millisecond)
			b = fmt.Appendf(b, `{"id":"%016d-%04d","ts":%q,"auction":%d,"bidder":%d,"price":%d,"channel":"channel-%d","url":"https://www.nexmark.com/item.htm?query=1&channel_id=%d","extra":%q}`+"\n",
				0, n, at.Format("2006-01-02T15:04:05.000Z"), 1000+rng.IntN(110), 1000+rng.IntN(1010), 100+rng.IntN(1_000_000), rng.IntN(100), rng.IntN(1<<30), letters[:54+rng.IntN(27)])
		}
		list[i] = b
	}
	return list
}

const idPrefix = `{"id":"`

// stamp writes a request number into every id of a body.
func stamp(body []byte, number int64) {
	digits := []byte("0000000000000000")
	for at := len(digits) - 1; number > 0; at-- {
		digits[at] = byte('0' + number%10)
		number /= 10
	}
	for at := 0; at < len(body); {
		copy(body[at+len(idPrefix):], digits)
		at += bytes.IndexByte(body[at:], '\n') + 1
	}
}

// measured is what one part of the benchmark did.
type measured struct {
	requests int64
	bytes    int64
	took     time.Duration
	delays   []time.Duration
}

func (m measured) rate() float64 { return float64(m.requests) / m.took.Seconds() }

func (m measured) print(name string, events int, cpu float64) {
	slices.Sort(m.delays)
	at := func(q float64) time.Duration {
		if len(m.delays) == 0 {
			return 0
		}
		return m.delays[int(q*float64(len(m.delays)-1))].Round(10 * time.Microsecond)
	}
	text := "–"
	if cpu > 0 {
		text = fmt.Sprintf("%.2f", cpu)
	}
	fmt.Printf("%-34s %12.0f %12.1f %10s %10s %10s\n", name, m.rate()*float64(events), float64(m.bytes)/m.took.Seconds()/1e6, at(0.5), at(0.99), text)
}

// run calls work from several goroutines for the benchmark's duration.
func (c *benchIngestCmd) run(work func(worker int, number int64) (int, error)) (measured, error) {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		total   measured
		failure error
		number  atomic.Int64
	)
	start := time.Now()
	end := start.Add(c.Duration)
	for w := range c.Connections {
		wg.Go(func() {
			var mine measured
			for time.Now().Before(end) {
				began := time.Now()
				n, err := work(w, number.Add(1))
				if err != nil {
					mu.Lock()
					failure = err
					mu.Unlock()
					return
				}
				mine.delays = append(mine.delays, time.Since(began))
				mine.requests++
				mine.bytes += int64(n)
			}
			mu.Lock()
			defer mu.Unlock()
			total.requests += mine.requests
			total.bytes += mine.bytes
			total.delays = append(total.delays, mine.delays...)
		})
	}
	wg.Wait()
	total.took = time.Since(start)
	return total, failure
}

func (c *benchIngestCmd) load(ctx context.Context, addr string, bodies [][]byte) (measured, error) {
	sockets, copies := make([]*socket, c.Connections), make([][]byte, c.Connections)
	for i := range sockets {
		s, err := dialSocket(addr, "/v1/streams/bids/events", "application/x-ndjson")
		if err != nil {
			return measured{}, err
		}
		defer s.close()
		sockets[i] = s
	}
	return c.run(func(worker int, number int64) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		body := append(copies[worker][:0], bodies[number%rendered]...)
		copies[worker] = body
		stamp(body, number)
		return len(body), sockets[worker].post(body)
	})
}

// bare writes the same bytes to the store itself, one value a request, synced.
func (c *benchIngestCmd) bare(dir string, bodies [][]byte) (measured, error) {
	store, err := kv.Open(dir, kv.Options{})
	if err != nil {
		return measured{}, err
	}
	defer store.Close()
	return c.run(func(_ int, number int64) (int, error) {
		body := bodies[number%rendered]
		b := store.NewBatch()
		b.Set(fmt.Appendf([]byte{byte(kv.Batches)}, "%016d", number), body)
		return len(body), b.Commit(true)
	})
}
