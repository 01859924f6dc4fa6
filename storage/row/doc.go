// Package row holds the data that flows through Tidemark: typed columns of values.
//
// A [Batch] is a set of rows stored as one [Vector] a column. Every value has a [Type] of
// DuckDB's type system and lies in one of four physical classes, so that code over vectors
// needs four cases and not twenty:
//
//	Int64   BOOLEAN (0, 1), TINYINT … BIGINT, DATE (days since 1970), TIMESTAMP
//	        (microseconds since 1970, UTC), DECIMAL up to 18 digits (unscaled)
//	Float64 FLOAT (rounded to 32 bits), DOUBLE
//	Int128  HUGEINT, DECIMAL of 19 to 38 digits (unscaled), INTERVAL (months, days, micros)
//	String  VARCHAR, JSON, BLOB, and the nested types: a LIST or STRUCT value is the
//	        order-preserving encoding ([AppendKey]) of its elements
//
// Invariants:
//
//	I1  A vector's Nulls is empty when no value is null; a null slot holds the zero value.
//	I2  A batch's vectors all have the length of the batch. Weights is nil when all are +1.
//	I3  Two values are equal (SQL's IS NOT DISTINCT FROM) if and only if their keys are equal,
//	    and they are ordered as their keys are ordered (NULLS FIRST, NaN above all numbers).
//	I4  The column codec and the key encoding are frozen: what they wrote once is read for ever.
//
// The package imports nothing of Tidemark's.
package row
