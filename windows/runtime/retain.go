package runtime

import (
	"encoding/json"
	"errors"
	"time"

	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/windows"
)

// Retention of views (R3). Rows expire by their own time, against the view's watermark; changes by
// when they were made, in the log's append time. Both are functions of the log. While nothing comes,
// both go on by the clock, as the watermark of a silent stream does (W5): see [Service.Keep]. A rebuild
// keeps the same rows, because what has expired does not come back. Expiry is no change: nobody is told
// but by as_of.oldest and the gap in front of a position that is gone.

// retentionSteps is into how many steps a retention is divided: rows and changes go a step at a
// time, so that they are looked for once a step.
const retentionSteps = 20

// step is the length of a step.
func (d *stored) step() windows.Micros {
	return max(d.Retention/retentionSteps, time.Minute.Microseconds())
}

// mark says where a view stood at an append time.
type mark struct {
	At       windows.Micros  `json:"at"`
	Position stream.Position `json:"position"`
}

// retention is how long a definition keeps rows: as it says, else as long as its streams keep events;
// 0, for ever, when one of them does.
func (s *Service) retention(d *stored) windows.Micros {
	if d.Definition.Retention != nil {
		return d.Definition.Retention.Age.Micros()
	}
	longest := windows.Micros(0)
	for _, b := range d.Sources {
		st, ok := s.Registry.ByID(b.ID)
		if !ok || st.Config.Retention == nil || st.Config.Retention.Age == nil {
			return 0
		}
		longest = max(longest, st.Config.Retention.Age.Micros())
	}
	return longest
}

// expired reports whether a row with this time is kept no more. Rows without time are kept.
func expired(oldest *windows.Micros, at windows.Micros) bool {
	return oldest != nil && at != windows.NoTime && at < *oldest
}

// oldestAt is the time of the oldest row that is kept where a watermark stands, a step at a time.
func (d *stored) oldestAt(watermark windows.Micros) windows.Micros {
	oldest, step := watermark-d.Retention, d.step()
	return oldest - ((oldest%step)+step)%step
}

// expireRows removes the rows that the watermark has left behind by the retention.
func (w *worker) expireRows(b *kv.Batch, next *progress) error {
	next.AsOf.Oldest = next.Oldest
	if w.doc.Retention == 0 || next.AsOf.Watermark == windows.NoWatermark {
		return nil
	}
	oldest := w.doc.oldestAt(next.AsOf.Watermark)
	if next.Oldest != nil && oldest <= *next.Oldest {
		return nil
	}
	next.Oldest, next.AsOf.Oldest = &oldest, &oldest
	return w.dropRows(b, next, oldest)
}

// dropRows removes the rows with an earlier time.
func (w *worker) dropRows(b *kv.Batch, next *progress, oldest windows.Micros) error {
	prefix := rowsKey(w.v.id, w.doc.Version)
	it := w.svc.kv.Iter(prefix, kv.PrefixEnd(prefix))
	var err error
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var h rowHead
		if h, _, err = splitRow(it.Value()); err == nil && expired(&oldest, h.time) {
			b.Delete(append([]byte{}, it.Key()...))
			next.Rows--
		}
	}
	return errors.Join(err, it.Close())
}

// expireChanges removes the changes that were made before the retention at an append time, but none
// that a sink has not taken; late records, row errors and alarms go with the changes of their time. It
// returns the view's new head when the change stream begins elsewhere now.
func (w *worker) expireChanges(b *kv.Batch, next *progress, at windows.Micros) (*head, error) {
	if w.doc.Retention == 0 {
		next.Marks = nil
		return nil, nil
	}
	marks := append([]mark{}, next.Marks...)
	if n := len(marks); n == 0 || next.AppendTime-marks[n-1].At >= w.doc.step() || at > next.AppendTime {
		if n > 0 && before(marks[n-1].Position, w.done.Position) { // the last epoch of the step before
			marks = append(marks, mark{w.done.AppendTime, w.done.Position})
		}
		if n = len(marks); n == 0 || before(marks[n-1].Position, next.Position) {
			marks = append(marks, mark{next.AppendTime, next.Position})
		}
	}
	gone := -1
	for i, m := range marks {
		if m.At <= at-w.doc.Retention && (!w.serving || w.svc.sinksHold(w.v, m.Position)) {
			gone = i
		}
	}
	next.Marks = marks[max(gone, 0):]
	if gone < 0 {
		return nil, nil
	}
	if err := w.forget(b, marks[gone].Position, next); err != nil {
		return nil, err
	}
	h, _ := w.v.published()
	to := marks[gone].Position
	if !w.serving {
		if w.doc.isRebuild() {
			b.DeleteRange(besidePrefix(w.v.id, w.doc.Version), besideKey(w.v.id, w.doc.Version, stream.Position{Sequence: to.Sequence, Within: to.Within + 1}))
		}
		return nil, nil
	}
	if !before(h.ChangesFrom, to) {
		return nil, nil
	}
	behind := to
	behind.Within++
	b.DeleteRange(changeKey(w.v.id, stream.Position{}), changeKey(w.v.id, behind))
	h.ChangesFrom, h.Trimmed = to, true
	b.Set(headKey(w.v.id), mustJSON(h))
	return &h, nil
}

// forget removes the late records and row errors of entries up to a position, and lets the follower
// remove what it made of them.
func (w *worker) forget(b *kv.Batch, to stream.Position, next *progress) error {
	if to.Sequence <= next.Forgotten {
		return nil
	}
	next.Forgotten = to.Sequence
	id, version := w.v.id, w.doc.Version
	late := w.svc.kv.Iter(lateKey(id, version, next.LateGone), kv.PrefixEnd(versionKey(kv.Late, id, version)))
	var err error
	for ok := late.First(); ok; ok = late.Next() {
		var r struct {
			Sequence stream.Sequence `json:"sequence"`
		}
		if err = json.Unmarshal(late.Value(), &r); err != nil || r.Sequence > to.Sequence {
			break
		}
		next.LateGone++
	}
	if err = errors.Join(err, late.Close()); err != nil {
		return err
	}
	if next.LateGone > 0 {
		b.DeleteRange(versionKey(kv.Late, id, version), lateKey(id, version, next.LateGone))
	}
	failed := w.svc.kv.Iter(errorsKey(id, version), kv.PrefixEnd(errorsKey(id, version)))
	for ok := failed.First(); ok && err == nil; ok = failed.Next() {
		var r struct {
			Sequence stream.Sequence `json:"sequence"`
		}
		if err = json.Unmarshal(failed.Value(), &r); err == nil && r.Sequence <= to.Sequence {
			b.Delete(append([]byte{}, failed.Key()...))
			next.ErrorsGone++
			next.Counts.RowErrors--
		}
	}
	if err = errors.Join(err, failed.Close()); err != nil {
		return err
	}
	if f, ok := w.follower.(Forgetter); ok && w.serving {
		return f.Forget(b, w.v.outside(to))
	}
	return nil
}

// sinksHold reports whether every sink has a view's changes up to a position.
func (s *Service) sinksHold(v *view, at stream.Position) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range s.pumps {
		if held, ok := v.mu.held[p]; !ok || before(held, at) {
			return false
		}
	}
	return true
}

// holds notes how far a sink is with a view.
func (v *view) holds(p *pump, at stream.Position) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.held == nil {
		v.mu.held = map[*pump]stream.Position{}
	}
	v.mu.held[p] = at
}
