package live

import (
	"context"
	"errors"
	"strconv"

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

// numbered follows a numbered log, never folded.
func (s *subscription) numbered(ctx context.Context, from start, src source) error {
	arrived, stop := src.watch()
	defer stop()
	after, err := s.numberedStart(ctx, from, src)
	if err != nil {
		return err
	}
	kind, member := src.frame()
	for {
		room, err := s.room(ctx)
		if err != nil {
			return err
		}
		entries, err := src.read(after, room)
		if gone(err) { // what lay behind the reader was taken away: an edit of a view begins its late events anew
			oldest, _, err := src.ends()
			if err != nil {
				return err
			}
			from, to := s.numberedPosition(after).String(), s.numberedPosition(max(0, oldest-1)).String()
			if err := s.gap(ctx, from, to); err != nil {
				return err
			}
			after = max(0, oldest-1)
			continue
		}
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			if err := s.progress(ctx, s.numberedPosition(after).String(), nil, 0, true); err != nil {
				return err
			}
			if err := s.wait(ctx, arrived); err != nil {
				return err
			}
			continue
		}
		var body []byte
		n := 0
		for ; n < len(entries) && (n == 0 || len(body) < maxFrameBytes); n++ {
			if n > 0 {
				body = append(body, ',')
			}
			body = append(body, entries[n].JSON...)
			after = entries[n].Number
		}
		position := s.numberedPosition(after)
		b := s.appendNext(appendPosition(begin(kind, s.op.ID), position.String()))
		b = append(b, `,`+strconv.Quote(member)+`:[`...)
		b = append(append(b, body...), "]}"...)
		s.note(position, n)
		if err := s.emit(ctx, frame{data: b, position: position.String()}); err != nil {
			return err
		}
		select {
		case <-s.bell:
			if err := s.takeAck(ctx); err != nil {
				return err
			}
		default:
		}
	}
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
			if after, ok, err = src.at(from.at); err != nil {
				return 0, err
			}
		}
		if !ok || after < beginning || after > newest {
			position := s.numberedPosition(beginning).String()
			if err := s.subscribed(ctx, position, false); err != nil {
				return 0, err
			}
			return beginning, s.gap(ctx, from.text, position)
		}
	}
	return after, s.subscribed(ctx, s.numberedPosition(after).String(), true)
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

func (s *subscription) numberedPosition(number int64) stream.Position {
	return stream.Position{Log: s.hub.opts.Log.ID().Of(s.rel.ID), Sequence: stream.Sequence(number), Within: numberedMark}
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
