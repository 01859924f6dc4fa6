//go:build cgo

package history

import (
	"database/sql/driver"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/marcboeker/go-duckdb"

	"tidemark/storage/row"
)

// The driver's appender takes the years from -290307 to 294246; DuckDB itself knows some more, and
// the infinities.
var (
	firstAppended = time.Date(-290307, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	lastAppended  = time.Date(294247, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() - 1
)

// firstInstant is DuckDB's first one, 290309-12-22 (BC).
const firstInstant = -9223372022400000000

// isInstant reports whether DuckDB has a TIMESTAMP of these microseconds.
func isInstant(us int64) bool { return us >= firstInstant || us == -math.MaxInt64 }

// hasFarInstants reports whether a column of instants has some that the appender does not take.
func hasFarInstants(v *row.Vector) bool {
	if v.Type.Kind != row.Timestamp {
		return false
	}
	for i, us := range v.I64 {
		if (us < firstAppended || us > lastAppended) && !v.IsNull(i) {
			return true
		}
	}
	return false
}

// appenderValue is value i of v in the form in which DuckDB's appender takes it for a column of
// type to. The appender converts between numbers; a type that is no number is the column's own or,
// for LIST and STRUCT, one that unite made room for.
func appenderValue(v *row.Vector, i int, to row.Type) (driver.Value, error) {
	if v.IsNull(i) {
		return nil, nil
	}
	if to.Kind == row.Varchar && isNested(v.Type) { // on its way by staging
		text, err := appendStagedJSON(nil, v, i)
		return string(text), err
	}
	switch v.Type.Kind {
	case row.Null:
		return nil, nil
	case row.Boolean:
		return v.I64[i] != 0, nil
	case row.TinyInt, row.SmallInt, row.Integer, row.BigInt:
		return v.I64[i], nil
	case row.HugeInt:
		if to.Kind == row.Double || to.Kind == row.Float {
			return v.I128[i].Float64(), nil
		}
		return v.I128[i].Big(), nil
	case row.Float, row.Double:
		return v.F64[i], nil
	case row.Decimal:
		d := duckdb.Decimal{Width: v.Type.Width, Scale: v.Type.Scale}
		if v.Type.Class() == row.Int64Class {
			d.Value = big.NewInt(v.I64[i])
		} else {
			d.Value = v.I128[i].Big()
		}
		return d, nil
	case row.Varchar, row.JSON:
		return v.Str[i], nil
	case row.Blob:
		return []byte(v.Str[i]), nil
	case row.Date:
		return time.Unix(v.I64[i]*86400, 0).UTC(), nil
	case row.Timestamp:
		us := v.I64[i]
		switch {
		case to.Kind == row.BigInt && isInstant(us): // on its way by staging
			return us, nil
		case to.Kind == row.BigInt || us < firstAppended || us > lastAppended:
			// In a list or a struct, or no instant at all: a batch that failed would fail for ever.
			return nil, nil
		}
		return time.UnixMicro(us).UTC(), nil
	case row.Interval:
		months, days, micros := row.IntervalParts(v.I128[i])
		return duckdb.Interval{Months: months, Days: days, Micros: micros}, nil
	case row.List:
		if to.Kind != row.List {
			break
		}
		elems, err := row.Elements(v, i)
		if err != nil {
			return nil, err
		}
		list := make([]any, elems.Len())
		for k := range list {
			if list[k], err = appenderValue(elems, k, *to.Elem); err != nil {
				return nil, err
			}
		}
		return list, nil
	case row.Struct:
		members, err := row.Members(v, i)
		if err != nil {
			return nil, err
		}
		m := make(map[string]any, len(to.Fields))
		for _, f := range to.Fields {
			m[f.Name] = nil
			if k := row.FieldIndex(v.Type.Fields, f.Name); k >= 0 {
				if m[f.Name], err = appenderValue(members[k], 0, f.Type); err != nil {
					return nil, err
				}
			}
		}
		return m, nil
	}
	return nil, fmt.Errorf("no value of type %s can be kept", v.Type)
}

func isNested(t row.Type) bool { return t.Kind == row.List || t.Kind == row.Struct }

// vectorSize is how many elements of lists DuckDB has room for in a chunk before it moves them.
const vectorSize = 2048

// spoiled reports whether a column has NULLs beneath lists of so many elements that DuckDB moves
// them while they are appended: the driver's appender would go on to write NULLs where they were
// before, in memory that may be another's by then.
func spoiled(v *row.Vector) bool {
	if !isNested(v.Type) {
		return false
	}
	size := 0
	for _, s := range v.Str {
		size += len(s)
	}
	if size <= vectorSize { // an element has a byte or more
		return false
	}
	b := beneath{}
	for i := range v.Len() {
		b.value(v, i, false)
	}
	return b.null && b.elements > vectorSize
}

// beneath is what lists hold.
type beneath struct {
	elements int
	null     bool
}

// value looks through value i of a vector; inside says whether it lies in a list.
func (b *beneath) value(v *row.Vector, i int, inside bool) {
	if v.IsNull(i) {
		b.null = b.null || inside
		return
	}
	switch v.Type.Kind {
	case row.List:
		elems, err := row.Elements(v, i)
		if err != nil {
			return // appending it says so
		}
		b.elements += elems.Len()
		for k := range elems.Len() {
			b.value(elems, k, true)
		}
	case row.Struct:
		members, err := row.Members(v, i)
		if err != nil {
			return
		}
		for _, m := range members {
			b.value(m, 0, inside)
		}
	}
}

// appendStagedJSON adds value i of v as JSON whose leaves are texts, so that DuckDB casts each
// exactly.
func appendStagedJSON(dst []byte, v *row.Vector, i int) ([]byte, error) {
	if v.IsNull(i) {
		return append(dst, "null"...), nil
	}
	switch v.Type.Kind {
	case row.List:
		elems, err := row.Elements(v, i)
		if err != nil {
			return nil, err
		}
		dst = append(dst, '[')
		for k := range elems.Len() {
			if k > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendStagedJSON(dst, elems, k); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case row.Struct:
		members, err := row.Members(v, i)
		if err != nil {
			return nil, err
		}
		dst = append(dst, '{')
		for k, f := range v.Type.Fields {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = append(row.AppendJSONString(dst, f.Name), ':')
			if dst, err = appendStagedJSON(dst, members[k], 0); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return row.AppendJSONString(dst, row.TextOf(v, i)), nil
}
