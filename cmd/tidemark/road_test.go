package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

const flightsSQL = `SELECT window_start, origin, count(*) AS flights, avg(delay) AS delay FROM tumble(flights, date, INTERVAL '1 day') GROUP BY ALL`

// send runs `tidemark send`.
func (s *server) send(args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := tidemark(ctx, append([]string{"send", "--server", s.url(""), "--quiet"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("send %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// lines decodes an NDJSON file.
func lines(t *testing.T, file string) []rowMap {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []rowMap
	for line := range bytes.Lines(text) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var m rowMap
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func number(v any) float64 {
	f, err := v.(json.Number).Float64()
	if err != nil {
		panic(err)
	}
	return f
}

func TestFlightsByDayEqualTheFile(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/flights", `{"time_field":"date","columns":{"date":"TIMESTAMP","delay":"BIGINT","distance":"BIGINT","origin":"VARCHAR","destination":"VARCHAR"}}`, nil)
	view, _ := json.Marshal(map[string]string{"sql": flightsSQL, "allowed_lateness": "8760h"})
	s.must("PUT", "/v1/views/by_day", string(view), nil)
	s.send("flights", "testdata/flights.ndjson")
	s.must("POST", "/v1/streams/flights/watermark", `{"advance_to":"2002-06-01T00:00:00Z"}`, nil)
	s.settle("by_day")

	type key struct{ day, origin string }
	count, sum := map[key]int{}, map[key]float64{}
	flights := lines(t, "testdata/flights.ndjson")
	for _, f := range flights {
		k := key{strings.ReplaceAll(f["date"].(string)[:10], "/", "-") + "T00:00:00Z", f["origin"].(string)}
		count[k]++
		sum[k] += number(f["delay"])
	}
	check := func(what string, rows []rowMap) {
		t.Helper()
		if len(rows) != len(count) {
			t.Errorf("%s: %d rows, not %d", what, len(rows), len(count))
		}
		for _, r := range rows {
			k := key{r["window_start"].(string), r["origin"].(string)}
			if number(r["flights"]) != float64(count[k]) || math.Abs(number(r["delay"])-sum[k]/float64(count[k])) > 1e-9 {
				t.Errorf("%s: %v: the file has %d flights, %v minutes in all", what, r, count[k], sum[k])
			}
		}
	}
	check("view", s.rows("by_day", "&final=true"))
	s.historyHas("flights", len(flights))
	check("the same SQL on history", s.query(flightsSQL))
	s.eventually("history has the view", func() error {
		if got := len(s.query("FROM by_day")); got != len(count) {
			return fmt.Errorf("%d rows, not %d", got, len(count))
		}
		return nil
	})
	check("the view in history", s.query("FROM by_day"))
}

func TestEarthquakesOutOfOrderAreCorrected(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/quakes", `{"time_field":"time","id_field":"id","columns":{"id":"VARCHAR","time":"TIMESTAMP","net":"VARCHAR","mag":"DOUBLE","depth":"DOUBLE"}}`, nil)
	s.must("PUT", "/v1/views/strongest", `{"sql":"SELECT window_start, net, count(*) AS n, max(mag) AS top FROM tumble(quakes, time, INTERVAL '1 day') GROUP BY ALL","late":"correct","allowed_lateness":"7d"}`, nil)
	s.send("quakes", "testdata/earthquakes.ndjson", "--batch", "50")
	s.must("POST", "/v1/streams/quakes/watermark", `{"advance_to":"2018-03-01T00:00:00Z"}`, nil)
	s.settle("strongest")

	type key struct{ day, net string }
	count, top := map[key]int{}, map[key]float64{}
	quakes := lines(t, "testdata/earthquakes.ndjson")
	for _, q := range quakes {
		at := time.UnixMilli(int64(number(q["time"]))).UTC()
		k := key{at.Format("2006-01-02T00:00:00Z"), q["net"].(string)}
		if count[k]++; count[k] == 1 || number(q["mag"]) > top[k] {
			top[k] = number(q["mag"])
		}
	}
	rows := s.rows("strongest", "")
	if len(rows) != len(count) {
		t.Errorf("%d rows, not %d", len(rows), len(count))
	}
	for _, r := range rows {
		k := key{r["window_start"].(string), r["net"].(string)}
		if number(r["n"]) != float64(count[k]) || number(r["top"]) != top[k] {
			t.Errorf("%v: the file has %d, at most %v", r, count[k], top[k])
		}
	}

	changes := s.changes("strongest")
	folded := map[string]int{}
	corrected := 0
	for _, c := range changes {
		b, _ := json.Marshal(c.Row)
		if c.Op == "+" {
			folded[string(b)]++
		} else if folded[string(b)]--; folded[string(b)] == 0 {
			delete(folded, string(b))
		}
		if c.Status == "corrected" {
			corrected++
		}
	}
	want := canonical(rows)
	if fmt.Sprint(folded) != fmt.Sprint(want) {
		t.Errorf("the folded change stream has %d rows and is not the view's %d", len(folded), len(want))
	}
	if corrected == 0 {
		t.Error("no row was ever corrected, although days arrive out of order")
	}

	before := s.rows("strongest", "")
	for _, batch := range []string{"50", "37"} { // the same requests again, and other ones with the same events
		out := s.send("quakes", "testdata/earthquakes.ndjson", "--batch", batch)
		if !strings.Contains(out, fmt.Sprintf("accepted 0, duplicates %d", len(quakes))) {
			t.Errorf("the file sent again in batches of %s: %s", batch, out)
		}
	}
	s.settle("strongest")
	sameRows(t, "after sending again", s.rows("strongest", ""), before)
}

func TestSIGTERMIsACleanEndAndTheNextStartGoesOn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("POST", "/v1/streams/visits/events", `{"ts":"2024-01-15T10:00:00Z","user":"ada"}`, nil)
	s.must("PUT", "/v1/views/visits_n", `{"sql":"SELECT count(*) AS n FROM visits"}`, nil)
	s.settle("visits_n")
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d after SIGTERM, not 0", code)
	}
	s.start()
	s.must("POST", "/v1/streams/visits/events", `{"ts":"2024-01-15T10:00:01Z","user":"bob"}`, nil)
	s.settle("visits_n")
	sameRows(t, "after the restart", s.rows("visits_n", ""), []rowMap{{"n": json.Number("2")}})
}

func TestASecondProcessOnTheDirectoryFailsAtOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := tidemark(ctx, "serve", "--data", s.dir, "--listen", freeAddress(t))
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != exitInUse {
		t.Errorf("exit code %d, not %d: %s", cmd.ProcessState.ExitCode(), exitInUse, out)
	}
	if !strings.Contains(string(out), "in use") {
		t.Errorf("the message does not say that the directory is in use: %s", out)
	}
}
