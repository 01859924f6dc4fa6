package ingest

import (
	"strconv"

	"tidemark/storage/row"
)

// maxExact is the greatest integer up to which each one is a double.
const maxExact = 1 << 53

// valueEnds reports whether a number may end before byte c.
func valueEnds(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

// quickInteger reads an integer of at most 18 digits.
func quickInteger(b []byte, i int) (x int64, end int, ok bool) {
	neg := b[i] == '-'
	if neg {
		i++
	}
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		x = x*10 + int64(b[i]-'0')
		i++
		if i-from > 18 {
			return 0, 0, false
		}
	}
	n := i - from
	if n == 0 || n > 1 && b[from] == '0' || i >= len(b) || !valueEnds(b[i]) {
		return 0, 0, false
	}
	if neg {
		x = -x
	}
	return x, i, true
}

// quickEpoch reads an integer as row.ParseEpoch does.
func quickEpoch(x int64) (micros int64, ok bool) {
	switch a := max(x, -x); {
	case a < 1e11:
		micros = x * 1e6
	case a < 1e14:
		micros = x * 1e3
	case a < 1e17:
		micros = x
	default:
		return 0, false
	}
	return micros, micros >= row.MinTimestamp && micros <= row.MaxTimestamp
}

// tens are the powers of ten that are doubles without rounding.
var tens = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// quickDouble reads a number of at most 15 digits without exponent: digits and power of ten are
// both exact, so one division gives the nearest double (W. Clinger, "How to read floating point
// numbers accurately", 1990).
func quickDouble(b []byte, i int) (f float64, end int, ok bool) {
	neg := b[i] == '-'
	if neg {
		i++
	}
	from := i
	var m int64
	for i < len(b) && b[i]-'0' <= 9 {
		m = m*10 + int64(b[i]-'0')
		i++
		if i-from > 15 {
			return 0, 0, false
		}
	}
	whole := i - from
	if whole == 0 || whole > 1 && b[from] == '0' {
		return 0, 0, false
	}
	fraction := 0
	if i < len(b) && b[i] == '.' {
		i++
		start := i
		for i < len(b) && b[i]-'0' <= 9 {
			m = m*10 + int64(b[i]-'0')
			i++
			if whole+i-start > 15 {
				return 0, 0, false
			}
		}
		if fraction = i - start; fraction == 0 {
			return 0, 0, false
		}
	}
	if i >= len(b) || !valueEnds(b[i]) {
		return 0, 0, false
	}
	f = float64(m) / tens[fraction]
	if neg && m != 0 {
		f = -f
	}
	return f, i, true
}

// inexactIn is inexact for the numbers in a value of a type.
func inexactIn(t row.Type, text []byte) (why string) {
	switch {
	case t.Kind == row.Double && text[0] != 'n':
		return inexact(text)
	case t.Kind == row.List && text[0] == '[':
		_ = row.EachElement(text, func(e []byte) error {
			if why == "" {
				why = inexactIn(*t.Elem, e)
			}
			return nil
		})
	case t.Kind == row.Struct && text[0] == '{':
		_ = row.EachMember(text, func(name string, value []byte) error {
			if i := row.FieldIndex(t.Fields, name); why == "" && i >= 0 && t.Fields[i].Name == name {
				why = inexactIn(t.Fields[i].Type, value)
			}
			return nil
		})
	}
	return why
}

// inexact says why a number must not become a double on its own; "" when it may. A number that is
// written with a point or an exponent is meant as one.
func inexact(text []byte) string {
	for _, c := range text {
		if c == '.' || c == 'e' || c == 'E' {
			return ""
		}
	}
	x, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return string(text) + " is outside the range of BIGINT; declare the column HUGEINT, or DOUBLE to have it rounded"
	}
	if x <= maxExact && x >= -maxExact {
		return ""
	}
	return string(text) + " is past 2^53, where the column, DOUBLE, rounds whole numbers; declare it to have that"
}
