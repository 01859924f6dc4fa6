package live

import (
	"context"
	"errors"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// A numbered log holds entries with rising numbers: the alerts of a rule, or the late events of a
// view. Its positions carry the log's identity as it is for the relation, the number as sequence, and a mark, so that they
// are not taken for places in the log of events.
const numberedMark = -1

// IsNumbered reports whether a position is one of a numbered log; its Sequence is the number.
func IsNumbered(p stream.Position) bool { return p.Within == numberedMark }

// source is a numbered log.
type source interface {
	// frame names the type of the frames and the member that holds the entries.
	frame() (kind, member string)
	read(after int64, limit int) ([]Entry, error)
	// ends are the oldest number that is kept and the newest; 0, 0 while there is none.
	ends() (oldest, newest int64, err error)
	// at is the number behind which a position in the log of events lies, if that can be told.
	at(p stream.Position) (number int64, ok bool, err error)
	watch() (<-chan struct{}, func())
}

type alertSource struct {
	log  Alerts
	name string
}

func (a alertSource) frame() (string, string) { return "alerts", "alerts" }
func (a alertSource) read(after int64, limit int) ([]Entry, error) {
	return a.log.Log(a.name, after, limit)
}
func (a alertSource) ends() (int64, int64, error)               { return a.log.Ends(a.name) }
func (a alertSource) at(p stream.Position) (int64, bool, error) { return a.log.At(a.name, p) }
func (a alertSource) watch() (<-chan struct{}, func())          { return a.log.Watch(a.name) }

// numberedReader reads a numbered log.
type numberedReader struct {
	watched
	unfolded
	hub   *Hub
	rel   Relation
	src   source
	after int64
}

func newNumberedReader(h *Hub, rel Relation, src source) *numberedReader {
	r := &numberedReader{hub: h, rel: rel, src: src}
	r.bell, r.stop = src.watch()
	return r
}

// numbered begins to follow a numbered log, never folded.
func (s *subscription) numbered(ctx context.Context, from start, src source) (reader, error) {
	r := newNumberedReader(s.hub, s.rel, src)
	var err error
	if r.after, err = s.numberedStart(ctx, from, src); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *numberedReader) place(number int64) stream.Position { return r.hub.numbered(r.rel, number) }
func (r *numberedReader) at() stream.Position                { return r.place(r.after) }
func (r *numberedReader) reached() bool                      { return false }
func (r *numberedReader) progress() *content                 { return progressContent(r.at(), nil, 0) }

func (r *numberedReader) fork() (reader, error) {
	own := newNumberedReader(r.hub, r.rel, r.src)
	own.after = r.after
	return own, nil
}

func (r *numberedReader) next(room int, limit *stream.Position) (c *content, caughtUp bool, err error) {
	if limit != nil {
		room = min(room, int(int64(limit.Sequence)-r.after))
	}
	if room <= 0 {
		return nil, true, nil
	}
	entries, err := r.src.read(r.after, room)
	if gone(err) { // what lay behind the reader was taken away: an edit of a view begins its late events anew
		return nil, false, &Gap{}
	}
	if err != nil || len(entries) == 0 {
		return nil, err == nil, err
	}
	var body []byte
	n := 0
	for ; n < len(entries) && (n == 0 || len(body) < maxFrameBytes); n++ {
		if n > 0 {
			body = append(body, ',')
		}
		body = append(body, entries[n].JSON...)
		r.after = entries[n].Number
	}
	kind, member := r.src.frame()
	c = positioned(kind, r.at())
	c.numbered, c.entries = true, n
	c.rest = append(append(append(c.rest, `,"`...), member...), `":[`...)
	c.rest = append(c.rest, body...)
	return c.end("]}"), false, nil
}

func (r *numberedReader) skipGap(ctx context.Context, s *subscription) error {
	oldest, _, err := r.src.ends()
	if err != nil {
		return err
	}
	was := r.at()
	r.after = max(0, oldest-1)
	return s.gap(ctx, was.String(), r.at().String())
}

// gone reports whether an error says that entries are no longer kept.
func gone(err error) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Status == 410
}

// numberedStart finds the number to read behind and answers the subscription.
func (s *subscription) numberedStart(ctx context.Context, from start, src source) (after int64, err error) {
	oldest, newest, err := src.ends()
	if err != nil {
		return 0, err
	}
	beginning := max(0, oldest-1)
	switch from.kind {
	case "", "latest":
		after = newest
	case "earliest":
		after = beginning
	case "time":
		if after, err = numberAt(src, beginning, from.time); err != nil {
			return 0, err
		}
	case "position":
		log := s.hub.opts.Log.ID()
		ok := from.at.Log == log.Of(s.rel.ID) || from.at.Log == log && !IsNumbered(from.at) // or a receipt
		after = int64(from.at.Sequence)
		if ok && !IsNumbered(from.at) {
			if after, ok, err = src.at(from.at); err != nil && !gone(err) {
				return 0, err
			}
		}
		if !ok || after < beginning || after > newest {
			position := s.hub.numbered(s.rel, beginning).String()
			if err := s.subscribed(ctx, position, false); err != nil {
				return 0, err
			}
			return beginning, s.gap(ctx, from.text, position)
		}
	}
	return after, s.subscribed(ctx, s.hub.numbered(s.rel, after).String(), true)
}

// numberAt is the number before the first entry made at or after an instant.
func numberAt(src source, after int64, at int64) (int64, error) {
	for {
		entries, err := src.read(after, maxFrameEntries)
		if err != nil || len(entries) == 0 {
			return after, err
		}
		for _, e := range entries {
			if e.Time >= at {
				return after, nil
			}
			after = e.Number
		}
	}
}

// numbered is the position of a number.
func (h *Hub) numbered(rel Relation, number int64) stream.Position {
	return stream.Position{Log: h.opts.Log.ID().Of(rel.ID), Sequence: stream.Sequence(number), Within: numberedMark}
}

// lateSource reads the late events of a view as a stream.
type lateSource struct {
	views Views
	view  string
}

func (l lateSource) frame() (string, string) { return "events", "events" }
func (l lateSource) read(after int64, limit int) ([]Entry, error) {
	return l.views.Late(l.view, after, limit)
}
func (l lateSource) ends() (int64, int64, error)             { return l.views.LateEnds(l.view) }
func (l lateSource) at(stream.Position) (int64, bool, error) { return 0, false, nil }
func (l lateSource) watch() (<-chan struct{}, func())        { return l.views.Watch(l.view) }
