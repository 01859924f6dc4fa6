package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows/query"
)

// Options are what a service needs.
type Options struct {
	KV       *kv.Store
	Log      stream.Log
	Registry *stream.Registry
	Catalog  *catalog.Catalog
	// Parse is DuckDB's parser.
	Parse query.ParseSQL
	// Sinks take the events of all streams and the changes of all views.
	Sinks []Sink
	// Logger is for operators; nil is slog's default.
	Logger *slog.Logger
	// Now is the clock of the pace and of emit times; nil is time.Now.
	Now func() time.Time
	// Clock is what the retention of views goes by while their streams are silent; nil is Now.
	Clock func() time.Time
	// KeepPeriod is how often views that have nothing to do look for what has expired. Zero means a
	// minute; negative: only Keep does.
	KeepPeriod time.Duration
	// EpochEvents is how many events at most make an epoch with final changes, 32,768 when 0;
	// PendingEvents bounds every epoch, 262,144 when 0. A batch is never split.
	EpochEvents, PendingEvents int
	// MaxCrashes is how many crashes of the process in a row a view may have been at work at before
	// it starts as failed; 3 when 0, any number when negative.
	MaxCrashes int
	// StateBytes is about how much memory the state of all views may take; what is over it is left in
	// the store. 0: no bound.
	StateBytes int64
	// RetryMin and RetryMax bound the wait before a sink or a worker that failed is tried again;
	// 200ms and 30s when 0.
	RetryMin, RetryMax time.Duration
}

// WithDefaults returns a copy with the zero fields filled.
func (o Options) WithDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Clock == nil {
		o.Clock = o.Now
	}
	o.KeepPeriod = cmp.Or(o.KeepPeriod, keepPeriod)
	o.EpochEvents = cmp.Or(o.EpochEvents, 32_768)
	o.PendingEvents = cmp.Or(o.PendingEvents, 262_144)
	o.MaxCrashes = cmp.Or(o.MaxCrashes, 3)
	o.RetryMin = cmp.Or(o.RetryMin, 200*time.Millisecond)
	o.RetryMax = cmp.Or(o.RetryMax, 30*time.Second)
	return o
}

// Service keeps the views. It is safe for concurrent use.
type Service struct {
	Options
	kv     *kv.Store
	log    stream.Log
	logger *slog.Logger

	// wrap is put around every engine; tests make engines fail with it.
	wrap func(machine) machine
	// beside is called when what is built beside a view has committed an epoch, and before the
	// switch; tests look on, and crash, with it.
	beside func(w *worker, switching bool)

	attachments map[catalog.Kind]Attachment

	// family is held by whoever makes, changes or deletes a view: what reads what stays as it is
	// meanwhile. It comes before a view's ops.
	family sync.Mutex

	mu struct {
		sync.Mutex
		views map[string]*view
		// refused are widenings of columns that a view could not follow.
		refused map[string]struct{}
		// run is the context of Run while it runs.
		run    context.Context
		ending bool
	}
	workers sync.WaitGroup
	budget  budget
	ages    ages
	pumps   []*pump
	// outgrown is told when a view has met an entry with a wider column than it is bound to.
	outgrown chan struct{}
}

// Attachment adds something to every view of a kind. Attach comes before Run.
type Attachment struct {
	// Evidence asks for the places of the events behind each change.
	Evidence bool
	// EpochEvents bounds an epoch's events where above 0.
	EpochEvents int
	// Open returns what follows the view's epochs, when its worker starts.
	Open func(Meta) (Follower, error)
	// Drop removes what the follower has kept, in the batch that removes the view.
	Drop func(b *kv.Batch, id uint64)
}

// Meta is what a follower needs to know of its view.
type Meta struct {
	ID      uint64
	Name    string
	Version int
	// Before is the version that this one takes the place of, at the switch that follows an edit; else 0.
	Before int
	Fields []row.Field
	Extra  json.RawMessage
	// Sources are the names of the streams that the view reads.
	Sources []string
}

// Follower writes what follows from a view's epochs into the epoch's own batch. It belongs to the
// view's worker. An epoch that could not be committed is followed by a new Open.
type Follower interface {
	Epoch(b *kv.Batch, e *Epoch) error
}

// Forgetter is a follower that removes what it has made of epochs up to a position, when a view's
// retention says so (R3). Its newest entry may stay.
type Forgetter interface {
	Forget(b *kv.Batch, upTo stream.Position) error
}

// Heir is a follower that is told, at the switch that follows an edit, the keys of the rows that are
// there before and after it. Where the rows can't be compared, because an edit gives other columns,
// it is told to take back those of the version before, in its own columns and with its Extra, and
// then that none is left.
type Heir interface {
	Inherit(b *kv.Batch, keys func(f func(key []byte) error) error) error
	Withdraw(b *kv.Batch, extra json.RawMessage, e *Epoch) error
}

// Attach sets what is added to the views of a kind.
func (s *Service) Attach(kind catalog.Kind, a Attachment) { s.attachments[kind] = a }

// Open reads the definitions of all views and alerts. Nothing runs before Run.
func Open(o Options) (*Service, error) {
	o = o.WithDefaults()
	s := &Service{Options: o, kv: o.KV, log: o.Log, logger: o.Logger, attachments: map[catalog.Kind]Attachment{}, outgrown: make(chan struct{}, 1)}
	s.ages.opened = o.Clock()
	s.mu.views, s.budget.bytes = map[string]*view{}, o.StateBytes
	for _, kind := range kinds {
		for _, e := range o.Catalog.List(kind) {
			v, err := s.load(e)
			if err != nil {
				return nil, fmt.Errorf("open %s %s: %w", kind, e.Name, err)
			}
			s.mu.views[e.Name] = v
		}
	}
	if err := s.catchUp(); err != nil {
		return nil, err
	}
	for _, sink := range o.Sinks {
		s.pumps = append(s.pumps, newPump(s, sink))
	}
	o.Registry.SetInUse(s.inUse)
	o.Registry.SetPinned(s.pinned)
	return s, nil
}

// kinds are the kinds of relations that are views.
var kinds = []catalog.Kind{catalog.View, catalog.Alert}

// Run keeps all views running until ctx ends. Then every worker commits its last epoch; Run
// returns when all have ended, so that the next start replays nothing.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.mu.run != nil || s.mu.ending {
		s.mu.Unlock()
		return errors.New("views: Run was called twice")
	}
	s.mu.run = ctx
	views := s.listLocked()
	s.mu.Unlock()
	for _, v := range views {
		v.ops.Lock() // a PUT or pause that is on its way starts the view itself
		v.start()
		v.ops.Unlock()
	}
	for _, p := range s.pumps {
		s.workers.Go(func() { p.run(ctx) })
	}
	s.workers.Go(func() { s.keepWiden(ctx) })
	if s.KeepPeriod > 0 {
		s.workers.Go(func() { s.keepRetention(ctx) })
	}
	<-ctx.Done()
	s.mu.Lock()
	s.mu.ending = true
	s.mu.Unlock()
	s.workers.Wait()
	return nil
}

// Ready reports whether every view that should run has recovered its state.
func (s *Service) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.run == nil {
		return false
	}
	for _, v := range s.mu.views {
		if !v.recovered() {
			return false
		}
	}
	return true
}

func (s *Service) listLocked() []*view {
	views := make([]*view, 0, len(s.mu.views))
	for _, v := range s.mu.views {
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b *view) int { return cmp.Compare(a.name, b.name) })
	return views
}

func (s *Service) list() []*view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listLocked()
}

func unknownView(name string) error {
	return problem.New(404, "unknown_view", "there is no view %q", name).
		WithHint("GET /v1/views lists the views there are")
}

// find returns a view or alert by name.
func (s *Service) find(name string) (*view, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.mu.views[name]; ok {
		return v, nil
	}
	return nil, unknownView(name)
}

// open finds a view and makes a snapshot of the store between two of its epochs.
func (s *Service) open(name string) (v *view, snap *kv.Snapshot, h head, p progress, err error) {
	if v, err = s.find(name); err == nil {
		snap, h, p, err = v.open()
	}
	return v, snap, h, p, err
}

// hold finds a view for what changes its life; nobody else does until release.
func (s *Service) hold(name string) (v *view, release func(), err error) {
	if v, err = s.find(name); err != nil {
		return nil, nil, err
	}
	v.ops.Lock()
	if v.deleted() {
		v.ops.Unlock()
		return nil, nil, unknownView(name)
	}
	return v, v.ops.Unlock, nil
}

func (s *Service) findKind(kind catalog.Kind, name string) (*view, error) {
	v, err := s.find(name)
	if err == nil && v.kind == kind {
		return v, nil
	}
	if kind == catalog.Alert {
		return nil, problem.New(404, "unknown_alert", "there is no alert %q", name).
			WithHint("GET /v1/alerts lists the alerts there are")
	}
	return nil, unknownView(name)
}

// inUse names the views that read a stream, for the registry.
func (s *Service) inUse(id stream.ID) []string {
	var names []string
	for _, v := range s.list() {
		if slices.ContainsFunc(v.sources(), func(b boundSource) bool { return b.ID == id }) {
			names = append(names, v.name)
		}
	}
	return names
}

// Relations is what FROM can name now: streams, views and alerts.
func (s *Service) Relations() query.Catalog { return relations{svc: s} }

// relations is the catalog that a view's SQL is bound to.
type relations struct {
	svc *Service
	// fixed: streams and views are as they were when the view was made (R1), in bound and views.
	fixed bool
	bound []boundSource
	views []boundView
	// next are documents that views are about to have; seen takes in the views that were found.
	next map[string]*stored
	seen map[string]boundView
}

// Relation implements query.Catalog.
func (r relations) Relation(name string) (query.Relation, bool) {
	name = strings.ToLower(name)
	for i := range r.views {
		if b := &r.views[i]; b.Name == name {
			rel, err := b.relation(r.svc)
			return rel, err == nil
		}
	}
	st, err := r.svc.Registry.Get(name)
	if err != nil {
		return r.view(name)
	}
	fields := st.Schema.Fields
	if i := slices.IndexFunc(r.bound, func(b boundSource) bool { return b.ID == st.ID }); i >= 0 {
		fields = r.bound[i].typed(fields)
	}
	return query.Relation{Name: st.Name, Kind: string(catalog.Stream), ID: st.ID, TimeField: st.Config.TimeField, Fields: fields}, true
}

// view is a view as it is now, or as it is about to be.
func (r relations) view(name string) (query.Relation, bool) {
	v, err := r.svc.find(name)
	if err != nil || r.fixed {
		return query.Relation{}, false
	}
	doc := v.document()
	if next, ok := r.next[name]; ok {
		doc = next
	}
	b := v.bindView(doc)
	if r.seen != nil {
		r.seen[name] = b
	}
	rel, err := b.relation(r.svc)
	if err != nil {
		return query.Relation{}, false
	}
	if r.seen == nil { // history has the rows that are served
		h, _ := v.published()
		rel.Fields, err = loadFields(h.Fields)
	}
	return rel, err == nil
}
