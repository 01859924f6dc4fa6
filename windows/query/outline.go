package query

import "tidemark/windows"

// Line is one operator of a plan, as Explain writes it.
type Line struct {
	// Text is the operator, Depth how far it is from the rows that come out.
	Text  string
	Depth int
	// Operator is the number under which the engine keeps the operator's state; −1: it keeps none.
	Operator int
	// Number, above 0, is what several operators read; Again says that this line is another reader.
	Number int
	Again  bool
	// Unbounded says why the operator's state grows for ever; empty: it does not.
	Unbounded string
	// Stream is the stream that a scan reads.
	Stream string
	// Panes: the windows of this hop share panes, where an aggregate behind it groups by them.
	Panes bool
}

// Outline is a plan line by line, from the rows that come out down to the streams. Operators with state
// are numbered in that order, as the engine does.
func Outline(p *Plan) []Line {
	readers := map[Node]int{}
	for _, n := range topDown(p.Root) {
		for _, in := range n.Inputs() {
			readers[in]++
		}
	}
	var out []Line
	known := map[Node]int{}
	next := 0
	var visit func(n Node, depth int)
	visit = func(n Node, depth int) {
		l := Line{Text: operator(p, n), Depth: depth, Operator: -1}
		if number, ok := known[n]; ok {
			l.Number, l.Again = number, true
			out = append(out, l)
			return
		}
		if readers[n] > 1 {
			known[n] = len(known) + 1
			l.Number = known[n]
		}
		if keepsState(n) {
			l.Operator = next
			next++
		}
		l.Unbounded = unbounded(n)
		switch n := n.(type) {
		case *Scan:
			l.Stream = p.Sources[n.Source].Name
		case *Assign:
			l.Panes = n.Kind == windows.Hop
		}
		out = append(out, l)
		for _, in := range n.Inputs() {
			visit(in, depth+1)
		}
	}
	visit(p.Root, 0)
	return out
}

// keepsState reports whether the engine gives a node a number of its own.
func keepsState(n Node) bool {
	switch n := n.(type) {
	case *Aggregate, *TopN, *Over, *FinalOnly:
		return true
	case *Assign:
		return n.Kind == windows.Session || n.Kind == windows.Slide
	}
	return false
}

// unbounded says why the state of a node grows for ever.
func unbounded(n Node) string {
	switch n := n.(type) {
	case *Aggregate:
		if !n.Windowed && len(n.Keys) > 0 {
			return "its groups are kept for ever: no key is a window's bound"
		}
	case *TopN:
		if !n.Windowed {
			return "its partitions are kept for ever: PARTITION BY has no window's bound"
		}
	case *Over:
		if !n.Windowed {
			return "all rows of its partitions are kept for ever: PARTITION BY has no window's bound"
		}
	}
	return ""
}
