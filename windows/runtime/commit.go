package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
)

// commit ends the epoch: one batch of the store with everything that came of it, one fsync, and
// only then what readers see (R1).
func (w *worker) commit() error {
	if w.in.entries == 0 {
		return nil
	}
	return w.commitEpoch()
}

// commitFirst commits the rows that a view has before it has read anything (N1).
func (w *worker) commitFirst() error {
	if provisional, final := w.eng.Pending(); !provisional && !final {
		return nil
	}
	return w.commitEpoch()
}

func (w *worker) commitEpoch() error {
	out := w.out
	if out == nil {
		last := w.last
		if panicked := protect(func() { out = w.eng.Take(true) }); panicked != nil {
			return w.rerun(last, panicked)
		}
	}
	w.out = nil
	if err := w.eng.Err(); err != nil {
		return err
	}
	v, id, version := w.v, w.v.id, w.doc.Version
	next := progress{
		Position:   stream.Position{Log: w.done.Position.Log, Sequence: w.last},
		AsOf:       w.asOf.clone(),
		Counts:     out.Counts,
		Late:       w.done.Late,
		Rows:       w.done.Rows,
		Live:       w.done.Live,
		AppendTime: w.at,
		Forgotten:  w.done.Forgotten,
		LateGone:   w.done.LateGone,
		ErrorsGone: w.done.ErrorsGone,

		WindowsFrom: w.done.WindowsFrom, Sealed: w.done.Sealed,
	}
	if w.last == w.done.Position.Sequence {
		next.Position.Within = w.done.Position.Within + 1 // keeps R6
	}
	next.AsOf.Watermark = out.Watermark
	next.Oldest, next.Marks = w.done.Oldest, w.done.Marks
	b := w.svc.kv.NewBatch()
	prefix := engineKey(id, version)
	// In order of the keys the store finds a place right behind the last one. The sort is stable: of
	// one key the last write counts.
	slices.SortStableFunc(out.Writes, func(x, y engine.Write) int { return bytes.Compare(x.Key, y.Key) })
	for _, write := range out.Writes {
		key := append(prefix[:len(prefix):len(prefix)], write.Key...)
		if write.Value == nil {
			b.Delete(key)
		} else {
			b.Set(key, write.Value)
		}
	}
	err := w.expireRows(b, &next)
	if err != nil {
		b.Discard()
		return err
	}
	if c := out.Changes; c != nil && c.Len() > 0 {
		if next.Rows, err = w.writeRows(b, c, next.Rows, next.Oldest); err != nil {
			b.Discard()
			return err
		}
		e := &Epoch{From: w.done.Position, To: next.Position, AsOf: next.AsOf, Fields: w.fields, Changes: c}
		switch {
		case w.serving:
			err = w.writeEpoch(b, e)
		case w.doc.isRebuild():
			err = w.writeBeside(b, e)
		}
	}
	if err == nil {
		err = w.writeLate(b, out.Late, &next)
	}
	if err == nil {
		err = w.writeErrors(b, out.RowErrors, &next)
	}
	if err != nil {
		b.Discard()
		return err
	}
	if w.serving {
		v.mu.Lock()
		next.Live = v.mu.live
		v.mu.Unlock()
	}
	head, err := w.expireChanges(b, &next, next.AppendTime)
	if err != nil {
		b.Discard()
		return err
	}
	b.Set(progressKey(id, version), mustJSON(next))
	if w.work.noted {
		b.Delete(crashesKey(id, version))
	}
	v.gate.Lock()
	err = b.Commit(true)
	if err == nil && w.serving {
		w.publish(next, head)
	}
	v.gate.Unlock()
	if err != nil {
		return fmt.Errorf("commit the epoch up to sequence %d: %w", w.last, err)
	}
	now := w.now()
	w.pace.committed(now, w.in)
	if w.serving {
		v.gauges.epochs.Add(1)
		if w.in.entries > 0 {
			v.gauges.took.note(now.Sub(w.in.since))
		}
		if out.Changes != nil {
			v.gauges.changes.Add(int64(out.Changes.Len()))
		}
		v.gauges.lastCommit.Store(now.UnixMicro())
		v.gauges.pending.Store(0)
	}
	w.done, w.in, w.poison = next, pending{}, nil
	w.work.calm = true
	if !w.serving && w.svc.beside != nil {
		w.svc.beside(w, false)
	}
	w.wantClock(w.eng.HasOpen())
	w.spill()
	return nil
}

// publish shows an epoch that is durable.
func (w *worker) publish(p progress, h *head) {
	v := w.v
	states := w.eng.Streams()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.progress = p
	if h != nil {
		v.mu.head = *h
	}
	v.mu.streams = states
	v.notifyLocked()
}

// writeRows brings the table of rows up to date: of one key the last change counts. rows is how
// many there were; it returns how many there are. Rows before oldest have expired and are left out.
func (w *worker) writeRows(b *kv.Batch, c *windows.Changes, rows int64, oldest *windows.Micros) (int64, error) {
	prefix := rowsKey(w.v.id, w.doc.Version)
	var key, value []byte
	order := make([]int, c.Len()) // of the keys, as above
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return bytes.Compare(c.Keys[x], c.Keys[y]) })
	for n, i := range order {
		if expired(oldest, timeAt(c, i)) {
			continue
		}
		key = append(append(key[:0], prefix...), c.Keys[i]...)
		rows += int64(c.Ops[i])
		if c.Ops[i] < 0 {
			// The `-` of an update is followed by its `+`, which writes the key again.
			if n+1 < len(order) {
				next := order[n+1]
				if c.Ops[next] > 0 && string(c.Keys[i]) == string(c.Keys[next]) && !expired(oldest, timeAt(c, next)) {
					continue
				}
			}
			b.Delete(key)
			continue
		}
		value = appendRow(value[:0], rowHead{c.Status[i], c.Revision[i], timeAt(c, i)}, c.Rows, i)
		b.Set(key, value)
	}
	if rows < 0 {
		return 0, fatal{errors.New("more rows were withdrawn than there are: the engine's state is damaged")}
	}
	return rows, nil
}

// writeEpoch adds an epoch to the change stream, and what the follower makes of it.
func (w *worker) writeEpoch(b *kv.Batch, e *Epoch) error {
	value, err := encodeEpoch(nil, e)
	if err != nil {
		return err
	}
	b.Set(changeKey(w.v.id, e.To), value)
	if w.follower == nil {
		return nil
	}
	return w.follow(b, e)
}

// writeBeside keeps an epoch of a rebuild until the switch: it must be what the live version made.
func (w *worker) writeBeside(b *kv.Batch, e *Epoch) error {
	value, err := encodeEpoch(nil, e)
	if err == nil {
		b.Set(besideKey(w.v.id, w.doc.Version, e.To), value)
	}
	return err
}

// isRebuild reports whether what is built beside the served version has the same definition.
func (d *stored) isRebuild() bool { return d.Serving != nil && d.Serving.ViewVersion == d.ViewVersion }

// follow lets the follower write what follows from an epoch, with positions as users carry them.
func (w *worker) follow(b *kv.Batch, e *Epoch) error { return w.follower.Epoch(b, w.told(e)) }

func (w *worker) told(e *Epoch) *Epoch {
	told := *e
	told.From, told.To = w.v.outside(e.From), w.v.outside(e.To)
	return &told
}

// writeLate keeps the records of late events, with the events themselves.
func (w *worker) writeLate(b *kv.Batch, late []engine.LateRecord, next *progress) error {
	for _, r := range late {
		rec := lateRecord{
			Stream: w.names[r.Stream], Partition: r.Place.Partition, Offset: r.Place.Offset, Sequence: r.Sequence,
			Time: r.Time, Watermark: r.Watermark, Outcome: string(r.Outcome),
		}
		for _, x := range r.Refused {
			rec.Refused = append(rec.Refused, refusal(x))
		}
		raw, err := w.rawEvent(r.Stream, r.Place)
		if err != nil {
			return err
		}
		rec.Event = raw
		b.Set(lateKey(w.v.id, w.doc.Version, next.Late), mustJSON(rec))
		next.Late++
	}
	return nil
}

// rawEvent reads an event from the log. One that retention has removed meanwhile is null.
func (w *worker) rawEvent(id stream.ID, at stream.Place) ([]byte, error) {
	batches, err := w.svc.log.Slice(id, at.Partition, at.Offset, 1)
	var gone *stream.OffsetGone
	if errors.As(err, &gone) || err == nil && len(batches) == 0 {
		return []byte("null"), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a late event, %s: %w", at, err)
	}
	b := batches[0]
	i := b.Index(at.Offset)
	if i == b.Len || b.Offset(i) != at.Offset { // compaction has removed it
		return []byte("null"), nil
	}
	return b.Raw(i), nil
}

// writeErrors keeps the list of row errors, and with it the events that made an operator panic.
func (w *worker) writeErrors(b *kv.Batch, list []engine.RowError, next *progress) error {
	for _, r := range list {
		key := w.errorKey(r.Stream, r.Place)
		if r.Weight < 0 {
			if _, err := w.svc.kv.Get(key); errors.Is(err, kv.ErrNotFound) { // its entry has expired
				next.ErrorsGone--
			}
			b.Delete(key)
			continue
		}
		b.Set(key, mustJSON(rowError{
			Stream: w.names[r.Stream], Partition: r.Place.Partition, Offset: r.Place.Offset, Sequence: r.Sequence,
			Code: r.Code, Message: r.Message,
		}))
	}
	next.Poisoned = w.done.Poisoned + int64(len(w.poison))
	next.Counts.RowErrors += next.Poisoned - next.ErrorsGone
	for _, p := range w.poison {
		b.Set(w.errorKey(p.stream, p.place), mustJSON(rowError{
			Stream: w.names[p.stream], Partition: p.place.Partition, Offset: p.place.Offset, Sequence: p.sequence,
			Code: "internal", Message: "the server made a mistake with this event: " + p.said,
		}))
	}
	return nil
}

func (w *worker) errorKey(id stream.ID, at stream.Place) []byte {
	return errorKey(w.v.id, w.doc.Version, id, at)
}

// conduct is the work of a view from start to stop: it finishes an edit that is being built, and
// then keeps the served version running.
func (v *view) conduct(ctx context.Context) {
	if doc := v.document(); doc.Serving != nil {
		if !v.build(ctx, doc) {
			return
		}
	}
	v.keep(ctx, v.document())
}

// keep runs a version until ctx ends. An error is tried again after a wait that grows; one that
// waiting can't mend makes the view fail.
func (v *view) keep(ctx context.Context, doc *stored) {
	s := v.svc
	wait := s.RetryMin
	for ctx.Err() == nil {
		var w *worker
		var err error
		if panicked := protect(func() { w, err = v.newWorker(doc, true) }); panicked != nil {
			err = fatal{panicked}
		}
		if err == nil {
			wait = s.RetryMin
			v.recoveredNow(w)
			if panicked := protect(func() { err = w.run(ctx, nil) }); panicked != nil {
				s.logger.Error("a view's worker panicked", "view", v.name, "err", panicked, "stack", string(panicked.stack))
				err = fatal{panicked}
			}
		}
		if err == nil {
			return
		}
		if s.isOutgrown(err) {
			v.trouble(err, false)
			<-ctx.Done()
			return
		}
		var f fatal
		if errors.As(err, &f) {
			s.logger.Error("a view has failed", "view", v.name, "err", err)
			v.trouble(err, true)
			return
		}
		s.logger.Warn("a view can't go on; it is tried again", "view", v.name, "err", err, "after", wait)
		v.trouble(err, false)
		sleep(ctx, wait)
		wait = min(2*wait, s.RetryMax)
	}
}

func (v *view) recoveredNow(w *worker) {
	states := w.eng.Streams()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.started, v.mu.trouble = true, ""
	v.mu.streams, v.mu.progress = states, w.done
	v.notifyLocked()
}

func (v *view) trouble(err error, failed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.trouble = err.Error()
	if failed {
		v.mu.failed = err.Error()
	}
	v.notifyLocked()
}
