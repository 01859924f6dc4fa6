package judge

import (
	"testing"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/query"
)

const minute = 60 * windows.MicrosPerSecond

// judged sends events, one in a batch, at these minutes to a view that is one window function.
func judged(t *testing.T, a *query.Assign, lateness windows.Micros, minutes ...int64) Verdict {
	t.Helper()
	plan := &query.Plan{Sources: []query.Source{{Stream: 1}}, Root: a, Assigns: 1}
	j := New(plan, Config{AllowedLateness: lateness, Streams: []windows.TrackedStream{{Stream: 1}}})
	j.Step(stream.Entry{Control: &stream.Control{Stream: 1, Sequence: 1, Kind: stream.Partitions, Value: 1}})
	for i, m := range minutes {
		j.Step(stream.Entry{Batch: &stream.Batch{
			Stream: 1, Base: stream.Offset(i), Sequence: stream.Sequence(i + 2), AppendTime: 1 << 60, Len: 1, Times: []windows.Micros{m * minute},
		}})
	}
	return j.Verdict()
}

func function(kind windows.Kind, size, slide int64) *query.Assign {
	scan := query.NewScan(0, []query.ScanCol{{Column: -1, Pseudo: query.PseudoTime, Name: "_time", Type: row.Scalar(row.Timestamp)}})
	return query.NewAssign(scan, kind, 0, windows.Interval{Micros: size * minute}, windows.Interval{Micros: slide * minute})
}

func TestHopRefusesPairByPair(t *testing.T) { // L2
	t.Parallel()
	v := judged(t, function(windows.Hop, 10, 5), 0, 2, 11, 6, 21, 6)
	if len(v.Pairs[0]) != 3 || v.Dropped != 1 || v.Partial != 1 {
		t.Errorf("pairs %v, dropped %d, partial %d", v.Pairs[0], v.Dropped, v.Partial)
	}
}

func TestClosedSessionRefusesThoughAnOpenOneWouldTake(t *testing.T) { // L3
	t.Parallel()
	v := judged(t, function(windows.Session, 10, 0), 0, 0, 9, 20, 8)
	if len(v.Events[0]) != 1 || v.Events[0][0].Offset != 3 || v.Dropped != 1 {
		t.Errorf("refused %v, dropped %d", v.Events[0], v.Dropped)
	}
	// On time is what touches the end of a session.
	if v := judged(t, function(windows.Session, 10, 0), 0, 0, 10, 20); len(v.Events[0]) != 0 {
		t.Errorf("refused %v", v.Events[0])
	}
}

func TestSlideIsJudgedByItsOwnWindow(t *testing.T) { // L4
	t.Parallel()
	v := judged(t, function(windows.Slide, 10, 0), 2*minute, 0, 5, 3, 2, 4)
	if len(v.Events[0]) != 1 || v.Events[0][0].Offset != 3 || v.Corrected != 2 {
		t.Errorf("refused %v, corrected %d", v.Events[0], v.Corrected)
	}
}
