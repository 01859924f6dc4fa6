package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"unsafe"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// Codes of dead letters.
const (
	codeBadJSON      = "bad_json"      // a line that is no JSON
	codeNoObject     = "not_an_object" // an event is an object
	codeTooLarge     = "too_large"
	codeTooDeep      = "too_deep"
	codeBadUnicode   = "bad_unicode"
	codeBadNumber    = "bad_number"
	codeDuplicateKey = "duplicate_key"
	codeBadTime      = "bad_time"
	codeTooFarAhead  = "too_far_ahead"
	codeBadValue     = "bad_value"
)

// fault is why an event can't be used. A nil *fault is none.
type fault struct {
	code, reason string
	// misfit: a value does not fit the column that was inferred for it; a wider one may.
	misfit bool
}

// errSyntax is the fault of what the decoder could not read; the scanner says where and why.
var errSyntax = &fault{code: codeBadJSON}

// badEvent is an event that becomes a dead letter.
type badEvent struct {
	index int
	fault
	raw []byte
}

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

// decoder reads events into columns. It belongs to one request at a time.
type decoder struct {
	layout *layout
	scan   scanner
	out    *decoded
	rows   int
	// lens are the lengths of the columns; one that is shorter than rows is padded with nulls when
	// the next value comes.
	lens []int
	hint int // about how many events there are
	live int // columns that have a value
	// order are the slots in the order in which the last event had them; −1: no slot.
	order []int32
	seen  []uint32 // seen[slot] == stamp: the event had it already
	stamp uint32

	maxEvent   int
	latest     int64 // the greatest event time that is taken
	at         int64 // the partition that all go to, or −1
	partitions int
	skip       string

	// what the event at hand said
	time     int64
	timeText []byte
	hasTime  bool
	key      string
	hasKey   bool
	id       []byte
	news     bool
	fresh    map[string]struct{} // names without a slot
	wide     []int
	values   []stream.Value
	one      row.Vector // a value on its way
	scratch  []byte
}

func newDecoder(l *layout) *decoder {
	return &decoder{layout: l, seen: make([]uint32, len(l.slots)), fresh: map[string]struct{}{}, lens: make([]int, len(l.stream.Schema.Fields))}
}

// limits are what a request's events are measured by.
type limits struct {
	event, depth int
	latest       int64  // the greatest event time
	partition    int    // −1: by key
	skip         string // a field that makes no column
}

// begin prepares for a body of about n events and size bytes.
func (d *decoder) begin(n, size int, lim limits) {
	l := d.layout
	out, ok := l.spent.Get().(*decoded)
	if !ok {
		out = &decoded{layout: l, spare: make([]*row.Vector, len(l.stream.Schema.Fields))}
		out.events = stream.Events{Stream: l.stream.ID, Columns: make([]*row.Vector, len(out.spare)), Keys: row.NewVector(row.Scalar(row.Varchar), n)}
	}
	d.out = out
	e := &out.events
	room(&e.Times, n)
	room(&e.Partitions, n)
	room(&e.RawData, size)
	room(&e.RawEnds, n)
	room(&e.Values, n*max(4, len(d.values))) // events are mostly like the one before
	room(&e.ValueCounts, n)
	if l.hasID {
		room(&e.IDs, n)
	}
	room(&out.index, n)
	clear(d.lens)
	d.rows, d.hint, d.live = 0, n, 0
	d.maxEvent, d.scan.maxDepth = lim.event, lim.depth
	d.skip = lim.skip
	d.latest, d.at, d.partitions = lim.latest, int64(lim.partition), l.stream.Config.Partitions
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

// finish gives the columns the length of the events.
func (d *decoder) finish() *decoded {
	for c, v := range d.out.events.Columns {
		if v != nil {
			d.pad(c, v)
		}
	}
	out := d.out
	d.out, d.id, d.key, d.timeText = nil, nil, "", nil
	d.one = row.Vector{}
	clear(d.fresh)
	return out
}

// event reads the event that begins at b[i], the request's event number index, and returns its end.
// With alone, nothing but space may follow it in b. An event that is JSON and can't be used becomes
// a dead letter; one that is no JSON is left to the caller.
func (d *decoder) event(b []byte, i, index int, alone bool) (end int, serr *syntaxError) {
	if d.live*d.rows > maxCells {
		return 0, &syntaxError{problem: problem.New(413, "too_large", "the body's %d events have values in %d columns, which is too much for one request", d.rows, d.live).
			WithHint("send fewer events in one request")}
	}
	end, f := d.object(b, i)
	if f == nil && (end-i > d.maxEvent || alone && skipSpace(b, end) < len(b)) {
		f = errSyntax
	}
	if f == nil {
		f = d.take(b[i:end], index)
	}
	if f == nil {
		return end, nil
	}
	d.undo()
	d.scan.flaws = 0
	end, serr = d.scan.value(b, i, 0)
	if serr != nil {
		return 0, serr
	}
	if alone {
		if rest := skipSpace(b, end); rest < len(b) {
			return 0, &syntaxError{at: rest, want: "the end"}
		}
	}
	raw := b[i:end]
	switch flaws := d.scan.flaws; {
	case len(raw) > d.maxEvent:
		f = &fault{code: codeTooLarge, reason: fmt.Sprintf("the event has %d bytes, at most %d are taken", len(raw), d.maxEvent)}
	case flaws&tooDeep != 0:
		f = &fault{code: codeTooDeep, reason: fmt.Sprintf("the event is nested more than %d levels deep", d.scan.maxDepth)}
	case flaws&badUnicode != 0:
		f = &fault{code: codeBadUnicode, reason: "a string holds a lone surrogate or bytes that are not UTF-8"}
	case flaws&badNumber != 0:
		f = &fault{code: codeBadNumber, reason: "a number is past the largest double, 1.8e308"}
	}
	d.refuse(index, f, raw)
	return end, nil
}

// maxCells bounds events times columns of a request: a column takes memory for every event, also
// for those that have no value in it.
const maxCells = 16 << 20

// refuse makes a dead letter of an event.
func (d *decoder) refuse(index int, f *fault, raw []byte) {
	d.out.bad = append(d.out.bad, badEvent{index: index, fault: *f, raw: raw})
	if f.misfit {
		d.out.news = append(d.out.news, news{index, raw, true})
	}
}

// undo takes back what a faulty event has put into columns.
func (d *decoder) undo() {
	for c, n := range d.lens {
		if n > d.rows {
			d.out.events.Columns[c].Truncate(d.rows)
			d.lens[c] = d.rows
		}
	}
}

// object reads an event's members into the columns, one row longer than rows where it has a value.
func (d *decoder) object(b []byte, i int) (end int, f *fault) {
	if i >= len(b) || b[i] != '{' {
		return 0, &fault{code: codeNoObject, reason: "an event is a JSON object"}
	}
	d.stamp++
	d.hasTime, d.hasKey, d.id, d.news, d.timeText = false, false, nil, false, nil
	d.wide, d.values = d.wide[:0], d.values[:0]
	began := i
	if len(d.fresh) > 0 {
		clear(d.fresh)
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for place := 0; ; place++ {
		// The last event's next key is expected; a glance is enough when it is there.
		n := int32(-1)
		if place < len(d.order) && d.order[place] >= 0 {
			if q := d.layout.slots[d.order[place]].quoted; q != "" && len(b)-i > len(q) && string(b[i:i+len(q)]) == q {
				n = d.order[place]
				i += len(q)
			}
		}
		var name []byte
		if n < 0 {
			if n, name, i, f = d.name(b, i); f != nil {
				return 0, f
			}
			d.order = append(d.order[:min(place, len(d.order))], n)
		}
		if i < len(b) && b[i] == ':' {
			i++
		} else {
			var serr *syntaxError
			if i, serr = colon(b, i); serr != nil {
				return 0, errSyntax
			}
		}
		if i = skipSpace(b, i); i >= len(b) {
			return 0, errSyntax
		}
		value := stream.Value{From: uint32(i - began), Column: -1}
		if n < 0 {
			i, f = d.unknown(b, i, shared(name))
		} else {
			s := &d.layout.slots[n]
			if d.seen[n] == d.stamp {
				return 0, &fault{code: codeDuplicateKey, reason: fmt.Sprintf("%s: the column is given twice", s.name)}
			}
			d.seen[n] = d.stamp
			value.Column = int32(s.column)
			i, f = d.field(b, i, s)
		}
		if f != nil {
			return 0, f
		}
		value.To = uint32(i - began)
		d.values = append(d.values, value)
		if i = skipSpace(b, i); i >= len(b) {
			return 0, errSyntax
		}
		if b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if b[i] != '}' {
			return 0, errSyntax
		}
		return i + 1, nil
	}
}

// name reads a member's name and finds its slot. Without a slot it returns the name.
func (d *decoder) name(b []byte, i int) (slot int32, name []byte, end int, f *fault) {
	if i >= len(b) || b[i] != '"' {
		return 0, nil, 0, errSyntax
	}
	if n := plainText(b[i+1:]); n >= 0 {
		name, end = b[i+1:i+1+n], i+n+2
	} else {
		d.scan.flaws = 0
		e, serr := d.scan.text(b, i)
		if serr != nil || d.scan.flaws != 0 {
			return 0, nil, 0, errSyntax
		}
		s, err := row.UnquoteJSON(b[i:e])
		if err != nil {
			return 0, nil, 0, errSyntax
		}
		name, end = []byte(s), e
	}
	if n, ok := d.layout.byName[string(name)]; ok {
		return n, nil, end, nil
	}
	return -1, name, end, nil
}

// unknown walks over a field that has no column, and notes when it should get one.
func (d *decoder) unknown(b []byte, i int, name string) (end int, f *fault) {
	end, f = d.walk(b, i)
	if f != nil || !d.layout.inferred || d.layout.full || name == d.skip || d.layout.isPlain(name) {
		return end, f
	}
	if _, twice := d.fresh[name]; twice {
		return 0, &fault{code: codeDuplicateKey, reason: fmt.Sprintf("%s: the column is given twice", name)}
	}
	d.fresh[name] = struct{}{}
	if b[i] == 'n' {
		return end, nil
	}
	t, _, err := inferType(b[i:end])
	if err != nil {
		return 0, &fault{code: codeBadValue, reason: fmt.Sprintf("%s: %v", name, err)}
	}
	d.news = d.news || t.Kind != row.Null
	return end, nil
}

// walk goes over a value that is only kept in the payload.
func (d *decoder) walk(b []byte, i int) (end int, f *fault) {
	d.scan.flaws = 0
	end, serr := d.scan.value(b, i, 1)
	if serr != nil || d.scan.flaws != 0 {
		return 0, errSyntax
	}
	return end, nil
}

// field reads a value for a slot.
func (d *decoder) field(b []byte, i int, s *slot) (end int, f *fault) {
	if b[i] == 'n' {
		end, serr := literal(b, i, "null")
		if serr != nil {
			return 0, errSyntax
		}
		return end, nil
	}
	switch {
	case s.column >= 0:
		end, f = d.column(b, i, s)
	case s.time:
		end, f = d.walk(b, i)
	default: // the key or the id, which are columns like any other
		end, f = d.unknown(b, i, s.name)
	}
	if f != nil {
		return 0, f
	}
	if s.time || s.key || s.id {
		text := b[i:end]
		if s.time {
			d.timeText = text
			if s.column >= 0 {
				d.time, d.hasTime = d.out.events.Columns[s.column].I64[d.rows], true
			}
		}
		if s.key {
			d.key, d.hasKey = keyOf(text), true
		}
		if s.id {
			d.id = text
		}
	}
	return end, nil
}

// keyOf is keyText without a copy where that is possible.
func keyOf(text []byte) string {
	if text[0] == '"' {
		if n := plainText(text[1:]); n == len(text)-2 {
			return shared(text[1 : 1+n])
		}
		return keyText(text)
	}
	return shared(text)
}

// shared is a string of bytes that nobody changes any more.
func shared(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// vector returns a slot's column, as long as the rows before this event.
func (d *decoder) vector(s *slot) *row.Vector {
	v := d.out.events.Columns[s.column]
	if v == nil {
		// Many columns are mostly sparse ones: they get room as they need it.
		d.live++
		if v = d.out.spare[s.column]; v != nil {
			d.out.spare[s.column] = nil
		} else if d.live <= 64 {
			v = row.NewVector(s.typ, d.hint)
		} else {
			v = row.NewVector(s.typ, d.rows+1)
		}
		d.out.events.Columns[s.column] = v
	}
	if d.lens[s.column] < d.rows {
		d.pad(s.column, v)
	}
	d.lens[s.column] = d.rows + 1
	return v
}

// pad appends nulls up to the number of rows.
func (d *decoder) pad(c int, v *row.Vector) {
	for ; d.lens[c] < d.rows; d.lens[c]++ {
		v.AppendNull()
	}
}

// column reads a value that is not null into a slot's column.
func (d *decoder) column(b []byte, i int, s *slot) (end int, f *fault) {
	switch c := b[i]; s.read {
	case readInteger:
		if x, end, ok := quickInteger(b, i); ok && x >= s.low && x <= s.high {
			if !s.wide && (x > maxExact || x < -maxExact) {
				d.wide = append(d.wide, s.column)
			}
			v := d.vector(s)
			v.I64 = append(v.I64, x)
			return end, nil
		}
	case readText:
		if c == '"' {
			if n := plainText(b[i+1:]); n >= 0 {
				v := d.vector(s)
				v.Str = append(v.Str, shared(b[i+1:i+1+n]))
				return i + n + 2, nil
			}
		}
	case readInstant:
		if c == '"' {
			if n := plainText(b[i+1:]); n >= 0 {
				t, err := row.ParseTime(b[i+1 : i+1+n])
				if err != nil {
					return 0, d.misfit(s, b[i:i+n+2], err)
				}
				v := d.vector(s)
				v.I64 = append(v.I64, t)
				return i + n + 2, nil
			}
		} else if x, end, ok := quickInteger(b, i); ok {
			if t, ok := quickEpoch(x); ok {
				v := d.vector(s)
				v.I64 = append(v.I64, t)
				return end, nil
			}
		}
	case readDouble:
		if f, end, ok := quickDouble(b, i); ok {
			v := d.vector(s)
			v.F64 = append(v.F64, f)
			return end, nil
		}
	case readBoolean:
		if c == 't' || c == 'f' {
			word := "true"
			if c == 'f' {
				word = "false"
			}
			end, serr := literal(b, i, word)
			if serr != nil {
				return 0, errSyntax
			}
			x := int64(0)
			if c == 't' {
				x = 1
			}
			v := d.vector(s)
			v.I64 = append(v.I64, x)
			return end, nil
		}
	}
	// The general road: first whether it is JSON, then what it says.
	end, f = d.walk(b, i)
	if f != nil {
		return 0, f
	}
	text := b[i:end]
	d.one.Reset(s.typ)
	if err := row.ParseJSONValue(&d.one, text); err != nil {
		return 0, d.misfit(s, text, err)
	}
	if !s.wide || d.layout.inferred && (s.read == readDouble || s.read == readAny) {
		if f := d.judge(s, text); f != nil {
			return 0, f
		}
	}
	d.vector(s).AppendFrom(&d.one, 0)
	return end, nil
}

// maxExact is the greatest integer up to which each one is a double.
const maxExact = 1 << 53

// judge looks at a value that fits an inferred column: whether it is exact there, whether it is the
// first integer past ±2^53, and whether it brings members that the column does not have.
func (d *decoder) judge(s *slot, text []byte) *fault {
	if s.typ.Kind == row.JSON {
		return nil
	}
	if s.read == readInteger {
		if x := d.one.I64[0]; !s.wide && (x > maxExact || x < -maxExact) {
			d.wide = append(d.wide, s.column)
		}
		return nil
	}
	if s.read == readDouble {
		if why := inexact(text); why != "" {
			return d.misfit(s, text, errors.New(why))
		}
		return nil
	}
	t, wide, err := inferType(text)
	if err != nil {
		return d.misfit(s, text, err)
	}
	if wide {
		if why := inexactIn(s.typ, text); why != "" {
			return d.misfit(s, text, errors.New(why))
		}
		if !s.wide {
			d.wide = append(d.wide, s.column)
		}
	}
	if s.read == readAny && !d.news {
		w, ok := stream.WidenType(s.typ, t)
		d.news = ok && !w.Equal(s.typ) && members(w) <= maxMembers && !d.layout.isPlain(grownName(s.name, w))
	}
	return nil
}

// misfit is the fault of a value that its column can't take.
func (d *decoder) misfit(s *slot, text []byte, err error) *fault {
	code := codeBadValue
	if s.time {
		code = codeBadTime
	}
	f := &fault{code: code, reason: s.name + ": " + err.Error()}
	if d.layout.inferred && !s.time {
		t, _, terr := inferType(text)
		if terr != nil {
			f.reason = s.name + ": " + terr.Error()
			return f
		}
		if w, ok := stream.WidenType(s.typ, t); ok && !w.Equal(s.typ) {
			f.misfit = true
			if t.Kind == row.Double {
				f.reason += "; declare the column DOUBLE"
			}
		}
	}
	return f
}

// take appends what an event is besides its columns: time, key, id, payload.
func (d *decoder) take(raw []byte, index int) *fault {
	l, out := d.layout, d.out
	t := stream.AtAppend
	if l.hasTime {
		if f := d.instant(); f != nil {
			return f
		}
		t = d.time
	}
	e := &out.events
	p := stream.Partition(d.at)
	switch {
	case d.at >= 0:
	case d.hasKey:
		p = partitionOf(d.key, d.partitions)
	default:
		p = stream.Partition(l.turn.Add(1) % uint64(d.partitions))
	}
	e.Times = append(e.Times, t)
	e.Partitions = append(e.Partitions, p)
	if d.hasKey {
		e.Keys.AppendString(d.key)
	} else {
		e.Keys.AppendNull()
	}
	if l.hasID {
		var id stream.EventID
		if d.id != nil {
			id, d.scratch = idHash(d.id, d.scratch)
		}
		e.IDs = append(e.IDs, id)
	}
	e.RawData = append(e.RawData, raw...)
	e.RawEnds = append(e.RawEnds, uint32(len(e.RawData)))
	e.Values = append(e.Values, d.values...)
	e.ValueCounts = append(e.ValueCounts, int32(len(d.values)))
	out.index = append(out.index, int32(index))
	if d.news {
		out.news = append(out.news, news{index, raw, false})
	}
	out.wide = append(out.wide, d.wide...)
	d.rows++
	return nil
}

// instant settles the event time.
func (d *decoder) instant() *fault {
	name := d.layout.timeName
	if !d.hasTime {
		if d.timeText == nil {
			return &fault{code: codeBadTime, reason: name + ": there is no time"}
		}
		d.one.Reset(row.Scalar(row.Timestamp))
		if err := row.ParseJSONValue(&d.one, d.timeText); err != nil {
			return &fault{code: codeBadTime, reason: name + ": " + err.Error()}
		}
		d.time = d.one.I64[0]
	}
	if d.time > d.latest {
		return &fault{code: codeTooFarAhead, reason: fmt.Sprintf("%s: %s is further ahead of the clock than max_ahead (%s)",
			name, row.FormatTimestamp(nil, d.time), d.layout.stream.Config.MaxAhead)}
	}
	return nil
}

// plainText returns where the string that b is the rest of ends, or −1 when it has escapes, bytes
// past ASCII, control characters, or no end. Eight bytes are looked at together.
func plainText(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote := x ^ (ones * '"')
		slash := x ^ (ones * '\\')
		// A byte's high bit is set where it is zero in quote or slash, under 0x20 in x, or past
		// ASCII. A borrow may mark bytes behind the first marked one, never before it.
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (x - ones*0x20) | x) & highs
		if hit != 0 {
			i += bits.TrailingZeros64(hit) >> 3
			if b[i] == '"' {
				return i
			}
			return -1
		}
	}
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i
		case c < 0x20 || c >= 0x80 || c == '\\':
			return -1
		}
	}
	return -1
}

// valueEnds reports whether a number may end before byte c.
func valueEnds(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

// quickInteger reads an integer of at most 18 digits.
func quickInteger(b []byte, i int) (x int64, end int, ok bool) {
	neg := b[i] == '-'
	if neg {
		i++
	}
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		x = x*10 + int64(b[i]-'0')
		i++
		if i-from > 18 {
			return 0, 0, false
		}
	}
	n := i - from
	if n == 0 || n > 1 && b[from] == '0' || i >= len(b) || !valueEnds(b[i]) {
		return 0, 0, false
	}
	if neg {
		x = -x
	}
	return x, i, true
}

// quickEpoch reads an integer as row.ParseEpoch does.
func quickEpoch(x int64) (micros int64, ok bool) {
	switch a := max(x, -x); {
	case a < 1e11:
		micros = x * 1e6
	case a < 1e14:
		micros = x * 1e3
	case a < 1e17:
		micros = x
	default:
		return 0, false
	}
	return micros, micros >= row.MinTimestamp && micros <= row.MaxTimestamp
}

// tens are the powers of ten that are doubles without rounding.
var tens = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// quickDouble reads a number of at most 15 digits without exponent: digits and power of ten are
// both exact, so one division gives the nearest double (W. Clinger, "How to read floating point
// numbers accurately", 1990).
func quickDouble(b []byte, i int) (f float64, end int, ok bool) {
	neg := b[i] == '-'
	if neg {
		i++
	}
	from := i
	var m int64
	for i < len(b) && b[i]-'0' <= 9 {
		m = m*10 + int64(b[i]-'0')
		i++
		if i-from > 15 {
			return 0, 0, false
		}
	}
	whole := i - from
	if whole == 0 || whole > 1 && b[from] == '0' {
		return 0, 0, false
	}
	fraction := 0
	if i < len(b) && b[i] == '.' {
		i++
		start := i
		for i < len(b) && b[i]-'0' <= 9 {
			m = m*10 + int64(b[i]-'0')
			i++
			if whole+i-start > 15 {
				return 0, 0, false
			}
		}
		if fraction = i - start; fraction == 0 {
			return 0, 0, false
		}
	}
	if i >= len(b) || !valueEnds(b[i]) {
		return 0, 0, false
	}
	f = float64(m) / tens[fraction]
	if neg && m != 0 {
		f = -f
	}
	return f, i, true
}

// inexactIn is inexact for the numbers in a value of a type.
func inexactIn(t row.Type, text []byte) (why string) {
	switch {
	case t.Kind == row.Double && text[0] != 'n':
		return inexact(text)
	case t.Kind == row.List && text[0] == '[':
		_ = row.EachElement(text, func(e []byte) error {
			if why == "" {
				why = inexactIn(*t.Elem, e)
			}
			return nil
		})
	case t.Kind == row.Struct && text[0] == '{':
		_ = row.EachMember(text, func(name string, value []byte) error {
			if i := row.FieldIndex(t.Fields, name); why == "" && i >= 0 && t.Fields[i].Name == name {
				why = inexactIn(t.Fields[i].Type, value)
			}
			return nil
		})
	}
	return why
}

// inexact says why a number must not become a double on its own; "" when it may. A number that is
// written with a point or an exponent is meant as one.
func inexact(text []byte) string {
	for _, c := range text {
		if c == '.' || c == 'e' || c == 'E' {
			return ""
		}
	}
	x, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return string(text) + " is outside the range of BIGINT; declare the column HUGEINT, or DOUBLE to have it rounded"
	}
	if x <= maxExact && x >= -maxExact {
		return ""
	}
	return string(text) + " is past 2^53, where the column, DOUBLE, rounds whole numbers; declare it to have that"
}
