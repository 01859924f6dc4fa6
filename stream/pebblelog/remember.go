package pebblelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// An answer under an idempotency key, version 1, frozen:
//
//	version 1 · SHA-256 of the request's body (32) · zigzag append time · the answer's bytes
//
// It is written in the commit that it speaks of, in key spaces by hour that fall as those of ids do.

// answerWindow is how long answers are kept, in append time.
const answerWindow = 24 * time.Hour

func encodeAnswer(i *stream.Idempotency, what []stream.Appended, at stream.Micros) []byte {
	out := append([]byte{stateVersion}, i.BodySum[:]...)
	return append(binary.AppendVarint(out, at), i.Answer(what)...)
}

func decodeAnswer(value []byte) (a stream.Answer, at stream.Micros, ok bool) {
	d := row.Reader{Rest: value}
	if d.Byte() != stateVersion {
		return a, 0, false
	}
	copy(a.BodySum[:], d.Bytes(32))
	at = d.Varint()
	a.Body = d.Rest
	return a, at, !d.Failed
}

// Remembered returns the answer kept under an idempotency key, once it is durable.
func (l *Log) Remembered(key stream.IdempotencyKey) (stream.Answer, bool, error) {
	l.mu.RLock()
	now := max(l.mu.at, l.o.Clock().UnixMicro())
	l.mu.RUnlock()
	return l.findAnswer(key, now)
}

func (l *Log) findAnswer(key stream.IdempotencyKey, now stream.Micros) (stream.Answer, bool, error) {
	l.answers.RLock()
	hours := l.answers.hours.maybe(hourOf(now-answerWindow.Microseconds()), [16]byte(key[:16]), nil)
	l.answers.RUnlock()
	for _, hour := range hours {
		value, err := l.kv.Get(answerKey(hour, key))
		if errors.Is(err, kv.ErrNotFound) {
			continue
		}
		if err != nil {
			return stream.Answer{}, false, err
		}
		a, at, ok := decodeAnswer(value)
		if !ok {
			return stream.Answer{}, false, fmt.Errorf("a kept answer: %w", errDamaged)
		}
		if now-at < answerWindow.Microseconds() {
			return a, true, nil
		}
	}
	return stream.Answer{}, false, nil
}

// remembered also knows the answers of this commit and of those in flight.
func (q *sequencer) remembered(c *commit, key stream.IdempotencyKey) (bool, error) {
	for _, k := range c.answers {
		if k == key {
			return true, nil
		}
	}
	q.l.answers.RLock()
	_, inFlight := q.l.answers.inFlight[key]
	q.l.answers.RUnlock()
	if inFlight {
		return true, nil
	}
	_, known, err := q.l.findAnswer(key, c.at)
	return known, err
}

// readAnswers builds the filters from the answers in the store.
func (q *sequencer) readAnswers() error {
	prefix := []byte{byte(kv.Idempotency)}
	it := q.l.kv.Iter(prefix, kv.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		if len(key) != 37 {
			_ = it.Close()
			return fmt.Errorf("the key of a kept answer: %w", errDamaged)
		}
		q.l.answers.hours.add(binary.BigEndian.Uint32(key[1:]), [16]byte(key[5:21]))
	}
	return it.Close()
}
