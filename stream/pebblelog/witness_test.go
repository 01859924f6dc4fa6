package pebblelog_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// shorten takes the newest records of a directory away, as a lost tail of the write-ahead log does.
func shorten(t *testing.T, fs vfs.FS) {
	t.Helper()
	logs := files(t, fs)["write-ahead log"]
	last := logs[len(logs)-1]
	writeFile(t, fs, last, readFile(t, fs, last)[:300]) // behind the new records lie those of a reused file
}

// TestShortenedLogIsReadOnlyUntilTheLossIsAccepted: P1b.
func TestShortenedLogIsReadOnlyUntilTheLossIsAccepted(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	fs := k.clone()
	shorten(t, fs)
	request := func() []*stream.Events { return []*stream.Events{logtest.Request(1, logtest.Event{ID: "new"})} }
	var was stream.LogID
	var left int64
	for range 2 { // a second start says the same
		l, err := openOn(fs, k.clock)
		if err != nil {
			t.Fatal(err)
		}
		was = l.ID()
		_, err = l.Append(t.Context(), request())
		var p *problem.Problem
		if !errors.As(err, &p) || p.Status != 503 || p.Code != "log_shortened" || !errors.Is(err, stream.ErrShortened) ||
			!strings.Contains(p.Detail, "stream checkouts, partition 0: the events end at offset ") || !strings.Contains(p.Detail, " and should end at ") ||
			!strings.Contains(p.Hint, "--accept-loss") {
			t.Errorf("append: %v", err)
		}
		if err := l.Declare(t.Context(), 3, stream.Settings{Name: "new", Partitions: 1}); !errors.Is(err, stream.ErrShortened) {
			t.Errorf("declare: %v", err)
		}
		if err := l.Drop(t.Context(), 1); !errors.Is(err, stream.ErrShortened) {
			t.Errorf("drop: %v", err)
		}
		if len(logtest.ReadAll(t, l.Log, 0, 1)) == 0 {
			t.Error("nothing can be read")
		}
		stats, err := l.Stats(1)
		if err != nil {
			t.Fatal(err)
		}
		left = stats.Accepted
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	}
	accept := func(o *pebblelog.Options) { o.AcceptLoss = true }
	l, err := openOn(fs, k.clock, accept)
	if err != nil {
		t.Fatal(err)
	}
	if l.ID() == was {
		t.Error("a log that goes on without what is missing has the identity of the old one")
	}
	if upTo, ok := l.Shares(was); !ok || upTo != l.End() {
		t.Errorf("the old log is shared up to %d of %d, %v", upTo, l.End(), ok)
	}
	if _, err := l.Append(t.Context(), request()); err != nil {
		t.Error(err)
	}
	if stats, err := l.Stats(1); err != nil || stats.Accepted != left+1 {
		t.Errorf("%d accepted after %d, %v", stats.Accepted, left, err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	l, err = openOn(fs, k.clock)
	if err != nil {
		t.Fatal(err)
	}
	if lost := l.Lost(); len(lost) > 0 {
		t.Errorf("after the loss was accepted: %q", lost)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedLogGoesOnWithoutWhatFollowsTheDamage: a store that does not open because of its
// write-ahead log does when the loss is accepted.
func TestDamagedLogGoesOnWithoutWhatFollowsTheDamage(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	disk := k.clone()
	logs := files(t, disk)["write-ahead log"]
	last := logs[len(logs)-1]
	content := readFile(t, disk, last)
	content[len(content)/3] ^= 0x55
	writeFile(t, disk, last, content)
	if _, err := openSized(disk, k.clock, 4<<20); !errors.Is(err, kv.ErrDamaged) {
		t.Fatalf("a damaged log: %v", err)
	}
	dir, err := storage.Open("data", storage.Options{FS: disk, Logger: quiet(), Store: kv.Options{AcceptLoss: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := openOn(disk, k.clock, func(o *pebblelog.Options) { o.AcceptLoss = true })
	if err != nil {
		t.Fatal(err)
	}
	if l.ID() == k.open.ID() || l.End() == 0 || l.End() >= k.open.End() {
		t.Errorf("log %d ends at %d, log %d at %d", l.ID(), l.End(), k.open.ID(), k.open.End())
	}
	if _, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, logtest.Event{})}); err != nil {
		t.Error(err)
	}
	for _, e := range logtest.ReadAll(t, l.Log, 0, 1, 2) {
		if b := e.Batch; b != nil && e.Sequence() < l.End() && k.events[b.Stream][stream.Place{Partition: b.Partition, Offset: b.Base}] != string(b.Raw(0)) {
			t.Errorf("sequence %d is not what was written", e.Sequence())
		}
	}
	mustClose(t, l)
	if said := check(disk); len(said) > 0 {
		t.Errorf("check: %q", said)
	}
}

// TestStoreFromAnOldCopyIsNoticed: an old store beside the witness of the new one.
func TestStoreFromAnOldCopyIsNoticed(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	old := k.clone()
	if _, err := k.open.Append(t.Context(), []*stream.Events{logtest.Request(2, logtest.Event{Partition: 1})}); err != nil {
		t.Fatal(err)
	}
	if err := k.open.SaveWitness(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, old, "data/witness", readFile(t, k.clone(), "data/witness"))
	if v := k.judge(old); len(v.said) != 1 || !strings.HasPrefix(v.said[0], "stream visits, partition 1: the events end at offset ") {
		t.Errorf("said %q", v.said)
	}
	// A store that is new altogether.
	empty := k.clone()
	if err := empty.RemoveAll("data/kv"); err != nil {
		t.Fatal(err)
	}
	if err := empty.MkdirAll("data/kv", 0o755); err != nil {
		t.Fatal(err)
	}
	if store, err := kv.Open("data/kv", kv.Options{FS: empty, Logger: quiet()}); err != nil || store.Close() != nil {
		t.Fatal(err)
	}
	if said := check(empty); len(said) < 4 {
		t.Errorf("check: %q", said)
	}
	if v := k.judge(empty); len(v.said) < 4 {
		t.Errorf("said %q", v.said)
	}
}

// TestDroppedStreamIsNoLoss: what was removed on purpose is not missing, also when the witness did
// not hear of it before a crash.
func TestDroppedStreamIsNoLoss(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	witness := readFile(t, k.mem, "data/witness")
	if err := k.open.Drop(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	fs := k.clone()
	writeFile(t, fs, "data/witness", witness)
	l, err := openOn(fs, k.clock)
	if err != nil {
		t.Fatal(err)
	}
	if lost := l.Lost(); len(lost) > 0 {
		t.Errorf("said to be lost: %q", lost)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// TestPlaceBeyondTheEndMakesTheLogReadOnly: others that remember a place tell the same.
func TestPlaceBeyondTheEndMakesTheLogReadOnly(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	end := k.open.End()
	k.open.Expect("view revenue", stream.Position{Log: k.open.ID(), Sequence: end})
	k.open.Expect("view of another log", stream.Position{Log: k.open.ID() + 1, Sequence: end + 7})
	k.open.ExpectOffset("group g", 1, 0, 1)
	if lost := k.open.Lost(); len(lost) > 0 {
		t.Fatalf("lost: %q", lost)
	}
	k.open.Expect("view revenue", stream.Position{Log: k.open.ID(), Sequence: end + 1})
	k.open.ExpectOffset("group g", 1, 0, 1<<40)
	lost := k.open.Lost()
	if len(lost) != 2 || !strings.HasPrefix(lost[0], "view revenue has read up to") || !strings.Contains(lost[1], "group g stands at offset 1099511627776 of stream checkouts, partition 0") {
		t.Errorf("lost: %q", lost)
	}
	if _, err := k.open.Append(t.Context(), []*stream.Events{logtest.Request(1, logtest.Event{})}); !errors.Is(err, stream.ErrShortened) {
		t.Errorf("append: %v", err)
	}
}

// failing is a witness file that can't be written.
type failing struct{}

func (failing) Load() ([]byte, error) { return nil, fs.ErrNotExist }
func (failing) Save([]byte) error     { return errors.New("no space left") }

// TestLogGoesOnWithoutItsWitness: the fsync of the commit is the promise, the witness comes behind.
func TestLogGoesOnWithoutItsWitness(t *testing.T) {
	t.Parallel()
	l := openWith(t, vfs.NewMem(), pebblelog.Options{Witness: failing{}})
	declare(t, l, 1)
	if _, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, logtest.Event{})}); err != nil {
		t.Error(err)
	}
	if err := l.SaveWitness(); err == nil {
		t.Error("the witness was written")
	}
}
