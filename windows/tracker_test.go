package windows

import (
	"testing"

	"tidemark/stream"
)

const second = MicrosPerSecond

// tracked is a tracker and the log that it has read.
type tracked struct {
	*Tracker
	t        *testing.T
	sequence stream.Sequence
}

func track(t *testing.T, appendTime bool, streams ...TrackedStream) *tracked {
	return &tracked{Tracker: NewTracker(appendTime, streams), t: t}
}

// send appends events with these times in seconds; it returns what they met.
func (k *tracked) send(id stream.ID, p stream.Partition, appendTime int64, times ...int64) []Micros {
	k.sequence++
	b := &stream.Batch{Stream: id, Partition: p, Sequence: k.sequence, AppendTime: appendTime * second, MaxSkew: 5 * second, Len: len(times)}
	for _, at := range times {
		b.Times = append(b.Times, at*second)
	}
	return k.Batch(b, nil)
}

func (k *tracked) control(id stream.ID, kind stream.ControlKind, p stream.Partition, appendTime, value int64) {
	k.sequence++
	if kind == stream.Advance {
		value *= second
	}
	k.Control(&stream.Control{Stream: id, Sequence: k.sequence, AppendTime: appendTime * second, Kind: kind, Partition: p, Value: value})
}

func (k *tracked) want(what string, at int64) {
	k.t.Helper()
	want := at * second
	if at < 0 {
		want = NoWatermark
	}
	if got := k.Watermark(); got != want {
		k.t.Errorf("%s: the watermark is %d s, want %d s", what, got/second, at)
	}
	// What is encoded goes on in the same way.
	other := NewTracker(k.appendTime, nil)
	other.streams, other.byID = nil, k.byID
	for i := range k.streams {
		other.streams = append(other.streams, trackedStream{TrackedStream: k.streams[i].TrackedStream})
	}
	if err := other.Decode(k.Encode(nil)); err != nil {
		k.t.Fatal(err)
	}
	k.Tracker = other
}

func TestEventsMeetTheWatermarkMadeByWhatCameBefore(t *testing.T) { // T4, W1
	t.Parallel()
	k := track(t, false, TrackedStream{Stream: 1, MaxOutOfOrderness: 5 * second})
	k.control(1, stream.Partitions, 0, 0, 1)
	met := k.send(1, 0, 1000, 100, 90, 120, 110)
	for i, want := range []Micros{NoWatermark, 95 * second, 95 * second, 115 * second} {
		if met[i] != want {
			t.Errorf("event %d met %d, want %d", i, met[i], want)
		}
	}
	k.want("after the batch", 115)
}

func TestFastClockMovesNothingAheadOfTheWallClock(t *testing.T) { // W1
	t.Parallel()
	k := track(t, false, TrackedStream{Stream: 1})
	k.control(1, stream.Partitions, 0, 0, 1)
	k.send(1, 0, 100, 5000)
	k.want("counted time is append time and max_skew at most", 105)
}

func TestSilentPartitionHoldsUntilItIsIdle(t *testing.T) { // W4, W5
	t.Parallel()
	k := track(t, false, TrackedStream{Stream: 1})
	k.control(1, stream.Partitions, 0, 0, 2)
	k.send(1, 0, 1000, 100)
	k.want("partition 1 never had an event", -1)
	k.control(1, stream.Idle, 1, 1030, 0)
	k.want("partition 1 is idle", 100)
	k.send(1, 1, 1040, 50)
	k.want("it never goes back", 100)
	k.send(1, 0, 1041, 200)
	k.want("partition 1 is awake and holds it", 100)
	k.send(1, 1, 1042, 150)
	k.want("the least of both", 150)
}

func TestAllIdleGoesOnWithTheLog(t *testing.T) { // W5
	t.Parallel()
	k := track(t, false, TrackedStream{Stream: 1, IdleAdvance: true})
	k.control(1, stream.Partitions, 0, 0, 2)
	k.send(1, 0, 1000, 100)
	k.send(1, 1, 1000, 80)
	k.want("the least", 80)
	k.control(1, stream.Idle, 1, 1030, 0)
	k.control(1, stream.Idle, 0, 1031, 0)
	k.want("the first time all are idle: the greatest of the partitions", 100)
	k.control(1, stream.Clock, 0, 1041, 0)
	k.want("ten seconds passed", 110)
	k.control(1, stream.Clock, 0, 5041, 0)
	k.want("down time counts", 4110)
	k.send(1, 0, 5042, 200)
	k.want("an event behind it moves nothing", 4110)
	k.control(1, stream.Idle, 0, 5100, 0)
	k.want("later it goes on from the largest value it had", 4110)
	k.control(1, stream.Clock, 0, 5101, 0)
	k.want("a second passed", 4111)
}

func TestIdleStreamStandsStillWhenAsked(t *testing.T) { // W5
	t.Parallel()
	k := track(t, false, TrackedStream{Stream: 1})
	k.control(1, stream.Partitions, 0, 0, 1)
	k.send(1, 0, 1000, 100)
	k.control(1, stream.Idle, 0, 1030, 0)
	k.control(1, stream.Clock, 0, 1090, 0)
	k.want("idle_advance is false", 100)
}

func TestAdvanceCountsForEveryPartition(t *testing.T) { // W3
	t.Parallel()
	k := track(t, false, TrackedStream{Stream: 1, MaxOutOfOrderness: 30 * second})
	k.control(1, stream.Partitions, 0, 0, 2)
	k.control(1, stream.Advance, 0, 1000, 500)
	k.want("it is not reduced, and needs no event", 500)
	k.control(1, stream.Advance, 0, 1001, 400)
	k.want("a smaller one changes nothing", 500)
	k.send(1, 0, 1002, 600)
	k.want("the other partition is at 500", 500)
}

func TestViewTakesTheLeastOfItsStreams(t *testing.T) { // W6
	t.Parallel()
	k := track(t, false, TrackedStream{Stream: 1}, TrackedStream{Stream: 2}, TrackedStream{Stream: 3, Table: true})
	for id := stream.ID(1); id <= 3; id++ {
		k.control(id, stream.Partitions, 0, 0, 1)
	}
	k.send(1, 0, 1000, 100)
	k.want("stream 2 has none", -1)
	met := k.send(2, 0, 1000, 50, 70, 300)
	k.want("the least of both, without the table", 100)
	if met[1] != 50*second || met[2] != 70*second {
		t.Errorf("the events met %v", met)
	}
	k.send(3, 0, 1000, 10)
	k.want("a table holds nothing back", 100)
}

func TestAppendTimeIsTheWatermarkWhereWindowsFollowIt(t *testing.T) { // W8
	t.Parallel()
	k := track(t, true, TrackedStream{Stream: 1, MaxOutOfOrderness: 30 * second})
	k.control(1, stream.Partitions, 0, 10, 1)
	k.want("control records count", 10)
	met := k.send(1, 0, 1000, 5, 9999)
	if met[0] != 10*second || met[1] != 1000*second {
		t.Errorf("the events met %v", met)
	}
	k.control(1, stream.Clock, 0, 1001, 0)
	k.want("the clock", 1001)
}

func TestPartitionsThatAreAddedStartIdle(t *testing.T) { // R6
	t.Parallel()
	k := track(t, false, TrackedStream{Stream: 1})
	k.control(1, stream.Partitions, 0, 0, 1)
	k.send(1, 0, 1000, 100)
	k.control(1, stream.Partitions, 0, 1001, 3)
	k.send(1, 0, 1002, 200)
	k.want("the new ones hold nothing back", 200)
}
