package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
)

// letter is the record of a dead letter. The event's bytes are kept in it: the log may forget them.
type letter struct {
	Version   int           `json:"v"`
	Code      string        `json:"code"`
	Reason    string        `json:"reason"`
	FirstSeen stream.Micros `json:"first_seen"`
	// Attempts are all failed ones, Tries those since it was given again.
	Attempts int `json:"attempts"`
	Tries    int `json:"tries,omitempty"`

	Time       stream.Micros `json:"time"`
	AppendTime stream.Micros `json:"append_time"`
	Key        *string       `json:"key"`
	Raw        []byte        `json:"raw"`
	// Corrected is the event that is given in place of the raw one.
	Corrected []byte `json:"corrected,omitempty"`
}

// failed counts a failed attempt of the delivery that waits in a partition, if one does. What was
// given together is suspected together; one event alone is judged.
func (e *edit) failed(p stream.Partition, code, reason string) {
	at := &e.state.parts[p]
	if !at.waits() {
		return
	}
	if at.Replay != nil {
		if _, _, err := e.failReplay(p, code, reason); err != nil {
			e.s.o.Logger.Error("a dead letter can't be read", "group", e.g.name, "partition", int(p), "offset", int64(*at.Replay), "err", err)
			e.part(p).Replay = nil
		}
		return
	}
	at = e.part(p)
	until := at.Until
	at.Until = 0
	if until-at.Committed == 1 {
		if _, _, err := e.fail(stream.Place{Partition: p, Offset: at.Committed}, code, reason, at.Alone); err != nil {
			e.s.o.Logger.Error("an event that failed can't be read", "group", e.g.name, "partition", int(p), "offset", int64(at.Committed), "err", err)
		}
		return
	}
	for o := range at.fails {
		if o < until && !at.fails[o].Dead {
			_, _, _ = e.fail(stream.Place{Partition: p, Offset: o}, code, reason, false) // is not judged, so it can't fail
		}
	}
	if at.Committed < at.Suspect[0] {
		at.Suspect[1] = max(at.Suspect[1], until)
	} else {
		at.Suspect = [2]stream.Offset{until, 0}
	}
}

// fail counts a failed attempt of one event. judge: it failed alone, or a member says that it did;
// after the last attempt it is a dead letter then.
func (e *edit) fail(place stream.Place, code, reason string, judge bool) (attempts int, id string, err error) {
	at := e.part(place.Partition)
	f := fail{Attempts: at.attempts(place.Offset) + 1, Code: code, Reason: reason, Delivery: at.Delivery}
	if judge && f.Attempts >= e.s.o.MaxAttempts {
		if err := e.bury(place, f); err != nil {
			return 0, "", err
		}
		id, f.Dead = e.letterID(place), true
	}
	at.fails = maps.Clone(at.fails)
	if at.fails == nil {
		at.fails = map[stream.Offset]fail{}
	}
	at.fails[place.Offset] = f
	e.batch.Set(eventKey(e.g.id, e.g.name, kindFail, place), encode(f))
	if f.Dead {
		e.commitTo(place.Partition, at.Committed) // over dead letters at the front
	}
	return f.Attempts, id, nil
}

// bury makes a dead letter of an event of the log.
func (e *edit) bury(place stream.Place, f fail) error {
	l := letter{Version: stateVersion, Code: f.Code, Reason: f.Reason, FirstSeen: e.s.o.Now().UnixMicro(), Attempts: f.Attempts}
	batches, err := e.s.log.Slice(e.g.id, place.Partition, place.Offset, 1)
	if _, gone := errors.AsType[*stream.OffsetGone](err); err != nil && !gone {
		return err
	}
	for _, b := range batches {
		for i := range b.Len {
			if offsetOf(b, i) == place.Offset {
				ev := eventOf(b, i)
				l.Time, l.AppendTime, l.Key, l.Raw = ev.Time, ev.AppendTime, ev.Key, ev.Raw
			}
		}
	}
	k := eventKey(e.g.id, e.g.name, kindLetter, place)
	if old, err := e.s.letter(k); err == nil { // it was one before the group was sought back
		l.FirstSeen, l.Attempts = old.FirstSeen, l.Attempts+old.Attempts
	} else if !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	e.batch.Set(k, encode(l))
	e.s.o.Logger.Warn("an event is a dead letter of a group", "stream", uint64(e.g.id), "group", e.g.name, "partition", int(place.Partition),
		"offset", int64(place.Offset), "attempts", l.Attempts, "code", l.Code)
	return nil
}

func (s *Service) letter(k []byte) (letter, error) {
	value, err := s.kv.Get(k)
	if err != nil {
		return letter{}, err
	}
	var l letter
	if err := json.Unmarshal(value, &l); err != nil {
		return l, fmt.Errorf("the dead letter %q can't be read: %w", k, err)
	}
	return l, nil
}

// giveAgain takes the first dead letter of a partition that waits to be given again. It comes alone.
func (e *edit) giveAgain(p stream.Partition, commit bool) ([]Event, error) {
	at := e.part(p)
	o := at.replays[0]
	place := stream.Place{Partition: p, Offset: o}
	l, err := e.s.letter(eventKey(e.g.id, e.g.name, kindReplay, place))
	if err != nil {
		return nil, err
	}
	ev := Event{Place: place, Time: l.Time, AppendTime: l.AppendTime, Key: l.Key, Raw: l.Raw, Attempts: l.Attempts, DeadLetter: e.letterID(place)}
	if len(l.Corrected) > 0 {
		ev.Raw = l.Corrected
	}
	at.Replay = &o
	at.Delivery++
	if commit {
		e.ackReplay(p, o+1)
	}
	return []Event{ev}, nil
}

// ackReplay ends the replay that waits in a partition, if a commit is for it.
func (e *edit) ackReplay(p stream.Partition, to stream.Offset) {
	if at := &e.state.parts[p]; at.Replay != nil && *at.Replay < to {
		e.dropReplay(p)
	}
}

// dropReplay takes the replay that waits out of the queue.
func (e *edit) dropReplay(p stream.Partition) {
	at := e.part(p)
	o := *at.Replay
	e.batch.Delete(eventKey(e.g.id, e.g.name, kindReplay, stream.Place{Partition: p, Offset: o}))
	at.replays = slices.DeleteFunc(slices.Clone(at.replays), func(r stream.Offset) bool { return r == o })
	at.Replay = nil
}

// failReplay counts a failed attempt of the replay that waits; after the last one it is a dead letter
// again.
func (e *edit) failReplay(p stream.Partition, code, reason string) (attempts int, id string, err error) {
	at := e.part(p)
	place := stream.Place{Partition: p, Offset: *at.Replay}
	k := eventKey(e.g.id, e.g.name, kindReplay, place)
	l, err := e.s.letter(k)
	if err != nil {
		return 0, "", err
	}
	l.Attempts++
	l.Tries++
	l.Code, l.Reason = code, reason
	if l.Tries < e.s.o.MaxAttempts {
		at.Replay = nil
		e.batch.Set(k, encode(l))
		return l.Attempts, "", nil
	}
	l.Tries = 0
	e.dropReplay(p)
	e.batch.Set(eventKey(e.g.id, e.g.name, kindLetter, place), encode(l))
	return l.Attempts, e.letterID(place), nil
}

// Letter names a dead letter of a group.
type Letter struct {
	Group string
	stream.Place
}

// String is the letter's id as users see it.
func (l Letter) String() string {
	return l.Group + "." + strconv.Itoa(int(l.Partition)) + "." + strconv.FormatInt(int64(l.Offset), 10)
}

// ParseLetter reads what String wrote.
func ParseLetter(text string) (l Letter, ok bool) {
	i := strings.LastIndexByte(text, '.')
	if i < 0 {
		return l, false
	}
	j := strings.LastIndexByte(text[:i], '.')
	if j < 0 {
		return l, false
	}
	p, err1 := strconv.ParseUint(text[j+1:i], 10, 31)
	o, err2 := strconv.ParseInt(text[i+1:], 10, 64)
	l = Letter{text[:j], stream.Place{Partition: stream.Partition(p), Offset: stream.Offset(o)}}
	return l, err1 == nil && err2 == nil && o >= 0 && CheckName(l.Group) == nil && l.String() == text
}

func (e *edit) letterID(place stream.Place) string { return Letter{e.g.name, place}.String() }

func unknownLetter(l Letter) error {
	return problem.New(404, "unknown_dead_letter", "there is no dead letter %s", l).
		WithHint("GET …/dead_letters lists them; it may have been replayed or deleted")
}

// DeadLetters lists the dead letters of a stream's groups by group and place, behind one (zero: from
// the first on). group "" is all groups.
func (s *Service) DeadLetters(id stream.ID, group string, after Letter, limit int) ([]stream.DeadLetter, error) {
	names := []string{group}
	if group == "" {
		var err error
		if names, err = s.names(id); err != nil {
			return nil, err
		}
	} else if err := CheckName(group); err != nil {
		return nil, err
	}
	var out []stream.DeadLetter
	for _, name := range names {
		if name < after.Group {
			continue
		}
		more, err := s.letters(id, name, after, limit-len(out))
		if err != nil {
			return nil, err
		}
		if out = append(out, more...); len(out) >= limit {
			break
		}
	}
	return out, nil
}

func (s *Service) letters(id stream.ID, name string, after Letter, limit int) (out []stream.DeadLetter, err error) {
	g, err := s.lock(id, name, false) // what is read under the lock is durable
	if err != nil {
		return nil, nil //nolint:nilerr // deleted meanwhile
	}
	defer s.unlock(g)
	from := key(id, name, kindLetter)
	it := s.kv.Iter(from, kv.PrefixEnd(from))
	ok := it.First()
	if name == after.Group && ok {
		at := after.Place
		at.Offset++
		ok = it.SeekGE(eventKey(id, name, kindLetter, at))
	}
	for ; ok && len(out) < limit && err == nil; ok = it.Next() {
		var l letter
		place, good := readPlace(it.Key()[len(from):])
		if !good || json.Unmarshal(it.Value(), &l) != nil {
			err = fmt.Errorf("a dead letter of group %s of stream %d can't be read: run \"tidemark check\" on the data directory", name, id)
			break
		}
		out = append(out, stream.DeadLetter{
			Origin: "group", Group: name, Place: &place, Code: l.Code, Reason: l.Reason, Raw: l.Raw, FirstSeen: l.FirstSeen, Attempts: l.Attempts,
		})
	}
	return out, errors.Join(err, it.Close())
}

// Replay has a dead letter given to its group again, with the corrected event in its place when one is
// given. Nothing is appended to the log. The next poll of whoever holds the partition gets it.
func (s *Service) Replay(id stream.ID, which Letter, corrected []byte) error {
	return s.takeOut(id, which, func(e *edit, l letter) {
		l.Tries = 0
		if len(corrected) > 0 {
			l.Corrected = slices.Clone(corrected)
		}
		e.batch.Set(eventKey(id, which.Group, kindReplay, which.Place), encode(l))
		at := e.part(which.Partition)
		if i, there := slices.BinarySearch(at.replays, which.Offset); !there {
			at.replays = slices.Insert(slices.Clone(at.replays), i, which.Offset)
		}
	})
}

// DropDeadLetter removes a dead letter for good.
func (s *Service) DropDeadLetter(id stream.ID, which Letter) error {
	return s.takeOut(id, which, func(*edit, letter) {})
}

// takeOut removes a dead letter and does something with it in the same write.
func (s *Service) takeOut(id stream.ID, which Letter, f func(*edit, letter)) error {
	g, err := s.lock(id, which.Group, false)
	if problem.From(err).Status == 404 && err != nil {
		return unknownLetter(which)
	}
	if err != nil {
		return err
	}
	defer s.unlock(g)
	e, err := s.beginLocked(g)
	if err != nil {
		return err
	}
	k := eventKey(id, which.Group, kindLetter, which.Place)
	l, err := s.letter(k)
	if errors.Is(err, kv.ErrNotFound) || int(which.Partition) >= len(e.state.parts) {
		err = unknownLetter(which)
	}
	if err != nil {
		e.batch.Discard()
		return err
	}
	e.batch.Delete(k)
	f(e, l)
	if err := e.commitLocked(); err != nil {
		return err
	}
	g.wakeLocked()
	return nil
}
