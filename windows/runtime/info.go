package runtime

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"tidemark/storage/catalog"
	"tidemark/stream"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

// Info is what there is to say of a view: the answer of GET /v1/views/{name}.
type Info struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	ID   uint64 `json:"-"`
	Definition
	Extra json.RawMessage `json:"-"`
	State State           `json:"state"`
	// Reason says why the view failed, or what keeps it from going on, or why an edit of it could
	// not be built.
	Reason    string  `json:"reason,omitempty"`
	Watermark *string `json:"watermark"`
	// LagEvents counts the records of the streams whose effect is not in the rows yet (C8);
	// LagSeconds is how long ago the oldest of them was appended.
	LagEvents  int64           `json:"lag_events"`
	LagSeconds float64         `json:"lag_seconds"`
	Counts     engine.Counts   `json:"counts"`
	Rows       int64           `json:"rows"`
	Columns    []Column        `json:"columns"`
	Sources    []string        `json:"sources"`
	Position   string          `json:"position"`
	AsOf       AsOf            `json:"as_of"`
	Plan       string          `json:"plan"`
	Warnings   []query.Warning `json:"warnings"`
	// Rebuilding: an edit is being built beside the rows that are served.
	Rebuilding bool `json:"rebuilding,omitempty"`
	// Sealed are rows that can't be made again from the log (R4).
	Sealed *SealedInfo `json:"sealed,omitempty"`
	// Verified is how the last comparison with the batch answer ended; nil: there was none.
	Verified *Verified `json:"verified,omitempty"`
	// Created and Updated are left out of a dry run, which makes nothing.
	Created time.Time `json:"created,omitzero"`
	Updated time.Time `json:"updated,omitzero"`
	// DryRun, in the answer of a dry run, says what the definition would do.
	DryRun *DryRun `json:"dry_run,omitempty"`
}

// SealedInfo says how many rows are sealed: those of windows that begin before an instant, or of events
// that the log no longer has.
type SealedInfo struct {
	Rows   int64   `json:"rows"`
	Before *string `json:"windows_before,omitempty"`
}

func (p *progress) sealed() *SealedInfo {
	if p.Sealed == nil {
		return nil
	}
	out := &SealedInfo{Rows: p.Sealed.Rows}
	if p.WindowsFrom != nil {
		out.Before = instant(*p.WindowsFrom)
	}
	return out
}

// DryRun says what of a view would be kept, made anew and lost.
type DryRun struct {
	Kept    []string `json:"kept"`
	Rebuilt []string `json:"rebuilt"`
	Lost    []string `json:"lost"`
}

// foresee says what giving a view another document does. next is nil when it has it; old is nil
// when there is no view yet.
func foresee(old, next *stored) *DryRun {
	d := &DryRun{Kept: []string{}, Rebuilt: []string{}, Lost: []string{}}
	switch {
	case old == nil:
		d.Rebuilt = append(d.Rebuilt, "rows")
	case next == nil || next.Version == old.Version:
		d.Kept = append(d.Kept, "rows", "change stream", "late events", "row errors")
	default:
		d.Rebuilt = append(d.Rebuilt, "rows")
		d.Lost = append(d.Lost, "late events", "row errors")
		if slices.Equal(old.Fields, next.Fields) {
			d.Kept = append(d.Kept, "change stream")
		} else {
			d.Lost = append(d.Lost, "change stream")
		}
	}
	return d
}

// Column is a column of a view. A measure is no part of the row key: it is what a panel shows, and
// the others are what it shows it by.
type Column struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Measure bool   `json:"measure"`
	// Merge says how values of several rows make one: sum, min or max; empty where they can't.
	Merge string `json:"merge,omitempty"`
}

func columnsOf(plan *query.Plan) []Column {
	out := make([]Column, len(plan.Columns))
	merges := plan.Merges()
	for i, f := range plan.Columns {
		out[i] = Column{Name: f.Name, Type: f.Type.String(), Measure: !plan.Dimensions[i], Merge: merges[i]}
	}
	return out
}

// Get tells of a view or alert.
func (s *Service) Get(name string) (Info, error) {
	v, err := s.find(name)
	if err != nil {
		return Info{}, err
	}
	return v.info()
}

// GetKind tells of a view of one kind.
func (s *Service) GetKind(kind catalog.Kind, name string) (Info, error) {
	v, err := s.findKind(kind, name)
	if err != nil {
		return Info{}, err
	}
	return v.info()
}

// List tells of all views, by name.
func (s *Service) List() ([]Info, error) { return s.ListKind(catalog.View) }

// ListKind tells of all views of one kind, by name.
func (s *Service) ListKind(kind catalog.Kind) ([]Info, error) {
	out := []Info{}
	for _, v := range s.list() {
		if v.kind != kind {
			continue
		}
		info, err := v.info()
		if err != nil && !v.deleted() {
			return nil, err
		}
		if err == nil {
			out = append(out, info)
		}
	}
	return out, nil
}

// draft tells of a definition that is not kept.
func (s *Service) draft(kind catalog.Kind, name string, doc *stored, plan *query.Plan) Info {
	return Info{
		Name: name, Kind: string(kind), Definition: doc.Definition, Extra: doc.Extra, State: Building,
		Columns: columnsOf(plan), Sources: names(doc.Sources), Plan: query.Explain(plan), Warnings: warnings(plan.Warnings),
		AsOf: s.beginning(doc.ViewVersion).AsOf,
	}
}

func warnings(w []query.Warning) []query.Warning {
	if w == nil {
		return []query.Warning{}
	}
	return w
}

func (v *view) info() (Info, error) {
	v.mu.Lock()
	doc, p, h := v.mu.doc, v.mu.progress, v.mu.head
	info := Info{
		Name: v.name, Kind: string(v.kind), ID: v.id, Definition: doc.Definition, Extra: doc.Extra,
		State: v.stateLocked(), Watermark: instant(p.AsOf.Watermark), Counts: p.Counts, Rows: p.Rows,
		Columns: v.mu.columns, Sources: names(doc.Sources), Position: v.outside(p.Position).String(), AsOf: p.AsOf,
		Plan: v.mu.explain, Warnings: warnings(v.mu.warned), Rebuilding: doc.Serving != nil, Verified: v.mu.verified, Sealed: p.sealed(),
		Created: v.created, Updated: v.updated,
	}
	for _, why := range []string{v.mu.failed, v.mu.trouble, v.mu.edit} {
		if info.Reason == "" {
			info.Reason = why
		}
	}
	served := doc
	if doc.Serving != nil && h.Version == doc.Serving.Version {
		served = doc.Serving
	}
	v.mu.Unlock()
	if info.Columns == nil { // paused since before the start: nothing was compiled yet
		for _, f := range doc.Fields {
			info.Columns = append(info.Columns, Column{Name: f.Name, Type: f.Type})
		}
	}
	var err error
	info.LagEvents, info.LagSeconds, err = v.svc.lag(served, p)
	return info, err
}

// maxControls is how many control records lag counts one by one.
const maxControls = 10_000

// lag counts the records of a view's streams behind its progress, against the log's end now (C8).
// Events are told from the offsets; the control records, which have none, are counted when no event
// is behind.
func (s *Service) lag(doc *stored, p progress) (records int64, seconds float64, err error) {
	for _, b := range doc.Sources {
		st, err := s.log.Stats(b.ID)
		if errors.Is(err, stream.ErrUnknownStream) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		offsets := p.AsOf.Offsets[b.Name]
		for n, part := range st.Partitions {
			taken := part.First
			if n < len(offsets) {
				taken = max(taken, offsets[n])
			}
			records += max(0, int64(part.Next-taken))
		}
	}
	r := s.log.Read(doc.ids(), p.Position.Sequence)
	defer r.Close()
	first, ok, err := r.Next()
	var gone *stream.Trimmed
	if errors.As(err, &gone) { // the oldest of them are no longer there
		m, err := s.log.Mark(gone.Stream)
		return max(1, records), max(0, float64(s.Now().UnixMicro()-m.AppendTime)/1e6), err
	}
	if err != nil || !ok {
		return records, 0, err
	}
	seconds = max(0, float64(s.Now().UnixMicro()-first.AppendTime())/1e6)
	if records > 0 {
		return records, seconds, nil
	}
	for e := first; ok && err == nil && records < maxControls; e, ok, err = r.Next() {
		if e.Control != nil {
			records++
		} else {
			records += int64(e.Batch.Len)
		}
	}
	return records, seconds, err
}
