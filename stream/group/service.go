package group

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
)

// Service keeps the groups of all streams. It is safe for concurrent use.
type Service struct {
	kv  *kv.Store
	log stream.Log
	o   Options
	// opened is when the service began, on the clock of sessions: members that were there before get
	// a whole session from then on.
	opened time.Duration

	mu struct {
		sync.Mutex
		groups map[groupKey]*group
	}
}

type groupKey struct {
	stream stream.ID
	name   string
}

// group is one group in memory.
type group struct {
	id   stream.ID
	name string
	mu   struct {
		sync.Mutex
		// state is nil before the group is loaded, and when there is none.
		state  *state
		loaded bool
		// sessions of the members; turn is which partition a member's next poll begins with.
		sessions map[string]*session
		// changed is closed when partitions have moved, and made anew.
		changed chan struct{}
	}
}

// session is what is known of a member that is not durable.
type session struct {
	seen time.Duration
	turn int
	// waiting is closed to end the poll that waits for the member; nil when none does.
	waiting chan struct{}
}

// New returns the groups of a store.
func New(store *kv.Store, log stream.Log, o Options) *Service {
	s := &Service{kv: store, log: log, o: o.WithDefaults()}
	s.opened = s.o.Monotonic()
	s.mu.groups = map[groupKey]*group{}
	return s
}

// CheckName returns a problem 400 when a group can't have the name.
func CheckName(name string) error {
	good := name != "" && len(name) <= 63
	for i := range len(name) {
		c := name[i]
		good = good && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')
	}
	if good {
		return nil
	}
	return problem.New(400, "bad_name", "%.80q can't be the name of a group: names match [A-Za-z0-9_.-]{1,63}", name).
		WithHint("name the group after what reads, such as fraud_desk")
}

func unknownGroup(name string) error {
	return problem.New(404, "unknown_group", "the stream has no group %q", name).
		WithHint("a group is made by its first poll, or by a seek; GET …/groups lists them")
}

// lock returns a group with its lock held. Where there is none, create makes one in memory; it is
// durable with the first write. Otherwise the error is a problem 404.
func (s *Service) lock(id stream.ID, name string, create bool) (*group, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	g := s.find(id, name)
	if !g.mu.loaded {
		st, err := load(s.kv, id, name)
		if err != nil {
			s.unlock(g)
			return nil, err
		}
		g.mu.state, g.mu.loaded = st, true
		if st != nil {
			for m := range st.Members {
				if g.mu.sessions[m] == nil {
					g.mu.sessions[m] = &session{seen: s.opened}
				}
			}
		}
	}
	if g.mu.state != nil {
		return g, nil
	}
	err := unknownGroup(name)
	if create {
		err = s.makeLocked(g)
	}
	if err != nil {
		s.unlock(g)
		return nil, err
	}
	return g, nil
}

// find returns the one group of a name in memory, locked.
func (s *Service) find(id stream.ID, name string) *group {
	k := groupKey{id, name}
	for {
		s.mu.Lock()
		g := s.mu.groups[k]
		if g == nil {
			g = &group{id: id, name: name}
			g.mu.changed = make(chan struct{})
			g.mu.sessions = map[string]*session{}
			s.mu.groups[k] = g
		}
		s.mu.Unlock()
		g.mu.Lock()
		s.mu.Lock()
		same := s.mu.groups[k] == g
		s.mu.Unlock()
		if same {
			return g
		}
		g.mu.Unlock() // it was forgotten while we waited for it
	}
}

// unlock ends what lock began. A group that is not durable is forgotten: names that are only asked
// for are not kept.
func (s *Service) unlock(g *group) {
	if g.mu.state == nil || len(g.mu.state.parts) == 0 {
		s.mu.Lock()
		delete(s.mu.groups, groupKey{g.id, g.name})
		s.mu.Unlock()
	}
	g.mu.Unlock()
}

// makeLocked makes a group that begins with the oldest events.
func (s *Service) makeLocked(g *group) error {
	names, err := s.names(g.id)
	if err != nil {
		return err
	}
	if len(names) >= s.o.MaxGroups {
		return problem.New(422, "too_many_groups", "the stream has %d groups already", len(names)).WithHint("delete those that nobody uses: DELETE …/groups/{group}")
	}
	g.mu.state = &state{head: head{
		Version: stateVersion, Log: s.log.ID(), Created: s.o.Now().UnixMicro(), Members: map[string]time.Duration{},
	}}
	return nil
}

// names are the groups of a stream.
func (s *Service) names(id stream.ID) ([]string, error) {
	from := groupsPrefix(id)
	it := s.kv.Iter(from, kv.PrefixEnd(from))
	var out []string
	for ok := it.First(); ok; {
		name, _, _ := bytes.Cut(it.Key()[len(from):], []byte{0})
		out = append(out, string(name))
		ok = it.SeekGE(kv.PrefixEnd(prefix(id, out[len(out)-1])))
	}
	return out, it.Close()
}

// Expect tells every offset that a group has committed: one past the end of its partition is a sign
// that the log was shortened. It is asked once, at the start.
func (s *Service) Expect(tell func(who string, id stream.ID, p stream.Partition, next stream.Offset), ids ...stream.ID) error {
	for _, id := range ids {
		names, err := s.names(id)
		if err != nil {
			return err
		}
		for _, name := range names {
			st, err := load(s.kv, id, name)
			if err != nil {
				return err
			}
			if st == nil || st.Log != s.log.ID() {
				continue // of a history whose loss was accepted
			}
			for p := range st.parts {
				tell("group "+name, id, stream.Partition(p), st.parts[p].Committed)
			}
		}
	}
	return nil
}

// Delete removes a group with all that belongs to it. Polls that wait end with a problem 404.
func (s *Service) Delete(id stream.ID, name string) error {
	if err := s.o.Writable(); err != nil {
		return err
	}
	g, err := s.lock(id, name, false)
	if err != nil {
		return err
	}
	defer s.unlock(g)
	b := s.kv.NewBatch()
	b.DeletePrefix(prefix(id, name))
	if err := b.Commit(true); err != nil {
		g.mu.loaded = false
		return fmt.Errorf("delete group %s: %w", name, err)
	}
	g.mu.state = nil
	g.mu.sessions = map[string]*session{}
	g.wakeLocked()
	return nil
}

// wakeLocked wakes the polls that wait.
func (g *group) wakeLocked() {
	close(g.mu.changed)
	g.mu.changed = make(chan struct{})
}

// edit is a change of a group while it is made: on a copy, which takes the place of the state when it
// is durable.
type edit struct {
	s     *Service
	g     *group
	state *state
	stats []stream.PartitionStats
	batch *kv.Batch
	// headDirty, dirty: records that have changed.
	headDirty bool
	dirty     map[stream.Partition]bool
	// want is where each partition should be.
	want  []string
	moved bool
	// rewound are the partitions whose committed offset lay past the end of the log.
	rewound []Moved
}

// Moved is a committed offset that had to be moved.
type Moved struct {
	Partition stream.Partition `json:"partition"`
	From      stream.Offset    `json:"from"`
	To        stream.Offset    `json:"to"`
}

// beginLocked begins a change. The offsets are brought between the ends of the log (I3 apart: what is
// gone can't be read).
func (s *Service) beginLocked(g *group) (*edit, error) {
	if err := s.o.Writable(); err != nil {
		return nil, err
	}
	stats, err := s.log.Stats(g.id)
	if errors.Is(err, stream.ErrUnknownStream) {
		return nil, problem.New(404, "unknown_stream", "the stream was deleted").WithHint("GET /v1/streams lists the streams")
	}
	if err != nil {
		return nil, err
	}
	e := &edit{s: s, g: g, state: g.mu.state.clone(), stats: stats.Partitions, batch: s.kv.NewBatch(), dirty: map[stream.Partition]bool{}}
	for p := len(e.state.parts); p < len(e.stats); p++ { // R6
		first := e.stats[p].First
		e.state.parts = append(e.state.parts, partition{place: place{Committed: first, Given: first}})
		e.dirty[stream.Partition(p)] = true
		e.headDirty = true
	}
	another := e.state.Log != s.log.ID()
	for p := range e.stats {
		at, st := &e.state.parts[p], e.stats[p]
		switch {
		case at.Committed < st.First:
			e.expired(stream.Partition(p), st.First)
		case at.Committed > st.Next && !another:
			e.batch.Discard()
			return nil, problem.New(409, "offset_above_end", "the group has committed offset %d of partition %d, and the log ends at %d: events are missing from the log",
				at.Committed, p, st.Next).
				WithHint(`restore a backup, or move the group with POST …/seek {"to":"latest"}`).With("next_offset", st.Next)
		case at.Committed > st.Next:
			e.rewound = append(e.rewound, Moved{stream.Partition(p), at.Committed, st.Next})
			e.resetTo(stream.Partition(p), st.Next)
		}
	}
	if another {
		e.state.Log, e.headDirty = s.log.ID(), true
	}
	return e, nil
}

// expired counts the events that retention took before the group had read them, and goes on behind.
func (e *edit) expired(p stream.Partition, first stream.Offset) {
	at := e.part(p)
	at.Expired += int64(first - at.Committed)
	e.commitTo(p, first)
}

func (e *edit) part(p stream.Partition) *partition {
	e.dirty[p] = true
	return &e.state.parts[p]
}

// commitLocked makes the change durable and shows it.
func (e *edit) commitLocked() error {
	if e.moved || len(e.dirty) > 0 {
		e.headDirty = true // the generation stands in every write (I2)
	}
	if !e.headDirty && e.batch.Empty() {
		e.batch.Discard()
		return nil
	}
	if e.headDirty {
		e.batch.Set(key(e.g.id, e.g.name, kindHead), encode(e.state.head))
	}
	for p := range e.dirty {
		e.batch.Set(placeKey(e.g.id, e.g.name, p), encode(e.state.parts[p].place))
	}
	if err := e.batch.Commit(true); err != nil {
		e.g.mu.loaded, e.g.mu.state = false, nil // what is on disk is read again
		return fmt.Errorf("write group %s: %w", e.g.name, err)
	}
	e.g.mu.state = e.state
	if e.moved {
		e.g.wakeLocked()
	}
	return nil
}

// holders are the present holders by partition.
func (e *edit) holders() []string {
	out := make([]string, len(e.state.parts))
	for p := range e.state.parts {
		out[p] = e.state.parts[p].Holder
	}
	return out
}

// rebalance moves the partitions that should be with somebody else and are drained (I1).
func (e *edit) rebalance() {
	members := make([]string, 0, len(e.state.Members))
	for m := range e.state.Members {
		members = append(members, m)
	}
	slices.Sort(members)
	e.want = share(e.holders(), members)
	for p, to := range e.want {
		at := &e.state.parts[p]
		if at.Holder == to || at.Holder != "" && at.waits() {
			continue
		}
		e.bump()
		e.handOver(stream.Partition(p), to)
	}
}

// bump begins another generation, once in an edit.
func (e *edit) bump() {
	if !e.moved {
		e.moved = true
		e.state.Generation++
	}
}

// handOver gives a partition to a member, or to nobody.
func (e *edit) handOver(p stream.Partition, to string) {
	at := e.part(p)
	at.Holder, at.Since, at.Given, at.Until, at.Replay = to, e.state.Generation, at.Committed, 0, nil
}

// expire ends the sessions of members that went silent.
func (e *edit) expire() {
	now := e.s.o.Monotonic()
	for m, span := range e.state.Members {
		ses := e.g.mu.sessions[m]
		if ses != nil && (ses.waiting != nil || now-ses.seen < span) {
			continue
		}
		e.s.o.Logger.Warn("a member of a group went silent", "stream", uint64(e.g.id), "group", e.g.name, "member", m)
		e.remove(m, true)
	}
}

// remove takes a member out. failed: what it was given counts as a failed attempt.
func (e *edit) remove(member string, failed bool) {
	e.bump()
	for p := range e.state.parts {
		if e.state.parts[p].Holder != member {
			continue
		}
		if failed {
			e.failed(stream.Partition(p), "member_gone", fmt.Sprintf("the member %q went silent before it had committed the event", member))
		}
		e.handOver(stream.Partition(p), "")
	}
	delete(e.state.Members, member)
	delete(e.g.mu.sessions, member)
	e.headDirty = true
}

// nextExpiry is how long until a session may end; ok false when none may.
func (s *Service) nextExpiryLocked(g *group) (wait time.Duration, ok bool) {
	now := s.o.Monotonic()
	for m, span := range g.mu.state.Members {
		ses := g.mu.sessions[m]
		if ses == nil || ses.waiting != nil {
			continue
		}
		if left := max(0, ses.seen+span-now); !ok || left < wait {
			wait, ok = left, true
		}
	}
	return wait, ok
}
