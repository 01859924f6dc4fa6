package query

import (
	"slices"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// ParseSQL gives DuckDB's syntax tree of a text as JSON: what json_serialize_sql(text)::VARCHAR
// answers, errors of the parser included. cmd passes history's method, so this package never
// imports storage/history and its tests need no cgo.
type ParseSQL func(sql string) (ast []byte, err error)

// SQLFromAST gives the text of a syntax tree: json_deserialize_sql.
type SQLFromAST func(ast []byte) (sql string, err error)

// Relation is something that FROM can name.
type Relation struct {
	Name string
	// Kind is "stream", "view" or "alert".
	Kind string
	// ID is the number of a stream.
	ID stream.ID
	// TimeField is the column that holds a stream's event time; empty when append time is.
	TimeField string
	// Fields are the columns, by column number.
	Fields []row.Field
	// View is what a view or alert is made of; nil for streams, and where no view may read it.
	View *View
}

// Catalog finds relations by name; case does not matter.
type Catalog interface {
	Relation(name string) (Relation, bool)
}

// Options are the options of a view that decide whether its SQL can run.
type Options struct {
	// EmitFinal asks for final rows only; SQL whose rows never are final is then refused.
	EmitFinal bool
}

// OrderKey is one key of an ORDER BY.
type OrderKey struct {
	Col       int // index in the fields
	Desc      bool
	NullsLast bool
}

// Compile binds the SQL of a view. Its errors are problems with status 422 or 413.
func Compile(parser ParseSQL, cat Catalog, sql string, opts Options) (plan *Plan, err error) {
	defer boundary(&err)
	statement := parse(parser, sql)
	q := decodeStatement(statement)
	b := &binder{
		cat: cat, plan: &Plan{SQL: sql}, outline: outlineOf(parser, cat, statement), reads: newReads(),
		shared: map[sqlQuery]*sharedQuery{}, views: map[string]*sharedQuery{}, always: map[Node][]int{},
	}
	b.plan.Assigns = b.outline.total
	b.words, b.stars = namesIn(statement)
	root := b.queryOf(q, true)
	b.settleViews()
	b.finish(root)
	if opts.EmitFinal && b.plan.NeverFinal {
		refuse(problem.New(422, "never_final", "emit: final would never give a row, because %s", b.plan.NeverFinalWhy).
			WithHint("use emit: changes, or group by window_start of a window function"))
	}
	return b.plan, nil
}

// finish fills the plan from its bound root.
func (b *binder) finish(root *relation) {
	p := b.plan
	need := with(nil, root.key...)
	for _, i := range visible(root) {
		need[i] = true
	}
	node, to := prune(root.node, need, b.always)
	p.Root, p.Key = node, movedAll(root.key, to)
	settleUnsure(node)
	b.readSources(node)
	p.PassThrough, p.NeverFinal, p.NeverFinalWhy = root.once, root.never != "", root.never
	seen := map[string]bool{}
	for i, c := range root.cols {
		if c.hidden {
			continue
		}
		lower := strings.ToLower(c.name)
		if seen[lower] {
			refuse(problem.New(422, "duplicate_column", "the view has two columns named %s", row.QuoteName(c.name)).At(0).
				WithHint("give one of them another name with AS"))
		}
		seen[lower] = true
		p.Columns = append(p.Columns, row.Field{Name: c.name, Type: c.typ})
		p.Visible = append(p.Visible, to[i])
		p.Dimensions = append(p.Dimensions, slices.Contains(root.key, i))
	}
	for i, used := range b.used {
		for n := range used {
			p.Sources[i].Pinned = append(p.Sources[i].Pinned, n)
		}
		slices.Sort(p.Sources[i].Pinned)
	}
	if p.NeverFinal && len(p.Key) > 0 {
		p.Warnings = append(p.Warnings, Warning{Code: "unbounded_state", Detail: "the view's rows are kept for ever: " + p.NeverFinalWhy})
	}
}

// readSources notes which columns of the streams the plan's scans read.
func (b *binder) readSources(root Node) {
	for _, n := range Nodes(root) {
		s, ok := n.(*Scan)
		if !ok {
			continue
		}
		src := &b.plan.Sources[s.Source]
		for _, c := range s.Cols {
			if !slices.ContainsFunc(src.Cols, func(o ScanCol) bool { return o.Column == c.Column && o.Pseudo == c.Pseudo }) {
				src.Cols = append(src.Cols, c)
			}
		}
	}
}

// namesIn collects the names that a statement writes, in lower case, and whether a `*` or a list
// of column aliases stands in it.
func namesIn(tree any) (names map[string]bool, all bool) {
	names = map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case object:
			if class, _ := v["class"].(string); class == "STAR" {
				all = true
			}
			if list, _ := v["column_name_alias"].([]any); len(list) > 0 {
				all = true
			}
			if list, ok := v["column_names"].([]any); ok {
				for _, n := range list {
					s, _ := n.(string)
					names[strings.ToLower(s)] = true
				}
			}
			for _, m := range v {
				walk(m)
			}
		case []any:
			for _, m := range v {
				walk(m)
			}
		}
	}
	walk(tree)
	return names, all
}
