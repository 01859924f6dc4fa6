package group

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidemark/storage/kv"
	"tidemark/stream"
)

// Generation counts how often a group's partitions were shared out. A partition that gets another
// holder gets a generation that is higher than all before.
type Generation int64

// state is what is durable of a group. A state that is shown is never changed: an edit works on a copy.
type state struct {
	head
	parts []partition
}

// head is the record of the group.
type head struct {
	Version    int           `json:"v"`
	Generation Generation    `json:"generation"`
	Log        stream.LogID  `json:"log"` // the history that the offsets are of
	Created    stream.Micros `json:"created"`
	// Members by name, with the session that each has asked for.
	Members map[string]time.Duration `json:"members"`
}

// place is the record of a partition.
type place struct {
	Holder string `json:"holder,omitempty"`
	// Since is the generation at which the holder got the partition.
	Since     Generation    `json:"since"`
	Committed stream.Offset `json:"committed"`
	// Given is the next offset behind all that the holder has been given: it may commit up to here.
	Given stream.Offset `json:"given"`
	// Until is the end of the delivery that waits for a commit; at or below Committed when none does.
	Until stream.Offset `json:"until,omitempty"`
	// Alone: that delivery was one event, and its poll gave nothing else.
	Alone bool `json:"alone,omitempty"`
	// Replay is the offset of a dead letter that was given again and waits for a commit.
	Replay *stream.Offset `json:"replay,omitempty"`
	// Delivery counts deliveries, so that a nack that is sent twice counts once.
	Delivery uint64 `json:"delivery,omitempty"`
	// Suspect: events below the first have one failed attempt, below the second two, because they
	// were given together with others.
	Suspect [2]stream.Offset `json:"suspect"`
	// Expired counts the events that retention took before the group had read them.
	Expired int64 `json:"expired,omitempty"`
}

// partition is a place with its events that have failed.
type partition struct {
	place
	// fails by offset, at or behind Committed; replays are the offsets of dead letters that wait to
	// be given again, ascending. Both are changed on copies.
	fails   map[stream.Offset]fail
	replays []stream.Offset
}

// fail is the record of an event that has failed and was not committed.
type fail struct {
	Attempts int    `json:"attempts"`
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Delivery uint64 `json:"delivery,omitempty"`
	// Dead: the event is a dead letter already, and is left out.
	Dead bool `json:"dead,omitempty"`
}

// waits reports whether a delivery waits for a commit.
func (p *partition) waits() bool { return p.Replay != nil || p.Until > p.Committed }

// attempts are the failed attempts of an event.
func (p *partition) attempts(o stream.Offset) int {
	least := 0
	switch {
	case o < p.Suspect[1]:
		least = 2
	case o < p.Suspect[0]:
		least = 1
	}
	return max(least, p.fails[o].Attempts)
}

// replayReady reports whether a dead letter is to be given again now. One that lies at or behind
// Committed waits until the group has passed it: a commit behind it then says nothing of the log.
func (p *partition) replayReady() bool { return len(p.replays) > 0 && p.replays[0] < p.Committed }

// suspected reports whether the next event may have killed a member: it comes alone, or with few.
func (p *partition) suspected() bool {
	f := p.fails[p.Committed]
	return p.Committed < p.Suspect[0] || f.Attempts > 0 && f.Code != "nack"
}

func (s *state) clone() *state {
	c := &state{head: s.head, parts: slices.Clone(s.parts)}
	c.Members = maps.Clone(s.Members)
	return c
}

// Keys, all integers big-endian. The byte 1 keeps them apart from the acknowledgements of live
// readers, which are in the same space.
//
//	g stream(8) 1 group 0 'm'                        the group: head
//	g stream(8) 1 group 0 'p' partition(4)           a partition: place
//	g stream(8) 1 group 0 'f' partition(4) offset(8) an event that has failed: fail
//	g stream(8) 1 group 0 'd' partition(4) offset(8) a dead letter: letter
//	g stream(8) 1 group 0 'r' partition(4) offset(8) a dead letter that waits to be given again
//
// Values are JSON, whose members may be added to; version 1.
const stateVersion = 1

const (
	kindHead   = 'm'
	kindPlace  = 'p'
	kindFail   = 'f'
	kindLetter = 'd'
	kindReplay = 'r'
)

// groupsPrefix is the beginning of the keys of a stream's groups.
func groupsPrefix(id stream.ID) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{byte(kv.Groups)}, uint64(id)), 1)
}

// prefix is the beginning of a group's keys.
func prefix(id stream.ID, name string) []byte {
	return append(append(groupsPrefix(id), name...), 0)
}

func key(id stream.ID, name string, kind byte) []byte { return append(prefix(id, name), kind) }

func placeKey(id stream.ID, name string, p stream.Partition) []byte {
	return binary.BigEndian.AppendUint32(key(id, name, kindPlace), uint32(p))
}

func eventKey(id stream.ID, name string, kind byte, at stream.Place) []byte {
	k := binary.BigEndian.AppendUint32(key(id, name, kind), uint32(at.Partition))
	return binary.BigEndian.AppendUint64(k, uint64(at.Offset))
}

// readPlace reads what follows the kind in the key of an event.
func readPlace(rest []byte) (stream.Place, bool) {
	if len(rest) != 12 {
		return stream.Place{}, false
	}
	return stream.Place{
		Partition: stream.Partition(binary.BigEndian.Uint32(rest)), Offset: stream.Offset(binary.BigEndian.Uint64(rest[4:])),
	}, true
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values only
	}
	return text
}

// load reads a group; nil when there is none.
func load(store *kv.Store, id stream.ID, name string) (*state, error) {
	from := prefix(id, name)
	it := store.Iter(from, kv.PrefixEnd(from))
	var s *state
	fails := map[stream.Partition]map[stream.Offset]fail{}
	replays := map[stream.Partition][]stream.Offset{}
	var err error
	places := map[stream.Partition]place{}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		k, value := it.Key()[len(from):], it.Value()
		var at stream.Place
		good := len(k) > 0
		if good && (k[0] == kindFail || k[0] == kindReplay) {
			at, good = readPlace(k[1:])
		}
		switch {
		case !good:
		case k[0] == kindHead:
			s = &state{}
			if good = json.Unmarshal(value, &s.head) == nil; good && s.Version > stateVersion {
				err = fmt.Errorf("group %s of stream %d was written by a newer version", name, id)
			}
		case k[0] == kindPlace:
			var p place
			good = len(k) == 5 && json.Unmarshal(value, &p) == nil
			if good {
				places[stream.Partition(binary.BigEndian.Uint32(k[1:]))] = p
			}
		case k[0] == kindFail:
			var f fail
			good = json.Unmarshal(value, &f) == nil
			if fails[at.Partition] == nil {
				fails[at.Partition] = map[stream.Offset]fail{}
			}
			fails[at.Partition][at.Offset] = f
		case k[0] == kindReplay:
			replays[at.Partition] = append(replays[at.Partition], at.Offset)
		}
		if !good {
			err = fmt.Errorf("group %s of stream %d: the record %q can't be read: run \"tidemark check\" on the data directory", name, id, k)
		}
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	if err != nil || s == nil {
		return nil, err
	}
	for p := range stream.Partition(len(places)) {
		at, ok := places[p]
		if !ok {
			return nil, fmt.Errorf("group %s of stream %d: the record of partition %d is missing: run \"tidemark check\" on the data directory", name, id, p)
		}
		s.parts = append(s.parts, partition{place: at, fails: fails[p], replays: replays[p]})
	}
	if s.Members == nil {
		s.Members = map[string]time.Duration{}
	}
	return s, nil
}
