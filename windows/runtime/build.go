package runtime

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// maxDifference is how many changes the epoch that follows an edit may have.
const maxDifference = 200_000

// build makes the definition of an edit beside the one that is served, and switches when it has
// caught up. It reports whether the view is to go on with what is now its document; false when ctx
// ended.
func (v *view) build(ctx context.Context, doc *stored) bool {
	stopOld := v.keepServing(ctx, doc)
	defer func() { stopOld(nil) }()
	wait := v.svc.RetryMin
	for ctx.Err() == nil {
		handedOver := false
		err := v.buildOnce(ctx, doc, func() { handedOver = true; stopOld(errHandOver) })
		if err == nil {
			if ctx.Err() != nil && v.document().Serving != nil {
				return false
			}
			return true
		}
		v.mu.Lock()
		v.mu.edit = err.Error()
		v.mu.Unlock()
		if v.svc.isOutgrown(err) { // what is built is overtaken
			<-ctx.Done()
			return false
		}
		if handedOver { // to nobody: it goes on
			stopOld = v.keepServing(ctx, doc)
		}
		var f fatal
		if errors.As(err, &f) {
			v.svc.logger.Error("an edit of a view can't be built; the view goes on as it was", "view", v.name, "err", err)
			<-ctx.Done()
			return false
		}
		v.svc.logger.Warn("an edit of a view can't be built now; it is tried again", "view", v.name, "err", err, "after", wait)
		sleep(ctx, wait)
		wait = min(2*wait, v.svc.RetryMax)
	}
	return false
}

// keepServing keeps the version running that is served while another is built, and returns what ends
// it. One that can't go on stands still: its rows stay as they are until there are others.
func (v *view) keepServing(ctx context.Context, doc *stored) (stop func(why error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	if v.stale() || v.old(doc.Serving.Version) {
		close(ended)
		v.mu.Lock()
		v.mu.started = true
		v.mu.Unlock()
	} else {
		go func() {
			defer close(ended)
			v.keep(ctx, doc.Serving)
		}()
	}
	return func(why error) { cancel(why); <-ended }
}

// buildOnce catches up with the log, ends the old worker, goes on to where that one was, and
// switches. A panic is an error that another try would not mend.
func (v *view) buildOnce(ctx context.Context, doc *stored, stopOld func()) (err error) {
	if panicked := protect(func() { err = v.buildAndSwitch(ctx, doc, stopOld) }); panicked != nil {
		return fatal{panicked}
	}
	return err
}

func (v *view) buildAndSwitch(ctx context.Context, doc *stored, stopOld func()) error {
	w, err := v.newWorker(doc, false)
	if err != nil {
		return err
	}
	if err := w.run(ctx, func() bool { return true }); err != nil || ctx.Err() != nil {
		return err
	}
	v.mu.Lock()
	v.mu.handOver = w.done.Position.Sequence
	v.mu.Unlock()
	stopOld()
	_, old := v.published()
	if err := w.reload(); err != nil {
		return err
	}
	defer w.close()
	for old.Position.Log == w.done.Position.Log && w.last < old.Position.Sequence {
		e, ok, err := w.reader.Next()
		if err != nil {
			return err
		}
		if !ok || e.Sequence() > old.Position.Sequence {
			break
		}
		if err := w.take(e); err != nil {
			return err
		}
	}
	if err := w.commit(); err != nil {
		return err
	}
	if err := w.expireBeside(old); err != nil {
		return err
	}
	return v.switchTo(w)
}

// switchTo makes the version of a worker the served one, in one batch: the head, the difference as
// one epoch of the change stream, and the end of the old version. The old worker has ended.
func (v *view) switchTo(w *worker) error {
	s := v.svc
	if s.beside != nil {
		s.beside(w, true)
	}
	h, old := v.published()
	oldFields, err := loadFields(h.Fields)
	if err != nil {
		return fatal{err}
	}
	next := w.done
	next.Live = true
	from := old.Position
	sameLog := from.Log == next.Position.Log
	if sameLog && before(next.Position, from) {
		next.Position = from
	}
	next.Position.Within = 0
	if sameLog && next.Position.Sequence == from.Sequence {
		next.Position.Within = from.Within + 1 // keeps R6
	}
	b := s.kv.NewBatch()
	newHead := head{
		Version: w.doc.Version, ViewVersion: w.doc.ViewVersion, Fields: w.doc.Fields,
		Stream: h.Stream, ChangesFrom: h.ChangesFrom, Trimmed: h.Trimmed, LateFirst: h.LateFirst,
	}
	if newHead.ViewVersion != h.ViewVersion {
		newHead.LateFirst += old.Late // the late events begin anew; those of a rebuild are the same
	}
	if w.doc.isRebuild() && sameLog { // what has expired does not come back
		next.Marks = old.Marks
		if err := w.forget(b, stream.Position{Sequence: old.Forgotten}, &next); err != nil {
			b.Discard()
			return err
		}
	}
	if next.Sealed != nil {
		if err := v.seal(w, h.Version, &next); err != nil {
			b.Discard()
			return err
		}
		newHead.LateFirst += old.Late - next.Late // the last ones are the same
	}
	changes, ok, err := v.difference(h.Version, oldFields, w.doc.Version, w.fields, next.Position.Sequence)
	if err != nil {
		b.Discard()
		return err
	}
	edited := newHead.ViewVersion != h.ViewVersion
	// A column that widens leaves each alarm as it is.
	anew := !ok && edited && w.doc.Serving != nil && w.doc.Serving.Definition.SQL != w.doc.Definition.SQL
	if att := s.attachments[v.kind]; (edited || ok && changes.Len() > 0) && att.Open != nil {
		meta := Meta{ID: v.id, Name: v.name, Version: int(w.doc.ViewVersion), Fields: w.fields, Extra: w.doc.Extra, Sources: names(w.doc.Sources)}
		if edited {
			meta.Before = int(h.ViewVersion)
		}
		w.follower, err = att.Open(meta)
		if heir, is := w.follower.(Heir); err == nil && is && edited && !anew {
			err = heir.Inherit(b, func(f func(key []byte) error) error { return v.staying(h.Version, w.doc.Version, f) })
		}
		if err != nil {
			b.Discard()
			return err
		}
	}
	switch {
	case !ok || !sameLog:
		b.DeletePrefix(spaceKey(kv.Changes, v.id))
		newHead.Stream++
		newHead.ChangesFrom, newHead.Trimmed = next.Position, false
		next.Position, err = v.base(b, w, next.Position, next.AsOf)
		e := Epoch{From: newHead.ChangesFrom, To: next.Position, AsOf: next.AsOf, Fields: w.fields, Changes: changes}
		switch {
		case err != nil || w.follower == nil:
		case anew:
			err = v.followAnew(b, w, h.Version, oldFields, e)
		case ok && changes.Len() > 0:
			err = w.follow(b, &e)
		}
		if err != nil {
			b.Discard()
			return err
		}
	case changes.Len() > 0:
		if err := w.writeEpoch(b, &Epoch{From: from, To: next.Position, AsOf: next.AsOf, Fields: w.fields, Changes: changes}); err != nil {
			b.Discard()
			return err
		}
	}
	dropVersion(b, v.id, h.Version)
	b.DeletePrefix(besidePrefix(v.id, w.doc.Version))
	b.Set(headKey(v.id), mustJSON(newHead))
	b.Set(progressKey(v.id, w.doc.Version), mustJSON(next))
	v.gate.Lock()
	defer v.gate.Unlock()
	if err := b.Commit(true); err != nil {
		return err
	}
	doc := *w.doc
	doc.Serving = nil
	v.mu.Lock()
	v.mu.head, v.mu.progress = newHead, next
	v.mu.failed, v.mu.trouble, v.mu.edit = "", "", ""
	v.mu.seen = next.Position.Sequence
	v.mu.Unlock()
	if err := v.save(&doc); err != nil { // the head says it, too: the next start finds it there
		s.logger.Warn("the catalog can't note that a view's next version is served", "view", v.name, "err", err)
		v.mu.Lock()
		v.mu.doc = &doc
		v.mu.Unlock()
	}
	return nil
}

// followAnew lets the follower take back what it made of the rows of the old version, and begin with
// all of the new one's: an edit gives other columns, or other rows than one epoch holds.
func (v *view) followAnew(b *kv.Batch, w *worker, oldVersion uint32, oldFields []row.Field, e Epoch) error {
	heir, is := w.follower.(Heir)
	if is {
		e.Fields = oldFields
		err := v.inParts(oldVersion, oldFields, -1, e.To.Sequence, func(c *windows.Changes) error {
			e.Changes = c
			return heir.Withdraw(b, w.doc.Serving.Extra, w.told(&e))
		})
		if err == nil {
			err = heir.Inherit(b, func(func([]byte) error) error { return nil })
		}
		if err != nil {
			return err
		}
	}
	e.Fields = w.fields
	return v.inParts(w.doc.Version, w.fields, +1, e.To.Sequence, func(c *windows.Changes) error {
		e.Changes = c
		return w.follow(b, &e)
	})
}

// inParts gives all rows of a version as changes of one kind, baseRows at a time.
func (v *view) inParts(version uint32, fields []row.Field, op int8, at stream.Sequence, give func(*windows.Changes) error) error {
	it := v.rowsOf(version)
	skip := len(rowsKey(0, 0))
	var err error
	for ok := it.Valid(); ok && err == nil; {
		c := &windows.Changes{Rows: row.NewBatch(fields, 0)}
		for ; ok && c.Len() < baseRows && err == nil; ok = it.Next() {
			err = appendChange(c, op, it.Key()[skip:], it.Value(), at)
		}
		if err == nil {
			err = give(c)
		}
	}
	return errors.Join(err, it.Close())
}

// baseRows is how many rows an epoch at the beginning of a change stream has.
const baseRows = 10_000

// base writes all rows of a version as the first epochs of a change stream that begins anew at a
// position, so that the sum of the changes is the view. It returns where the last one ends.
func (v *view) base(b *kv.Batch, w *worker, at stream.Position, asOf AsOf) (stream.Position, error) {
	err := v.inParts(w.doc.Version, w.fields, +1, at.Sequence, func(c *windows.Changes) error {
		to := at
		to.Within++
		value, err := encodeEpoch(nil, &Epoch{From: at, To: to, AsOf: asOf, Fields: w.fields, Changes: c})
		if err != nil {
			return err
		}
		b.Set(changeKey(v.id, to), value)
		at = to
		return nil
	})
	return at, err
}

// appendChange adds a stored row as one that appears or is withdrawn.
func appendChange(c *windows.Changes, op int8, key, value []byte, at stream.Sequence) error {
	h, values, err := splitRow(value)
	if err != nil {
		return err
	}
	switch {
	case op > 0:
	case h.status == windows.Provisional:
		h.status, h.revision = windows.None, 0
	default:
		h.status, h.revision = windows.Corrected, h.revision+1
	}
	c.Ops = append(c.Ops, op)
	c.Keys = append(c.Keys, bytes.Clone(key))
	c.Status, c.Revision = append(c.Status, h.status), append(c.Revision, h.revision)
	c.Sequences, c.Times = append(c.Sequences, at), append(c.Times, h.time)
	return appendStored(c.Rows, values)
}

// difference is what leads from the rows of one version to those of another, by row key. ok is
// false when the columns differ or there are too many changes for one epoch.
func (v *view) difference(oldVersion uint32, oldFields []row.Field, newVersion uint32, fields []row.Field, at stream.Sequence) (*windows.Changes, bool, error) {
	same := slices.EqualFunc(oldFields, fields, func(a, b row.Field) bool { return a.Name == b.Name && a.Type.Equal(b.Type) })
	if !same {
		return nil, false, nil
	}
	c := &windows.Changes{Rows: row.NewBatch(fields, 0)}
	withdraw := func(key, value []byte) error { return appendChange(c, -1, key, value, at) }
	appear := func(key, value []byte) error { return appendChange(c, +1, key, value, at) }
	skip := len(rowsKey(0, 0))
	a, b := v.rowsOf(oldVersion), v.rowsOf(newVersion)
	err := func() error {
		for (a.Valid() || b.Valid()) && c.Len() <= maxDifference {
			order := 0
			switch {
			case !a.Valid():
				order = 1
			case !b.Valid():
				order = -1
			default:
				order = bytes.Compare(a.Key()[skip:], b.Key()[skip:])
			}
			switch {
			case order < 0:
				if err := withdraw(a.Key()[skip:], a.Value()); err != nil {
					return err
				}
				a.Next()
			case order > 0:
				if err := appear(b.Key()[skip:], b.Value()); err != nil {
					return err
				}
				b.Next()
			default:
				if !bytes.Equal(a.Value(), b.Value()) {
					if err := withdraw(a.Key()[skip:], a.Value()); err != nil {
						return err
					}
					if err := appear(b.Key()[skip:], b.Value()); err != nil {
						return err
					}
				}
				a.Next()
				b.Next()
			}
		}
		return nil
	}()
	err = errors.Join(err, a.Close(), b.Close())
	return c, err == nil && c.Len() <= maxDifference, err
}

// rowsOf begins to read the rows of a version.
func (v *view) rowsOf(version uint32) *kv.Iter {
	prefix := rowsKey(v.id, version)
	it := v.svc.kv.Iter(prefix, kv.PrefixEnd(prefix))
	it.First()
	return it
}

// staying gives the keys of the rows that both of two versions have.
func (v *view) staying(oldVersion, newVersion uint32, f func(key []byte) error) error {
	skip := len(rowsKey(0, 0))
	a, b := v.rowsOf(oldVersion), v.rowsOf(newVersion)
	var err error
	for a.Valid() && b.Valid() && err == nil {
		switch order := bytes.Compare(a.Key()[skip:], b.Key()[skip:]); {
		case order < 0:
			a.Next()
		case order > 0:
			b.Next()
		default:
			err = f(a.Key()[skip:])
			a.Next()
			b.Next()
		}
	}
	return errors.Join(err, a.Close(), b.Close())
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
