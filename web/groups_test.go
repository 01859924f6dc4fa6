package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tidemark/web"
)

func TestGroupOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	call := func(method, path, body string, want int) map[string]any {
		t.Helper()
		a := s.do(method, "/v1/streams/shop/groups"+path, body, nil)
		if a.status != want {
			t.Fatalf("%s %s %s: %d %s", method, path, body, a.status, a.body)
		}
		var m map[string]any
		if a.body != "" {
			if err := json.Unmarshal([]byte(a.body), &m); err != nil {
				t.Fatalf("%v: %s", err, a.body)
			}
		}
		return m
	}
	m := call("POST", "/desk/poll", `{"member":"m1","max":2,"wait":"5s","delivery":"at_least_once"}`, 200)
	events := m["events"].([]any)
	if len(events) != 2 || len(m["partitions"].([]any)) != 2 {
		t.Fatal(m)
	}
	first := events[0].(map[string]any)
	if first["partition"] != 0.0 || first["offset"] != 0.0 || first["key"] != "k" || first["time"] != "2024-01-01T00:00:00Z" || fmt.Sprint(first["event"]) != "map[n:1]" {
		t.Error(first)
	}
	g := m["generation"].(float64)
	if m = call("POST", "/desk/commit", fmt.Sprintf(`{"member":"m1","generation":%v,"offsets":{"0":1}}`, g), 200); fmt.Sprint(m["committed"]) != "map[0:1]" {
		t.Error(m)
	}
	if m = call("POST", "/desk/nack", fmt.Sprintf(`{"member":"m1","generation":%v,"partition":0,"offset":1,"reason":"no such shop"}`, g), 200); m["attempts"] != 1.0 || m["dead_letter"] != nil {
		t.Error(m)
	}
	m = call("POST", "/desk/poll", `{"member":"m1","delivery":"at_most_once"}`, 200)
	if events = m["events"].([]any); len(events) != 4 || events[0].(map[string]any)["attempts"] != 1.0 {
		t.Error(m)
	}
	m = call("GET", "/desk", "", 200)
	p := m["partitions"].([]any)[0].(map[string]any)
	if p["committed_offset"] != 5.0 || p["member"] != "m1" || p["lag_events"] != 0.0 || m["lag_events"] != 0.0 || m["members"].([]any)[0].(map[string]any)["session_timeout"] != "30s" {
		t.Error(m)
	}
	if m = call("POST", "/desk/seek", `{"time":"2020-01-01T00:00:00Z"}`, 200); fmt.Sprint(m["committed"]) != "map[0:0 1:0]" {
		t.Error(m)
	}
	call("POST", "/desk/leave", `{"member":"m1"}`, 204)
	if m = call("GET", "", "", 200); len(m["items"].([]any)) != 2 || m["next"] != nil {
		t.Error(m)
	}
	call("DELETE", "/desk", "", 204)
	call("GET", "/desk", "", 404)
}

func TestPollOfAClientThatLeavesGivesNothingAway(t *testing.T) {
	t.Parallel()
	deps := fakeDeps(t)
	s := serve(t, web.Options{API: deps})
	shop, err := deps.Streams.Get("shop")
	if err != nil {
		t.Fatal(err)
	}
	if a := s.do("POST", "/v1/streams/shop/groups/desk/seek", `{"to":"latest"}`, nil); a.status != 200 {
		t.Fatal(a.body)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.addr+"/v1/streams/shop/groups/desk/poll", strings.NewReader(`{"member":"m1","wait":"60s"}`))
		if err != nil {
			gone <- err
			return
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	waits := func(want bool) {
		for {
			info, err := deps.Groups.Get(shop.ID, "desk")
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Members) == 1 && info.Members[0].Waits == want {
				return
			}
		}
	}
	waits(true)
	leave()
	if err := <-gone; err == nil {
		t.Error("the poll was answered")
	}
	waits(false)
}
