package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// Stream is a stream's definition at one instant. It is never changed: a new value takes its place.
type Stream struct {
	ID     ID
	Name   string
	Config Config // all defaults filled in
	Schema Schema
}

// TimeColumn is the number of the time field's column; −1 when the append time is the event time.
func (s *Stream) TimeColumn() int {
	if s.Config.TimeField == "" {
		return -1
	}
	return s.Schema.Column(s.Config.TimeField)
}

// Registry knows all streams: their configuration and their columns. It is safe for concurrent use.
type Registry struct {
	cat *catalog.Catalog
	log Log

	// write is held by whoever changes a definition, from reading the old one to the durable new one.
	write sync.Mutex
	mu    struct {
		sync.RWMutex
		byName map[string]*Stream
		byID   map[ID]*Stream
		inUse  func(ID) []string
		pinned func(id ID, column int, to row.Type) bool
	}
}

// document is a stream in the catalog.
type document struct {
	Config Config  `json:"config"`
	Schema Schema  `json:"schema"`
	Fields Columns `json:"fields"`
}

// OpenRegistry reads the streams from the catalog and finishes what a crash left half done: a
// stream that is in the log alone is dropped.
func OpenRegistry(cat *catalog.Catalog, log Log) (*Registry, error) {
	r := &Registry{cat: cat, log: log}
	r.mu.byName, r.mu.byID = map[string]*Stream{}, map[ID]*Stream{}
	for _, e := range cat.List(catalog.Stream) {
		s, err := readDocument(e)
		if err != nil {
			return nil, fmt.Errorf("open streams: %s: %w", e.Name, err)
		}
		r.mu.byName[s.Name], r.mu.byID[s.ID] = s, s
	}
	if l, ok := log.(interface{ Declared() []ID }); ok {
		for _, id := range l.Declared() {
			if r.mu.byID[id] == nil {
				// A log that is shorter than it was may miss the catalog's newest names: nothing is dropped.
				if err := log.Drop(context.Background(), id); err != nil && !errors.Is(err, ErrShortened) {
					return nil, fmt.Errorf("open streams: drop what is left of stream %d: %w", id, err)
				}
			}
		}
	}
	return r, nil
}

func readDocument(e catalog.Entry) (*Stream, error) {
	var d document
	if err := json.Unmarshal(e.Doc, &d); err != nil {
		return nil, err
	}
	s := &Stream{ID: ID(e.ID), Name: e.Name, Config: d.Config.withDefaults(), Schema: d.Schema}
	for _, f := range d.Fields {
		t, err := row.ParseType(f.Type)
		if err != nil {
			return nil, err
		}
		s.Schema.Fields = append(s.Schema.Fields, row.Field{Name: f.Name, Type: t})
	}
	return s, nil
}

// SetInUse sets the function that names the views which read a stream; Delete asks it.
func (r *Registry) SetInUse(f func(ID) []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.inUse = f
}

// SetPinned sets the function that says whether a view that reads a column keeps it from getting
// another type: it can't be made anew with that one (R1).
func (r *Registry) SetPinned(f func(id ID, column int, to row.Type) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.pinned = f
}

// Get returns a stream by name, or a problem 404 unknown_stream.
func (r *Registry) Get(name string) (*Stream, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.mu.byName[name]; s != nil {
		return s, nil
	}
	if len(name) > 80 {
		name = name[:80] + "…"
	}
	return nil, problem.New(404, "unknown_stream", "there is no stream %q", name).
		WithHint("GET /v1/streams lists the streams; PUT /v1/streams/NAME creates one")
}

// ByID returns a stream by its number.
func (r *Registry) ByID(id ID) (*Stream, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.mu.byID[id]
	return s, ok
}

// List returns all streams by name.
func (r *Registry) List() []*Stream {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*Stream, 0, len(r.mu.byName))
	for _, s := range r.mu.byName {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Stream) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Put creates a stream, or changes what c names of one that is there; it returns when that is
// durable. What can't be changed is a problem 409.
func (r *Registry) Put(ctx context.Context, name string, c Config) (s *Stream, created bool, err error) {
	if err := c.Validate(); err != nil {
		return nil, false, err
	}
	if err := catalog.CheckName(catalog.Stream, name); err != nil {
		return nil, false, err
	}
	r.write.Lock()
	defer r.write.Unlock()
	if e, ok := r.cat.Lookup(name); ok && e.Kind != catalog.Stream {
		return nil, false, catalog.NameTaken(name, e.Kind)
	}
	r.mu.RLock()
	old := r.mu.byName[name]
	r.mu.RUnlock()
	if old == nil {
		s, err = r.create(ctx, name, c)
		return s, err == nil, err
	}
	s, err = r.update(ctx, old, c)
	return s, false, err
}

func (r *Registry) create(ctx context.Context, name string, c Config) (*Stream, error) {
	given := c.Columns
	c = c.withDefaults()
	c.Columns = nil // the schema has them
	if err := c.checkCompact(); err != nil {
		return nil, err
	}
	s := &Stream{Name: name, Config: c, Schema: Schema{Version: 1, Declared: given != nil}}
	if err := s.addColumns(given, func(int) bool { return true }); err != nil {
		return nil, err
	}
	id, err := r.cat.NextID()
	if err != nil {
		return nil, err
	}
	s.ID = ID(id)
	// The log first: a crash in between leaves a stream without a name, which OpenRegistry drops.
	if err := r.log.Declare(ctx, s.ID, c.settings(name)); err != nil {
		return nil, err
	}
	if err := r.keep(s); err != nil {
		return nil, errors.Join(err, r.log.Drop(context.WithoutCancel(ctx), s.ID))
	}
	return s, nil
}

func (r *Registry) update(ctx context.Context, old *Stream, c Config) (*Stream, error) {
	given := c.Columns
	c = c.over(old.Config)
	c.Columns = nil
	if c.Partitions < old.Config.Partitions {
		return nil, problem.New(409, "fewer_partitions", "stream %s has %d partitions and can't have %d", old.Name, old.Config.Partitions, c.Partitions).
			WithHint("partitions can only be added; make a new stream to have fewer")
	}
	if err := c.checkCompact(); err != nil {
		return nil, err
	}
	stats, err := r.log.Stats(old.ID)
	if err != nil {
		return nil, err
	}
	if stats.Accepted > 0 {
		for _, f := range []struct{ member, old, new string }{
			{"time_field", old.Config.TimeField, c.TimeField},
			{"key_field", old.Config.KeyField, c.KeyField},
			{"id_field", old.Config.IDField, c.IDField},
		} {
			if f.old != f.new {
				return nil, problem.New(409, "has_events", "stream %s has events, so its %s can't change from %q to %q", old.Name, f.member, f.old, f.new).
					WithHint("make a new stream with the other %s and send the events there", f.member)
			}
		}
	}
	s := &Stream{ID: old.ID, Name: old.Name, Config: c, Schema: old.Schema.clone()}
	if given != nil {
		s.Schema.Declared = true
	}
	free := func(column int) bool { return stats.Accepted == 0 && !r.isPinned(old.ID, column, row.Scalar(row.Null)) }
	if err := s.addColumns(given, free); err != nil {
		return nil, err
	}
	if err := r.log.Declare(ctx, s.ID, c.settings(s.Name)); err != nil {
		return nil, err
	}
	s.Schema.Version++
	return s, r.keep(s)
}

// addColumns takes given columns, and that of the time field, into the schema. A column that is
// there already may get another type only where free allows it.
func (s *Stream) addColumns(given Columns, free func(column int) bool) error {
	if s.Config.TimeField != "" && !slices.ContainsFunc(given, func(c Column) bool { return strings.EqualFold(c.Name, s.Config.TimeField) }) {
		given = append(slices.Clone(given), Column{s.Config.TimeField, "TIMESTAMP"})
	}
	for _, c := range given {
		t, err := row.ParseType(c.Type)
		if err != nil {
			return err // Validate has seen it
		}
		i := s.Schema.Column(c.Name)
		switch {
		case i < 0 && len(s.Schema.Fields) >= MaxColumns:
			return problem.New(422, "too_many_columns", "stream %s would have more than %d columns", s.Name, MaxColumns).
				WithHint("leave out columns that no view reads; their fields stay in the events")
		case i < 0:
			s.Schema.Fields = append(s.Schema.Fields, row.Field{Name: c.Name, Type: t})
		case s.Schema.Fields[i].Type.Equal(t):
		case !free(i):
			return problem.New(409, "has_events", "column %q of stream %s is %s and can't become %s", s.Schema.Fields[i].Name, s.Name, s.Schema.Fields[i].Type, t).
				WithHint("the stream has events or a view reads the column: add a column of another name, or make a new stream")
		default:
			s.Schema.Fields[i].Type = t
		}
	}
	return nil
}

// EnsureColumns makes columns for the fields that events brought and widens those that are too
// narrow, as far as that is possible, and returns the stream as it is then, durably. What could not
// be done (a declared schema, a column that a view is bound to and can't leave, one with integers past ±2^53, types
// that have no common one) shows in the returned schema: the caller compares.
func (r *Registry) EnsureColumns(_ context.Context, id ID, want []row.Field) (*Stream, error) {
	return r.change(id, func(s *Stream) (changed bool) {
		if s.Schema.Declared {
			return false
		}
		for _, f := range want {
			i := s.Schema.Column(f.Name)
			switch {
			case i < 0 && badColumnName(f.Name) != "", i < 0 && len(s.Schema.Fields) >= MaxColumns:
				changed = s.Schema.leaveOut(f.Name) || changed
			case i < 0:
				s.Schema.Fields = append(s.Schema.Fields, f)
				changed = true
			default:
				t, ok := WidenType(s.Schema.Fields[i].Type, f.Type)
				if !ok || t.Equal(s.Schema.Fields[i].Type) || r.isPinned(id, i, t) ||
					s.Schema.IsWide(i) && widensNumbers(s.Schema.Fields[i].Type, t) {
					continue
				}
				s.Schema.Fields[i].Type = t
				changed = true
			}
		}
		return changed
	})
}

// MarkWide notes, durably, that columns are about to hold an integer past ±2^53, and returns the
// stream as it is then. A column that has become DOUBLE meanwhile is not marked.
func (r *Registry) MarkWide(_ context.Context, id ID, columns []int) (*Stream, error) {
	return r.change(id, func(s *Stream) (changed bool) {
		for _, c := range columns {
			if c < len(s.Schema.Fields) && s.Schema.Fields[c].Type.Kind != row.Double && !s.Schema.IsWide(c) {
				s.Schema.Wide = append(s.Schema.Wide, c)
				changed = true
			}
		}
		return changed
	})
}

// leaveOut notes a field that gets no column.
func (s *Schema) leaveOut(name string) (changed bool) {
	if len(s.Fields) >= MaxColumns && !s.Overflow {
		s.Overflow, changed = true, true
	}
	if len(s.Uncolumned) < maxUncolumned && len(name) <= 255 && !slices.Contains(s.Uncolumned, name) {
		s.Uncolumned = append(s.Uncolumned, name)
		changed = true
	}
	return changed
}

// change applies f to a copy of a stream and keeps it when f says that it changed.
func (r *Registry) change(id ID, f func(*Stream) bool) (*Stream, error) {
	r.write.Lock()
	defer r.write.Unlock()
	old, ok := r.ByID(id)
	if !ok {
		return nil, problem.New(404, "unknown_stream", "stream %d was deleted", id).WithHint("GET /v1/streams lists the streams")
	}
	s := *old
	s.Schema = old.Schema.clone()
	if !f(&s) {
		return old, nil
	}
	s.Schema.Version++
	if err := r.keep(&s); err != nil {
		return nil, err
	}
	return &s, nil
}

// keep makes a definition durable and then shows it.
func (r *Registry) keep(s *Stream) error {
	d := document{Config: s.Config, Schema: s.Schema}
	for _, f := range s.Schema.Fields {
		d.Fields = append(d.Fields, Column{f.Name, f.Type.String()})
	}
	doc, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if _, err := r.cat.Put(catalog.Stream, s.Name, doc, uint64(s.ID)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.byName[s.Name], r.mu.byID[s.ID] = s, s
	return nil
}

func (r *Registry) isPinned(id ID, column int, to row.Type) bool {
	r.mu.RLock()
	f := r.mu.pinned
	r.mu.RUnlock()
	return f != nil && f(id, column, to)
}

// Delete removes a stream with all that belongs to it. While a view reads it: a problem 409 in_use.
func (r *Registry) Delete(ctx context.Context, name string) error {
	r.write.Lock()
	defer r.write.Unlock()
	s, err := r.Get(name)
	if err != nil {
		return err
	}
	r.mu.RLock()
	inUse := r.mu.inUse
	r.mu.RUnlock()
	if inUse != nil {
		if views := inUse(s.ID); len(views) > 0 {
			return problem.New(409, "in_use", "stream %s is read by %s", name, strings.Join(views, ", ")).
				WithHint("delete these first").With("views", views)
		}
	}
	// The name goes first: a crash in between leaves a stream without a name, which OpenRegistry drops.
	if _, err := r.cat.Delete(catalog.Stream, name); err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.mu.byName, name)
	delete(r.mu.byID, s.ID)
	r.mu.Unlock()
	return r.log.Drop(context.WithoutCancel(ctx), s.ID)
}
