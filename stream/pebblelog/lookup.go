package pebblelog

import (
	"errors"
	"fmt"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// Lookup is where the event with an id lies, while the log remembers the id: at least for the
// stream's dedupe window.
func (l *Log) Lookup(id stream.ID, event stream.EventID) (stream.Place, bool, error) {
	prefix := streamPrefix(kv.IDs, id)
	it := l.kv.Iter(prefix, kv.PrefixEnd(prefix))
	defer it.Close()
	// From hour to hour: each seek is to the id, or behind it, in the hour that was found.
	for ok := it.First(); ok; {
		hour := append([]byte{}, it.Key()[:idPrefixLen]...)
		value, err := l.kv.Get(append(hour, event[:]...))
		if err == nil {
			p, _, ok := decodeID(value)
			if !ok {
				return p, false, fmt.Errorf("stream %d: the record of an id: %w", id, errDamaged)
			}
			return p, true, nil
		}
		if !errors.Is(err, kv.ErrNotFound) {
			return stream.Place{}, false, err
		}
		ok = it.SeekGE(kv.PrefixEnd(hour[:idPrefixLen]))
	}
	return stream.Place{}, false, nil
}
