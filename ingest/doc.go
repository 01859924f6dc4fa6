// Package ingest turns bodies of requests into events of the log: it finds the events in a body,
// reads each once, straight into the typed columns of its stream, and appends them.
//
//	body   takes off gzip or zstd under a bound, and says which framing the content type means
//	frame  finds the events: one object, an array, or lines
//	decode reads one event into columns, by the stream's layout, expecting the last event's keys
//	learn  finds the columns that events bring to a stream whose schema is inferred
//	post   the spine: idempotency, decoding, learning, appending, the answer
//
// Invariants:
//
//	I1  One bad event never fails its neighbours: it becomes a dead letter with its raw bytes.
//	    A body that is no JSON, ends inside a value or is over a limit appends nothing at all.
//	I2  What is accepted is well-formed JSON by encoding/json's verdict, and valid UTF-8.
//	I3  No number passes through a double on its way to another type, nothing is rounded in
//	    silence but a number into a column that was declared FLOAT or DOUBLE.
//	I4  The payload is kept byte for byte as it came.
//	I5  The partition of a key (xxHash64 of its text, modulo the partitions) and the hash of an id
//	    never change: order per key and deduplication stand on them across versions.
//	I6  A column exists, durably, before an event is appended that has a value for it.
//
// The strings in the columns of a request share one copy of its body.
package ingest
