package pebblelog_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage"
	"tidemark/storage/backup"
	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// onDisk opens a log in a real directory.
func onDisk(t *testing.T, dir string, clock *logtest.Clock) opened {
	t.Helper()
	d, err := storage.Open(dir, storage.Options{Logger: quiet(), Store: kv.Options{CacheBytes: 1 << 20, MemTableBytes: 64 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := pebblelog.Open(d.KV, pebblelog.Options{
		Clock: clock.Now, Monotonic: clock.Monotonic, TimerPeriod: -1, KeepPeriod: -1, Logger: quiet(), Witness: d.File("witness"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return opened{l, d}
}

func archive(t *testing.T, d *storage.Dir) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := backup.Write(d, &out, logtest.Noon, func(s *kv.Store) (any, error) { return pebblelog.EndsOf(s) }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// hashes are a hash of each partition up to where a backup ends.
func hashes(t *testing.T, l stream.Log, ends pebblelog.Ends) (out []string) {
	t.Helper()
	for _, s := range ends.Streams {
		for p, end := range s.Partitions {
			h := sha256.New()
			batches, err := l.Slice(s.ID, stream.Partition(p), end.First, int(end.Next-end.First))
			if err != nil {
				t.Fatal(err)
			}
			n := end.First
			for _, b := range batches {
				for i := 0; i < b.Len && b.Offset(i) < end.Next; i++ {
					fmt.Fprintf(h, "%d %d %d %s\n", b.Offset(i), b.Sequence, b.Times[i], b.Raw(i))
					n++
				}
			}
			out = append(out, fmt.Sprintf("%d/%d up to %d: %x", s.ID, p, n, h.Sum(nil)))
		}
	}
	return out
}

// TestBackupOfAWrittenLogRestoresToItsCut: P15.
func TestBackupOfAWrittenLogRestoresToItsCut(t *testing.T) {
	t.Parallel()
	clock, root := logtest.NewClock(), t.TempDir()
	l := onDisk(t, filepath.Join(root, "data"), clock)
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "checkouts", Partitions: 3, DedupeWindow: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	enough := make(chan struct{})
	clients.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			var events []logtest.Event
			for k := range 1 + rng.IntN(9) {
				events = append(events, logtest.Event{Partition: stream.Partition(rng.IntN(3)), ID: fmt.Sprint(n, "-", k), Value: int64(n)})
			}
			if _, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, events...)}); err != nil {
				t.Error(err)
				return
			}
			if n == 150 {
				close(enough)
			}
		}
	})
	<-enough
	before, err := l.Stats(1)
	if err != nil {
		t.Fatal(err)
	}
	content := archive(t, l.dir) // while clients write
	close(stop)
	clients.Wait()
	if left, err := os.ReadDir(l.dir.Join(backup.Folder)); err != nil || len(left) > 0 {
		t.Errorf("a copy stayed behind: %v, %v", left, err)
	}

	copied := filepath.Join(root, "backup")
	m, err := backup.Read(bytes.NewReader(content), copied)
	if err != nil {
		t.Fatal(err)
	}
	var ends pebblelog.Ends
	if err := json.Unmarshal(m.Log, &ends); err != nil || len(ends.Streams) != 1 || ends.Streams[0].Accepted < before.Accepted {
		t.Fatalf("the manifest tells of %+v, %d were accepted before, %v", ends, before.Accepted, err)
	}
	want := hashes(t, l.Log, ends)
	was := l.ID()
	mustClose(t, l)

	restored := filepath.Join(root, "restored")
	rename := func(d *storage.Dir) error { _, err := pebblelog.Rename(d.KV); return err }
	if _, err := backup.Restore(copied, restored, rename); err != nil {
		t.Fatal(err)
	}
	l = onDisk(t, restored, clock)
	if got := hashes(t, l.Log, ends); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("restored\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	if lost := l.Lost(); len(lost) > 0 || l.ID() == was || l.End() != ends.Sequence {
		t.Errorf("lost %q, log %d was %d, ends at %d of %d", lost, l.ID(), was, l.End(), ends.Sequence)
	}
	if upTo, ok := l.Shares(was); !ok || upTo != ends.Sequence {
		t.Errorf("the old log is shared up to %d, %v", upTo, ok)
	}
	// No offset is given twice, ids are remembered.
	got, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, logtest.Event{ID: "0-0"}, logtest.Event{ID: "new"})})
	if err != nil || len(got[0].Duplicates) != 1 || got[0].Ranges[0].First != ends.Streams[0].Partitions[0].Next {
		t.Errorf("%+v, %v", got, err)
	}
	mustClose(t, l)
	l = onDisk(t, restored, clock)
	if lost := l.Lost(); len(lost) > 0 {
		t.Errorf("lost %q", lost)
	}
	mustClose(t, l)
	if _, err := backup.Restore(copied, restored, rename); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("over a directory with data: %v", err)
	}
}

// TestDamagedBackupIsRefused: every changed byte and every cut is noticed (P11), and leaves nothing.
func TestDamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	flips, cuts := 20, 5
	if long() {
		flips, cuts = 500, 50
	}
	clock, root := logtest.NewClock(), t.TempDir()
	l := onDisk(t, filepath.Join(root, "data"), clock)
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "s", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	minutes(t, l, clock, 50, 1)
	content := archive(t, l.dir)
	mustClose(t, l)
	copied := filepath.Join(root, "backup")
	m, err := backup.Read(bytes.NewReader(content), copied)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seedOf(t), 3))
	for range flips {
		f := m.Files[rng.IntN(len(m.Files))]
		name := filepath.Join(copied, filepath.FromSlash(f.Name))
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(good) == 0 {
			continue
		}
		bad := bytes.Clone(good)
		bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Restore(copied, filepath.Join(root, "restored"), nil); !errors.Is(err, kv.ErrDamaged) || !strings.Contains(err.Error(), f.Name) {
			t.Errorf("%s with a changed byte: %v", f.Name, err)
		}
		if err := os.WriteFile(name, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range cuts {
		at := rng.IntN(len(content) - 1024) // a tar archive ends with zeros
		if _, err := backup.Read(bytes.NewReader(content[:at]), filepath.Join(root, "cut")); err == nil {
			t.Errorf("an archive cut at %d of %d was taken", at, len(content))
			_ = os.RemoveAll(filepath.Join(root, "cut"))
		}
	}
	left, err := vfs.Default.List(root)
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
