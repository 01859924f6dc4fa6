package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// groupPoll is the answer to a poll as this test reads it.
type groupPoll struct {
	Generation int64
	Events     []struct {
		Partition  int
		Offset     int64
		Attempts   int
		DeadLetter string `json:"dead_letter"`
		Event      map[string]any
	}
}

// TestPoisonOfAGroupSurvivesKillNineAndIsReplayedByCommand goes the whole way of a poison event: five
// failed attempts with kill -9 of the server between them, the dead letter, and its replay from the
// command line to the group alone, while a view counts every event once.
func TestPoisonOfAGroupSurvivesKillNineAndIsReplayedByCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/pay", `{"columns":{"n":"BIGINT"},"partitions":2}`, nil)
	s.must("PUT", "/v1/views/total", `{"sql":"SELECT count(*) AS events, sum(n) AS n FROM pay"}`, nil)
	for p := range 2 {
		s.must("POST", fmt.Sprintf("/v1/streams/pay/events?partition=%d", p), `[{"n":1},{"n":2},{"n":3}]`, nil)
	}
	s.must("POST", "/v1/streams/pay/events", `{"n":"four"}`, nil)
	if status, _ := s.call("POST", "/v1/streams/pay/events?strict=true", `[{"n":5},{"n":"six"}]`); status != 422 {
		t.Fatalf("strict: %d", status)
	}
	const desk = "/v1/streams/pay/groups/desk"
	done, tries := map[string]int{}, 0
	for quiet := 0; quiet < 3; {
		var got groupPoll
		s.must("POST", desk+"/poll", `{"member":"w1"}`, &got)
		quiet++
		for _, e := range got.Events {
			quiet = 0
			if e.Partition == 1 && e.Offset == 1 {
				tries++
				if tries%2 == 0 {
					s.restartAfterKill()
				}
				break // the worker dies, too
			}
			done[fmt.Sprintf("%d/%d", e.Partition, e.Offset)]++
			s.must("POST", desk+"/commit", fmt.Sprintf(`{"member":"w1","generation":%d,"offsets":{"%d":%d}}`, got.Generation, e.Partition, e.Offset+1), nil)
		}
	}
	if tries != 5 || len(done) != 5 {
		t.Errorf("the poison was tried %d times, and %v done", tries, done)
	}
	for place, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", place, n)
		}
	}
	command := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		out, err := tidemark(ctx, append([]string{"dead-letters", "pay", "--server", s.url("")}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("dead-letters %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	if list := command(); !strings.Contains(list, "desk.1.1") || !strings.Contains(list, "group desk") || !strings.Contains(list, "bad_value") || strings.Count(list, "\n") != 3 {
		t.Errorf("the list is\n%s", list)
	}
	if list := command("--origin", "ingest", "--json"); strings.Count(list, "\n") != 1 || !strings.Contains(list, `"attempts":1`) {
		t.Errorf("those of ingest are\n%s", list)
	}
	if said := command("--replay", "desk.1.1", "--with", `{"n":20}`); !strings.Contains(said, "group desk") {
		t.Error(said)
	}
	if said := command("--replay", "1", "--with", `{"n":4}`); !strings.Contains(said, "appended at partition") {
		t.Error(said)
	}
	s.restartAfterKill()
	given := 0
	for quiet := 0; quiet < 3; quiet++ {
		var got groupPoll
		s.must("POST", desk+"/poll", `{"member":"w1"}`, &got)
		for _, e := range got.Events {
			if e.DeadLetter == "desk.1.1" && fmt.Sprint(e.Event["n"]) == "20" {
				given++
			}
			s.must("POST", desk+"/commit", fmt.Sprintf(`{"member":"w1","generation":%d,"offsets":{"%d":%d}}`, got.Generation, e.Partition, e.Offset+1), nil)
		}
	}
	if given != 1 {
		t.Errorf("the replay was given %d times", given)
	}
	if list := command(); strings.Count(list, "\n") != 1 {
		t.Errorf("still there:\n%s", list)
	}
	s.settle("total")
	if rows := fmt.Sprint(s.rows("total", "")); rows != "[map[events:7 n:16]]" {
		t.Errorf("the view says %s", rows)
	}
	var stands struct{ Counts map[string]int64 }
	s.must("GET", "/v1/streams/pay", "", &stands)
	if c := stands.Counts; c["accepted"] != 7 || c["dead_letters"] != 1 || c["duplicates"] != 0 || c["received"] != 8+c["refused"] {
		t.Errorf("the counts are %v", c)
	}
	resp, err := http.Get(s.url("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`tidemark_group_lag_events{group="desk",stream="pay"} 0`, `tidemark_stream_accepted_total{stream="pay"} 7`, "tidemark_stream_refused_total", "tidemark_stream_received_total"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
}
