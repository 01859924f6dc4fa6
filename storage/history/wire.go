//go:build cgo

package history

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"tidemark/storage/problem"
)

// The parent speaks HTTP with its child over a unix socket. Small requests and answers are JSON.
// A load is a frame with its header and a frame with a row batch; the answer of a query is a
// frame with its columns, frames with row batches, and a frame that ends it. A scratch request is
// a frame with its tables, frames with rows for them, and a frame with the query. A frame is
//
//	kind  1 byte
//	size  4 bytes, little endian
//	size bytes
//
// Parent and child are always the same binary, so this format has no version.
const (
	frameHead  = 'H' // JSON: loadHead or queryHead
	frameBatch = 'B' // row.EncodeBatch
	frameEnd   = 'E' // JSON: queryEnd
	frameError = 'X' // JSON: wireError
	frameTable = 'T' // number of a scratch table (4 bytes, little endian), then row.EncodeBatch
	frameQuery = 'Q' // the SQL over the scratch tables
)

// maxFrame bounds what a frame may claim to hold.
const maxFrame = 1 << 30

func writeFrame(w io.Writer, kind byte, payload []byte) error {
	var head [5]byte
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(payload)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

func writeJSONFrame(w io.Writer, kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(w, kind, b)
}

// beginFrame appends the head of a frame whose payload follows; endFrame is told where that begins.
func beginFrame(dst []byte, kind byte) (frame []byte, payload int) {
	dst = append(dst, kind, 0, 0, 0, 0)
	return dst, len(dst)
}

func endFrame(frame []byte, payload int) ([]byte, error) {
	n := len(frame) - payload
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	binary.LittleEndian.PutUint32(frame[payload-4:], uint32(n))
	return frame, nil
}

func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, fmt.Errorf("a frame is cut short: %w", err)
	}
	return head[0], payload, nil
}

// childConfig is the child's second argument, as JSON.
type childConfig struct {
	Dir     string `json:"dir"`
	Socket  string `json:"socket"`
	Memory  int64  `json:"memory"`
	Threads int    `json:"threads"`
}

// hello is the line that the child writes to its standard output once it serves, or gives up.
type hello struct {
	Error string `json:"error,omitempty"`
	// SetAside is where a file that would not open went; Reason is why.
	SetAside string `json:"set_aside,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// wireField is a column on the wire. Type is as DuckDB names it.
type wireField struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// relationState is what the child holds of a relation.
type relationState struct {
	ID       uint64 `json:"id"`
	Version  int64  `json:"version"`
	Position []byte `json:"position"`
}

// heldRelation is a relation of the file.
type heldRelation struct {
	Name    string `json:"name"`
	ID      uint64 `json:"id"`
	Version int64  `json:"version"`
}

type loadHead struct {
	Relation string      `json:"relation"`
	ID       uint64      `json:"id"`
	Version  int64       `json:"version"`
	Fields   []wireField `json:"fields"`
	From     []byte      `json:"from"`
	To       []byte      `json:"to"`
	Rows     int         `json:"rows"`
}

// loadAnswer says whether the batch is in; Held is the position that the relation has now.
type loadAnswer struct {
	Applied bool   `json:"applied"`
	Held    []byte `json:"held"`
}

// queryHead names an answer's columns: as the user sees them, and the types of the row batches.
type queryHead struct {
	Columns []wireField `json:"columns"`
	Wire    []string    `json:"wire"`
}

type queryEnd struct {
	Rows      int  `json:"rows"`
	Truncated bool `json:"truncated"`
}

// scratchHead names the tables of a scratch request.
type scratchHead struct {
	Tables []scratchTable `json:"tables"`
}

type scratchTable struct {
	Name   string      `json:"name"`
	Fields []wireField `json:"fields"`
}

type queryRequest struct {
	ID      uint64            `json:"id"`
	SQL     string            `json:"sql"`
	Params  []json.RawMessage `json:"params"`
	MaxRows int               `json:"max_rows"`
	// TimeoutMicros is what is left of the query's time.
	TimeoutMicros int64 `json:"timeout_us"`
}

// wireError is an error of the child. Status is that of the problem that the user sees; Position
// is a byte offset in the text of the request, or −1.
type wireError struct {
	Status   int    `json:"status"`
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	Hint     string `json:"hint"`
	Position int    `json:"position"`
}

func (e *wireError) Error() string { return e.Detail }

func (e *wireError) problem() *problem.Problem {
	return problem.New(e.Status, e.Code, "%s", e.Detail).WithHint("%s", e.Hint).At(e.Position)
}
