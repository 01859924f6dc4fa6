package main

import "testing"

// The parts of --memory never add up to more than it, and the defaults of a usual machine stay.
func TestMemoryIsSharedOut(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{64 << 20, 512 << 20, 4 << 30, 1 << 40} {
		p := shareOut(memory)
		if sum := p.cache + 4*p.memTable + p.state + p.queue + p.tail; sum > memory {
			t.Errorf("of %d bytes %d are given away: %+v", memory, sum, p)
		}
		if p.state != memory/2 || p.queue != memory/10 {
			t.Errorf("of %d bytes the state of views gets %d, the queue %d", memory, p.state, p.queue)
		}
	}
	if p := shareOut(4 << 30); p.tail != 64<<20 || p.memTable != 64<<20 {
		t.Errorf("of 4 GiB the tail gets %d, a memtable %d", p.tail, p.memTable)
	}
}

func TestSizesAreReadWithTheirUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"512MiB": 512 << 20, "4GB": 4 << 30, "1.5 gib": 3 << 29, "64k": -1, "65536": 65536, "64KB": 65536, "-1": -1, "": -1, "many": -1} {
		n, err := parseSize(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || n != want) {
			t.Errorf("%q is read as %d, %v", text, n, err)
		}
	}
}
