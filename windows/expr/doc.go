// Package expr holds compiled SQL expressions: what stands between a batch of rows and the vector
// of values that a SELECT item, a WHERE or a GROUP BY needs.
//
// An [Expr] is built once, when a view is made, from columns and literals upwards. Each
// constructor binds as DuckDB 1.1.3 binds: it looks for the overload with the least casts, adds
// those casts, folds constants, and refuses what DuckDB refuses, with a [Mismatch] or [Unknown].
// What comes out is a tree of kernels. A kernel is a loop over typed vectors: there is no
// interface value, no reflection and no allocation a row.
//
//	E1  The value of a row depends on that row alone, so batches may be cut anywhere.
//	E2  A row that fails (overflow, cast) is noted in [Errors] and its value is NULL; the other
//	    rows of the batch are not touched. Nothing in here panics on data.
//	E3  AND, OR, CASE and COALESCE compute a branch only for the rows that take it, so an error
//	    in a branch that is not taken is none.
//	E4  Types and values are those of DuckDB 1.1.3: testdata/golden.tsv holds hundreds of
//	    expressions over a small table as DuckDB answered them.
//
// An Expr owns scratch memory for its results: it belongs to one goroutine, and a result is valid
// until the next Eval of the same Expr. Clone gives another goroutine its own.
package expr
