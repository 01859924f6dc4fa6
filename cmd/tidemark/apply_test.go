package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is applied twice changes nothing the second time, and one edit shows as one.
func TestApplyAgainChangesNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	file := filepath.Join(t.TempDir(), "shop.yaml")
	apply := func(text string) string {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := tidemark(context.Background(), "apply", file, "--server", "http://"+s.addr).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	const text = `
streams:
  orders:
    partitions: 2
    time_field: ts
    key_field: user
    columns: {user: varchar, amount: DOUBLE, n: int}
    max_out_of_orderness: 120s
    idle_advance: true
    retention: {age: 7d, bytes: 2000MB}
    compact: false
  clicks: {time_field: ts, id_field: id}
views:
  sums:
    sql: >-
      SELECT window_start, user, sum(amount) AS total
      FROM tumble(orders, ts, INTERVAL '1 minute') GROUP BY ALL
    allowed_lateness: 60m
    late: correct
    emit: changes
    throttle: 100ms
    start: earliest
alerts:
  big:
    sql: SELECT window_start, user, sum(amount) AS total FROM tumble(orders, ts, INTERVAL '1 minute') GROUP BY ALL HAVING sum(amount) > 100
    severity: high
    title: "{user} spends {total}"
dashboards:
  shop:
    title: Shop
    range: now-1h
    panels:
      - {id: total, type: table, title: Totals, view: sums, limit: 5, grid: [0, 0, 6, 4]}
`
	if out := apply(text); !strings.Contains(out, "applied: 5 changed, 5 declared") {
		t.Fatalf("the first time:\n%s", out)
	}
	if out := apply(text); out != "0 to change, 5 declared\n" {
		t.Errorf("the second time:\n%s", out)
	}
	out := apply(strings.Replace(text, "120s", "3m", 1))
	if out != "~ stream orders\n    max_out_of_orderness: \"2m\" → \"3m\"\napplied: 1 changed, 5 declared\n" {
		t.Errorf("after an edit:\n%s", out)
	}
}

func TestValuesThatMeanTheSameAreNoChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		have, want string
		same       bool
	}{
		{`"168h"`, `"7d"`, true},
		{`"168h"`, `"8d"`, false},
		{`"1GB"`, `"1024MB"`, true},
		{`"1GB"`, `1073741824`, true},
		{`"1GB"`, `1`, false},
		{`"INTEGER"`, `"int"`, true},
		{`"BIGINT"`, `"int"`, false},
		{`null`, `false`, true},
		{`null`, `""`, true},
		{`null`, `[]`, true},
		{`null`, `{}`, true},
		{`null`, `"a"`, false},
		{`"a"`, `null`, false},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`["a"]`, `["a","b"]`, false},
		{`["a"]`, `["a"]`, true},
		{`[1]`, `{"a":1}`, false},
	} {
		var have, want any
		if json.Unmarshal([]byte(c.have), &have) != nil || json.Unmarshal([]byte(c.want), &want) != nil {
			t.Fatal(c)
		}
		if sameValue(have, want) != c.same {
			t.Errorf("%s and %s: want %v", c.have, c.want, c.same)
		}
	}
}
