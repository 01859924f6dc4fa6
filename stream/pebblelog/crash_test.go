package pebblelog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage"
	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// crashSeeds workloads run, and each is crashed crashesEach times.
const (
	crashSeeds  = 17
	crashesEach = 6
)

// journal is what clients know to be acknowledged, kept outside the log.
type journal struct {
	mu    sync.Mutex
	acked map[string]stream.Place // by id
	size  map[string]int          // events of a request, by request
}

func (j *journal) copy() (map[string]stream.Place, map[string]int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.acked), maps.Clone(j.size)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// opened is a log in a data directory of its own.
type opened struct {
	*pebblelog.Log
	dir *storage.Dir
}

func (o opened) close() error { return errors.Join(o.Log.Close(), o.dir.Close()) }

// openOn opens a data directory with tiny bounds, so that little work fills, flushes and compacts.
func openOn(fs vfs.FS, clock *logtest.Clock, change ...func(*pebblelog.Options)) (opened, error) {
	return openSized(fs, clock, 64<<10, change...)
}

// openSized is openOn with memtables of a size: only what does not fit lies in tables.
func openSized(fs vfs.FS, clock *logtest.Clock, memTable int64, change ...func(*pebblelog.Options)) (opened, error) {
	dir, err := storage.Open("data", storage.Options{FS: fs, Logger: quiet(), Store: kv.Options{
		CacheBytes: 1 << 20, MemTableBytes: memTable, Fatal: func(s string) { panic(s) },
	}})
	if err != nil {
		return opened{}, err
	}
	o := pebblelog.Options{
		Clock: clock.Now, Monotonic: clock.Monotonic, TimerPeriod: -1, CommitBytes: 8 << 10, TailBytes: 16 << 10, Logger: quiet(),
		Witness: dir.File("witness"), WitnessPeriod: 5 * time.Millisecond, KeepPeriod: -1,
	}
	for _, f := range change {
		f(&o)
	}
	l, err := pebblelog.Open(dir.KV, o)
	if err != nil {
		return opened{}, errors.Join(err, dir.Close())
	}
	return opened{l, dir}, nil
}

// TestAcknowledgedEventSurvivesCrash cuts the power at random moments under concurrent clients: what
// was acknowledged is there once, requests are whole, offsets dense, ids remembered (P1, P2, P3).
func TestAcknowledgedEventSurvivesCrash(t *testing.T) {
	t.Parallel()
	seeds := uint64(crashSeeds)
	if long() {
		seeds = 334
	}
	for seed := range seeds {
		seed += seedOf(t) << 32
		mem := vfs.NewCrashableMem()
		for _, lost := range crashWorkload(t, seed, mem, mem) {
			t.Errorf("seed %d: %s", seed, lost)
		}
	}
}

// TestCrashTestSeesMissingFsync holds the test above to its purpose: with one kind of fsync taken
// out, of the write-ahead log or of the witness, it must find something wrong.
func TestCrashTestSeesMissingFsync(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{".log", "witness.new"} {
		mem := vfs.NewCrashableMem()
		if found := crashWorkload(t, 1, mem, forgetful{mem, suffix}); len(found) == 0 {
			t.Errorf("nothing was found wrong without the fsyncs of %s", suffix)
		}
	}
}

// crashWorkload runs clients on a file system and returns what was wrong in its crash clones.
func crashWorkload(t *testing.T, seed uint64, mem *vfs.MemFS, fs vfs.FS) (wrong []string) {
	clock := logtest.NewClock()
	l, err := openOn(fs, clock)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for id := range stream.ID(2) {
		if err := l.Declare(ctx, id+1, stream.Settings{Name: "s", Partitions: 3, DedupeWindow: 1 << 50}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Declare(ctx, keptStream, stream.Settings{Name: "kept short", Partitions: 2, Retention: stream.Retention{Bytes: 3000}}); err != nil {
		t.Fatal(err)
	}
	j := &journal{acked: map[string]stream.Place{}, size: map[string]int{}}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() { client(ctx, l.Log, j, seed, c, stop) })
	}
	clients.Go(func() { keeper(ctx, l.Log, j, stop) })
	rng := rand.New(rand.NewPCG(seed, 99))
	type crash struct {
		fs    *vfs.MemFS
		acked map[string]stream.Place
		size  map[string]int
		short stream.PartitionStats
	}
	var crashes []crash
	for range crashesEach {
		target := l.End() + stream.Sequence(1+rng.IntN(60))
		heard, end := l.Watch()
		for l.End() < target {
			<-heard
		}
		end()
		acked, size := j.copy() // before the clone: all of it must be in there
		stats, err := l.Stats(keptStream)
		if err != nil {
			t.Fatal(err)
		}
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		crashes = append(crashes, crash{clone, acked, size, stats.Partitions[0]})
	}
	close(stop)
	clients.Wait()
	for _, c := range crashes {
		wrong = append(wrong, checkKept(ctx, c.fs, clock, c.short)...)
		wrong = append(wrong, checkClone(ctx, c.fs, clock, c.acked, c.size)...)
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
	return wrong
}

// client sends requests of a few events to random partitions, some of them again.
func client(ctx context.Context, l *pebblelog.Log, j *journal, seed uint64, number int, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(seed, uint64(number)))
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		request := fmt.Sprintf("%d-%d", number, n)
		if n > 0 && rng.IntN(5) == 0 {
			request = fmt.Sprintf("%d-%d", number, rng.IntN(n))
		}
		in := rand.New(rand.NewPCG(uint64(len(request)), uint64(n))) // only the size may differ when sent again
		id := stream.ID(1 + len(request)%2)
		var events []logtest.Event
		for k := range 1 + in.IntN(6) {
			events = append(events, logtest.Event{Partition: stream.Partition(rng.IntN(3)), ID: fmt.Sprintf("%s/%d", request, k), Value: int64(n)})
		}
		got, err := l.Append(ctx, []*stream.Events{logtest.Request(id, events...)})
		if err != nil {
			return
		}
		j.mu.Lock()
		if len(got[0].Duplicates) == 0 {
			j.size[request] = len(events)
		}
		for _, d := range got[0].Duplicates {
			j.acked[events[d.Index].ID] = d.Of
		}
		next := map[stream.Partition]stream.Offset{}
		for _, r := range got[0].Ranges {
			next[r.Partition] = r.First
		}
		dup := map[int]bool{}
		for _, d := range got[0].Duplicates {
			dup[d.Index] = true
		}
		for i, e := range events {
			if !dup[i] {
				j.acked[e.ID] = stream.Place{Partition: e.Partition, Offset: next[e.Partition]}
				next[e.Partition]++
			}
		}
		j.mu.Unlock()
	}
}

// keptStream is a stream of which only the newest bytes are kept.
const keptStream stream.ID = 3

// keeper writes to the stream that is kept short and lets retention run, over and over.
func keeper(ctx context.Context, l *pebblelog.Log, j *journal, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		e := []logtest.Event{{Partition: stream.Partition(n % 2), Value: int64(n)}, {Value: int64(n)}}
		if _, err := l.Append(ctx, []*stream.Events{logtest.Request(keptStream, e...)}); err != nil {
			return
		}
		if n%7 == 0 {
			if err := l.Keep(ctx); err != nil {
				return
			}
		}
	}
}

// checkKept reads the stream that is kept short after a crash: what is there is an unbroken end, no
// acknowledged event behind the first offset is missing, and the mark is that of what was removed.
func checkKept(ctx context.Context, fs *vfs.MemFS, clock *logtest.Clock, acked stream.PartitionStats) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	l, err := openOn(fs, clock)
	if err != nil {
		return []string{"open: " + err.Error()}
	}
	defer func() {
		if err := l.close(); err != nil {
			bad("close: %v", err)
		}
	}()
	stats, err := l.Stats(keptStream)
	if err != nil {
		return []string{err.Error()}
	}
	if st := stats.Partitions[0]; st.Next < acked.Next {
		bad("kept short: partition 0 ends at %d, acknowledged up to %d", st.Next, acked.Next)
	}
	mark, err := l.Mark(keptStream)
	if err != nil {
		bad("mark: %v", err)
	}
	for p, st := range stats.Partitions {
		if mark.Sequence > 0 && mark.First[p] != st.First || mark.Sequence == 0 && st.First != 0 {
			bad("kept short: partition %d begins at %d, the mark says %v", p, st.First, mark.First)
		}
		batches, err := l.Slice(keptStream, stream.Partition(p), st.First, 1<<30)
		if err != nil {
			bad("kept short: %v", err)
		}
		next, bytes := st.First, int64(0)
		for _, b := range batches {
			next = b.Base + stream.Offset(b.Len)
			bytes++
		}
		if next != st.Next || bytes > 0 && st.Bytes <= 0 || bytes == 0 && st.Bytes != 0 {
			bad("kept short: partition %d: %d batches end at %d, and it says %+v", p, len(batches), next, st)
		}
	}
	r := l.Read([]stream.ID{keptStream}, 0)
	for first := true; ; first = false {
		e, ok, err := r.Next()
		if err != nil {
			bad("kept short: %v", err)
		}
		if !ok || err != nil {
			break
		}
		if first && e.Sequence() <= mark.Sequence {
			bad("kept short: entry %d is before the mark %d", e.Sequence(), mark.Sequence)
		}
	}
	return wrong
}

// checkClone opens what a crash left, twice in a row, and says what is wrong with it.
func checkClone(ctx context.Context, fs *vfs.MemFS, clock *logtest.Clock, acked map[string]stream.Place, size map[string]int) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for range 2 {
		l, err := openOn(fs, clock)
		if err != nil {
			return []string{"open: " + err.Error()}
		}
		for _, lost := range l.Lost() {
			bad("said to be lost: %s", lost)
		}
		found := map[string]stream.Place{}
		requests := map[string]int{}
		r := l.Read([]stream.ID{1, 2}, 0)
		type at struct {
			id stream.ID
			p  stream.Partition
		}
		next := map[at]stream.Offset{}
		last, lastTime := stream.Sequence(0), stream.Micros(0)
		for {
			e, ok, err := r.Next()
			if err != nil {
				bad("read: %v", err)
			}
			if !ok || err != nil {
				break
			}
			if e.Sequence() <= last || e.AppendTime() < lastTime {
				bad("sequence %d after %d, append time %d after %d", e.Sequence(), last, e.AppendTime(), lastTime)
			}
			last, lastTime = e.Sequence(), e.AppendTime()
			b := e.Batch
			if b == nil {
				continue
			}
			if n := next[at{b.Stream, b.Partition}]; b.Base != n {
				bad("stream %d, partition %d: batch at %d after %d", b.Stream, b.Partition, b.Base, n)
			}
			next[at{b.Stream, b.Partition}] += stream.Offset(b.Len)
			for i := range b.Len {
				_, id, _ := strings.Cut(string(b.Raw(i)), `"id":"`)
				id = strings.TrimSuffix(id, `"}`)
				if _, twice := found[id]; twice {
					bad("id %s is there twice", id)
				}
				found[id] = stream.Place{Partition: b.Partition, Offset: b.Base + stream.Offset(i)}
				request, _, _ := strings.Cut(id, "/")
				requests[request]++
			}
		}
		if l.End() < last {
			bad("the end is %d, the last entry %d", l.End(), last)
		}
		for id, place := range acked {
			if found[id] != place {
				bad("acknowledged %s at %v, found %v", id, place, found[id])
			}
		}
		for request, n := range size {
			if requests[request] < n {
				bad("request %s of %d events has %d", request, n, requests[request])
			}
		}
		accepted := int64(0)
		for id := range stream.ID(2) {
			s, err := l.Stats(id + 1)
			if err != nil {
				bad("stats: %v", err)
				continue
			}
			accepted += s.Accepted
			for p := range s.Partitions {
				if s.Partitions[p].Next != next[at{id + 1, stream.Partition(p)}] {
					bad("stream %d, partition %d: next offset %d, read up to %d", id+1, p, s.Partitions[p].Next, next[at{id + 1, stream.Partition(p)}])
				}
			}
		}
		if accepted != int64(len(found)) {
			bad("%d accepted, %d found", accepted, len(found))
		}
		wrong = append(wrong, checkRemembered(ctx, l.Log, found)...)
		if err := errors.Join(r.Close(), l.close()); err != nil {
			bad("close: %v", err)
		}
	}
	return wrong
}

// checkRemembered sends every id that is in the log again: each is a duplicate of the one found.
func checkRemembered(ctx context.Context, l *pebblelog.Log, found map[string]stream.Place) (wrong []string) {
	events := map[stream.ID][]logtest.Event{}
	for id := range found {
		request, _, _ := strings.Cut(id, "/")
		of := stream.ID(1 + len(request)%2)
		events[of] = append(events[of], logtest.Event{ID: id})
	}
	for of, sent := range events {
		got, err := l.Append(ctx, []*stream.Events{logtest.Request(of, sent...)})
		if err != nil || len(got[0].Duplicates) != len(sent) {
			return []string{fmt.Sprintf("ids sent again: %+v, %v", got, err)}
		}
		for _, d := range got[0].Duplicates {
			if id := sent[d.Index].ID; d.Of != found[id] {
				wrong = append(wrong, fmt.Sprintf("id %s lies at %v and is said to lie at %v", id, found[id], d.Of))
			}
		}
	}
	return wrong
}

// forgetful is a file system that says that some files are synced and does not sync them.
type forgetful struct {
	vfs.FS
	suffix string
}

func (f forgetful) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if err == nil && strings.HasSuffix(name, f.suffix) {
		return forgetfulFile{file}, nil
	}
	return file, err
}

func (f forgetful) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(old, name, c)
	if err == nil && strings.HasSuffix(name, f.suffix) {
		return forgetfulFile{file}, nil
	}
	return file, err
}

type forgetfulFile struct{ vfs.File }

func (forgetfulFile) Sync() error                  { return nil }
func (forgetfulFile) SyncData() error              { return nil }
func (forgetfulFile) SyncTo(n int64) (bool, error) { return true, nil }
