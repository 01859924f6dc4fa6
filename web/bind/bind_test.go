package bind_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidemark/web"
	"tidemark/web/api"
	"tidemark/web/bind"
	"tidemark/web/live"
	"tidemark/windows/runtime/viewtest"
)

const checkouts = `{"time_field":"ts","columns":{"ts":"TIMESTAMP","country":"VARCHAR","amount":"BIGINT"},"max_out_of_orderness":"5s","idle_timeout":"0s"}`

const revenue = `{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","throttle":"0s"}`

func sale(at, country string, amount int) string {
	return fmt.Sprintf(`{"ts":%q,"country":%q,"amount":%d}`, at, country, amount)
}

// site is a world of views with the edge before it.
type site struct {
	*viewtest.World
	t    *testing.T
	addr string
	down func()
}

func open(t *testing.T, options ...func(*viewtest.World)) *site {
	s := &site{World: viewtest.New(t, options...), t: t}
	s.serve()
	t.Cleanup(func() { s.down() })
	return s
}

// serve starts the edge before the world as it is now.
func (s *site) serve() {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	app := web.New(web.Options{
		Logger: quiet,
		API: api.Deps{
			Streams: s.Registry, Log: s.Log, Views: bind.Views(s.Views), Alerts: bind.Alerts(s.Alerts),
			Dashboards: s.Catalog, Exists: bind.Exists(s.Catalog),
		},
		Live: live.NewHub(bind.Live(s.Views, s.Alerts, s.Acks, live.Options{Logger: quiet})),
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ln) }()
	s.down = func() {
		if err := app.Shutdown(context.Background()); err != nil {
			s.t.Error(err)
		}
		<-ended
		s.down = func() {}
	}
}

// crash goes on with what was on disk.
func (s *site) crash() {
	s.down()
	s.Crash()
	s.serve()
}

func (s *site) do(method, path, body string, status int) map[string]any {
	s.t.Helper()
	req, err := http.NewRequest(method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		s.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, text, err)
	}
	var m map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &m); err != nil {
			s.t.Fatalf("%v in %s", err, text)
		}
	}
	return m
}

// reader is one websocket.
type reader struct {
	*websocket.Conn
	t *testing.T
}

func (s *site) listen() *reader {
	s.t.Helper()
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/v1/live", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(viewtest.Patience))
	return &reader{conn, s.t}
}

func (r *reader) say(format string, args ...any) {
	r.t.Helper()
	if err := r.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, format, args...)); err != nil {
		r.t.Fatal(err)
	}
}

// want is the next message but for progress.
func (r *reader) want(kind string) map[string]any {
	r.t.Helper()
	for {
		var m map[string]any
		if err := r.ReadJSON(&m); err != nil {
			r.t.Fatalf("waiting for %s: %v", kind, err)
		}
		if m["type"] == kind {
			return m
		}
		if m["type"] != "progress" {
			r.t.Fatalf("got %v, want %s", m, kind)
		}
	}
}

// fold applies a frame of changes to rows.
func fold(t *testing.T, rows map[string]int, m map[string]any) {
	t.Helper()
	for _, c := range m["changes"].([]any) {
		change := c.(map[string]any)
		text := fmt.Sprint(change["row"])
		if change["op"] == "+" {
			rows[text]++
			continue
		}
		if rows[text]--; rows[text] < 0 {
			t.Fatalf("%s is withdrawn and was not there", text)
		}
		if rows[text] == 0 {
			delete(rows, text)
		}
	}
}

func TestSocketFollowsARealViewThroughACrash(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.Stream("checkouts", checkouts)
	s.do("PUT", "/v1/views/revenue", revenue, 201)
	s.Until("revenue", s.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	r := s.listen()
	r.say(`{"op":"subscribe","id":"a","to":"revenue"}`)
	r.want("subscribed")
	snap := r.want("snapshot")
	rows := map[string]int{}
	for _, row := range snap["rows"].([]any) {
		rows[fmt.Sprint(row)]++
	}
	if len(rows) != 1 || fmt.Sprint(snap["statuses"]) != "[provisional]" {
		t.Fatalf("%v", snap)
	}
	receipt := s.Post("checkouts", 0, sale("12:00:50", "DE", 2), sale("12:01:30", "FR", 7))
	frame := r.want("changes")
	fold(t, rows, frame)
	answer := s.do("GET", "/v1/views/revenue/rows?wait=10s&after="+receipt, "", 200)
	var now []string
	for _, row := range answer["rows"].([]any) {
		now = append(now, fmt.Sprint(row))
		if rows[fmt.Sprint(row)] != 1 {
			t.Errorf("%v is not in %v", row, rows)
		}
	}
	if len(now) != len(rows) || frame["position"] != answer["position"] || fmt.Sprint(frame["as_of"]) != fmt.Sprint(answer["as_of"]) {
		t.Errorf("the frame is at %v %v, the rows at %v %v", frame["position"], frame["as_of"], answer["position"], answer["as_of"])
	}

	s.crash()
	s.Until("revenue", s.Post("checkouts", 0, sale("12:00:55", "DE", 1))) // late: a correction
	r = s.listen()
	r.say(`{"op":"subscribe","id":"a","to":"revenue","from":"%s"}`, frame["position"])
	if m := r.want("subscribed"); m["recovered"] != true {
		t.Fatalf("%v", m)
	}
	frame = r.want("changes")
	fold(t, rows, frame)
	last := frame["changes"].([]any)
	if len(last) != 2 || last[1].(map[string]any)["status"] != "corrected" || last[1].(map[string]any)["revision"] != 2.0 || len(rows) != 2 {
		t.Errorf("%v, rows %v", last, rows)
	}
}

func TestGroupOfARealAlertGoesOnAfterACrash(t *testing.T) { // P7, narrow
	t.Parallel()
	s := open(t)
	s.Stream("payments", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","card":"VARCHAR","amount":"BIGINT"},"idle_timeout":"0s"}`)
	s.do("PUT", "/v1/alerts/large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100","title":"{card} paid {amount}","severity":"info"}`, 201)
	pay := func(card string, amount int) {
		s.Until("large", s.Post("payments", 0, fmt.Sprintf(`{"ts":"12:00:00","card":%q,"amount":%d}`, card, amount)))
	}
	pay("a", 500)
	r := s.listen()
	r.say(`{"op":"subscribe","id":"f","to":"large","group":"desk"}`)
	r.want("subscribed")
	first := r.want("alerts")
	alarm := first["alerts"].([]any)[0].(map[string]any)
	if alarm["op"] != "fire" || alarm["title"] != "a paid 500" || alarm["rule"] != "large" || alarm["alert_id"] == "" {
		t.Fatalf("%v", alarm)
	}
	r.say(`{"op":"ack","id":"f","position":"%s"}`, first["position"])
	r.want("acked")
	pay("b", 600)
	unacked := r.want("alerts")

	s.crash()
	r = s.listen()
	r.say(`{"op":"subscribe","id":"f","to":"large","group":"desk"}`)
	if m := r.want("subscribed"); m["position"] != first["position"] {
		t.Fatalf("%v", m)
	}
	again := r.want("alerts")
	if fmt.Sprint(again["alerts"]) != fmt.Sprint(unacked["alerts"]) {
		t.Errorf("%v, before the crash %v", again, unacked)
	}
	log := s.do("GET", "/v1/alerts/large/log?limit=1", "", 200)
	more := s.do("GET", "/v1/alerts/large/log?after="+fmt.Sprint(log["next"]), "", 200)
	same := s.do("GET", "/v1/alerts/large/log?after="+fmt.Sprint(first["position"]), "", 200)
	if len(log["items"].([]any)) != 1 || len(more["items"].([]any)) != 1 || fmt.Sprint(more["items"]) != fmt.Sprint(same["items"]) {
		t.Errorf("%v %v %v", log, more, same)
	}
	rows := s.Views
	standing, _, err := rows.Standing("large")
	if err != nil {
		t.Fatal(err)
	}
	r.say(`{"op":"subscribe","id":"p","to":"large","from":"%s"}`, standing)
	if m := r.want("subscribed"); m["recovered"] != true {
		t.Errorf("a position in the log: %v", m)
	}
}

// R3: behind every place that retention has taken alarms from there is a gap, then the oldest alarm.
func TestAlarmsThatRetentionTookAreAGapOnTheSocket(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	began := time.Now()
	s := open(t, func(w *viewtest.World) {
		w.Clock = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	})
	s.Stream("payments", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","card":"VARCHAR","amount":"BIGINT"},"idle_timeout":"0s"}`)
	s.do("PUT", "/v1/alerts/large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100","title":"{card}","retention":"1h"}`, 201)
	pay := func(card string) string {
		passed.Add(int64(25 * time.Minute))
		receipt := s.Post("payments", 0, fmt.Sprintf(`{"ts":"12:00:00","card":%q,"amount":500}`, card))
		s.Until("large", receipt)
		return receipt
	}
	receipt := pay("a")
	made, _, err := s.Views.Standing("large")
	if err != nil {
		t.Fatal(err)
	}
	r := s.listen()
	r.say(`{"op":"subscribe","id":"a","to":"large","from":"earliest","group":"desk"}`)
	r.want("subscribed")
	first := r.want("alerts")["position"]
	r.say(`{"op":"ack","id":"a","position":"%s"}`, first)
	r.want("acked")
	r.Close()
	for _, card := range []string{"b", "c", "d", "e"} {
		pay(card)
	}
	want := func(r *reader) {
		t.Helper()
		if m := r.want("subscribed"); m["recovered"] != false {
			t.Errorf("%v", m)
		}
		if m := r.want("gap"); m["oldest"] == "" {
			t.Errorf("%v", m)
		}
		m := r.want("alerts")["alerts"].([]any)
		if title := m[0].(map[string]any)["title"]; len(m) != 3 || title != "c" {
			t.Errorf("%d alarms from %v on", len(m), title)
		}
	}
	for _, from := range []any{first, receipt, made} {
		r := s.listen()
		r.say(`{"op":"subscribe","id":"a","to":"large","from":"%s"}`, from)
		want(r)
	}
	r = s.listen()
	r.say(`{"op":"subscribe","id":"a","to":"large","group":"desk"}`)
	want(r)
}

// What retention has taken from the log behind a position is a gap, then the oldest event.
func TestEventsThatRetentionTookAreAGapOnTheSocket(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	began := time.Now()
	s := open(t, func(w *viewtest.World) {
		w.Clock = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	})
	s.Stream("payments", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","n":"BIGINT"},"idle_timeout":"0s","retention":{"age":"1h"}}`)
	for n := range 4 {
		s.Post("payments", 0, fmt.Sprintf(`{"ts":"12:00:00","n":%d}`, n))
		passed.Add(int64(25 * time.Minute))
	}
	r := s.listen()
	r.say(`{"op":"subscribe","id":"a","to":"payments","from":"earliest","group":"desk","max_in_flight":1}`)
	r.want("subscribed")
	first := r.want("events")["position"]
	r.say(`{"op":"unsubscribe","id":"a"}`)
	if err := s.Log.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = s.listen()
	r.say(`{"op":"subscribe","id":"a","to":"payments","from":"%s"}`, first)
	if m := r.want("subscribed"); m["recovered"] != false {
		t.Errorf("%v", m)
	}
	if m := r.want("gap"); m["from"] != first || m["oldest"] == "" {
		t.Errorf("%v", m)
	}
	if one := r.want("events")["events"].([]any)[0].(map[string]any); one["offset"] != 2.0 {
		t.Errorf("it goes on at %v", one)
	}
}

func TestLateEventsAreAStream(t *testing.T) { // L5
	t.Parallel()
	s := open(t)
	s.Stream("checkouts", checkouts)
	s.do("PUT", "/v1/views/revenue", strings.Replace(revenue, `"throttle"`, `"late":"drop","throttle"`, 1), 201)
	r := s.listen()
	r.say(`{"op":"subscribe","id":"l","to":"late_revenue"}`)
	r.want("subscribed")
	s.Until("revenue", s.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:05:00", "DE", 5), sale("12:00:20", "DE", 2)))
	event := r.want("events")["events"].([]any)[0].(map[string]any)
	m := s.do("GET", "/v1/streams/late_revenue/partitions/0/events", "", 200)
	if fmt.Sprint(m["events"]) != fmt.Sprint([]any{event}) || m["next_offset"] != 1.0 || event["offset"] != 0.0 || event["time"] != "2024-01-01T12:00:20Z" {
		t.Errorf("%v, live %v", m, event)
	}
	record := event["event"].(map[string]any)
	if record["outcome"] != "late_dropped" || record["watermark"] != "2024-01-01T12:04:55Z" || record["event"].(map[string]any)["amount"] != 2.0 {
		t.Errorf("%v", record)
	}
	if m := s.do("GET", "/v1/streams/late_revenue", "", 200); m["view"] != "revenue" {
		t.Errorf("%v", m)
	}
}

func TestViewsLifeOverHTTP(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.Stream("checkouts", checkouts)
	if m := s.do("PUT", "/v1/views/revenue?dry_run=true", revenue, 200); m["name"] != "revenue" || m["created"] != nil {
		t.Errorf("%v", m)
	}
	s.do("GET", "/v1/views/revenue", "", 404)
	s.do("PUT", "/v1/views/revenue", revenue, 201)
	s.do("PUT", "/v1/views/revenue", revenue, 200)
	s.do("PUT", "/v1/streams/revenue", "{}", 409)
	s.do("DELETE", "/v1/streams/checkouts", "", 409)
	s.Until("revenue", s.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	if m := s.do("GET", "/v1/views/revenue", "", 200); m["state"] != "live" || m["lag_events"] != 0.0 {
		t.Errorf("%v", m)
	}
	if m := s.do("GET", "/v1/views", "", 200); len(m["items"].([]any)) != 1 {
		t.Errorf("%v", m)
	}
	if m := s.do("GET", "/v1/views/revenue/errors", "", 200); len(m["items"].([]any)) != 0 || m["next"] != nil {
		t.Errorf("%v", m)
	}
	if m := s.do("GET", "/v1/views/revenue/watermark", "", 200); m["watermark"] != "2024-01-01T12:00:05Z" {
		t.Errorf("%v", m)
	}
	if m := s.do("POST", "/v1/views/revenue/pause", "", 200); m["state"] != "paused" {
		t.Errorf("%v", m)
	}
	if m := s.do("POST", "/v1/views/revenue/resume", "", 200); m["state"] == "paused" {
		t.Errorf("%v", m)
	}
	r := s.listen()
	r.say(`{"op":"subscribe","id":"a","to":"revenue","from":"latest"}`)
	r.want("subscribed")
	s.do("DELETE", "/v1/views/revenue", "", 204)
	if m := r.want("error"); m["code"] != "unknown_view" && m["code"] != "unknown_relation" {
		t.Errorf("%v", m)
	}
	s.do("GET", "/v1/views/revenue/rows", "", 404)
	s.do("DELETE", "/v1/streams/checkouts", "", 204)
}

// C6
func TestPositionsOfWhatWasDeletedAreAGap(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.Stream("payments", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","card":"VARCHAR","amount":"BIGINT"},"idle_timeout":"0s"}`)
	const sql = `"sql":"SELECT card, amount FROM payments WHERE amount > 100"`
	make := func() {
		s.do("PUT", "/v1/views/dear", `{`+sql+`}`, 201)
		s.do("PUT", "/v1/alerts/large", `{`+sql+`,"title":"{card}"}`, 201)
	}
	make()
	receipt := s.Post("payments", 0, `{"ts":"12:00:00","card":"a","amount":500}`, `{"ts":"12:00:01","card":"b","amount":600}`)
	s.Until("dear", receipt)
	s.Until("large", receipt)
	r := s.listen()
	r.say(`{"op":"subscribe","id":"v","to":"dear"}`)
	r.want("subscribed")
	view := r.want("snapshot")["position"]
	r.say(`{"op":"unsubscribe","id":"v"}`)
	r = s.listen()
	r.say(`{"op":"subscribe","id":"a","to":"large","from":"earliest"}`)
	r.want("subscribed")
	alarms := r.want("alerts")["position"]
	made := s.do("GET", "/v1/alerts/large/log", "", 200)["items"].([]any)[0].(map[string]any)["position"]
	s.do("GET", fmt.Sprintf("/v1/alerts/large/log?after=%s", made), "", 200)

	s.do("DELETE", "/v1/views/dear", "", 204)
	s.do("DELETE", "/v1/alerts/large", "", 204)
	make()
	s.Until("dear", receipt)
	s.Until("large", receipt)
	r = s.listen()
	r.say(`{"op":"subscribe","id":"v","to":"dear","from":"%s"}`, view)
	if m := r.want("subscribed"); m["recovered"] != false {
		t.Errorf("%v", m)
	}
	r.want("gap")
	if m := r.want("snapshot"); len(m["rows"].([]any)) != 2 {
		t.Errorf("%v", m)
	}
	for _, old := range []any{alarms, made} {
		r = s.listen()
		r.say(`{"op":"subscribe","id":"a","to":"large","from":"%s"}`, old)
		if m := r.want("subscribed"); m["recovered"] != false {
			t.Errorf("%v", m)
		}
		r.want("gap")
		if m := r.want("alerts"); len(m["alerts"].([]any)) != 2 {
			t.Errorf("%v", m)
		}
		s.do("GET", fmt.Sprintf("/v1/alerts/large/log?after=%s", old), "", 410)
	}
	s.do("GET", "/v1/views/dear/rows?after="+receipt, "", 200)
	if m := s.do("POST", "/v1/views/dear/rebuild", "", 200); m["name"] != "dear" {
		t.Errorf("%v", m)
	}
}
