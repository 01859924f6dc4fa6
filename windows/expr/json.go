package expr

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
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
	t.binder(bindFromJSON, "from_json", "json_transform")
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
	every bool // all elements, or all members
}

// constPath reads a path to one place.
func constPath(name string, e *Expr) ([]jsonStep, error) {
	steps, err := constPattern(name, e)
	if err == nil && manyPlaces(steps) {
		return nil, &Mismatch{Name: name, Reason: "the JSON path " + e.Text + " has a wildcard: only json_extract, json_extract_string, -> and ->> take one"}
	}
	return steps, err
}

// manyPlaces reports whether a path has a wildcard.
func manyPlaces(steps []jsonStep) bool {
	return slices.ContainsFunc(steps, func(s jsonStep) bool { return s.every })
}

// constPattern reads a path, which may have wildcards.
func constPattern(name string, e *Expr) ([]jsonStep, error) {
	bad := func(why string) error {
		return &Mismatch{Name: name, Reason: "the JSON path " + e.Text + " " + why}
	}
	if !e.IsConst() || e.isNull() {
		return nil, bad("must be a constant, such as '$.device.os' or 'os'")
	}
	if e.Type.IsInteger() {
		n := integerAt(e.value, 0)
		if !n.IsInt64() {
			return nil, bad("has an index that no array has")
		}
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
			if end == 0 {
				return nil, "has an empty name"
			}
			steps = append(steps, jsonStep{name: path[:end], index: -1, every: path[:end] == "*"})
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
			if inner == "*" {
				steps = append(steps, jsonStep{elem: true, every: true})
				continue
			}
			n, err := strconv.Atoi(inner)
			if err != nil || n < 0 {
				return nil, "has an index that is not a number"
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

// eachPlace calls f with what lies at a path with wildcards, in the order of the document.
func eachPlace(doc []byte, path []jsonStep, f func(v []byte)) {
	at := slices.IndexFunc(path, func(s jsonStep) bool { return s.every })
	if at < 0 {
		if v := walkJSON(doc, path); v != nil {
			f(v)
		}
		return
	}
	doc = walkJSON(doc, path[:at])
	switch rest := path[at+1:]; {
	case len(doc) == 0:
	case doc[0] == '[' && path[at].elem:
		_ = row.EachElement(doc, func(v []byte) error { eachPlace(v, rest, f); return nil })
	case doc[0] == '{' && !path[at].elem:
		_ = row.EachMember(doc, func(_ string, v []byte) error { eachPlace(v, rest, f); return nil })
	}
}

// bindJSONExtract binds what takes values out of a document: one by a path; a list of all that a path
// with wildcards finds; or a list with one for each of several paths.
func bindJSONExtract(name string, args []*Expr, text bool) (*Expr, error) {
	if len(args) != 2 || !isJSON(args[0]) {
		return nil, mismatch(name, args)
	}
	if args[1].IsConst() && args[1].Type.Kind == row.List && args[1].Type.Elem.Kind == row.Varchar && !args[1].isNull() {
		return bindJSONPaths(name, args, text)
	}
	path, err := constPattern(name, args[1])
	if err != nil {
		return nil, err
	}
	if manyPlaces(path) {
		return jsonLists(name, args, text, func(doc []byte, add func(v []byte)) { eachPlace(doc, path, add) })
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
			value, ok, err := extracted(buf, walkJSON(v, path), text)
			switch {
			case err != nil:
				c.fail(i, err)
			case !ok:
				c.null(i)
			default:
				c.out.Str[i] = value
			}
		}
	}, doc), nil
}

// extracted is a value that has been found, as JSON or as text, and false where that is NULL. buf is
// memory to be used.
func extracted(buf, v []byte, text bool) (value string, ok bool, failed *Failure) {
	switch {
	case v == nil || text && v[0] == 'n':
		return "", false, nil
	case text && v[0] == '"':
		s, err := row.UnquoteJSON(v)
		if err != nil {
			return "", false, invalidInput("a JSON string can't be read: %v", err)
		}
		return s, true, nil
	}
	return string(compactJSON(buf[:0], v)), true, nil
}

// bindJSONPaths is bindJSONExtract for a list of paths.
func bindJSONPaths(name string, args []*Expr, text bool) (*Expr, error) {
	list, err := row.Elements(args[1].value, 0)
	if err != nil {
		return nil, err
	}
	var paths [][]jsonStep
	for k := range list.Len() {
		one := row.NewVector(tVarchar, 1)
		one.AppendFrom(list, k)
		path, err := constPath(name, Const(one))
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return jsonLists(name, args, text, func(doc []byte, add func(v []byte)) {
		for _, path := range paths {
			add(walkJSON(doc, path))
		}
	})
}

// jsonLists is the expression that gives what find finds in each document as a list.
func jsonLists(name string, args []*Expr, text bool, find func(doc []byte, add func(v []byte))) (*Expr, error) {
	checked := args[0].Type.Kind == row.JSON
	doc, err := jsonArg(args[0])
	if err != nil {
		return nil, err
	}
	elem := tJSON
	if text {
		elem = tVarchar
	}
	return newCall(row.ListOf(elem), callText(name, args), func(c *call) {
		found := row.NewVector(elem, 4)
		for _, i := range c.rows {
			v, ok := jsonText(c, i, checked)
			if !ok {
				continue
			}
			found.Reset(elem)
			var failed *Failure
			find(v, func(v []byte) {
				value, ok, err := extracted(nil, v, text)
				switch {
				case err != nil:
					failed = err
				case ok:
					found.AppendString(value)
				default:
					found.AppendNull()
				}
			})
			if failed != nil {
				c.fail(i, failed)
				continue
			}
			c.out.Str[i] = string(row.EncodeList(nil, found))
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
