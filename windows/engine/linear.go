package engine

import (
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows/expr"
	"tidemark/windows/query"
)

// scan makes the columns of a batch of the log.
type scan struct {
	e      *Engine
	stream stream.ID
	cols   []query.ScanCol
	outs   targets

	// made are vectors that the scan fills itself, used again for each batch.
	made []*row.Vector
}

// read gives out a batch; sel are the events that are in the view's sight.
func (s *scan) read(b *stream.Batch, sel []int32) {
	c := &chunk{Batch: row.Batch{Len: b.Len, Cols: make([]*row.Vector, len(s.cols))}, sel: sel, f: &frame{batch: true}}
	for i, col := range s.cols {
		c.Cols[i] = s.column(b, i, col)
	}
	s.outs.send(c)
}

func (s *scan) column(b *stream.Batch, i int, col query.ScanCol) *row.Vector {
	switch col.Pseudo {
	case query.PseudoTime:
		v := s.made[i]
		v.I64 = b.Times
		return v
	case query.PseudoKey:
		if b.Keys != nil {
			return b.Keys
		}
		return s.nulls(i, b.Len)
	case query.PseudoAppendTime:
		return s.constant(i, b.Len, b.AppendTime)
	case query.PseudoPartition:
		return s.constant(i, b.Len, int64(b.Partition))
	case query.PseudoSequence:
		return s.constant(i, b.Len, int64(b.Sequence))
	case query.PseudoOffset:
		v := s.made[i]
		v.Resize(b.Len)
		for k := range v.I64 {
			v.I64[k] = int64(b.Offset(k))
		}
		return v
	}
	if col.Column >= len(b.Columns) || b.Columns[col.Column] == nil {
		return s.nulls(i, b.Len)
	}
	v := b.Columns[col.Column]
	if v.Type.Equal(col.Type) {
		return v
	}
	wide, err := row.Convert(v, col.Type)
	if err != nil {
		// Columns only ever widen, and the runtime makes a view anew whose columns widened.
		panic("engine: column " + col.Name + ": " + err.Error())
	}
	return wide
}

func (s *scan) constant(i, n int, x int64) *row.Vector {
	v := s.made[i]
	v.Resize(n)
	for k := range v.I64 {
		v.I64[k] = x
	}
	return v
}

func (s *scan) nulls(i, n int) *row.Vector {
	v := s.made[i]
	if v.Len() == n {
		return v
	}
	v.Truncate(0)
	v.Nulls = v.Nulls[:0]
	for range n {
		v.AppendNull()
	}
	return v
}

// filter gives on the rows for which a predicate is true.
type filter struct {
	e      *Engine
	pred   *expr.Expr
	unsure query.Unsure
	outs   targets

	errs expr.Errors
}

func (o *filter) take(c *chunk) {
	out := *c
	if c.f.trial {
		out.sel = o.e.mayPass(o.pred, o.unsure, c, &o.errs)
	} else {
		out.sel = o.e.keep(o.pred, c, &o.errs, nil)
	}
	o.outs.send(&out)
}

// mayPass returns the rows of a trial that a condition may let through with some bounds.
func (e *Engine) mayPass(pred *expr.Expr, u query.Unsure, c *chunk, errs *expr.Errors) []int32 {
	if !u.Moving {
		return e.keep(pred, c, errs, nil)
	}
	some := *c
	if u.Alone != nil {
		some.sel = e.keep(u.Alone, c, errs, nil)
	}
	e.keep(pred, &some, errs, nil) // for what fails with any
	return some.sel
}

// keep returns the rows of c for which pred is true. Rows on which it fails are outside the view.
func (e *Engine) keep(pred *expr.Expr, c *chunk, errs *expr.Errors, buf []int32) []int32 {
	errs.Reset()
	v := pred.Eval(&c.Batch, c.sel, errs)
	bad := errs.Any()
	if bad {
		e.fail(c, errs)
	}
	if buf == nil {
		buf = make([]int32, 0, c.rows())
	}
	sel := buf[:0]
	if c.sel == nil {
		for i := range c.Len {
			if v.I64[i] != 0 && !v.IsNull(i) && !(bad && errs.Failed(i)) {
				sel = append(sel, int32(i))
			}
		}
		return sel
	}
	for _, i := range c.sel {
		if v.I64[i] != 0 && !v.IsNull(int(i)) && !(bad && errs.Failed(int(i))) {
			sel = append(sel, i)
		}
	}
	return sel
}

// project computes one column for each expression.
type project struct {
	e     *Engine
	exprs []*expr.Expr
	outs  targets

	errs expr.Errors
}

func (o *project) take(c *chunk) {
	out := *c
	out.Cols = make([]*row.Vector, len(o.exprs))
	o.errs.Reset()
	for i, x := range o.exprs {
		out.Cols[i] = x.Eval(&c.Batch, c.sel, &o.errs)
	}
	if o.errs.Any() {
		o.e.fail(c, &o.errs)
		sel := make([]int32, 0, c.rows())
		c.each(func(i int) {
			if !o.errs.Failed(i) {
				sel = append(sel, int32(i))
			}
		})
		out.sel = sel
	}
	o.outs.send(&out)
}
