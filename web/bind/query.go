package bind

import (
	"context"
	"io"
	"strings"
	"time"

	"tidemark/storage/catalog"
	"tidemark/web/api"
	"tidemark/web/auth"
	"tidemark/windows/query"
)

// History is what ad-hoc queries need of storage/history; cmd fills it in, so that package web
// does not link DuckDB.
type History struct {
	Parse   query.ParseSQL
	FromAST query.SQLFromAST
	// Gate refuses what is no SELECT over relations that are allowed.
	Gate func(ast []byte, relations func(name string) bool) error
	// Run runs SQL that has passed the gate and holds no window functions; source is the user's text.
	Run func(ctx context.Context, r Run, w io.Writer) error
	// Fresh returns when history holds what was acknowledged before the call. It gets at most a
	// second: a query sees the events of an answered request, or what there is. Nil: it does not wait.
	Fresh func(ctx context.Context) error
}

// freshWithin is how long a query waits for history.
const freshWithin = time.Second

// Run is one query as history takes it.
type Run struct {
	SQL, Source string
	Params      []any
	MaxRows     int
	Timeout     time.Duration
	Format      string
}

// Query runs ad-hoc SQL: what the user wrote passes the gate, becomes plain SQL, and runs.
func Query(h History, cat *catalog.Catalog, relations query.Catalog) func(context.Context, api.Query, io.Writer) error {
	return func(ctx context.Context, q api.Query, w io.Writer) error {
		ast, err := h.Parse(q.SQL)
		if err != nil {
			return err
		}
		who := auth.From(ctx)
		known := func(name string) bool {
			e, there := cat.Lookup(name)
			if !there {
				view, changes := strings.CutSuffix(name, "_changes")
				e, there = cat.Lookup(view)
				there = there && changes && e.Kind != catalog.Stream
			}
			return there && mayRead(who, e) // what a key may not read is not there for it
		}
		if err := h.Gate(ast, known); err != nil {
			return err
		}
		sql, err := query.Batch(h.Parse, h.FromAST, relations, q.SQL)
		if err != nil {
			return err
		}
		params := make([]any, len(q.Params))
		for i, p := range q.Params {
			params[i] = p
		}
		if h.Fresh != nil {
			soon, cancel := context.WithTimeout(ctx, freshWithin)
			_ = h.Fresh(soon) // late is not wrong: the answer is of a moment before
			cancel()
		}
		return h.Run(ctx, Run{SQL: sql, Source: q.SQL, Params: params, MaxRows: q.MaxRows, Timeout: q.Timeout, Format: q.Format}, w)
	}
}

// mayRead reports whether a relation may be named in a query.
func mayRead(who *auth.Principal, e catalog.Entry) bool {
	scope := auth.Read
	if e.Kind == catalog.Alert {
		scope = auth.Alerts
	}
	return who.May(scope, e.Name) == nil
}
