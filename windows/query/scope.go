package query

import (
	"slices"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// role says what a column means, wherever it has been passed on unchanged.
type role uint8

const (
	plain role = iota
	eventTime
	appendTime
	windowStart // of tumble or hop
	movingStart // of session or slide: a row's may change, or lies before its events
	windowEnd
)

// bound reports whether a column is a window's bound.
func (r role) bound() bool { return r == windowStart || r == movingStart || r == windowEnd }

// column is a column of a relation inside a query.
type column struct {
	table string // the name that may stand before the dot
	name  string
	typ   row.Type
	// hidden columns are no part of `*`; sealed ones can't be named at all.
	hidden, sealed bool
	role           role
	// source and number are the place of a stream's own column; number is −1 otherwise.
	source, number int
	// timeField is the name of the time field of the stream that a time column comes from.
	timeField string
}

// relation is a bound FROM or subquery.
type relation struct {
	node Node
	cols []column // one a column of node
	key  []int    // the row key (C1)
	// once: each row follows from one event alone and never changes.
	once bool
	// never says why no row ever is final; empty when they are some time.
	never string
	// shrinks: rows may be withdrawn.
	shrinks bool
	// unread are columns of the stream that the text does not name, for hints.
	unread []string
	// scan is set while the relation is a stream and nothing else.
	scan bool
	// direct is set while the rows are a stream's events themselves, with their windows.
	direct bool
	// assign is set while the relation is a window function and nothing else.
	assign *Assign
	// view is the name of the view that the relation is, and nothing else.
	view string
}

// copy returns a relation that may be changed; its node is shared.
func (r *relation) copy() *relation {
	c := *r
	c.cols = slices.Clone(r.cols)
	return &c
}

func (r *relation) field(i int) row.Field {
	return row.Field{Name: r.cols[i].name, Type: r.cols[i].typ}
}

// find looks a name up; table may be empty. It returns all columns that match.
func (r *relation) find(table, name string) []int {
	var found []int
	for i, c := range r.cols {
		if !c.sealed && strings.EqualFold(c.name, name) && (table == "" || strings.EqualFold(c.table, table)) {
			found = append(found, i)
		}
	}
	return found
}

func (r *relation) hasTable(name string) bool {
	return slices.ContainsFunc(r.cols, func(c column) bool { return strings.EqualFold(c.table, name) })
}

// names lists what can be written, for hints.
func (r *relation) names() []string {
	var out []string
	for _, c := range r.cols {
		if !c.hidden {
			out = append(out, c.name)
		}
	}
	return append(out, r.unread...)
}

// resolve finds the column that a reference means, and the members of STRUCTs behind it. Not
// found is ok false.
func (r *relation) resolve(c *columnRef) (col int, path []string, ok bool) {
	one := func(found []int) int {
		if len(found) > 1 {
			var tables []string
			for _, i := range found {
				tables = append(tables, r.cols[i].table+"."+c.names[len(c.names)-1])
			}
			refuse(problem.New(422, "ambiguous_column", "%s is a column of several relations", c.String()).At(c.at).
				WithHint("write %s", strings.Join(tables, " or ")))
		}
		return found[0]
	}
	if len(c.names) > 1 {
		if found := r.find(c.names[0], c.names[1]); len(found) > 0 {
			return one(found), c.names[2:], true
		}
	}
	if found := r.find("", c.names[0]); len(found) > 0 {
		return one(found), c.names[1:], true
	}
	return 0, nil, false
}

// unknownColumn is the problem of a reference that means nothing.
func (r *relation) unknownColumn(c *columnRef) *problem.Problem {
	name := c.String()
	if len(c.names) == 1 {
		if p := wordHint(c.names[0], c.at); p != nil {
			return p
		}
		if r.hasTable(name) {
			return unsupported(c.at, "%s is a relation, not a column", name).WithHint("name its columns; what is called %s in the SELECT list needs another name", name)
		}
	}
	p := problem.New(422, "unknown_column", "there is no column %s", name).At(c.at)
	near, best := "", 3
	for _, n := range r.names() {
		if d := distance(strings.ToLower(c.names[len(c.names)-1]), strings.ToLower(n), best); d < best {
			near, best = n, d
		}
	}
	switch names := r.names(); {
	case near != "":
		name := row.QuoteName(near)
		if at := slices.IndexFunc(r.cols, func(c column) bool { return c.table != "" }); len(c.names) > 1 && at >= 0 {
			name = r.cols[at].table + "." + name
		}
		return p.WithHint("did you mean %s?", name)
	case len(names) == 0:
		return p.WithHint("there are no columns yet: declare them in the stream's columns, or send an event first")
	case len(names) > 20:
		return p.WithHint("the columns are %s, …", strings.Join(names[:20], ", "))
	default:
		return p.WithHint("the columns are %s", strings.Join(names, ", "))
	}
}

// distance is the number of edits between two words, or limit when there are at least as many.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	line := make([]int, len(b)+1)
	for j := range line {
		line[j] = j
	}
	for i := range len(a) {
		before := line[0]
		line[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			before, line[j+1] = line[j+1], min(before+cost, line[j]+1, line[j+1]+1)
		}
	}
	return min(line[len(b)], limit)
}
