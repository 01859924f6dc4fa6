package ingest

import (
	"sync"
	"sync/atomic"
	"time"

	"tidemark/storage/row"
	"tidemark/stream"
)

// reading is how a field's values are read.
type reading uint8

const (
	readAny     reading = iota // by row.ParseJSONValue
	readNothing                // no column: the value is only walked over
	readInteger                // TINYINT … BIGINT
	readDouble                 // DOUBLE
	readText                   // VARCHAR
	readInstant                // TIMESTAMP
	readBoolean                // BOOLEAN
)

// slot is a field that the decoder looks for: a column, the key, the id, or several of these.
type slot struct {
	name      string
	quoted    string // "name" with its quotes, as most writers spell it; "" if it needs escapes
	column    int    // −1: none
	typ       row.Type
	read      reading
	low, high int64 // of readInteger
	wide      bool  // an integer past ±2^53 is no news to the schema
	time      bool
	key, id   bool
}

// layout is how events of one version of a stream are decoded. It is shared by all requests.
type layout struct {
	stream *stream.Stream
	slots  []slot
	byName map[string]int32
	// inferred: fields that are no columns yet become some.
	inferred bool
	// full: there are as many columns as there may be, and the schema knows that more were wanted.
	full     bool
	hasTime  bool
	hasID    bool
	timeName string
	// plain are names of fields that the schema will not make columns of (a spelling in another
	// case, one column too many), so that they are not asked for again with each event.
	plain struct {
		sync.RWMutex
		names map[string]struct{}
	}
	born time.Time
	// turn is where the next event without a key goes.
	turn atomic.Uint64
	pool sync.Pool
	// spent is memory of bodies that are in the log.
	spent sync.Pool
}

// maxPlain bounds the names that a layout remembers as no columns.
const maxPlain = 4096

func newLayout(s *stream.Stream) *layout {
	l := &layout{stream: s, byName: map[string]int32{}, inferred: !s.Schema.Declared, full: s.Schema.Overflow && len(s.Schema.Fields) >= stream.MaxColumns}
	l.plain.names = map[string]struct{}{}
	for c, f := range s.Schema.Fields {
		sl := slot{name: f.Name, column: c, typ: f.Type, wide: s.Schema.Declared || s.Schema.IsWide(c)}
		switch f.Type.Kind {
		case row.TinyInt, row.SmallInt, row.Integer, row.BigInt:
			sl.read = readInteger
			sl.low, sl.high = row.IntegerRange(f.Type.Kind)
		case row.Double:
			sl.read = readDouble
		case row.Varchar:
			sl.read = readText
		case row.Timestamp:
			sl.read = readInstant
		case row.Boolean:
			sl.read = readBoolean
		}
		l.add(sl)
	}
	// A field of the configuration is the column of that name, whose spelling counts, or a field
	// that is no column.
	special := func(name string) *slot {
		if c := s.Schema.Column(name); c >= 0 {
			return &l.slots[l.byName[s.Schema.Fields[c].Name]]
		}
		if i, ok := l.byName[name]; ok {
			return &l.slots[i]
		}
		return l.add(slot{name: name, column: -1, read: readNothing})
	}
	c := s.Config
	if c.TimeField != "" {
		sl := special(c.TimeField)
		sl.time, l.hasTime, l.timeName = true, true, sl.name
		if sl.column < 0 {
			sl.read = readInstant
		}
	}
	if c.KeyField != "" {
		special(c.KeyField).key = true
	}
	if c.IDField != "" {
		special(c.IDField).id, l.hasID = true, true
	}
	l.pool.New = func() any { return newDecoder(l) }
	return l
}

func (l *layout) add(s slot) *slot {
	if q := row.AppendJSONString(nil, s.name); string(q[1:len(q)-1]) == s.name {
		s.quoted = string(q)
	}
	l.byName[s.name] = int32(len(l.slots))
	l.slots = append(l.slots, s)
	return &l.slots[len(l.slots)-1]
}

// isPlain reports whether a field that is no slot will stay without a column.
func (l *layout) isPlain(name string) bool {
	l.plain.RLock()
	defer l.plain.RUnlock()
	_, ok := l.plain.names[name]
	return ok
}

func (l *layout) setPlain(name string) {
	l.plain.Lock()
	defer l.plain.Unlock()
	if len(l.plain.names) < maxPlain {
		l.plain.names[name] = struct{}{}
	}
}

func (l *layout) hasPlain() bool {
	l.plain.RLock()
	defer l.plain.RUnlock()
	return len(l.plain.names) > 0
}
