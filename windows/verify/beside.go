package verify

import (
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/judge"
	"tidemark/windows/runtime"
)

// beside compares what the view says of the events that it left out with what the judge says, one
// batch of the log after the other: both tell in the log's order, so that neither list is in memory.
type beside struct {
	p    *prover
	next func() (runtime.RefusedEvent, bool, error)
	stop func() error
	// ahead is the first late record of the view that no batch was compared with; nil: there is none.
	ahead *runtime.RefusedEvent
	begun bool

	late, failed           []Difference
	lateCount, failedCount int
}

func newBeside(p *prover) *beside {
	b := &beside{p: p}
	b.next, b.stop = p.claim.Late()
	return b
}

func (b *beside) close() error { return b.stop() }

// advance reads the view's next late record.
func (b *beside) advance() error {
	b.begun = true
	r, ok, err := b.next()
	if b.ahead = nil; ok {
		b.ahead = &r
	}
	return err
}

// lateUpTo gives the late records up to a sequence.
func (b *beside) lateUpTo(last stream.Sequence, f func(runtime.RefusedEvent)) error {
	if !b.begun {
		if err := b.advance(); err != nil {
			return err
		}
	}
	for b.ahead != nil && b.ahead.Sequence <= last {
		f(*b.ahead)
		if err := b.advance(); err != nil {
			return err
		}
	}
	return nil
}

// compare compares what both say up to the end of a batch.
func (b *beside) compare(batch *stream.Batch, v judge.Verdict) error {
	p := b.p
	told := batch.Sequence > p.claim.Forgotten // else the view keeps what it said no more (R3)
	late := sides{}
	err := b.lateUpTo(batch.Sequence, func(r runtime.RefusedEvent) {
		if ev := (judge.Event{Stream: p.id(r.Stream), Place: r.Place}); !p.untold(ev.Stream, r.Place, r.Time) {
			late.say(0, ev, refusalText(r.Watermark, r.Partial))
		}
	})
	if err != nil {
		return err
	}
	for _, r := range v.Records {
		if told && !p.untold(r.Event.Stream, r.Event.Place, r.Time) {
			late.say(1, r.Event, refusalText(r.Watermark, r.Partial))
		}
	}
	b.late, b.lateCount = late.differences(p.name, b.late, b.lateCount)
	if batch.Len == 0 {
		return nil
	}
	failed := sides{}
	from := stream.Place{Partition: batch.Partition, Offset: batch.Offset(0)}
	err = p.claim.ErrorsIn(batch.Stream, from, batch.Offset(batch.Len-1)+1, func(e runtime.FailedEvent) {
		if !p.gone(batch.Stream, e.Place) {
			failed.say(0, judge.Event{Stream: batch.Stream, Place: e.Place}, "row_error")
		}
	})
	for ev := range v.Outside {
		if told {
			failed.say(1, ev, "row_error")
		}
	}
	b.failed, b.failedCount = failed.differences(p.name, b.failed, b.failedCount)
	return err
}

// finish looks for what the view says of events that it can't have read.
func (b *beside) finish() error {
	p := b.p
	late, failed := sides{}, sides{}
	err := b.lateUpTo(1<<62, func(r runtime.RefusedEvent) {
		if ev := (judge.Event{Stream: p.id(r.Stream), Place: r.Place}); !p.untold(ev.Stream, r.Place, r.Time) {
			late.say(0, ev, refusalText(r.Watermark, r.Partial))
		}
	})
	if err != nil {
		return err
	}
	b.late, b.lateCount = late.differences(p.name, b.late, b.lateCount)
	err = p.claim.Errors(func(e runtime.FailedEvent) {
		ends := p.claim.AsOf.Offsets[e.Stream]
		if int(e.Place.Partition) >= len(ends) || e.Place.Offset >= ends[e.Place.Partition] {
			failed.say(0, judge.Event{Stream: p.id(e.Stream), Place: e.Place}, "row_error")
		}
	})
	b.failed, b.failedCount = failed.differences(p.name, b.failed, b.failedCount)
	return err
}

// tell puts the differences into an answer.
func (b *beside) tell(res *Result) {
	res.LateDifferences, res.LateDifferenceCount = b.late, b.lateCount
	res.RowErrorDifferences, res.RowErrorDifferenceCount = b.failed, b.failedCount
}

func refusalText(watermark windows.Micros, partial bool) string {
	what := "late_dropped"
	if partial {
		what = "late_partial"
	}
	return what + " at watermark " + string(row.FormatTimestamp(nil, watermark))
}

// sides are what both sides say of events, the view first.
type sides map[judge.Event]*[2]string

func (s sides) say(side int, ev judge.Event, text string) {
	if s[ev] == nil {
		s[ev] = &[2]string{}
	}
	s[ev][side] = text
}

// differences adds to a list, which is bounded, and to the count of all.
func (s sides) differences(name func(stream.ID) string, list []Difference, count int) ([]Difference, int) {
	var events []judge.Event
	for ev, said := range s {
		if said[0] != said[1] {
			events = append(events, ev)
		}
	}
	for _, ev := range judge.Sorted(events) {
		if len(list) < MaxDifferences {
			list = append(list, Difference{name(ev.Stream), ev.Partition, ev.Offset, s[ev][0], s[ev][1]})
		}
	}
	return list, count + len(events)
}
