package engine

import (
	"slices"

	"tidemark/windows"
)

// window is a window function as the judge sees it.
type window interface {
	// judge marks what is late in the batch in work, and says where steps must be cut.
	judge()
	// outcomes adds to the notes of late events what the function's windows did with them.
	outcomes()
	// done forgets the batch.
	done()
}

// cut asks for a new step before an event that is taken late by a window with this finalAt, if the
// window was not final when the step began. AtOnce stands for windows that are not known before
// the event is fed: any step in which the watermark moved is cut.
type cut struct {
	event   int
	finalAt windows.Micros
}

// lateNote gathers what the windows of a view did with a late event.
type lateNote struct {
	event            int
	refused          []Refusal
	taken, corrected bool
}

// markLate says that an event of the batch in work is late for some window.
func (e *Engine) markLate(ev int) {
	if !e.late[ev] {
		e.late[ev] = true
		e.lateEvents = append(e.lateEvents, ev)
	}
}

// note is the note of a late event.
func (e *Engine) note(ev int) *lateNote {
	n, ok := e.notes[ev]
	if !ok {
		n = &lateNote{event: ev}
		e.notes[ev] = n
	}
	return n
}

// tellLate counts the late events of a batch that has been fed, and keeps records of those that a
// window refused (L5).
func (e *Engine) tellLate() {
	if len(e.lateEvents) == 0 {
		return
	}
	slices.Sort(e.lateEvents)
	for _, w := range e.windows {
		w.outcomes()
	}
	b := e.in
	for _, ev := range e.lateEvents {
		e.late[ev] = false
		n := e.notes[ev]
		if n == nil {
			continue
		}
		var outcome LateOutcome
		switch {
		case len(n.refused) > 0 && !n.taken:
			outcome = LateDropped
			e.counts.LateDropped++
		case len(n.refused) > 0:
			outcome = LatePartial
			e.counts.LatePartial++
		case n.corrected:
			e.counts.LateCorrected++
		}
		if outcome == "" {
			continue
		}
		slices.SortFunc(n.refused, func(a, b Refusal) int {
			if a.Function != b.Function {
				return a.Function - b.Function
			}
			return int(min(max(a.Start-b.Start, -1), 1))
		})
		e.out.Late = append(e.out.Late, LateRecord{
			Stream: b.Stream, Place: e.placeOf(ev), Sequence: b.Sequence, Time: b.Times[ev],
			Watermark: e.met[ev], Outcome: outcome, Refused: n.refused,
		})
	}
	e.lateEvents = e.lateEvents[:0]
	clear(e.notes)
}
