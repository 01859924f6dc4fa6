package group_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark/stream"
	"tidemark/stream/group"
)

// model is what a group must be like, kept in plain maps. It knows nothing of drains and chunks: it
// says what may be given, what must be refused, and where the group stands.
type model struct {
	committed []stream.Offset
	end       []stream.Offset
	// skip are dead letters that the group leaves out; a seek takes them up again.
	skip map[stream.Place]bool
	// tries are the deliveries of an event that waited for a commit since it was put away last.
	tries map[stream.Place]int
	// letters by place, with their attempts; replays are those that wait.
	letters map[stream.Place]int
	replays map[stream.Place]bool
	members map[string]time.Duration // when each was last heard of
	// hands are the last answers, also of members that are gone.
	hands map[string]*group.Polled
}

const modelAttempts = 3

// step brings a committed offset over what is left out.
func (m *model) step(p stream.Partition) {
	for m.skip[stream.Place{Partition: p, Offset: m.committed[p]}] {
		m.committed[p]++
	}
}

func TestGroupIsLikeItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const partitions = 3
		w := newWorld(t, partitions)
		w.opts.MaxAttempts = modelAttempts
		w.restart()
		m := &model{
			committed: make([]stream.Offset, partitions), end: make([]stream.Offset, partitions), skip: map[stream.Place]bool{},
			tries: map[stream.Place]int{}, letters: map[stream.Place]int{}, replays: map[stream.Place]bool{},
			members: map[string]time.Duration{}, hands: map[string]*group.Polled{},
		}
		if _, err := w.Seek(orders, "g", group.Seek{To: "earliest"}); err != nil {
			rt.Fatal(err)
		}
		r := &run{rt, w, m}
		rt.Repeat(map[string]func(*rapid.T){
			"":        r.check,
			"send":    r.send,
			"poll":    r.poll,
			"commit":  r.commit,
			"nack":    r.nack,
			"leave":   r.leave,
			"silence": r.silence,
			"seek":    r.seek,
			"replay":  r.replay,
			"restart": func(*rapid.T) { w.restart(); r.heardOfAll() },
		})
	})
}

// run is one run of the model against a group.
type run struct {
	t *rapid.T
	w *world
	m *model
}

func (r *run) member(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "member")
}

func (r *run) partition(t *rapid.T) stream.Partition {
	return stream.Partition(rapid.IntRange(0, len(r.m.end)-1).Draw(t, "partition"))
}

// heardOf notes that a member has called, which is when the sessions of others are judged.
func (r *run) heardOf(member string) {
	now := r.w.clock.Monotonic()
	if member != "" {
		r.m.members[member] = now
	}
	for other, seen := range r.m.members {
		if now-seen >= session {
			delete(r.m.members, other)
		}
	}
}

// touch notes that a member has called, if it is one: also a call that is refused is heard.
func (r *run) touch(member string) {
	if _, there := r.m.members[member]; there {
		r.heardOf(member)
	}
}

// heardOfAll: after a start all members have a whole session.
func (r *run) heardOfAll() {
	for m := range r.m.members {
		r.m.members[m] = r.w.clock.Monotonic()
	}
}

func (r *run) send(t *rapid.T) {
	p, n := r.partition(t), rapid.IntRange(1, 5).Draw(t, "events")
	r.w.send(p, n)
	r.m.end[p] += stream.Offset(n)
}

func (r *run) poll(t *rapid.T) {
	name := r.member(t)
	most, once := rapid.IntRange(1, 8).Draw(t, "max"), rapid.IntRange(0, 3).Draw(t, "delivery") == 0
	out, err := r.w.Poll(r.w.t.Context(), orders, "g", group.Poll{Member: name, Max: most, AtMostOnce: once})
	if err != nil {
		t.Fatal(err)
	}
	r.heardOf(name)
	r.bury(t)
	if len(out.Events) > most {
		t.Fatalf("%d events where %d were asked for", len(out.Events), most)
	}
	holders := r.holders()
	next := slices.Clone(r.m.committed)
	for i, e := range out.Events {
		if holders[e.Partition] != name {
			t.Fatalf("%s was given %v, which %q holds", name, e.Place, holders[e.Partition])
		}
		if e.DeadLetter != "" {
			if !r.m.replays[e.Place] || len(out.Events) > 1 || e.Offset >= r.m.committed[e.Partition] {
				t.Fatalf("%v is no replay that waits, did not come alone or too early: %s", e.Place, given(out))
			}
			if once {
				delete(r.m.replays, e.Place)
			}
			continue
		}
		for r.m.skip[stream.Place{Partition: e.Partition, Offset: next[e.Partition]}] {
			next[e.Partition]++
		}
		if e.Offset != next[e.Partition] {
			t.Fatalf("event %d of %s: partition %d stands at %d", i, given(out), e.Partition, next[e.Partition])
		}
		next[e.Partition]++
		if once {
			r.m.committed[e.Partition] = next[e.Partition]
			r.m.step(e.Partition)
		} else {
			r.m.tries[e.Place]++
		}
	}
	r.m.hands[name] = out
}

// holders are who holds each partition now.
func (r *run) holders() (out []string) {
	for _, p := range r.w.info().Partitions {
		out = append(out, p.Member)
	}
	return out
}

func (r *run) commit(t *rapid.T) {
	name := r.member(t)
	hand := r.m.hands[name]
	if hand == nil || len(hand.Events) == 0 {
		return
	}
	e := rapid.SampledFrom(hand.Events).Draw(t, "event")
	var at group.Standing
	for _, p := range r.w.info().Partitions {
		if p.Partition == e.Partition {
			at = p
		}
	}
	holds := at.Member == name && at.Since <= hand.Generation
	refused := r.w.commit(name, hand.Generation, e.Partition, e.Offset+1)
	r.touch(name)
	if refused != "" {
		if refused == "fenced" && !holds {
			return
		}
		t.Fatalf("commit behind %v: %s, %s holds it since %d, the answer is of %d", e.Place, refused, at.Member, at.Since, hand.Generation)
	}
	if !holds {
		t.Fatalf("%s committed behind %v under generation %d, and %q holds it since %d", name, e.Place, hand.Generation, at.Member, at.Since)
	}
	r.m.committed[e.Partition] = max(r.m.committed[e.Partition], e.Offset+1)
	r.m.step(e.Partition)
	for place := range r.m.replays {
		if e.DeadLetter != "" && place == e.Place {
			delete(r.m.replays, place)
		}
	}
}

func (r *run) nack(t *rapid.T) {
	name := r.member(t)
	hand := r.m.hands[name]
	if hand == nil || len(hand.Events) == 0 {
		return
	}
	e := rapid.SampledFrom(hand.Events).Draw(t, "event")
	n, refused := r.w.nack(name, hand.Generation, e.Partition, e.Offset)
	r.touch(name)
	switch refused {
	case "":
		if n.DeadLetter != "" != (n.Attempts >= modelAttempts) && e.DeadLetter == "" {
			t.Fatalf("%v: %+v", e.Place, n)
		}
		if e.DeadLetter != "" { // given back: a commit behind its place no longer speaks of it
			hand.Events = slices.DeleteFunc(slices.Clone(hand.Events), func(x group.Event) bool { return x.DeadLetter == e.DeadLetter })
		}
	case "fenced", "already_committed", "not_given":
	default:
		t.Fatal(refused)
	}
}

func (r *run) leave(t *rapid.T) {
	name := r.member(t)
	if err := r.w.Leave(orders, "g", name); err != nil {
		t.Fatal(err)
	}
	r.heardOf("")
	delete(r.m.members, name)
}

func (r *run) silence(t *rapid.T) {
	r.w.clock.Pass(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
}

func (r *run) seek(t *rapid.T) {
	p := r.partition(t)
	to := stream.Offset(rapid.Int64Range(0, int64(r.m.end[p])).Draw(t, "offset"))
	if _, err := r.w.Seek(orders, "g", group.Seek{Offsets: map[stream.Partition]stream.Offset{p: to}}); err != nil {
		t.Fatal(err)
	}
	r.heardOf("")
	r.bury(t)
	r.m.committed[p] = to
	for place := range r.m.skip {
		if place.Partition == p {
			delete(r.m.skip, place)
			r.m.tries[place] = 0
		}
	}
}

func (r *run) replay(t *rapid.T) {
	for place := range r.m.letters {
		if err := r.w.Replay(orders, group.Letter{Group: "g", Place: place}, nil); err != nil {
			t.Fatal(err)
		}
		delete(r.m.letters, place)
		r.m.replays[place] = true
		r.m.tries[place] = 0
		return
	}
}

// bury takes in the dead letters that have come since the last look: each was tried often enough.
func (r *run) bury(t *rapid.T) {
	list, err := r.w.DeadLetters(orders, "g", group.Letter{}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[stream.Place]bool{}
	for _, l := range list {
		seen[*l.Place] = true
		if was, known := r.m.letters[*l.Place]; known && was == l.Attempts {
			continue
		}
		if l.Attempts < modelAttempts {
			t.Fatalf("%v is a dead letter after %d attempts", *l.Place, l.Attempts)
		}
		r.m.letters[*l.Place] = l.Attempts
		if r.m.replays[*l.Place] {
			delete(r.m.replays, *l.Place) // failed again
			if r.m.committed[l.Place.Partition] > l.Place.Offset {
				continue
			}
		}
		if r.m.tries[*l.Place] < modelAttempts {
			t.Fatalf("%v is a dead letter and was given %d times", *l.Place, r.m.tries[*l.Place])
		}
		r.m.tries[*l.Place] = 0
		r.m.skip[*l.Place] = true
		r.m.step(l.Place.Partition)
	}
	for place := range r.m.letters {
		if !seen[place] {
			t.Fatalf("the dead letter of %v is gone", place)
		}
	}
}

func (r *run) check(t *rapid.T) {
	r.heardOf("")
	r.bury(t)
	info := r.w.info()
	held := map[string]int{}
	settled := true
	for _, p := range info.Partitions {
		if want := r.m.committed[p.Partition]; p.Committed != want {
			t.Fatalf("partition %d stands at %d, not %d", p.Partition, p.Committed, want)
		}
		if p.LagEvents != int64(r.m.end[p.Partition]-p.Committed) {
			t.Fatalf("partition %d: lag %d", p.Partition, p.LagEvents)
		}
		if _, there := r.m.members[p.Member]; p.Member != "" && !there {
			t.Fatalf("partition %d is held by %q, who is gone", p.Partition, p.Member)
		}
		held[p.Member]++
		settled = settled && p.Next == ""
	}
	if info.Replays != len(r.m.replays) || info.DeadLetters != len(r.m.letters) || len(info.Members) != len(r.m.members) {
		t.Fatalf("%d replays, %d dead letters, %d members; the model has %d, %d, %d", info.Replays, info.DeadLetters, len(info.Members),
			len(r.m.replays), len(r.m.letters), len(r.m.members))
	}
	if settled && len(r.m.members) > 0 {
		least, most := len(info.Partitions), 0
		for m := range r.m.members {
			least, most = min(least, held[m]), max(most, held[m])
		}
		if most-least > 1 || held[""] > 0 {
			t.Fatalf("shared out as %s", fmt.Sprint(held))
		}
	}
}
