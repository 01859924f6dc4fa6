package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// clicks are n events from a number on, ten a second of event time.
func clicks(from, n int) string {
	var b bytes.Buffer
	for i := from; i < from+n; i++ {
		at := time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC).Add(time.Duration(i) * 100 * time.Millisecond)
		fmt.Fprintf(&b, `{"ts":%q,"n":%d,"k":%d,"v":%d}`+"\n", at.Format("2006-01-02T15:04:05.0Z"), i, i%7, i%100)
	}
	return b.String()
}

// C6: SQL that is edited while 10,000 events a second come cuts over with nothing lost or doubled, in
// the rows, and for a reader of the change stream, who sees no gap. The third edit comes while the
// second is being built.
func TestEditedSQLCutsOverWhileEventsFlow(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/clicks", `{"time_field":"ts","partitions":2,"max_out_of_orderness":"5s","columns":{"ts":"TIMESTAMP","n":"BIGINT","k":"BIGINT","v":"BIGINT"}}`, nil)
	feed := func(where string) string {
		return `{"sql":"SELECT n, v FROM clicks WHERE ` + where + `","throttle":"0s"}`
	}
	sums := func(v string) string {
		return `{"sql":"SELECT window_start, k, count(*) AS n, sum(` + v + `) AS total FROM tumble(clicks, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`
	}
	s.must("PUT", "/v1/views/feed", feed("v < 20"), nil)
	s.must("PUT", "/v1/views/sums", sums("v"), nil)

	const total, batch = 40_000, 500
	var sent atomic.Int64
	flow := make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Second * batch / 10_000)
		defer tick.Stop()
		for from := 0; from < total; from += batch {
			<-tick.C
			if status, text := s.tryPost("/v1/streams/clicks/events", clicks(from, batch)); status != 200 {
				flow <- fmt.Errorf("%d %.300s", status, text)
				return
			}
			sent.Add(batch)
		}
		flow <- nil
	}()

	conn := s.dial(rowMap{"op": "subscribe", "id": "a", "to": "feed", "from": "snapshot", "fold": false})
	rows := map[string]int{}
	edits := []struct {
		at         int64
		feed, sums string
	}{
		{total / 4, "v >= 10 AND v < 30", "v * 2"}, {total / 2, "v < 40", "v * 3"}, {total / 2, "v >= 15 AND v < 25", "v + 1"},
	}
	read := func() {
		t.Helper()
		switch m := readMessage(t, conn); m.Type {
		case "gap":
			t.Fatal("a gap, though the columns are the same")
		case "snapshot":
			for _, r := range m.Rows {
				rows[fmt.Sprint(r["n"])]++
			}
		case "changes":
			for _, c := range m.Changes {
				n := fmt.Sprint(c.Row["n"])
				if rows[n]++; c.Op == "-" {
					rows[n] -= 2
				}
				if rows[n] == 0 {
					delete(rows, n)
				} else if rows[n] != 1 {
					t.Fatalf("row %s is there %d times", n, rows[n])
				}
			}
		}
	}
	for done := false; !done || len(edits) > 0; {
		read()
		for len(edits) > 0 && sent.Load() >= edits[0].at {
			s.must("PUT", "/v1/views/feed", feed(edits[0].feed), nil)
			s.must("PUT", "/v1/views/sums", sums(edits[0].sums), nil)
			edits = edits[1:]
		}
		select {
		case err := <-flow:
			if done = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	for _, view := range []string{"feed", "sums"} {
		s.eventually("the last edit of "+view+" is served", func() error {
			var v struct {
				Rebuilding bool
				As_of      struct{ View_version int }
				State      string
				Lag_events int64
			}
			s.must("GET", "/v1/views/"+view, "", &v)
			if v.Rebuilding || v.As_of.View_version != 4 || v.State != "live" || v.Lag_events != 0 {
				return fmt.Errorf("%+v", v)
			}
			return nil
		})
	}
	var wantFeed, wantSums []rowMap
	type group struct{ minute, k int }
	n, sum := map[group]int{}, map[group]int{}
	for i := range total {
		if v := i % 100; v >= 15 && v < 25 {
			wantFeed = append(wantFeed, rowMap{"n": i, "v": v})
		}
		g := group{i / 600, i % 7}
		n[g]++
		sum[g] += i%100 + 1
	}
	for g := range n {
		at := time.Date(2024, 1, 15, 10, g.minute, 0, 0, time.UTC).Format(time.RFC3339)
		wantSums = append(wantSums, rowMap{"window_start": at, "k": g.k, "n": n[g], "total": json.Number(fmt.Sprint(sum[g]))})
	}
	sameRows(t, "feed", s.rows("feed", ""), wantFeed)
	sameRows(t, "sums", s.rows("sums", ""), wantSums)
	s.verifiedEqual("feed")
	s.verifiedEqual("sums")
	all := func() bool {
		for _, r := range wantFeed {
			if rows[fmt.Sprint(r["n"])] != 1 {
				return false
			}
		}
		return len(rows) == len(wantFeed)
	}
	for !all() { // a row that never comes ends with the read's deadline
		read()
	}
}
