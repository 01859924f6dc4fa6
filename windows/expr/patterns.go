package expr

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"tidemark/storage/row"
)

// patterns fills LIKE, GLOB and the regular expressions.
func (t table) patterns() {
	like := func(name string, fold, negate bool) {
		t.define(name, overload{args: []row.Type{tVarchar, tVarchar}, returns: tBool, prepare: func(args []*Expr) (kernel, error) {
			return likeKernel(args[1], fold, negate, 0), nil
		}})
	}
	like("~~", false, false)
	like("!~~", false, true)
	like("~~*", true, false)
	like("!~~*", true, true)
	escape := func(name string, fold, negate bool) {
		t.define(name, overload{args: []row.Type{tVarchar, tVarchar, tVarchar}, returns: tBool, prepare: func(args []*Expr) (kernel, error) {
			e := args[2]
			if !e.IsConst() || e.isNull() || len(e.value.Str[0]) > 1 {
				return nil, &Mismatch{Name: name, Reason: "ESCAPE takes one constant character"}
			}
			if e.value.Str[0] == "" {
				return likeKernel(args[1], fold, negate, 0), nil
			}
			return likeKernel(args[1], fold, negate, e.value.Str[0][0]), nil
		}})
	}
	escape("like_escape", false, false)
	escape("not_like_escape", false, true)
	escape("ilike_escape", true, false)
	escape("not_ilike_escape", true, true)
	t.define("~~~", on(tBool, map2(str, str, i64, func(s, p string) int64 { return b2i(glob(s, p)) }), tVarchar, tVarchar))

	search := func(name string, full, negate bool) {
		k := func(args []*Expr) (kernel, error) {
			return regexKernel(name, args, 2, full, func(c *call, i int32, s string, re *regexp.Regexp) {
				c.out.I64[i] = b2i(re.MatchString(s) != negate)
			})
		}
		t.define(name, overload{args: []row.Type{tVarchar, tVarchar}, returns: tBool, prepare: k},
			overload{args: []row.Type{tVarchar, tVarchar, tVarchar}, returns: tBool, prepare: k})
	}
	search("regexp_matches", false, false)
	search("regexp_full_match", true, false)
	search("~", true, false)
	search("!~", true, true)
	t.regexExtract()
	replace := func(args []*Expr) (kernel, error) {
		options, err := constText("regexp_replace", args, 3)
		if err != nil {
			return nil, err
		}
		all := strings.Contains(options, "g")
		constant := args[1].IsConst() && args[2].IsConst()
		return regexKernel("regexp_replace", args, 3, false, func(c *call, i int32, s string, re *regexp.Regexp) {
			with := c.args[2].Str[i]
			if constant {
				c.out.Str[i] = c.remember(s, func(s string) string { return regexReplace(re, s, with, all) })
			} else {
				c.out.Str[i] = regexReplace(re, s, with, all)
			}
		})
	}
	t.define("regexp_replace", overload{args: []row.Type{tVarchar, tVarchar, tVarchar}, returns: tVarchar, prepare: replace},
		overload{args: []row.Type{tVarchar, tVarchar, tVarchar, tVarchar}, returns: tVarchar, prepare: replace})
	split := func(args []*Expr) (kernel, error) {
		return regexKernel("regexp_split_to_array", args, 2, false, func(c *call, i int32, s string, re *regexp.Regexp) {
			c.out.Str[i] = encodeTexts(re.Split(s, -1))
		})
	}
	for _, n := range []string{"regexp_split_to_array", "string_split_regex", "str_split_regex"} {
		t.define(n, overload{args: []row.Type{tVarchar, tVarchar}, returns: row.ListOf(tVarchar), prepare: split})
	}
	t.define("regexp_escape", on(tVarchar, map1(str, str, regexp.QuoteMeta), tVarchar))
}

func (t table) regexExtract() {
	extract := func(args []*Expr) (kernel, error) {
		group, err := constGroup("regexp_extract", args)
		if err != nil {
			return nil, err
		}
		constant := args[1].IsConst()
		return regexKernel("regexp_extract", args, 3, false, func(c *call, i int32, s string, re *regexp.Regexp) {
			find := func(s string) string {
				if group > re.NumSubexp() {
					return ""
				}
				if m := re.FindStringSubmatchIndex(s); m != nil && m[2*group] >= 0 {
					return s[m[2*group]:m[2*group+1]]
				}
				return ""
			}
			if constant {
				c.out.Str[i] = c.remember(s, find)
			} else {
				c.out.Str[i] = find(s)
			}
		})
	}
	all := func(args []*Expr) (kernel, error) {
		group, err := constGroup("regexp_extract_all", args)
		if err != nil {
			return nil, err
		}
		return regexKernel("regexp_extract_all", args, 3, false, func(c *call, i int32, s string, re *regexp.Regexp) {
			var parts []string
			if group <= re.NumSubexp() {
				for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
					if m[2*group] >= 0 {
						parts = append(parts, s[m[2*group]:m[2*group+1]])
					} else {
						parts = append(parts, "")
					}
				}
			}
			c.out.Str[i] = encodeTexts(parts)
		})
	}
	defer func() { // besides the texts that are overloads: the groups by their names
		text := t["regexp_extract"].overloads
		t.binder(func(name string, args []*Expr) (*Expr, error) {
			if len(args) > 2 && args[2].Type.Kind == row.List {
				return bindGroups(name, args)
			}
			return bindOverload(name, text, args)
		}, "regexp_extract")
	}()
	for name, p := range map[string]func([]*Expr) (kernel, error){"regexp_extract": extract, "regexp_extract_all": all} {
		returns := tVarchar
		if name == "regexp_extract_all" {
			returns = row.ListOf(tVarchar)
		}
		for n := 2; n <= 4; n++ {
			t.define(name, overload{args: []row.Type{tVarchar, tVarchar, tInt, tVarchar}[:n], returns: returns, prepare: p})
		}
	}
}

// bindGroups binds regexp_extract(text, pattern, ['name', …]): a STRUCT of the pattern's groups.
func bindGroups(name string, args []*Expr) (*Expr, error) {
	bad := func(why string) error {
		return &Mismatch{Name: name, Reason: name + " " + why}
	}
	constant := func(e *Expr) bool { return e.IsConst() && !e.isNull() }
	if len(args) > 4 || !constant(args[2]) || args[2].Type.Elem.Kind != row.Varchar || !constant(args[1]) || args[1].Type.Kind != row.Varchar {
		return nil, bad("needs its pattern and the names of its groups as constants")
	}
	s, err := implicit(args[0], tVarchar)
	if err != nil {
		return nil, err
	}
	names, err := row.Elements(args[2].value, 0)
	if err != nil {
		return nil, err
	}
	t := row.Type{Kind: row.Struct}
	for k := range names.Len() {
		if names.IsNull(k) || names.Str[k] == "" || row.FieldIndex(t.Fields, names.Str[k]) >= 0 {
			return nil, bad("needs a name of its own for each group")
		}
		t.Fields = append(t.Fields, row.Field{Name: names.Str[k], Type: tVarchar})
	}
	options, err := constText(name, args, 3)
	if err != nil {
		return nil, err
	}
	re, failed := compileRegex(args[1].value.Str[0], options, false)
	switch {
	case failed != nil:
		return nil, bad(failed.Message)
	case len(t.Fields) == 0 || len(t.Fields) > re.NumSubexp():
		return nil, bad(fmt.Sprintf("has %d names for %d groups", len(t.Fields), re.NumSubexp()))
	}
	return newCall(t, callText(name, args), func(c *call) {
		members := make([]*row.Vector, len(t.Fields))
		for _, i := range c.rows {
			c.out.Str[i] = c.remember(c.args[0].Str[i], func(s string) string {
				found := re.FindStringSubmatch(s)
				for k := range members {
					members[k] = row.NewVector(tVarchar, 1)
					part := ""
					if found != nil {
						part = found[k+1]
					}
					members[k].AppendString(part)
				}
				return string(row.EncodeStruct(nil, members, 0))
			})
		}
	}, s), nil
}

// constText returns a constant VARCHAR argument; "" when it is not given.
func constText(name string, args []*Expr, at int) (string, error) {
	if at >= len(args) {
		return "", nil
	}
	if !args[at].IsConst() || args[at].isNull() || args[at].Type.Kind != row.Varchar {
		return "", &Mismatch{Name: name, Reason: name + " needs its options as a constant text"}
	}
	return args[at].value.Str[0], nil
}

func constGroup(name string, args []*Expr) (int, error) {
	if len(args) < 3 {
		return 0, nil
	}
	if !args[2].IsConst() || args[2].isNull() || args[2].value.I64[0] < 0 || args[2].value.I64[0] > 99 {
		return 0, &Mismatch{Name: name, Reason: name + " needs its group as a constant number from 0 to 99"}
	}
	return int(args[2].value.I64[0]), nil
}

// compileRegex compiles a pattern with DuckDB's options; full patterns must match the whole text.
func compileRegex(pattern, options string, full bool) (*regexp.Regexp, *Failure) {
	flags := ""
	for _, o := range options {
		switch o {
		case 'i':
			flags += "i"
		case 's':
			flags += "s"
		case 'l':
			pattern = regexp.QuoteMeta(pattern)
		case 'c', 'm', 'n', 'p', 'g':
		default:
			return nil, invalidInput("Unrecognized Regex option %c", o)
		}
	}
	if flags != "" {
		flags = "(?" + flags + ")"
	}
	re, err := regexp.Compile(flags + pattern)
	if err == nil && full {
		re, err = regexp.Compile(flags + `\A(?:` + pattern + `)\z`)
	}
	if err != nil {
		return nil, badRegex(err)
	}
	return re, nil
}

// badRegex says in RE2's words, which are DuckDB's, what is wrong with a pattern.
func badRegex(err error) *Failure {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return invalidInput("%v", err)
	}
	return invalidInput("%s: %s", strings.Replace(string(e.Code), "missing closing ", "missing ", 1), e.Expr)
}

// regexKernel calls f for each row with the pattern of argument 1. The options stand at argument
// number options. A constant pattern is compiled once and a bad one is refused at once.
func regexKernel(name string, args []*Expr, options int, full bool, f func(c *call, i int32, s string, re *regexp.Regexp)) (kernel, error) {
	opts, err := constText(name, args, options)
	if err != nil {
		return nil, err
	}
	if p := args[1]; p.IsConst() && !p.isNull() {
		re, bad := compileRegex(p.value.Str[0], opts, full)
		if bad != nil {
			return nil, &Mismatch{Name: name, Reason: bad.Message}
		}
		return func(c *call) {
			for _, i := range c.rows {
				f(c, i, c.args[0].Str[i], re)
			}
		}, nil
	}
	return func(c *call) {
		var last string
		var re *regexp.Regexp
		for _, i := range c.rows {
			if p := c.args[1].Str[i]; re == nil || p != last {
				var bad *Failure
				if re, bad = compileRegex(p, opts, full); bad != nil {
					c.fail(i, bad)
					re = nil
					continue
				}
				last = p
			}
			f(c, i, c.args[0].Str[i], re)
		}
	}, nil
}

// regexReplace replaces the first match, or all, by a text in which \0 … \9 are groups.
func regexReplace(re *regexp.Regexp, s, with string, all bool) string {
	n := 1
	if all {
		n = -1
	}
	matches := re.FindAllStringSubmatchIndex(s, n)
	if matches == nil {
		return s
	}
	var b strings.Builder
	at := 0
	for _, m := range matches {
		if b.WriteString(s[at:m[0]]); b.Len() > maxText {
			break
		}
		for i := 0; i < len(with); i++ {
			if with[i] != '\\' || i+1 == len(with) {
				b.WriteByte(with[i])
				continue
			}
			i++
			if g := int(with[i] - '0'); with[i]-'0' <= 9 {
				if 2*g+1 < len(m) && m[2*g] >= 0 {
					b.WriteString(s[m[2*g]:m[2*g+1]])
				}
				if b.Len() > maxText {
					return b.String() // the row fails
				}
			} else {
				b.WriteByte(with[i])
			}
		}
		at = m[1]
	}
	b.WriteString(s[at:])
	return b.String()
}

// likeKernel matches a pattern; a constant one without wildcards inside is a plain search.
func likeKernel(pattern *Expr, fold, negate bool, escape byte) kernel {
	if pattern.IsConst() && !pattern.isNull() {
		m := likeMatcher(pattern.value.Str[0], fold, escape)
		return func(c *call) {
			x, out := c.args[0].Str, c.out.I64
			for _, i := range c.rows {
				out[i] = b2i(m(x[i]) != negate)
			}
		}
	}
	return func(c *call) {
		for _, i := range c.rows {
			s, p := c.args[0].Str[i], c.args[1].Str[i]
			if fold {
				s, p = strings.ToLower(s), strings.ToLower(p)
			}
			c.out.I64[i] = b2i(likeMatch(s, p, escape) != negate)
		}
	}
}

func likeMatcher(pattern string, fold bool, escape byte) func(string) bool {
	if fold {
		pattern = strings.ToLower(pattern)
	}
	var m func(string) bool
	inner := strings.Trim(pattern, "%")
	switch {
	case escape != 0 || strings.ContainsAny(inner, "%_"):
		m = func(s string) bool { return likeMatch(s, pattern, escape) }
	case inner == pattern:
		m = func(s string) bool { return s == pattern }
	case inner == "":
		m = func(string) bool { return true }
	case pattern[0] != '%':
		m = func(s string) bool { return strings.HasPrefix(s, inner) }
	case pattern[len(pattern)-1] != '%':
		m = func(s string) bool { return strings.HasSuffix(s, inner) }
	default:
		m = func(s string) bool { return strings.Contains(s, inner) }
	}
	if fold {
		return func(s string) bool { return m(strings.ToLower(s)) }
	}
	return m
}

// likeMatch matches with one point to come back to, the last %: no pattern takes more than
// len(s)·len(p) steps.
func likeMatch(s, p string, escape byte) bool {
	i, j := 0, 0
	star, from := -1, 0
	for i < len(s) {
		if j < len(p) {
			switch c := p[j]; {
			case escape != 0 && c == escape && j+1 < len(p):
				if s[i] == p[j+1] {
					i, j = i+1, j+2
					continue
				}
			case c == '%':
				star, from = j, i
				j++
				continue
			case c == '_':
				_, n := utf8.DecodeRuneInString(s[i:])
				i, j = i+n, j+1
				continue
			case s[i] == c:
				i, j = i+1, j+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, n := utf8.DecodeRuneInString(s[from:])
		from += n
		i, j = from, star+1
	}
	for j < len(p) && p[j] == '%' {
		j++
	}
	return j == len(p)
}

// glob matches *, ?, [a-z], [!a-z] and \ like a shell, in the same bounded time.
func glob(s, p string) bool {
	i, j := 0, 0
	star, from := -1, 0
	for i < len(s) {
		if j < len(p) {
			if p[j] == '*' {
				star, from = j, i
				j++
				continue
			}
			if n, width, ok := globOne(s[i:], p[j:]); ok {
				i, j = i+width, j+n
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		i, j = from, star+1
	}
	for j < len(p) && p[j] == '*' {
		j++
	}
	return j == len(p)
}

// globOne matches the first character of s; n bytes of p and width bytes of s are used.
func globOne(s, p string) (n, width int, ok bool) {
	switch p[0] {
	case '?':
		_, w := utf8.DecodeRuneInString(s)
		return 1, w, true
	case '[':
		j := 1
		negate := j < len(p) && p[j] == '!'
		if negate {
			j++
		}
		found := false
		for first := true; j < len(p) && (first || p[j] != ']'); first = false {
			low := p[j]
			high := low
			if j+2 < len(p) && p[j+1] == '-' && p[j+2] != ']' {
				high = p[j+2]
				j += 2
			}
			found = found || s[0] >= low && s[0] <= high
			j++
		}
		return j + 1, 1, j < len(p) && found != negate
	case '\\':
		if len(p) > 1 {
			return 2, 1, s[0] == p[1]
		}
	}
	return 1, 1, s[0] == p[0]
}
