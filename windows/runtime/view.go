package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

// stored is a view's document in the catalog, and one definition of it.
type stored struct {
	// Definition is resolved: all defaults are filled in.
	Definition Definition `json:"definition"`
	// Extra is what an attachment keeps with the definition.
	Extra json.RawMessage `json:"extra,omitempty"`
	// Version counts what was built of the view, from 1: it is part of the keys. ViewVersion counts
	// the definitions that gave other rows: users see it, and a rebuild leaves it.
	Version     uint32        `json:"version"`
	ViewVersion uint32        `json:"view_version"`
	Sources     []boundSource `json:"sources"`
	Fields      []storedField `json:"columns"`
	// Views are the views that the SQL reads, as they were when it was bound.
	Views []boundView `json:"views,omitempty"`
	// StartAt is the log's end when a view with start latest was made: it begins to read there.
	StartAt stream.Sequence `json:"start_at,omitempty"`
	// Retention is how long rows and changes are kept; 0: for ever (R3).
	Retention windows.Micros `json:"retention_micros,omitempty"`
	Paused    bool           `json:"paused,omitempty"`
	// Serving is the definition whose rows are served while this one is built beside it.
	Serving *stored `json:"serving,omitempty"`
}

// boundSource is a stream as it was when the view was made: what its rows depend on stays with the
// view, so that a rebuild makes the same rows (R1).
type boundSource struct {
	Name string    `json:"name"`
	ID   stream.ID `json:"id"`
	// Columns is how many columns the stream had; Pinned are those that the view reads.
	// Types are the types of the pinned ones that the view is bound to.
	Columns           int            `json:"columns"`
	Pinned            []int          `json:"pinned,omitempty"`
	Types             []string       `json:"types,omitempty"`
	MaxOutOfOrderness windows.Micros `json:"max_out_of_orderness_micros"`
	IdleAdvance       bool           `json:"idle_advance"`
	// Table: it gives no watermark, because it is read through tables alone (W6).
	Table bool `json:"table,omitempty"`
}

type storedField struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

func storeFields(fields []row.Field) []storedField {
	out := make([]storedField, len(fields))
	for i, f := range fields {
		out[i] = storedField{f.Name, f.Type.String()}
	}
	return out
}

func loadFields(stored []storedField) ([]row.Field, error) {
	out := make([]row.Field, len(stored))
	for i, f := range stored {
		t, err := row.ParseType(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		out[i] = row.Field{Name: f.Name, Type: t}
	}
	return out, nil
}

// ids are the streams that the definition reads.
func (d *stored) ids() []stream.ID {
	out := make([]stream.ID, len(d.Sources))
	for i, b := range d.Sources {
		out[i] = b.ID
	}
	return out
}

// head says which version of a view is served.
type head struct {
	Version     uint32        `json:"version"`
	ViewVersion uint32        `json:"view_version"`
	Fields      []storedField `json:"columns"`
	// Stream counts how often the change stream began anew; ChangesFrom is where it begins now.
	Stream      uint32          `json:"stream"`
	ChangesFrom stream.Position `json:"changes_from"`
	// Trimmed: the change stream does not begin with the first row any more.
	Trimmed bool `json:"trimmed,omitempty"`
	// LateFirst is the first number in the stream of late events: that of the served version's
	// first record.
	LateFirst int64 `json:"late_first"`
}

// progress says how far a version of a view is.
type progress struct {
	Position stream.Position `json:"position"`
	AsOf     AsOf            `json:"as_of"`
	Counts   engine.Counts   `json:"counts"`
	// Late is how many late records there are.
	Late int64 `json:"late"`
	// Rows is how many rows there are.
	Rows int64 `json:"rows"`
	// Forgotten is the sequence up to which late records and row errors have expired (R3); LateGone and
	// ErrorsGone are how many did.
	Forgotten  stream.Sequence `json:"forgotten,omitempty"`
	LateGone   int64           `json:"late_gone,omitempty"`
	ErrorsGone int64           `json:"errors_gone,omitempty"`
	// Poisoned is how many events made an operator panic; they are in Counts.RowErrors too.
	Poisoned int64 `json:"poisoned,omitempty"`
	// Live: the view has once caught up with its streams.
	Live bool `json:"live"`
	// WindowsFrom is the start of the first windows that are given out; nil: all are (R2).
	WindowsFrom *windows.Micros `json:"windows_from,omitempty"`
	// Sealed are rows that a rebuild could not make again (R4); nil: there are none.
	Sealed *Sealed `json:"sealed,omitempty"`
	// AppendTime is that of the last entry behind the position.
	AppendTime windows.Micros `json:"append_time"`
	// Oldest: rows with an earlier time have expired; nil: none has. Marks say where the view stood
	// at some append times, for its changes to expire.
	Oldest *windows.Micros `json:"oldest,omitempty"`
	Marks  []mark          `json:"marks,omitempty"`
}

// State is a view's state as users see it.
type State string

// The states.
const (
	Building State = "building"
	Live     State = "live"
	Paused   State = "paused"
	Failed   State = "failed"
)

// view is one view or alert with its worker.
type view struct {
	svc  *Service
	id   uint64
	name string
	kind catalog.Kind

	created, updated time.Time

	// ops is held by whoever changes the view's life: PUT, DELETE, pause, resume.
	ops sync.Mutex
	// gate is held for writing while a commit is on its way, and for reading while a snapshot of
	// the store is made (R1).
	gate sync.RWMutex

	// gauges are what operators see.
	gauges struct {
		epochs, changes, pending atomic.Int64
		took                     times
		lastCommit               atomic.Int64 // microseconds since 1970
		memory                   atomic.Pointer[engine.Memory]
	}

	mu struct {
		sync.Mutex
		doc      *stored
		head     head
		progress progress
		// seen: everything in the log up to here that the view reads is committed.
		seen stream.Sequence
		live bool
		// started: the worker has recovered its state once.
		started bool
		failed  string // why the view can't go on; empty: it can
		trouble string // why it does not go on at the moment
		edit    string // why an edit could not be built
		// handOver is how far what is built is: the version that is served reads up to there before it
		// ends.
		handOver stream.Sequence
		gone     bool
		streams  []windows.StreamState
		// verified is how the last comparison with the batch answer ended; nil: there was none.
		verified *Verified
		explain  string
		warned   []query.Warning
		columns  []Column
		// held is how far each sink is with the view's changes.
		held map[*pump]stream.Position
		work map[uint32]*workNote
		// asks is how the worker that serves is asked; nil: none runs.
		asks   *asks
		watch  map[chan struct{}]struct{}
		cancel context.CancelCauseFunc
		ended  chan struct{}
	}
}

// load makes a view of its catalog entry and of what the store holds of it.
func (s *Service) load(e catalog.Entry) (*view, error) {
	var doc stored
	if err := json.Unmarshal(e.Doc, &doc); err != nil {
		return nil, err
	}
	v := &view{svc: s, id: e.ID, name: e.Name, kind: e.Kind, created: e.Created, updated: e.Updated}
	s.bindOldTypes(&doc)
	v.mu.watch, v.mu.work = map[chan struct{}]struct{}{}, map[uint32]*workNote{}
	h, err := getJSON[head](s.kv, headKey(v.id))
	if errors.Is(err, kv.ErrNotFound) {
		served := &doc
		if doc.Serving != nil {
			served = doc.Serving
		}
		h, err = head{Version: served.Version, ViewVersion: served.ViewVersion, Fields: served.Fields, ChangesFrom: stream.Position{Log: s.log.ID()}}, nil
	}
	if err != nil {
		return nil, err
	}
	if h.Version == doc.Version {
		doc.Serving = nil // the switch was made; only the catalog did not know yet
	}
	if err := v.adopt(&doc, &h); err != nil {
		return nil, err
	}
	p, err := getJSON[progress](s.kv, progressKey(v.id, h.Version))
	if errors.Is(err, kv.ErrNotFound) {
		p, err = s.beginning(h.ViewVersion), nil
	}
	if err != nil {
		return nil, err
	}
	v.mu.doc, v.mu.head, v.mu.progress, v.mu.live = &doc, h, p, p.Live && p.Position.Log == s.log.ID()
	verified, err := getJSON[Verified](s.kv, verifiedKey(v.id))
	switch {
	case err == nil:
		v.mu.verified = &verified
	case !errors.Is(err, kv.ErrNotFound):
		return nil, err
	}
	return v, nil
}

// beginning is the progress of a version that has read nothing.
func (s *Service) beginning(viewVersion uint32) progress {
	return progress{
		Position: stream.Position{Log: s.log.ID()},
		AsOf:     AsOf{Watermark: windows.NoWatermark, Offsets: map[string][]stream.Offset{}, ViewVersion: int(viewVersion)},
	}
}

type getter interface {
	Get(key []byte) ([]byte, error)
}

func getJSON[T any](from getter, key []byte) (T, error) {
	var out T
	text, err := from.Get(key)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own plain structs
	}
	return text
}

// published is what readers may see: the head and the progress of the last epoch that is durable.
func (v *view) published() (head, progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.head, v.mu.progress
}

func (v *view) document() *stored {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.doc
}

// sources are the streams that the view reads, in the served and in the built definition.
func (v *view) sources() []boundSource {
	doc := v.document()
	if doc.Serving == nil {
		return doc.Sources
	}
	return append(append([]boundSource{}, doc.Sources...), doc.Serving.Sources...)
}

func (v *view) deleted() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.gone
}

func (v *view) recovered() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.started || v.mu.failed != "" || v.mu.trouble != "" || v.mu.doc.Paused
}

func (v *view) stateLocked() State {
	switch {
	case v.mu.failed != "":
		return Failed
	case v.mu.doc.Paused:
		return Paused
	case v.mu.live:
		return Live
	}
	return Building
}

// notifyLocked wakes all who watch the view. A channel that is full already is skipped.
func (v *view) notifyLocked() {
	for c := range v.mu.watch {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Watch returns a channel that receives after each epoch of a view and each change of its state,
// and a function that ends that. A signal that was not taken yet stands for all that follow.
func (s *Service) Watch(name string) (<-chan struct{}, func(), error) {
	v, err := s.find(name)
	if err != nil {
		return nil, nil, err
	}
	c, stop := v.watcher()
	return c, stop, nil
}

func (v *view) watcher() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	v.mu.Lock()
	v.mu.watch[c] = struct{}{}
	v.mu.Unlock()
	return c, func() {
		v.mu.Lock()
		delete(v.mu.watch, c)
		v.mu.Unlock()
	}
}

// compile binds a definition again, to what it was bound to. The plan's expressions belong to one
// goroutine.
func (s *Service) compile(doc *stored) (*query.Plan, error) {
	return s.compileIn(doc.Definition, relations{svc: s, fixed: true, bound: doc.Sources, views: doc.Views})
}

func (s *Service) compileIn(d Definition, cat relations) (*query.Plan, error) {
	return query.Compile(s.Parse, cat, d.SQL, query.Options{EmitFinal: d.Emit == EmitFinal})
}

// engineConfig is what a definition means to the engine; functions adds what the plan says.
func (d *stored) engineConfig(evidence bool, windowsFrom *windows.Micros) engine.Config {
	c := engine.Config{
		WindowsFrom:     windowsFrom,
		AllowedLateness: d.Definition.AllowedLateness.Micros(),
		EmitFinal:       d.Definition.Emit == EmitFinal,
		Evidence:        evidence,
	}
	if at, ok := d.startInstant(); ok {
		c.EventsFrom = &at
		if windowsFrom == nil || *windowsFrom < at {
			c.WindowsFrom = &at
		}
	}
	if d.Definition.Late == LateDrop {
		c.Late = engine.Drop
	}
	for _, b := range d.Sources {
		c.Streams = append(c.Streams, windows.TrackedStream{Stream: b.ID, MaxOutOfOrderness: b.MaxOutOfOrderness, IdleAdvance: b.IdleAdvance, Table: b.Table})
	}
	return c
}

// start begins the view's work, when Run runs and the view is neither paused nor failed. The
// caller holds ops.
func (v *view) start() {
	s := v.svc
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.run == nil || s.mu.ending {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.gone || v.mu.doc.Paused || v.mu.failed != "" || v.mu.ended != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(s.mu.run)
	v.mu.cancel, v.mu.ended = cancel, make(chan struct{})
	ended := v.mu.ended
	s.workers.Go(func() {
		defer close(ended)
		defer cancel(nil)
		v.conduct(ctx)
	})
}

// stop ends the view's work and waits until it has ended; the epoch in work is committed.
func (v *view) stop(why error) {
	v.mu.Lock()
	cancel, ended := v.mu.cancel, v.mu.ended
	v.mu.cancel, v.mu.ended = nil, nil
	v.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel(why)
	<-ended
}
