package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"tidemark/storage/row"
)

// Log keeps the events of all streams. It is safe for concurrent use.
type Log interface {
	// ID is the log's identity, part of every position.
	ID() LogID

	// Declare creates a stream in the log or gives it new settings (more partitions, other
	// timers). It returns once that is durable. Fewer partitions than before is an error.
	Declare(ctx context.Context, id ID, s Settings) error
	// Drop removes a stream with all that belongs to it: events, ids, dead letters, groups.
	Drop(ctx context.Context, id ID) error

	// Append commits the requests' events and dead letters in one atomic commit, duplicates left
	// out, and returns one Appended a request, in order, after the fsync. The log owns the
	// requests' memory until then. A full queue is a *problem.Problem with status 429, a disk
	// that is nearly full one with 503.
	Append(ctx context.Context, reqs []*Events) ([]Appended, error)
	// Advance says that nothing older than to will come on the stream. A smaller value than
	// before changes nothing.
	Advance(ctx context.Context, id ID, to Micros) (Sequence, error)

	// End is the last durable sequence; 0 when the log is empty.
	End() Sequence
	// Read returns a reader of the entries of some streams with sequences after `after`, in
	// order. It ends at what is durable now and can be asked again later. After 0 it begins with
	// the oldest entries that the log has, and Start tells what was before them; after another
	// sequence, entries that retention has removed are a *Trimmed error.
	Read(ids []ID, after Sequence) Reader
	// Slice returns the batch that holds offset and those behind it in one partition, for readers
	// by offset, until they hold max events. An offset under the first is ErrOffsetGone with the
	// first offset; one at or past the end gives none.
	Slice(id ID, p Partition, from Offset, max int) ([]*Batch, error)
	// OffsetAt is the first offset of a partition whose append time is at or after at.
	OffsetAt(id ID, p Partition, at Micros) (Offset, error)
	// Watch returns a channel that receives (without blocking the log; a full channel is skipped)
	// after each commit that touched one of the streams, and a function that ends that. No ids
	// means all streams.
	Watch(ids ...ID) (<-chan struct{}, func())

	// Stats says where a stream stands.
	Stats(id ID) (Stats, error)
	// Mark is where a stream stood before the oldest entry that the log has; its Sequence is 0 while
	// nothing was removed.
	Mark(id ID) (Mark, error)
	// WantClock asks for clock records on a stream while a window that is not final holds rows,
	// and takes the wish back. Wishes are counted by owner.
	WantClock(id ID, owner string, want bool)

	// DeadLetters lists a stream's dead letters from after a number on, oldest first.
	DeadLetters(id ID, after uint64, limit int) ([]DeadLetter, error)
	// DropDeadLetter removes one; unknown numbers are no error.
	DropDeadLetter(ctx context.Context, id ID, number uint64) error
	// FailDeadLetter counts one more failed attempt of one; unknown numbers are no error.
	FailDeadLetter(ctx context.Context, id ID, number uint64) error
	// Remembered returns the answer kept under an idempotency key, or ok false.
	Remembered(key IdempotencyKey) (answer Answer, ok bool, err error)
}

// Reader gives out entries in the order of their sequences. It belongs to one goroutine.
type Reader interface {
	// Next returns the next durable entry, or ok false when there is none now.
	Next() (e Entry, ok bool, err error)
	// Start is where a stream stood before the first entry that the reader gives, for a reader after
	// sequence 0: a fold that begins there begins with it. Its Sequence is 0 when nothing was
	// removed.
	Start(id ID) Mark
	// Close releases the reader.
	Close() error
}

// Settings are what the log needs to know of a stream.
type Settings struct {
	Name        string // for errors
	Partitions  int
	MaxSkew     time.Duration
	IdleTimeout time.Duration // 0: never idle
	// IdleAdvance lets the stream's watermark follow the clock while all partitions are idle.
	IdleAdvance bool
	// DedupeWindow is how long ids are remembered; 0: not at all.
	DedupeWindow time.Duration
	Retention    Retention
	// CompactBy keeps the last event per key only. False: keep all.
	Compact bool
}

// Retention bounds what a stream keeps. Zero fields are no bound.
type Retention struct {
	Age   time.Duration // by append time
	Bytes int64
}

// Events is what one request wants to append to one stream, decoded and valid. All slices but
// the dead letters have one element an event, in the order of the request.
type Events struct {
	Stream ID
	// Columns by column number; nil where no event has a value.
	Columns []*row.Vector
	// Times are the event times; AtAppend for an event whose stream has no time field.
	Times []Micros
	Keys  *row.Vector
	// Partitions says where each event goes.
	Partitions []Partition
	// IDs are the hashes of the ids; the zero EventID means that the event has none. Nil: none has.
	IDs     []EventID
	RawData []byte
	RawEnds []uint32
	// Values say where the values of the payloads' members stand, event by event, and ValueCounts
	// how many there are of each event: a log need not keep twice what a column has. Nil: not known.
	Values      []Value
	ValueCounts []int32
	// DeadLetters are kept in the same commit. Number and FirstSeen are filled in by the log.
	DeadLetters []DeadLetter
	// Idempotency, when not nil, keeps the answer under its key in the same commit.
	Idempotency *Idempotency
	// NoSync lets Append return before the fsync.
	NoSync bool
}

// Value is where the value of a member stands in a payload, from its beginning. The values of an
// event follow each other and do not overlap; what lies between them is names and punctuation.
type Value struct {
	From, To uint32
	Column   int32 // the number of the column that was read from it; −1: none
}

// AtAppend in Events.Times stands for the append time, which only the log knows: the log puts it
// in its place, so that readers never meet this value.
const AtAppend Micros = math.MinInt64

// Len is the number of events.
func (e *Events) Len() int { return len(e.Times) }

// Appended says what became of a request.
type Appended struct {
	// Ranges are the offsets of the events that were appended, by ascending partition; within one
	// partition events keep the order of the request.
	Ranges []Range
	// Duplicates are the events that were not appended, in the order of the request.
	Duplicates []Duplicate
	// DeadLetters are the numbers of the request's dead letters.
	DeadLetters []uint64
	// Sequence is the last sequence of the commit: a view that has read up to it has these events.
	Sequence Sequence
}

// Range is a run of offsets, both ends in.
type Range struct {
	Partition Partition `json:"partition"`
	First     Offset    `json:"first_offset"`
	Last      Offset    `json:"last_offset"`
}

// Duplicate is an event whose id is known: Index is its place in the request.
type Duplicate struct {
	Index int
	Of    Place
}

// Idempotency is a request's idempotency key.
type Idempotency struct {
	Key IdempotencyKey
	// BodySum is the SHA-256 of the body.
	BodySum [32]byte
	// Answer makes the bytes to keep from what became of all requests of the commit that came in
	// the same call of Append. It is called once, inside the commit: it must be quick.
	Answer func([]Appended) []byte
}

// IdempotencyKey is the SHA-256 of scope and key.
type IdempotencyKey [32]byte

// Answer is a kept answer.
type Answer struct {
	BodySum [32]byte
	Body    []byte
}

// DeadLetter is an input that could not be used, kept with its reason.
type DeadLetter struct {
	Number    uint64
	Origin    string // "ingest" or "group"
	Group     string // of origin "group"
	Place     *Place // of origin "group": where the event lies
	Code      string
	Reason    string
	Raw       []byte
	FirstSeen Micros
	Attempts  int
}

// Stats says where a stream stands. Counts are kept across restarts.
type Stats struct {
	Accepted, Duplicates, DeadLetters int64
	Partitions                        []PartitionStats
	LastAppend                        Micros // append time of the last event; 0: none yet
	// DedupeShortened says that ids are remembered for less than the dedupe_window, because they take
	// too many bytes.
	DedupeShortened bool
	// Advance is the largest value that Advance was called with; HasAdvance false when never.
	Advance    Micros
	HasAdvance bool
}

// PartitionStats says where a partition stands.
type PartitionStats struct {
	First, Next Offset
	Bytes       int64
	// MaxCounted is the largest counted time; HasCounted false when there was no event yet.
	MaxCounted Micros
	HasCounted bool
	Idle       bool
	LastAppend Micros
}

// ErrRemembered is the error of an Append whose idempotency key already has an answer; nothing is
// appended. Ask Remembered for the answer.
var ErrRemembered = errors.New("this idempotency key already has an answer")

// ErrUnknownStream is the error of calls about a stream that was not declared, or was dropped.
var ErrUnknownStream = errors.New("the log has no such stream")

// ErrShortened is the cause of the refusals of a log that is shorter than it was.
var ErrShortened = errors.New("the log is shorter than it was")

// OffsetGone is the error of a read below a partition's first offset.
type OffsetGone struct{ First Offset }

// Trimmed is the error of a reader whose next entries retention has removed. It stays: the reader
// can't go on; a new one after sequence 0 begins with what is there.
type Trimmed struct {
	Stream ID
	Name   string
	// Sequence is the last one that was removed, First the first offset of each partition now.
	Sequence Sequence
	First    []Offset
}

func (e *Trimmed) Error() string {
	return fmt.Sprintf("retention has removed events of stream %s that were not read yet; its partitions begin at offsets %d now", e.Name, e.First)
}

func (e *OffsetGone) Error() string {
	return "the log no longer holds this offset; the first one it has is " + strconv.FormatInt(int64(e.First), 10)
}
