package live

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// Kind says how a relation is read.
type Kind uint8

// The kinds of relations. LateOf is the stream of late events of a view.
const (
	Stream Kind = iota + 1
	View
	Alert
	LateOf
)

// Relation is what a name stands for.
type Relation struct {
	Kind Kind
	Name string
	// ID is its internal number, so that one that is made anew is another. Of a stream it is the
	// stream's.
	ID uint64
}

// Relations finds what a name stands for; its error is a *problem.Problem, such as 404
// unknown_relation.
type Relations func(name string) (Relation, error)

// Log is what live reads of the log.
type Log interface {
	ID() stream.LogID
	End() stream.Sequence
	Read(ids []stream.ID, after stream.Sequence) stream.Reader
	Slice(id stream.ID, p stream.Partition, from stream.Offset, max int) ([]*stream.Batch, error)
	OffsetAt(id stream.ID, p stream.Partition, at stream.Micros) (stream.Offset, error)
	Watch(ids ...stream.ID) (<-chan struct{}, func())
	Stats(id stream.ID) (stream.Stats, error)
	// Mark tells how much of a stream retention has removed.
	Mark(id stream.ID) (stream.Mark, error)
}

// Snapshot is a view's committed rows at a position.
type Snapshot struct {
	Fields   []row.Field
	Rows     *row.Batch
	Keys     [][]byte
	Status   []windows.Status
	Position stream.Position
	AsOf     json.RawMessage
}

// Epoch is what one commit changed in a view. Changes is nil when it changed no row.
type Epoch struct {
	To      stream.Position
	AsOf    json.RawMessage
	Changes *windows.Changes
}

// Head is where a view stands: everything up to Position is in its change stream.
type Head struct {
	Fields   []row.Field
	Position stream.Position
	AsOf     json.RawMessage
}

// Changes gives out a view's epochs in order. It belongs to one goroutine.
type Changes interface {
	// Next returns the next committed epoch, or ok false when there is none now. Once the epochs
	// behind the reader are gone the error is a *Gap.
	Next() (e *Epoch, ok bool, err error)
	// Position is where the reader stands: all up to it was given out.
	Position() stream.Position
}

// Gap says that a position is gone.
type Gap struct {
	// Oldest is the first position that can still be read from.
	Oldest stream.Position
}

func (g *Gap) Error() string { return "the position is no longer there" }

// Views is what live reads of views. Errors are problems.
type Views interface {
	Snapshot(name string) (*Snapshot, error)
	Head(name string) (Head, error)
	// Changes reads behind a position, or from the oldest epoch on when after is nil.
	Changes(name string, after *stream.Position) (Changes, error)
	Watch(name string) (<-chan struct{}, func())
	// Late reads the late records of a view with numbers above after, oldest first, as events of
	// readers.
	Late(view string, after int64, limit int) ([]Entry, error)
	// LateEnds are the oldest number that is kept and the newest; 0, 0 while there is none.
	LateEnds(view string) (oldest, newest int64, err error)
}

// Entry is one alert, or one late event, as JSON.
type Entry struct {
	// Number is its place in its log, rising.
	Number int64
	// Time is when it was made, in microseconds.
	Time int64
	JSON []byte
}

// Alerts is what live reads of the alerts' logs. Errors are problems.
type Alerts interface {
	// Log returns alerts with numbers above after, oldest first, at most limit.
	Log(name string, after int64, limit int) ([]Entry, error)
	// Ends returns the number of the oldest alert that is kept and of the newest; 0, 0 when there
	// was none yet.
	Ends(name string) (oldest, newest int64, err error)
	// At is the number of the last alert at or before a position in the log, such as that of an
	// answer of /rows; ok false when the position is gone.
	At(name string, p stream.Position) (number int64, ok bool, err error)
	Watch(name string) (<-chan struct{}, func())
}

// Groups keeps how far a group has acknowledged. A stream's or alert's groups go with it.
type Groups interface {
	Acked(relation Relation, group string) (position string, ok bool, err error)
	// Ack returns once the position is durable.
	Ack(ctx context.Context, relation Relation, group, position string) error
}

// Selector compiles what a subscription selects of a view. Errors are problems.
type Selector interface {
	// Where compiles a boolean expression; the function belongs to one goroutine and gives the
	// numbers of the rows for which it is true. Blank text gives nil.
	Where(fields []row.Field, text string) (func(*row.Batch) ([]int32, error), error)
	Order(fields []row.Field, text string) ([]OrderKey, error)
}

// OrderKey is one key of an order.
type OrderKey struct {
	Column    int
	Desc      bool
	NullsLast bool
}

// Client is who has opened a connection, as far as a hub must know.
type Client struct {
	// Key is what connections are counted by; empty: not counted.
	Key string
	// May returns a problem when the client has no right to a relation. Nil: it has to all.
	May func(Relation) error
	// Narrow adds to a condition on a view what the client is held to, and says which columns it sees; a
	// condition or an order by others is a problem. Nil: it sees all rows, and all of them.
	Narrow func(r Relation, where, order string) (string, *Shown, error)
	// Looks: the client joins no group, for that would take what the group's own reader waits for.
	Looks bool
	// Revoked is closed when the client's rights end; nil: they don't.
	Revoked <-chan struct{}
}

// Shown is what a client sees of the rows of a view. Nil: all of them.
type Shown struct {
	// Name tells one from others: what is equal under one name is read and encoded once.
	Name string
	// Columns are those that it sees.
	Columns []string
	// Row, unless it is nil, makes of a row's key what stands in the column _row: rows that differ in
	// hidden columns alone are told apart by it.
	Row func(key []byte) string
}

// may judges a relation.
func (c Client) may(r Relation) error {
	if c.May == nil {
		return nil
	}
	return c.May(r)
}

// Options say what a hub reads and how patient it is.
type Options struct {
	Relations Relations
	Log       Log
	Views     Views
	Alerts    Alerts
	Groups    Groups
	Selector  Selector
	// Client says who opens a connection; nil: everybody may read everything.
	Client func(*fiber.Ctx) Client
	Logger *slog.Logger
	// Now is the clock of moving ranges and lag; nil means time.Now.
	Now func() time.Time

	// StallAfter is how long a client may take nothing; 0 means 30 s.
	StallAfter time.Duration
	// PingEvery is the time between two pings; a client that answers none of three is gone. 0
	// means 15 s.
	PingEvery time.Duration
	// ProgressEvery is the longest silence of a subscription; 0 means 5 s.
	ProgressEvery time.Duration
	// FoldEvery is the least time between two frames of changes of a folded view; 0 means 100 ms.
	FoldEvery time.Duration
	// MaxInFlight bounds what a group has not acknowledged, unless it asks for less; 0 means 256.
	MaxInFlight int
	// MaxSubscriptions bounds the subscriptions of one socket; 0 means 256.
	MaxSubscriptions int
	// MaxSockets bounds the sockets and event streams at once; 0 means 10,000. More get 503.
	MaxSockets int
	// MaxSocketsPerKey bounds those of one key; 0 means 1,000. More get 429.
	MaxSocketsPerKey int
	// MaxSelected bounds the rows that one subscription with a limit or a moving range keeps; 0
	// means 200,000.
	MaxSelected int
	// MaxMessage bounds a client's message in bytes; 0 means 64 KiB.
	MaxMessage int64
}

// WithDefaults returns a copy with the zero fields filled.
func (o Options) WithDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Client == nil {
		o.Client = func(*fiber.Ctx) Client { return Client{} }
	}
	fill(&o.StallAfter, 30*time.Second)
	fill(&o.PingEvery, 15*time.Second)
	fill(&o.ProgressEvery, 5*time.Second)
	fill(&o.FoldEvery, 100*time.Millisecond)
	fill(&o.MaxInFlight, 256)
	fill(&o.MaxSubscriptions, 256)
	fill(&o.MaxSockets, 10_000)
	fill(&o.MaxSocketsPerKey, 1000)
	fill(&o.MaxSelected, 200_000)
	fill(&o.MaxMessage, 64<<10)
	return o
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
