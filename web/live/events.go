package live

import (
	"context"
	"time"

	"tidemark/stream"
	"tidemark/web/wire"
)

// A frame of events or alerts holds at most so much, but at least one entry.
const (
	maxFrameEntries = 500
	maxFrameBytes   = 256 << 10
)

// stream follows a stream in the order of the log, never folded.
func (s *subscription) stream(ctx context.Context, from start) error {
	log := s.hub.opts.Log
	arrived, stop := log.Watch(stream.ID(s.rel.ID))
	defer stop()
	goal := log.End()
	at, err := s.streamStart(ctx, from)
	if err != nil {
		return err
	}
	r := &eventReader{sub: s, at: at, reader: log.Read([]stream.ID{stream.ID(s.rel.ID)}, at.Sequence)}
	defer r.reader.Close()
	for {
		busy := true
		for busy {
			if busy, err = r.step(ctx); err != nil {
				return err
			}
			if err = s.progress(ctx, r.at.String(), nil, r.lag(s.hub.opts.Now()), r.at.Sequence >= goal); err != nil {
				return err
			}
			select {
			case <-s.bell:
				err = s.takeAck(ctx)
			default:
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
		}
		if err := s.progress(ctx, r.at.String(), nil, 0, true); err != nil {
			return err
		}
		if err := s.wait(ctx, arrived); err != nil {
			return err
		}
	}
}

// streamStart finds the place to read from and answers the subscription.
func (s *subscription) streamStart(ctx context.Context, from start) (stream.Position, error) {
	log := s.hub.opts.Log
	at := stream.Position{Log: log.ID()}
	switch from.kind {
	case "", "latest":
		at.Sequence = log.End()
	case "time":
		seq, err := s.hub.sequenceAt([]stream.ID{stream.ID(s.rel.ID)}, from.time)
		if err != nil {
			return at, err
		}
		at.Sequence = seq
	case "position":
		if oldest, gone := s.gone(from.at); gone {
			at = oldest
			if err := s.subscribed(ctx, at.String(), false); err != nil {
				return at, err
			}
			return at, s.gap(ctx, from.text, at.String())
		}
		at = from.at
	}
	return at, s.subscribed(ctx, at.String(), true)
}

// gone reports whether a position does not reach the log any more: it is of another log (restored
// or cut short), lies ahead of this one, or before the oldest entry that is kept.
func (s *subscription) gone(at stream.Position) (oldest stream.Position, gone bool) {
	log := s.hub.opts.Log
	oldest.Log = log.ID()
	if keeps, ok := log.(interface {
		// Oldest is the last sequence whose entries of a stream may be gone; all behind it are kept.
		Oldest(stream.ID) stream.Sequence
	}); ok {
		oldest.Sequence = keeps.Oldest(stream.ID(s.rel.ID))
	}
	return oldest, at.Log != oldest.Log || at.Sequence > log.End() || at.Sequence < oldest.Sequence || at.Within < 0
}

// sequenceAt is the last sequence before the first entry of some streams that was appended at or
// after an instant.
func (h *Hub) sequenceAt(ids []stream.ID, at stream.Micros) (stream.Sequence, error) {
	log := h.opts.Log
	before := log.End()
	for _, id := range ids {
		stats, err := log.Stats(id)
		if err != nil {
			return 0, err
		}
		for p := range stats.Partitions {
			offset, err := log.OffsetAt(id, stream.Partition(p), at)
			if err != nil {
				return 0, err
			}
			batches, err := log.Slice(id, stream.Partition(p), offset, 1)
			if err != nil {
				return 0, err
			}
			if len(batches) > 0 {
				before = min(before, batches[0].Sequence-1)
			}
		}
	}
	return before, nil
}

// eventReader reads a stream and makes frames of events.
type eventReader struct {
	sub    *subscription
	reader stream.Reader
	// at is behind everything that was sent or skipped.
	at stream.Position
	// batch is the batch being read; next the event in it.
	batch *stream.Batch
	next  int
	// appended is when the newest event that was sent was appended; 0 before the first.
	appended stream.Micros
}

// step sends one frame, and reports whether there may be more.
func (r *eventReader) step(ctx context.Context) (more bool, err error) {
	s := r.sub
	room, err := s.room(ctx)
	if err != nil {
		return false, err
	}
	var body []byte
	n := 0
	for n < room && len(body) < maxFrameBytes {
		if r.batch == nil {
			e, ok, err := r.reader.Next()
			if err != nil {
				return false, err
			}
			if !ok {
				break
			}
			if e.Batch == nil { // a control record: nothing to send, but the position moves
				r.at.Sequence, r.at.Within = e.Sequence(), 0
				continue
			}
			r.batch, r.next = e.Batch, int(r.at.Within) // above 0 for the batch that the position lies in only
			r.at.Within = 0
			more = true
		}
		b := r.batch
		for ; r.next < b.Len && n < room && len(body) < maxFrameBytes; r.next++ {
			if n > 0 {
				body = append(body, ',')
			}
			body = wire.AppendEvent(body, b, r.next)
			n++
		}
		r.appended = b.AppendTime
		if r.next >= b.Len {
			r.at = stream.Position{Log: r.at.Log, Sequence: b.Sequence}
			r.batch = nil
		} else {
			r.at = stream.Position{Log: r.at.Log, Sequence: b.Sequence - 1, Within: int32(r.next)}
		}
	}
	if n == 0 {
		return more, nil
	}
	position := r.at.String()
	b := s.appendNext(appendPosition(begin("events", s.op.ID), position))
	b = append(append(append(b, `,"events":[`...), body...), "]}"...)
	s.note(r.at, n)
	return true, s.emit(ctx, frame{data: b, position: position})
}

// lag is how long ago the newest event that was sent had been appended; 0 at the log's end.
func (r *eventReader) lag(now time.Time) time.Duration {
	if r.appended == 0 || r.at.Sequence >= r.sub.hub.opts.Log.End() {
		return 0
	}
	return now.Sub(time.UnixMicro(r.appended))
}
