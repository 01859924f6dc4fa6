package fate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/judge"
	"tidemark/windows/runtime"
)

// Fates answers what became of events. It is safe for concurrent use.
type Fates struct {
	Views   *runtime.Service
	Streams *stream.Registry
	Log     stream.Log
	// Find is where the event with an id lies, as far as the log remembers ids; nil: it is looked
	// for in the payloads alone. value is the id as JSON.
	Find func(id stream.ID, value []byte) (stream.Place, bool, error)

	mu struct {
		sync.Mutex
		replays map[string]*replay
	}
}

// The kinds of fate.
const (
	Appended   = "appended"
	DeadLetter = "dead_letter"
	Unknown    = "unknown"
)

// Pending is the outcome in a view that has not read the event yet.
const Pending judge.Outcome = "pending"

// Fate is what became of an event.
type Fate struct {
	Fate      string            `json:"fate"`
	Partition *stream.Partition `json:"partition,omitempty"`
	Offset    *stream.Offset    `json:"offset,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	// DeadLetter is the number of the dead letter.
	DeadLetter uint64     `json:"dead_letter,omitempty"`
	Views      []ViewFate `json:"views"`
}

// ViewFate is what one view did with it.
type ViewFate struct {
	View    string        `json:"view"`
	Outcome judge.Outcome `json:"outcome"`
	Reason  string        `json:"reason,omitempty"`
	Windows []Window      `json:"windows"`
}

// Window is one window that the event lies in, with the watermark that it met.
type Window struct {
	Start     string        `json:"window_start"`
	End       string        `json:"window_end"`
	Outcome   judge.Outcome `json:"outcome"`
	Watermark *string       `json:"watermark"`
}

// At answers for the event at a place.
func (f *Fates) At(ctx context.Context, name string, p stream.Partition, o stream.Offset) (*Fate, error) {
	st, err := f.Streams.Get(name)
	if err != nil {
		return nil, err
	}
	return f.at(ctx, st, stream.Place{Partition: p, Offset: o})
}

func (f *Fates) at(ctx context.Context, st *stream.Stream, at stream.Place) (*Fate, error) {
	stats, err := f.Log.Stats(st.ID)
	if err != nil {
		return nil, err
	}
	if at.Partition < 0 || int(at.Partition) >= len(stats.Partitions) {
		return nil, problem.New(404, "unknown_partition", "%s has no partition %d; it has %d", st.Name, at.Partition, len(stats.Partitions)).
			WithHint("partitions are numbered from 0")
	}
	if at.Offset >= stats.Partitions[at.Partition].Next {
		return unknown(fmt.Sprintf("partition %d of %s ends before offset %d", at.Partition, st.Name, at.Offset)), nil
	}
	out := &Fate{Fate: Appended, Partition: &at.Partition, Offset: &at.Offset, Views: []ViewFate{}}
	batches, err := f.Log.Slice(st.ID, at.Partition, at.Offset, 1)
	var gone *stream.OffsetGone
	if errors.As(err, &gone) || err == nil && len(batches) == 0 {
		out.Reason = "retention has removed the event; what the views did with it can't be worked out again"
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for _, view := range f.Views.Readers(st.ID) {
		v, err := f.inView(ctx, view, judge.Event{Stream: st.ID, Place: at}, batches[0].Sequence)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out.Views = append(out.Views, *v)
		}
	}
	return out, nil
}

func unknown(reason string) *Fate { return &Fate{Fate: Unknown, Reason: reason, Views: []ViewFate{}} }

// inView is what one view did with an event; nil when the view was deleted meanwhile.
func (f *Fates) inView(ctx context.Context, name string, ev judge.Event, at stream.Sequence) (*ViewFate, error) {
	proof, err := f.Views.Proof(name)
	if err != nil {
		return nil, nil
	}
	out := &ViewFate{View: name, Windows: []Window{}}
	switch {
	case at > proof.Position.Sequence:
		out.Outcome = Pending
		return out, nil
	case at <= proof.StartAt:
		out.Outcome, out.Reason = judge.Outside, "it lies before the view's start"
		return out, nil
	}
	r, err := f.replayOf(proof)
	if err != nil {
		return nil, err
	}
	a, err := r.account(ctx, ev, at)
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", name, err)
	}
	out.Outcome, out.Reason = a.Outcome, a.Reason
	var watermark *string
	if a.Watermark != windows.NoWatermark {
		text := text(a.Watermark)
		watermark = &text
	}
	for _, w := range a.Windows {
		out.Windows = append(out.Windows, Window{text(w.Start), text(w.End), w.Outcome, watermark})
	}
	return out, nil
}

func text(at windows.Micros) string { return string(row.FormatTimestamp(nil, at)) }

// replayOf is what is known of the served version of a view.
func (f *Fates) replayOf(proof *runtime.Proof) (*replay, error) {
	f.mu.Lock()
	r := f.mu.replays[proof.Name]
	f.mu.Unlock()
	if r != nil && r.proof.ID == proof.ID && r.proof.Version == proof.Version && r.proof.Panics == proof.Panics && r.fresh() {
		return r, nil
	}
	panics, err := f.Views.Panics(proof.Name)
	if err != nil {
		return nil, err
	}
	if r, err = newReplay(proof, f.Log, panics); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.replays == nil {
		f.mu.replays = map[string]*replay{}
	}
	for name := range f.mu.replays {
		if len(f.mu.replays) >= maxViews && name != proof.Name {
			delete(f.mu.replays, name)
		}
	}
	f.mu.replays[proof.Name] = r
	return r, nil
}

// ByID answers for the event with an id: the one that was appended, or a dead letter while it is
// kept.
func (f *Fates) ByID(ctx context.Context, name, id string) (*Fate, error) {
	st, err := f.Streams.Get(name)
	if err != nil {
		return nil, err
	}
	field := st.Config.IDField
	if field == "" {
		return nil, problem.New(422, "no_id_field", "the stream %s has no id_field: its events have no ids", name).
			WithHint("ask by place: /v1/streams/%s/events/{partition}/{offset}/fate", name)
	}
	for _, value := range idValues(id) {
		if f.Find == nil {
			break
		}
		at, ok, err := f.Find(st.ID, value)
		if err != nil {
			return nil, err
		}
		if ok && f.holds(st, at, field, value) {
			return f.at(ctx, st, at)
		}
	}
	if dead, err := f.deadLetter(ctx, st, field, id); dead != nil || err != nil {
		return dead, err
	}
	at, ok, err := f.search(ctx, st, field, id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return unknown(fmt.Sprintf("no event and no dead letter of %s has the id %s", name, id)), nil
	}
	return f.at(ctx, st, at)
}

// idValues are the JSON values that an id in an address can stand for: what it is as JSON, else a text.
// 1 is the id 1, or "1" where there is no such id; "1" in quotes is the text alone first.
func idValues(id string) [][]byte {
	quoted, _ := json.Marshal(id)
	if plain := strings.TrimSpace(id); json.Valid([]byte(id)) && plain != "null" {
		return [][]byte{[]byte(plain), quoted}
	}
	return [][]byte{quoted}
}

// holds reports whether the event at a place has an id; one that is no longer there is believed.
func (f *Fates) holds(st *stream.Stream, at stream.Place, field string, value []byte) bool {
	batches, err := f.Log.Slice(st.ID, at.Partition, at.Offset, 1)
	if err != nil || len(batches) == 0 {
		return true
	}
	b := batches[0]
	i := b.Index(at.Offset)
	if i == b.Len || b.Offset(i) != at.Offset {
		return true // compaction has removed it
	}
	return hasID(b.Raw(i), field, [][]byte{value})
}

// hasID reports whether a payload has an id: ids compare as JSON values (R5).
func hasID(raw []byte, field string, values [][]byte) bool {
	var found []byte
	err := row.EachMember(bytes.TrimSpace(raw), func(name string, v []byte) error {
		if strings.EqualFold(name, field) {
			found = bytes.Clone(v)
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		return false
	}
	for _, v := range values {
		if bytes.Equal(found, v) || sameJSON(found, v) {
			return true
		}
	}
	return false
}

// sameJSON compares two JSON values, numbers by value.
func sameJSON(a, b []byte) bool {
	number := func(v []byte) bool { return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') }
	if number(a) && number(b) {
		return bytes.Equal(row.AppendCanonicalNumber(nil, a), row.AppendCanonicalNumber(nil, b))
	}
	if number(a) || number(b) {
		return false
	}
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	left, _ := json.Marshal(x)
	right, _ := json.Marshal(y)
	return bytes.Equal(left, right)
}

// deadLetters is how many dead letters are read at once.
const deadLetters = 1000

// deadLetter looks for a dead letter with an id, the newest first in the end.
func (f *Fates) deadLetter(ctx context.Context, st *stream.Stream, field, id string) (*Fate, error) {
	var out *Fate
	values := idValues(id)
	first := false // out has the id as it was asked for
	for after := uint64(0); ; {
		list, err := f.Log.DeadLetters(st.ID, after, deadLetters)
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, d := range list {
			if d.Origin == "ingest" && hasID(d.Raw, field, values) && (out == nil || !first || hasID(d.Raw, field, values[:1])) {
				first = first || hasID(d.Raw, field, values[:1])
				out = &Fate{Fate: DeadLetter, Reason: d.Reason, DeadLetter: d.Number, Views: []ViewFate{}}
			}
			after = d.Number
		}
		if len(list) < deadLetters {
			return out, nil
		}
	}
}

// search looks for an id in the payloads that the log holds: the index of ids forgets after the
// stream's dedupe_window.
func (f *Fates) search(ctx context.Context, st *stream.Stream, field, id string) (stream.Place, bool, error) {
	values := idValues(id)
	r := f.Log.Read([]stream.ID{st.ID}, 0)
	defer r.Close()
	var other stream.Place // has the id written otherwise
	found := false
	for {
		e, ok, err := r.Next()
		if err != nil || !ok {
			return other, found && err == nil, err
		}
		if err := ctx.Err(); err != nil {
			return stream.Place{}, false, problem.New(504, "deadline", "the id is older than the stream's dedupe_window, and it was not found in the log in time").
				WithHint("ask by place: /v1/streams/%s/events/{partition}/{offset}/fate", st.Name)
		}
		if b := e.Batch; b != nil {
			for i := range b.Len {
				if !hasID(b.Raw(i), field, values) {
					continue
				}
				at := stream.Place{Partition: b.Partition, Offset: b.Offset(i)}
				if hasID(b.Raw(i), field, values[:1]) {
					return at, true, nil
				}
				if !found {
					other, found = at, true
				}
			}
		}
	}
}
