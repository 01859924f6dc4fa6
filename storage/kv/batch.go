package kv

import "github.com/cockroachdb/pebble/v2"

// Batch gathers writes that become visible and durable together. It belongs to one goroutine and
// ends with Commit, Discard, or CommitAsync and Wait.
type Batch struct {
	db *pebble.DB
	b  *pebble.Batch
	// err is the first write that the batch could not take in; Commit returns it.
	err error
}

// NewBatch returns an empty batch.
func (s *Store) NewBatch() *Batch { return &Batch{db: s.db, b: s.db.NewBatch()} }

// Set gives key a value. Key and value are copied.
func (b *Batch) Set(key, value []byte) { b.note(b.b.Set(key, value, nil)) }

// Delete removes a key.
func (b *Batch) Delete(key []byte) { b.note(b.b.Delete(key, nil)) }

// DeleteRange removes the keys in [from, to). What the batch sets afterwards stays.
func (b *Batch) DeleteRange(from, to []byte) { b.note(b.b.DeleteRange(from, to, nil)) }

// DeletePrefix removes all keys that begin with prefix.
func (b *Batch) DeletePrefix(prefix []byte) { b.DeleteRange(prefix, PrefixEnd(prefix)) }

func (b *Batch) note(err error) {
	if err != nil && b.err == nil {
		b.err = err
	}
}

// Empty reports whether the batch holds no write.
func (b *Batch) Empty() bool { return b.b.Empty() }

// Len is the size of the batch in bytes.
func (b *Batch) Len() int { return b.b.Len() }

// Commit writes the batch and, with sync, returns after the fsync. The batch is over then.
func (b *Batch) Commit(sync bool) error {
	if b.err != nil {
		b.Discard()
		return b.err
	}
	o := pebble.NoSync
	if sync {
		o = pebble.Sync
	}
	if err := b.db.Apply(b.b, o); err != nil {
		return err
	}
	return b.b.Close()
}

// CommitAsync writes the batch and returns when it is visible; its fsync goes on. Wait must follow.
func (b *Batch) CommitAsync() error {
	if b.err != nil {
		b.Discard()
		return b.err
	}
	return b.db.ApplyNoSyncWait(b.b, pebble.Sync)
}

// Wait returns when a batch given to CommitAsync is durable, and ends the batch.
func (b *Batch) Wait() error {
	if err := b.b.SyncWait(); err != nil {
		return err
	}
	return b.b.Close()
}

// Discard throws the batch away.
func (b *Batch) Discard() { _ = b.b.Close() }
