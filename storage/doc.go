// Package storage opens a data directory as a whole: its lock, its format, and the store inside.
//
//	DIR/FORMAT         "tidemark 1": the version of everything below; written first, read first
//	DIR/tidemark.lock  locked while a process has the directory open
//	DIR/tidemark.pid   the number of that process, for the message to a second one
//	DIR/kv/            the ordered store (package kv)
//	DIR/witness        where the log ended, apart from the store (stream/pebblelog)
//	DIR/ballast        space to give up when the disk is full; does nothing else
//	DIR/backups/       copies that are being given out; empty otherwise
//	DIR/history/       derived data of SQL on history; may be thrown away
//
//	I1  One process has a directory open at a time.
//	I2  A directory of a newer format is refused without a write.
package storage
