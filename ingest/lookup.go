package ingest

import "tidemark/stream"

// IDHash is the hash under which the log remembers an id, given as a JSON value.
func IDHash(value []byte) stream.EventID {
	id, _ := idHash(value, nil)
	return id
}
