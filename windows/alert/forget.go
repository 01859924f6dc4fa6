package alert

import (
	"encoding/json"
	"errors"
	"fmt"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// forgotten says which alarms retention has removed: those up to a number, and where in the log the
// last of them was made. It lies under the number 0, which no alarm has.
type forgotten struct {
	Seq      uint64 `json:"seq"`
	Position string `json:"position"`
}

func readForgotten(store *kv.Store, id uint64) (forgotten, error) {
	var f forgotten
	text, err := store.Get(logKey(id, 0))
	if errors.Is(err, kv.ErrNotFound) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	return f, err
}

// after reports whether an alarm behind a position was removed.
func (f forgotten) after(at stream.Position) bool {
	if f.Seq == 0 {
		return false
	}
	last, err := stream.ParsePosition(f.Position)
	return err == nil && behind(at, last)
}

// Forget implements runtime.Forgetter: it removes the alarms that were made up to a position, but for
// the newest, whose number the next one follows.
func (f *follower) Forget(b *kv.Batch, upTo stream.Position) error {
	gone, err := readForgotten(f.alerts.kv, f.meta.ID)
	if err != nil {
		return fmt.Errorf("alert %s: %w", f.meta.Name, err)
	}
	newest, err := lastSeq(f.alerts.kv, f.meta.ID)
	if err != nil {
		return fmt.Errorf("alert %s: %w", f.meta.Name, err)
	}
	first := gone.Seq + 1
	it := f.alerts.kv.Iter(logKey(f.meta.ID, first), logKey(f.meta.ID, max(first, newest)))
	for ok := it.First(); ok; ok = it.Next() {
		var a struct {
			Seq      uint64 `json:"seq"`
			Position string `json:"position"`
		}
		if err = json.Unmarshal(it.Value(), &a); err != nil {
			break
		}
		var p stream.Position
		if p, err = stream.ParsePosition(a.Position); err != nil || p.Log == upTo.Log && behind(upTo, p) {
			break
		}
		gone = forgotten{a.Seq, a.Position}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("alert %s: %w", f.meta.Name, err)
	}
	if gone.Seq >= first {
		b.DeleteRange(logKey(f.meta.ID, first), logKey(f.meta.ID, gone.Seq+1))
		text, err := json.Marshal(gone)
		if err != nil {
			return fmt.Errorf("alert %s: %w", f.meta.Name, err)
		}
		b.Set(logKey(f.meta.ID, 0), text)
	}
	return nil
}
