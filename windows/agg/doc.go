// Package agg holds the aggregates: what sum, count, max and the like keep for each group, and how
// rows are added, taken away and merged.
//
// [New] binds a name and argument types as DuckDB 1.1.3 does and gives a [Func]. Its NewColumn
// makes a [Column]: the states of that one aggregate for many groups, in slots whose numbers the
// caller chooses. So the hot loop of an aggregation is one call a batch and aggregate, over typed
// vectors, and not one call a row.
//
//	A1  Results are DuckDB's: BIGINT sums in 128 bits, DECIMAL sums exact, avg a DOUBLE, NULL
//	    arguments ignored (count(*), first, last and list aside), NULL for an empty group.
//	A2  A weight of −1 takes away what +1 added. Only a column whose Spec says Retract can do
//	    that; it may keep more (max: all values with their counts).
//	A3  Merging two slots gives what adding all rows to one would have given, in any order. With
//	    floats this holds to rounding: sums of DOUBLE carry their error along (Kahan, Neumaier);
//	    deviations whose rows may be taken away are exact.
//	A4  What depends on order follows the rows' ranks, the order of the log, earliest first, and
//	    not the order of the calls (N3).
//	A5  The encoding of a state is frozen and starts with its version.
//	A6  What a [Differential] column noted, encoded piece by piece and decoded one after the other
//	    behind what was there before, gives the state.
//
// A Column belongs to one goroutine.
package agg
