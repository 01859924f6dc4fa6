package runtime

import (
	"fmt"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/query"
)

// startInstant is the instant at which a view begins, for a start that is one: it takes events with
// that time or a later one, and gives out windows that begin there or later (R2).
func (d *stored) startInstant() (windows.Micros, bool) {
	switch d.Definition.Start {
	case "", StartEarliest, StartLatest:
		return 0, false
	}
	at, err := row.ParseTime([]byte(d.Definition.Start))
	return at, err == nil
}

// begin is the progress of a version that has read nothing, and where its streams stand there. A
// view that starts at the log's end has the watermarks that its streams have at that place (R2).
// They are worked out from the log, so that every rebuild begins with the same ones. at are the marks
// of the streams of which retention has removed the beginning.
func (s *Service) begin(doc *stored, at map[stream.ID]stream.Mark) (progress, []windows.StreamState, error) {
	p := s.beginning(doc.ViewVersion)
	var err error
	if p.Sealed, p.WindowsFrom, err = s.sealing(doc, at); err != nil {
		return p, nil, err
	}
	gone := stream.Sequence(0)
	for _, m := range at {
		gone = max(gone, m.Sequence)
	}
	if doc.StartAt == 0 || gone > doc.StartAt {
		return p, nil, nil
	}
	plan, err := s.compile(doc)
	if err != nil {
		return p, nil, fatal{err}
	}
	tracker := windows.NewTracker(plan.Time == query.AppendTime, doc.engineConfig(false, nil).Streams)
	for id, m := range at {
		tracker.Mark(id, m)
	}
	names := doc.streamNames()
	r := s.log.Read(doc.ids(), 0)
	defer r.Close()
	largest, any := windows.Micros(0), false
	var met []windows.Micros
	for {
		e, ok, err := r.Next()
		if err != nil {
			return p, nil, fmt.Errorf("read the log before the view's start: %w", err)
		}
		if !ok || e.Sequence() > doc.StartAt {
			break
		}
		if b := e.Batch; b != nil {
			met = tracker.Batch(b, met)
			for i := range b.Len {
				if c := b.Counted(i); !any || c > largest {
					largest, any = c, true
				}
			}
		} else {
			tracker.Control(e.Control)
		}
		p.AsOf.take(names[e.Stream()], e)
		p.AppendTime = e.AppendTime()
	}
	p.Position = stream.Position{Log: p.Position.Log, Sequence: doc.StartAt}
	p.AsOf.Watermark = tracker.Watermark()
	if any {
		from := largest + 1
		p.WindowsFrom = &from
	}
	return p, tracker.Streams(), nil
}
