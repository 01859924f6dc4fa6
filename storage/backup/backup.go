package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tidemark/storage"
	"tidemark/storage/kv"
)

// Manifest says what a backup is.
type Manifest struct {
	// Version of this document: 1.
	Version int       `json:"version"`
	Format  int       `json:"format"` // of the data directory
	MadeAt  time.Time `json:"made_at"`
	// Log tells where the log ends in the backup; the caller's to fill.
	Log   json.RawMessage `json:"log,omitempty"`
	Files []File          `json:"files"`
}

// File is one file of a backup.
type File struct {
	Name   string `json:"name"` // with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const (
	version      = 1
	manifestName = "manifest.json"
	// Folder is where a server makes the copies that it gives out; what a crash left there is removed
	// by the next start.
	Folder = "backups"
)

// fileName are the names of files in a backup.
var fileName = regexp.MustCompile(`^(FORMAT|kv/[A-Za-z0-9][A-Za-z0-9_.-]{0,100})$`)

// Clean removes the copies that a crash left in a data directory.
func Clean(d *storage.Dir) error { return os.RemoveAll(d.Join(Folder)) }

// Write writes a backup of an open data directory as a tar archive, the manifest last. describe
// tells of the log in the copy.
func Write(d *storage.Dir, w io.Writer, now time.Time, describe func(*kv.Store) (any, error)) (err error) {
	root := d.Join(Folder)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	dir, err := os.MkdirTemp(root, "copy-")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	copied := filepath.Join(dir, "kv")
	if err := d.KV.Checkpoint(copied); err != nil {
		return fmt.Errorf("backup: copy the store: %w", err)
	}
	m := Manifest{Version: version, Format: storage.FormatVersion, MadeAt: now.UTC()}
	if m.Log, err = describeCopy(copied, describe); err != nil {
		return fmt.Errorf("backup: read the copy: %w", err)
	}
	out := tar.NewWriter(w)
	format, err := os.ReadFile(d.Join("FORMAT"))
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := m.add(out, "FORMAT", int64(len(format)), strings.NewReader(string(format))); err != nil {
		return err
	}
	entries, err := os.ReadDir(copied)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	for _, e := range entries {
		if e.Name() == "LOCK" {
			continue
		}
		if err := m.addFile(out, "kv/"+e.Name(), filepath.Join(copied, e.Name())); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(text))}); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return out.Close()
}

func describeCopy(dir string, describe func(*kv.Store) (any, error)) (json.RawMessage, error) {
	store, err := kv.Open(dir, kv.Options{ReadOnly: true, CacheBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	what, err := describe(store)
	if err = errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	return json.Marshal(what)
}

func (m *Manifest) addFile(out *tar.Writer, name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return m.add(out, name, info.Size(), f)
}

func (m *Manifest) add(out *tar.Writer, name string, size int64, from io.Reader) error {
	if !fileName.MatchString(name) {
		return fmt.Errorf("backup: the store has a file %q that no backup can hold", name)
	}
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size}); err != nil {
		return fmt.Errorf("backup: %s: %w", name, err)
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(out, sum), from, size); err != nil {
		return fmt.Errorf("backup: %s: %w", name, err)
	}
	m.Files = append(m.Files, File{Name: name, Bytes: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// Read writes an archive into the new folder dir, which gets its name when all is on disk.
func Read(r io.Reader, dir string) (Manifest, error) {
	if err := mustBeNew(dir); err != nil {
		return Manifest{}, err
	}
	return aside(dir, func(tmp string) (Manifest, error) {
		var m Manifest
		in := tar.NewReader(r)
		for {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return m, fmt.Errorf("the archive ends early or is damaged: %w", err)
			}
			if h.Typeflag != tar.TypeReg || h.Name != manifestName && !fileName.MatchString(h.Name) {
				return m, fmt.Errorf("the archive holds %.100q, which is no part of a backup", h.Name)
			}
			if err := writeFile(filepath.Join(tmp, filepath.FromSlash(h.Name)), in); err != nil {
				return m, err
			}
		}
		return Verify(tmp)
	})
}

// Verify reads a backup and compares every file with the manifest.
func Verify(dir string) (Manifest, error) {
	var m Manifest
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return m, fmt.Errorf("%s is no whole backup: %w", dir, err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: the manifest can't be read: %w", dir, err)
	}
	if m.Version != version || m.Format > storage.FormatVersion {
		return m, fmt.Errorf("%s: the backup has version %d of format %d, and this program knows %d of %d: restore it with a newer program",
			dir, m.Version, m.Format, version, storage.FormatVersion)
	}
	names := []string{}
	for _, f := range m.Files {
		if !fileName.MatchString(f.Name) {
			return m, fmt.Errorf("%s: the manifest names %.100q, which is no part of a backup", dir, f.Name)
		}
		names = append(names, f.Name)
		sum, bytes, err := sumOf(filepath.Join(dir, filepath.FromSlash(f.Name)))
		if err != nil {
			return m, fmt.Errorf("%s: %w", dir, err)
		}
		if sum != f.SHA256 || bytes != f.Bytes {
			return m, fmt.Errorf("%s: %s is damaged: its SHA-256 is not that of the manifest: %w", dir, f.Name, kv.ErrDamaged)
		}
	}
	if !slices.Contains(names, "FORMAT") || len(names) < 2 {
		return m, fmt.Errorf("%s: the manifest names no store", dir)
	}
	return m, nil
}

// Restore makes the new data directory dir of a backup. finish is called with its store, before the
// directory gets its name.
func Restore(from, dir string, finish func(*storage.Dir) error) (Manifest, error) {
	if err := mustBeNew(dir); err != nil {
		return Manifest{}, err
	}
	m, err := Verify(from)
	if err != nil {
		return m, err
	}
	return aside(dir, func(tmp string) (Manifest, error) {
		for _, f := range m.Files {
			name := filepath.FromSlash(f.Name)
			r, err := os.Open(filepath.Join(from, name))
			if err != nil {
				return m, err
			}
			if err := errors.Join(writeFile(filepath.Join(tmp, name), r), r.Close()); err != nil {
				return m, err
			}
			// What was read once more is what was verified: the disk may have changed its mind.
			if sum, _, err := sumOf(filepath.Join(tmp, name)); err != nil || sum != f.SHA256 {
				return m, errors.Join(fmt.Errorf("%s was not copied as it is", f.Name), err)
			}
		}
		d, err := storage.Open(tmp, storage.Options{})
		if err != nil {
			return m, err
		}
		return m, errors.Join(finish(d), d.Close())
	})
}

// mustBeNew refuses to write over what is there; an empty folder is nothing.
func mustBeNew(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty: name a folder that does not exist", dir)
	}
	return os.Remove(dir)
}

// aside fills a folder beside dir, which gets dir's name when everything in it is on disk.
func aside(dir string, fill func(tmp string) (Manifest, error)) (m Manifest, err error) {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return m, err
	}
	tmp, err := os.MkdirTemp(parent, filepath.Base(dir)+".part-")
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(tmp)
		}
	}()
	if m, err = fill(tmp); err != nil {
		return m, err
	}
	for _, folder := range []string{filepath.Join(tmp, "kv"), tmp} {
		if err := syncFolder(folder); err != nil {
			return m, err
		}
	}
	if err := os.Rename(tmp, dir); err != nil {
		return m, err
	}
	return m, syncFolder(parent)
}

func writeFile(name string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	w, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return nil
}

func sumOf(name string) (sum string, bytes int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	bytes, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), bytes, err
}

func syncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
