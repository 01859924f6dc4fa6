// Package live sends streams, views and alerts to those who listen, over a websocket or as
// server-sent events.
//
// A subscription is read for by a goroutine of its own while it catches up: snapshot, history, what
// came since its position. Then it joins a cast, which reads for all who want the same (relation,
// selection, folded or not): the change stream is read once, the selection is evaluated once, each
// message is made once. What differs from subscription to subscription, its id and the number of
// the message, lies in front; the content behind it is shared.
//
//	catching up  reader ── message ──▶ one subscription ──▶ outbox ──▶ client
//	in step      reader ── message ──▶ cast ──┬─ 1, a ────▶ outbox ──▶ client
//	                                          ├─ 7, b ────▶ outbox ──▶ client
//	                                          └─ …
//
// A cast never waits. It writes to each member's socket as far as the kernel takes it at once; the
// rest waits in the outbox, in bounds, and a goroutine that lives only as long writes it. Whose
// outbox is full leaves the cast and is read for alone, at its own pace, until it has caught up
// again: what it has not taken yet lies in the log, not in memory, and nobody else is slowed. So an
// idle websocket has one goroutine, which reads what its client asks, and no buffer to write from.
//
// Views fold: while a client is behind, a view's epochs add up, and the next message holds their
// sum, the latest row of each key, at the position of the last of them. Streams, alerts and views
// read with "fold":false never fold. Groups are read for alone.
//
//	I1  Nothing is sent before it is durable: only what the log and the change streams hold.
//	I2  The sum of a snapshot and the changes behind it is the view at the message's position, also
//	    within a selection (where, range, order and limit), and whoever read for the subscription.
//	I3  A message's position is the boundary of an epoch, or lies between two events.
//	I4  What a position does not reach any more is told by a gap, never skipped in silence.
//	I5  seq rises by one with each message that carries data (snapshot, changes, events, alerts, gap).
//	I6  A group has one reader at a time; an ack is durable before it is answered; at most
//	    max_in_flight events or alerts are on their way unacknowledged.
//	I7  A client that takes nothing for 30 s is cut off with close code 4408 and its position.
//	I8  No goroutine of a socket outlives serve; a panic ends what it was about, not the server.
//	I9  A content is never changed once it was handed out.
//	I10 Locks are taken in the order cast, hub, subscription or outbox; nothing waits for a client,
//	    the log or a view's change stream with the hub's lock held.
package live
