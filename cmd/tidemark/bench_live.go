package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// The stream and the view of the benchmarks over websockets. Each event carries the number of its
// request, and a view's row the greatest one of its part, so a frame tells which requests it covers.
const (
	ticksStream = `{"columns":{"part":"BIGINT","id":"BIGINT"}}`
	ticksView   = `{"sql":"SELECT part, count(*) AS n, max(id) AS last FROM ticks GROUP BY part","throttle":"0s"}`
	ticksEvents = "/v1/streams/ticks/events"
	ticksTo     = "counts"
)

// setUpTicks declares the two.
func setUpTicks(ctx context.Context, c *client) error {
	if err := c.call(ctx, "PUT", "/v1/streams/ticks", []byte(ticksStream), nil, nil); err != nil {
		return err
	}
	return c.call(ctx, "PUT", "/v1/views/"+ticksTo, []byte(ticksView), nil, nil)
}

// rowsOf calls each with part and last of every row in a frame of the view.
func rowsOf(frame []byte, each func(part, last int64)) {
	for {
		var part, last int64
		var ok bool
		if part, frame, ok = numberAfter(frame, `"part":`); !ok {
			return
		}
		if last, frame, ok = numberAfter(frame, `"last":`); !ok {
			return
		}
		each(part, last)
	}
}

// numberAfter reads the integer behind the next name.
func numberAfter(text []byte, name string) (v int64, rest []byte, ok bool) {
	at := bytes.Index(text, []byte(name))
	if at < 0 {
		return 0, nil, false
	}
	text = text[at+len(name):]
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		v = 10*v + int64(text[n]-'0')
		n++
	}
	return v, text[n:], n > 0
}

// newest is the greatest request number in a frame; -1: none.
func newest(frame []byte) int64 {
	top := int64(-1)
	rowsOf(frame, func(_, last int64) { top = max(top, last) })
	return top
}

// subscribe opens a websocket and subscribes it to the view, every commit as a frame of its own.
func subscribe(ctx context.Context, addr string, dialer *websocket.Dialer, from string, subscriptions int) (*websocket.Conn, error) {
	conn, resp, err := dialer.DialContext(ctx, "ws://"+addr+"/v1/live", nil)
	if err != nil {
		if resp != nil {
			err = fmt.Errorf("%w: %s", err, resp.Status)
		}
		return nil, err
	}
	for i := range subscriptions {
		op := fmt.Sprintf(`{"op":"subscribe","id":"%d","to":%q,"from":%q,"fold":false}`, i, ticksTo, from)
		if err := conn.WriteMessage(websocket.TextMessage, []byte(op)); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// subscribed reads until the server has answered the subscription.
func subscribed(conn *websocket.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(benchPatience)); err != nil {
		return err
	}
	for {
		_, frame, err := conn.ReadMessage()
		if err != nil {
			return err
		}
		switch {
		case bytes.Contains(frame, []byte(`"type":"subscribed"`)):
			return conn.SetReadDeadline(time.Time{})
		case bytes.Contains(frame, []byte(`"type":"error"`)):
			return fmt.Errorf("the server refused: %.300s", frame)
		}
	}
}

// benchPatience is how long a benchmark waits for what must come.
const benchPatience = 60 * time.Second

// poster posts bodies of NDJSON over kept connections.
type poster struct {
	url  string
	http *http.Client
}

func newPoster(addr string, connections int) *poster {
	t := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DialContext: (&net.Dialer{}).DialContext}
	return &poster{url: "http://" + addr + ticksEvents, http: &http.Client{Transport: t, Timeout: benchPatience}}
}

func (p *poster) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := p.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != 200 {
		return fmt.Errorf("the server answered %d: %.300s", resp.StatusCode, answer.Bytes())
	}
	return nil
}

// quantile sorts the list and gives one of its values.
func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}

const fsyncMetric = "tidemark_log_commit_seconds"

// fsyncs is the histogram of the server's fsyncs: how many took at most so long.
type fsyncs struct {
	bounds []float64
	counts []float64
}

func readFsyncs(ctx context.Context, c *client) (f fsyncs, err error) {
	resp, err := c.do(ctx, "GET", "/metrics", nil, nil)
	if err != nil {
		return f, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), fsyncMetric+`_bucket{le="`)
		if !ok {
			continue
		}
		bound, count, _ := strings.Cut(rest, `"} `)
		le, err := strconv.ParseFloat(bound, 64)
		if err != nil {
			return f, err
		}
		n, err := strconv.ParseFloat(count, 64)
		if err != nil {
			return f, err
		}
		f.bounds, f.counts = append(f.bounds, le), append(f.counts, n)
	}
	if len(f.bounds) == 0 && lines.Err() == nil {
		return f, fmt.Errorf("the server's /metrics has no %s", fsyncMetric)
	}
	return f, lines.Err()
}

// since takes away what was there before.
func (f fsyncs) since(before fsyncs) fsyncs {
	counts := slices.Clone(f.counts)
	for i := range min(len(counts), len(before.counts)) {
		counts[i] -= before.counts[i]
	}
	return fsyncs{bounds: f.bounds, counts: counts}
}

func (f fsyncs) total() float64 { return f.counts[len(f.counts)-1] }

// quantile is interpolated within its bucket.
func (f fsyncs) quantile(q float64) time.Duration {
	want := q * f.total()
	low, below := 0.0, 0.0
	for i, n := range f.counts {
		if n >= want && n > below {
			high := f.bounds[i]
			if math.IsInf(high, 1) {
				high = low
			}
			return time.Duration((low + (high-low)*(want-below)/(n-below)) * 1e9)
		}
		low, below = f.bounds[i], n
	}
	return time.Duration(low * 1e9)
}
