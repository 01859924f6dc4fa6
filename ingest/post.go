package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/stream"
)

// Request is a body of events.
type Request struct {
	// Stream is where the events go; "" is a mixed body, whose events name their stream themselves.
	Stream string
	// Body may be used again when Post has returned: nothing of it is kept.
	Body                  []byte
	ContentType, Encoding string
	// Strict refuses all events when one can't be used.
	Strict bool
	// Partition is where all events go, whatever their keys. Nil: by key.
	Partition *int
	// IdempotencyKey and Scope (the API key) find the answer of the same request again.
	IdempotencyKey, Scope string
	// TidemarkKey and TidemarkTime are the headers of these names: a null body removes a key.
	TidemarkKey, TidemarkTime string
	// Allow returns a problem when the client may not post to a stream. Nil: it may to all.
	Allow func(stream string) error
	// NoSync has the answer come before the events are on disk.
	NoSync bool
}

// crowded is a log that says beforehand when it takes no more, so that under too much load no time
// goes into reading what is refused.
type crowded interface{ Busy(bytes int) error }

// part is what a request brings to one stream.
type part struct {
	name    string
	stream  *stream.Stream // nil: does not exist yet
	created bool
	size    int // bytes of events, about
	events  int // about
	// decode gives all events of the part to the decoder; it is called again when columns were added.
	decode func(*decoder) error
	// skip is a field that makes no column.
	skip  string
	texts []mixedEvent // of a mixed body
	time  string       // the time field of a stream that is to be made
	out   *decoded
}

// Post takes a request's events in. The error is a *problem.Problem when it is the client's to mend
// or to wait for; nothing was appended then.
func (in *Ingester) Post(ctx context.Context, r Request) (*Answer, error) {
	var parts []*part
	a, err := in.post(ctx, r, &parts)
	if err != nil {
		in.refuse(r, parts, err)
	}
	return a, err
}

// post is Post; parts are told also when it fails.
func (in *Ingester) post(ctx context.Context, r Request, all *[]*part) (*Answer, error) {
	if r.Stream != "" {
		if err := catalog.CheckName(catalog.Stream, r.Stream); err != nil {
			return nil, err
		}
	}
	f, err := framingOf(r.ContentType)
	if err != nil {
		return nil, err
	}
	body, err := in.opts.open(r.Body, r.Encoding)
	if err != nil {
		return nil, err
	}
	var parts []*part
	if r.Stream != "" {
		p := &part{name: r.Stream, size: len(body), events: guess(body, f, in.opts.MaxEvents)}
		p.decode = func(d *decoder) error { return d.decode(body, f, in.opts.MaxEvents) }
		parts = append(parts, p)
		if p.stream, err = in.find(r.Stream); err != nil {
			return nil, err
		}
	}
	once, answer, err := in.begin(r, body, parts)
	if err != nil || answer != nil {
		return answer, err
	}
	defer in.end(once)
	if l, ok := in.log.(crowded); ok {
		if err := l.Busy(len(body)); err != nil {
			return nil, err
		}
	}
	if r.Stream == "" {
		if parts, err = in.split(body, f); err != nil {
			return nil, err
		}
	}
	*all = parts
	if r.Allow != nil {
		for _, p := range parts {
			if err := r.Allow(p.name); err != nil {
				return nil, err
			}
		}
	}
	if r.TidemarkKey != "" && r.Stream != "" {
		if err := tombstone(parts[0], body, r); err != nil {
			return nil, err
		}
	} else if err := in.prepare(ctx, parts, r); err != nil {
		return nil, err
	}
	return in.append(ctx, parts, r, once)
}

// find returns a stream, or nil when it does not exist and may be made.
func (in *Ingester) find(name string) (*stream.Stream, error) {
	s, err := in.streams.Get(name)
	if err == nil {
		return s, nil
	}
	if p := problem.From(err); p.Status != 404 || !in.opts.AutoCreate {
		return nil, err
	}
	return nil, nil
}

// prepare decodes all parts, making streams and columns as needed (I6). What makes the request a
// failure is found before anything is made.
func (in *Ingester) prepare(ctx context.Context, parts []*part, r Request) error {
	var bad []EventError
	for _, p := range parts {
		if p.stream != nil {
			if err := checkPartition(r.Partition, p.stream.Config.Partitions, p.name); err != nil {
				return err
			}
		}
		var list []EventError
		var err error
		switch {
		case p.stream == nil:
			list, err = in.rehearse(p, r)
		case r.Strict && len(parts) > 1:
			// No part may make a stream or a column before all are known to be good.
			list, err = in.rehearseStrict(p, r)
		}
		if err != nil {
			return err
		}
		bad = append(bad, list...)
	}
	if len(bad) > 0 {
		return refused(bad)
	}
	for _, p := range parts {
		if p.stream == nil {
			if err := in.make(ctx, p); err != nil {
				return err
			}
		}
	}
	for _, p := range parts {
		if err := in.settle(ctx, p, r); err != nil {
			return err
		}
	}
	return nil
}

func checkPartition(want *int, partitions int, name string) error {
	if want != nil && (*want < 0 || *want >= partitions) {
		return problem.New(422, "unknown_partition", "stream %s has no partition %d", name, *want).
			WithHint("its partitions are 0 to %d", partitions-1)
	}
	return nil
}

// run decodes a part once by a layout.
func (in *Ingester) run(p *part, l *layout, r Request) (*decoded, error) {
	d := l.pool.Get().(*decoder)
	lim := limits{event: in.opts.MaxEvent, depth: in.opts.MaxDepth, partition: -1, skip: p.skip}
	lim.latest = in.opts.Now().Add(time.Duration(*l.stream.Config.MaxAhead)).UnixMicro()
	if r.Partition != nil {
		lim.partition = *r.Partition
	}
	d.begin(p.events, p.size, lim)
	err := p.decode(d)
	out := d.finish()
	l.pool.Put(d)
	if err != nil {
		return nil, err
	}
	if out.total == 1 && len(out.bad) == 1 {
		switch b := out.bad[0]; b.code {
		case codeTooLarge, codeTooDeep:
			return nil, problem.New(413, b.code, "%s", b.reason).WithHint("nothing was taken; send smaller events")
		case codeNoObject:
			return nil, problem.New(400, b.code, "the body is JSON but no event: an event is a JSON object").WithHint(`send an object, such as {"user":"u1"}`)
		}
	}
	return out, nil
}

// errorsOf lists the events that can't be used, those included that the draft of a schema would
// refuse.
func (p *part) errorsOf(out *decoded, mixed bool) []EventError {
	name := ""
	if mixed {
		name = p.name
	}
	var bad []EventError
	draft := newDraft(&out.layout.stream.Schema, p.skip)
	again := map[int]bool{}
	for _, n := range out.news {
		f := draft.add(n.text, out.layout.timeName)
		if f != nil {
			bad = append(bad, EventError{Index: n.index, Stream: name, Code: f.code, Reason: f.reason})
		}
		again[n.index] = true
	}
	for _, b := range out.bad {
		if !again[b.index] {
			bad = append(bad, EventError{Index: b.index, Stream: name, Code: b.code, Reason: b.reason})
		}
	}
	return bad
}

// rehearse decodes the events of a stream that does not exist yet, so that a body which fails as a
// whole makes no stream. It chooses the time field. The list is what a strict request is refused
// for.
func (in *Ingester) rehearse(p *part, r Request) ([]EventError, error) {
	ahead, one := stream.DefaultMaxAhead, 1
	if err := checkPartition(r.Partition, one, p.name); err != nil {
		return nil, err
	}
	s := &stream.Stream{Name: p.name, Config: stream.Config{Partitions: one, MaxAhead: &ahead}}
	out, err := in.run(p, newLayout(s), r)
	if err != nil {
		return nil, err
	}
	first, ok := out.first()
	if !ok {
		return nil, problem.New(400, "no_events", "the body holds no JSON object, and the stream %q does not exist yet", p.name).
			WithHint(`send an event, such as {"user":"u1"}`)
	}
	if s.Config.TimeField = chooseTime(first); s.Config.TimeField != "" {
		s.Schema.Fields = timeColumn(s.Config.TimeField)
	}
	p.time = s.Config.TimeField
	if !r.Strict {
		return nil, nil
	}
	if out, err = in.run(p, newLayout(s), r); err != nil {
		return nil, err
	}
	return p.errorsOf(out, r.Stream == ""), nil
}

// rehearseStrict decodes a part without making anything.
func (in *Ingester) rehearseStrict(p *part, r Request) ([]EventError, error) {
	out, err := in.run(p, in.layoutOf(p.stream), r)
	if err != nil {
		return nil, err
	}
	return p.errorsOf(out, true), nil
}

// make creates the stream of a part that was rehearsed.
func (in *Ingester) make(ctx context.Context, p *part) error {
	in.create.Lock()
	defer in.create.Unlock()
	if s, err := in.streams.Get(p.name); err == nil {
		p.stream, p.created = s, false // another request was first
		return nil
	}
	s, created, err := in.streams.Put(ctx, p.name, stream.Config{TimeField: p.time})
	if err != nil {
		return err
	}
	p.stream, p.created = s, created
	return nil
}

// settle decodes a part until its columns are there.
func (in *Ingester) settle(ctx context.Context, p *part, r Request) error {
	for {
		l := in.layoutOf(p.stream)
		out, err := in.run(p, l, r)
		if err != nil {
			return err
		}
		p.out = out
		if r.Strict {
			if bad := p.errorsOf(out, r.Stream == ""); len(bad) > 0 {
				return refused(bad)
			}
		}
		again, err := in.learn(ctx, p)
		if err != nil {
			return err
		}
		if !again && r.Strict && len(out.bad) > 0 {
			out.news = nil // the schema took none of it
			return refused(p.errorsOf(out, r.Stream == ""))
		}
		if !again {
			return nil
		}
	}
}

// learn has the columns made that the events of a part ask for, and says whether the part must be
// decoded again.
func (in *Ingester) learn(ctx context.Context, p *part) (again bool, err error) {
	out, s := p.out, p.stream
	// Integers that no double holds are noted first: they decide what other events may widen.
	if len(out.wide) > 0 {
		slices.Sort(out.wide)
		out.wide = slices.Compact(out.wide)
		next, err := in.streams.MarkWide(ctx, s.ID, out.wide)
		if err != nil {
			return false, err
		}
		p.stream = next
		for _, c := range out.wide {
			if !next.Schema.Fields[c].Type.Equal(s.Schema.Fields[c].Type) {
				return true, nil // another request has widened it meanwhile
			}
		}
	}
	if len(out.news) == 0 {
		return false, nil
	}
	s = p.stream
	d := newDraft(&s.Schema, p.skip)
	for _, n := range out.news {
		d.add(n.text, out.layout.timeName) // what does not fit is found again by the decoder
	}
	if want := d.wants(&s.Schema); len(want) > 0 {
		next, err := in.streams.EnsureColumns(ctx, s.ID, want)
		if err != nil {
			return false, err
		}
		if next.Schema.Version != s.Schema.Version {
			p.stream = next
			return true, nil
		}
	}
	out.layout.notePlain(out.news, p.skip)
	return false, nil
}

// append commits the parts.
func (in *Ingester) append(ctx context.Context, parts []*part, r Request, once *once) (*Answer, error) {
	reqs := make([]*stream.Events, 0, len(parts))
	for _, p := range parts {
		e := &p.out.events
		e.NoSync = r.NoSync
		// The first of a commit's events with an id is the original: dead letters have none.
		slices.SortStableFunc(p.out.bad, func(a, b badEvent) int { return a.index - b.index })
		for _, b := range p.out.bad {
			e.DeadLetters = append(e.DeadLetters, stream.DeadLetter{Origin: "ingest", Code: b.code, Reason: b.reason, Raw: b.raw, Attempts: 1})
		}
		reqs = append(reqs, e)
	}
	mixed := r.Stream == ""
	var answer *Answer
	work := slices.ContainsFunc(reqs, func(e *stream.Events) bool { return e.Len() > 0 || len(e.DeadLetters) > 0 })
	if len(reqs) == 0 || !work && once == nil {
		answer = in.answer(parts, make([]stream.Appended, len(parts)), mixed)
	} else {
		if once != nil {
			var id stream.ID
			if !mixed {
				id = parts[0].stream.ID
			}
			reqs[0].Idempotency = &stream.Idempotency{
				Key: kept(r, id), BodySum: once.body,
				Answer: func(done []stream.Appended) []byte { return in.answer(parts, done, mixed).JSON() },
			}
		}
		done, err := in.log.Append(ctx, reqs)
		if err != nil {
			return nil, err
		}
		answer = in.answer(parts, done, mixed)
	}
	if r.NoSync {
		answer.Status = 202
	}
	for _, p := range parts {
		p.out.release()
	}
	return answer, nil
}

// once is a request with an idempotency key at work.
type once struct {
	running [32]byte
	body    [32]byte
}

// maxIdempotencyKey bounds the bytes of an idempotency key.
const maxIdempotencyKey = 255

// begin finds the answer of an earlier request under the same idempotency key, or notes that this
// one is at work. Without a key it returns nothing.
func (in *Ingester) begin(r Request, body []byte, parts []*part) (*once, *Answer, error) {
	if r.IdempotencyKey == "" {
		return nil, nil, nil
	}
	if len(r.IdempotencyKey) > maxIdempotencyKey {
		return nil, nil, problem.New(400, "bad_idempotency_key", "the Idempotency-Key has %d bytes, at most %d are taken", len(r.IdempotencyKey), maxIdempotencyKey).
			WithHint("a UUID or a hash of the batch is enough")
	}
	o := &once{running: sum([]byte(r.Scope), []byte(r.Stream), []byte(r.IdempotencyKey)), body: sha256.Sum256(body)}
	in.mu.Lock()
	_, busy := in.mu.running[o.running]
	if !busy {
		in.mu.running[o.running] = struct{}{}
	}
	in.mu.Unlock()
	if busy {
		return nil, nil, problem.New(409, "still_running", "a request with this Idempotency-Key is still at work").
			WithHint("wait for its answer, or send this one again in a moment")
	}
	var id stream.ID
	if len(parts) > 0 {
		if parts[0].stream == nil {
			return o, nil, nil // a stream that does not exist has kept no answers
		}
		id = parts[0].stream.ID
	}
	was, ok, err := in.log.Remembered(kept(r, id))
	if err == nil && !ok {
		return o, nil, nil
	}
	in.end(o)
	if err != nil {
		return nil, nil, err
	}
	if was.BodySum != o.body {
		return nil, nil, problem.New(422, "idempotency_key_reused", "this Idempotency-Key came with another body before").
			WithHint("use a key of its own for each body; a repeated request must be the same byte for byte")
	}
	return nil, &Answer{Status: 200, kept: was.Body}, nil
}

func (in *Ingester) end(o *once) {
	if o != nil {
		in.mu.Lock()
		delete(in.mu.running, o.running)
		in.mu.Unlock()
	}
}

// kept is the key under which the log keeps a request's answer. The stream stands in it by number,
// so that one made anew under an old name remembers nothing; mixed bodies have number 0.
func kept(r Request, id stream.ID) stream.IdempotencyKey {
	return sum([]byte(r.Scope), binary.BigEndian.AppendUint64(nil, uint64(id)), []byte(r.IdempotencyKey))
}

// sum is the SHA-256 of texts with their lengths.
func sum(texts ...[]byte) [32]byte {
	var b []byte
	for _, t := range texts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(t)))
		b = append(b, t...)
	}
	return sha256.Sum256(b)
}
