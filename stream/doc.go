// Package stream defines streams of events and the log that keeps them.
//
// A stream is a named, partitioned, append-only sequence of events. The log of all streams has
// one total order: every batch that is appended, and every control record (a partition went idle,
// the clock of a silent stream, an advance of the watermark), gets the next [Sequence]. So whatever
// is computed from the log is a pure function of a prefix of it.
//
// The contract is [Log]; stream/pebblelog is the embedded driver and stream/logtest the suite that
// every driver passes. [Registry] keeps the streams' configuration and columns.
//
//	I1  Offsets of a partition rise by one, without gaps, and are never used twice.
//	I2  Append returns after the fsync of the commit that holds the events (unless NoSync).
//	I3  A request lies in one commit, whole or not at all.
//	I4  What a reader has seen is durable.
//	I5  Sequences rise; append times never go back in the order of sequences.
package stream
