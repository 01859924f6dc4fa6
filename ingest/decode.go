package ingest

import (
	"fmt"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

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
