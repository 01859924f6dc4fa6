// Package alert turns the rows of a view into alarms that are delivered with replay and
// acknowledgement.
//
// An alert is a relation of the kind "alert": a view, run as any view, with a follower that
// writes what the view's epochs mean as alarms. A row that appears fires, a row that changes is an
// update, a row that is withdrawn takes its alarm back; a change of status alone is nothing. The
// alarms of an alert are a log, with numbers rising by one, written in the batch of the epoch that
// they come of: so there is no alarm without its row, no row without its alarm, and the log is
// durable before anybody is told.
//
//	A1  alert_id is a function of the rule's name, its version and the row key: whoever replays
//	    the rule makes the same ids. An alarm keeps its id until it is withdrawn, also when the rule
//	    is edited meanwhile: the version is that under which it fired.
//	A2  seq rises by one within an alert, over restarts and edits; all alarms of one epoch carry
//	    the epoch's position.
//	A3  An acknowledgement is durable before it is answered, and never moves back.
//
// Keys of the store, all numbers big endian:
//
//	a id seq                    an alarm, as JSON
//	v id row key                the version of the rule under which the row's alarm fired, where that
//	                            is not the present one
//	g id 0 group                how far a group has acknowledged a relation
//
// The zero byte keeps acknowledgements apart from the committed offsets of consumer groups. They go
// when the relation does.
package alert
