package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/kv"
)

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("TIDEMARK_TEST_OPEN"); dir != "" { // this is the second process
		_, err := Open(dir, Options{})
		if !errors.Is(err, ErrInUse) {
			t.Fatalf("opened twice: %v", err)
		}
		os.Stdout.WriteString("refused: " + err.Error() + "\n")
		return
	}
	dir := t.TempDir()
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("the same process opened twice: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	second := exec.CommandContext(t.Context(), self, "-test.run=^TestSecondProcessIsRefused$")
	second.Env = append(os.Environ(), "TIDEMARK_TEST_OPEN="+dir)
	out, err := second.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "in use by process") || !strings.Contains(string(out), "--data") {
		t.Errorf("second process: %v\n%s", err, out)
	}
	if free, total, err := d.FreeSpace(); err != nil || free == 0 || total < free {
		t.Errorf("%d of %d bytes free, %v", free, total, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(dir, Options{}); err != nil {
		t.Fatalf("after the first has closed it: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestNewerFormatIsRefusedWithoutAWrite holds P14.
func TestNewerFormatIsRefusedWithoutAWrite(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"tidemark 2\n", "something else", ""} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "FORMAT"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir, Options{})
		if !errors.Is(err, ErrRefused) {
			t.Errorf("FORMAT %q: %v", text, err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("FORMAT %q: the directory was written to: %v %v", text, names, err)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "kv"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrRefused) {
		t.Errorf("a store without a FORMAT file: %v", err)
	}
}

func TestNewDirectorySurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	o := Options{FS: fs, Store: kv.Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20}}
	d, err := Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	b := d.KV.NewBatch()
	b.Set([]byte("k"), []byte("v"))
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
	o.FS = fs.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open("data", o); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if v, err := d.KV.Get([]byte("k")); string(v) != "v" || err != nil {
		t.Errorf("%q %v", v, err)
	}
}

// measured is a file system that says how much space is free.
type measured struct {
	*vfs.MemFS
	free uint64
}

func (m *measured) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: m.free, TotalBytes: 1 << 40}, nil
}

// TestBallastIsGivenUpOnAFullDisk: with it a start has room for what the store must write.
func TestBallastIsGivenUpOnAFullDisk(t *testing.T) {
	t.Parallel()
	fs := &measured{MemFS: vfs.NewMem()}
	for _, c := range []struct {
		free uint64
		want bool
	}{{1 << 20, false}, {1 << 30, true}, {4 << 20, true}, {1 << 20, false}, {4 << 20, false}, {1 << 30, true}} {
		fs.free = c.free
		d, err := Open("data", Options{FS: fs, Ballast: 3 << 20, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fs.Stat("data/ballast"); (err == nil) != c.want {
			t.Errorf("with %d bytes free the ballast: %v, want one: %v", c.free, err, c.want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOlderFormatIsRaisedStepByStep: P14; a step that was cut off by a crash is run again.
func TestOlderFormatIsRaisedStepByStep(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	open := func(format int, migrate func(vfs.FS, string, int) error) error {
		d, err := Open("data", Options{FS: fs, Migrate: migrate, format: format})
		if err != nil {
			return err
		}
		return d.Close()
	}
	if err := open(1, nil); err != nil {
		t.Fatal(err)
	}
	if err := open(3, nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "its format is 1") {
		t.Errorf("without steps: %v", err)
	}
	var steps []int
	fails := true
	migrate := func(_ vfs.FS, dir string, from int) error {
		steps = append(steps, from)
		if from == 2 && fails {
			return errors.New("cut off")
		}
		return nil
	}
	if err := open(3, migrate); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("a step that fails: %v", err)
	}
	fails = false
	if err := open(3, migrate); err != nil || fmt.Sprint(steps) != "[1 2 2]" {
		t.Errorf("steps %v, %v", steps, err)
	}
	if err := open(3, nil); err != nil {
		t.Errorf("of the present format: %v", err)
	}
	if err := open(2, migrate); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "formats up to 2") {
		t.Errorf("a newer one: %v", err)
	}
}
