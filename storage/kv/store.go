package kv

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNotFound says that a key has no value.
var ErrNotFound = errors.New("key not found")

// Options are how a store is opened.
type Options struct {
	// FS is the file system; nil is the real one.
	FS vfs.FS
	// CacheBytes bounds the cache of blocks. Zero means 64 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one memtable. Zero means 32 MiB.
	MemTableBytes int64
	// ReadOnly opens the store without a write to disk; there must be one.
	ReadOnly bool
	// AcceptLoss opens a store whose write-ahead log is damaged without what follows the damage.
	AcceptLoss bool
	// Logger takes what the store reports; nil is slog's default.
	Logger *slog.Logger
	// Fatal is called with one sentence when the store can't go on; it must not return. Nil
	// writes the sentence to standard error and ends the process with code 1.
	Fatal func(sentence string)
}

// WithDefaults returns a copy with the zero fields filled.
func (o Options) WithDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 32 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Fatal == nil {
		o.Fatal = endProcess
	}
	return o
}

// Store is an open store. It is safe for concurrent use.
type Store struct {
	db *pebble.DB
}

// Open opens the store in dir, creating it when there is none.
func Open(dir string, o Options) (*Store, error) {
	o = o.WithDefaults()
	if !o.ReadOnly {
		if err := o.FS.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		if err := syncFolder(o.FS, o.FS.PathDir(dir)); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	format := pebble.FormatNewest
	found, err := pebble.Peek(dir, o.FS)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, damaged(err))
	}
	if found.Exists {
		format = found.FormatMajorVersion // keeps I3
	}
	po := options(o, dir)
	po.FormatMajorVersion = format
	po.ReadOnly = o.ReadOnly
	db, err := pebble.Open(dir, po)
	if err != nil && o.AcceptLoss && isDamage(err) {
		if err := salvage(o.FS, dir); err != nil {
			return nil, fmt.Errorf("open store %s without what is damaged: %w", dir, err)
		}
		db, err = pebble.Open(dir, po)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, damaged(err))
	}
	return &Store{db: db}, nil
}

// options are Pebble's options.
func options(o Options, dir string) *pebble.Options {
	po := &pebble.Options{
		FS:                          o.FS,
		CacheSize:                   o.CacheBytes,
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		WALBytesPerSync:             1 << 20,
		BytesPerSync:                1 << 20,
		Logger:                      logger{log: o.Logger, dir: dir, fatal: o.Fatal},
	}
	// By default damage ends the process. Whoever reads the damaged part gets the error; the rest goes on.
	po.EventListener = &pebble.EventListener{DataCorruption: func(i pebble.DataCorruptionInfo) {
		o.Logger.Error("a file of the store is damaged: what lies in it can't be read; run \"tidemark check\" on the data directory", "file", i.Path, "err", i.Details)
	}}
	po.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	po.TargetFileSizes[0] = 16 << 20
	for i := range po.Levels {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // most looked-up ids are not there
	}
	return po
}

// syncFolder makes the entry of a new folder durable.
func syncFolder(fs vfs.FS, dir string) error {
	folder, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Close ends the store after everything that is committed is on disk. All iterators, snapshots
// and batches must have been closed.
func (s *Store) Close() error { return s.db.Close() }

// Get returns a copy of the value of key, or ErrNotFound.
func (s *Store) Get(key []byte) ([]byte, error) { return get(s.db, key) }

func get(r pebble.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, damaged(err)
	}
	out := append(make([]byte, 0, len(v)), v...)
	return out, closer.Close()
}

// Iter returns an iterator over the keys in [lower, upper). Nil bounds are open.
func (s *Store) Iter(lower, upper []byte) *Iter { return newIter(s.db, lower, upper) }

// Snapshot returns the store as it is now, for reads that belong together.
func (s *Store) Snapshot() *Snapshot { return &Snapshot{snap: s.db.NewSnapshot()} }

// Checkpoint writes a copy of the store, of hard links as far as possible, into the new folder dir.
func (s *Store) Checkpoint(dir string) error {
	return s.db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// Metrics are the store's own figures.
type Metrics struct {
	DiskBytes       uint64 // all files
	WALBytes        uint64 // live log files
	MemTableBytes   uint64
	CacheBytes      int64
	Compactions     int64
	CompactionDebt  uint64 // bytes that compactions still have to move
	ReadAmp         int    // files that a read may have to look into
	WALFsyncCount   uint64
	BytesWrittenWAL uint64
}

// Metrics returns the store's own figures.
func (s *Store) Metrics() Metrics {
	m := s.db.Metrics()
	return Metrics{
		DiskBytes: m.DiskSpaceUsage(), WALBytes: m.WAL.Size, MemTableBytes: m.MemTable.Size,
		CacheBytes: m.BlockCache.Size, Compactions: m.Compact.Count, CompactionDebt: m.Compact.EstimatedDebt,
		ReadAmp: m.ReadAmp(), WALFsyncCount: fsyncs(m), BytesWrittenWAL: m.WAL.BytesWritten,
	}
}

// Snapshot is the store at one instant. Close it soon: it keeps old values alive.
type Snapshot struct{ snap *pebble.Snapshot }

// Get returns a copy of the value of key, or ErrNotFound.
func (s *Snapshot) Get(key []byte) ([]byte, error) { return get(s.snap, key) }

// Iter returns an iterator over the keys in [lower, upper).
func (s *Snapshot) Iter(lower, upper []byte) *Iter { return newIter(s.snap, lower, upper) }

// Close releases the snapshot.
func (s *Snapshot) Close() error { return s.snap.Close() }
