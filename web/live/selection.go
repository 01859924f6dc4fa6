package live

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// selection is what a subscription wants of a view: rows for which a condition holds, whose time
// lies in a range, and of these the first n in an order.
//
// Condition and a fixed range look at one row at a time, so they need no memory. A limit and a
// moving range need to know all rows that could be shown; such a selection keeps them.
type selection struct {
	fields  []row.Field
	compile func() (func(*row.Batch) ([]int32, error), error) // nil: all rows pass
	where   func(*row.Batch) ([]int32, error)                 // nil until it is needed
	// time is the column of the range, −1 when there is none. A bound lies relative to now when
	// its now is true.
	time     int
	from, to bound
	order    []OrderKey
	limit    int
	max      int
	now      func() time.Time
	shows    *Shown // nil: all
	columns  []int  // those that it shows

	keeps  bool // rows are kept
	moving bool // the range moves with the clock
	rows   map[string]*selected
	sorted []*selected // by order, then key
	shown  []*selected
	// borrowed: rows, sorted and gone are another one's, and must not be changed.
	borrowed bool
	// gone holds with what status and revision rows were withdrawn since the last settle.
	gone map[string]change
}

// bound is an end of a range: micros, or micros before now.
type bound struct {
	micros int64
	now    bool
}

func (b bound) at(now time.Time) int64 {
	if b.now {
		return now.UnixMicro() - b.micros
	}
	return b.micros
}

// selected is one row that is kept.
type selected struct {
	key, rank string
	json      []byte
	status    windows.Status
	revision  int32
	time      int64
}

func newSelection(h *Hub, o op, fields []row.Field) (*selection, error) {
	s := &selection{
		fields: fields, time: -1, from: bound{micros: math.MinInt64}, to: bound{micros: math.MaxInt64}, limit: o.Limit,
		max: h.opts.MaxSelected, now: h.opts.Now, shows: o.shown,
	}
	if o.shown != nil {
		for _, name := range o.shown.Columns {
			if c := row.FieldIndex(fields, name); c >= 0 {
				s.columns = append(s.columns, c)
			}
		}
	}
	if o.Limit < 0 {
		return nil, problem.New(400, "bad_limit", "limit is %d", o.Limit).WithHint("leave it out, or give a number above 0")
	}
	var err error
	if o.Where != "" {
		s.compile = func() (func(*row.Batch) ([]int32, error), error) { return h.opts.Selector.Where(fields, o.Where) }
		if s.where, err = s.compile(); err != nil {
			return nil, err
		}
		if s.where == nil { // blank
			s.compile = nil
		}
	}
	if o.Order != "" {
		if s.order, err = h.opts.Selector.Order(fields, o.Order); err != nil {
			return nil, err
		}
	}
	if err := s.parseRange(o.Range); err != nil {
		return nil, err
	}
	s.moving = s.from.now || s.to.now
	s.keeps = s.moving || s.limit > 0
	s.rows, s.gone = map[string]*selected{}, map[string]change{}
	return s, nil
}

// parseRange reads "range": ["from","to"], or "now-6h" for everything since then.
func (s *selection) parseRange(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	bad := func() error {
		return problem.New(400, "bad_range", "range can't be read: %.100s", raw).
			WithHint(`write ["2024-01-01T00:00:00Z","2024-01-02T00:00:00Z"] or "now-6h"`)
	}
	var ends []string
	var one string
	switch {
	case json.Unmarshal(raw, &one) == nil:
		ends = []string{one, ""}
	case json.Unmarshal(raw, &ends) != nil || len(ends) != 2:
		return bad()
	}
	for i, b := range []*bound{&s.from, &s.to} {
		if ends[i] == "" {
			continue
		}
		var ok bool
		if *b, ok = parseBound(ends[i]); !ok {
			return bad()
		}
	}
	for _, name := range []string{"window_start", "window_end"} {
		if i := row.FieldIndex(s.fields, name); i >= 0 && s.fields[i].Type.Kind == row.Timestamp {
			s.time = i
			return nil
		}
	}
	s.time = slices.IndexFunc(s.fields, func(f row.Field) bool { return f.Type.Kind == row.Timestamp })
	if s.time < 0 {
		return problem.New(400, "bad_range", "the view has no TIMESTAMP column that a range could be about").
			WithHint("leave range out, or select window_start in the view")
	}
	return nil
}

func parseBound(text string) (bound, bool) {
	rest, relative := strings.CutPrefix(text, "now")
	if !relative {
		micros, err := row.ParseTime([]byte(text))
		return bound{micros: micros}, err == nil
	}
	if rest == "" {
		return bound{now: true}, true
	}
	span, ok := strings.CutPrefix(rest, "-")
	if !ok {
		return bound{}, false
	}
	d, err := stream.ParseDuration(span)
	return bound{micros: time.Duration(d).Microseconds(), now: true}, err == nil && d >= 0
}

// passing are the numbers of the rows that the condition and a fixed range take.
func (s *selection) passing(b *row.Batch) ([]int32, error) {
	var rows []int32
	if s.compile != nil {
		var err error
		if s.where == nil {
			if s.where, err = s.compile(); err != nil {
				return nil, err
			}
		}
		if rows, err = s.where(b); err != nil {
			return nil, err
		}
	} else {
		rows = make([]int32, b.Len)
		for i := range rows {
			rows[i] = int32(i)
		}
	}
	if s.time < 0 {
		return rows, nil
	}
	kept := rows[:0:0]
	at := b.Cols[s.time]
	for _, i := range rows {
		if at.IsNull(int(i)) {
			continue
		}
		t := at.I64[i]
		if (s.from.now || t >= s.from.micros) && (s.to.now || t < s.to.micros) {
			kept = append(kept, i)
		}
	}
	return kept, nil
}

// fill takes a snapshot in and returns the rows to show, in order.
func (s *selection) fill(snap *Snapshot) ([]*selected, error) {
	passing, err := s.passing(snap.Rows)
	if err != nil {
		return nil, err
	}
	rows := make([]*selected, 0, len(passing))
	for _, i := range passing {
		text := s.text(snap.Rows, int(i), snap.Keys[i])
		rows = append(rows, s.pick(snap.Rows, int(i), string(snap.Keys[i]), text, snap.Status[i], 0))
	}
	if s.keeps || len(s.order) > 0 {
		slices.SortFunc(rows, compareSelected)
	}
	if !s.keeps {
		return rows, nil
	}
	s.sorted = rows
	for _, r := range rows {
		s.rows[r.key] = r
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.shown = s.window()
	return s.shown, nil
}

// text is row i as the client sees it.
func (s *selection) text(b *row.Batch, i int, key []byte) []byte {
	if s.shows == nil {
		return row.AppendJSONRow(nil, s.fields, b, i)
	}
	out := []byte{'{'}
	for n, c := range s.columns {
		if n > 0 {
			out = append(out, ',')
		}
		out = append(row.AppendJSONString(out, s.fields[c].Name), ':')
		out = row.AppendJSON(out, b.Cols[c], i)
	}
	if s.shows.Row != nil {
		if len(s.columns) > 0 {
			out = append(out, ',')
		}
		out = row.AppendJSONString(append(out, `"_row":`...), s.shows.Row(key))
	}
	return append(out, '}')
}

// encoded is a changed row as the client sees it; what most see is encoded once for all.
func (s *selection) encoded(e *sharedEpoch, i int) []byte {
	if s.shows == nil {
		return e.row(s.fields, i)
	}
	return s.text(e.Changes.Rows, i, e.Changes.Keys[i])
}

// pick makes a kept row of row i.
func (s *selection) pick(b *row.Batch, i int, key string, text []byte, status windows.Status, revision int32) *selected {
	r := &selected{key: key, json: text, status: status, revision: revision}
	var rank []byte
	for _, k := range s.order {
		rank = appendRank(rank, b.Cols[k.Column], i, k)
	}
	r.rank = string(rank)
	if s.time >= 0 && !b.Cols[s.time].IsNull(i) {
		r.time = b.Cols[s.time].I64[i]
	}
	return r
}

// appendRank appends a key that sorts as the order asks: keys are self-delimiting, so inverting
// their bytes turns the order round; a byte before them puts nulls where they belong.
func appendRank(dst []byte, v *row.Vector, i int, k OrderKey) []byte {
	if v.IsNull(i) == k.NullsLast {
		dst = append(dst, 1)
	} else {
		dst = append(dst, 0)
	}
	from := len(dst)
	dst = row.AppendKey(dst, v, i)
	if k.Desc {
		for j := from; j < len(dst); j++ {
			dst[j] = ^dst[j]
		}
	}
	return dst
}

func compareSelected(a, b *selected) int {
	if c := strings.Compare(a.rank, b.rank); c != 0 {
		return c
	}
	return strings.Compare(a.key, b.key)
}

func (s *selection) check() error {
	if len(s.rows) <= s.max {
		return nil
	}
	return problem.New(413, "selection_too_large", "more than %d rows would have to be kept to know which ones to show", s.max).
		WithHint("narrow it with where or range, or make a view that ranks: QUALIFY row_number() OVER (…) <= n")
}

// take takes an epoch's changes. It returns those that the selection lets through; a selection
// that keeps rows returns none, settle tells then what to send.
func (s *selection) take(e *sharedEpoch) ([]change, error) {
	s.own()
	c := e.Changes
	passing, err := s.passing(c.Rows)
	if err != nil {
		return nil, err
	}
	var out []change
	for _, i := range passing {
		key := string(c.Keys[i])
		switch {
		case !s.keeps:
			out = append(out, change{c.Ops[i], key, s.encoded(e, int(i)), c.Status[i], c.Revision[i]})
		case c.Ops[i] > 0:
			s.insert(s.pick(c.Rows, int(i), key, s.encoded(e, int(i)), c.Status[i], c.Revision[i]))
		default:
			s.remove(key)
			s.gone[key] = change{status: c.Status[i], revision: c.Revision[i]}
		}
	}
	return out, s.check()
}

func (s *selection) insert(r *selected) {
	s.remove(r.key)
	s.rows[r.key] = r
	at, _ := slices.BinarySearchFunc(s.sorted, r, compareSelected)
	s.sorted = slices.Insert(s.sorted, at, r)
}

func (s *selection) remove(key string) {
	r := s.rows[key]
	if r == nil {
		return
	}
	delete(s.rows, key)
	at, found := slices.BinarySearchFunc(s.sorted, r, compareSelected)
	if found {
		s.sorted = slices.Delete(s.sorted, at, at+1)
	}
}

// window are the rows to show now. Rows behind a moving range are forgotten: it never moves back.
func (s *selection) window() []*selected {
	now := s.now()
	if s.moving {
		from := s.from.at(now)
		s.sorted = slices.DeleteFunc(s.sorted, func(r *selected) bool {
			if r.time < from {
				delete(s.rows, r.key)
				return true
			}
			return false
		})
	}
	to := s.to.at(now)
	var out []*selected
	for _, r := range s.sorted {
		if s.limit > 0 && len(out) == s.limit {
			break
		}
		if s.time < 0 || r.time < to {
			out = append(out, r)
		}
	}
	return out
}

// settle returns what the client must be told so that it shows what the selection now holds: out
// when no rows are kept, else the difference to what it was told before.
func (s *selection) settle(out []change) []change {
	if !s.keeps {
		return out
	}
	if s.moving {
		s.own()
	}
	next := s.window()
	changes := difference(s.shown, next, s.gone)
	s.shown = next
	if len(s.gone) > 0 {
		clear(s.gone)
	}
	return changes
}

// difference is what turns the rows of one showing into those of another. gone knows with what
// status and revision rows were withdrawn; one that only left the selection has none.
func difference(shown, next []*selected, gone map[string]change) []change {
	has := make(map[string]*selected, len(next))
	for _, r := range next {
		has[r.key] = r
	}
	had := make(map[string]*selected, len(shown))
	var changes []change
	for _, r := range shown {
		had[r.key] = r
		if n := has[r.key]; n == nil || !n.same(r) {
			left := gone[r.key]
			changes = append(changes, change{-1, r.key, r.json, left.status, left.revision})
			if n != nil {
				changes = append(changes, change{+1, n.key, n.json, n.status, n.revision})
			}
		}
	}
	for _, r := range next {
		if had[r.key] == nil {
			changes = append(changes, change{+1, r.key, r.json, r.status, r.revision})
		}
	}
	return changes
}

// clone returns a selection that holds the same and is another goroutine's.
func (s *selection) clone() *selection {
	c := s.borrow()
	c.own()
	return c
}

// borrow returns a selection that holds the same as one that is never changed again. It is cheap:
// what it holds is copied, and its condition compiled, when the first epoch is taken.
func (s *selection) borrow() *selection {
	c := *s
	c.where, c.borrowed = nil, true
	return &c
}

// own makes what a selection holds its own.
func (s *selection) own() {
	if s.borrowed {
		s.rows, s.gone, s.sorted = maps.Clone(s.rows), maps.Clone(s.gone), slices.Clone(s.sorted)
		s.borrowed = false
	}
}

func (r *selected) same(o *selected) bool {
	return r == o || r.status == o.status && r.revision == o.revision && bytes.Equal(r.json, o.json)
}
