package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

type benchFanoutCmd struct {
	Subscribers int    `help:"Websockets on one view, each with every commit as a frame of its own." default:"1000"`
	Requests    int    `help:"Requests of the part that sends as fast as the subscribers get it." default:"300"`
	Rows        int    `help:"Events a request: each changes another row of the view." default:"5"`
	Paced       int    `help:"Requests of each part with a pace." default:"100"`
	Rate        int    `help:"Their number a second." default:"20"`
	Stalled     int    `help:"Subscribers that take nothing, beside the others, in a second part with a pace." default:"1"`
	Dir         string `help:"Directory for the data." default:""`
}

func (*benchFanoutCmd) Help() string {
	return `Starts a server of its own, on loopback, and subscribes to one of its views over many websockets. First events come
at a pace, without and with readers that take nothing: the delay is from the POST to the frame, over all subscribers.
Then they come as fast as the frames arrive; the same frames go to as many websockets from a bare broadcast (one loop,
prepared messages) on the same core. Every frame is read and looked at by the same client.`
}

func (c *benchFanoutCmd) Validate() error {
	if c.Subscribers < 1 || c.Requests < 1 || c.Rows < 1 || c.Paced < 1 || c.Rate < 1 || c.Stalled < 0 {
		return errors.New("--subscribers, --requests, --rows, --paced and --rate must be positive, --stalled not negative")
	}
	if n := c.Subscribers + c.Stalled; n > 10_000 {
		return fmt.Errorf("a server takes 10,000 websockets at once: %d are too many", n)
	}
	return nil
}

func (c *benchFanoutCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("%d subscribers, loopback\n", c.Subscribers)
	frames, served, err := c.served(ctx, dir)
	if err != nil {
		return err
	}
	bare, err := c.bare(ctx, dir, frames)
	if err != nil {
		return err
	}
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	fmt.Printf("%-44s %10.0f frames/s of %d B, %.1f CPU s a million: POST, fsync and view included\n", "delivered", served.rate, size/len(frames), served.cpu)
	fmt.Printf("%-44s %10.0f frames/s, %.1f CPU s a million\n", "bare broadcast of the same frames", bare.rate, bare.cpu)
	fmt.Printf("ratio %.2f (aim: 0.8 or more), of the CPU time %.2f\n", served.rate/bare.rate, bare.cpu/served.cpu)
	return nil
}

// served measures Tidemark itself; frames are those of the part without a pace, as one subscriber
// got them.
func (c *benchFanoutCmd) served(ctx context.Context, dir string) (frames [][]byte, d delivery, err error) {
	srv, err := startBenchServer(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return nil, d, err
	}
	defer srv.stop()
	if err := setUpTicks(ctx, srv.client()); err != nil {
		return nil, d, err
	}
	p := &pacer{benchFanoutCmd: c, poster: newPoster(srv.addr, 1)}
	if err := p.warmUp(ctx, srv.addr); err != nil {
		return nil, d, err
	}

	empty := srv.resident()
	a, err := openAudience(ctx, srv.addr, c.Subscribers, "latest")
	if err != nil {
		return nil, d, err
	}
	defer a.close()
	if err := srv.settle(ctx); err != nil {
		return nil, d, err
	}
	open := srv.resident()
	p.audience = a
	alone, err := p.paced(ctx)
	if err != nil {
		return nil, d, err
	}
	used := srv.resident()
	kib := func(bytes int64) float64 { return float64(bytes-empty) / float64(c.Subscribers) / 1024 }
	fmt.Printf("%-44s %10.1f KiB idle, %.1f after %d frames (aim: 16 or less)\n", "memory of the server for a subscriber", kib(open), kib(used), c.Paced)
	c.delays("delay at a pace", alone)

	if c.Stalled > 0 {
		held, err := p.stall(ctx, srv.addr)
		if err != nil {
			return nil, d, err
		}
		if err := srv.settle(ctx); err != nil {
			return nil, d, err
		}
		beside, err := p.paced(ctx)
		for _, conn := range held {
			conn.Close()
		}
		if err != nil {
			return nil, d, err
		}
		c.delays(fmt.Sprintf("the same beside %d stalled", c.Stalled), beside)
	}
	return p.flood(ctx, srv)
}

func (c *benchFanoutCmd) delays(name string, list []time.Duration) {
	round := func(q float64) time.Duration { return quantile(list, q).Round(10 * time.Microsecond) }
	fmt.Printf("%-44s %10s p50 %10s p99 of %d frames, %d requests/s\n", name, round(0.5), round(0.99), len(list), c.Rate)
}

// delivery is how many frames a second all subscribers got together, and the server's CPU seconds for
// a million of them.
type delivery struct{ rate, cpu float64 }

// delivery begins to measure; the function that it returns ends it.
func (a *audience) delivery(srv *benchServer) func() delivery {
	began, used := time.Now(), srv.cpu()
	return func() delivery {
		took, n := time.Since(began), float64(a.delivered())
		return delivery{n / took.Seconds(), (srv.cpu() - used).Seconds() / n * 1e6}
	}
}

// bare sends the frames from the broadcast.
func (c *benchFanoutCmd) bare(ctx context.Context, dir string, frames [][]byte) (d delivery, err error) {
	text, err := json.Marshal(frames)
	if err != nil {
		return d, err
	}
	file := filepath.Join(dir, "frames.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return d, err
	}
	// The last one is the subscriber for which the first frame waits: the clock starts before it comes.
	srv, err := startPinned(ctx, "bench", "broadcast", "--frames", file, "--subscribers", strconv.Itoa(c.Subscribers+1))
	if err != nil {
		return d, err
	}
	defer srv.stop()
	a, err := openAudience(ctx, srv.addr, c.Subscribers, "")
	if err != nil {
		return d, err
	}
	defer a.close()
	goal := newest(frames[len(frames)-1])
	a.begin(goal, nil)
	measured := a.delivery(srv)
	trigger, err := openAudience(ctx, srv.addr, 1, "")
	if err != nil {
		return d, err
	}
	defer trigger.close()
	if err := a.finished(ctx); err != nil {
		return d, err
	}
	return measured(), nil
}

// pacer posts the requests of all parts; their numbers go on.
type pacer struct {
	*benchFanoutCmd
	poster   *poster
	audience *audience
	next     int64
}

func (p *pacer) post(ctx context.Context) error {
	var body []byte
	for row := range p.Rows {
		body = fmt.Appendf(body, `{"part":%d,"id":%d}`+"\n", row, p.next)
	}
	p.next++
	return p.poster.post(ctx, body)
}

// warmUp sends a little before anybody listens, so that the server's memory is that of a running one.
func (p *pacer) warmUp(ctx context.Context, addr string) error {
	a, err := openAudience(ctx, addr, 1, "latest")
	if err != nil {
		return err
	}
	defer a.close()
	a.begin(int64(p.Paced-1), nil)
	for range p.Paced {
		if err := p.post(ctx); err != nil {
			return err
		}
	}
	return a.finished(ctx)
}

// paced sends requests at the rate, and gives every subscriber's delays.
func (p *pacer) paced(ctx context.Context) ([]time.Duration, error) {
	first := p.next
	due := make([]time.Time, p.Paced)
	start := time.Now().Add(10 * time.Millisecond)
	for n := range due {
		due[n] = start.Add(time.Duration(n) * time.Second / time.Duration(p.Rate))
	}
	p.audience.begin(first+int64(p.Paced)-1, func(newest int64, at time.Time) (time.Duration, bool) {
		n := newest - first
		return at.Sub(due[max(n, 0)]), n >= 0
	})
	for n := range due {
		select {
		case <-time.After(time.Until(due[n])):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := p.post(ctx); err != nil {
			return nil, err
		}
	}
	if err := p.audience.finished(ctx); err != nil {
		return nil, err
	}
	return p.audience.delays(), nil
}

// ahead is how many requests are on their way at once in the part without a pace.
const ahead = 8

// flood sends requests as fast as a subscriber gets their frames, and gives the frames and how many
// a second all got together.
func (p *pacer) flood(ctx context.Context, srv *benchServer) (frames [][]byte, d delivery, err error) {
	goal := p.next + int64(p.Requests) - 1
	p.audience.begin(goal, nil)
	measured := p.audience.delivery(srv)
	for p.next <= goal {
		if err := p.audience.first.await(ctx, p.next-ahead); err != nil {
			return nil, d, err
		}
		if err := p.post(ctx); err != nil {
			return nil, d, err
		}
	}
	if err := p.audience.finished(ctx); err != nil {
		return nil, d, err
	}
	d = measured()
	return p.audience.first.kept, d, nil
}

// stall opens websockets that read nothing. Each asks for all that there was many times over, into
// a small buffer, so that it is stuck before anything is measured.
func (p *pacer) stall(ctx context.Context, addr string) ([]*websocket.Conn, error) {
	small := &websocket.Dialer{NetDialContext: (&net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		return errors.Join(err, failed)
	}}).DialContext}
	var held []*websocket.Conn
	for range p.Stalled {
		conn, err := subscribe(ctx, addr, small, "earliest", 200)
		if err != nil {
			return nil, err
		}
		held = append(held, conn)
	}
	return held, nil
}
