package ingest

import (
	"tidemark/storage/row"
	"tidemark/stream"
)

// decoded is what a body became.
type decoded struct {
	layout *layout
	events stream.Events
	// index is the place in the request of each of the events.
	index []int32
	bad   []badEvent
	// total counts all events of the body.
	total int
	// news are events that brought a field or a value for which there is no column yet.
	news []news
	// wide are inferred columns that met their first integer past ±2^53.
	wide []int
	// spare are the vectors of columns that an earlier body had values for.
	spare []*row.Vector
}

type news struct {
	index  int
	text   []byte
	misfit bool // it stands in bad
}

// room empties a slice and sees to room for n elements.
func room[T any](s *[]T, n int) {
	if *s = (*s)[:0]; cap(*s) < n {
		*s = make([]T, 0, n)
	}
}

// maxSpent is the size of a body whose memory is kept for the next one.
const maxSpent = 1 << 20

// release gives the memory of a body back, when nobody reads it any more.
func (d *decoded) release() {
	if d.layout == nil || cap(d.events.RawData) > maxSpent {
		return
	}
	e := &d.events
	for c, v := range e.Columns {
		if v != nil {
			clear(v.Str) // the texts are the body's
			v.Reset(v.Type)
			d.spare[c], e.Columns[c] = v, nil
		}
	}
	clear(e.Keys.Str)
	e.Keys.Reset(e.Keys.Type)
	*e = stream.Events{
		Stream: e.Stream, Columns: e.Columns, Keys: e.Keys, Times: e.Times, Partitions: e.Partitions, IDs: e.IDs,
		RawData: e.RawData, RawEnds: e.RawEnds, Values: e.Values, ValueCounts: e.ValueCounts,
	}
	*d = decoded{layout: d.layout, events: *e, index: d.index, spare: d.spare}
	d.layout.spent.Put(d)
}
