package verify

import (
	"context"
	"fmt"
	"strings"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/judge"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// prover reads the log into tables and writes the query over them. It belongs to one goroutine.
type prover struct {
	v        *Verifier
	plan     *query.Plan
	proof    *runtime.Proof
	claim    *runtime.Claim
	progress func(int64)

	judge   *judge.Judge
	assigns map[int]*query.Assign
	whole   bool // see onlyThroughIt
	ownRows bool // each row is an event, in no window
	sources []*source
	refused *row.Batch // rows of the table of refusals that are not put yet
	put     func(table int, rows *row.Batch) error
	events  int64

	matcher *matcher
	// shape and sealed say which rows have lost events; nil: none has.
	shape  *runtime.Shape
	sealed *runtime.Sealed
	beside *beside

	// counts says of the event in work whether it is in its stream's table; each hears of it.
	counts bool
	each   func()
	// has says which functions refused something.
	has map[int]bool
	// finals are the functions of which only final windows count; of those that are gathered, only
	// groups whose windows are all final.
	finals, gathered map[int]bool
	// partly says of each hop how many of its windows took an event that others refused.
	partly map[int]map[int64]bool
}

// source is a stream on its way into its table.
type source struct {
	runtime.ProofSource
	fields []row.Field
	// read says of each of the stream's columns whether the view reads it; the others stay NULL.
	read []bool
	rows *row.Batch
}

// refusals is the table of what the windows refused: the function's number, the stream, partition
// and offset of the event, the start of the window, and how many windows of the function took the event.
const refusals = "tidemark_refused"

var (
	bigint        = row.Scalar(row.BigInt)
	refusalFields = []row.Field{
		{Name: "number", Type: bigint},
		{Name: "source", Type: bigint},
		{Name: "part", Type: bigint},
		{Name: "place", Type: bigint},
		{Name: "window", Type: row.Scalar(row.Timestamp)},
		{Name: "taken", Type: bigint},
	}
	pseudoFields = []row.Field{
		{Name: query.PseudoPartition, Type: bigint},
		{Name: query.PseudoOffset, Type: bigint},
		{Name: query.PseudoSequence, Type: bigint},
		{Name: query.PseudoTime, Type: row.Scalar(row.Timestamp)},
		{Name: query.PseudoAppendTime, Type: row.Scalar(row.Timestamp)},
		{Name: query.PseudoKey, Type: row.Scalar(row.Varchar)},
	}
)

// maxPartly bounds in how many ways the windows of a hop over a subquery may have taken events in part:
// each is a part of the query.
const maxPartly = 64

// putRows is how many rows go into a table at once.
const putRows = 8192

func newProver(v *Verifier, plan *query.Plan, proof *runtime.Proof, claim *runtime.Claim) (*prover, error) {
	p := &prover{
		v: v, plan: plan, proof: proof, claim: claim, progress: func(int64) {},
		assigns: map[int]*query.Assign{}, has: map[int]bool{}, refused: row.NewBatch(refusalFields, 0),
		finals: map[int]bool{}, partly: map[int]map[int64]bool{},
	}
	final := func(root query.Node) {
		for _, n := range query.Nodes(root) {
			if a, ok := n.(*query.Assign); ok {
				p.finals[a.Number] = true
			}
		}
	}
	for _, n := range query.Nodes(plan.Root) {
		switch n := n.(type) {
		case *query.Assign:
			p.assigns[n.Number] = n
		case *query.FinalOnly:
			final(n)
		}
	}
	if proof.Definition.Emit == runtime.EmitFinal && !plan.PassThrough {
		final(plan.Root)
	}
	p.whole = onlyThroughIt(plan, len(p.assigns))
	p.ownRows = plan.PassThrough && len(p.assigns) == 0
	for _, s := range proof.Sources {
		rel, _ := proof.Catalog.Relation(s.Name)
		src := &source{ProofSource: s, fields: append(append([]row.Field{}, rel.Fields...), pseudoFields...), read: make([]bool, len(rel.Fields))}
		if c := row.FieldIndex(rel.Fields, rel.TimeField); c >= 0 {
			src.read[c] = true // the plan reads _time for it
		}
		for _, of := range plan.Sources {
			if of.Stream != s.ID {
				continue
			}
			for _, c := range of.Cols {
				if c.Column >= 0 {
					src.read[c.Column] = true
				}
			}
		}
		src.rows = row.NewBatch(src.fields, putRows)
		p.sources = append(p.sources, src)
	}
	outside := map[judge.Event]string{}
	if proof.Panics > 0 {
		err := claim.Errors(func(e runtime.FailedEvent) {
			if e.Code == internalCode {
				outside[judge.Event{Stream: p.id(e.Stream), Place: e.Place}] = internalCode
			}
		})
		if err != nil {
			return nil, err
		}
	}
	p.judge = judge.New(plan, judge.Config{
		AllowedLateness: proof.AllowedLateness, Streams: proof.Streams, EventsFrom: proof.EventsFrom, WindowsFrom: proof.WindowsFrom,
		StartAt: proof.StartAt, Outside: outside, Functions: judge.Functions(plan), Tell: p.tell,
	})
	p.beside = newBeside(p)
	return p, nil
}

// internalCode is the code of row errors that tell of a panic (E2).
const internalCode = "internal"

func (p *prover) id(name string) stream.ID {
	for _, s := range p.proof.Sources {
		if strings.EqualFold(s.Name, name) {
			return s.ID
		}
	}
	return 0
}

func (p *prover) name(id stream.ID) string {
	for _, s := range p.proof.Sources {
		if s.ID == id {
			return s.Name
		}
	}
	return ""
}

// tables are the streams, and last the table of refusals.
func (p *prover) tables() []Table {
	var out []Table
	for _, s := range p.sources {
		out = append(out, Table{s.Name, s.fields})
	}
	return append(out, Table{refusals, refusalFields})
}

// load reads the log up to the view's position and returns the query.
func (p *prover) load(ctx context.Context, put func(int, *row.Batch) error) (string, error) {
	p.put = put
	ids := make([]stream.ID, len(p.sources))
	for i, s := range p.sources {
		ids[i] = s.ID
	}
	reader := p.v.Log.Read(ids, 0)
	defer reader.Close()
	if err := p.beginAt(reader, ids); err != nil {
		return "", err
	}
	for {
		e, ok, err := reader.Next()
		if err != nil {
			return "", fmt.Errorf("read the log for the batch answer: %w", err)
		}
		if !ok || e.Sequence() > p.claim.Position.Sequence {
			break
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := p.take(e); err != nil {
			return "", err
		}
	}
	if err := p.beside.finish(); err != nil {
		return "", err
	}
	p.judge.Start() // where nothing came behind StartAt
	for i, s := range p.sources {
		if err := p.flush(i, &s.rows, s.fields); err != nil {
			return "", err
		}
	}
	if err := p.flush(len(p.sources), &p.refused, refusalFields); err != nil {
		return "", err
	}
	return p.sql()
}

// beginAt begins at what the log still has: rows that are made of more are set aside (R4).
func (p *prover) beginAt(reader stream.Reader, ids []stream.ID) error {
	at := map[stream.ID]stream.Mark{}
	for _, id := range ids {
		if m := reader.Start(id); m.Sequence > 0 {
			at[id] = m
			p.judge.Mark(id, m)
		}
	}
	if len(at) == 0 && p.proof.Sealed == nil {
		return nil
	}
	shape, err := runtime.ShapeOf(p.plan)
	if err != nil {
		for _, s := range p.sources {
			for n, first := range at[s.ID].First {
				if first > 0 {
					return unknown("the log no longer holds the first %d events of stream %s, partition %d, and %v: rows made of them can't be worked out again", first, s.Name, n, err)
				}
			}
		}
		return nil
	}
	z := shape.Cut(at, p.proof.StartAt)
	switch {
	case z == nil:
		z = p.proof.Sealed
	case p.proof.Sealed != nil:
		z.Before = max(z.Before, p.proof.Sealed.Before)
	}
	if z == nil {
		return nil
	}
	p.shape, p.sealed = shape, z
	p.matcher.aside = func(key []byte) (bool, error) { return shape.Lacks(z, key) }
	return nil
}

// take judges an entry and keeps the events that count.
func (p *prover) take(e stream.Entry) error {
	b := e.Batch
	if b == nil || e.Sequence() <= p.proof.StartAt {
		p.judge.Step(e)
		p.judge.Drain()
		return nil
	}
	kept := make([]int, 0, b.Len)
	index := 0
	p.each = func() {
		if p.counts && !p.early(b.Times[index]) {
			kept = append(kept, index)
		}
		index++
	}
	p.judge.Step(e)
	if err := p.beside.compare(b, p.judge.Drain()); err != nil {
		return err
	}
	p.events += int64(b.Len)
	p.progress(p.events)
	for i, s := range p.sources {
		if s.ID != b.Stream {
			continue
		}
		if err := s.append(b, kept); err != nil {
			return err
		}
		if s.rows.Len >= putRows {
			if err := p.flush(i, &s.rows, s.fields); err != nil {
				return err
			}
		}
	}
	if p.refused.Len >= putRows {
		return p.flush(len(p.sources), &p.refused, refusalFields)
	}
	return nil
}

func (p *prover) flush(table int, rows **row.Batch, fields []row.Field) error {
	if (*rows).Len == 0 {
		return nil
	}
	err := p.put(table, *rows)
	*rows = row.NewBatch(fields, putRows)
	return err
}

// onlyThroughIt reports whether a plan has one window function, and reads its streams through it
// alone: then what the function refuses can be left out of the stream's table itself.
func onlyThroughIt(plan *query.Plan, assigns int) bool {
	beside := false
	seen := map[query.Node]bool{}
	var visit func(n query.Node)
	visit = func(n query.Node) {
		if _, function := n.(*query.Assign); function || seen[n] {
			return
		}
		seen[n] = true
		if _, scan := n.(*query.Scan); scan {
			beside = true
		}
		for _, in := range n.Inputs() {
			visit(in)
		}
	}
	visit(plan.Root)
	return assigns == 1 && !beside
}

// tell is what the judge says of one event.
func (p *prover) tell(ev judge.Event, account judge.Account) {
	v := p.judge.Verdict()
	_, failed := v.Outside[ev]
	p.counts = !failed
	for number, assign := range p.assigns {
		switch assign.Kind {
		case windows.Session, windows.Slide:
			if list := v.Events[number]; len(list) > 0 && list[len(list)-1] == ev {
				p.leaveOut(number, ev, 0, 0, p.whole)
			}
		default:
			list := v.Pairs[number]
			n := 0
			for n < len(list) && list[len(list)-1-n].Event == ev {
				n++
			}
			switch mine := list[len(list)-n:]; {
			case n == 0:
			case assign.Kind == windows.Hop && overStream(assign):
				for _, pair := range mine {
					p.leaveOut(number, ev, pair.Start, 0, false)
				}
			default:
				taken := takenBy(account, number)
				p.leaveOut(number, ev, mine[0].Start, taken, taken == 0 && p.whole)
			}
		}
	}
	p.each()
}

// overStream reports whether the argument of a function is a stream itself, so that the rows that it
// gives carry the event's place.
func overStream(a *query.Assign) bool {
	_, direct := a.In.(*query.Scan)
	return direct
}

// takenBy is how many windows of a function took an event: the latest, since those that refused it are
// the earliest.
func takenBy(account judge.Account, number int) (n int64) {
	last := windows.Micros(0)
	for _, w := range account.Windows {
		if w.Function == number && w.Outcome != judge.Refused && (n == 0 || w.Start != last) {
			n, last = n+1, w.Start
		}
	}
	return n
}

// early reports whether an event lies before the instant at which the view begins (R2), or is a row
// that has expired (R3).
func (p *prover) early(at windows.Micros) bool {
	if oldest := p.claim.AsOf.Oldest; oldest != nil && p.ownRows && at < *oldest {
		return true
	}
	return p.proof.EventsFrom != nil && at < *p.proof.EventsFrom
}

func (p *prover) leaveOut(number int, ev judge.Event, start windows.Micros, taken int64, whole bool) {
	if whole {
		p.counts = false
		return
	}
	p.has[number] = true
	if taken > 0 {
		if p.partly[number] == nil {
			p.partly[number] = map[int64]bool{}
		}
		p.partly[number][taken] = true
	}
	for c, x := range []int64{int64(number), int64(ev.Stream), int64(ev.Partition), int64(ev.Offset), start, taken} {
		p.refused.Cols[c].AppendInt64(x)
	}
	p.refused.Len++
}

// append adds events to a stream's rows.
func (s *source) append(b *stream.Batch, kept []int) error {
	for c, read := range s.read {
		out := s.rows.Cols[c]
		if !read || c >= len(b.Columns) || b.Columns[c] == nil {
			for range kept {
				out.AppendNull()
			}
			continue
		}
		in := b.Columns[c]
		if !in.Type.Equal(out.Type) {
			wide, err := row.Convert(in, out.Type)
			if err != nil {
				return fmt.Errorf("stream %s, column %s: %w", s.Name, s.fields[c].Name, err)
			}
			in = wide
		}
		for _, i := range kept {
			out.AppendFrom(in, i)
		}
	}
	cols := s.rows.Cols[len(s.read):]
	for _, i := range kept {
		for c, x := range []int64{int64(b.Partition), int64(b.Offset(i)), int64(b.Sequence), b.Times[i], b.AppendTime} {
			cols[c].AppendInt64(x)
		}
		if b.Keys == nil {
			cols[5].AppendNull()
		} else {
			cols[5].AppendFrom(b.Keys, i)
		}
	}
	s.rows.Len += len(kept)
	return nil
}

// sql is the view's SQL over the tables, without what its windows refused or do not give out.
func (p *prover) sql() (string, error) {
	left := map[int]query.Left{}
	for number, a := range p.assigns {
		l, err := p.left(number, a)
		if err != nil {
			return "", err
		}
		left[number] = l
	}
	upTo := map[string]stream.Sequence{}
	for _, s := range p.sources {
		upTo[s.Name] = p.claim.Position.Sequence
	}
	return query.BatchWithout(p.v.Parse, p.v.FromAST, p.proof.Catalog, p.proof.Definition.SQL, upTo, func(n int) query.Left { return left[n] })
}

// left says what one window function leaves out.
func (p *prover) left(number int, a *query.Assign) (query.Left, error) {
	var l query.Left
	var output []string
	if p.has[number] {
		event := fmt.Sprintf("SELECT 1 FROM %s AS x WHERE x.number = %d AND x.part = %s AND x.place = %s",
			refusals, number, query.PseudoPartition, query.PseudoOffset)
		// of are the events of each stream, with another condition on what the table says of them.
		of := func(not, more string) map[string]string {
			out := map[string]string{}
			for _, s := range p.sources {
				out[s.Name] = fmt.Sprintf("%sEXISTS (%s AND x.source = %d%s)", not, event, s.ID, more)
			}
			return out
		}
		if a.Kind == windows.Hop && overStream(a) {
			output = append(output, "NOT EXISTS ("+event+" AND x.window = window_start)")
		} else {
			l.Input = of("NOT ", "")
		}
		if len(p.partly[number]) > maxPartly {
			return l, unknown("window function %d is a hop over a subquery, and its windows took events in part in %d ways: more than the %d that one query can tell apart", number, len(p.partly[number]), maxPartly)
		}
		for taken := range p.partly[number] {
			if l.Partly == nil {
				l.Partly = map[int64]map[string]string{}
			}
			l.Partly[taken] = of("", fmt.Sprintf(" AND x.taken = %d", taken))
		}
	}
	from := p.judge.WindowsFrom()
	switch {
	case p.sealed == nil:
	case p.shape.Several(): // one function may read windows of another that begin earlier
		if cut := p.shape.CutOf(p.sealed, number); cut != "" {
			output = append(output, cut)
		}
	default:
		if behind := p.shape.WindowsFrom(p.sealed); behind != nil && (from == nil || *from < *behind) {
			from = behind
		}
	}
	if from != nil {
		output = append(output, fmt.Sprintf("window_start >= make_timestamp(%d)", *from))
	}
	if oldest := p.claim.AsOf.Oldest; oldest != nil && !p.plan.NeverFinal {
		output = append(output, fmt.Sprintf("window_end >= make_timestamp(%d)", *oldest))
	}
	if p.finals[number] {
		wm := p.judge.Watermark()
		switch {
		case wm == windows.NoWatermark:
			output = append(output, "1 = 0")
		case p.gathered[number]:
			l.Groups = &wm
		case a.Kind == windows.Session || a.Kind == windows.Slide: // T2
			output = append(output, fmt.Sprintf("window_end < make_timestamp(%d)", wm))
		default:
			output = append(output, fmt.Sprintf("window_end <= make_timestamp(%d)", wm))
		}
	}
	l.Output = strings.Join(output, " AND ")
	return l, nil
}

// gone reports whether the log no longer has an event.
func (p *prover) gone(id stream.ID, at stream.Place) bool {
	if p.sealed == nil {
		return false
	}
	first := p.sealed.First[id]
	return int(at.Partition) < len(first) && at.Offset < first[at.Partition]
}

// untold reports whether the log no longer tells if an event was late: it is gone, or it may have
// touched a session that is.
func (p *prover) untold(id stream.ID, at stream.Place, when windows.Micros) bool {
	if p.gone(id, at) {
		return true
	}
	from := p.judge.WindowsFrom()
	if p.sealed != nil {
		from = p.shape.WindowsFrom(p.sealed)
	}
	for _, a := range p.assigns {
		if a.Kind == windows.Session && p.sealed != nil && from != nil && when < *from {
			return true
		}
	}
	return false
}
