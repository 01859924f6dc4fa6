package migrations

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/pebblelog"
)

// keep makes the directory of the present format again: go test ./migrations -keep. Only before the
// format is released.
var keep = flag.Bool("keep", false, "write the kept directory of the present format anew")

type log struct {
	*pebblelog.Log
	dir *storage.Dir
	now time.Time
}

func open(t *testing.T, dir string, now time.Time) *log {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	d, err := storage.Open(dir, storage.Options{Migrate: Run, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	l := &log{dir: d, now: now}
	l.Log, err = pebblelog.Open(d.KV, pebblelog.Options{
		Clock: func() time.Time { return l.now }, Monotonic: func() time.Duration { return l.now.Sub(now) },
		TimerPeriod: -1, KeepPeriod: -1, WitnessPeriod: -1, Logger: quiet, Witness: d.File("witness"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *log) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(l.Log.Close(), l.dir.Close()); err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2024, 1, 15, 12, 0, 0, 0, time.UTC)

func event(id stream.ID, key string, n int64, letter string) *stream.Events {
	r := &stream.Events{
		Stream: id, Times: []stream.Micros{noon.UnixMicro() + n}, Partitions: []stream.Partition{stream.Partition(n % 2)},
		Keys: row.NewVector(row.Scalar(row.Varchar), 1), IDs: []stream.EventID{{1, byte(n), byte(id)}},
	}
	r.Keys.AppendString(key)
	v := row.NewVector(row.Scalar(row.BigInt), 1)
	v.AppendInt64(n)
	r.Columns = []*row.Vector{v}
	r.RawData = fmt.Appendf(nil, `{"key":%q,"n":%d}`, key, n)
	r.RawEnds = []uint32{uint32(len(r.RawData))}
	if letter != "" {
		r.DeadLetters = []stream.DeadLetter{{Origin: "ingest", Code: letter, Reason: "kept", Raw: []byte("{")}}
	}
	r.Idempotency = &stream.Idempotency{Key: stream.IdempotencyKey{byte(n), byte(id)}, Answer: func([]stream.Appended) []byte { return []byte("answer") }}
	return r
}

// fill writes one of each kind of record: batches, compacted ones, control records, a mark, ids,
// answers, dead letters, a dropped stream.
func fill(t *testing.T, dir string) {
	t.Helper()
	l := open(t, dir, noon)
	for id, set := range map[stream.ID]stream.Settings{
		1: {Name: "plain", Partitions: 2, DedupeWindow: 1 << 60},
		2: {Name: "short", Partitions: 2, Retention: stream.Retention{Age: time.Hour}},
		3: {Name: "compact", Partitions: 2, Compact: true},
		4: {Name: "dropped", Partitions: 1},
	} {
		if err := l.Declare(t.Context(), id, set); err != nil {
			t.Fatal(err)
		}
	}
	for n := range int64(12) {
		l.now = l.now.Add(20 * time.Minute)
		for id := range stream.ID(3) {
			if _, err := l.Append(t.Context(), []*stream.Events{event(id+1, fmt.Sprint("k", n%3), n, map[bool]string{true: "bad_time"}[n == 5])}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := l.Advance(t.Context(), 1, noon.UnixMicro()); err != nil {
		t.Fatal(err)
	}
	if err := l.Drop(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if err := l.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.close(t)
	open(t, dir, l.now).close(t) // what lay in the write-ahead log lies in a table now
}

// tell writes down everything that a directory holds.
func tell(t *testing.T, dir string) string {
	t.Helper()
	l := open(t, dir, noon.Add(5*time.Hour))
	defer l.close(t)
	var out strings.Builder
	for _, lost := range l.Lost() {
		fmt.Fprintln(&out, "lost:", lost)
	}
	for _, id := range l.Declared() {
		st, err := l.Stats(id)
		if err != nil {
			t.Fatal(err)
		}
		mark, err := l.Mark(id)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "stream %d: accepted %d, dead letters %d, advance %d, mark at %d %v\n", id, st.Accepted, st.DeadLetters, st.Advance, mark.Sequence, mark.First)
		for p, s := range st.Partitions {
			fmt.Fprintf(&out, "  partition %d: %d to %d, counted %d\n", p, s.First, s.Next, s.MaxCounted)
		}
		letters, err := l.DeadLetters(id, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range letters {
			fmt.Fprintf(&out, "  dead letter %d: %s %s\n", d.Number, d.Code, d.Raw)
		}
		answer, ok, err := l.Remembered(stream.IdempotencyKey{3, byte(id)})
		fmt.Fprintf(&out, "  answer %q %v %v\n", answer.Body, ok, err)
		r := l.Read([]stream.ID{id}, 0)
		for {
			e, ok, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if c := e.Control; c != nil {
				fmt.Fprintf(&out, "  %d: control %d value %d\n", c.Sequence, c.Kind, c.Value)
				continue
			}
			b := e.Batch
			for i := range b.Len {
				fmt.Fprintf(&out, "  %d: %d/%d %s %s time %d value %d\n", b.Sequence, b.Partition, b.Offset(i), b.Keys.Str[i], b.Raw(i), b.Times[i], b.Columns[0].I64[i])
			}
		}
	}
	return out.String()
}

// TestKeptDirectoriesOpen: a directory of every released format is opened, raised where it is old,
// and holds what was written (P14).
func TestKeptDirectoriesOpen(t *testing.T) {
	t.Parallel()
	if *keep {
		dir := filepath.Join("testdata", fmt.Sprint("format", storage.FormatVersion))
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		fill(t, dir)
		for _, name := range []string{"tidemark.lock", "kv/LOCK"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for format := 1; format <= storage.FormatVersion; format++ {
		kept, golden := filepath.Join("testdata", fmt.Sprint("format", format)), filepath.Join("testdata", fmt.Sprintf("format%d.golden", format))
		dir := filepath.Join(t.TempDir(), "data")
		if ok, err := vfs.Clone(vfs.Default, vfs.Default, kept, dir); err != nil || !ok {
			t.Fatal(ok, err)
		}
		got := tell(t, dir)
		if *keep && format == storage.FormatVersion {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("format %d holds\n%s\nwant\n%s", format, got, want)
		}
	}
}

func TestStepsAreRunByNumber(t *testing.T) {
	t.Parallel()
	done := ""
	list := []Step{
		{From: 1, Why: "first", Do: func(vfs.FS, string) error { done += "1"; return nil }},
		{From: 2, Why: "second", Do: func(vfs.FS, string) error { return errors.New("no space") }},
	}
	if err := run(list, vfs.NewMem(), "data", 1); err != nil || done != "1" {
		t.Errorf("%q, %v", done, err)
	}
	if err := run(list, vfs.NewMem(), "data", 2); err == nil || err.Error() != "raise data from format 2 to 3 (second): no space" {
		t.Error(err)
	}
	if err := run(list, vfs.NewMem(), "data", 3); err == nil {
		t.Error("a step that is not there was run")
	}
	for i, s := range steps {
		if s.From != i+1 || s.Why == "" || s.Do == nil {
			t.Errorf("step %d: %+v", i, s)
		}
	}
}
