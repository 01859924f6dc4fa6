package query

import "tidemark/windows"

// How the values of a measure may be put together over a dimension.
const (
	MergeSum = "sum"
	MergeMin = "min"
	MergeMax = "max"
)

// Merges says of each of Columns how its values of several rows make one: counts and sums add up,
// minima and maxima have one again. Empty where rows can't be put together: dimensions, averages,
// distinct counts, quantiles, expressions, and everything over windows that overlap, where an event
// would count more than once.
func (p *Plan) Merges() []string {
	out := make([]string, len(p.Columns))
	if overlaps(p.Root) {
		return out
	}
	for i, c := range p.Visible {
		if !p.Dimensions[i] {
			out[i] = mergeOf(p.Root, c)
		}
	}
	return out
}

// mergeOf follows a column down to the aggregate that makes it.
func mergeOf(n Node, column int) string {
	switch n := n.(type) {
	case *Project:
		if c := n.Exprs[column].ColumnNumber(); c >= 0 {
			return mergeOf(n.In, c)
		}
	case *Aggregate:
		i := column - len(n.Keys)
		if i < 0 || n.Calls[i].Spec.Distinct {
			return ""
		}
		switch n.Calls[i].Spec.Name {
		case "count", "count_star", "sum":
			return MergeSum
		case "min":
			return MergeMin
		case "max":
			return MergeMax
		}
	}
	return ""
}

// overlaps reports whether one event may lie in several windows of the plan.
func overlaps(n Node) bool {
	if a, ok := n.(*Assign); ok && a.Kind != windows.Tumble {
		return true
	}
	for _, in := range n.Inputs() {
		if overlaps(in) {
			return true
		}
	}
	return false
}
