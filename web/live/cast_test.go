package live_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidemark/stream"
	"tidemark/web/live"
	"tidemark/windows"
)

// narrow is a listener whose connections hold little, so that a client that does not read is behind
// soon. Every third connection can't be written to without waiting, as if it were one of TLS.
type narrow struct {
	net.Listener
	n atomic.Int64
}

// narrowBytes is how much the kernel holds at either end, or twice that: less, and a client that
// reads waits for timers of TCP.
const narrowBytes = 64 << 10

type opaque struct{ net.Conn }

func (l *narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := c.(*net.TCPConn).SetWriteBuffer(narrowBytes); err != nil {
		return nil, err
	}
	if l.n.Add(1)%3 == 0 {
		c = opaque{c}
	}
	return c, nil
}

func dialNarrow(t *testing.T, addr, path string) *client {
	t.Helper()
	d := &websocket.Dialer{NetDial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(narrowBytes)
		}
		return c, err
	}}
	conn, _, err := d.Dial("ws://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	return &client{conn, t}
}

// showing is what one client shows of a view.
type showing struct {
	*client
	path    string
	permits chan struct{} // a message may be read; closed: all may
	rows    map[string]int
	seq     int64
	at      string
}

// follow reads until the client stands at a position.
func (s *showing) follow(until string) error {
	for {
		<-s.permits
		_, data, err := s.ReadMessage()
		if err != nil {
			return err
		}
		var m struct {
			Type, Position string
			Seq            int64
			Rows           []json.RawMessage
			Changes        []struct {
				Op  string
				Row json.RawMessage
			}
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		if m.Type == "snapshot" || m.Type == "changes" {
			if s.seq++; m.Seq != s.seq {
				return fmt.Errorf("seq %d, not %d", m.Seq, s.seq)
			}
		}
		for _, r := range m.Rows {
			s.rows[string(r)]++
		}
		for _, c := range m.Changes {
			if c.Op == "+" {
				s.rows[string(c.Row)]++
				continue
			}
			if s.rows[string(c.Row)]--; s.rows[string(c.Row)] < 0 {
				return fmt.Errorf("%s is withdrawn and was not there", c.Row)
			}
			if s.rows[string(c.Row)] == 0 {
				delete(s.rows, string(c.Row))
			}
		}
		if s.at = m.Position; s.at == until && m.Type != "subscribed" { // its rows are yet to come
			return nil
		}
	}
}

// I2, whoever reads: clients that keep up are read for together, those that don't alone, and each
// changes over many times.
func TestWhoeverReadsTheSumIsTheView(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for i := range 20 {
		w.commit(map[string]*fakeRow{fmt.Sprint(i): {name: fmt.Sprint(i), amount: int64(i), status: windows.Provisional}})
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hub, addr := w.startOn(t, &narrow{Listener: ln}, live.Options{FoldEvery: time.Millisecond, ProgressEvery: 5 * time.Millisecond})
	var all []*showing
	paths := []string{"", "?fold=false", "?where=amount > 5", "?limit=3&order=amount DESC", "?limit=3&order=amount DESC&fold=false"}
	for i, path := range slices.Concat(paths, paths, paths, paths) {
		s := &showing{path: path, permits: make(chan struct{}, 1000), rows: map[string]int{}}
		s.client = dialNarrow(t, addr, "/v1/live/revenue"+strings.ReplaceAll(path, " ", "%20"))
		if i%2 == 0 {
			close(s.permits) // it keeps up
		}
		all = append(all, s)
	}
	const epochs = 150
	last := stream.Position{Log: 7, Sequence: 20 + epochs}.String()
	var reading sync.WaitGroup
	failed := make([]error, len(all))
	for i, s := range all {
		reading.Go(func() { failed[i] = s.follow(last) })
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range epochs {
		set := map[string]*fakeRow{}
		for range 1 + rng.IntN(4) {
			set[fmt.Sprint(rng.IntN(25))] = &fakeRow{name: strings.Repeat("x", rng.IntN(1500)), amount: int64(n*10 + rng.IntN(10)), status: windows.Provisional}
		}
		if rng.IntN(3) == 0 {
			set[fmt.Sprint(rng.IntN(25))] = nil
		}
		w.commit(set)
		for i, s := range all {
			if i%2 == 1 && rng.IntN(8) == 0 {
				for range rng.IntN(6) {
					s.permits <- struct{}{}
				}
			}
		}
	}
	for i, s := range all {
		if i%2 == 1 {
			close(s.permits)
		}
	}
	reading.Wait()
	for i, s := range all {
		if failed[i] != nil {
			t.Fatalf("client %d of %q at %s: %v", i, s.path, s.at, failed[i])
		}
		if want := w.showing(s.path); !maps.Equal(s.rows, want) {
			t.Fatalf("client %d of %q shows\n%v\nthe view is\n%v", i, s.path, s.rows, want)
		}
	}
	if hub.Stats().FellBehind.Load() == 0 {
		t.Error("nobody fell behind: the test has tested nothing")
	}
}

// showing is what a selection takes of the view, worked out in another way.
func (w *world) showing(path string) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := slices.Sorted(maps.Keys(w.view.rows))
	if strings.Contains(path, "where") {
		keys = slices.DeleteFunc(keys, func(k string) bool { return w.view.rows[k].amount <= 5 })
	}
	if strings.Contains(path, "limit") {
		slices.SortStableFunc(keys, func(a, b string) int { return int(w.view.rows[b].amount - w.view.rows[a].amount) })
		keys = keys[:3]
	}
	out := map[string]int{}
	for _, k := range keys {
		r := w.view.rows[k]
		out[fmt.Sprintf(`{"window_start":"1970-01-01T00:00:00Z","name":%q,"amount":%d}`, r.name, r.amount)]++
	}
	return out
}

func TestOneSelectionIsEvaluatedOnceForAll(t *testing.T) {
	t.Parallel()
	w := newWorld()
	hub, addr := w.start(t, live.Options{ProgressEvery: 2 * time.Millisecond})
	var clients []*client
	for i := range 20 {
		c := dial(t, addr, "/v1/live")
		c.say(`{"op":"subscribe","id":"%d","to":"revenue","where":"amount > 5","fold":false}`, i)
		clients = append(clients, c)
	}
	for hub.Stats().Shared.Load() < 20 {
		clients[0].next()
	}
	w.mu.Lock()
	if w.evaluated > 10 {
		t.Errorf("the condition was evaluated %d times for 20 snapshots of the same rows", w.evaluated)
	}
	w.evaluated, w.reads = 0, 0
	w.mu.Unlock()
	for n := range 30 {
		w.commit(map[string]*fakeRow{"x": {name: "x", amount: int64(10 + n), status: windows.Provisional}})
		for i, c := range clients {
			for {
				m := c.next()
				if m.Type == "changes" {
					if last := m.Changes[len(m.Changes)-1]; m.ID != fmt.Sprint(i) || m.Seq != int64(n+2) || last.Row["amount"] != float64(10+n) {
						t.Fatalf("client %d: %+v", i, m)
					}
					break
				}
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.evaluated != 30 || w.reads != 30 {
		t.Errorf("30 epochs were read %d times and the condition was evaluated %d times for 20 clients", w.reads, w.evaluated)
	}
}

// What a queue holds has a bound, and what happens at the bound is what was promised.
func TestEveryBoundIsAnsweredAsPromised(t *testing.T) {
	t.Parallel()
	row := func(n int) *fakeRow {
		return &fakeRow{name: fmt.Sprint(n), amount: int64(n), status: windows.Provisional}
	}

	t.Run("sockets", func(t *testing.T) {
		t.Parallel()
		hub, addr := newWorld().start(t, live.Options{MaxSockets: 1})
		dial(t, addr, "/v1/live/payments").want("subscribed")
		_, resp, err := websocket.DefaultDialer.Dial("ws://"+addr+"/v1/live", nil)
		if err == nil || resp.StatusCode != 503 || hub.Stats().Refused.Load() != 0 {
			t.Errorf("a second socket: %v", resp)
		}
	})
	t.Run("rows that a selection keeps", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.commit(map[string]*fakeRow{"1": row(1), "2": row(2)})
		hub, addr := w.start(t, live.Options{MaxSelected: 2, ProgressEvery: 2 * time.Millisecond})
		c := dial(t, addr, "/v1/live")
		c.say(`{"op":"subscribe","id":"a","to":"revenue","limit":1}`)
		c.want("subscribed")
		c.want("snapshot")
		for hub.Stats().Shared.Load() < 1 {
			c.next()
		}
		w.commit(map[string]*fakeRow{"3": row(3)})
		if m := c.want("error"); m.ID != "a" || m.Code != "selection_too_large" {
			t.Errorf("%+v", m)
		}
		c.say(`{"op":"subscribe","id":"b","to":"revenue","limit":1}`)
		if m := c.want("error"); m.ID != "b" || m.Code != "selection_too_large" {
			t.Errorf("%+v", m)
		}
	})
	t.Run("messages that wait: a view is folded", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		hub, addr := w.startOn(t, &narrow{Listener: ln}, live.Options{FoldEvery: time.Microsecond, ProgressEvery: time.Minute})
		c := dialNarrow(t, addr, "/v1/live/revenue")
		c.want("subscribed")
		const epochs = 400
		for n := range epochs {
			w.commit(map[string]*fakeRow{"x": {name: strings.Repeat("x", 4000), amount: int64(n), status: windows.Provisional}})
		}
		last := stream.Position{Log: 7, Sequence: epochs}.String()
		frames := 0
		for m := c.next(); m.Position != last; m = c.next() {
			frames++
		}
		if frames > epochs/2 || hub.Stats().FoldedChanges.Load() == 0 {
			t.Errorf("%d messages for %d epochs", frames, epochs)
		}
	})
	t.Run("messages that wait: a stream loses nothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		hub, addr := w.startOn(t, &narrow{Listener: ln}, live.Options{ProgressEvery: 2 * time.Millisecond})
		c := dialNarrow(t, addr, "/v1/live/payments")
		c.want("subscribed")
		for hub.Stats().Shared.Load() < 1 {
			c.next()
		}
		const events = 300
		for range events {
			w.send(1, 4000)
		}
		for n := 0; n < events; {
			for _, e := range c.want("events").Events {
				if e.Offset != n {
					t.Fatalf("offset %d, want %d", e.Offset, n)
				}
				n++
			}
		}
	})
	t.Run("control frames: pings are answered while there is room", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, addr := w.startOn(t, &narrow{Listener: ln}, live.Options{})
		c := dialNarrow(t, addr, "/v1/live/payments?from=earliest")
		pongs := 0
		c.SetPongHandler(func(string) error { pongs++; return nil })
		const pings = 5000
		for range pings {
			if err := c.WriteControl(websocket.PingMessage, []byte(strings.Repeat("p", 100)), time.Now().Add(10*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		c.want("subscribed")
		w.send(1, 1)
		c.want("events")
		if pongs == 0 || pongs == pings {
			t.Errorf("%d pongs for %d pings that were sent without reading", pongs, pings)
		}
	})
}

func TestPanicOfACastEndsItsSubscriptionsOnly(t *testing.T) { // I8
	t.Parallel()
	w := newWorld()
	hub, addr := w.start(t, live.Options{ProgressEvery: 2 * time.Millisecond})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"payments"}`)
	c.say(`{"op":"subscribe","id":"b","to":"payments"}`)
	for hub.Stats().Shared.Load() < 2 {
		c.next()
	}
	w.mu.Lock()
	w.panics = true
	w.mu.Unlock()
	w.send(1, 1)
	for ended := map[string]bool{}; len(ended) < 2; {
		if m := c.next(); m.Type == "error" {
			if m.Code != "internal" || !m.Retryable {
				t.Fatalf("%+v", m)
			}
			ended[m.ID] = true
		}
	}
	c.say(`{"op":"subscribe","id":"a","to":"revenue"}`)
	for c.next().Type != "subscribed" {
	}
}
