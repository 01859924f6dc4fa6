package logtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark/stream"
)

// history is the simplest log there is: a list of entries as text, and where every id lies.
type history struct {
	entries []string
	next    map[stream.ID][]stream.Offset
	ids     map[stream.ID]map[string]knownID
	advance map[stream.ID]stream.Micros
	at      stream.Micros
}

type knownID struct {
	place stream.Place
	at    stream.Micros
}

const modelWindow = 3 * time.Hour

// model compares a random sequence of calls with history.
func model(t *testing.T, rt *rapid.T, open Opener) {
	clock := NewClock()
	o := open(clock)
	defer func() { o.Close() }()
	m := &history{next: map[stream.ID][]stream.Offset{}, ids: map[stream.ID]map[string]knownID{}, advance: map[stream.ID]stream.Micros{}}
	ids := []stream.ID{1, 2}
	must := func(err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	declare := func(id stream.ID, partitions int) {
		m.at = max(m.at, clock.Now().UnixMicro())
		must(o.Log.Declare(t.Context(), id, stream.Settings{Name: "s", Partitions: partitions, DedupeWindow: modelWindow}))
		if partitions > len(m.next[id]) {
			m.entries = append(m.entries, fmt.Sprintf("%d/partitions=%d", id, partitions))
		}
		for len(m.next[id]) < partitions {
			m.next[id] = append(m.next[id], 0)
		}
	}
	for _, id := range ids {
		m.ids[id] = map[string]knownID{}
		declare(id, 1)
	}
	reader, read := o.Log.Read(ids, 0), []string{}
	more := func() {
		for {
			e, ok, err := reader.Next()
			must(err)
			if !ok {
				return
			}
			read = append(read, text([]stream.Entry{e}))
		}
	}
	rt.Repeat(map[string]func(*rapid.T){
		"append": func(rt *rapid.T) {
			m.at = max(m.at, clock.Now().UnixMicro())
			var reqs []*stream.Events
			var want []stream.Appended
			parts := map[string][]string{} // "stream/partition" → values
			bases := map[string]stream.Offset{}
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 2, rapid.ID).Draw(rt, "streams") {
				events := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Event {
					return Event{
						Partition: stream.Partition(rapid.IntRange(0, len(m.next[id])-1).Draw(rt, "partition")),
						ID:        rapid.SampledFrom([]string{"", "", "a", "b", "c", "d"}).Draw(rt, "id"),
						Value:     rapid.Int64().Draw(rt, "value"),
					}
				}), 0, 5).Draw(rt, "events")
				reqs = append(reqs, Request(id, events...))
				want = append(want, m.take(id, events, parts, bases))
			}
			for _, k := range slices.Sorted(maps.Keys(parts)) {
				line := fmt.Sprintf("%s@%d:", k, bases[k])
				for i, v := range parts[k] {
					if i > 0 {
						line += ","
					}
					line += v
				}
				m.entries = append(m.entries, line)
			}
			got, err := o.Log.Append(t.Context(), reqs)
			must(err)
			for i := range got {
				if a, b := fmt.Sprint(got[i].Ranges, got[i].Duplicates), fmt.Sprint(want[i].Ranges, want[i].Duplicates); a != b {
					rt.Fatalf("appended %s, want %s", a, b)
				}
			}
		},
		"advance": func(rt *rapid.T) {
			id := rapid.SampledFrom(ids).Draw(rt, "stream")
			to := At(time.Duration(rapid.IntRange(1, 100).Draw(rt, "minutes")) * time.Minute)
			_, err := o.Log.Advance(t.Context(), id, to)
			must(err)
			m.at = max(m.at, clock.Now().UnixMicro())
			if to > m.advance[id] {
				m.advance[id] = to
				m.entries = append(m.entries, fmt.Sprintf("%d/advance+%v", id, time.UnixMicro(to).Sub(Noon)))
			}
		},
		"grow": func(rt *rapid.T) {
			id := rapid.SampledFrom(ids).Draw(rt, "stream")
			declare(id, min(4, len(m.next[id])+rapid.IntRange(0, 1).Draw(rt, "more")))
		},
		"pass": func(rt *rapid.T) {
			clock.Step(time.Duration(rapid.IntRange(-60, 120).Draw(rt, "minutes")) * time.Minute)
		},
		"reopen": func(*rapid.T) {
			o.Close()
			o = open(clock)
			reader, read = o.Log.Read(ids, 0), nil
		},
		"read": func(*rapid.T) { more() },
	})
	more()
	if !slices.Equal(read, m.entries) {
		rt.Fatalf("read\n  %q\nwant\n  %q", read, m.entries)
	}
}

// take appends events to the model and says what the log should answer.
func (m *history) take(id stream.ID, events []Event, parts map[string][]string, bases map[string]stream.Offset) (out stream.Appended) {
	ranges := map[stream.Partition]stream.Range{}
	for i, e := range events {
		if old, ok := m.ids[id][e.ID]; ok && e.ID != "" && m.at-old.at < modelWindow.Microseconds() {
			out.Duplicates = append(out.Duplicates, stream.Duplicate{Index: i, Of: old.place})
			continue
		}
		place := stream.Place{Partition: e.Partition, Offset: m.next[id][e.Partition]}
		m.next[id][e.Partition]++
		if e.ID != "" {
			m.ids[id][e.ID] = knownID{place, m.at}
		}
		k := fmt.Sprintf("%d/%d", id, e.Partition)
		if len(parts[k]) == 0 {
			bases[k] = place.Offset
		}
		parts[k] = append(parts[k], fmt.Sprint(e.Value))
		r, ok := ranges[e.Partition]
		if !ok {
			r = stream.Range{Partition: e.Partition, First: place.Offset}
		}
		r.Last = place.Offset
		ranges[e.Partition] = r
	}
	out.Ranges = slices.SortedFunc(maps.Values(ranges), func(a, b stream.Range) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}
