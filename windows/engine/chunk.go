package engine

import (
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/agg"
)

// chunk is a batch of rows on its way between operators. sel are the row numbers that count, in
// ascending order; nil means all. Operators never change a chunk that they were given.
type chunk struct {
	row.Batch
	sel []int32
	f   *frame
}

// frame is what is known of rows besides their columns. Chunks with the same numbering of rows
// share one.
type frame struct {
	// up and from lead to the rows that these were made of: row i of row from[i] of up, or of the
	// same number where from is nil.
	up   *frame
	from []int32
	// parts and part stand for up where rows come from several frames: row i of parts[part[i]].
	parts []*frame
	part  []int32
	// batch is set where every row follows from one event; origin[i] is the event of row i, nil
	// where it is i.
	batch  bool
	origin []int32
	// trial rows are computed only to find events that fail: nobody keeps them.
	trial bool
	// finalAt is the least watermark at which a row is final; nil: at once.
	finalAt []windows.Micros
	// ranks are the rows' places in the log, where they don't follow from the batch in work.
	ranks []agg.Rank
	// evidence are the events that rows came of which are not in the batch in work; only where it
	// was asked for.
	evidence [][]stream.Place
	// times are the rows' own times, where they are not those of the batch in work.
	times []windows.Micros
	// refused are rows that a window did not take; set by the judge.
	refused []bool
	// partial are rows that some of their windows refused, where an aggregate with panes is behind.
	partial []bool
	// upsert says that the rows are the present rows of groups and not differences: what is not
	// selected any more at the end is withdrawn. owner and slots tell the groups.
	upsert bool
	owner  *aggregate
	slots  []int32
}

// each calls f with the number of each row that counts.
func (c *chunk) each(f func(i int)) {
	if c.sel == nil {
		for i := range c.Len {
			f(i)
		}
		return
	}
	for _, i := range c.sel {
		f(int(i))
	}
}

// rows is how many rows count.
func (c *chunk) rows() int {
	if c.sel == nil {
		return c.Len
	}
	return len(c.sel)
}

// row is the number of the k-th row that counts.
func (c *chunk) row(k int) int {
	if c.sel == nil {
		return k
	}
	return int(c.sel[k])
}

// event is the event that row i came of.
func (f *frame) event(i int) int {
	if f.origin == nil {
		return i
	}
	return int(f.origin[i])
}

// final is the least watermark at which row i is final.
func (f *frame) final(i int) windows.Micros {
	if f.finalAt == nil {
		return windows.AtOnce
	}
	return f.finalAt[i]
}

// wasRefused reports whether row i, or a row that it was made of, was not taken.
func (f *frame) wasRefused(i int) bool {
	for ; f != nil; f = f.up {
		if f.refused != nil && f.refused[i] {
			return true
		}
		if f.parts != nil {
			part := f.parts[f.part[i]]
			if part.wasRefused(int(f.from[i])) {
				return true
			}
		}
		if f.from != nil {
			i = int(f.from[i])
		}
	}
	return false
}

// target takes chunks: the next operator.
type target interface {
	take(c *chunk)
}

type targets []target

func (ts targets) send(c *chunk) {
	for _, t := range ts {
		t.take(c)
	}
}
