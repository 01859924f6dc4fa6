package httpapi

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/stream"
)

// TestNullBodyUnderTidemarkKeyRemovesAKey: a tombstone goes where the events of its key go, and is
// the last event of its key after compaction (B2).
func TestNullBodyUnderTidemarkKeyRemovesAKey(t *testing.T) {
	t.Parallel()
	s := start(t, vfs.NewMem())
	put := func(name, body string) {
		t.Helper()
		c, err := stream.ParseConfig([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.reg.Put(t.Context(), name, c); err != nil {
			t.Fatal(err)
		}
	}
	put("users", `{"partitions":4,"key_field":"user","compact":true}`)
	put("plain", `{"key_field":"user"}`)
	const path = "/v1/streams/users/events"
	for _, body := range []string{`[{"user":"u-1","n":1},{"user":"u-2","n":1}]`, `{"user":"u-1","n":2}`} {
		if status, m, _ := s.call("POST", path, body); status != 200 {
			t.Fatalf("%d %v", status, m)
		}
	}
	status, m, _ := s.call("POST", path, "null", "Tidemark-Key", `{"user":"u-1"}`, "Tidemark-Time", "2024-01-15T10:00:00Z")
	if status != 200 || m["accepted"] != 1.0 {
		t.Fatalf("%d %v", status, m)
	}
	if status, m, _ := s.call("POST", path, `{"user":"u-2","n":2}`); status != 200 { // so that the tombstone may not be in a last batch
		t.Fatalf("%d %v", status, m)
	}
	for _, c := range []struct {
		path, body, key, time string
		status                int
		code                  string
	}{
		{path, `{"user":"u-1"}`, `{"user":"u-1"}`, "", 400, "bad_tombstone"},
		{path, "null", `{"id":"u-1"}`, "", 400, "bad_key"},
		{path, "null", `{"user":null}`, "", 400, "bad_key"},
		{path, "null", `u-1`, "", 400, "bad_key"},
		{path, "null", `{"user":"u-1"}`, "yesterday", 400, "bad_time"},
		{path + "?partition=9", "null", `{"user":"u-1"}`, "", 422, "unknown_partition"},
		{"/v1/streams/plain/events", "null", `{"user":"u-1"}`, "", 422, "not_compacted"},
		{"/v1/streams/none/events", "null", `{"user":"u-1"}`, "", 422, "not_compacted"},
	} {
		status, m, _ := s.call("POST", c.path, c.body, "Tidemark-Key", c.key, "Tidemark-Time", c.time)
		if status != c.status || m["type"] != "/problems/"+c.code {
			t.Errorf("%s %s %s: %d %v", c.path, c.body, c.key, status, m)
		}
	}
	def, err := s.reg.Get("users")
	if err != nil {
		t.Fatal(err)
	}
	r := s.log.Read([]stream.ID{def.ID}, 0)
	where := map[stream.Partition][]string{}
	for {
		e, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		for i := 0; e.Batch != nil && i < e.Batch.Len; i++ {
			if e.Batch.Keys.Str[i] == "u-1" {
				where[e.Batch.Partition] = append(where[e.Batch.Partition], string(e.Batch.Raw(i)))
			}
		}
	}
	if len(where) != 1 {
		t.Errorf("the events of one key lie in %v", where)
	}
	for _, events := range where {
		if len(events) != 3 || events[2] != "null" {
			t.Errorf("the events of the key: %q", events)
		}
	}
}
