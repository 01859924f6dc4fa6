//go:build cgo

package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// The bounds of one query. MaxRows is also what Query.MaxRows is cut to.
const (
	DefaultTimeout = 30 * time.Second
	DefaultMaxRows = 10_000
	MaxRows        = 1_000_000
	// killAfter is how long after its deadline a query's process is ended (I4).
	killAfter = 200 * time.Millisecond
)

// Query is one question.
type Query struct {
	// SQL has passed the gate and holds no window functions.
	SQL string
	// Source is the text that the user wrote, when SQL was made from it: positions in errors are
	// places in Source. Empty: SQL.
	Source string
	// Params are bound to ? and $1, $2, …: numbers, text, bool, nil; json.Number and
	// json.RawMessage keep all digits.
	Params []any
	// MaxRows cuts the answer. Zero means 10,000; at most 1,000,000.
	MaxRows int
	// Timeout includes the time in the queue. Zero means 30 s.
	Timeout time.Duration
	// Format is one of the Format constants; empty means FormatJSON.
	Format Format
}

// Stats say what a query gave.
type Stats struct {
	Rows      int
	Truncated bool
	Took      time.Duration
}

// Query runs q and writes the answer to w; nothing is written before the first rows are there, so
// an error before that can be answered as such. Errors are *problem.Problem: 422 with a position,
// 422 too_large, 504 at the deadline, 429 for a full queue, 503 while history starts again. Any
// other error came after the first byte: the answer is cut short and the connection is to be
// broken off. Cancelling ctx cancels the query.
func (h *History) Query(ctx context.Context, q Query, w io.Writer) (Stats, error) {
	if q.Format == "" {
		q.Format = FormatJSON
	}
	out := &spool{w: w}
	if _, err := newEncoder(q.Format, out); err != nil {
		return Stats{}, err
	}
	stats, err := h.run(ctx, q, out, func() encoder {
		enc, _ := newEncoder(q.Format, out)
		return enc
	})
	if err != nil {
		return stats, err
	}
	return stats, out.flush()
}

// Rows runs q and returns the answer as typed rows; q.Format is not looked at. Types that row has
// not, such as MAP, come as the nearest that it has.
func (h *History) Rows(ctx context.Context, q Query) ([]row.Field, *row.Batch, Stats, error) {
	var c *collector
	stats, err := h.run(ctx, q, &spool{}, func() encoder {
		c = &collector{}
		return c
	})
	if err != nil {
		return nil, nil, stats, err
	}
	return c.fields, c.batch, stats, nil
}

// collector keeps an answer's rows.
type collector struct {
	fields []row.Field
	batch  *row.Batch
}

func (c *collector) begin(_ []wireField, fields []row.Field) error {
	c.fields, c.batch = fields, row.NewBatch(fields, 0)
	return nil
}

func (c *collector) rows(_ []row.Field, b *row.Batch) error {
	c.batch.AppendAll(b)
	return nil
}

func (c *collector) end(bool) error { return nil }

// run is Query for any encoder; open makes one for each try.
func (h *History) run(ctx context.Context, q Query, out *spool, open func() encoder) (Stats, error) {
	began := time.Now()
	if q.Timeout <= 0 {
		q.Timeout = DefaultTimeout
	}
	if q.MaxRows <= 0 {
		q.MaxRows = DefaultMaxRows
	}
	q.MaxRows = min(q.MaxRows, MaxRows)
	req := queryRequest{SQL: q.SQL, MaxRows: q.MaxRows, Params: make([]json.RawMessage, len(q.Params))}
	for i, v := range q.Params {
		b, err := json.Marshal(v)
		if err != nil {
			return Stats{}, problem.New(422, "bad_param", "parameter %d can't be sent: %v", i+1, err).
				WithHint("parameters are numbers, text, true, false and null")
		}
		req.Params[i] = b
	}
	var err error
	if req.SQL, err = h.withTexts(q.SQL, q.Params); err != nil {
		return Stats{}, err
	}
	deadline := began.Add(q.Timeout)
	release, err := h.admit(ctx, deadline)
	if err != nil {
		return Stats{}, err
	}
	defer release()
	h.counts.queries.Add(1)
	for try := 1; ; try++ {
		stats, err := h.tryQuery(ctx, req, deadline, try, open(), out)
		stats.Took = time.Since(began)
		switch {
		case err == nil:
			return stats, nil
		case errors.Is(err, errAgain) && !out.started:
			out.buffer.Reset()
			continue
		}
		var we *wireError
		if errors.As(err, &we) {
			source := q.Source
			if source == "" {
				source = q.SQL
			}
			we.Position = translate(req.SQL, we.Position, source)
			if we.Status == 499 && ctx.Err() != nil {
				return stats, ctx.Err()
			}
			return stats, we.problem()
		}
		return stats, err
	}
}

// withTexts puts the parameters that are text into the query's tree, as literals. Bound, they
// would be VARCHAR and not compare with a TIMESTAMP; a literal takes the type of its place. DuckDB
// writes the tree as SQL, so no text gets out of its quotes.
func (h *History) withTexts(sql string, params []any) (string, error) {
	texts := map[string]string{}
	for i, v := range params {
		var s string
		b, err := json.Marshal(v)
		if err != nil || json.Unmarshal(b, &s) != nil || len(b) == 0 || b[0] != '"' {
			continue
		}
		if strings.IndexByte(s, 0) >= 0 {
			return "", badParameter(i, "holds a NUL character").problem()
		}
		texts[strconv.Itoa(i+1)] = s
	}
	if len(texts) == 0 {
		return sql, nil
	}
	ast, err := h.parse(sql)
	if err != nil {
		return "", err
	}
	dec := json.NewDecoder(bytes.NewReader(ast))
	dec.UseNumber()
	var root any
	if err := dec.Decode(&root); err != nil {
		return "", err
	}
	setTexts(root, texts)
	if ast, err = json.Marshal(root); err != nil {
		return "", err
	}
	return h.SQLFromAST(ast)
}

// setTexts turns the parameters of a tree that have a text into constants.
func setTexts(v any, texts map[string]string) {
	switch v := v.(type) {
	case []any:
		for _, c := range v {
			setTexts(c, texts)
		}
	case node:
		if text(v, "class") == "PARAMETER" {
			if s, ok := texts[text(v, "identifier")]; ok {
				delete(v, "identifier")
				v["class"], v["type"] = "CONSTANT", "VALUE_CONSTANT"
				v["value"] = node{"type": node{"id": "VARCHAR", "type_info": nil}, "is_null": false, "value": s}
			}
			return
		}
		for _, c := range v {
			setTexts(c, texts)
		}
	}
}

// errAgain says that the child ended under a query for a reason that is not the query's.
var errAgain = errors.New("history's process ended under the query")

// admit waits for a slot. It is given back by calling release.
func (h *History) admit(ctx context.Context, deadline time.Time) (release func(), err error) {
	release = func() { <-h.slots }
	select {
	case h.slots <- struct{}{}:
		return release, nil
	default:
	}
	if h.waiting.Add(1) > int64(h.opts.Queue) {
		h.waiting.Add(-1)
		h.counts.refused.Add(1)
		p := problem.New(429, "too_many_queries", "%d queries run and %d wait: more are not taken now", h.opts.Queries, h.opts.Queue).
			WithHint("try again in a moment")
		p.RetryAfter = 1
		return nil, p
	}
	defer h.waiting.Add(-1)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		return release, nil
	case <-timer.C:
		return nil, problem.New(504, "deadline", "the query's time passed while it waited for its turn").
			WithHint("try again later, or give it more time with \"timeout\"")
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-h.ended:
		return nil, unavailable(errClosed)
	}
}

func unavailable(cause error) *problem.Problem {
	p := problem.New(503, "history_unavailable", "history is starting again").WithHint("try again in a few seconds")
	p.RetryAfter = 2
	p.Cause = cause
	return p
}

// tryQuery sends a query to the child that serves and encodes its answer.
func (h *History) tryQuery(ctx context.Context, req queryRequest, deadline time.Time, try int, enc encoder, out *spool) (Stats, error) {
	until, stop := context.WithDeadline(ctx, deadline)
	p, err := h.process(until)
	stop()
	if err != nil {
		if ctx.Err() != nil {
			return Stats{}, ctx.Err()
		}
		return Stats{}, unavailable(err)
	}
	left := time.Until(deadline)
	if left <= 0 {
		return Stats{}, &wireError{Status: 504, Code: "deadline", Detail: "the query did not end in its time", Hint: deadlineHint, Position: -1}
	}
	req.ID, req.TimeoutMicros = h.lastID.Add(1), left.Microseconds()
	body, err := json.Marshal(req)
	if err != nil {
		return Stats{}, err
	}
	// The request outlives ctx: a query that was cancelled keeps its slot until DuckDB has let
	// go of it, and is asked to with /cancel.
	hctx, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	hr, err := http.NewRequestWithContext(hctx, "POST", "http://history/query", bytes.NewReader(body))
	if err != nil {
		return Stats{}, err
	}
	answered := make(chan struct{})
	var overdue atomic.Bool
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		h.watch(ctx, p, req.ID, deadline, answered, &overdue)
	}()
	resp, err := p.client.Do(hr)
	close(answered)
	<-watched
	if err != nil {
		return Stats{}, h.broken(ctx, p, overdue.Load(), try)
	}
	defer resp.Body.Close()
	p.served.Store(true)
	if resp.StatusCode != http.StatusOK {
		err := readError(resp)
		var we *wireError
		if !errors.As(err, &we) {
			return Stats{}, h.broken(ctx, p, overdue.Load(), try)
		}
		return Stats{}, err
	}
	stats, err := copyAnswer(ctx, bufio.NewReaderSize(resp.Body, 64<<10), enc)
	var cut *cutError
	if errors.As(err, &cut) {
		if out.started {
			return stats, fmt.Errorf("history's process ended in the middle of an answer: %w", cut.error)
		}
		return stats, h.broken(ctx, p, false, try)
	}
	return stats, err
}

// watch asks for the end of a query that was cancelled and ends the process of one that is past
// its deadline. It returns when the query has answered.
func (h *History) watch(ctx context.Context, p *process, id uint64, deadline time.Time, answered <-chan struct{}, overdue *atomic.Bool) {
	timer := time.NewTimer(time.Until(deadline) + killAfter)
	defer timer.Stop()
	cancelled := ctx.Done()
	again := make(<-chan time.Time)
	for {
		select {
		case <-answered:
			return
		case <-cancelled:
		case <-again: // the cancel may have overtaken its query
		case <-timer.C:
			overdue.Store(true)
			h.counts.killed.Add(1)
			h.log.Warn("a query outlived its deadline; its process is ended and started again")
			p.kill()
			<-answered
			return
		}
		cancelled, again = nil, time.After(killAfter/4)
		body, _ := json.Marshal(queryRequest{ID: id})
		polite, stop := context.WithTimeout(context.WithoutCancel(ctx), killAfter)
		_ = p.post(polite, "/cancel", body, &struct{}{})
		stop()
	}
}

// broken says what it means that the child went away under a query.
func (h *History) broken(ctx context.Context, p *process, overdue bool, try int) error {
	if overdue {
		return &wireError{Status: 504, Code: "deadline", Detail: "the query did not end in its time and was broken off", Hint: deadlineHint, Position: -1}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	h.gone(ctx, p)
	select {
	case <-h.ended:
		return unavailable(errClosed)
	default:
	}
	switch {
	case try == 1:
		return errAgain
	case p.killed.Load():
		return unavailable(errAgain)
	}
	// Nobody ended the process, twice: it is most likely this query that took its memory.
	return tooLarge("its process ended twice")
}

// cutError is an answer that ends too early.
type cutError struct{ error }

// copyAnswer reads frames and encodes what they hold.
func copyAnswer(ctx context.Context, r io.Reader, enc encoder) (Stats, error) {
	var stats Stats
	var fields []row.Field
	for {
		kind, payload, err := readFrame(r)
		if err != nil {
			return stats, &cutError{err}
		}
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		switch kind {
		case frameHead:
			var head queryHead
			if err := json.Unmarshal(payload, &head); err != nil {
				return stats, err
			}
			for i, c := range head.Columns {
				t, err := row.ParseType(head.Wire[i])
				if err != nil {
					return stats, err
				}
				fields = append(fields, row.Field{Name: c.Name, Type: t})
			}
			if err := enc.begin(head.Columns, fields); err != nil {
				return stats, err
			}
		case frameBatch:
			_, b, err := row.DecodeBatch(payload)
			if err != nil {
				return stats, err
			}
			if err := enc.rows(fields, b); err != nil {
				return stats, err
			}
			stats.Rows += b.Len
		case frameEnd:
			var end queryEnd
			if err := json.Unmarshal(payload, &end); err != nil {
				return stats, err
			}
			stats.Truncated = end.Truncated
			return stats, enc.end(end.Truncated)
		case frameError:
			var we wireError
			if err := json.Unmarshal(payload, &we); err != nil {
				return stats, err
			}
			return stats, &we
		default:
			return stats, fmt.Errorf("a frame of kind %q", kind)
		}
	}
}

// spoolBytes is how much of an answer is held back, so that a query can be repeated when its
// process ends for another query's sake.
const spoolBytes = 4 << 20

// spool holds an answer's first bytes back and passes the rest through.
type spool struct {
	w       io.Writer
	buffer  bytes.Buffer
	started bool
}

func (s *spool) Write(p []byte) (int, error) {
	if s.started {
		return s.w.Write(p)
	}
	s.buffer.Write(p)
	if s.buffer.Len() > spoolBytes {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (s *spool) flush() error {
	if s.started {
		return nil
	}
	s.started = true
	_, err := s.w.Write(s.buffer.Bytes())
	s.buffer = bytes.Buffer{}
	return err
}
