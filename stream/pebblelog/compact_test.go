package pebblelog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// keyed is one event of a compacted stream: no value is a tombstone, no key an event that stays.
type keyed struct {
	p     stream.Partition
	key   string
	value string // "": a null body
	time  stream.Micros
}

func keyedRequest(events []keyed) *stream.Events {
	r := &stream.Events{Stream: 1, Keys: row.NewVector(row.Scalar(row.Varchar), len(events))}
	v := row.NewVector(row.Scalar(row.Varchar), len(events))
	for _, e := range events {
		r.Partitions = append(r.Partitions, e.p)
		r.Times = append(r.Times, e.time)
		if e.key == "" {
			r.Keys.AppendNull()
		} else {
			r.Keys.AppendString(e.key)
		}
		raw := "null"
		if e.value == "" {
			v.AppendNull()
		} else {
			v.AppendString(e.value)
			raw = fmt.Sprintf(`{"v":%q}`, e.value)
		}
		r.RawData = append(r.RawData, raw...)
		r.RawEnds = append(r.RawEnds, uint32(len(r.RawData)))
	}
	r.Columns = []*row.Vector{v}
	return r
}

// compacted is a stream under compaction and all that was ever appended to it, in order.
type compacted struct {
	t     *testing.T
	l     opened
	clock *logtest.Clock
	all   []placed
	n     int
}

type placed struct {
	keyed
	place stream.Place
	at    stream.Micros
}

func newCompacted(t *testing.T, fs vfs.FS, partitions int) *compacted {
	t.Helper()
	c := &compacted{t: t, clock: logtest.NewClock()}
	c.l = mustOpen(t, fs, c.clock, func(o *pebblelog.Options) { o.TailBytes = 1 })
	set := stream.Settings{Name: "users", Partitions: partitions, MaxSkew: 5 * time.Second, Compact: true}
	if err := c.l.Declare(t.Context(), 1, set); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *compacted) send(events ...keyed) {
	c.t.Helper()
	for i := range events {
		c.n++
		if events[i].value == "+" {
			events[i].value = fmt.Sprint("v", c.n)
		}
		if events[i].time == 0 {
			events[i].time = c.clock.Now().UnixMicro()
		}
	}
	got, err := c.l.Append(c.t.Context(), []*stream.Events{keyedRequest(events)})
	if err != nil {
		c.t.Fatal(err)
	}
	next := map[stream.Partition]stream.Offset{}
	for _, r := range got[0].Ranges {
		next[r.Partition] = r.First
	}
	for p := range stream.Partition(8) { // the log's order: by partition within a request
		for _, e := range events {
			if e.p == p {
				c.all = append(c.all, placed{e, stream.Place{Partition: p, Offset: next[p]}, c.clock.Now().UnixMicro()})
				next[p]++
			}
		}
	}
}

func (c *compacted) keep() {
	c.t.Helper()
	if err := c.l.Keep(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// left is what the log gives of the stream, by sequence.
func left(t *testing.T, l *pebblelog.Log) (out []string, places []stream.Place) {
	t.Helper()
	for _, e := range logtest.ReadAll(t, l, 0, 1) {
		if b := e.Batch; b != nil {
			for i := range b.Len {
				key := "-"
				if !b.Keys.IsNull(i) {
					key = b.Keys.Str[i]
				}
				place := stream.Place{Partition: b.Partition, Offset: b.Offset(i)}
				out = append(out, fmt.Sprintf("%s@%d/%d=%s", key, place.Partition, place.Offset, b.Raw(i)))
				places = append(places, place)
			}
		}
	}
	return out, places
}

func (c *compacted) expect(want ...string) {
	c.t.Helper()
	if got, _ := left(c.t, c.l.Log); !slices.Equal(got, want) {
		c.t.Errorf("left\n  %q\nwant\n  %q", got, want)
	}
}

func TestCompactionKeepsTheLastEventOfEachKey(t *testing.T) { // B2
	t.Parallel()
	fs := vfs.NewMem()
	c := newCompacted(t, fs, 1)
	c.send(keyed{key: "a", value: "+"}, keyed{key: "b", value: "+"})
	c.send(keyed{value: "+"}) // no key: stays
	c.send(keyed{key: "a", value: "+"}, keyed{key: "c", value: "+"})
	c.send(keyed{key: "b", value: "+"})
	c.send(keyed{key: "a", value: "+"}) // the last batch is not touched
	before, err := c.l.Stats(1)
	if err != nil {
		t.Fatal(err)
	}
	c.keep()
	want := []string{`-@0/2={"v":"v3"}`, `c@0/4={"v":"v5"}`, `b@0/5={"v":"v6"}`, `a@0/6={"v":"v7"}`}
	c.expect(want...)
	stats, err := c.l.Stats(1)
	if err != nil {
		t.Fatal(err)
	}
	if p := stats.Partitions[0]; p.First != 0 || p.Next != 7 || p.Bytes >= before.Partitions[0].Bytes || stats.Accepted != 7 {
		t.Errorf("%+v", stats)
	}
	// By offset, also from one that is gone.
	for from, want := range map[stream.Offset]stream.Offset{0: 2, 2: 2, 3: 4, 5: 5, 6: 6} {
		got, err := c.l.Slice(1, 0, from, 1)
		if err != nil || len(got) == 0 || got[0].Offset(got[0].Index(from)) != want {
			t.Errorf("from offset %d: %+v, %v", from, got, err)
		}
	}
	mustClose(t, c.l)
	if said := check(fs); len(said) > 0 {
		t.Errorf("check: %q", said)
	}
	c.l = mustOpen(t, fs, c.clock)
	if lost := c.l.Lost(); len(lost) > 0 {
		t.Errorf("said to be lost: %q", lost)
	}
	c.expect(want...)
	mustClose(t, c.l)
}

func TestTombstoneStaysADayAndGoes(t *testing.T) {
	t.Parallel()
	c := newCompacted(t, vfs.NewMem(), 1)
	c.send(keyed{key: "a", value: "+"})
	c.send(keyed{key: "b", value: "+"})
	c.send(keyed{key: "a"})
	c.send(keyed{key: "z", value: "+"})
	c.keep()
	c.expect(`b@0/1={"v":"v2"}`, `a@0/2=null`, `z@0/3={"v":"v4"}`)
	c.clock.Pass(23 * time.Hour)
	c.send(keyed{key: "z", value: "+"})
	c.keep()
	if got, _ := left(t, c.l.Log); !slices.Contains(got, `a@0/2=null`) {
		t.Errorf("after 23 hours: %q", got)
	}
	c.clock.Pass(2 * time.Hour)
	c.send(keyed{key: "z", value: "+"})
	c.keep()
	if got, _ := left(t, c.l.Log); slices.Contains(got, `a@0/2=null`) {
		t.Errorf("after 25 hours: %q", got)
	}
	mustClose(t, c.l)
}

// TestCompactionLeavesTheWatermark: events that are gone moved their partition's watermark (W1).
func TestCompactionLeavesTheWatermark(t *testing.T) {
	t.Parallel()
	c := newCompacted(t, vfs.NewMem(), 1)
	early, late := logtest.At(-time.Hour), logtest.At(-time.Minute)
	c.send(keyed{key: "a", value: "+", time: late})
	c.send(keyed{key: "a", value: "+", time: early})
	c.send(keyed{key: "b", value: "+", time: early})
	c.send(keyed{key: "b", value: "+", time: early})
	c.keep()
	counted := stream.NoTime
	for _, e := range logtest.ReadAll(t, c.l.Log, 0, 1) {
		if b := e.Batch; b != nil {
			if b.Offsets != nil {
				counted = max(counted, b.Removed)
			}
			for i := range b.Len {
				counted = max(counted, b.Counted(i))
			}
			if b.Base == 1 && counted != late {
				t.Errorf("behind the batch that took over, the largest counted time is %d, want %d", counted, late)
			}
		}
	}
	if counted != late {
		t.Errorf("the largest counted time is %d, want %d", counted, late)
	}
	mustClose(t, c.l)
}

// TestCompactionOfRandomHistories compares with the plain rule, over restarts, crashes in the middle
// and keys that do not fit into one pass.
func TestCompactionOfRandomHistories(t *testing.T) {
	t.Parallel()
	rounds := 12
	if long() {
		rounds = 300
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(seedOf(t), uint64(round)))
		mem := vfs.NewCrashableMem()
		c := newCompacted(t, mem, 1+rng.IntN(3))
		partitions := 1
		if s, err := c.l.Stats(1); err == nil {
			partitions = len(s.Partitions)
		}
		for range 2 + rng.IntN(5) {
			for range 1 + rng.IntN(25) {
				var events []keyed
				for range 1 + rng.IntN(4) {
					k := keyed{p: stream.Partition(rng.IntN(partitions)), value: "+", time: logtest.At(time.Duration(rng.IntN(3600)) * time.Second)}
					if rng.IntN(8) > 0 {
						k.key = fmt.Sprint("k", rng.IntN(12)) // a key may lie in several partitions
					}
					if k.key != "" && rng.IntN(8) == 0 {
						k.value = ""
					}
					events = append(events, k)
				}
				c.send(events...)
			}
			switch rng.IntN(3) {
			case 0: // a crash in the middle of a pass
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- c.l.Keep(ctx) }()
				clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
				cancel()
				<-done
				mustClose(t, c.l)
				mem = clone
				c.l = mustOpen(t, clone, c.clock, func(o *pebblelog.Options) { o.TailBytes, o.CompactKeys = 1, 1+rng.IntN(20) })
				if lost := c.l.Lost(); len(lost) > 0 {
					t.Fatalf("round %d: said to be lost: %q", round, lost)
				}
			case 1:
				c.keep()
			}
			c.hold(round)
			c.clock.Pass(time.Duration(rng.IntN(30)) * time.Hour)
		}
		c.send(keyed{key: "the end", value: "+"})
		for range 40 { // as many passes as the bound on keys needs
			c.clock.Pass(2 * time.Hour)
			c.send(keyed{key: "the end", value: "+"})
			c.keep()
		}
		c.hold(round)
		mustClose(t, c.l)
		if said := check(mem); len(said) > 0 {
			t.Errorf("round %d: check: %q", round, said)
		}
		if t.Failed() {
			return
		}
	}
}

// hold checks what must be true of a stream at any moment of its compaction.
func (c *compacted) hold(round int) {
	c.t.Helper()
	got, places := left(c.t, c.l.Log)
	at := map[stream.Place]string{}
	for i, p := range places {
		at[p] = got[i]
	}
	last := map[string]int{}
	for i, e := range c.all {
		if e.key != "" {
			last[e.key] = i
		}
	}
	now := c.clock.Now().UnixMicro()
	order := 0
	for i, e := range c.all {
		text, there := at[e.place]
		raw := "null"
		if e.value != "" {
			raw = fmt.Sprintf(`{"v":%q}`, e.value)
		}
		key := e.key
		if key == "" {
			key = "-"
		}
		if want := fmt.Sprintf("%s@%d/%d=%s", key, e.place.Partition, e.place.Offset, raw); there && text != want {
			c.t.Fatalf("round %d: at %s lies %s, want %s", round, e.place, text, want)
		}
		mayGo := e.key != "" && (last[e.key] > i || e.value == "" && now-e.at >= (24*time.Hour).Microseconds())
		if !there && !mayGo {
			c.t.Fatalf("round %d: %s of key %q is gone and must stay", round, e.place, e.key)
		}
		if there {
			for places[order] != e.place {
				order++ // left goes by sequence, as c.all does
				if order == len(places) {
					c.t.Fatalf("round %d: %s is out of order", round, e.place)
				}
			}
		}
	}
	// A key whose tombstone is gone has nothing left that it removed.
	for key, i := range last {
		if e := c.all[i]; e.value == "" && at[e.place] == "" {
			for _, o := range c.all[:i] {
				if o.key == key && at[o.place] != "" {
					c.t.Fatalf("round %d: the tombstone of %q is gone, and %s is still there", round, key, o.place)
				}
			}
		}
	}
	stats, err := c.l.Stats(1)
	if err != nil {
		c.t.Fatal(err)
	}
	for p, st := range stats.Partitions { // both roads give the same
		batches, err := c.l.Slice(1, stream.Partition(p), st.First, 1<<30)
		if err != nil {
			c.t.Fatal(err)
		}
		n := 0
		for _, b := range batches {
			n += b.Len
		}
		for place := range at {
			if place.Partition == stream.Partition(p) {
				n--
			}
		}
		if n != 0 {
			c.t.Fatalf("round %d: partition %d has %d events more by offset than by sequence", round, p, n)
		}
	}
}

// TestReaderGoesOnWhileItsStreamIsCompacted: what it has looked up may be gone when it comes there.
func TestReaderGoesOnWhileItsStreamIsCompacted(t *testing.T) {
	t.Parallel()
	c := newCompacted(t, vfs.NewMem(), 1)
	for range 50 {
		c.send(keyed{key: "a", value: "+"})
	}
	r := c.l.Read([]stream.ID{1}, 0)
	for range 2 { // the record of its partitions, the first event
		if _, ok, err := r.Next(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	c.keep()
	e, ok, err := r.Next()
	if err != nil || !ok || e.Batch.Base != 49 {
		t.Errorf("%+v, %v, %v", e, ok, err)
	}
	mustClose(t, c.l)
}
