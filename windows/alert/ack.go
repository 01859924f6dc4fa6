package alert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
)

// Acks keeps how far each group has acknowledged a relation: a stream, a view or an alert. An
// acknowledgement is cumulative: it stands for everything up to its position. It is safe for
// concurrent use.
type Acks struct {
	kv  *kv.Store
	log stream.Log
	cat *catalog.Catalog

	mu sync.Mutex // one acknowledgement at a time is compared and set
}

// NewAcks returns the acknowledgements of a store.
func NewAcks(store *kv.Store, log stream.Log, cat *catalog.Catalog) *Acks {
	return &Acks{kv: store, log: log, cat: cat}
}

// maxGroup is the longest name of a group.
const maxGroup = 63

func (a *Acks) key(relation, group string) ([]byte, error) {
	e, ok := a.cat.Lookup(relation)
	if !ok {
		return nil, problem.New(404, "unknown_relation", "there is no stream, view or alert %q", relation).
			WithHint("GET /v1/streams, /v1/views and /v1/alerts list what there is")
	}
	if group == "" || len(group) > maxGroup {
		return nil, problem.New(400, "bad_name", "a group's name has 1 to %d bytes", maxGroup).
			WithHint("name the group after what reads, such as fraud_desk")
	}
	return append(ackPrefix(e.ID), group...), nil
}

// Ack notes that a group has done with everything up to a position, and returns when that is
// durable. A position behind the one already kept changes nothing (A3).
func (a *Acks) Ack(relation, group string, p stream.Position) error {
	key, err := a.key(relation, group)
	if err != nil {
		return err
	}
	if e, _ := a.cat.Lookup(relation); p.Log != a.log.ID() && p.Log != a.log.ID().Of(e.ID) {
		return problem.New(410, "position_gone", "the position is of another log, or of what was deleted: the data directory was restored, or lost events").
			WithHint("subscribe again, and acknowledge the positions that come then")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old, ok, err := a.read(key)
	if err != nil {
		return err
	}
	if ok && old.Log == p.Log && !behind(old, p) {
		return nil
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(p.Log))
	value = binary.BigEndian.AppendUint64(value, uint64(p.Sequence))
	value = binary.BigEndian.AppendUint32(value, uint32(p.Within))
	b := a.kv.NewBatch()
	b.Set(key, value)
	if err := b.Commit(true); err != nil {
		return fmt.Errorf("acknowledge for group %s: %w", group, err)
	}
	return nil
}

// Committed is how far a group has acknowledged; ok false when it never has. The position may be
// of a log that is no longer there: the reader then gets a gap.
func (a *Acks) Committed(relation, group string) (p stream.Position, ok bool, err error) {
	key, err := a.key(relation, group)
	if err != nil {
		return p, false, err
	}
	a.mu.Lock() // what is read here is durable: it is not read while it is being written
	defer a.mu.Unlock()
	return a.read(key)
}

func (a *Acks) read(key []byte) (stream.Position, bool, error) {
	v, err := a.kv.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return stream.Position{}, false, nil
	}
	if err == nil && len(v) != 20 {
		err = fmt.Errorf("an acknowledgement has %d bytes", len(v))
	}
	if err != nil {
		return stream.Position{}, false, err
	}
	return stream.Position{
		Log: stream.LogID(binary.BigEndian.Uint64(v)), Sequence: stream.Sequence(binary.BigEndian.Uint64(v[8:])),
		Within: int32(binary.BigEndian.Uint32(v[16:])),
	}, true, nil
}

// Group is one group of a relation.
type Group struct {
	Name     string
	Position stream.Position
}

// Groups lists the groups that have acknowledged a relation, by name.
func (a *Acks) Groups(relation string) ([]Group, error) {
	e, ok := a.cat.Lookup(relation)
	if !ok {
		return nil, nil
	}
	prefix := ackPrefix(e.ID)
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Group
	it := a.kv.Iter(prefix, kv.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		p, _, err := a.read(it.Key())
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		out = append(out, Group{string(it.Key()[len(prefix):]), p})
	}
	return out, it.Close()
}
