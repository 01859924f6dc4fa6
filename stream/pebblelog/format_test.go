package pebblelog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/storage/row"
	"tidemark/stream"
)

func sampleBatch(n int) (stream.Batch, []byte, []uint32) {
	b := stream.Batch{Stream: 7, Partition: 2, Base: 40, Sequence: 99, AppendTime: 5_000_000, MaxSkew: 5_000_000, Len: n}
	b.Keys = row.NewVector(row.Scalar(row.Varchar), n)
	v := row.NewVector(row.Scalar(row.Double), n)
	var raw []byte
	var ends []uint32
	for i := range n {
		b.Times = append(b.Times, int64(1000-i))
		b.Keys.AppendString(fmt.Sprint("key", i))
		v.AppendFloat64(float64(i) / 4)
		raw = fmt.Appendf(raw, `{"number":%d,"text":"the same in every event"}`, i)
		ends = append(ends, uint32(len(raw)))
	}
	b.Columns = []*row.Vector{nil, v}
	return b, raw, ends
}

func newTestCodec(t *testing.T) *codec {
	t.Helper()
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestBatchReadsBackAsWritten(t *testing.T) {
	t.Parallel()
	c := newTestCodec(t)
	for _, n := range []int{1, 3, 500} {
		b, raw, ends := sampleBatch(n)
		key := batchKey(b.Stream, b.Partition, b.Base)
		value := c.encodeBatch(key, &b, (&payloads{raw: raw, ends: ends}).each)
		got, err := c.decodeBatch(key, value)
		if err != nil {
			t.Fatal(err)
		}
		h, err := decodeHeader(key, value)
		if err != nil || h.least != int64(1001-n) || h.greatest != 1000 {
			t.Errorf("header %+v, %v", h, err)
		}
		if got.Stream != 7 || got.Partition != 2 || got.Base != 40 || got.Sequence != 99 || got.MaxSkew != 5_000_000 || len(got.Columns) != 2 || got.Columns[0] != nil {
			t.Errorf("got %+v", got)
		}
		for i := range n {
			if got.Times[i] != b.Times[i] || got.Keys.Str[i] != b.Keys.Str[i] || got.Columns[1].F64[i] != b.Columns[1].F64[i] || !strings.HasPrefix(string(got.Raw(i)), fmt.Sprintf(`{"number":%d,`, i)) {
				t.Fatalf("event %d differs", i)
			}
		}
		if n == 500 && len(value) > len(raw)/3 {
			t.Errorf("%d bytes stored for %d bytes of payload", len(value), len(raw))
		}
	}
}

// TestDamagedByteIsNamed flips every bit of a batch and of an index record (P11).
func TestDamagedByteIsNamed(t *testing.T) {
	t.Parallel()
	c := newTestCodec(t)
	b, raw, ends := sampleBatch(20)
	key := batchKey(b.Stream, b.Partition, b.Base)
	value := c.encodeBatch(key, &b, (&payloads{raw: raw, ends: ends}).each)
	pointerKey := indexKey(b.Stream, b.Sequence)
	pointer := encodePointer(pointerKey, &b)
	for bit := range 8 * len(value) {
		value[bit/8] ^= 1 << (bit % 8)
		if _, err := c.decodeBatch(key, value); err == nil {
			t.Errorf("bit %d of the batch flipped: not noticed", bit)
		}
		value[bit/8] ^= 1 << (bit % 8)
	}
	for bit := range 8 * len(pointer) {
		pointer[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeIndex(pointerKey, pointer); err == nil {
			t.Errorf("bit %d of the index record flipped: not noticed", bit)
		}
		pointer[bit/8] ^= 1 << (bit % 8)
	}
	for cut := range len(value) {
		if _, err := c.decodeBatch(key, value[:cut]); err == nil {
			t.Errorf("a batch cut at %d was taken", cut)
		}
	}
	if _, err := c.decodeBatch(batchKey(b.Stream, b.Partition, b.Base+1), value); !errors.Is(err, errDamaged) {
		t.Errorf("a batch at another's place: %v", err)
	}
}

// TestUnknownFlagIsRefused: a batch of a later program must not be read as if the flag meant nothing.
func TestUnknownFlagIsRefused(t *testing.T) {
	t.Parallel()
	c := newTestCodec(t)
	b, raw, ends := sampleBatch(1)
	key := batchKey(b.Stream, b.Partition, b.Base)
	for _, flag := range []byte{flagSealed, flagSchema, 1 << 7} {
		value := c.encodeBatch(key, &b, (&payloads{raw: raw, ends: ends}).each)
		value[6] |= flag
		sum := checksum(key, value[5:])
		value[1], value[2], value[3], value[4] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
		if _, err := c.decodeBatch(key, value); err == nil || !strings.Contains(err.Error(), "unknown flags") {
			t.Errorf("flag %#x: %v", flag, err)
		}
	}
}

func TestFilterNeverForgets(t *testing.T) {
	t.Parallel()
	hash := func(i int) (h [16]byte) {
		x := uint64(i)*0x9e3779b97f4a7c15 + 1
		for k := range h {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			h[k] = byte(x >> 32)
		}
		return h
	}
	var f filter
	const n = 50_000
	for i := range n {
		f.add(hash(i))
	}
	wrong := 0
	for i := range n {
		if !f.maybe(hash(i)) {
			t.Fatalf("hash %d was added and is surely not in it", i)
		}
		if f.maybe(hash(n + i)) {
			wrong++
		}
	}
	if wrong > n/100 {
		t.Errorf("%d of %d wrong maybes", wrong, n)
	}
}

func TestHoursFallBehindTheWindow(t *testing.T) {
	t.Parallel()
	h := newHours()
	id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, hour := range []uint32{12, 10, 11} {
		h.add(hour, id)
	}
	if got := h.maybe(11, id, nil); fmt.Sprint(got) != "[12 11]" {
		t.Errorf("hours %v", got)
	}
	if h.older(10) || !h.older(11) {
		t.Error("older")
	}
	h.forget(12)
	if got := h.maybe(0, id, nil); fmt.Sprint(got) != "[12]" {
		t.Errorf("after forgetting: %v", got)
	}
}

func TestStatesReadBackAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<62)
		any64 := rapid.Int64()
		p := stream.PartitionStats{
			First: stream.Offset(n.Draw(t, "first")), Next: stream.Offset(n.Draw(t, "next")), Bytes: n.Draw(t, "bytes"),
			Idle: rapid.Bool().Draw(t, "idle"), HasCounted: rapid.Bool().Draw(t, "counted"), LastAppend: any64.Draw(t, "last"),
		}
		if p.HasCounted {
			p.MaxCounted = any64.Draw(t, "max")
		}
		if got, ok := decodePartition(encodePartition(p)); !ok || got != p {
			t.Fatalf("%+v became %+v", p, got)
		}
		s := streamState{lastDeadLetter: uint64(n.Draw(t, "letters"))}
		s.stats.Accepted, s.stats.HasAdvance = n.Draw(t, "accepted"), rapid.Bool().Draw(t, "advanced")
		if s.stats.HasAdvance {
			s.stats.Advance = any64.Draw(t, "advance")
		}
		var back streamState
		if !back.decodeCounters(s.encodeCounters()) || back.stats.Accepted != s.stats.Accepted || back.stats.Advance != s.stats.Advance || back.lastDeadLetter != s.lastDeadLetter {
			t.Fatalf("%+v became %+v", s, back)
		}
	})
}
