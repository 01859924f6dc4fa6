//go:build cgo

package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"tidemark/storage/row"
)

// PositionError says that a batch does not begin where its relation stands: the caller goes on
// from Held (nil: the beginning).
type PositionError struct {
	Relation string
	Held     []byte
}

func (e *PositionError) Error() string {
	return fmt.Sprintf("history's %s stands at another position than the batch begins at", e.Relation)
}

// loadTries is how often a batch is sent before its relation is given up for now: it may be the
// batch that ends the child.
const loadTries = 3

// loads is memory of requests, for the next ones; maxKept bounds what one of them keeps.
var loads = sync.Pool{New: func() any { return new([]byte) }}

const maxKept = 16 << 20

// Apply takes a batch in; when it returns nil, rows and position are on disk. A batch that was
// applied before has no effect. One that begins elsewhere gets a *PositionError. A batch without
// rows whose From is its To declares the relation and its columns, so that it can be read before
// its first row. If the child ends in between, the batch goes to the next one.
func (h *History) Apply(ctx context.Context, b row.SinkBatch) error {
	head := loadHead{Relation: b.Relation, ID: b.ID, Version: b.Version, From: b.From, To: b.To, Fields: make([]wireField, len(b.Fields))}
	for i, f := range b.Fields {
		head.Fields[i] = wireField{f.Name, columnType(f.Type)}
	}
	if b.Rows != nil {
		head.Rows = b.Rows.Len
	}
	kept := loads.Get().(*[]byte)
	body := bytes.NewBuffer((*kept)[:0])
	if err := writeJSONFrame(body, frameHead, head); err != nil {
		return err
	}
	request, begin := beginFrame(body.Bytes(), frameBatch)
	if head.Rows > 0 {
		request = row.EncodeBatch(request, b.Fields, b.Rows)
	}
	request, err := endFrame(request, begin)
	if err != nil {
		return err
	}
	var answer loadAnswer
	if err := h.call(ctx, "/load", request, &answer); err != nil {
		return fmt.Errorf("history: load %s: %w", b.Relation, err)
	}
	if cap(request) <= maxKept { // the child has read it whole: nobody sends it any more
		*kept = request
		loads.Put(kept)
	}
	if !answer.Applied {
		return &PositionError{Relation: b.Relation, Held: answer.Held}
	}
	h.counts.loads.Add(1)
	h.counts.rows.Add(int64(head.Rows))
	return nil
}

// Position is what the relation of this id and version holds, or nil.
func (h *History) Position(ctx context.Context, relation string, id uint64, version int64) ([]byte, error) {
	body, err := json.Marshal(loadHead{Relation: relation, ID: id, Version: version})
	if err != nil {
		return nil, err
	}
	var answer loadAnswer
	if err := h.call(ctx, "/position", body, &answer); err != nil {
		return nil, fmt.Errorf("history: position of %s: %w", relation, err)
	}
	return answer.Held, nil
}

// Drop removes a relation with its rows; one that is not there is no error.
func (h *History) Drop(ctx context.Context, relation string) error {
	body, err := json.Marshal(loadHead{Relation: relation})
	if err != nil {
		return err
	}
	if err := h.call(ctx, "/drop", body, &loadAnswer{}); err != nil {
		return fmt.Errorf("history: drop %s: %w", relation, err)
	}
	return nil
}

// Relation is a relation that history holds.
type Relation struct {
	Name    string
	ID      uint64
	Version int64
}

// Relations lists what is held, by name: what the catalog no longer has can be dropped.
func (h *History) Relations(ctx context.Context) ([]Relation, error) {
	var held []heldRelation
	if err := h.call(ctx, "/relations", nil, &held); err != nil {
		return nil, fmt.Errorf("history: relations: %w", err)
	}
	list := make([]Relation, len(held))
	for i, r := range held {
		list[i] = Relation(r)
	}
	return list, nil
}

// call sends a small request and reads its answer. All of them can be sent twice, so one that
// the child's end cut off goes to the next child.
func (h *History) call(ctx context.Context, path string, body []byte, answer any) error {
	for try := 1; ; try++ {
		p, err := h.process(ctx)
		if err != nil {
			return err
		}
		err = p.post(ctx, path, body, answer)
		if err == nil || ctx.Err() != nil {
			return err
		}
		var we *wireError
		if errors.As(err, &we) {
			return err
		}
		if try == loadTries {
			return err
		}
		h.gone(ctx, p)
	}
}

// goneWithin is how long a process may outlive its connections.
const goneWithin = 2 * time.Second

// gone waits until a child whose connection broke is known to have ended.
func (h *History) gone(ctx context.Context, p *process) {
	select {
	case <-p.done:
	case <-ctx.Done():
	case <-h.ended:
	case <-time.After(goneWithin):
		p.kill() // alive and not answering
	}
	// The supervisor takes it out of service; only then is it worth asking again.
	for {
		h.mu.Lock()
		same, changed := h.mu.proc == p, h.mu.changed
		h.mu.Unlock()
		if !same {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-h.ended:
			return
		}
	}
}

// post sends one request to one child.
func (p *process) post(ctx context.Context, path string, body []byte, answer any) error {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://history"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return readError(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	p.served.Store(true)
	return nil
}

// readError reads the error of an answer that is not 200.
func readError(resp *http.Response) error {
	var e wireError
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&e); err != nil {
		return err
	}
	return &e
}
