package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/kv"
)

// FormatVersion is the version of data directories that this program writes.
const FormatVersion = 1

// Errors of Open that callers tell apart; each comes wrapped with the directory and a next step.
var (
	// ErrInUse: another process has the directory open.
	ErrInUse = errors.New("the data directory is in use")
	// ErrRefused: the directory is of a newer format, is damaged, or is none of ours.
	ErrRefused = errors.New("the data directory is refused")
)

// Options are how a data directory is opened.
type Options struct {
	// FS is the file system; nil is the real one.
	FS vfs.FS
	// Logger takes what the store reports; nil is slog's default.
	Logger *slog.Logger
	// Migrate raises a directory from a format to the next; it may be run twice. Nil: directories of
	// older formats are refused.
	Migrate func(fs vfs.FS, dir string, from int) error
	// Ballast is the size of a file that does nothing but take space, so that a start on a full disk
	// has some to free: the store can't be opened without a write. 0: none.
	Ballast int64
	// Store sets the store's own options; its FS and Logger are those above.
	Store kv.Options

	// format stands for FormatVersion in tests.
	format int
}

// Dir is an open data directory.
type Dir struct {
	// Path is the directory.
	Path string
	// KV is the store.
	KV *kv.Store

	fs       vfs.FS
	format   int // that this program writes
	lock     io.Closer
	readOnly bool
}

// Open takes the directory for this process, creating it when it does not exist, and opens the
// store in it.
func Open(path string, o Options) (*Dir, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	d := &Dir{Path: path, fs: o.FS, format: FormatVersion}
	if o.format > 0 {
		d.format = o.format
	}
	// The marker is read before anything is written: keeps I2.
	version, err := d.readFormat()
	if err != nil {
		return nil, err
	}
	if err := o.FS.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := syncFolder(o.FS, o.FS.PathDir(path)); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if d.lock, err = o.FS.Lock(d.join("tidemark.lock")); err != nil {
		return nil, fmt.Errorf("open %s: %w by %s: stop that process, or give this one another directory with --data", path, ErrInUse, d.holder())
	}
	d.shiftBallast(o)
	if err := d.open(version, o); err != nil {
		_ = d.lock.Close()
		return nil, err
	}
	return d, nil
}

// OpenReadOnly takes an existing directory for this process and opens the store in it without
// changing anything, but for the lock file.
func OpenReadOnly(path string, o Options) (*Dir, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	d := &Dir{Path: path, fs: o.FS, format: FormatVersion}
	if err := d.take(); err != nil {
		return nil, err
	}
	if err := d.openStore(o); err != nil {
		_ = d.lock.Close()
		return nil, err
	}
	return d, nil
}

// Take locks an existing directory of a format that this program knows, without opening its store:
// for those who look at its files. Close the returned lock.
func Take(path string, fs vfs.FS) (io.Closer, error) {
	d := &Dir{Path: path, fs: fs, format: FormatVersion}
	if err := d.take(); err != nil {
		return nil, err
	}
	return d.lock, nil
}

// take reads the format of an existing directory and locks it.
func (d *Dir) take() error {
	version, err := d.readFormat()
	if err != nil {
		return err
	}
	if version == 0 {
		return fmt.Errorf("open %s: %w: there is no data directory: name one with a FORMAT file in it", d.Path, ErrRefused)
	}
	if d.lock, err = d.fs.Lock(d.join("tidemark.lock")); err != nil {
		return fmt.Errorf("open %s: %w by %s: stop that process", d.Path, ErrInUse, d.holder())
	}
	return nil
}

// shiftBallast frees the ballast on a full disk, and puts it there on one with plenty of room.
func (d *Dir) shiftBallast(o Options) {
	u, err := d.fs.GetDiskUsage(d.Path)
	if o.Ballast <= 0 || err != nil {
		return
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.Default()
	}
	name := d.join("ballast")
	_, missing := d.fs.Stat(name)
	switch {
	case missing == nil && u.AvailBytes < uint64(o.Ballast):
		if err := d.fs.Remove(name); err == nil {
			logger.Error("the disk is full: the ballast was given up to start; free space", "free", u.AvailBytes, "ballast", o.Ballast)
		}
	case missing != nil && u.AvailBytes > 20*uint64(o.Ballast):
		if err := d.layBallast(name, o.Ballast); err != nil {
			logger.Warn("no ballast could be laid: a start on a full disk may fail", "err", err)
			_ = d.fs.Remove(name)
		}
	}
}

func (d *Dir) layBallast(name string, size int64) error {
	f, err := d.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err = f.Preallocate(0, size); err == nil { // takes the blocks without writing them
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d *Dir) openStore(o Options) error {
	o.Store.FS, o.Store.ReadOnly = o.FS, true
	if o.Store.Logger == nil {
		o.Store.Logger = o.Logger
	}
	var err error
	d.KV, err = kv.Open(d.join("kv"), o.Store)
	d.readOnly = err == nil
	return err
}

func (d *Dir) open(version int, o Options) error {
	if err := writeFile(d.fs, d.Path, "tidemark.pid", strconv.Itoa(os.Getpid())+"\n"); err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	if version == 0 {
		if err := d.writeFormat(d.format); err != nil {
			return err
		}
	} else if err := d.raise(version, o); err != nil {
		return err
	}
	o.Store.FS = o.FS
	if o.Store.Logger == nil {
		o.Store.Logger = o.Logger
	}
	var err error
	d.KV, err = kv.Open(d.join("kv"), o.Store)
	return err
}

// raise takes a directory of an older format to the present one, step by step: the marker follows
// each step, so that after a crash the step that was cut off is run again.
func (d *Dir) raise(version int, o Options) error {
	for ; version < d.format; version++ {
		if o.Migrate == nil {
			return fmt.Errorf("open %s: %w: its format is %d and this program writes format %d: start the server, which raises it", d.Path, ErrRefused, version, d.format)
		}
		if err := o.Migrate(d.fs, d.Path, version); err != nil {
			return fmt.Errorf("open %s: %w: %w", d.Path, ErrRefused, err)
		}
		if err := d.writeFormat(version + 1); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) writeFormat(version int) error {
	if err := writeFile(d.fs, d.Path, "FORMAT", "tidemark "+strconv.Itoa(version)+"\n"); err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	return nil
}

// Join is the path of something in the directory.
func (d *Dir) Join(name string) string { return d.join(name) }

func (d *Dir) join(name string) string { return d.fs.PathJoin(d.Path, name) }

// Close closes the store and gives the directory free.
func (d *Dir) Close() error {
	err := d.KV.Close()
	if !d.readOnly {
		_ = d.fs.Remove(d.join("tidemark.pid"))
	}
	return errors.Join(err, d.lock.Close())
}

// FreeSpace is how many bytes are free for this process on the directory's disk, and how many the
// disk has.
func (d *Dir) FreeSpace() (free, total uint64, err error) {
	u, err := d.fs.GetDiskUsage(d.Path)
	return u.AvailBytes, u.TotalBytes, err
}

// holder names the process that has the directory open, as far as it is known.
func (d *Dir) holder() string {
	text, err := readFile(d.fs, d.join("tidemark.pid"))
	if pid, e := strconv.Atoi(strings.TrimSpace(text)); err == nil && e == nil {
		return "process " + strconv.Itoa(pid)
	}
	return "another process"
}

// readFormat returns the version in the marker; 0 when the directory is new.
func (d *Dir) readFormat() (int, error) {
	text, err := readFile(d.fs, d.join("FORMAT"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := d.fs.Stat(d.join("kv")); err == nil {
			return 0, fmt.Errorf("open %s: %w: it holds a store but no FORMAT file: restore the file from a backup of the directory", d.Path, ErrRefused)
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open data directory: %w", err)
	}
	number, ours := strings.CutPrefix(strings.TrimSpace(text), "tidemark ")
	version, err := strconv.Atoi(number)
	switch {
	case !ours || err != nil || version < 1:
		return 0, fmt.Errorf("open %s: %w: its FORMAT file says %.40q, which is none of ours: give another directory with --data", d.Path, ErrRefused, text)
	case version > d.format:
		return 0, fmt.Errorf("open %s: %w: its format is %d and this program knows formats up to %d: start the program that wrote it, or a newer one", d.Path, ErrRefused, version, d.format)
	}
	return version, nil
}

// writeFile writes a small file whole or not at all: aside, synced, renamed, folder synced.
func writeFile(f vfs.FS, dir, name, text string) error {
	aside := f.PathJoin(dir, name+".new")
	w, err := f.Create(aside, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = w.Write([]byte(text))
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := f.Rename(aside, f.PathJoin(dir, name)); err != nil {
		return err
	}
	return syncFolder(f, dir)
}

// syncFolder makes what was created or renamed in a folder durable.
func syncFolder(f vfs.FS, dir string) error {
	folder, err := f.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func readFile(f vfs.FS, path string) (string, error) {
	r, err := f.Open(path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(r, 4096))
	return string(text), errors.Join(err, r.Close())
}

// File is a small file of the directory that is replaced whole.
type File struct {
	fs        vfs.FS
	dir, name string
}

// File is a small file beside the store, such as the log's witness.
func (d *Dir) File(name string) File { return File{d.fs, d.Path, name} }

// maxFile bounds what Load reads.
const maxFile = 64 << 20

// Load reads the file; fs.ErrNotExist when there is none.
func (f File) Load() ([]byte, error) {
	r, err := f.fs.Open(f.fs.PathJoin(f.dir, f.name))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(r, maxFile))
	return content, errors.Join(err, r.Close())
}

// Save replaces the file, whole or not at all, and returns once that is on disk.
func (f File) Save(content []byte) error { return writeFile(f.fs, f.dir, f.name, string(content)) }
