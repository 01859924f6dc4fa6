// Package runtime keeps views running.
//
// [Service] is the life of all views: it makes, lists, pauses and deletes them, and answers what
// their rows are. Each view has one worker. A worker reads the entries of its streams in the order
// of the log, gives them to the view's engine, and from time to time ends an epoch: everything
// that came of the entries since the last one is committed as one batch of the store, with one
// fsync. That batch holds
//
//	the engine's state           s id 1 version 1 key
//	how far the view is          s id 1 version 0      ([progress]: position, as_of, counts)
//	the rows as they are now     o id version rowkey   (status, revision, time, values)
//	the epoch's changes          x id sequence within  (the view's change stream)
//	late records                 l id version number
//	row errors                   e id version key
//	what an attachment adds      (the log of an alert)
//
// so that after a crash the view goes on exactly where it was: there is no state without its
// position, and no change without the state it came of.
//
//	R1  Nothing of an epoch is visible before the fsync of its batch. A reader makes its snapshot
//	    while no commit of the view is on its way, and reads the change stream up to the last
//	    position that was published.
//	R2  Rows, position, as_of and status of one answer are those of one epoch.
//	R3  What is late, final or corrected never depends on where epochs end; pace alone decides
//	    that (C5). Every epoch takes all changes up to its position, so that the rows at a
//	    position are the batch answer (T1).
//	R4  Only its worker writes a view's keys; its owner, the Service, writes them when the worker
//	    has ended.
//	R5  A panic in a view throws away the epoch in work, never a committed one, and stops at the
//	    view (E2).
//	    A version notes durably, under s id 1 version 2, when it begins its first epoch after a
//	    start, and takes that back with the epoch: after three such notes in a row the view has failed.
//	R6  Positions of a change stream rise. An epoch is never split over two positions.
//
// # Edits and rebuilds
//
// A definition whose rows would differ is built anew beside the old one, under the next version,
// from the beginning of the log. When it has caught up, the old worker ends, the new one goes on
// to the place where the old one was, and the switch is one batch: the difference between old and
// new rows is one more epoch of the same change stream, so positions go on. Where the columns
// differ, or the difference is too large for one epoch, there is no such epoch: the change stream
// begins anew with all rows as they are then, readers of it get a [Gap] and take a snapshot, and an
// alert does not fire for rows that were there at the switch. A rebuild goes the same way, with the same definition; it keeps the
// version that users see, and its late events and row errors are those that there were. The changes
// that it makes are kept beside the live ones until the switch (s id 1 version 3 sequence within): they
// must be the same. Before the switch the old worker reads up to where the new one is, so that no
// change of the log is folded into the difference.
//
// A version whose columns have widened (R1) stops before the first entry that it can't take, and one
// with the new types takes over right there. A rebuild from a log that retention has trimmed gives out
// only windows that have all their events, and seals the rows of the others (R4).
//
// # Views on views
//
// A view that reads a view does not read its change stream: it holds that one's definition, as it
// was when the SQL was bound, and computes it as a part of its own plan, with its own options. The
// change stream would save computing the inner view twice, and would cost what holds a view
// together: its rows would depend on two folds and on where the epochs of both end; its offsets
// and watermark would be another worker's; a rebuild would need changes that retention has taken;
// and whether a row was final before its correction came would be a matter of timing. As it is, a
// view on views is a fold of the log like any other: lateness is judged once, where events enter,
// revisions come again with every rebuild, and the batch answer is the same SQL with the inner
// view's as a subquery.
//
//	R7  What a view's rows depend on stands in its own document: its streams and all views beneath.
//	R8  An edit that changes the inner view's rows makes all that read it anew, each under its next
//	    version; where one of them could not go on it is refused. What others read is not deleted.
//
// # Sinks
//
// A [Sink] takes the events of the streams and the changes of the views, in batches, each with the
// positions it lies between; a batch that it knows already does nothing. One pump a sink reads the
// log and the change streams behind the position that the sink itself holds, so a sink that was
// away catches up by itself. windows/runtime/sinktest holds the test that every sink passes. The
// change stream is the first sink and needs no pump: it is written in the epoch's own batch.
//
// Goroutines: one a view (its worker), one more while an edit is built beside it, one a sink. All
// are started by Run and the calls that follow it, and have ended when Run returns.
package runtime
