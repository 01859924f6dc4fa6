package runtime

import (
	"errors"

	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
)

// PanicAt lets every engine of a service panic while it takes a batch in which event says so: an
// operator with a mistake that some event brings out.
func PanicAt(s *Service, event func(b *stream.Batch, i int) bool, control func(c *stream.Control) bool) {
	s.wrap = func(m machine) machine { return &fragile{m: m, event: event, control: control} }
}

type fragile struct {
	m       machine
	event   func(b *stream.Batch, i int) bool
	control func(c *stream.Control) bool
	poison  map[stream.ID]map[stream.Place]struct{}
}

func (f *fragile) Step(e stream.Entry) error {
	if e.Control != nil && f.control != nil && f.control(e.Control) {
		panic("a mistake at a control record")
	}
	if b := e.Batch; b != nil {
		for i := range b.Len {
			at := stream.Place{Partition: b.Partition, Offset: b.Base + stream.Offset(i)}
			if _, left := f.poison[b.Stream][at]; !left && f.event(b, i) {
				panic("a mistake in an operator")
			}
		}
	}
	return f.m.Step(e)
}

func (f *fragile) Skip(p map[stream.ID]map[stream.Place]struct{}) { f.poison = p; f.m.Skip(p) }
func (f *fragile) Pending() (provisional, final bool)             { return f.m.Pending() }
func (f *fragile) Take(all bool) *engine.Output                   { return f.m.Take(all) }
func (f *fragile) Recover(s engine.Store, limit int64) error      { return f.m.Recover(s, limit) }
func (f *fragile) Evict(limit int64)                              { f.m.Evict(limit) }
func (f *fragile) Memory() engine.Memory                          { return f.m.Memory() }
func (f *fragile) Err() error                                     { return f.m.Err() }
func (f *fragile) HasOpen() bool                                  { return f.m.HasOpen() }
func (f *fragile) Streams() []windows.StreamState                 { return f.m.Streams() }

func (f *fragile) Mark(id stream.ID, m stream.Mark) { f.m.Mark(id, m) }

func (f *fragile) Seed(s windows.StreamState, at windows.Micros) { f.m.Seed(s, at) }

// Forge makes a view that is not open one that has read another log, and takes its first row away.
func Forge(store *kv.Store, id uint64, log stream.LogID, at stream.Sequence) {
	p, err := getJSON[progress](store, progressKey(id, 1))
	if err != nil {
		panic(err)
	}
	p.Position.Log, p.Position.Sequence = log, at
	b := store.NewBatch()
	b.Set(progressKey(id, 1), mustJSON(p))
	it := store.Iter(rowsKey(id, 1), kv.PrefixEnd(rowsKey(id, 1)))
	it.First()
	b.Delete(append([]byte{}, it.Key()...))
	if err := errors.Join(it.Close(), b.Commit(true)); err != nil {
		panic(err)
	}
}
