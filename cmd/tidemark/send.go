package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"tidemark/storage/problem"
)

type sendCmd struct {
	serverFlags
	Stream   string  `arg:"" help:"Name of the stream."`
	File     string  `arg:"" help:"File of events, or - for standard input."`
	Format   string  `help:"ndjson, json or csv; by default from the file's name, else ndjson." enum:"auto,ndjson,json,csv" default:"auto"`
	Batch    int     `help:"Events a request." default:"1000"`
	Parallel int     `help:"Requests in flight. With more than 1 the order of the file is not kept." default:"1"`
	Rate     float64 `help:"Events a second at most; 0: as fast as the server takes them."`
	Retries  int     `help:"How often a request is tried again after a network error, 429 or 5xx." default:"8"`
	Quiet    bool    `help:"No progress bar."`
}

func (*sendCmd) Help() string {
	return `The same command may be repeated for 24 hours: every request carries an Idempotency-Key made of the
stream, its byte range in the file and its bytes, so what the server has already is not taken twice. With
another --batch the requests are others; then only a stream with an id_field recognises its events.

  tidemark send flights flights.ndjson
  cat events.csv | tidemark send visits - --format csv --rate 1000`
}

// maxBatchBytes ends a batch early, so that a request stays under the server's limit.
const maxBatchBytes = 4 << 20

// sendBatch is one request: some events as NDJSON, and where they lie in the file.
type sendBatch struct {
	first    int // number of the first event in the file, from 1
	count    int
	from, to int64 // bytes of the file
	body     []byte
}

// tally counts what became of the events.
type tally struct {
	sync.Mutex
	accepted, duplicates, dead int
	reasons                    map[string]int
	examples                   map[string]string
}

func (c *sendCmd) Run(ctx context.Context) error {
	if c.Batch < 1 || c.Parallel < 1 {
		return &usageError{"--batch and --parallel are at least 1"}
	}
	in, size, err := c.open()
	if err != nil {
		return err
	}
	defer in.Close()

	cl := c.client()
	bar, wait := c.bar(size)
	pace := rate.NewLimiter(rate.Inf, c.Batch)
	if c.Rate > 0 {
		pace = rate.NewLimiter(rate.Limit(c.Rate), c.Batch)
	}
	counts := &tally{reasons: map[string]int{}, examples: map[string]string{}}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(c.Parallel)
	err = c.split(gctx, cl, in, func(b sendBatch) error {
		if err := pace.WaitN(gctx, b.count); err != nil {
			return err
		}
		g.Go(func() error {
			err := c.post(gctx, cl, b, counts)
			bar(b.to)
			return err
		})
		return gctx.Err()
	})
	if sent := g.Wait(); sent != nil {
		err = sent
	}
	wait()
	counts.print(os.Stderr)
	return err
}

func (c *sendCmd) open() (io.ReadCloser, int64, error) {
	if c.File == "-" {
		return io.NopCloser(os.Stdin), 0, nil
	}
	f, err := os.Open(c.File)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (c *sendCmd) bar(size int64) (at func(int64), wait func()) {
	if c.Quiet || size == 0 {
		return func(int64) {}, func() {}
	}
	p := mpb.New(mpb.WithOutput(os.Stderr), mpb.WithWidth(48))
	bar := p.AddBar(size,
		mpb.PrependDecorators(decor.Name(c.Stream+" "), decor.Percentage()),
		mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f "), decor.AverageSpeed(decor.SizeB1024(0), "% .1f")))
	var mu sync.Mutex
	most := int64(0)
	return func(n int64) {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, n)
			bar.SetCurrent(most)
		}, func() {
			bar.Abort(false)
			p.Wait()
		}
}

// split cuts the file into batches. Where one ends depends on the bytes and --batch alone.
func (c *sendCmd) split(ctx context.Context, cl *client, in io.Reader, emit func(sendBatch) error) error {
	format := c.Format
	if format == "auto" {
		switch strings.ToLower(filepath.Ext(c.File)) {
		case ".csv":
			format = "csv"
		case ".json":
			format = "json"
		default:
			format = "ndjson"
		}
	}
	b := sendBatch{first: 1}
	add := func(event []byte, end int64) error {
		b.body = append(append(b.body, event...), '\n')
		b.count++
		b.to = end
		if b.count < c.Batch && len(b.body) < maxBatchBytes {
			return nil
		}
		done := b
		b = sendBatch{first: b.first + b.count, from: end}
		return emit(done)
	}
	var err error
	switch format {
	case "csv":
		err = splitCSV(in, c.columns(ctx, cl), add)
	case "json":
		err = splitJSON(in, add)
	default:
		err = splitLines(in, add)
	}
	if err != nil || b.count == 0 {
		return err
	}
	return emit(b)
}

func splitLines(in io.Reader, add func([]byte, int64) error) error {
	r := bufio.NewReaderSize(in, 1<<20)
	at := int64(0)
	for {
		line, err := r.ReadBytes('\n')
		at += int64(len(line))
		if line := bytes.TrimSpace(line); len(line) > 0 {
			if err := add(line, at); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func splitJSON(in io.Reader, add func([]byte, int64) error) error {
	r := bufio.NewReaderSize(in, 1<<20)
	first, err := r.Peek(1)
	for err == nil && len(bytes.TrimSpace(first)) == 0 {
		_, _ = r.Discard(1)
		first, err = r.Peek(1)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	d := json.NewDecoder(r)
	if len(first) == 1 && first[0] == '[' {
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	for d.More() {
		var event json.RawMessage
		if err := d.Decode(&event); err != nil {
			return fmt.Errorf("the file is not JSON at byte %d: %w", d.InputOffset(), err)
		}
		var line bytes.Buffer
		if err := json.Compact(&line, event); err != nil {
			return err
		}
		if err := add(line.Bytes(), d.InputOffset()); err != nil {
			return err
		}
	}
	return nil
}

// columns asks the server for the types of the stream's columns, so that a CSV cell is sent as
// what it is there; nil when the stream does not exist yet.
func (c *sendCmd) columns(ctx context.Context, cl *client) map[string]string {
	var s struct{ Columns map[string]string }
	if cl.call(ctx, "GET", "/v1/streams/"+url.PathEscape(c.Stream), nil, nil, &s) != nil {
		return nil
	}
	types := make(map[string]string, len(s.Columns))
	for name, t := range s.Columns {
		types[strings.ToLower(name)] = t
	}
	return types
}

func splitCSV(in io.Reader, types map[string]string, add func([]byte, int64) error) error {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("the CSV needs a first line with the names of the columns: %w", err)
	}
	names := make([]string, len(head))
	text := make([]bool, len(head))
	for i, n := range head {
		names[i] = strings.TrimSpace(strings.TrimPrefix(n, "\ufeff"))
		text[i] = types[strings.ToLower(names[i])] == "VARCHAR"
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line := []byte{'{'}
		for i, cell := range record {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(appendJSONString(line, names[i]), ':')
			line = appendCell(line, cell, text[i])
		}
		if err := add(append(line, '}'), r.InputOffset()); err != nil {
			return err
		}
	}
}

// appendCell writes a CSV cell: an empty one is null, a JSON number or boolean is one unless the
// column is text.
func appendCell(dst []byte, cell string, text bool) []byte {
	switch {
	case cell == "":
		return append(dst, "null"...)
	case text:
		return appendJSONString(dst, cell)
	case cell == "true" || cell == "false":
		return append(dst, cell...)
	}
	if json.Valid([]byte(cell)) && strings.ContainsRune("-0123456789", rune(cell[0])) {
		return append(dst, cell...)
	}
	return appendJSONString(dst, cell)
}

func appendJSONString(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte{'\n'})...)
}

// post sends one batch until it is answered for good.
func (c *sendCmd) post(ctx context.Context, cl *client, b sendBatch, counts *tally) error {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%d-%d\x00", c.Stream, b.from, b.to)
	sum.Write(b.body)
	headers := map[string]string{
		"Content-Type":    "application/x-ndjson",
		"Idempotency-Key": "send-" + hex.EncodeToString(sum.Sum(nil)[:16]),
	}
	var answer struct {
		Accepted, Duplicates int
		DeadLetters          int `json:"dead_letters"`
		Errors               []struct {
			Index        int
			Code, Reason string
		}
	}
	replayed := false
	for try := 0; ; try++ {
		resp, err := cl.do(ctx, "POST", "/v1/streams/"+url.PathEscape(c.Stream)+"/events", b.body, headers)
		if err == nil {
			replayed = resp.Header.Get("Idempotent-Replayed") != ""
			err = json.NewDecoder(resp.Body).Decode(&answer)
			resp.Body.Close()
		}
		if err == nil {
			break
		}
		var p *problem.Problem
		known := errors.As(err, &p)
		if ctx.Err() != nil || known && !retryable(p) || try >= c.Retries {
			if known {
				err = explain(p)
			}
			return fmt.Errorf("events %d to %d: %w", b.first, b.first+b.count-1, err)
		}
		if try == 0 && !c.Quiet {
			fmt.Fprintf(os.Stderr, "send: %v; trying again, at most %d times\n", err, c.Retries)
		}
		pause := time.Duration(200<<min(try, 6)) * time.Millisecond
		if known && p.RetryAfter > 0 {
			pause = time.Duration(p.RetryAfter) * time.Second
		}
		pause += time.Duration(rand.Int64N(int64(pause)/2 + 1))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	counts.Lock()
	defer counts.Unlock()
	if replayed { // the answer of an earlier time: nothing was appended now
		answer.Accepted, answer.Duplicates = 0, answer.Accepted+answer.Duplicates
		answer.DeadLetters, answer.Errors = 0, nil
	}
	counts.accepted += answer.Accepted
	counts.duplicates += answer.Duplicates
	counts.dead += answer.DeadLetters
	for _, e := range answer.Errors {
		if e.Code == "duplicate" {
			continue
		}
		if counts.reasons[e.Code]++; counts.reasons[e.Code] == 1 {
			counts.examples[e.Code] = "event " + strconv.Itoa(b.first+e.Index) + ": " + e.Reason
		}
	}
	return nil
}

func retryable(p *problem.Problem) bool {
	switch p.Status {
	case 408, 429, 502, 503, 504:
		return true
	case 409:
		return p.Code == "idempotency_running"
	}
	return false
}

func (t *tally) print(w io.Writer) {
	fmt.Fprintf(w, "accepted %d, duplicates %d, dead letters %d\n", t.accepted, t.duplicates, t.dead)
	for code, n := range t.reasons {
		fmt.Fprintf(w, "  %d × %s, the first: %s\n", n, code, t.examples[code])
	}
}
