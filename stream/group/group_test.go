package group_test

import (
	"context"
	"testing"
	"time"

	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/group"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

func TestAtLeastOnceWaitsForTheCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send(0, 5)
	out, got := w.poll("m1", 3)
	w.expect("first", got, "0/0 0/1 0/2")
	w.expect("standing", w.shared(), "0:m1@0")
	w.expect("part of it", w.commit("m1", out.Generation, 0, 2), "")
	_, got = w.poll("m1", 10)
	w.expect("the failed one comes alone", got, "0/2")
	w.expect("commit", w.commit("m1", 0, 0, 3), "")
	out, got = w.poll("m1", 10)
	w.expect("then the rest", got, "0/3 0/4")
	w.expect("all", w.commitAll("m1", out), "")
	_, got = w.poll("m1", 10)
	w.expect("nothing more", got, "")
	w.restart()
	w.expect("after a restart", w.shared(), "0:m1@5")
}

func TestAtMostOnceCommitsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send(0, 5)
	poll := group.Poll{Member: "m1", Max: 3, AtMostOnce: true}
	out, err := w.Poll(t.Context(), orders, "g", poll)
	if err != nil || given(out) != "0/0 0/1 0/2" {
		t.Fatal(given(out), err)
	}
	w.expect("committed", w.shared(), "0:m1@3")
	w.restart() // a crash of the member, and of the server: nothing comes again
	out, err = w.Poll(t.Context(), orders, "g", poll)
	if err != nil || given(out) != "0/3 0/4" {
		t.Error(given(out), err)
	}
	_, refused := w.nack("m1", 0, 0, 1)
	w.expect("a nack of what is committed", refused, "already_committed")
}

func TestPartitionsAreSharedOutAndDrainedBeforeTheyMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	for p := range stream.Partition(4) {
		w.send(p, 2)
	}
	first, got := w.poll("m1", 100)
	w.expect("one member has all", got, "0/0 0/1 1/0 1/1 2/0 2/1 3/0 3/1")
	_, got = w.poll("m2", 100)
	w.expect("nothing before it is drained", got, "")
	w.expect("who holds what", w.shared(), "0:m1@0 1:m1@0 2:m1@0 3:m1@0")
	if p := w.info().Partitions[2]; p.Next != "m2" {
		t.Errorf("partition 2 moves to %q", p.Next)
	}
	w.expect("the old generation commits what it drains", w.commit("m1", first.Generation, 2, 2), "")
	w.expect("one has moved", w.shared(), "0:m1@0 1:m1@0 2:m2@2 3:m1@0")
	w.expect("kept partitions commit under the old generation", w.commit("m1", first.Generation, 0, 1), "")
	w.expect("the lost one does not", w.commit("m1", first.Generation, 2, 2), "fenced")
	w.send(2, 1)
	_, got = w.poll("m2", 100)
	w.expect("the new holder goes on behind the commit", got, "2/2")
	_, got = w.poll("m1", 100) // has not committed partition 3: it failed, and moves
	w.expect("the old one no longer gets what moves", got, "1/0")
	w.expect("both", w.shared(), "0:m1@1 1:m1@0 2:m2@2 3:m2@0")
}

func TestMemberThatGoesSilentIsFenced(t *testing.T) { // I1, I2
	t.Parallel()
	w := newWorld(t, 2)
	w.send(0, 1)
	w.send(1, 1)
	old, got := w.poll("m1", 100)
	w.expect("m1", got, "0/0 1/0")
	w.clock.Pass(session - time.Second)
	_, got = w.poll("m2", 100)
	w.expect("m2 waits", got, "")
	w.clock.Pass(time.Second)
	next, got := w.poll("m2", 100)
	w.expect("m2 takes over, with care", got, "0/0")
	if next.Events[0].Attempts != 1 {
		t.Errorf("%d attempts", next.Events[0].Attempts)
	}
	w.expect("the silent one commits nothing", w.commitAll("m1", old), "fenced")
	_, refused := w.nack("m1", old.Generation, 0, 0)
	w.expect("nor nacks", refused, "fenced")
	w.expect("the new one does", w.commitAll("m2", next), "")
	_, err := w.Poll(t.Context(), orders, "g", group.Poll{Member: "m1", Generation: old.Generation})
	w.expect("a poll with the old generation is told", code(err), "fenced")
	_, got = w.poll("m1", 10)
	w.expect("joined again", got, "1/0")
	if n := len(w.info().Members); n != 2 {
		t.Errorf("%d members", n)
	}
}

func TestPartitionThatCameBackRefusesTheOldGeneration(t *testing.T) { // I2
	t.Parallel()
	w := newWorld(t, 1)
	w.send(0, 3)
	old, _ := w.poll("m1", 1)
	w.clock.Pass(session)
	w.poll("m2", 1)
	if err := w.Leave(orders, "g", "m2"); err != nil {
		t.Fatal(err)
	}
	now, got := w.poll("m1", 3)
	w.expect("m1 has it again", got, "0/0")
	w.expect("commit", w.commit("m1", now.Generation, 0, 1), "")
	now, got = w.poll("m1", 3)
	w.expect("the rest", got, "0/1 0/2")
	w.expect("the old generation", w.commit("m1", old.Generation, 0, 1), "fenced")
	w.expect("a generation to come", w.commit("m1", now.Generation+1, 0, 1), "fenced")
	w.expect("more than was given", w.commit("m1", now.Generation, 0, 4), "not_given")
	w.expect("the new one", w.commit("m1", now.Generation, 0, 2), "")
	w.expect("an older offset changes nothing", w.commit("m1", now.Generation, 0, 1), "")
	w.expect("standing", w.shared(), "0:m1@2")
	w.expect("no such partition", w.commit("m1", now.Generation, 7, 1), "unknown_partition")
}

func TestLeavingCountsNoAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send(0, 2)
	w.poll("m1", 10)
	if err := w.Leave(orders, "g", "m1"); err != nil {
		t.Fatal(err)
	}
	out, got := w.poll("m2", 10)
	if got != "0/0 0/1" || out.Events[0].Attempts != 0 {
		t.Errorf("%s, %d attempts", got, out.Events[0].Attempts)
	}
}

func TestNackedEventIsADeadLetterAfterFiveAttempts(t *testing.T) { // I5
	t.Parallel()
	w := newWorld(t, 2)
	w.send(0, 4)
	w.send(1, 2)
	for i := range 5 {
		out, _ := w.poll("m1", 100)
		w.commit("m1", out.Generation, 0, 1)
		n, refused := w.nack("m1", out.Generation, 0, 1)
		if refused != "" || n.Attempts != i+1 || (n.DeadLetter != "") != (i == 4) {
			t.Fatalf("nack %d: %+v %s", i, n, refused)
		}
		again, refused := w.nack("m1", out.Generation, 0, 1)
		if i < 4 && (refused != "" || again.Attempts != i+1) {
			t.Errorf("the same nack again: %+v %s", again, refused)
		}
		w.commit("m1", out.Generation, 1, 2) // the other partition is not blocked
	}
	w.restart()
	out, got := w.poll("m1", 100)
	w.expect("the group moves on", got, "0/2 0/3")
	w.expect("commit", w.commitAll("m1", out), "")
	letters, err := w.DeadLetters(orders, "", group.Letter{}, 10)
	if err != nil || len(letters) != 1 {
		t.Fatal(letters, err)
	}
	if l := letters[0]; l.Origin != "group" || l.Group != "g" || l.Place.Offset != 1 || l.Attempts != 5 || l.Reason != "broken" || l.Code != "nack" ||
		string(l.Raw) != `{"v":1,"id":""}` || l.FirstSeen != logtest.At(0) {
		t.Errorf("%+v %s", l, l.Raw)
	}
}

func TestDeadEventAheadIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.opts.MaxAttempts = 1
	w.restart()
	w.send(0, 4)
	out, _ := w.poll("m1", 100)
	for _, o := range []stream.Offset{2, 1} {
		if n, refused := w.nack("m1", out.Generation, 0, o); refused != "" || n.DeadLetter == "" {
			t.Fatal(n, refused)
		}
	}
	w.restart()
	_, got := w.poll("m1", 100)
	w.expect("left out", got, "0/0 0/3")
	w.expect("commit in between", w.commit("m1", 0, 0, 1), "")
	w.expect("over the dead", w.shared(), "0:m1@3")
}

func TestReplayedDeadLetterGoesToItsGroupAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.opts.MaxAttempts = 1
	w.restart()
	w.send(0, 3)
	out, _ := w.poll("m1", 1)
	w.nack("m1", out.Generation, 0, 0)
	if _, err := w.Poll(t.Context(), orders, "other", group.Poll{Member: "x", AtMostOnce: true}); err != nil {
		t.Fatal(err)
	}
	which := group.Letter{Group: "g", Place: stream.Place{}}
	if err := w.Replay(orders, which, []byte(`{"v":7}`)); err != nil {
		t.Fatal(err)
	}
	w.expect("a second replay", code(w.Replay(orders, which, nil)), "unknown_dead_letter")
	w.restart()
	out, got := w.poll("m1", 100)
	if got != "0/0!" || string(out.Events[0].Raw) != `{"v":7}` || out.Events[0].DeadLetter != "g.0.0" {
		t.Fatalf("%s %+v", got, out.Events)
	}
	w.expect("commit", w.commitAll("m1", out), "")
	out, got = w.poll("m1", 100)
	w.expect("once, then the log", got, "0/1 0/2")
	w.expect("commit", w.commitAll("m1", out), "")
	if other, err := w.Poll(t.Context(), orders, "other", group.Poll{Member: "x"}); err != nil || len(other.Events) != 0 {
		t.Error(given(other), err)
	}
	if st, _ := w.log.Stats(orders); st.Accepted != 3 {
		t.Errorf("%d events in the log", st.Accepted)
	}
	// One that fails again is a dead letter again, with all its attempts.
	w.send(0, 1)
	out, _ = w.poll("m1", 1)
	w.nack("m1", out.Generation, 0, 3)
	which.Offset = 3
	if err := w.Replay(orders, which, nil); err != nil {
		t.Fatal(err)
	}
	out, got = w.poll("m1", 1)
	w.expect("again", got, "0/3!")
	if n, refused := w.nack("m1", out.Generation, 0, 3); refused != "" || n.Attempts != 2 || n.DeadLetter != "g.0.3" {
		t.Errorf("%+v %s", n, refused)
	}
	letters, err := w.DeadLetters(orders, "g", group.Letter{}, 10)
	if err != nil || len(letters) != 1 || letters[0].Attempts != 2 {
		t.Errorf("%+v %v", letters, err)
	}
	if err := w.DropDeadLetter(orders, which); err != nil {
		t.Error(err)
	}
	w.expect("dropped", code(w.DropDeadLetter(orders, which)), "unknown_dead_letter")
}

func TestSeekGoesAnywhereAndFencesWhatIsInHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.send(0, 3)
	w.clock.Pass(time.Hour)
	w.send(0, 2)
	w.send(1, 1)
	old, _ := w.poll("m1", 100)
	at := logtest.At(time.Minute)
	seek := func(s group.Seek) string {
		if _, err := w.Seek(orders, "g", s); err != nil {
			return code(err)
		}
		return w.shared()
	}
	w.expect("an instant", seek(group.Seek{Time: &at}), "0:m1@3 1:m1@0")
	w.expect("what was in hand", w.commitAll("m1", old), "fenced")
	w.expect("latest", seek(group.Seek{To: "latest"}), "0:m1@5 1:m1@1")
	w.expect("one partition", seek(group.Seek{Offsets: map[stream.Partition]stream.Offset{0: 1}}), "0:m1@1 1:m1@1")
	w.expect("past the end", seek(group.Seek{Offsets: map[stream.Partition]stream.Offset{0: 6}}), "offset_above_end")
	w.expect("no partition", seek(group.Seek{Offsets: map[stream.Partition]stream.Offset{2: 0}}), "unknown_partition")
	w.expect("nowhere", seek(group.Seek{}), "bad_seek")
	w.expect("two places", seek(group.Seek{To: "latest", Time: &at}), "bad_seek")
	w.expect("earliest", seek(group.Seek{To: "earliest"}), "0:m1@0 1:m1@0")
	if _, err := w.Seek(orders, "fresh", group.Seek{To: "latest"}); err != nil {
		t.Error(err)
	}
	if out, err := w.Poll(t.Context(), orders, "fresh", group.Poll{Member: "m"}); err != nil || len(out.Events) > 0 {
		t.Error(given(out), err)
	}
	if _, err := w.Seek(orders, "none", group.Seek{Offsets: map[stream.Partition]stream.Offset{9: 0}}); err == nil {
		t.Error("a bad seek made a group")
	}
	all, err := w.List(orders)
	if err != nil || len(all) != 2 || all[0].Name != "fresh" || all[1].Name != "g" {
		t.Error(all, err)
	}
}

func TestLagIsToldInEventsAndSeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send(0, 2)
	w.poll("m1", 1)
	w.commit("m1", 0, 0, 1)
	w.clock.Pass(10 * time.Second)
	w.send(0, 3)
	p := w.info().Partitions[0]
	if p.LagEvents != 4 || p.Lag != 10*time.Second || p.Committed != 1 || p.End != 5 {
		t.Errorf("%+v", p)
	}
	m := w.info().Members[0]
	if m.Silent != 10*time.Second || m.Session != session || len(m.Partitions) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestNewPartitionsAreSharedOutToo(t *testing.T) { // R6
	t.Parallel()
	w := newWorld(t, 1)
	w.send(0, 1)
	out, _ := w.poll("m1", 10)
	w.commitAll("m1", out)
	w.declare(3)
	w.send(2, 1)
	_, got := w.poll("m1", 10)
	w.expect("the new partition", got, "2/0")
	w.expect("all", w.shared(), "0:m1@1 1:m1@0 2:m1@0")
}

func TestPollWaitsForEventsAndForPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	type answer struct {
		out *group.Polled
		err error
	}
	long := func(member string) chan answer {
		c := make(chan answer, 1)
		go func() {
			out, err := w.Poll(context.Background(), orders, "g", group.Poll{Member: member, Wait: group.MaxWait})
			c <- answer{out, err}
		}()
		return c
	}
	waits := func(member string) {
		for {
			if info, err := w.Get(orders, "g"); err == nil {
				for _, m := range info.Members {
					if m.Name == member && m.Waits {
						return
					}
				}
			}
		}
	}
	c := long("m1")
	waits("m1")
	w.send(0, 1)
	a := <-c
	if a.err != nil || given(a.out) != "0/0" {
		t.Fatal(given(a.out), a.err)
	}
	c2 := long("m2")
	waits("m2")
	w.expect("commit", w.commitAll("m1", a.out), "")
	if err := w.Leave(orders, "g", "m1"); err != nil {
		t.Fatal(err)
	}
	w.send(0, 1)
	if a = <-c2; a.err != nil || given(a.out) != "0/1" {
		t.Fatal(given(a.out), a.err)
	}
	w.expect("commit", w.commitAll("m2", a.out), "")
	c2 = long("m2")
	waits("m2")
	if _, got := w.poll("m2", 1); got != "" { // the same member again: the one that waits ends
		t.Error(got)
	}
	if a = <-c2; a.err != nil || given(a.out) != "" {
		t.Error(given(a.out), a.err)
	}
	c2 = long("m2")
	waits("m2")
	if err := w.Delete(orders, "g"); err != nil {
		t.Fatal(err)
	}
	a = <-c2
	w.expect("the group was deleted", code(a.err), "unknown_group")
	_, err := w.Get(orders, "g")
	w.expect("it is gone", code(err), "unknown_group")
	w.restart()
	_, got := w.poll("m1", 10)
	w.expect("a new one of the name begins anew", got, "0/0 0/1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := w.Poll(ctx, orders, "h", group.Poll{Member: "x", Wait: group.MaxWait}); err != nil || given(out) != "0/0 0/1" {
		t.Error(given(out), err)
	}
}

func TestBadRequestsAreProblemsWithAHint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	poll := func(name string, r group.Poll) string {
		_, err := w.Poll(t.Context(), orders, name, r)
		return code(err)
	}
	w.expect("no member", poll("g", group.Poll{}), "bad_member")
	w.expect("bytes as member", poll("g", group.Poll{Member: "\xff"}), "bad_member")
	w.expect("no name", poll("", group.Poll{Member: "m"}), "bad_name")
	w.expect("bad name", poll("a/b", group.Poll{Member: "m"}), "bad_name")
	w.expect("too many events", poll("g", group.Poll{Member: "m", Max: group.MaxEvents + 1}), "bad_poll")
	w.expect("too long", poll("g", group.Poll{Member: "m", Wait: time.Hour}), "bad_poll")
	w.expect("session", poll("g", group.Poll{Member: "m", Session: time.Millisecond}), "bad_poll")
	_, err := w.Poll(t.Context(), 99, "g", group.Poll{Member: "m"})
	w.expect("no stream", code(err), "unknown_stream")
	w.expect("no group", w.commit("m", 0, 0, 1), "unknown_group")
	_, err = w.Commit(orders, "g", group.Commit{Member: "m"})
	w.expect("no offsets", code(err), "bad_commit")
	w.expect("no group to delete", code(w.Delete(orders, "g")), "unknown_group")
	if all, err := w.List(orders); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

// shorter is a log that has lost what lay behind an offset.
type shorter struct {
	*pebblelog.Log
	id   stream.LogID
	next stream.Offset
}

func (s shorter) ID() stream.LogID { return s.id }

func (s shorter) Stats(id stream.ID) (stream.Stats, error) {
	st, err := s.Log.Stats(id)
	st.Partitions[0].Next = s.next
	return st, err
}

func TestOffsetAboveTheEndIsReported(t *testing.T) { // P1b
	t.Parallel()
	w := newWorld(t, 1)
	w.send(0, 5)
	out, _ := w.poll("m1", 10)
	w.commitAll("m1", out)
	o := group.Options{Now: w.clock.Now, Monotonic: w.clock.Monotonic, Logger: quiet()}
	lost := group.New(w.kv, shorter{w.log, w.log.ID(), 3}, o)
	_, err := lost.Poll(t.Context(), orders, "g", group.Poll{Member: "m1"})
	w.expect("the same history", code(err), "offset_above_end")
	if info, err := lost.Get(orders, "g"); err != nil || !info.Partitions[0].Above {
		t.Error(info, err)
	}
	// The loss was accepted: the log is another one, and the group goes on from its end.
	next := group.New(w.kv, shorter{w.log, w.log.ID() + 1, 3}, o)
	out, err = next.Poll(t.Context(), orders, "g", group.Poll{Member: "m1"})
	if err != nil || len(out.Rewound) != 1 || out.Rewound[0] != (group.Moved{Partition: 0, From: 5, To: 3}) {
		t.Errorf("%+v %v", out, err)
	}
}

func TestEventsThatExpiredUnreadAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	kept := stream.Settings{Name: "orders", Partitions: 1, Retention: stream.Retention{Age: time.Hour}}
	if err := w.log.Declare(t.Context(), orders, kept); err != nil {
		t.Fatal(err)
	}
	w.send(0, 3)
	out, _ := w.poll("m1", 1)
	w.commitAll("m1", out)
	w.clock.Pass(3 * time.Hour)
	w.send(0, 1)
	if err := w.log.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := w.log.Stats(orders)
	if err != nil || st.Partitions[0].First != 3 {
		t.Fatal(st, err)
	}
	if p := w.info().Partitions[0]; p.Expired != 2 || p.LagEvents != 1 {
		t.Errorf("%+v", p)
	}
	_, got := w.poll("m1", 10)
	w.expect("it goes on with what is there", got, "0/3")
	if p := w.info().Partitions[0]; p.Expired != 2 || p.Committed != 3 {
		t.Errorf("%+v", p)
	}
}

func TestNothingIsWrittenWhileTheServerMayNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.opts.Writable = func() error { return problem.New(503, "disk_full", "full").WithHint("free space") }
	w.restart()
	_, err := w.Poll(t.Context(), orders, "g", group.Poll{Member: "m"})
	w.expect("poll", code(err), "disk_full")
	if all, err := w.List(orders); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

func TestLetterIsReadBack(t *testing.T) {
	t.Parallel()
	l := group.Letter{Group: "a.b-1.2", Place: stream.Place{Partition: 3, Offset: 44}}
	if back, ok := group.ParseLetter(l.String()); !ok || back != l {
		t.Errorf("%v %v", back, ok)
	}
	for _, bad := range []string{"", "7", "g", "g.1", "g.1.", "g..1", ".1.1", "g.01.1", "g.1.-1", "g.1.1 ", "a/b.1.1"} {
		if l, ok := group.ParseLetter(bad); ok {
			t.Errorf("%q is %v", bad, l)
		}
	}
}
