package pebblelog

import (
	"context"
	"errors"
	"fmt"

	"tidemark/stream"
)

// Append commits requests; see [stream.Log].
func (l *Log) Append(ctx context.Context, reqs []*stream.Events) ([]stream.Appended, error) {
	if err := l.refusal(); err != nil {
		return nil, err
	}
	c := &call{events: reqs, noSync: len(reqs) > 0}
	for _, r := range reqs {
		if err := checkShape(r); err != nil {
			return nil, err
		}
		c.bytes += sizeOf(r)
		c.noSync = c.noSync && r.NoSync
	}
	if err := l.submit(ctx, c); err != nil {
		return nil, err
	}
	return c.appended, nil
}

// checkShape holds the caller to the contract: one element an event in every slice.
func checkShape(r *stream.Events) error {
	n := r.Len()
	bad := len(r.Partitions) != n || len(r.RawEnds) != n || r.IDs != nil && len(r.IDs) != n || r.Keys != nil && r.Keys.Len() != n ||
		n > 0 && int(r.RawEnds[n-1]) != len(r.RawData)
	if r.Values != nil {
		values := 0
		for _, n := range r.ValueCounts {
			values += int(n)
			bad = bad || n < 0
		}
		bad = bad || len(r.ValueCounts) != n || values != len(r.Values)
	}
	for _, v := range r.Columns {
		bad = bad || v != nil && v.Len() != n
	}
	if bad {
		return fmt.Errorf("append to stream %d: a request of %d events has a slice of another length", r.Stream, n)
	}
	return nil
}

// sizeOf is about how much memory a request holds.
func sizeOf(r *stream.Events) int {
	n := 256 + len(r.RawData) + r.Len()*(32+8*len(r.Columns)) + 12*len(r.Values)
	for i := range r.DeadLetters {
		n += 256 + len(r.DeadLetters[i].Raw)
	}
	return n
}

// Advance says that nothing older than to will come; see [stream.Log].
func (l *Log) Advance(ctx context.Context, id stream.ID, to stream.Micros) (stream.Sequence, error) {
	if err := l.refusal(); err != nil {
		return 0, err
	}
	c := &call{stream: id, advance: &to}
	err := l.submit(ctx, c)
	return c.sequence, err
}

// Declare creates a stream or gives it new settings; see [stream.Log].
func (l *Log) Declare(ctx context.Context, id stream.ID, s stream.Settings) error {
	if err := l.refusal(); err != nil {
		return err
	}
	return l.submit(ctx, &call{stream: id, declare: &s})
}

// Drop removes a stream; see [stream.Log].
func (l *Log) Drop(ctx context.Context, id stream.ID) error {
	if err := l.refusal(); errors.Is(err, stream.ErrShortened) {
		return err // what is left may be what a backup lacks
	}
	return l.submit(ctx, &call{stream: id, drop: true})
}
