package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows/query"
)

// A view is bound to its columns' types (R1). When a column that it reads widens, the entries from
// there on hold values that its engine can't take: the version that is served stops before the first
// of them, and the view is made anew with the new type, as by an edit. That a column may widen is
// asked before it does: only where every view that reads it can be made anew from the log.

// outgrown says that an entry holds a column in a wider type than the version is bound to.
type outgrown struct {
	stream, column string
	from, to       row.Type
}

func (o *outgrown) Error() string {
	return fmt.Sprintf("column %s of stream %s has widened from %s to %s: the view is made anew with the new type", o.column, o.stream, o.from, o.to)
}

// boundType is the type of a stream's column that a definition is bound to; ok false: to none.
func (b *boundSource) boundType(column int) (t row.Type, ok bool) {
	i, found := slices.BinarySearch(b.Pinned, column)
	if !found || i >= len(b.Types) {
		return t, false
	}
	t, err := row.ParseType(b.Types[i])
	return t, err == nil
}

// bindTypes notes the types of the columns that the source reads: those that the plan has, which may
// be bound through a view beneath, else the stream's.
func (b *boundSource) bindTypes(fields []row.Field, cols []query.ScanCol) {
	b.Types = make([]string, len(b.Pinned))
	for i, c := range b.Pinned {
		b.Types[i] = fields[c].Type.String()
		for _, col := range cols {
			if col.Column == c {
				b.Types[i] = col.Type.String()
			}
		}
	}
}

// typed are a stream's columns with the types that the source is bound to.
func (b *boundSource) typed(fields []row.Field) []row.Field {
	fields = slices.Clone(fields[:min(b.Columns, len(fields))])
	for _, c := range b.Pinned {
		if t, ok := b.boundType(c); ok && c < len(fields) {
			fields[c].Type = t
		}
	}
	return fields
}

// fits reports whether values of one type have a place in another as they are.
func fits(from, in row.Type) bool {
	t, ok := stream.WidenType(in, from)
	return from.Equal(in) || ok && t.Equal(in)
}

// outgrows says which of an entry's columns is too wide for the worker's version; nil: none is.
func (w *worker) outgrows(e stream.Entry) error {
	return w.svc.outgrows(w.doc, w.types, e)
}

// servedOutgrown reports whether an entry is too wide for the version that is served while this one is
// built. This one takes over before it, so that what the entry changes is a change like any other, and
// an alert fires for it.
func (w *worker) servedOutgrown(e stream.Entry) bool {
	if w.serving || w.doc.Serving == nil {
		return false
	}
	if w.servedTypes == nil {
		w.servedTypes = w.doc.Serving.boundTypes()
	}
	return w.svc.outgrows(w.doc.Serving, w.servedTypes, e) != nil
}

func (s *Service) outgrows(d *stored, types []map[int]row.Type, e stream.Entry) error {
	b := e.Batch
	if b == nil {
		return nil
	}
	for i := range d.Sources {
		src := &d.Sources[i]
		if src.ID != b.Stream {
			continue
		}
		for _, c := range src.Pinned {
			if c >= len(b.Columns) || b.Columns[c] == nil {
				continue
			}
			if t, ok := types[i][c]; ok && !fits(b.Columns[c].Type, t) {
				o := &outgrown{stream: src.Name, column: fmt.Sprint(c), from: t, to: b.Columns[c].Type}
				if st, ok := s.Registry.ByID(src.ID); ok && c < len(st.Schema.Fields) {
					o.column = st.Schema.Fields[c].Name
				}
				return o
			}
		}
	}
	return nil
}

// boundTypes are the types that a document's columns are bound to, by source and column.
func (d *stored) boundTypes() []map[int]row.Type {
	out := make([]map[int]row.Type, len(d.Sources))
	for i := range d.Sources {
		out[i] = map[int]row.Type{}
		for _, c := range d.Sources[i].Pinned {
			if t, ok := d.Sources[i].boundType(c); ok {
				out[i][c] = t
			}
		}
	}
	return out
}

// pinned reports whether a view keeps a column from getting a type (R1): the type is no wider one,
// the log no longer reaches back to where the view begins, or the SQL does not go with the type.
func (s *Service) pinned(id stream.ID, column int, to row.Type) bool {
	reads := false
	for _, v := range s.list() {
		for _, b := range v.sources() {
			reads = reads || b.ID == id && slices.Contains(b.Pinned, column)
		}
	}
	if !reads {
		return false
	}
	st, ok := s.Registry.ByID(id)
	if !ok || column >= len(st.Schema.Fields) || !fits(st.Schema.Fields[column].Type, to) {
		return true
	}
	refusal := fmt.Sprint(id, " ", column, " ", to)
	s.mu.Lock()
	_, refused := s.mu.refused[refusal]
	s.mu.Unlock()
	if refused {
		return true
	}
	grown, err := s.grow(func(of stream.ID, c int, now row.Type) row.Type {
		if of == id && c == column {
			return to
		}
		return now
	})
	for _, g := range grown {
		if err == nil && !s.reachesBack(g.doc) {
			err = fmt.Errorf("%s %s: the log no longer reaches back to where it begins", g.v.kind, g.v.name)
		}
	}
	if err == nil {
		return false
	}
	s.logger.Warn("a column does not widen: a view reads it", "stream", st.Name, "column", st.Schema.Fields[column].Name, "to", to.String(), "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refused == nil || len(s.mu.refused) >= maxRefused {
		s.mu.refused = map[string]struct{}{}
	}
	s.mu.refused[refusal] = struct{}{}
	return true
}

// maxRefused bounds how many refused widenings are remembered.
const maxRefused = 1000

// judgeAnew forgets which widenings were refused: the views are others now.
func (s *Service) judgeAnew() {
	s.mu.Lock()
	s.mu.refused = nil
	s.mu.Unlock()
}

// grow works out the documents of the views whose columns have another type now, and of those that
// read these views, each behind those that it reads. typeOf is the type of a stream's column, given
// the registry's.
func (s *Service) grow(typeOf func(id stream.ID, column int, now row.Type) row.Type) ([]rebound, error) {
	views := s.list()
	slices.SortStableFunc(views, func(a, b *view) int { return cmp.Compare(depth(a.document().Views), depth(b.document().Views)) })
	next := map[string]*stored{}
	var out []rebound
	var failed error
	for _, v := range views {
		old := v.document()
		changed := slices.ContainsFunc(out, func(g rebound) bool { return findBound(old.Views, g.v.name) != nil })
		sources := slices.Clone(old.Sources)
		for i := range sources {
			b := &sources[i]
			st, ok := s.Registry.ByID(b.ID)
			if !ok {
				continue
			}
			b.Types = slices.Clone(b.Types)
			for n, c := range b.Pinned {
				if n >= len(b.Types) || c >= len(st.Schema.Fields) {
					continue
				}
				if t := typeOf(b.ID, c, st.Schema.Fields[c].Type).String(); t != b.Types[n] {
					b.Types[n], changed = t, true
				}
			}
		}
		if !changed {
			continue
		}
		doc, plan, err := s.bindAmong(old.Definition, next, sources)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s %s: %w", v.kind, v.name, err))
			continue
		}
		doc.Extra, doc.StartAt = old.Extra, old.StartAt
		next[v.name] = doc
		out = append(out, rebound{v, doc, plan})
	}
	return out, failed
}

// widen makes the views anew whose columns have widened.
func (s *Service) widen() error {
	s.family.Lock()
	defer s.family.Unlock()
	grown, err := s.grow(func(_ stream.ID, _ int, now row.Type) row.Type { return now })
	for _, g := range grown {
		s.logger.Info("a view is made anew because a column that it reads has widened", "view", g.v.name)
		err = errors.Join(err, g.adopt())
	}
	s.judgeAnew()
	return err
}

// keepWiden makes views anew whenever one of them has met an entry that it can't take.
func (s *Service) keepWiden(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.outgrown:
		}
		if err := s.widen(); err != nil {
			s.logger.Error("a view whose columns have widened can't be made anew; it is tried again", "err", err, "after", s.RetryMax)
			sleep(ctx, s.RetryMax)
			s.isOutgrown(&outgrown{})
		}
	}
}

// isOutgrown reports whether an error is that of an entry that is too wide. The caller asks for the
// view to be made anew and stands still until it is.
func (s *Service) isOutgrown(err error) bool {
	var o *outgrown
	if !errors.As(err, &o) {
		return false
	}
	select {
	case s.outgrown <- struct{}{}:
	default:
	}
	return true
}

// bindOldTypes fills in the types of a document that was written when no column that a view reads
// could widen: they are those that the streams have.
func (s *Service) bindOldTypes(doc *stored) {
	var fill func(sources []boundSource, views []boundView)
	fill = func(sources []boundSource, views []boundView) {
		for i := range sources {
			b := &sources[i]
			if st, ok := s.Registry.ByID(b.ID); ok && len(b.Types) == 0 && (len(b.Pinned) == 0 || b.Pinned[len(b.Pinned)-1] < len(st.Schema.Fields)) {
				b.bindTypes(st.Schema.Fields, nil)
			}
		}
		for i := range views {
			fill(views[i].Sources, views[i].Views)
		}
	}
	fill(doc.Sources, doc.Views)
	if doc.Serving != nil {
		s.bindOldTypes(doc.Serving)
	}
}

// sameTypes reports whether two documents are bound to the same types of the columns that both read.
func (d *stored) sameTypes(o *stored) bool {
	for i := range d.Sources {
		a := &d.Sources[i]
		k := slices.IndexFunc(o.Sources, func(b boundSource) bool { return b.ID == a.ID })
		if k < 0 {
			continue
		}
		for _, c := range a.Pinned {
			t, ok := a.boundType(c)
			if u, both := o.Sources[k].boundType(c); ok && both && !t.Equal(u) {
				return false
			}
		}
	}
	return true
}
