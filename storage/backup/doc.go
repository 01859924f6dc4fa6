// Package backup copies the data directory of a running server, and makes a directory of a copy.
//
// A backup is a folder:
//
//	BACKUP/manifest.json  what it is: when, of which log, where each partition ends; every file's SHA-256
//	BACKUP/FORMAT         the version of the data directory
//	BACKUP/kv/…           the store at one instant
//
// History is derived data and left out; it is built again. The witness is left out too: a restored
// log is another history from its end on, and gets a witness of its own.
//
//	I1  A backup is the store at one instant; it does not stop the server.
//	I2  A folder with a manifest is whole: the manifest is the last file written, and the folder gets
//	    its name when everything in it is on disk.
//	I3  Restore takes nothing whose SHA-256 is not the manifest's, and makes the directory whole or
//	    not at all.
//	I4  Names in an archive are those that this package writes; others are refused.
package backup
