package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// seedOf is the seed of a random test: TIDEMARK_SEED or a fresh one, printed when the test fails.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TIDEMARK_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TIDEMARK_SEED: %v", err)
		}
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with TIDEMARK_SEED=%d go test -run %s ./cmd/tidemark", seed, t.Name())
		}
	})
	return seed
}

// long says whether the long suite runs, which takes the full numbers.
func long() bool { return os.Getenv("TIDEMARK_LONG") != "" }

// sold is what a file of sales adds up to, by minute and shop.
type sold map[[2]string][2]int64

// writeSales writes n events in nearly ascending order, with ids or without.
func writeSales(t *testing.T, rng *rand.Rand, n int, ids bool) (string, sold) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sales.ndjson")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	want := sold{}
	at := time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC)
	for i := range n {
		at = at.Add(time.Duration(rng.IntN(120)) * time.Millisecond)
		ts := at.Add(-time.Duration(rng.IntN(4000)) * time.Millisecond)
		shop, cents := fmt.Sprintf("shop-%d", rng.IntN(7)), int64(rng.IntN(10000))
		id := ""
		if ids {
			id = fmt.Sprintf(`"id":"s-%d",`, i)
		}
		fmt.Fprintf(w, `{%s"ts":%q,"shop":%q,"cents":%d}`+"\n", id, ts.Format("2006-01-02T15:04:05.000Z"), shop, cents)
		k := [2]string{ts.Truncate(time.Minute).Format(time.RFC3339), shop}
		v := want[k]
		want[k] = [2]int64{v[0] + 1, v[1] + cents}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file, want
}

func (want sold) rows() []rowMap {
	var out []rowMap
	for k, v := range want {
		out = append(out, rowMap{"window_start": k[0], "shop": k[1], "n": json.Number(strconv.FormatInt(v[0], 10)), "cents": json.Number(strconv.FormatInt(v[1], 10))})
	}
	return out
}

func TestKillNineWhileSendingLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string]bool{"with ids": true, "without ids, by idempotency keys": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, kills := 20_000, 3
			if long() {
				n, kills = 200_000, 8
			}
			rng := rand.New(rand.NewPCG(seedOf(t), 1))
			file, want := writeSales(t, rng, n, ids)
			s := startServer(t)
			idField := ""
			if ids {
				idField = `"id_field":"id",`
			}
			s.must("PUT", "/v1/streams/sales", `{"time_field":"ts",`+idField+`"partitions":2,"columns":{"id":"VARCHAR","ts":"TIMESTAMP","shop":"VARCHAR","cents":"BIGINT"}}`, nil)
			s.must("PUT", "/v1/views/by_minute", `{"sql":"SELECT window_start, shop, count(*) AS n, sum(cents) AS cents FROM tumble(sales, ts, INTERVAL '1 minute') GROUP BY ALL"}`, nil)

			for range kills {
				ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
				sending := tidemark(ctx, "send", "--server", s.url(""), "--quiet", "--retries", "0", "--batch", "200", "sales", file)
				if err := sending.Start(); err != nil {
					t.Fatal(err)
				}
				// The moment of the kill is drawn by how far the log has come, not by the clock.
				from := s.accepted("sales")
				goal := from + int64(rng.IntN(n/kills))
				s.eventually("events arrive", func() error {
					if now := s.accepted("sales"); now < goal && now < int64(n) {
						return fmt.Errorf("%d of %d", now, goal)
					}
					return nil
				})
				s.stop(syscall.SIGKILL)
				_ = sending.Wait() // it fails, or had ended already
				cancel()
				s.start()
			}
			s.send("sales", file, "--batch", "200")
			s.must("POST", "/v1/streams/sales/watermark", `{"advance_to":"2024-02-01T00:00:00Z"}`, nil)
			s.settle("by_minute")

			sameRows(t, "rows against the file", s.rows("by_minute", ""), want.rows())
			s.offsetsHaveNoGap("sales", n)
			final := map[string]int{}
			for _, c := range s.changes("by_minute") {
				if c.Op == "+" && c.Status == "final" {
					k := fmt.Sprint(c.Row["window_start"], c.Row["shop"])
					if final[k]++; final[k] > 1 {
						t.Errorf("%s was given out as final %d times", k, final[k])
					}
				}
			}
			if len(final) != len(want) {
				t.Errorf("%d windows were final, not %d", len(final), len(want))
			}
		})
	}
}

func (s *server) accepted(stream string) int64 {
	s.t.Helper()
	var answer struct{ Counts struct{ Accepted int64 } }
	s.must("GET", "/v1/streams/"+stream, "", &answer)
	return answer.Counts.Accepted
}

// offsetsHaveNoGap reads every partition from its beginning (P3).
func (s *server) offsetsHaveNoGap(stream string, want int) {
	s.t.Helper()
	var info struct {
		Partitions []struct {
			Partition   int
			FirstOffset int64 `json:"first_offset"`
			NextOffset  int64 `json:"next_offset"`
		}
	}
	s.must("GET", "/v1/streams/"+stream, "", &info)
	total := 0
	for _, p := range info.Partitions {
		next := p.FirstOffset
		for next < p.NextOffset {
			var page struct {
				Events []struct{ Offset int64 }
				Next   int64 `json:"next_offset"`
			}
			s.must("GET", fmt.Sprintf("/v1/streams/%s/partitions/%d/events?offset=%d&limit=5000", stream, p.Partition, next), "", &page)
			for _, e := range page.Events {
				if e.Offset != next {
					s.t.Fatalf("partition %d: offset %d follows %d", p.Partition, e.Offset, next-1)
				}
				next++
				total++
			}
			if page.Next != next {
				s.t.Fatalf("partition %d: next_offset %d after %d", p.Partition, page.Next, next-1)
			}
		}
	}
	if total != want {
		s.t.Errorf("%d events in all partitions, not %d", total, want)
	}
}

// TestNoAlertIsMissingWhenReaderAndServerAreKilled is P7: tail and server are killed again and
// again while cards are abused; every alert arrives, each under one identity.
func TestNoAlertIsMissingWhenReaderAndServerAreKilled(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(seedOf(t), 2))
	s := startServer(t)
	s.must("PUT", "/v1/streams/payments", `{"time_field":"ts","id_field":"id","columns":{"id":"VARCHAR","ts":"TIMESTAMP","card":"VARCHAR","amount":"DOUBLE"}}`, nil)
	s.must("PUT", "/v1/alerts/card_velocity", `{"sql":"SELECT window_start, card, count(*) AS n FROM tumble(payments, ts, INTERVAL '1 minute') GROUP BY ALL HAVING count(*) > 5","severity":"high","title":"card {card}: {n} payments"}`, nil)

	out := filepath.Join(t.TempDir(), "alerts.ndjson")
	tail := func() (stop func()) {
		f, err := os.OpenFile(out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		cmd := tidemark(context.Background(), "tail", "--server", s.url(""), "card_velocity", "--group", "g")
		cmd.Stdout = f
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			f.Close()
		}
	}

	at := time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC)
	number := 0
	counts := map[string]int{} // minute and card
	burst := func() {
		var body strings.Builder
		for range 300 {
			at = at.Add(time.Duration(rng.IntN(900)) * time.Millisecond)
			card := fmt.Sprintf("c-%d", rng.IntN(25))
			if rng.IntN(3) == 0 {
				card = "c-stolen-" + strconv.Itoa(at.Minute()%3)
			}
			number++
			fmt.Fprintf(&body, `{"id":"p-%d","ts":%q,"card":%q,"amount":1}`+"\n", number, at.Format("2006-01-02T15:04:05.000Z"), card)
			counts[at.Truncate(time.Minute).Format(time.RFC3339)+" "+card]++
		}
		for try := 0; ; try++ {
			status, text := s.tryPost("/v1/streams/payments/events", body.String())
			if status == 200 {
				return
			}
			if try > 200 {
				t.Fatalf("payments can't be posted: %d %s", status, text)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for range 5 {
		stop := tail()
		burst()
		if rng.IntN(2) == 0 {
			s.eventually("an alert arrives", func() error {
				if info, err := os.Stat(out); err != nil || info.Size() == 0 {
					return fmt.Errorf("nothing yet: %v", err)
				}
				return nil
			})
		}
		stop()
		s.restartAfterKill()
		burst()
	}
	stop := tail()
	defer stop()
	s.must("POST", "/v1/streams/payments/watermark", `{"advance_to":"2024-02-01T00:00:00Z"}`, nil)

	want := map[string]bool{}
	for k, n := range counts {
		if n > 5 {
			want[k] = true
		}
	}
	s.eventually("all alerts have arrived", func() error {
		fired, ids, err := readAlerts(out)
		if err != nil {
			return err
		}
		for k := range want {
			if !fired[k] {
				return fmt.Errorf("missing: %s (%d of %d are there)", k, len(fired), len(want))
			}
			if len(ids[k]) != 1 {
				t.Fatalf("%s has %d identities: %v", k, len(ids[k]), ids[k])
			}
		}
		if len(fired) != len(want) {
			return fmt.Errorf("%d fired, %d expected", len(fired), len(want))
		}
		return nil
	})
}

// readAlerts folds what tail has written: what fired and was not withdrawn, and the ids each had.
func readAlerts(file string) (fired map[string]bool, ids map[string]map[string]bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	fired, ids = map[string]bool{}, map[string]map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var a struct {
			AlertID string `json:"alert_id"`
			Op      string
			Row     struct {
				WindowStart string `json:"window_start"`
				Card        string
			}
		}
		if json.Unmarshal([]byte(line), &a) != nil {
			continue // tail was killed while it wrote this line; it comes again
		}
		k := a.Row.WindowStart + " " + a.Row.Card
		if ids[k] == nil {
			ids[k] = map[string]bool{}
		}
		ids[k][a.AlertID] = true
		if fired[k] = a.Op != "withdraw"; !fired[k] {
			delete(fired, k)
		}
	}
	return fired, ids, nil
}
