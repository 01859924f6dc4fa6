package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/ingest"
	"tidemark/stream"
)

// TestNothingOfABodyIsKept: a body's memory, and that of what was read from it, is used again for the
// next one; what is in the log, in the schema, among the dead letters and in answers is not.
func TestNothingOfABodyIsKept(t *testing.T) {
	t.Parallel()
	s := start(t, vfs.NewMem())
	if _, _, err := s.reg.Put(context.Background(), "s", stream.Config{KeyField: "k"}); err != nil {
		t.Fatal(err)
	}
	var sent, reasons []string
	body := make([]byte, 0, 4096)
	for n := range 50 {
		var lines []string
		for i := range 1 + n%7 {
			lines = append(lines, fmt.Sprintf(`{"k":"key-%d-%d","n":%d,"f%d":"v%d","x":{"a":[1.50],"b": "é\n%d"}, "odd" : -0.0}`, n, i, n, n%5, i, n))
		}
		sent = append(sent, lines...)
		lines = append(lines, fmt.Sprintf(`{"k":"bad","n":"text-%d"}`, n))
		body = append(body[:0], strings.Join(lines, "\n")...)
		a, err := s.in.Post(context.Background(), ingest.Request{Stream: "s", Body: body, ContentType: "application/x-ndjson"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range body {
			body[i] = '#'
		}
		if a.Accepted != len(lines)-1 || len(a.Errors) != 1 {
			t.Fatalf("request %d: %s", n, a.JSON())
		}
		reasons = append(reasons, a.Errors[0].Reason)
	}
	st, err := s.reg.Get("s")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range st.Schema.Fields {
		if strings.Contains(f.Name, "#") {
			t.Errorf("a column is named %q", f.Name)
		}
	}
	batches, err := s.log.Slice(st.ID, 0, 0, len(sent))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range batches {
		for i := range b.Len {
			if got := string(b.Raw(i)); got != sent[n] || !strings.Contains(got, `"`+b.Keys.Str[i]+`"`) {
				t.Errorf("event %d with key %s: %s, sent %s", n, b.Keys.Str[i], got, sent[n])
			}
			n++
		}
	}
	letters, err := s.log.DeadLetters(st.ID, 0, 100)
	if err != nil || n != len(sent) || len(letters) != 50 {
		t.Fatal(n, len(letters), err)
	}
	for i, l := range letters {
		if want := fmt.Sprintf(`{"k":"bad","n":"text-%d"}`, i); string(l.Raw) != want || l.Reason != reasons[i] || strings.Contains(l.Reason, "#") {
			t.Errorf("dead letter %d: %s, %s", i, l.Raw, l.Reason)
		}
	}
}
