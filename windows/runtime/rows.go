package runtime

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

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
	var keep func(rowHead) bool
	if q.Final {
		keep = func(h rowHead) bool { return h.status != windows.Provisional }
	}
	snap, err := v.snapshot(keep)
	if err != nil {
		return nil, err
	}
	sel, err := s.where(snap, q.Where)
	if err != nil {
		return nil, err
	}
	order, err := s.order(snap, q.Order)
	if err != nil {
		return nil, err
	}
	after, err := parseCursor(q)
	if err != nil {
		return nil, err
	}
	type place struct {
		key string
		row int32
	}
	places := make([]place, 0, len(sel))
	var key []byte
	for _, i := range sel {
		key = appendSortKey(key[:0], snap, order, int(i))
		if after == "" || string(key) > after {
			places = append(places, place{string(key), i})
		}
	}
	if len(order) > 0 {
		slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.key, b.key) })
	}
	out := &RowsAnswer{Fields: snap.Fields, AsOf: snap.AsOf, Position: snap.Position}
	if len(places) > q.Limit {
		places = places[:q.Limit]
		out.Next = q.cursor(places[q.Limit-1].key)
	}
	rows := make([]int32, len(places))
	for n, p := range places {
		rows[n] = p.row
		out.Keys = append(out.Keys, snap.Keys[p.row])
		out.Status, out.Revision = append(out.Status, snap.Status[p.row]), append(out.Revision, snap.Revision[p.row])
	}
	out.Rows = row.NewBatch(snap.Fields, len(rows))
	for c, col := range out.Rows.Cols {
		col.AppendSelected(snap.Rows.Cols[c], rows)
	}
	out.Rows.Len = len(rows)
	return out, nil
}

// where returns the numbers of the rows for which a condition is true.
func (s *Service) where(snap *Snapshot, text string) ([]int32, error) {
	sel := make([]int32, 0, snap.Rows.Len)
	if strings.TrimSpace(text) == "" {
		for i := range snap.Rows.Len {
			sel = append(sel, int32(i))
		}
		return sel, nil
	}
	cond, err := query.CompileWhere(s.Parse, snap.Fields, text)
	if err != nil {
		return nil, err
	}
	var errs expr.Errors
	v := cond.Eval(snap.Rows, nil, &errs)
	for i := range snap.Rows.Len {
		if errs.Failed(i) {
			return nil, whereFailed(&errs)
		}
		if !v.IsNull(i) && v.I64[i] != 0 {
			sel = append(sel, int32(i))
		}
	}
	return sel, nil
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

func (s *Service) order(snap *Snapshot, text string) ([]query.OrderKey, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	return query.ParseOrder(s.Parse, snap.Fields, text)
}

// appendSortKey adds bytes that sort as the order asks, equal rows by their key: for each column
// where nulls go (one byte), and the value's key, inverted where the order descends.
func appendSortKey(dst []byte, snap *Snapshot, order []query.OrderKey, i int) []byte {
	for _, o := range order {
		v := snap.Rows.Cols[o.Col]
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
	return append(dst, snap.Keys[i]...)
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
	if p.Log != v.svc.log.ID() {
		return problem.New(410, "receipt_gone", "the receipt is of another log: the data directory was restored, or lost events").
			WithHint("post the events again where they are missing, and take the new receipt")
	}
	changed, stop := v.watcher()
	defer stop()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		v.mu.Lock()
		there := v.mu.seen >= p.Sequence || v.mu.progress.Position.Sequence >= p.Sequence
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
