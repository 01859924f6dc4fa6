package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gofiber/fiber/v2"

	"tidemark/ingest"
	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/pebblelog"
)

// server is the endpoints over a real log on a file system in memory.
type server struct {
	t   *testing.T
	app *fiber.App
	reg *stream.Registry
	log *pebblelog.Log
	in  *ingest.Ingester
}

// start opens a server on what fs holds.
func start(t *testing.T, fs vfs.FS) *server {
	t.Helper()
	store, err := kv.Open("data", kv.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	log, err := pebblelog.Open(store, pebblelog.Options{TimerPeriod: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	cat, err := catalog.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := stream.OpenRegistry(cat, log)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, reg: reg, log: log, in: ingest.New(reg, log, ingest.Options{AutoCreate: true})}
	s.app = fiber.New(fiber.Config{DisableStartupMessage: true, BodyLimit: 20 << 20})
	s.app.Use(func(c *fiber.Ctx) error {
		c.Locals("request_id", "req-1")
		return c.Next()
	})
	Mount(s.app, s.in, Options{Scope: func(c *fiber.Ctx) string { return strings.Clone(c.Get("X-Scope")) }})
	return s
}

// call answers a request; headers are pairs.
func (s *server) call(method, path, body string, headers ...string) (int, map[string]any, http.Header) {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://localhost/", bytes.NewReader([]byte(body)))
	r.URL = &url.URL{Scheme: "http", Host: "localhost", Opaque: path}
	r.RequestURI = path
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.app.Test(r, -1)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var m map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &m); err != nil {
			s.t.Fatalf("%s %s: %s", method, path, raw)
		}
	}
	if res.StatusCode >= 400 {
		if res.Header.Get("Content-Type") != problem.ContentType || m["request_id"] != "req-1" || m["hint"] == nil || m["title"] == "" {
			s.t.Errorf("%s %s: %d is no whole problem: %s", method, path, res.StatusCode, raw)
		}
	}
	return res.StatusCode, m, res.Header
}

func (s *server) stats(name string) stream.Stats {
	s.t.Helper()
	st, err := s.reg.Get(name)
	if err != nil {
		s.t.Fatal(err)
	}
	stats, err := s.log.Stats(st.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return stats
}

func TestEventsOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, vfs.NewMem())
	status, m, _ := s.call("POST", "/v1/streams/shop/events", `[{"id":1,"ts":"2024-01-15T10:00:00Z"},{"id":2,"ts":"nope"}]`)
	if status != 200 || m["accepted"] != 1.0 || m["dead_letters"] != 1.0 || m["receipt"] == "" || m["created"] == nil {
		t.Fatalf("got %d %v", status, m)
	}
	status, m, _ = s.call("POST", "/v1/streams/shop/events?strict=true", `[{"id":3,"ts":"2024-01-15T10:00:00Z"},{"id":2,"ts":"nope"}]`)
	if status != 422 || len(m["errors"].([]any)) != 1 {
		t.Errorf("strict: %d %v", status, m)
	}
	status, m, _ = s.call("POST", "/v1/streams/shop/events", "{\"id\":4,\"ts\":1}\n{bad\n", "Content-Type", "application/x-ndjson")
	if status != 200 || m["accepted"] != 1.0 || m["dead_letters"] != 1.0 {
		t.Errorf("lines: %d %v", status, m)
	}
	status, m, _ = s.call("POST", "/v1/events?ack=memory", `{"stream":"shop","id":5,"ts":1}`)
	if status != 202 || m["accepted"] != 1.0 {
		t.Errorf("mixed: %d %v", status, m)
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/v1/streams/shop/events", "", 400},
		{"/v1/streams/shop/events", "{", 400},
		{"/v1/streams/shop/events?strict=maybe", "{}", 400},
		{"/v1/streams/shop/events?ack=never", "{}", 400},
		{"/v1/streams/shop/events?strct=true", `{"ts":1}`, 400},
		{"/v1/events?Strict=true", `{"stream":"shop","ts":1}`, 400},
		{"/v1/streams/shop/events?partition=x", "{}", 400},
		{"/v1/streams/shop/events?partition=7", `{"ts":1}`, 422},
		{"/v1/streams/..%2f..%2fetc/events", "{}", 400},
		{"/v1/streams/%2e%2e%2f/events", "{}", 400},
		{"/v1/streams/a%00/events", "{}", 400},
		{"/v1/streams/%zz/events", "{}", 400},
		{"/v1/streams/a%/events", "{}", 400},
		{"/v1/streams/a%5Cb/events", "{}", 400},
		{"/v1/streams/Shop/events", "{}", 400},
		{"/v1/streams/:name/events", "{}", 400},
		{"/v1/streams/late_x/events", "{}", 400},
		{"/v1/streams/" + strings.Repeat("a", 64) + "/events", "{}", 400},
		{"/v1/events", `{"a":1}`, 422},
	} {
		if status, m, _ := s.call("POST", c.path, c.body); status != c.status {
			t.Errorf("%s %s: %d %v, want %d", c.path, c.body, status, m, c.status)
		}
	}
	if st := s.stats("shop"); st.Accepted != 3 || st.DeadLetters != 2 {
		t.Errorf("the log counts %+v", st)
	}
}

func TestIdempotencyKeySurvivesARestart(t *testing.T) { // 45
	t.Parallel()
	fs := vfs.NewMem()
	body := `[{"id":1,"ts":1},{"id":2,"ts":"x"}]`
	var first string
	t.Run("before", func(t *testing.T) {
		s := start(t, fs)
		if _, _, err := s.reg.Put(context.Background(), "pay", stream.Config{TimeField: "ts", IDField: "id"}); err != nil {
			t.Fatal(err)
		}
		status, m, h := s.call("POST", "/v1/streams/pay/events", body, "Idempotency-Key", "k")
		if status != 200 || h.Get("Idempotent-Replayed") != "" {
			t.Fatalf("got %d %v", status, m)
		}
		first = fmt.Sprint(m)
	})
	t.Run("after", func(t *testing.T) {
		s := start(t, fs)
		status, m, h := s.call("POST", "/v1/streams/pay/events", body, "Idempotency-Key", "k")
		if status != 200 || fmt.Sprint(m) != first || h.Get("Idempotent-Replayed") != "true" {
			t.Errorf("got %d %v, first %s", status, m, first)
		}
		if status, _, _ := s.call("POST", "/v1/streams/pay/events", `{"ts":1}`, "Idempotency-Key", "k"); status != 422 {
			t.Errorf("another body: %d", status)
		}
		if status, m, _ := s.call("POST", "/v1/streams/pay/events", `{"id":1.0,"ts":1}`, "Idempotency-Key", "k", "X-Scope", "other"); status != 200 || m["duplicates"] != 1.0 {
			t.Errorf("another key's client: %d %v", status, m)
		}
		if st := s.stats("pay"); st.Accepted != 1 || st.Duplicates != 1 || st.DeadLetters != 1 {
			t.Errorf("the log counts %+v", st)
		}
		// 49
		if err := s.reg.Delete(context.Background(), "pay"); err != nil {
			t.Fatal(err)
		}
		status, m, h = s.call("POST", "/v1/streams/pay/events", body, "Idempotency-Key", "k")
		if status != 200 || h.Get("Idempotent-Replayed") != "" || m["accepted"] != 1.0 {
			t.Errorf("a new stream of the old name: %d %v", status, m)
		}
	})
}

func TestDeadLettersOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, vfs.NewMem())
	s.call("POST", "/v1/streams/s/events", `[{"ts":1},{"ts":"x"},{"ts":"y"}]`)
	status, m, _ := s.call("GET", "/v1/streams/s/dead_letters?limit=1", "")
	items, _ := m["items"].([]any)
	if status != 200 || len(items) != 1 || m["next"] == nil {
		t.Fatalf("got %d %v", status, m)
	}
	id := items[0].(map[string]any)["id"].(string)
	next := m["next"].(string)
	if status, m, _ = s.call("GET", "/v1/streams/s/dead_letters?cursor="+next, ""); status != 200 || m["next"] != nil {
		t.Errorf("got %d %v", status, m)
	}
	second := m["items"].([]any)[0].(map[string]any)["id"].(string)
	if status, m, _ = s.call("POST", "/v1/streams/s/dead_letters/"+id+"/replay", ""); status != 422 {
		t.Errorf("got %d %v", status, m)
	}
	if status, m, _ = s.call("POST", "/v1/streams/s/dead_letters/"+id+"/replay", `{"ts":2}`); status != 200 || m["accepted"] != 1.0 {
		t.Errorf("got %d %v", status, m)
	}
	if status, _, _ = s.call("DELETE", "/v1/streams/s/dead_letters/"+second, ""); status != 204 {
		t.Errorf("got %d", status)
	}
	for _, c := range [][2]string{
		{"GET", "/v1/streams/none/dead_letters"},
		{"POST", "/v1/streams/s/dead_letters/" + id + "/replay"},
		{"DELETE", "/v1/streams/s/dead_letters/" + second},
		{"DELETE", "/v1/streams/s/dead_letters/x"},
	} {
		if status, _, _ := s.call(c[0], c[1], ""); status != 404 {
			t.Errorf("%v: %d", c, status)
		}
	}
	for _, path := range []string{"/v1/streams/s/dead_letters?limit=0", "/v1/streams/s/dead_letters?limit=x", "/v1/streams/s/dead_letters?cursor=" + next + "x", "/v1/streams/S/dead_letters"} {
		if status, _, _ := s.call("GET", path, ""); status != 400 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestWatermarkOverHTTP(t *testing.T) { // W3
	t.Parallel()
	s := start(t, vfs.NewMem())
	s.call("POST", "/v1/streams/s/events", `{"ts":1}`)
	far := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		stream, body string
		status       int
	}{
		{"s", `{"advance_to":"2024-01-01T12:00:00Z"}`, 200},
		{"s", `{"advance_to":"2023-01-01T12:00:00Z"}`, 200},
		{"s", `{"advance_to":"` + far + `"}`, 409},
		{"s", `{"advance_to":"` + far + `","force":true}`, 200},
		{"s", `{"advance_to":"soon"}`, 400},
		{"s", `{"advance_to":null}`, 400},
		{"s", `{}`, 400},
		{"s", `{"advance":"2024-01-01"}`, 400},
		{"s", `{"advance_to":"2024-01-01","force":"yes"}`, 400},
		{"s", `[]`, 400},
		{"s", ``, 400},
		{"none", `{"advance_to":"2024-01-01T12:00:00Z"}`, 404},
		{"No", `{"advance_to":"2024-01-01T12:00:00Z"}`, 400},
	} {
		status, m, _ := s.call("POST", "/v1/streams/"+c.stream+"/watermark", c.body)
		if status != c.status || strings.Contains(fmt.Sprint(m["detail"]), "Go ") || strings.Contains(fmt.Sprint(m["detail"]), "json.") {
			t.Errorf("%s: %d %v, want %d", c.body, status, m, c.status)
		}
	}
}

// fasthttp uses a request's memory again: what is kept must be a copy.
func TestNamesAreCopied(t *testing.T) {
	t.Parallel()
	s := start(t, vfs.NewMem())
	const n = 1000
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				name := fmt.Sprintf("stream_%04d", i)
				if status, m, _ := s.call("POST", "/v1/streams/"+name+"/events", fmt.Sprintf(`{"v_%04d":"%04d"}`, i, i), "Idempotency-Key", name); status != 200 {
					t.Errorf("%s: %d %v", name, status, m)
				}
			}
		})
	}
	wg.Wait()
	for i := range n {
		st, err := s.reg.Get(fmt.Sprintf("stream_%04d", i))
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Schema.Fields) != 1 || st.Schema.Fields[0].Name != fmt.Sprintf("v_%04d", i) {
			t.Errorf("stream %d has %v", i, st.Schema.Fields)
		}
		batches, err := s.log.Slice(st.ID, 0, 0, 10)
		if err != nil || len(batches) != 1 {
			t.Fatal(batches, err)
		}
		if got, want := string(batches[0].Raw(0)), fmt.Sprintf(`{"v_%04d":"%04d"}`, i, i); got != want {
			t.Errorf("stream %d holds %s", i, got)
		}
	}
}

func TestPanicIsAProblem(t *testing.T) {
	t.Parallel()
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	Mount(app, nil, Options{})
	res, err := app.Test(httptest.NewRequest("POST", "/v1/events", strings.NewReader("{}")))
	if err != nil || res.StatusCode != 500 {
		t.Errorf("got %v, %v", res, err)
	}
}
