package main

import (
	"context"
	_ "embed"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tidemark/storage/problem"
	"tidemark/web/auth"
)

type demoCmd struct {
	serverOptions `embed:""`
	Fresh         bool `help:"Empty the demo's data directory first."`
}

func (*demoCmd) Help() string {
	return `A shop on this machine: page views, carts, checkouts and payments with late and doubled events, a few
broken ones, and now and then a stolen card. The data stay in ./tidemark-demo; the next start goes on.`
}

//go:embed demo.yaml
var demoFile []byte

// demoPast is how far back the shop's events begin on a fresh start, so that charts are full at once.
const demoPast = 20 * time.Minute

func (c *demoCmd) Run(ctx context.Context) error {
	o, from, err := c.load("./tidemark-demo", os.Environ())
	if err != nil {
		return err
	}
	if c.PrintConfig {
		o.print(os.Stdout, from)
		return nil
	}
	if c.LogLevel == nil {
		o.LogLevel = slog.LevelWarn
	}
	if c.Fresh {
		if err := emptyDemo(o.Data); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failed := make(chan error, 1)
	err = serve(ctx, o, true, func(addr net.Addr, s *service, _ *slog.Logger) {
		key := s.keys.Ephemeral("demo", auth.Admin) // the shop goes on when somebody makes keys
		go func() {
			if err := runShop(ctx, addr.String(), key, o.Data); err != nil && ctx.Err() == nil {
				failed <- err
				stop(err)
			}
		}()
	})
	select {
	case shop := <-failed:
		err = errors.Join(err, shop)
	default:
	}
	return err
}

// emptyDemo removes a data directory, but nothing that is none.
func emptyDemo(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); err != nil {
		return fmt.Errorf("--fresh: %s does not look like a data directory (it has no FORMAT file): remove it yourself, or name another with --data", absolute(dir))
	}
	return os.RemoveAll(dir)
}

// runShop declares what the demo needs, fills in the recent past when there is none, and then sends
// events as they happen.
func runShop(ctx context.Context, addr, key, dir string) error {
	cl := serverFlags{Server: "http://" + addr, Key: key}.client()
	if err := waitReady(ctx, cl); err != nil {
		return err
	}
	list, err := readDeclarations(demoFile)
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := cl.call(ctx, "PUT", d.path(), d.body, nil, nil); err != nil {
			return fmt.Errorf("declare %s: %w", d.name, err)
		}
	}
	var st struct{ Counts struct{ Accepted int64 } }
	if err := cl.call(ctx, "GET", "/v1/streams/page_views", nil, nil, &st); err != nil {
		return err
	}
	run := runName()
	s := newShop(rand.Uint64(), run)
	now := time.Now()
	at := now
	if st.Counts.Accepted == 0 {
		for at = now.Add(-demoPast); at.Before(now); at = at.Add(time.Second) {
			s.generate(at, at.Add(time.Second))
			if err := deliver(ctx, cl, s.due(at)); err != nil {
				return err
			}
		}
	}
	fmt.Print(demoBanner(addr, dir))
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now = <-tick.C:
		}
		if now.Sub(at) > time.Minute {
			at = now.Add(-time.Minute) // the machine slept: the shop was closed meanwhile
		}
		s.generate(at, now)
		at = now
		if err := deliver(ctx, cl, s.due(now)); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// runName is a text that makes the ids of one run of the shop its own.
func runName() string {
	var b [5]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

func waitReady(ctx context.Context, cl *client) error {
	for {
		if cl.call(ctx, "GET", "/readyz", nil, nil, nil) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// deliver posts arrivals, each stream's in one request, in order.
func deliver(ctx context.Context, cl *client, list []arrival) error {
	bodies := map[string][]byte{}
	for _, a := range list {
		bodies[a.stream] = append(append(bodies[a.stream], a.body...), '\n')
	}
	for name, body := range bodies {
		for {
			err := cl.call(ctx, "POST", "/v1/streams/"+name+"/events", body, map[string]string{"Content-Type": "application/x-ndjson"}, nil)
			var p *problem.Problem
			if err == nil || !errors.As(err, &p) || !retryable(p) {
				if err != nil {
					return fmt.Errorf("the shop can't post to %s: %w", name, err)
				}
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
	return nil
}

func demoBanner(addr, dir string) string {
	return fmt.Sprintf(`
  Tidemark demo is running.

  dashboard   http://%[1]s/d/shop
  an event    curl -d '{"user":"you","page":"/hello"}' http://%[1]s/v1/streams/visits/events
  live        go run ./cmd/tidemark tail card_velocity --server http://%[1]s
              or a websocket: ws://%[1]s/v1/live/revenue?from=snapshot
  SQL         go run ./cmd/tidemark query "FROM revenue ORDER BY window_start DESC LIMIT 5" --server http://%[1]s
  data        %[2]s (the next start goes on there; --fresh empties it)
  stop        Ctrl-C

`, addr, absolute(dir))
}
