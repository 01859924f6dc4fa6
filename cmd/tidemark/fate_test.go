package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

type fateAnswer struct {
	Fate              string
	Partition, Offset *int
	Reason            string
	Views             []struct {
		View, Outcome string
		Windows       []struct {
			Window_start, Window_end time.Time
			Outcome                  string
			Watermark                *time.Time
		}
	}
}

// sentEvent is an event with the fate that its sender expects.
type sentEvent struct {
	id, body  string
	kind      int
	duplicate int // number of the event that it repeats
	offset    int
	hops      string // outcome in the view hops, with its windows
}

const (
	onTime = iota
	lateCorrected
	partlyLate
	lateDropped
	duplicateOf
	badTime
	badType
	filteredOut
	fateKinds
)

// hopOutcome says by the rules alone what a hop of 3 minutes every minute with an allowed lateness of
// one minute does with an event (L2).
func hopOutcome(at, watermark int64, passes bool) string {
	if !passes {
		return "filtered []"
	}
	outcome, windows := "refused", []string{}
	for start := at/60*60 - 120; start <= at; start += 60 {
		what := "counted"
		switch end := start + 180; {
		case watermark >= end+60:
			what = "refused"
		case watermark >= end:
			what = "corrected"
		}
		if what != "refused" {
			outcome = "counted"
		}
		windows = append(windows, fmt.Sprintf("%d-%d %s at %d", start, start+180, what, watermark))
	}
	return fmt.Sprint(outcome, " ", windows)
}

// isOfItsKind says that what the rules do with an event is what its kind is called.
func (e sentEvent) isOfItsKind(t *testing.T) {
	t.Helper()
	outcome, windows, _ := strings.Cut(e.hops, " ")
	has := func(what string) bool { return strings.Contains(windows, what) }
	ok := false
	switch e.kind {
	case onTime:
		ok = outcome == "counted" && !has("corrected") && !has("refused")
	case lateCorrected:
		ok = outcome == "counted" && has("corrected") && !has("refused")
	case partlyLate:
		ok = outcome == "counted" && has("refused")
	case lateDropped:
		ok = outcome == "refused"
	case filteredOut:
		ok = outcome == "filtered"
	}
	if !ok {
		t.Fatalf("%s is not of kind %d: %s", e.id, e.kind, e.hops)
	}
}

// P5, L2, L5, W2
func TestEveryEventHasOneFate(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/orders", `{"time_field":"ts","id_field":"id","max_out_of_orderness":"0s","columns":{"id":"VARCHAR","ts":"TIMESTAMP","amount":"BIGINT"}}`, nil)
	s.must("PUT", "/v1/views/hops", `{"sql":"SELECT window_start, count(*) AS n FROM hop(orders, ts, INTERVAL '1 minute', INTERVAL '3 minutes') WHERE amount > 0 GROUP BY ALL","allowed_lateness":"1m"}`, nil)
	s.must("PUT", "/v1/views/total", `{"sql":"SELECT count(*) AS n FROM orders"}`, nil)

	random := rand.New(rand.NewPCG(1, 2))
	head := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC).Unix()
	watermark, next := head, 0
	var sent []sentEvent
	say := func(e sentEvent, ts string, amount string) {
		e.body = fmt.Sprintf(`{"id":%q,"ts":%q,"amount":%s}`, e.id, ts, amount)
		sent = append(sent, e)
	}
	instant := func(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }
	appended := []int{}
	for i := range 1000 {
		e := sentEvent{id: fmt.Sprint("o-", i), kind: i % fateKinds, duplicate: -1, offset: next}
		if i == 0 {
			e.kind = onTime
		}
		at, amount := head, "5"
		switch e.kind {
		case onTime:
			head += int64(random.IntN(40))
			at = head
		case lateCorrected: // its first window ended less than a minute ago: none is closed
			at = watermark - 60 + int64(random.IntN(int(60-watermark%60)))
		case partlyLate: // its first window is closed, its last one is not
			at = (watermark-120)/60*60 - 60 + int64(random.IntN(120))
		case lateDropped:
			at = watermark - 300 - int64(random.IntN(600))
		case filteredOut:
			amount = "0"
		case duplicateOf:
			e.duplicate = appended[random.IntN(len(appended))]
			e.id = sent[e.duplicate].id
			say(e, instant(at), amount)
			continue
		case badTime:
			say(e, "yesterday", amount)
			continue
		case badType:
			say(e, instant(at), `"many"`)
			continue
		}
		if i == 0 {
			e.hops = "counted" // there is no watermark yet
		} else {
			e.hops = hopOutcome(at, watermark, amount != "0")
			e.isOfItsKind(t)
		}
		watermark = max(watermark, at)
		appended = append(appended, i)
		next++
		say(e, instant(at), amount)
	}
	for from := 0; from < len(sent); from += 50 {
		var body bytes.Buffer
		for _, e := range sent[from:min(from+50, len(sent))] {
			body.WriteString(e.body + "\n")
		}
		status, text := s.tryPost("/v1/streams/orders/events", body.String())
		var answer struct {
			Errors []struct {
				Index       int
				Code        string
				DuplicateOf *struct{ Partition, Offset int } `json:"duplicate_of"`
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		said := map[int]string{}
		for _, e := range answer.Errors {
			of := sent[from+e.Index]
			if said[from+e.Index] += e.Code; e.Code != "duplicate" {
				continue
			}
			if e.DuplicateOf == nil || e.DuplicateOf.Offset != sent[of.duplicate].offset {
				t.Errorf("event %d is a duplicate of %v, not of offset %d", from+e.Index, e.DuplicateOf, sent[of.duplicate].offset)
			}
		}
		for i, e := range sent[from:min(from+50, len(sent))] {
			if want := map[int]string{duplicateOf: "duplicate", badTime: "bad_time", badType: "bad_value"}[e.kind]; said[from+i] != want {
				t.Errorf("event %d: %q, not %q", from+i, said[from+i], want)
			}
		}
	}
	s.settle("hops")
	s.settle("total")
	for i, e := range sent {
		var byID fateAnswer
		s.must("GET", "/v1/streams/orders/fate?id="+e.id, "", &byID)
		want := e
		if e.kind == duplicateOf {
			want = sent[e.duplicate]
		}
		switch e.kind {
		case badTime, badType:
			if byID.Fate != "dead_letter" || byID.Reason == "" || len(byID.Views) != 0 {
				t.Errorf("event %d: %+v", i, byID)
			}
			continue
		}
		if byID.Fate != "appended" || *byID.Offset != want.offset || len(byID.Views) != 2 {
			t.Fatalf("event %d, offset %d: %+v", i, want.offset, byID)
		}
		var at fateAnswer
		s.must("GET", fmt.Sprintf("/v1/streams/orders/events/0/%d/fate", want.offset), "", &at)
		a, _ := json.Marshal(at)
		b, _ := json.Marshal(byID)
		if !bytes.Equal(a, b) {
			t.Errorf("event %d: by place %s, by id %s", i, a, b)
		}
		hops, total := at.Views[0], at.Views[1]
		if total.Outcome != "counted" || len(total.Windows) != 0 {
			t.Errorf("event %d in total: %+v", i, total)
		}
		got := hops.Outcome
		if want.hops != "counted" {
			list := []string{}
			for _, w := range hops.Windows {
				list = append(list, fmt.Sprintf("%d-%d %s at %d", w.Window_start.Unix(), w.Window_end.Unix(), w.Outcome, w.Watermark.Unix()))
			}
			got = fmt.Sprint(got, " ", list)
		}
		if got != want.hops {
			t.Errorf("event %d (%s)\ngot  %s\nwant %s", i, e.body, got, want.hops)
		}
	}
	tally := [fateKinds]int{}
	for _, e := range sent {
		tally[e.kind]++
	}
	var about struct {
		Counts struct{ Events, Late_corrected, Late_partial, Late_dropped int }
	}
	s.must("GET", "/v1/views/hops", "", &about)
	for kind, n := range tally {
		if n < 100 {
			t.Errorf("%d events are of kind %d", n, kind)
		}
	}
	if c := about.Counts; c.Late_corrected != tally[lateCorrected] || c.Late_partial != tally[partlyLate] || c.Late_dropped != tally[lateDropped] {
		t.Errorf("the view counts %+v, sent were %v", c, tally)
	}
	var none fateAnswer
	s.must("GET", "/v1/streams/orders/fate?id=nobody", "", &none)
	if none.Fate != "unknown" || none.Reason == "" {
		t.Errorf("an id that was never sent: %+v", none)
	}
	if status, text := s.call("GET", fmt.Sprintf("/v1/streams/orders/events/0/%d/fate", next), ""); status != 200 || !bytes.Contains(text, []byte(`"unknown"`)) {
		t.Errorf("behind the end: %d %s", status, text)
	}
}

// C3, C4, C5
func TestLedgerTellsARowsLifeWithTheEventsBehindCorrections(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/orders", `{"time_field":"ts","max_out_of_orderness":"0s","columns":{"ts":"TIMESTAMP","city":"VARCHAR","amount":"BIGINT"}}`, nil)
	s.must("PUT", "/v1/views/sums", `{"sql":"SELECT window_start, upper(city) AS town, sum(amount) AS total FROM tumble(orders, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`, nil)
	post := func(events ...string) {
		t.Helper()
		for _, e := range events {
			s.must("POST", "/v1/streams/orders/events", e, nil)
			s.settle("sums")
		}
	}
	post(`{"ts":"2024-01-01T12:00:10Z","city":"Rome","amount":1}`,
		`{"ts":"2024-01-01T12:01:10Z","city":"Rome","amount":2}`,
		`[{"ts":"2024-01-01T12:00:20Z","city":"Oslo","amount":4},{"ts":"2024-01-01T12:00:30Z","city":"rome","amount":8},{"ts":"2024-01-01T12:01:30Z","city":"Rome","amount":16}]`)
	type change struct {
		Op, Status, Position string
		Revision             int
		Row                  struct{ Total json.Number }
		Evidence             map[string][][2]int
		As_of                struct{ Watermark string }
	}
	var ledger struct {
		Items []change
		Next  *string
	}
	at := "/v1/views/sums/rows/history?key=" + url.QueryEscape(`{"window_start":"2024-01-01T12:00:00Z","town":"ROME"}`)
	s.must("GET", at, "", &ledger)
	got := []string{}
	for _, c := range ledger.Items {
		got = append(got, fmt.Sprint(c.Op, c.Row.Total, " ", c.Status, " ", c.Revision, " ", c.Evidence["orders"]))
		if c.Position == "" {
			t.Errorf("%+v has no position", c)
		}
	}
	want := []string{"+1 provisional 0 []", "-1  0 []", "+1 final 1 []", "-1 corrected 2 []", "+9 corrected 2 [[0 3]]"}
	if !slices.Equal(got, want) || ledger.Next != nil {
		t.Errorf("got  %q\nwant %q, next %v", got, want, ledger.Next)
	}
	// Page by page it is the same.
	paged, next := 0, ""
	for range 10 {
		var page struct {
			Items []change
			Next  *string
		}
		s.must("GET", at+"&limit=1&cursor="+next, "", &page)
		paged += len(page.Items)
		if page.Next == nil {
			break
		}
		next = *page.Next
	}
	if paged != len(want) {
		t.Errorf("%d changes page by page, not %d", paged, len(want))
	}
	if status, text := s.call("GET", "/v1/views/sums/rows/history?key="+url.QueryEscape(`{"nothing":1}`), ""); status != 400 || !bytes.Contains(text, []byte("window_start")) {
		t.Errorf("a column that is not there: %d %s", status, text)
	}
}
