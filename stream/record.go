package stream

import (
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"tidemark/storage/row"
)

// ID is the internal number of a stream. It is never used again, so that a stream that is made
// anew under an old name remembers nothing.
type ID uint64

// Partition is the number of a partition of a stream, from 0.
type Partition int32

// Offset is an event's place in its partition, from 0.
type Offset int64

// Sequence is the place of a batch or control record in the whole log, from 1.
type Sequence int64

// Micros is an instant in microseconds since 1970, UTC, or a span of microseconds.
type Micros = int64

// EventID is a 128-bit hash of an event's id.
type EventID [16]byte

// Place is where an event lies.
type Place struct {
	Partition Partition `json:"partition"`
	Offset    Offset    `json:"offset"`
}

// Batch is what one commit holds for one partition, as readers get it. It is shared by all
// readers: nobody changes it.
type Batch struct {
	Stream     ID
	Partition  Partition
	Base       Offset // offset of the first event
	Sequence   Sequence
	AppendTime Micros
	// MaxSkew is how far past AppendTime an event's counted time may lie (a stream's max_skew
	// when the batch was appended).
	MaxSkew Micros
	Len     int
	// Offsets are the events' offsets where compaction has removed others between them; nil: they
	// follow each other from Base on. Use Offset and Index.
	Offsets []Offset
	// Span is how many offsets the batch stands for, removed ones included; 0 means Len.
	Span Offset
	// Removed is the largest counted time of the events that compaction has removed, from this batch
	// and from batches before it that are gone: they moved the partition's watermark, at the latest
	// behind this batch (W1). NoTime when there are none; zero too in a batch without Offsets.
	Removed Micros
	// Times are the event times, one an event.
	Times []Micros
	// Keys are the events' keys as text (VARCHAR), null where an event has none.
	Keys *row.Vector
	// Columns are the typed columns by column number ([Schema.Fields]); shorter than the schema,
	// or nil at a number, where the batch is older than the column or holds no value for it. A
	// column's type is what it was when the batch was written.
	Columns []*row.Vector

	raw *rawSection
}

// rawSection is the payloads of a batch, decoded when somebody first asks for one.
type rawSection struct {
	once sync.Once
	load func() (data []byte, ends []uint32, err error)
	data []byte
	ends []uint32
	err  error
}

// NewBatch puts together a batch. raw holds the payloads one after the other; ends[i] is where
// payload i ends.
func NewBatch(b Batch, raw []byte, ends []uint32) *Batch {
	b.raw = &rawSection{data: raw, ends: ends}
	return &b
}

// NewLazyBatch puts together a batch whose payloads are decoded by load on first use. load is
// called at most once, by whichever reader is first.
func NewLazyBatch(b Batch, load func() (raw []byte, ends []uint32, err error)) *Batch {
	b.raw = &rawSection{load: load}
	return &b
}

// Raw is the payload of event i as it came. The bytes are shared: read only. A driver hands out
// only batches whose checksum holds, so payloads that can't be decoded are a bug, and a panic.
func (b *Batch) Raw(i int) []byte {
	r := b.raw
	r.once.Do(func() {
		if r.load != nil {
			r.data, r.ends, r.err = r.load()
			r.load = nil
		}
	})
	if r.err != nil {
		panic(fmt.Sprintf("stream %d, partition %d, batch at offset %d: payloads can't be decoded: %v", b.Stream, b.Partition, b.Base, r.err))
	}
	from := uint32(0)
	if i > 0 {
		from = r.ends[i-1]
	}
	return r.data[from:r.ends[i]]
}

// Offset is the offset of event i.
func (b *Batch) Offset(i int) Offset {
	if b.Offsets != nil {
		return b.Offsets[i]
	}
	return b.Base + Offset(i)
}

// End is the offset behind the batch.
func (b *Batch) End() Offset { return b.Base + max(b.Span, Offset(b.Len)) }

// Index is the number of the first event at or behind an offset; Len when there is none.
func (b *Batch) Index(o Offset) int {
	if b.Offsets != nil {
		i, _ := slices.BinarySearch(b.Offsets, o)
		return i
	}
	return int(min(max(0, o-b.Base), Offset(b.Len)))
}

// Counted is the time of event i as watermarks count it: its event time, but at most its append
// time + MaxSkew.
func (b *Batch) Counted(i int) Micros { return min(b.Times[i], b.AppendTime+b.MaxSkew) }

// ControlKind says what a control record is about. The numbers are stored.
type ControlKind uint8

// The kinds of control records.
const (
	// Partitions says how many partitions the stream has from here on (Value); the first record
	// of a stream. Those that are new start idle, but for those of the first record.
	Partitions ControlKind = iota + 1
	// Idle says that Partition had no event for the stream's idle_timeout.
	Idle
	// Clock says what time it is (the record's AppendTime) on a stream that is silent.
	Clock
	// Advance says that nothing older than Value will come, in any partition.
	Advance
)

// Control is a fact about processing time that changes answers, kept in the log's order.
type Control struct {
	Stream     ID
	Sequence   Sequence
	AppendTime Micros
	Kind       ControlKind
	Partition  Partition
	Value      int64
}

// Entry is one step of the log: a batch or a control record, never both.
type Entry struct {
	Batch   *Batch
	Control *Control
}

// Sequence is the entry's place in the log.
func (e Entry) Sequence() Sequence {
	if e.Batch != nil {
		return e.Batch.Sequence
	}
	return e.Control.Sequence
}

// Stream is the stream that the entry belongs to.
func (e Entry) Stream() ID {
	if e.Batch != nil {
		return e.Batch.Stream
	}
	return e.Control.Stream
}

// AppendTime is when the log took the entry.
func (e Entry) AppendTime() Micros {
	if e.Batch != nil {
		return e.Batch.AppendTime
	}
	return e.Control.AppendTime
}

// LogID is the identity of a log. A restored or shortened log gets a new one, so that positions
// of the lost history are known as such.
type LogID uint64

// Position is a place in the log between two entries: everything up to Sequence is behind it.
// Within is how many events of the next batch are behind it too (readers of single events only).
type Position struct {
	Log      LogID
	Sequence Sequence
	Within   int32
}

// Of is the log's identity in the positions of a view or alert, by its internal number: those of
// one that was deleted are then none of the one that is made under its name. Of the same number
// again is the log's identity.
func (id LogID) Of(number uint64) LogID {
	x := number + 0x9e3779b97f4a7c15 // splitmix64, so that numbers in a row differ in all bits
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return id ^ LogID(x^x>>31)
}

var positionText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// String is the position as users carry it; opaque to them.
func (p Position) String() string {
	var b [20]byte
	binary.BigEndian.PutUint64(b[:], uint64(p.Log))
	binary.BigEndian.PutUint64(b[8:], uint64(p.Sequence))
	binary.BigEndian.PutUint32(b[16:], uint32(p.Within))
	return positionText.EncodeToString(b[:])
}

// ErrBadPosition says that a text is no position of ours.
var ErrBadPosition = errors.New("not a position")

// ParsePosition reads what String wrote.
func ParsePosition(text string) (Position, error) {
	b, err := positionText.DecodeString(text)
	if err != nil || len(b) != 20 || len(text) != positionText.EncodedLen(20) {
		return Position{}, ErrBadPosition
	}
	return Position{
		Log:      LogID(binary.BigEndian.Uint64(b)),
		Sequence: Sequence(binary.BigEndian.Uint64(b[8:])),
		Within:   int32(binary.BigEndian.Uint32(b[16:])),
	}, nil
}

// String is the place as errors name it.
func (p Place) String() string {
	return "partition " + strconv.Itoa(int(p.Partition)) + ", offset " + strconv.FormatInt(int64(p.Offset), 10)
}
