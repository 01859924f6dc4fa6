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
	explain(&b, p, p.Root, 0)
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

func explain(b *strings.Builder, p *Plan, n Node, depth int) {
	b.WriteString(strings.Repeat("  ", depth))
	b.WriteString(operator(p, n))
	b.WriteByte('\n')
	for _, in := range n.Inputs() {
		explain(b, p, in, depth+1)
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
	case *TopN:
		fields := n.In.Fields()
		s := fmt.Sprintf("first %d", n.Limit)
		if n.Numbered {
			s += " numbered"
		}
		if len(n.Partition) > 0 {
			s += " per " + columnTexts(fields, n.Partition)
		}
		keys := make([]string, len(n.Order))
		for i, k := range n.Order {
			keys[i] = row.QuoteName(fields[k.Col].Name)
			if k.Desc {
				keys[i] += " DESC"
			}
			if !k.NullsLast {
				keys[i] += " NULLS FIRST"
			}
		}
		if n.ByLog {
			keys = append(keys, "the log")
		}
		s += " by " + strings.Join(keys, ", ")
		if n.Windowed {
			s += " (windowed)"
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
