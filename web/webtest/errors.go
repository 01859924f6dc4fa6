// Package webtest holds what tests of endpoints share: a table of the errors that an API answers.
// Each package that mounts endpoints keeps its own rows and runs them against a server of its own;
// the whole program runs them all.
package webtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Case is one request that must fail, and how.
type Case struct {
	// Name says what is wrong, as a claim: "a view can't be named late_x".
	Name         string
	Method, Path string
	Body         string
	Header       map[string]string
	// Status and Code are the answer's; Code is the last part of the problem's type.
	Status int
	Code   string
	// Must and MustNot are texts that the answer holds, or does not hold.
	Must, MustNot []string
}

// Errors sends each case to a server and looks for the promised answer: the status, a problem
// document with all members that users need, and a next step.
func Errors(t *testing.T, server string, cases []Case) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.run(t, client, server) })
	}
}

func (c Case) run(t *testing.T, client *http.Client, server string) {
	req, err := http.NewRequest(c.Method, server, strings.NewReader(c.Body))
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(c.Path, "?")
	req.URL.Opaque = "//" + req.URL.Host + path // as it is, escapes too
	req.URL.RawQuery = query
	for k, v := range c.Header {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != c.Status {
		t.Fatalf("%s %s: %d, want %d: %s", c.Method, c.Path, resp.StatusCode, c.Status, body)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %s", got)
	}
	var p struct {
		Type, Title, Detail, Hint string
		Status                    int
		RequestID                 string `json:"request_id"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if p.Type != "/problems/"+c.Code || p.Status != c.Status {
		t.Errorf("type %s, status %d; want %s", p.Type, p.Status, c.Code)
	}
	if p.Title == "" || p.Detail == "" || p.Hint == "" {
		t.Errorf("title, detail or next step is missing in %s", body)
	}
	if id := resp.Header.Get("X-Request-Id"); id == "" || p.RequestID != id {
		t.Errorf("request id %q in the header, %q in the body", id, p.RequestID)
	}
	if (c.Status == 429 || c.Status == 503) && resp.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	for _, text := range c.Must {
		if !strings.Contains(string(body), text) {
			t.Errorf("%q is not in %s", text, body)
		}
	}
	for _, text := range append([]string{"goroutine", ".go:", "panic", "pebble"}, c.MustNot...) {
		if strings.Contains(string(body), text) {
			t.Errorf("%q is in %s", text, body)
		}
	}
}
