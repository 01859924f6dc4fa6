package stream

import (
	"slices"

	"tidemark/storage/row"
)

// MaxColumns is the greatest number of columns of a stream; further fields stay in the events.
const MaxColumns = 1000

// Schema is the columns of a stream. A column keeps its number for ever; columns are only added.
type Schema struct {
	// Version rises by one with every change.
	Version int `json:"version"`
	// Declared: the columns were given, and no others are made. Else they are inferred.
	Declared bool `json:"declared"`
	// Fields are the columns by number.
	Fields []row.Field `json:"-"`
	// Wide are the numbers of columns that hold an integer past ±2^53: they can't become DOUBLE.
	Wide []int `json:"wide,omitempty"`
	// Overflow: a field was left out because there are MaxColumns columns already.
	Overflow bool `json:"overflow,omitempty"`
	// Uncolumned are names of fields that were left out, the first few, for the page.
	Uncolumned []string `json:"uncolumned,omitempty"`
}

// maxUncolumned bounds the names of fields that are no columns.
const maxUncolumned = 100

// Column returns the number of a column by name, without regard to case; −1 when there is none.
func (s *Schema) Column(name string) int { return row.FieldIndex(s.Fields, name) }

// IsWide reports whether a column holds an integer past ±2^53.
func (s *Schema) IsWide(column int) bool { return slices.Contains(s.Wide, column) }

// clone copies what a change may touch.
func (s *Schema) clone() Schema {
	c := *s
	c.Fields = slices.Clone(s.Fields)
	c.Wide = slices.Clone(s.Wide)
	c.Uncolumned = slices.Clone(s.Uncolumned)
	return c
}

// WidenType returns the type that holds every value of both types exactly, as inference widens:
// BIGINT to DOUBLE (the caller makes sure that the integers are exact), NULL to anything, and so
// inside lists and structs, whose members may also be added. ok is false when there is none.
func WidenType(from, to row.Type) (t row.Type, ok bool) {
	switch {
	case from.Equal(to), to.Kind == row.Null:
		return from, true
	case from.Kind == row.Null:
		return to, true
	case from.Kind == row.BigInt && to.Kind == row.Double, from.Kind == row.Double && to.Kind == row.BigInt:
		return row.Scalar(row.Double), true
	case from.Kind == row.List && to.Kind == row.List:
		elem, ok := WidenType(*from.Elem, *to.Elem)
		return row.ListOf(elem), ok
	case from.Kind == row.Struct && to.Kind == row.Struct:
		fields := slices.Clone(from.Fields)
		for _, f := range to.Fields {
			i := row.FieldIndex(fields, f.Name)
			if i < 0 {
				fields = append(fields, f)
				continue
			}
			if fields[i].Type, ok = WidenType(fields[i].Type, f.Type); !ok {
				return from, false
			}
		}
		return row.StructOf(fields...), true
	}
	return from, false
}

// widensNumbers reports whether going from one type to a wider one turns integers into DOUBLE.
func widensNumbers(from, to row.Type) bool {
	switch from.Kind {
	case row.BigInt:
		return to.Kind == row.Double
	case row.List:
		return widensNumbers(*from.Elem, *to.Elem)
	case row.Struct:
		for _, f := range from.Fields {
			if i := row.FieldIndex(to.Fields, f.Name); i >= 0 && widensNumbers(f.Type, to.Fields[i].Type) {
				return true
			}
		}
	}
	return false
}
