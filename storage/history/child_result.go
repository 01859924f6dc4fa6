//go:build cgo

package history

import (
	"database/sql/driver"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/marcboeker/go-duckdb"

	"tidemark/storage/row"
)

// duckType is a type as DuckDB names it, taken apart.
type duckType struct {
	// name is the bare name of a type without members, such as BIGINT or DECIMAL(4,2); LIST,
	// STRUCT or MAP of one with.
	name    string
	members []duckMember // of STRUCT; the element of LIST; key and value of MAP
	array   string       // "[3]" of an ARRAY, whose name is LIST
}

type duckMember struct {
	name string
	typ  duckType
}

// parseDuckType reads a type's name.
func parseDuckType(text string) (duckType, error) {
	p := &duckTypeParser{rest: text}
	t, ok := p.parse(0)
	if !ok || strings.TrimSpace(p.rest) != "" {
		return duckType{}, fmt.Errorf("type %q is not understood", text)
	}
	return t, nil
}

type duckTypeParser struct{ rest string }

func (p *duckTypeParser) take(s string) bool {
	rest := strings.TrimLeft(p.rest, " ")
	if !strings.HasPrefix(rest, s) {
		return false
	}
	p.rest = rest[len(s):]
	return true
}

func (p *duckTypeParser) parse(depth int) (t duckType, ok bool) {
	if depth > 64 {
		return t, false
	}
	switch {
	case p.take("STRUCT("):
		t.name = "STRUCT"
		for {
			name, ok := p.memberName()
			if !ok {
				return t, false
			}
			m, ok := p.parse(depth + 1)
			if !ok {
				return t, false
			}
			t.members = append(t.members, duckMember{name, m})
			if p.take(")") {
				break
			}
			if !p.take(",") {
				return t, false
			}
		}
	case p.take("MAP("):
		t.name = "MAP"
		key, ok := p.parse(depth + 1)
		if !ok || !p.take(",") {
			return t, false
		}
		value, ok := p.parse(depth + 1)
		if !ok || !p.take(")") {
			return t, false
		}
		t.members = []duckMember{{"key", key}, {"value", value}}
	default:
		t.name = p.bare()
		if t.name == "" {
			return t, false
		}
	}
	for strings.HasPrefix(p.rest, "[") {
		end := strings.IndexByte(p.rest, ']')
		if end < 0 {
			return t, false
		}
		size := p.rest[:end+1]
		p.rest = p.rest[end+1:]
		t = duckType{name: "LIST", members: []duckMember{{"", t}}}
		if size != "[]" {
			t.array = size
		}
	}
	return t, true
}

func (p *duckTypeParser) memberName() (string, bool) {
	p.rest = strings.TrimLeft(p.rest, " ")
	if strings.HasPrefix(p.rest, `"`) {
		var b strings.Builder
		for i := 1; i < len(p.rest); i++ {
			if p.rest[i] != '"' {
				b.WriteByte(p.rest[i])
			} else if i+1 < len(p.rest) && p.rest[i+1] == '"' {
				b.WriteByte('"')
				i++
			} else {
				p.rest = p.rest[i+1:]
				return b.String(), true
			}
		}
		return "", false
	}
	name, rest, ok := strings.Cut(p.rest, " ")
	p.rest = rest
	return name, ok && name != ""
}

// bare reads a name up to a comma, bracket or closing parenthesis, with what it has in
// parentheses of its own, as in DECIMAL(4,2) and ENUM('a, b', ')').
func (p *duckTypeParser) bare() string {
	p.rest = strings.TrimLeft(p.rest, " ")
	depth, quoted := 0, byte(0)
	for i := 0; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case c == '\'' || c == '"':
			quoted = c
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth == 0 && (c == ',' || c == ')' || c == '['):
			name := p.rest[:i]
			p.rest = p.rest[i:]
			return name
		}
	}
	name := p.rest
	p.rest = ""
	return name
}

// asText are the leaf types that the driver can't read, or reads inexactly: DuckDB casts them.
func (t duckType) asText() bool {
	switch t.name {
	case "JSON", "BIT", "UHUGEINT", "VARINT", "TIME WITH TIME ZONE", "TIME_NS":
		return true
	}
	return strings.HasPrefix(t.name, "UNION(") || strings.HasPrefix(t.name, "ENUM(")
}

// readable writes the type with every leaf that DuckDB has to cast as VARCHAR; changed says
// whether there is one.
func (t duckType) readable() (text string, changed bool) {
	switch t.name {
	case "LIST":
		text, changed = t.members[0].typ.readable()
		if t.array != "" {
			return text + t.array, changed
		}
		return text + "[]", changed
	case "MAP":
		k, kc := t.members[0].typ.readable()
		v, vc := t.members[1].typ.readable()
		return "MAP(" + k + ", " + v + ")", kc || vc
	case "STRUCT":
		var b strings.Builder
		b.WriteString("STRUCT(")
		for i, m := range t.members {
			if i > 0 {
				b.WriteString(", ")
			}
			mt, mc := m.typ.readable()
			changed = changed || mc
			b.WriteString(quote(m.name) + " " + mt)
		}
		return b.String() + ")", changed
	}
	if t.asText() {
		return "VARCHAR", true
	}
	return t.name, false
}

// resultColumn is a column of an answer: its name, the type that the user sees, the type that it
// has on the wire, and how it gets there.
type resultColumn struct {
	name, shown string
	duck        duckType
	typ         row.Type
}

func newResultColumn(name, typ string) (resultColumn, error) {
	c := resultColumn{name: name, shown: typ}
	var err error
	if c.duck, err = parseDuckType(typ); err != nil {
		return c, err
	}
	switch base, _, _ := strings.Cut(c.duck.name, "("); base {
	case "LIST", "STRUCT":
		c.typ = row.Scalar(row.JSON)
		if t, ok := c.duck.nested(); ok {
			c.typ = t
		}
	case "MAP", "JSON", "UHUGEINT", "VARINT":
		// What has no type on the wire becomes JSON here, where its types are known; the two
		// wide integers have no room in 128 bits and are digits.
		c.typ = row.Scalar(row.JSON)
	case "DECIMAL", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "BLOB", "DATE", "INTERVAL":
		if c.typ, err = row.ParseType(c.duck.name); err != nil {
			return c, err
		}
	case "UTINYINT", "USMALLINT", "UINTEGER":
		c.typ = row.Scalar(row.BigInt)
	case "UBIGINT":
		c.typ = row.Scalar(row.HugeInt)
	case "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS":
		c.typ = row.Scalar(row.Timestamp)
	case `"NULL"`, "NULL":
		c.typ, c.shown = row.Scalar(row.Integer), "INTEGER"
	default:
		c.typ = row.Scalar(row.Varchar)
	}
	return c, nil
}

// nested is the type on the wire of a LIST or STRUCT. One that holds a MAP or an array has none,
// nor one that holds an INTERVAL, whose months the encoding of nested values does not keep.
func (t duckType) nested() (row.Type, bool) {
	switch t.name {
	case "LIST":
		if t.array != "" {
			return row.Type{}, false
		}
		elem, ok := t.members[0].typ.nested()
		return row.ListOf(elem), ok
	case "STRUCT":
		var fields []row.Field
		for _, m := range t.members {
			f, ok := m.typ.nested()
			if !ok {
				return row.Type{}, false
			}
			fields = append(fields, row.Field{Name: m.name, Type: f})
		}
		return row.StructOf(fields...), true
	case "MAP", "INTERVAL":
		return row.Type{}, false
	}
	c, err := newResultColumn("", t.name)
	return c.typ, err == nil
}

// selectList reads the columns out of the query, with the casts that they need.
func selectList(columns []resultColumn) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		if to, cast := c.duck.readable(); cast {
			fmt.Fprintf(&b, "CAST(%s AS %s) AS %s", quote(c.name), to, quote(c.name))
		} else {
			b.WriteString(quote(c.name))
		}
	}
	return b.String()
}

// append adds a value that the driver gave and says how many bytes it takes.
func (c *resultColumn) append(v *row.Vector, value driver.Value) (size int, err error) {
	if value == nil {
		v.AppendNull()
		return 8, nil
	}
	switch c.typ.Class() {
	case row.Int64Class:
		x, ok := toInt64(c.typ.Kind, value)
		if !ok {
			break
		}
		v.AppendInt64(x)
		return 8, nil
	case row.Float64Class:
		switch x := value.(type) {
		case float64:
			v.AppendFloat64(x)
			return 8, nil
		case float32:
			v.AppendFloat64(float64(x))
			return 8, nil
		}
	case row.Int128Class:
		switch x := value.(type) {
		case *big.Int:
			v.AppendInt128(int128Of(x))
			return 16, nil
		case uint64:
			v.AppendInt128(row.Int128{Lo: x})
			return 16, nil
		case duckdb.Decimal:
			v.AppendInt128(int128Of(x.Value))
			return 16, nil
		case duckdb.Interval:
			v.AppendInt128(row.MakeInterval(x.Months, x.Days, x.Micros))
			return 16, nil
		}
	case row.StringClass:
		var s string
		if c.typ.Kind == row.List || c.typ.Kind == row.Struct {
			if s, err = c.encode(value); err != nil {
				return 0, err
			}
		} else if c.typ.Kind == row.JSON {
			b, err := appendDuckJSON(nil, c.duck, value)
			if err != nil {
				return 0, err
			}
			s = string(b)
		} else if s, err = toText(c.duck, value); err != nil {
			return 0, err
		}
		v.AppendString(s)
		return len(s) + 16, nil
	}
	return 0, fmt.Errorf("column %s: a value of type %s (%T) can't be sent", c.name, c.shown, value)
}

// encode is a LIST or STRUCT value as vectors hold it.
func (c *resultColumn) encode(value driver.Value) (string, error) {
	switch x := value.(type) {
	case []any:
		if c.typ.Kind != row.List {
			break
		}
		elem := resultColumn{name: c.name, shown: c.shown, duck: c.duck.members[0].typ, typ: *c.typ.Elem}
		elems := row.NewVector(elem.typ, len(x))
		for _, e := range x {
			if _, err := elem.append(elems, e); err != nil {
				return "", err
			}
		}
		return string(row.EncodeList(nil, elems)), nil
	case map[string]any:
		if c.typ.Kind != row.Struct {
			break
		}
		members := make([]*row.Vector, len(c.typ.Fields))
		for i, f := range c.typ.Fields {
			m := resultColumn{name: c.name, shown: c.shown, duck: c.duck.members[i].typ, typ: f.Type}
			members[i] = row.NewVector(f.Type, 1)
			if _, err := m.append(members[i], x[f.Name]); err != nil {
				return "", err
			}
		}
		return string(row.EncodeStruct(nil, members, 0)), nil
	}
	return "", fmt.Errorf("column %s: a value of type %s (%T) can't be sent", c.name, c.shown, value)
}

func toInt64(kind row.Kind, value driver.Value) (int64, bool) {
	switch x := value.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case int8:
		return int64(x), true
	case int16:
		return int64(x), true
	case int32:
		return int64(x), true
	case int64:
		return x, true
	case uint8:
		return int64(x), true
	case uint16:
		return int64(x), true
	case uint32:
		return int64(x), true
	case duckdb.Decimal:
		return x.Value.Int64(), true
	case time.Time:
		if kind == row.Date {
			return x.Unix() / 86400, true // midnight, so the division is exact
		}
		return x.UnixMicro(), true
	}
	return 0, false
}

func int128Of(b *big.Int) row.Int128 {
	var lo, hi big.Int
	lo.And(b, new(big.Int).SetUint64(1<<64-1))
	hi.Rsh(b, 64)
	return row.Int128{Hi: hi.Int64(), Lo: lo.Uint64()}
}

// toText is a value of a type that is text on the wire.
func toText(t duckType, value driver.Value) (string, error) {
	switch x := value.(type) {
	case string:
		return x, nil
	case []byte:
		if t.name == "UUID" && len(x) == 16 {
			return uuid.UUID(x).String(), nil
		}
		return string(x), nil
	case time.Time:
		return strings.TrimSuffix(x.Format("15:04:05.999999"), ".000000"), nil
	}
	return "", fmt.Errorf("a value of type %s (%T) can't be sent", t.name, value)
}

// appendDuckJSON writes a value of any type as JSON.
func appendDuckJSON(dst []byte, t duckType, value any) ([]byte, error) {
	if value == nil {
		return append(dst, "null"...), nil
	}
	var err error
	switch x := value.(type) {
	case []any:
		if t.name != "LIST" {
			break
		}
		dst = append(dst, '[')
		for i, e := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendDuckJSON(dst, t.members[0].typ, e); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		if t.name != "STRUCT" {
			break
		}
		dst = append(dst, '{')
		for i, m := range t.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = row.AppendJSONString(dst, m.name)
			dst = append(dst, ':')
			if dst, err = appendDuckJSON(dst, m.typ, x[m.name]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case duckdb.Map:
		return appendMapJSON(dst, t, x)
	case string:
		switch t.name {
		case "JSON", "UHUGEINT", "VARINT":
			return append(dst, x...), nil
		}
		return row.AppendJSONString(dst, x), nil
	}
	// A leaf: one value in a vector of its type on the wire.
	c, err := newResultColumn("", t.name)
	if err != nil {
		return nil, err
	}
	v := row.NewVector(c.typ, 1)
	if _, err := c.append(v, value); err != nil {
		return nil, err
	}
	return row.AppendJSON(dst, v, 0), nil
}

// appendMapJSON writes a MAP as an object, its keys as text and sorted.
func appendMapJSON(dst []byte, t duckType, m duckdb.Map) ([]byte, error) {
	if t.name != "MAP" {
		return nil, fmt.Errorf("a value of type %s is a MAP", t.name)
	}
	type entry struct {
		key   string
		value []byte
	}
	entries := make([]entry, 0, len(m))
	for k, v := range m {
		text, ok := k.(string)
		if !ok {
			key, err := appendDuckJSON(nil, t.members[0].typ, k)
			if err != nil {
				return nil, err
			}
			text = strings.Trim(string(key), `"`)
		}
		value, err := appendDuckJSON(nil, t.members[1].typ, v)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{text, value})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, e := range entries {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = row.AppendJSONString(dst, e.key)
		dst = append(dst, ':')
		dst = append(dst, e.value...)
	}
	return append(dst, '}'), nil
}
