// Package judge works out, a second time and as simply as it can be said, what the windows of a
// view refuse.
//
// The batch answer of a view (T1) leaves out what its windows refused. To compare a view with its
// batch answer, that must not be asked of the view. A [Judge] works it out from the log by the
// rules of watermarks and lateness alone (W, L): one event at a time, with no state but the
// watermarks and the sessions' bounds. It shares expressions and window arithmetic with
// windows/engine, and nothing else: no batches, no steps, no operators.
//
// A Judge belongs to one goroutine.
package judge
