package pebblelog

import (
	"encoding/binary"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// Keys, all integers big-endian, so that keys sort as their numbers do:
//
//	b stream(8) partition(4) base offset(8)   a batch
//	q stream(8) sequence(8)                   an index record: pointer to a batch, or a control record
//	i stream(8) hour(4) id(16)                where the event with this id lies
//	k hour(4) key(32)                         the answer kept under an idempotency key
//	d stream(8) number(8)                     a dead letter
//	n stream(8) 's' | 'c' | 'p' partition(4)  settings, counters, state of a partition
//	n stream(8) 'm'                           the mark of what retention removed
//	n stream(8) 'k'                           how far the stream is compacted
//	m "log"                                   the log's identity
//	m "log/end"                               the last sequence and append time
//	m "log/ancestors"                         the histories that the log goes on from
//	m "log/witnessed"                         there is a witness
//	m "log/dropped/" stream(8)                the stream was dropped

var (
	identityKey = append([]byte{byte(kv.Meta)}, "log"...)
	endKey      = append([]byte{byte(kv.Meta)}, "log/end"...)

	ancestorsKey = append([]byte{byte(kv.Meta)}, "log/ancestors"...)
	witnessedKey = append([]byte{byte(kv.Meta)}, "log/witnessed"...)
)

// streamPrefix is the beginning of a stream's keys in one space.
func streamPrefix(space kv.Space, id stream.ID) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(space)}, uint64(id))
}

func batchKey(id stream.ID, p stream.Partition, base stream.Offset) []byte {
	k := binary.BigEndian.AppendUint32(streamPrefix(kv.Batches, id), uint32(p))
	return binary.BigEndian.AppendUint64(k, uint64(base))
}

// baseOf is the base offset in the key of a batch.
func baseOf(key []byte) stream.Offset { return stream.Offset(binary.BigEndian.Uint64(key[13:])) }

func indexKey(id stream.ID, s stream.Sequence) []byte {
	return binary.BigEndian.AppendUint64(streamPrefix(kv.Sequences, id), uint64(s))
}

func idKey(id stream.ID, hour uint32, event stream.EventID) []byte {
	return append(idHourKey(id, hour), event[:]...)
}

// idPrefixLen is the length of an idHourKey.
const idPrefixLen = 13

func idHourKey(id stream.ID, hour uint32) []byte {
	return binary.BigEndian.AppendUint32(streamPrefix(kv.IDs, id), hour)
}

func answerKey(hour uint32, key stream.IdempotencyKey) []byte {
	return append(answerHourKey(hour), key[:]...)
}

func answerHourKey(hour uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(kv.Idempotency)}, hour)
}

func deadLetterKey(id stream.ID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(streamPrefix(kv.DeadLetters, id), number)
}

func settingsKey(id stream.ID) []byte { return append(streamPrefix(kv.Counters, id), 's') }
func countersKey(id stream.ID) []byte { return append(streamPrefix(kv.Counters, id), 'c') }

func partitionKey(id stream.ID, p stream.Partition) []byte {
	return binary.BigEndian.AppendUint32(append(streamPrefix(kv.Counters, id), 'p'), uint32(p))
}

func droppedKey(id stream.ID) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{byte(kv.Meta)}, "log/dropped/"...), uint64(id))
}

// hourOf is the hour of an append time, which names the key space of ids and answers.
func hourOf(at stream.Micros) uint32 { return uint32(max(0, at) / (3600 * 1e6)) }

// spacesOfStream are the key spaces that Drop empties for a stream.
var spacesOfStream = []kv.Space{kv.Batches, kv.Sequences, kv.IDs, kv.DeadLetters, kv.Counters, kv.Groups}
