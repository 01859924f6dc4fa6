package runtime

import (
	"errors"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// outside is a position as users carry it: it has the view's identity mixed into the log's, so that
// a position of a view that was deleted is none of the view that has its name now. The same again
// gives the position within the service.
func (v *view) outside(p stream.Position) stream.Position {
	p.Log = p.Log.Of(v.id)
	return p
}

// inside is a position that a user gave: one of the view, or a receipt.
func (v *view) inside(p stream.Position) stream.Position {
	if p.Log == v.svc.log.ID() {
		return p
	}
	return v.outside(p)
}

// ofTheLog reports whether a position says a place in the log there is: a receipt, or a position of
// one of the views.
func (s *Service) ofTheLog(p stream.Position) bool {
	if p.Log == s.log.ID() {
		return true
	}
	for _, v := range s.list() {
		if v.outside(p).Log == s.log.ID() {
			return true
		}
	}
	return false
}

// shared says up to which sequence the log is the one that has another identity.
func (s *Service) shared(id stream.LogID) (stream.Sequence, bool) {
	if log, ok := s.log.(interface {
		Shares(stream.LogID) (stream.Sequence, bool)
	}); ok {
		return log.Shares(id)
	}
	return 0, false
}

// adopt takes a view over that was made of a log with another identity: the data directory was
// restored, or a loss was accepted. What was made of the part that both logs have goes on under the
// new identity. What had read further is made again from the log, beside the rows that are there; so
// is what has its state in a format of an earlier program.
func (v *view) adopt(doc *stored, h *head) error {
	s := v.svc
	b := s.kv.NewBatch()
	next := *doc
	err := func() error {
		if doc.Version != h.Version {
			if _, err := v.adoptVersion(b, doc.Version, true); err != nil {
				return err
			}
			if v.old(doc.Version) {
				dropVersion(b, v.id, doc.Version)
			}
		}
		stale, err := v.adoptVersion(b, h.Version, false)
		if err != nil {
			return err
		}
		if !stale && h.ChangesFrom.Log != s.log.ID() {
			h.ChangesFrom.Log = s.log.ID()
			b.Set(headKey(v.id), mustJSON(h))
		}
		if (stale || v.old(h.Version)) && doc.Serving == nil {
			if !s.reachesBack(doc) {
				return nil // the worker says why the view can't go on
			}
			next.besides(doc)
		}
		next.StartAt = min(next.StartAt, s.log.End())
		return nil
	}()
	if err != nil || b.Empty() && next.Version == doc.Version && next.StartAt == doc.StartAt {
		b.Discard()
		return err
	}
	if err := b.Commit(true); err != nil {
		return err
	}
	*doc = next
	_, err = s.Catalog.Put(v.kind, v.name, mustJSON(doc), v.id)
	return err
}

// adoptVersion takes over one version; stale says that it can't be. One that is only being built is
// then thrown away.
func (v *view) adoptVersion(b *kv.Batch, version uint32, built bool) (stale bool, err error) {
	s := v.svc
	p, err := getJSON[progress](s.kv, progressKey(v.id, version))
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	if err != nil || p.Position.Log == s.log.ID() {
		return false, err
	}
	if upTo, ok := s.shared(p.Position.Log); !ok || p.Position.Sequence > upTo {
		s.logger.Warn("a view has read events that are no longer in the log", "view", v.name, "sequence", p.Position.Sequence, "shared_up_to", upTo)
		if built {
			dropVersion(b, v.id, version)
		}
		return true, nil
	}
	p.Position.Log = s.log.ID()
	for i := range p.Marks {
		p.Marks[i].Position.Log = s.log.ID()
	}
	b.Set(progressKey(v.id, version), mustJSON(p))
	return false, nil
}

// reachesBack reports whether the log still holds everything that a definition reads.
func (s *Service) reachesBack(doc *stored) bool {
	ids := doc.ids()
	r := s.log.Read(ids, 0)
	defer r.Close()
	for _, id := range ids {
		if r.Start(id).Sequence > doc.StartAt {
			return false
		}
	}
	return true
}

// stale reports whether the rows that are served are of a log that is no longer there.
func (v *view) stale() bool {
	_, p := v.published()
	return p.Position.Log != v.svc.log.ID()
}
