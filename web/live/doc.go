// Package live sends streams, views and alerts to those who listen, over a websocket or as
// server-sent events.
//
// A socket has two goroutines: one reads what the client asks, one writes; and one goroutine for
// each subscription, which reads the log or a change stream and hands frames to the writer. It
// hands over one frame at a time and waits, so a slow client slows its own readers and nothing
// else: what it has not taken yet lies in the log, not in memory.
//
//	client ──ops──▶ reader ──▶ subscription ──┐
//	                           subscription ──┼─ one frame each ─▶ writer ──▶ client
//	                           subscription ──┘                      └── pings, the close frame
//
// Views fold: while the writer is busy a view's epochs add up, and the next frame holds their sum,
// the latest row of each key, at the position of the last of them. Streams, alerts and views read
// with "fold":false never fold.
//
//	I1  Nothing is sent before it is durable: only what the log and the change streams hold.
//	I2  The sum of a snapshot and the changes behind it is the view at the frame's position, also
//	    within a selection (where, range, order and limit).
//	I3  A frame's position is the boundary of an epoch, or lies between two events.
//	I4  What a position does not reach any more is told by a gap, never skipped in silence.
//	I5  seq rises by one with each message that carries data (snapshot, changes, events, alerts, gap).
//	I6  A group has one reader at a time; an ack is durable before it is answered; at most
//	    max_in_flight events or alerts are on their way unacknowledged.
//	I7  A client that takes nothing for 30 s is cut off with close code 4408 and its position.
//	I8  No goroutine of a socket outlives Serve; a panic ends its socket, not the server.
package live
