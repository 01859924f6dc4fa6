package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/query"
)

// A rebuild from a log whose beginning retention has removed can make again only the windows whose
// events are all still there (R4). It gives out windows that begin behind all that was removed; the
// rows of those before stay as they are, sealed. A view whose rows are events keeps those whose event
// is gone.

// Sealed says which rows of a view can't be made again from the log.
type Sealed struct {
	// Before: rows of windows that begin earlier; for a view whose rows are events it stands for nothing.
	Before windows.Micros `json:"before_micros"`
	// First are the first offsets that the log has of each partition.
	First map[stream.ID][]stream.Offset `json:"first_offsets"`
	// Rows is how many rows are sealed.
	Rows int64 `json:"rows"`
}

// Shape says where in a row's key it stands which window or event the row is of.
type Shape struct {
	types []row.Type
	// passing: rows are events, at partition and offset of this stream.
	passing           bool
	stream            stream.ID
	partition, offset int
	// bound is the window's start, or with end its end.
	bound int
	end   bool
	of    *query.Assign
	// append: the windows follow append time.
	append bool
	// several: there are several window functions. Then the bound lies shift behind the first instant from
	// which all events must be there, and cuts are the functions that it is a bound of, by number, with
	// the name of the bound.
	several bool
	shift   windows.Micros
	cuts    map[int]string
}

// ShapeOf reads a plan's row key. Where rows are not of one window or one event each, it says why the
// rows of a part of the log can't be told from the others.
func ShapeOf(plan *query.Plan) (*Shape, error) {
	s := &Shape{partition: -1, offset: -1, bound: -1, append: plan.Time == query.AppendTime}
	fields := plan.Root.Fields()
	var start, end *query.Assign
	atStart, atEnd := -1, -1
	for i, c := range plan.Key {
		s.types = append(s.types, fields[c].Type)
		switch n, col := behind(plan.Root, c); n := n.(type) {
		case *query.Scan:
			switch n.Cols[col].Pseudo {
			case query.PseudoPartition:
				s.partition, s.stream = i, plan.Sources[n.Source].Stream
			case query.PseudoOffset:
				s.offset = i
			}
		case *query.Assign:
			if col == len(n.In.Fields()) {
				start, atStart = n, i
			} else {
				end, atEnd = n, i
			}
		}
	}
	assigns := 0
	for _, n := range query.Nodes(plan.Root) {
		if _, ok := n.(*query.Assign); ok {
			assigns++
		}
	}
	switch {
	case plan.PassThrough && s.partition >= 0 && s.offset >= 0:
		s.passing = true
		return s, nil
	case assigns == 0 || plan.NeverFinal:
		return nil, errors.New("its rows are not of one window each")
	case assigns > 1:
		for i, c := range plan.Key {
			if shift, cuts, ok := complete(plan.Root, c); ok && len(cuts) > 0 && (s.bound < 0 || shift < s.shift) {
				s.several, s.bound, s.shift, s.cuts = true, i, shift, cuts
			}
		}
		if s.several {
			return s, nil
		}
		return nil, errors.New("it has several window functions, and its rows do not tell which of them lost events")
	case start != nil:
		s.bound, s.of = atStart, start
		return s, nil
	case end != nil && end.Zone == nil && end.Kind != windows.Session && end.Size.Months == 0:
		s.bound, s.of, s.end = atEnd, end, true
		return s, nil
	}
	return nil, errors.New("its rows do not tell where their windows begin")
}

// sealable is ShapeOf for a rebuild. The windows that it gives out begin at one instant for all window
// functions: where one reads another, its first windows would lack those of the other.
func sealable(plan *query.Plan) (*Shape, error) {
	s, err := ShapeOf(plan)
	if err == nil && s.several {
		err = errors.New("it has several window functions")
	}
	return s, err
}

// complete follows a column of a node down to the bounds of window functions. A row is made of events
// from an instant on alone when the column is at least shift later; ok is false where that can't be said.
// cuts are the outermost functions whose bound it is; none for the time of an event.
func complete(n query.Node, col int) (shift windows.Micros, cuts map[int]string, ok bool) {
	switch n := n.(type) {
	case *query.Scan:
		return 0, nil, n.Cols[col].Pseudo == query.PseudoTime
	case *query.Project:
		if col = n.Exprs[col].ColumnNumber(); col < 0 {
			return 0, nil, false
		}
		return complete(n.In, col)
	case *query.Aggregate:
		if col >= len(n.Keys) {
			return 0, nil, false
		}
		return complete(n.In, n.Keys[col])
	case *query.Assign:
		width := len(n.In.Fields())
		if col < width {
			return complete(n.In, col)
		}
		if shift, _, ok = complete(n.In, n.TimeCol); !ok {
			return 0, nil, false
		}
		end, session := col > width, n.Kind == windows.Session
		switch {
		case end && (session || n.Zone != nil || n.Size.Months != 0): // it may begin any time before
			return 0, nil, false
		case end, session: // a session that begins earlier may have begun with what is gone
			shift = n.Size.Add(shift)
		}
		if end {
			return shift, map[int]string{n.Number: query.WindowEnd}, true
		}
		return shift, map[int]string{n.Number: query.WindowStart}, true
	}
	cuts = map[int]string{}
	for _, in := range n.Inputs() {
		if col >= len(in.Fields()) {
			return 0, nil, false
		}
		s, of, ok := complete(in, col)
		if !ok {
			return 0, nil, false
		}
		shift = max(shift, s)
		maps.Copy(cuts, of)
	}
	return shift, cuts, len(n.Inputs()) > 0
}

// CutOf is the condition on the rows of one of several window functions that leaves out what has lost
// events; empty: there is none.
func (s *Shape) CutOf(z *Sealed, number int) string {
	bound, ok := s.cuts[number]
	if from := s.WindowsFrom(z); ok && from != nil {
		return fmt.Sprintf("%s >= make_timestamp(%d)", bound, *from)
	}
	return ""
}

// Several reports whether rows are made by several window functions.
func (s *Shape) Several() bool { return s.several }

// behind follows a column of a node down to the scan or the window function that makes it; nil where
// it is computed.
func behind(n query.Node, col int) (query.Node, int) {
	for {
		switch in := n.(type) {
		case *query.Scan:
			return in, col
		case *query.Assign:
			if col >= len(in.In.Fields()) {
				return in, col
			}
			n = in.In
		case *query.Project:
			if col = in.Exprs[col].ColumnNumber(); col < 0 {
				return nil, 0
			}
			n = in.In
		case *query.Aggregate:
			if col >= len(in.Keys) {
				return nil, 0
			}
			n, col = in.In, in.Keys[col]
		default:
			inputs := n.Inputs()
			if len(inputs) != 1 || col >= len(inputs[0].Fields()) {
				return nil, 0
			}
			n = inputs[0]
		}
	}
}

// Cut says what of a view's rows has lost events, given where its streams begin now; nil: nothing was
// removed behind startAt.
func (s *Shape) Cut(marks map[stream.ID]stream.Mark, startAt stream.Sequence) *Sealed {
	z := &Sealed{Before: math.MinInt64, First: map[stream.ID][]stream.Offset{}}
	for id, m := range marks {
		if m.Sequence <= startAt {
			continue
		}
		z.First[id] = m.First
		if s.append {
			z.Before = max(z.Before, m.AppendTime+1)
			continue
		}
		for _, p := range m.Parts {
			if p.MaxCounted != stream.NoTime {
				z.Before = max(z.Before, p.MaxCounted+1)
			}
		}
	}
	if len(z.First) == 0 {
		return nil
	}
	if s.of != nil && s.of.Kind == windows.Session && z.Before != math.MinInt64 {
		z.Before = s.of.Size.Add(z.Before) // a session that begins earlier may have begun with what is gone
	}
	return z
}

// WindowsFrom is the start of the first windows that have all their events; nil for a view without.
func (s *Shape) WindowsFrom(z *Sealed) *windows.Micros {
	if s.passing || z == nil || z.Before == math.MinInt64 {
		return nil
	}
	from := z.Before + s.shift
	return &from
}

// Lacks reports whether the row with a key has lost events.
func (s *Shape) Lacks(z *Sealed, key []byte) (bool, error) {
	values := make([]int64, len(s.types))
	for i, t := range s.types {
		v := row.NewVector(t, 1)
		rest, err := row.DecodeKey(t, key, v)
		if err != nil {
			return false, fmt.Errorf("a row's key: %w", err)
		}
		if i == s.bound || i == s.partition || i == s.offset {
			values[i] = v.I64[0]
		}
		key = rest
	}
	if s.passing {
		first := z.First[s.stream]
		p := values[s.partition]
		return p < int64(len(first)) && values[s.offset] < int64(first[p]), nil
	}
	at := values[s.bound]
	if s.end {
		at = s.of.Size.Sub(at)
	}
	from := s.WindowsFrom(z)
	return from != nil && at < *from, nil
}

// marks are where the streams of a definition begin in the log.
func marks(r stream.Reader, ids []stream.ID) map[stream.ID]stream.Mark {
	out := map[stream.ID]stream.Mark{}
	for _, id := range ids {
		if m := r.Start(id); m.Sequence > 0 {
			out[id] = m
		}
	}
	return out
}

// sealing works out what a rebuild leaves as it is.
func (s *Service) sealing(doc *stored, at map[stream.ID]stream.Mark) (*Sealed, *windows.Micros, error) {
	if !doc.isRebuild() || len(at) == 0 {
		return nil, nil, nil
	}
	plan, err := s.compile(doc)
	if err != nil {
		return nil, nil, fatal{err}
	}
	shape, err := sealable(plan)
	if err != nil { // made of what is there: Rebuild has refused what need not be
		return nil, nil, nil
	}
	z := shape.Cut(at, doc.StartAt)
	return z, shape.WindowsFrom(z), nil
}

// mayRebuild refuses the rebuild of a view that goes on by itself and would lose what the log no longer
// has.
func (v *view) mayRebuild(doc *stored) error {
	v.mu.Lock()
	failed := v.mu.failed != ""
	v.mu.Unlock()
	if failed || v.stale() || v.svc.reachesBack(doc) {
		return nil
	}
	plan, err := v.svc.compile(doc)
	if err != nil {
		return err
	}
	if _, why := sealable(plan); why != nil {
		return problem.New(409, "log_trimmed", "retention has removed events that %s is made of, and %s: the rebuilt rows would lack them", v.name, why).
			WithHint("leave it as it is, or delete it and make it again to begin with what the log has")
	}
	return nil
}

// sealChunk is how many rows are sealed with one write.
const sealChunk = 10_000

// seal copies the rows that can't be made again from the served version to the one that takes over,
// and counts the rows that this one has then.
func (v *view) seal(w *worker, old uint32, next *progress) error {
	z := *next.Sealed
	z.Rows = 0
	plan, err := v.svc.compile(w.doc)
	if err != nil {
		return fatal{err}
	}
	shape, err := ShapeOf(plan)
	if err != nil {
		return fatal{err}
	}
	from, to := rowsKey(v.id, old), rowsKey(v.id, w.doc.Version)
	it := v.svc.kv.Iter(from, kv.PrefixEnd(from))
	b, n := v.svc.kv.NewBatch(), 0
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		key := it.Key()[len(from):]
		var lacks bool
		if lacks, err = shape.Lacks(&z, key); err != nil || !lacks {
			continue
		}
		var h rowHead
		if h, _, err = splitRow(it.Value()); err != nil || expired(next.Oldest, h.time) {
			continue
		}
		z.Rows++
		b.Set(append(bytes.Clone(to), key...), bytes.Clone(it.Value()))
		if n++; n == sealChunk {
			err = b.Commit(false)
			b, n = v.svc.kv.NewBatch(), 0
		}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		b.Discard()
		return err
	}
	if err := b.Commit(true); err != nil {
		return err
	}
	next.Rows, next.Sealed = 0, &z
	it = v.svc.kv.Iter(to, kv.PrefixEnd(to))
	for ok := it.First(); ok; ok = it.Next() {
		next.Rows++
	}
	return it.Close()
}
