package runtime

import (
	"encoding/binary"

	"tidemark/stream"
)

// ChangeReader gives out the epochs of a view's change stream in order. It belongs to one
// goroutine and holds nothing open between two calls.
type ChangeReader struct {
	view  *view
	after stream.Position
	// whole says that after is a position the reader came to by itself, or the stream's beginning.
	whole bool
}

// Changes returns a reader of the epochs behind a position. The zero position is the beginning of
// the change stream; a receipt is taken as well. A position of another log or of another view, or older than the change stream, is a *Gap.
func (s *Service) Changes(name string, after stream.Position) (*ChangeReader, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	h, p := v.published()
	r := &ChangeReader{view: v, after: after}
	if after == (stream.Position{}) {
		r.after, r.whole = h.ChangesFrom, true
		r.after.Log = p.Position.Log
		return r, nil
	}
	r.after = v.inside(after)
	if r.after.Log != p.Position.Log || before(r.after, h.ChangesFrom) || r.after.Sequence > max(s.log.End(), p.Position.Sequence) {
		return nil, r.gap(h)
	}
	return r, nil
}

// Position is where the reader stands: everything up to it was given out.
func (r *ChangeReader) Position() stream.Position { return r.view.outside(r.after) }

func (r *ChangeReader) gap(h head) *Gap {
	h.ChangesFrom.Log = r.view.svc.log.ID()
	return &Gap{Oldest: r.view.outside(h.ChangesFrom)}
}

// Next returns the next epoch, or ok false when there is none now: Watch tells when to ask again.
// A view that was deleted is a problem 404. When the change stream has begun anew in front of the
// reader, or the reader's position lies inside an epoch, it is a *Gap.
func (r *ChangeReader) Next() (e *Epoch, ok bool, err error) {
	if e, ok, err = r.next(); ok {
		e.From, e.To = r.view.outside(e.From), r.view.outside(e.To)
	}
	return e, ok, err
}

// next is Next with positions as they are within the service.
func (r *ChangeReader) next() (e *Epoch, ok bool, err error) {
	v := r.view
	if v.deleted() {
		return nil, false, unknownView(v.name)
	}
	h, p := v.published()
	if r.after.Log != p.Position.Log || before(r.after, h.ChangesFrom) {
		return nil, false, r.gap(h)
	}
	if !before(r.after, p.Position) { // keeps R1: nothing behind what was published
		return nil, false, nil
	}
	lower := changeKey(v.id, stream.Position{Sequence: r.after.Sequence, Within: r.after.Within + 1})
	upper := changeKey(v.id, stream.Position{Sequence: p.Position.Sequence, Within: p.Position.Within + 1})
	it := v.svc.kv.Iter(lower, upper)
	if it.First() {
		k := it.Key()[9:]
		e, err = decodeEpoch(it.Value(), stream.Sequence(binary.BigEndian.Uint64(k)), int32(binary.BigEndian.Uint32(k[8:])))
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, false, err
	}
	if e == nil { // the epochs up to p changed nothing
		r.after, r.whole = p.Position, true
		return nil, false, nil
	}
	if !r.whole && before(e.From, r.after) {
		return nil, false, r.gap(h)
	}
	e.From.Log, e.To.Log = r.after.Log, r.after.Log // it may have been written under an identity that the log had before
	r.after, r.whole = e.To, true
	return e, true, nil
}

// before reports whether a lies before b in one log.
func before(a, b stream.Position) bool {
	return a.Sequence < b.Sequence || a.Sequence == b.Sequence && a.Within < b.Within
}
