// Package verify proves a view's numbers: it works out from the log what the view's rows should be
// at the view's own position, and compares every row. Nothing of the view's state goes into that.
//
//	claim of the view ── its rows at position P ─────────────────────────────┐
//	log up to P ──▶ windows/judge ── what the windows refuse, what fails      │
//	            ──▶ tables of this one request ──▶ DuckDB runs the view's SQL ──▶ row by row
//
// Invariants:
//
//	I1  Both sides stand on the same events: those up to the view's position, no more, no less (T1).
//	I2  What the view left out is worked out from the log by the second judge; late_<view> and the
//	    list of row errors are compared with it, and are no input. Only events at which an operator
//	    panicked (E2) are taken from the view's list: nothing else can tell them.
//	I3  Where the batch side can't know the view's rows, the answer is "cannot_tell" with the
//	    reason, never a guess (R4).
//	I4  Values are compared exactly, but for DOUBLE and FLOAT, whose sums depend on the order of
//	    addition: these may differ by 1e-9 of their size.
//	I5  One comparison runs at a time, and its memory is bounded: the view is read from a snapshot of
//	    the store; its rows and those of the batch answer are paired part by part, what is not in
//	    work lying in files; late records and row errors are compared batch by batch of the log;
//	    of what differs the first MaxDifferences are kept, and the count. The events' columns that
//	    the view reads are in DuckDB, within DuckDB's limit; a judge holds the bounds of sessions.
package verify
