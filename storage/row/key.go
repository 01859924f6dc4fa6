package row

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"strings"
)

// The key encoding, frozen (I4). A value is a header byte and what follows it:
//
//	0x00            NULL
//	0xff            NULL as an element of a LIST or a member of a STRUCT: there SQL has it last
//	0x80 + n        an integer ≥ 0 in n big-endian bytes, n as small as possible (0 … 16)
//	0x7f − n        an integer x < 0: the n bytes of ^x, each inverted
//	0x01            Float64 class: 8 bytes, sign bit flipped (negative: all bits), −0 as 0, NaN as ff…
//	0x01            String class: the bytes, 00 written as 00 ff, ended by 00 00
//
// So the same number has the same key as BIGINT, HUGEINT and DECIMAL of one scale. An INTERVAL is
// the integer of its microseconds with months of 30 days and days of 24 hours, as SQL compares
// intervals; it comes back in days and microseconds.
//
// What is kept as a value and not as a key ([AppendValue]) is written likewise, but for two kinds
// that a key does not give back as they were:
//
//	0x01            −0: 7f ff ff ff ff ff ff ff
//	0x01            INTERVAL: its 16 bytes, big endian
const (
	keyNull  = 0x00
	keyLast  = 0xff // NULL inside a nested value
	keyValue = 0x01
	keyZero  = 0x80
)

var errBadKey = errors.New("a key is damaged")

// AppendKey adds the order-preserving, self-delimiting encoding of value i to dst (I3).
func AppendKey(dst []byte, v *Vector, i int) []byte {
	if v.IsNull(i) {
		return append(dst, keyNull)
	}
	switch v.Type.Class() {
	case Int64Class:
		if v.Type.Kind == Null {
			return append(dst, keyNull)
		}
		return appendIntKey(dst, v.I64[i])
	case Float64Class:
		return appendFloatKey(dst, v.F64[i])
	case Int128Class:
		x := v.I128[i]
		if v.Type.Kind == Interval {
			x = intervalMicros(x)
		}
		return appendInt128Key(dst, x)
	}
	return appendStringKey(dst, v.Str[i])
}

// AppendRowKey adds the keys of the columns cols of row i to dst.
func AppendRowKey(dst []byte, b *Batch, cols []int, i int) []byte {
	for _, c := range cols {
		dst = AppendKey(dst, b.Cols[c], i)
	}
	return dst
}

// AppendValue is AppendKey for what must come back as it was: −0 keeps its sign and an INTERVAL its
// months. It has no order; DecodeKey reads it.
func AppendValue(dst []byte, v *Vector, i int) []byte {
	switch v.Type.Class() {
	case Float64Class:
		if !v.IsNull(i) && v.F64[i] == 0 && math.Signbit(v.F64[i]) {
			return append(dst, keyValue, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		}
	case Int128Class:
		if !v.IsNull(i) && v.Type.Kind == Interval {
			x := v.I128[i]
			dst = binary.BigEndian.AppendUint64(append(dst, keyValue), uint64(x.Hi))
			return binary.BigEndian.AppendUint64(dst, x.Lo)
		}
	}
	return AppendKey(dst, v, i)
}

func appendIntKey(dst []byte, x int64) []byte {
	u := uint64(x)
	if x >= 0 {
		n := (bits.Len64(u) + 7) >> 3
		dst = append(dst, byte(keyZero+n))
		for s := (n - 1) * 8; s >= 0; s -= 8 {
			dst = append(dst, byte(u>>s))
		}
		return dst
	}
	n := (bits.Len64(^u) + 7) >> 3
	dst = append(dst, byte(keyZero-1-n))
	for s := (n - 1) * 8; s >= 0; s -= 8 {
		dst = append(dst, byte(u>>s)) // the inverted bytes of ^x are those of x
	}
	return dst
}

func appendInt128Key(dst []byte, x Int128) []byte {
	if x.IsInt64() {
		return appendIntKey(dst, x.Int64())
	}
	hi, lo := uint64(x.Hi), x.Lo
	mh, ml := hi, lo
	if x.Hi < 0 {
		mh, ml = ^hi, ^lo
	}
	n := (bits.Len64(ml) + 7) >> 3
	if mh != 0 {
		n = 8 + (bits.Len64(mh)+7)>>3
	}
	if x.Hi < 0 {
		dst = append(dst, byte(keyZero-1-n))
	} else {
		dst = append(dst, byte(keyZero+n))
	}
	for k := n - 1; k >= 0; k-- {
		if k >= 8 {
			dst = append(dst, byte(hi>>((k-8)*8)))
		} else {
			dst = append(dst, byte(lo>>(k*8)))
		}
	}
	return dst
}

func appendFloatKey(dst []byte, f float64) []byte {
	var u uint64
	switch {
	case f != f:
		u = math.MaxUint64
	case f == 0:
		u = 1 << 63
	default:
		u = math.Float64bits(f)
		if u>>63 != 0 {
			u = ^u
		} else {
			u |= 1 << 63
		}
	}
	return append(dst, keyValue, byte(u>>56), byte(u>>48), byte(u>>40), byte(u>>32), byte(u>>24), byte(u>>16), byte(u>>8), byte(u))
}

func appendStringKey(dst []byte, s string) []byte {
	dst = append(dst, keyValue)
	for {
		z := strings.IndexByte(s, 0)
		if z < 0 {
			break
		}
		dst = append(dst, s[:z]...)
		dst = append(dst, 0, 0xff)
		s = s[z+1:]
	}
	dst = append(dst, s...)
	return append(dst, 0, 0)
}

func intervalMicros(v Int128) Int128 {
	m, d, us := IntervalParts(v)
	sum, _ := Mul64(int64(m)*30+int64(d), MicrosPerDay).Add(FromInt64(us))
	return sum
}

// CompareIntervals orders two INTERVALs as SQL does, months having 30 days.
func CompareIntervals(a, b Int128) int {
	if a == b {
		return 0
	}
	return intervalMicros(a).Cmp(intervalMicros(b))
}

// DecodeKey appends the value at the beginning of src, a key of type t, to out, whose type must
// be t, and returns what follows it.
func DecodeKey(t Type, src []byte, out *Vector) (rest []byte, err error) {
	if len(src) == 0 {
		return nil, errBadKey
	}
	h := src[0]
	if h == keyNull || h == keyLast {
		out.AppendNull()
		return src[1:], nil
	}
	switch t.Class() {
	case Int64Class:
		x, rest, err := decodeIntKey(src)
		if err != nil || !x.IsInt64() || t.Kind == Null {
			return nil, errBadKey
		}
		out.AppendInt64(x.Int64())
		return rest, nil
	case Int128Class:
		if h == keyValue && t.Kind == Interval {
			if len(src) < 17 {
				return nil, errBadKey
			}
			out.AppendInt128(Int128{int64(binary.BigEndian.Uint64(src[1:])), binary.BigEndian.Uint64(src[9:])})
			return src[17:], nil
		}
		x, rest, err := decodeIntKey(src)
		if err != nil {
			return nil, err
		}
		if t.Kind == Interval {
			days, micros, _ := x.QuoRem(FromInt64(MicrosPerDay))
			if days.Cmp(FromInt64(math.MaxInt32)) > 0 || days.Cmp(FromInt64(math.MinInt32)) < 0 {
				// Months of 30 days hold what days alone can't.
				months, left, _ := days.QuoRem(FromInt64(30))
				if months.Cmp(FromInt64(math.MaxInt32)) > 0 || months.Cmp(FromInt64(math.MinInt32)) < 0 {
					return nil, errBadKey
				}
				x = MakeInterval(int32(months.Int64()), int32(left.Int64()), micros.Int64())
			} else {
				x = MakeInterval(0, int32(days.Int64()), micros.Int64())
			}
		}
		out.AppendInt128(x)
		return rest, nil
	case Float64Class:
		if h != keyValue || len(src) < 9 {
			return nil, errBadKey
		}
		var u uint64
		for _, c := range src[1:9] {
			u = u<<8 | uint64(c)
		}
		switch {
		case u == math.MaxUint64:
			out.AppendFloat64(math.NaN())
		case u>>63 != 0:
			out.AppendFloat64(math.Float64frombits(u &^ (1 << 63)))
		default:
			out.AppendFloat64(math.Float64frombits(^u))
		}
		return src[9:], nil
	}
	s, rest, err := decodeStringKey(src)
	if err != nil {
		return nil, err
	}
	out.AppendString(s)
	return rest, nil
}

func decodeIntKey(src []byte) (Int128, []byte, error) {
	h := src[0]
	n, hi, lo := int(h)-keyZero, uint64(0), uint64(0)
	if h < keyZero {
		n, hi, lo = keyZero-1-int(h), math.MaxUint64, math.MaxUint64
	}
	if n > 16 || len(src) < 1+n {
		return Int128{}, nil, errBadKey
	}
	for _, c := range src[1 : 1+n] {
		hi, lo = hi<<8|lo>>56, lo<<8|uint64(c)
	}
	if (hi>>63 != 0) != (h < keyZero) {
		return Int128{}, nil, errBadKey
	}
	return Int128{int64(hi), lo}, src[1+n:], nil
}

func decodeStringKey(src []byte) (string, []byte, error) {
	if src[0] != keyValue {
		return "", nil, errBadKey
	}
	src = src[1:]
	var escaped []byte
	from := 0
	for i := 0; i+1 < len(src); i++ {
		if src[i] != 0 {
			continue
		}
		switch src[i+1] {
		case 0:
			if escaped == nil {
				return string(src[:i]), src[i+2:], nil
			}
			return string(append(escaped, src[from:i]...)), src[i+2:], nil
		case 0xff:
			escaped = append(append(escaped, src[from:i]...), 0)
			i++
			from = i + 1
		default:
			return "", nil, errBadKey
		}
	}
	return "", nil, errBadKey
}

// Elements decodes value i of a LIST vector into its elements.
func Elements(v *Vector, i int) (*Vector, error) {
	out := NewVector(*v.Type.Elem, 4)
	src := []byte(v.Str[i])
	var err error
	for len(src) > 0 {
		if src, err = DecodeKey(out.Type, src, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Members decodes value i of a STRUCT vector into its members, one vector of one value each.
func Members(v *Vector, i int) ([]*Vector, error) {
	out := make([]*Vector, len(v.Type.Fields))
	src := []byte(v.Str[i])
	var err error
	for k, f := range v.Type.Fields {
		out[k] = NewVector(f.Type, 1)
		if src, err = DecodeKey(f.Type, src, out[k]); err != nil {
			return nil, err
		}
	}
	if len(src) > 0 {
		return nil, errBadKey
	}
	return out, nil
}

// EncodeList adds the value of a list of these elements to dst: their keys, one after the other.
func EncodeList(dst []byte, elems *Vector) []byte {
	for i, n := 0, elems.Len(); i < n; i++ {
		dst = AppendElement(dst, elems, i)
	}
	return dst
}

// EncodeStruct adds the value of a struct whose members are value i of each vector to dst.
func EncodeStruct(dst []byte, members []*Vector, i int) []byte {
	for _, m := range members {
		dst = AppendElement(dst, m, i)
	}
	return dst
}

// AppendElement adds the key of value i of a vector as an element of a list or a member of a struct,
// where NULL is above all values.
func AppendElement(dst []byte, v *Vector, i int) []byte {
	if v.IsNull(i) || v.Type.Kind == Null {
		return append(dst, keyLast)
	}
	return AppendKey(dst, v, i)
}
