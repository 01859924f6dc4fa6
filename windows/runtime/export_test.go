package runtime

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"tidemark/storage/kv"
	"tidemark/storage/row"
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

// OnBeside calls f when what is built beside a view has committed an epoch, and before it takes the
// view over. f may block.
func OnBeside(s *Service, f func(view string, switching bool)) {
	s.beside = func(w *worker, switching bool) { f(w.v.name, switching) }
}

// Made is what a version of a view has made: its change stream, late records and row errors.
type Made struct {
	Epochs       []*Epoch
	Late, Errors []string
	Counts       engine.Counts
	Position     stream.Position
}

// MadeLive is what the version has made that is served, MadeBeside what a rebuild has, up to now.
func MadeLive(s *Service, name string) (*Made, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	h, _ := v.published()
	return v.made(h.Version, spaceKey(kv.Changes, v.id))
}

// MadeBeside is what a rebuild has made so far.
func MadeBeside(s *Service, name string) (*Made, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	version := v.document().Version
	return v.made(version, besidePrefix(v.id, version))
}

func (v *view) made(version uint32, changes []byte) (*Made, error) {
	snap := v.svc.kv.Snapshot()
	defer snap.Close()
	m := &Made{}
	p, err := getJSON[progress](snap, progressKey(v.id, version))
	if err != nil {
		return nil, err
	}
	m.Counts, m.Position = p.Counts, p.Position
	m.Position.Within = 0
	it := snap.Iter(changes, kv.PrefixEnd(changes))
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		k := it.Key()[len(changes):]
		var e *Epoch
		e, err = decodeEpoch(it.Value(), stream.Sequence(binary.BigEndian.Uint64(k)), int32(binary.BigEndian.Uint32(k[8:])))
		m.Epochs = append(m.Epochs, e)
	}
	err = errors.Join(err, it.Close())
	for prefix, list := range map[string]*[]string{
		string(versionKey(kv.Late, v.id, version)): &m.Late, string(errorsKey(v.id, version)): &m.Errors,
	} {
		err = errors.Join(err, each(snap, []byte(prefix), func(r json.RawMessage) { *list = append(*list, string(r)) }))
	}
	return m, err
}

// SampleEpoch is an epoch with an update, a row that appears and one that is withdrawn.
func SampleEpoch() *Epoch {
	fields := []row.Field{{Name: "k", Type: row.Scalar(row.Varchar)}, {Name: "n", Type: row.Scalar(row.BigInt)}}
	e := &Epoch{
		From: stream.Position{Log: 77, Sequence: 5, Within: 1}, To: stream.Position{Log: 77, Sequence: 9, Within: 2},
		AsOf:   AsOf{Watermark: 1_700_000_000_000_000, Offsets: map[string][]stream.Offset{"s": {4, 2}}, ViewVersion: 3},
		Fields: fields, Changes: &windows.Changes{Rows: row.NewBatch(fields, 0)},
	}
	c := e.Changes
	for i, key := range []string{"abc", "abc", "abd", "x"} {
		c.Ops = append(c.Ops, []int8{-1, +1, +1, -1}[i])
		c.Keys = append(c.Keys, []byte(key))
		c.Status = append(c.Status, []windows.Status{windows.None, windows.Final, windows.Provisional, windows.Corrected}[i])
		c.Revision = append(c.Revision, []int32{0, 1, 0, 7}[i])
		c.Sequences = append(c.Sequences, []stream.Sequence{6, 6, 8, 7}[i])
		c.Times = append(c.Times, []windows.Micros{5, 5, windows.NoTime, -9}[i])
		c.Evidence = append(c.Evidence, [][]stream.Place{{{Partition: 1, Offset: 3}}, nil, {{Offset: 9}, {Partition: 2, Offset: 1 << 40}}, nil}[i])
		c.Rows.Cols[0].AppendString(key)
		c.Rows.Cols[1].AppendInt64(int64(i * 100))
		c.Rows.Len++
	}
	return e
}

// EncodeEpoch and DecodeEpoch are how the change stream keeps epochs.
func EncodeEpoch(e *Epoch) ([]byte, error) { return encodeEpoch(nil, e) }

// DecodeEpoch reads what EncodeEpoch or an older program wrote.
func DecodeEpoch(src []byte, at stream.Position) (*Epoch, error) {
	return decodeEpoch(src, at.Sequence, at.Within)
}
