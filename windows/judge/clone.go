package judge

import (
	"maps"
	"slices"

	"tidemark/windows"
	"tidemark/windows/query"
)

// Clone is a judge that goes on from here by itself, with a verdict that is empty and other ears.
// Both share the plan's expressions: they belong to one goroutine together.
func (j *Judge) Clone(tell func(Event, Account)) *Judge {
	c := *j
	c.cfg.Tell = tell
	c.clock = j.clock.clone()
	c.bounds = make(map[*query.Assign]map[string][]span, len(j.bounds))
	for a, keys := range j.bounds {
		// The lists are replaced, never changed in place beyond their length.
		c.bounds[a] = make(map[string][]span, len(keys))
		for k, spans := range keys {
			c.bounds[a][k] = slices.Clone(spans)
		}
	}
	c.verdict = Verdict{Pairs: map[int][]Pair{}, Events: map[int][]Event{}, Outside: map[Event]string{}}
	c.account = nil
	return &c
}

func (c *clock) clone() *clock {
	out := *c
	out.streams = make([]*streamClock, len(c.streams))
	for i, s := range c.streams {
		one := *s
		one.largest, one.awake = maps.Clone(s.largest), maps.Clone(s.awake)
		for _, p := range []**windows.Micros{&one.advance, &one.best, &one.idle} {
			if *p != nil {
				at := **p
				*p = &at
			}
		}
		out.streams[i] = &one
	}
	return &out
}
