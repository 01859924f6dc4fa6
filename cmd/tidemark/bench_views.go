package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"tidemark/cmd/tidemark/nexmark"
	"tidemark/ingest"
	"tidemark/storage"
	"tidemark/storage/catalog"
	"tidemark/storage/history"
	"tidemark/stream"
	"tidemark/stream/pebblelog"
	"tidemark/windows/runtime"
)

type benchViewsCmd struct {
	Events  int64  `help:"Nexmark bids a run, taken in while the views run." default:"300000"`
	Views   int    `help:"How many views there are on the stream." default:"20"`
	Rate    int    `help:"Events a second of wall clock." default:"20000"`
	Groups  int    `help:"Groups of each view in a window." default:"100"`
	Dir     string `help:"Directory for the data." default:""`
	Profile string `help:"Write a CPU profile of the run with many views to this file."`
}

func (*benchViewsCmd) Help() string {
	return `Takes the same events in three times at the same pace: without a view, with one, and with many on the same stream,
in the runtime as the server has it: epochs, checkpoints and change streams in the store. The cost of views is the CPU
time of the process beyond that of the run without any.`
}

func (c *benchViewsCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bodies := c.bodies()
	var cost [3]time.Duration
	for i, views := range []int{0, 1, c.Views} {
		stop := func() {}
		if i == 2 {
			if stop, err = profile(c.Profile); err != nil {
				return err
			}
		}
		if cost[i], err = c.run(ctx, filepath.Join(dir, fmt.Sprint(i)), bodies, views); err != nil {
			return err
		}
		stop()
		fmt.Printf("%3d views %8.2f CPU s per million events, %.2f of them for views\n", views, cost[i].Seconds()/float64(c.Events)*1e6, (cost[i]-cost[0]).Seconds()/float64(c.Events)*1e6)
	}
	fmt.Printf("with %d views the process takes %.1f times what it takes with one (aim: 6 or less); the views alone %.1f times\n",
		c.Views, cost[2].Seconds()/cost[1].Seconds(), float64(cost[2]-cost[0])/float64(max(cost[1]-cost[0], 1)))
	return nil
}

// bodies renders the requests before anything is measured.
func (c *benchViewsCmd) bodies() [][]byte {
	g := nexmark.New(nexmark.Options{Seed: 1})
	var list [][]byte
	var body []byte
	bids := int64(0)
	for n := int64(0); bids < c.Events; n++ {
		line, kind := g.Append(nil, n)
		if kind != nexmark.Bid {
			continue
		}
		bids++
		if body = append(body, line...); bids%request == 0 || bids == c.Events {
			list = append(list, body)
			body = nil
		}
	}
	return list
}

// view is the n-th view: bids and the highest price in 10 s by group, from a price on.
func (c *benchViewsCmd) view(n int) runtime.Definition {
	return runtime.Definition{SQL: fmt.Sprintf(
		"SELECT window_start, auction %% %d AS part, count(*) AS bids, max(price) AS top FROM tumble(bid, date_time, INTERVAL '10 seconds') WHERE price >= %d GROUP BY ALL",
		max(c.Groups, 1), 100+n*1000)}
}

func (c *benchViewsCmd) run(ctx context.Context, path string, bodies [][]byte, views int) (_ time.Duration, err error) {
	quiet := slog.New(slog.DiscardHandler)
	dir, err := storage.Open(path, storage.Options{Logger: quiet})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	cat, err := catalog.Open(dir.KV)
	if err != nil {
		return 0, err
	}
	log, err := pebblelog.Open(dir.KV, pebblelog.Options{Logger: quiet})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	streams, err := stream.OpenRegistry(cat, log)
	if err != nil {
		return 0, err
	}
	parser, err := history.NewParser(256 << 20)
	if err != nil {
		return 0, err
	}
	defer parser.Close()
	service, err := runtime.Open(runtime.Options{KV: dir.KV, Log: log, Registry: streams, Catalog: cat, Parse: parser.ParseSQL, Logger: quiet})
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancelCause(ctx)
	done := make(chan error, 1)
	go func() { done <- service.Run(running) }()
	defer func() {
		stop(errStopped)
		err = errors.Join(err, <-done)
	}()
	config, err := stream.ParseConfig([]byte(nexmark.Streams[nexmark.Bid]))
	if err != nil {
		return 0, err
	}
	if _, _, err := streams.Put(ctx, nexmark.Bid.String(), config); err != nil {
		return 0, err
	}
	name := func(n int) string { return fmt.Sprintf("v%d", n) }
	for n := range views {
		if _, _, err := service.Put(ctx, name(n), c.view(n), false); err != nil {
			return 0, err
		}
	}
	in := ingest.New(streams, log, ingest.Options{})
	began := cpuTime()
	tick := time.NewTicker(time.Duration(request) * time.Second / time.Duration(max(c.Rate, 1)))
	defer tick.Stop()
	for _, body := range bodies {
		if _, err := in.Post(ctx, ingest.Request{Stream: nexmark.Bid.String(), Body: body, ContentType: "application/x-ndjson"}); err != nil {
			return 0, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	for n := range views {
		for {
			at, _, err := service.Standing(name(n))
			if err != nil {
				return 0, err
			}
			if at.Sequence >= log.End() {
				break
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
	}
	return cpuTime() - began, nil
}
