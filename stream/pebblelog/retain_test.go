package pebblelog_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// minutes writes an event a minute, in turn to the partitions of stream 1.
func minutes(t *testing.T, l opened, clock *logtest.Clock, n, partitions int) {
	t.Helper()
	for i := range n {
		e := logtest.Event{Partition: stream.Partition(i % partitions), Value: int64(i), ID: fmt.Sprint(clock.Now(), i)}
		if _, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, e)}); err != nil {
			t.Fatal(err)
		}
		clock.Pass(time.Minute)
	}
}

func mustOpen(t *testing.T, fs vfs.FS, clock *logtest.Clock, change ...func(*pebblelog.Options)) opened {
	t.Helper()
	l, err := openOn(fs, clock, append(change, func(o *pebblelog.Options) { o.KeepPeriod = -1 })...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustClose(t *testing.T, l opened) {
	t.Helper()
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

func TestOldEventsAreRemovedByAge(t *testing.T) {
	t.Parallel()
	clock, fs := logtest.NewClock(), vfs.NewMem()
	l := mustOpen(t, fs, clock, func(o *pebblelog.Options) { o.TailBytes = 1 })
	set := stream.Settings{Name: "checkouts", Partitions: 2, DedupeWindow: 24 * time.Hour, IdleAdvance: true, Retention: stream.Retention{Age: time.Hour}}
	if err := l.Declare(t.Context(), 1, set); err != nil {
		t.Fatal(err)
	}
	minutes(t, l, clock, 30, 2)
	behind := l.Read([]stream.ID{1}, 3) // a reader that stands in the middle
	if e, ok, err := behind.Next(); err != nil || !ok || e.Sequence() != 4 {
		t.Fatalf("%+v, %v, %v", e, ok, err)
	}
	minutes(t, l, clock, 60, 2)
	before, err := l.Stats(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and after a restart
		after, err := l.Stats(1)
		if err != nil {
			t.Fatal(err)
		}
		// It is 13:30; the events of 12:00 to 12:29 are older than an hour.
		for p, st := range after.Partitions {
			if st.First != 15 || st.Next != 45 || st.Bytes >= before.Partitions[p].Bytes || st.MaxCounted != before.Partitions[p].MaxCounted {
				t.Errorf("partition %d: %+v, before %+v", p, st, before.Partitions[p])
			}
			var gone *stream.OffsetGone
			if _, err := l.Slice(1, stream.Partition(p), 14, 1); !errors.As(err, &gone) || gone.First != 15 {
				t.Errorf("an offset that is gone: %v", err)
			}
			if got, err := l.Slice(1, stream.Partition(p), 15, 100); err != nil || len(got) != 30 {
				t.Errorf("%d batches, %v", len(got), err)
			}
		}
		if after.Accepted != 90 {
			t.Errorf("%d accepted", after.Accepted)
		}
		entries := logtest.ReadAll(t, l.Log, 0, 1)
		if len(entries) != 60 || entries[0].Batch.Base != 15 || entries[0].AppendTime() != logtest.At(30*time.Minute) {
			t.Errorf("%d entries, the first %+v", len(entries), entries[0].Batch)
		}
		// W1: what was removed leaves its mark.
		mark := l.Read([]stream.ID{1}, 0).Start(1)
		if mark.Sequence != 31 || mark.AppendTime != logtest.At(29*time.Minute) || !slices.Equal(mark.First, []stream.Offset{15, 15}) ||
			mark.Parts[0].MaxCounted != logtest.At(28*time.Minute) || mark.Parts[1].MaxCounted != logtest.At(29*time.Minute) ||
			mark.Value.At(1_000_000) != logtest.At(28*time.Minute-time.Second) {
			t.Errorf("mark %+v", mark)
		}
		if behind != nil {
			var trimmed *stream.Trimmed
			for range 2 {
				if _, _, err := behind.Next(); err == nil {
					continue // what it had looked up already
				} else if !errors.As(err, &trimmed) || trimmed.Name != "checkouts" || trimmed.Sequence != 31 || trimmed.First[1] != 15 {
					t.Errorf("a reader that was overtaken: %v", err)
				}
			}
			behind = nil
		}
		// An id whose event is gone is remembered for the whole window.
		r := logtest.Request(1, logtest.Event{ID: fmt.Sprint(logtest.Noon, 0)})
		if got, err := l.Append(t.Context(), []*stream.Events{r}); err != nil || len(got[0].Duplicates) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := l.Keep(t.Context()); err != nil {
			t.Error(err)
		}
		mustClose(t, l)
		l = mustOpen(t, fs, clock)
	}
	// Everything falls; the offsets go on.
	clock.Pass(3 * time.Hour)
	if err := l.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpen(t, fs, clock)
	if lost := l.Lost(); len(lost) > 0 {
		t.Errorf("said to be lost: %q", lost)
	}
	minutes(t, l, clock, 1, 1)
	entries := logtest.ReadAll(t, l.Log, 0, 1)
	if len(entries) != 1 || entries[0].Batch.Base != 45 {
		t.Errorf("%d entries, the first %+v", len(entries), entries[0].Batch)
	}
	if mark, err := l.Mark(1); err != nil || mark.Sequence != l.End()-1 {
		t.Errorf("mark %+v, %v", mark, err)
	}
	mustClose(t, l)
}

func TestOldEventsAreRemovedByBytes(t *testing.T) {
	t.Parallel()
	clock := logtest.NewClock()
	l := mustOpen(t, vfs.NewMem(), clock)
	defer mustClose(t, l)
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "s", Partitions: 3, Retention: stream.Retention{Bytes: 2000}}); err != nil {
		t.Fatal(err)
	}
	minutes(t, l, clock, 100, 3)
	if err := l.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	stats, err := l.Stats(1)
	if err != nil {
		t.Fatal(err)
	}
	bytes, events := int64(0), 0
	for _, p := range stats.Partitions {
		bytes += p.Bytes
		events += int(p.Next - p.First)
	}
	entries := logtest.ReadAll(t, l.Log, 0, 1)
	if bytes > 2000 || bytes < 1500 || len(entries) != events || entries[0].Sequence() != l.End()-stream.Sequence(events)+1 {
		t.Errorf("%d bytes and %d events are left of 100, %d can be read", bytes, events, len(entries))
	}
	// A bound below one batch keeps the newest.
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "s", Partitions: 3, Retention: stream.Retention{Bytes: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if entries := logtest.ReadAll(t, l.Log, 0, 1); len(entries) != 1 || entries[0].Sequence() != l.End() {
		t.Errorf("%d entries are left", len(entries))
	}
}

// TestClockThatJumpsRemovesNothing: P12.
func TestClockThatJumpsRemovesNothing(t *testing.T) {
	t.Parallel()
	clock := logtest.NewClock()
	l := mustOpen(t, vfs.NewMem(), clock)
	defer mustClose(t, l)
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "s", Partitions: 1, Retention: stream.Retention{Age: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	minutes(t, l, clock, 10, 1)
	for _, step := range []time.Duration{365 * 24 * time.Hour, -2 * 365 * 24 * time.Hour, 365 * 24 * time.Hour} {
		clock.Step(step)
		minutes(t, l, clock, 1, 1)
		if err := l.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if stats, err := l.Stats(1); err != nil || stats.Partitions[0].First != 0 || stats.Partitions[0].Next != 13 {
		t.Errorf("%+v, %v", stats, err)
	}
}
