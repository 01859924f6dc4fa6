package web_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/group"
	"tidemark/stream/pebblelog"
	"tidemark/web"
	"tidemark/web/api"
	"tidemark/web/webtest"
)

// errorCases is every error that the endpoints of web/api answer. A new endpoint or a new refusal
// gets its row here.
var errorCases = []webtest.Case{
	// addresses, parameters, names
	{Name: "nothing at the address", Method: "GET", Path: "/v1/topics", Status: 404, Code: "no_such_address", Must: []string{"/openapi.json"}},
	{Name: "another method", Method: "PATCH", Path: "/v1/streams/shop", Status: 405, Code: "method_not_allowed", Must: []string{"DELETE", "PUT"}},
	{Name: "a stream that is not there", Method: "GET", Path: "/v1/streams/nowhere", Status: 404, Code: "unknown_stream"},
	{Name: "a stream to delete that is not there", Method: "DELETE", Path: "/v1/streams/nowhere", Status: 404, Code: "unknown_stream"},
	{Name: "a name with capitals", Method: "PUT", Path: "/v1/streams/Shop", Body: "{}", Status: 400, Code: "bad_name", Must: []string{"[a-z][a-z0-9_]{0,62}"}},
	{Name: "a name with a dash", Method: "PUT", Path: "/v1/streams/a-b", Body: "{}", Status: 400, Code: "bad_name"},
	{Name: "a name that climbs", Method: "GET", Path: "/v1/streams/..%2f..%2fetc", Status: 400, Code: "bad_name"},
	{Name: "a name that climbs, escaped", Method: "GET", Path: "/v1/streams/%2e%2e%2f", Status: 400, Code: "bad_name"},
	{Name: "a name with a zero byte", Method: "PUT", Path: "/v1/streams/a%00b", Body: "{}", Status: 400, Code: "bad_name"},
	{Name: "a name with a bad escape", Method: "PUT", Path: "/v1/streams/a%zz", Body: "{}", Status: 400, Code: "bad_name"},
	{Name: "a name with a backslash", Method: "GET", Path: `/v1/streams/..\..`, Status: 400, Code: "bad_name"},
	{Name: "the route's own text as name", Method: "GET", Path: "/v1/streams/:name", Status: 400, Code: "bad_name"},
	{Name: "a name of 64 letters", Method: "PUT", Path: "/v1/streams/" + strings.Repeat("a", 64), Body: "{}", Status: 400, Code: "bad_name"},
	{Name: "a view's name of 59 letters", Method: "PUT", Path: "/v1/views/" + strings.Repeat("a", 59), Body: "{}", Status: 400, Code: "bad_name"},
	{Name: "a reserved name", Method: "PUT", Path: "/v1/streams/late_shop", Body: "{}", Status: 400, Code: "bad_name", Must: []string{"late_"}},
	{Name: "another reserved name", Method: "PUT", Path: "/v1/views/tidemark_x", Body: "{}", Status: 400, Code: "bad_name"},
	{Name: "a dashboard's bad name", Method: "PUT", Path: "/v1/dashboards/A", Body: `{"title":"x","panels":[]}`, Status: 400, Code: "bad_name"},
	{Name: "an alert's bad name", Method: "PUT", Path: "/v1/alerts/late_x", Body: "{}", Status: 400, Code: "bad_name"},
	{Name: "a parameter that is not there", Method: "GET", Path: "/v1/views/revenue/rows?limits=5", Status: 400, Code: "unknown_parameter", Must: []string{"limits", "limit"}},
	{Name: "a parameter where there is none", Method: "GET", Path: "/v1/streams/shop?full=1", Status: 400, Code: "unknown_parameter"},
	{Name: "a limit that is no number", Method: "GET", Path: "/v1/views/revenue/rows?limit=many", Status: 400, Code: "bad_parameter"},
	{Name: "a limit that is too large", Method: "GET", Path: "/v1/views/revenue/rows?limit=1000001", Status: 400, Code: "bad_parameter", Must: []string{"1000000"}},
	{Name: "a limit of zero", Method: "GET", Path: "/v1/streams?limit=0", Status: 400, Code: "bad_parameter"},
	{Name: "a flag that is none", Method: "GET", Path: "/v1/views/revenue/rows?final=maybe", Status: 400, Code: "bad_parameter"},
	{Name: "a wait that is too long", Method: "GET", Path: "/v1/views/revenue/rows?wait=2h", Status: 400, Code: "bad_parameter"},
	{Name: "a wait that is none", Method: "GET", Path: "/v1/views/revenue/rows?wait=soon", Status: 400, Code: "bad_parameter"},
	{Name: "a cursor of another list", Method: "GET", Path: "/v1/streams?cursor=dmlld3MAYQ", Status: 400, Code: "bad_cursor"},
	{Name: "a cursor that is none", Method: "GET", Path: "/v1/views?cursor=%21", Status: 400, Code: "bad_cursor"},
	// bodies
	{Name: "no JSON", Method: "PUT", Path: "/v1/streams/shop", Body: "{", Status: 400, Code: "bad_body", Must: []string{"position"}},
	{Name: "an unknown member of a stream", Method: "PUT", Path: "/v1/streams/shop", Body: `{"partition":8}`, Status: 400, Code: "unknown_member", Must: []string{"partition", "partitions"}},
	{Name: "fewer partitions", Method: "PUT", Path: "/v1/streams/shop", Body: `{"partitions":1}`, Status: 409, Code: "fewer_partitions"},
	{Name: "a compressed definition", Method: "PUT", Path: "/v1/streams/shop", Body: "{}", Header: map[string]string{"Content-Encoding": "gzip"}, Status: 415, Code: "no_compression"},
	{Name: "a form", Method: "PUT", Path: "/v1/streams/shop", Body: "{}", Header: map[string]string{"Content-Type": "multipart/form-data; boundary=x"}, Status: 415, Code: "not_json"},
	{Name: "another charset", Method: "PUT", Path: "/v1/streams/shop", Body: "{}", Header: map[string]string{"Content-Type": "application/json; charset=utf-16"}, Status: 415, Code: "not_json"},
	{Name: "a definition of 2 MiB", Method: "PUT", Path: "/v1/streams/shop", Body: strings.Repeat(" ", 2<<20) + "{}", Status: 413, Code: "body_too_large"},
	{Name: "the edge comes first", Method: "PUT", Path: "/v1/streams/shop", Body: "{}", Header: map[string]string{"Origin": "https://evil.example"}, Status: 403, Code: "foreign_origin"},
	// events
	{Name: "an older part without a column", Method: "GET", Path: "/v1/views/revenue/rows/older?from=2024-01-01&to=2024-01-02", Status: 400, Code: "bad_parameter", Must: []string{"window_start"}},
	{Name: "an older part from nowhere", Method: "GET", Path: "/v1/views/revenue/rows/older?x=w&from=soon&to=2024-01-02", Status: 400, Code: "bad_parameter", Must: []string{"from"}},
	{Name: "an older part the wrong way round", Method: "GET", Path: "/v1/views/revenue/rows/older?x=w&from=2024-01-02&to=2024-01-01", Status: 400, Code: "bad_range"},
	{Name: "events of a row of no view", Method: "GET", Path: "/v1/views/nowhere/rows/events?key={}", Status: 404, Code: "unknown_view"},
	{Name: "too many events of a row", Method: "GET", Path: "/v1/views/revenue/rows/events?key={}&limit=10001", Status: 400, Code: "bad_parameter"},
	{Name: "an annotation on no dashboard", Method: "POST", Path: "/v1/dashboards/nowhere/annotations", Body: `{"text":"x"}`, Status: 404, Code: "unknown_dashboard"},
	{Name: "annotations of no dashboard", Method: "GET", Path: "/v1/dashboards/nowhere/annotations", Status: 404, Code: "unknown_dashboard"},
	{Name: "a partition that is no number", Method: "GET", Path: "/v1/streams/shop/partitions/x/events", Status: 400, Code: "bad_partition"},
	{Name: "a partition that is not there", Method: "GET", Path: "/v1/streams/shop/partitions/9/events", Status: 404, Code: "unknown_partition", Must: []string{"it has 2"}},
	{Name: "an offset below zero", Method: "GET", Path: "/v1/streams/shop/partitions/0/events?offset=-1", Status: 400, Code: "bad_parameter"},
	{Name: "an instant that is none", Method: "GET", Path: "/v1/streams/shop/partitions/0/events?time=yesterday", Status: 400, Code: "bad_parameter"},
	{Name: "offset and time", Method: "GET", Path: "/v1/streams/shop/partitions/0/events?time=2024-01-01&offset=1", Status: 400, Code: "bad_parameter"},
	{Name: "late events that are gone", Method: "GET", Path: "/v1/streams/late_revenue/partitions/0/events?offset=1", Status: 410, Code: "offset_gone", Must: []string{`"first_offset":5`}},
	{Name: "late events have one partition", Method: "GET", Path: "/v1/streams/late_revenue/partitions/1/events", Status: 404, Code: "unknown_partition"},
	{Name: "late events of no view", Method: "GET", Path: "/v1/streams/late_nowhere", Status: 404, Code: "unknown_view"},
	// groups
	{Name: "a group of no stream", Method: "GET", Path: "/v1/streams/nowhere/groups/g", Status: 404, Code: "unknown_stream"},
	{Name: "a group that is not there", Method: "GET", Path: "/v1/streams/shop/groups/nobody", Status: 404, Code: "unknown_group"},
	{Name: "a group to delete that is not there", Method: "DELETE", Path: "/v1/streams/shop/groups/nobody", Status: 404, Code: "unknown_group"},
	{Name: "a group's bad name", Method: "POST", Path: "/v1/streams/shop/groups/a%20b/poll", Body: `{"member":"m"}`, Status: 400, Code: "bad_name", Must: []string{"A-Za-z0-9_.-"}},
	{Name: "a poll of nobody", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Body: `{}`, Status: 400, Code: "bad_member"},
	{Name: "an empty poll", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Status: 400, Code: "bad_body", Must: []string{"member"}},
	{Name: "an unknown member of a poll", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Body: `{"member":"m","limit":1}`, Status: 400, Code: "bad_body", Must: []string{"limit"}},
	{Name: "a delivery that there is not", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Body: `{"member":"m","delivery":"exactly_once"}`, Status: 400, Code: "bad_poll", Must: []string{"at_least_once"}},
	{Name: "no events at all", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Body: `{"member":"m","max":0}`, Status: 400, Code: "bad_poll"},
	{Name: "a poll that waits too long", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Body: `{"member":"m","wait":"2m"}`, Status: 400, Code: "bad_poll"},
	{Name: "a wait of a poll that is none", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Body: `{"member":"m","wait":"soon"}`, Status: 400, Code: "bad_body", Must: []string{"wait"}},
	{Name: "a session of no time", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Body: `{"member":"m","session_timeout":"0s"}`, Status: 400, Code: "bad_poll"},
	{Name: "a poll under a generation of old", Method: "POST", Path: "/v1/streams/shop/groups/g/poll", Body: `{"member":"m","generation":7}`, Status: 409, Code: "fenced"},
	{Name: "a commit of no group", Method: "POST", Path: "/v1/streams/shop/groups/nobody/commit", Body: `{"member":"m","offsets":{"0":1}}`, Status: 404, Code: "unknown_group"},
	{Name: "a commit of nothing", Method: "POST", Path: "/v1/streams/shop/groups/g/commit", Body: `{"member":"m"}`, Status: 400, Code: "bad_commit"},
	{Name: "a commit of a text", Method: "POST", Path: "/v1/streams/shop/groups/g/commit", Body: `{"member":"m","offsets":{"0":"1"}}`, Status: 400, Code: "bad_body"},
	{Name: "a commit below zero", Method: "POST", Path: "/v1/streams/shop/groups/g/commit", Body: `{"member":"m","offsets":{"0":-1}}`, Status: 400, Code: "bad_body"},
	{Name: "a commit by a stranger", Method: "POST", Path: "/v1/streams/shop/groups/held/commit", Body: `{"member":"stranger","offsets":{"0":1}}`, Status: 409, Code: "fenced", Must: []string{"stranger"}},
	{Name: "a commit past what was given", Method: "POST", Path: "/v1/streams/shop/groups/held/commit", Body: `{"member":"m","offsets":{"0":4}}`, Status: 409, Code: "not_given"},
	{Name: "a nack without a place", Method: "POST", Path: "/v1/streams/shop/groups/held/nack", Body: `{"member":"m","offset":1}`, Status: 400, Code: "bad_nack"},
	{Name: "a nack of what was not given", Method: "POST", Path: "/v1/streams/shop/groups/held/nack", Body: `{"member":"m","partition":0,"offset":4}`, Status: 409, Code: "not_given"},
	{Name: "a nack by a stranger", Method: "POST", Path: "/v1/streams/shop/groups/held/nack", Body: `{"member":"stranger","partition":0,"offset":0}`, Status: 409, Code: "fenced"},
	{Name: "a seek to nowhere", Method: "POST", Path: "/v1/streams/shop/groups/g/seek", Body: `{}`, Status: 400, Code: "bad_seek"},
	{Name: "a seek to an instant that is none", Method: "POST", Path: "/v1/streams/shop/groups/g/seek", Body: `{"time":"soon"}`, Status: 400, Code: "bad_time"},
	{Name: "a seek past the end", Method: "POST", Path: "/v1/streams/shop/groups/g/seek", Body: `{"offsets":{"0":99}}`, Status: 422, Code: "offset_above_end", Must: []string{`"next_offset":5`}},
	{Name: "a seek in a partition that is not there", Method: "POST", Path: "/v1/streams/shop/groups/g/seek", Body: `{"offsets":{"2":0}}`, Status: 404, Code: "unknown_partition"},
	{Name: "leaving as nobody", Method: "POST", Path: "/v1/streams/shop/groups/held/leave", Body: `{}`, Status: 400, Code: "bad_member"},
	{Name: "a parameter of a group", Method: "GET", Path: "/v1/streams/shop/groups/held?full=1", Status: 400, Code: "unknown_parameter"},
	// views: what the service answers comes through
	{Name: "a view that is not there", Method: "GET", Path: "/v1/views/nowhere", Status: 404, Code: "unknown_view"},
	{Name: "rows of no view", Method: "GET", Path: "/v1/views/nowhere/rows", Status: 404, Code: "unknown_view"},
	{Name: "errors of no view", Method: "GET", Path: "/v1/views/nowhere/errors", Status: 404, Code: "unknown_view"},
	{Name: "watermark of no view", Method: "GET", Path: "/v1/views/nowhere/watermark", Status: 404, Code: "unknown_view"},
	{Name: "pause of no view", Method: "POST", Path: "/v1/views/nowhere/pause", Status: 404, Code: "unknown_view"},
	{Name: "resume of no view", Method: "POST", Path: "/v1/views/nowhere/resume", Status: 404, Code: "unknown_view"},
	{Name: "rebuild of no view", Method: "POST", Path: "/v1/views/nowhere/rebuild", Status: 404, Code: "unknown_view"},
	{Name: "fate of an event of no stream", Method: "GET", Path: "/v1/streams/nowhere/events/0/1/fate", Status: 404, Code: "unknown_stream"},
	{Name: "fate without an id", Method: "GET", Path: "/v1/streams/shop/fate", Status: 400, Code: "bad_parameter", Must: []string{"?id="}},
	{Name: "fate at no offset", Method: "GET", Path: "/v1/streams/shop/events/0/first/fate", Status: 400, Code: "bad_parameter"},
	{Name: "explanation of no view", Method: "GET", Path: "/v1/views/nowhere/explain", Status: 404, Code: "unknown_view"},
	{Name: "history of a row of no view", Method: "GET", Path: "/v1/views/nowhere/rows/history?key={}", Status: 404, Code: "unknown_view"},
	{Name: "last verification of no view", Method: "GET", Path: "/v1/views/nowhere/verify", Status: 404, Code: "unknown_view"},
	{Name: "verify of no view", Method: "POST", Path: "/v1/views/nowhere/verify", Status: 404, Code: "unknown_view"},
	{Name: "a view to delete that is not there", Method: "DELETE", Path: "/v1/views/nowhere", Status: 404, Code: "unknown_view"},
	{Name: "SQL that can't run", Method: "PUT", Path: "/v1/views/revenue", Body: `{"sql":"SELEC 1"}`, Status: 422, Code: "bad_sql", Must: []string{`"position":0`, `"hint"`}},
	{Name: "a dry run that is none", Method: "PUT", Path: "/v1/views/revenue?dry_run=perhaps", Body: `{}`, Status: 400, Code: "bad_parameter"},
	{Name: "a cause of ours stays in the log", Method: "GET", Path: "/v1/views/broken", Status: 500, Code: "internal", MustNot: []string{"secret"}},
	// queries
	{Name: "a query without SQL", Method: "POST", Path: "/v1/query", Body: `{}`, Status: 400, Code: "no_sql"},
	{Name: "a query that is no JSON", Method: "POST", Path: "/v1/query", Body: `SELECT 1`, Status: 400, Code: "bad_body", Must: []string{`"position"`}},
	{Name: "an empty query", Method: "POST", Path: "/v1/query", Body: ``, Status: 400, Code: "bad_body"},
	{Name: "an unknown member of a query", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT 1","limit":1}`, Status: 400, Code: "bad_body", Must: []string{"limit"}},
	{Name: "a member of the wrong type", Method: "POST", Path: "/v1/query", Body: `{"sql":1}`, Status: 400, Code: "bad_body", Must: []string{"sql"}},
	{Name: "two queries", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT 1"}{"sql":"SELECT 2"}`, Status: 400, Code: "bad_body"},
	{Name: "a query of 33 KiB", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT ` + strings.Repeat("1+", 17_000) + `1"}`, Status: 413, Code: "sql_too_large"},
	{Name: "a timeout that is none", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT 1","timeout":"soon"}`, Status: 400, Code: "bad_timeout"},
	{Name: "a timeout of a day", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT 1","timeout":"1d"}`, Status: 400, Code: "bad_timeout"},
	{Name: "no rows at all", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT 1","max_rows":0}`, Status: 400, Code: "bad_max_rows"},
	{Name: "a form of answer that there is not", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT 1"}`, Header: map[string]string{"Accept": "application/xml"}, Status: 406, Code: "no_such_format", Must: []string{"text/csv"}},
	{Name: "a query that takes too long", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT slow","timeout":"1ms"}`, Status: 504, Code: "timeout"},
	{Name: "an answer that is too large", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT huge"}`, Status: 422, Code: "too_large"},
	{Name: "a full queue", Method: "POST", Path: "/v1/query", Body: `{"sql":"SELECT busy"}`, Status: 429, Code: "queue_full"},
	// alerts
	{Name: "an alert that is not there", Method: "GET", Path: "/v1/alerts/nowhere", Status: 404, Code: "unknown_alert"},
	{Name: "the log of no alert", Method: "GET", Path: "/v1/alerts/nowhere/log", Status: 404, Code: "unknown_alert"},
	{Name: "an alert to delete that is not there", Method: "DELETE", Path: "/v1/alerts/nowhere", Status: 404, Code: "unknown_alert"},
	// dashboards
	{Name: "a dashboard that is not there", Method: "GET", Path: "/v1/dashboards/nowhere", Status: 404, Code: "unknown_dashboard"},
	{Name: "a dashboard to delete that is not there", Method: "DELETE", Path: "/v1/dashboards/nowhere", Status: 404, Code: "unknown_dashboard"},
	{Name: "an unknown member of a panel", Method: "PUT", Path: "/v1/dashboards/shop", Body: `{"title":"x","panels":[{"id":"a","kind":"stat"}]}`, Status: 400, Code: "bad_body", Must: []string{"kind"}},
	{
		Name: "a dashboard with many mistakes names them all", Method: "PUT", Path: "/v1/dashboards/shop",
		Body:   `{"title":"","tz":"Mars/Olympus","range":"forever","panels":[{"id":"a","type":"pie"},{"id":"a","type":"stat","view":"Bad","grid":[10,0,6,4]},{"id":"b","type":"text","grid":[1]}]}`,
		Status: 422, Code: "bad_dashboard", Must: []string{"title", "Mars/Olympus", "range", "pie", "same id", "y is missing", "Bad", "12 columns", "text", "four numbers"},
	},
}

func TestEveryErrorNamesTheNextStep(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	webtest.Errors(t, "http://"+s.addr, errorCases)
}

func fakeVerified(name string) (any, bool, error) {
	_, err := fakeViews{}.find(name)
	return map[string]any{"result": "equal"}, true, err
}

func fakeFate(_ context.Context, stream string, _ int32, _ int64) (any, error) {
	if stream != "shop" {
		return nil, unknown("stream", stream)
	}
	return map[string]any{"fate": "appended"}, nil
}

func fakeFateByID(ctx context.Context, stream, _ string) (any, error) {
	return fakeFate(ctx, stream, 0, 0)
}

func fakeExplain(_ context.Context, view string) (any, error) {
	_, err := fakeViews{}.find(view)
	return map[string]any{"plan": ""}, err
}

func fakeRowHistory(_ context.Context, view, _, _ string, _ int) (any, error) {
	_, err := fakeViews{}.find(view)
	return map[string]any{"items": []any{}}, err
}

func fakeRowEvents(_ context.Context, view, _ string, _ int) (any, error) {
	_, err := fakeViews{}.find(view)
	return map[string]any{"items": []any{}}, err
}

func fakeOlder(_ context.Context, q api.Older) (any, error) {
	_, err := fakeViews{}.find(q.View)
	return map[string]any{"rows": []any{}, "from": q.From}, err
}

// fakeDeps are a real registry and log in memory with the stream "shop", and fakes for the rest.
func fakeDeps(t *testing.T) api.Deps {
	t.Helper()
	store, err := kv.Open("data", kv.Options{FS: vfs.NewMem(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	log, err := pebblelog.Open(store, pebblelog.Options{TimerPeriod: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	cat, err := catalog.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	reg, err := stream.OpenRegistry(cat, log)
	if err != nil {
		t.Fatal(err)
	}
	config, err := stream.ParseConfig([]byte(`{"partitions":2,"time_field":"ts"}`))
	if err != nil {
		t.Fatal(err)
	}
	shop, _, err := reg.Put(context.Background(), "shop", config)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, log, shop, 5)
	groups := group.New(store, log, group.Options{Logger: quiet})
	if _, err := groups.Poll(context.Background(), shop.ID, "held", group.Poll{Member: "m", Max: 3}); err != nil {
		t.Fatal(err)
	}
	return api.Deps{
		Groups: groups, Streams: reg, Log: log, Views: fakeViews{}, Alerts: fakeAlerts{}, Dashboards: cat,
		Exists: func(name string) bool { return name == "shop" }, Query: fakeQuery, Verify: fakeVerify,
		Verified: fakeVerified, Fate: fakeFate, FateByID: fakeFateByID, RowHistory: fakeRowHistory, Explain: fakeExplain,
		RowEvents: fakeRowEvents, Older: fakeOlder,
	}
}

// appendTo appends n events to partition 0, one second apart from 2024-01-01T00:00:00Z on.
func appendTo(t *testing.T, log stream.Log, s *stream.Stream, n int) {
	t.Helper()
	keys := row.NewVector(row.Scalar(row.Varchar), n)
	e := &stream.Events{Stream: s.ID, Columns: make([]*row.Vector, len(s.Schema.Fields)), Keys: keys}
	for i := range n {
		keys.AppendString("k")
		e.Times = append(e.Times, 1_704_067_200_000_000+int64(i)*1_000_000)
		e.Partitions = append(e.Partitions, 0)
		e.RawData = append(e.RawData, `{"n":1}`...)
		e.RawEnds = append(e.RawEnds, uint32(len(e.RawData)))
	}
	if _, err := log.Append(context.Background(), []*stream.Events{e}); err != nil {
		t.Fatal(err)
	}
}

func unknown(kind, name string) error {
	return problem.New(404, "unknown_"+kind, "there is no %s %s", kind, name).WithHint("GET /v1/%ss lists them", kind)
}

// fakeViews knows "revenue", and "broken", about which it can't say anything.
type fakeViews struct{ api.Views }

func (fakeViews) find(name string) (any, error) {
	switch name {
	case "revenue":
		return map[string]any{"name": name, "state": "live"}, nil
	case "broken":
		return nil, io.ErrUnexpectedEOF
	}
	return nil, unknown("view", name)
}

func (v fakeViews) Put(_ context.Context, name string, body []byte, _ bool) (any, bool, error) {
	if strings.Contains(string(body), "SELEC ") {
		return nil, false, problem.New(422, "bad_sql", "syntax error at SELEC").WithHint("write SELECT").At(0)
	}
	return map[string]any{"name": name}, name != "revenue", nil
}
func (v fakeViews) Get(name string) (any, error)                        { return v.find(name) }
func (v fakeViews) Pause(_ context.Context, name string) (any, error)   { return v.find(name) }
func (v fakeViews) Resume(_ context.Context, name string) (any, error)  { return v.find(name) }
func (v fakeViews) Rebuild(_ context.Context, name string) (any, error) { return v.find(name) }
func (v fakeViews) Watermark(name string) (any, error)                  { return v.find(name) }
func (v fakeViews) Delete(_ context.Context, name string) error         { _, err := v.find(name); return err }

func (v fakeViews) Rows(_ context.Context, name string, q api.RowsQuery) (any, error) {
	if _, err := v.find(name); err != nil {
		return nil, err
	}
	return q, nil
}

func (v fakeViews) List() ([]api.Named, error) {
	return []api.Named{{Name: "a", Value: "A"}, {Name: "b", Value: "B"}, {Name: "c", Value: "C"}}, nil
}

func (v fakeViews) Errors(name, cursor string, _ int) (any, string, error) {
	if _, err := v.find(name); err != nil {
		return nil, "", err
	}
	if cursor == "" {
		return []int{1}, "second", nil
	}
	return []string{cursor}, "", nil
}

func (v fakeViews) Late(view string, from int64, _ int) ([]json.RawMessage, int64, error) {
	if _, err := v.find(view); err != nil {
		return nil, 0, err
	}
	if from < 5 {
		return nil, 0, problem.New(410, "offset_gone", "offset %d is gone", from).WithHint("go on from first_offset").With("first_offset", 5)
	}
	return []json.RawMessage{[]byte(`{"offset":5}`)}, 6, nil
}

func (v fakeViews) LateEnds(view string) (int64, int64, error) {
	if _, err := v.find(view); err != nil {
		return 0, 0, err
	}
	return 5, 6, nil
}

type fakeAlerts struct{ api.Alerts }

func (fakeAlerts) Put(_ context.Context, name string, _ []byte, _ bool) (any, bool, error) {
	return map[string]any{"name": name}, true, nil
}

func (fakeAlerts) Get(name string) (any, error)                { return nil, unknown("alert", name) }
func (fakeAlerts) Delete(_ context.Context, name string) error { return unknown("alert", name) }
func (fakeAlerts) List() ([]api.Named, error)                  { return nil, nil }
func (fakeAlerts) Log(name, after string, limit int) ([]json.RawMessage, string, bool, error) {
	if name != "fraud" {
		return nil, "", false, unknown("alert", name)
	}
	return []json.RawMessage{[]byte(`{"op":"fire"}`)}, "17", true, nil
}

func fakeVerify(_ context.Context, name string, wait time.Duration) (any, bool, error) {
	_, err := fakeViews{}.find(name)
	return map[string]any{"result": "equal"}, wait < time.Minute, err
}

func fakeQuery(ctx context.Context, q api.Query, w io.Writer) error {
	switch {
	case strings.HasSuffix(q.SQL, "slow"):
		return problem.New(504, "timeout", "the query did not end within %s", q.Timeout).WithHint("narrow it")
	case strings.HasSuffix(q.SQL, "wait"):
		<-ctx.Done()
		return ctx.Err()
	case strings.HasSuffix(q.SQL, "huge"):
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
	case strings.HasSuffix(q.SQL, "busy"):
		p := problem.New(429, "queue_full", "8 queries run and 8 wait").WithHint("try again in a second")
		p.RetryAfter = 1
		return p
	}
	return json.NewEncoder(w).Encode(q)
}
