package runtime

import (
	"encoding/json"
	"errors"
	"strings"

	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/query"
)

// Proof is what is needed to work out what a view's rows should be: everything that its owner and
// the log decide, and nothing of its state.
type Proof struct {
	Name string
	// ID is the view's own number: a view made anew under the name has another.
	ID          uint64
	Version     uint32 // what was built of the view; a rebuild or an edit raises it
	ViewVersion int
	Definition  Definition
	Sources     []ProofSource
	Streams     []windows.TrackedStream
	// AllowedLateness is 0 with late: drop.
	AllowedLateness windows.Micros
	// EventsFrom, WindowsFrom and StartAt say where the view begins (R2). What follows from StartAt is left
	// to be worked out.
	EventsFrom, WindowsFrom *windows.Micros
	StartAt                 stream.Sequence
	// Sealed are rows that a rebuild could not make again (R4).
	Sealed *Sealed
	// Catalog has the streams as they were when the view was made (R1).
	Catalog query.Catalog
	// Position is how far the view is, and Panics how many events made an operator panic up to there.
	Position stream.Position
	Panics   int64
	// Compile makes a plan; each has expressions of its own.
	Compile func() (*query.Plan, error)
}

// ProofSource is a stream that a view reads.
type ProofSource struct {
	Name string
	ID   stream.ID
}

// Proof tells of the definition whose rows are served.
func (s *Service) Proof(name string) (*Proof, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	h, at := v.published()
	return v.proof(v.served(h.Version), h.Version, at), nil
}

// served is the definition of a version.
func (v *view) served(version uint32) *stored {
	doc := v.document()
	if doc.Serving != nil && doc.Version != version {
		return doc.Serving
	}
	return doc
}

func (v *view) proof(doc *stored, version uint32, at progress) *Proof {
	s := v.svc
	startAt, windowsFrom := doc.StartAt, (*windows.Micros)(nil)
	if at.Sealed != nil {
		startAt, windowsFrom = 0, at.WindowsFrom
	}
	cfg := doc.engineConfig(false, windowsFrom)
	p := &Proof{
		Name: v.name, ID: v.id, Position: at.Position, Panics: at.Poisoned, Version: version, ViewVersion: int(doc.ViewVersion), Definition: doc.Definition, Streams: cfg.Streams,
		AllowedLateness: cfg.AllowedLateness, EventsFrom: cfg.EventsFrom, WindowsFrom: cfg.WindowsFrom, StartAt: startAt, Sealed: at.Sealed, Catalog: relations{svc: s, fixed: true, bound: doc.Sources, views: doc.Views},
		Compile: func() (*query.Plan, error) { return s.compile(doc) },
	}
	if doc.Definition.Late == LateDrop {
		p.AllowedLateness = 0
	}
	for _, b := range doc.Sources {
		p.Sources = append(p.Sources, ProofSource{strings.ToLower(b.Name), b.ID})
	}
	return p
}

// each decodes the JSON values under a prefix.
func each[T any](snap *kv.Snapshot, prefix []byte, f func(T)) error {
	return between(snap, prefix, kv.PrefixEnd(prefix), f)
}

// between decodes the JSON values of the keys in [from, to).
func between[T any](snap *kv.Snapshot, from, to []byte, f func(T)) error {
	it := snap.Iter(from, to)
	var err error
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var v T
		if err = json.Unmarshal(it.Value(), &v); err == nil {
			f(v)
		}
	}
	return errors.Join(err, it.Close())
}

// Verified is how the last comparison of a view with its batch answer ended.
type Verified struct {
	// Result is equal, different or cannot_tell, Reason why not, for the last.
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
	// At is when it ended; Position, Rows and ViewVersion are what was compared.
	At          string `json:"at"`
	Position    string `json:"position"`
	Rows        int    `json:"rows"`
	ViewVersion int    `json:"view_version"`
	Differences int    `json:"differences"`
}

// SetVerified keeps how a comparison ended, over restarts, until the view is deleted.
func (s *Service) SetVerified(name string, r Verified) error {
	v, release, err := s.hold(name) // a view that is being deleted is not written to
	if err != nil {
		return err
	}
	defer release()
	b := s.kv.NewBatch()
	b.Set(verifiedKey(v.id), mustJSON(r))
	if err := b.Commit(false); err != nil {
		return err
	}
	v.mu.Lock()
	v.mu.verified = &r
	v.mu.Unlock()
	return nil
}

// Readers are the views and alerts whose served rows are made of a stream, by name.
func (s *Service) Readers(id stream.ID) []string {
	var out []string
	for _, v := range s.list() {
		h, _ := v.published()
		for _, b := range v.served(h.Version).Sources {
			if b.ID == id {
				out = append(out, v.name)
				break
			}
		}
	}
	return out
}

// Panics are the events that a view left out because an operator panicked at them (E2), with what
// its list of row errors says.
func (s *Service) Panics(name string) (map[stream.ID]map[stream.Place]string, error) {
	v, snap, h, p, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	out := map[stream.ID]map[stream.Place]string{}
	if p.Poisoned == 0 {
		return out, nil
	}
	ids := map[string]stream.ID{}
	for _, b := range v.served(h.Version).Sources {
		ids[b.Name] = b.ID
	}
	err = each(snap, errorsKey(v.id, h.Version), func(r rowError) {
		if r.Code != "internal" {
			return
		}
		id := ids[r.Stream]
		if out[id] == nil {
			out[id] = map[stream.Place]string{}
		}
		out[id][stream.Place{Partition: r.Partition, Offset: r.Offset}] = r.Message
	})
	return out, err
}
