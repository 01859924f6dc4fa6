package bind

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/web/api"
	"tidemark/web/auth"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// olderTime bounds one query for the older part of a range.
const olderTime = 20 * time.Second

// olderAnswer is the part of a range that lies before a view's own rows.
type olderAnswer struct {
	Columns []runtime.Column  `json:"columns"`
	Rows    []json.RawMessage `json:"rows"`
	From    string            `json:"from"`
	To      string            `json:"to"`
	// Oldest is where the view's own rows begin; nil: the view reaches as far back as the range does,
	// or as the events that it was made for.
	Oldest    *string `json:"oldest"`
	Truncated bool    `json:"truncated"`
	// Reason says what the rows are, and what may lack.
	Reason *string `json:"reason"`
}

// Marks tells how much of a stream the log has removed.
type Marks interface {
	Mark(id stream.ID) (stream.Mark, error)
}

// older answers for ranges that reach back further than a view's rows.
type older struct {
	history   History
	views     *runtime.Service
	log       Marks
	relations query.Catalog
}

// OlderRows answers for a range that reaches back further than a view's rows. History knows of the
// older part, in this order: the rows that the view gave out and that have expired since, and for what
// lies before them the view's own SQL over the events that history keeps.
func OlderRows(h History, views *runtime.Service, log Marks) func(context.Context, api.Older) (any, error) {
	return (&older{h, views, log, views.Relations()}).rows
}

func (o *older) rows(ctx context.Context, q api.Older) (any, error) {
	h := held{all: true}
	info, err := o.views.Get(q.View)
	if err != nil {
		return nil, err
	}
	fields, err := o.views.Fields(q.View)
	if err != nil {
		return nil, err
	}
	x := row.FieldIndex(fields, q.X)
	if x < 0 || fields[x].Type.Kind != row.Timestamp {
		return nil, problem.New(400, "bad_parameter", "%s has no TIMESTAMP column %.80q", q.View, q.X).WithHint("x names the column that the range is about, such as window_start")
	}
	if l := auth.From(ctx).Link(); l != nil {
		if h, err = hold(o.views, l, q.View, q.Where, ""); err != nil {
			return nil, err
		}
		if !h.all && !h.shows(q.X) {
			return nil, problem.New(400, "bad_parameter", "the dashboard of the link shows no column %.80q", q.X).WithHint("x names the column that a panel's range is about")
		}
		q.Where = h.where
	}
	if _, err := query.CompileWhere(o.views.Parse, fields, q.Where); err != nil {
		return nil, err
	}
	out := &olderAnswer{Columns: info.Columns, Rows: []json.RawMessage{}, From: instant(q.From), To: instant(q.To)}
	lost, lacks, err := o.lost(info)
	if err != nil || !lost && !lacks {
		return out, cmp.Or(err, h.older(out))
	}
	oldest, some, err := o.oldest(ctx, q.View, fields[x].Name)
	if err != nil {
		return nil, err
	}
	to := q.To
	if some {
		to = min(to, oldest)
	}
	if q.From >= to {
		return out, h.older(out)
	}
	begins := instant(to)
	if some {
		begins = instant(oldest)
	}
	out.Oldest, out.To = &begins, instant(to)
	if o.history.Fresh != nil {
		soon, cancel := context.WithTimeout(ctx, freshWithin)
		_ = o.history.Fresh(soon) // late is not wrong: what is asked for is old
		cancel()
	}
	if err := o.fill(ctx, out, q, part{x: fields[x].Name, from: q.From, to: to}, lacks); err != nil {
		return nil, err
	}
	return out, h.older(out)
}

func instant(micros int64) string { return string(row.FormatTimestamp(nil, micros)) }

// lost says whether rows of the view have expired, lacks whether it was never given events that
// history has: it began later than they, or the log has removed them.
func (o *older) lost(info runtime.Info) (lost, lacks bool, err error) {
	proof, err := o.views.Proof(info.Name)
	if err != nil {
		return false, false, err
	}
	lost = info.AsOf.Oldest != nil
	lacks = proof.StartAt > 0 || proof.EventsFrom != nil
	for _, s := range proof.Sources {
		m, err := o.log.Mark(s.ID)
		if err != nil {
			return false, false, err
		}
		lacks = lacks || m.Sequence > 0
	}
	return lost, lacks, nil
}

// oldest is where the view's own rows begin; false when it has none.
func (o *older) oldest(ctx context.Context, view, x string) (int64, bool, error) {
	a, err := o.views.Rows(ctx, view, runtime.RowsQuery{Where: quote(x) + " IS NOT NULL", Order: quote(x), Limit: 1})
	if err != nil || a.Rows.Len == 0 {
		return 0, false, err
	}
	return a.Rows.Cols[row.FieldIndex(a.Fields, x)].I64[0], true, nil
}

// part is a range of a column of time, in microseconds.
type part struct {
	x        string
	from, to int64
}

func (p part) condition(where string) string {
	text := quote(p.x) + " >= " + timestamp(p.from) + " AND " + quote(p.x) + " < " + timestamp(p.to)
	if strings.TrimSpace(where) != "" {
		text += " AND (\n" + where + "\n)"
	}
	return text
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func timestamp(micros int64) string {
	return "TIMESTAMP '" + time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05.000000") + "'"
}

// fill takes from history what it has, the newest first when there is too much.
func (o *older) fill(ctx context.Context, out *olderAnswer, q api.Older, p part, lacks bool) error {
	given, err := o.ask(ctx, "SELECT * FROM "+quote(q.View)+" WHERE "+p.condition(q.Where)+o.newest(p, q.Limit))
	if err != nil {
		return err
	}
	why := "older part from history: rows that the view gave out before they expired"
	rest := given
	if lacks && len(given.Rows) < q.Limit {
		first, err := o.ask(ctx, "SELECT min("+quote(p.x)+") AS first FROM "+quote(q.View))
		if err != nil {
			return err
		}
		if at, ok := firstOf(first.Rows); ok {
			p.to = min(p.to, at)
		}
		if p.from < p.to {
			info, err := o.views.Get(q.View)
			if err != nil {
				return err
			}
			sql := strings.TrimRight(strings.TrimSpace(info.SQL), ";")
			rest, err = o.ask(ctx, "SELECT * FROM (\n"+sql+"\n) AS batch WHERE "+p.condition(q.Where)+o.newest(p, q.Limit-len(given.Rows)))
			if err != nil {
				return err
			}
			if why = "older part from history: the view's SQL over the events that history keeps; events that came too late are counted in it"; len(given.Rows) > 0 {
				why += ", but for the rows that the view gave out before they expired"
			}
			given.Rows = append(given.Rows, rest.Rows...)
		}
	}
	out.Truncated = given.Truncated || rest.Truncated || len(given.Rows) >= q.Limit
	for i := len(given.Rows) - 1; i >= 0; i-- { // oldest first
		out.Rows = append(out.Rows, given.Rows[i])
	}
	if len(out.Rows) == 0 {
		why = "history has nothing older either"
	}
	out.Reason = &why
	return nil
}

func (o *older) newest(p part, limit int) string {
	return " ORDER BY " + quote(p.x) + " DESC LIMIT " + strconv.Itoa(limit)
}

// jsonAnswer is history's answer.
type jsonAnswer struct {
	Rows      []json.RawMessage `json:"rows"`
	Truncated bool              `json:"truncated"`
}

// firstOf reads the answer to min(x).
func firstOf(rows []json.RawMessage) (int64, bool) {
	var one struct{ First *string }
	if len(rows) != 1 || json.Unmarshal(rows[0], &one) != nil || one.First == nil {
		return 0, false
	}
	at, err := row.ParseTime([]byte(*one.First))
	return at, err == nil
}

// ask runs SQL of our own making; the parts of it that are a reader's were compiled by themselves.
// Whoever may read a view may read what follows from its SQL, so its streams are not asked about.
func (o *older) ask(ctx context.Context, sql string) (jsonAnswer, error) {
	var a jsonAnswer
	plain, err := query.Batch(o.history.Parse, o.history.FromAST, o.relations, sql)
	if err != nil {
		return a, err
	}
	var out bytes.Buffer
	err = o.history.Run(ctx, Run{SQL: plain, Source: sql, MaxRows: maxOlderRows, Timeout: olderTime, Format: "json"}, &out)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("read the answer of history: %w", err)
	}
	return a, nil
}

// maxOlderRows bounds one answer of history.
const maxOlderRows = 100_000
