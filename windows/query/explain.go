package query

import (
	"fmt"
	"strings"

	"tidemark/storage/row"
	"tidemark/windows"
)

// Explain writes a plan for people: the operators from the rows that come out down to the streams,
// then what the plan says of its rows.
func Explain(p *Plan) string {
	var b strings.Builder
	e := explainer{p: p, readers: map[Node]int{}, known: map[Node]int{}}
	for _, n := range topDown(p.Root) {
		for _, in := range n.Inputs() {
			e.readers[in]++
		}
	}
	e.explain(&b, p.Root, 0)
	for _, v := range p.Beneath {
		fmt.Fprintf(&b, "view %s is a part of this plan", row.QuoteName(v.Name))
		if v.EmitFinal {
			b.WriteString(", with its final rows only")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "columns %s\n", orText(fieldTexts(p.Columns), "none"))
	names := make([]string, len(p.Key))
	for i, k := range p.Key {
		names[i] = row.QuoteName(p.Root.Fields()[k].Name)
	}
	fmt.Fprintf(&b, "row key %s\n", orText(strings.Join(names, ", "), "none: exactly one row"))
	switch {
	case p.NeverFinal:
		fmt.Fprintf(&b, "final never: %s\n", p.NeverFinalWhy)
	case p.PassThrough:
		b.WriteString("final at once\n")
	default:
		fmt.Fprintf(&b, "final when the watermark (%s) passes a row's window\n", p.Time)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning %s: %s\n", w.Code, w.Detail)
	}
	return b.String()
}

// explainer writes an operator that several read once, with a number.
type explainer struct {
	p       *Plan
	readers map[Node]int
	known   map[Node]int
}

func (e *explainer) explain(b *strings.Builder, n Node, depth int) {
	b.WriteString(strings.Repeat("  ", depth))
	if number, ok := e.known[n]; ok {
		fmt.Fprintf(b, "the rows of [%d]\n", number)
		return
	}
	if e.readers[n] > 1 {
		e.known[n] = len(e.known) + 1
		fmt.Fprintf(b, "[%d] ", e.known[n])
	}
	b.WriteString(operator(e.p, n))
	b.WriteByte('\n')
	for _, in := range n.Inputs() {
		e.explain(b, in, depth+1)
	}
}

// operator is one line of a plan.
func operator(p *Plan, n Node) string {
	switch n := n.(type) {
	case *Scan:
		names := make([]string, len(n.Cols))
		for i, c := range n.Cols {
			names[i] = row.QuoteName(c.Name) + " " + c.Type.String()
		}
		return fmt.Sprintf("scan %s (%s)", p.Sources[n.Source].Name, strings.Join(names, ", "))
	case *Assign:
		fields := n.In.Fields()
		s := fmt.Sprintf("%s %d by %s", n.Kind, n.Number, row.QuoteName(fields[n.TimeCol].Name))
		switch n.Kind {
		case windows.Hop:
			s += fmt.Sprintf(" every %s size %s", n.Slide, n.Size)
		case windows.Session:
			s += fmt.Sprintf(" gap %s", n.Size)
		default:
			s += fmt.Sprintf(" size %s", n.Size)
		}
		if n.Zone != nil {
			s += " in " + n.Zone.Name()
		}
		if len(n.Keys) > 0 {
			s += " per " + columnTexts(fields, n.Keys)
		}
		if n.Where != nil {
			s += " where " + n.Where.Text
		}
		return s
	case *Filter:
		return "filter " + n.Pred.Text
	case *Project:
		parts := make([]string, len(n.Exprs))
		for i, e := range n.Exprs {
			parts[i] = e.Text
			if name := row.QuoteName(n.Names[i]); name != e.Text && n.Names[i] != e.Text {
				parts[i] += " AS " + name
			}
		}
		return "project " + strings.Join(parts, ", ")
	case *Union:
		return "union all"
	case *FinalOnly:
		return "final rows only"
	case *TopN:
		s := fmt.Sprintf("first %d", n.Limit)
		if n.Numbered {
			s += " numbered"
		}
		return s + partitionText(n.In.Fields(), n.Partition, n.Order, n.ByLog, n.Windowed)
	case *Over:
		fields := n.In.Fields()
		calls := make([]string, len(n.Calls))
		for i, c := range n.Calls {
			calls[i] = c.Name + "(" + columnTexts(fields, c.Args) + ")"
			if c.Spec.Distinct {
				calls[i] += " distinct"
			}
			if c.Filter >= 0 {
				calls[i] += " where " + row.QuoteName(fields[c.Filter].Name)
			}
			switch {
			case c.Name == "ntile":
				calls[i] += fmt.Sprintf(" of %d", c.Offset)
			case c.Name == "nth_value":
				calls[i] += fmt.Sprintf(" number %d", c.Offset)
			case c.Offset != 1:
				calls[i] += fmt.Sprintf(" %d away", c.Offset)
			}
			if c.Default >= 0 {
				calls[i] += " else " + row.QuoteName(fields[c.Default].Name)
			}
			if c.IgnoreNulls {
				calls[i] += " ignoring nulls"
			}
			whole := n.Peers == 0 && c.Frame == Frame{Start: Bound{Unbounded: true}, End: Bound{Unbounded: true}}
			if !whole && c.Frame != (Frame{Start: Bound{Unbounded: true}}) {
				calls[i] += " " + c.Frame.String()
			}
		}
		s := "over " + strings.Join(calls, ", ") + partitionText(fields, n.Partition, n.Order, n.ByLog, n.Windowed)
		if n.Best != nil {
			s += fmt.Sprintf(", of rows with the %s %s", map[bool]string{false: "greatest", true: "least"}[n.Best.Least], row.QuoteName(fields[n.Best.Col].Name))
		}
		if n.Peers < len(n.Order) {
			s += fmt.Sprintf(" (the first %d make peers)", n.Peers)
		}
		return s
	case *Aggregate:
		fields := n.In.Fields()
		s := "aggregate"
		calls := make([]string, len(n.Calls))
		for i, c := range n.Calls {
			calls[i] = c.Text
		}
		if len(calls) > 0 {
			s += " " + strings.Join(calls, ", ")
		}
		if len(n.Keys) == 0 {
			return s + " over all"
		}
		s += " by " + columnTexts(fields, n.Keys)
		if n.Windowed {
			s += " (windowed)"
		}
		return s
	}
	return fmt.Sprintf("%T", n)
}

// String is the frame as SQL writes it.
func (f Frame) String() string {
	unit := "range"
	if f.Rows {
		unit = "rows"
	}
	bound := func(b Bound, side string) string {
		switch {
		case b.Unbounded:
			return "unbounded " + side
		case b.Distance:
			return b.Text
		case b.Offset < 0:
			return fmt.Sprintf("%d preceding", -b.Offset)
		case b.Offset > 0:
			return fmt.Sprintf("%d following", b.Offset)
		}
		return "current row"
	}
	s := unit + " between " + bound(f.Start, "preceding") + " and " + bound(f.End, "following")
	if f.Exclude != ExcludeNothing {
		s += " exclude " + string(f.Exclude)
	}
	return s
}

// partitionText writes PARTITION BY and ORDER BY of an operator.
func partitionText(fields []row.Field, partition []int, order []Sort, byLog, windowed bool) string {
	s := ""
	if len(partition) > 0 {
		s += " per " + columnTexts(fields, partition)
	}
	var keys []string
	for _, k := range order {
		key := row.QuoteName(fields[k.Col].Name)
		if k.Desc {
			key += " DESC"
		}
		if !k.NullsLast {
			key += " NULLS FIRST"
		}
		keys = append(keys, key)
	}
	if byLog {
		keys = append(keys, "the log")
	}
	s += " by " + strings.Join(keys, ", ")
	if windowed {
		s += " (windowed)"
	}
	return s
}

func columnTexts(fields []row.Field, cols []int) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = row.QuoteName(fields[c].Name)
	}
	return strings.Join(names, ", ")
}

func fieldTexts(fields []row.Field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = row.QuoteName(f.Name) + " " + f.Type.String()
	}
	return strings.Join(parts, ", ")
}
