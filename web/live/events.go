package live

import (
	"context"
	"errors"
	"time"

	"tidemark/stream"
	"tidemark/web/wire"
)

// A frame of events or alerts holds at most so much, but at least one entry.
const (
	maxFrameEntries = 500
	maxFrameBytes   = 256 << 10
)

// stream begins to follow a stream in the order of the log, never folded.
func (s *subscription) stream(ctx context.Context, from start) (reader, error) {
	r := newEventReader(s.hub, stream.ID(s.rel.ID), s.bell == nil)
	r.goal = s.hub.opts.Log.End()
	at, err := s.streamStart(ctx, from)
	if err != nil {
		r.close()
		return nil, err
	}
	r.open(at)
	return r, nil
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
		oldest, gone, err := s.gone(from.at)
		if err != nil {
			return at, err
		}
		if gone {
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
func (s *subscription) gone(at stream.Position) (oldest stream.Position, gone bool, err error) {
	log := s.hub.opts.Log
	mark, err := log.Mark(stream.ID(s.rel.ID))
	oldest = stream.Position{Log: log.ID(), Sequence: mark.Sequence}
	return oldest, at.Log != oldest.Log || at.Sequence > log.End() || at.Sequence < oldest.Sequence || at.Within < 0, err
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

// eventReader reads a stream and makes messages of events.
type eventReader struct {
	watched
	unfolded
	hub  *Hub
	id   stream.ID
	goal stream.Sequence // where the log ended when the subscription began
	log  stream.Reader   // nil before open
	// position is behind everything that was given out or skipped. At the end of the log it goes with
	// it, unless the reader's group remembers where it was.
	position stream.Position
	follows  bool
	// batch is the batch being read; next the event in it. held was read and lies behind the limit.
	batch *stream.Batch
	row   int
	held  *stream.Entry
	// appended is when the newest event that was given out was appended; 0 before the first.
	appended stream.Micros
}

// newEventReader returns a reader that watches the stream already.
func newEventReader(h *Hub, id stream.ID, follows bool) *eventReader {
	r := &eventReader{hub: h, id: id, follows: follows}
	r.bell, r.stop = h.opts.Log.Watch(id)
	return r
}

// open begins to read at a position.
func (r *eventReader) open(at stream.Position) {
	r.position, r.log = at, r.hub.opts.Log.Read([]stream.ID{r.id}, at.Sequence)
}

func (r *eventReader) at() stream.Position { return r.position }
func (r *eventReader) reached() bool       { return r.position.Sequence >= r.goal }
func (r *eventReader) progress() *content {
	return progressContent(r.position, nil, r.lag(r.hub.opts.Now()))
}

func (r *eventReader) close() {
	r.stop()
	if r.log != nil {
		_ = r.log.Close()
	}
}

func (r *eventReader) fork() (reader, error) {
	own := newEventReader(r.hub, r.id, r.follows)
	own.goal, own.appended = r.goal, r.appended
	own.open(r.position)
	return own, nil
}

// skipGap goes on at the oldest entry: retention has overtaken the reader.
func (r *eventReader) skipGap(ctx context.Context, s *subscription) error {
	was := r.position
	oldest, gone, err := s.gone(was)
	if err != nil {
		return err
	}
	if !gone {
		oldest = was
	}
	_ = r.log.Close()
	r.batch, r.row, r.held = nil, 0, nil
	r.open(oldest)
	if !gone {
		return nil
	}
	return s.gap(ctx, was.String(), oldest.String())
}

// entry is the next entry of the log up to the limit.
func (r *eventReader) entry(limit *stream.Position) (*stream.Entry, error) {
	if r.held == nil {
		e, ok, err := r.log.Next()
		if trimmed := (*stream.Trimmed)(nil); errors.As(err, &trimmed) {
			return nil, &Gap{Oldest: stream.Position{Log: r.position.Log, Sequence: trimmed.Sequence}}
		}
		if err != nil || !ok {
			return nil, err
		}
		r.held = &e
	}
	if limit != nil && r.held.Sequence() > limit.Sequence {
		return nil, nil
	}
	e := r.held
	r.held = nil
	return e, nil
}

func (r *eventReader) next(room int, limit *stream.Position) (c *content, caughtUp bool, err error) {
	was := r.position
	defer func() {
		if err != nil { // what was read since was not given out: a fork reads it again
			r.position = was
		}
	}()
	var body []byte
	n := 0
	end := stream.Sequence(-1)
	for n < room && len(body) < maxFrameBytes {
		if r.batch == nil {
			e, err := r.entry(limit)
			if err != nil {
				return nil, false, err
			}
			if e == nil && limit == nil && end < 0 { // what lies up to the end will have been read then
				end = r.hub.opts.Log.End()
				continue
			}
			if e == nil {
				caughtUp = true
				break
			}
			if e.Batch == nil { // a control record: nothing to send, but the position moves
				r.position.Sequence, r.position.Within = e.Sequence(), 0
				continue
			}
			r.batch, r.row = e.Batch, int(r.position.Within) // above 0 for the batch that the position lies in only
			r.position.Within = 0
		}
		b := r.batch
		for ; r.row < b.Len && n < room && len(body) < maxFrameBytes; r.row++ {
			if n > 0 {
				body = append(body, ',')
			}
			body = wire.AppendEvent(body, b, r.row)
			n++
		}
		r.appended = b.AppendTime
		if r.row >= b.Len {
			r.position = stream.Position{Log: r.position.Log, Sequence: b.Sequence}
			r.batch = nil
		} else {
			r.position = stream.Position{Log: r.position.Log, Sequence: b.Sequence - 1, Within: int32(r.row)}
		}
	}
	if caughtUp && limit != nil {
		end = limit.Sequence
	}
	if caughtUp && r.follows && r.position.Sequence < end {
		r.position = stream.Position{Log: r.position.Log, Sequence: end}
	}
	if n == 0 {
		return nil, caughtUp, nil
	}
	c = positioned("events", r.position)
	c.numbered, c.entries = true, n
	c.rest = append(append(c.rest, `,"events":[`...), body...)
	return c.end("]}"), caughtUp, nil
}

// lag is how long ago the newest event that was given out had been appended; 0 at the log's end.
func (r *eventReader) lag(now time.Time) time.Duration {
	if r.appended == 0 || r.position.Sequence >= r.hub.opts.Log.End() {
		return 0
	}
	return now.Sub(time.UnixMicro(r.appended))
}
