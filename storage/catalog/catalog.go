package catalog

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
)

// Kind is what a name stands for. The texts are stored.
type Kind string

// The kinds of things. Stream, View and Alert share one namespace.
const (
	Stream    Kind = "stream"
	View      Kind = "view"
	Alert     Kind = "alert"
	Dashboard Kind = "dashboard"
	Key       Kind = "key"
	// Notes are the annotations of the dashboard of the same name; Link and Session are what opens
	// pages, named by what is kept of their secrets.
	Notes   Kind = "notes"
	Link    Kind = "link"
	Session Kind = "session"
)

// namespace is the kind of name that a kind has.
func (k Kind) namespace() string {
	switch k {
	case Stream, View, Alert:
		return "relation"
	}
	return string(k)
}

// Entry is one definition. Doc is shared: read only.
type Entry struct {
	Kind    Kind            `json:"kind"`
	Name    string          `json:"name"`
	ID      uint64          `json:"id"`
	Doc     json.RawMessage `json:"doc"`
	Created time.Time       `json:"created"`
	Updated time.Time       `json:"updated"`
}

// Catalog is the set of definitions. It is safe for concurrent use.
type Catalog struct {
	store *kv.Store
	now   func() time.Time

	mu struct {
		sync.RWMutex
		entries map[place]Entry
		lastID  uint64
	}
}

// place is where an entry lies: one name in one namespace.
type place struct{ namespace, name string }

// Open reads the catalog from the store.
func Open(store *kv.Store) (*Catalog, error) {
	c := &Catalog{store: store, now: time.Now}
	c.mu.entries = map[place]Entry{}
	prefix := []byte{byte(kv.Catalog)}
	it := store.Iter(prefix, kv.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		var e Entry
		if err := json.Unmarshal(it.Value(), &e); err != nil {
			_ = it.Close()
			return nil, fmt.Errorf("open catalog: entry %q: %w", it.Key()[1:], err)
		}
		c.mu.entries[place{e.Kind.namespace(), e.Name}] = e
	}
	if err := it.Close(); err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	last, err := store.Get(lastIDKey)
	switch {
	case errors.Is(err, kv.ErrNotFound):
	case err != nil:
		return nil, fmt.Errorf("open catalog: %w", err)
	case len(last) != 8:
		return nil, fmt.Errorf("open catalog: the last number has %d bytes", len(last))
	default:
		c.mu.lastID = binary.BigEndian.Uint64(last)
	}
	return c, nil
}

// lastIDKey holds the last internal number that was given out, as 8 bytes.
var lastIDKey = append([]byte{byte(kv.Meta)}, "catalog/last_id"...)

// entryKey is 'c', the namespace, a zero byte, the name.
func entryKey(p place) []byte {
	key := append([]byte{byte(kv.Catalog)}, p.namespace...)
	return append(append(key, 0), p.name...)
}

// NextID gives out an internal number that was never used, durably.
func (c *Catalog) NextID() (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.store.NewBatch()
	id := c.nextIDLocked(b)
	if err := b.Commit(true); err != nil {
		return 0, fmt.Errorf("catalog: %w", err)
	}
	c.mu.lastID = id
	return id, nil
}

func (c *Catalog) nextIDLocked(b *kv.Batch) uint64 {
	id := c.mu.lastID + 1
	b.Set(lastIDKey, binary.BigEndian.AppendUint64(nil, id))
	return id
}

// Put creates or replaces a definition. An id of 0 keeps the entry's number, or gives a new entry
// the next one; for a new entry another id must come from NextID. A bad name is a problem 400
// bad_name, one of another kind of relation 409 name_taken.
func (c *Catalog) Put(kind Kind, name string, doc []byte, id uint64) (Entry, error) {
	if err := CheckName(kind, name); err != nil {
		return Entry{}, err
	}
	if !json.Valid(doc) {
		return Entry{}, fmt.Errorf("catalog: the document of %s %s is not JSON", kind, name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := place{kind.namespace(), name}
	old, exists := c.mu.entries[p]
	if exists && old.Kind != kind {
		return Entry{}, NameTaken(name, old.Kind)
	}
	b := c.store.NewBatch()
	now := c.now().UTC()
	e := Entry{Kind: kind, Name: name, ID: cmp.Or(id, old.ID), Doc: slices.Clone(doc), Created: now, Updated: now}
	if exists {
		e.Created = old.Created
	}
	last := c.mu.lastID
	if e.ID == 0 {
		e.ID = c.nextIDLocked(b)
		last = e.ID
	}
	text, err := json.Marshal(e)
	if err != nil {
		b.Discard()
		return Entry{}, fmt.Errorf("catalog: %s %s: %w", kind, name, err)
	}
	b.Set(entryKey(p), text)
	if err := b.Commit(true); err != nil {
		return Entry{}, fmt.Errorf("catalog: %s %s: %w", kind, name, err)
	}
	c.mu.lastID = last
	c.mu.entries[p] = e
	return e, nil
}

// Get returns one definition.
func (c *Catalog) Get(kind Kind, name string) (Entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.mu.entries[place{kind.namespace(), name}]
	return e, ok && e.Kind == kind
}

// Lookup finds a relation of any kind by name.
func (c *Catalog) Lookup(name string) (Entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.mu.entries[place{"relation", name}]
	return e, ok
}

// List returns the definitions of one kind, by name.
func (c *Catalog) List(kind Kind) []Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []Entry
	for _, e := range c.mu.entries {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Delete removes a definition and reports whether there was one.
func (c *Catalog) Delete(kind Kind, name string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := place{kind.namespace(), name}
	if e, ok := c.mu.entries[p]; !ok || e.Kind != kind {
		return false, nil
	}
	b := c.store.NewBatch()
	b.Delete(entryKey(p))
	if err := b.Commit(true); err != nil {
		return false, fmt.Errorf("catalog: delete %s %s: %w", kind, name, err)
	}
	delete(c.mu.entries, p)
	return true, nil
}

// NameTaken is the problem of a name that belongs to another kind of relation.
func NameTaken(name string, by Kind) *problem.Problem {
	return problem.New(409, "name_taken", "%s is already the name of a%s %s", name, map[bool]string{true: "n"}[by == Alert], by).
		WithHint("streams, views and alerts share one namespace: take another name or delete the %s first", by)
}
