package pebblelog_test

import (
	"errors"
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
