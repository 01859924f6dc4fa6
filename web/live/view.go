package live

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"tidemark/storage/problem"
	"tidemark/stream"
)

const (
	// maxSnapshotRows is how many rows one part of a snapshot holds.
	maxSnapshotRows = 10_000
	// maxFolded ends a folded message, at the next boundary of an epoch, so that a reader who was
	// away for long gets it in pieces.
	maxFolded = 10_000
	// moveEvery is how often a moving range moves.
	moveEvery = time.Second
)

// viewReader follows the change stream of one view.
type viewReader struct {
	watched
	hub     *Hub
	name    string
	op      op // what is selected
	changes follower
	sel     *selection
	// position and asOf are what its clients have.
	position stream.Position
	asOf     json.RawMessage
	// skip leaves out the epochs up to this sequence (from a time).
	skip stream.Sequence
	// raw gives every epoch its own message: "fold":false, and history while it is replayed.
	raw, history bool
	goal         stream.Position // where the view stood when the subscription began
	framed       time.Time
	moved        time.Time
}

// newViewReader returns a reader without a place.
func newViewReader(h *Hub, rel Relation, o op, raw bool) *viewReader {
	r := &viewReader{hub: h, name: rel.Name, op: o, raw: raw}
	arrived, stop := h.opts.Views.Watch(rel.Name)
	shared, leave := h.follow(rel)
	r.changes = follower{views: h.opts.Views, tail: shared}
	r.watched = watched{arrived, func() { stop(); leave() }}
	return r
}

// view begins to follow a view: folded unless the client wants every epoch.
func (s *subscription) view(ctx context.Context, from start) (reader, error) {
	r := newViewReader(s.hub, s.rel, s.op, s.raw())
	if err := r.start(ctx, s, from); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *viewReader) at() stream.Position { return r.position }
func (r *viewReader) reached() bool       { return !before(r.position, r.goal) }
func (r *viewReader) progress() *content  { return progressContent(r.position, r.asOf, 0) }

// start finds the place to read from, answers the subscription and sends the snapshot, if any.
func (r *viewReader) start(ctx context.Context, s *subscription, from start) error {
	views := r.hub.opts.Views
	head, err := views.Head(r.name)
	if err != nil {
		return err
	}
	r.goal = head.Position
	if from.kind == "" || from.kind == "snapshot" {
		return r.snapshot(ctx, s, "")
	}
	if r.sel, err = newSelection(r.hub, r.op, head.Fields); err != nil {
		return err
	}
	switch from.kind {
	case "latest":
		if r.sel.keeps { // what leaves the selection later must be known now
			snap, err := r.hub.snapshot(r)
			if err != nil {
				return err
			}
			r.sel = snap.reader.sel.borrow()
			head.Position, head.AsOf = snap.reader.position, snap.reader.asOf
		}
		r.position, r.asOf = head.Position, head.AsOf
		r.changes.at = r.position
	case "earliest", "time":
		if from.kind == "time" {
			if r.sel.keeps {
				return problem.New(400, "bad_from", "a selection with a limit or a moving range can't start at an instant").
					WithHint(`subscribe from "snapshot"`)
			}
			if r.skip, err = r.sequenceAt(head, from.time); err != nil {
				return err
			}
		}
		r.history = true
		if r.changes.own, err = views.Changes(r.name, nil); err == nil {
			r.position = r.changes.own.Position()
		}
	case "position":
		if r.sel.keeps { // which rows the client holds can't be known
			return r.snapshot(ctx, s, from.text)
		}
		r.position = from.at
		if r.changes.own, err = views.Changes(r.name, &r.position); errors.As(err, new(*Gap)) {
			return r.snapshot(ctx, s, from.text)
		}
	}
	if err != nil {
		return err
	}
	return s.subscribed(ctx, r.position.String(), true)
}

// sequenceAt is the place in the log at which an instant began, as the view's streams saw it.
func (r *viewReader) sequenceAt(head Head, at stream.Micros) (stream.Sequence, error) {
	var asOf struct {
		Offsets map[string]json.RawMessage `json:"offsets"`
	}
	if err := json.Unmarshal(head.AsOf, &asOf); err != nil {
		return 0, err
	}
	var ids []stream.ID
	for name := range asOf.Offsets {
		rel, err := r.hub.opts.Relations(name)
		if err != nil {
			return 0, err
		}
		ids = append(ids, stream.ID(rel.ID))
	}
	return r.hub.sequenceAt(ids, at)
}

// snapshot sends the rows as they are, and goes on from there. gone, when not empty, is the
// position that could not be gone on from. Called again, it begins anew.
func (r *viewReader) snapshot(ctx context.Context, s *subscription, gone string) error {
	snap, err := r.hub.snapshot(r)
	if err != nil {
		return err
	}
	r.sel = snap.reader.sel.borrow()
	r.position, r.asOf = snap.reader.position, snap.reader.asOf
	r.changes = follower{views: r.changes.views, tail: r.changes.tail, at: r.position}
	position := r.position.String()
	if !s.answered {
		if err := s.subscribedBefore(ctx, position, gone == ""); err != nil {
			return err
		}
	}
	if gone != "" {
		if err := s.gap(ctx, gone, position); err != nil {
			return err
		}
	}
	for _, part := range snap.parts {
		if err := s.emit(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// part makes one part of a snapshot. Who has not got them all does not stand at its position.
func (r *viewReader) part(rows []*selected, more bool) *content {
	c := positioned("snapshot", r.position)
	c.numbered = true
	b := append(appendAsOf(c.rest, r.asOf), `,"rows":[`...)
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, row.json...)
	}
	b = append(b, `],"statuses":[`...)
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), row.status.String()...), '"')
	}
	c.rest = b
	if more {
		c.position = nil
		return c.end(`],"more":true}`)
	}
	return c.end("]}")
}

func (r *viewReader) skipGap(ctx context.Context, s *subscription) error {
	return r.snapshot(ctx, s, r.position.String())
}

// next makes a message of what has been committed since the last one: of all of it when it folds,
// else of one epoch.
func (r *viewReader) next(_ int, limit *stream.Position) (c *content, caughtUp bool, err error) {
	was, wasOf := r.position, r.asOf
	defer func() {
		if err != nil { // what was read since was not given out; a row that is kept may be taken in again
			r.position, r.asOf = was, wasOf
			r.changes = follower{views: r.changes.views, tail: r.changes.tail, at: was}
		}
	}()
	var sum folder
	var head *Head
	for sum.taken < maxFolded {
		e, err := r.changes.next(limit)
		if err != nil {
			return nil, false, err
		}
		if e == nil && limit == nil && head == nil {
			// The head is taken before the epochs are read to their end: what lies up to it has been
			// read then.
			h, err := r.hub.opts.Views.Head(r.name)
			if err != nil {
				return nil, false, err
			}
			head = &h
			continue
		}
		if e == nil {
			caughtUp = true
			break
		}
		r.position, r.asOf = e.To, e.AsOf
		if e.Changes == nil || e.To.Sequence <= r.skip {
			continue
		}
		out, err := r.sel.take(e)
		if err != nil {
			return nil, false, err
		}
		if r.raw || r.history {
			if c := r.frame(r.sel.settle(out)); c != nil {
				return c, false, nil
			}
			continue
		}
		sum.add(out)
		if r.sel.keeps {
			sum.taken += len(e.Changes.Ops)
		}
	}
	out := sum.changes()
	r.hub.stats.FoldedChanges.Add(int64(sum.seen - len(out)))
	switch { // the epochs up to there changed no row
	case caughtUp && limit != nil && before(r.position, *limit):
		r.position = *limit
	case caughtUp && limit == nil && before(r.position, head.Position):
		r.position, r.asOf = head.Position, head.AsOf
	}
	r.history = r.history && !caughtUp // what was replayed is through
	r.moved = time.Now()
	return r.frame(r.sel.settle(out)), caughtUp, nil
}

// frame is a message of changes; none are no message.
func (r *viewReader) frame(changes []change) *content {
	if len(changes) == 0 {
		return nil
	}
	c := positioned("changes", r.position)
	c.numbered = true
	b := append(appendAsOf(c.rest, r.asOf), `,"changes":[`...)
	for i, one := range changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = one.append(b)
	}
	c.rest = b
	r.framed = time.Now()
	return c.end("]}")
}

// due is when a moving range is to move.
func (r *viewReader) due() time.Duration {
	if !r.sel.moving {
		return time.Hour
	}
	return max(0, moveEvery-time.Since(r.moved))
}

// patience keeps a folded reader at its least time between two messages.
func (r *viewReader) patience() time.Duration {
	if r.raw || r.history {
		return 0
	}
	return max(0, r.hub.opts.FoldEvery-time.Since(r.framed))
}

// meet is the difference between what two readers show of the same rows: a moving range has not
// moved at the same instant for both. Who is told it shows what the other one shows.
func (r *viewReader) meet(other reader) *content {
	o := other.(*viewReader)
	if !r.sel.keeps {
		return nil
	}
	was := r.sel.shown
	r.sel.shown = o.sel.shown
	return r.frame(difference(was, r.sel.shown, nil))
}

func (r *viewReader) fork() (reader, error) {
	sel := r.sel.clone()
	own := newViewReader(r.hub, r.changes.tail.rel, r.op, r.raw)
	own.sel, own.skip, own.goal, own.history = sel, r.skip, r.goal, r.history
	own.position, own.asOf, own.changes.at = r.position, r.asOf, r.position
	return own, nil
}
