package engine

import (
	"slices"
	"strings"
	"testing"

	"tidemark/stream"
	"tidemark/windows"
)

// samePieces checks that a store has the pieces that the entries in it name, and no others. K6
func (s *script) samePieces(state kept) {
	e := s.open()
	s.must(e.Recover(state, 0))
	named := 0
	for _, op := range e.ops {
		if a, ok := op.(*aggregate); ok {
			for _, p := range a.pieces {
				named += int(p.to - p.from)
			}
		}
	}
	if there := state.count(spacePiece); named != there {
		s.t.Fatalf("%s\n%d pieces are in the store, and %d belong to a state", s.sql, there, named)
	}
}

// count is how many keys a space has.
func (k kept) count(space byte) (n int) {
	for key := range k {
		if key[0] == space {
			n++
		}
	}
	return n
}

// pieceViews have states that grow with their input, in windows that close.
var pieceViews = []string{
	"SELECT window_start, k, count(DISTINCT v) AS n, mode(v) AS most FROM tumble(s, ts, INTERVAL '1 minute') GROUP BY ALL",
	"SELECT window_start, k, count(DISTINCT v) AS n, string_agg(v::VARCHAR, ' ') AS every FROM hop(s, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY ALL",
	"SELECT window_start, k, count(DISTINCT v) AS n, list(v) AS every FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL",
}

// at has events of one second: three keys, and values that no other batch has.
func at(number int, second int64) stream.Entry {
	b := setBatch(number, 30)
	for i := range b.Times {
		b.Times[i] = day + second*windows.MicrosPerSecond
		b.Columns[1].Str[i] = string(rune('a' + i%3))
	}
	b.Columns[0].I64 = slices.Clone(b.Times)
	return stream.Entry{Batch: b}
}

// When windows are closed nothing of their states is left in the store: of those in memory, of those
// that are away, and of what only some windows of a late event took.
func TestNothingIsLeftOfTheLargeStatesOfClosedWindows(t *testing.T) {
	t.Parallel()
	for _, sql := range pieceViews {
		for _, away := range []bool{false, true} {
			s := &script{t: t, sql: sql}
			s.reset()
			s.declare("s k VARCHAR, v BIGINT")
			s.cfg = Config{SmallState: 3, AllowedLateness: 30 * windows.MicrosPerSecond, Streams: []windows.TrackedStream{{Stream: 1}}}
			state := kept{}
			e := s.open()
			s.must(e.Recover(state, 0))
			sequence := stream.Sequence(1)
			step := func(entry stream.Entry) {
				if sequence++; entry.Batch != nil {
					entry.Batch.Sequence = sequence
				} else {
					entry.Control.Sequence = sequence
				}
				s.must(e.Step(entry))
				state.keep(e.Take(true))
				s.must(e.Err())
				s.samePieces(state)
				if away {
					e.Evict(0)
				}
			}
			advance := func(second int64) {
				step(stream.Entry{Control: &stream.Control{Stream: 1, AppendTime: day, Kind: stream.Advance, Value: day + second*windows.MicrosPerSecond}})
			}
			step(at(1, 600))
			step(at(2, 601))
			if n := state.count(spacePiece); n == 0 {
				t.Errorf("%s\nno state is in pieces", sql)
			}
			advance(665) // of the windows that hold 10:00, those to 10:20 are closed
			step(at(3, 600))
			step(at(4, 602))
			if strings.Contains(sql, "hop") && !away && len(e.ops[0].(*aggregate).panes.extras) == 0 {
				t.Errorf("%s\nno window took a late event alone", sql)
			}
			advance(1000)
			for _, space := range []byte{spacePiece, spaceGroup, spacePane} {
				if n := state.count(space); n > 0 {
					t.Errorf("%s\naway: %t: %d keys under %q are left", sql, away, n, space)
				}
			}
		}
	}
}

// mergeViews are over sessions that become one: one has a group that the other has not, or rows of it
// were given on.
var mergeViews = []string{
	"SELECT window_start, k, count(DISTINCT v) AS n, list(v) AS every FROM session(s, ts, INTERVAL '20 seconds') GROUP BY ALL",
	"SELECT n, count(*) AS sessions FROM (SELECT window_start, count(DISTINCT v) AS n FROM session(s, ts, INTERVAL '20 seconds') GROUP BY ALL) GROUP BY n",
}

// Sessions that become one leave nothing of what they were apart, and the values of both.
func TestLargeStatesOfSessionsThatBecomeOneAreOne(t *testing.T) {
	t.Parallel()
	for _, sql := range mergeViews {
		s := &script{t: t, sql: sql}
		s.reset()
		s.declare("s k VARCHAR, v BIGINT")
		s.cfg = Config{SmallState: 3, AllowedLateness: 3600 * windows.MicrosPerSecond, Streams: []windows.TrackedStream{{Stream: 1}}}
		state := kept{}
		e := s.open()
		s.must(e.Recover(state, 0))
		var entries []int
		for number, second := range []int64{600, 630, 615, 640} {
			entry := at(number, second)
			for i := range entry.Batch.Len {
				entry.Batch.Columns[1].Str[i] = string(rune('a' + number%2))
			}
			s.must(e.Step(entry))
			state.keep(e.Take(true))
			s.samePieces(state)
			e = s.open() // as it is after a crash
			s.must(e.Recover(state, 0))
			n := 0
			for _, p := range e.ops[0].(*aggregate).pieces {
				n += int(p.entries)
			}
			entries = append(entries, n/len(e.ops[0].(*aggregate).cols))
		}
		if want := []int{30, 60, 90, 120}; !slices.Equal(entries, want) {
			t.Errorf("%s\n%d entries are in pieces, want %d", sql, entries, want)
		}
	}
}

// However large a set is, an epoch writes what came into it, and what is written in all is no more
// than about twice what came.
func TestAnEpochWritesWhatChangedInALargeSet(t *testing.T) {
	t.Parallel()
	for _, v := range setViews {
		s := &script{t: t, sql: v.sql}
		s.reset()
		s.declare("s k VARCHAR, v BIGINT")
		s.cfg = Config{Streams: []windows.TrackedStream{{Stream: 1}}}
		e := s.open()
		state := kept{}
		s.must(e.Recover(state, 0))
		const each = 100
		sum, last := 0, 0
		for epoch := range 100 {
			s.must(e.Step(stream.Entry{Batch: setBatch(epoch, each)}))
			o := e.Take(true)
			state.keep(o)
			last = 0
			for _, w := range o.Writes {
				if w.Key[0] == spacePiece {
					last += len(w.Value)
				}
			}
			sum += last
		}
		s.samePieces(state)
		if widest := 60 * each; last > widest || sum > 100*2*widest {
			t.Errorf("%s\n%d bytes for the last %d values, %d in all", v.name, last, each, sum)
		}
		if state.count(spacePiece) == 0 {
			t.Errorf("%s\nno state is in pieces", v.name)
		}
	}
}

// A piece that is not there ends the engine: half a set is not counted.
func TestAMissingPieceIsDamage(t *testing.T) {
	t.Parallel()
	s := &script{t: t, sql: setViews[1].sql}
	s.reset()
	s.declare("s k VARCHAR, v BIGINT")
	s.cfg = Config{Streams: []windows.TrackedStream{{Stream: 1}}}
	e := s.open()
	state := kept{}
	s.must(e.Recover(state, 0))
	for epoch := range 5 {
		s.must(e.Step(stream.Entry{Batch: setBatch(epoch, 100)}))
		state.keep(e.Take(true))
	}
	s.must(s.open().Recover(state, 0))
	for key := range state {
		if key[0] == spacePiece {
			less := kept{}
			for k, v := range state {
				if k != key {
					less[k] = v
				}
			}
			if err := s.open().Recover(less, 0); err == nil {
				t.Errorf("a state without %q is taken for a whole one", key)
			}
		}
	}
}
