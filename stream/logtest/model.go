package logtest

import (
	"cmp"
	"errors"
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
	entries []step
	next    map[stream.ID][]stream.Offset
	ids     map[stream.ID]map[string]knownID
	advance map[stream.ID]stream.Micros
	at      stream.Micros
	first   [4]stream.Offset // of stream 2
}

type knownID struct {
	place stream.Place
	at    stream.Micros
}

// step is one entry of the model.
type step struct {
	stream stream.ID
	at     stream.Micros
	text   string
	batch  stream.Place // of a batch: where it begins
	events int
}

const (
	modelWindow = 3 * time.Hour
	modelAge    = 5 * time.Hour // retention of stream 2
)

func texts(steps []step) []string {
	out := make([]string, len(steps))
	for i, s := range steps {
		out[i] = s.text
	}
	return out
}

// retain removes what is older than an instant from the front of stream 2 and returns the first
// offsets that are left.
func (m *history) retain(oldest stream.Micros) {
	for i := 0; i < len(m.entries); {
		e := m.entries[i]
		switch {
		case e.stream != 2:
			i++
			continue
		case e.at >= oldest:
			return
		}
		if e.events > 0 {
			m.first[e.batch.Partition] = e.batch.Offset + stream.Offset(e.events)
		}
		m.entries = slices.Delete(m.entries, i, i+1)
	}
}

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
	opened, openedMono := clock.Now(), clock.Monotonic()
	declare := func(id stream.ID, partitions int) {
		m.at = max(m.at, clock.Now().UnixMicro())
		set := stream.Settings{Name: "s", Partitions: partitions, DedupeWindow: modelWindow}
		if id == 2 {
			set.Retention.Age = modelAge
		}
		must(o.Log.Declare(t.Context(), id, set))
		if partitions > len(m.next[id]) {
			m.entries = append(m.entries, step{stream: id, at: m.at, text: fmt.Sprintf("%d/partitions=%d", id, partitions)})
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
			var trimmed *stream.Trimmed
			if errors.As(err, &trimmed) { // begin again with what is there
				reader, read = o.Log.Read(ids, 0), nil
				continue
			}
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
				e := step{at: m.at, text: line, batch: stream.Place{Offset: bases[k]}, events: len(parts[k])}
				if _, err := fmt.Sscanf(k, "%d/%d", &e.stream, &e.batch.Partition); err != nil {
					rt.Fatal(err)
				}
				m.entries = append(m.entries, e)
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
				m.entries = append(m.entries, step{stream: id, at: m.at, text: fmt.Sprintf("%d/advance+%v", id, time.UnixMicro(to).Sub(Noon))})
			}
		},
		"grow": func(rt *rapid.T) {
			id := rapid.SampledFrom(ids).Draw(rt, "stream")
			declare(id, min(4, len(m.next[id])+rapid.IntRange(0, 1).Draw(rt, "more")))
		},
		"pass": func(rt *rapid.T) {
			clock.Step(time.Duration(rapid.IntRange(-60, 120).Draw(rt, "minutes")) * time.Minute)
		},
		"keep": func(rt *rapid.T) {
			clock.Pass(time.Duration(rapid.IntRange(0, 120).Draw(rt, "minutes")) * time.Minute)
			o.Keep()
			// Retention goes by the wall clock, but never by more than has passed.
			now := min(clock.Now().UnixMicro(), opened.Add(clock.Monotonic()-openedMono).UnixMicro())
			m.retain(now - modelAge.Microseconds())
			stats, err := o.Log.Stats(2)
			must(err)
			for p, st := range stats.Partitions {
				if st.First != m.first[p] {
					rt.Fatalf("partition %d of stream 2 begins at %d, want %d", p, st.First, m.first[p])
				}
				if _, err := o.Log.Slice(2, stream.Partition(p), st.First-1, 1); st.First > 0 && err == nil {
					rt.Fatalf("partition %d gives offset %d below its first", p, st.First-1)
				}
			}
		},
		"seek": func(rt *rapid.T) {
			id := rapid.SampledFrom(ids).Draw(rt, "stream")
			var batches []step
			for _, e := range m.entries {
				if e.stream == id && e.events > 0 {
					batches = append(batches, e)
				}
			}
			if len(batches) == 0 {
				return
			}
			e := rapid.SampledFrom(batches).Draw(rt, "batch")
			got, err := o.Log.Slice(id, e.batch.Partition, e.batch.Offset+stream.Offset(rapid.IntRange(0, e.events-1).Draw(rt, "event")), 1)
			must(err)
			if len(got) != 1 || text([]stream.Entry{{Batch: got[0]}}) != e.text {
				rt.Fatalf("at %s lies %s, want %s", e.batch, text([]stream.Entry{{Batch: got[0]}}), e.text)
			}
			if at, err := o.Log.OffsetAt(id, e.batch.Partition, e.at); err != nil || at > e.batch.Offset {
				rt.Fatalf("the first offset at %d is %d, and %s was appended then, %v", e.at, at, e.batch, err)
			}
		},
		"reopen": func(*rapid.T) {
			o.Close()
			o = open(clock)
			opened, openedMono = clock.Now(), clock.Monotonic()
			reader, read = o.Log.Read(ids, 0), nil
		},
		"read": func(*rapid.T) { more() },
	})
	more()
	// The reader may have read entries that were removed since.
	if !slices.Equal(withoutRemoved(read, m), texts(m.entries)) {
		rt.Fatalf("read\n  %q\nwant\n  %q", read, texts(m.entries))
	}
	reader, read = o.Log.Read(ids, 0), nil
	more()
	if !slices.Equal(read, texts(m.entries)) {
		rt.Fatalf("read afresh\n  %q\nwant\n  %q", read, texts(m.entries))
	}
}

// withoutRemoved leaves out of what was read what the model does not have any more.
func withoutRemoved(read []string, m *history) (out []string) {
	left := m.entries
	for _, r := range read {
		if len(left) > 0 && left[0].text == r {
			out, left = append(out, r), left[1:]
		}
	}
	return out
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
