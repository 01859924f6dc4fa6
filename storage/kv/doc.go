// Package kv is the one ordered, atomic store that everything durable lies in, and the only place
// that opens Pebble.
//
// Keys begin with one byte that says whose they are: a [Space]. A [Batch] may touch any spaces and
// is written whole or not at all; so "new state, how far the input is read, and the changes that
// came out" is one write.
//
//	I1  A batch is on disk whole or absent, after every crash.
//	I2  Batches become visible, and durable, in the order in which they were committed.
//	I3  A new store has the newest format, which notices a damaged log; opening a store never
//	    raises its format.
//
// A batch is visible to readers before its fsync has ended. Who promises durability to a reader
// bounds the read by what is known to be synced, as stream/pebblelog does.
//
// Pebble ends the process when its own files fail under it: it can't go on, and going on would
// risk what was acknowledged. The last line on standard error then says in one sentence what
// happened and what to do.
package kv
