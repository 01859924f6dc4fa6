package engine

import (
	"fmt"

	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/query"
)

// build makes the operators of the plan. A node that two others read is one operator.
func (e *Engine) build() error {
	b := &builder{e: e, made: map[query.Node]*targets{}, readers: map[query.Node]int{}}
	b.count(e.plan.Root)
	e.emit = newEmitter(e)
	outs, err := b.node(e.plan.Root, true)
	if err != nil {
		return err
	}
	*outs = append(*outs, e.emit)
	return nil
}

type builder struct {
	e *Engine
	// made are the places where a node's readers are listed.
	made    map[query.Node]*targets
	readers map[query.Node]int
	ids     byte
}

func (b *builder) count(n query.Node) {
	b.readers[n]++
	if b.readers[n] == 1 {
		for _, in := range n.Inputs() {
			b.count(in)
		}
	}
}

// node makes the operator of a node and returns where its readers are listed. Inputs come first, so
// operators are flushed in the order in which rows flow. last says that only filters, projections
// and the emitter come behind.
func (b *builder) node(n query.Node, last bool) (*targets, error) {
	if outs, ok := b.made[n]; ok {
		return outs, nil
	}
	last = last && b.readers[n] == 1
	var outs *targets
	var own target
	var err error
	switch n := n.(type) {
	case *query.Scan:
		outs = b.scan(n)
	case *query.Filter:
		o := &filter{e: b.e, pred: n.Pred}
		own, outs = o, &o.outs
		err = b.connect(n.In, own, last)
	case *query.Project:
		o := &project{e: b.e, exprs: n.Exprs}
		own, outs = o, &o.outs
		err = b.connect(n.In, own, last)
	case *query.Assign:
		outs, err = b.assign(n)
	case *query.Aggregate:
		o := newAggregate(b.e, b.ids, n, last)
		b.ids++
		err = b.connect(n.In, o, false)
		b.e.ops = append(b.e.ops, o)
		outs = &o.outs
	default:
		return nil, fmt.Errorf("a plan with %T cannot run", n)
	}
	if err != nil {
		return nil, err
	}
	b.made[n] = outs
	return outs, nil
}

// connect makes the operator of a node and lets t read it.
func (b *builder) connect(in query.Node, t target, last bool) error {
	outs, err := b.node(in, last)
	if err == nil {
		*outs = append(*outs, t)
	}
	return err
}

func (b *builder) scan(n *query.Scan) *targets {
	s := &scan{e: b.e, stream: b.e.plan.Sources[n.Source].Stream, cols: n.Cols}
	for _, c := range n.Cols {
		s.made = append(s.made, row.NewVector(c.Type, 0))
	}
	b.e.scans = append(b.e.scans, s)
	return &s.outs
}

func (b *builder) assign(n *query.Assign) (*targets, error) {
	ts := row.Scalar(row.Timestamp)
	switch n.Kind {
	case windows.Tumble, windows.Hop:
		o := &fixed{
			e: b.e, number: n.Number, hop: n.Kind == windows.Hop, tumble: windows.Tumbling{Size: n.Size},
			hopping: windows.Hopping{Slide: n.Slide, Size: n.Size}, timeCol: n.TimeCol, where: n.Where,
			start: row.NewVector(ts, 0), end: row.NewVector(ts, 0),
		}
		if err := b.connect(n.In, o, false); err != nil {
			return nil, err
		}
		b.e.windows = append(b.e.windows, o)
		return &o.outs, nil
	}
	return nil, fmt.Errorf("a plan with %s windows cannot run", n.Kind)
}
