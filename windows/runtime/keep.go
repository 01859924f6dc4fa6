package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/storage/kv"
	"tidemark/windows"
)

// keepPeriod is how often views are asked to remove what has expired by the clock.
const keepPeriod = time.Minute

// ages tells the time that retention goes by: the wall clock, but never ahead of what has passed since
// the service was opened, so that a clock that jumps forwards removes nothing.
type ages struct{ opened time.Time }

func (a ages) now(clock func() time.Time) windows.Micros {
	wall := clock()
	return min(wall.UnixMicro(), a.opened.Add(wall.Sub(a.opened)).UnixMicro())
}

// maxAsks is how many questions wait for a worker at most; who finds them waiting need not ask, too.
const maxAsks = 16

// asks is how a worker that runs is asked to remove what has expired; ended is closed when it runs no
// more.
type asks struct {
	ask   chan chan error
	ended chan struct{}
}

// Keep removes what has expired by the clock of all views that have nothing else to do, and waits for
// that (R3); see [Options].KeepPeriod. Views that are paused, failed or at work stay as they are.
func (s *Service) Keep(ctx context.Context) error {
	var all error
	for _, wait := range s.askToKeep() {
		all = errors.Join(all, wait(ctx))
	}
	return all
}

// askToKeep asks all workers, and returns how to wait for each.
func (s *Service) askToKeep() (waits []func(context.Context) error) {
	for _, v := range s.list() {
		if wait := v.ask(); wait != nil {
			waits = append(waits, wait)
		}
	}
	return waits
}

// ask asks the worker that serves to look at the log's end and the clock, and returns how to wait for
// that; nil when none runs, or it was asked often and has not come to it yet.
func (v *view) ask() (wait func(context.Context) error) {
	v.mu.Lock()
	a := v.mu.asks
	v.mu.Unlock()
	if a == nil {
		return nil
	}
	answer := make(chan error, 1)
	select {
	case a.ask <- answer:
	default:
		return nil
	}
	return func(ctx context.Context) error {
		select {
		case err := <-answer:
			return err
		case <-a.ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keepRetention asks all workers now and then until ctx ends.
func (s *Service) keepRetention(ctx context.Context) {
	t := time.NewTicker(s.KeepPeriod)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.askToKeep()
		}
	}
}

// listen lets a worker be asked until the function is called that it returns.
func (w *worker) listen() (<-chan chan error, func()) {
	if !w.serving {
		return nil, func() {}
	}
	a := &asks{make(chan chan error, maxAsks), make(chan struct{})}
	set := func(a *asks) {
		w.v.mu.Lock()
		w.v.mu.asks = a
		w.v.mu.Unlock()
	}
	set(a)
	return a.ask, func() { set(nil); close(a.ended) }
}

// asked does what a worker was asked to; one at work has epochs for that.
func (w *worker) asked(answer chan<- error, idle bool) error {
	var err error
	if idle {
		err = w.expireByClock()
	}
	answer <- err
	return err
}

// expireByClock removes what has expired since the last entry came, of a worker that has committed
// all there is. Nothing is written when nothing has.
func (w *worker) expireByClock() error {
	if w.doc.Retention == 0 || w.done.Position.Sequence == 0 {
		return nil
	}
	now := max(w.svc.ages.now(w.svc.Clock), w.done.AppendTime)
	next := w.done
	next.AsOf = w.done.AsOf.clone()
	b := w.svc.kv.NewBatch()
	rows := next.Rows
	if wm := next.AsOf.Watermark; wm != windows.NoWatermark {
		if err := w.expireRowsByClock(b, &next, w.doc.oldestAt(wm+now-w.done.AppendTime)); err != nil {
			b.Discard()
			return err
		}
	}
	head, err := w.expireChanges(b, &next, now)
	if err != nil || rows == next.Rows && head == nil && next.Forgotten == w.done.Forgotten {
		b.Discard()
		return err
	}
	return w.commitExpired(b, next, head)
}

// expireRowsByClock removes the rows with an earlier time, where that was not looked for before. What the
// clock says holds of the rows that there are: rows of a window that is open stay, and as_of.oldest goes
// no further than behind the last row, so that it is no bound for those to come, which may well go on
// where these end: an import that pauses for longer than the retention.
func (w *worker) expireRowsByClock(b *kv.Batch, next *progress, oldest windows.Micros) error {
	if next.Oldest != nil && oldest <= *next.Oldest || w.looked != nil && oldest <= *w.looked {
		return nil
	}
	w.looked = &oldest
	upTo, any := oldest, false
	behind := windows.Micros(windows.NoTime)
	prefix := rowsKey(w.v.id, w.doc.Version)
	it := w.svc.kv.Iter(prefix, kv.PrefixEnd(prefix))
	var err error
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var h rowHead
		if h, _, err = splitRow(it.Value()); err != nil || h.time == windows.NoTime {
			continue
		}
		if h.status == windows.Provisional {
			upTo = min(upTo, h.time)
		}
		behind, any = max(behind, h.time+1), true
	}
	if err = errors.Join(err, it.Close()); err != nil || !any {
		return err
	}
	upTo = min(upTo, behind)
	rows := next.Rows
	if err := w.dropRows(b, next, upTo); err != nil || rows == next.Rows {
		return err
	}
	next.Oldest, next.AsOf.Oldest = &upTo, &upTo
	return nil
}

func (w *worker) commitExpired(b *kv.Batch, next progress, h *head) error {
	b.Set(progressKey(w.v.id, w.doc.Version), mustJSON(next))
	w.v.gate.Lock()
	defer w.v.gate.Unlock()
	if err := b.Commit(true); err != nil {
		return fmt.Errorf("commit what has expired: %w", err)
	}
	if w.serving {
		w.publish(next, h)
	}
	w.done = next
	return nil
}

// expireBeside removes of a version that is about to take over what has expired: by the clock, and, of
// a rebuild, what has of the one that is served.
func (w *worker) expireBeside(served progress) error {
	if err := w.expireByClock(); err != nil || served.Oldest == nil || !w.doc.isRebuild() {
		return err
	}
	if w.done.Oldest != nil && *served.Oldest <= *w.done.Oldest {
		return nil
	}
	b, next := w.svc.kv.NewBatch(), w.done
	next.AsOf = w.done.AsOf.clone()
	next.Oldest, next.AsOf.Oldest = served.Oldest, served.Oldest
	if err := w.dropRows(b, &next, *served.Oldest); err != nil {
		b.Discard()
		return err
	}
	return w.commitExpired(b, next, nil)
}
