package judge

import (
	"math/rand/v2"
	"testing"

	"tidemark/stream"
	"tidemark/windows"
)

// W1: a fold that begins at the log's mark has the watermarks of one that saw everything.
func TestFoldFromAMarkHasTheSameWatermarks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 9))
		tracked := []windows.TrackedStream{{Stream: 1, MaxOutOfOrderness: random.Int64N(3) * windows.MicrosPerSecond, IdleAdvance: true}}
		log := []stream.Entry{{Control: &stream.Control{Stream: 1, Sequence: 1, Kind: stream.Partitions, Value: 2}}}
		at, next := int64(0), [2]stream.Offset{}
		for s := stream.Sequence(2); s < 40; s++ {
			at += random.Int64N(5) * windows.MicrosPerSecond
			p := stream.Partition(random.IntN(2))
			switch random.IntN(6) {
			case 0:
				log = append(log, stream.Entry{Control: &stream.Control{Stream: 1, Sequence: s, AppendTime: at, Kind: stream.Idle, Partition: p}})
			case 1:
				log = append(log, stream.Entry{Control: &stream.Control{Stream: 1, Sequence: s, AppendTime: at, Kind: stream.Clock}})
			case 2:
				log = append(log, stream.Entry{Control: &stream.Control{Stream: 1, Sequence: s, AppendTime: at, Kind: stream.Advance, Value: at - random.Int64N(9)*windows.MicrosPerSecond}})
			default:
				b := &stream.Batch{Stream: 1, Partition: p, Base: next[p], Sequence: s, AppendTime: at, Len: 1, Times: []windows.Micros{at - random.Int64N(9)*windows.MicrosPerSecond}}
				next[p]++
				log = append(log, stream.Entry{Batch: b})
			}
		}
		step := func(c *clock, tr *windows.Tracker, e stream.Entry) {
			if e.Control != nil {
				c.control(e.Control)
				tr.Control(e.Control)
				return
			}
			c.event(e.Batch, 0)
			tr.Batch(e.Batch, nil)
		}
		cut := 1 + random.IntN(len(log)-1)
		mark := stream.NewMark()
		whole, wholeTracker := newClock(false, tracked), windows.NewTracker(false, tracked)
		for _, e := range log[:cut] {
			step(whole, wholeTracker, e)
			if e.Control != nil {
				mark.Control(e.Control, true)
			} else {
				mark.Events(e.Batch.Sequence, e.Batch.AppendTime, e.Batch.Partition, e.Batch.Base, 1, e.Batch.Counted(0))
			}
		}
		j := &Judge{clock: newClock(false, tracked)}
		j.Mark(1, mark)
		tr := windows.NewTracker(false, tracked)
		tr.Mark(1, mark)
		for i := cut; ; i++ {
			want := whole.view
			if wholeTracker.Watermark() != want || j.clock.view != want || tr.Watermark() != want {
				t.Fatalf("seed %d, mark behind %d, entry %d: whole %d and %d, from the mark %d and %d",
					seed, cut, i, want, wholeTracker.Watermark(), j.clock.view, tr.Watermark())
			}
			if i == len(log) {
				break
			}
			step(whole, wholeTracker, log[i])
			step(j.clock, tr, log[i])
		}
	}
}
