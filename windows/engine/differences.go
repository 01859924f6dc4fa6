package engine

import (
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/agg"
)

// differences gathers rows with weights that an operator with state gives out.
type differences struct{ chunk }

func newDifferences(fields []row.Field, n int) *differences {
	d := &differences{chunk{f: &frame{}}}
	for _, f := range fields {
		d.Cols = append(d.Cols, row.NewVector(f.Type, n))
	}
	d.Weights = make([]int64, 0, n)
	return d
}

// again gives d once more, empty, and for the first time one that is new: an operator gives out
// differences again and again, and nobody behind it keeps them.
func (d *differences) again(fields []row.Field) *differences {
	if d == nil || cap(d.Weights) > maxAgain {
		return newDifferences(fields, 0)
	}
	for c, v := range d.Cols {
		clear(v.Str) // the texts are others'
		v.Reset(fields[c].Type)
	}
	d.Len, d.Weights = 0, d.Weights[:0]
	f := d.f
	*f = frame{finalAt: f.finalAt[:0], ranks: f.ranks[:0], times: f.times[:0]}
	return d
}

// maxAgain is how many differences an operator keeps memory for.
const maxAgain = 1 << 16

// add adds row i of cols; row n of from tells what is known of it besides its columns.
func (d *differences) add(cols []*row.Vector, i int, weight int64, from *frame, n int) {
	for c, v := range d.Cols {
		v.AppendFrom(cols[c], i)
	}
	d.mark(weight, from.final(n))
	if from.evidence != nil {
		d.f.evidence = append(d.f.evidence, from.evidence[n])
	}
	if from.ranks != nil {
		d.f.ranks = append(d.f.ranks, from.ranks[n])
	}
}

func (d *differences) mark(weight int64, finalAt windows.Micros) {
	d.Weights = append(d.Weights, weight)
	d.f.finalAt = append(d.f.finalAt, finalAt)
	d.Len++
}

func (d *differences) send(to targets) {
	if d.Len > 0 {
		to.send(&d.chunk)
	}
}

// maxEvidence bounds the events that a change names.
const maxEvidence = 100

// evidence adds the events that row i of f came of to places, and keeps the newest.
func (e *Engine) evidence(places []stream.Place, f *frame, i int) []stream.Place {
	if f.batch {
		places = append(places, e.placeOf(f.event(i)))
	} else if f.evidence != nil {
		places = append(places, f.evidence[i]...)
	}
	if len(places) > maxEvidence {
		places = append([]stream.Place(nil), places[len(places)-maxEvidence:]...)
	}
	return places
}

// rank is the place in the log of the event that row i came of.
func (e *Engine) rank(f *frame, i int) agg.Rank {
	return agg.Rank{Sequence: int64(e.in.Sequence), Offset: int64(e.in.Offset(f.event(i)))}
}
