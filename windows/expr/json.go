package expr

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"tidemark/storage/row"
)

// json fills the functions over JSON. A JSON value is its text; what is taken out of one comes
// without white space and with numbers as DuckDB writes them.
func (t table) json() {
	extract := func(name string, text bool) {
		t.binder(func(name string, args []*Expr) (*Expr, error) { return bindJSONExtract(name, args, text) }, name)
	}
	for _, n := range []string{"->", "json_extract", "json_extract_path"} {
		extract(n, false)
	}
	for _, n := range []string{"->>", "json_extract_string", "json_extract_path_text"} {
		extract(n, true)
	}
	t.jsonAt("json_value", tVarchar, func(c *call, i int32, v []byte) {
		if v == nil || v[0] == '{' || v[0] == '[' || v[0] == 'n' {
			c.null(i)
			return
		}
		c.out.Str[i] = string(compactJSON(nil, v))
	})
	t.jsonAt("json_type", tVarchar, func(c *call, i int32, v []byte) {
		if v == nil {
			c.null(i)
			return
		}
		c.out.Str[i] = jsonType(v)
	})
	t.jsonAt("json_array_length", tBig, func(c *call, i int32, v []byte) {
		if v == nil {
			c.null(i)
			return
		}
		n := int64(0)
		if v[0] == '[' {
			_ = row.EachElement(v, func([]byte) error { n++; return nil })
		}
		c.out.I64[i] = n
	})
	t.jsonAt("json_exists", tBool, func(c *call, i int32, v []byte) { c.out.I64[i] = b2i(v != nil) })
	t.jsonAt("json_keys", row.ListOf(tVarchar), func(c *call, i int32, v []byte) {
		var names []string
		if v != nil && v[0] == '{' {
			_ = row.EachMember(v, func(name string, _ []byte) error { names = append(names, name); return nil })
		}
		c.out.Str[i] = encodeTexts(names)
	})
	t.jsonAt("json", tJSON, func(c *call, i int32, v []byte) { c.out.Str[i] = string(compactJSON(nil, v)) })
	valid := map1(str, i64, func(s string) int64 { return b2i(json.Valid([]byte(s))) })
	t.define("json_valid", on(tBool, valid, tJSON), on(tBool, valid, tVarchar))
	t.binder(bindToJSON, "to_json", "json_quote")
	t.binder(bindJSONArray, "json_array")
	t.binder(bindJSONObject, "json_object")
}

// jsonText is the document in argument 0, and false when it is no JSON, which fails the row.
func jsonText(c *call, i int32, checked bool) ([]byte, bool) {
	doc := []byte(trimSpace(c.args[0].Str[i]))
	if !checked && !json.Valid(doc) {
		c.fail(i, invalidInput("Malformed JSON: %s", shortText(c.args[0].Str[i])))
		return nil, false
	}
	return doc, len(doc) > 0
}

func shortText(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// jsonAt defines a function of a document and an optional constant path; v is nil when nothing is
// there.
func (t table) jsonAt(name string, returns row.Type, f func(c *call, i int32, v []byte)) {
	t.binder(func(name string, args []*Expr) (*Expr, error) {
		if len(args) < 1 || len(args) > 2 || !isJSON(args[0]) {
			return nil, mismatch(name, args)
		}
		var path []jsonStep
		if len(args) == 2 {
			var err error
			if path, err = constPath(name, args[1]); err != nil {
				return nil, err
			}
		}
		checked := args[0].Type.Kind == row.JSON
		doc, err := jsonArg(args[0])
		if err != nil {
			return nil, err
		}
		return newCall(returns, callText(name, args), func(c *call) {
			for _, i := range c.rows {
				if v, ok := jsonText(c, i, checked); ok {
					f(c, i, walkJSON(v, path))
				}
			}
		}, doc), nil
	}, name)
}

func isJSON(e *Expr) bool {
	return e.Type.Kind == row.JSON || e.Type.Kind == row.Varchar || e.Type.Kind == row.Null
}

// jsonArg casts NULL; texts stay texts and are checked row by row.
func jsonArg(e *Expr) (*Expr, error) {
	if e.Type.Kind == row.Null {
		return implicit(e, tJSON)
	}
	return e, nil
}

// jsonStep is one step of a path: a member by name, or an element by number.
type jsonStep struct {
	name  string
	index int  // −1 where a name is no number
	elem  bool // by number; negative from the end
}

func constPath(name string, e *Expr) ([]jsonStep, error) {
	bad := func(why string) error {
		return &Mismatch{Name: name, Reason: "the JSON path " + e.Text + " " + why}
	}
	if !e.IsConst() || e.isNull() {
		return nil, bad("must be a constant, such as '$.device.os' or 'os'")
	}
	if e.Type.IsInteger() {
		n := integerAt(e.value, 0)
		return []jsonStep{{index: int(n.Int64()), elem: true}}, nil
	}
	if e.Type.Kind != row.Varchar {
		return nil, bad("must be a text or a number")
	}
	path := e.value.Str[0]
	switch {
	case path == "":
		return nil, bad("is empty")
	case path[0] == '/':
		return pointerPath(path), nil
	case path[0] != '$':
		return []jsonStep{{name: path, index: -1}}, nil
	}
	steps, why := dollarPath(path[1:])
	if why != "" {
		return nil, bad(why)
	}
	return steps, nil
}

// pointerPath reads /a/b/0; a number is a name in an object and a place in an array.
func pointerPath(path string) []jsonStep {
	var steps []jsonStep
	for _, part := range strings.Split(path[1:], "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		step := jsonStep{name: part, index: -1}
		if n, err := strconv.Atoi(part); err == nil && n >= 0 && strconv.Itoa(n) == part {
			step.index = n
		}
		steps = append(steps, step)
	}
	return steps
}

// dollarPath reads what follows the $: .name, ."a name", [3], [#-1].
func dollarPath(path string) (steps []jsonStep, why string) {
	for path != "" {
		switch path[0] {
		case '.':
			path = path[1:]
			if strings.HasPrefix(path, `"`) {
				end := strings.IndexByte(path[1:], '"')
				if end < 0 {
					return nil, "has a quoted name that does not end"
				}
				steps = append(steps, jsonStep{name: path[1 : 1+end], index: -1})
				path = path[end+2:]
				continue
			}
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			if end == 0 || path[:end] == "*" {
				return nil, "has a wildcard or an empty name: name one member"
			}
			steps = append(steps, jsonStep{name: path[:end], index: -1})
			path = path[end:]
		case '[':
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return nil, "has a [ without ]"
			}
			inner := path[1:end]
			path = path[end+1:]
			if strings.HasPrefix(inner, "#") {
				n, err := strconv.Atoi(strings.TrimPrefix(inner, "#"))
				if inner != "#" && (err != nil || n >= 0) {
					return nil, "has an index that is not a number"
				}
				steps = append(steps, jsonStep{index: n, elem: true})
				continue
			}
			n, err := strconv.Atoi(inner)
			if err != nil || n < 0 {
				return nil, "has an index that is not a number: wildcards are not taken"
			}
			steps = append(steps, jsonStep{index: n, elem: true})
		default:
			return nil, "does not go on with . or ["
		}
	}
	return steps, ""
}

var errFound = errors.New("found")

// walkJSON follows a path into a well-formed document; nil when there is nothing. Of two equal
// names the first counts.
func walkJSON(doc []byte, path []jsonStep) []byte {
	for _, step := range path {
		var next []byte
		switch {
		case len(doc) == 0:
			return nil
		case doc[0] == '{' && !step.elem:
			_ = row.EachMember(doc, func(name string, value []byte) error {
				if name == step.name {
					next = value
					return errFound
				}
				return nil
			})
		case doc[0] == '[' && (step.elem || step.index >= 0):
			at := step.index
			if at < 0 {
				n := 0
				_ = row.EachElement(doc, func([]byte) error { n++; return nil })
				if at += n; at < 0 {
					return nil
				}
			}
			_ = row.EachElement(doc, func(value []byte) error {
				if at == 0 {
					next = value
					return errFound
				}
				at--
				return nil
			})
		}
		if next == nil {
			return nil
		}
		doc = next
	}
	return doc
}

func bindJSONExtract(name string, args []*Expr, text bool) (*Expr, error) {
	if len(args) != 2 || !isJSON(args[0]) {
		return nil, mismatch(name, args)
	}
	path, err := constPath(name, args[1])
	if err != nil {
		return nil, err
	}
	checked := args[0].Type.Kind == row.JSON
	doc, err := jsonArg(args[0])
	if err != nil {
		return nil, err
	}
	returns := tJSON
	if text {
		returns = tVarchar
	}
	return newCall(returns, callText(name, args), func(c *call) {
		var buf []byte
		for _, i := range c.rows {
			v, ok := jsonText(c, i, checked)
			if !ok {
				continue
			}
			v = walkJSON(v, path)
			switch {
			case v == nil || text && v[0] == 'n':
				c.null(i)
			case text && v[0] == '"':
				s, err := row.UnquoteJSON(v)
				if err != nil {
					c.fail(i, invalidInput("a JSON string can't be read: %v", err))
					continue
				}
				c.out.Str[i] = s
			default:
				buf = compactJSON(buf[:0], v)
				c.out.Str[i] = string(buf)
			}
		}
	}, doc), nil
}

// jsonType names the type of a value as DuckDB does.
func jsonType(v []byte) string {
	switch v[0] {
	case '{':
		return "OBJECT"
	case '[':
		return "ARRAY"
	case '"':
		return "VARCHAR"
	case 't', 'f':
		return "BOOLEAN"
	case 'n':
		return "NULL"
	}
	switch {
	case strings.ContainsAny(string(v), ".eE"):
		return "DOUBLE"
	case v[0] == '-':
		return "BIGINT"
	}
	return "UBIGINT"
}

// compactJSON writes a well-formed value without white space, strings with the fewest escapes and
// numbers as doubles are written.
func compactJSON(dst, v []byte) []byte {
	for i := 0; i < len(v); {
		switch c := v[i]; {
		case isSpace(c):
			i++
		case c == '"':
			end := i + 1
			escaped := false
			for end < len(v) && v[end] != '"' {
				if v[end] == '\\' {
					escaped = true
					end++
				}
				end++
			}
			end = min(end+1, len(v))
			s, err := "", error(nil)
			if escaped {
				s, err = row.UnquoteJSON(v[i:end])
			}
			if escaped && err == nil {
				dst = row.AppendJSONString(dst, s)
			} else {
				dst = append(dst, v[i:end]...)
			}
			i = end
		case c == '-' || c-'0' <= 9:
			end := i + 1
			for end < len(v) && (v[end]-'0' <= 9 || strings.IndexByte(".eE+-", v[end]) >= 0) {
				end++
			}
			dst = appendJSONNumber(dst, string(v[i:end]))
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// appendJSONNumber keeps integers of 64 bits, and writes all else as a double.
func appendJSONNumber(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, ".eE") {
		if _, err := strconv.ParseInt(s, 10, 64); err == nil {
			return append(dst, s...)
		}
		if _, err := strconv.ParseUint(s, 10, 64); err == nil {
			return append(dst, s...)
		}
	}
	f, _ := strconv.ParseFloat(s, 64)
	return appendJSONDouble(dst, f)
}

// appendJSONDouble writes the shortest digits, as 150.0, 1e300, NaN or Infinity.
func appendJSONDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		s := strconv.FormatFloat(f, 'e', -1, 64)
		mantissa, exp, _ := strings.Cut(s, "e")
		n, _ := strconv.Atoi(exp)
		return strconv.AppendInt(append(append(dst, mantissa...), 'e'), int64(n), 10)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	dst = append(dst, s...)
	if !strings.Contains(s, ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendJSONValue writes a value of any type as JSON, as DuckDB's to_json does.
func appendJSONValue(dst []byte, v *row.Vector, i int) []byte {
	if v.IsNull(i) || v.Type.Kind == row.Null {
		return append(dst, "null"...)
	}
	switch v.Type.Kind {
	case row.JSON:
		return compactJSON(dst, []byte(v.Str[i]))
	case row.Float, row.Double:
		return appendJSONDouble(dst, v.F64[i])
	case row.Decimal:
		return appendJSONDouble(dst, decimalFloat(integerAt(v, i), int(v.Type.Scale)))
	case row.HugeInt:
		if x := v.I128[i]; !x.IsInt64() {
			return appendJSONDouble(dst, x.Float64())
		}
		return row.AppendText(dst, v, i)
	case row.List:
		elems, err := row.Elements(v, i)
		if err != nil {
			return append(dst, "null"...)
		}
		dst = append(dst, '[')
		for k := range elems.Len() {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONValue(dst, elems, k)
		}
		return append(dst, ']')
	case row.Struct:
		members, err := row.Members(v, i)
		if err != nil {
			return append(dst, "null"...)
		}
		dst = append(dst, '{')
		for k, m := range members {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(row.AppendJSONString(dst, v.Type.Fields[k].Name), ':')
			dst = appendJSONValue(dst, m, 0)
		}
		return append(dst, '}')
	}
	if v.Type.Kind == row.Boolean || v.Type.IsNumeric() {
		return row.AppendText(dst, v, i)
	}
	return row.AppendJSONString(dst, row.TextOf(v, i))
}

// castToJSON casts to JSON: a text must be JSON and stays as it is.
func castToJSON(from row.Type) kernel {
	if from.Kind == row.Varchar {
		return try1(str, str, func(s string) (string, *Failure) {
			if !json.Valid([]byte(s)) {
				return "", conversion("Malformed JSON: %s", shortText(s))
			}
			return s, nil
		})
	}
	return toJSON
}

func toJSON(c *call) {
	var buf []byte
	for _, i := range c.rows {
		buf = appendJSONValue(buf[:0], c.args[0], int(i))
		c.out.Str[i] = string(buf)
	}
}

func bindToJSON(name string, args []*Expr) (*Expr, error) {
	if len(args) != 1 {
		return nil, mismatch(name, args)
	}
	return newCall(tJSON, callText(name, args), toJSON, args[0]), nil
}

func bindJSONArray(name string, args []*Expr) (*Expr, error) {
	return newNullable(tJSON, callText(name, args), func(c *call) {
		for _, i := range c.rows {
			buf := []byte{'['}
			for k, v := range c.args {
				if k > 0 {
					buf = append(buf, ',')
				}
				buf = appendJSONValue(buf, v, int(i))
			}
			c.out.Str[i] = string(append(buf, ']'))
		}
	}, args...), nil
}

func bindJSONObject(name string, args []*Expr) (*Expr, error) {
	if len(args)%2 != 0 {
		return nil, mismatch(name, args)
	}
	for k := 0; k < len(args); k += 2 {
		if args[k].Type.Kind != row.Varchar {
			return nil, mismatch(name, args)
		}
	}
	return newNullable(tJSON, callText(name, args), func(c *call) {
		for _, i := range c.rows {
			buf := []byte{'{'}
			for k := 0; k < len(c.args); k += 2 {
				if k > 0 {
					buf = append(buf, ',')
				}
				buf = append(row.AppendJSONString(buf, c.args[k].Str[i]), ':')
				buf = appendJSONValue(buf, c.args[k+1], int(i))
			}
			c.out.Str[i] = string(append(buf, '}'))
		}
	}, args...), nil
}

// castJSON casts from JSON: null is NULL, a string is what its text casts to.
func castJSON(to row.Type) kernel {
	if !jsonCasts(to) {
		return nil
	}
	return func(c *call) {
		one := row.NewVector(to, 1)
		for _, i := range c.rows {
			one.Reset(to)
			if err := appendFromJSON(one, []byte(trimSpace(c.args[0].Str[i]))); err != nil {
				c.fail(i, err)
				continue
			}
			copyValue(c.out, int(i), one, 0)
		}
	}
}

func jsonCasts(t row.Type) bool {
	switch t.Kind {
	case row.List:
		return jsonCasts(*t.Elem)
	case row.Struct:
		for _, f := range t.Fields {
			if !jsonCasts(f.Type) {
				return false
			}
		}
		return true
	case row.JSON, row.Varchar:
		return true
	}
	return castText(t) != nil
}

// appendFromJSON adds the value that a well-formed JSON text stands for in the type of v.
func appendFromJSON(v *row.Vector, text []byte) *Failure {
	bad := func() *Failure {
		return conversion("Failed to cast value to %s: %s", v.Type, shortText(string(text)))
	}
	if len(text) == 0 {
		return bad()
	}
	if v.Type.Kind == row.JSON {
		v.AppendString(string(compactJSON(nil, text)))
		return nil
	}
	switch {
	case text[0] == 'n':
		v.AppendNull()
		return nil
	case v.Type.Kind == row.List:
		if text[0] != '[' {
			return bad()
		}
		elems := row.NewVector(*v.Type.Elem, 4)
		var failed *Failure
		if err := row.EachElement(text, func(e []byte) error {
			if failed = appendFromJSON(elems, e); failed != nil {
				return errFound
			}
			return nil
		}); err != nil && failed == nil {
			return bad()
		}
		if failed == nil {
			v.AppendString(string(row.EncodeList(nil, elems)))
		}
		return failed
	case v.Type.Kind == row.Struct:
		return appendStructFromJSON(v, text, bad)
	}
	s := string(text)
	if text[0] == '"' {
		var err error
		if s, err = row.UnquoteJSON(text); err != nil {
			return bad()
		}
	} else if v.Type.Kind == row.Varchar {
		s = string(compactJSON(nil, text))
	} else if text[0] == '{' || text[0] == '[' {
		return bad()
	} else if v.Type.IsNumeric() && (text[0] == 't' || text[0] == 'f') {
		s = strconv.Itoa(int(b2i(text[0] == 't')))
	}
	if v.Type.Kind == row.Varchar {
		v.AppendString(s)
		return nil
	}
	out, err := castVector(&row.Vector{Type: tVarchar, Str: []string{s}}, v.Type, castText(v.Type))
	if err != nil {
		return bad()
	}
	v.AppendFrom(out, 0)
	return nil
}

func appendStructFromJSON(v *row.Vector, text []byte, bad func() *Failure) *Failure {
	if text[0] != '{' {
		return bad()
	}
	members := make([]*row.Vector, len(v.Type.Fields))
	for k, f := range v.Type.Fields {
		members[k] = row.NewVector(f.Type, 1)
	}
	var failed *Failure
	if err := row.EachMember(text, func(name string, value []byte) error {
		if k := row.FieldIndex(v.Type.Fields, name); k >= 0 && members[k].Len() == 0 {
			if failed = appendFromJSON(members[k], value); failed != nil {
				return errFound
			}
		}
		return nil
	}); err != nil && failed == nil {
		return bad()
	}
	if failed != nil {
		return failed
	}
	for _, m := range members {
		if m.Len() == 0 {
			m.AppendNull()
		}
	}
	v.AppendString(string(row.EncodeStruct(nil, members, 0)))
	return nil
}
