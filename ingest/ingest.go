package ingest

import (
	"context"
	"sync"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/group"
)

// Streams are the definitions of streams; *stream.Registry is one.
type Streams interface {
	Get(name string) (*stream.Stream, error)
	Put(ctx context.Context, name string, c stream.Config) (*stream.Stream, bool, error)
	EnsureColumns(ctx context.Context, id stream.ID, want []row.Field) (*stream.Stream, error)
	MarkWide(ctx context.Context, id stream.ID, columns []int) (*stream.Stream, error)
}

var _ Streams = (*stream.Registry)(nil)

// Groups keeps the dead letters of consumer groups; *group.Service is one.
type Groups interface {
	DeadLetters(id stream.ID, name string, after group.Letter, limit int) ([]stream.DeadLetter, error)
	Replay(id stream.ID, which group.Letter, corrected []byte) error
	DropDeadLetter(id stream.ID, which group.Letter) error
}

var _ Groups = (*group.Service)(nil)

// Options are the limits of a request. Zero fields are the defaults.
type Options struct {
	// AutoCreate makes a stream when events come for one that does not exist.
	AutoCreate bool
	// MaxBody and MaxInflated are bytes of a body as it comes (16 MiB) and decompressed (64 MiB).
	MaxBody, MaxInflated int
	// MaxEvent and MaxDepth are bytes (1 MiB) and levels of nesting (64) of one event.
	MaxEvent, MaxDepth int
	// MaxEvents is how many events a request may hold (50,000).
	MaxEvents int
	// Groups keeps the dead letters of consumer groups. Nil: there are none.
	Groups Groups
	// Store keeps the counts of refused events over a restart. Nil: they begin at 0.
	Store *kv.Store
	// Now is the wall clock, against which max_ahead is measured.
	Now func() time.Time
}

// WithDefaults returns a copy with the zero fields filled in.
func (o Options) WithDefaults() Options {
	fill := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	fill(&o.MaxBody, 16<<20)
	fill(&o.MaxInflated, 64<<20)
	fill(&o.MaxEvent, 1<<20)
	fill(&o.MaxDepth, 64)
	fill(&o.MaxEvents, 50_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Ingester takes events into streams. It is safe for concurrent use.
type Ingester struct {
	streams Streams
	log     stream.Log
	opts    Options
	refused refusals

	// create is held while a stream is made, so that two first requests don't both choose its time.
	create sync.Mutex
	mu     struct {
		sync.Mutex
		layouts map[stream.ID]*layout
		// running are the idempotency keys of the requests that are at work.
		running map[[32]byte]struct{}
	}
}

// New returns an ingester.
func New(streams Streams, log stream.Log, o Options) *Ingester {
	in := &Ingester{streams: streams, log: log, opts: o.WithDefaults()}
	in.mu.layouts = map[stream.ID]*layout{}
	in.mu.running = map[[32]byte]struct{}{}
	if err := in.refused.open(in.opts.Store); err != nil {
		in.refused.store = nil // counting goes on, from what was read
	}
	return in
}

// Limits returns the options in force.
func (in *Ingester) Limits() Options { return in.opts }

const (
	// maxLayouts bounds the layouts that are kept; past it they are all made anew.
	maxLayouts = 4096
	// plainFor is how long a layout believes that a field gets no column: a view that held a column
	// fast may be gone.
	plainFor = time.Minute
)

// layoutOf returns the layout of a stream's version.
func (in *Ingester) layoutOf(s *stream.Stream) *layout {
	in.mu.Lock()
	defer in.mu.Unlock()
	l := in.mu.layouts[s.ID]
	now := in.opts.Now()
	if l != nil && l.stream.Schema.Version == s.Schema.Version && l.stream.Name == s.Name && (!l.hasPlain() || now.Sub(l.born) < plainFor) {
		return l
	}
	if len(in.mu.layouts) >= maxLayouts {
		clear(in.mu.layouts)
	}
	next := newLayout(s)
	next.born = now
	if l != nil {
		next.turn.Store(l.turn.Load())
	}
	in.mu.layouts[s.ID] = next
	return next
}
