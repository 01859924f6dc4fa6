package pebblelog

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// A dead letter, version 1, frozen:
//
//	version 1 · CRC-32C(4) of the key and all that follows · uvarint length of the facts · the facts
//	as JSON (members may be added) · the raw bytes
const deadLetterVersion = 1

type deadLetterFacts struct {
	Origin    string        `json:"origin"`
	Group     string        `json:"group,omitempty"`
	Place     *stream.Place `json:"place,omitempty"`
	Code      string        `json:"code"`
	Reason    string        `json:"reason"`
	FirstSeen stream.Micros `json:"first_seen"`
	Attempts  int           `json:"attempts"`
}

func encodeDeadLetter(key []byte, d stream.DeadLetter) []byte {
	facts, err := json.Marshal(deadLetterFacts{d.Origin, d.Group, d.Place, d.Code, d.Reason, d.FirstSeen, d.Attempts})
	if err != nil {
		panic(err) // plain values only
	}
	out := []byte{deadLetterVersion, 0, 0, 0, 0}
	out = binary.AppendUvarint(out, uint64(len(facts)))
	out = append(append(out, facts...), d.Raw...)
	binary.BigEndian.PutUint32(out[1:], checksum(key, out[5:]))
	return out
}

func decodeDeadLetter(key, value []byte) (stream.DeadLetter, error) {
	if len(value) < 5 || value[0] != deadLetterVersion || binary.BigEndian.Uint32(value[1:]) != checksum(key, value[5:]) {
		return stream.DeadLetter{}, errDamaged
	}
	r := row.Reader{Rest: value[5:]}
	var f deadLetterFacts
	if err := json.Unmarshal(r.Bytes(r.Length(len(value))), &f); err != nil || r.Failed {
		return stream.DeadLetter{}, errDamaged
	}
	return stream.DeadLetter{
		Number: binary.BigEndian.Uint64(key[9:]), Origin: f.Origin, Group: f.Group, Place: f.Place, Code: f.Code, Reason: f.Reason,
		Raw: append([]byte(nil), r.Rest...), FirstSeen: f.FirstSeen, Attempts: f.Attempts,
	}, nil
}

// DeadLetters lists a stream's dead letters behind a number, oldest first.
func (l *Log) DeadLetters(id stream.ID, after uint64, limit int) ([]stream.DeadLetter, error) {
	l.mu.RLock()
	_, known := l.mu.stats[id]
	last := l.mu.deadLetters[id]
	l.mu.RUnlock()
	if !known {
		return nil, unknownStream(id)
	}
	if after >= last || limit <= 0 {
		return nil, nil
	}
	it := l.kv.Iter(deadLetterKey(id, after+1), deadLetterKey(id, last+1))
	var out []stream.DeadLetter
	var err error
	for ok := it.First(); ok && len(out) < limit; ok = it.Next() {
		var d stream.DeadLetter
		if d, err = decodeDeadLetter(it.Key(), it.Value()); err != nil {
			err = fmt.Errorf("stream %d, dead letter %d: %w", id, binary.BigEndian.Uint64(it.Key()[9:]), err)
			break
		}
		out = append(out, d)
	}
	return out, errors.Join(err, it.Close())
}

// DropDeadLetter removes a dead letter. The stream's count of dead letters stays: it tells how many
// there were.
func (l *Log) DropDeadLetter(_ context.Context, id stream.ID, number uint64) error {
	if err := l.refusal(); err != nil {
		return err
	}
	l.letters.Lock()
	defer l.letters.Unlock()
	b := l.kv.NewBatch()
	b.Delete(deadLetterKey(id, number))
	return b.Commit(true)
}

// FailDeadLetter counts one more failed attempt of a dead letter.
func (l *Log) FailDeadLetter(_ context.Context, id stream.ID, number uint64) error {
	if err := l.refusal(); err != nil {
		return err
	}
	l.letters.Lock()
	defer l.letters.Unlock()
	key := deadLetterKey(id, number)
	value, err := l.kv.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := decodeDeadLetter(key, value)
	if err != nil {
		return fmt.Errorf("stream %s, dead letter %d: %w", l.name(id), number, err)
	}
	d.Attempts++
	b := l.kv.NewBatch()
	b.Set(key, encodeDeadLetter(key, d))
	return b.Commit(true)
}
