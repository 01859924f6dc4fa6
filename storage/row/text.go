package row

import (
	"math"
	"strconv"
)

// TextOf returns value i as DuckDB casts it to VARCHAR. NULL gives "NULL", as inside a list.
func TextOf(v *Vector, i int) string {
	if !v.IsNull(i) && (v.Type.Kind == Varchar || v.Type.Kind == JSON) {
		return v.Str[i]
	}
	var buf [64]byte
	return string(AppendText(buf[:0], v, i))
}

// AppendText adds TextOf(v, i) to dst.
func AppendText(dst []byte, v *Vector, i int) []byte {
	if v.IsNull(i) {
		return append(dst, "NULL"...)
	}
	switch v.Type.Kind {
	case Null:
		return append(dst, "NULL"...)
	case Boolean:
		return strconv.AppendBool(dst, v.I64[i] != 0)
	case HugeInt:
		return v.I128[i].Append(dst)
	case Float:
		return AppendFloatText(dst, v.F64[i], 32)
	case Double:
		return AppendFloatText(dst, v.F64[i], 64)
	case Decimal:
		x := Int128{}
		if v.Type.Class() == Int128Class {
			x = v.I128[i]
		} else {
			x = FromInt64(v.I64[i])
		}
		return AppendDecimalText(dst, x, v.Type)
	case Varchar, JSON:
		return append(dst, v.Str[i]...)
	case Blob:
		return appendBlobText(dst, v.Str[i])
	case Date:
		return AppendDateText(dst, v.I64[i])
	case Timestamp:
		return AppendTimestampText(dst, v.I64[i])
	case Interval:
		return AppendIntervalText(dst, v.I128[i])
	case List:
		return appendListText(dst, v, i)
	case Struct:
		return appendStructText(dst, v, i)
	}
	return strconv.AppendInt(dst, v.I64[i], 10)
}

// AppendFloatText writes a number as DuckDB does: the shortest digits that give it back, with an
// exponent from 1e16 on and under 1e-4, and always a point or an exponent.
func AppendFloatText(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	from := len(dst)
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
	for _, c := range dst[from:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// AppendDecimalText writes unscaled value x of DECIMAL type t. Like DuckDB it leaves out the zero
// before the point when the type has no digit there.
func AppendDecimalText(dst []byte, x Int128, t Type) []byte {
	if t.Scale == 0 {
		return x.Append(dst)
	}
	var buf [48]byte
	digits := x.Append(buf[:0])
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	scale := int(t.Scale)
	if whole := len(digits) - scale; whole > 0 {
		dst = append(append(dst, digits[:whole]...), '.')
		return append(dst, digits[whole:]...)
	}
	if t.Width > t.Scale {
		dst = append(dst, '0')
	}
	dst = append(dst, '.')
	for range scale - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

func appendBlobText(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < ' ' || c > '~' || c == '\\' || c == '\'' || c == '"' {
			dst = append(dst, '\\', 'x', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// AppendDateText writes days since 1970 as 2024-02-29; years before 1 get " (BC)".
func AppendDateText(dst []byte, days int64) []byte {
	y, m, d := CivilDate(days)
	bc := y <= 0
	if bc {
		y = 1 - y
	}
	dst = append(appendPadded(dst, y, 4), '-')
	dst = append(appendPadded(dst, m, 2), '-')
	dst = appendPadded(dst, d, 2)
	if bc {
		dst = append(dst, " (BC)"...)
	}
	return dst
}

// AppendTimestampText writes microseconds since 1970 as 2024-02-29 12:00:00, with a fraction
// only when there is one.
func AppendTimestampText(dst []byte, micros int64) []byte {
	days := floorDiv(micros, MicrosPerDay)
	dst = append(AppendDateText(dst, days), ' ')
	return appendClock(dst, micros-days*MicrosPerDay)
}

// appendClock writes microseconds ≥ 0 as 12:34:56.789.
func appendClock(dst []byte, micros int64) []byte {
	seconds, fraction := micros/1_000_000, micros%1_000_000
	dst = append(appendPadded(dst, seconds/3600, 2), ':')
	dst = append(appendPadded(dst, seconds/60%60, 2), ':')
	dst = appendPadded(dst, seconds%60, 2)
	if fraction != 0 {
		dst = appendPadded(append(dst, '.'), fraction, 6)
		for dst[len(dst)-1] == '0' {
			dst = dst[:len(dst)-1]
		}
	}
	return dst
}

// AppendIntervalText writes an INTERVAL such as 1 year 2 months 3 days 04:05:06.7.
func AppendIntervalText(dst []byte, v Int128) []byte {
	months, days, micros := IntervalParts(v)
	from := len(dst)
	part := func(n int64, unit string) {
		if n == 0 {
			return
		}
		if len(dst) > from {
			dst = append(dst, ' ')
		}
		dst = append(strconv.AppendInt(dst, n, 10), unit...)
		if n != 1 && n != -1 {
			dst = append(dst, 's')
		}
	}
	part(int64(months)/12, " year")
	part(int64(months)%12, " month")
	part(int64(days), " day")
	if micros != 0 || len(dst) == from {
		if len(dst) > from {
			dst = append(dst, ' ')
		}
		if micros < 0 {
			dst = append(dst, '-')
			if micros == math.MinInt64 {
				return append(dst, "2562047788:00:54.775808"...)
			}
			micros = -micros
		}
		dst = appendClock(dst, micros)
	}
	return dst
}

func appendListText(dst []byte, v *Vector, i int) []byte {
	elems, err := Elements(v, i)
	if err != nil {
		return append(dst, "[]"...) // a value that was checked when it was made
	}
	dst = append(dst, '[')
	for k, n := 0, elems.Len(); k < n; k++ {
		if k > 0 {
			dst = append(dst, ", "...)
		}
		dst = AppendText(dst, elems, k)
	}
	return append(dst, ']')
}

func appendStructText(dst []byte, v *Vector, i int) []byte {
	members, err := Members(v, i)
	if err != nil {
		return append(dst, "{}"...)
	}
	dst = append(dst, '{')
	for k, m := range members {
		if k > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(append(append(dst, '\''), v.Type.Fields[k].Name...), "': "...)
		dst = AppendText(dst, m, 0)
	}
	return append(dst, '}')
}
