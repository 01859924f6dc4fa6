package pebblelog

import (
	"errors"
	"strconv"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// Ends says where the log in a store ends.
type Ends struct {
	Log      string          `json:"id"`
	Sequence stream.Sequence `json:"sequence"`
	Streams  []StreamEnd     `json:"streams"`
}

// StreamEnd says where the partitions of a stream end.
type StreamEnd struct {
	ID         stream.ID      `json:"id"`
	Name       string         `json:"name"`
	Accepted   int64          `json:"accepted"`
	Partitions []PartitionEnd `json:"partitions"`
}

// PartitionEnd is where a partition begins and ends.
type PartitionEnd struct {
	First stream.Offset `json:"first_offset"`
	Next  stream.Offset `json:"next_offset"`
}

// EndsOf reads where the log ends in a store that is not open as a log.
func EndsOf(store *kv.Store) (Ends, error) {
	var e Ends
	q := &sequencer{l: &Log{kv: store}, streams: map[stream.ID]*streamState{}}
	id, _, err := identityOf(store)
	if errors.Is(err, kv.ErrNotFound) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	e.Log = strconv.FormatUint(uint64(id), 16)
	switch value, err := store.Get(endKey); {
	case errors.Is(err, kv.ErrNotFound):
	case err != nil:
		return e, err
	default:
		var ok bool
		if e.Sequence, _, ok = decodeEnd(value); !ok {
			return e, errDamaged
		}
	}
	if err := q.readStreams(); err != nil {
		return e, err
	}
	for _, id := range sortedIDs(q.streams) {
		s := q.streams[id]
		end := StreamEnd{ID: id, Name: s.settings.Name, Accepted: s.stats.Accepted}
		for _, p := range s.stats.Partitions {
			end.Partitions = append(end.Partitions, PartitionEnd{p.First, p.Next})
		}
		e.Streams = append(e.Streams, end)
	}
	return e, nil
}
