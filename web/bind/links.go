package bind

import (
	"encoding/json"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/web/auth"
	"tidemark/web/live"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// Narrow adds to a condition on a view what a link is held to.
func Narrow(views *runtime.Service) func(l *auth.Link, view, where string) (string, error) {
	return func(l *auth.Link, view, where string) (string, error) {
		h, err := hold(views, l, view, where, "")
		return h.where, err
	}
}

// Shown gives the columns of a view that a link shows.
func Shown(views *runtime.Service) func(l *auth.Link, view string) ([]string, error) {
	return func(l *auth.Link, view string) ([]string, error) {
		info, err := views.Get(view)
		if err != nil {
			return nil, err
		}
		shown, _ := l.Columns(view, columnsOf(info))
		return shown, nil
	}
}

func columnsOf(info runtime.Info) []auth.Column {
	out := make([]auth.Column, len(info.Columns))
	for i, c := range info.Columns {
		out[i] = auth.Column{Name: c.Name, Type: c.Type, Measure: c.Measure}
	}
	return out
}

// held is what a link leaves of a view.
type held struct {
	link  *auth.Link
	where string
	// shown are the columns that it shows, all: all of them. keyed: one that tells rows apart is hidden.
	shown      []string
	all, keyed bool
}

// hold joins a condition of a reader who came by a link with the link's own. The reader's must be a
// condition by itself: one that closes a bracket of ours is none. It and the order may be about columns
// that the link shows, unless they are those of a panel.
func hold(views *runtime.Service, l *auth.Link, view, where, order string) (held, error) {
	h := held{link: l}
	info, err := views.Get(view)
	if err != nil {
		return h, err
	}
	fields, err := views.Fields(view)
	if err != nil {
		return h, err
	}
	columns := columnsOf(info)
	h.shown, h.all = l.Columns(view, columns)
	var seen []row.Field
	for _, name := range h.shown {
		if c := row.FieldIndex(fields, name); c >= 0 {
			seen = append(seen, fields[c])
		}
	}
	for _, c := range columns {
		h.keyed = h.keyed || !c.Measure && row.FieldIndex(seen, c.Name) < 0
	}
	if _, err := query.CompileWhere(views.Parse, seen, l.Rest(view, where)); err != nil {
		return h, err
	}
	if !l.Orders(view, order) {
		if _, err := query.ParseOrder(views.Parse, seen, order); err != nil {
			return h, err
		}
	}
	own, err := query.CompileWhere(views.Parse, fields, where)
	if err != nil {
		return h, err
	}
	h.where = l.Where(view, columns)
	switch {
	case own == nil:
	case h.where == "":
		h.where = where
	default: // AND would ask the reader's of rows for which the link's is NULL, and what fails there tells of them
		h.where = "CASE WHEN " + h.where + " THEN (\n" + where + "\n) ELSE FALSE END"
	}
	return h, nil
}

// live is what a socket shows.
func (h held) live() *live.Shown {
	if h.all {
		return nil
	}
	out := &live.Shown{Name: h.link.ID + " " + strings.Join(h.shown, "\x00"), Columns: h.shown}
	if h.keyed {
		out.Row = h.link.Row
	}
	return out
}

// rows takes the hidden columns out of an answer. What pages are asked by holds keys, so there are none.
func (h held) rows(a *runtime.RowsAnswer) {
	if h.all {
		return
	}
	rows := &row.Batch{Len: a.Rows.Len}
	var fields []row.Field
	for _, name := range h.shown {
		c := row.FieldIndex(a.Fields, name)
		if c < 0 { // the view was edited meanwhile
			continue
		}
		fields, rows.Cols = append(fields, a.Fields[c]), append(rows.Cols, a.Rows.Cols[c])
	}
	if h.keyed {
		text := row.Type{Kind: row.Varchar}
		v := row.NewVector(text, a.Rows.Len)
		for _, key := range a.Keys {
			v.AppendString(h.link.Row(key))
		}
		fields, rows.Cols = append(fields, row.Field{Name: "_row", Type: text}), append(rows.Cols, v)
	}
	a.Fields, a.Rows, a.Next = fields, rows, ""
}

// noPages refuses to go on behind a page.
func (h held) noPages(cursor string) error {
	if h.all || cursor == "" {
		return nil
	}
	return problem.New(403, "read_only_link", "rows of a link come in one page").WithHint("ask for more at once with limit, or narrow them with where")
}

// older takes the hidden columns out of rows of history, which are JSON.
func (h held) older(a *olderAnswer) error {
	if h.all {
		return nil
	}
	columns := a.Columns[:0:0]
	for _, c := range a.Columns {
		if h.shows(c.Name) {
			columns = append(columns, c)
		}
	}
	a.Columns = columns
	for i, text := range a.Rows {
		out, hidden := []byte{'{'}, []byte(nil)
		err := row.EachMember(text, func(name string, value []byte) error {
			if !h.shows(name) {
				hidden = append(append(hidden, value...), 0)
				return nil
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(row.AppendJSONString(out, name), ':'), value...)
			return nil
		})
		if err != nil {
			return err
		}
		if h.keyed {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = row.AppendJSONString(append(out, `"_row":`...), h.link.Row(hidden))
		}
		a.Rows[i] = json.RawMessage(append(out, '}'))
	}
	return nil
}

func (h held) shows(name string) bool {
	for _, s := range h.shown {
		if strings.EqualFold(s, name) {
			return true
		}
	}
	return false
}
