package group_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/stream"
	"tidemark/stream/group"
	"tidemark/stream/logtest"
)

// promise is what members know to be acknowledged, kept outside the server.
type promise struct {
	mu        sync.Mutex
	committed map[stream.Partition]stream.Offset
	letters   map[string]bool // dead letters that a nack has told of
	attempts  map[stream.Place]int
}

func (p *promise) copy() *promise {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := newPromise()
	for k, v := range p.committed {
		c.committed[k] = v
	}
	for k, v := range p.letters {
		c.letters[k] = v
	}
	for k, v := range p.attempts {
		c.attempts[k] = v
	}
	return c
}

func newPromise() *promise {
	return &promise{committed: map[stream.Partition]stream.Offset{}, letters: map[string]bool{}, attempts: map[stream.Place]int{}}
}

// crashEvents are the events of each partition.
const crashEvents = 120

// TestGroupNeverGoesBackPastItsCommits cuts the power under members at work: what was answered is
// there (I3, I4), a dead letter and the offset behind it together (I5).
func TestGroupNeverGoesBackPastItsCommits(t *testing.T) {
	t.Parallel()
	seeds, crashes := 10, 10
	if long() {
		seeds, crashes = 200, 10
	}
	for seed := range uint64(seeds) {
		mem := vfs.NewCrashableMem()
		for _, wrong := range crashGroups(t, seed, crashes, mem, mem) {
			t.Errorf("seed %d: %s", seed, wrong)
		}
	}
}

// TestCrashOfGroupsSeesMissingFsync holds the test above to its purpose.
func TestCrashOfGroupsSeesMissingFsync(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	if len(crashGroups(t, 1, 5, mem, forgetful{mem})) == 0 {
		t.Error("nothing was found lost without fsyncs")
	}
}

func crashGroups(t *testing.T, seed uint64, crashes int, mem *vfs.MemFS, fs vfs.FS) (wrong []string) {
	const partitions = 3
	w := &world{t: t, fs: fs, clock: logtest.NewClock()}
	w.opts.MaxAttempts = 2
	w.open()
	w.declare(partitions)
	for p := range stream.Partition(partitions) {
		w.send(p, crashEvents)
	}
	told := newPromise()
	stop := make(chan struct{})
	steps := make(chan struct{}, 1)
	var members sync.WaitGroup
	for m := range 3 {
		members.Go(func() { work(t, w, told, rand.New(rand.NewPCG(seed, uint64(m))), fmt.Sprintf("m%d", m), stop, steps) })
	}
	rng := rand.New(rand.NewPCG(seed, 99))
	type clone struct {
		fs   *vfs.MemFS
		told *promise
	}
	var clones []clone
	for range crashes {
		for range 1 + rng.IntN(20) {
			<-steps
		}
		before := told.copy() // all of it must be in the clone
		clones = append(clones, clone{mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}), before})
	}
	close(stop)
	for ended := false; !ended; {
		done := make(chan struct{})
		go func() { members.Wait(); close(done) }()
		select {
		case <-steps:
		case <-done:
			ended = true
		}
	}
	w.close()
	for _, c := range clones {
		wrong = append(wrong, checkGroups(t, c.fs, c.told)...)
	}
	return wrong
}

// work is a member that polls, commits some of it, and nacks now and then, until stop.
func work(t *testing.T, w *world, told *promise, rng *rand.Rand, name string, stop <-chan struct{}, steps chan<- struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		out, err := w.Poll(t.Context(), orders, "g", group.Poll{Member: name, Max: 1 + rng.IntN(8), AtMostOnce: rng.IntN(8) == 0})
		if err != nil {
			return
		}
		told.mu.Lock()
		for i, p := range out.Partitions {
			told.committed[p] = max(told.committed[p], out.Committed[i])
		}
		told.mu.Unlock()
		if len(out.Events) > 0 {
			e := out.Events[rng.IntN(len(out.Events))]
			if rng.IntN(4) == 0 {
				if n, err := w.Nack(orders, "g", group.Nack{Member: name, Generation: out.Generation, Place: e.Place}); err == nil {
					told.mu.Lock()
					told.attempts[e.Place] = n.Attempts
					if n.DeadLetter != "" {
						told.letters[n.DeadLetter] = true
					}
					told.mu.Unlock()
				}
			}
			c := group.Commit{Member: name, Generation: out.Generation, Offsets: map[stream.Partition]stream.Offset{e.Partition: e.Offset + 1}}
			if got, err := w.Commit(orders, "g", c); err == nil {
				told.mu.Lock()
				for p, o := range got.Offsets {
					told.committed[p] = max(told.committed[p], o)
				}
				told.mu.Unlock()
			}
		}
		if rng.IntN(20) == 0 {
			_ = w.Leave(orders, "g", name)
		}
		select {
		case steps <- struct{}{}:
		case <-stop:
			return
		}
	}
}

// checkGroups opens what a crash left, twice in a row, and says what is wrong with it.
func checkGroups(t *testing.T, fs *vfs.MemFS, told *promise) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for range 2 {
		w := &world{t: t, fs: fs, clock: logtest.NewClock()}
		w.opts.MaxAttempts = 2
		w.open()
		info, err := w.Get(orders, "g")
		if err != nil {
			bad("the group: %v", err)
			w.close()
			return wrong
		}
		for _, p := range info.Partitions {
			if p.Committed < told.committed[p.Partition] {
				bad("partition %d went back from %d to %d", p.Partition, told.committed[p.Partition], p.Committed)
			}
		}
		letters, err := w.DeadLetters(orders, "g", group.Letter{}, 10_000)
		if err != nil {
			bad("dead letters: %v", err)
		}
		found := map[string]bool{}
		for _, l := range letters {
			found[group.Letter{Group: "g", Place: *l.Place}.String()] = true
		}
		for id := range told.letters {
			if !found[id] {
				bad("dead letter %s is missing", id)
			}
		}
		wrong = append(wrong, drain(w, info, found)...)
		w.close()
	}
	return wrong
}

// drain lets one member do all the rest: it gets every event behind the commits that is no dead
// letter, once and in order, and none that is (I5, I6).
func drain(w *world, info *group.Info, dead map[string]bool) (wrong []string) {
	for _, m := range info.Members {
		if err := w.Leave(orders, "g", m.Name); err != nil {
			return []string{err.Error()}
		}
	}
	next := map[stream.Partition]stream.Offset{}
	for _, p := range w.info().Partitions {
		next[p.Partition] = p.Committed
	}
	skip := func(p stream.Partition) {
		for dead[group.Letter{Group: "g", Place: stream.Place{Partition: p, Offset: next[p]}}.String()] {
			next[p]++
		}
	}
	for quiet := 0; quiet < len(next); {
		out, _ := w.poll("rest", 1000)
		quiet++
		for _, e := range out.Events {
			quiet = 0
			if skip(e.Partition); e.Offset != next[e.Partition] {
				return []string{fmt.Sprintf("partition %d gave %d, not %d", e.Partition, e.Offset, next[e.Partition])}
			}
			next[e.Partition]++
		}
		w.commitAll("rest", out)
	}
	for p, o := range next {
		if skip(p); next[p] != crashEvents {
			return []string{fmt.Sprintf("partition %d ended at %d", p, o)}
		}
	}
	return nil
}

// forgetful is a file system that says that logs are synced and does not sync them.
type forgetful struct{ vfs.FS }

func (f forgetful) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if err == nil && strings.HasSuffix(name, ".log") {
		return forgetfulFile{file}, nil
	}
	return file, err
}

func (f forgetful) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(old, name, c)
	if err == nil {
		return forgetfulFile{file}, nil
	}
	return file, err
}

type forgetfulFile struct{ vfs.File }

func (forgetfulFile) Sync() error                  { return nil }
func (forgetfulFile) SyncData() error              { return nil }
func (forgetfulFile) SyncTo(n int64) (bool, error) { return true, nil }
