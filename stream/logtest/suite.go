package logtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// Run holds a driver to the contract.
func Run(t *testing.T, open func(*testing.T) Opener, f Features) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*harness)
	}{
		{"RequestIsAppendedPartitionByPartition", requestByPartition},
		{"ReopenedLogHoldsEverything", reopened},
		{"BatchHoldsWhatWasSent", wholeBatch},
		{"DuplicateIsCountedAndNamesTheOriginal", duplicates},
		{"DedupeWindowIsMeasuredInAppendTime", dedupeWindow},
		{"IDsCountPerStreamOverAllPartitions", idsPerStream},
		{"ConcurrentCopiesAreAppendedOnce", concurrentCopies},
		{"ReadersOfSeveralStreamsSeeOneOrder", severalStreams},
		{"ReaderGoesOnWhereItEnded", readerGoesOn},
		{"ConcurrentRequestsStayWhole", concurrentRequests},
		{"AppendTimeNeverGoesBack", appendTime},
		{"CountedTimeIsBoundedBySkew", countedTime},
		{"QuietPartitionBecomesIdleOnce", idle},
		{"IdlenessSurvivesRestart", idleRestart},
		{"NewPartitionsStartIdle", growth},
		{"ClockIsToldOnlyWhileWanted", clockWanted},
		{"SmallerAdvanceChangesNothing", advance},
		{"DeadLettersAreKeptWithTheCommit", deadLetters},
		{"AnswerIsRemembered", remembered},
		{"DroppedStreamRemembersNothing", dropped},
		{"SliceGivesBatchesFromAnOffset", slice},
		{"OffsetAtFindsTheInstant", offsetAt},
		{"WatchHearsOfCommits", watch},
		{"MemoryAckKeepsTheOrder", memoryAck},
		{"UnknownStreamIsRefused", unknown},
		{"CancelledRequestIsWholeOrAbsent", cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, open)
			h.features = f
			c.test(h)
		})
	}
	t.Run("RandomHistoriesMatchTheModel", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) { model(t, rt, open(t)) })
	})
}

func requestByPartition(h *harness) {
	h.declare(1, settings(3))
	got := h.append(Request(1, Event{Partition: 2, Value: 10}, Event{Partition: 0, Value: 11}, Event{Partition: 2, Value: 12}))
	h.expect("ranges", fmt.Sprint(got[0].Ranges), "[{0 0 0} {2 0 1}]")
	h.expect("log", text(h.entries(0, 1)), "1/partitions=3 1/0@0:11 1/2@0:10,12")
	if got[0].Sequence != h.Log.End() {
		h.t.Errorf("sequence %d, end %d", got[0].Sequence, h.Log.End())
	}
}

func reopened(h *harness) {
	h.declare(1, settings(1))
	h.append(Request(1, Event{Value: 1, ID: "a"}, Event{Value: 2}))
	id, stats := h.Log.ID(), stat(h, 1)
	h.reopen()
	h.append(Request(1, Event{Value: 3}))
	h.expect("log", text(h.entries(0, 1)), "1/partitions=1 1/0@0:1,2 1/0@2:3")
	if h.Log.ID() != id {
		h.t.Error("the identity changed")
	}
	after := stat(h, 1)
	if stats.Accepted != 2 || after.Accepted != 3 || after.Partitions[0].Next != 3 {
		h.t.Errorf("stats before %+v, after %+v", stats, after)
	}
}

func wholeBatch(h *harness) {
	h.declare(1, settings(1))
	h.append(Request(1, Event{Value: 7, Key: "k", Time: At(-time.Second)}, Event{NoValue: true, ID: "x"}))
	for range 2 { // from the tail, then from the store
		b := h.entries(0, 1)[1].Batch
		if string(b.Raw(0)) != `{"v":7,"id":""}` || string(b.Raw(1)) != `{"v":0,"id":"x"}` {
			h.t.Errorf("payloads %s %s", b.Raw(0), b.Raw(1))
		}
		if b.Keys.Str[0] != "k" || b.Keys.IsNull(0) || !b.Keys.IsNull(1) {
			h.t.Errorf("keys %+v", b.Keys)
		}
		if b.Times[0] != At(-time.Second) || b.Times[1] != b.AppendTime || b.AppendTime != At(0) {
			h.t.Errorf("times %v, append time %d", b.Times, b.AppendTime)
		}
		if b.MaxSkew != 5e6 || !b.Columns[0].IsNull(1) {
			h.t.Errorf("batch %+v", b)
		}
		h.reopen()
	}
}

func duplicates(h *harness) { // R5
	h.declare(1, settings(2))
	h.append(Request(1, Event{Partition: 1, Value: 1, ID: "a"}))
	for range 2 {
		got := h.append(Request(1, Event{Value: 2, ID: "a"}, Event{Value: 3, ID: "b"}, Event{Value: 4, ID: "b"}, Event{Value: 5}, Event{Value: 6}))[0]
		h.expect("first of all", fmt.Sprint(got.Duplicates[0]), "{0 partition 1, offset 0}")
		h.reopen()
	}
	h.expect("log", text(h.entries(0, 1)), "1/partitions=2 1/1@0:1 1/0@0:3,5,6 1/0@3:5,6")
	if s := stat(h, 1); s.Accepted != 6 || s.Duplicates != 5 {
		h.t.Errorf("accepted %d, duplicates %d", s.Accepted, s.Duplicates)
	}
	before := h.Log.End()
	got := h.append(Request(1, Event{ID: "a"}, Event{ID: "b"}))[0]
	if len(got.Ranges) != 0 || len(got.Duplicates) != 2 || h.Log.End() != before || got.Sequence != before {
		h.t.Errorf("a request of duplicates alone: %+v, end %d after %d", got, h.Log.End(), before)
	}
}

func dedupeWindow(h *harness) { // R5
	s := settings(1)
	s.DedupeWindow = 2 * time.Hour
	h.declare(1, s)
	send := func(want int) {
		h.t.Helper()
		if got := h.append(Request(1, Event{ID: "a"}))[0]; len(got.Duplicates) != want {
			h.t.Errorf("at %v: %d duplicates, want %d", h.clock.Now(), len(got.Duplicates), want)
		}
	}
	send(0)
	h.clock.Pass(2*time.Hour - time.Microsecond)
	send(1) // and renews nothing:
	h.clock.Pass(time.Microsecond)
	send(0)
	h.clock.Pass(time.Hour)
	h.reopen()
	send(1)
	h.clock.Pass(25 * time.Hour)
	send(0)
	h.clock.Step(-10 * time.Hour) // append time does not go back, so nothing is forgotten
	send(1)
	s.DedupeWindow = 0
	h.declare(2, s)
	if got := h.append(Request(2, Event{ID: "a"}, Event{ID: "a"}))[0]; len(got.Duplicates) != 0 {
		h.t.Errorf("without a window: %+v", got)
	}
}

func idsPerStream(h *harness) {
	h.declare(1, settings(2))
	h.declare(2, settings(1))
	got := h.append(Request(1, Event{ID: "a"}), Request(2, Event{ID: "a"}))
	again := h.append(Request(1, Event{Partition: 1, ID: "a"}))
	if len(got[0].Duplicates)+len(got[1].Duplicates) != 0 || len(again[0].Duplicates) != 1 {
		h.t.Errorf("first %+v, again %+v", got, again)
	}
}

func concurrentCopies(h *harness) {
	h.declare(1, settings(4))
	const senders, ids = 8, 200
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := map[int]stream.Place{}
	told := map[int]map[stream.Place]bool{}
	for s := range senders {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(s), 1))
			for _, i := range rng.Perm(ids) {
				r := Request(1, Event{Partition: stream.Partition(s % 4), ID: fmt.Sprint(i), Value: int64(i)})
				got, err := h.Log.Append(h.ctx(), []*stream.Events{r})
				if err != nil {
					h.t.Error(err)
					return
				}
				mu.Lock()
				if told[i] == nil {
					told[i] = map[stream.Place]bool{}
				}
				if rs := got[0].Ranges; len(rs) == 1 {
					if _, twice := accepted[i]; twice {
						h.t.Errorf("id %d accepted twice", i)
					}
					accepted[i] = stream.Place{Partition: rs[0].Partition, Offset: rs[0].First}
					told[i][accepted[i]] = true
				} else {
					told[i][got[0].Duplicates[0].Of] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range ids {
		if len(told[i]) != 1 {
			h.t.Errorf("id %d: told to lie at %v", i, told[i])
		}
	}
	if s := stat(h, 1); s.Accepted != ids || s.Duplicates != (senders-1)*ids {
		h.t.Errorf("accepted %d, duplicates %d", s.Accepted, s.Duplicates)
	}
}

func severalStreams(h *harness) {
	for id := range stream.ID(3) {
		h.declare(id+1, settings(1))
	}
	want := ""
	for i := range int64(600) {
		id := stream.ID(i*i%3 + 1)
		h.append(Request(id, Event{Value: i}))
		if id != 3 {
			want += fmt.Sprintf(" %d/0@%d:%d", id, stat(h, id).Accepted-1, i)
		}
	}
	for range 2 {
		got := h.entries(3, 1, 2)
		h.expect("two of three", " "+text(got), want)
		for i := range got[1:] {
			if got[i].Sequence() >= got[i+1].Sequence() {
				h.t.Fatalf("sequence %d before %d", got[i].Sequence(), got[i+1].Sequence())
			}
		}
		h.reopen()
	}
	if !h.features.TotalOrder {
		return
	}
	both := h.append(Request(3, Event{Value: 1}), Request(1, Event{Value: 2}), Request(2, Event{Value: 3}))
	last := h.entries(both[0].Sequence-3, 3, 2, 1)
	var order []stream.ID
	for _, e := range last {
		order = append(order, e.Stream())
	}
	if !slices.Equal(order, []stream.ID{1, 2, 3}) {
		h.t.Errorf("one commit's batches came as %v", order)
	}
}

func readerGoesOn(h *harness) {
	h.declare(1, settings(1))
	h.declare(2, settings(1))
	r := h.Log.Read([]stream.ID{1, 2, 2}, 2)
	defer func() { _ = r.Close() }()
	for i := range int64(5) {
		if _, ok, err := r.Next(); ok || err != nil {
			h.t.Fatalf("an entry before it was appended: %v, %v", ok, err)
		}
		id := stream.ID(i%2 + 1)
		h.append(Request(id, Event{Value: i}))
		e, ok, err := r.Next()
		if err != nil || !ok || e.Batch.Columns[0].I64[0] != i {
			h.t.Fatalf("entry %d: %+v, %v, %v", i, e, ok, err)
		}
	}
}

func concurrentRequests(h *harness) {
	h.declare(1, settings(3))
	const senders, each, size = 6, 40, 7
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				var events []Event
				for k := range size {
					events = append(events, Event{Partition: stream.Partition(k % 3), Value: int64(s*1_000_000 + i*100 + k)})
				}
				got, err := h.Log.Append(h.ctx(), []*stream.Events{Request(1, events...)})
				if err != nil {
					h.t.Error(err)
					return
				}
				for _, rg := range got[0].Ranges {
					batches, err := h.Log.Slice(1, rg.Partition, rg.First, int(rg.Last-rg.First)+1)
					if err != nil || len(batches) == 0 {
						h.t.Errorf("what was acknowledged can't be read: %v", err)
						return
					}
					b := batches[0]
					if v := b.Columns[0].I64[rg.First-b.Base]; v != int64(s*1_000_000+i*100+int(rg.Partition)) {
						h.t.Errorf("at %+v lies %d", rg, v)
					}
				}
			}
		})
	}
	wg.Wait()
	requests, next := map[int64]stream.Sequence{}, map[stream.Partition]stream.Offset{}
	for _, e := range h.entries(1, 1) {
		b := e.Batch
		if b.Base != next[b.Partition] {
			h.t.Fatalf("partition %d: a batch at %d after %d", b.Partition, b.Base, next[b.Partition])
		}
		next[b.Partition] += stream.Offset(b.Len)
		for _, v := range b.Columns[0].I64 {
			if first, ok := requests[v/100]; ok && b.Sequence > first+2 {
				h.t.Errorf("request %d lies in batches %d and %d, of two commits", v/100, first, b.Sequence)
			} else if !ok {
				requests[v/100] = b.Sequence
			}
		}
	}
	if len(requests) != senders*each {
		h.t.Errorf("%d requests found", len(requests))
	}
}

func appendTime(h *harness) { // W8
	h.declare(1, settings(1))
	for _, step := range []time.Duration{0, time.Second, -time.Hour, 2 * time.Hour, -24 * 365 * time.Hour, 0} {
		h.clock.Step(step)
		h.append(Request(1, Event{}))
		h.reopen()
	}
	last := stream.Micros(0)
	for _, e := range h.entries(0, 1) {
		if e.AppendTime() < last {
			h.t.Errorf("append time %d after %d", e.AppendTime(), last)
		}
		last = e.AppendTime()
	}
	if want := At(time.Hour + time.Second); last != want {
		h.t.Errorf("last append time %d, want %d", last, want)
	}
}

func countedTime(h *harness) { // W1
	h.declare(1, settings(1))
	h.append(Request(1, Event{Time: At(-time.Hour)}, Event{Time: At(3 * time.Second)}, Event{Time: At(-time.Minute)}))
	if p := stat(h, 1).Partitions[0]; !p.HasCounted || p.MaxCounted != At(3*time.Second) {
		h.t.Errorf("%+v", p)
	}
	h.append(Request(1, Event{Time: At(time.Hour)}))
	h.reopen()
	if p := stat(h, 1).Partitions[0]; p.MaxCounted != At(5*time.Second) {
		h.t.Errorf("after an event of a fast clock: %+v", p)
	}
}

func idle(h *harness) { // W4
	h.declare(1, settings(2))
	never := settings(1)
	never.IdleTimeout = 0
	h.declare(2, never)
	h.clock.Pass(29 * time.Second)
	h.append(Request(1, Event{Partition: 1}))
	h.CheckTimers()
	h.expect("before the time-out", text(h.entries(3, 1, 2)), "")
	h.clock.Pass(time.Second)
	h.CheckTimers()
	h.CheckTimers()
	h.expect("a partition that never had an event", text(h.entries(3, 1, 2)), "1/0-idle")
	h.clock.Step(time.Hour) // the timers are monotonic
	h.CheckTimers()
	h.clock.Pass(29 * time.Second)
	h.CheckTimers()
	h.expect("both", text(h.entries(3, 1, 2)), "1/0-idle 1/1-idle")
	h.append(Request(1, Event{Value: 1}))
	if p := stat(h, 1).Partitions; p[0].Idle || !p[1].Idle {
		h.t.Errorf("after an event in partition 0: %+v", p)
	}
	h.clock.Pass(30 * time.Second)
	h.CheckTimers()
	h.expect("again", text(h.entries(5, 1, 2)), "1/0@0:1 1/0-idle")
}

func idleRestart(h *harness) { // W4
	h.declare(1, settings(2))
	h.clock.Pass(20 * time.Second)
	h.append(Request(1, Event{Partition: 1}))
	h.clock.Pass(10 * time.Second)
	h.CheckTimers()
	h.reopen()
	if p := stat(h, 1).Partitions; !p[0].Idle || p[1].Idle {
		h.t.Errorf("after a restart: %+v", p)
	}
	h.clock.Pass(29 * time.Second)
	h.CheckTimers()
	h.expect("the timer began again at the start", text(h.entries(2, 1)), "1/0-idle")
	h.clock.Pass(time.Second)
	h.CheckTimers()
	h.expect("and ended", text(h.entries(2, 1)), "1/0-idle 1/1-idle")
}

func growth(h *harness) { // R6
	h.declare(1, settings(1))
	h.declare(1, settings(3))
	h.append(Request(1, Event{Partition: 2, Value: 5}))
	h.reopen()
	h.expect("log", text(h.entries(0, 1)), "1/partitions=1 1/partitions=3 1/2@0:5")
	if p := stat(h, 1).Partitions; p[0].Idle || !p[1].Idle || p[2].Idle {
		h.t.Errorf("%+v", p)
	}
	if err := h.Log.Declare(h.ctx(), 1, settings(2)); err == nil {
		h.t.Error("fewer partitions were taken")
	}
}

func clockWanted(h *harness) { // W7
	h.declare(1, settings(1))
	tick := func(d time.Duration) {
		h.clock.Pass(d)
		h.CheckTimers()
	}
	tick(30 * time.Second)
	tick(time.Minute)
	h.expect("nobody wants it", text(h.entries(1, 1)), "1/0-idle")
	h.Log.WantClock(1, "a", true)
	h.Log.WantClock(1, "b", true)
	tick(0)
	tick(999 * time.Millisecond)
	tick(time.Millisecond)
	h.expect("at most one a second", text(h.entries(2, 1)), "1/clock+1m30s 1/clock+1m31s")
	h.Log.WantClock(1, "a", false)
	tick(500 * time.Millisecond)
	h.append(Request(1, Event{Value: 1}))
	tick(500 * time.Millisecond)
	tick(500 * time.Millisecond)
	h.expect("a second after the last record", text(h.entries(4, 1)), "1/0@0:1 1/clock+1m32.5s")
	h.Log.WantClock(1, "b", false)
	tick(2 * time.Second)
	h.expect("the last wish is taken back", text(h.entries(6, 1)), "")
	h.reopen()
	h.Log.WantClock(1, "a", true)
	tick(29 * time.Second)
	h.expect("none in the first idle_timeout", text(h.entries(6, 1)), "")
}

func advance(h *harness) { // W3
	h.declare(1, settings(2))
	for _, to := range []time.Duration{time.Minute, time.Second, time.Minute, time.Hour} {
		if _, err := h.Log.Advance(h.ctx(), 1, At(to)); err != nil {
			h.t.Error(err)
		}
		h.reopen()
	}
	h.expect("log", text(h.entries(1, 1)), "1/advance+1m0s 1/advance+1h0m0s")
	if s := stat(h, 1); !s.HasAdvance || s.Advance != At(time.Hour) {
		h.t.Errorf("%+v", s)
	}
}

func deadLetters(h *harness) {
	h.declare(1, settings(1))
	r := Request(1, Event{Value: 1})
	r.DeadLetters = []stream.DeadLetter{{Origin: "ingest", Code: "bad_time", Reason: "ts: not a timestamp", Raw: []byte("\x00{")}, {Origin: "ingest", Code: "x"}}
	got := h.append(r)[0]
	h.expect("numbers", fmt.Sprint(got.DeadLetters), "[1 2]")
	only := Request(1)
	only.DeadLetters = []stream.DeadLetter{{Origin: "group", Group: "g", Place: &stream.Place{Partition: 0, Offset: 0}, Attempts: 5}}
	h.append(only)
	h.reopen()
	list, err := h.Log.DeadLetters(1, 0, 2)
	if err != nil || len(list) != 2 || string(list[0].Raw) != "\x00{" || list[0].Reason != "ts: not a timestamp" || list[0].FirstSeen != At(0) {
		h.t.Errorf("%+v, %v", list, err)
	}
	for _, number := range []uint64{1, 1, 99} {
		if err := h.Log.FailDeadLetter(h.ctx(), 1, number); err != nil {
			h.t.Error(err)
		}
	}
	h.reopen()
	if again, err := h.Log.DeadLetters(1, 0, 1); err != nil || again[0].Attempts != 2 || again[0].FirstSeen != At(0) || string(again[0].Raw) != "\x00{" {
		h.t.Errorf("failed attempts: %+v, %v", again, err)
	}
	if err := h.Log.DropDeadLetter(h.ctx(), 1, 2); err != nil {
		h.t.Error(err)
	}
	rest, err := h.Log.DeadLetters(1, 1, 10)
	if err != nil || len(rest) != 1 || rest[0].Number != 3 || rest[0].Group != "g" || *rest[0].Place != (stream.Place{}) {
		h.t.Errorf("%+v, %v", rest, err)
	}
	if s := stat(h, 1); s.DeadLetters != 3 || s.Accepted != 1 {
		h.t.Errorf("%+v", s)
	}
}

func remembered(h *harness) {
	h.declare(1, settings(1))
	key := stream.IdempotencyKey{1, 2, 3}
	send := func() error {
		r := Request(1, Event{Value: 1}, Event{Value: 2})
		r.Idempotency = &stream.Idempotency{Key: key, BodySum: [32]byte{9}, Answer: func(a []stream.Appended) []byte {
			return fmt.Appendf(nil, "%v", a[0].Ranges)
		}}
		_, err := h.Log.Append(h.ctx(), []*stream.Events{r})
		return err
	}
	if _, ok, err := h.Log.Remembered(key); ok || err != nil {
		h.t.Errorf("before: %v %v", ok, err)
	}
	if err := send(); err != nil {
		h.t.Fatal(err)
	}
	for range 2 {
		a, ok, err := h.Log.Remembered(key)
		if !ok || err != nil || string(a.Body) != "[{0 0 1}]" || a.BodySum != [32]byte{9} {
			h.t.Errorf("%s %v %v", a.Body, ok, err)
		}
		h.reopen()
	}
	if err := send(); !errors.Is(err, stream.ErrRemembered) {
		h.t.Errorf("the same key again: %v", err)
	}
	if s := stat(h, 1); s.Accepted != 2 {
		h.t.Errorf("accepted %d", s.Accepted)
	}
	h.clock.Pass(24 * time.Hour)
	if _, ok, _ := h.Log.Remembered(key); ok {
		h.t.Error("remembered after 24 h")
	}
	if err := send(); err != nil {
		h.t.Errorf("after 24 h: %v", err)
	}
}

func dropped(h *harness) {
	h.declare(1, settings(1))
	h.declare(2, settings(1))
	r := Request(1, Event{Value: 1, ID: "a"})
	r.DeadLetters = []stream.DeadLetter{{Code: "x"}}
	h.append(r)
	reading := h.Log.Read([]stream.ID{1}, 0)
	defer func() { _ = reading.Close() }()
	if err := h.Log.Drop(h.ctx(), 1); err != nil {
		h.t.Fatal(err)
	}
	if err := h.Log.Drop(h.ctx(), 1); err != nil {
		h.t.Errorf("again: %v", err)
	}
	if _, ok, err := reading.Next(); ok || err != nil {
		h.t.Errorf("a reader of a dropped stream: %v %v", ok, err)
	}
	for range 2 {
		if _, err := h.Log.Stats(1); !errors.Is(err, stream.ErrUnknownStream) {
			h.t.Errorf("stats: %v", err)
		}
		if got := text(h.entries(0, 1, 2)); got != "2/partitions=1" {
			h.t.Errorf("log: %s", got)
		}
		h.reopen()
	}
	end := h.Log.End()
	h.declare(1, settings(1))
	got := h.append(Request(1, Event{Value: 2, ID: "a"}))[0]
	if len(got.Duplicates) != 0 || got.Ranges[0].First != 0 || got.Sequence <= end {
		h.t.Errorf("a new stream remembers: %+v", got)
	}
	if list, err := h.Log.DeadLetters(1, 0, 10); len(list) != 0 || err != nil {
		h.t.Errorf("dead letters %+v, %v", list, err)
	}
}

func slice(h *harness) {
	h.declare(1, settings(2))
	for i := range int64(10) {
		h.append(Request(1, Event{Value: 3 * i}, Event{Value: 3*i + 1}, Event{Value: 3*i + 2}))
	}
	for range 2 {
		for _, c := range []struct {
			from stream.Offset
			max  int
			want string
		}{
			{0, 1, "0"}, {4, 1, "3"}, {4, 3, "3 6"}, {29, 100, "27"}, {30, 100, ""}, {31, 1, ""}, {0, 1000, "0 3 6 9 12 15 18 21 24 27"},
		} {
			got, err := h.Log.Slice(1, 0, c.from, c.max)
			if err != nil {
				h.t.Fatal(err)
			}
			var bases []string
			events := 0
			for _, b := range got {
				bases = append(bases, fmt.Sprint(b.Base))
				events += b.Len - int(max(0, c.from-b.Base))
			}
			text := strings.Join(bases, " ")
			if !strings.HasPrefix(c.want, text) || (text == "") != (c.want == "") || events < min(c.max, int(max(0, 30-c.from))) {
				h.t.Errorf("from %d, %d events: batches at %s, want %s", c.from, c.max, text, c.want)
			}
		}
		h.reopen()
	}
	var gone *stream.OffsetGone
	if _, err := h.Log.Slice(1, 0, -1, 1); !errors.As(err, &gone) || gone.First != 0 {
		h.t.Errorf("below the first: %v", err)
	}
	if got, err := h.Log.Slice(1, 1, 0, 1); len(got) != 0 || err != nil {
		h.t.Errorf("an empty partition: %v %v", got, err)
	}
}

func offsetAt(h *harness) {
	h.declare(1, settings(1))
	for range 20 {
		h.append(Request(1, Event{}, Event{}, Event{}))
		h.clock.Pass(time.Second)
	}
	for i := range 20 {
		for _, c := range []struct {
			off  time.Duration
			want int
		}{{-time.Microsecond, 3 * i}, {0, 3 * i}, {time.Microsecond, 3*i + 3}} {
			got, err := h.Log.OffsetAt(1, 0, At(time.Duration(i)*time.Second+c.off))
			if err != nil || got != stream.Offset(c.want) {
				h.t.Errorf("at %ds%+v: offset %d, want %d, %v", i, c.off, got, c.want, err)
			}
		}
	}
}

func watch(h *harness) {
	h.declare(1, settings(1))
	h.declare(2, settings(1))
	one, endOne := h.Log.Watch(1)
	all, endAll := h.Log.Watch()
	heard := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	h.append(Request(2, Event{}))
	h.append(Request(2, Event{}))
	if heard(one) || !heard(all) || heard(all) {
		h.t.Error("commits on another stream: one must not hear, all hears once")
	}
	h.append(Request(1, Event{}))
	if !heard(one) || !heard(all) {
		h.t.Error("a commit was not heard of")
	}
	endOne()
	endAll()
	h.append(Request(1, Event{}))
	if heard(one) || heard(all) {
		h.t.Error("heard after the end")
	}
}

func memoryAck(h *harness) {
	h.declare(1, settings(1))
	for i := range int64(50) {
		r := Request(1, Event{Value: i})
		r.NoSync = i%2 == 0
		got := h.append(r)[0]
		if got.Ranges[0].First != stream.Offset(i) {
			h.t.Fatalf("event %d lies at %+v", i, got.Ranges)
		}
	}
	h.reopen()
	if s := stat(h, 1); s.Accepted != 50 {
		h.t.Errorf("after a clean end: %d", s.Accepted)
	}
}

func unknown(h *harness) {
	_, err := h.Log.Append(h.ctx(), []*stream.Events{Request(9, Event{})})
	_, adv := h.Log.Advance(h.ctx(), 9, 1)
	if !errors.Is(err, stream.ErrUnknownStream) || !errors.Is(adv, stream.ErrUnknownStream) {
		h.t.Errorf("append %v, advance %v", err, adv)
	}
	h.declare(1, settings(1))
	if _, err := h.Log.Append(h.ctx(), []*stream.Events{Request(1, Event{Partition: 1})}); err == nil {
		h.t.Error("an event of partition 1 of 1 was taken")
	}
	h.append(Request(1, Event{}))
}

func cancelled(h *harness) {
	h.declare(1, settings(1))
	ctx, cancel := context.WithCancel(h.ctx())
	cancel()
	taken := 0
	for range 20 {
		_, err := h.Log.Append(ctx, []*stream.Events{Request(1, Event{}, Event{})})
		var p *problem.Problem
		switch {
		case err == nil:
			taken++
		case !errors.Is(err, context.Canceled) && !errors.As(err, &p):
			h.t.Error(err)
		}
	}
	h.append(Request(1, Event{}))
	if s := stat(h, 1); s.Accepted != int64(2*taken+1) {
		h.t.Errorf("%d taken, %d accepted", taken, s.Accepted)
	}
}

func stat(h *harness, id stream.ID) stream.Stats {
	h.t.Helper()
	s, err := h.Log.Stats(id)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}
