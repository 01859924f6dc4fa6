package pebblelog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// The witness knows, apart from the store, where each partition ended: a log that was cut, damaged
// or put back from an old copy opens without an error, and only the witness tells. It is written
// behind the commits, at most a second late, and at a clean end; it never tells more than what is
// durable.
//
// Version 1, frozen:
//
//	"tidemark witness 1\n" · CRC-32C(4) of what follows · log id(8) · uvarint end sequence, number of
//	streams; each: uvarint id, length of the name, the name, uvarint number of partitions; each of
//	these: uvarint end offset · CRC-32C(4) of the last batch, 0 when there is none
const witnessMagic = "tidemark witness 1\n"

// WitnessFile keeps the witness. Save replaces it whole or not at all and returns once that is on
// disk; Load returns fs.ErrNotExist when there is none.
type WitnessFile interface {
	Load() ([]byte, error)
	Save(content []byte) error
}

type witness struct {
	log     stream.LogID
	end     stream.Sequence
	streams []witnessed
}

type witnessed struct {
	id   stream.ID
	name string
	ends []partitionEnd
}

// partitionEnd is where a partition ends, and the checksum of the batch that ends there.
type partitionEnd struct {
	next stream.Offset
	sum  uint32 // 0: not known
}

func (w *witness) encode() []byte {
	body := binary.BigEndian.AppendUint64(nil, uint64(w.log))
	body = binary.AppendUvarint(body, uint64(w.end))
	body = binary.AppendUvarint(body, uint64(len(w.streams)))
	for _, s := range w.streams {
		body = binary.AppendUvarint(body, uint64(s.id))
		body = append(binary.AppendUvarint(body, uint64(len(s.name))), s.name...)
		body = binary.AppendUvarint(body, uint64(len(s.ends)))
		for _, e := range s.ends {
			body = binary.BigEndian.AppendUint32(binary.AppendUvarint(body, uint64(e.next)), e.sum)
		}
	}
	out := binary.BigEndian.AppendUint32([]byte(witnessMagic), checksum(nil, body))
	return append(out, body...)
}

func decodeWitness(content []byte) (*witness, error) {
	rest, ours := bytes.CutPrefix(content, []byte(witnessMagic))
	if !ours || len(rest) < 4 || binary.BigEndian.Uint32(rest) != checksum(nil, rest[4:]) {
		return nil, errDamaged
	}
	d := row.Reader{Rest: rest[4:]}
	w := &witness{}
	if b := d.Bytes(8); b != nil {
		w.log = stream.LogID(binary.BigEndian.Uint64(b))
	}
	w.end = stream.Sequence(d.Uvarint())
	for range d.Length(len(content)) {
		s := witnessed{id: stream.ID(d.Uvarint())}
		s.name = string(d.Bytes(d.Length(len(content))))
		for range d.Length(stream.MaxPartitions) {
			e := partitionEnd{next: stream.Offset(d.Uvarint())}
			if b := d.Bytes(4); b != nil {
				e.sum = binary.BigEndian.Uint32(b)
			}
			s.ends = append(s.ends, e)
		}
		w.streams = append(w.streams, s)
	}
	if !d.Done() {
		return nil, errDamaged
	}
	return w, nil
}

// found is what a log is when it is opened, as far as the witness can be compared with it.
type found struct {
	log       stream.LogID
	ancestors []ancestor
	end       stream.Sequence
	streams   map[stream.ID][]partitionEnd // sum: of the batch that ends where the witness saw the end
	dropped   map[stream.ID]bool
}

// decide compares what was found with what was witnessed and says what is missing, in words.
// Nothing: the log may be served.
func decide(w *witness, f found) (missing []string) {
	for _, s := range w.streams {
		if f.dropped[s.id] {
			continue
		}
		for p, want := range s.ends {
			if want.next == 0 {
				continue
			}
			var have partitionEnd
			if ends := f.streams[s.id]; p < len(ends) {
				have = ends[p]
			}
			switch {
			case have.next < want.next:
				missing = append(missing, fmt.Sprintf("stream %s, partition %d: the events end at offset %d and should end at %d", s.name, p, have.next, want.next))
			case have.sum != 0 && want.sum != 0 && have.sum != want.sum:
				missing = append(missing, fmt.Sprintf("stream %s, partition %d: the events before offset %d are not the ones that were written there", s.name, p, want.next))
			}
		}
	}
	if len(missing) == 0 && f.end < w.end {
		missing = append(missing, fmt.Sprintf("the log ends at sequence %d and should end at %d", f.end, w.end))
	}
	if len(missing) == 0 && f.log != w.log && !slices.ContainsFunc(f.ancestors, func(a ancestor) bool { return a.log == w.log }) {
		missing = append(missing, "the log is not the one that the witness saw")
	}
	return missing
}

// compare looks at what is in the store and at the witness. What is missing goes to l.lost.
func (q *sequencer) compare() error {
	l := q.l
	for _, r := range l.o.Remembered {
		if r.Position.Log == l.id && r.Position.Sequence > q.end {
			l.lose(readFurther(r.Who, r.Position.Sequence, q.end))
		}
	}
	if l.o.Witness == nil {
		return nil
	}
	content, err := l.o.Witness.Load()
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := l.kv.Get(witnessedKey); err == nil {
			l.lose("the witness, which tells where the log should end, is not there")
		} else if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the witness: %w", err)
	}
	w, err := decodeWitness(content)
	if err != nil {
		l.lose("the witness, which tells where the log should end, is damaged")
		return nil
	}
	f := found{log: l.id, ancestors: l.ancestors, end: q.end, streams: map[stream.ID][]partitionEnd{}, dropped: map[stream.ID]bool{}}
	for _, s := range w.streams {
		switch _, err := l.kv.Get(droppedKey(s.id)); {
		case err == nil:
			f.dropped[s.id] = true
			continue
		case !errors.Is(err, kv.ErrNotFound):
			return err
		}
		if q.streams[s.id] == nil {
			continue
		}
		for p, st := range q.streams[s.id].stats.Partitions {
			have := partitionEnd{next: st.Next}
			if p < len(s.ends) && s.ends[p].next <= st.Next {
				have.sum = q.sumAt(s.id, stream.Partition(p), s.ends[p].next)
			}
			f.streams[s.id] = append(f.streams[s.id], have)
		}
	}
	for _, m := range decide(w, f) {
		l.lose(m)
	}
	return nil
}

// sumAt is the checksum of the batch that ends at an offset; 0 where retention or compaction took
// it, and noSum when another batch lies there.
func (q *sequencer) sumAt(id stream.ID, p stream.Partition, end stream.Offset) uint32 {
	const noSum = 0xffffffff
	it := q.l.kv.Iter(batchKey(id, p, 0), batchKey(id, p, end))
	defer func() { _ = it.Close() }()
	if !it.Last() {
		return 0
	}
	h, err := decodeHeader(it.Key(), it.Value())
	switch {
	case err != nil:
		return noSum
	case h.compacted || q.streams[id].compacted() && h.batch.Base+h.span != end: // the batch that ended there may be gone
		return 0
	case h.batch.Base+h.span < end:
		return noSum
	case h.batch.Base+h.span > end:
		return noSum
	}
	return h.sum
}

// lose notes something that the log should have and does not have: from now on it is read only.
func (l *Log) lose(what string) {
	l.lost.Lock()
	defer l.lost.Unlock()
	l.lost.what = append(l.lost.what, what)
}

// Lost says what the log should have and does not have. While that is anything, nothing can be
// appended.
func (l *Log) Lost() []string {
	l.lost.RLock()
	defer l.lost.RUnlock()
	return slices.Clone(l.lost.what)
}

// Expect is [Options].Remembered for those who can't tell before the log is open, such as what history
// has loaded: a sequence of this log past its end is a sign that the log was shortened, which makes it
// read only. who is named in the reason.
func (l *Log) Expect(who string, p stream.Position) {
	if p.Log == l.id && p.Sequence > l.End() {
		l.lose(readFurther(who, p.Sequence, l.End()))
	}
}

func readFurther(who string, upTo, end stream.Sequence) string {
	return fmt.Sprintf("%s has read up to sequence %d and the log ends at %d", who, upTo, end)
}

// ExpectOffset does the same for an offset that somebody has committed in a partition.
func (l *Log) ExpectOffset(who string, id stream.ID, p stream.Partition, next stream.Offset) {
	if st, err := l.partition(id, p); err == nil && next > st.Next {
		l.lose(fmt.Sprintf("%s stands at offset %d of stream %s, partition %d, which ends at %d", who, next, l.name(id), p, st.Next))
	}
}

// maxNamed bounds how much of what is missing an answer names.
const maxNamed = 5

func nameLost(what []string) string {
	text := strings.Join(what[:min(len(what), maxNamed)], "; ")
	if n := len(what) - maxNamed; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

// keepWitness writes the witness behind the commits until the log has ended.
func (l *Log) keepWitness() {
	for range l.witnessDue {
		l.saveWitness()
		select {
		case <-l.stopped:
		case <-time.After(l.o.WitnessPeriod):
		}
	}
}

// SaveWitness writes the witness now; see [WitnessFile]. The log does it by itself.
func (l *Log) SaveWitness() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	if l.o.Witness == nil || len(l.Lost()) > 0 {
		return nil // the old witness is the only one who knows what is missing
	}
	l.mu.RLock()
	w := &witness{log: l.id, end: l.mu.end}
	for _, id := range slices.SortedFunc(maps.Keys(l.mu.stats), cmp.Compare[stream.ID]) {
		s := witnessed{id: id, name: l.mu.settings[id].Name}
		for p, st := range l.mu.stats[id].Partitions {
			s.ends = append(s.ends, partitionEnd{st.Next, l.mu.sums[id][p]})
		}
		w.streams = append(w.streams, s)
	}
	l.mu.RUnlock()
	content := w.encode()
	if bytes.Equal(content, l.savedWitness) {
		return nil
	}
	if err := l.o.Witness.Save(content); err != nil {
		return fmt.Errorf("write the witness: %w", err)
	}
	if l.savedWitness == nil { // from here on a missing witness is a sign of loss
		if _, err := l.kv.Get(witnessedKey); errors.Is(err, kv.ErrNotFound) {
			b := l.kv.NewBatch()
			b.Set(witnessedKey, []byte{stateVersion})
			if err := b.Commit(true); err != nil {
				return err
			}
		}
	}
	l.savedWitness = content
	return nil
}

func (l *Log) saveWitness() {
	err := l.SaveWitness()
	if err == nil {
		l.witnessFails.Store(false)
		return
	}
	if l.witnessFails.CompareAndSwap(false, true) {
		l.o.Logger.Warn("the witness of the log's end can't be written; the log goes on, and a loss of its newest events would not be noticed", "err", err)
	}
}
