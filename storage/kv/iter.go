package kv

import "github.com/cockroachdb/pebble/v2"

// Iter walks over keys in order. It belongs to one goroutine and sees the store as it was when the
// iterator was made. Every walk ends with Close, whose error tells whether it was cut short:
//
//	it := store.Iter(lower, upper)
//	for ok := it.First(); ok; ok = it.Next() { … it.Key(), it.Value() … }
//	err := it.Close()
type Iter struct {
	it  *pebble.Iterator // nil after a failure
	err error
}

func newIter(r pebble.Reader, lower, upper []byte) *Iter {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return &Iter{err: err}
	}
	return &Iter{it: it}
}

// First goes to the first key and reports whether there is one. So do the other moves.
func (i *Iter) First() bool { return i.it != nil && i.it.First() }

// Last goes to the last key.
func (i *Iter) Last() bool { return i.it != nil && i.it.Last() }

// SeekGE goes to the first key at or behind key.
func (i *Iter) SeekGE(key []byte) bool { return i.it != nil && i.it.SeekGE(key) }

// SeekLT goes to the last key before key.
func (i *Iter) SeekLT(key []byte) bool { return i.it != nil && i.it.SeekLT(key) }

// Next goes to the next key.
func (i *Iter) Next() bool { return i.it != nil && i.it.Next() }

// Prev goes to the key before.
func (i *Iter) Prev() bool { return i.it != nil && i.it.Prev() }

// Valid reports whether the iterator stands at a key.
func (i *Iter) Valid() bool { return i.it != nil && i.it.Valid() }

// Key is the present key; it lasts until the next move.
func (i *Iter) Key() []byte { return i.it.Key() }

// Value is the present value; it lasts until the next move.
func (i *Iter) Value() []byte {
	v, err := i.it.ValueAndErr()
	if err != nil && i.err == nil {
		i.err = err
	}
	return v
}

// Err is what went wrong so far.
func (i *Iter) Err() error {
	if i.err != nil || i.it == nil {
		return i.err
	}
	return damaged(i.it.Error())
}

// Close releases the iterator and returns what went wrong since it was made.
func (i *Iter) Close() error {
	if i.it == nil {
		return i.err
	}
	err := i.it.Close()
	i.it = nil
	if i.err == nil {
		i.err = err
	}
	i.err = damaged(i.err)
	return i.err
}
