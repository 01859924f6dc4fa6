package row

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is the SQL kind of a type, without its parameters. The numbers are part of the column
// codec and never change.
type Kind uint8

// The kinds of values. Null is the type of the literal NULL alone.
const (
	Null Kind = iota
	Boolean
	TinyInt
	SmallInt
	Integer
	BigInt
	HugeInt
	Float
	Double
	Decimal
	Varchar
	Blob
	Date
	Timestamp
	Interval
	JSON
	List
	Struct
)

var kindNames = [...]string{
	"NULL", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
	"VARCHAR", "BLOB", "DATE", "TIMESTAMP", "INTERVAL", "JSON", "LIST", "STRUCT",
}

func (k Kind) String() string { return kindNames[k] }

// Class is the physical form in which a vector holds its values.
type Class uint8

// The four physical classes; see the package comment.
const (
	Int64Class Class = iota
	Float64Class
	Int128Class
	StringClass
)

// Type is a SQL type. The zero value is the type of NULL. Types are compared with Equal.
type Type struct {
	Kind Kind
	// Width and Scale are the digits of a DECIMAL, in all and behind the point.
	Width, Scale uint8
	// Elem is the type of a LIST's elements.
	Elem *Type
	// Fields are the members of a STRUCT, in order.
	Fields []Field
}

// Field is a named, typed column of a schema or member of a STRUCT.
type Field struct {
	Name string
	Type Type
}

// Scalar returns the type of a kind that has no parameters.
func Scalar(k Kind) Type { return Type{Kind: k} }

// DecimalType returns DECIMAL(width, scale).
func DecimalType(width, scale uint8) Type { return Type{Kind: Decimal, Width: width, Scale: scale} }

// ListOf returns the type elem[].
func ListOf(elem Type) Type { return Type{Kind: List, Elem: &elem} }

// StructOf returns STRUCT(fields…).
func StructOf(fields ...Field) Type { return Type{Kind: Struct, Fields: fields} }

// Class returns the physical class of the type's values. NULL's is Int64Class.
func (t Type) Class() Class {
	switch t.Kind {
	case Float, Double:
		return Float64Class
	case HugeInt, Interval:
		return Int128Class
	case Decimal:
		if t.Width > 18 {
			return Int128Class
		}
		return Int64Class
	case Varchar, Blob, JSON, List, Struct:
		return StringClass
	}
	return Int64Class
}

// IsInteger reports whether t is one of TINYINT … HUGEINT.
func (t Type) IsInteger() bool { return t.Kind >= TinyInt && t.Kind <= HugeInt }

// IsNumeric reports whether t is an integer, a DECIMAL, FLOAT or DOUBLE.
func (t Type) IsNumeric() bool { return t.Kind >= TinyInt && t.Kind <= Decimal }

// Equal reports whether two types are the same, parameters and members included. Names of
// STRUCT members are compared without regard to case.
func (t Type) Equal(o Type) bool {
	if t.Kind != o.Kind || t.Width != o.Width || t.Scale != o.Scale || len(t.Fields) != len(o.Fields) {
		return false
	}
	if t.Elem != nil && o.Elem != nil && !t.Elem.Equal(*o.Elem) || (t.Elem == nil) != (o.Elem == nil) {
		return false
	}
	for i, f := range t.Fields {
		if !strings.EqualFold(f.Name, o.Fields[i].Name) || !f.Type.Equal(o.Fields[i].Type) {
			return false
		}
	}
	return true
}

// String returns the type as DuckDB writes it, such as DECIMAL(18,3), BIGINT[] or
// STRUCT(os VARCHAR, "v w" BIGINT). ParseType reads it back.
func (t Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Width, t.Scale)
	case List:
		return t.Elem.String() + "[]"
	case Struct:
		var b strings.Builder
		b.WriteString("STRUCT(")
		for i, f := range t.Fields {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(QuoteName(f.Name))
			b.WriteByte(' ')
			b.WriteString(f.Type.String())
		}
		b.WriteByte(')')
		return b.String()
	}
	return t.Kind.String()
}

// QuoteName returns a column name as SQL writes it: bare when it is a plain lower-case
// identifier, else in double quotes.
func QuoteName(name string) string {
	plain := name != "" && (name[0] == '_' || name[0] >= 'a' && name[0] <= 'z')
	for i := 0; plain && i < len(name); i++ {
		c := name[i]
		plain = c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
	}
	if plain {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// typeNames are the spellings that ParseType takes, DuckDB's aliases included.
var typeNames = map[string]Kind{
	"BOOLEAN": Boolean, "BOOL": Boolean, "LOGICAL": Boolean,
	"TINYINT": TinyInt, "INT1": TinyInt,
	"SMALLINT": SmallInt, "INT2": SmallInt, "SHORT": SmallInt,
	"INTEGER": Integer, "INT": Integer, "INT4": Integer, "SIGNED": Integer,
	"BIGINT": BigInt, "INT8": BigInt, "LONG": BigInt,
	"HUGEINT": HugeInt, "INT128": HugeInt,
	"FLOAT": Float, "REAL": Float, "FLOAT4": Float,
	"DOUBLE": Double, "FLOAT8": Double, "DOUBLE PRECISION": Double,
	"DECIMAL": Decimal, "NUMERIC": Decimal, "DEC": Decimal,
	"VARCHAR": Varchar, "TEXT": Varchar, "STRING": Varchar, "CHAR": Varchar, "BPCHAR": Varchar,
	"BLOB": Blob, "BYTEA": Blob, "BINARY": Blob, "VARBINARY": Blob,
	"DATE": Date, "TIMESTAMP": Timestamp, "DATETIME": Timestamp,
	"INTERVAL": Interval, "JSON": JSON,
}

// ParseType reads a type as SPEC and DuckDB write it, in any case. The error names what was not
// understood and lists the types that there are.
func ParseType(text string) (Type, error) {
	p := typeParser{rest: text}
	t, err := p.parse(0)
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = fmt.Errorf("unexpected %q", strings.TrimSpace(p.rest))
	}
	if err != nil {
		return Type{}, fmt.Errorf("type %q: %w", text, err)
	}
	return t, nil
}

// maxTypeDepth bounds nesting of types, as events are bounded.
const maxTypeDepth = 64

type typeParser struct{ rest string }

func (p *typeParser) skip() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *typeParser) take(s string) bool {
	p.skip()
	if !strings.HasPrefix(p.rest, s) {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

func (p *typeParser) word() string {
	p.skip()
	n := 0
	for n < len(p.rest) {
		c := p.rest[n]
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			break
		}
		n++
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

func (p *typeParser) name() (string, error) {
	p.skip()
	if !strings.HasPrefix(p.rest, `"`) {
		if w := p.word(); w != "" {
			return w, nil
		}
		return "", fmt.Errorf("a member name is missing before %q", p.rest)
	}
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		if p.rest[i] != '"' {
			b.WriteByte(p.rest[i])
			continue
		}
		if i+1 < len(p.rest) && p.rest[i+1] == '"' {
			b.WriteByte('"')
			i++
			continue
		}
		p.rest = p.rest[i+1:]
		return b.String(), nil
	}
	return "", fmt.Errorf("a quoted name does not end")
}

func (p *typeParser) parse(depth int) (Type, error) {
	if depth > maxTypeDepth {
		return Type{}, fmt.Errorf("more than %d levels of nesting", maxTypeDepth)
	}
	w := strings.ToUpper(p.word())
	var t Type
	switch {
	case w == "STRUCT" || w == "ROW":
		t.Kind = Struct
		if !p.take("(") {
			return t, fmt.Errorf("STRUCT needs its members, as in STRUCT(os VARCHAR)")
		}
		for {
			name, err := p.name()
			if err != nil {
				return t, err
			}
			m, err := p.parse(depth + 1)
			if err != nil {
				return t, err
			}
			t.Fields = append(t.Fields, Field{name, m})
			if p.take(")") {
				break
			}
			if !p.take(",") {
				return t, fmt.Errorf("a comma or ) is missing before %q", p.rest)
			}
		}
	default:
		if w == "DOUBLE" {
			save := p.rest
			if strings.ToUpper(p.word()) != "PRECISION" {
				p.rest = save
			}
		}
		k, ok := typeNames[w]
		if !ok {
			return t, fmt.Errorf("%q is not a type; the types are BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT, FLOAT, DOUBLE, DECIMAL(p,s), VARCHAR, DATE, TIMESTAMP, JSON, T[] and STRUCT(…)", w)
		}
		t.Kind = k
		if k == Decimal {
			t.Width, t.Scale = 18, 3
			if p.take("(") {
				width, _ := strconv.Atoi(p.word())
				scale := 0
				if p.take(",") {
					scale, _ = strconv.Atoi(p.word())
				}
				if !p.take(")") || width < 1 || width > 38 || scale < 0 || scale > width {
					return t, fmt.Errorf("DECIMAL takes (width, scale) with 1 ≤ width ≤ 38 and scale ≤ width")
				}
				t.Width, t.Scale = uint8(width), uint8(scale)
			}
		} else if k == Varchar && p.take("(") { // VARCHAR(n): DuckDB ignores n
			p.word()
			if !p.take(")") {
				return t, fmt.Errorf("a ) is missing")
			}
		}
	}
	for p.take("[") {
		if !p.take("]") {
			return t, fmt.Errorf("a list type is written T[]")
		}
		t = ListOf(t)
	}
	return t, nil
}
