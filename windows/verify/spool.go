package verify

import (
	"os"

	"tidemark/storage/row"
)

// Bounds of a spool.
const (
	// defaultPartBytes is about how large a part is to be, which is looked at as a whole.
	defaultPartBytes = 8 << 20
	maxParts         = 4096
)

// spool holds rows in parts until one part after the other is looked at. Its file has no name, so it
// is gone with the process, whatever ends that.
type spool struct {
	dir    string
	fields []row.Field
	parts  []part
	bytes  int // about those in memory, of at most limit: the others are in the file
	limit  int
	file   *os.File
	end    int64
}

// part is a part of a spool: its newest rows, and where the others lie.
type part struct {
	rows   *row.Batch
	chunks []chunk
}

type chunk struct {
	at   int64
	size int
}

func newSpool(dir string, fields []row.Field, parts, limit int) *spool {
	return &spool{dir: dir, fields: fields, parts: make([]part, parts), limit: limit}
}

// add adds row i of a batch to a part.
func (s *spool) add(to int, b *row.Batch, i int) error {
	p := &s.parts[to]
	if p.rows == nil {
		p.rows = row.NewBatch(s.fields, 0)
	}
	p.rows.AppendFrom(b, i)
	if s.bytes += rowBytes(b, i); s.bytes <= s.limit {
		return nil
	}
	return s.write()
}

// rowBytes is about what a row takes in memory.
func rowBytes(b *row.Batch, i int) int {
	n := 0
	for _, v := range b.Cols {
		if n += 16; v.Type.Class() == row.StringClass {
			n += len(v.Str[i])
		}
	}
	return n
}

// write moves what is in memory to the file.
func (s *spool) write() error {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "verify-")
		if err != nil {
			return err
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
	}
	for k := range s.parts {
		p := &s.parts[k]
		if p.rows == nil {
			continue
		}
		encoded := row.EncodeBatch(nil, s.fields, p.rows)
		if _, err := s.file.WriteAt(encoded, s.end); err != nil {
			return err
		}
		p.chunks = append(p.chunks, chunk{s.end, len(encoded)})
		s.end += int64(len(encoded))
		p.rows = nil
	}
	s.bytes = 0
	return nil
}

// each gives the rows of a part, in the order in which they came.
func (s *spool) each(of int, f func(rows *row.Batch) error) error {
	p := &s.parts[of]
	for _, c := range p.chunks {
		encoded := make([]byte, c.size)
		if _, err := s.file.ReadAt(encoded, c.at); err != nil {
			return err
		}
		_, rows, err := row.DecodeBatch(encoded)
		if err == nil {
			err = f(rows)
		}
		if err != nil {
			return err
		}
	}
	if p.rows == nil {
		return nil
	}
	return f(p.rows)
}

// close lets go of everything.
func (s *spool) close() error {
	if s == nil {
		return nil
	}
	s.parts = nil
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
