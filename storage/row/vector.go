package row

// Bitmap is a set of row numbers, one bit a row. A nil Bitmap is empty.
type Bitmap []uint64

// Get reports whether bit i is set. Bits beyond the end are not.
func (b Bitmap) Get(i int) bool {
	w := i >> 6
	return w < len(b) && b[w]&(1<<(i&63)) != 0
}

// Set sets bit i, growing the bitmap as needed.
func (b *Bitmap) Set(i int) {
	w := i >> 6
	for len(*b) <= w {
		*b = append(*b, 0)
	}
	(*b)[w] |= 1 << (i & 63)
}

// Clear removes bit i.
func (b Bitmap) Clear(i int) {
	if w := i >> 6; w < len(b) {
		b[w] &^= 1 << (i & 63)
	}
}

// Any reports whether a bit is set.
func (b Bitmap) Any() bool {
	for _, w := range b {
		if w != 0 {
			return true
		}
	}
	return false
}

// Vector is one column of values of one type. Exactly one of I64, F64, I128 and Str is in use,
// by the type's class, and has one element a row. Strings are never changed in place, so they
// may be shared; who keeps one longer than its batch clones it.
type Vector struct {
	Type  Type
	Nulls Bitmap
	I64   []int64
	F64   []float64
	I128  []Int128
	Str   []string
}

// NewVector returns an empty vector with room for n values.
func NewVector(t Type, n int) *Vector {
	v := &Vector{Type: t}
	v.Resize(n)
	v.Truncate(0)
	return v
}

// Len returns the number of values.
func (v *Vector) Len() int {
	switch v.Type.Class() {
	case Float64Class:
		return len(v.F64)
	case Int128Class:
		return len(v.I128)
	case StringClass:
		return len(v.Str)
	}
	return len(v.I64)
}

// IsNull reports whether value i is null.
func (v *Vector) IsNull(i int) bool { return v.Nulls != nil && v.Nulls.Get(i) }

// Resize makes the vector n values long, reusing its memory. What the values are is not
// defined; nulls are all cleared.
func (v *Vector) Resize(n int) {
	v.Nulls = v.Nulls[:0]
	switch v.Type.Class() {
	case Float64Class:
		v.F64 = resize(v.F64, n)
	case Int128Class:
		v.I128 = resize(v.I128, n)
	case StringClass:
		v.Str = resize(v.Str, n)
	default:
		v.I64 = resize(v.I64, n)
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 2*cap(s)))
	}
	return s[:n]
}

// Reset empties the vector and sets its type, keeping memory.
func (v *Vector) Reset(t Type) {
	v.Type = t
	v.Nulls, v.I64, v.F64, v.I128, v.Str = v.Nulls[:0], v.I64[:0], v.F64[:0], v.I128[:0], v.Str[:0]
}

// Truncate cuts the vector to its first n values.
func (v *Vector) Truncate(n int) {
	switch v.Type.Class() {
	case Float64Class:
		v.F64 = v.F64[:n]
	case Int128Class:
		v.I128 = v.I128[:n]
	case StringClass:
		v.Str = v.Str[:n]
	default:
		v.I64 = v.I64[:n]
	}
	if w := (n + 63) / 64; len(v.Nulls) > w {
		v.Nulls = v.Nulls[:w]
	}
	if n&63 != 0 && len(v.Nulls) == n>>6+1 {
		v.Nulls[n>>6] &= 1<<(n&63) - 1
	}
}

// SetNull makes value i null.
func (v *Vector) SetNull(i int) {
	v.Nulls.Set(i)
	switch v.Type.Class() {
	case Float64Class:
		v.F64[i] = 0
	case Int128Class:
		v.I128[i] = Int128{}
	case StringClass:
		v.Str[i] = ""
	default:
		v.I64[i] = 0
	}
}

// AppendNull adds a null.
func (v *Vector) AppendNull() {
	n := v.Len()
	switch v.Type.Class() {
	case Float64Class:
		v.F64 = append(v.F64, 0)
	case Int128Class:
		v.I128 = append(v.I128, Int128{})
	case StringClass:
		v.Str = append(v.Str, "")
	default:
		v.I64 = append(v.I64, 0)
	}
	v.Nulls.Set(n)
}

// AppendInt64 adds a value to a vector of Int64Class.
func (v *Vector) AppendInt64(x int64) { v.I64 = append(v.I64, x) }

// AppendFloat64 adds a value to a vector of Float64Class.
func (v *Vector) AppendFloat64(x float64) { v.F64 = append(v.F64, x) }

// AppendInt128 adds a value to a vector of Int128Class.
func (v *Vector) AppendInt128(x Int128) { v.I128 = append(v.I128, x) }

// AppendString adds a value to a vector of StringClass.
func (v *Vector) AppendString(x string) { v.Str = append(v.Str, x) }

// AppendFrom adds value i of src, which must have the same class.
func (v *Vector) AppendFrom(src *Vector, i int) {
	if src.IsNull(i) {
		v.AppendNull()
		return
	}
	switch v.Type.Class() {
	case Float64Class:
		v.F64 = append(v.F64, src.F64[i])
	case Int128Class:
		v.I128 = append(v.I128, src.I128[i])
	case StringClass:
		v.Str = append(v.Str, src.Str[i])
	default:
		v.I64 = append(v.I64, src.I64[i])
	}
}

// AppendAll adds all values of src, which must have the same class.
func (v *Vector) AppendAll(src *Vector) {
	n := v.Len()
	switch v.Type.Class() {
	case Float64Class:
		v.F64 = append(v.F64, src.F64...)
	case Int128Class:
		v.I128 = append(v.I128, src.I128...)
	case StringClass:
		v.Str = append(v.Str, src.Str...)
	default:
		v.I64 = append(v.I64, src.I64...)
	}
	if len(src.Nulls) > 0 {
		for i, m := 0, src.Len(); i < m; i++ {
			if src.Nulls.Get(i) {
				v.Nulls.Set(n + i)
			}
		}
	}
}

// AppendSelected adds the values of src at the row numbers in sel.
func (v *Vector) AppendSelected(src *Vector, sel []int32) {
	for _, i := range sel {
		v.AppendFrom(src, int(i))
	}
}
