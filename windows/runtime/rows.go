package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/expr"
	"tidemark/windows/query"
)

// Bounds of the rows of one answer.
const (
	DefaultRows = 1_000
	MaxRows     = 1_000_000
)

// RowsQuery says which rows of a view are asked for.
type RowsQuery struct {
	// Where is a condition over the view's columns, Order a list such as "revenue DESC, country".
	Where, Order string
	// Limit is the most rows to give; 0: DefaultRows.
	Limit int
	// Final leaves out provisional rows.
	Final bool
	// After is a receipt or position: the answer is to hold what came up to it. Wait is how long to
	// wait for that.
	After string
	Wait  time.Duration
	// Cursor is the Next of the page before, with the same Where and Order.
	Cursor string
}

// RowsAnswer is a page of a view's rows.
type RowsAnswer struct {
	Fields   []row.Field
	Rows     *row.Batch
	Keys     [][]byte
	Status   []windows.Status
	Revision []int32
	AsOf     AsOf
	Position stream.Position
	// Next asks for the page behind this one; empty at the end.
	Next string
}

// MarshalJSON writes the answer of GET /v1/views/{name}/rows.
func (a *RowsAnswer) MarshalJSON() ([]byte, error) {
	out := append([]byte{}, `{"columns":[`...)
	for i, f := range a.Fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, mustJSON(storedField{f.Name, f.Type.String()})...)
	}
	out = append(out, `],"rows":[`...)
	for i := range a.Rows.Len {
		if i > 0 {
			out = append(out, ',')
		}
		out = row.AppendJSONRow(out, a.Fields, a.Rows, i)
	}
	out = append(append(out, `],"as_of":`...), mustJSON(a.AsOf)...)
	out = append(append(append(out, `,"position":"`...), a.Position.String()...), `","statuses":[`...)
	for i, s := range a.Status {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), s.String()...), '"')
	}
	out = append(out, `],"next":`...)
	if a.Next == "" {
		return append(out, "null}"...), nil
	}
	return append(append(out, mustJSON(a.Next)...), '}'), nil
}

// Rows answers with rows of a view or alert as of its last committed epoch. Without an order they
// come in that of their keys.
func (s *Service) Rows(ctx context.Context, name string, q RowsQuery) (*RowsAnswer, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	switch {
	case q.Limit == 0:
		q.Limit = DefaultRows
	case q.Limit < 0 || q.Limit > MaxRows:
		return nil, problem.New(400, "bad_limit", "limit is %d; it is 1 to %d", q.Limit, MaxRows).
			WithHint("ask for fewer rows, and for the next page with ?cursor=")
	}
	if q.After != "" {
		if err := v.waitFor(ctx, q.After, q.Wait); err != nil {
			return nil, err
		}
	}
	after, err := parseCursor(q)
	if err != nil {
		return nil, err
	}
	snap, h, p, err := v.open()
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	fields, err := loadFields(h.Fields)
	if err != nil {
		return nil, err
	}
	sel, err := s.selection(fields, q, after)
	if err != nil {
		return nil, err
	}
	prefix := rowsKey(v.id, h.Version)
	from := prefix
	if after != "" && len(sel.order) == 0 {
		from = append(append(bytes.Clone(prefix), after...), 0)
	}
	it := snap.Iter(from, kv.PrefixEnd(prefix))
	for ok := it.First(); ok && err == nil && !sel.full; {
		for ; ok && err == nil && sel.chunk.Len < chunkRows; ok = it.Next() {
			err = sel.add(it.Key()[len(prefix):], it.Value())
		}
		if err == nil {
			err = sel.choose()
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return nil, err
	}
	out, err := sel.page()
	if err != nil {
		return nil, err
	}
	out.AsOf, out.Position = p.AsOf, v.outside(p.Position)
	return out, nil
}

// chunkRows is how many rows are judged at a time.
const chunkRows = 2048

// selection chooses the rows of one page. Of all rows it keeps the few that may be on it, as they
// are stored, so that its memory goes with the limit and not with the view.
type selection struct {
	fields []row.Field
	where  *expr.Expr
	order  []query.OrderKey
	query  RowsQuery
	after  string
	// full: without an order, no row behind can be on the page.
	full bool

	chunk  *row.Batch
	stored []storedRow // of the chunk

	best []storedRow
}

// storedRow is a row with its key and what it is sorted by.
type storedRow struct {
	sort, key string
	value     []byte
}

func (s *Service) selection(fields []row.Field, q RowsQuery, after string) (*selection, error) {
	sel := &selection{fields: fields, query: q, after: after, chunk: row.NewBatch(fields, chunkRows)}
	var err error
	if strings.TrimSpace(q.Where) != "" {
		if sel.where, err = query.CompileWhere(s.Parse, fields, q.Where); err != nil {
			return nil, err
		}
	}
	if strings.TrimSpace(q.Order) != "" {
		if sel.order, err = query.ParseOrder(s.Parse, fields, q.Order); err != nil {
			return nil, err
		}
	}
	return sel, nil
}

// add takes a stored row into the chunk.
func (sel *selection) add(key, value []byte) error {
	head, values, err := splitRow(value)
	if err != nil || sel.query.Final && head.status == windows.Provisional {
		return err
	}
	sel.stored = append(sel.stored, storedRow{key: string(key), value: bytes.Clone(value)})
	return appendStored(sel.chunk, values)
}

// choose takes the rows of the chunk that may be on the page, and empties it.
func (sel *selection) choose() error {
	var errs expr.Errors
	var hit *row.Vector
	if sel.where != nil && sel.chunk.Len > 0 {
		hit = sel.where.Eval(sel.chunk, nil, &errs)
	}
	var key []byte
	for i := range sel.chunk.Len {
		if hit != nil {
			if errs.Failed(i) {
				return whereFailed(&errs)
			}
			if hit.IsNull(i) || hit.I64[i] == 0 {
				continue
			}
		}
		r := sel.stored[i]
		key = appendSortKey(key[:0], sel.chunk, sel.order, i)
		r.sort = string(append(key, r.key...))
		if sel.after == "" || r.sort > sel.after {
			sel.best = append(sel.best, r)
		}
	}
	sel.chunk.Reset()
	sel.stored = sel.stored[:0]
	if len(sel.order) == 0 {
		sel.full = len(sel.best) > sel.query.Limit
	} else if len(sel.best) > 2*sel.query.Limit+chunkRows {
		sel.rank()
		sel.best = sel.best[:sel.query.Limit+1]
	}
	return nil
}

func (sel *selection) rank() {
	slices.SortFunc(sel.best, func(a, b storedRow) int { return cmp.Compare(a.sort, b.sort) })
}

// page makes the answer of the rows that were chosen.
func (sel *selection) page() (*RowsAnswer, error) {
	sel.rank()
	out := &RowsAnswer{Fields: sel.fields}
	if limit := sel.query.Limit; len(sel.best) > limit {
		sel.best = sel.best[:limit]
		out.Next = sel.query.cursor(sel.best[limit-1].sort)
	}
	out.Rows = row.NewBatch(sel.fields, len(sel.best))
	for _, r := range sel.best {
		head, values, err := splitRow(r.value)
		if err != nil {
			return nil, err
		}
		out.Keys = append(out.Keys, []byte(r.key))
		out.Status, out.Revision = append(out.Status, head.status), append(out.Revision, head.revision)
		if err := appendStored(out.Rows, values); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func whereFailed(errs *expr.Errors) error {
	p := problem.New(422, "bad_where", "the condition fails for a row of the view").
		WithHint("make it true or false for every row, for example with try_cast")
	first := true
	errs.Each(func(f expr.Failure) {
		if first {
			p.Detail, first = "the condition fails for a row of the view: "+f.Message, false
		}
	})
	return p
}

// appendSortKey adds bytes that sort as the order asks: for each column where nulls go (one byte),
// and the value's key, inverted where the order descends. The row's own key follows, so that equal
// rows have one order too.
func appendSortKey(dst []byte, b *row.Batch, order []query.OrderKey, i int) []byte {
	for _, o := range order {
		v := b.Cols[o.Col]
		null := v.IsNull(i)
		if null == o.NullsLast {
			dst = append(dst, 1)
		} else {
			dst = append(dst, 0)
		}
		if null {
			continue
		}
		from := len(dst)
		dst = row.AppendKey(dst, v, i)
		if o.Desc {
			for n := from; n < len(dst); n++ {
				dst[n] = ^dst[n]
			}
		}
	}
	return dst
}

// A cursor is the sort key of the last row given, with what it was made for.
type cursor struct {
	Where string `json:"w,omitempty"`
	Order string `json:"o,omitempty"`
	Final bool   `json:"f,omitempty"`
	Key   []byte `json:"k"`
}

func (q RowsQuery) cursor(key string) string {
	return base64.RawURLEncoding.EncodeToString(mustJSON(cursor{q.Where, q.Order, q.Final, []byte(key)}))
}

func parseCursor(q RowsQuery) (string, error) {
	if q.Cursor == "" {
		return "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	var c cursor
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || len(c.Key) == 0 || c.Where != q.Where || c.Order != q.Order || c.Final != q.Final {
		return "", problem.New(400, "bad_cursor", "the cursor is not one of this question").
			WithHint("begin without a cursor, and keep where, order and final the same from page to page")
	}
	return string(c.Key), nil
}

// waitFor returns when the rows hold everything up to a receipt, or says why they do not.
func (v *view) waitFor(ctx context.Context, after string, wait time.Duration) error {
	p, err := stream.ParsePosition(after)
	if err != nil {
		return problem.New(400, "bad_receipt", "after is no receipt and no position").
			WithHint(`send the "receipt" of an answer to posted events, as it is`)
	}
	if !v.svc.ofTheLog(p) {
		return problem.New(410, "receipt_gone", "the receipt is of another log, or of a view that was deleted: the data directory was restored, or lost events").
			WithHint("post the events again where they are missing, and take the new receipt")
	}
	changed, stop := v.watcher()
	defer stop()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	v.ask() // to look where the log ends: what came may be in streams that it does not read
	for {
		v.mu.Lock()
		there := v.mu.seen >= p.Sequence || v.mu.progress.Position.Log == v.svc.log.ID() && v.mu.progress.Position.Sequence >= p.Sequence
		gone, state, why := v.mu.gone, v.stateLocked(), v.mu.failed
		v.mu.Unlock()
		switch {
		case gone:
			return unknownView(v.name)
		case there:
			return nil
		case state == Failed:
			return problem.New(409, "view_failed", "the view %s has failed and will not take these events in: %s", v.name, why).
				WithHint("mend the cause, then POST /v1/views/%s/resume", v.name)
		case state == Paused:
			return problem.New(409, "view_paused", "the view %s is paused and will not take these events in", v.name).
				WithHint("POST /v1/views/%s/resume", v.name)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-timer.C:
			return problem.New(504, "not_there_yet", "the view %s has not taken these events in within %s", v.name, wait).
				WithHint("ask again with the same receipt, or with a longer wait")
		}
	}
}
