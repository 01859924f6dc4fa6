package api

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/stream"
)

// Streams keeps the definitions of streams; *stream.Registry is one.
type Streams interface {
	Put(ctx context.Context, name string, c stream.Config) (*stream.Stream, bool, error)
	Get(name string) (*stream.Stream, error)
	List() []*stream.Stream
	Delete(ctx context.Context, name string) error
}

// Log is what the endpoints read of the log.
type Log interface {
	Stats(id stream.ID) (stream.Stats, error)
	Slice(id stream.ID, p stream.Partition, from stream.Offset, max int) ([]*stream.Batch, error)
	OffsetAt(id stream.ID, p stream.Partition, at stream.Micros) (stream.Offset, error)
}

// Views keeps the views. Answers are what encoding/json makes the answer's body of.
type Views interface {
	Put(ctx context.Context, name string, body []byte, dryRun bool) (answer any, created bool, err error)
	Get(name string) (any, error)
	// List returns the views by name.
	List() ([]Named, error)
	Delete(ctx context.Context, name string) error
	Pause(ctx context.Context, name string) (any, error)
	Resume(ctx context.Context, name string) (any, error)
	// Rebuild makes the view again from the log beside what it serves.
	Rebuild(ctx context.Context, name string) (any, error)
	Rows(ctx context.Context, name string, q RowsQuery) (any, error)
	Watermark(name string) (any, error)
	// Errors lists row errors behind a cursor; next is empty at the end.
	Errors(name, cursor string, limit int) (items any, next string, err error)
	// Late reads the late events of a view from an offset on, as events of readers; one below the
	// first is a problem 410. next is the offset behind them.
	Late(view string, from int64, limit int) (events []json.RawMessage, next int64, err error)
	// LateEnds are the first offset of a view's late events that is kept and the next one.
	LateEnds(view string) (first, next int64, err error)
}

// Named is one thing of a list.
type Named struct {
	Name  string
	Value any
}

// RowsQuery says which rows of a view are asked for.
type RowsQuery struct {
	Where, Order string
	Limit        int
	Final        bool
	// After is a receipt: the answer waits, up to Wait, until the view has taken it in.
	After  string
	Wait   time.Duration
	Cursor string
}

// Alerts keeps the alert rules and their logs.
type Alerts interface {
	Put(ctx context.Context, name string, body []byte, dryRun bool) (answer any, created bool, err error)
	Get(name string) (any, error)
	List() ([]Named, error)
	Delete(ctx context.Context, name string) error
	// Log returns alerts behind a position, or from the oldest on, and the position of the last one.
	Log(name, after string, limit int) (alerts []json.RawMessage, position string, more bool, err error)
}

// Documents keeps dashboards; *catalog.Catalog is one.
type Documents interface {
	Put(kind catalog.Kind, name string, doc []byte, id uint64) (catalog.Entry, error)
	Get(kind catalog.Kind, name string) (catalog.Entry, bool)
	List(kind catalog.Kind) []catalog.Entry
	Delete(kind catalog.Kind, name string) (bool, error)
}

// Query is one ad-hoc query.
type Query struct {
	SQL     string
	Params  []json.RawMessage
	Timeout time.Duration
	MaxRows int
	// Format is "json", "ndjson", "csv", "arrow" or "parquet".
	Format string
}

// Deps are what the endpoints call. Where a field is nil, its routes are not there.
type Deps struct {
	Streams    Streams
	Log        Log
	Views      Views
	Alerts     Alerts
	Dashboards Documents
	// Links makes read-only addresses of dashboards.
	Links  Links
	Groups Groups
	// Refused is how many events for a stream were refused with their requests. Nil: none is known.
	Refused func(id stream.ID) int64
	// Exists says whether there is a relation, for warnings. Nil: none are given.
	Exists func(relation string) bool
	// Query runs ad-hoc SQL and writes the answer; it writes nothing before an error.
	Query func(ctx context.Context, q Query, w io.Writer) error
	// Verify compares a view with its batch answer. done is false when it goes on behind the answer.
	Verify func(ctx context.Context, name string, wait time.Duration) (answer any, done bool, err error)
	// Fate is what became of the event at a place, FateByID of the one with an id.
	Fate     func(ctx context.Context, stream string, partition int32, offset int64) (any, error)
	FateByID func(ctx context.Context, stream, id string) (any, error)
	// Explain is how a view runs and what it keeps.
	Explain func(ctx context.Context, view string) (any, error)
	// RowHistory is the changes of the rows with a key, a JSON object, behind a cursor.
	RowHistory func(ctx context.Context, view, key, cursor string, limit int) (any, error)
	// RowEvents is the events that the rows with a key are made of.
	RowEvents func(ctx context.Context, view, key string, limit int) (any, error)
	// Older is the part of a range that a view's own rows do not reach back to.
	Older func(ctx context.Context, q Older) (any, error)
	// Verified is how the last comparison of a view ended; done is false while one runs.
	Verified func(name string) (answer any, done bool, err error)
	// Stopping is closed when the server stops; waits end then.
	Stopping <-chan struct{}
}

type endpoints struct {
	Deps
	// notes is held by who changes annotations, boards by who changes a dashboard.
	notes, boards sync.Mutex
}

// Mount adds the routes.
func Mount(r fiber.Router, d Deps) {
	e := &endpoints{Deps: d}
	r.Get("/openapi.json", e.openAPI)
	v1 := r.Group("/v1")
	if d.Streams != nil {
		v1.Put("/streams/:name", e.putStream)
		v1.Get("/streams/:name", e.getStream)
		v1.Get("/streams", e.listStreams)
		v1.Delete("/streams/:name", e.deleteStream)
		v1.Get("/streams/:name/partitions/:partition/events", e.readEvents)
	}
	if d.Groups != nil {
		e.mountGroups(v1)
	}
	if d.Views != nil {
		v1.Put("/views/:name", e.putView)
		v1.Get("/views/:name", e.getView)
		v1.Get("/views", e.listViews)
		v1.Delete("/views/:name", e.deleteView)
		v1.Get("/views/:name/rows", e.viewRows)
		v1.Get("/views/:name/errors", e.viewErrors)
		v1.Get("/views/:name/watermark", e.viewWatermark)
		v1.Post("/views/:name/pause", e.pauseView)
		v1.Post("/views/:name/resume", e.resumeView)
		v1.Post("/views/:name/rebuild", e.rebuildView)
	}
	if d.Verify != nil {
		v1.Post("/views/:name/verify", e.verifyView)
	}
	if d.Fate != nil {
		v1.Get("/streams/:name/events/:partition/:offset/fate", e.fateAt)
		v1.Get("/streams/:name/fate", e.fateByID)
	}
	if d.Explain != nil {
		v1.Get("/views/:name/explain", e.explainView)
	}
	if d.RowHistory != nil {
		v1.Get("/views/:name/rows/history", e.rowHistory)
	}
	if d.RowEvents != nil {
		v1.Get("/views/:name/rows/events", e.rowEvents)
	}
	if d.Older != nil {
		v1.Get("/views/:name/rows/older", e.olderRows)
	}
	if d.Verified != nil {
		v1.Get("/views/:name/verify", e.verifiedView)
	}
	if d.Alerts != nil {
		v1.Put("/alerts/:name", e.putAlert)
		v1.Get("/alerts/:name", e.getAlert)
		v1.Get("/alerts", e.listAlerts)
		v1.Delete("/alerts/:name", e.deleteAlert)
		v1.Get("/alerts/:name/log", e.alertLog)
	}
	if d.Dashboards != nil {
		v1.Put("/dashboards/:name", e.putDashboard)
		v1.Get("/dashboards/:name", e.getDashboard)
		v1.Get("/dashboards", e.listDashboards)
		v1.Delete("/dashboards/:name", e.deleteDashboard)
		v1.Post("/dashboards/:name/annotations", e.annotate)
		v1.Get("/dashboards/:name/annotations", e.listAnnotations)
		v1.Delete("/dashboards/:name/annotations/:id", e.deleteAnnotation)
	}
	if d.Dashboards != nil && d.Links != nil {
		v1.Post("/dashboards/:name/links", e.makeLink)
		v1.Get("/dashboards/:name/links", e.listLinks)
		v1.Delete("/dashboards/:name/links/:id", e.deleteLink)
	}
	if d.Query != nil {
		v1.Post("/query", e.query)
	}
}
