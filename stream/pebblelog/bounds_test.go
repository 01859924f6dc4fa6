package pebblelog_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// gate is a file system whose write-ahead log syncs only while it is open.
type gate struct {
	vfs.FS
	mu sync.RWMutex
}

func (g *gate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, c)
	if err == nil && strings.HasSuffix(name, ".log") {
		return gatedFile{f, g}, nil
	}
	return f, err
}

type gatedFile struct {
	vfs.File
	g *gate
}

func (f gatedFile) Sync() error     { return f.wait(f.File.Sync) }
func (f gatedFile) SyncData() error { return f.wait(f.File.SyncData) }
func (f gatedFile) wait(sync func() error) error {
	f.g.mu.RLock()
	defer f.g.mu.RUnlock()
	return sync()
}

func openWith(t *testing.T, fs vfs.FS, o pebblelog.Options) *pebblelog.Log {
	t.Helper()
	store, err := kv.Open("kv", kv.Options{FS: fs, CacheBytes: 1 << 20, MemTableBytes: 1 << 20, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	clock := logtest.NewClock()
	o.Clock, o.Monotonic, o.Logger = clock.Now, clock.Monotonic, quiet()
	if o.TimerPeriod == 0 {
		o.TimerPeriod = -1
	}
	l, err := pebblelog.Open(store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func declare(t *testing.T, l *pebblelog.Log, partitions int) {
	t.Helper()
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "s", Partitions: partitions, DedupeWindow: 1 << 50}); err != nil {
		t.Fatal(err)
	}
}

func TestFullQueueIsAnsweredWith429(t *testing.T) {
	t.Parallel()
	g := &gate{FS: vfs.NewMem()}
	l := openWith(t, g, pebblelog.Options{QueueRequests: 3, CommitBytes: 1})
	declare(t, l, 1)
	g.mu.Lock() // no fsync ends from here on: one commit syncs, three requests wait
	results, sent := make(chan error, 1000), 0
	send := func() {
		sent++
		go func() {
			_, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, logtest.Event{})})
			results <- err
		}()
	}
	for range 6 {
		send()
	}
	var refused *problem.Problem
	if err := <-results; !errors.As(err, &refused) || refused.Status != 429 || refused.RetryAfter == 0 {
		t.Errorf("one of six was answered with %v", err)
	}
	// The sequencer may have taken its one after that, and left room.
	err := l.Busy(1 << 20)
	for late := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(late); err = l.Busy(1 << 20) {
		if sent < cap(results) {
			send()
		}
		runtime.Gosched()
	}
	if !errors.As(err, &refused) || refused.Status != 429 || refused.RetryAfter == 0 {
		t.Errorf("asked beforehand: %v", err)
	}
	if l.End() != 1 {
		t.Errorf("the log ends at %d before an fsync", l.End())
	}
	g.mu.Unlock()
	taken := int64(0)
	for range sent - 1 {
		err := <-results
		if err == nil {
			taken++
		} else if !errors.As(err, &refused) || refused.Status != 429 {
			t.Error(err)
		}
	}
	if stats, err := l.Stats(1); err != nil || stats.Accepted != taken || taken == 0 {
		t.Errorf("%d taken, %d accepted, %v", taken, stats.Accepted, err)
	}
}

// TestRequestsGatherWhileAnFsyncRuns: all that come during an fsync are in one commit, so each waits
// for two fsyncs at most.
func TestRequestsGatherWhileAnFsyncRuns(t *testing.T) {
	t.Parallel()
	g := &gate{FS: vfs.NewMem()}
	l := openWith(t, g, pebblelog.Options{})
	declare(t, l, 1)
	g.mu.Lock()
	first := logtest.Request(1, logtest.Event{})
	first.NoSync = true // answered when its commit is made: its fsync runs from here on
	if _, err := l.Append(t.Context(), []*stream.Events{first}); err != nil {
		t.Fatal(err)
	}
	const requests = 20
	sequences := make(chan stream.Sequence, requests)
	for range requests {
		go func() {
			done, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, logtest.Event{})})
			if err != nil {
				t.Error(err)
				done = make([]stream.Appended, 1)
			}
			sequences <- done[0].Sequence
		}()
	}
	for late := time.Now().Add(30 * time.Second); l.Gauges().QueueRequests < requests && time.Now().Before(late); {
		runtime.Gosched()
	}
	end := l.End()
	g.mu.Unlock()
	for range requests {
		if s := <-sequences; s != end+2 {
			t.Errorf("a request that came during an fsync is in batch %d, the fsync was for batch %d", s, end+1)
		}
	}
}

// TestMuchIsCommittedWhileAnFsyncRuns: much that waits is made a commit without waiting for the fsync.
func TestMuchIsCommittedWhileAnFsyncRuns(t *testing.T) {
	t.Parallel()
	g := &gate{FS: vfs.NewMem()}
	l := openWith(t, g, pebblelog.Options{})
	declare(t, l, 1)
	g.mu.Lock()
	send := func(bytes int) error {
		r := logtest.Request(1, logtest.Event{})
		r.NoSync = true                                       // answered when its commit is made
		r.RawData = append(r.RawData, make([]byte, bytes)...) // hardly anything once it is compressed
		r.RawEnds[0] = uint32(len(r.RawData))
		_, err := l.Append(t.Context(), []*stream.Events{r})
		return err
	}
	if err := send(0); err != nil { // its fsync runs from here on
		t.Fatal(err)
	}
	const requests = 20
	results := make(chan error, requests)
	for range requests {
		go func() { results <- send(80 << 10) }()
	}
	rest := requests
	select {
	case err := <-results:
		rest--
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("1.6 MB wait for an fsync")
	}
	g.mu.Unlock()
	for range rest {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// TestNothingIsSeenBeforeItsFsync: the store shows a commit before its fsync; readers must not (I3).
func TestNothingIsSeenBeforeItsFsync(t *testing.T) {
	t.Parallel()
	g := &gate{FS: vfs.NewMem()}
	l := openWith(t, g, pebblelog.Options{})
	declare(t, l, 1)
	g.mu.Lock()
	r := logtest.Request(1, logtest.Event{Value: 1, ID: "a"})
	r.NoSync = true
	key := stream.IdempotencyKey{1}
	r.Idempotency = &stream.Idempotency{Key: key, Answer: func([]stream.Appended) []byte { return nil }}
	r.DeadLetters = []stream.DeadLetter{{Code: "x"}}
	if _, err := l.Append(t.Context(), []*stream.Events{r}); err != nil {
		t.Fatal(err)
	}
	again := make(chan stream.Appended)
	go func() {
		got, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, logtest.Event{ID: "a"})})
		if err != nil {
			t.Error(err)
			got = make([]stream.Appended, 1)
		}
		again <- got[0]
	}()
	stats, _ := l.Stats(1)
	batches, _ := l.Slice(1, 0, 0, 10)
	letters, _ := l.DeadLetters(1, 0, 10)
	_, told, _ := l.Remembered(key)
	if n := len(logtest.ReadAll(t, l, 1, 1)); n+len(batches)+len(letters) != 0 || stats.Accepted != 0 || told || l.End() != 1 {
		t.Errorf("seen before the fsync: %d entries, %d batches, %d dead letters, %+v, remembered %v", n, len(batches), len(letters), stats, told)
	}
	select {
	case <-again:
		t.Error("a duplicate was answered before the original was durable") // I4
	default:
	}
	g.mu.Unlock()
	if got := <-again; len(got.Duplicates) != 1 {
		t.Errorf("%+v", got)
	}
	if n := len(logtest.ReadAll(t, l, 1, 1)); n != 1 {
		t.Errorf("%d entries after the fsync", n)
	}
	if _, told, err := l.Remembered(key); !told || err != nil {
		t.Errorf("the answer is not remembered: %v", err)
	}
}

func TestNearlyFullDiskRefusesWritesAndHeals(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(1000)
	mono := logtest.NewClock()
	store, err := kv.Open("kv", kv.Options{FS: vfs.NewMem(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := pebblelog.Open(store, pebblelog.Options{
		Monotonic: mono.Monotonic, TimerPeriod: -1, MinFree: 100, Logger: quiet(),
		Space: func() (uint64, error) { return free.Load(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(l.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	}()
	declare(t, l, 1)
	for _, c := range []struct {
		free   uint64
		status int
	}{{100, 0}, {99, 503}, {149, 503}, {150, 0}, {100, 0}} {
		free.Store(c.free)
		mono.Pass(1e9)
		l.CheckTimers()
		_, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, logtest.Event{})})
		var p *problem.Problem
		if errors.As(err, &p); (p == nil) != (c.status == 0) || p != nil && p.Status != c.status {
			t.Errorf("%d bytes free: %v", c.free, err)
		}
		if n := len(logtest.ReadAll(t, l, 1, 1)); n == 0 {
			t.Error("reading did not go on")
		}
	}
}

func TestTailIsBoundedAndReadersCrossItsEdge(t *testing.T) {
	t.Parallel()
	const bound = 20_000
	l := openWith(t, vfs.NewMem(), pebblelog.Options{TailBytes: bound})
	declare(t, l, 2)
	r := l.Read([]stream.ID{1}, 1)
	for i := range int64(700) {
		req := logtest.Request(1, logtest.Event{Partition: stream.Partition(i % 2), Value: i})
		if _, err := l.Append(t.Context(), []*stream.Events{req}); err != nil {
			t.Fatal(err)
		}
		if n := l.Gauges().TailBytes; n > bound {
			t.Fatalf("the tail holds %d bytes", n)
		}
	}
	for i := range int64(700) {
		e, ok, err := r.Next()
		if err != nil || !ok || e.Batch.Columns[0].I64[0] != i {
			t.Fatalf("entry %d: %+v %v %v", i, e.Batch, ok, err)
		}
	}
	for _, from := range []stream.Offset{0, 100, 349} {
		got, err := l.Slice(1, 1, from, 1)
		if err != nil || len(got) != 1 || got[0].Columns[0].I64[0] != 2*int64(from)+1 {
			t.Errorf("slice at %d: %v", from, err)
		}
	}
}

// TestPayloadsDecodeOnceForConcurrentReaders runs under -race: batches are shared.
func TestPayloadsDecodeOnceForConcurrentReaders(t *testing.T) {
	t.Parallel()
	l := openWith(t, vfs.NewMem(), pebblelog.Options{TailBytes: 1})
	declare(t, l, 1)
	var events []logtest.Event
	for i := range int64(100) {
		events = append(events, logtest.Event{Value: i})
	}
	if _, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, events...)}); err != nil {
		t.Fatal(err)
	}
	b := logtest.ReadAll(t, l, 1, 1)[0].Batch
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for i := range b.Len {
				if !strings.Contains(string(b.Raw(i)), `"v":`) {
					t.Errorf("payload %d: %s", i, b.Raw(i))
				}
			}
		})
	}
	readers.Wait()
}
