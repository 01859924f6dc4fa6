package pebblelog

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// The log's identity, version 1, frozen: version 1 · 8 bytes. Its ancestors, version 1, frozen:
// version 1 · for each, oldest first: identity(8) · uvarint sequence.

// ancestor is a history that this log shares up to a sequence: what it was before it was restored
// from a backup, or before a loss was accepted.
type ancestor struct {
	log  stream.LogID
	upTo stream.Sequence
}

func newLogID() (stream.LogID, error) {
	var random [8]byte
	_, err := rand.Read(random[:])
	return stream.LogID(binary.BigEndian.Uint64(random[:])), err
}

func encodeIdentity(id stream.LogID) []byte {
	return binary.BigEndian.AppendUint64([]byte{stateVersion}, uint64(id))
}

func encodeAncestors(list []ancestor) []byte {
	out := []byte{stateVersion}
	for _, a := range list {
		out = binary.AppendUvarint(binary.BigEndian.AppendUint64(out, uint64(a.log)), uint64(a.upTo))
	}
	return out
}

// readIdentity reads who the log is; a new log gets an identity.
func (l *Log) readIdentity() error {
	id, ancestors, err := identityOf(l.kv)
	if errors.Is(err, kv.ErrNotFound) {
		if id, err = newLogID(); err != nil {
			return err
		}
		b := l.kv.NewBatch()
		b.Set(identityKey, encodeIdentity(id))
		err = b.Commit(true)
	}
	l.id, l.ancestors = id, ancestors
	return err
}

func identityOf(store *kv.Store) (stream.LogID, []ancestor, error) {
	value, err := store.Get(identityKey)
	if err != nil {
		return 0, nil, err
	}
	if len(value) != 9 || value[0] != stateVersion {
		return 0, nil, fmt.Errorf("the log's identity can't be read: %w", errDamaged)
	}
	id := stream.LogID(binary.BigEndian.Uint64(value[1:]))
	value, err = store.Get(ancestorsKey)
	if errors.Is(err, kv.ErrNotFound) {
		return id, nil, nil
	}
	if err != nil {
		return id, nil, err
	}
	var list []ancestor
	d := row.Reader{Rest: value}
	good := d.Byte() == stateVersion
	for good && len(d.Rest) > 0 && !d.Failed {
		if b := d.Bytes(8); b != nil {
			list = append(list, ancestor{stream.LogID(binary.BigEndian.Uint64(b)), stream.Sequence(d.Uvarint())})
		}
	}
	if !good || d.Failed {
		return id, nil, fmt.Errorf("the log's ancestors can't be read: %w", errDamaged)
	}
	return id, list, nil
}

// Shares says up to which sequence this log is the one that a position with another identity was
// given by: a state that was folded up to there, and not further, goes on. For the log's own
// identity that is the end.
func (l *Log) Shares(id stream.LogID) (upTo stream.Sequence, ok bool) {
	if id == l.id {
		return l.End(), true
	}
	for _, a := range l.ancestors {
		if a.log == id {
			return a.upTo, true
		}
	}
	return 0, false
}

// Rename gives the log in a store that is not open otherwise a new identity: what was restored is
// another history from its end on, so that positions past it are known as such.
func Rename(store *kv.Store) (stream.LogID, error) {
	old, ancestors, err := identityOf(store)
	if errors.Is(err, kv.ErrNotFound) {
		return 0, nil // no log yet
	}
	if err != nil {
		return 0, err
	}
	end := stream.Sequence(0)
	if value, err := store.Get(endKey); err == nil {
		var ok bool
		if end, _, ok = decodeEnd(value); !ok {
			return 0, fmt.Errorf("the record of the log's end can't be read: %w", errDamaged)
		}
	} else if !errors.Is(err, kv.ErrNotFound) {
		return 0, err
	}
	return rename(store, old, ancestors, end)
}

func rename(store *kv.Store, old stream.LogID, ancestors []ancestor, end stream.Sequence) (stream.LogID, error) {
	id, err := newLogID()
	if err != nil {
		return 0, err
	}
	list := make([]ancestor, 0, len(ancestors)+1)
	for _, a := range ancestors {
		list = append(list, ancestor{a.log, min(a.upTo, end)})
	}
	b := store.NewBatch()
	b.Set(identityKey, encodeIdentity(id))
	b.Set(ancestorsKey, encodeAncestors(append(list, ancestor{old, end})))
	b.Delete(witnessedKey)
	return id, b.Commit(true)
}
