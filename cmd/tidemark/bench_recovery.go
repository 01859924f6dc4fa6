package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

type benchRecoveryCmd struct {
	Kills       int           `help:"How often the server is killed." default:"3"`
	Duration    time.Duration `help:"How long it is under full load before each kill." default:"10s"`
	Connections int           `help:"Connections, each with one request of 100 events in flight." default:"16"`
	Dir         string        `help:"Directory for the data." default:""`
}

func (*benchRecoveryCmd) Help() string {
	return `Starts a server with two views, sends it as many events as it takes, kills it (SIGKILL) and starts it again. Fresh
is the time from the start of the process to the first answer of the first view that has every acknowledged event in.
The second view was paused before the load; once the first is fresh, it goes on, and reads the events of the load from
the log: that is the rate of replay. Server and client are asked to keep to one core each.`
}

// recoveryViews are what runs beside the load: the same aggregate twice.
var recoveryViews = []string{"live", "paused"}

const recoverySQL = `SELECT channel, count(*) AS n, max(price) AS top FROM bids GROUP BY channel`

func (c *benchRecoveryCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	v, err := newVictim(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	v.pinned = true
	defer v.kill()
	if err := v.start(ctx); err != nil {
		return err
	}
	r := &recovery{victim: v, load: &benchIngestCmd{Connections: c.Connections, Events: 100}}
	if err := r.define(ctx); err != nil {
		return err
	}
	fmt.Printf("%4s %12s %10s %10s %10s %12s %14s %8s\n", "kill", "acknowledged", "events/s", "ready s", "fresh s", "replayed", "replay/s", "ratio")
	for n := range c.Kills {
		k, err := r.round(ctx, c.Duration)
		if err != nil {
			return err
		}
		ingest, replay := float64(k.sent)/k.under.Seconds(), float64(k.replayed)/k.replay.Seconds()
		fmt.Printf("%4d %12d %10.0f %10.2f %10.2f %12d %14.0f %8.1f\n", n+1, k.sent, ingest, k.ready.Seconds(), k.fresh.Seconds(), k.replayed, replay, replay/ingest)
	}
	fmt.Println("ratio: rate of replay by rate of ingest (aim: 2 or more); fresh: aim 2 s and what is to replay")
	return nil
}

// recovery is one run.
type recovery struct {
	victim *victim
	load   *benchIngestCmd
	acked  int64 // events, over all rounds
}

// recovered is what one round measured.
type recovered struct {
	sent, replayed              int64
	under, ready, fresh, replay time.Duration
}

func (r *recovery) define(ctx context.Context) error {
	cl := r.victim.client()
	columns := `"columns":{"id":"VARCHAR","ts":"TIMESTAMP","auction":"BIGINT","bidder":"BIGINT","price":"BIGINT","channel":"VARCHAR","url":"VARCHAR","extra":"VARCHAR"}`
	if err := cl.call(ctx, "PUT", "/v1/streams/bids", []byte(`{"time_field":"ts",`+columns+`}`), nil, nil); err != nil {
		return err
	}
	for _, name := range recoveryViews {
		if err := cl.call(ctx, "PUT", "/v1/views/"+name, fmt.Appendf(nil, `{"sql":%q}`, recoverySQL), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) round(ctx context.Context, duration time.Duration) (k recovered, err error) {
	cl := r.victim.client()
	if err := cl.call(ctx, "POST", "/v1/views/paused/pause", nil, nil, nil); err != nil {
		return k, err
	}
	before, err := r.counted(ctx, "paused")
	if err != nil {
		return k, err
	}
	k.sent, k.under = r.send(duration)
	r.acked += k.sent

	began := time.Now()
	if err := r.victim.start(ctx); err != nil {
		return k, err
	}
	k.ready = time.Since(began)
	if _, err := r.reaches(ctx, "live", r.acked); err != nil {
		return k, err
	}
	k.fresh = time.Since(began)

	began = time.Now()
	if err := cl.call(ctx, "POST", "/v1/views/paused/resume", nil, nil, nil); err != nil {
		return k, err
	}
	after, err := r.reaches(ctx, "paused", r.acked)
	k.replay, k.replayed = time.Since(began), after-before
	return k, err
}

// send sends as much as the server takes until it is killed. A request that the kill cut off is not
// acknowledged; its events may be in the log all the same.
func (r *recovery) send(duration time.Duration) (acked int64, took time.Duration) {
	bodies := r.load.bodies()
	var done atomic.Bool
	var sent atomic.Int64
	var work sync.WaitGroup
	cl := &fasthttp.HostClient{Addr: r.victim.addr, MaxConns: r.load.Connections, MaxIdemponentCallAttempts: 1}
	began := time.Now()
	for w := range r.load.Connections {
		work.Go(func() {
			req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			defer fasthttp.ReleaseRequest(req)
			defer fasthttp.ReleaseResponse(resp)
			for n := w; !done.Load(); n++ {
				req.SetRequestURI("http://" + r.victim.addr + "/v1/streams/bids/events")
				req.Header.SetMethod("POST")
				req.Header.SetContentType("application/x-ndjson")
				req.SetBodyRaw(bodies[n%len(bodies)])
				if err := cl.Do(req, resp); err == nil && resp.StatusCode() == 200 {
					sent.Add(int64(r.load.Events))
				}
			}
		})
	}
	time.Sleep(duration)
	took = time.Since(began)
	r.victim.kill()
	done.Store(true)
	work.Wait()
	return sent.Load(), took
}

// counted is how many events a view has in.
func (r *recovery) counted(ctx context.Context, view string) (int64, error) {
	var answer struct {
		Rows []struct {
			N int64 `json:"n"`
		} `json:"rows"`
	}
	err := r.victim.client().call(ctx, "GET", "/v1/views/"+view+"/rows?limit=1000", nil, nil, &answer)
	var n int64
	for _, row := range answer.Rows {
		n += row.N
	}
	return n, err
}

// reaches asks a view until it has so many events in.
func (r *recovery) reaches(ctx context.Context, view string, events int64) (int64, error) {
	for until := time.Now().Add(2 * time.Minute); ; {
		n, err := r.counted(ctx, view)
		if err == nil && n >= events {
			return n, nil
		}
		if time.Now().After(until) {
			return n, fmt.Errorf("view %s has %d of %d acknowledged events after two minutes (%v)", view, n, events, err)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
}
