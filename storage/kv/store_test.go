package kv

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func open(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open("kv", Options{FS: fs, CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBatchIsWrittenWholeAndReadBack(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	b := s.NewBatch()
	for i := range 10 {
		b.Set(fmt.Appendf(nil, "b%d", i), fmt.Appendf(nil, "v%d", i))
	}
	b.Delete([]byte("b3"))
	b.DeletePrefix([]byte("b5"))
	if _, err := s.Get([]byte("b1")); !errors.Is(err, ErrNotFound) {
		t.Errorf("before the commit: %v", err)
	}
	if err := b.CommitAsync(); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs)
	defer func() { _ = s.Close() }()
	it := s.Iter([]byte("b2"), []byte("b8"))
	var got []string
	for ok := it.First(); ok; ok = it.Next() {
		got = append(got, string(it.Key())+string(it.Value()))
	}
	if it.SeekLT([]byte("b4")); string(it.Key()) != "b2" {
		t.Errorf("before b4 lies %s", it.Key())
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	if want := "[b2v2 b4v4 b6v6 b7v7]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestSnapshotStaysAsItWas(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	defer func() { _ = s.Close() }()
	set := func(v string) {
		b := s.NewBatch()
		b.Set([]byte("k"), []byte(v))
		if err := b.Commit(true); err != nil {
			t.Fatal(err)
		}
	}
	set("old")
	snap := s.Snapshot()
	defer func() { _ = snap.Close() }()
	set("new")
	was, err := snap.Get([]byte("k"))
	is, err2 := s.Get([]byte("k"))
	if string(was) != "old" || string(is) != "new" || err != nil || err2 != nil {
		t.Errorf("snapshot %q, store %q, %v, %v", was, is, err, err2)
	}
}

// TestOldFormatIsNotRaisedByOpening keeps I3: raising is a migration, because there is no way back.
func TestOldFormatIsNotRaisedByOpening(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	old := pebble.FormatFlushableIngest
	db, err := pebble.Open("kv", &pebble.Options{FS: fs, FormatMajorVersion: old})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, fs)
	defer func() { _ = s.Close() }()
	if got := s.db.FormatMajorVersion(); got != old {
		t.Errorf("format %v became %v", old, got)
	}
	fresh := open(t, vfs.NewMem())
	defer func() { _ = fresh.Close() }()
	if got := fresh.db.FormatMajorVersion(); got != pebble.FormatNewest {
		t.Errorf("a new store has format %v", got)
	}
}

func TestDamagedLogIsRefusedOnOpening(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	for i := range 400 {
		b := s.NewBatch()
		b.Set(fmt.Appendf(nil, "k%d", i), bytes.Repeat([]byte{byte(i)}, 1000))
		if err := b.Commit(true); err != nil {
			t.Fatal(err)
		}
	}
	crashed := vfs.NewMem() // a copy taken while the store is open: its log still counts
	if _, err := vfs.Clone(fs, crashed, "kv", "kv", vfs.CloneSync); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := crashed.List("kv")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			flip(t, crashed, "kv/"+name, 100_000)
		}
	}
	if s, err := Open("kv", Options{FS: crashed}); err == nil {
		_ = s.Close()
		t.Error("a log with a flipped byte in its middle was opened")
	}
}

// flip changes one byte of a file.
func flip(t *testing.T, fs *vfs.MemFS, name string, at int64) {
	t.Helper()
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFatalErrorIsOneSentenceWithANextStep(t *testing.T) {
	t.Parallel()
	var said []string
	l := logger{dir: "data/kv", fatal: func(s string) { said = append(said, s) }}
	func() {
		defer func() { _ = recover() }()
		l.Fatalf("write %s: no space left", "000007.log")
		t.Error("Fatalf returned")
	}()
	want := `the store in data/kv can't go on: write 000007.log: no space left: see that its disk is healthy and has space, run "tidemark check" on the data directory, and start again`
	if len(said) != 1 || said[0] != want {
		t.Errorf("said %q", said)
	}
}

func TestPrefixEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prefix, want string }{{"a", "b"}, {"ab", "ac"}, {"a\xff", "b"}, {"a\xff\xff", "b"}, {"\xff", ""}, {"", ""}} {
		if got := PrefixEnd([]byte(c.prefix)); string(got) != c.want {
			t.Errorf("end of %q is %q, want %q", c.prefix, got, c.want)
		}
	}
}
