// Package windows holds what a window, a watermark and a change are. It is pure: it reads no
// clock, no log and no disk.
//
// A stream's events fall into windows by their time. Four kinds exist, one file each: [Tumbling]
// (side by side), [Hopping] (every slide, overlapping or with holes), [Sessions] (runs of events at
// most a gap apart) and [Sliding] (one for each distinct event time). A [Watermark] says which
// time no event is expected to come before any more; a [Tracker] works out the one watermark of a
// view from the log's entries, in the log's order. A window is final when no event on time can
// change it, and closed when nothing may: see [FinalAt].
//
// What a view's rows do is told as [Changes]: rows that appear and rows that are withdrawn, each
// with its status and revision.
//
//	I1  Windows are [start, end) in UTC, aligned as DuckDB's time_bucket aligns them.
//	I2  A view's watermark never goes back, and is a function of the log's prefix alone.
//	I3  An event meets the watermark that everything before it in the log has made.
package windows
