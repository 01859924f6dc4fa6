package runtime

import (
	"errors"
	"fmt"
	"runtime/debug"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// panicError is what an engine said when it panicked.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprint(p.value) }

// protect runs f and returns what it panicked with.
func protect(f func()) (panicked *panicError) {
	defer func() {
		if v := recover(); v != nil {
			panicked = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// poisoned is an event that made the engine panic.
type poisoned struct {
	stream   stream.ID
	place    stream.Place
	sequence stream.Sequence
	said     string
}

// maxPoison is how many events of one batch may panic before the view fails: then it is the plan
// that is broken, not the data.
const maxPoison = 100

// rerun throws the epoch in work away and takes its entries again, up to the one at a sequence,
// each as an epoch of its own. Of a batch that panics, the events that do it are found by bisection,
// listed as row errors with the code internal, and left out; final and corrected changes are still
// made once for the whole batch (E2, C5). A panic at a control record fails the view.
func (w *worker) rerun(upTo stream.Sequence, panicked *panicError) error {
	w.logger.Error("an operator panicked; its epoch is run again event by event",
		"err", panicked, "sequence", int64(upTo), "stack", string(panicked.stack))
	if err := w.reload(); err != nil {
		return err
	}
	for w.last < upTo {
		e, ok, err := w.reader.Next()
		if err != nil {
			return fmt.Errorf("read the log behind sequence %d: %w", w.last, err)
		}
		if !ok {
			return fmt.Errorf("the log ends at sequence %d, before %d", w.last, upTo)
		}
		if err := w.takeAlone(e); err != nil {
			return err
		}
	}
	return nil
}

// takeAlone makes one entry an epoch. The engine is as it was committed.
func (w *worker) takeAlone(e stream.Entry) error {
	panicked, err := w.tryAlone(e, e.Batch != nil, 0)
	if err != nil {
		return err
	}
	for panicked != nil {
		if e.Control != nil {
			return fatal{fmt.Errorf("an operator panicked at the control record with sequence %d: %w", e.Sequence(), panicked)}
		}
		if len(w.poison) >= maxPoison {
			return fatal{fmt.Errorf("more than %d events of the batch with sequence %d make an operator panic: %w", maxPoison, e.Sequence(), panicked)}
		}
		// The least n for which the first n events panic: event n−1 is one that does.
		b, poison := e.Batch, w.poison
		low, high, said := 1, b.Len, panicked
		for low < high {
			n := (low + high) / 2
			p, err := w.tryFirst(e, n, poison)
			if err != nil {
				return err
			}
			if p != nil {
				high, said = n, p
			} else {
				low = n + 1
			}
		}
		poison = append(poison, poisoned{
			stream: b.Stream, sequence: b.Sequence, said: said.Error(),
			place: stream.Place{Partition: b.Partition, Offset: b.Offset(low - 1)},
		})
		if panicked, err = w.tryFirst(e, b.Len, poison); err != nil {
			return err
		}
		w.poison = poison
	}
	return w.commit()
}

// tryFirst runs a batch on a fresh engine with only its first n events, less those that are poison.
func (w *worker) tryFirst(e stream.Entry, n int, poison []poisoned) (*panicError, error) {
	if err := w.reload(); err != nil {
		return nil, err
	}
	w.poison = poison
	// The reader stands before the batch again.
	if _, ok, err := w.reader.Next(); err != nil || !ok {
		return nil, fmt.Errorf("read the batch with sequence %d again: found %v: %w", e.Sequence(), ok, err)
	}
	return w.tryAlone(e, true, e.Batch.Len-n)
}

// tryAlone steps an entry and lets the engine make what a commit would take, so that a panic that
// comes only then is found here. The last skip events of a batch are left out.
func (w *worker) tryAlone(e stream.Entry, batch bool, skip int) (*panicError, error) {
	if batch {
		out := map[stream.Place]struct{}{}
		for _, p := range w.poison {
			out[p.place] = struct{}{}
		}
		b := e.Batch
		for i := b.Len - skip; i < b.Len; i++ {
			out[stream.Place{Partition: b.Partition, Offset: b.Offset(i)}] = struct{}{}
		}
		w.eng.Skip(map[stream.ID]map[stream.Place]struct{}{b.Stream: out})
	}
	panicked, err := w.step(e)
	if panicked != nil || err != nil {
		return panicked, err
	}
	panicked = protect(func() { w.out = w.eng.Take(true) })
	return panicked, nil
}

// workNote is what is known of a version's crashes, as long as the process lives. It belongs to the
// version's worker.
type workNote struct {
	// crashes is how many crashes in a row an epoch of this version was in work.
	crashes byte
	// noted: the next crash would count. calm: an epoch was committed since the start.
	noted, calm bool
}

func (v *view) workOf(version uint32) *workNote {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.work[version] == nil {
		v.mu.work[version] = &workNote{}
	}
	return v.mu.work[version]
}

// readCrashes refuses to go on with a version that was at work when the process crashed, too
// often in a row (E2).
func (w *worker) readCrashes() error {
	if w.work.calm || w.work.noted {
		return nil
	}
	n, err := w.svc.kv.Get(crashesKey(w.v.id, w.doc.Version))
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	if err != nil || len(n) != 1 {
		return fmt.Errorf("read how often the process crashed: %d bytes: %w", len(n), err)
	}
	if w.work.crashes = n[0]; w.svc.MaxCrashes > 0 && int(w.work.crashes) >= w.svc.MaxCrashes {
		return fatal{fmt.Errorf("the process crashed %d times in a row while the view was at work behind sequence %d: look at the events there, then resume the view or change its SQL", w.work.crashes, w.done.Position.Sequence)}
	}
	return nil
}

// noteWork notes durably that the version's first epoch since the start is in work; its commit takes
// the note back.
func (w *worker) noteWork() error {
	if w.work.calm || w.work.noted {
		return nil
	}
	b := w.svc.kv.NewBatch()
	b.Set(crashesKey(w.v.id, w.doc.Version), []byte{min(w.work.crashes, 254) + 1})
	if err := b.Commit(true); err != nil {
		return err
	}
	w.work.noted = true
	return nil
}

// calmDown takes the note back when the first epoch does not end soon because it is to gather for
// long: the entries that it holds have crashed nothing.
func (w *worker) calmDown() error {
	if !w.work.noted || w.work.calm {
		return nil
	}
	b := w.svc.kv.NewBatch()
	b.Delete(crashesKey(w.v.id, w.doc.Version))
	if err := b.Commit(true); err != nil {
		return err
	}
	w.work.calm = true
	return nil
}

// forgetCrashes gives a view that has failed as many crashes again.
func (v *view) forgetCrashes() error {
	doc := v.document()
	b := v.svc.kv.NewBatch()
	b.Delete(crashesKey(v.id, doc.Version))
	if doc.Serving != nil {
		b.Delete(crashesKey(v.id, doc.Serving.Version))
	}
	v.mu.Lock()
	v.mu.work = map[uint32]*workNote{}
	v.mu.Unlock()
	return b.Commit(true)
}
