package query

import (
	"cmp"
	"fmt"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/agg"
	"tidemark/windows/expr"
)

// Over computes window functions: for each row of the input a value from the rows of its
// partition. It gives the input's columns and then one for each call. A row that comes or goes
// changes its partition only (N2).
type Over struct {
	In Node
	// Partition are the columns that a partition's rows agree in; NULL is one value.
	Partition []int
	// Order is the order within a partition. Rows that agree in the first Peers keys of it are
	// peers; the keys behind them, and the log when ByLog, only settle ties (N3).
	Order []Sort
	Peers int
	ByLog bool
	Then  []int // as in TopN
	Calls []OverCall
	// Windowed says that a column of Partition is a window's bound (C2).
	Windowed bool
	// Best, where it is not nil, says that what comes behind drops all rows but the best of each
	// partition.
	Best *Best

	fields []row.Field
}

// Best are the rows with the greatest value in a column, or with the least.
type Best struct {
	Col   int
	Least bool
}

// OverCall is one window function of an Over.
type OverCall struct {
	// Name is one of WindowFunctions, or that of an aggregate, for which Func and Spec are set.
	Name string
	Func *agg.Func
	Spec agg.Spec
	// Args are columns of the input. Lag and lead have one, and their Offset and Default.
	Args   []int
	Filter int // BOOLEAN column of the input, −1 without; aggregates only
	// Offset is the number in the text: how many rows away (lag, lead), which row (nth_value), how many
	// parts (ntile).
	Offset  int64
	Default int // lag, lead: column of the value where there is no such row; −1: NULL
	// IgnoreNulls leaves out rows whose argument is NULL; where a value is taken from another row only.
	IgnoreNulls bool
	// Frame is what first_value, last_value, nth_value and aggregates look at.
	Frame Frame
	Type  row.Type
	Text  string
}

// WindowFunctions are the window functions that are no aggregates.
var WindowFunctions = []string{
	"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value", "last_value", "nth_value",
}

// Frame is a part of a partition around a row.
type Frame struct {
	// Rows counts rows; without, a bound at the current row takes its peers with it (RANGE).
	Rows       bool
	Start, End Bound
	// Exclude are rows of the frame that don't count; aggregates only.
	Exclude Exclusion
}

// Exclusion is a part of a frame that does not count.
type Exclusion string

// What a frame can leave out.
const (
	ExcludeNothing Exclusion = ""
	ExcludeCurrent Exclusion = "current row"
	ExcludeGroup   Exclusion = "group" // the current row and its peers
	ExcludeTies    Exclusion = "ties"  // its peers
)

// Bound is an end of a frame.
type Bound struct {
	// Unbounded is the partition's own end on this side.
	Unbounded bool
	// Offset is how many rows behind the current row the bound is, negative for before it. Always
	// 0 in RANGE frames.
	Offset int64
	// Distance: the bound is where the order reaches the value of column Value, which is NULL where
	// the row has none in the order: then it is its peers. RANGE frames over one key only.
	Distance bool
	Value    int
	Text     string // of the distance, as SQL writes it
}

// Fields implements Node.
func (n *Over) Fields() []row.Field { return n.fields }

// Inputs implements Node.
func (n *Over) Inputs() []Node { return []Node{n.In} }

// NewOver returns an Over; the caller fills Partition, Order and the rest.
func NewOver(in Node, calls []OverCall) *Over {
	n := &Over{In: in, Calls: calls}
	n.fields = append(n.fields, in.Fields()...)
	for _, c := range calls {
		n.fields = append(n.fields, row.Field{Name: c.Text, Type: c.Type})
	}
	return n
}

// overs are the window functions of a SELECT while they are being bound.
type overs struct {
	below *beneath
	index map[string]int
	list  []boundOver
	// direct: the rows are events.
	direct bool
	items  []item
}

type boundOver struct {
	call OverCall
	spec string // canonical text of PARTITION BY and ORDER BY
	// Columns in the numbering of beneath.
	partition []int
	order     []Sort
	peers     int
	windowed  bool
}

// absent stands for a column that a call does not have, while columns are numbered as beneath does.
const absent = 1 << 29

func optional(col int, at func(int) int) int {
	if col == absent {
		return -1
	}
	return at(col)
}

// beneath collects what is computed under a TopN or an Over besides the columns that are there.
type beneath struct {
	b      *binder
	s      *scope
	extras []*expr.Expr
	names  []string
	index  map[string]int
}

// column is the column of an expression: of the scope's relation, or −1, −2, … for those added.
func (x *beneath) column(e sqlExpr) int {
	if o := findOver(e); o != nil {
		refuse(unsupported(o.at, "a window function inside a window function isn't supported").WithHint("put the inner one into a subquery"))
	}
	return x.add(x.b.value(e, x.s), textOf(e))
}

func (x *beneath) add(e *expr.Expr, name string) int {
	if col := e.ColumnNumber(); col >= 0 {
		return col
	}
	key := e.Text + "::" + e.Type.String()
	if at, ok := x.index[key]; ok {
		return at
	}
	x.extras, x.names = append(x.extras, e), append(x.names, name)
	x.index[key] = -len(x.extras)
	return -len(x.extras)
}

// carriedColumn and those behind it, up to absent, stand for columns that carry has added.
const carriedColumn = 1 << 28

// carry adds what an expression computes from one row alone and returns the rest, in which columns
// from carriedColumn on stand for it. So it is computed before any state takes the row, and a row
// that fails takes no place among the others: an event is outside the view, a group is left out
// until it computes again (E1).
func (x *beneath) carry(e *expr.Expr) *expr.Expr {
	alone := func(part *expr.Expr) bool {
		reads := part.Reads()
		return len(reads) == 0 || reads[len(reads)-1] < numberColumn
	}
	return e.Replaced(alone, func(part *expr.Expr) *expr.Expr {
		at := -1 - x.add(part, part.Text)
		return expr.Column(carriedColumn+at, row.Field{Name: x.names[at], Type: part.Type})
	})
}

// carryAll is carry for the items of a SELECT list.
func (x *beneath) carryAll(list []bound) []bound {
	out := make([]bound, len(list))
	for i, l := range list {
		out[i] = bound{x.carry(l.expr), l.col}
	}
	return out
}

// carried is the column that one from carriedColumn on stands for; at is close's.
func carried(col int, at func(int) int) int {
	if col < carriedColumn {
		return col
	}
	return at(carriedColumn - col - 1)
}

// close makes the projection, when everything has been bound. at turns a column's number into that
// of the projection.
func (x *beneath) close() (node Node, cols []column, at func(int) int) {
	in := x.s.rel
	n := len(in.cols)
	at = func(col int) int {
		if col < 0 {
			return n - col - 1
		}
		return col
	}
	cols = append([]column(nil), in.cols...)
	if len(x.extras) == 0 {
		return in.node, cols, at
	}
	var exprs []*expr.Expr
	var names []string
	for i := range in.cols {
		exprs, names = append(exprs, expr.Column(i, in.field(i))), append(names, in.cols[i].name)
	}
	for i, e := range x.extras {
		exprs, names = append(exprs, e), append(names, x.names[i])
		cols = append(cols, column{name: x.names[i], typ: e.Type, hidden: true, sealed: true, number: -1})
	}
	return NewProject(in.node, exprs, names), cols, at
}

// ties are the keys that settle ties behind an order: none when the log does (N3).
func (x *beneath) ties(direct bool, items []item) (keys []Sort, byLog bool, then []int) {
	switch {
	case direct && x.s.groups == nil:
		for i, c := range x.s.rel.cols {
			if c.role.bound() {
				then = append(then, i)
			}
		}
		return nil, true, then
	case x.s.groups != nil:
		for _, it := range items {
			if findOver(it.expr) == nil {
				keys = append(keys, Sort{x.column(it.expr), false, true})
			}
		}
	default:
		for _, i := range visible(x.s.rel) {
			keys = append(keys, Sort{i, false, true})
		}
	}
	return keys, false, nil
}

// orderBy binds an order; keys that come again are left out.
func (x *beneath) orderBy(keys []sortKey) []Sort {
	var out []Sort
	for _, k := range keys {
		out = append(out, Sort{x.column(x.s.aliased(k.expr)), k.desc, k.nullsLast})
	}
	return withoutRepeats(out)
}

// partitionBy binds PARTITION BY and says whether a window's bound is in it.
func (x *beneath) partitionBy(list []sqlExpr) (cols []int, windowed bool) {
	for _, e := range list {
		col := x.column(x.s.aliased(e))
		if col >= 0 {
			r := x.s.rel.cols[col].role
			windowed = windowed || r.bound()
		}
		cols = append(cols, col)
	}
	return cols, windowed
}

func withoutRepeats(keys []Sort) []Sort {
	seen := map[int]bool{}
	var out []Sort
	for _, k := range keys {
		if !seen[k.Col] {
			seen[k.Col] = true
			out = append(out, k)
		}
	}
	return out
}

// call binds a window function and returns the column that stands for it.
func (o *overs) call(e *over) *expr.Expr {
	key := canonical(e, o.below.s.base())
	i, ok := o.index[key]
	if !ok {
		i = len(o.list)
		o.index[key] = i
		o.list = append(o.list, boundOver{})
		o.list[i] = o.bind(e)
	}
	c := o.list[i].call
	return expr.Column(numberColumn+i, row.Field{Name: c.Text, Type: c.Type})
}

func (o *overs) bind(e *over) boundOver {
	x := o.below
	out := boundOver{call: OverCall{Name: e.name, Filter: absent, Default: absent, Offset: 1, IgnoreNulls: e.ignoreNull, Text: textOf(e)}}
	out.partition, out.windowed = x.partitionBy(e.partitions)
	out.order = x.orderBy(e.order)
	out.peers = len(out.order)
	spec := &over{partitions: e.partitions, order: e.order}
	out.spec = canonical(spec, x.s.base())
	c := &out.call
	c.Frame = o.frame(e)
	var args []*expr.Expr
	for _, a := range e.args {
		args = append(args, x.b.value(a, x.s))
	}
	plainCall := func(n int) {
		if len(args) != n || e.filter != nil || e.distinct {
			refuse(problem.New(422, "bad_sql", "%s OVER takes %d arguments, without DISTINCT and FILTER", e.name, n).At(e.at))
		}
	}
	switch e.name {
	case "row_number", "rank", "dense_rank":
		plainCall(0)
		c.Type = row.Scalar(row.BigInt)
	case "percent_rank", "cume_dist":
		plainCall(0)
		c.Type = row.Scalar(row.Double)
	case "ntile":
		plainCall(1)
		c.Type = row.Scalar(row.BigInt)
		c.Offset = x.positive(e, e.args[0])
	case "nth_value":
		plainCall(2)
		c.Type = args[0].Type
		c.Args = []int{x.column(e.args[0])}
		c.Offset = x.positive(e, e.args[1])
	case "lag", "lead":
		plainCall(1)
		c.Type = args[0].Type
		c.Args = []int{x.column(e.args[0])}
		if e.offset != nil {
			c.Offset = x.b.count(e.offset, e.name)
		}
		if e.deflt != nil {
			d := x.b.value(e.deflt, x.s)
			if !d.Type.Equal(c.Type) {
				d = x.b.made(e.deflt)(expr.Cast(d, c.Type, false))
			}
			c.Default = x.add(d, textOf(e.deflt))
		}
	case "first_value", "last_value", "first", "last":
		if e.name == "first" || e.name == "last" {
			c.Name += "_value"
		}
		plainCall(1)
		c.Type = args[0].Type
		c.Args = []int{x.column(e.args[0])}
	default:
		if !isAggregate(e.name) {
			refuse(unsupported(e.at, "%s OVER isn't supported in a view", e.name).
				WithHint("the window functions are %s and the aggregates", strings.Join(WindowFunctions, ", ")))
		}
		o.aggregate(e, c, args)
	}
	o.exclude(e, c)
	o.checkPeers(e, c)
	if c.IgnoreNulls && c.Func != nil {
		refuse(problem.New(422, "bad_sql", "%s takes no IGNORE NULLS", e.name).At(e.at))
	}
	return out
}

// positive is the value of a constant that a window function counts with.
func (x *beneath) positive(e *over, n sqlExpr) int64 {
	count := x.b.count(n, e.name)
	if count < 1 {
		refuse(problem.New(422, "bad_sql", "%s takes a number of at least 1", e.name).At(place(n, e.at)))
	}
	return count
}

// checkPeers refuses what depends on the order of rows that are equal in the window's: a frame that
// begins or ends with all of them says nothing of it, and DuckDB can't be told (N3).
func (o *overs) checkPeers(e *over, c *OverCall) {
	ordered := c.Func != nil && c.Func.Ordered
	if ordered && e.distinct {
		refuse(unsupported(e.at, "%s(DISTINCT …) OVER isn't supported in a view", e.name).
			WithHint("which of several equal values comes first is open; leave DISTINCT out, or group in a subquery"))
	}
	whole := c.Frame.Start.Unbounded && c.Frame.End.Unbounded
	if e.name == "mode" && (!whole || c.Frame.Exclude != ExcludeNothing) {
		// Of two values that are there as often, DuckDB keeps the one that was the mode of the row before.
		refuse(unsupported(e.at, "mode over a frame that moves isn't supported in a view").
			WithHint("take it of the whole partition: leave out ORDER BY, or write ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"))
	}
	if c.Frame.Rows || whole {
		return
	}
	if c.Func == nil && c.Type.Kind != row.Null && (c.Frame.Start.Distance || c.Frame.End.Distance) && strings.HasSuffix(c.Name, "_value") {
		refuse(unsupported(e.at, "%s over a RANGE with a distance isn't supported in a view: equal rows have no order there", e.name).
			WithHint("use ROWS, or min and max"))
	}
	if c.Name == "nth_value" && !c.Frame.Start.Unbounded {
		refuse(unsupported(e.at, "nth_value over a frame that begins with the rows equal to the current one in ORDER BY isn't supported in a view: their order is open").
			WithHint("use ROWS"))
	}
	if ordered {
		refuse(unsupported(e.at, "%s over a frame that ends with the rows equal to the current one in ORDER BY isn't supported in a view: their order is open", e.name).
			WithHint("write ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW, which takes rows one by one, or UNBOUNDED FOLLOWING for the whole partition"))
	}
}

// exclude binds EXCLUDE. Peers are peers in a RANGE frame alone: in ROWS the log has settled which of
// them comes first (N3).
func (o *overs) exclude(e *over, c *OverCall) {
	if e.exclude == "NO_OTHER" {
		return
	}
	c.Frame.Exclude = Exclusion(strings.ToLower(strings.ReplaceAll(e.exclude, "_", " ")))
	if c.Func == nil || c.Frame.Exclude != ExcludeCurrent && (c.Frame.Rows || c.Func.Ordered) {
		refuse(unsupported(e.at, "EXCLUDE %s isn't supported with %s over this frame in a view", strings.ToUpper(string(c.Frame.Exclude)), e.name).
			WithHint("EXCLUDE CURRENT ROW goes with every aggregate, EXCLUDE GROUP and TIES with aggregates that follow no order, over RANGE"))
	}
}

// distance is the column of the value that the order has at a distance from the row's own.
func (o *overs) distance(e *over, offset sqlExpr, preceding bool) Bound {
	x := o.below
	at := place(offset, e.at)
	if len(e.order) != 1 {
		refuse(problem.New(422, "bad_sql", "a RANGE with a distance needs exactly one ORDER BY expression").At(at))
	}
	d := x.b.value(offset, x.s)
	if !d.IsConst() || d.ConstValue() == nil || d.ConstValue().IsNull(0) {
		refuse(unsupported(at, "a frame needs a constant distance"))
	}
	switch sign := signOf(d.ConstValue()); {
	case sign < 0:
		refuse(problem.New(422, "bad_sql", "a frame can't begin or end at a negative distance").At(at))
	case sign == 0: // DuckDB then counts some of the rows that are equal in the order, and some not.
		refuse(unsupported(at, "a frame that begins or ends at a distance of 0 isn't supported in a view").
			WithHint("write CURRENT ROW, which in RANGE means all rows equal to it in ORDER BY"))
	}
	k := e.order[0]
	name := "+"
	if preceding != k.desc {
		name = "-"
	}
	key := x.s.aliased(k.expr)
	reached := &call{exprHead: exprHead{at: at}, name: name, args: []sqlExpr{key, offset}, operator: true}
	from, to := x.b.value(key, x.s).Type, x.b.value(reached, x.s).Type
	if !from.Equal(to) && !(from.IsInteger() && to.IsInteger()) && !(from.Kind == row.Decimal && to.Kind == row.Decimal && from.Scale == to.Scale) {
		refuse(unsupported(at, "a RANGE over %s with a distance gives %s; that isn't supported in a view", from, to).
			WithHint("convert the ORDER BY expression with a cast, as in ts::TIMESTAMP, so that both have one type"))
	}
	return Bound{Distance: true, Value: x.column(reached), Text: textOf(offset) + map[bool]string{true: " preceding", false: " following"}[preceding]}
}

// signOf is negative, zero or positive as v's only value is; a NaN is negative.
func signOf(v *row.Vector) int {
	switch v.Type.Class() {
	case row.Float64Class:
		if !(v.F64[0] >= 0) {
			return -1
		}
		return cmp.Compare(v.F64[0], 0)
	case row.Int128Class:
		if v.Type.Kind == row.Interval {
			return row.CompareIntervals(v.I128[0], row.MakeInterval(0, 0, 0))
		}
		return v.I128[0].Sign()
	case row.Int64Class:
		return cmp.Compare(v.I64[0], 0)
	}
	return 1
}

// aggregate binds an aggregate as a window function.
func (o *overs) aggregate(e *over, c *OverCall, args []*expr.Expr) {
	x := o.below
	c.Spec = agg.Spec{Name: e.name, Distinct: e.distinct, Retract: true}
	if e.name == "count_star" {
		c.Spec.Name = "count"
	}
	for _, a := range args {
		c.Spec.Args = append(c.Spec.Args, a.Type)
		var value *row.Vector
		if a.IsConst() {
			value = a.ConstValue()
		}
		c.Spec.Const = append(c.Spec.Const, value)
	}
	f, err := agg.New(c.Spec)
	if err != nil {
		refuse(aggregateProblem(err, &call{exprHead: e.exprHead, name: e.name}))
	}
	c.Func, c.Type = f, f.Type
	for i, want := range f.Args {
		a := args[i]
		if !a.Type.Equal(want) {
			a = x.b.made(e)(expr.Cast(a, want, false))
		}
		c.Args = append(c.Args, x.add(a, textOf(e.args[i])))
	}
	if e.filter != nil {
		c.Filter = x.add(x.b.predicate(e.filter, x.s), textOf(e.filter))
	}
}

// best reports whether a condition keeps the rows of a partition alone that have its greatest or least
// value, as in price = max(price) OVER (PARTITION BY …), and nothing else is asked of the others. s is
// the condition's scope.
func (o *overs) best(condition sqlExpr, s *scope) bool {
	c, ok := condition.(*comparison)
	if !ok || c.op != "=" || len(o.list) != 1 || !o.direct || s.groups != nil {
		return false
	}
	value, extreme := s.follow(c.left), s.follow(c.right)
	if _, ok := value.(*over); ok {
		value, extreme = extreme, value
	}
	w, ok := extreme.(*over)
	if !ok || w.name != "max" && w.name != "min" || len(w.args) != 1 {
		return false
	}
	only := o.list[0].call
	whole := only.Frame == Frame{Start: Bound{Unbounded: true}, End: Bound{Unbounded: true}}
	return whole && only.Filter == absent && only.Type.Class() == row.Int64Class &&
		canonical(value, s.base()) == canonical(w.args[0], s.base())
}

// frame reads DuckDB's frame.
func (o *overs) frame(e *over) Frame {
	var f Frame
	bound := func(kind string, offset sqlExpr) Bound {
		switch kind {
		case "UNBOUNDED_PRECEDING", "UNBOUNDED_FOLLOWING":
			return Bound{Unbounded: true}
		case "CURRENT_ROW_RANGE":
			return Bound{}
		case "CURRENT_ROW_ROWS":
			f.Rows = true
			return Bound{}
		case "EXPR_PRECEDING_ROWS", "EXPR_FOLLOWING_ROWS":
			f.Rows = true
			n := o.below.b.count(offset, "a frame")
			if n < 0 {
				refuse(problem.New(422, "bad_sql", "a frame can't begin or end a negative number of rows away").At(place(offset, e.at)))
			}
			if kind == "EXPR_PRECEDING_ROWS" {
				n = -n
			}
			return Bound{Offset: n}
		case "EXPR_PRECEDING_RANGE", "EXPR_FOLLOWING_RANGE":
			return o.distance(e, offset, kind == "EXPR_PRECEDING_RANGE")
		}
		refuse(unsupported(place(offset, e.at), "this frame isn't supported in a view").
			WithHint("use ROWS, RANGE, or slide(stream, time, size, key) for the events of the last minutes"))
		return Bound{}
	}
	f.Start, f.End = bound(e.start, e.startExpr), bound(e.end, e.endExpr)
	if len(e.order) == 0 && !f.Rows { // all rows of the partition are peers
		f.Start.Unbounded, f.End.Unbounded = true, true
	}
	return f
}

// close makes the Over nodes, one for each PARTITION BY and ORDER BY, when everything has been
// bound, and returns their relation and how the columns that stand for calls, and for what was
// carried beneath, are numbered in it.
func (o *overs) close(done func()) (*relation, func(int) int) {
	ties, byLog, then := o.below.ties(o.direct, o.items)
	done()
	in := o.below.s.rel
	node, cols, at := o.below.close()
	out := &relation{cols: cols, key: in.key, never: in.never, shrinks: true}
	place := make([]int, len(o.list))
	made := map[string]bool{}
	for _, first := range o.list {
		if made[first.spec] {
			continue
		}
		made[first.spec] = true
		var calls []OverCall
		for i, l := range o.list {
			if l.spec != first.spec {
				continue
			}
			c := l.call
			args := make([]int, len(c.Args))
			for k, a := range c.Args {
				args[k] = at(a)
			}
			c.Args = args
			c.Default, c.Filter = optional(c.Default, at), optional(c.Filter, at)
			for _, b := range []*Bound{&c.Frame.Start, &c.Frame.End} {
				if b.Distance {
					b.Value = at(b.Value)
				}
			}
			place[i] = len(out.cols)
			out.cols = append(out.cols, column{name: c.Text, typ: c.Type, hidden: true, sealed: true, number: -1})
			calls = append(calls, c)
		}
		n := NewOver(node, calls)
		n.Peers, n.ByLog, n.Then, n.Windowed = first.peers, byLog, then, first.windowed
		for _, p := range first.partition {
			n.Partition = append(n.Partition, at(p))
		}
		for _, k := range withoutRepeats(append(append([]Sort(nil), first.order...), ties...)) {
			k.Col = at(k.Col)
			n.Order = append(n.Order, k)
		}
		node = n
		if out.never == "" && !first.windowed {
			out.never = fmt.Sprintf("%s looks at rows of all windows: its PARTITION BY holds neither window_start nor window_end", calls[0].Name)
		}
	}
	out.node = node
	return out, func(c int) int {
		if c >= numberColumn {
			return place[c-numberColumn]
		}
		return carried(c, at)
	}
}
