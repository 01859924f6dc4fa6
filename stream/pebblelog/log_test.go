package pebblelog_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"tidemark/storage/kv"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opener opens logs over one in-memory file system, so that they can be opened again.
func opener(t *testing.T) logtest.Opener {
	fs := vfs.NewMem()
	return func(c *logtest.Clock) logtest.Opened {
		store, err := kv.Open("kv", kv.Options{FS: fs, CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		l, err := pebblelog.Open(store, pebblelog.Options{Clock: c.Now, Monotonic: c.Monotonic, TimerPeriod: -1, KeepPeriod: -1, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		return logtest.Opened{Log: l, CheckTimers: l.CheckTimers, Keep: func() {
			if err := l.Keep(t.Context()); err != nil {
				t.Error(err)
			}
		}, Close: func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}}
	}
}

func TestPebblelogKeepsTheContract(t *testing.T) {
	t.Parallel()
	logtest.Run(t, opener, logtest.Features{TotalOrder: true})
}
