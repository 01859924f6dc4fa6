package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gorilla/websocket"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/web/live"
	"tidemark/windows"
)

// world is everything that the hub reads, in memory.
type world struct {
	mu        sync.Mutex
	id        stream.LogID
	oldest    stream.Sequence
	entries   []stream.Entry // all of one stream, "payments", with one partition
	view      fakeView
	alarms    []live.Entry
	acks      map[string]string
	bells     map[chan struct{}]struct{}
	panics    bool
	expired   int64  // alarms up to this number are gone
	reads     int    // epochs that were read of the change stream
	evaluated int    // how often a condition was
	anew      uint64 // how often "payments" was deleted and made anew
	now       time.Time
}

type fakeView struct {
	rows   map[string]fakeRow
	epochs []*live.Epoch
	head   live.Head
	from   stream.Position // the change stream begins here
}

type fakeRow struct {
	at     int64 // window_start, seconds
	name   string
	amount int64
	status windows.Status
	rev    int32
}

var fields = []row.Field{{Name: "window_start", Type: row.Scalar(row.Timestamp)}, {Name: "name", Type: row.Scalar(row.Varchar)}, {Name: "amount", Type: row.Scalar(row.BigInt)}}

func newWorld() *world {
	w := &world{id: 7, acks: map[string]string{}, bells: map[chan struct{}]struct{}{}, now: time.Unix(1_000_000, 0)}
	w.view.rows = map[string]fakeRow{}
	w.view.from = stream.Position{Log: 7}
	w.view.head = live.Head{Fields: fields, Position: stream.Position{Log: 7}, AsOf: json.RawMessage(`{"watermark":null,"offsets":{"payments":[0]},"view_version":1}`)}
	return w
}

func (w *world) ring() {
	for bell := range w.bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

func (w *world) watch() (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bell := make(chan struct{}, 1)
	w.bells[bell] = struct{}{}
	return bell, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.bells, bell)
	}
}

// send appends one batch of n events of so many bytes each.
func (w *world) send(n, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seq := stream.Sequence(len(w.entries) + 1)
	base := stream.Offset(0)
	for _, e := range w.entries {
		if e.Batch != nil {
			base += stream.Offset(e.Batch.Len)
		}
	}
	at := int64(seq) * 1_000_000
	b := stream.Batch{Base: base, Sequence: seq, AppendTime: at, Len: n, Keys: row.NewVector(row.Scalar(row.Varchar), n)}
	var raw []byte
	var ends []uint32
	for i := range n {
		b.Times = append(b.Times, at)
		b.Keys.AppendString("k")
		raw = fmt.Appendf(raw, `{"n":%d,"pad":%q}`, int(base)+i, strings.Repeat("x", bytes))
		ends = append(ends, uint32(len(raw)))
	}
	w.entries = append(w.entries, stream.Entry{Batch: stream.NewBatch(b, raw, ends)})
	w.ring()
}

func (w *world) control() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = append(w.entries, stream.Entry{Control: &stream.Control{Sequence: stream.Sequence(len(w.entries) + 1), Kind: stream.Clock}})
	w.ring()
}

// commit makes one epoch of the view.
func (w *world) commit(set map[string]*fakeRow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &w.view
	c := &windows.Changes{Rows: row.NewBatch(fields, 0)}
	add := func(op int8, key string, r fakeRow) {
		appendFake(c.Rows, r)
		c.Ops, c.Keys = append(c.Ops, op), append(c.Keys, []byte(key))
		c.Status, c.Revision = append(c.Status, r.status), append(c.Revision, r.rev)
	}
	for key, r := range set {
		if old, ok := v.rows[key]; ok {
			was := old
			was.status, was.rev = windows.None, 0
			if old.rev > 0 {
				was.status, was.rev = windows.Corrected, old.rev+1
			}
			add(-1, key, was)
			delete(v.rows, key)
		}
		if r != nil {
			add(+1, key, *r)
			v.rows[key] = *r
		}
	}
	to := v.head.Position
	to.Sequence++
	v.head.Position = to
	v.head.AsOf = fmt.Appendf(nil, `{"watermark":null,"offsets":{"payments":[%d]},"view_version":1}`, to.Sequence)
	v.epochs = append(v.epochs, &live.Epoch{To: to, AsOf: v.head.AsOf, Changes: c})
	w.ring()
}

func appendFake(b *row.Batch, r fakeRow) {
	b.Cols[0].AppendInt64(r.at * 1_000_000)
	b.Cols[1].AppendString(r.name)
	b.Cols[2].AppendInt64(r.amount)
	b.Len++
}

// cut forgets the change stream up to now.
func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.view.epochs, w.view.from = nil, w.view.head.Position
}

// The log.

func (w *world) ID() stream.LogID { w.mu.Lock(); defer w.mu.Unlock(); return w.id }

func (w *world) End() stream.Sequence {
	w.mu.Lock()
	defer w.mu.Unlock()
	return stream.Sequence(len(w.entries))
}

func (w *world) Mark(stream.ID) (stream.Mark, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return stream.Mark{Sequence: w.oldest}, nil
}

type fakeReader struct {
	w     *world
	after stream.Sequence
}

func (w *world) Read(_ []stream.ID, after stream.Sequence) stream.Reader {
	if after == 0 {
		mark, _ := w.Mark(0)
		after = mark.Sequence
	}
	return &fakeReader{w, after}
}

func (r *fakeReader) Next() (stream.Entry, bool, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.w.panics {
		panic("a reader's bug")
	}
	if r.after < r.w.oldest {
		return stream.Entry{}, false, &stream.Trimmed{Name: "payments", Sequence: r.w.oldest}
	}
	if int(r.after) >= len(r.w.entries) {
		return stream.Entry{}, false, nil
	}
	r.after++
	return r.w.entries[r.after-1], true, nil
}
func (r *fakeReader) Start(stream.ID) stream.Mark { return stream.Mark{} }
func (r *fakeReader) Close() error                { return nil }

func (w *world) Slice(_ stream.ID, _ stream.Partition, from stream.Offset, _ int) ([]*stream.Batch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.entries {
		if e.Batch != nil && e.Batch.Base+stream.Offset(e.Batch.Len) > from {
			return []*stream.Batch{e.Batch}, nil
		}
	}
	return nil, nil
}

func (w *world) OffsetAt(_ stream.ID, _ stream.Partition, at stream.Micros) (stream.Offset, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := stream.Offset(0)
	for _, e := range w.entries {
		if e.Batch == nil {
			continue
		}
		if e.Batch.AppendTime >= at {
			return e.Batch.Base, nil
		}
		next = e.Batch.Base + stream.Offset(e.Batch.Len)
	}
	return next, nil
}

func (w *world) Watch(...stream.ID) (<-chan struct{}, func()) { return w.watch() }
func (w *world) Stats(stream.ID) (stream.Stats, error) {
	return stream.Stats{Partitions: make([]stream.PartitionStats, 1)}, nil
}

// The views: "revenue".

type fakeViews struct{ *world }

func (v fakeViews) Snapshot(string) (*live.Snapshot, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := &live.Snapshot{Fields: fields, Rows: row.NewBatch(fields, 0), Position: v.view.head.Position, AsOf: v.view.head.AsOf}
	for key, r := range v.view.rows {
		appendFake(s.Rows, r)
		s.Keys, s.Status = append(s.Keys, []byte(key)), append(s.Status, r.status)
	}
	return s, nil
}

func (v fakeViews) Head(string) (live.Head, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.view.head, nil
}

func (v fakeViews) Changes(_ string, after *stream.Position) (live.Changes, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if after == nil {
		return &fakeChanges{v.world, v.view.from}, nil
	}
	if after.Log != v.id || after.Sequence < v.view.from.Sequence {
		return nil, &live.Gap{Oldest: v.view.from}
	}
	return &fakeChanges{v.world, *after}, nil
}

type fakeChanges struct {
	w  *world
	at stream.Position
}

func (c *fakeChanges) Position() stream.Position { return c.at }
func (c *fakeChanges) Next() (*live.Epoch, bool, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.at.Sequence < c.w.view.from.Sequence {
		return nil, false, &live.Gap{Oldest: c.w.view.from}
	}
	for _, e := range c.w.view.epochs {
		if e.To.Sequence > c.at.Sequence {
			c.at = e.To
			c.w.reads++
			return e, true, nil
		}
	}
	return nil, false, nil
}

func (v fakeViews) Watch(string) (<-chan struct{}, func()) { return v.watch() }
func (v fakeViews) Late(_ string, after int64, _ int) ([]live.Entry, error) {
	if after >= 1 {
		return nil, nil
	}
	return []live.Entry{{Number: 1, JSON: []byte(`{"partition":0,"offset":0,"event":{"late":true}}`)}}, nil
}
func (v fakeViews) LateEnds(string) (int64, int64, error) { return 1, 1, nil }

// The alerts: "fraud".

func (w *world) fire(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		k := int64(len(w.alarms) + 1)
		w.alarms = append(w.alarms, live.Entry{Number: k, Time: k * 1_000_000, JSON: fmt.Appendf(nil, `{"alert_id":"%d","op":"fire"}`, k)})
	}
	w.ring()
}

type fakeAlerts struct{ *world }

func (a fakeAlerts) Log(_ string, after int64, limit int) ([]live.Entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if after < a.expired {
		return nil, problem.New(410, "offset_gone", "gone")
	}
	rest := a.alarms[min(int(after), len(a.alarms)):]
	return rest[:min(limit, len(rest))], nil
}

func (a fakeAlerts) Ends(string) (int64, int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(a.expired+1, int64(len(a.alarms))), int64(len(a.alarms)), nil
}

func (a fakeAlerts) At(_ string, p stream.Position) (int64, bool, error) {
	return int64(p.Sequence), true, nil
}
func (a fakeAlerts) Watch(string) (<-chan struct{}, func()) { return a.watch() }

type fakeGroups struct{ *world }

func (g fakeGroups) Acked(r live.Relation, group string) (string, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := g.acks[r.Name+"/"+group]
	return p, ok, nil
}

func (g fakeGroups) Ack(_ context.Context, r live.Relation, group, position string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acks[r.Name+"/"+group] = position
	return nil
}

// fakeSelector knows the condition "amount > n" and the orders "amount DESC" and "amount".
type fakeSelector struct{ *world }

func (f fakeSelector) Where(_ []row.Field, text string) (func(*row.Batch) ([]int32, error), error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "amount > "), 10, 64)
	if err != nil {
		return nil, problem.New(422, "bad_sql", "%s is no condition", text).WithHint("write amount > 1").At(3)
	}
	return func(b *row.Batch) ([]int32, error) {
		f.mu.Lock()
		f.evaluated++
		f.mu.Unlock()
		out := []int32{}
		for i, amount := range b.Cols[2].I64 {
			if amount > n {
				out = append(out, int32(i))
			}
		}
		return out, nil
	}, nil
}

func (fakeSelector) Order(_ []row.Field, text string) ([]live.OrderKey, error) {
	return []live.OrderKey{{Column: 2, Desc: text == "amount DESC", NullsLast: true}}, nil
}

func (w *world) relations(name string) (live.Relation, error) {
	switch name {
	case "payments":
		w.mu.Lock()
		defer w.mu.Unlock()
		return live.Relation{Kind: live.Stream, Name: name, ID: 1 + w.anew}, nil
	case "revenue":
		return live.Relation{Kind: live.View, Name: name}, nil
	case "fraud":
		return live.Relation{Kind: live.Alert, Name: name}, nil
	case "late_revenue":
		return live.Relation{Kind: live.LateOf, Name: "revenue"}, nil
	}
	return live.Relation{}, problem.New(404, "unknown_relation", "there is no %s", name).WithHint("GET /v1/streams")
}

// start runs a hub over the world and returns its address.
func (w *world) start(t *testing.T, o live.Options) (hub *live.Hub, addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return w.startOn(t, ln, o)
}

func (w *world) startOn(t *testing.T, ln net.Listener, o live.Options) (hub *live.Hub, addr string) {
	t.Helper()
	o.Relations, o.Log, o.Views, o.Alerts, o.Groups, o.Selector = w.relations, w, fakeViews{w}, fakeAlerts{w}, fakeGroups{w}, fakeSelector{w}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	o.Now = func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }
	hub = live.NewHub(o)
	app := fiber.New(fiber.Config{DisableStartupMessage: true, ErrorHandler: func(c *fiber.Ctx, err error) error {
		p := problem.From(err)
		c.Set("Content-Type", problem.ContentType)
		return c.Status(p.Status).Send(p.JSON(""))
	}})
	hub.Mount(app)
	ended := make(chan error, 1)
	go func() { ended <- app.Listener(ln) }()
	t.Cleanup(func() {
		if err := hub.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		_ = app.Shutdown()
		<-ended
	})
	return hub, ln.Addr().String()
}

// logged returns a logger and a channel that is closed at its first warning.
func logged() (*slog.Logger, <-chan struct{}) {
	h := &firstWarning{Handler: slog.NewTextHandler(io.Discard, nil), seen: make(chan struct{})}
	return slog.New(h), h.seen
}

type firstWarning struct {
	slog.Handler
	once sync.Once
	seen chan struct{}
}

func (h *firstWarning) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		h.once.Do(func() { close(h.seen) })
	}
	return nil
}

// client is one websocket.
type client struct {
	*websocket.Conn
	t *testing.T
}

func dial(t *testing.T, addr, path string) *client {
	t.Helper()
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	return &client{conn, t}
}

func (c *client) say(format string, args ...any) {
	c.t.Helper()
	if err := c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatal(err)
	}
}

// message is what the server says.
type message struct {
	Type, ID, Position, Code, From, Oldest string
	Seq                                    int64
	Recovered, More, Retryable             bool
	LagMs                                  *int64          `json:"lag_ms"`
	AsOf                                   json.RawMessage `json:"as_of"`
	Rows                                   []map[string]any
	Statuses                               []string
	Changes                                []struct {
		Op       string
		Row      map[string]any
		Status   string
		Revision int
	}
	Events []struct {
		Partition, Offset int
		Key               string
		Event             map[string]any
	}
	Alerts []map[string]any
}

func (c *client) next() message {
	c.t.Helper()
	_, data, err := c.ReadMessage()
	if err != nil {
		c.t.Fatalf("closed with %v", err)
	}
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		c.t.Fatalf("%v in %s", err, data)
	}
	return m
}

// until skips progress messages.
func (c *client) want(kind string) message {
	c.t.Helper()
	for {
		m := c.next()
		if m.Type == kind {
			return m
		}
		if m.Type != "progress" {
			c.t.Fatalf("got %+v, want %s", m, kind)
		}
	}
}

// closed reads until the close frame and returns code and reason.
func (c *client) closed() (int, string) {
	c.t.Helper()
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			if e, ok := err.(*websocket.CloseError); ok {
				return e.Code, e.Text
			}
			c.t.Fatalf("ended without a close frame: %v", err)
		}
	}
}
