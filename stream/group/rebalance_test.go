package group_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"tidemark/stream"
	"tidemark/stream/group"
)

// long says whether the long suite runs, which takes the full numbers.
func long() bool { return os.Getenv("TIDEMARK_LONG") != "" }

// seedOf is the seed of a random test, told when it fails.
func seedOf(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("TIDEMARK_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with TIDEMARK_SEED=%d go test -run %s ./stream/group", seed, t.Name())
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// hand is what a member has been given and has not given back, as the member itself sees it: a
// process that hangs still has it in hand when the group has long forgotten about it.
type hand struct {
	generation group.Generation
	events     []group.Event
}

// TestFencedMemberCommitsNothing forces rebalances: members join, leave, hang past their session and
// come back with what they had in hand. No commit of a member that has lost the partition is taken, no
// partition has two holders, committed offsets never go back, and in the end every event was done by
// somebody who could commit it (P16).
func TestFencedMemberCommitsNothing(t *testing.T) {
	t.Parallel()
	rebalances := 80
	if long() {
		rebalances = 1000
	}
	rng := seedOf(t)
	const partitions = 6
	w := newWorld(t, partitions)
	w.opts.MaxAttempts = 1 << 30 // members fail here all the time, and no event is to blame
	w.restart()
	members := []string{"a", "b", "c", "d"}
	hands := map[string]*hand{}
	done := map[stream.Place]bool{}                     // committed by a member that held it
	holder := map[stream.Partition]string{}             // as the polls told it
	since := map[stream.Partition]group.Generation{}    // when the holder was first given something
	committed := map[stream.Partition]stream.Offset{}   // never goes back
	given := map[stream.Partition]map[string]struct{}{} // members that have events of it in hand
	for p := range stream.Partition(partitions) {
		given[p] = map[string]struct{}{}
	}
	look := func() {
		t.Helper()
		for _, p := range w.info().Partitions {
			if p.Committed < committed[p.Partition] {
				t.Fatalf("partition %d went back from %d to %d", p.Partition, committed[p.Partition], p.Committed)
			}
			committed[p.Partition] = p.Committed
		}
	}
	refused, taken, last := 0, 0, group.Generation(0)
	for int(last) < rebalances {
		m := members[rng.IntN(len(members))]
		h := hands[m]
		switch rng.IntN(12) {
		case 0, 1:
			w.send(stream.Partition(rng.IntN(partitions)), 1+rng.IntN(5))
		case 2, 3, 4, 5:
			out, _ := w.poll(m, 1+rng.IntN(20))
			for _, e := range out.Events {
				// I1: while m is given the partition, nobody else holds it.
				if who := holder[e.Partition]; who != m && since[e.Partition] >= out.Generation {
					t.Fatalf("%s was given %v at generation %d, and %s at %d", m, e.Place, out.Generation, who, since[e.Partition])
				}
				if holder[e.Partition] != m {
					holder[e.Partition], since[e.Partition] = m, out.Generation
				}
			}
			hands[m] = &hand{out.Generation, out.Events}
			last = max(last, out.Generation)
		case 6, 7, 8, 9:
			if h == nil || len(h.events) == 0 {
				continue
			}
			to := map[stream.Partition]stream.Offset{}
			for _, e := range h.events[:1+rng.IntN(len(h.events))] {
				to[e.Partition] = max(to[e.Partition], e.Offset+1)
			}
			holds := true
			for _, p := range w.info().Partitions {
				if _, named := to[p.Partition]; named && (p.Member != m || p.Since > h.generation) {
					holds = false
				}
			}
			_, err := w.Commit(orders, "g", group.Commit{Member: m, Generation: h.generation, Offsets: to})
			switch code(err) {
			case "":
				taken++
				if !holds {
					t.Fatalf("%s committed %v under generation %d and does not hold it", m, to, h.generation)
				}
				for _, e := range h.events {
					if e.Offset < to[e.Partition] {
						done[e.Place] = true
					}
				}
			case "fenced":
				refused++
				if holds {
					t.Fatalf("%s holds %v since generation %d or before and was refused: %v", m, to, h.generation, err)
				}
			default:
				t.Fatal(err)
			}
		case 10:
			if err := w.Leave(orders, "g", m); err != nil && code(err) != "unknown_group" {
				t.Fatal(err)
			}
		case 11:
			if last == 0 {
				continue
			}
			w.clock.Pass(session) // all hang; one is heard of again first
			w.poll(members[rng.IntN(len(members))], 1)
			if rng.IntN(10) == 0 {
				w.restart()
			}
		}
		if last > 0 {
			look()
		}
	}
	// The end: one member does what is left, and then nothing is missing.
	for _, m := range members {
		if err := w.Leave(orders, "g", m); err != nil {
			t.Fatal(err)
		}
	}
	for quiet := 0; quiet < partitions; {
		out, got := w.poll("last", 1000)
		if got == "" {
			quiet++
		}
		for _, e := range out.Events {
			done[e.Place] = true
		}
		w.expect("commit", w.commitAll("last", out), "")
	}
	st, err := w.log.Stats(orders)
	if err != nil {
		t.Fatal(err)
	}
	for p, ends := range st.Partitions {
		for o := range ends.Next {
			if at := (stream.Place{Partition: stream.Partition(p), Offset: o}); !done[at] {
				t.Errorf("nobody has done %v", at)
			}
		}
	}
	if refused == 0 || taken == 0 {
		t.Errorf("%d commits taken, %d refused: the test tests little", taken, refused)
	}
	t.Logf("%d generations, %d commits, %d refused", last, taken, refused)
}
