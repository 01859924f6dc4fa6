package query

import (
	"maps"
	"slices"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// A view that is read by another is a part of that one's plan: its SQL is bound in its place, with
// its own options. So every view is a fold of the log alone; an event's lateness is judged once,
// where it enters; and revisions and rebuilds need nothing but the log. The price is that the inner
// view is computed once more.

// View is what the rows of a view come of.
type View struct {
	SQL string
	// Within is what the SQL was bound to.
	Within Catalog
	// AllowedLateness is how long its windows take late events; 0 when it drops them.
	AllowedLateness windows.Micros
	// EmitFinal: only its final rows exist (V3).
	EmitFinal bool
}

// Beneath is a view that is a part of a plan.
type Beneath struct {
	Name string
	// First is the number of its first window function, and Functions how many it has; they have
	// its AllowedLateness, and it tells of their late events, not the view above.
	First, Functions int
	AllowedLateness  windows.Micros
	// EmitFinal: only its final rows exist.
	EmitFinal bool
	// Streams are all streams beneath it.
	Streams []stream.ID
}

// FinalOnly gives the rows of its input that are final: each from the moment on at which it is.
type FinalOnly struct {
	In Node
	// Key are the columns of the row key.
	Key []int
}

// Fields implements Node.
func (n *FinalOnly) Fields() []row.Field { return n.In.Fields() }

// Inputs implements Node.
func (n *FinalOnly) Inputs() []Node { return []Node{n.In} }

// outline is what must be known of a text and of the views beneath it before anything is bound:
// which number each window function has. Those of the text come first, in the order of the text,
// then those of the views, by the views' names.
type outline struct {
	// texts are the statements, the text's own under the empty name.
	texts map[string]*outlined
	total int
}

type outlined struct {
	statement object
	places    []int // of the window functions' first arguments
	first     int
}

// outlineOf parses the views beneath a statement.
func outlineOf(parser ParseSQL, cat Catalog, statement object) *outline {
	o := &outline{texts: map[string]*outlined{}}
	var visit func(name string, statement object, cat Catalog)
	visit = func(name string, statement object, cat Catalog) {
		o.texts[name] = &outlined{statement: statement, places: windowPlaces(statement)}
		if len(o.texts) > maxTables {
			refuse(problem.New(422, "sql_too_complex", "more than %d views lie beneath the SQL", maxTables).At(0))
		}
		for _, n := range tableNames(statement) {
			rel, ok := cat.Relation(n)
			key := strings.ToLower(rel.Name)
			if !ok || rel.View == nil || o.texts[key] != nil {
				continue
			}
			visit(key, parse(parser, rel.View.SQL), rel.View.Within)
		}
	}
	visit("", statement, cat)
	for _, name := range slices.Sorted(maps.Keys(o.texts)) {
		t := o.texts[name]
		t.first = o.total
		o.total += len(t.places)
	}
	return o
}

// number is the number of the window function in a view's text whose first argument has this place.
func (o *outline) number(view string, at int) int {
	t := o.texts[view]
	i, _ := slices.BinarySearch(t.places, at)
	return t.first + i
}

// tableNames are the names in a statement that may be relations.
func tableNames(v any) []string {
	var out []string
	switch v := v.(type) {
	case object:
		switch v["type"] {
		case "BASE_TABLE":
			name, _ := v["table_name"].(string)
			out = append(out, name)
		case "TABLE_FUNCTION":
			f, _ := v["function"].(object)
			if name, ok := argumentName(f); ok {
				out = append(out, name)
			}
		}
		for _, m := range v {
			out = append(out, tableNames(m)...)
		}
	case []any:
		for _, m := range v {
			out = append(out, tableNames(m)...)
		}
	}
	return out
}

// sharedQuery is a CTE or view that has been bound.
type sharedQuery struct {
	rel *relation
	// tables is how many tables it reads, each time that it is named.
	tables int
	reads  *reads
}

// reads are the sources that a text reads.
type reads struct {
	all map[int]bool
	// holds are those that hold its watermark back: not the ones under tables alone (W6).
	holds map[int]bool
}

func newReads() *reads { return &reads{map[int]bool{}, map[int]bool{}} }

// share binds a query that a text may name again. Whoever names it reads the same operators.
func (b *binder) share(s *sharedQuery, bind func() *relation) *relation {
	tables, outer := b.tables, b.reads
	if s.rel == nil {
		b.reads = newReads()
		s.rel = bind()
		s.tables, s.reads = b.tables-tables, b.reads
		b.reads = outer
	} else {
		b.tables += s.tables
	}
	for i := range s.reads.all {
		outer.all[i] = true
	}
	for i := range s.reads.holds {
		outer.holds[i] = true
	}
	return s.rel.copy()
}

// view binds a view as a part of the plan.
func (b *binder) view(rel Relation, at int) *relation {
	name := strings.ToLower(rel.Name)
	s := b.views[name]
	if s == nil {
		s = &sharedQuery{}
		b.views[name] = s
	}
	r := b.share(s, func() *relation { return b.inline(name, rel, at) })
	r.view = rel.Name
	return b.alias(r, &tableHead{at: at}, rel.Name)
}

// inline binds the text of a view.
func (b *binder) inline(name string, rel Relation, at int) (out *relation) {
	defer func() { // places in that text are none in this one
		if p := recover(); p != nil {
			r, ok := p.(refusal)
			if !ok {
				panic(p)
			}
			told := problem.New(r.Status, r.Code, "the %s %s, which is read here: %s", rel.Kind, rel.Name, r.Detail).At(at)
			told.Hint = r.Hint
			refuse(told)
		}
	}()
	text := b.outline.texts[name]
	outer := *b
	b.cat, b.text, b.ctes = rel.View.Within, name, nil
	b.words, b.stars = namesIn(text.statement)
	out = b.derived(decodeStatement(text.statement), true)
	b.cat, b.text, b.ctes, b.words, b.stars = outer.cat, outer.text, outer.ctes, outer.words, outer.stars

	functions := len(text.places)
	below := Beneath{
		Name: rel.Name, First: text.first, Functions: functions, AllowedLateness: rel.View.AllowedLateness, EmitFinal: rel.View.EmitFinal,
	}
	for i := range b.reads.all {
		below.Streams = append(below.Streams, b.plan.Sources[i].Stream)
	}
	slices.Sort(below.Streams)
	b.plan.Beneath = append(b.plan.Beneath, below)
	b.lateIn = append(b.lateIn, b.reads)
	if out.never != "" && !b.windowed(out.node) {
		b.reads.holds = map[int]bool{} // a table (W6)
	}
	// What the rows' time is to windows above (V2).
	windowed := b.windowed(out.node)
	for i := range out.cols {
		c := &out.cols[i]
		if own := c.role == eventTime || c.role == appendTime; own && (windowed || out.never != "" || out.shrinks) {
			c.role = plain
		}
	}
	// Whether one of its expressions fails decides on a row of the view, whoever reads it (E1).
	for _, n := range topDown(out.node) {
		if p, ok := n.(*Project); ok {
			for i, e := range p.Exprs {
				if e.ColumnNumber() < 0 && !e.IsConst() {
					b.always[n] = append(b.always[n], i)
				}
			}
		}
	}
	if rel.View.EmitFinal && !out.once {
		out.node = &FinalOnly{In: out.node, Key: out.key}
		out.shrinks = true
	}
	return out
}

// windowed reports whether there is a window function in a plan.
func (b *binder) windowed(n Node) bool {
	if _, ok := n.(*Assign); ok {
		return true
	}
	return slices.ContainsFunc(n.Inputs(), b.windowed)
}

// settleViews holds the views beneath to one watermark, and notes which streams are tables.
func (b *binder) settleViews() {
	p := b.plan
	for i := range p.Sources {
		p.Sources[i].Table = !b.reads.holds[i]
	}
	for n, below := range p.Beneath {
		if below.Functions == 0 {
			continue
		}
		for i, src := range p.Sources {
			if b.reads.holds[i] != b.lateIn[n].holds[i] {
				refuse(unsupported(0, "the view %s judges what is late by its own streams alone, and here %s is read too", below.Name, src.Name).
					WithHint("views that are read together must have the same streams beneath them"))
			}
		}
	}
	slices.SortFunc(p.Beneath, func(a, b Beneath) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
}
