package ingest

import (
	"context"
	"testing"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// full is a log that has no room.
type full struct{ *fakeLog }

func (full) Busy(int) error { return problem.New(429, "log_busy", "full") }

func (full) Append(context.Context, []*stream.Events) ([]stream.Appended, error) {
	panic("a request was read that the log has no room for")
}

func TestFullLogIsAskedBeforeABodyIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.declare("s", stream.Config{})
	in := New(w.streams, full{newFakeLog()}, Options{})
	for _, c := range []struct {
		kind, body string
		events     int64
	}{
		{"application/x-ndjson", "{\"a\":1}\n\n {\"a\":2}\r\n{bad\n", 3},
		{"application/json", `[{"a":1},{"a":2}]`, 2},
		{"application/json", `{"a":1`, 1},
	} {
		before := in.Refused(s.ID)
		_, err := in.Post(context.Background(), Request{Stream: "s", Body: []byte(c.body), ContentType: c.kind})
		if p := problem.From(err); p.Status != 429 {
			t.Errorf("%s: %v", c.body, err)
		}
		if got := in.Refused(s.ID) - before; got != c.events {
			t.Errorf("%s: %d events are counted as refused, want %d", c.body, got, c.events)
		}
	}
}
