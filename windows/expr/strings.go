package expr

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"tidemark/storage/row"
)

// texts fills the functions over VARCHAR. Positions and lengths count code points, from 1.
func (t table) texts() {
	one := func(names string, f func(string) string) {
		for _, n := range strings.Fields(names) {
			t.define(n, on(tVarchar, map1(str, str, f), tVarchar))
		}
	}
	one("lower lcase", strings.ToLower)
	one("upper ucase", upper)
	one("reverse", reverse)
	one("trim", func(s string) string { return strings.Trim(s, " ") })
	one("ltrim", func(s string) string { return strings.TrimLeft(s, " ") })
	one("rtrim", func(s string) string { return strings.TrimRight(s, " ") })
	one("md5", func(s string) string { sum := md5.Sum([]byte(s)); return hex.EncodeToString(sum[:]) })
	one("sha256", func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) })
	one("hex to_hex", func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) })
	one("url_encode", func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") })
	t.define("url_decode", on(tVarchar, try1(str, str, func(s string) (string, *Failure) {
		d, err := url.PathUnescape(s)
		if err != nil {
			return s, nil
		}
		return d, nil
	}), tVarchar))

	count := func(names string, f func(string) int64) {
		for _, n := range strings.Fields(names) {
			t.define(n, on(tBig, map1(str, i64, f), tVarchar))
		}
	}
	count("length len", runes)
	count("strlen", func(s string) int64 { return int64(len(s)) })
	count("bit_length", func(s string) int64 { return int64(len(s)) * 8 })
	t.define("octet_length", on(tBig, map1(str, i64, func(s string) int64 { return int64(len(s)) }), tBlob))
	first := func(empty int64) kernel {
		return map1(str, i64, func(s string) int64 {
			if s == "" {
				return empty
			}
			r, _ := utf8.DecodeRuneInString(s)
			return int64(r)
		})
	}
	t.define("ascii", on(tInt, first(0), tVarchar))
	t.define("unicode", on(tInt, first(-1), tVarchar))
	t.define("ord", on(tInt, first(-1), tVarchar))
	t.define("chr", on(tVarchar, try1(i64, str, func(n int64) (string, *Failure) {
		if n < 0 || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
			return "", invalidInput("Invalid UTF8 Codepoint %d", n)
		}
		return string(rune(n)), nil
	}), tInt))

	two := func(names string, f func(s, x string) string) {
		for _, n := range strings.Fields(names) {
			t.define(n, on(tVarchar, map2(str, str, str, f), tVarchar, tVarchar))
		}
	}
	two("trim", strings.Trim)
	two("ltrim", strings.TrimLeft)
	two("rtrim", strings.TrimRight)
	test := func(names string, f func(s, x string) bool) {
		for _, n := range strings.Fields(names) {
			t.define(n, on(tBool, map2(str, str, i64, func(s, x string) int64 { return b2i(f(s, x)) }), tVarchar, tVarchar))
		}
	}
	test("starts_with prefix ^@", strings.HasPrefix)
	test("ends_with suffix", strings.HasSuffix)
	test("contains", strings.Contains)
	for _, n := range []string{"strpos", "instr", "position"} {
		t.define(n, on(tBig, map2(str, str, i64, func(s, x string) int64 {
			at := strings.Index(s, x)
			if at < 0 {
				return 0
			}
			return runes(s[:at]) + 1
		}), tVarchar, tVarchar))
	}
	const everything = 1 << 62
	for _, n := range []string{"substring", "substr"} {
		t.define(n,
			on(tVarchar, map2(str, i64, str, func(s string, at int64) string { return substring(s, at, everything) }), tVarchar, tBig),
			on(tVarchar, map3(str, i64, i64, str, substring), tVarchar, tBig, tBig))
	}
	for _, n := range []string{"left", "left_grapheme"} {
		t.define(n, on(tVarchar, map2(str, i64, str, func(s string, n int64) string {
			if n < 0 {
				n = max(0, runes(s)+n)
			}
			return substring(s, 1, n)
		}), tVarchar, tBig))
	}
	for _, n := range []string{"right", "right_grapheme"} {
		t.define(n, on(tVarchar, map2(str, i64, str, func(s string, n int64) string {
			have := runes(s)
			if n < 0 {
				n = max(0, have+n)
			}
			return substring(s, max(0, have-n)+1, n)
		}), tVarchar, tBig))
	}
	t.define("replace", on(tVarchar, try3(str, str, str, str, func(s, from, to string) (string, *Failure) {
		switch {
		case from == "":
			return s, nil
		case len(to) > len(from) && strings.Count(s, from) > (maxText-len(s))/(len(to)-len(from)):
			return "", tooLong()
		}
		return strings.ReplaceAll(s, from, to), nil
	}), tVarchar, tVarchar, tVarchar))
	t.define("translate", on(tVarchar, map3(str, str, str, str, translate), tVarchar, tVarchar, tVarchar))
	t.define("lpad", on(tVarchar, inParts(try3(str, i64, str, str, func(s string, n int64, pad string) (string, *Failure) {
		fill, err := padding("LPAD", s, n, pad)
		return fill + substring(s, 1, n), err
	})), tVarchar, tInt, tVarchar))
	t.define("rpad", on(tVarchar, inParts(try3(str, i64, str, str, func(s string, n int64, pad string) (string, *Failure) {
		fill, err := padding("RPAD", s, n, pad)
		return substring(s, 1, n) + fill, err
	})), tVarchar, tInt, tVarchar))
	t.define("repeat", on(tVarchar, inParts(try2(str, i64, str, func(s string, n int64) (string, *Failure) {
		if n <= 0 {
			return "", nil
		}
		if int64(len(s)) > maxText/n {
			return "", outOfRange("repeat would make a text of more than %d bytes", maxText)
		}
		return strings.Repeat(s, int(n)), nil
	})), tVarchar, tBig))
	t.define("to_base64", on(tVarchar, map1(str, str, func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }), tBlob))
	t.alias("to_base64", "base64")
	t.define("from_base64", on(tBlob, try1(str, str, func(s string) (string, *Failure) {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return "", conversion("Could not decode string \"%s\" as base64", s)
		}
		return string(b), nil
	}), tVarchar))
	t.define("encode", on(tBlob, map1(str, str, func(s string) string { return s }), tVarchar))
	t.define("decode", on(tVarchar, try1(str, str, func(s string) (string, *Failure) {
		if !utf8.ValidString(s) {
			return "", conversion("Failure in decode: could not convert blob to UTF8 string, the blob contained invalid UTF8 characters")
		}
		return s, nil
	}), tBlob))
	t.define("unhex", on(tBlob, try1(str, str, func(s string) (string, *Failure) {
		if len(s)%2 != 0 {
			s = "0" + s
		}
		b, err := hex.DecodeString(s)
		if err != nil {
			return "", invalidInput("Invalid input for hex digit: %s", shortText(s))
		}
		return string(b), nil
	}), tVarchar))
	t.alias("unhex", "from_hex")
	number := func(names string, base int) {
		for _, n := range strings.Fields(names) {
			t.define(n, on(tVarchar, map1(i64, str, func(x int64) string {
				return strings.ToUpper(strconv.FormatUint(uint64(x), base))
			}), tBig))
		}
	}
	number("hex to_hex", 16)
	number("bin to_binary", 2)

	// split_part is one that takes NULL for an empty text.
	t.define("split_part", overload{args: []row.Type{tVarchar, tVarchar, tBig}, returns: tVarchar, nullable: true, kernel: func(c *call) {
		s, sep, at := c.args[0], c.args[1], c.args[2]
		for _, i := range c.rows {
			c.out.Str[i] = ""
			if !s.IsNull(int(i)) && !sep.IsNull(int(i)) && !at.IsNull(int(i)) {
				c.out.Str[i] = splitPart(s.Str[i], sep.Str[i], at.I64[i])
			}
		}
	}})
	for _, n := range []string{"string_split", "str_split", "split", "string_to_array"} {
		t.define(n, on(row.ListOf(tVarchar), map2(str, str, str, func(s, sep string) string {
			return encodeTexts(splitText(s, sep))
		}), tVarchar, tVarchar))
	}
	t.binder(bindConcat, "concat")
	t.binder(bindConcatWS, "concat_ws")
	t.binder(bindJoin, "||")
	t.define("levenshtein", on(tBig, map2(str, str, i64, func(a, b string) int64 { return int64(distance(a, b)) }), tVarchar, tVarchar))
	t.alias("levenshtein", "editdist3")
	t.define("hamming", on(tBig, try2(str, str, i64, hamming), tVarchar, tVarchar))
	t.alias("hamming", "mismatches")
}

func runes(s string) int64 { return int64(utf8.RuneCountInString(s)) }

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// substring returns length code points from offset on. Offset counts from 1, negative from the
// end; a negative length counts backwards.
func substring(s string, offset, length int64) string {
	n := int64(len(s))
	plain := ascii(s)
	if !plain {
		n = runes(s)
	}
	from := offset - 1
	if offset < 0 {
		from = n + offset
	}
	to := from
	if length > 0 {
		to = from + min(length, 1<<61)
	} else {
		from += max(length, -1<<61)
	}
	from, to = max(from, 0), min(to, n)
	if from >= to {
		return ""
	}
	if plain {
		return s[from:to]
	}
	begin, end, k := len(s), len(s), int64(0)
	for i := range s {
		if k == from {
			begin = i
		}
		if k == to {
			end = i
			break
		}
		k++
	}
	return s[begin:end]
}

// reverse turns a text around: its bytes when it is ASCII, else what a reader sees as characters.
func reverse(s string) string {
	out := make([]byte, len(s))
	at := len(s)
	if isASCII(s) {
		for i := range len(s) {
			at--
			out[at] = s[i]
		}
		return string(out)
	}
	for g := graphemes.FromString(s); g.Next(); {
		at -= len(g.Value())
		copy(out[at:], g.Value())
	}
	return string(out)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func translate(s, from, to string) string {
	target := []rune(to)
	swap := map[rune]rune{}
	k := 0
	for _, r := range from {
		if _, seen := swap[r]; !seen {
			swap[r] = -1
			if k < len(target) {
				swap[r] = target[k]
			}
		}
		k++
	}
	return strings.Map(func(r rune) rune {
		if to, ok := swap[r]; ok {
			return to
		}
		return r
	}, s)
}

// padding returns what is missing from s to n code points.
func padding(name, s string, n int64, pad string) (string, *Failure) {
	missing := n - runes(s)
	switch {
	case missing <= 0:
		return "", nil
	case pad == "":
		return "", invalidInput("Insufficient padding in %s.", name)
	case missing > maxText/int64(len(pad)):
		return "", outOfRange("%s would make a text of more than %d bytes", name, maxText)
	}
	each := runes(pad)
	return strings.Repeat(pad, int(missing/each)) + substring(pad, 1, missing%each), nil
}

func splitText(s, sep string) []string {
	if sep == "" {
		if s == "" {
			return []string{""}
		}
		return strings.Split(s, "")
	}
	return strings.Split(s, sep)
}

// splitPart returns part n of s, counted from 1, or from the end when negative; empty when there
// is none.
func splitPart(s, sep string, n int64) string {
	if sep == "" {
		parts := splitText(s, sep)
		if n < 0 {
			n = int64(len(parts)) + n + 1
		}
		if n < 1 || n > int64(len(parts)) {
			return ""
		}
		return parts[n-1]
	}
	switch {
	case n > 0:
		for ; n > 1; n-- {
			k := strings.Index(s, sep)
			if k < 0 {
				return ""
			}
			s = s[k+len(sep):]
		}
		if k := strings.Index(s, sep); k >= 0 {
			return s[:k]
		}
		return s
	case n < 0:
		for ; n < -1; n++ {
			k := strings.LastIndex(s, sep)
			if k < 0 {
				return ""
			}
			s = s[:k]
		}
		if k := strings.LastIndex(s, sep); k >= 0 {
			return s[k+len(sep):]
		}
		return s
	}
	return ""
}

// encodeTexts makes the value of a VARCHAR[].
func encodeTexts(parts []string) string {
	v := &row.Vector{Type: tVarchar, Str: parts}
	return string(row.EncodeList(nil, v))
}

func hamming(a, b string) (int64, *Failure) {
	if len(a) != len(b) || a == "" {
		return 0, invalidInput("Mismatch Function: Strings must be of equal length!")
	}
	n := int64(0)
	for i := range len(a) {
		n += b2i(a[i] != b[i])
	}
	return n, nil
}

// castTexts casts what is not VARCHAR to it, and keeps NULL.
func castTexts(args []*Expr) ([]*Expr, error) { return castAll(args, tVarchar) }

// bindConcat binds concat, for which NULL is nothing.
func bindConcat(name string, args []*Expr) (*Expr, error) {
	if len(args) == 0 {
		return nil, mismatch(name, args)
	}
	if args[0].Type.Kind == row.List {
		return Call("list_concat", args)
	}
	cast, err := castTexts(args)
	if err != nil {
		return nil, err
	}
	return newNullable(tVarchar, callText(name, args), func(c *call) {
		var b []byte
		for _, i := range c.rows {
			b = b[:0]
			for _, v := range c.args {
				if !v.IsNull(int(i)) {
					b = append(b, v.Str[i]...)
				}
			}
			c.out.Str[i] = string(b)
		}
	}, cast...), nil
}

// bindConcatWS binds concat_ws: NULLs are left out together with their separator.
func bindConcatWS(name string, args []*Expr) (*Expr, error) {
	if len(args) < 2 {
		return nil, mismatch(name, args)
	}
	cast, err := castTexts(args)
	if err != nil {
		return nil, err
	}
	return newNullable(tVarchar, callText(name, args), func(c *call) {
		var b []byte
		for _, i := range c.rows {
			if c.args[0].IsNull(int(i)) {
				c.null(i)
				continue
			}
			b = b[:0]
			first := true
			for _, v := range c.args[1:] {
				if v.IsNull(int(i)) {
					continue
				}
				if !first {
					b = append(b, c.args[0].Str[i]...)
				}
				if b, first = append(b, v.Str[i]...), false; len(b) > maxText {
					break // the row fails
				}
			}
			c.out.Str[i] = string(b)
		}
	}, cast...), nil
}

// bindJoin binds ||: of texts NULL if one is, of lists as list_concat.
func bindJoin(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 {
		return nil, mismatch(name, args)
	}
	a, b := args[0].Type, args[1].Type
	switch {
	case a.Kind == row.List && b.Kind == row.List:
		e, err := Call("list_concat", args)
		if err == nil {
			e.Text = callText(name, args)
		}
		return e, err
	case a.Kind == row.List || b.Kind == row.List:
		return nil, mismatch(name, args)
	case a.Kind == row.Null || b.Kind == row.Null:
		return nullOf(tNull), nil
	case a.Kind == row.Blob && b.Kind == row.Blob:
		return newCall(tBlob, callText(name, args), map2(str, str, str, func(x, y string) string { return x + y }), args...), nil
	}
	cast, err := castTexts(args)
	if err != nil {
		return nil, err
	}
	return newCall(tVarchar, callText(name, args), map2(str, str, str, func(x, y string) string { return x + y }), cast...), nil
}

// upper is strings.ToUpper as DuckDB has it: the capital of ß is ẞ.
func upper(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "ß", "ẞ")) }
