package row

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends value i as JSON: instants as RFC 3339 in UTC, whole numbers with all their
// digits (HUGEINT and DECIMAL too), NaN and the infinities as the strings "NaN", "Infinity" and
// "-Infinity", a JSON value as it came, a BLOB in base64.
func AppendJSON(dst []byte, v *Vector, i int) []byte {
	if v.IsNull(i) || v.Type.Kind == Null {
		return append(dst, "null"...)
	}
	switch v.Type.Kind {
	case Boolean:
		return strconv.AppendBool(dst, v.I64[i] != 0)
	case Float:
		return FormatFloat(dst, v.F64[i], 32)
	case Double:
		return FormatFloat(dst, v.F64[i], 64)
	case HugeInt:
		return v.I128[i].Append(dst)
	case Decimal:
		if v.Type.Class() == Int64Class {
			return FormatDecimal(dst, FromInt64(v.I64[i]), v.Type.Scale)
		}
		return FormatDecimal(dst, v.I128[i], v.Type.Scale)
	case Varchar:
		return AppendJSONString(dst, v.Str[i])
	case JSON:
		return append(dst, v.Str[i]...)
	case Blob:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, []byte(v.Str[i]))
		return append(dst, '"')
	case Date:
		dst = append(dst, '"')
		dst = FormatDate(dst, v.I64[i])
		return append(dst, '"')
	case Timestamp:
		dst = append(dst, '"')
		dst = FormatTimestamp(dst, v.I64[i])
		return append(dst, '"')
	case Interval:
		return AppendJSONString(dst, TextOf(v, i))
	case List:
		elems, err := Elements(v, i)
		if err != nil {
			panic(err) // the value was made by AppendKey; damaged bytes are found by their checksum
		}
		dst = append(dst, '[')
		for k := range elems.Len() {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, elems, k)
		}
		return append(dst, ']')
	case Struct:
		members, err := Members(v, i)
		if err != nil {
			panic(err) // as above
		}
		dst = append(dst, '{')
		for k, m := range members {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSONString(dst, v.Type.Fields[k].Name)
			dst = append(dst, ':')
			dst = AppendJSON(dst, m, 0)
		}
		return append(dst, '}')
	}
	return strconv.AppendInt(dst, v.I64[i], 10)
}

// AppendJSONRow appends row i as {"name":value,…} in the order of the fields.
func AppendJSONRow(dst []byte, fields []Field, b *Batch, i int) []byte {
	dst = append(dst, '{')
	for c, f := range fields {
		if c > 0 {
			dst = append(dst, ',')
		}
		dst = AppendJSONString(dst, f.Name)
		dst = append(dst, ':')
		dst = AppendJSON(dst, b.Cols[c], i)
	}
	return append(dst, '}')
}

// FormatFloat appends a double, or with bits 32 a float, as a JSON number of the fewest digits
// that give it back; NaN and the infinities as strings, −0 as 0, because it equals 0 (I3).
func FormatFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case f != f:
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	case f == 0:
		return append(dst, '0')
	}
	a := math.Abs(f)
	if a < 1e-6 || a >= 1e21 {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits)
}

const hexDigits = "0123456789abcdef"

// AppendJSONString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD, and the two
// line separators that scripts stumble over are escaped.
func AppendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[from:i]...)
			dst = append(dst, `\ufffd`...)
			i++
			from = i
			continue
		}
		if r == '\u2028' || r == '\u2029' {
			dst = append(dst, s[from:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&15])
			from = i + n
		}
		i += n
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
