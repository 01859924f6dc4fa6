// Package verify proves a view's numbers: it has the view's own SQL run over history, up to the
// view's own position, and compares every row with the rows that the view holds.
//
//	snapshot of the view ── position P, offsets ──▶ wait until history holds every event below them
//	                                            ──▶ the SQL over events up to P, in DuckDB
//	                                            ──▶ row by row: equal, different, or can't tell
//
//	I1  Both sides stand on the same events: those up to the view's position, no more, no less.
//	I2  Where the batch side can't know what the view left out (late events that it refused, rows
//	    that failed, rows that were sealed), the answer is "cannot_tell", never a guess.
//	I3  Numbers are compared exactly, but for DOUBLE and FLOAT, whose sums depend on the order of
//	    addition: these may differ by 1e-9 of their size.
package verify
