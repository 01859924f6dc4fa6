package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"tidemark/ingest"
	"tidemark/storage"
	"tidemark/storage/catalog"
	"tidemark/storage/history"
	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/stream/pebblelog"
	"tidemark/windows/runtime"
)

// stateOptions are shared by the benchmark and the processes that it starts.
type stateOptions struct {
	Dir string `help:"Directory for the data." default:""`
	SQL string `help:"The view; it reads the stream clicks with ts, user and amount." name:"sql" default:"SELECT user, count(*) AS n, sum(amount) AS total, max(amount) AS top FROM clicks GROUP BY user"`
}

type benchStateCmd struct {
	stateOptions `embed:""`
	Events       int64   `help:"How many events the view reads." default:"10000000"`
	Groups       int     `help:"How many groups they have." default:"1000000"`
	Hot          float64 `help:"Share of the events that go to the first tenth of the groups; 0: all groups get as many." default:"0"`
	Memory       string  `help:"--memory of the bounded run; half of it is for the view's state." default:"256MiB"`
}

func (*benchStateCmd) Help() string {
	return `Fills a stream, and lets a view catch up with it twice, each time in a process of its own: without a bound, and with one.
Prints events a second, the process's peak of resident memory, and what the view keeps; then how long a start takes until
the view has recovered.`
}

func (c *benchStateCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := parseSize(c.Memory); err != nil {
		return &usageError{"--memory: " + err.Error()}
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	part := func(args ...string) (r stateReport, err error) {
		cmd := exec.CommandContext(ctx, exe, append([]string{"bench", "state-part", "--dir", dir, "--sql", c.SQL}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &r)
		}
		return r, err
	}
	if _, err := part("--fill", fmt.Sprint(c.Events), "--groups", fmt.Sprint(c.Groups), "--hot", fmt.Sprint(c.Hot)); err != nil {
		return fmt.Errorf("fill the stream: %w", err)
	}
	fmt.Printf("%d events, %d groups: %s\n\n", c.Events, c.Groups, c.SQL)
	fmt.Printf("%-18s %10s %10s %12s %12s %12s %12s %10s %14s\n", "memory", "events/s", "CPU s/M", "peak RSS MB", "in memory MB", "groups, rows", "spilled", "on disk MB", "start s, RSS MB")
	mb := func(n int64) float64 { return float64(n) / (1 << 20) }
	var rates []float64
	for _, memory := range []string{"", c.Memory} {
		r, err := part("--memory", memory)
		if err != nil {
			return fmt.Errorf("catch up: %w", err)
		}
		again, err := part("--memory", memory, "--again")
		if err != nil {
			return fmt.Errorf("start again: %w", err)
		}
		rates = append(rates, float64(c.Events)/r.Seconds)
		fmt.Printf("%-18s %10.0f %10.2f %12.0f %12.1f %12d %12d %10.1f %8.2f %5.0f\n", or(memory, "no bound"), float64(c.Events)/r.Seconds, r.CPU/float64(c.Events)*1e6,
			mb(r.Peak), mb(r.InMemory), r.Entries, r.Spilled, mb(r.State), again.Seconds, mb(again.Peak))
		fmt.Printf("%-18s rows of the view %.1f MB, its changes %.1f MB, asked the store %d times\n", "", mb(r.Rows), mb(r.Changes), r.Reads)
	}
	fmt.Printf("\nwith %s the view is %.2f times as fast as without a bound\n", c.Memory, rates[1]/rates[0])
	return nil
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// stateReport is what one process says of its part.
type stateReport struct {
	Seconds, CPU                     float64
	Peak, InMemory, State            int64
	Rows, Changes                    int64
	Entries, Spilled, Evicted, Reads int64
}

// benchStatePartCmd is one process of the benchmark.
type benchStatePartCmd struct {
	stateOptions `embed:""`
	Fill         int64
	Groups       int
	Hot          float64
	Memory       string
	Again        bool
	Profile      string
}

func (c *benchStatePartCmd) Run(ctx context.Context) (err error) {
	quiet := slog.New(slog.DiscardHandler)
	var store kv.Options
	var log pebblelog.Options
	state := int64(0)
	if c.Memory != "" {
		memory, err := parseSize(c.Memory)
		if err != nil {
			return err
		}
		share := shareOut(memory)
		limitHeap(memory)
		store.CacheBytes, store.MemTableBytes, state = share.cache, share.memTable, share.state
		log.QueueBytes, log.TailBytes = int(share.queue), int(share.tail)
	}
	dir, err := storage.Open(c.Dir, storage.Options{Logger: quiet, Store: store})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	cat, err := catalog.Open(dir.KV)
	if err != nil {
		return err
	}
	log.Logger = quiet
	l, err := pebblelog.Open(dir.KV, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	streams, err := stream.OpenRegistry(cat, l)
	if err != nil {
		return err
	}
	var r stateReport
	if c.Fill > 0 {
		err = c.fill(ctx, streams, l)
	} else {
		stop, perr := profile(c.Profile)
		if perr != nil {
			return perr
		}
		defer stop()
		r, err = c.view(ctx, runtime.Options{KV: dir.KV, Log: l, Registry: streams, Catalog: cat, Logger: quiet, StateBytes: state})
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// fill posts the events, without HTTP.
func (c *benchStatePartCmd) fill(ctx context.Context, streams *stream.Registry, log stream.Log) error {
	config, err := stream.ParseConfig([]byte(`{"time_field":"ts","columns":{"ts":"TIMESTAMP","user":"VARCHAR","amount":"BIGINT"}}`))
	if err != nil {
		return err
	}
	if _, _, err := streams.Put(ctx, "clicks", config); err != nil {
		return err
	}
	in := ingest.New(streams, log, ingest.Options{})
	defer in.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	at := time.Now().UTC().Add(-time.Hour).UnixMicro()
	var body []byte
	for n := int64(0); n < c.Fill; {
		body = body[:0]
		for range min(10*request, c.Fill-n) {
			user := rng.IntN(c.Groups)
			if c.Hot > 0 && rng.Float64() < c.Hot {
				user %= max(c.Groups/10, 1)
			}
			if n < int64(c.Groups) && c.Hot == 0 {
				user = int(n) // every group is there
			}
			body = fmt.Appendf(body, `{"ts":%d,"user":"u%08d","amount":%d}`+"\n", at+n*100, user*7919%c.Groups, rng.IntN(100_000))
			n++
		}
		if _, err := in.Post(ctx, ingest.Request{Stream: "clicks", Body: body, ContentType: "application/x-ndjson", Strict: true, NoSync: n < c.Fill}); err != nil {
			return err
		}
	}
	return nil
}

// view lets the view catch up with the stream, or, again, start where it is.
func (c *benchStatePartCmd) view(ctx context.Context, o runtime.Options) (r stateReport, err error) {
	parser, err := history.NewParser(256 << 20)
	if err != nil {
		return r, err
	}
	defer parser.Close()
	o.Parse = parser.ParseSQL
	began, cpu := time.Now(), cpuTime()
	service, err := runtime.Open(o)
	if err != nil {
		return r, err
	}
	running, stop := context.WithCancelCause(ctx)
	done := make(chan error, 1)
	go func() { done <- service.Run(running) }()
	defer func() {
		stop(errStopped)
		err = errors.Join(err, <-done)
	}()
	const name = "bench"
	if !c.Again {
		if _, _, err := service.Put(ctx, name, runtime.Definition{SQL: c.SQL}, false); err != nil {
			return r, err
		}
	}
	for {
		at, _, err := service.Standing(name)
		if err != nil {
			return r, err
		}
		if at.Sequence >= o.Log.End() && service.Ready() {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
	r.Seconds, r.CPU, r.Peak = time.Since(began).Seconds(), (cpuTime() - cpu).Seconds(), peakResident()
	if c.Again {
		return r, service.Delete(ctx, name)
	}
	m := service.Gauges()[0].Memory
	r.InMemory, r.Entries, r.Spilled, r.Evicted, r.Reads = m.Bytes, m.Entries, m.Spilled, m.Evicted, m.Reads
	x, err := service.Explain(ctx, name)
	if err != nil {
		return r, err
	}
	for _, s := range x.State {
		r.State += s.Bytes
	}
	r.Rows, r.Changes = x.Rows.Bytes, x.Changes.Bytes
	return r, nil
}

// peakResident is the most that this process has held in memory.
func peakResident() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	text, _ := io.ReadAll(f)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kb int64
	fmt.Sscan(rest, &kb)
	return kb << 10
}
