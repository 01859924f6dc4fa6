package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

type benchLatencyCmd struct {
	Duration time.Duration `help:"How long events are sent; the first fifth is not counted." default:"10s"`
	Rate     int           `help:"Events a second, open loop: they are sent when it is their time, whatever the server does." default:"10000"`
	Batch    int           `help:"Events a request." default:"10"`
	Lanes    int           `help:"Connections, each with one request in flight. They must be enough for the rate." default:"64"`
	Dir      string        `help:"Directory for the data; it must be on the disk that is to be measured." default:""`
}

func (*benchLatencyCmd) Help() string {
	return `Starts a server of its own, on loopback, with one stream and one view (throttle 0s), and listens to the view over a
websocket. The time of an event is from the moment when it was due to the frame that has it in. The fsyncs are those of
the same server over the same time, from its own metrics.`
}

func (c *benchLatencyCmd) Validate() error {
	if c.Rate < 1 || c.Batch < 1 || c.Lanes < 1 || c.Duration <= 0 {
		return errors.New("--rate, --batch, --lanes and --duration must be positive")
	}
	return nil
}

func (c *benchLatencyCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	srv, err := startBenchServer(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer srv.stop()
	if err := setUpTicks(ctx, srv.client()); err != nil {
		return err
	}
	conn, err := subscribe(ctx, srv.addr, websocket.DefaultDialer, "latest", 1)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := subscribed(conn); err != nil {
		return err
	}
	r := c.newRun(srv.addr)
	cpu := srv.cpu()
	fsync, err := r.measure(ctx, conn, srv.client())
	if err != nil {
		return err
	}
	cpu = srv.cpu() - cpu
	r.print(fsync, cpu)
	return nil
}

// latencyRun is one run: request n goes over lane n % lanes when its time has come.
type latencyRun struct {
	*benchLatencyCmd
	requests int
	skip     int // the first ones, which are not counted
	start    time.Time
	poster   *poster
	acked    []time.Duration // by request: from its time to the 200
	seen     []time.Duration // … to the frame
}

func (c *benchLatencyCmd) newRun(addr string) *latencyRun {
	n := max(c.Lanes, int(c.Duration.Seconds()*float64(c.Rate)/float64(c.Batch)))
	return &latencyRun{
		benchLatencyCmd: c, requests: n, skip: n / 5, poster: newPoster(addr, c.Lanes),
		acked: make([]time.Duration, n), seen: make([]time.Duration, n),
	}
}

// due is when a request is to be sent.
func (r *latencyRun) due(n int) time.Time {
	return r.start.Add(time.Duration(float64(n) * float64(r.Batch) / float64(r.Rate) * 1e9))
}

// heard is a frame and when it came.
type heard struct {
	at    time.Time
	frame []byte
}

func (r *latencyRun) measure(ctx context.Context, conn *websocket.Conn, cl *client) (fsyncs, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer func() { // however this ends, all that was started has ended
		cancel(nil)
		conn.Close()
		wg.Wait()
	}()
	r.start = time.Now().Add(100 * time.Millisecond)

	arrivals := make(chan heard, 1<<16)
	wg.Go(func() {
		defer close(arrivals)
		for {
			_, frame, err := conn.ReadMessage()
			if err != nil {
				return
			}
			arrivals <- heard{time.Now(), frame}
		}
	})
	lanes := make(chan struct{})
	var sending sync.WaitGroup
	for lane := range r.Lanes {
		sending.Go(func() {
			if err := r.send(ctx, lane); err != nil {
				cancel(err)
			}
		})
	}
	wg.Go(func() {
		sending.Wait()
		close(lanes)
	})
	all := make(chan struct{})
	wg.Go(func() { r.take(arrivals, all) })

	var before fsyncs
	select {
	case <-time.After(time.Until(r.due(r.skip))):
	case <-ctx.Done():
		return before, context.Cause(ctx)
	}
	before, err := readFsyncs(ctx, cl)
	if err != nil {
		return before, err
	}
	<-lanes
	if err := context.Cause(ctx); err != nil {
		return before, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		return before, context.Cause(ctx)
	case <-time.After(benchPatience):
		return before, errors.New("the view has not shown every event")
	}
	after, err := readFsyncs(ctx, cl)
	return after.since(before), err
}

// send sends a lane's requests, each at its time or, when the one before took longer, at once.
func (r *latencyRun) send(ctx context.Context, lane int) error {
	for n := lane; n < r.requests; n += r.Lanes {
		var body []byte
		for range r.Batch {
			body = fmt.Appendf(body, `{"part":%d,"id":%d}`+"\n", lane, n)
		}
		select {
		case <-time.After(time.Until(r.due(n))):
		case <-ctx.Done():
			return nil
		}
		if err := r.poster.post(ctx, body); err != nil {
			return err
		}
		r.acked[n] = time.Since(r.due(n))
	}
	return nil
}

// take notes of each request when it was seen. A lane's requests are in order, so a row whose
// greatest number is n has all of the lane up to n in.
func (r *latencyRun) take(arrivals <-chan heard, all chan<- struct{}) {
	next := make([]int, r.Lanes)
	for lane := range next {
		next[lane] = lane
	}
	missing := r.requests
	for a := range arrivals {
		rowsOf(a.frame, func(lane, last int64) {
			for ; next[lane] <= int(last); next[lane] += r.Lanes {
				r.seen[next[lane]] = a.at.Sub(r.due(next[lane]))
				missing--
			}
		})
		if missing == 0 {
			close(all)
			missing = -1 // for what is still to be read
		}
	}
}

func (r *latencyRun) print(f fsyncs, cpu time.Duration) {
	seen, acked := r.seen[r.skip:], r.acked[r.skip:]
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	line := func(name string, p50, p99 time.Duration) { fmt.Printf("%-44s %10.2f %10.2f\n", name, ms(p50), ms(p99)) }
	fmt.Printf("%-44s %10s %10s\n", fmt.Sprintf("%d events/s, %d a request, loopback; ms", r.Rate, r.Batch), "p50", "p99")
	p50, p99 := quantile(seen, 0.5), quantile(seen, 0.99)
	line("POST, fsync, view, websocket", p50, p99)
	line("of it POST to 200", quantile(acked, 0.5), quantile(acked, 0.99))
	line(fmt.Sprintf("an fsync (%.0f in the same time)", f.total()), f.quantile(0.5), f.quantile(0.99))
	line("difference to the fsync", p50-f.quantile(0.5), p99-f.quantile(0.99))
	fmt.Printf("%.1f CPU s per million events (aim: p50 of 2 ms or less, p99 of 10 ms or less)\n", cpu.Seconds()/float64(r.requests*r.Batch)*1e6)
}
