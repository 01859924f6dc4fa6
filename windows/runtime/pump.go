package runtime

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// Bounds of a pump.
const (
	// pumpRows is about how many rows make a batch; an entry of the log or an epoch is never split.
	pumpRows = 16_384
	// pumpRest is how long a pump rests when it has caught up, so that the batches of a trickle of
	// events are not one event each.
	pumpRest = 100 * time.Millisecond
)

// pump carries streams and change streams to one sink. It belongs to one goroutine; what is lost
// with it is nothing, because the sink knows where it stands.
type pump struct {
	svc  *Service
	sink Sink
	wake chan struct{}

	// at is where the sink stands in each relation, as far as it was asked or told.
	at map[string]*pumped

	mu struct {
		sync.Mutex
		drops   []string // relations that are to be removed
		trouble string
		// done: the sink holds the log up to here. moved is closed, and made anew, when done rises.
		done  stream.Sequence
		moved chan struct{}
	}
}

// pumped is one relation in a sink.
type pumped struct {
	relation string
	id       uint64
	version  int64
	known    bool
	held     []byte // what the sink holds; nil: nothing
	// position is where to read on: at what the sink holds, or behind control records after it.
	position stream.Position
	// schema is the version of the stream's columns that the sink knows of; 0: not known.
	schema int
	// rows is how many the last batch had: room for as many is made for the next.
	rows int
}

func newPump(s *Service, sink Sink) *pump {
	p := &pump{svc: s, sink: sink, wake: make(chan struct{}, 1), at: map[string]*pumped{}}
	p.mu.moved = make(chan struct{})
	return p
}

func (p *pump) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (s *Service) wakePumps() {
	for _, p := range s.pumps {
		p.poke()
	}
}

// dropFromSinks removes a relation from every sink. A sink that is away is told when it is back;
// until then what it holds is of an internal number that is never used again.
func (s *Service) dropFromSinks(_ context.Context, relation string) {
	for _, p := range s.pumps {
		p.mu.Lock()
		p.mu.drops = append(p.mu.drops, relation)
		p.mu.Unlock()
		p.poke()
	}
}

// SinkTrouble tells what keeps a sink from taking rows in, one text a sink; empty: nothing.
func (s *Service) SinkTrouble() []string {
	out := make([]string, len(s.pumps))
	for i, p := range s.pumps {
		p.mu.Lock()
		out[i] = p.mu.trouble
		p.mu.Unlock()
	}
	return out
}

// SinkLag is how far each sink is behind the end of the log, in sequences.
func (s *Service) SinkLag() []int64 {
	out := make([]int64, len(s.pumps))
	for i, p := range s.pumps {
		p.mu.Lock()
		out[i] = max(0, int64(s.log.End()-p.mu.done))
		p.mu.Unlock()
	}
	return out
}

// SinksAt returns when every sink holds the log up to a sequence, and the change streams as far as
// the views were then; or with the error of ctx.
func (s *Service) SinksAt(ctx context.Context, upTo stream.Sequence) error {
	for _, p := range s.pumps {
		for {
			p.mu.Lock()
			done, moved := p.mu.done, p.mu.moved
			p.mu.Unlock()
			if done >= upTo {
				break
			}
			p.poke()
			select {
			case <-moved:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// caughtUp notes that the sink holds the log up to a sequence.
func (p *pump) caughtUp(at stream.Sequence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at > p.mu.done {
		p.mu.done = at
		close(p.mu.moved)
		p.mu.moved = make(chan struct{})
	}
}

// run pumps until ctx ends. When the sink fails, it is tried again after a wait that grows.
func (p *pump) run(ctx context.Context) {
	news, stop := p.svc.log.Watch()
	defer stop()
	wait := p.svc.RetryMin
	for ctx.Err() == nil {
		end := p.svc.log.End()
		moved, err := p.round(ctx)
		p.setTrouble(err)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.svc.logger.Warn("a sink takes nothing in; it is tried again", "err", err, "after", wait)
			p.at = map[string]*pumped{} // it may have been made anew
			sleep(ctx, wait)
			wait = min(2*wait, p.svc.RetryMax)
			continue
		}
		wait = p.svc.RetryMin
		if moved {
			continue
		}
		p.caughtUp(end)
		rest := time.NewTimer(pumpRest)
		select {
		case <-ctx.Done():
		case <-p.wake:
			rest.Stop()
			continue
		case <-rest.C:
		}
		rest.Reset(time.Second)
		select {
		case <-ctx.Done():
		case <-news:
		case <-p.wake:
		case <-rest.C: // change streams move behind the log
		}
		rest.Stop()
	}
}

func (p *pump) setTrouble(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.trouble = ""
	if err != nil {
		p.mu.trouble = err.Error()
	}
}

// round carries at most one batch of each relation; moved says that there may be more.
func (p *pump) round(ctx context.Context) (moved bool, err error) {
	if err := p.dropOld(ctx); err != nil {
		return false, err
	}
	there := map[string]bool{}
	for _, st := range p.svc.Registry.List() {
		r := p.relation(st.Name, uint64(st.ID), int64(p.svc.log.ID()))
		there[r.relation] = true
		more, err := p.pumpStream(ctx, r, st)
		if err != nil {
			return false, fmt.Errorf("stream %s: %w", st.Name, err)
		}
		moved = moved || more
	}
	for _, v := range p.svc.list() {
		h, _ := v.published()
		r := p.relation(changesRelation(v.name), v.id, int64(uint64(p.svc.log.ID())+uint64(h.Stream)))
		there[r.relation] = true
		more, err := p.pumpView(ctx, r, v)
		if err != nil {
			return false, fmt.Errorf("view %s: %w", v.name, err)
		}
		moved = moved || more
	}
	for name := range p.at {
		if !there[name] {
			if err := p.sink.Drop(ctx, name); err != nil {
				return false, fmt.Errorf("drop %s: %w", name, err)
			}
			delete(p.at, name)
		}
	}
	return moved, nil
}

func (p *pump) dropOld(ctx context.Context) error {
	for {
		p.mu.Lock()
		if len(p.mu.drops) == 0 {
			p.mu.Unlock()
			return nil
		}
		name := p.mu.drops[0]
		p.mu.Unlock()
		if err := p.sink.Drop(ctx, name); err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
		delete(p.at, name)
		p.mu.Lock()
		p.mu.drops = p.mu.drops[1:]
		p.mu.Unlock()
	}
}

// relation is what the pump knows of a relation; a new number or version makes it forget.
func (p *pump) relation(name string, id uint64, version int64) *pumped {
	r := p.at[name]
	if r == nil || r.id != id || r.version != version {
		r = &pumped{relation: name, id: id, version: version}
		p.at[name] = r
	}
	return r
}

// locate asks the sink where it stands, once.
func (p *pump) locate(ctx context.Context, r *pumped) error {
	if r.known {
		return nil
	}
	held, err := p.sink.Position(ctx, r.relation, r.id, r.version)
	if err != nil {
		return err
	}
	r.known, r.held, r.position = true, held, stream.Position{Log: p.svc.log.ID()}
	if held != nil {
		at, err := decodePosition(held)
		if err != nil || at.Log != r.position.Log {
			return fmt.Errorf("%s stands at a position that is not ours", r.relation)
		}
		r.position = at
	}
	return nil
}

// apply hands rows to the sink and notes where it stands then.
func (p *pump) apply(ctx context.Context, r *pumped, fields []row.Field, rows *row.Batch, to stream.Position) error {
	end := encodePosition(to)
	err := p.sink.Apply(ctx, row.SinkBatch{
		Relation: r.relation, ID: r.id, Version: r.version, Fields: fields, From: r.held, To: end, Rows: rows,
	})
	if err != nil {
		return err
	}
	r.held, r.position = end, to
	return nil
}

// A position in a sink is the log's identity, sequence and within, big endian.
func encodePosition(p stream.Position) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(p.Log))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Sequence))
	return binary.BigEndian.AppendUint32(b, uint32(p.Within))
}

func decodePosition(b []byte) (stream.Position, error) {
	if len(b) != 20 {
		return stream.Position{}, stream.ErrBadPosition
	}
	return stream.Position{
		Log: stream.LogID(binary.BigEndian.Uint64(b)), Sequence: stream.Sequence(binary.BigEndian.Uint64(b[8:])),
		Within: int32(binary.BigEndian.Uint32(b[16:])),
	}, nil
}

// pumpStream carries the next events of a stream.
func (p *pump) pumpStream(ctx context.Context, r *pumped, st *stream.Stream) (more bool, err error) {
	if err := p.locate(ctx, r); err != nil {
		return false, err
	}
	reader := p.svc.log.Read([]stream.ID{st.ID}, r.position.Sequence)
	defer func() { err = errors.Join(err, reader.Close()) }()
	fields := append(append([]row.Field{}, st.Schema.Fields...), streamSinkFields...)
	rows := row.NewBatch(fields, r.rows)
	defer func() { r.rows = min(rows.Len+rows.Len/8, 2*pumpRows) }()
	to := r.position
	for rows.Len < pumpRows {
		e, ok, err := reader.Next()
		if errors.Is(err, stream.ErrUnknownStream) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		to.Sequence, to.Within = e.Sequence(), 0
		if e.Batch != nil {
			if err := appendEvents(rows, st, e.Batch); err != nil {
				return false, err
			}
			runtime.Gosched() // a sink is behind the log: who waits for an answer goes first
		}
	}
	switch {
	case rows.Len > 0:
	case r.held == nil || r.schema != st.Schema.Version:
		// The sink is to know a relation and its columns before there are rows.
		to.Within = r.position.Within + 1
	default:
		r.position = to // control records are nothing for a sink; it need not know
		return false, nil
	}
	err = p.apply(ctx, r, fields, rows, to)
	r.schema = st.Schema.Version
	return rows.Len >= pumpRows, err
}

// appendEvents adds the events of a batch as rows for a sink. A column that is missing is null; one
// that was narrower when the batch was written is widened.
func appendEvents(rows *row.Batch, st *stream.Stream, b *stream.Batch) error {
	n := len(st.Schema.Fields)
	for c, f := range st.Schema.Fields {
		out := rows.Cols[c]
		if c >= len(b.Columns) || b.Columns[c] == nil {
			for range b.Len {
				out.AppendNull()
			}
			continue
		}
		in := b.Columns[c]
		if !in.Type.Equal(f.Type) {
			wide, err := row.Convert(in, f.Type)
			if err != nil {
				return fmt.Errorf("column %s: %w", f.Name, err)
			}
			in = wide
		}
		out.AppendAll(in)
	}
	for i := range b.Len {
		rows.Cols[n].AppendInt64(int64(b.Partition))
		rows.Cols[n+1].AppendInt64(int64(b.Offset(i)))
		rows.Cols[n+2].AppendInt64(int64(b.Sequence))
		rows.Cols[n+3].AppendInt64(b.Times[i])
		rows.Cols[n+4].AppendInt64(b.AppendTime)
		if b.Keys == nil {
			rows.Cols[n+5].AppendNull()
		} else {
			rows.Cols[n+5].AppendFrom(b.Keys, i)
		}
	}
	rows.Len += b.Len
	return nil
}

// pumpView carries the next epochs of a view's change stream.
func (p *pump) pumpView(ctx context.Context, r *pumped, v *view) (more bool, err error) {
	if err := p.locate(ctx, r); err != nil {
		return false, err
	}
	if v.stale() { // what it shows is not of the log there is; it is made again, or has failed
		return false, nil
	}
	if h, _ := v.published(); h.Trimmed && r.held == nil {
		return false, p.pumpRows(ctx, r, v)
	}
	defer func() {
		if err == nil {
			v.holds(p, r.position)
		}
	}()
	reader := &ChangeReader{view: v, after: r.position, whole: true}
	if r.held == nil {
		h, _ := v.published()
		reader.after = h.ChangesFrom
		reader.after.Log = p.svc.log.ID()
	}
	var fields []row.Field
	var rows *row.Batch
	to := r.position
	for rows == nil || rows.Len < pumpRows {
		e, ok, err := reader.next()
		var gap *Gap
		if errors.As(err, &gap) || v.deleted() {
			return false, nil // the next round sees another version, or none
		}
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		if rows == nil {
			fields = append(append([]row.Field{}, e.Fields...), changeSinkFields...)
			rows = row.NewBatch(fields, e.Changes.Len())
		}
		appendChanges(rows, e)
		to = e.To
	}
	switch {
	case rows != nil:
	case r.held == nil: // the sink is to know a view before it has changes
		h, _ := v.published()
		own, err := loadFields(h.Fields)
		if err != nil {
			return false, err
		}
		fields = append(own, changeSinkFields...)
		rows, to = row.NewBatch(fields, 0), reader.after
	default:
		return false, nil
	}
	return rows.Len >= pumpRows, p.apply(ctx, r, fields, rows, to)
}

// pumpRows gives a sink that holds nothing of a view the rows as they are now, where the changes that
// made them are gone.
func (p *pump) pumpRows(ctx context.Context, r *pumped, v *view) error {
	snap, err := p.svc.Snapshot(v.name)
	if err != nil {
		return err
	}
	n := snap.Rows.Len
	c := &windows.Changes{Rows: snap.Rows, Keys: snap.Keys, Status: snap.Status, Revision: snap.Revision, Ops: make([]int8, n), Sequences: make([]stream.Sequence, n)}
	for i := range n {
		c.Ops[i], c.Sequences[i] = +1, snap.Position.Sequence
	}
	fields := append(append([]row.Field{}, snap.Fields...), changeSinkFields...)
	rows := row.NewBatch(fields, n)
	appendChanges(rows, &Epoch{Fields: snap.Fields, Changes: c})
	return p.apply(ctx, r, fields, rows, v.outside(snap.Position))
}

func appendChanges(rows *row.Batch, e *Epoch) {
	c, n := e.Changes, len(e.Fields)
	for i := range n {
		rows.Cols[i].AppendAll(c.Rows.Cols[i])
	}
	for i := range c.Len() {
		rows.Cols[n].AppendString(string(c.Keys[i]))
		rows.Cols[n+1].AppendInt64(int64(c.Ops[i]))
		rows.Cols[n+2].AppendInt64(int64(c.Revision[i]))
		rows.Cols[n+3].AppendInt64(int64(c.Sequences[i]))
		if s := c.Status[i].String(); s == "" {
			rows.Cols[n+4].AppendNull()
		} else {
			rows.Cols[n+4].AppendString(s)
		}
	}
	rows.Len += c.Len()
}
