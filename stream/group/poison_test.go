package group_test

import (
	"testing"

	"tidemark/stream"
	"tidemark/stream/group"
)

// poisoned sends 10,000 events and lets members work that die at one of them. fail says what a member
// does that has met the poison. It returns how often each event was tried.
func poisoned(t *testing.T, w *world, max int, fail func(out *group.Polled, at stream.Place)) (tries map[stream.Place]int, done map[stream.Place]bool) {
	t.Helper()
	const events, partitions = 10_000, 4
	poison := stream.Place{Partition: 2, Offset: 1234}
	for p := range stream.Partition(partitions) {
		for range 10 {
			w.send(p, events/partitions/10)
		}
	}
	tries, done = map[stream.Place]int{}, map[stream.Place]bool{}
	for quiet := 0; quiet < partitions; {
		out, _ := w.poll("m1", max)
		if len(out.Events) == 0 {
			quiet++
			continue
		}
		quiet = 0
		met := false
		for _, e := range out.Events {
			tries[e.Place]++
			if e.Place == poison {
				fail(out, e.Place)
				met = true
				break
			}
		}
		if met {
			continue
		}
		for _, e := range out.Events {
			if done[e.Place] {
				t.Fatalf("%v was done twice", e.Place)
			}
			done[e.Place] = true
		}
		w.expect("commit", w.commitAll("m1", out), "")
	}
	if len(done) != events-1 || done[poison] {
		t.Errorf("%d events were done", len(done))
	}
	if tries[poison] != 5 {
		t.Errorf("the poison was tried %d times", tries[poison])
	}
	letters, err := w.DeadLetters(orders, "g", group.Letter{}, 10)
	if err != nil || len(letters) != 1 || *letters[0].Place != poison || letters[0].Attempts != 5 {
		t.Fatalf("dead letters %+v, %v", letters, err)
	}
	// Corrected and replayed, it comes once, to this group alone.
	if err := w.Replay(orders, group.Letter{Group: "g", Place: poison}, []byte(`{"v":0}`)); err != nil {
		t.Fatal(err)
	}
	out, got := w.poll("m1", max)
	w.expect("the replay", got, "2/1234!")
	w.expect("its bytes", string(out.Events[0].Raw), `{"v":0}`)
	w.expect("commit", w.commitAll("m1", out), "")
	_, got = w.poll("m1", max)
	w.expect("once", got, "")
	if st, err := w.log.Stats(orders); err != nil || st.Accepted != events || st.DeadLetters != 0 {
		t.Errorf("the log has %+v, %v", st, err)
	}
	return tries, done
}

func TestPoisonThatIsNackedHarmsItselfAlone(t *testing.T) { // P13
	t.Parallel()
	w := newWorld(t, 4)
	poisoned(t, w, 500, func(out *group.Polled, at stream.Place) {
		if _, refused := w.nack("m1", out.Generation, at.Partition, at.Offset); refused != "" {
			t.Error(refused)
		}
	})
}

func TestPoisonThatKillsItsMemberHarmsItselfAlone(t *testing.T) { // P13
	t.Parallel()
	for name, die := range map[string]func(w *world){
		"and the member comes back at once":  func(*world) {},
		"and the member goes silent":         func(w *world) { w.clock.Pass(session) },
		"and the server starts anew":         func(w *world) { w.restart() },
		"and another member is there and up": func(w *world) { w.clock.Pass(session); w.poll("m2", 1); _ = w.Leave(orders, "g", "m2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4)
			poisoned(t, w, 500, func(*group.Polled, stream.Place) { die(w) })
		})
	}
}
