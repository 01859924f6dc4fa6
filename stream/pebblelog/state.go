package pebblelog

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	"tidemark/storage/row"
	"tidemark/stream"
)

// streamState is where a stream stands. The sequencer alone changes it, on a copy that takes the
// place of the old one when the store has the commit (I6).
type streamState struct {
	id             stream.ID
	settings       stream.Settings
	stats          stream.Stats // Partitions included
	lastDeadLetter uint64

	// quiet[p] is since when, on the monotonic clock, partition p had no event; silent since when
	// the stream had no record at all.
	quiet  []time.Duration
	silent time.Duration
	// sums[p] is the checksum of partition p's last batch, for the witness; 0 when there is none.
	sums []uint32
	// mark is where the stream stood before its oldest entry; never changed in place.
	mark stream.Mark
	// compact is how far the stream is compacted; isCompacted that compaction has begun.
	compact     compactState
	isCompacted bool
	// ids answers which ids are surely new; shared by copies: it only ever learns of commits that
	// the store has taken.
	ids *hours
}

// compacted reports whether compaction may have removed events in the middle of the stream.
func (s *streamState) compacted() bool { return s.isCompacted }

// clone copies what a commit may change.
func (s *streamState) clone() *streamState {
	c := *s
	c.stats.Partitions = slices.Clone(s.stats.Partitions)
	c.quiet = slices.Clone(s.quiet)
	c.sums = slices.Clone(s.sums)
	return &c
}

// Settings are kept as JSON, whose members may be added to. The counters and the state of a
// partition, version 1, frozen:
//
//	counters   version 1 · uvarint accepted, duplicates, dead letters, last number of a dead letter ·
//	           zigzag append time of the last event · byte 1 and zigzag advance, or byte 0
//	partition  version 1 · uvarint first offset, next offset, bytes · byte 1 when idle, else 0 ·
//	           byte 1 and zigzag largest counted time, or byte 0 · zigzag append time of the last event
//	log/end    version 1 · uvarint sequence · zigzag append time
const stateVersion = 1

func (s *streamState) encodeCounters() []byte {
	out := []byte{stateVersion}
	for _, v := range []int64{s.stats.Accepted, s.stats.Duplicates, s.stats.DeadLetters} {
		out = binary.AppendUvarint(out, uint64(v))
	}
	out = binary.AppendUvarint(out, s.lastDeadLetter)
	out = binary.AppendVarint(out, s.stats.LastAppend)
	return appendOptional(out, s.stats.HasAdvance, s.stats.Advance)
}

func (s *streamState) decodeCounters(value []byte) bool {
	d := row.Reader{Rest: value}
	if d.Byte() != stateVersion {
		return false
	}
	for _, v := range []*int64{&s.stats.Accepted, &s.stats.Duplicates, &s.stats.DeadLetters} {
		*v = int64(d.Uvarint())
	}
	s.lastDeadLetter = d.Uvarint()
	s.stats.LastAppend = d.Varint()
	s.stats.HasAdvance, s.stats.Advance = optional(&d)
	return d.Done()
}

func encodePartition(p stream.PartitionStats) []byte {
	out := []byte{stateVersion}
	out = binary.AppendUvarint(out, uint64(p.First))
	out = binary.AppendUvarint(out, uint64(p.Next))
	out = binary.AppendUvarint(out, uint64(p.Bytes))
	idle := byte(0)
	if p.Idle {
		idle = 1
	}
	out = appendOptional(append(out, idle), p.HasCounted, p.MaxCounted)
	return binary.AppendVarint(out, p.LastAppend)
}

func decodePartition(value []byte) (p stream.PartitionStats, ok bool) {
	d := row.Reader{Rest: value}
	if d.Byte() != stateVersion {
		return p, false
	}
	p.First, p.Next, p.Bytes = stream.Offset(d.Uvarint()), stream.Offset(d.Uvarint()), int64(d.Uvarint())
	p.Idle = d.Byte() == 1
	p.HasCounted, p.MaxCounted = optional(&d)
	p.LastAppend = d.Varint()
	return p, d.Done()
}

func encodeEnd(s stream.Sequence, at stream.Micros) []byte {
	return binary.AppendVarint(binary.AppendUvarint([]byte{stateVersion}, uint64(s)), at)
}

func decodeEnd(value []byte) (s stream.Sequence, at stream.Micros, ok bool) {
	d := row.Reader{Rest: value}
	if d.Byte() != stateVersion {
		return 0, 0, false
	}
	s, at = stream.Sequence(d.Uvarint()), d.Varint()
	return s, at, d.Done()
}

func appendOptional(dst []byte, has bool, v int64) []byte {
	if !has {
		return append(dst, 0)
	}
	return binary.AppendVarint(append(dst, 1), v)
}

// optional reads what appendOptional writes.
func optional(d *row.Reader) (has bool, v int64) {
	if d.Byte() != 1 {
		return false, 0
	}
	return true, d.Varint()
}

func encodeSettings(s stream.Settings) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain values only
	}
	return text
}

// publicStats returns the stats as readers may keep them.
func (s *streamState) publicStats() stream.Stats {
	out := s.stats
	out.Partitions = slices.Clone(s.stats.Partitions)
	return out
}
