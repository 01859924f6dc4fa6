package live_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"tidemark/stream"
	"tidemark/web/live"
	"tidemark/windows"
)

func TestMain(m *testing.M) {
	// fasthttp keeps one goroutine for the date of its answers for ever, and one a server for a while
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

func TestStreamIsReadFromTheBeginningAndResumedByPosition(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for range 3 {
		w.send(400, 1)
		w.control()
	}
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"payments","from":"earliest"}`)
	if m := c.want("subscribed"); m.ID != "a" || m.Position == "" || !m.Recovered {
		t.Fatalf("%+v", m)
	}
	first := c.want("events") // ends inside the second batch
	if len(first.Events) != 500 || first.Seq != 1 || first.Events[499].Offset != 499 || first.Events[499].Event["n"] != 499.0 {
		t.Fatalf("%d events, seq %d", len(first.Events), first.Seq)
	}
	again := dial(t, addr, "/v1/live")
	again.say(`{"op":"subscribe","id":"b","to":"payments","from":"%s"}`, first.Position)
	again.want("subscribed")
	offset := 500
	for offset < 1200 {
		for _, e := range again.want("events").Events {
			if e.Offset != offset {
				t.Fatalf("offset %d, want %d", e.Offset, offset)
			}
			offset++
		}
	}
	if m := again.next(); m.Type != "progress" || m.LagMs == nil || *m.LagMs != 0 {
		t.Errorf("after the last event: %+v", m)
	}
	w.send(1, 1)
	if m := again.want("events"); m.Events[0].Offset != 1200 || m.Seq != 3 {
		t.Errorf("%+v", m)
	}
}

func TestStreamStartsAtTheEndOrAtAnInstant(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for range 5 {
		w.send(2, 1)
	}
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"latest","to":"payments"}`)
	c.want("subscribed")
	c.want("progress")
	w.send(1, 1)
	if m := c.want("events"); m.Events[0].Offset != 10 {
		t.Errorf("%+v", m)
	}
	c.say(`{"op":"subscribe","id":"time","to":"payments","from":{"time":"1970-01-01T00:00:04Z"}}`)
	c.want("subscribed")
	if m := c.want("events"); m.ID != "time" || m.Events[0].Offset != 6 {
		t.Errorf("%+v", m)
	}
}

func TestGapIsToldWhenThePositionIsGone(t *testing.T) { // I4
	t.Parallel()
	w := newWorld()
	for range 5 {
		w.send(1, 1)
	}
	w.oldest = 3
	w.commit(map[string]*fakeRow{"x": {name: "x", amount: 1, status: windows.Provisional}})
	w.cut()
	_, addr := w.start(t, live.Options{})
	for name, p := range map[string]stream.Position{
		"another log": {Log: 99, Sequence: 2}, "retention": {Log: 7, Sequence: 1}, "ahead": {Log: 7, Sequence: 100},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addr, "/v1/live")
			c.say(`{"op":"subscribe","id":"a","to":"payments","from":"%s"}`, p)
			if m := c.want("subscribed"); m.Recovered {
				t.Error("recovered")
			}
			if m := c.want("gap"); m.From != p.String() || m.Oldest != (stream.Position{Log: 7, Sequence: 3}).String() {
				t.Errorf("%+v", m)
			}
			if m := c.want("events"); m.Events[0].Offset != 3 {
				t.Errorf("%+v", m)
			}
		})
	}
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"v","to":"revenue","from":"%s"}`, stream.Position{Log: 7})
	c.want("subscribed")
	c.want("gap")
	if m := c.want("snapshot"); len(m.Rows) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestViewIsSnapshotThenChanges(t *testing.T) { // I2
	t.Parallel()
	w := newWorld()
	w.commit(map[string]*fakeRow{"de": {at: 60, name: "de", amount: 5, status: windows.Provisional}})
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"revenue","from":"snapshot"}`)
	c.want("subscribed")
	m := c.want("snapshot")
	if fmt.Sprint(m.Rows) != "[map[amount:5 name:de window_start:1970-01-01T00:01:00Z]]" || m.Statuses[0] != "provisional" || m.More || len(m.AsOf) == 0 {
		t.Fatalf("%+v", m)
	}
	if p := c.want("progress"); p.Position != m.Position || string(p.AsOf) != string(m.AsOf) {
		t.Errorf("%+v", p)
	}
	w.commit(map[string]*fakeRow{"de": {at: 60, name: "de", amount: 7, status: windows.Final, rev: 1}})
	m = c.want("changes")
	if len(m.Changes) != 2 || m.Changes[0].Op != "-" || m.Changes[0].Status != "" || m.Changes[0].Row["amount"] != 5.0 ||
		m.Changes[1].Op != "+" || m.Changes[1].Status != "final" || m.Changes[1].Revision != 1 || m.Seq != 2 {
		t.Fatalf("%+v", m)
	}
	w.commit(map[string]*fakeRow{"de": nil})
	m = c.want("changes")
	if len(m.Changes) != 1 || m.Changes[0].Op != "-" || m.Changes[0].Status != "corrected" || m.Changes[0].Revision != 2 { // C4
		t.Fatalf("%+v", m)
	}
	if m.Position != (stream.Position{Log: 7, Sequence: 3}).String() || !strings.Contains(string(m.AsOf), "[3]") {
		t.Errorf("%+v", m)
	}
	resumed := dial(t, addr, "/v1/live")
	resumed.say(`{"op":"subscribe","id":"a","to":"revenue","from":"%s"}`, stream.Position{Log: 7, Sequence: 2})
	if m := resumed.want("subscribed"); !m.Recovered {
		t.Error("not recovered")
	}
	if m := resumed.want("changes"); len(m.Changes) != 1 || m.Changes[0].Op != "-" {
		t.Errorf("%+v", m)
	}
}

func TestLargeSnapshotComesInParts(t *testing.T) {
	t.Parallel()
	w := newWorld()
	set := map[string]*fakeRow{}
	for i := range 25_000 {
		set[fmt.Sprint(i)] = &fakeRow{name: fmt.Sprint(i), amount: int64(i), status: windows.Provisional}
	}
	w.commit(set)
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"revenue","order":"amount DESC"}`)
	c.want("subscribed")
	amount := 24_999.0
	for i, part := range []int{10_000, 10_000, 5_000} {
		m := c.want("snapshot")
		if len(m.Rows) != part || len(m.Statuses) != part || m.More != (i < 2) || m.Seq != int64(i+1) {
			t.Fatalf("part %d: %d rows, more %v, seq %d", i, len(m.Rows), m.More, m.Seq)
		}
		for _, r := range m.Rows {
			if r["amount"] != amount {
				t.Fatalf("amount %v, want %v", r["amount"], amount)
			}
			amount--
		}
	}
}

func TestFoldedReaderGetsTheSumAndARawOneEveryEpoch(t *testing.T) { // C6
	t.Parallel()
	w := newWorld()
	w.commit(map[string]*fakeRow{"a": {name: "a", amount: 1, status: windows.Provisional}, "b": {name: "b", amount: 1, status: windows.Provisional}})
	start := w.view.head.Position
	for i := range 5 {
		w.commit(map[string]*fakeRow{"a": {name: "a", amount: int64(2 + i), status: windows.Provisional}})
	}
	w.commit(map[string]*fakeRow{"b": {name: "b", amount: 9, status: windows.Provisional}})
	w.commit(map[string]*fakeRow{"b": {name: "b", amount: 1, status: windows.Provisional}}) // as it was
	w.commit(map[string]*fakeRow{"c": {name: "c", amount: 1, status: windows.Provisional}})
	w.commit(map[string]*fakeRow{"c": nil}) // came and went
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"fold","to":"revenue","from":"%s"}`, start)
	c.want("subscribed")
	m := c.want("changes")
	if len(m.Changes) != 2 || m.Changes[0].Row["amount"] != 1.0 || m.Changes[1].Row["amount"] != 6.0 || m.Position != w.view.head.Position.String() {
		t.Fatalf("%+v", m)
	}
	raw := dial(t, addr, "/v1/live")
	raw.say(`{"op":"subscribe","id":"raw","to":"revenue","from":"%s","fold":false}`, start)
	raw.want("subscribed")
	for i := range 9 {
		if m := raw.want("changes"); m.Position != (stream.Position{Log: 7, Sequence: start.Sequence + stream.Sequence(i) + 1}).String() {
			t.Fatalf("epoch %d: %+v", i, m)
		}
	}
	history := dial(t, addr, "/v1/live")
	history.say(`{"op":"subscribe","id":"h","to":"revenue","from":"earliest"}`)
	history.want("subscribed")
	for range 10 {
		if m := history.next(); m.Type != "changes" { // no progress before the reader has caught up
			t.Fatalf("%+v", m)
		}
	}
	if m := history.next(); m.Type != "progress" {
		t.Fatalf("%+v", m)
	}
}

func TestSelectionTellsWhatEntersAndLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld()
	row := func(n int64) *fakeRow {
		return &fakeRow{at: 60, name: "x", amount: n, status: windows.Provisional}
	}
	w.commit(map[string]*fakeRow{"a": row(10), "b": row(20), "c": row(30), "d": row(1)})
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"top","to":"revenue","where":"amount > 5","order":"amount DESC","limit":2}`)
	c.want("subscribed")
	if m := c.want("snapshot"); len(m.Rows) != 2 || m.Rows[0]["amount"] != 30.0 || m.Rows[1]["amount"] != 20.0 {
		t.Fatalf("%+v", m.Rows)
	}
	step := func(key string, r *fakeRow, want string) {
		t.Helper()
		w.commit(map[string]*fakeRow{key: r})
		var got []string
		for _, x := range c.want("changes").Changes {
			got = append(got, fmt.Sprint(x.Op, x.Row["amount"]))
		}
		if strings.Join(got, " ") != want {
			t.Fatalf("%s: got %v, want %s", key, got, want)
		}
	}
	step("e", row(25), "-20 +25")
	step("c", nil, "-30 +20")
	step("e", row(2), "-25 +10") // falls out of the condition
	step("d", row(11), "-10 +11")
}

func TestMovingRangeLetsRowsGo(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.now = time.Unix(1000, 0)
	w.commit(map[string]*fakeRow{"old": {at: 300, name: "old", status: windows.Final, rev: 1}, "new": {at: 950, name: "new", status: windows.Provisional}})
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"revenue","range":"now-15m"}`)
	c.want("subscribed")
	if m := c.want("snapshot"); len(m.Rows) != 2 {
		t.Fatalf("%+v", m.Rows)
	}
	w.mu.Lock()
	w.now = time.Unix(1300, 0)
	w.mu.Unlock()
	if m := c.want("changes"); len(m.Changes) != 1 || m.Changes[0].Op != "-" || m.Changes[0].Row["name"] != "old" || m.Changes[0].Status != "" {
		t.Fatalf("%+v", m)
	}
}

func TestGroupGoesOnFromItsLastAck(t *testing.T) { // I6
	t.Parallel()
	w := newWorld()
	w.fire(3)
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"fraud","group":"desk"}`)
	c.want("subscribed")
	m := c.want("alerts")
	if len(m.Alerts) != 3 || m.Seq != 1 {
		t.Fatalf("%+v", m)
	}
	w.fire(1)
	unacked := c.want("alerts")
	second := dial(t, addr, "/v1/live")
	second.say(`{"op":"subscribe","id":"b","to":"fraud","group":"desk"}`)
	if code, _ := second.closed(); code != 4409 {
		t.Fatalf("the second reader got %d", code)
	}
	c.say(`{"op":"ack","id":"a","position":"%s"}`, m.Position)
	if m := c.want("acked"); m.Position == "" || w.acks["fraud/desk"] != m.Position {
		t.Fatalf("%+v, kept %v", m, w.acks)
	}
	c.say(`{"op":"ack","id":"a","position":"%s"}`, stream.Position{Log: 7, Sequence: 3000, Within: -1})
	if m := c.want("error"); m.Code != "bad_ack" || m.Retryable {
		t.Fatalf("%+v", m)
	}
	c.say(`{"op":"unsubscribe","id":"a"}`)
	c.say(`{"op":"subscribe","id":"a","to":"fraud","group":"desk"}`)
	c.want("subscribed")
	if again := c.want("alerts"); len(again.Alerts) != 1 || again.Position != unacked.Position {
		t.Fatalf("%+v", again)
	}
}

func TestGroupHasNoMoreThanMaxInFlight(t *testing.T) { // I6
	t.Parallel()
	w := newWorld()
	w.fire(5)
	_, addr := w.start(t, live.Options{ProgressEvery: 10 * time.Millisecond})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"fraud","group":"desk","max_in_flight":2}`)
	c.want("subscribed")
	first := c.want("alerts")
	if len(first.Alerts) != 2 {
		t.Fatalf("%+v", first)
	}
	for range 3 { // nothing but signs of life
		if m := c.next(); m.Type != "progress" {
			t.Fatalf("%+v", m)
		}
	}
	c.say(`{"op":"ack","id":"a","position":"%s"}`, first.Position)
	c.want("acked")
	if m := c.want("alerts"); len(m.Alerts) != 2 || m.Alerts[0]["alert_id"] != "3" {
		t.Fatalf("%+v", m)
	}
}

func TestGroupThatDoesNotAckIsCutOff(t *testing.T) { // I7
	t.Parallel()
	w := newWorld()
	w.fire(5)
	_, addr := w.start(t, live.Options{StallAfter: 100 * time.Millisecond})
	c := dial(t, addr, "/v1/live/fraud?group=desk&max_in_flight=2&id=a")
	c.want("subscribed")
	c.want("alerts")
	code, reason := c.closed()
	if code != 4408 || reason != `{"id":"a","position":""}` {
		t.Fatalf("%d %s", code, reason)
	}
}

func TestSlowReaderIsCutOffWithItsPosition(t *testing.T) { // I7
	t.Parallel()
	w := newWorld()
	for range 45 {
		w.send(1, 300_000)
	}
	logger, lostPatience := logged()
	hub, addr := w.start(t, live.Options{StallAfter: 300 * time.Millisecond, Logger: logger})
	c := dial(t, addr, "/v1/live/payments?from=earliest&id=slow")
	<-lostPatience // nothing was taken until now
	last := ""
	for {
		_, data, err := c.ReadMessage()
		if err != nil {
			e, ok := err.(*websocket.CloseError)
			if !ok || e.Code != 4408 {
				t.Fatalf("ended with %v", err)
			}
			var reason struct{ ID, Position string }
			if err := json.Unmarshal([]byte(e.Text), &reason); err != nil || reason.ID != "slow" || reason.Position == "" {
				t.Fatalf("reason %s", e.Text)
			}
			if last != reason.Position || hub.Stats().CutOff.Load() != 1 {
				t.Fatalf("the last frame was at %s, the reason says %s", last, reason.Position)
			}
			return
		}
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		last = m.Position
	}
}

func TestSlowReaderSlowsNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld()
	for range 45 {
		w.send(1, 300_000)
	}
	_, addr := w.start(t, live.Options{})
	slow := dial(t, addr, "/v1/live/payments?from=earliest")
	slow.want("subscribed")
	quick := dial(t, addr, "/v1/live/payments?from=earliest")
	quick.want("subscribed")
	for n := 0; n < 45; {
		n += len(quick.want("events").Events)
	}
}

func TestBadMessagesCloseTheSocket(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, addr := w.start(t, live.Options{})
	for name, test := range map[string]struct {
		kind int
		data string
		code int
	}{
		"no JSON":         {websocket.TextMessage, "hello", 4400},
		"no object":       {websocket.TextMessage, "[]", 4400},
		"two objects":     {websocket.TextMessage, `{"op":"unsubscribe","id":"a"}{}`, 4400},
		"unknown op":      {websocket.TextMessage, `{"op":"publish","id":"a"}`, 4400},
		"no op":           {websocket.TextMessage, `{"id":"a"}`, 4400},
		"no id":           {websocket.TextMessage, `{"op":"subscribe","to":"payments"}`, 4400},
		"no to":           {websocket.TextMessage, `{"op":"subscribe","id":"a"}`, 4400},
		"long id":         {websocket.TextMessage, `{"op":"unsubscribe","id":"` + strings.Repeat("x", 65) + `"}`, 4400},
		"unknown member":  {websocket.TextMessage, `{"op":"subscribe","id":"a","to":"payments","form":"latest"}`, 4400},
		"wrong type":      {websocket.TextMessage, `{"op":"subscribe","id":1,"to":"payments"}`, 4400},
		"not UTF-8":       {websocket.TextMessage, "{\"op\":\"unsubscribe\",\"id\":\"\xff\"}", 4400},
		"binary":          {websocket.BinaryMessage, `{"op":"unsubscribe","id":"a"}`, 4400},
		"larger than max": {websocket.TextMessage, `{"op":"unsubscribe","id":"` + strings.Repeat("x", 70<<10) + `"}`, websocket.CloseMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, addr, "/v1/live")
			if err := c.WriteMessage(test.kind, []byte(test.data)); err != nil {
				t.Fatal(err)
			}
			if code, reason := c.closed(); code != test.code || code == 4400 && reason == "" {
				t.Errorf("closed with %d %q", code, reason)
			}
		})
	}
}

func TestWhatIsNotThereIsAnErrorOfTheSubscription(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, addr := w.start(t, live.Options{MaxSubscriptions: 2})
	c := dial(t, addr, "/v1/live")
	for _, test := range []struct{ op, code string }{
		{`{"op":"subscribe","id":"a","to":"nowhere"}`, "unknown_relation"},
		{`{"op":"subscribe","id":"a","to":"revenue","from":"yesterday"}`, "bad_from"},
		{`{"op":"subscribe","id":"a","to":"revenue","from":{"tme":"x"}}`, "bad_from"},
		{`{"op":"subscribe","id":"a","to":"revenue","from":{"time":"yesterday"}}`, "bad_from"},
		{`{"op":"subscribe","id":"a","to":"revenue","where":"nonsense"}`, "bad_sql"},
		{`{"op":"subscribe","id":"a","to":"revenue","range":"forever"}`, "bad_range"},
		{`{"op":"subscribe","id":"a","to":"revenue","range":["now-6h"]}`, "bad_range"},
		{`{"op":"subscribe","id":"a","to":"revenue","limit":-1}`, "bad_limit"},
		{`{"op":"subscribe","id":"a","to":"payments","group":"g","max_in_flight":-1}`, "bad_max_in_flight"},
		{`{"op":"subscribe","id":"a","to":"revenue","group":"g"}`, "no_groups"},
		{`{"op":"subscribe","id":"a","to":"payments","limit":1}`, "no_selection"},
		{`{"op":"subscribe","id":"a","to":"payments","from":"snapshot"}`, "no_snapshot"},
		{`{"op":"unsubscribe","id":"a"}`, "unknown_id"},
		{`{"op":"ack","id":"a","position":"x"}`, "unknown_id"},
	} {
		c.say("%s", test.op)
		if m := c.want("error"); m.ID != "a" || m.Code != test.code || m.Retryable {
			t.Errorf("%s: %+v", test.op, m)
		}
	}
	c.say(`{"op":"subscribe","id":"a","to":"revenue"}`)
	c.want("subscribed")
	c.want("snapshot")
	c.say(`{"op":"subscribe","id":"a","to":"revenue"}`)
	if m := c.want("error"); m.Code != "id_in_use" {
		t.Errorf("%+v", m)
	}
	c.say(`{"op":"subscribe","id":"b","to":"late_revenue","from":"earliest"}`)
	c.want("subscribed")
	if m := c.want("events"); m.Events[0].Event["late"] != true {
		t.Errorf("%+v", m)
	}
	c.say(`{"op":"subscribe","id":"c","to":"payments"}`)
	if m := c.want("error"); m.Code != "too_many_subscriptions" || !m.Retryable {
		t.Errorf("%+v", m)
	}
}

func TestPanicEndsTheSubscriptionNotTheServer(t *testing.T) { // I8
	t.Parallel()
	w := newWorld()
	w.panics = true
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"a","to":"payments"}`)
	c.want("subscribed")
	if m := c.want("error"); m.Code != "internal" || !m.Retryable {
		t.Fatalf("%+v", m)
	}
	c.say(`{"op":"subscribe","id":"a","to":"revenue"}`)
	c.want("subscribed")
}

func TestReaderOfADeletedStreamIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, addr := w.start(t, live.Options{ProgressEvery: 10 * time.Millisecond})
	c := dial(t, addr, "/v1/live/payments")
	c.want("subscribed")
	w.mu.Lock()
	w.anew++
	w.mu.Unlock()
	if m := c.want("error"); m.Code != "unknown_relation" {
		t.Fatalf("%+v", m)
	}
}

func TestManyReadersShareOneTail(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, addr := w.start(t, live.Options{})
	var clients []*client
	for range 20 {
		c := dial(t, addr, "/v1/live/revenue?fold=false")
		c.want("subscribed")
		c.want("snapshot")
		clients = append(clients, c)
	}
	seq := int64(1)
	commit := func(n int) {
		w.commit(map[string]*fakeRow{"x": {name: "x", amount: int64(n), status: windows.Provisional}})
	}
	take := func(n int) {
		t.Helper()
		for _, c := range clients {
			m := c.want("changes")
			if last := m.Changes[len(m.Changes)-1]; last.Op != "+" || last.Row["amount"] != float64(n) || m.Seq != seq+1 {
				t.Fatalf("epoch %d: %+v", n, m)
			}
		}
		seq++
	}
	for i := range 50 {
		commit(i)
		take(i)
	}
	w.mu.Lock()
	reads := w.reads
	w.mu.Unlock()
	if reads != 50 {
		t.Errorf("50 epochs were read %d times for 20 clients", reads)
	}
	for i := range 150 { // more than a tail holds: who has not read them falls behind it
		commit(i)
	}
	for i := range 150 {
		take(i)
	}
}

func TestAlertsThatAreGoneAreAGap(t *testing.T) { // I4
	t.Parallel()
	w := newWorld()
	w.fire(5)
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live/fraud?group=desk&max_in_flight=2")
	c.want("subscribed")
	first := c.want("alerts")
	w.mu.Lock()
	w.expired = 4
	w.mu.Unlock()
	c.say(`{"op":"ack","id":"fraud","position":"%s"}`, first.Position)
	c.want("acked")
	if m := c.want("gap"); m.From != first.Position {
		t.Fatalf("%+v", m)
	}
	if m := c.want("alerts"); len(m.Alerts) != 1 || m.Alerts[0]["alert_id"] != "5" {
		t.Fatalf("%+v", m)
	}
	again := dial(t, addr, "/v1/live/fraud?from="+first.Position)
	if m := again.want("subscribed"); m.Recovered {
		t.Error("recovered")
	}
	again.want("gap")
	if m := again.want("alerts"); m.Alerts[0]["alert_id"] != "5" {
		t.Fatalf("%+v", m)
	}
}

func TestAStreamsReaderThatRetentionOvertakesIsToldOfAGap(t *testing.T) { // I4
	t.Parallel()
	w := newWorld()
	for range 6 {
		w.send(1, 1)
	}
	_, addr := w.start(t, live.Options{})
	c := dial(t, addr, "/v1/live/payments?group=desk&max_in_flight=2")
	c.want("subscribed")
	first := c.want("events")
	w.mu.Lock()
	w.oldest = 4
	w.mu.Unlock()
	c.say(`{"op":"ack","id":"payments","position":"%s"}`, first.Position)
	c.want("acked")
	if m := c.want("gap"); m.From != first.Position || m.Oldest != (stream.Position{Log: 7, Sequence: 4}).String() {
		t.Fatalf("%+v", m)
	}
	if m := c.want("events"); m.Events[0].Offset != 4 {
		t.Fatalf("%+v", m)
	}
}

func TestWhoOnlyLooksJoinsNoGroup(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.fire(1)
	_, addr := w.start(t, live.Options{Client: func(*fiber.Ctx) live.Client { return live.Client{Looks: true} }})
	c := dial(t, addr, "/v1/live")
	c.say(`{"op":"subscribe","id":"g","to":"fraud","group":"desk"}`)
	if m := c.want("error"); m.ID != "g" || m.Code != "read_only_link" {
		t.Fatalf("%+v", m)
	}
	c.say(`{"op":"subscribe","id":"a","to":"fraud","from":"earliest"}`)
	c.want("subscribed")
	c.want("alerts")
	if _, held, _ := (fakeGroups{w}).Acked(live.Relation{Name: "fraud"}, "desk"); held {
		t.Error("the group was moved")
	}
}

func TestSilenceIsProvable(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, addr := w.start(t, live.Options{ProgressEvery: 20 * time.Millisecond, PingEvery: 200 * time.Millisecond})
	c := dial(t, addr, "/v1/live")
	pings := 0
	c.SetPingHandler(func(string) error {
		pings++
		return c.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
	})
	for id, to := range map[string]string{"s": "payments", "v": "revenue", "f": "fraud"} {
		c.say(`{"op":"subscribe","id":"%s","to":"%s","from":"latest"}`, id, to)
	}
	seen := map[string]int{}
	for pings == 0 || seen["s"] < 3 || seen["v"] < 3 || seen["f"] < 3 {
		if m := c.next(); m.Type == "progress" && m.Position != "" {
			seen[m.ID]++
		}
	}
}

func TestEventStreamHasTheSameMessages(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.send(2, 1)
	_, addr := w.start(t, live.Options{})
	get := func(path, last string) (*bufio.Reader, func()) {
		req, _ := http.NewRequest("GET", "http://"+addr+path, nil)
		req.Header.Set("Accept", "text/event-stream")
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			t.Fatalf("%v %v", err, resp)
		}
		return bufio.NewReader(resp.Body), func() { resp.Body.Close() }
	}
	read := func(r *bufio.Reader) (id string, m message) {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					t.Fatal(err)
				}
				return id, m
			}
			if rest, ok := strings.CutPrefix(line, "id: "); ok {
				id = strings.TrimSpace(rest)
			}
		}
	}
	r, end := get("/v1/live/payments?from=earliest", "")
	read(r)
	id, m := read(r)
	if m.Type != "events" || len(m.Events) != 2 || id != m.Position {
		t.Fatalf("id %q, %+v", id, m)
	}
	end()
	w.send(1, 1)
	r, end = get("/v1/live/payments?from=earliest", id)
	defer end()
	read(r)
	if _, m := read(r); m.Type != "events" || m.Events[0].Offset != 2 {
		t.Fatalf("%+v", m)
	}
	// Who goes on from the last id of a view has its rows: the answer that comes before them has none.
	w.commit(map[string]*fakeRow{"a": {name: "a", amount: 1, status: windows.Provisional}})
	r, end = get("/v1/live/revenue", "")
	defer end()
	if id, m := read(r); m.Type != "subscribed" || m.Position == "" || id != "" {
		t.Fatalf("id %q, %+v", id, m)
	}
	if id, m := read(r); m.Type != "snapshot" || id != m.Position {
		t.Fatalf("id %q, %+v", id, m)
	}
}

func TestEventStreamIsSentAwayToo(t *testing.T) {
	t.Parallel()
	w := newWorld()
	hub, addr := w.start(t, live.Options{})
	req, _ := http.NewRequest("GET", "http://"+addr+"/v1/live/payments", nil)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan() // subscribed is there
	if err := hub.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			last = lines.Text()
		}
	}
	if !strings.HasPrefix(last, `data: {"type":"reconnect","after_ms":`) {
		t.Errorf("the last message was %s", last)
	}
	if _, _, err := websocket.DefaultDialer.Dial("ws://"+addr+"/v1/live", nil); err == nil {
		t.Error("a new client was taken in")
	}
}

func TestPlainRequestsAreToldWhatIsNeeded(t *testing.T) {
	t.Parallel()
	w := newWorld()
	_, addr := w.start(t, live.Options{})
	for path, status := range map[string]int{
		"/v1/live": 426, "/v1/live/payments": 426, "/v1/live/nowhere": 404, "/v1/live/payments?form=x": 400, "/v1/live/revenue?limit=x": 400,
	} {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		var p map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || resp.StatusCode != status || p["hint"] == nil || p["title"] == "" {
			t.Errorf("%s: %d %v %v", path, resp.StatusCode, p, err)
		}
		resp.Body.Close()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
