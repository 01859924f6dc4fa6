package kv

import "github.com/cockroachdb/pebble/v2/vfs"

// FS is the file system that everything below a data directory is written through, so that tests
// can let it crash. It is Pebble's, known here so that no other package needs to import it.
type FS = vfs.FS

// Disk is the real file system.
var Disk FS = vfs.Default
