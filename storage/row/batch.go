package row

import "strings"

// Batch is a set of rows, one vector a column. With Weights, row i stands for Weights[i] equal
// rows: +1 appears, −1 is withdrawn.
type Batch struct {
	Len     int
	Cols    []*Vector
	Weights []int64
}

// NewBatch returns an empty batch with a vector for each field and room for n rows.
func NewBatch(fields []Field, n int) *Batch {
	b := &Batch{Cols: make([]*Vector, len(fields))}
	for i, f := range fields {
		b.Cols[i] = NewVector(f.Type, n)
	}
	return b
}

// Weight returns the weight of row i.
func (b *Batch) Weight(i int) int64 {
	if b.Weights == nil {
		return 1
	}
	return b.Weights[i]
}

// Reset empties the batch, keeping its memory and types.
func (b *Batch) Reset() {
	b.Len, b.Weights = 0, nil
	for _, c := range b.Cols {
		c.Reset(c.Type)
	}
}

// AppendFrom adds row i of src, a batch of the same columns, weight included.
func (b *Batch) AppendFrom(src *Batch, i int) {
	for c, v := range b.Cols {
		v.AppendFrom(src.Cols[c], i)
	}
	b.appendWeight(src.Weight(i))
	b.Len++
}

// AppendAll adds all rows of src, a batch of the same columns.
func (b *Batch) AppendAll(src *Batch) {
	for c, v := range b.Cols {
		v.AppendAll(src.Cols[c])
	}
	for i := range src.Len {
		b.appendWeight(src.Weight(i))
		b.Len++
	}
}

// appendWeight notes the weight of the row that is about to be counted in Len.
func (b *Batch) appendWeight(w int64) {
	if b.Weights == nil {
		if w == 1 {
			return
		}
		b.Weights = make([]int64, b.Len, max(16, 2*b.Len))
		for i := range b.Weights {
			b.Weights[i] = 1
		}
	}
	b.Weights = append(b.Weights, w)
}

// FieldIndex finds a field by name without regard to case, or returns −1.
func FieldIndex(fields []Field, name string) int {
	for i, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return i
		}
	}
	return -1
}
