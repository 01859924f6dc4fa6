package pebblelog

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"tidemark/stream"
)

func TestDecideComparesEndsWithTheWitness(t *testing.T) {
	t.Parallel()
	w := &witness{log: 1, end: 10, streams: []witnessed{{id: 7, name: "s", ends: []partitionEnd{{5, 50}, {0, 0}}}}}
	have := func(ends ...partitionEnd) found {
		return found{log: 1, end: 10, streams: map[stream.ID][]partitionEnd{7: ends}}
	}
	for _, c := range []struct {
		name string
		f    found
		want string
	}{
		{"the same", have(partitionEnd{5, 50}, partitionEnd{}), "[]"},
		{"more than was witnessed", have(partitionEnd{9, 50}, partitionEnd{3, 0}), "[]"},
		{"the batch was removed by retention", have(partitionEnd{5, 0}, partitionEnd{}), "[]"},
		{"shorter", have(partitionEnd{4, 0}, partitionEnd{}), "[stream s, partition 0: the events end at offset 4 and should end at 5]"},
		{"other events", have(partitionEnd{5, 51}, partitionEnd{}), "[stream s, partition 0: the events before offset 5 are not the ones that were written there]"},
		{"no such stream", found{log: 1, end: 10}, "[stream s, partition 0: the events end at offset 0 and should end at 5]"},
		{"dropped", found{log: 1, end: 10, dropped: map[stream.ID]bool{7: true}}, "[]"},
		{"control records are missing", found{log: 1, end: 9, streams: have(partitionEnd{5, 50}).streams}, "[the log ends at sequence 9 and should end at 10]"},
		{"another log", found{log: 2, end: 10, streams: have(partitionEnd{5, 50}).streams}, "[the log is not the one that the witness saw]"},
		{"goes on from it", found{log: 2, ancestors: []ancestor{{1, 10}}, end: 10, streams: have(partitionEnd{5, 50}).streams}, "[]"},
	} {
		if got := fmt.Sprint(decide(w, c.f)); got != c.want {
			t.Errorf("%s:\n got  %s\n want %s", c.name, got, c.want)
		}
	}
}

func TestWitnessReadsBackAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &witness{log: stream.LogID(rapid.Uint64().Draw(t, "log")), end: stream.Sequence(rapid.Int64Range(0, 1<<62).Draw(t, "end"))}
		for id := range rapid.IntRange(0, 3).Draw(t, "streams") {
			s := witnessed{id: stream.ID(id), name: rapid.StringN(0, 9, 30).Draw(t, "name")}
			for range rapid.IntRange(1, 3).Draw(t, "partitions") {
				s.ends = append(s.ends, partitionEnd{stream.Offset(rapid.Int64Range(0, 1<<62).Draw(t, "next")), rapid.Uint32().Draw(t, "sum")})
			}
			w.streams = append(w.streams, s)
		}
		content := w.encode()
		got, err := decodeWitness(content)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(w) {
			t.Fatalf("%v became %v, %v", w, got, err)
		}
		content[rapid.IntRange(0, len(content)-1).Draw(t, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		if _, err := decodeWitness(content); err == nil {
			t.Fatal("a changed byte was not noticed")
		}
	})
}
