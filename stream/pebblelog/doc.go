// Package pebblelog keeps the log of all streams in one Pebble store: the embedded driver of
// [stream.Log].
//
// # The road of a request
//
//	Append ─▶ queue ─▶ sequencer ─▶ store (visible) ─▶ syncer ─▶ fsync ─▶ published, answered
//	          bounded   one goroutine                  one goroutine
//
// The sequencer takes all requests that wait and makes one commit of them: it leaves out
// duplicates, gives offsets and sequences, encodes one batch a partition and writes everything
// as one atomic write of the store. While the syncer waits for the fsync the next requests gather:
// no timer, and each fsync is for all that came during the one before. The fsync done, the
// sequencer makes the next commit, and the syncer shows this one to readers and answers its requests.
// Only where much waits already is the next commit made beside the fsync; at most two are in flight.
//
// Timers are looked at by the sequencer too, so that a partition is declared idle in the log's
// order: never in the same instant in which an event of it is taken.
//
// # Invariants
//
//	I1  A request lies in one commit, whole or not at all. The batches of a commit take their
//	    sequences by stream, then ascending partition; a control record has a commit of its own.
//	I2  Offsets of a partition rise by one without gaps; sequences rise; append times never go back.
//	I3  Readers, Stats and Watch tell only what is durable.
//	I4  An answer, also one of duplicates only, comes after the fsync of the commits that hold the
//	    events it speaks of (unless the request asked for less with NoSync).
//	I5  An id is appended at most once within the stream's dedupe window of append time; ids of
//	    dead letters are not remembered.
//	I6  The sequencer's state changes only after the store took the commit; if the store fails,
//	    that commit and all behind it fail, and the log takes nothing any more.
//
// # Formats
//
// Each is numbered, frozen, and described beside the code that writes it: batches and index records
// in format.go, payloads in payload.go, states of streams and partitions in state.go, ids and kept answers in dedupe.go and
// remember.go, dead letters in deadletter.go; the keys of all in keys.go.
//
// Open starts the two goroutines, Close ends them after all requests that wait.
package pebblelog
