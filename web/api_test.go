package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"tidemark/storage/catalog"
	"tidemark/web"
	"tidemark/web/api"
	"tidemark/web/auth"
	"tidemark/web/live"
)

func (s *server) json(method, path, body string, status int) map[string]any {
	s.t.Helper()
	a := s.do(method, path, body, nil)
	if a.status != status {
		s.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	if a.body == "" {
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		s.t.Fatalf("%v in %s", err, a.body)
	}
	return m
}

func TestStreamLivesAndTellsWhereItStands(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	m := s.json("GET", "/v1/streams/shop", "", 200)
	if diff := cmp.Diff(map[string]any{"accepted": 5.0, "duplicates": 0.0, "dead_letters": 0.0, "refused": 0.0, "received": 5.0}, m["counts"]); diff != "" {
		t.Error(diff)
	}
	p := m["partitions"].([]any)
	first := p[0].(map[string]any)
	if len(p) != 2 || first["next_offset"] != 5.0 || first["watermark"] != "2023-12-31T23:59:59Z" || p[1].(map[string]any)["watermark"] != nil { // W1
		t.Errorf("%v", p)
	}
	if c := m["config"].(map[string]any); c["max_out_of_orderness"] != "5s" || c["time_field"] != "ts" {
		t.Errorf("%v", c)
	}
	s.json("PUT", "/v1/streams/clicks", "", 201)
	s.json("PUT", "/v1/streams/clicks", `{"partitions":3}`, 200)
	if m := s.json("GET", "/v1/streams", "", 200); len(m["items"].([]any)) != 2 || m["next"] != nil {
		t.Errorf("%v", m)
	}
	s.json("DELETE", "/v1/streams/clicks", "", 204)
	s.json("GET", "/v1/streams/clicks", "", 404)
}

func TestEventsAreReadByOffsetAndByTime(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	read := func(query string) (offsets []float64, next any) {
		m := s.json("GET", "/v1/streams/shop/partitions/0/events"+query, "", 200)
		for _, e := range m["events"].([]any) {
			offsets = append(offsets, e.(map[string]any)["offset"].(float64))
		}
		return offsets, m["next_offset"]
	}
	for _, test := range []struct {
		query string
		want  string
	}{
		{"", "[0 1 2 3 4] 5"},
		{"?offset=3", "[3 4] 5"},
		{"?offset=1&limit=2", "[1 2] 3"},
		{"?offset=5", "[] 5"},
		{"?offset=99", "[] 99"},
		{"?time=2001-01-01", "[0 1 2 3 4] 5"},
		{"?time=9999-01-01", "[] 5"},
	} {
		offsets, next := read(test.query)
		if got := fmt.Sprint(offsets, next); got != test.want {
			t.Errorf("%s: %s, want %s", test.query, got, test.want)
		}
	}
	m := s.json("GET", "/v1/streams/shop/partitions/0/events?limit=1", "", 200)
	e := m["events"].([]any)[0].(map[string]any)
	if e["partition"] != 0.0 || e["time"] != "2024-01-01T00:00:00Z" || e["key"] != "k" || e["append_time"] == nil || fmt.Sprint(e["event"]) != "map[n:1]" {
		t.Errorf("%v", e)
	}
	if m := s.json("GET", "/v1/streams/late_revenue/partitions/0/events", "", 200); m["next_offset"] != 6.0 {
		t.Errorf("%v", m)
	}
	if m := s.json("GET", "/v1/streams/late_revenue", "", 200); m["name"] != "late_revenue" {
		t.Errorf("%v", m)
	}
}

func TestListsGoOnWhereTheCursorSays(t *testing.T) { // I4
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	first := s.json("GET", "/v1/views?limit=2", "", 200)
	second := s.json("GET", "/v1/views?limit=2&cursor="+first["next"].(string), "", 200)
	if fmt.Sprint(first["items"], second["items"], second["next"]) != "[A B] [C] <nil>" {
		t.Errorf("%v %v", first, second)
	}
	errs := s.json("GET", "/v1/views/revenue/errors", "", 200)
	more := s.json("GET", "/v1/views/revenue/errors?cursor="+errs["next"].(string), "", 200)
	if fmt.Sprint(more["items"], more["next"]) != "[second] <nil>" {
		t.Errorf("%v", more)
	}
	if a := s.do("GET", "/v1/views/broken/errors?cursor="+errs["next"].(string), "", nil); a.status != 400 {
		t.Errorf("a cursor of another view: %d", a.status)
	}
}

func TestRowsTakeAllOptions(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	m := s.json("GET", "/v1/views/revenue/rows?where=a%3E1&order=a+DESC&limit=7&final=true&after=r&wait=5s&cursor=c", "", 200)
	if got := fmt.Sprintln(m["Where"], m["Order"], m["Limit"], m["Final"], m["After"], m["Wait"], m["Cursor"]); got != "a>1 a DESC 7 true r 5e+09 c\n" {
		t.Errorf("%v", m)
	}
	s.json("PUT", "/v1/views/fresh", `{"sql":"SELECT 1"}`, 201)
	s.json("PUT", "/v1/views/fresh?dry_run=true", `{"sql":"SELECT 1"}`, 200)
	s.json("PUT", "/v1/views/revenue", `{"sql":"SELECT 1"}`, 200)
	s.json("DELETE", "/v1/views/revenue", "", 204)
	for _, path := range []string{"pause", "resume", "rebuild", "verify"} {
		s.json("POST", "/v1/views/revenue/"+path, "", 200)
	}
	if a := s.do("POST", "/v1/views/revenue/verify?wait=1m", "", nil); a.status != 202 || a.header.Get("Location") == "" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestQueryAnswersInTheFormThatIsAccepted(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	for accept, want := range map[string][2]string{
		"": {"json", "application/json"}, "*/*": {"json", "application/json"}, "application/x-ndjson": {"ndjson", "application/x-ndjson"},
		"text/html, text/csv;q=0.9": {"csv", "text/csv; charset=utf-8"},
	} {
		a := s.do("POST", "/v1/query", `{"sql":"SELECT 1","params":[9007199254740993],"timeout":"2s","max_rows":5}`, http.Header{"Accept": {accept}})
		if a.status != 200 || a.header.Get("Content-Type") != want[1] ||
			!strings.Contains(a.body, `"Params":[9007199254740993],"Timeout":2000000000,"MaxRows":5,"Format":"`+want[0]+`"`) {
			t.Errorf("%q: %d %s %s", accept, a.status, a.header.Get("Content-Type"), a.body)
		}
	}
}

func TestQueryEndsWhenTheClientGoesAway(t *testing.T) {
	t.Parallel()
	d := fakeDeps(t)
	entered, ended := make(chan struct{}), make(chan error, 1)
	d.Query = func(ctx context.Context, _ api.Query, _ io.Writer) error {
		close(entered)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}
	s := serve(t, web.Options{API: d})
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18\r\n\r\n{\"sql\":\"SELECT 1\"}")
	<-entered
	c.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the query ended with %v", err)
	}
}

func TestWaitsEndWhenTheServerStops(t *testing.T) {
	t.Parallel()
	d := fakeDeps(t)
	entered := make(chan struct{})
	inner := d.Query
	d.Query = func(ctx context.Context, q api.Query, w io.Writer) error {
		close(entered)
		return inner(ctx, q, w)
	}
	s := serve(t, web.Options{API: d})
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 21\r\n\r\n{\"sql\":\"SELECT wait\"}")
	<-entered
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := read(t, resp); a.status != 503 || a.problem["type"] != "/problems/server_stops" || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestAlertLogSaysWhereToGoOn(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	m := s.json("GET", "/v1/alerts/fraud/log?after=3&limit=1", "", 200)
	if got := fmt.Sprintln(m["items"], m["position"], m["next"]); got != "[map[op:fire]] 17 17\n" {
		t.Errorf("%v", m)
	}
	s.json("PUT", "/v1/alerts/fraud", `{"sql":"SELECT 1"}`, 201)
}

func TestDashboardIsKeptAsItWasSent(t *testing.T) {
	t.Parallel()
	s := serve(t, web.Options{API: fakeDeps(t)})
	const doc = `{"title":"Shop","range":"now-6h","tz":"UTC","panels":[{"id":"rev","title":"Revenue","type":"timeseries","view":"revenue",
		"x":"window_start","y":["revenue"],"series":"country","where":"country <> 'XX'","order":"revenue DESC","limit":10,"compare":"previous","unit":"EUR","grid":[0,0,6,4]},
		{"id":"note","type":"text","text":"hello"},{"id":"tail","type":"feed","view":"shop","range":"2024-01-01T00:00:00Z,now"}]}`
	m := s.json("PUT", "/v1/dashboards/shop", doc, 201)
	if fmt.Sprint(m["warnings"]) != "[panel rev: there is no revenue yet]" {
		t.Errorf("%v", m["warnings"])
	}
	got := s.json("GET", "/v1/dashboards/shop", "", 200)
	var want map[string]any
	if err := json.Unmarshal([]byte(doc), &want); err != nil {
		t.Fatal(err)
	}
	want["name"], want["created"], want["updated"] = "shop", got["created"], got["updated"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Who changes what somebody else has changed meanwhile is told, and may still replace it.
	was := s.do("GET", "/v1/dashboards/shop", "", nil).header.Get("ETag")
	now := s.do("PUT", "/v1/dashboards/shop", `{"title":"Mine"}`, http.Header{"If-Match": {was}})
	if now.status != 200 || was == "" || now.header.Get("ETag") == was {
		t.Errorf("%d %s %s", now.status, was, now.header.Get("ETag"))
	}
	for _, path := range []string{"/v1/dashboards/shop", "/v1/dashboards/none"} {
		if a := s.do("PUT", path, `{"title":"Theirs"}`, http.Header{"If-Match": {was}}); a.status != 412 || !strings.Contains(a.body, "changed_meanwhile") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	s.json("PUT", "/v1/dashboards/shop", `{"title":"Other"}`, 200)
	if m := s.json("GET", "/v1/dashboards", "", 200); len(m["items"].([]any)) != 1 {
		t.Errorf("%v", m)
	}
	s.json("DELETE", "/v1/dashboards/shop", "", 204)
	s.json("GET", "/v1/dashboards/shop", "", 404)
}

func TestMetricsAreShown(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	hub := live.NewHub(live.Options{Logger: quiet})
	if err := reg.Register(live.NewCollector(hub)); err != nil {
		t.Fatal(err)
	}
	s := serve(t, web.Options{Metrics: reg, Live: hub})
	a := s.do("GET", "/metrics", "", nil)
	if a.status != 200 || !strings.Contains(a.body, "tidemark_live_sockets 0") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestOpenAPIDocumentIsTheRoutes(t *testing.T) { // I5 of web/api
	t.Parallel()
	hub := live.NewHub(live.Options{Logger: quiet})
	deps := fakeDeps(t)
	keys, err := auth.Open(deps.Dashboards.(*catalog.Catalog), auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	deps.Links = keys
	app := web.New(web.Options{API: deps, Live: hub, Auth: keys, Metrics: prometheus.NewRegistry(), Logger: quiet})
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%v %s", err, doc.OpenAPI)
	}
	var routes, documented []string
	parameter := regexp.MustCompile(`:(\w+)`)
	for _, r := range app.Fiber().GetRoutes(true) {
		if slices.Contains([]string{"GET", "PUT", "POST", "DELETE"}, r.Method) {
			routes = append(routes, r.Method+" "+parameter.ReplaceAllString(r.Path, "{$1}"))
		}
	}
	events := regexp.MustCompile(`^POST /v1/(streams/\{name\}/)?events$|/dead_letters|^POST /v1/streams/\{name\}/watermark$`) // mounted by others
	for path, methods := range doc.Paths {
		for method := range methods {
			if line := strings.ToUpper(method) + " " + path; method != "parameters" && !events.MatchString(line) {
				documented = append(documented, line)
			}
		}
	}
	slices.Sort(routes)
	slices.Sort(documented)
	if diff := cmp.Diff(slices.Compact(routes), documented); diff != "" {
		t.Errorf("routes and /openapi.json differ (-routes +document):\n%s", diff)
	}
}

func TestOpenAPIDocumentHasNoDanglingReference(t *testing.T) {
	t.Parallel()
	var doc struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllSubmatch(api.OpenAPI(), -1) {
		if doc.Components.Schemas[string(m[1])] == nil {
			t.Errorf("there is no schema %s", m[1])
		}
	}
}
