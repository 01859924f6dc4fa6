// Package group reads a stream by groups of members, so that a crowd of workers shares its events.
//
// A group has a committed offset in each partition: the next one to read. A member asks for events by
// [Service.Poll], works, and commits. Partitions are shared out to the members; when one joins, leaves
// or goes silent, they are shared out anew:
//
//	poll ──► given, waits for commit ──commit──► committed, poll goes on behind it
//	              │ nack, next poll, silence
//	              ▼
//	         one failed attempt ──fewer than MaxAttempts──► given again
//	              │ MaxAttempts
//	              ▼
//	         dead letter of the group; the group moves on
//
// A partition that has to move is drained first: its holder gets no more of it, and keeps it until what
// it was given is committed, nacked, or failed. Only then another member gets it, under a generation
// that is higher than all before. A commit or nack tells the generation of the poll that gave the
// event; one from before the partition moved is refused (the member is fenced).
//
// Which event killed a member is not known when it was given many. All of them count one attempt then,
// and are given again in fewer and fewer, at last one alone in its poll; only an event that failed
// alone, or that a member named in a nack, is put away. So a poison event harms itself alone.
//
//	I1  A partition has one holder at most.
//	I2  Who has lost a partition commits nothing to it: the generation is compared under the group's
//	    lock, and written in the batch that holds the commit.
//	I3  A committed offset goes back by a seek alone.
//	I4  What is answered is durable: offsets, attempts, dead letters, who holds what.
//	I5  A dead letter and the offset behind it are one write.
//	I6  An event that was not committed is given again, or is a dead letter.
//
// The package has no goroutines. Sessions are judged when somebody calls; a poll that waits wakes for
// the next one that may end.
package group
