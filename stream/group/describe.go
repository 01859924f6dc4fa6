package group

import (
	"errors"
	"slices"
	"strings"
	"time"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
)

// Info says how a group stands.
type Info struct {
	Name       string
	Generation Generation
	Members    []Member
	Partitions []Standing
	// DeadLetters and Replays are how many events are put away, and wait to be given again.
	DeadLetters, Replays int
}

// Member is one member of a group.
type Member struct {
	Name       string
	Session    time.Duration
	Partitions []stream.Partition
	// Silent is how long ago the member was heard of; 0 while a poll of it waits.
	Silent time.Duration
	// Waits: a poll of the member waits for events.
	Waits bool
}

// Standing says how far a group is in a partition.
type Standing struct {
	Partition stream.Partition
	// Member holds the partition, since a generation; Next gets it when it is drained. "" when nobody.
	Member, Next string
	Since        Generation
	Committed    stream.Offset
	// First and End are the first offset that is kept and the next one to be given by the log.
	First, End stream.Offset
	// LagEvents are the events that are not committed; Lag is how long ago the first was appended.
	LagEvents int64
	Lag       time.Duration
	// Given is the end of what waits for a commit; at Committed when nothing does.
	Given stream.Offset
	// Attempts are the failed attempts of the event at Committed.
	Attempts int
	// Expired counts events that retention took before the group had read them.
	Expired int64
	// Above is true when the committed offset lies past the end of the log: the log has lost events.
	Above bool
}

// List returns the groups of a stream by name.
func (s *Service) List(id stream.ID) ([]Info, error) {
	names, err := s.names(id)
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(names))
	for _, name := range names {
		info, err := s.Get(id, name)
		if p := problem.From(err); err != nil && p.Status == 404 {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, *info)
	}
	return out, nil
}

// Get says how a group stands.
func (s *Service) Get(id stream.ID, name string) (*Info, error) {
	g, err := s.lock(id, name, false)
	if err != nil {
		return nil, err
	}
	defer s.unlock(g)
	if err := s.judgeLocked(g); err != nil {
		return nil, err
	}
	stats, err := s.log.Stats(id)
	if errors.Is(err, stream.ErrUnknownStream) {
		return nil, unknownGroup(name)
	}
	if err != nil {
		return nil, err
	}
	st := g.mu.state
	e := edit{state: st}
	members := make([]string, 0, len(st.Members))
	for m := range st.Members {
		members = append(members, m)
	}
	want := share(e.holders(), members)
	info := &Info{Name: name, Generation: st.Generation}
	now := s.o.Now().UnixMicro()
	for p := range min(len(stats.Partitions), len(st.parts)) {
		at, ends := &st.parts[p], stats.Partitions[p]
		one := Standing{
			Partition: stream.Partition(p), Member: at.Holder, Since: at.Since, Committed: at.Committed, First: ends.First, End: ends.Next,
			LagEvents: max(0, int64(ends.Next-max(at.Committed, ends.First))), Given: max(at.Until, at.Committed),
			Attempts: at.attempts(at.Committed), Above: at.Committed > ends.Next,
			Expired: at.Expired + max(0, int64(ends.First-at.Committed)),
		}
		if want[p] != at.Holder {
			one.Next = want[p]
		}
		if one.LagEvents > 0 {
			if one.Lag, err = s.lag(id, stream.Partition(p), max(at.Committed, ends.First), now); err != nil {
				return nil, err
			}
		}
		info.Replays += len(at.replays)
		info.Partitions = append(info.Partitions, one)
	}
	if info.DeadLetters, err = s.count(key(id, name, kindLetter)); err != nil {
		return nil, err
	}
	mono := s.o.Monotonic()
	for m, span := range st.Members {
		one := Member{Name: m, Session: span}
		if ses := g.mu.sessions[m]; ses != nil {
			if one.Waits = ses.waiting != nil; !one.Waits {
				one.Silent = mono - ses.seen
			}
		}
		for p := range st.parts {
			if st.parts[p].Holder == m {
				one.Partitions = append(one.Partitions, stream.Partition(p))
			}
		}
		info.Members = append(info.Members, one)
	}
	slices.SortFunc(info.Members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return info, nil
}

// judgeLocked ends the sessions that are over, so that what is told is what the next poll would find.
// Where nothing may be written, all stays as it is.
func (s *Service) judgeLocked(g *group) error {
	if wait, ok := s.nextExpiryLocked(g); !ok || wait > 0 {
		return nil
	}
	e, err := s.beginLocked(g)
	if err != nil {
		return nil //nolint:nilerr // Get tells how it is
	}
	e.expire()
	e.rebalance()
	return e.commitLocked()
}

// lag is how long ago an event was appended.
func (s *Service) lag(id stream.ID, p stream.Partition, o stream.Offset, now stream.Micros) (time.Duration, error) {
	batches, err := s.log.Slice(id, p, o, 1)
	if _, gone := errors.AsType[*stream.OffsetGone](err); gone || len(batches) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return max(0, time.Duration(now-batches[0].AppendTime)*time.Microsecond), nil
}

// count is how many keys begin with a prefix.
func (s *Service) count(prefix []byte) (n int, err error) {
	it := s.kv.Iter(prefix, kv.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n, it.Close()
}
