// Package engine runs the plan of one view over the entries of the log.
//
// An [Engine] is a fold. [Engine.Step] takes one entry, a batch or a control record, in the order
// of the log; [Engine.Take] gives what came of the entries since the last Take: changes of the
// view's rows, late records, row errors, and the writes that keep the engine's state. It reads no
// clock, opens nothing, and belongs to one goroutine.
//
// # Weighted rows
//
// A plan becomes operators that pass on rows with weights: +1 appears, −1 is withdrawn. Scans,
// filters, projections and the windows of tumble and hop follow from one row alone; they work on
// whole batches and keep nothing. Everything else keeps state and gives out differences, when it
// is flushed. The [emitter] is last: it knows which row of a key is given out, and makes changes
// with status and revision of them.
//
// Each row carries the least watermark at which it is final (finalAt): the end of its window, or
// the latest in its group; windows.Never where nothing makes it final.
//
// Sessions are different: their bounds change with every event. Where an aggregate behind a session
// groups by it, groups are kept by the session and merged when sessions are ([sessions]);
// else rows are kept and given out again ([sessionRows]). A plan in which a group can hold windows
// of different ends is loose: nothing less than everything is given on at the end of a step.
//
// Hops share panes: where an aggregate groups by a hop's windows and computes with nothing of them,
// an event touches one partial aggregate, and a window's row is put together when it is given out
// ([panes]).
//
// # Memory
//
// An engine that was given a [Store] by [Engine.Recover] need not keep everything in memory. After a
// Take was committed all state is in the store as it is here; [Engine.Evict] then lets go of groups,
// of the panes of a group, of the sessions of a key with what lies behind them, of the rows of a key of
// slide, of partitions in order, of rows that wait to be final, and of the emitter's entries, that were
// not used for longest. They come back when a key asks for them, and when time does: the store has an
// index of them by finalAt ([cold]), or of panes by their numbers. What may leave is found with find, never
// by a look at the table alone.
//
// So the state of a view over many keys holds its limit, whatever its windows: nothing of a key that is at
// rest stays in memory (TestSessionsAndSlidesOverManyKeysStayUnderTheirLimit). One key is in memory or
// away as a whole, and what changed since the last Take is in memory.
//
// Sets and multisets that are large are saved by what changed in them, in pieces: K6 in pieces.go. What
// an epoch writes follows from what changed, however much there is.
//
// # One entry
//
//	compute   everything that follows from one event alone, in all branches; an event that fails
//	          anywhere is outside the view and is listed as a row error (E1)
//	judge     each event against the watermark made by everything before it (T4, L)
//	feed      what was taken goes into the state, in steps
//	settle    after each step, windows that became final give out their first final rows; after
//	          the last, corrections, each row's once (C5); then closed windows are forgotten (T3)
//
// A new step begins before a late event that is taken by a window that became final within the
// step: so the first final row is given out as it was before the correction (C3).
//
//	G1  The final and corrected changes, late records and row errors are a function of the log's
//	    prefix: the same however it is cut into Takes, and whatever is lost and loaded again
//	    between two Takes.
//	G2  The sum of all changes, after a Take of everything, is the batch answer (T1).
//	G3  A group is flushed before it is forgotten, and nothing that is closed is fed.
//	G4  Between an entry and the next, all state that matters is in what Take has written, or
//	    will be written by the next Take.
package engine
