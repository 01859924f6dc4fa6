package ingest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// fakeLog keeps what is appended in memory, by the contract of stream.Log as far as ingest needs it.
type fakeLog struct {
	stream.Log
	mu       sync.Mutex
	seq      stream.Sequence
	streams  map[stream.ID]*fakeStream
	answers  map[stream.IdempotencyKey]stream.Answer
	fail     error         // the next appends fail so
	hold     chan struct{} // appends wait until it is closed
	held     chan struct{} // an append that waits sends here
	appends  int
	advanced []int64
}

type fakeStream struct {
	next    map[stream.Partition]stream.Offset
	ids     map[stream.EventID]stream.Place
	events  []fakeEvent
	letters []stream.DeadLetter
	number  uint64
}

type fakeEvent struct {
	place  stream.Place
	time   int64
	key    string // "NULL" for none
	raw    string
	values map[int]string // column → JSON
}

func newFakeLog() *fakeLog {
	return &fakeLog{streams: map[stream.ID]*fakeStream{}, answers: map[stream.IdempotencyKey]stream.Answer{}}
}

func (l *fakeLog) ID() stream.LogID { return 7 }

func (l *fakeLog) End() stream.Sequence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

func (l *fakeLog) of(id stream.ID) *fakeStream {
	s := l.streams[id]
	if s == nil {
		s = &fakeStream{next: map[stream.Partition]stream.Offset{}, ids: map[stream.EventID]stream.Place{}}
		l.streams[id] = s
	}
	return s
}

func (l *fakeLog) Append(_ context.Context, reqs []*stream.Events) ([]stream.Appended, error) {
	l.mu.Lock()
	hold, fail := l.hold, l.fail
	l.mu.Unlock()
	if hold != nil {
		l.held <- struct{}{}
		<-hold
	}
	if fail != nil {
		return nil, fail
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appends++
	var out []stream.Appended
	for _, e := range reqs {
		s := l.of(e.Stream)
		var a stream.Appended
		for i := range e.Len() {
			if err := whole(e, i); err != nil {
				return nil, err
			}
			if e.IDs != nil && e.IDs[i] != (stream.EventID{}) {
				if of, ok := s.ids[e.IDs[i]]; ok {
					a.Duplicates = append(a.Duplicates, stream.Duplicate{Index: i, Of: of})
					continue
				}
			}
			p := e.Partitions[i]
			ev := fakeEvent{place: stream.Place{Partition: p, Offset: s.next[p]}, time: e.Times[i], key: "NULL", values: map[int]string{}}
			s.next[p]++
			if e.IDs != nil && e.IDs[i] != (stream.EventID{}) {
				s.ids[e.IDs[i]] = ev.place
			}
			if !e.Keys.IsNull(i) {
				ev.key = string([]byte(e.Keys.Str[i]))
			}
			from := uint32(0)
			if i > 0 {
				from = e.RawEnds[i-1]
			}
			ev.raw = string(e.RawData[from:e.RawEnds[i]])
			for c, v := range e.Columns {
				if v != nil && !v.IsNull(i) {
					ev.values[c] = string(row.AppendJSON(nil, v, i))
				}
			}
			s.events = append(s.events, ev)
			if n := len(a.Ranges); n > 0 && a.Ranges[n-1].Partition == p {
				a.Ranges[n-1].Last = ev.place.Offset
			} else {
				a.Ranges = append(a.Ranges, stream.Range{Partition: p, First: ev.place.Offset, Last: ev.place.Offset})
			}
		}
		for _, d := range e.DeadLetters {
			s.number++
			d.Number = s.number
			d.Raw = append([]byte(nil), d.Raw...)
			s.letters = append(s.letters, d)
			a.DeadLetters = append(a.DeadLetters, d.Number)
		}
		l.seq++
		a.Sequence = l.seq
		out = append(out, a)
	}
	for _, e := range reqs {
		if o := e.Idempotency; o != nil {
			l.answers[o.Key] = stream.Answer{BodySum: o.BodySum, Body: o.Answer(out)}
		}
	}
	return out, nil
}

// whole checks what the log may rely on.
func whole(e *stream.Events, i int) error {
	n := e.Len()
	if len(e.Partitions) != n || len(e.RawEnds) != n || e.Keys.Len() != n || e.IDs != nil && len(e.IDs) != n {
		return fmt.Errorf("event %d: the slices have different lengths", i)
	}
	for c, v := range e.Columns {
		if v != nil && v.Len() != n {
			return fmt.Errorf("column %d has %d values for %d events", c, v.Len(), n)
		}
	}
	return nil
}

func (l *fakeLog) Remembered(key stream.IdempotencyKey) (stream.Answer, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.answers[key]
	return a, ok, nil
}

func (l *fakeLog) DeadLetters(id stream.ID, after uint64, limit int) ([]stream.DeadLetter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []stream.DeadLetter
	for _, d := range l.of(id).letters {
		if d.Number > after && len(out) < limit {
			out = append(out, d)
		}
	}
	return out, nil
}

func (l *fakeLog) DropDeadLetter(_ context.Context, id stream.ID, number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(id)
	for i, d := range s.letters {
		if d.Number == number {
			s.letters = append(s.letters[:i:i], s.letters[i+1:]...)
			break
		}
	}
	return nil
}

func (l *fakeLog) FailDeadLetter(_ context.Context, id stream.ID, number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(id)
	for i := range s.letters {
		if s.letters[i].Number == number {
			s.letters[i].Attempts++
		}
	}
	return nil
}

func (l *fakeLog) Advance(_ context.Context, _ stream.ID, to int64) (stream.Sequence, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanced = append(l.advanced, to)
	l.seq++
	return l.seq, nil
}

// fakeStreams are definitions in memory.
type fakeStreams struct {
	mu     sync.Mutex
	byName map[string]*stream.Stream
	pinned map[string]bool // columns that can't widen
	asked  int             // calls of EnsureColumns
}

func newFakeStreams() *fakeStreams {
	return &fakeStreams{byName: map[string]*stream.Stream{}, pinned: map[string]bool{}}
}

func (f *fakeStreams) Get(name string) (*stream.Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.byName[name]; s != nil {
		return s, nil
	}
	return nil, problem.New(404, "unknown_stream", "there is no stream %q", name)
}

func (f *fakeStreams) Put(_ context.Context, name string, c stream.Config) (*stream.Stream, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ahead := stream.DefaultMaxAhead
	if c.MaxAhead == nil {
		c.MaxAhead = &ahead
	}
	if c.Partitions == 0 {
		c.Partitions = 1
	}
	s := &stream.Stream{ID: stream.ID(len(f.byName) + 1), Name: name, Config: c, Schema: stream.Schema{Version: 1, Declared: c.Columns != nil}}
	cols := c.Columns
	if c.TimeField != "" && s.Schema.Column(c.TimeField) < 0 {
		has := false
		for _, col := range cols {
			has = has || col.Name == c.TimeField
		}
		if !has {
			cols = append(cols[:len(cols):len(cols)], stream.Column{Name: c.TimeField, Type: "TIMESTAMP"})
		}
	}
	for _, col := range cols {
		t, err := row.ParseType(col.Type)
		if err != nil {
			return nil, false, err
		}
		s.Schema.Fields = append(s.Schema.Fields, row.Field{Name: col.Name, Type: t})
	}
	f.byName[name] = s
	return s, true, nil
}

func (f *fakeStreams) change(id stream.ID, apply func(*stream.Schema) bool) (*stream.Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, old := range f.byName {
		if old.ID != id {
			continue
		}
		s := *old
		s.Schema.Fields = append([]row.Field(nil), old.Schema.Fields...)
		s.Schema.Wide = append([]int(nil), old.Schema.Wide...)
		if !apply(&s.Schema) {
			return old, nil
		}
		s.Schema.Version++
		f.byName[name] = &s
		return &s, nil
	}
	return nil, problem.New(404, "unknown_stream", "gone")
}

func (f *fakeStreams) EnsureColumns(_ context.Context, id stream.ID, want []row.Field) (*stream.Stream, error) {
	return f.change(id, func(s *stream.Schema) (changed bool) {
		f.asked++
		for _, w := range want {
			i := s.Column(w.Name)
			if i < 0 {
				if len(s.Fields) < stream.MaxColumns && w.Name != "" {
					s.Fields = append(s.Fields, w)
					changed = true
				}
				continue
			}
			t, ok := stream.WidenType(s.Fields[i].Type, w.Type)
			if ok && !t.Equal(s.Fields[i].Type) && !f.pinned[w.Name] && !(t.Kind == row.Double && s.IsWide(i)) {
				s.Fields[i].Type = t
				changed = true
			}
		}
		return changed
	})
}

func (f *fakeStreams) MarkWide(_ context.Context, id stream.ID, columns []int) (*stream.Stream, error) {
	return f.change(id, func(s *stream.Schema) (changed bool) {
		for _, c := range columns {
			if s.Fields[c].Type.Kind != row.Double && !s.IsWide(c) {
				s.Wide = append(s.Wide, c)
				changed = true
			}
		}
		return changed
	})
}

// now is what the tests' clock shows.
var now = time.Date(2024, 1, 15, 12, 0, 0, 0, time.UTC)

// world is an ingester with its streams and log.
type world struct {
	t       testing.TB
	in      *Ingester
	log     *fakeLog
	streams *fakeStreams
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, log: newFakeLog(), streams: newFakeStreams()}
	w.in = New(w.streams, w.log, Options{AutoCreate: true, Now: func() time.Time { return now }})
	return w
}

// declare makes a stream.
func (w *world) declare(name string, c stream.Config) *stream.Stream {
	w.t.Helper()
	s, _, err := w.streams.Put(context.Background(), name, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// columns are a declared schema from pairs of name and type.
func columns(pairs ...string) stream.Columns {
	c := stream.Columns{}
	for i := 0; i < len(pairs); i += 2 {
		c = append(c, stream.Column{Name: pairs[i], Type: pairs[i+1]})
	}
	return c
}

func (w *world) post(name, body string) (*Answer, error) {
	return w.in.Post(context.Background(), Request{Stream: name, Body: []byte(body)})
}

func (w *world) postLines(name, body string) (*Answer, error) {
	return w.in.Post(context.Background(), Request{Stream: name, Body: []byte(body), ContentType: "application/x-ndjson"})
}

// must posts and wants an answer.
func (w *world) must(name, body string) *Answer {
	w.t.Helper()
	a, err := w.post(name, body)
	if err != nil {
		w.t.Fatalf("post %s: %v", body, err)
	}
	return a
}

func (w *world) stream(name string) *stream.Stream {
	w.t.Helper()
	s, err := w.streams.Get(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) events(name string) []fakeEvent {
	w.t.Helper()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return append([]fakeEvent(nil), w.log.of(w.stream(name).ID).events...)
}

func (w *world) letters(name string) []stream.DeadLetter {
	w.t.Helper()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return append([]stream.DeadLetter(nil), w.log.of(w.stream(name).ID).letters...)
}

// value is a column's JSON of an event, "" for none.
func (w *world) value(name string, event int, column string) string {
	w.t.Helper()
	c := w.stream(name).Schema.Column(column)
	if c < 0 {
		return "no column"
	}
	return w.events(name)[event].values[c]
}
