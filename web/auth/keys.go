package auth

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
)

// Store keeps the keys' documents; *catalog.Catalog is one.
type Store interface {
	Put(kind catalog.Kind, name string, doc []byte, id uint64) (catalog.Entry, error)
	Get(kind catalog.Kind, name string) (catalog.Entry, bool)
	List(kind catalog.Kind) []catalog.Entry
	Delete(kind catalog.Kind, name string) (bool, error)
	// Lookup finds a relation: alerts have a scope of their own, whichever address shows them.
	Lookup(name string) (catalog.Entry, bool)
}

// Options say how keys are kept.
type Options struct {
	// Logger gets a line when keys are made, changed and deleted. Nil: slog's default.
	Logger *slog.Logger
	// Now is the clock of rates; nil means time.Now.
	Now func() time.Time
}

// Keys is the set of keys. It is safe for concurrent use.
type Keys struct {
	opts  Options
	store Store
	// change is held by who changes keys. Who reads them takes the present state and never waits.
	change sync.Mutex
	now    atomic.Pointer[state]
	stats  Stats
	// sessions are the browsers that signed in, links the addresses of dashboards that were shared.
	sessions sessions
	links    links
}

// Stats counts what was refused. All are read with Load.
type Stats struct {
	Unauthenticated, Forbidden, Limited atomic.Int64
}

// Stats are the counters of the keys.
func (k *Keys) Stats() *Stats { return &k.stats }

// state is all keys at one time. It is never changed.
type state struct {
	byID   map[string]*key
	byName map[string]*key
	// on: there is an admin key.
	on bool
	// open is everybody, as long as authentication is off.
	open      *Principal
	closeOpen func()
}

// key is one key. It is never changed; a key that is put again is a new one.
type key struct {
	Name             string
	Created, Updated time.Time
	doc              document
	digest           digest
	principal        *Principal
	revoke           func()
	limit            *rate.Limiter // nil: none
}

// document is what the catalog keeps of a key.
type document struct {
	ID     string `json:"id"`
	Digest []byte `json:"sha256"`
	rights
}

// Answer is a key as clients see it. Key is its text: only in the answer that makes it.
type Answer struct {
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Scopes  []Scope   `json:"scopes"`
	Streams []string  `json:"streams"`
	Origins []string  `json:"origins"`
	Rate    float64   `json:"rate"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	Key     string    `json:"key,omitempty"`
	// Note says what making the key has changed for others.
	Note string `json:"note,omitempty"`
}

// Open reads the keys.
func Open(store Store, o Options) (*Keys, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	k := &Keys{opts: o, store: store}
	s := &state{byID: map[string]*key{}, byName: map[string]*key{}}
	for _, e := range store.List(catalog.Key) {
		one, err := newKey(e)
		if err != nil {
			return nil, err
		}
		s.byID[one.doc.ID], s.byName[one.Name] = one, one
	}
	s.settle(nil)
	k.now.Store(s)
	if err := k.sessions.open(store, o.Now(), func(keyID string) bool { return s.byID[keyID] != nil }); err != nil {
		return nil, err
	}
	if err := k.links.open(store, o.Now()); err != nil {
		return nil, err
	}
	return k, nil
}

// Close stops the timers that end sessions and links. The store may be closed then.
func (k *Keys) Close() {
	if k == nil {
		return
	}
	k.sessions.close()
	k.links.close()
}

func newKey(e catalog.Entry) (*key, error) {
	k := &key{Name: e.Name, Created: e.Created, Updated: e.Updated}
	if err := json.Unmarshal(e.Doc, &k.doc); err != nil {
		return nil, fmt.Errorf("open keys: %s: %w", e.Name, err)
	}
	if len(k.doc.Digest) != len(k.digest) || len(k.doc.ID) != idLen {
		return nil, fmt.Errorf("open keys: %s: its document is damaged", e.Name)
	}
	copy(k.digest[:], k.doc.Digest)
	revoked := make(chan struct{})
	k.revoke = func() { close(revoked) }
	k.principal = &Principal{KeyID: strconv.FormatUint(e.ID, 10), Name: k.Name, rights: k.doc.rights, revoked: revoked}
	if r := k.doc.Rate; r > 0 {
		k.limit = rate.NewLimiter(rate.Limit(r), int(math.Ceil(r)))
	}
	return k, nil
}

// settle derives what follows from the keys. before is the state that this one replaces.
func (s *state) settle(before *state) {
	for _, k := range s.byName {
		s.on = s.on || k.doc.has(Admin)
	}
	switch {
	case s.on:
	case before != nil && !before.on:
		s.open, s.closeOpen = before.open, before.closeOpen
	default:
		ended := make(chan struct{})
		s.open, s.closeOpen = &Principal{all: true, revoked: ended}, func() { close(ended) }
	}
}

// On reports whether requests need a key.
func (k *Keys) On() bool { return k != nil && k.now.Load().on }

// find returns the key of a text, or nil (I2).
func (s *state) find(text string) *key {
	id, secret := splitKey(text)
	found := s.byID[id]
	d := &noDigest
	if found != nil {
		d = &found.digest
	}
	if !d.proves(secret) {
		return nil
	}
	return found
}

// with returns a state in which one key is another; made nil: it is gone.
func (s *state) with(name string, made *key) *state {
	next := &state{byID: maps.Clone(s.byID), byName: maps.Clone(s.byName)}
	if old := next.byName[name]; old != nil {
		delete(next.byID, old.doc.ID)
		delete(next.byName, name)
	}
	if made != nil {
		next.byID[made.doc.ID], next.byName[name] = made, made
	}
	next.settle(s)
	return next
}

// Put makes a key or changes one. The answer holds the key's text when it is new or rotated.
func (k *Keys) Put(name string, d Definition) (Answer, bool, error) {
	if err := catalog.CheckName(catalog.Key, name); err != nil {
		return Answer{}, false, err
	}
	k.change.Lock()
	defer k.change.Unlock()
	before := k.now.Load()
	old := before.byName[name]
	var doc document
	if old != nil {
		doc = old.doc
	}
	doc.rights = doc.with(d)
	if err := doc.check(); err != nil {
		return Answer{}, false, err
	}
	if old != nil && old.doc.has(Admin) && !doc.has(Admin) && before.admins() == 1 {
		return Answer{}, false, lastAdmin(name)
	}
	text := ""
	if old == nil || d.Rotate {
		var sum digest
		text, doc.ID, sum = newKeyText()
		doc.Digest = sum[:]
	}
	stored, err := json.Marshal(doc)
	if err != nil {
		return Answer{}, false, err
	}
	entry, err := k.store.Put(catalog.Key, name, stored, 0)
	if err != nil {
		return Answer{}, false, err
	}
	made, err := newKey(entry)
	if err != nil {
		return Answer{}, false, err
	}
	kept := old != nil && text == "" && old.doc.same(doc.rights)
	if kept { // what it has open goes on
		made.principal, made.revoke = old.principal, old.revoke
		if old.doc.Rate == doc.Rate {
			made.limit = old.limit
		}
	}
	next := before.with(name, made)
	k.now.Store(next)
	if old != nil && !kept {
		old.revoke()
		k.sessions.revoke(old.doc.ID, old.doc.ID != doc.ID)
	}
	answer := made.answer()
	answer.Key = text
	if next.on && !before.on {
		before.closeOpen()
		answer.Note = "authentication is on from now: every request needs a key"
		k.opts.Logger.Warn("the first admin key was made: every request needs a key from now on", "key", name)
	}
	k.opts.Logger.Info("key put", "key", name, "id", doc.ID, "scopes", doc.Scopes, "rotated", old != nil && text != "")
	return answer, old == nil, nil
}

func lastAdmin(name string) error {
	return problem.New(409, "last_admin_key", "%q is the last key with the scope admin", name).
		WithHint("without it nobody could make keys any more: make another admin key first")
}

func (s *state) admins() int {
	n := 0
	for _, k := range s.byName {
		if k.doc.has(Admin) {
			n++
		}
	}
	return n
}

func unknownKey(name string) error {
	return problem.New(404, "unknown_key", "there is no key %.80q", name).WithHint("GET /v1/keys lists them")
}

// Ephemeral makes a key that ends with the process and is in no list: for what the program itself
// asks of its server. It does not turn authentication on.
func (k *Keys) Ephemeral(name string, scopes ...Scope) string {
	text, id, sum := newKeyText()
	k.change.Lock()
	defer k.change.Unlock()
	before := k.now.Load()
	next := &state{byID: maps.Clone(before.byID), byName: before.byName, on: before.on, open: before.open, closeOpen: before.closeOpen}
	r := rights{Scopes: scopes}
	next.byID[id] = &key{
		Name: name, doc: document{ID: id, rights: r}, digest: sum, revoke: func() {},
		principal: &Principal{KeyID: id, Name: name, rights: r},
	}
	k.now.Store(next)
	return text
}

// isAlert reports whether a relation is an alert, or the late events of one.
func (k *Keys) isAlert(name string) bool {
	e, ok := k.store.Lookup(name)
	if view, late := strings.CutPrefix(name, "late_"); !ok && late {
		e, ok = k.store.Lookup(view)
	}
	return ok && e.Kind == catalog.Alert
}

// Get describes one key.
func (k *Keys) Get(name string) (Answer, error) {
	one := k.now.Load().byName[name]
	if one == nil {
		return Answer{}, unknownKey(name)
	}
	return one.answer(), nil
}

// List describes all keys, by name.
func (k *Keys) List() []Answer {
	out := []Answer{}
	for _, one := range k.now.Load().byName {
		out = append(out, one.answer())
	}
	slices.SortFunc(out, func(a, b Answer) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Delete ends a key. The last admin key can't be deleted.
func (k *Keys) Delete(name string) error {
	k.change.Lock()
	defer k.change.Unlock()
	before := k.now.Load()
	old := before.byName[name]
	if old == nil {
		return unknownKey(name)
	}
	if old.doc.has(Admin) && before.admins() == 1 {
		return lastAdmin(name)
	}
	if _, err := k.store.Delete(catalog.Key, name); err != nil {
		return err
	}
	k.now.Store(before.with(name, nil))
	old.revoke()
	k.sessions.revoke(old.doc.ID, true)
	k.opts.Logger.Info("key deleted", "key", name, "id", old.doc.ID)
	return nil
}

func (k *key) answer() Answer {
	return Answer{
		Name: k.Name, ID: k.doc.ID, Scopes: k.doc.Scopes, Streams: orNone(k.doc.Streams), Origins: orNone(k.doc.Origins),
		Rate: k.doc.Rate, Created: k.Created, Updated: k.Updated,
	}
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
