package row

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// The column codec, frozen (I4). A batch is
//
//	version 1 · uvarint rows · uvarint columns · weights · columns
//	weights  0, or 1 and a zigzag varint a row
//	column   name (uvarint length, bytes) · type · uvarint length of the rest · nulls · values
//	type     kind, and for DECIMAL width and scale, for LIST the element's type, for STRUCT
//	         uvarint members and each one's name and type
//	nulls    0 (none), 1 (all), or 2 and a bit a row, least significant first
//	values   an encoding byte and the values that are not null, as that encoding has them
//
// Encodings: see the constants. An encoder may choose any that fits the class; a decoder knows all.
const codecVersion = 1

const (
	encVarint  = 1 // Int64, Int128: zigzag varints
	encDelta   = 2 // Int64, Int128: zigzag varints of the differences to the value before (first: to 0)
	encBits    = 3 // Int64 of 0 and 1: a bit a value
	encRaw     = 4 // Float64: 8 bytes, Int128: 16 bytes, little endian
	encScaled  = 5 // Float64: a power of ten e, then Int64 values x in encoding 1 or 2; the value is x/10^e
	encPlain   = 6 // String: uvarint lengths, then all bytes
	encDict    = 7 // String: uvarint entries, these as encPlain has them, then an index a value
	encFloat32 = 8 // Float64 of FLOAT: 4 bytes
)

// An index of encDict has 1 byte with up to 256 entries, else 2.
const maxDict = 1 << 16

// The most that a decoder believes: more is damage.
const (
	maxCodecRows = 1 << 24
	maxCodecCols = 1 << 16
)

var errBadBatch = errors.New("a column batch is damaged")

// EncodeBatch adds the encoding of b to dst. Names come from fields, which may be shorter than
// the batch is wide; types come from the vectors. The checksum is the caller's.
func EncodeBatch(dst []byte, fields []Field, b *Batch) []byte {
	dst = append(dst, codecVersion)
	dst = binary.AppendUvarint(dst, uint64(b.Len))
	dst = binary.AppendUvarint(dst, uint64(len(b.Cols)))
	if b.Weights == nil {
		dst = append(dst, 0)
	} else {
		dst = append(dst, 1)
		for _, w := range b.Weights {
			dst = binary.AppendVarint(dst, w)
		}
	}
	e := encoders.Get().(*encoder)
	for c, v := range b.Cols {
		name := ""
		if c < len(fields) {
			name = fields[c].Name
		}
		dst = appendBytes(dst, name)
		dst = appendType(dst, v.Type)
		e.body = e.column(e.body[:0], v, b.Len)
		dst = binary.AppendUvarint(dst, uint64(len(e.body)))
		dst = append(dst, e.body...)
		if b.Len >= yieldRows {
			runtime.Gosched() // who waits for an answer goes first
		}
	}
	if cap(e.body) <= maxKept {
		encoders.Put(e)
	}
	return dst
}

// yieldRows is how many rows a batch has that takes long enough for others to wait for.
const yieldRows = 8192

// encoder is memory that EncodeBatch uses again.
type encoder struct {
	body    []byte
	ints    []int64
	dict    map[string]uint16
	index   []uint16
	entries []string
}

var encoders = sync.Pool{New: func() any { return &encoder{dict: map[string]uint16{}} }}

// maxKept is the largest column whose memory is kept for the next batch.
const maxKept = 4 << 20

func appendBytes(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendType(dst []byte, t Type) []byte {
	dst = append(dst, byte(t.Kind))
	switch t.Kind {
	case Decimal:
		dst = append(dst, t.Width, t.Scale)
	case List:
		dst = appendType(dst, *t.Elem)
	case Struct:
		dst = binary.AppendUvarint(dst, uint64(len(t.Fields)))
		for _, f := range t.Fields {
			dst = appendType(appendBytes(dst, f.Name), f.Type)
		}
	}
	return dst
}

// column writes nulls and values of the first n rows.
func (e *encoder) column(dst []byte, v *Vector, n int) []byte {
	nulls := 0
	for i, w := range v.Nulls {
		if i == n>>6 {
			w &= 1<<(n&63) - 1
		} else if i > n>>6 {
			break
		}
		nulls += bits.OnesCount64(w)
	}
	switch {
	case v.Type.Kind == Null || nulls == n && n > 0:
		return append(dst, 1)
	case nulls == 0:
		dst = append(dst, 0)
	default:
		dst = append(dst, 2)
		for i := 0; i < n; i += 8 {
			var w uint64
			if i>>6 < len(v.Nulls) {
				w = v.Nulls[i>>6] >> (i & 63)
			}
			if n-i < 8 {
				w &= 1<<(n-i) - 1
			}
			dst = append(dst, byte(w))
		}
	}
	switch v.Type.Class() {
	case Float64Class:
		return e.floats(dst, dense(v, v.F64[:n], nulls), v.Type.Kind == Float)
	case Int128Class:
		return encodeInt128s(dst, dense(v, v.I128[:n], nulls))
	case StringClass:
		return e.strings(dst, dense(v, v.Str[:n], nulls))
	}
	return encodeInts(dst, dense(v, v.I64[:n], nulls), v.Type.Kind == Boolean)
}

// dense returns the values that are not null.
func dense[T any](v *Vector, all []T, nulls int) []T {
	if nulls == 0 {
		return all
	}
	out := make([]T, 0, len(all)-nulls)
	for i, x := range all {
		if !v.Nulls.Get(i) {
			out = append(out, x)
		}
	}
	return out
}

func zigzag(x int64) uint64 { return uint64(x<<1) ^ uint64(x>>63) }

func encodeInts(dst []byte, xs []int64, boolean bool) []byte {
	if boolean {
		dst = append(dst, encBits)
		for i := 0; i < len(xs); i += 8 {
			var c byte
			for k, x := range xs[i:min(i+8, len(xs))] {
				if x != 0 {
					c |= 1 << k
				}
			}
			dst = append(dst, c)
		}
		return dst
	}
	var plain, delta, last int64
	for _, x := range xs {
		plain += int64(bits.Len64(zigzag(x)) + 6)
		delta += int64(bits.Len64(zigzag(x-last)) + 6)
		last = x
	}
	if delta < plain {
		dst = append(dst, encDelta)
		last = 0
		for _, x := range xs {
			dst = binary.AppendVarint(dst, x-last)
			last = x
		}
		return dst
	}
	dst = append(dst, encVarint)
	for _, x := range xs {
		dst = binary.AppendVarint(dst, x)
	}
	return dst
}

func encodeInt128s(dst []byte, xs []Int128) []byte {
	small := make([]int64, len(xs))
	for i, x := range xs {
		if !x.IsInt64() {
			dst = append(dst, encRaw)
			for _, x := range xs {
				dst = binary.LittleEndian.AppendUint64(dst, x.Lo)
				dst = binary.LittleEndian.AppendUint64(dst, uint64(x.Hi))
			}
			return dst
		}
		small[i] = x.Int64()
	}
	return encodeInts(dst, small, false)
}

var floatPowers = [...]float64{1, 10, 100, 1000, 10000}

func (e *encoder) floats(dst []byte, xs []float64, single bool) []byte {
	// Most measured numbers have few digits behind the point; as integers they take 2 or 3 bytes.
	e.ints = resize(e.ints, len(xs))
	power := 0
	for i := 0; i < len(xs); i++ {
		x, ok := scaleFloat(xs[i], power)
		if !ok {
			if power++; power == len(floatPowers) {
				break
			}
			i = -1
			continue
		}
		e.ints[i] = x
	}
	if power < len(floatPowers) {
		return encodeInts(append(dst, encScaled, byte(power)), e.ints, false)
	}
	if single {
		dst = append(dst, encFloat32)
		for _, x := range xs {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(x)))
		}
		return dst
	}
	dst = append(dst, encRaw)
	for _, x := range xs {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

// scaleFloat returns f·10^e if it is an integer from which f comes back to the bit.
func scaleFloat(f float64, e int) (int64, bool) {
	s := math.Round(f * floatPowers[e])
	if !(math.Abs(s) <= 1<<47) {
		return 0, false
	}
	x := int64(s)
	return x, math.Float64bits(float64(x)/floatPowers[e]) == math.Float64bits(f)
}

func (e *encoder) strings(dst []byte, xs []string) []byte {
	if !e.dictionary(xs) {
		dst = encodePlain(append(dst, encPlain), xs)
	} else {
		dst = append(dst, encDict)
		dst = binary.AppendUvarint(dst, uint64(len(e.entries)))
		dst = encodePlain(dst, e.entries)
		for _, k := range e.index {
			dst = append(dst, byte(k))
			if len(e.entries) > 256 {
				dst = append(dst, byte(k>>8))
			}
		}
	}
	clear(e.dict) // the texts are others'
	clear(e.entries)
	return dst
}

// dictionary finds the different texts, and says whether they are few.
func (e *encoder) dictionary(xs []string) bool {
	e.index, e.entries = e.index[:0], e.entries[:0]
	for i, s := range xs {
		k, ok := e.dict[s]
		if !ok {
			if len(e.entries) == maxDict || len(e.entries) > 16+i/2 {
				return false
			}
			k = uint16(len(e.entries))
			e.entries = append(e.entries, s)
			e.dict[s] = k
		}
		e.index = append(e.index, k)
	}
	return len(e.entries)*2 <= len(xs)+2
}

func encodePlain(dst []byte, xs []string) []byte {
	size := 0
	for _, s := range xs {
		size += len(s) + 2
	}
	dst = slices.Grow(dst, size)
	for _, s := range xs {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
	}
	for _, s := range xs {
		dst = append(dst, s...)
	}
	return dst
}

// DecodeBatch reads what EncodeBatch wrote. Damaged bytes give an error, never a panic, and never
// more memory than a fixed multiple of their length.
func DecodeBatch(src []byte) ([]Field, *Batch, error) {
	return DecodeColumns(src, nil)
}

// DecodeColumns reads the columns for which keep says true and skips the others, whose vectors
// are nil. A nil keep keeps all.
func DecodeColumns(src []byte, keep func(column int) bool) ([]Field, *Batch, error) {
	d := decoder{Reader{Rest: src}}
	if v := d.Byte(); !d.Failed && v != codecVersion {
		return nil, nil, fmt.Errorf("a column batch has version %d, and this program knows only version %d", v, codecVersion)
	}
	rows, cols := d.Length(maxCodecRows), d.Length(maxCodecCols)
	b := &Batch{Len: rows}
	switch d.Byte() {
	case 0:
	case 1:
		if rows > len(d.Rest) {
			return nil, nil, errBadBatch
		}
		b.Weights = make([]int64, rows)
		for i := range b.Weights {
			b.Weights[i] = d.Varint()
		}
	default:
		d.Failed = true
	}
	if d.Failed || cols > len(d.Rest) {
		return nil, nil, errBadBatch
	}
	fields := make([]Field, cols)
	b.Cols = make([]*Vector, cols)
	for c := range fields {
		fields[c] = Field{Name: string(d.Bytes(d.Length(len(d.Rest)))), Type: d.typ(0)}
		body := d.Bytes(d.Length(len(d.Rest)))
		if d.Failed {
			return nil, nil, errBadBatch
		}
		if keep != nil && !keep(c) {
			continue
		}
		v, ok := decodeColumn(body, fields[c].Type, rows)
		if !ok {
			return nil, nil, errBadBatch
		}
		b.Cols[c] = v
	}
	if len(d.Rest) != 0 {
		return nil, nil, errBadBatch
	}
	return fields, b, nil
}

// decoder reads the parts of a batch.
type decoder struct{ Reader }

func (d *decoder) typ(depth int) Type {
	t := Type{Kind: Kind(d.Byte())}
	if t.Kind > Struct || depth > maxTypeDepth {
		d.Failed = true
		return Type{}
	}
	switch t.Kind {
	case Decimal:
		t.Width, t.Scale = d.Byte(), d.Byte()
		if t.Width < 1 || t.Width > 38 || t.Scale > t.Width {
			d.Failed = true
		}
	case List:
		elem := d.typ(depth + 1)
		t.Elem = &elem
	case Struct:
		n := d.Length(len(d.Rest))
		for range n {
			if d.Failed {
				break
			}
			t.Fields = append(t.Fields, Field{Name: string(d.Bytes(d.Length(len(d.Rest)))), Type: d.typ(depth + 1)})
		}
	}
	return t
}

func decodeColumn(src []byte, t Type, rows int) (*Vector, bool) {
	v := &Vector{Type: t}
	d := decoder{Reader{Rest: src}}
	n := rows
	switch d.Byte() {
	case 0:
	case 1:
		v.Resize(rows)
		clearValues(v)
		for i := range rows {
			v.Nulls.Set(i)
		}
		return v, !d.Failed && len(d.Rest) == 0
	case 2:
		mask := d.Bytes((rows + 7) / 8)
		if d.Failed {
			return nil, false
		}
		v.Nulls = make(Bitmap, (rows+63)/64)
		for i, c := range mask {
			v.Nulls[i>>3] |= uint64(c) << (i & 7 * 8)
			n -= bits.OnesCount8(c)
		}
		if rows&63 != 0 && v.Nulls[rows>>6]>>(rows&63) != 0 {
			return nil, false
		}
	default:
		return nil, false
	}
	if d.Failed || t.Kind == Null {
		return nil, false
	}
	switch t.Class() {
	case Float64Class:
		v.F64 = d.floats(n, t.Kind == Float)
	case Int128Class:
		v.I128 = d.int128s(n)
	case StringClass:
		v.Str = d.strings(n)
	default:
		v.I64 = d.ints(n)
	}
	if d.Failed || len(d.Rest) != 0 {
		return nil, false
	}
	if n < rows {
		v.F64, v.I128 = spread(v, v.F64, rows), spread(v, v.I128, rows)
		v.Str, v.I64 = spread(v, v.Str, rows), spread(v, v.I64, rows)
	}
	return v, true
}

func clearValues(v *Vector) {
	clear(v.I64)
	clear(v.F64)
	clear(v.I128)
	clear(v.Str)
}

// spread moves the dense values to their rows, null rows getting zero.
func spread[T any](v *Vector, xs []T, rows int) []T {
	if xs == nil {
		return nil
	}
	out := make([]T, rows)
	k := 0
	for i := range out {
		if !v.Nulls.Get(i) {
			out[i] = xs[k]
			k++
		}
	}
	return out
}

func (d *decoder) ints(n int) []int64 {
	enc := d.Byte()
	least := n // the bytes that n values take at least
	if enc == encBits {
		least = (n + 7) / 8
	}
	if d.Failed || least > len(d.Rest) {
		d.Failed = true
		return nil
	}
	out := make([]int64, n)
	switch enc {
	case encBits:
		for i, c := range d.Bytes(least) {
			for k := 0; k < 8 && i*8+k < n; k++ {
				out[i*8+k] = int64(c >> k & 1)
			}
		}
	case encVarint:
		d.varints(out)
	case encDelta:
		d.varints(out)
		var last int64
		for i := range out {
			last += out[i]
			out[i] = last
		}
	default:
		d.Failed = true
	}
	return out
}

// varints fills out with zigzag varints.
func (d *decoder) varints(out []int64) {
	src := d.Rest
	for i := range out {
		if len(src) > 0 && src[0] < 0x80 { // the common case
			u := src[0]
			out[i] = int64(u>>1) ^ -int64(u&1)
			src = src[1:]
			continue
		}
		x, n := binary.Varint(src)
		if n <= 0 {
			d.Failed = true
			return
		}
		out[i] = x
		src = src[n:]
	}
	d.Rest = src
}

func (d *decoder) int128s(n int) []Int128 {
	if len(d.Rest) > 0 && d.Rest[0] == encRaw {
		d.Byte()
		if len(d.Rest)/16 < n {
			d.Failed = true
			return nil
		}
		out := make([]Int128, n)
		for i, raw := 0, d.Bytes(16*n); i < n; i++ {
			out[i] = Int128{int64(binary.LittleEndian.Uint64(raw[16*i+8:])), binary.LittleEndian.Uint64(raw[16*i:])}
		}
		return out
	}
	small := d.ints(n)
	out := make([]Int128, len(small))
	for i, x := range small {
		out[i] = FromInt64(x)
	}
	return out
}

func (d *decoder) floats(n int, single bool) []float64 {
	switch enc := d.Byte(); {
	case enc == encScaled:
		e := int(d.Byte())
		if e >= len(floatPowers) {
			d.Failed = true
			return nil
		}
		ints := d.ints(n)
		out := make([]float64, len(ints))
		for i, x := range ints {
			out[i] = float64(x) / floatPowers[e]
		}
		return out
	case enc == encFloat32 && single && len(d.Rest)/4 >= n:
		out := make([]float64, n)
		for i, raw := 0, d.Bytes(4*n); i < n; i++ {
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		}
		return out
	case enc == encRaw && len(d.Rest)/8 >= n:
		out := make([]float64, n)
		for i, raw := 0, d.Bytes(8*n); i < n; i++ {
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		}
		return out
	}
	d.Failed = true
	return nil
}

func (d *decoder) strings(n int) []string {
	switch d.Byte() {
	case encPlain:
		return d.plain(n)
	case encDict:
		entries := d.plain(d.Length(min(maxDict, len(d.Rest))))
		size := 1
		if len(entries) > 256 {
			size = 2
		}
		if d.Failed || len(d.Rest)/size < n {
			d.Failed = true
			return nil
		}
		out := make([]string, n)
		index := d.Bytes(size * n)
		for i := range out {
			k := int(index[i*size])
			if size == 2 {
				k |= int(index[i*2+1]) << 8
			}
			if k >= len(entries) {
				d.Failed = true
				return nil
			}
			out[i] = entries[k]
		}
		return out
	}
	d.Failed = true
	return nil
}

// plain reads n lengths and their bytes; the strings share one allocation.
func (d *decoder) plain(n int) []string {
	if d.Failed || n > len(d.Rest) {
		d.Failed = true
		return nil
	}
	lengths, total := make([]int, n), 0
	for i := range lengths {
		lengths[i] = d.Length(len(d.Rest))
		if total += lengths[i]; total > len(d.Rest) {
			d.Failed = true
			return nil
		}
	}
	all := string(d.Bytes(total))
	if d.Failed {
		return nil
	}
	out := make([]string, n)
	at := 0
	for i, l := range lengths {
		out[i] = all[at : at+l]
		at += l
	}
	return out
}
