package pebblelog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage"
	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// long says whether the long suite runs, which takes the full numbers.
func long() bool { return os.Getenv("TIDEMARK_LONG") != "" }

// seedOf is the seed of a random test: TIDEMARK_SEED or 1, printed when the test fails.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(1)
	if n, err := strconv.ParseUint(os.Getenv("TIDEMARK_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with TIDEMARK_SEED=%d go test -run %s ./stream/pebblelog", seed, t.Name())
		}
	})
	return seed
}

// kept is a data directory as a crash leaves it, its witness up to date, and all events in it.
type kept struct {
	mem    *vfs.MemFS // crashable
	open   opened
	clock  *logtest.Clock
	events map[stream.ID]map[stream.Place]string // payloads
}

// newKept writes some hundred commits to two streams: the first half lies in tables, the second in
// the write-ahead log.
func newKept(t *testing.T) *kept {
	t.Helper()
	k := &kept{mem: vfs.NewCrashableMem(), clock: logtest.NewClock(), events: map[stream.ID]map[stream.Place]string{1: {}, 2: {}}}
	var err error
	if k.open, err = openOn(k.mem, k.clock); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.open.close(); err != nil {
			t.Error(err)
		}
	})
	for id, name := range map[stream.ID]string{1: "checkouts", 2: "visits"} {
		if err := k.open.Declare(t.Context(), id, stream.Settings{Name: name, Partitions: 2, DedupeWindow: 1 << 50}); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for n := range 160 {
		if n == 80 {
			if err := k.open.close(); err != nil {
				t.Fatal(err)
			}
			if k.open, err = openSized(k.mem, k.clock, 4<<20); err != nil {
				t.Fatal(err)
			}
		}
		var events []logtest.Event
		for range 1 + rng.IntN(8) {
			events = append(events, logtest.Event{Partition: stream.Partition(rng.IntN(2)), Value: rng.Int64(), ID: fmt.Sprint(n, len(events)), Key: fmt.Sprint(rng.Uint64())})
		}
		if _, err := k.open.Append(t.Context(), []*stream.Events{logtest.Request(stream.ID(1+n%2), events...)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range logtest.ReadAll(t, k.open.Log, 0, 1, 2) {
		if b := e.Batch; b != nil {
			for i := range b.Len {
				k.events[b.Stream][stream.Place{Partition: b.Partition, Offset: b.Base + stream.Offset(i)}] = string(b.Raw(i))
			}
		}
	}
	if err := k.open.SaveWitness(); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *kept) clone() *vfs.MemFS { return k.mem.CrashClone(vfs.CrashCloneCfg{}) }

// files are the files of a data directory by what they are.
func files(t *testing.T, fs vfs.FS) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	names, err := fs.List("data/kv")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		path := "data/kv/" + name
		switch {
		case strings.HasSuffix(name, ".sst"):
			out["table"] = append(out["table"], path)
		case strings.HasSuffix(name, ".log"):
			out["write-ahead log"] = append(out["write-ahead log"], path)
		case strings.HasPrefix(name, "MANIFEST"):
			out["manifest"] = []string{path} // the newest; those before are obsolete
		}
	}
	out["witness"] = []string{"data/witness"}
	out["format"] = []string{"data/FORMAT"}
	return out
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return content
}

func writeFile(t *testing.T, fs vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// verdict is what becomes of a damaged directory: what was said about it, and what was read that
// was never written.
type verdict struct {
	said  []string
	wrong []string
}

// judge opens a directory and reads everything.
func (k *kept) judge(fs vfs.FS) (v verdict) {
	done := make(chan struct{})
	said := make(chan string, 100)
	go func() { // Pebble may end this goroutine
		defer close(done)
		dir, err := storage.Open("data", storage.Options{FS: fs, Logger: quiet(), Store: kv.Options{
			CacheBytes: 1 << 20, MemTableBytes: 64 << 10,
			Fatal: func(s string) {
				said <- s
				runtime.Goexit()
			},
		}})
		if err != nil {
			v.said = append(v.said, err.Error())
			return
		}
		ended := false
		defer func() {
			if ended { // else the store ended this goroutine, and closing it would wait for ever
				_ = dir.Close()
			}
		}()
		l, err := pebblelog.Open(dir.KV, pebblelog.Options{
			Clock: k.clock.Now, Monotonic: k.clock.Monotonic, TimerPeriod: -1, Logger: quiet(), Witness: dir.File("witness"), WitnessPeriod: -1,
		})
		if err != nil {
			ended = true
			v.said = append(v.said, err.Error())
			return
		}
		defer func() {
			if ended {
				_ = l.Close()
			}
		}()
		v.said = append(v.said, l.Lost()...)
		v.readInOrder(l, k)
		for id, events := range k.events {
			stats, err := l.Stats(id)
			if err != nil {
				v.said = append(v.said, err.Error())
				continue
			}
			found := 0
			for p, st := range stats.Partitions {
				batches, err := l.Slice(id, stream.Partition(p), st.First, 1<<30)
				if err != nil {
					v.said = append(v.said, err.Error())
				}
				for _, b := range batches {
					for i := range b.Len {
						place := stream.Place{Partition: b.Partition, Offset: b.Base + stream.Offset(i)}
						if events[place] != string(b.Raw(i)) {
							v.wrong = append(v.wrong, fmt.Sprintf("stream %d, %s: %q", id, place, b.Raw(i)))
						}
						found++
					}
				}
				if len(batches) > 0 && err == nil && batches[len(batches)-1].Base+stream.Offset(batches[len(batches)-1].Len) != st.Next {
					v.wrong = append(v.wrong, fmt.Sprintf("stream %d, partition %d does not end at %d", id, p, st.Next))
				}
			}
			if found != len(events) && len(v.said) == 0 {
				v.wrong = append(v.wrong, fmt.Sprintf("stream %d has %d events, %d were acknowledged, and nobody says so", id, found, len(events)))
			}
		}
		ended = true
	}()
	<-done
	for {
		select {
		case s := <-said:
			v.said = append(v.said, s)
		default:
			return v
		}
	}
}

// check runs what "tidemark check" runs.
func check(fs vfs.FS) (said []string) {
	report := func(what string) { said = append(said, what) }
	if _, err := kv.CheckTables(fs, "data/kv", func(file string, err error) { report(file + ": " + err.Error()) }); err != nil {
		report(err.Error())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		dir, err := storage.OpenReadOnly("data", storage.Options{FS: fs, Logger: quiet(), Store: kv.Options{
			CacheBytes: 1 << 20, MemTableBytes: 64 << 10, Fatal: func(s string) {
				report(s)
				runtime.Goexit()
			},
		}})
		if err != nil {
			report(err.Error())
			return
		}
		if err := dir.KV.Check(); err != nil {
			report(err.Error())
		}
		if _, err := pebblelog.Check(dir.KV, dir.File("witness"), report); err != nil {
			report(err.Error())
		}
		if err := dir.Close(); err != nil {
			report(err.Error())
		}
	}()
	<-done
	return said
}

// readInOrder reads all streams by sequence, as views do.
func (v *verdict) readInOrder(l *pebblelog.Log, k *kept) {
	r := l.Read([]stream.ID{1, 2}, 0)
	found, want := 0, len(k.events[1])+len(k.events[2])
	for {
		e, ok, err := r.Next()
		if err != nil {
			v.said = append(v.said, err.Error())
			return
		}
		if !ok {
			break
		}
		if b := e.Batch; b != nil {
			for i := range b.Len {
				place := stream.Place{Partition: b.Partition, Offset: b.Base + stream.Offset(i)}
				if k.events[b.Stream][place] != string(b.Raw(i)) {
					v.wrong = append(v.wrong, fmt.Sprintf("stream %d, %s: %q", b.Stream, place, b.Raw(i)))
				}
				found++
			}
		}
	}
	if found != want && len(v.said) == 0 {
		v.wrong = append(v.wrong, fmt.Sprintf("%d events were read in order, %d were acknowledged, and nobody says so", found, want))
	}
}

// TestDamageIsNamedAndNeverServed flips bytes and cuts files of each kind behind a witness that is
// up to date: whatever is read is what was written, and what is missing is named (P1b, P11).
func TestDamageIsNamedAndNeverServed(t *testing.T) {
	t.Parallel()
	flips, cuts := 20, 5
	if long() {
		flips, cuts = 500, 50
	}
	k := newKept(t)
	if v, said := k.judge(k.clone()), check(k.clone()); len(v.said)+len(v.wrong)+len(said) > 0 {
		t.Fatalf("without damage: %q %q", v, said)
	}
	for kind, paths := range files(t, k.clone()) {
		t.Run(kind, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seedOf(t), uint64(len(kind))))
			named := 0
			for n := range flips + cuts {
				fs := k.clone()
				path := paths[rng.IntN(len(paths))]
				content := readFile(t, fs, path)
				what := ""
				if n < flips {
					at := rng.IntN(len(content))
					content = bytes.Clone(content)
					content[at] ^= byte(1 + rng.IntN(255))
					what = fmt.Sprintf("byte %d of %s changed", at, path)
				} else {
					at := rng.IntN(len(content))
					content = content[:at]
					what = fmt.Sprintf("%s cut at %d", path, at)
				}
				writeFile(t, fs, path, content)
				checked := check(fs) // first: a start may leave damaged files behind that it does not need
				v := k.judge(fs)
				if len(v.wrong) > 0 {
					t.Errorf("%s: %q", what, v.wrong)
				}
				if len(checked) > 0 {
					named++
				} else if len(v.said) > 0 {
					t.Errorf("%s: check says nothing, and reading says %q", what, v.said)
				}
			}
			if named < (flips+cuts)/2 {
				t.Errorf("check named %d of %d", named, flips+cuts)
			}
			t.Logf("check named %d of %d, the others changed nothing that is read", named, flips+cuts)
		})
	}
}

// TestMissingFileIsNamed takes whole files away.
func TestMissingFileIsNamed(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	for kind, paths := range files(t, k.clone()) {
		for _, path := range paths {
			fs := k.clone()
			if err := fs.Remove(path); err != nil {
				t.Fatal(err)
			}
			v := k.judge(fs)
			if len(v.said) == 0 && (kind == "manifest" || kind == "witness" || kind == "format") || len(v.wrong) > 0 {
				t.Errorf("%s, %s: said %q, wrong %q", kind, path, v.said, v.wrong) // tables and logs may be obsolete
			}
		}
	}
}
