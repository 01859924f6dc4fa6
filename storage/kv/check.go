package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckTables verifies the checksums of all blocks in the tables of a store that is not open, and
// tells report of each table that is damaged. It returns how many tables there are.
func CheckTables(fs vfs.FS, dir string, report func(file string, err error)) (tables int, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		tables++
		if err := checkTable(fs, fs.PathJoin(dir, name)); err != nil {
			report(fs.PathJoin(dir, name), damaged(err))
		}
	}
	return tables, nil
}

func checkTable(fs vfs.FS, path string) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, options(Options{FS: fs}.WithDefaults(), path).MakeReaderOptions())
	if err != nil {
		return err // it has closed the file
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}

// Check reads everything in an open store and verifies the order of its levels.
func (s *Store) Check() error {
	if err := s.db.CheckLevels(&pebble.CheckLevelsStats{}); err != nil {
		return damaged(fmt.Errorf("levels: %w", err))
	}
	return nil
}
