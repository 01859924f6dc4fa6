package pebblelog

import (
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/storage/row"
	"tidemark/stream"
)

// writer puts payloads and columns together as a decoder of events does.
type writer struct {
	p       payloads
	columns []*row.Vector
	rows    int
}

func (w *writer) event(names []string, texts []string, columns []int32, sep string) {
	began := len(w.p.raw)
	w.p.raw = append(w.p.raw, '{')
	for k, text := range texts {
		w.p.raw = fmt.Appendf(w.p.raw, "%s%q:%s", map[bool]string{true: "", false: "," + sep}[k == 0], names[k], sep)
		from := len(w.p.raw)
		w.p.raw = append(w.p.raw, text...)
		w.p.values = append(w.p.values, stream.Value{From: uint32(from - began), To: uint32(len(w.p.raw) - began), Column: columns[k]})
	}
	w.p.raw = append(w.p.raw, '}')
	w.p.ends = append(w.p.ends, uint32(len(w.p.raw)))
	w.p.counts = append(w.p.counts, int32(len(texts)))
	for c, v := range w.columns {
		k := slices.Index(columns, int32(c))
		if k < 0 || texts[k] == "null" || row.ParseJSONValue(v, []byte(texts[k])) != nil {
			v.AppendNull() // a text that the column does not have is kept
		}
	}
	w.rows++
}

// batch is a batch of these payloads.
func (w *writer) batch() stream.Batch {
	b := stream.Batch{Stream: 1, Base: 5, Sequence: 9, AppendTime: 7, Len: w.rows, Columns: w.columns}
	b.Times, b.Keys = make([]stream.Micros, w.rows), row.NewVector(row.Scalar(row.Varchar), w.rows)
	for range w.rows {
		b.Keys.AppendNull()
	}
	return b
}

var kinds = []row.Type{
	row.Scalar(row.Varchar), row.Scalar(row.BigInt), row.Scalar(row.TinyInt), row.Scalar(row.Double), row.Scalar(row.Float), row.Scalar(row.Boolean),
	row.Scalar(row.Timestamp), row.Scalar(row.Date), row.Scalar(row.JSON), row.DecimalType(9, 2), row.DecimalType(30, 3), row.Scalar(row.HugeInt),
	row.ListOf(row.Scalar(row.BigInt)), row.StructOf(row.Field{Name: "a", Type: row.Scalar(row.Double)}),
}

var oddTexts = []string{
	`"a"`, `""`, `"ä☃"`, `"a\u0062"`, `"\""`, `"\/"`, `0`, `-0`, `7`, `-12`, `127`, `9007199254740993`, `-9223372036854775808`, `1.0`, `1.50`, `-0.0`, `0.1`,
	`12345678901234.5`, `0.30000000000000004`, `1e5`, `1E-7`, `5e-324`, `1.7976931348623157e308`, `123456789012345678901234567890`, `true`, `false`, `null`,
	`"2024-01-15T10:00:00Z"`, `"2024-01-15T10:00:00.5Z"`, `"2024-01-15T10:00:00.500Z"`, `"2024-01-15T10:00:00.123456Z"`, `"2024-01-15T10:00:00.1234567Z"`,
	`"2024-01-15 10:00:00"`, `"2024-01-15 10:00:00.25"`, `"2024-01-15T10:00:00+00:00"`, `"2024-01-15T10:00:00+02:00"`, `"2024-01-15T23:59:60Z"`, `"2024-01-15t10:00:00z"`,
	`"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999Z"`, `"1969-12-31T23:59:59.9Z"`, `"2024/01/15 10:00"`, `"2024-01-15"`, `1705312800`, `1705312800123`,
	`1705312800123456`, `-1`, `99999999999`, `[1, 2]`, `[1,2]`, `{"a": 1.5}`, `{"a":1.5}`, `{}`,
}

// TestPayloadComesBackToTheByte: whatever texts stand for a column's values, and whatever columns
// payloads have, they are read as they came.
func TestPayloadComesBackToTheByte(t *testing.T) {
	t.Parallel()
	c := newTestCodec(t)
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{}
		for range rapid.IntRange(0, 5).Draw(t, "columns") {
			w.columns = append(w.columns, row.NewVector(rapid.SampledFrom(kinds).Draw(t, "type"), 0))
		}
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			var names, texts []string
			var columns []int32
			for c := range len(w.columns) + 2 {
				if rapid.IntRange(0, 4).Draw(t, "there") == 0 {
					continue
				}
				names, texts, columns = append(names, fmt.Sprint("f", c)), append(texts, rapid.SampledFrom(oddTexts).Draw(t, "text")), append(columns, int32(c))
				if c >= len(w.columns) {
					columns[len(columns)-1] = -1
				}
			}
			w.event(names, texts, columns, rapid.SampledFrom([]string{"", " "}).Draw(t, "space"))
		}
		b := w.batch()
		if rapid.Bool().Draw(t, "unknown") {
			w.p.values = nil
		}
		sameBack(t, c, &b, &w.p)
	})
}

// sameBack writes and reads a batch and compares payloads, times and keys.
func sameBack(t interface {
	Helper()
	Fatalf(string, ...any)
}, c *codec, b *stream.Batch, p *payloads,
) []byte {
	t.Helper()
	key := batchKey(b.Stream, b.Partition, b.Base)
	value := slices.Clone(c.encodeBatch(key, b, p.each))
	kept, _ := c.encoded(b)
	got, err := c.decodeBatch(key, value)
	if err != nil {
		t.Fatalf("%v", err)
	}
	h, err := decodeHeader(key, value)
	if err != nil {
		t.Fatalf("%v", err)
	}
	again, err := c.decodePayloads(h.payloads, h.version, b.Len, got.Columns, true)
	if err != nil {
		t.Fatalf("%v", err)
	}
	from := uint32(0)
	for i, end := range p.ends {
		want := string(p.raw[from:end])
		from = end
		if string(got.Raw(i)) != want || string(kept.Raw(i)) != want {
			t.Fatalf("payload %d: %s became %s, and %s in the tail", i, want, got.Raw(i), kept.Raw(i))
		}
		if got.Times[i] != b.Times[i] || got.Keys.IsNull(i) != b.Keys.IsNull(i) || got.Keys.Str[i] != b.Keys.Str[i] {
			t.Fatalf("event %d: time %d and key %q became %d and %q", i, b.Times[i], b.Keys.Str[i], got.Times[i], got.Keys.Str[i])
		}
	}
	// Written anew with what was read, it is the same.
	if twice := c.encodeBatch(key, b, again.each); string(twice) != string(value) && p.values != nil {
		t.Fatalf("written anew it has %d bytes, and had %d", len(twice), len(value))
	}
	return value
}

// TestWhatAColumnHasIsNotKeptTwice: payloads cost next to nothing beside their columns.
func TestWhatAColumnHasIsNotKeptTwice(t *testing.T) {
	t.Parallel()
	c := newTestCodec(t)
	w := &writer{columns: []*row.Vector{row.NewVector(row.Scalar(row.Varchar), 0), row.NewVector(row.Scalar(row.BigInt), 0), row.NewVector(row.Scalar(row.Double), 0), row.NewVector(row.Scalar(row.Timestamp), 0)}}
	for i := range 500 {
		x := i * 7919 % 100_003
		w.event([]string{"user", "n", "amount", "ts"},
			[]string{fmt.Sprintf(`"user-%d"`, x), fmt.Sprint(x), fmt.Sprintf("%d.%02d", x, i%100), fmt.Sprintf(`"2024-01-15T10:00:%02d.%03dZ"`, i/10%60, x%1000)}, []int32{0, 1, 2, 3}, "")
	}
	b := w.batch()
	b.Times, b.Keys = w.columns[3].I64, w.columns[0]
	value := sameBack(t, c, &b, &w.p)
	h, err := decodeHeader(batchKey(b.Stream, b.Partition, b.Base), value)
	if err != nil || len(h.payloads.stored) > 200 {
		t.Errorf("%d bytes of payloads beside the columns, %v", len(h.payloads.stored), err)
	}
	// Keys that are a number's digits lie in its column too.
	b.Keys = row.NewVector(row.Scalar(row.Varchar), b.Len)
	for i := range b.Len {
		b.Keys.AppendString(fmt.Sprint(w.columns[1].I64[i]))
	}
	if with := sameBack(t, c, &b, &w.p); len(with) > len(value)+8 {
		t.Errorf("%d bytes with keys that are a column's digits, %d before", len(with), len(value))
	}
	b.Keys.Str[499] = "007"
	sameBack(t, c, &b, &w.p)
}

func TestMorePayloadShapesThanThereMayBe(t *testing.T) {
	t.Parallel()
	c := newTestCodec(t)
	w := &writer{columns: []*row.Vector{row.NewVector(row.Scalar(row.BigInt), 0)}}
	for i := range maxShapes + 200 {
		w.event([]string{fmt.Sprint("name", i), "n"}, []string{"1", "2"}, []int32{-1, 0}, "")
	}
	b := w.batch()
	sameBack(t, c, &b, &w.p)
}

// TestValuesThatDescribeNoPayloadDoNoHarm: the log takes nobody's word for where values stand.
func TestValuesThatDescribeNoPayloadDoNoHarm(t *testing.T) {
	t.Parallel()
	c := newTestCodec(t)
	for _, values := range [][]stream.Value{
		{{From: 5, To: 3}}, {{From: 0, To: 99}}, {{From: 3, To: 4}, {From: 2, To: 5}}, {{From: math.MaxUint32, To: 0}}, {{From: 0, To: 3, Column: 7}}, {{From: 5, To: 6, Column: 0}},
	} {
		v := row.NewVector(row.Scalar(row.BigInt), 1)
		v.AppendInt64(8)
		w := &writer{columns: []*row.Vector{v}, rows: 1, p: payloads{raw: []byte(`{"n":7}`), ends: []uint32{7}, values: values, counts: []int32{int32(len(values))}}}
		b := w.batch()
		sameBack(t, c, &b, &w.p)
	}
}

// TestBatchOfVersion1IsRead: testdata holds one as it was written.
func TestBatchOfVersion1IsRead(t *testing.T) {
	t.Parallel()
	c := newTestCodec(t)
	text, err := os.ReadFile("testdata/batch_v1.hex")
	if err != nil {
		t.Fatal(err)
	}
	value, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	b, raw, ends := sampleBatch(20)
	got, err := c.decodeBatch(batchKey(b.Stream, b.Partition, b.Base), value)
	if err != nil {
		t.Fatal(err)
	}
	from := uint32(0)
	for i, end := range ends {
		if string(got.Raw(i)) != string(raw[from:end]) || got.Times[i] != b.Times[i] || got.Keys.Str[i] != b.Keys.Str[i] || got.Columns[1].F64[i] != b.Columns[1].F64[i] {
			t.Errorf("event %d: %s", i, got.Raw(i))
		}
		from = end
	}
	if got.Sequence != 99 || got.MaxSkew != 5_000_000 {
		t.Errorf("got %+v", got)
	}
}

// FuzzPayloadSection: bytes that no program wrote are an error, never a panic.
func FuzzPayloadSection(f *testing.F) {
	v := row.NewVector(row.Scalar(row.Double), 2)
	v.AppendFloat64(1.5)
	v.AppendNull()
	w := &writer{p: payloads{raw: []byte(`{"n":1.5,"x":[]}{"n":null}`), ends: []uint32{16, 26}, values: []stream.Value{{From: 5, To: 8}, {From: 13, To: 15, Column: -1}, {From: 5, To: 9}}, counts: []int32{2, 1}}}
	var s shaper
	f.Add(s.take(nil, w.p.each, []*row.Vector{v}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, section []byte) {
		if p, err := readPayloads(section, 2, []*row.Vector{v}, true); err == nil && int(p.ends[1]) != len(p.raw) {
			t.Error(p)
		}
	})
}
