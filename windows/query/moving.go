package query

import (
	"slices"

	"tidemark/windows"
	"tidemark/windows/expr"
)

// An event lies in several windows of slide, and in a session whose bounds are not known yet. So what
// a condition on bounds lets through can't be said of the event alone: before any state takes it, it
// is held against the conjuncts that don't read them, and what is computed of the rest is computed
// (E1).

// Unsure says what a condition lets through for certain.
type Unsure struct {
	// Moving: the condition depends on the bounds of a session or slide.
	Moving bool
	// Alone are its conjuncts that do not; nil: there are none.
	Alone *expr.Expr
}

// settleUnsure fills the Unsure of a plan's conditions.
func settleUnsure(root Node) {
	moves := map[Node][]bool{}
	order := topDown(root)
	slices.Reverse(order) // inputs first
	for _, n := range order {
		var out []bool
		switch n := n.(type) {
		case *Filter:
			out = moves[n.In]
			n.Unsure = unsure(n.Pred, out)
		case *Assign:
			in := moves[n.In]
			own := n.Kind == windows.Session || n.Kind == windows.Slide || in[n.TimeCol]
			out = append(slices.Clip(in), own, own)
			if n.Where != nil {
				n.Unsure = unsure(n.Where, out)
			}
		case *Project:
			for _, e := range n.Exprs {
				out = append(out, readsAny(e, moves[n.In]))
			}
		case *Union:
			out = make([]bool, len(n.Fields()))
			for _, in := range n.Ins {
				for i, m := range moves[in] {
					out[i] = out[i] || m
				}
			}
		default: // a stream, or what has state: no event's rows come from there
			out = make([]bool, len(n.Fields()))
		}
		moves[n] = out
	}
}

func readsAny(e *expr.Expr, cols []bool) bool {
	return slices.ContainsFunc(e.Reads(), func(c int) bool { return cols[c] })
}

func unsure(pred *expr.Expr, moving []bool) Unsure {
	if !readsAny(pred, moving) {
		return Unsure{}
	}
	u := Unsure{Moving: true}
	for _, c := range pred.Conjuncts() {
		if readsAny(c, moving) {
			continue
		}
		if u.Alone == nil {
			u.Alone = c.Clone()
			continue
		}
		both, err := expr.And(u.Alone, c.Clone())
		if err != nil {
			panic(err) // they have been conjuncts
		}
		u.Alone = both
	}
	return u
}
