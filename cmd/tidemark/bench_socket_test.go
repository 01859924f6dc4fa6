package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestSocketPostsAndTellsRefusals: the load generator's own client sends whole requests one after the
// other, and an answer that is no 200 is an error with its text.
func TestSocketPostsAndTellsRefusals(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan string, 3)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
		if string(body) == "{}" {
			http.Error(w, "the log is full", http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, `{"accepted":1}`)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	s, err := dialSocket(ln.Addr().String(), "/v1/streams/s/events", "application/x-ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"{}\n", strings.Repeat("{}\n", 5000)} {
		if err := s.post([]byte(body)); err != nil {
			t.Error(err)
		}
	}
	if err := s.post([]byte("{}")); err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "the log is full") {
		t.Errorf("a refusal is %v", err)
	}
	s.close()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	<-served
	for _, body := range []string{"{}\n", strings.Repeat("{}\n", 5000), "{}"} {
		if got, want := <-requests, "POST /v1/streams/s/events application/x-ndjson "+body; got != want {
			t.Errorf("a request %.60q of %d bytes, want %.60q of %d", got, len(got), want, len(want))
		}
	}
}

func TestStampNumbersEveryEvent(t *testing.T) {
	t.Parallel()
	body := []byte(`{"id":"0000000000000000-0000"}` + "\n" + `{"id":"0000000000000000-0001"}` + "\n")
	stamp(body, 907)
	if got, want := string(body), `{"id":"0000000000000907-0000"}`+"\n"+`{"id":"0000000000000907-0001"}`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
