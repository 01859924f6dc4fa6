// Package query turns the SQL of a view into a plan.
//
// DuckDB parses the text (the caller passes that as a [ParseSQL]), so there is one dialect and no
// second grammar. What comes back is DuckDB's syntax tree as JSON; ast.go decodes it, strictly, and
// is the only file that knows its shapes. The binder then finds every name and type, once, with the
// constructors of windows/expr and windows/agg, and builds a [Plan]: a tree of [Node] that
// windows/engine runs and that knows nothing of SQL any more.
//
// The same text also runs on history. [Batch] writes its window functions as plain SQL, in the
// tree, and leaves the rest as it is.
//
//	Q1  Never a silently different answer. What is not understood, a node, a member, a flag, is
//	    refused by its name and its place in the text, with the next step where there is one.
//	Q2  A plan is a pure function of the text and of the relations as they are at that moment.
//	    `*` is expanded once; a column that appears later changes no plan.
//	Q3  The columns of the row key (C1) are in the root's columns, selected or not.
//	Q4  A window function's time is the stream's own time (W9), whatever it is called on its way.
//	Q5  [Batch] and [Compile] take the same text and mean the same rows.
//	Q6  A view that is read is a part of the plan, with its own options, not a stream of changes: so
//	    a plan reads streams alone and what it gives is a function of the log. What is read twice,
//	    view or CTE, is one operator.
//
// The package reads no clock, opens nothing and is safe for concurrent use; the expressions inside
// a plan belong to one goroutine.
package query
