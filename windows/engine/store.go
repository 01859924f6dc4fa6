package engine

import (
	"math"
	"strings"

	"tidemark/storage/row"
)

// store keeps rows of the same columns under numbers that are used again.
type store struct {
	cols []*row.Vector
	// unsigned: −0 is kept as 0, as it is where rows are known by a key.
	unsigned bool
}

// newUnsigned is a store in which −0 is 0: of keys, and of rows that are given out of a view.
func newUnsigned(fields []row.Field) *store {
	s := newStore(fields)
	s.unsigned = true
	return s
}

func newStore(fields []row.Field) *store {
	s := &store{}
	for _, f := range fields {
		s.cols = append(s.cols, row.NewVector(f.Type, 0))
	}
	return s
}

// set copies row j of the columns of src that are named by cols (nil: all) to row i. The strings of a
// row share one piece of memory.
func (s *store) set(i int, src []*row.Vector, cols []int, j int) {
	s.copy(i, src, cols, j)
	if s.unsigned {
		for _, v := range s.cols {
			if v.Type.Class() == row.Float64Class {
				v.F64[i] += 0
			}
		}
	}
}

func (s *store) copy(i int, src []*row.Vector, cols []int, j int) {
	size, strs := 0, 0
	for c, v := range s.cols {
		from := src[column(cols, c)]
		if v.Type.Class() == row.StringClass && !from.IsNull(j) {
			size += len(from.Str[j])
			strs++
		}
	}
	if strs < 2 {
		for c, v := range s.cols {
			setValue(v, i, src[column(cols, c)], j)
		}
		return
	}
	var text strings.Builder
	text.Grow(size)
	for c, v := range s.cols {
		from := src[column(cols, c)]
		if v.Type.Class() != row.StringClass || from.IsNull(j) {
			setValue(v, i, from, j)
			continue
		}
		hold(v, i)
		at := text.Len()
		text.WriteString(from.Str[j])
		v.Str[i] = text.String()[at:]
	}
}

// column is the number of the c-th of the columns cols; nil: all.
func column(cols []int, c int) int {
	if cols == nil {
		return c
	}
	return cols[c]
}

// clear lets go of the memory of row i.
func (s *store) clear(i int) {
	for _, v := range s.cols {
		if i < v.Len() {
			v.SetNull(i)
		}
	}
}

// textBytes is what the texts of row i take.
func (s *store) textBytes(i int) (n int64) {
	for _, v := range s.cols {
		if v.Type.Class() == row.StringClass && !v.IsNull(i) {
			n += int64(len(v.Str[i]))
		}
	}
	return n
}

// hold makes value i of v one that is there and is not NULL.
func hold(v *row.Vector, i int) {
	for v.Len() < i {
		v.AppendNull()
	}
	switch {
	case v.Len() > i:
		v.Nulls.Clear(i)
	case v.Type.Class() == row.Float64Class:
		v.AppendFloat64(0)
	case v.Type.Class() == row.Int128Class:
		v.AppendInt128(row.Int128{})
	case v.Type.Class() == row.StringClass:
		v.AppendString("")
	default:
		v.AppendInt64(0)
	}
}

// setValue sets value i of v, which grows when needed, to value j of src. Strings are copied: they
// outlive their batch.
func setValue(v *row.Vector, i int, src *row.Vector, j int) {
	hold(v, i)
	if src.IsNull(j) {
		v.SetNull(i)
		return
	}
	switch v.Type.Class() {
	case row.Float64Class:
		v.F64[i] = src.F64[j]
	case row.Int128Class:
		v.I128[i] = src.I128[j]
	case row.StringClass:
		if v.Str[i] != src.Str[j] {
			v.Str[i] = strings.Clone(src.Str[j])
		}
	default:
		v.I64[i] = src.I64[j]
	}
}

// sameRow reports whether row i of a and row j of b are equal, nulls and NaNs included. cols names
// the columns of b; nil: all.
func sameRow(a []*row.Vector, i int, b []*row.Vector, cols []int, j int) bool {
	for c, v := range a {
		from := c
		if cols != nil {
			from = cols[c]
		}
		if !sameValue(v, i, b[from], j) {
			return false
		}
	}
	return true
}

// exactRow is sameRow, and −0 is not 0.
func exactRow(a []*row.Vector, i int, b []*row.Vector, cols []int, j int) bool {
	for c, v := range a {
		if v.Type.Class() != row.Float64Class || v.IsNull(i) || v.F64[i] != 0 {
			continue
		}
		from := b[column(cols, c)]
		if from.IsNull(j) || math.Signbit(v.F64[i]) != math.Signbit(from.F64[j]) {
			return false
		}
	}
	return sameRow(a, i, b, cols, j)
}

func sameValue(a *row.Vector, i int, b *row.Vector, j int) bool {
	if n := a.IsNull(i); n || b.IsNull(j) {
		return n == b.IsNull(j)
	}
	switch a.Type.Class() {
	case row.Float64Class:
		x, y := a.F64[i], b.F64[j]
		return x == y || math.IsNaN(x) && math.IsNaN(y)
	case row.Int128Class:
		return a.I128[i] == b.I128[j]
	case row.StringClass:
		return a.Str[i] == b.Str[j]
	}
	return a.I64[i] == b.I64[j]
}

// gather appends the values of src at the given numbers.
func gather(dst, src *row.Vector, at []int32) {
	if len(src.Nulls) > 0 {
		dst.AppendSelected(src, at)
		return
	}
	switch src.Type.Class() {
	case row.Float64Class:
		for _, i := range at {
			dst.F64 = append(dst.F64, src.F64[i])
		}
	case row.Int128Class:
		for _, i := range at {
			dst.I128 = append(dst.I128, src.I128[i])
		}
	case row.StringClass:
		for _, i := range at {
			dst.Str = append(dst.Str, src.Str[i])
		}
	default:
		for _, i := range at {
			dst.I64 = append(dst.I64, src.I64[i])
		}
	}
}
