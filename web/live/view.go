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
	// maxFolded ends a folded frame, at the next boundary of an epoch, so that a reader who was
	// away for long gets it in pieces.
	maxFolded = 10_000
	// moveEvery is how often a moving range moves.
	moveEvery = time.Second
)

// viewReader follows the change stream of one view.
type viewReader struct {
	*subscription
	changes follower
	sel     *selection
	// at and asOf are what the client has.
	at   stream.Position
	asOf json.RawMessage
	// skip leaves out the epochs up to this sequence (from a time).
	skip stream.Sequence
	// raw gives every epoch its own frame: "fold":false, and history while it is replayed.
	raw    bool
	goal   stream.Position // where the view stood when the subscription began
	framed time.Time
	moved  time.Time
}

// view follows a view: folded unless the client wants every epoch.
func (s *subscription) view(ctx context.Context, from start) error {
	views := s.hub.opts.Views
	arrived, stop := views.Watch(s.rel.Name)
	defer stop()
	shared, leave := s.hub.join(s.rel)
	defer leave()
	r := &viewReader{subscription: s, raw: s.op.Fold != nil && !*s.op.Fold, changes: follower{views: views, tail: shared}}
	if err := r.start(ctx, from); err != nil {
		return err
	}
	for {
		caughtUp, err := r.step(ctx)
		if err != nil {
			return err
		}
		if err := r.progress(ctx, r.at.String(), r.asOf, 0, caughtUp || !before(r.at, r.goal)); err != nil {
			return err
		}
		if caughtUp {
			r.raw = s.op.Fold != nil && !*s.op.Fold // what was replayed is through
			if err := r.rest(ctx, arrived); err != nil {
				return err
			}
		}
		if err := r.pace(ctx); err != nil {
			return err
		}
	}
}

// start finds the place to read from, answers the subscription and sends the snapshot, if any.
func (r *viewReader) start(ctx context.Context, from start) error {
	views := r.hub.opts.Views
	head, err := views.Head(r.rel.Name)
	if err != nil {
		return err
	}
	r.goal = head.Position
	if r.sel, err = newSelection(r.hub, r.op, head.Fields); err != nil {
		return err
	}
	switch from.kind {
	case "", "snapshot":
		return r.snapshot(ctx, "")
	case "latest":
		if r.sel.keeps { // what leaves the selection later must be known now
			snap, err := views.Snapshot(r.rel.Name)
			if err != nil {
				return err
			}
			if _, err := r.sel.fill(snap); err != nil {
				return err
			}
			head.Position, head.AsOf = snap.Position, snap.AsOf
		}
		r.at, r.asOf = head.Position, head.AsOf
		r.changes.at = r.at
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
		r.raw = true
		if r.changes.own, err = views.Changes(r.rel.Name, nil); err == nil {
			r.at = r.changes.own.Position()
		}
	case "position":
		if r.sel.keeps { // which rows the client holds can't be known
			return r.snapshot(ctx, from.text)
		}
		r.at = from.at
		if r.changes.own, err = views.Changes(r.rel.Name, &r.at); errors.As(err, new(*Gap)) {
			return r.snapshot(ctx, from.text)
		}
	}
	if err != nil {
		return err
	}
	return r.subscribed(ctx, r.at.String(), true)
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
func (r *viewReader) snapshot(ctx context.Context, gone string) error {
	views := r.hub.opts.Views
	snap, err := views.Snapshot(r.rel.Name)
	if err != nil {
		return err
	}
	if r.sel, err = newSelection(r.hub, r.op, snap.Fields); err != nil {
		return err
	}
	rows, err := r.sel.fill(snap)
	if err != nil {
		return err
	}
	r.at, r.asOf = snap.Position, snap.AsOf
	r.changes.at, r.changes.own = r.at, nil
	position := r.at.String()
	if !r.answered {
		if err := r.subscribed(ctx, position, gone == ""); err != nil {
			return err
		}
	}
	if gone != "" {
		if err := r.gap(ctx, gone, position); err != nil {
			return err
		}
	}
	for {
		part := rows[:min(len(rows), maxSnapshotRows)]
		rows = rows[len(part):]
		b := appendAsOf(r.appendNext(appendPosition(begin("snapshot", r.op.ID), position)), r.asOf)
		b = append(b, `,"rows":[`...)
		for i, row := range part {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, row.json...)
		}
		b = append(b, `],"statuses":[`...)
		for i, row := range part {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, '"'), row.status.String()...), '"')
		}
		b = append(b, ']')
		more := len(rows) > 0
		if more {
			b = append(b, `,"more":true`...)
		}
		f := frame{data: append(b, '}')}
		if !more {
			f.position = position
		}
		if err := r.emit(ctx, f); err != nil || !more {
			return err
		}
	}
}

// step sends what has been committed since the last one, and reports whether that was all. A
// folded reader gets it as one frame, a raw one as one frame for each epoch.
func (r *viewReader) step(ctx context.Context) (caughtUp bool, err error) {
	// The head is taken before the epochs are read: what lies up to it will then have been read.
	head, err := r.hub.opts.Views.Head(r.rel.Name)
	if err != nil {
		return false, err
	}
	var sum folder
	for sum.taken < maxFolded {
		e, err := r.changes.next()
		if errors.As(err, new(*Gap)) {
			return false, r.snapshot(ctx, r.at.String())
		}
		if err != nil {
			return false, err
		}
		if e == nil {
			caughtUp = true
			break
		}
		r.at, r.asOf = e.To, e.AsOf
		if e.Changes == nil || e.To.Sequence <= r.skip {
			continue
		}
		out, err := r.sel.take(e)
		if err != nil {
			return false, err
		}
		if r.raw {
			if err := r.frame(ctx, r.sel.settle(out)); err != nil {
				return false, err
			}
			if err := r.progress(ctx, r.at.String(), r.asOf, 0, !before(r.at, r.goal)); err != nil {
				return false, err
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
	if caughtUp && before(r.at, head.Position) { // the epochs up to the head changed no row
		r.at, r.asOf = head.Position, head.AsOf
	}
	r.moved = time.Now()
	return caughtUp, r.frame(ctx, r.sel.settle(out))
}

// frame sends changes; none are no frame.
func (r *viewReader) frame(ctx context.Context, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	position := r.at.String()
	b := appendAsOf(r.appendNext(appendPosition(begin("changes", r.op.ID), position)), r.asOf)
	b = append(b, `,"changes":[`...)
	for i, c := range changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.append(b)
	}
	r.framed = time.Now()
	return r.emit(ctx, frame{data: append(b, "]}"...), position: position})
}

// rest waits for news, for the next progress message or for a moving range to move.
func (r *viewReader) rest(ctx context.Context, arrived <-chan struct{}) error {
	wait := r.untilProgress()
	if r.sel.moving {
		wait = min(wait, max(0, moveEvery-time.Since(r.moved)))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-arrived:
	case <-timer.C:
	case <-r.bell:
		return r.takeAck(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// pace keeps a folded reader at its least time between two frames.
func (r *viewReader) pace(ctx context.Context) error {
	left := r.hub.opts.FoldEvery - time.Since(r.framed)
	if r.raw || left <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
