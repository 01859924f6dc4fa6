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
// the change stream. A position of another log, or older than the change stream, is a *Gap.
func (s *Service) Changes(name string, after stream.Position) (*ChangeReader, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	h, p := v.published()
	r := &ChangeReader{view: v, after: after}
	if after == (stream.Position{}) {
		r.after, r.whole = h.ChangesFrom, true
		r.after.Log = s.log.ID()
		return r, nil
	}
	if after.Log != s.log.ID() || before(after, h.ChangesFrom) || after.Sequence > max(s.log.End(), p.Position.Sequence) {
		return nil, &Gap{Oldest: h.ChangesFrom}
	}
	return r, nil
}

// Position is where the reader stands: everything up to it was given out.
func (r *ChangeReader) Position() stream.Position { return r.after }

// Next returns the next epoch, or ok false when there is none now: Watch tells when to ask again.
// A view that was deleted is a problem 404. When the change stream has begun anew in front of the
// reader, or the reader's position lies inside an epoch, it is a *Gap.
func (r *ChangeReader) Next() (e *Epoch, ok bool, err error) {
	v := r.view
	if v.deleted() {
		return nil, false, unknownView(v.name)
	}
	h, p := v.published()
	if before(r.after, h.ChangesFrom) {
		return nil, false, &Gap{Oldest: h.ChangesFrom}
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
		return nil, false, &Gap{Oldest: h.ChangesFrom}
	}
	r.after, r.whole = e.To, true
	return e, true, nil
}

// before reports whether a lies before b in one log.
func before(a, b stream.Position) bool {
	return a.Sequence < b.Sequence || a.Sequence == b.Sequence && a.Within < b.Within
}
