package expr

import (
	"math"
	"strconv"
	"strings"

	"tidemark/storage/row"
)

// castText casts from VARCHAR.
func castText(to row.Type) kernel {
	switch {
	case to.Kind == row.Boolean:
		return try1(str, i64, func(s string) (int64, *Failure) {
			switch strings.ToLower(s) {
			case "true", "t", "1", "yes", "y":
				return 1, nil
			case "false", "f", "0", "no", "n":
				return 0, nil
			}
			return 0, conversion("Could not convert string '%s' to BOOL", s)
		})
	case to.Kind == row.HugeInt:
		return try1(str, i128, func(s string) (row.Int128, *Failure) {
			x, ok := parseHugeInt(s)
			if !ok {
				return x, conversion("Could not convert string '%s' to INT128", s)
			}
			return x, nil
		})
	case to.IsInteger():
		low, high := row.IntegerRange(to.Kind)
		return try1(str, i64, func(s string) (int64, *Failure) {
			x, ok := parseInteger(s)
			if v := x.Int64(); ok && x.IsInt64() && v >= low && v <= high {
				return v, nil
			}
			return 0, conversion("Could not convert string '%s' to %s", s, intNames[to.Kind])
		})
	case to.Kind == row.Float || to.Kind == row.Double:
		bits := 64
		if to.Kind == row.Float {
			bits = 32
		}
		return try1(str, f64, func(s string) (float64, *Failure) {
			f, ok := parseFloat(s, bits)
			if !ok {
				return 0, conversion("Could not convert string '%s' to %s", s, intNames[to.Kind])
			}
			return f, nil
		})
	case to.Kind == row.Decimal:
		return func(c *call) {
			for _, i := range c.rows {
				s := c.args[0].Str[i]
				x, ok := parseDecimal(s, int(to.Scale))
				if !ok || !row.FitsDecimal(x, to.Width) {
					c.fail(i, conversion("Could not convert string \"%s\" to %s", s, to))
					continue
				}
				setInteger(c.out, i, x)
			}
		}
	case to.Kind == row.Date:
		return try1(str, i64, parseDate)
	case to.Kind == row.Timestamp:
		return try1(str, i64, parseTimestamp)
	case to.Kind == row.Interval:
		return try1(str, i128, func(s string) (row.Int128, *Failure) { return ParseInterval(s) })
	case to.Kind == row.Blob:
		return try1(str, str, parseBlob)
	case to.Kind == row.List || to.Kind == row.Struct:
		return func(c *call) {
			for _, i := range c.rows {
				v, err := parseNested(c.args[0].Str[i], to)
				if err != nil {
					c.fail(i, err)
					continue
				}
				c.out.Str[i] = v
			}
		}
	}
	return nil
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func trimSpace(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	for s != "" && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// parseInteger reads an integer as DuckDB does: spaces around it, underscores between digits,
// 0x and 0b, and a fraction or exponent, rounded half away from zero.
func parseInteger(s string) (row.Int128, bool) {
	s = trimSpace(s)
	if v, ok := plainInteger(s); ok {
		return row.FromInt64(v), true
	}
	digits := strings.TrimPrefix(s, "-")
	if len(digits) > 2 && digits[0] == '0' {
		base := 0
		switch digits[1] | 0x20 {
		case 'x':
			base = 16
		case 'b':
			base = 2
		}
		if base != 0 {
			v, err := strconv.ParseInt(digits[2:], base, 64)
			return row.FromInt64(v), err == nil && digits[2] != '-' && digits[2] != '+' && len(digits) == len(s)
		}
	}
	return parseDecimal(s, 0)
}

// parseHugeInt is parseInteger without 0x and 0b, which HUGEINT does not know.
func parseHugeInt(s string) (row.Int128, bool) {
	if v, ok := plainInteger(trimSpace(s)); ok {
		return row.FromInt64(v), true
	}
	return parseDecimal(s, 0)
}

// plainInteger is the common case: up to 18 digits and a sign.
func plainInteger(s string) (int64, bool) {
	neg := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg, s = s[0] == '-', s[1:]
	}
	if s == "" || len(s) > 18 {
		return 0, false
	}
	var v int64
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + int64(d)
	}
	if neg {
		v = -v
	}
	return v, true
}

// withoutUnderscores takes out underscores between two digits; false when one stands elsewhere.
func withoutUnderscores(s string) (string, bool) {
	if !strings.Contains(s, "_") {
		return s, true
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '_' && (i == 0 || i == len(s)-1 || s[i-1]-'0' > 9 || s[i+1]-'0' > 9) {
			return s, false
		}
	}
	return strings.ReplaceAll(s, "_", ""), true
}

// parseDecimal reads a number with an optional fraction and exponent as its value times 10^scale,
// rounded half away from zero.
func parseDecimal(s string, scale int) (row.Int128, bool) {
	s, ok := withoutUnderscores(trimSpace(s))
	if !ok || s == "" {
		return row.Int128{}, false
	}
	neg := false
	if s[0] == '-' || s[0] == '+' {
		neg, s = s[0] == '-', s[1:]
	}
	exp := 0
	if k := strings.IndexAny(s, "eE"); k >= 0 {
		v, err := strconv.Atoi(s[k+1:])
		if err != nil || k == 0 {
			return row.Int128{}, false
		}
		exp, s = max(-1000, min(1000, v)), s[:k]
	}
	whole, part, _ := strings.Cut(s, ".")
	if whole == "" && part == "" {
		return row.Int128{}, false
	}
	digits := whole + part
	point := len(whole) + exp + scale // digits before the rounding place
	var x row.Int128
	ten := row.FromInt64(10)
	for i := 0; i < len(digits); i++ {
		if digits[i]-'0' > 9 {
			return x, false
		}
	}
	for i := 0; i < point; i++ {
		d := int64(0)
		if i < len(digits) {
			d = int64(digits[i] - '0')
		} else if x.Sign() == 0 {
			break
		}
		var ok1, ok2 bool
		x, ok1 = x.Mul(ten)
		if neg {
			d = -d
		}
		x, ok2 = x.Add(row.FromInt64(d))
		if !ok1 || !ok2 {
			return x, false
		}
	}
	if point >= 0 && point < len(digits) && digits[point] >= '5' {
		up := int64(1)
		if neg {
			up = -1
		}
		x, ok = x.Add(row.FromInt64(up))
	}
	return x, ok
}

// parseFloat reads a number, inf, infinity or nan in any case, with spaces around.
func parseFloat(s string, bits int) (float64, bool) {
	s, ok := withoutUnderscores(trimSpace(s))
	if !ok || s == "" {
		return 0, false
	}
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case "inf", "infinity", "nan":
	default:
		for i := 0; i < len(s); i++ {
			if c := s[i]; c-'0' > 9 && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
				return 0, false
			}
		}
	}
	f, err := strconv.ParseFloat(s, bits)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// parseBlob reads text with \xAB for bytes.
func parseBlob(s string) (string, *Failure) {
	if !strings.Contains(s, `\`) {
		for i := 0; i < len(s); i++ {
			if s[i] > 127 {
				return "", conversion("Invalid byte encountered in STRING -> BLOB conversion of string \"%s\". All non-ascii characters must be escaped with hex codes (e.g. \\xAA)", s)
			}
		}
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i+3 >= len(s) || s[i+1] != 'x' {
			return "", conversion("Invalid hex escape code encountered in string -> blob conversion of string \"%s\": unterminated escape code at end of blob", s)
		}
		v, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
		if err != nil {
			return "", conversion("Invalid hex escape code encountered in string -> blob conversion of string \"%s\": %s", s, s[i:i+4])
		}
		b.WriteByte(byte(v))
		i += 3
	}
	return b.String(), nil
}
