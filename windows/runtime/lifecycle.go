package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

// Put makes a view or gives it another definition. created is false for one that was there. The
// same definition again changes nothing. With dryRun nothing is kept: Info says what would be.
func (s *Service) Put(ctx context.Context, name string, d Definition, dryRun bool) (info Info, created bool, err error) {
	return s.PutKind(ctx, catalog.View, name, d, nil, dryRun)
}

// PutKind is Put for a kind of relation that is a view with something attached; extra is kept with
// the definition for the attachment. check, in the attachment's own Put, comes before.
func (s *Service) PutKind(ctx context.Context, kind catalog.Kind, name string, d Definition, extra json.RawMessage, dryRun bool) (info Info, created bool, err error) {
	if err := catalog.CheckName(kind, name); err != nil {
		return Info{}, false, err
	}
	if e, ok := s.Catalog.Lookup(name); ok && e.Kind != kind {
		return Info{}, false, catalog.NameTaken(name, e.Kind)
	}
	s.family.Lock()
	defer s.family.Unlock()
	defer s.judgeAnew()
	doc, plan, err := s.bind(d)
	if err != nil {
		return Info{}, false, err
	}
	for _, b := range plan.Beneath {
		if strings.EqualFold(b.Name, name) {
			return Info{}, false, problem.New(422, "bad_sql", "%s would read itself, through %s", name, doc.Views[0].Name).
				WithHint("a view can't be among the views that it reads")
		}
	}
	doc.Extra = extra
	v, err := s.findKind(kind, name)
	if err != nil {
		if dryRun {
			info := s.draft(kind, name, doc, plan)
			info.DryRun = foresee(nil, doc)
			return info, true, nil
		}
		v, created, err = s.create(kind, name, doc, plan)
		if err != nil {
			return Info{}, false, err
		}
		if created {
			info, err = v.info()
			return info, true, err
		}
	}
	return v.edit(ctx, doc, plan, dryRun)
}

// bind compiles a definition against the streams and views as they are now.
func (s *Service) bind(d Definition) (*stored, *query.Plan, error) { return s.bindAmong(d, nil, nil) }

// bindAmong is bind where some views are about to have other documents, for a view that stays bound
// to its streams as it was (R1).
func (s *Service) bindAmong(d Definition, next map[string]*stored, bound []boundSource) (*stored, *query.Plan, error) {
	d, err := d.Resolve()
	if err != nil {
		return nil, nil, err
	}
	cat := relations{svc: s, bound: bound, next: next, seen: map[string]boundView{}}
	plan, err := s.compileIn(d, cat)
	if err != nil {
		return nil, nil, err
	}
	doc := &stored{Definition: d, Version: 1, ViewVersion: 1, Fields: storeFields(plan.Columns)}
	if err := doc.bindBeneath(plan, cat.seen); err != nil {
		return nil, nil, err
	}
	if d.Start == StartLatest {
		doc.StartAt = s.log.End()
	}
	for _, src := range plan.Sources {
		st, ok := s.Registry.ByID(src.Stream)
		if !ok {
			return nil, nil, problem.New(422, "unknown_stream", "the stream %q was deleted meanwhile", src.Name)
		}
		rel, _ := cat.Relation(st.Name)
		b := boundSource{
			Name: st.Name, ID: st.ID, Columns: len(st.Schema.Fields), Pinned: src.Pinned,
			MaxOutOfOrderness: st.Config.MaxOutOfOrderness.Micros(), IdleAdvance: *st.Config.IdleAdvance,
			Table: src.Table,
		}
		if i := slices.IndexFunc(bound, func(o boundSource) bool { return o.ID == b.ID }); i >= 0 {
			b.Columns, b.MaxOutOfOrderness, b.IdleAdvance = bound[i].Columns, bound[i].MaxOutOfOrderness, bound[i].IdleAdvance
		}
		if d.MaxOutOfOrderness != nil {
			b.MaxOutOfOrderness = d.MaxOutOfOrderness.Micros()
		}
		b.bindTypes(rel.Fields, src.Cols)
		if err := doc.options(&b, src); err != nil {
			return nil, nil, err
		}
		doc.Sources = append(doc.Sources, b)
	}
	doc.Retention = s.retention(doc)
	// What the engine can't run is refused now, not when the view starts.
	cfg := doc.engineConfig(false, nil)
	cfg.Functions = functions(plan)
	if _, err := engine.New(plan, cfg); err != nil {
		return nil, nil, err
	}
	return doc, plan, nil
}

// create makes a view that is not there; when another request was faster it returns that one's,
// with created false.
func (s *Service) create(kind catalog.Kind, name string, doc *stored, plan *query.Plan) (v *view, created bool, err error) {
	s.mu.Lock()
	if v, ok := s.mu.views[name]; ok {
		s.mu.Unlock()
		if v.kind != kind {
			return nil, false, catalog.NameTaken(name, v.kind)
		}
		return v, false, nil
	}
	e, err := s.Catalog.Put(kind, name, mustJSON(doc), 0)
	if err == nil {
		v, err = s.load(e)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, false, err
	}
	v.setPlan(plan)
	v.ops.Lock() // before others can find it: nobody starts it while its first rows are made
	defer v.ops.Unlock()
	s.mu.views[name] = v
	s.mu.Unlock()
	// A stream that was deleted since the SQL was bound did not know of the view yet.
	if err := s.sourcesThere(doc); err != nil {
		s.forget(v)
		_, derr := s.Catalog.Delete(kind, name)
		return nil, false, errors.Join(err, derr)
	}
	v.firstRows(doc)
	v.start()
	s.wakePumps()
	return v, true, nil
}

// firstRows commits what a new view has before it has read anything, so that it is there when the
// request is answered (N1). Where that fails the worker, which begins next, says why.
func (v *view) firstRows(doc *stored) {
	_ = protect(func() {
		if w, err := v.newWorker(doc, true); err == nil {
			_ = w.commitFirst()
			w.close()
		}
	})
}

func (s *Service) sourcesThere(doc *stored) error {
	for _, b := range doc.Sources {
		if _, ok := s.Registry.ByID(b.ID); !ok {
			return problem.New(422, "unknown_stream", "the stream %q was deleted meanwhile", b.Name).
				WithHint("make the stream again, then the view")
		}
	}
	return nil
}

func (s *Service) forget(v *view) {
	s.mu.Lock()
	delete(s.mu.views, v.name)
	s.mu.Unlock()
	v.mu.Lock()
	v.mu.gone = true
	v.notifyLocked()
	v.mu.Unlock()
}

// edit gives a view another definition.
func (v *view) edit(_ context.Context, doc *stored, plan *query.Plan, dryRun bool) (Info, bool, error) {
	v.ops.Lock()
	defer v.ops.Unlock()
	if v.deleted() {
		return Info{}, false, unknownView(v.name)
	}
	old := v.document()
	next := v.revise(old, doc)
	var readers []rebound
	if next != nil && next.Version != old.Version {
		var err error
		if readers, err = v.svc.rebind(v, next); err != nil {
			return Info{}, false, err
		}
	}
	if next == nil {
		info, err := v.info()
		if dryRun {
			info.DryRun = foresee(old, nil)
		}
		return info, false, err
	}
	if dryRun {
		info := v.svc.draft(v.kind, v.name, next, plan)
		info.DryRun = foresee(old, next)
		for _, r := range readers {
			info.DryRun.Rebuilt = append(info.DryRun.Rebuilt, string(r.v.kind)+" "+r.v.name)
		}
		return info, false, nil
	}
	v.stop(errEdited)
	if now := v.document(); now != old { // an edit that was being built has just been finished
		old, next = now, v.revise(now, doc)
	}
	if err := v.svc.sourcesThere(next); err != nil {
		v.start()
		return Info{}, false, err
	}
	v.setPlan(plan)
	if err := v.replace(old, next); err != nil {
		return Info{}, false, err
	}
	for _, r := range readers {
		if err := r.adopt(); err != nil {
			return Info{}, false, err
		}
	}
	info, err := v.info()
	return info, false, err
}

// revise is the document that comes of giving the view doc's definition, or nil when it has it.
func (v *view) revise(old, doc *stored) *stored {
	next := *old
	switch {
	case old.sameViews(doc) && old.sameTypes(doc) && old.Definition.equal(doc.Definition) && bytes.Equal(old.Extra, doc.Extra):
		return nil
	case old.sameViews(doc) && old.sameTypes(doc) && old.Definition.sameRows(doc.Definition):
		next.Definition, next.Extra, next.Retention = doc.Definition, doc.Extra, doc.Retention
	default:
		next = *doc
		next.ViewVersion = old.ViewVersion + 1
		next.besides(old)
	}
	return &next
}

// besides makes a document one that is built while what old serves goes on.
func (d *stored) besides(old *stored) {
	d.Version, d.Paused, d.Serving = old.Version+1, old.Paused, old.Serving
	if d.Serving == nil {
		served := *old
		d.Serving = &served
	}
}

// Rebuild replays a view from its start beside the live one, and then switches: the same rows, as
// far as the program is the same. What differs is one more epoch of its change stream. It is also
// how a view that has failed is tried again from its start.
func (s *Service) Rebuild(_ context.Context, name string) (Info, error) {
	v, release, err := s.hold(name)
	if err != nil {
		return Info{}, err
	}
	defer release()
	if err := v.mayRebuild(v.document()); err != nil {
		return Info{}, err
	}
	v.stop(errEdited)
	old := v.document()
	next := *old
	next.besides(old)
	if err := v.replace(old, &next); err != nil {
		return Info{}, err
	}
	return v.info()
}

// replace gives a view that stands still another document and lets it go on.
func (v *view) replace(old, next *stored) error {
	defer v.start()
	if err := v.save(next); err != nil {
		return err
	}
	if next.Version != old.Version && old.Serving != nil { // what was being built is overtaken
		b := v.svc.kv.NewBatch()
		dropVersion(b, v.id, old.Version)
		if err := b.Commit(true); err != nil {
			return err
		}
	}
	if err := v.forgetCrashes(); err != nil {
		return err
	}
	v.mu.Lock()
	v.mu.failed, v.mu.trouble, v.mu.edit = "", "", ""
	v.mu.Unlock()
	return nil
}

var (
	errEdited  = errors.New("the view is edited")
	errPaused  = errors.New("the view is paused")
	errDeleted = errors.New("the view is deleted")
	// errHandOver ends the version that is served when what was built beside it takes its place.
	errHandOver = errors.New("the view's next version takes over")
)

// save writes the view's document and makes it the present one. The caller holds ops.
func (v *view) save(doc *stored) error {
	e, err := v.svc.Catalog.Put(v.kind, v.name, mustJSON(doc), v.id)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.mu.doc = doc
	v.updated = e.Updated
	v.notifyLocked()
	v.mu.Unlock()
	return nil
}

// setPlan notes what users are shown of a plan.
func (v *view) setPlan(plan *query.Plan) {
	text := query.Explain(plan)
	columns := columnsOf(plan)
	v.mu.Lock()
	v.mu.explain, v.mu.warned, v.mu.columns = text, plan.Warnings, columns
	v.mu.Unlock()
}

// Delete removes a view with its rows, changes, late events and row errors. When it returns there
// is nothing left that a view of the same name could remember.
func (s *Service) Delete(ctx context.Context, name string) error {
	return s.DeleteKind(ctx, catalog.View, name)
}

// DeleteKind is Delete for a view with something attached.
func (s *Service) DeleteKind(ctx context.Context, kind catalog.Kind, name string) error {
	s.family.Lock()
	defer s.family.Unlock()
	defer s.judgeAnew()
	v, err := s.findKind(kind, name)
	if err != nil {
		return err
	}
	if readers := s.readers(name); len(readers) > 0 {
		return inUseBy(name, readers)
	}
	v.ops.Lock()
	defer v.ops.Unlock()
	if v.deleted() {
		return unknownView(name)
	}
	v.stop(errDeleted)
	v.gate.Lock()
	b := s.kv.NewBatch()
	for _, space := range viewSpaces {
		b.DeletePrefix(spaceKey(space, v.id))
	}
	if drop := s.attachments[kind].Drop; drop != nil {
		drop(b, v.id)
	}
	err = b.Commit(true)
	v.gate.Unlock()
	if err != nil {
		return err
	}
	if _, err := s.Catalog.Delete(kind, name); err != nil {
		return err
	}
	s.forget(v)
	s.dropFromSinks(ctx, changesRelation(name))
	return nil
}

// Pause ends a view's work until Resume, over restarts too. Its rows stay as they are.
func (s *Service) Pause(_ context.Context, name string) (Info, error) {
	return s.setPaused(name, true)
}

// Resume lets a view that was paused go on where it was, and tries a failed one again.
func (s *Service) Resume(_ context.Context, name string) (Info, error) {
	return s.setPaused(name, false)
}

func (s *Service) setPaused(name string, paused bool) (Info, error) {
	v, release, err := s.hold(name)
	if err != nil {
		return Info{}, err
	}
	defer release()
	doc := *v.document()
	if paused {
		v.stop(errPaused)
	}
	if doc.Paused != paused {
		doc.Paused = paused
		// The worker may have finished an edit while it was stopping.
		doc.Serving = v.document().Serving
		if err := v.save(&doc); err != nil {
			return Info{}, err
		}
	}
	if !paused {
		v.stop(errPaused)
		if err := v.forgetCrashes(); err != nil {
			return Info{}, err
		}
		v.mu.Lock()
		v.mu.failed, v.mu.trouble = "", ""
		v.mu.Unlock()
		v.start()
	}
	return v.info()
}

// streamNames are the names of the streams of a definition by number.
func (d *stored) streamNames() map[stream.ID]string {
	names := make(map[stream.ID]string, len(d.Sources))
	for _, b := range d.Sources {
		names[b.ID] = b.Name
	}
	return names
}

// Columns are the columns that a definition would have.
func (s *Service) Columns(d Definition) ([]row.Field, error) {
	d, err := d.Resolve()
	if err != nil {
		return nil, err
	}
	plan, err := s.compileIn(d, relations{svc: s})
	if err != nil {
		return nil, err
	}
	return plan.Columns, nil
}
