package main

import (
	"bufio"
	"bytes"
	"os"
	"strings"
	"testing"
)

// What operators are told stands in the docs, name by name, with what it means.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/shop", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","country":"VARCHAR","amount":"BIGINT"}}`, nil)
	s.must("PUT", "/v1/views/sales", `{"sql":"SELECT window_start, count(*) AS n FROM tumble(shop, ts, INTERVAL '1 minute') GROUP BY ALL"}`, nil)
	s.must("PUT", "/v1/alerts/large", `{"sql":"SELECT country, amount FROM shop WHERE amount > 100","title":"{country}"}`, nil)
	s.must("POST", "/v1/streams/shop/events", `{"ts":"2024-01-01T12:00:00Z","country":"DE","amount":5}`, nil)
	s.must("POST", "/v1/streams/shop/groups/g/poll", `{"member":"m","max":1}`, nil)
	s.verifiedEqual("sales")
	docs, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	status, text := s.call("GET", "/metrics", "")
	if status != 200 {
		t.Fatal(status)
	}
	told := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		help, ok := strings.CutPrefix(lines.Text(), "# HELP ")
		name, meaning, _ := strings.Cut(help, " ")
		if !ok || !strings.HasPrefix(name, "tidemark_") {
			continue
		}
		told[name] = true
		if meaning == "" || !bytes.Contains(docs, []byte("| `"+name+"` | ")) {
			t.Errorf("%s (%s) is not in docs/metrics.md", name, meaning)
		}
	}
	for _, name := range []string{
		"view_lag_events", "view_lag_seconds", "view_watermark_age_seconds", "view_epoch_seconds", "view_state", "view_state_memory_bytes",
		"view_late_total", "view_row_errors", "view_pending_events", "view_pending_events_max", "view_verified", "view_sealed_rows",
		"log_queue_bytes", "log_queue_bytes_max", "log_queue_requests", "log_queue_requests_max", "history_waiting", "verify_waiting", "verify_waiting_max",
	} {
		if !told["tidemark_"+name] {
			t.Errorf("/metrics has no tidemark_%s", name)
		}
	}
}
