package group

import (
	"maps"
	"slices"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// Seek says where a group goes on: one of its members is set.
type Seek struct {
	// To is "earliest" or "latest": the oldest events, or only those to come.
	To string
	// Time is an instant: the first event of each partition that was appended then or later.
	Time *stream.Micros
	// Offsets are the next offsets to read of some partitions; the others stay.
	Offsets map[stream.Partition]stream.Offset
}

// Seek moves a group, or makes one that begins there. What its members have in hand is fenced: commits
// of it are refused.
func (s *Service) Seek(id stream.ID, name string, r Seek) (*Committed, error) {
	const hint = `send {"to":"earliest"}, {"to":"latest"}, {"time":"2024-01-01T12:00:00Z"} or {"offsets":{"0":123}}`
	given := 0
	for _, is := range []bool{r.To != "", r.Time != nil, len(r.Offsets) > 0} {
		if is {
			given++
		}
	}
	if given != 1 || r.To != "" && r.To != "earliest" && r.To != "latest" {
		return nil, problem.New(400, "bad_seek", "where to is not said, or more than once").WithHint(hint)
	}
	g, err := s.lock(id, name, true)
	if err != nil {
		return nil, err
	}
	defer s.unlock(g)
	e, err := s.beginSeekLocked(g)
	if err != nil {
		return nil, err
	}
	to, err := e.target(r)
	if err != nil {
		e.batch.Discard()
		return nil, err
	}
	out := &Committed{Offsets: map[stream.Partition]stream.Offset{}}
	for _, p := range slices.Sorted(maps.Keys(to)) {
		e.resetTo(p, to[p])
	}
	for p := range e.state.parts {
		out.Offsets[stream.Partition(p)] = e.state.parts[p].Committed
	}
	e.expire()
	e.rebalance()
	out.Generation = e.state.Generation
	return out, e.commitLocked()
}

// beginSeekLocked is beginLocked for a seek, which also mends offsets past the end of the log.
func (s *Service) beginSeekLocked(g *group) (*edit, error) {
	was := g.mu.state
	looser := was.clone()
	looser.Log = 0 // of no history: what lies past the end is put to the end
	g.mu.state = looser
	e, err := s.beginLocked(g)
	g.mu.state = was
	return e, err
}

// target is where a seek leads, by partition.
func (e *edit) target(r Seek) (map[stream.Partition]stream.Offset, error) {
	to := map[stream.Partition]stream.Offset{}
	if len(r.Offsets) > 0 {
		for _, p := range slices.Sorted(maps.Keys(r.Offsets)) {
			o := r.Offsets[p]
			if p < 0 || int(p) >= len(e.stats) {
				return nil, problem.New(404, "unknown_partition", "the stream has no partition %d; it has %d", p, len(e.stats)).WithHint("partitions are numbered from 0")
			}
			switch st := e.stats[p]; {
			case o < st.First:
				return nil, problem.New(410, "offset_gone", "offset %d of partition %d is no longer kept; the first one is %d", o, p, st.First).
					WithHint(`seek to the first one, or {"to":"earliest"}`).With("first_offset", st.First)
			case o > st.Next:
				return nil, problem.New(422, "offset_above_end", "offset %d of partition %d is past the end, %d", o, p, st.Next).
					WithHint(`seek to the end, or {"to":"latest"}`).With("next_offset", st.Next)
			}
			to[p] = o
		}
		return to, nil
	}
	for i, st := range e.stats {
		p := stream.Partition(i)
		switch {
		case r.Time != nil:
			o, err := e.s.log.OffsetAt(e.g.id, p, *r.Time)
			if err != nil {
				return nil, err
			}
			to[p] = o
		case r.To == "latest":
			to[p] = st.Next
		default:
			to[p] = st.First
		}
	}
	return to, nil
}
