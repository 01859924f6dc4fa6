package row

// SinkBatch is what a sink takes: the rows of one relation between two positions. Applying the
// same batch twice has no effect the second time: To is kept in the same transaction as the rows
// and is the idempotency key.
type SinkBatch struct {
	// Relation is the table's name, such as "checkouts" or "revenue_changes"; ID is the internal
	// number of the stream or view, so that a relation made anew starts from nothing.
	Relation string
	ID       uint64
	// Version counts replays: rows of another version are thrown away before these are taken.
	Version int64
	Fields  []Field
	// From and To are opaque. From must be what the sink holds; nil is the beginning.
	From, To []byte
	Rows     *Batch
}
