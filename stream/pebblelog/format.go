package pebblelog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
)

// A batch, version 2, frozen:
//
//	version 2 · CRC-32C(4) of the key and all that follows · flags(2) · header · columns · raw
//	header   uvarint events, sequence; zigzag append time, least and greatest event time; uvarint
//	         max_skew; and for each section its codec (1 byte), uvarint length decoded and stored
//	columns  uvarint number of columns, the number of each; uvarint number + 1 of the column that has
//	         the event times, and of the one that has the keys, or 0; then row.EncodeBatch of the
//	         event times and the keys where no column has them, and these columns
//	raw      the payloads without what the columns give back: see payload.go
//
// Codecs: 0 as it is, 1 zstd. Flags that a reader does not know are refused, not skipped: bit 0 is
// kept for sealed fields, bit 1 for a schema version in the header; neither is written yet. Bit 2:
// compaction has removed events; then behind max_skew stand uvarint offsets that the batch stands
// for and zigzag largest counted time that was removed, and columns begins with the offset of each
// event, as uvarint, less the one before (the first: less the base offset). Keys that a column has
// are its values: a VARCHAR's as they are, an integer's in digits.
//
// Version 1, which is read and no longer written, differs in its sections:
//
//	columns  uvarint number of columns, the number of each; then row.EncodeBatch of the event
//	         times, the keys, and these columns
//	raw      uvarint length of each payload; all payloads
const (
	batchVersion = 2
	oldestBatch  = 1
	flagSealed   = 1 << 0
	flagSchema   = 1 << 1
	flagCompact  = 1 << 2
	knownFlags   = flagCompact

	codecPlain = 0
	codecZstd  = 1
)

// leastToCompress is the size below which compressing a section costs more than it saves.
const leastToCompress = 256

// maxSection bounds what a section may claim to be when decoded; a request is at most 64 MiB.
const maxSection = 1 << 30

// errDamaged marks bytes that are not what was written.
var errDamaged = fmt.Errorf("checksum differs: %w", kv.ErrDamaged)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, value)
}

// codec writes and reads batches. Many goroutines may read with it, one may write.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder

	// memory of the one that writes
	plain, packed [2][]byte
	shaper        shaper
	out           []byte
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxSection))
	if err != nil {
		return nil, err
	}
	return &codec{enc: enc, dec: dec}, nil
}

func (c *codec) close() {
	_ = c.enc.Close()
	c.dec.Close()
}

// section is one compressed part of a batch.
type section struct {
	codec  byte
	length int // decoded
	stored []byte
}

// pack compresses a section into memory that is used again.
func (c *codec) pack(plain []byte, into *[]byte) section {
	if len(plain) >= leastToCompress {
		*into = c.enc.EncodeAll(plain, (*into)[:0])
		if len(*into) < len(plain) {
			return section{codecZstd, len(plain), *into}
		}
	}
	return section{codecPlain, len(plain), plain}
}

func (c *codec) unpack(s section) ([]byte, error) {
	out := s.stored
	if s.codec == codecZstd {
		var err error
		if out, err = c.dec.DecodeAll(s.stored, make([]byte, 0, s.length)); err != nil {
			return nil, err
		}
	}
	if len(out) != s.length {
		return nil, fmt.Errorf("a section of %d bytes has %d", s.length, len(out))
	}
	return out, nil
}

// encodeBatch returns the stored form of a batch with its payloads, in memory that the next call uses
// again.
func (c *codec) encodeBatch(key []byte, b *stream.Batch, all iter.Seq2[[]byte, []stream.Value]) []byte {
	plain := c.plain[0][:0]
	flags, before := uint16(0), b.Base
	if b.Offsets != nil {
		flags = flagCompact
	}
	for _, o := range b.Offsets {
		plain = binary.AppendUvarint(plain, uint64(o-before))
		before = o
	}
	cols := row.Batch{Len: b.Len, Cols: make([]*row.Vector, 0, 2+len(b.Columns))}
	times, keys := timesIn(b), keysIn(b)
	if times < 0 {
		cols.Cols = append(cols.Cols, &row.Vector{Type: row.Scalar(row.Timestamp), I64: b.Times})
	}
	if keys < 0 {
		cols.Cols = append(cols.Cols, b.Keys)
	}
	numbers := 0
	for _, v := range b.Columns {
		if v != nil {
			numbers++
		}
	}
	plain = binary.AppendUvarint(plain, uint64(numbers))
	for number, v := range b.Columns {
		if v != nil {
			plain = binary.AppendUvarint(plain, uint64(number))
			cols.Cols = append(cols.Cols, v)
		}
	}
	plain = binary.AppendUvarint(plain, uint64(times+1))
	plain = binary.AppendUvarint(plain, uint64(keys+1))
	c.plain[0] = row.EncodeBatch(plain, nil, &cols)
	columns := c.pack(c.plain[0], &c.packed[0])
	c.plain[1] = c.shaper.take(c.plain[1][:0], all, b.Columns)
	payloads := c.pack(c.plain[1], &c.packed[1])

	least, greatest := int64(math.MaxInt64), int64(math.MinInt64)
	for _, t := range b.Times {
		least, greatest = min(least, t), max(greatest, t)
	}
	out := append(c.out[:0], batchVersion, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, flags)
	out = binary.AppendUvarint(out, uint64(b.Len))
	out = binary.AppendUvarint(out, uint64(b.Sequence))
	out = binary.AppendVarint(out, b.AppendTime)
	out = binary.AppendVarint(out, least)
	out = binary.AppendVarint(out, greatest)
	out = binary.AppendUvarint(out, uint64(b.MaxSkew))
	if b.Offsets != nil {
		out = binary.AppendVarint(binary.AppendUvarint(out, uint64(b.Span)), b.Removed)
	}
	for _, s := range []section{columns, payloads} {
		out = append(out, s.codec)
		out = binary.AppendUvarint(out, uint64(s.length))
		out = binary.AppendUvarint(out, uint64(len(s.stored)))
	}
	out = append(append(out, columns.stored...), payloads.stored...)
	binary.BigEndian.PutUint32(out[1:], checksum(key, out[5:]))
	c.out = out
	return out
}

// encoded is the batch that encodeBatch was called with last, as readers get it: its payloads are put
// together when somebody asks for one. size is about how much memory it may hold then.
func (c *codec) encoded(b *stream.Batch) (batch *stream.Batch, size int) {
	section, n, columns := slices.Clone(c.plain[1]), b.Len, b.Columns
	batch = stream.NewLazyBatch(*b, func() ([]byte, []uint32, error) {
		p, err := readPayloads(section, n, columns, false)
		if err != nil {
			return nil, nil, err
		}
		return p.raw, p.ends, nil
	})
	return batch, sizeOfBatch(batch, c.shaper.size+len(section))
}

// timesIn is the number of a column that has the event times; −1 when none has.
func timesIn(b *stream.Batch) int {
	for number, v := range b.Columns {
		if v != nil && v.Type.Kind == row.Timestamp && !v.Nulls.Any() && slices.Equal(v.I64, b.Times) {
			return number
		}
	}
	return -1
}

// keysIn is the number of a column that has the keys; −1 when none has.
func keysIn(b *stream.Batch) int {
	for number, v := range b.Columns {
		if v != nil && hasKeys(v, b.Keys) {
			return number
		}
	}
	return -1
}

func hasKeys(v, keys *row.Vector) bool {
	switch v.Type.Kind {
	case row.Varchar:
		if v == keys {
			return true
		}
	case row.TinyInt, row.SmallInt, row.Integer, row.BigInt:
	default:
		return false
	}
	for i, key := range keys.Str {
		null := keys.IsNull(i)
		switch {
		case v.IsNull(i) != null:
			return false
		case null:
		case v.Str != nil && v.Str[i] != key:
			return false
		case v.Str == nil && !isInteger([]byte(key), v.I64[i]):
			return false
		}
	}
	return true
}

// keysOf are the keys of a batch whose column has them.
func keysOf(v *row.Vector) (*row.Vector, bool) {
	switch v.Type.Kind {
	case row.Varchar:
		return v, true
	case row.TinyInt, row.SmallInt, row.Integer, row.BigInt:
		keys := row.NewVector(row.Scalar(row.Varchar), v.Len())
		for i, x := range v.I64 {
			if v.IsNull(i) {
				keys.AppendNull()
			} else {
				keys.AppendString(strconv.FormatInt(x, 10))
			}
		}
		return keys, true
	}
	return nil, false
}

// batchHeader is a batch before its sections are decoded.
type batchHeader struct {
	batch             stream.Batch // without times, keys, columns
	least, greatest   stream.Micros
	columns, payloads section
	sum               uint32        // the checksum
	span              stream.Offset // how many offsets the batch stands for
	version           byte
	compacted         bool
}

// decodeHeader checks a stored batch and reads its header. The sections share value's memory.
func decodeHeader(key, value []byte) (batchHeader, error) {
	var h batchHeader
	if len(value) < 7 {
		return h, errDamaged
	}
	if h.version = value[0]; h.version < oldestBatch || h.version > batchVersion {
		return h, fmt.Errorf("batch of version %d: this program knows versions %d to %d: start the program that wrote it, or a newer one", h.version, oldestBatch, batchVersion)
	}
	if binary.BigEndian.Uint32(value[1:]) != checksum(key, value[5:]) {
		return h, errDamaged
	}
	flags := binary.BigEndian.Uint16(value[5:])
	if flags&^knownFlags != 0 {
		return h, fmt.Errorf("batch with unknown flags %#x: start the program that wrote it, or a newer one", flags)
	}
	h.sum = binary.BigEndian.Uint32(value[1:])
	d := row.Reader{Rest: value[7:]}
	h.batch.Stream = stream.ID(binary.BigEndian.Uint64(key[1:]))
	h.batch.Partition = stream.Partition(binary.BigEndian.Uint32(key[9:]))
	h.batch.Base = stream.Offset(binary.BigEndian.Uint64(key[13:]))
	h.batch.Len = int(d.Uvarint())
	h.span = stream.Offset(h.batch.Len)
	h.batch.Sequence = stream.Sequence(d.Uvarint())
	h.batch.AppendTime = d.Varint()
	h.least, h.greatest = d.Varint(), d.Varint()
	h.batch.MaxSkew = stream.Micros(d.Uvarint())
	if flags&flagCompact != 0 {
		h.compacted, h.span = true, stream.Offset(d.Uvarint())
		h.batch.Span, h.batch.Removed = h.span, d.Varint()
	}
	var stored [2]int
	for i, s := range []*section{&h.columns, &h.payloads} {
		s.codec = d.Byte()
		s.length = int(d.Uvarint())
		stored[i] = int(d.Uvarint())
		if s.codec > codecZstd || s.length < 0 || s.length > maxSection {
			d.Failed = true
		}
	}
	h.columns.stored = d.Bytes(stored[0])
	h.payloads.stored = d.Bytes(stored[1])
	if !d.Done() || h.batch.Len < 1 {
		return h, errDamaged
	}
	return h, nil
}

// decodeBatch reads a stored batch; value must not change afterwards: payloads are decoded from it
// when somebody asks for one.
func (c *codec) decodeBatch(key, value []byte) (*stream.Batch, error) {
	h, err := decodeHeader(key, value)
	if err != nil {
		return nil, err
	}
	plain, err := c.unpack(h.columns)
	if err != nil {
		return nil, err
	}
	d := row.Reader{Rest: plain}
	if h.compacted {
		h.batch.Offsets = make([]stream.Offset, h.batch.Len)
		at := h.batch.Base
		for i := range h.batch.Offsets {
			at += stream.Offset(d.Length(maxSection))
			h.batch.Offsets[i] = at
		}
	}
	numbers := make([]int, d.Length(stream.MaxColumns))
	for i := range numbers {
		numbers[i] = d.Length(stream.MaxColumns)
	}
	times, keys := -1, -1
	if h.version > 1 {
		times, keys = d.Length(stream.MaxColumns+1)-1, d.Length(stream.MaxColumns+1)-1
	}
	if d.Failed {
		return nil, errDamaged
	}
	_, cols, err := row.DecodeBatch(d.Rest)
	if err != nil {
		return nil, err
	}
	if !h.place(cols, numbers, times, keys) {
		return nil, errDamaged
	}
	section, columns := h.payloads, h.batch.Columns
	n, version := h.batch.Len, h.version
	return stream.NewLazyBatch(h.batch, func() ([]byte, []uint32, error) {
		p, err := c.decodePayloads(section, version, n, columns, false)
		if err != nil {
			return nil, nil, err
		}
		return p.raw, p.ends, nil
	}), nil
}

// place puts decoded columns where they belong; false when they don't fit the header.
func (h *batchHeader) place(cols *row.Batch, numbers []int, times, keys int) bool {
	rest := cols.Cols
	next := func() *row.Vector {
		if len(rest) == 0 {
			return nil
		}
		v := rest[0]
		rest = rest[1:]
		return v
	}
	var own, ownKeys *row.Vector
	if times < 0 {
		own = next()
	}
	if keys < 0 {
		ownKeys = next()
	}
	if cols.Len != h.batch.Len || len(rest) != len(numbers) {
		return false
	}
	if len(numbers) > 0 {
		h.batch.Columns = make([]*row.Vector, numbers[len(numbers)-1]+1)
	}
	for i, number := range numbers {
		if number >= len(h.batch.Columns) {
			return false
		}
		h.batch.Columns[number] = rest[i]
	}
	column := func(number int) *row.Vector {
		if number < len(h.batch.Columns) {
			return h.batch.Columns[number]
		}
		return nil
	}
	if times >= 0 {
		own = column(times)
	}
	if keys >= 0 {
		if v := column(keys); v != nil {
			ownKeys, _ = keysOf(v)
		}
	}
	if own == nil || own.Type.Class() != row.Int64Class || ownKeys == nil {
		return false
	}
	h.batch.Times, h.batch.Keys = own.I64, ownKeys
	return true
}

// decodePayloads decodes the raw section of a batch.
func (c *codec) decodePayloads(s section, version byte, n int, columns []*row.Vector, values bool) (*payloads, error) {
	plain, err := c.unpack(s)
	if err != nil {
		return nil, err
	}
	if version > 1 {
		return readPayloads(plain, n, columns, values)
	}
	d := row.Reader{Rest: plain}
	ends, end := make([]uint32, n), 0
	for i := range ends {
		end += d.Length(maxSection)
		ends[i] = uint32(end)
	}
	if d.Failed || end != len(d.Rest) {
		return nil, errDamaged
	}
	return &payloads{raw: d.Rest, ends: ends}, nil
}

// An index record, version 1, frozen:
//
//	version 1 · kind · fields · CRC-32C(4) of the key and all before
//	kind 0           a batch: uvarint partition, base offset, events
//	any other kind   a control record of that stream.ControlKind: zigzag append time, uvarint
//	                 partition, zigzag value
const indexVersion = 1

// indexRecord is one step of a stream in the log's order.
type indexRecord struct {
	sequence  stream.Sequence
	control   *stream.Control // nil: a batch
	partition stream.Partition
	base      stream.Offset
}

func encodePointer(key []byte, b *stream.Batch) []byte {
	out := []byte{indexVersion, 0}
	out = binary.AppendUvarint(out, uint64(b.Partition))
	out = binary.AppendUvarint(out, uint64(b.Base))
	out = binary.AppendUvarint(out, uint64(b.Len))
	return binary.BigEndian.AppendUint32(out, checksum(key, out))
}

func encodeControl(key []byte, c *stream.Control) []byte {
	out := []byte{indexVersion, byte(c.Kind)}
	out = binary.AppendVarint(out, c.AppendTime)
	out = binary.AppendUvarint(out, uint64(c.Partition))
	out = binary.AppendVarint(out, c.Value)
	return binary.BigEndian.AppendUint32(out, checksum(key, out))
}

func decodeIndex(key, value []byte) (indexRecord, error) {
	r := indexRecord{sequence: stream.Sequence(binary.BigEndian.Uint64(key[9:]))}
	if len(value) < 6 {
		return r, errDamaged
	}
	if value[0] != indexVersion {
		return r, fmt.Errorf("index record of version %d: this program knows version %d", value[0], indexVersion)
	}
	body, sum := value[:len(value)-4], value[len(value)-4:]
	if binary.BigEndian.Uint32(sum) != checksum(key, body) {
		return r, errDamaged
	}
	d := row.Reader{Rest: body[2:]}
	switch kind := stream.ControlKind(body[1]); {
	case kind == 0:
		r.partition, r.base = stream.Partition(d.Uvarint()), stream.Offset(d.Uvarint())
		d.Uvarint()
	case kind <= stream.Advance:
		r.control = &stream.Control{
			Stream: stream.ID(binary.BigEndian.Uint64(key[1:])), Sequence: r.sequence, Kind: kind,
			AppendTime: d.Varint(), Partition: stream.Partition(d.Uvarint()), Value: d.Varint(),
		}
	default:
		return r, fmt.Errorf("control record of unknown kind %d: start the program that wrote it, or a newer one", kind)
	}
	if !d.Done() {
		return r, errDamaged
	}
	return r, nil
}
