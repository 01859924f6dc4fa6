package runtime

import (
	"context"

	"tidemark/storage/row"
)

// Sink takes the rows of relations, in batches between two positions. Its calls come from one
// goroutine at a time.
type Sink interface {
	// Apply takes a batch in. Rows and position become durable together, or neither does. A batch
	// whose To the sink already holds changes nothing. A batch whose From is not what the sink
	// holds is an error, after which the pump asks for the position again. A batch of another ID
	// or Version than the sink's begins with From nil; the rows of the old one are thrown away.
	Apply(ctx context.Context, b row.SinkBatch) error
	// Position is the To of the last batch taken in of a relation of this id and version; nil when
	// there is none.
	Position(ctx context.Context, relation string, id uint64, version int64) ([]byte, error)
	// Drop removes a relation with its position. One that is not there is no error.
	Drop(ctx context.Context, relation string) error
}

// changesRelation is the name under which sinks keep a view's changes.
func changesRelation(view string) string { return view + "_changes" }

// The columns that a sink gets behind those of a stream.
var streamSinkFields = []row.Field{
	{Name: "_partition", Type: row.Scalar(row.BigInt)},
	{Name: "_offset", Type: row.Scalar(row.BigInt)},
	{Name: "_sequence", Type: row.Scalar(row.BigInt)},
	{Name: "_time", Type: row.Scalar(row.Timestamp)},
	{Name: "_append_time", Type: row.Scalar(row.Timestamp)},
	{Name: "_key", Type: row.Scalar(row.Varchar)},
}

// The columns that a sink gets behind those of a view.
var changeSinkFields = []row.Field{
	{Name: "_key", Type: row.Scalar(row.Blob)},
	{Name: "_weight", Type: row.Scalar(row.BigInt)},
	{Name: "_revision", Type: row.Scalar(row.BigInt)},
	{Name: "_sequence", Type: row.Scalar(row.BigInt)},
	{Name: "_status", Type: row.Scalar(row.Varchar)},
}
