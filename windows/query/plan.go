package query

import (
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/agg"
	"tidemark/windows/expr"
)

// Plan is a view's SQL, bound to streams and types.
type Plan struct {
	// SQL is the text that the plan was made from.
	SQL string
	// Sources are the streams that the plan reads, each once, in the order of the text.
	Sources []Source
	// Root gives the view's rows.
	Root Node
	// Columns are the columns that users see; Visible says where they lie in Root's.
	Columns []row.Field
	Visible []int
	// Dimensions says of each of Columns whether it is part of the row key; the others are measures.
	Dimensions []bool
	// Key are the columns of Root that make the row key (C1), selected or not. An aggregate
	// without GROUP BY has one row and an empty key.
	Key []int
	// PassThrough says that every row follows from one event alone, needs no memory, and is final
	// at once (C1).
	PassThrough bool
	// NeverFinal says that no row of the view ever is final (C2), and NeverFinalWhy why.
	NeverFinal    bool
	NeverFinalWhy string
	// Time is the clock that the window functions follow; EventTime when there is none.
	Time TimeKind
	// Assigns is how many window functions the plan has; they are numbered from 0 (T1).
	Assigns int
	// Beneath are the views that are parts of the plan, by name. Their window functions are
	// numbered behind the text's own.
	Beneath []Beneath
	// Warnings are shown with the view, such as unbounded state.
	Warnings []Warning
}

// TimeKind is the clock that a view's windows follow.
type TimeKind uint8

// The two clocks. One view has one of them (W8).
const (
	EventTime TimeKind = iota
	AppendTime
)

func (k TimeKind) String() string { return [...]string{"event time", "append time"}[k] }

// Warning is something that a view's owner should know and that is no error.
type Warning struct {
	Code   string `json:"code"` // such as unbounded_state
	Detail string `json:"detail"`
}

// Source is a relation that a plan reads.
type Source struct {
	Name   string
	Stream stream.ID
	// Cols are all columns of it that the plan's scans read.
	Cols []ScanCol
	// Pinned are the numbers of the stream's columns that the plan depends on, sorted: their types
	// must stay (R1).
	Pinned []int
	// Via are the views, by name, whose own text reads the stream; the plan's own text has no name.
	Via []string
	// Table: the stream gives no watermark and holds none back, because the plan reads it through
	// tables alone (W6).
	Table bool
}

// ScanCol is a column that a scan gives.
type ScanCol struct {
	Column int      // the stream's column number; −1 for a pseudo column
	Pseudo string   // one of the Pseudo constants, or empty
	Name   string   // as the stream spells it
	Type   row.Type // as it was when the plan was made
}

// The columns that every event has besides its own. They are no part of `*`.
const (
	PseudoTime       = "_time"        // TIMESTAMP, the event time
	PseudoAppendTime = "_append_time" // TIMESTAMP, when the log took the event
	PseudoPartition  = "_partition"   // BIGINT
	PseudoOffset     = "_offset"      // BIGINT
	PseudoKey        = "_key"         // VARCHAR
	PseudoSequence   = "_sequence"    // BIGINT, its batch's place in the log's total order
)

// pseudoColumns are the pseudo columns with their types.
var pseudoColumns = []row.Field{
	{Name: PseudoTime, Type: row.Scalar(row.Timestamp)},
	{Name: PseudoAppendTime, Type: row.Scalar(row.Timestamp)},
	{Name: PseudoPartition, Type: row.Scalar(row.BigInt)},
	{Name: PseudoOffset, Type: row.Scalar(row.BigInt)},
	{Name: PseudoKey, Type: row.Scalar(row.Varchar)},
	{Name: PseudoSequence, Type: row.Scalar(row.BigInt)},
}

// The columns that a window function adds.
const (
	WindowStart = "window_start"
	WindowEnd   = "window_end"
)

// Node is an operator of a plan. Column numbers inside a node are those of its input, unless said
// otherwise.
type Node interface {
	// Fields are the columns that the node gives. The slice is shared: read only.
	Fields() []row.Field
	// Inputs are the nodes that it reads.
	Inputs() []Node
}

// Nodes are all nodes of a plan, each once: the root first, then depth first through its inputs.
func Nodes(root Node) []Node {
	var out []Node
	seen := map[Node]bool{}
	var visit func(n Node)
	visit = func(n Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		out = append(out, n)
		for _, in := range n.Inputs() {
			visit(in)
		}
	}
	visit(root)
	return out
}

// Scan gives the events of a stream.
type Scan struct {
	Source int // index in Plan.Sources
	Cols   []ScanCol

	fields []row.Field
}

// Assign gives each row once for each window that it lies in. It adds window_start and window_end
// (TIMESTAMP) behind the input's columns.
type Assign struct {
	In   Node
	Kind windows.Kind
	// TimeCol is the column of the row's time, TIMESTAMP and never null.
	TimeCol int
	// Size is the window's size; a session's gap.
	Size windows.Interval
	// Slide is the distance between the starts of two windows; hop only.
	Slide windows.Interval
	// Keys are the columns that sessions and slides are made by; rows of one key share windows.
	Keys []int
	// Zone is the time zone whose calendar the windows follow; nil: UTC. Tumble only (Z1).
	Zone *windows.Zone
	// Number is the function's place in the text, from 0.
	Number int
	// Where is the WHERE of the SELECT that reads the function, over this node's own columns, or
	// nil. Only rows that pass are given out, and only they can be late (L1).
	Where  *expr.Expr
	Unsure Unsure // of Where

	fields []row.Field
}

// Filter gives the rows for which Pred is true.
type Filter struct {
	In     Node
	Pred   *expr.Expr
	Unsure Unsure
}

// Project computes one column for each expression.
type Project struct {
	In    Node
	Exprs []*expr.Expr
	Names []string

	fields []row.Field
}

// Aggregate gives one row for each group of equal keys: the keys' columns, then a column for each
// call. Without keys it has exactly one row, also of no input (N1).
type Aggregate struct {
	In    Node
	Keys  []int
	Calls []AggCall
	// Windowed says that a key is a window's bound, so that a group is final when its latest
	// window is (C2). Without, no group ever is.
	Windowed bool
	// Ties are the columns by which rows that are no events follow each other for calls whose
	// Func is Ordered, left to right, NULLS LAST (N3). Nil: the rows are events and follow the log.
	Ties []int
	// Then, where rows are events, are the columns by which those of one event follow each other,
	// ascending, for the same calls: their windows' bounds. Nil: there is one in a group at most.
	Then []int

	fields []row.Field
}

// AggCall is one aggregate function of an Aggregate.
type AggCall struct {
	Func   *agg.Func
	Spec   agg.Spec
	Args   []int // columns of the input
	Filter int   // BOOLEAN column of the input: only rows where it is true count; −1 without
	Text   string
}

// Fields implements Node.
func (n *Scan) Fields() []row.Field { return n.fields }

// Fields implements Node.
func (n *Assign) Fields() []row.Field { return n.fields }

// Fields implements Node.
func (n *Filter) Fields() []row.Field { return n.In.Fields() }

// Fields implements Node.
func (n *Project) Fields() []row.Field { return n.fields }

// Fields implements Node.
func (n *Aggregate) Fields() []row.Field { return n.fields }

// Inputs implements Node.
func (n *Scan) Inputs() []Node { return nil }

// Inputs implements Node.
func (n *Assign) Inputs() []Node { return []Node{n.In} }

// Inputs implements Node.
func (n *Filter) Inputs() []Node { return []Node{n.In} }

// Inputs implements Node.
func (n *Project) Inputs() []Node { return []Node{n.In} }

// Inputs implements Node.
func (n *Aggregate) Inputs() []Node { return []Node{n.In} }

// NewScan returns a scan of columns of a source.
func NewScan(source int, cols []ScanCol) *Scan {
	n := &Scan{Source: source, Cols: cols}
	for _, c := range cols {
		n.fields = append(n.fields, row.Field{Name: c.Name, Type: c.Type})
	}
	return n
}

// NewAssign returns a window function over a node.
func NewAssign(in Node, kind windows.Kind, timeCol int, size, slide windows.Interval) *Assign {
	n := &Assign{In: in, Kind: kind, TimeCol: timeCol, Size: size, Slide: slide}
	n.fields = append(n.fields, in.Fields()...)
	ts := row.Scalar(row.Timestamp)
	n.fields = append(n.fields, row.Field{Name: WindowStart, Type: ts}, row.Field{Name: WindowEnd, Type: ts})
	return n
}

// apart is the column by which the windows of one event differ: their start. −1 where an event has
// one window at most, or where there is no function.
func (n *Assign) apart() int {
	if n == nil || n.Kind != windows.Hop && n.Kind != windows.Slide {
		return -1
	}
	return len(n.In.Fields())
}

// regular reports whether all windows are equally long, so that one bound tells the other.
func (n *Assign) regular() bool {
	_, ok := n.Size.Span()
	return ok
}

// Stacked reports whether the function's time is a bound of a window beneath it: then nothing is
// late for it, because lateness is judged where events enter (V1).
func (n *Assign) Stacked() bool { return isBound(n.In, n.TimeCol) }

// isBound reports whether a column of a node is a window's bound, passed on unchanged.
func isBound(n Node, col int) bool {
	switch n := n.(type) {
	case *Assign:
		return col >= len(n.In.Fields()) || isBound(n.In, col)
	case *Project:
		c := n.Exprs[col].ColumnNumber()
		return c >= 0 && isBound(n.In, c)
	case *Aggregate:
		return col < len(n.Keys) && isBound(n.In, n.Keys[col])
	case *Union:
		for _, in := range n.Ins {
			if !isBound(in, col) {
				return false
			}
		}
		return true
	case *Filter, *FinalOnly, *TopN, *Over:
		in := n.Inputs()[0]
		return col < len(in.Fields()) && isBound(in, col)
	}
	return false
}

// NewProject returns a projection; names name the expressions one by one.
func NewProject(in Node, exprs []*expr.Expr, names []string) *Project {
	n := &Project{In: in, Exprs: exprs, Names: names}
	for i, e := range exprs {
		n.fields = append(n.fields, row.Field{Name: names[i], Type: e.Type})
	}
	return n
}

// NewAggregate returns an aggregation.
func NewAggregate(in Node, keys []int, calls []AggCall, windowed bool) *Aggregate {
	n := &Aggregate{In: in, Keys: keys, Calls: calls, Windowed: windowed}
	for _, k := range keys {
		n.fields = append(n.fields, in.Fields()[k])
	}
	for _, c := range calls {
		n.fields = append(n.fields, row.Field{Name: c.Text, Type: c.Func.Type})
	}
	return n
}

// TopN gives the first rows of each partition: those whose row_number() is at most Limit.
type TopN struct {
	In Node
	// Partition are the columns that a partition's rows agree in; NULL is one value. Empty: one
	// partition of all rows.
	Partition []int
	// Order is the order within a partition.
	Order []Sort
	// ByLog says that rows equal in Order follow the log (sequence, then offset), earliest first,
	// and rows of one event the columns Then, ascending: their windows' bounds. Without, Order
	// already ends with the columns that settle ties (N3).
	ByLog bool
	Then  []int
	Limit int64
	// Numbered adds the row's number as a BIGINT column behind the input's.
	Numbered bool
	// Windowed says that a column of Partition is a window's bound, so that a partition's rows are
	// final when its latest window is (C2). Without, none ever is.
	Windowed bool

	fields []row.Field
}

// Sort is one key of an order.
type Sort struct {
	Col       int
	Desc      bool
	NullsLast bool
}

// Union gives the rows of all its inputs, which have the same columns.
type Union struct {
	Ins []Node
}

// Fields implements Node.
func (n *TopN) Fields() []row.Field { return n.fields }

// Fields implements Node.
func (n *Union) Fields() []row.Field { return n.Ins[0].Fields() }

// Inputs implements Node.
func (n *TopN) Inputs() []Node { return []Node{n.In} }

// Inputs implements Node.
func (n *Union) Inputs() []Node { return n.Ins }

// NewTopN returns a TopN; the caller fills Partition, Order and the rest.
func NewTopN(in Node, limit int64, numbered bool) *TopN {
	n := &TopN{In: in, Limit: limit, Numbered: numbered, fields: in.Fields()}
	if numbered {
		n.fields = append(n.fields[:len(n.fields):len(n.fields)], row.Field{Name: "row_number()", Type: row.Scalar(row.BigInt)})
	}
	return n
}
