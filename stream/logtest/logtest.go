package logtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"tidemark/storage/row"
	"tidemark/stream"
)

// Features are what drivers differ in.
type Features struct {
	// TotalOrder: batches of all partitions and streams have one order.
	TotalOrder bool
}

// Opened is a log with the handles that the suite needs.
type Opened struct {
	Log stream.Log
	// CheckTimers looks at the log's timers and returns when what they gave is durable.
	CheckTimers func()
	// Keep applies retention and compaction and returns when what they did is durable.
	Keep func()
	// Close ends the log cleanly.
	Close func()
}

// Opener opens a log on a clock; called again after Close, it opens the same log.
type Opener func(*Clock) Opened

// Clock is a wall clock and a monotonic one that stand still until they are moved.
type Clock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

// NewClock returns a clock that shows noon of 2024-01-01, UTC.
func NewClock() *Clock { return &Clock{wall: Noon} }

// Noon is where the suite's clocks begin.
var Noon = time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)

// Now is the wall clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Monotonic is the monotonic clock.
func (c *Clock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

// Pass lets time pass on both clocks.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
	c.mono += d
}

// Step moves the wall clock alone.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// At is an instant so long after the beginning of the suite's clocks.
func At(d time.Duration) stream.Micros { return Noon.Add(d).UnixMicro() }

// harness is one open log in a test.
type harness struct {
	t        *testing.T
	features Features
	clock    *Clock
	open     Opener
	Opened
}

func newHarness(t *testing.T, open func(*testing.T) Opener) *harness {
	h := &harness{t: t, clock: NewClock(), open: open(t)}
	h.Opened = h.open(h.clock)
	t.Cleanup(func() { h.Close() })
	return h
}

func (h *harness) reopen() {
	h.t.Helper()
	h.Close()
	h.Opened = h.open(h.clock)
}

func (h *harness) ctx() context.Context { return h.t.Context() }

// settings are the defaults of a stream with so many partitions.
func settings(partitions int) stream.Settings {
	return stream.Settings{
		Name: "s", Partitions: partitions, MaxSkew: 5 * time.Second, IdleTimeout: 30 * time.Second, IdleAdvance: true,
		DedupeWindow: 24 * time.Hour,
	}
}

func (h *harness) declare(id stream.ID, s stream.Settings) {
	h.t.Helper()
	if err := h.Log.Declare(h.ctx(), id, s); err != nil {
		h.t.Fatal(err)
	}
}

// Event is one event of a request in short.
type Event struct {
	Partition stream.Partition
	Time      stream.Micros // 0: AtAppend
	ID        string        // "": none
	Value     int64         // column 0; the payload tells it too
	NoValue   bool          // null in column 0
	Key       string        // "": null
}

// Request makes a request of events with one BIGINT column, which the payloads' "v" is read into.
func Request(id stream.ID, events ...Event) *stream.Events {
	r := &stream.Events{Stream: id, Keys: row.NewVector(row.Scalar(row.Varchar), len(events))}
	v := row.NewVector(row.Scalar(row.BigInt), len(events))
	ids := false
	for _, e := range events {
		r.Partitions = append(r.Partitions, e.Partition)
		if e.Time == 0 {
			e.Time = stream.AtAppend
		}
		r.Times = append(r.Times, e.Time)
		if e.Key == "" {
			r.Keys.AppendNull()
		} else {
			r.Keys.AppendString(e.Key)
		}
		if e.NoValue {
			v.AppendNull()
		} else {
			v.AppendInt64(e.Value)
		}
		var hash stream.EventID
		if e.ID != "" {
			hash = EventID(e.ID)
			ids = true
		}
		r.IDs = append(r.IDs, hash)
		value, name := strconv.AppendInt(nil, e.Value, 10), strconv.AppendQuote(nil, e.ID)
		r.RawData = fmt.Appendf(r.RawData, `{"v":%s,"id":%s}`, value, name)
		r.RawEnds = append(r.RawEnds, uint32(len(r.RawData)))
		from, after := uint32(len(`{"v":`)), uint32(len(`{"v":`)+len(value)+len(`,"id":`))
		r.Values = append(r.Values, stream.Value{From: from, To: from + uint32(len(value))}, stream.Value{From: after, To: after + uint32(len(name)), Column: -1})
		r.ValueCounts = append(r.ValueCounts, 2)
	}
	r.Columns = []*row.Vector{v}
	if !ids {
		r.IDs = nil
	}
	return r
}

// EventID hashes an id.
func EventID(id string) stream.EventID {
	sum := sha256.Sum256([]byte(id))
	return stream.EventID(sum[:16])
}

func (h *harness) append(reqs ...*stream.Events) []stream.Appended {
	h.t.Helper()
	got, err := h.Log.Append(h.ctx(), reqs)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// entries reads all entries of some streams behind a sequence.
func (h *harness) entries(after stream.Sequence, ids ...stream.ID) []stream.Entry {
	h.t.Helper()
	return ReadAll(h.t, h.Log, after, ids...)
}

// ReadAll reads what a log has of some streams behind a sequence.
func ReadAll(t testing.TB, l stream.Log, after stream.Sequence, ids ...stream.ID) (out []stream.Entry) {
	t.Helper()
	r := l.Read(ids, after)
	defer func() { _ = r.Close() }()
	for {
		e, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		out = append(out, e)
	}
}

// text writes entries in short: batches as stream/partition@base:values, control records by kind.
func text(entries []stream.Entry) string {
	out := ""
	for _, e := range entries {
		if out != "" {
			out += " "
		}
		if b := e.Batch; b != nil {
			out += fmt.Sprintf("%d/%d@%d:", b.Stream, b.Partition, b.Base)
			for i := range b.Len {
				if i > 0 {
					out += ","
				}
				out += valueText(b, i)
			}
			continue
		}
		c := e.Control
		switch c.Kind {
		case stream.Partitions:
			out += fmt.Sprintf("%d/partitions=%d", c.Stream, c.Value)
		case stream.Idle:
			out += fmt.Sprintf("%d/%d-idle", c.Stream, c.Partition)
		case stream.Clock:
			out += fmt.Sprintf("%d/clock+%v", c.Stream, time.UnixMicro(c.AppendTime).Sub(Noon))
		case stream.Advance:
			out += fmt.Sprintf("%d/advance+%v", c.Stream, time.UnixMicro(c.Value).Sub(Noon))
		}
	}
	return out
}

func valueText(b *stream.Batch, i int) string {
	if len(b.Columns) == 0 || b.Columns[0] == nil || b.Columns[0].IsNull(i) {
		return "null"
	}
	return fmt.Sprint(b.Columns[0].I64[i])
}

func (h *harness) expect(what, got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Errorf("%s:\n got  %s\n want %s", what, got, want)
	}
}
