//go:build cgo

package history

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"tidemark/storage/row"
)

// ScratchTable is a table that exists for one request only. It hides a relation of the same name.
type ScratchTable struct {
	Name   string
	Fields []row.Field
}

// Scratch is one query over rows that history does not hold.
type Scratch struct {
	Tables []ScratchTable
	// Load gives the rows to put, by the table's number, and returns the query. It is called once.
	Load func(put func(table int, rows *row.Batch) error) (sql string, err error)
}

// Scratch loads rows into tables of their own in history's process, runs a query over them and
// gives its rows to each, in order. The tables are gone when it returns. Their size is bounded by
// history's memory, as that of a query: 422 too_large. There is no limit of rows, and no deadline
// but ctx's. A request that history's process did not survive is not repeated: 503. Load has
// returned when it returns.
func (h *History) Scratch(ctx context.Context, s Scratch, each func(fields []row.Field, rows *row.Batch) error) (Stats, error) {
	began := time.Now()
	p, err := h.process(ctx)
	if err != nil {
		return Stats{}, unavailable(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	body, pipe := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://history/scratch", body)
	if err != nil {
		return Stats{}, err
	}
	ended := make(chan error, 1)
	go func() {
		err := s.send(pipe)
		_ = pipe.CloseWithError(err) // nil: the end
		ended <- err
	}()
	loaded := sync.OnceValue(func() error { return <-ended })
	resp, err := p.client.Do(req)
	if err != nil {
		_ = body.CloseWithError(errAgain) // wakes a Load that still writes
		if load := loaded(); load != nil && !errors.Is(load, errAgain) && !errors.Is(load, io.ErrClosedPipe) {
			return Stats{}, load
		}
		if ctx.Err() != nil {
			return Stats{}, ctx.Err()
		}
		h.gone(ctx, p)
		return Stats{}, unavailable(err)
	}
	defer func() {
		resp.Body.Close()
		_ = body.CloseWithError(io.ErrClosedPipe)
		_ = loaded() // what Load reads may be closed when this returns
	}()
	p.served.Store(true)
	if resp.StatusCode != http.StatusOK {
		err := readError(resp)
		var we *wireError
		if errors.As(err, &we) {
			return Stats{}, we.problem()
		}
		return Stats{}, err
	}
	stats, err := copyAnswer(ctx, bufio.NewReaderSize(resp.Body, 256<<10), &forward{each: each})
	stats.Took = time.Since(began)
	var cut *cutError
	var we *wireError
	switch {
	case err == nil:
		return stats, loaded()
	case ctx.Err() != nil:
		return stats, ctx.Err()
	case errors.As(err, &cut):
		return stats, unavailable(err)
	case errors.As(err, &we):
		return stats, we.problem()
	}
	return stats, err
}

// send writes the request's body.
func (s Scratch) send(w io.Writer) error {
	out := bufio.NewWriterSize(w, 256<<10)
	head := scratchHead{Tables: make([]scratchTable, len(s.Tables))}
	for i, t := range s.Tables {
		head.Tables[i] = scratchTable{Name: t.Name, Fields: make([]wireField, len(t.Fields))}
		for k, f := range t.Fields {
			head.Tables[i].Fields[k] = wireField{f.Name, columnType(f.Type)}
		}
	}
	if err := writeJSONFrame(out, frameHead, head); err != nil {
		return err
	}
	var buf []byte
	sql, err := s.Load(func(table int, rows *row.Batch) error {
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(table))
		buf = row.EncodeBatch(buf, s.Tables[table].Fields, rows)
		return writeFrame(out, frameTable, buf)
	})
	if err != nil {
		return err
	}
	if err := writeFrame(out, frameQuery, []byte(sql)); err != nil {
		return err
	}
	return out.Flush()
}

// forward gives rows on as they come.
type forward struct {
	each func(fields []row.Field, rows *row.Batch) error
}

func (f *forward) begin([]wireField, []row.Field) error { return nil }

func (f *forward) rows(fields []row.Field, b *row.Batch) error { return f.each(fields, b) }

func (f *forward) end(bool) error { return nil }
