package runtime

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

// boundView is a view as it was when the SQL of another was bound that reads it: all that its rows
// depend on.
type boundView struct {
	Name            string         `json:"name"`
	ID              uint64         `json:"id"`
	Kind            catalog.Kind   `json:"kind"`
	SQL             string         `json:"sql"`
	AllowedLateness windows.Micros `json:"allowed_lateness_micros"`
	EmitFinal       bool           `json:"emit_final,omitempty"`
	Start           string         `json:"start,omitempty"`
	Fields          []storedField  `json:"columns"`
	Sources         []boundSource  `json:"sources"`
	Views           []boundView    `json:"views,omitempty"`
}

// bindView is what another view holds of this one.
func (v *view) bindView(doc *stored) boundView {
	b := boundView{
		Name: v.name, ID: v.id, Kind: v.kind, SQL: doc.Definition.SQL, EmitFinal: doc.Definition.Emit == EmitFinal,
		Start: doc.Definition.Start, Fields: doc.Fields, Sources: doc.Sources, Views: doc.Views,
	}
	if doc.Definition.Late != LateDrop {
		b.AllowedLateness = doc.Definition.AllowedLateness.Micros()
	}
	return b
}

// relation is the view as a relation of a query.
func (b *boundView) relation(s *Service) (query.Relation, error) {
	fields, err := loadFields(b.Fields)
	return query.Relation{Name: b.Name, Kind: string(b.Kind), Fields: fields, View: &query.View{
		SQL: b.SQL, Within: relations{svc: s, fixed: true, bound: b.Sources, views: b.Views},
		AllowedLateness: b.AllowedLateness, EmitFinal: b.EmitFinal,
	}}, err
}

// findBound finds a view by name among those beneath.
func findBound(views []boundView, name string) *boundView {
	for i := range views {
		if strings.EqualFold(views[i].Name, name) {
			return &views[i]
		}
		if b := findBound(views[i].Views, name); b != nil {
			return b
		}
	}
	return nil
}

// depth is how many views lie under each other.
func depth(views []boundView) int {
	most := 0
	for _, b := range views {
		most = max(most, 1+depth(b.Views))
	}
	return most
}

// bindBeneath notes the views that a plan reads, and refuses what can't be between them. seen are
// those that the text named.
func (d *stored) bindBeneath(plan *query.Plan, seen map[string]boundView) error {
	for _, below := range plan.Beneath {
		if b, ok := seen[strings.ToLower(below.Name)]; ok {
			d.Views = append(d.Views, b)
		}
	}
	if len(plan.Beneath) == 0 {
		return nil
	}
	if d.Definition.Start != StartEarliest {
		return problem.New(422, "bad_option", `"start" is %q, and the SQL reads the view %s`, d.Definition.Start, plan.Beneath[0].Name).
			WithHint(`a view that reads a view begins with the first event: leave "start" out`)
	}
	for _, below := range plan.Beneath {
		if b := findBound(d.Views, below.Name); b != nil && b.Start != "" && b.Start != StartEarliest {
			return problem.New(422, "unsupported_sql", "the view %s begins at %s; a view over it isn't supported yet", b.Name, b.Start).
				WithHint("read a view that begins with the first event, or put its SQL here as a subquery and its start into this definition")
		}
	}
	return nil
}

// options settles what the watermark of a source depends on: the options of the view through which
// it is read, else its own.
func (d *stored) options(b *boundSource, src query.Source) error {
	first := true
	for _, via := range src.Via {
		given := *b // of the text itself
		if via != "" {
			v := findBound(d.Views, via)
			if v == nil {
				continue
			}
			i := slices.IndexFunc(v.Sources, func(o boundSource) bool { return o.ID == b.ID })
			if i < 0 {
				continue
			}
			given = v.Sources[i]
			if own := d.Definition.MaxOutOfOrderness; own != nil && own.Micros() != given.MaxOutOfOrderness {
				return problem.New(422, "bad_option", `"max_out_of_orderness" is %s, and the view %s reads %s with %s`,
					own, via, b.Name, stream.Duration(given.MaxOutOfOrderness*1000)).
					WithHint("lateness is judged where events enter: set it on that view, and leave it out here")
			}
		}
		if !first && (given.MaxOutOfOrderness != b.MaxOutOfOrderness || given.IdleAdvance != b.IdleAdvance) {
			return problem.New(422, "unsupported_sql", "%s is read twice, with different options for its watermark (max_out_of_orderness, idle_advance)", b.Name).
				WithHint("give the views that are read the same ones")
		}
		b.MaxOutOfOrderness, b.IdleAdvance, first = given.MaxOutOfOrderness, given.IdleAdvance, false
	}
	return nil
}

// functions are the options of the window functions that belong to views beneath; those views tell
// of their late events.
func functions(plan *query.Plan) map[int]engine.Function {
	var out map[int]engine.Function
	for _, b := range plan.Beneath {
		for i := range b.Functions {
			if out == nil {
				out = map[int]engine.Function{}
			}
			out[b.First+i] = engine.Function{AllowedLateness: b.AllowedLateness, Quiet: true}
		}
	}
	return out
}

// sameViews reports whether two documents read the same views with the same definitions.
func (d *stored) sameViews(o *stored) bool {
	return bytes.Equal(mustJSON(d.Views), mustJSON(o.Views))
}

// readers are the views that read a view, those that they are read by behind them.
func (s *Service) readers(name string) []*view {
	var out []*view
	for _, v := range s.list() {
		doc := v.document()
		if findBound(doc.Views, name) != nil || doc.Serving != nil && findBound(doc.Serving.Views, name) != nil {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b *view) int { return cmp.Compare(depth(a.document().Views), depth(b.document().Views)) })
	return out
}

// inUseBy is the problem of a view that others read.
func inUseBy(name string, readers []*view) error {
	names := make([]string, len(readers))
	for i, r := range readers {
		names[i] = r.name
	}
	return problem.New(409, "in_use", "%s is read by %s", name, strings.Join(names, ", ")).
		WithHint("delete or change %s first", strings.Join(names, " and "))
}

// rebound is a view with the document that an edit beneath it gives it.
type rebound struct {
	v    *view
	doc  *stored
	plan *query.Plan
}

// rebind works out what an edit of a view does to those that read it; it is refused where one of
// them could not go on.
func (s *Service) rebind(edited *view, doc *stored) ([]rebound, error) {
	next := map[string]*stored{edited.name: doc}
	var out []rebound
	for _, r := range s.readers(edited.name) {
		old := r.document()
		doc, plan, err := s.bindAmong(old.Definition, next, old.Sources)
		if err != nil {
			p := problem.From(err)
			if p.Status >= 500 {
				return nil, err
			}
			return nil, problem.New(409, "in_use", "%s is read by %s, which could not go on: %s", edited.name, r.name, p.Detail).
				WithHint("change %s first", r.name)
		}
		doc.Extra = old.Extra
		next[r.name] = doc
		out = append(out, rebound{r, doc, plan})
	}
	return out, nil
}

// adopt gives a view the document that an edit beneath it made.
func (r rebound) adopt() error {
	v := r.v
	v.ops.Lock()
	defer v.ops.Unlock()
	if v.deleted() {
		return nil
	}
	v.stop(errEdited)
	old := v.document()
	next := v.revise(old, r.doc)
	if next == nil {
		v.start()
		return nil
	}
	v.setPlan(r.plan)
	return v.replace(old, next)
}

// catchUp gives the views on views the definitions that those beneath them have now: an edit may
// have been cut short by the end of the process.
func (s *Service) catchUp() error {
	views := s.list()
	slices.SortStableFunc(views, func(a, b *view) int { return cmp.Compare(depth(a.document().Views), depth(b.document().Views)) })
	for _, v := range views {
		old := v.document()
		stale := slices.ContainsFunc(old.Views, func(b boundView) bool {
			inner, err := s.find(b.Name)
			return err == nil && !bytes.Equal(mustJSON(b), mustJSON(inner.bindView(inner.document())))
		})
		if !stale {
			continue
		}
		doc, _, err := s.bindAmong(old.Definition, nil, old.Sources)
		if err != nil {
			s.logger.Warn("a view goes on with an older definition of a view that it reads", "view", v.name, "err", err)
			continue
		}
		doc.Extra = old.Extra
		if next := v.revise(old, doc); next != nil {
			if err := v.save(next); err != nil {
				return errors.Join(errors.New("follow an edit beneath "+v.name), err)
			}
		}
	}
	return nil
}
