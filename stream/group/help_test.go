package group_test

import (
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/group"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

const orders = stream.ID(1)

// TestMain bounds the runs of the model, which open a store each; -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := "30"
	if long() {
		checks = "1000"
	}
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "rapid.checks" {
			checks = f.Value.String()
		}
	})
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	m.Run()
}

// world is a log with one stream and its groups, on a file system in memory.
type world struct {
	t     testing.TB
	fs    vfs.FS
	clock *logtest.Clock
	kv    *kv.Store
	log   *pebblelog.Log
	*group.Service
	opts group.Options
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// newWorld begins with a stream of so many partitions.
func newWorld(t testing.TB, partitions int) *world {
	t.Helper()
	w := &world{t: t, fs: vfs.NewMem(), clock: logtest.NewClock()}
	w.open()
	w.declare(partitions)
	t.Cleanup(w.close)
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	if w.kv, err = kv.Open("kv", kv.Options{FS: w.fs, CacheBytes: 1 << 20, MemTableBytes: 256 << 10, Logger: quiet()}); err != nil {
		w.t.Fatal(err)
	}
	o := pebblelog.Options{Clock: w.clock.Now, Monotonic: w.clock.Monotonic, TimerPeriod: -1, WitnessPeriod: -1, Logger: quiet()}
	if w.log, err = pebblelog.Open(w.kv, o); err != nil {
		w.t.Fatal(err)
	}
	g := w.opts
	g.Now, g.Monotonic, g.Logger = w.clock.Now, w.clock.Monotonic, quiet()
	w.Service = group.New(w.kv, w.log, g)
}

func (w *world) close() {
	if err := w.log.Close(); err != nil {
		w.t.Error(err)
	}
	if err := w.kv.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.open()
}

func (w *world) declare(partitions int) {
	w.t.Helper()
	if err := w.log.Declare(w.t.Context(), orders, stream.Settings{Name: "orders", Partitions: partitions}); err != nil {
		w.t.Fatal(err)
	}
}

// send appends n events to a partition; the value of each is its offset.
func (w *world) send(p stream.Partition, n int) {
	w.t.Helper()
	st, err := w.log.Stats(orders)
	if err != nil {
		w.t.Fatal(err)
	}
	var events []logtest.Event
	for i := range n {
		events = append(events, logtest.Event{Partition: p, Value: int64(st.Partitions[p].Next) + int64(i)})
	}
	if _, err := w.log.Append(w.t.Context(), []*stream.Events{logtest.Request(orders, events...)}); err != nil {
		w.t.Fatal(err)
	}
}

// poll is a poll of at most max events, and what it gave in short: partition/offset.
func (w *world) poll(member string, max int) (*group.Polled, string) {
	w.t.Helper()
	out, err := w.Poll(w.t.Context(), orders, "g", group.Poll{Member: member, Max: max})
	if err != nil {
		w.t.Fatalf("poll of %s: %v", member, err)
	}
	return out, given(out)
}

func given(out *group.Polled) string {
	var all []string
	for _, e := range out.Events {
		text := fmt.Sprintf("%d/%d", e.Partition, e.Offset)
		if e.DeadLetter != "" {
			text += "!"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// commit commits one offset under a generation and says what came of it: "" or the problem's code.
func (w *world) commit(member string, g group.Generation, p stream.Partition, o stream.Offset) string {
	_, err := w.Commit(orders, "g", group.Commit{Member: member, Generation: g, Offsets: map[stream.Partition]stream.Offset{p: o}})
	return code(err)
}

// commitAll commits all that a poll gave.
func (w *world) commitAll(member string, out *group.Polled) string {
	o := map[stream.Partition]stream.Offset{}
	for _, e := range out.Events {
		o[e.Partition] = max(o[e.Partition], e.Offset+1)
	}
	if len(o) == 0 {
		return ""
	}
	_, err := w.Commit(orders, "g", group.Commit{Member: member, Generation: out.Generation, Offsets: o})
	return code(err)
}

func (w *world) nack(member string, g group.Generation, p stream.Partition, o stream.Offset) (*group.Nacked, string) {
	out, err := w.Nack(orders, "g", group.Nack{Member: member, Generation: g, Place: stream.Place{Partition: p, Offset: o}, Reason: "broken"})
	return out, code(err)
}

func code(err error) string {
	if err == nil {
		return ""
	}
	p := problem.From(err)
	if p.Status == 500 {
		return err.Error()
	}
	if p.Hint == "" {
		return p.Code + " without a hint"
	}
	return p.Code
}

func (w *world) info() *group.Info {
	w.t.Helper()
	out, err := w.Get(orders, "g")
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// shared says who holds what: partition:member@committed.
func (w *world) shared() string {
	w.t.Helper()
	var all []string
	for _, p := range w.info().Partitions {
		all = append(all, fmt.Sprintf("%d:%s@%d", p.Partition, p.Member, p.Committed))
	}
	return strings.Join(all, " ")
}

func (w *world) expect(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s:\n got  %s\n want %s", what, got, want)
	}
}

const session = 30 * time.Second
