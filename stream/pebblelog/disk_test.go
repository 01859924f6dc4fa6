package pebblelog_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// smallDisk is a file system in memory with room for so many bytes; a write beyond gets ENOSPC.
type smallDisk struct {
	*vfs.MemFS
	capacity atomic.Int64
	written  atomic.Int64 // since used was last counted
	used     atomic.Int64
	hit      atomic.Int64 // writes that found no space
}

func newSmallDisk(capacity int64) *smallDisk {
	d := &smallDisk{MemFS: vfs.NewMem()}
	d.capacity.Store(capacity)
	return d
}

// count adds up the sizes of all files.
func (d *smallDisk) count() int64 {
	d.written.Store(0)
	total := d.size("data")
	d.used.Store(total)
	return total
}

func (d *smallDisk) size(name string) (bytes int64) {
	info, err := d.Stat(name)
	switch {
	case err != nil:
		return 0
	case !info.IsDir():
		return info.Size()
	}
	names, err := d.List(name)
	if err != nil {
		return 0
	}
	for _, n := range names {
		bytes += d.size(name + "/" + n)
	}
	return bytes
}

func (d *smallDisk) take(n int) error {
	if d.used.Load()+d.written.Add(int64(n)) > d.capacity.Load() && d.count()+int64(n) > d.capacity.Load() {
		d.hit.Add(1)
		return syscall.ENOSPC
	}
	return nil
}

// leave makes the disk as large as what lies on it and so many bytes.
func (d *smallDisk) leave(free int64) { d.capacity.Store(d.count() + free) }

func (d *smallDisk) free() uint64 { return uint64(max(0, d.capacity.Load()-d.count())) }

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free(), TotalBytes: uint64(d.capacity.Load())}, nil
}

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.Create(name, c)
	return boundFile{f, d}, err
}

func (d *smallDisk) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.ReuseForWrite(old, name, c)
	return boundFile{f, d}, err
}

type boundFile struct {
	vfs.File
	d *smallDisk
}

func (f boundFile) Write(p []byte) (int, error) {
	if err := f.d.take(len(p)); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

// TestFullDiskStopsWritesOnlyAndHeals: P9, with flushes and compactions going on in the reserve.
func TestFullDiskStopsWritesOnlyAndHeals(t *testing.T) {
	t.Parallel()
	// The reserve is as large as what lies outside it: a compaction writes all anew before it frees.
	const capacity, reserve = 4 << 20, 2 << 20
	disk, clock := newSmallDisk(capacity), logtest.NewClock()
	var starved atomic.Bool // others take what a compaction frees
	free := func() (uint64, error) {
		if starved.Load() {
			return reserve - 1, nil
		}
		return disk.free(), nil
	}
	open := func() opened {
		t.Helper()
		return mustOpen(t, disk, clock, func(o *pebblelog.Options) {
			o.MinFree, o.Space = reserve, free
		})
	}
	l := open()
	if err := l.Declare(t.Context(), 1, stream.Settings{Name: "s", Partitions: 2, DedupeWindow: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	acked := 0
	send := func() error {
		var events []logtest.Event
		for k := range 20 {
			// Nothing that compresses.
			events = append(events, logtest.Event{Partition: stream.Partition(k % 2), Value: int64(acked), ID: fmt.Sprint(acked, "/", k, logtest.EventID(fmt.Sprint(acked, k, "a")), logtest.EventID(fmt.Sprint(acked, k, "b")))})
		}
		clock.Pass(time.Second)
		l.CheckTimers()
		_, err := l.Append(t.Context(), []*stream.Events{logtest.Request(1, events...)})
		if err == nil {
			acked += len(events)
		}
		return err
	}
	full := func(err error) bool {
		var p *problem.Problem
		return errors.As(err, &p) && p.Status == 503 && p.Code == "disk_full" && strings.Contains(p.Hint, "by itself")
	}
	readable := func(when string) {
		t.Helper()
		n := 0
		for _, e := range logtest.ReadAll(t, l.Log, 0, 1) {
			if e.Batch != nil {
				n += e.Batch.Len
			}
		}
		if n != acked {
			t.Errorf("%s: %d events can be read, %d were acknowledged", when, n, acked)
		}
	}
	var err error
	for err == nil && acked < 1_000_000 {
		err = send()
	}
	if !full(err) {
		t.Fatalf("after %d events: %v", acked, err)
	}
	readable("full")
	if n := disk.hit.Load(); n > 0 {
		t.Errorf("%d writes found no space: the reserve was used up", n)
	}
	starved.Store(true)
	if err := send(); !full(err) {
		t.Errorf("still full: %v", err)
	}
	// A start on the full disk serves reads, and refuses the first write.
	mustClose(t, l)
	l = open()
	readable("started on a full disk")
	if err := send(); !full(err) {
		t.Errorf("started on a full disk: %v", err)
	}
	// A little more space is not enough: it would be full again at once.
	starved.Store(false)
	disk.leave(reserve + reserve/8)
	if err := send(); !full(err) {
		t.Errorf("with a little space: %v", err)
	}
	disk.leave(4 * reserve)
	if err := send(); err != nil {
		t.Errorf("with space again: %v", err)
	}
	readable("healed")
	mustClose(t, l)
}
