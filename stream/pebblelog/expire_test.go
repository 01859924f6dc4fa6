package pebblelog_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/kv"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// TestIDsAndAnswersFallHourByHour: what is behind its window leaves the store, nothing before.
func TestIDsAndAnswersFallHourByHour(t *testing.T) {
	t.Parallel()
	store, err := kv.Open("kv", kv.Options{FS: vfs.NewMem(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	clock := logtest.NewClock()
	l, err := pebblelog.Open(store, pebblelog.Options{Clock: clock.Now, Monotonic: clock.Monotonic, TimerPeriod: -1, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(l.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	}()
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "s", Partitions: 1, DedupeWindow: 2 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	count := func(space kv.Space) (n int) {
		it := store.Iter([]byte{byte(space)}, kv.PrefixEnd([]byte{byte(space)}))
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for hour := range 30 {
		r := logtest.Request(1, logtest.Event{ID: time.Duration(hour).String()})
		r.Idempotency = &stream.Idempotency{Key: stream.IdempotencyKey{byte(hour), 1}, Answer: func([]stream.Appended) []byte { return []byte("answer") }}
		if _, err := l.Append(t.Context(), []*stream.Events{r}); err != nil {
			t.Fatal(err)
		}
		// At noon sharp the event two hours ago has just left the window, but its hour began then.
		if ids, want := count(kv.IDs), min(hour+1, 3); ids != want {
			t.Errorf("hour %d: %d ids in the store, want %d", hour, ids, want)
		}
		if answers, want := count(kv.Idempotency), min(hour+1, 25); answers != want {
			t.Errorf("hour %d: %d answers in the store, want %d", hour, answers, want)
		}
		clock.Pass(time.Hour)
	}
}

// TestRequestGreaterThanTheQueueIsTakenAlone: a bound never makes a lawful request impossible.
func TestRequestGreaterThanTheQueueIsTakenAlone(t *testing.T) {
	t.Parallel()
	l := openWith(t, vfs.NewMem(), pebblelog.Options{QueueBytes: 1, CommitBytes: 1, TailBytes: 1})
	declare(t, l, 1)
	var events []logtest.Event
	for i := range int64(2000) {
		events = append(events, logtest.Event{Value: i})
	}
	for range 3 {
		got, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, events...)})
		if err != nil || got[0].Ranges[0].Last-got[0].Ranges[0].First != 1999 {
			t.Fatal(got, err)
		}
	}
	for _, e := range logtest.ReadAll(t, l, 1, 1) {
		if e.Batch.Len != 2000 {
			t.Errorf("a request was split: a batch of %d events", e.Batch.Len)
		}
	}
}

// TestTooManyIDsShortenTheWindow: dedupe_max forgets the oldest hours first, and says so.
func TestTooManyIDsShortenTheWindow(t *testing.T) {
	t.Parallel()
	clock := logtest.NewClock()
	fs := vfs.NewMem()
	tight := func(o *pebblelog.Options) { o.DedupeMax = 1000 } // about 20 ids
	l := mustOpen(t, fs, clock, tight)
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "s", Partitions: 1, DedupeWindow: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	send := func(hour, n int) (duplicates int) {
		t.Helper()
		var events []logtest.Event
		for i := range n {
			events = append(events, logtest.Event{ID: fmt.Sprint(hour, "/", i)})
		}
		got, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, events...)})
		if err != nil {
			t.Fatal(err)
		}
		return len(got[0].Duplicates)
	}
	shortened := func() bool {
		t.Helper()
		s, err := l.Stats(1)
		if err != nil {
			t.Fatal(err)
		}
		return s.DedupeShortened
	}
	send(0, 8)
	clock.Pass(time.Hour)
	send(1, 8)
	if shortened() || send(0, 8) != 8 {
		t.Error("16 ids are too many")
	}
	clock.Pass(time.Hour)
	send(2, 8) // 24: the first hour falls with the next commit
	send(2, 1)
	if !shortened() || send(1, 8) != 8 {
		t.Error("the second hour was forgotten too, or nobody says that the first was")
	}
	if send(0, 8) != 0 {
		t.Error("the first hour is still remembered")
	}
	mustClose(t, l)
	l = mustOpen(t, fs, clock)
	clock.Pass(48 * time.Hour)
	send(3, 1)
	send(3, 2)
	if shortened() {
		t.Error("with room again the window is still short")
	}
	mustClose(t, l)
}
