package row

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseJSONValue appends the value of one JSON text, without space around it, to v. The text must
// be well formed. The error completes "column: …": it says what came and what would fit.
//
// A value is taken when it fits the type as it is: a number with a zero fraction fits an integer,
// a number fits DOUBLE at the nearest double, a text or number a TIMESTAMP, anything JSON. No
// number becomes a text, no text a number, and nothing is cut off but time below a microsecond.
func ParseJSONValue(v *Vector, text []byte) error {
	if len(text) == 0 {
		return errors.New("no value")
	}
	if v.Type.Kind == JSON {
		if string(text) == "null" {
			v.AppendNull()
			return nil
		}
		v.AppendString(string(text))
		return nil
	}
	switch text[0] {
	case 'n':
		v.AppendNull()
		return nil
	case 't', 'f':
		if v.Type.Kind != Boolean {
			return misfit(v.Type, text)
		}
		v.AppendInt64(int64(boolInt(text[0] == 't')))
		return nil
	case '"':
		return parseJSONText(v, text)
	case '[':
		if v.Type.Kind != List {
			return misfit(v.Type, text)
		}
		return parseJSONList(v, text)
	case '{':
		if v.Type.Kind != Struct {
			return misfit(v.Type, text)
		}
		return parseJSONStruct(v, text)
	}
	return parseJSONNumber(v, text)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// misfit says that a value is of another kind than its column.
func misfit(t Type, text []byte) error {
	kind := "a number"
	switch text[0] {
	case '"':
		kind = "a string"
	case '{':
		kind = "an object"
	case '[':
		kind = "an array"
	case 't', 'f':
		kind = "a boolean"
	}
	return fmt.Errorf("%s is %s, the column is %s", shorten(text), kind, t)
}

// maxShown is how much of a value an error shows.
const maxShown = 60

// shorten returns the beginning of a JSON text for an error.
func shorten(text []byte) string {
	s := string(text)
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}

// quoteShort returns the beginning of a text in quotes for an error.
func quoteShort(text []byte) string {
	if len(text) > maxShown {
		return strconv.Quote(strings.ToValidUTF8(string(text[:maxShown]), "") + "…")
	}
	return strconv.Quote(string(text))
}

func parseJSONText(v *Vector, text []byte) error {
	switch v.Type.Kind {
	case Varchar:
		s, err := UnquoteJSON(text)
		if err != nil {
			return err
		}
		v.AppendString(s)
		return nil
	case Timestamp, Date, Blob:
	default:
		return misfit(v.Type, text)
	}
	s, err := UnquoteJSON(text)
	if err != nil {
		return err
	}
	switch v.Type.Kind {
	case Timestamp:
		t, err := ParseTime([]byte(s))
		if err != nil {
			return err
		}
		v.AppendInt64(t)
	case Date:
		d, err := ParseDate([]byte(s))
		if err != nil {
			return err
		}
		v.AppendInt64(d)
	default:
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return fmt.Errorf("%s is not base64, in which a BLOB is written", shorten(text))
		}
		v.AppendString(string(b))
	}
	return nil
}

// integerRanges are the least and greatest values of the integer types of 64 bits and fewer.
var integerRanges = map[Kind][2]int64{
	TinyInt: {math.MinInt8, math.MaxInt8}, SmallInt: {math.MinInt16, math.MaxInt16},
	Integer: {math.MinInt32, math.MaxInt32}, BigInt: {math.MinInt64, math.MaxInt64},
}

func parseJSONNumber(v *Vector, text []byte) error {
	switch v.Type.Kind {
	case TinyInt, SmallInt, Integer, BigInt, HugeInt:
		d, ok := parseDecimalText(text)
		if !ok {
			return fmt.Errorf("not a number: %s", shorten(text))
		}
		x, exact, fits := d.unscaled(0)
		if !exact {
			return fmt.Errorf("%s is not a whole number, the column is %s", shorten(text), v.Type)
		}
		if v.Type.Kind == HugeInt {
			if !fits {
				return fmt.Errorf("%s is outside the range of HUGEINT", shorten(text))
			}
			v.AppendInt128(x)
			return nil
		}
		r := integerRanges[v.Type.Kind]
		if !fits || !x.IsInt64() || x.Int64() < r[0] || x.Int64() > r[1] {
			return fmt.Errorf("%s is outside the range of %s", shorten(text), v.Type)
		}
		v.AppendInt64(x.Int64())
		return nil
	case Float, Double:
		f, err := ParseJSONFloat(text)
		if err != nil {
			return err
		}
		if v.Type.Kind == Float {
			g := float64(float32(f))
			if math.IsInf(g, 0) {
				return fmt.Errorf("%s is outside the range of FLOAT", shorten(text))
			}
			f = g
		}
		v.AppendFloat64(f)
		return nil
	case Decimal:
		d, ok := parseDecimalText(text)
		if !ok {
			return fmt.Errorf("not a number: %s", shorten(text))
		}
		x, exact, fits := d.unscaled(int(v.Type.Scale))
		if !exact {
			return fmt.Errorf("%s has more than %d digits behind the point, the column is %s", shorten(text), v.Type.Scale, v.Type)
		}
		limit := PowerOfTen(int(v.Type.Width))
		low, _ := limit.Neg()
		if !fits || x.Cmp(limit) >= 0 || x.Cmp(low) <= 0 {
			return fmt.Errorf("%s is outside the range of %s", shorten(text), v.Type)
		}
		if v.Type.Class() == Int64Class {
			v.AppendInt64(x.Int64())
		} else {
			v.AppendInt128(x)
		}
		return nil
	case Timestamp:
		t, err := ParseEpoch(text)
		if err != nil {
			return err
		}
		v.AppendInt64(t)
		return nil
	}
	return misfit(v.Type, text)
}

// ParseJSONFloat reads a JSON number as the nearest double; −0 is 0. A number past the largest
// double is an error, found from its digits, without big-number work.
func ParseJSONFloat(text []byte) (float64, error) {
	d, ok := parseDecimalText(text)
	switch {
	case !ok:
		return 0, fmt.Errorf("not a number: %s", shorten(text))
	case d.digits == 0 || d.point < -400:
		return 0, nil
	case d.point > 400:
		return 0, fmt.Errorf("%s is outside the range of DOUBLE", shorten(text))
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if math.IsInf(f, 0) {
		return 0, fmt.Errorf("%s is outside the range of DOUBLE", shorten(text))
	}
	if err != nil && f != 0 {
		return 0, fmt.Errorf("not a number: %s", shorten(text))
	}
	if f == 0 {
		f = 0 // no −0
	}
	return f, nil
}

func parseJSONList(v *Vector, text []byte) error {
	elem := NewVector(*v.Type.Elem, 1)
	var value []byte
	n := 0
	err := EachElement(text, func(e []byte) error {
		elem.Truncate(0)
		if err := ParseJSONValue(elem, e); err != nil {
			return fmt.Errorf("element %d: %w", n, err)
		}
		value = AppendElement(value, elem, 0)
		n++
		return nil
	})
	if err != nil {
		return err
	}
	v.AppendString(string(value))
	return nil
}

// parseJSONStruct takes the first of two equal members, as DuckDB's paths do; members that the
// type does not have stay in the event alone.
func parseJSONStruct(v *Vector, text []byte) error {
	fields := v.Type.Fields
	texts := make([][]byte, len(fields))
	next := 0 // members mostly come in the order of the type
	err := EachMember(text, func(name string, value []byte) error {
		for k := range fields {
			i := (next + k) % len(fields)
			if fields[i].Name == name {
				if texts[i] == nil {
					texts[i] = value
				}
				next = i + 1
				break
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var key []byte
	for i, f := range fields {
		m := NewVector(f.Type, 1)
		if texts[i] == nil {
			m.AppendNull()
		} else if err := ParseJSONValue(m, texts[i]); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		key = AppendElement(key, m, 0)
	}
	v.AppendString(string(key))
	return nil
}

// errJSON says that a text is not well formed; the ingest scanner has found that before and with
// its place, so this is for other callers.
var errJSON = errors.New("not well-formed JSON")

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipJSONValue returns the end of the value that begins at i: strings are followed through their
// escapes, brackets counted.
func skipJSONValue(b []byte, i int) (int, error) {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end := stringEnd(b, i)
			if end < 0 {
				return 0, errJSON
			}
			i = end
		case '[', '{':
			depth++
			i++
			continue
		case ']', '}':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default:
			for i < len(b) && !endsWord(b[i]) {
				i++
			}
		}
		if depth <= 0 {
			if depth < 0 {
				return 0, errJSON
			}
			return i, nil
		}
	}
	return 0, errJSON
}

// endsWord reports whether a number, true, false or null ends before c.
func endsWord(c byte) bool {
	switch c {
	case ',', ':', ']', '}', '[', '{', '"', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// stringEnd returns the index behind the closing quote of the string that begins at i, or −1.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// EachElement calls f with the text of each element of a well-formed JSON array.
func EachElement(text []byte, f func(element []byte) error) error {
	if len(text) < 2 || text[0] != '[' {
		return errJSON
	}
	i := skipSpace(text, 1)
	if i < len(text) && text[i] == ']' {
		return nil
	}
	for {
		i = skipSpace(text, i)
		end, err := skipJSONValue(text, i)
		if err != nil {
			return err
		}
		if err := f(text[i:end]); err != nil {
			return err
		}
		i = skipSpace(text, end)
		if i >= len(text) {
			return errJSON
		}
		if text[i] == ']' {
			return nil
		}
		if text[i] != ',' {
			return errJSON
		}
		i++
	}
}

// EachMember calls f with the name and the value's text of each member of a well-formed JSON
// object, in order, equal names included.
func EachMember(text []byte, f func(name string, value []byte) error) error {
	if len(text) < 2 || text[0] != '{' {
		return errJSON
	}
	i := skipSpace(text, 1)
	if i < len(text) && text[i] == '}' {
		return nil
	}
	for {
		i = skipSpace(text, i)
		if i >= len(text) || text[i] != '"' {
			return errJSON
		}
		end := stringEnd(text, i)
		if end < 0 {
			return errJSON
		}
		name, err := UnquoteJSON(text[i:end])
		if err != nil {
			return err
		}
		i = skipSpace(text, end)
		if i >= len(text) || text[i] != ':' {
			return errJSON
		}
		i = skipSpace(text, i+1)
		if end, err = skipJSONValue(text, i); err != nil {
			return err
		}
		if err := f(name, text[i:end]); err != nil {
			return err
		}
		i = skipSpace(text, end)
		if i >= len(text) {
			return errJSON
		}
		if text[i] == '}' {
			return nil
		}
		if text[i] != ',' {
			return errJSON
		}
		i++
	}
}

// ErrBadUnicode is the error of a string with a lone surrogate or bytes that are no UTF-8.
var ErrBadUnicode = errors.New("a string holds a lone surrogate or bytes that are not UTF-8")

// UnquoteJSON returns what a JSON string, quotes included, stands for. Lone surrogates and
// invalid UTF-8 are ErrBadUnicode: putting another character in their place would make different
// texts equal.
func UnquoteJSON(text []byte) (string, error) {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", errJSON
	}
	b := text[1 : len(text)-1]
	plain := true
	for _, c := range b {
		if c < 0x20 {
			return "", errJSON
		}
		if c == '\\' {
			plain = false
		}
	}
	if !utf8.Valid(b) {
		return "", ErrBadUnicode
	}
	if plain {
		return string(b), nil
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' {
			out = append(out, c)
			continue
		}
		i++
		if i >= len(b) {
			return "", errJSON
		}
		switch b[i] {
		case '"', '\\', '/':
			out = append(out, b[i])
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := hexRune(b[i+1:])
			if !ok {
				return "", errJSON
			}
			i += 4
			if utf16.IsSurrogate(r) {
				if i+2 >= len(b) || b[i+1] != '\\' || b[i+2] != 'u' {
					return "", ErrBadUnicode
				}
				r2, ok := hexRune(b[i+3:])
				if !ok {
					return "", errJSON
				}
				if r = utf16.DecodeRune(r, r2); r == utf8.RuneError {
					return "", ErrBadUnicode
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default:
			return "", errJSON
		}
	}
	return string(out), nil
}

// hexRune reads four hexadecimal digits.
func hexRune(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var x [2]byte
	if _, err := hex.Decode(x[:], b[:4]); err != nil {
		return 0, false
	}
	return rune(x[0])<<8 | rune(x[1]), true
}
