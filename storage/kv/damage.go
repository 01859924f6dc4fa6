package kv

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged says that bytes on disk are not those that were written.
var ErrDamaged = errors.New("the bytes are damaged: run \"tidemark check\" on the data directory")

// damaged gives Pebble's reports of damage the sentinel, and one line of text.
func damaged(err error) error {
	if err == nil || errors.Is(err, ErrDamaged) || !isDamage(err) {
		return err
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("%s: %w", line, ErrDamaged)
}

// isDamage reports whether an error of Pebble is about what lies in its files. A manifest that is
// malformed and a file that is missing carry no mark.
func isDamage(err error) bool {
	if pebble.IsCorruptionError(err) || errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrZeroedChunk) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "malformed") || strings.Contains(text, "corrupt") || strings.Contains(text, "replaying WAL") ||
		strings.Contains(text, "does not exist") || strings.Contains(text, "object size mismatch")
}

// salvage cuts the write-ahead logs before their first damaged record, so that the store opens
// without what follows: for a loss that was accepted. The logs as they were stay beside, as
// NAME.damaged.
func salvage(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") })
	slices.Sort(names)
	cut := false
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		if cut {
			if err := fs.Rename(path, path+".damaged"); err != nil {
				return err
			}
			continue
		}
		good, whole, err := goodPart(fs, path)
		if err != nil {
			return err
		}
		if whole {
			continue
		}
		cut = true
		if err := fs.Rename(path, path+".damaged"); err != nil {
			return err
		}
		if err := copyPart(fs, path+".damaged", path, good); err != nil {
			return err
		}
	}
	return syncFolder(fs, dir)
}

// goodPart is how many bytes of a log hold whole records; whole says that nothing is damaged.
func goodPart(fs vfs.FS, path string) (bytes int64, whole bool, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }()
	var number uint64
	base := path[strings.LastIndexByte(path, '/')+1:]
	if _, err := fmt.Sscanf(base, "%d", &number); err != nil {
		return 0, true, nil // none of the store's logs
	}
	r := recordReader(record.NewReader, f, number)
	for {
		one, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, one)
		}
		switch {
		case err == nil:
			bytes = r.Offset()
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, record.ErrUnexpectedEOF):
			return bytes, true, nil
		default:
			return bytes, false, nil
		}
	}
}

// recordReader calls record.NewReader, whose second argument has a type that has no name for us.
func recordReader[N ~uint64](open func(io.Reader, N) *record.Reader, f io.Reader, number uint64) *record.Reader {
	return open(f, N(number))
}

func copyPart(fs vfs.FS, from, to string, bytes int64) error {
	r, err := fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	w, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.CopyN(w, r, bytes)
	if err == nil {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}
