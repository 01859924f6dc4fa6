// Package fate answers what became of an event: where it lies, and what each view did with it.
//
// What a view did is worked out from the log by windows/judge, as verify does, never read from the
// view. That needs the watermark that the event met, so the log is replayed up to it:
//
//	checkpoint of the judge ──▶ a block of entries, the account of each event kept ──▶ checkpoint
//
// Checkpoints and the last blocks of a view are kept, so that the next question about an event
// nearby costs a look-up, and one elsewhere the replay of one block.
//
//	I1  An answer is exact, or there is none. It is about the log up to the view's position: an
//	    event behind it is "pending".
//	I2  At most maxViews views, maxCheckpoints checkpoints and maxBlocks blocks each are kept.
package fate
