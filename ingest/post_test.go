package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/storage/problem"
	"tidemark/stream"
)

func TestAnswerHasTheContractsForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{TimeField: "ts", IDField: "id", Partitions: 2, KeyField: "k", Columns: columns("ts", "TIMESTAMP", "k", "VARCHAR")})
	a := w.must("s", `[{"ts":1,"id":1,"k":"u-1"},{"ts":1,"id":1.0,"k":"u-1"},{"ts":"yesterday","k":"u-1"},{"ts":2,"k":"u-1"}]`)
	want := `{"accepted":2,"duplicates":1,"dead_letters":1,` +
		`"errors":[{"index":1,"code":"duplicate","duplicate_of":{"partition":0,"offset":0}},` +
		`{"index":2,"code":"bad_time","reason":"ts: not a timestamp: \"yesterday\"","dead_letter":"1"}],` +
		`"appended":[{"partition":0,"first_offset":0,"last_offset":1}],"receipt":"` + (stream.Position{Log: 7, Sequence: 1}).String() + `"}`
	if got := string(a.JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a = w.must("s", `[]`)
	want = `{"accepted":0,"duplicates":0,"dead_letters":0,"errors":[],"appended":[],"receipt":"` + (stream.Position{Log: 7, Sequence: 1}).String() + `"}`
	if got := string(a.JSON()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRepeatedRequestGetsItsFirstAnswer(t *testing.T) { // 45
	t.Parallel()
	w := newWorld(t)
	post := func(stream, key, scope, body string) (*Answer, error) {
		return w.in.Post(context.Background(), Request{Stream: stream, Body: []byte(body), IdempotencyKey: key, Scope: scope})
	}
	first, err := post("fresh", "k1", "alice", `[{"a":1},{"a":"x"}]`)
	if err != nil {
		t.Fatal(err)
	}
	again, err := post("fresh", "k1", "alice", `[{"a":1},{"a":"x"}]`)
	if err != nil || !again.Repeated() || string(again.JSON()) != string(first.JSON()) {
		t.Errorf("the answer was\n%s, now it is\n%s, %v", first.JSON(), again.JSON(), err)
	}
	if n := len(w.events("fresh")); n != 1 {
		t.Errorf("%d events", n)
	}
	if _, err := post("fresh", "k1", "alice", `{"a":2}`); problem.From(err).Status != 422 {
		t.Errorf("another body: %v", err)
	}
	for _, other := range [][3]string{{"fresh", "k1", "bob"}, {"other", "k1", "alice"}, {"fresh", "k2", "alice"}} {
		if a, err := post(other[0], other[1], other[2], `{"a":2}`); err != nil || a.Repeated() {
			t.Errorf("%v: %v", other, err)
		}
	}
	if _, err := post("fresh", strings.Repeat("k", 256), "", `{"a":2}`); problem.From(err).Status != 400 {
		t.Errorf("a long key: %v", err)
	}
}

func TestFailedRequestMayBeSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{})
	r := Request{Stream: "s", Body: []byte(`{"a":1}`), IdempotencyKey: "k"}
	busy := problem.New(429, "busy", "the log is too far behind").WithHint("send it again later")
	busy.RetryAfter = 3
	w.log.fail = busy
	if _, err := w.in.Post(context.Background(), r); problem.From(err) != busy {
		t.Fatalf("got %v", err)
	}
	w.log.fail = nil
	if a, err := w.in.Post(context.Background(), r); err != nil || a.Repeated() || a.Accepted != 1 {
		t.Errorf("got %v, %v", a, err)
	}
}

func TestSecondRequestWhileTheFirstRunsIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{Columns: columns("a", "BIGINT")})
	w.log.hold, w.log.held = make(chan struct{}), make(chan struct{}, 2)
	r := Request{Stream: "s", Body: []byte(`{"a":1}`), IdempotencyKey: "k"}
	done := make(chan error)
	go func() {
		_, err := w.in.Post(context.Background(), r)
		done <- err
	}()
	<-w.log.held
	if _, err := w.in.Post(context.Background(), r); problem.From(err).Status != 409 {
		t.Errorf("got %v", err)
	}
	close(w.log.hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if a, err := w.in.Post(context.Background(), r); err != nil || !a.Repeated() {
		t.Errorf("got %v", err)
	}
	if len(w.in.mu.running) != 0 {
		t.Error("a key is still at work")
	}
}

func TestAcknowledgementFromMemoryIs202(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, err := w.in.Post(context.Background(), Request{Stream: "s", Body: []byte(`{"a":1}`), NoSync: true})
	if err != nil || a.Status != 202 {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestMixedBodyGoesToTheStreamsItNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("a", ts("n", "BIGINT"))
	w.declare("b", stream.Config{IDField: "id"})
	ans, err := w.in.Post(context.Background(), Request{Body: []byte(
		`[{"stream":"a","ts":1,"n":1},{"stream":"b","id":1,"x":1},{"stream":"a","ts":"bad","n":2},{"stream":"b","id":1},{"stream":"fresh","ts":5},{"stream":"a","ts":2,"n":3}]`)})
	if err != nil {
		t.Fatal(err)
	}
	if ans.Accepted != 4 || ans.Duplicates != 1 || ans.DeadLetters != 1 || len(ans.Created) != 1 {
		t.Fatalf("got %s", ans.JSON())
	}
	if e := ans.Errors; e[0].Index != 2 || e[0].Stream != "a" || e[1].Index != 3 || e[1].Stream != "b" {
		t.Errorf("the errors are %+v", e)
	}
	if got := w.fields("b"); got != "x BIGINT, id BIGINT" && got != "id BIGINT, x BIGINT" {
		t.Errorf("the columns of b are %s", got)
	}
	if len(w.events("a")) != 2 || w.stream("fresh").Config.TimeField != "ts" || w.fields("fresh") != "ts TIMESTAMP" {
		t.Errorf("fresh has %s", w.fields("fresh"))
	}
	n := w.log.appends
	for _, body := range []string{`[{"stream":"a","ts":1},{"n":1}]`, `{"stream":5}`, `{"stream":"../x"}`, `{"stream":"a","stream":"b"}`, `[{"stream":"a","ts":1},3]`} {
		if _, err := w.in.Post(context.Background(), Request{Body: []byte(body)}); problem.From(err).Status != 422 {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := w.in.Post(context.Background(), Request{Body: []byte(`[{"stream":"a","ts":1},{"stream":"fresh","v":"x"},{"stream":"fresh","v":3}]`), Strict: true}); problem.From(err).Status != 422 {
		t.Errorf("strict: %v", err)
	}
	if w.log.appends != n || w.fields("fresh") != "ts TIMESTAMP" {
		t.Error("something was appended")
	}
	ans, err = w.in.Post(context.Background(), Request{Body: []byte("{\"stream\":\"a\",\"ts\":3}\n{\"stream\":\"b\"}\n"), ContentType: "application/x-ndjson", IdempotencyKey: "k"})
	if err != nil || ans.Accepted != 2 {
		t.Errorf("got %v, %v", ans, err)
	}
	again, err := w.in.Post(context.Background(), Request{Body: []byte("{\"stream\":\"a\",\"ts\":3}\n{\"stream\":\"b\"}\n"), ContentType: "application/x-ndjson", IdempotencyKey: "k"})
	if err != nil || !again.Repeated() {
		t.Errorf("got %v, %v", again, err)
	}
}

func TestDeadLettersAreListedReplayedAndDropped(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	w.declare("s", ts("n", "BIGINT"))
	w.must("s", `[{"ts":"x","n":1},{"ts":1,"n":"two"},{"ts":1,"n":3,"v":"`+"\xff"+`"}]`)
	page, err := w.in.DeadLetters("s", Which{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Next == nil || page.Items[0].Raw != `{"ts":"x","n":1}` || page.Items[0].Origin != "ingest" {
		t.Fatalf("got %+v, %v", page, err)
	}
	page, err = w.in.DeadLetters("s", Which{Limit: 2, Cursor: *page.Next})
	if err != nil || len(page.Items) != 1 || page.Next != nil || page.Items[0].Code != "bad_unicode" || page.Items[0].RawBase64 == "" {
		t.Fatalf("got %+v, %v", page, err)
	}
	if _, err := w.in.DeadLetters("s", Which{Cursor: "bm8"}); problem.From(err).Status != 400 { // 46
		t.Errorf("a cursor of something else: %v", err)
	}
	if _, err := w.in.Replay(ctx, "s", "1", nil); problem.From(err).Status != 422 {
		t.Errorf("what is still bad: %v", err)
	}
	if l := w.letters("s")[0]; l.Attempts != 2 {
		t.Errorf("%d attempts after a replay that failed", l.Attempts)
	}
	a, err := w.in.Replay(ctx, "s", "1", []byte(`{"ts":9,"n":1}`))
	if err != nil || a.Answer.Accepted != 1 {
		t.Fatalf("got %+v, %v", a, err)
	}
	if err := w.in.DropDeadLetter(ctx, "s", "3"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "3", "x", "0", "18446744073709551616"} {
		if _, err := w.in.Replay(ctx, "s", id, nil); problem.From(err).Status != 404 {
			t.Errorf("replay %s: %v", id, err)
		}
		if err := w.in.DropDeadLetter(ctx, "s", id); problem.From(err).Status != 404 {
			t.Errorf("drop %s: %v", id, err)
		}
	}
	if n := len(w.letters("s")); n != 1 || len(w.events("s")) != 1 {
		t.Errorf("%d dead letters and %d events are left", n, len(w.events("s")))
	}
}

// A crash between the append and the removal of the dead letter leaves both; the event stays one.
func TestReplayThatWasCutInTwoAppendsOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	s := w.declare("s", ts())
	w.must("s", `{"ts":"x"}`)
	letter := w.letters("s")[0]
	if _, err := w.in.Replay(ctx, "s", "1", []byte(`{"ts":1}`)); err != nil {
		t.Fatal(err)
	}
	w.log.of(s.ID).letters = append(w.log.of(s.ID).letters, letter)
	if _, err := w.in.Replay(ctx, "s", "1", []byte(`{"ts":2}`)); err != nil {
		t.Fatal(err)
	}
	if len(w.events("s")) != 1 || len(w.letters("s")) != 0 {
		t.Errorf("%d events, %d dead letters", len(w.events("s")), len(w.letters("s")))
	}
}

func TestAdvanceFarAheadNeedsForce(t *testing.T) { // W3
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	w.declare("s", ts())
	at := now.Add(24 * time.Hour).UnixMicro()
	if _, err := w.in.Advance(ctx, "s", at, false); err != nil {
		t.Error(err)
	}
	if _, err := w.in.Advance(ctx, "s", at+1, false); problem.From(err).Status != 409 {
		t.Errorf("got %v", err)
	}
	a, err := w.in.Advance(ctx, "s", at+1, true)
	if err != nil || a.AdvanceTo != "2024-01-16T12:00:00.000001Z" {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err := w.in.Advance(ctx, "none", at, false); problem.From(err).Status != 404 {
		t.Errorf("got %v", err)
	}
	if fmt.Sprint(w.log.advanced) != fmt.Sprint([]int64{at, at + 1}) {
		t.Errorf("the log was told %v", w.log.advanced)
	}
}

// Many requests learn columns at once: each event is there once, each column is right.
func TestRequestsThatLearnAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				body := fmt.Sprintf(`[{"ts":1,"g":%d,"n%d":%d},{"ts":1,"g":%d,"v":%d.5}]`, g, i, g, g, i)
				if g%2 == 0 {
					body = fmt.Sprintf(`[{"ts":1,"g":%d,"v":%d},{"ts":1,"o":{"m%d":1}}]`, g, i, i)
				}
				if a, err := w.post("s", body); err != nil || a.Accepted != 2 {
					t.Errorf("%s: %+v, %v", body, a, err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(w.events("s")); n != 320 {
		t.Errorf("%d events", n)
	}
	for i, e := range w.events("s") {
		var raw map[string]any
		if err := json.Unmarshal([]byte(e.raw), &raw); err != nil {
			t.Fatal(err)
		}
		if v, ok := raw["v"]; ok && w.value("s", i, "v") != fmt.Sprint(v) {
			t.Errorf("event %d: v is %s in %s", i, w.value("s", i, "v"), e.raw)
		}
	}
}

func TestCopiesOutliveTheRequestsMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{KeyField: "k", Columns: columns("k", "VARCHAR", "l", "VARCHAR[]")})
	body := []byte(`[{"k":"one","l":["x"]},{"k":"two"},7]`)
	if _, err := w.in.Post(context.Background(), Request{Stream: "s", Body: body}); err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = '#'
	}
	e := w.events("s")
	if e[0].key != "one" || w.value("s", 1, "k") != `"two"` || string(w.letters("s")[0].Raw) != "7" {
		t.Errorf("got %+v", e)
	}
}

func TestCloudEventsAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := `{"specversion":"1.0","type":"order","source":"/shop","id":"A1","time":"2024-01-15T10:00:00Z","data":{"total":5}}`
	for kind, body := range map[string]string{"application/cloudevents+json": one, "application/cloudevents-batch+json; charset=UTF-8": "[" + one + "," + one + "]"} {
		if _, err := w.in.Post(context.Background(), Request{Stream: "orders", Body: []byte(body), ContentType: kind}); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.events("orders")) != 3 || w.stream("orders").Config.TimeField != "time" || w.value("orders", 2, "data") != `{"total":5}` {
		t.Errorf("got %+v", w.events("orders"))
	}
}

func TestSparseColumnsHaveABound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var cols []string
	for i := range 1000 {
		cols = append(cols, fmt.Sprintf("f%d", i), "BIGINT")
	}
	w.declare("s", stream.Config{Columns: columns(cols...)})
	var b strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&b, "{\"f%d\":1}\n", i%1000)
	}
	if _, err := w.postLines("s", b.String()); problem.From(err).Status != 413 || w.log.appends != 0 {
		t.Errorf("got %v", err)
	}
}

// What an attacker may send must cost no more than what it is long.
func TestManyFieldsAreReadInTimeThatGrowsWithThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fields := func(n int, sep string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"f%d":%d%s`, i, i, sep)
		}
		return b.String()[1:]
	}
	a := w.must("s", `[{`+fields(60_000, "")+`},{"o":{`+fields(60_000, "")+`},"x":1}]`)
	if a.Accepted != 2 || len(w.stream("s").Schema.Fields) != stream.MaxColumns {
		t.Errorf("%d accepted, %d columns", a.Accepted, len(w.stream("s").Schema.Fields))
	}
}
