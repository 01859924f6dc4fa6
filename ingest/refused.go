package ingest

import (
	"bytes"
	"encoding/binary"
	"sync"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// refusals counts the events of requests that were refused as a whole, by stream; 0 is for those that
// named no stream that exists. With what the log counts, every event that was received has one fate:
// accepted, duplicate, dead letter, refused.
type refusals struct {
	store *kv.Store // nil: the counts begin at 0 with the process
	mu    struct {
		sync.Mutex
		counts map[stream.ID]int64
		dirty  map[stream.ID]bool
		saved  time.Time
	}
}

// saveEvery bounds how often the counts are written. A crash takes back what was counted since: it is
// a count of what has left no other trace.
const saveEvery = time.Second

// refusedPrefix is the beginning of the keys: stream(8) → uvarint.
var refusedPrefix = append([]byte{byte(kv.Meta)}, "ingest/refused/"...)

func (f *refusals) open(store *kv.Store) error {
	f.store = store
	f.mu.counts, f.mu.dirty = map[stream.ID]int64{}, map[stream.ID]bool{}
	if store == nil {
		return nil
	}
	it := store.Iter(refusedPrefix, kv.PrefixEnd(refusedPrefix))
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()[len(refusedPrefix):]
		if n, size := binary.Uvarint(it.Value()); size > 0 && len(k) == 8 {
			f.mu.counts[stream.ID(binary.BigEndian.Uint64(k))] = int64(n)
		}
	}
	return it.Close()
}

func (f *refusals) add(id stream.ID, events int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.counts[id] += int64(events)
	f.mu.dirty[id] = true
	if since := now.Sub(f.mu.saved); since >= saveEvery || since < 0 {
		f.mu.saved = now
		_ = f.saveLocked(false) // tried again by the next one
	}
}

func (f *refusals) saveLocked(sync bool) error {
	if f.store == nil || len(f.mu.dirty) == 0 {
		return nil
	}
	b := f.store.NewBatch()
	for id := range f.mu.dirty {
		b.Set(binary.BigEndian.AppendUint64(refusedPrefix[:len(refusedPrefix):len(refusedPrefix)], uint64(id)), binary.AppendUvarint(nil, uint64(f.mu.counts[id])))
	}
	if err := b.Commit(sync); err != nil {
		return err
	}
	clear(f.mu.dirty)
	return nil
}

// Refused is how many events for a stream came in requests that were refused as a whole (4xx, or 503
// before anything was written). A body whose events can't be told apart counts as one. ID 0 is for
// requests to no stream that exists.
func (in *Ingester) Refused(id stream.ID) int64 {
	in.refused.mu.Lock()
	defer in.refused.mu.Unlock()
	return in.refused.mu.counts[id]
}

// Close writes what was counted last.
func (in *Ingester) Close() error {
	in.refused.mu.Lock()
	defer in.refused.mu.Unlock()
	return in.refused.saveLocked(true)
}

// Refuse counts the events of a request that was not even tried, and returns err.
func (in *Ingester) Refuse(r Request, err error) error {
	in.refuse(r, nil, err)
	return err
}

// refuse counts the events of a request that ended in an error, if they surely have no offset.
func (in *Ingester) refuse(r Request, parts []*part, err error) {
	if p := problem.From(err); p.Status >= 500 && p.Status != 503 {
		return // whether they are in the log is not known
	}
	now := in.opts.Now()
	if r.Stream != "" {
		var id stream.ID
		if s, err := in.streams.Get(r.Stream); err == nil {
			id = s.ID
		}
		if len(parts) == 1 && parts[0].out != nil {
			in.refused.add(id, max(1, parts[0].out.total), now)
			return
		}
		in.refused.add(id, in.tell(r), now)
		return
	}
	if len(parts) == 0 {
		in.refused.add(0, in.tell(r), now)
		return
	}
	for _, p := range parts {
		var id stream.ID
		if p.stream != nil {
			id = p.stream.ID
		}
		in.refused.add(id, len(p.texts), now)
	}
}

// tell counts the events of a body up to where it stops making sense; at least one.
func (in *Ingester) tell(r Request) int {
	f, err := framingOf(r.ContentType)
	if err != nil {
		return 1
	}
	body, err := in.opts.open(r.Body, r.Encoding)
	if err != nil {
		return 1
	}
	n := 0
	if f == lines { // each line is an event, whatever stands in it
		for line := range bytes.Lines(bytes.TrimPrefix(body, bom)) {
			if n < in.opts.MaxEvents && skipSpace(line, 0) < len(line) {
				n++
			}
		}
		return max(1, n)
	}
	s := scanner{maxDepth: in.opts.MaxDepth}
	_ = eachEvent(body, f, in.opts.MaxEvents, func(b []byte, i, _ int, _ bool) (int, *syntaxError) {
		n++
		return s.value(b, i, 0)
	}, func([]byte, int, *syntaxError) {})
	return max(1, n)
}

// isEvent reports whether a text is one JSON object.
func isEvent(text []byte, depth int) bool {
	at := skipSpace(text, 0)
	s := scanner{maxDepth: depth}
	if at >= len(text) || text[at] != '{' {
		return false
	}
	end, err := s.value(text, at, 0)
	return err == nil && skipSpace(text, end) == len(text) && row.EachMember(text[at:end], func(string, []byte) error { return nil }) == nil
}
