package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/web/auth"
)

// cliAnswer runs a command to its end.
func cliAnswer(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := tidemark(ctx, args...)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	_ = cmd.Run()
	return strings.TrimSpace(out.String()), errors.String(), cmd.ProcessState.ExitCode()
}

// Every route that the program has, not only those that a package's own test mounts.
func TestEveryRouteHasARule(t *testing.T) {
	o, _, err := (&serverOptions{}).load(filepath.Join(t.TempDir(), "data"), []string{"TIDEMARK_HISTORY_MEMORY=256MB", "TIDEMARK_HISTORY_THREADS=1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := openService(context.Background(), o, false, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.closeStores(); err != nil {
			t.Error(err)
		}
	}()
	routes := s.app.Fiber().GetRoutes(true)
	if len(routes) < 40 {
		t.Fatalf("%d routes", len(routes))
	}
	for _, r := range routes {
		if _, ok := auth.RuleOf(r.Method, r.Path); !ok {
			t.Errorf("%s %s: no rule says who may use it", r.Method, r.Path)
		}
	}
}

func TestKeysAreMadeUsedAndEndedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	at := "--server=" + s.url("")
	key, note, code := cliAnswer(t, "key", "create", "ops", "--scope", "admin", at)
	if code != 0 || !strings.HasPrefix(key, "tdm_") || !strings.Contains(note, "authentication is on") {
		t.Fatalf("exit code %d: %s", code, note)
	}
	if _, text, code := cliAnswer(t, "key", "list", at); code != 1 || !strings.Contains(text, "401") {
		t.Errorf("without a key: exit code %d, %s", code, text)
	}
	if out, text, code := cliAnswer(t, "key", "list", at, "--key", key); code != 0 || !strings.Contains(out, "ops") || strings.Contains(out, key) {
		t.Errorf("exit code %d, %s", code, text)
	}
	writer, text, code := cliAnswer(t, "key", "create", "shop", "--scope", "ingest", "--stream", "sales_*", at, "--key", key)
	if code != 0 {
		t.Fatal(text)
	}
	post := func(key, path, body string) int {
		req, err := http.NewRequest("POST", s.url(path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	for _, test := range []struct {
		key, path, body string
		status          int
	}{
		{writer, "/v1/streams/sales_eu/events", `{"a":1}`, 200},
		{writer, "/v1/streams/hr/events", `{"a":1}`, 403},
		{writer, "/v1/events", `[{"stream":"sales_us","a":1},{"stream":"sales_eu","a":2}]`, 200},
		{writer, "/v1/events", `[{"stream":"sales_us","a":1},{"stream":"hr","a":2}]`, 403},
		{writer, "/v1/query", `{"sql":"SELECT 1"}`, 403},
		{key, "/v1/query", `{"sql":"SELECT count(*) FROM sales_eu"}`, 200},
	} {
		if got := post(test.key, test.path, test.body); got != test.status {
			t.Errorf("POST %s %s: %d, want %d", test.path, test.body, got, test.status)
		}
	}
	reader, text, code := cliAnswer(t, "key", "create", "bi", "--scope", "read", "--stream", "sales_us", at, "--key", key)
	if code != 0 {
		t.Fatal(text)
	}
	lists := func(path string) string {
		var list struct{ Items []struct{ Name string } }
		c := serverFlags{Server: s.url(""), Key: reader}.client()
		if err := c.call(context.Background(), "GET", path, nil, nil, &list); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(list.Items)
	}
	if got := lists("/v1/streams"); got != "[{sales_us}]" {
		t.Errorf("the key sees %s", got)
	}
	if got := post(reader, "/v1/query", `{"sql":"SELECT count(*) FROM sales_us"}`); got != 200 {
		t.Errorf("a query of what the key is for: %d", got)
	}
	if got := post(reader, "/v1/query", `{"sql":"SELECT count(*) FROM sales_us, sales_eu"}`); got < 400 {
		t.Errorf("a query of what it is not for: %d", got)
	}
	if out, text, code := cliAnswer(t, "query", "SELECT count(*) AS n FROM sales_eu", at, "--key", reader); code == 0 {
		t.Errorf("%s %s", out, text)
	}
	if _, text, code := cliAnswer(t, "key", "delete", "shop", at, "--key", key); code != 0 {
		t.Error(text)
	}
	if got := post(writer, "/v1/streams/sales_eu/events", `{"a":1}`); got != 401 {
		t.Errorf("a deleted key: %d", got)
	}
	if _, text, code := cliAnswer(t, "key", "delete", "ops", at, "--key", key); code != 1 || !strings.Contains(text, "last_admin_key") {
		t.Errorf("exit code %d, %s", code, text)
	}
	s.restartAfterKill()
	if got := post(key, "/v1/query", `{"sql":"SELECT 1"}`); got != 200 {
		t.Errorf("after a kill: %d", got)
	}
	if log := s.log.String(); strings.Contains(log, key[len(key)-32:]) || strings.Contains(log, writer[len(writer)-32:]) {
		t.Error("a key is in the log")
	}
}

func TestOnlyWithKeysTheNetworkIsListenedTo(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	_, port, _ := net.SplitHostPort(s.addr)
	args := []string{"serve", "--data", s.dir, "--listen", "0.0.0.0:" + port, "--history-memory", "256MB", "--history-threads", "1"}
	if _, text, code := cliAnswer(t, args...); code != exitUsage || !strings.Contains(text, "tidemark key create") {
		t.Errorf("without keys: exit code %d, %s", code, text)
	}
	// the first key, without a server
	key, text, code := cliAnswer(t, "key", "create", "ops", "--scope", "admin", "--data", s.dir)
	if code != 0 || !strings.HasPrefix(key, "tdm_") {
		t.Fatalf("exit code %d, %s", code, text)
	}
	s.args = []string{"--listen", "0.0.0.0:" + port}
	s.start()
	if !strings.Contains(s.log.String(), "unencrypted") {
		t.Error("nobody was told that keys cross the network in the clear")
	}
	req, _ := http.NewRequestWithContext(context.Background(), "GET", s.url("/v1/keys"), nil)
	req.Host = "tidemark.example"
	for _, test := range []struct {
		key    string
		status int
	}{{"", 401}, {key, 200}} {
		req.Header = http.Header{}
		if test.key != "" {
			req.Header.Set("Authorization", "Bearer "+test.key)
		}
		client := &http.Client{Timeout: time.Minute}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		err = json.NewDecoder(resp.Body).Decode(&body)
		resp.Body.Close()
		if resp.StatusCode != test.status || err != nil {
			t.Errorf("%d %v", resp.StatusCode, fmt.Sprint(body, err))
		}
	}
	if _, text, code := cliAnswer(t, "key", "create", "x", "--scope", "admin", "--data", s.dir); code != exitInUse {
		t.Errorf("beside a running server: exit code %d, %s", code, text)
	}
}

// A key that is for a view alone reads its rows, and not the events that they were made of.
func TestAKeyForAViewReadsNoEventsOfTheStreamsBeneath(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/people", `{"columns":{"name":"VARCHAR","email":"VARCHAR"}}`, nil)
	s.must("PUT", "/v1/views/open_names", `{"sql":"SELECT name, count(*) AS n FROM people GROUP BY ALL"}`, nil)
	s.must("PUT", "/v1/views/open_count", `{"sql":"SELECT count(*) AS n FROM open_names"}`, nil)
	s.must("PUT", "/v1/views/closed_names", `{"sql":"SELECT name, count(*) AS n FROM people GROUP BY ALL"}`, nil)
	s.must("PUT", "/v1/alerts/alarms", `{"sql":"SELECT name FROM people","title":"{name}","severity":"low"}`, nil)
	s.must("POST", "/v1/streams/people/events", `{"name":"ada","email":"ada@example.org"}`, nil)
	for _, view := range []string{"open_count", "closed_names"} {
		s.settle(view)
	}
	keys := map[string]string{}
	for name, body := range map[string]string{"boss": `{"scopes":["admin"]}`, "view": `{"scopes":["read"],"streams":["open_*"]}`, "both": `{"scopes":["read"],"streams":["open_*","people"]}`} {
		var made struct{ Key string }
		s.must("PUT", "/v1/keys/"+name, body, &made)
		if keys[name] = made.Key; name == "boss" || s.key == "" {
			s.key = keys["boss"]
		}
	}
	names := "/v1/views/open_names/rows/events?key=%7B%22name%22%3A%22ada%22%7D"
	for _, test := range []struct {
		key, path string
		status    int
		must, not string
	}{
		{"view", "/v1/views/open_names/rows", 200, "ada", "example.org"},
		{"view", names, 403, "people", "example.org"},
		{"view", "/v1/views/open_count/rows/events?key=%7B%7D", 403, "people", "example.org"},
		{"view", "/v1/views/open_names/rows/history?key=%7B%22name%22%3A%22ada%22%7D", 200, "provisional", "example.org"},
		{"view", "/v1/streams/people/events/0/0/fate", 403, "people", "counted"},
		{"both", names, 200, "example.org", "closed"},
		{"both", "/v1/streams/people/events/0/0/fate", 200, "open_names", "closed"},
		{"both", "/v1/streams/people/events/0/0/fate", 200, "open_count", "alarms"},
		{"boss", "/v1/streams/people/events/0/0/fate", 200, "closed_names", "denied"},
		{"boss", "/v1/streams/people/events/0/0/fate", 200, "alarms", "denied"},
	} {
		s.key = keys[test.key]
		if status, body := s.call("GET", test.path, ""); status != test.status || !bytes.Contains(body, []byte(test.must)) || bytes.Contains(body, []byte(test.not)) {
			t.Errorf("%s for %s: %d %s", test.key, test.path, status, body)
		}
	}
	s.key = keys["boss"]
}
