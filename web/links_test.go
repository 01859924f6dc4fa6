package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidemark/storage/catalog"
	"tidemark/web"
	"tidemark/web/auth"
	"tidemark/web/live"
)

const board = `{"title":"Shop","range":"now-6h","panels":[
	{"id":"rev","type":"timeseries","view":"revenue","x":"window_start","y":["revenue"],"where":"country <> 'XX'"},
	{"id":"top","type":"toplist","view":"revenue","y":["revenue"],"where":"country <> 'YY'"},
	{"id":"raw","type":"feed","view":"shop"}]}`

// unlocked is a server without keys that makes links.
func unlocked(t *testing.T) (s *server, keys *auth.Keys) {
	t.Helper()
	deps := fakeDeps(t)
	cat := deps.Dashboards.(*catalog.Catalog)
	if _, err := cat.Put(catalog.View, "revenue", []byte(`{}`), 0); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.Open(cat, auth.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	deps.Links = keys
	return serve(t, web.Options{API: deps, Auth: keys, Live: live.NewHub(live.Options{Logger: quiet})}), keys
}

// shared is a server with keys, a dashboard and a key that may do everything.
func shared(t *testing.T) (s *server, keys *auth.Keys, admin http.Header) {
	t.Helper()
	s, keys = unlocked(t)
	d, err := auth.ParseDefinition([]byte(`{"scopes":["admin"]}`))
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := keys.Put("ops", d)
	if err != nil {
		t.Fatal(err)
	}
	admin = http.Header{"Authorization": {"Bearer " + made.Key}}
	if a := s.do("PUT", "/v1/dashboards/shop", board, admin); a.status != 201 {
		t.Fatal(a.body)
	}
	return s, keys, admin
}

// share makes a link and returns its id and a header that shows it.
func (s *server) share(admin http.Header, body string) (id string, by http.Header) {
	s.t.Helper()
	a := s.do("POST", "/v1/dashboards/shop/links", body, admin)
	if a.status != 201 {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	token := strings.TrimPrefix(a.problem["url"].(string), "/shared/")
	return a.problem["id"].(string), http.Header{"Authorization": {"Bearer " + token}}
}

func TestALinkReadsItsDashboardAndNothingElse(t *testing.T) {
	t.Parallel()
	s, _, admin := shared(t)
	id, by := s.share(admin, `{"expires":"72h"}`)
	if a := s.do("PUT", "/v1/dashboards/other", `{"title":"Other","panels":[]}`, admin); a.status != 201 {
		t.Fatal(a.body)
	}
	for request, want := range map[string]int{
		"GET /v1/views/revenue/rows":               200,
		"GET /v1/views/revenue/watermark":          200,
		"GET /v1/dashboards/shop/annotations":      200,
		"GET /v1/dashboards/other/annotations":     403,
		"GET /v1/dashboards/shop":                  403,
		"GET /v1/dashboards":                       403,
		"GET /v1/dashboards/shop/links":            403,
		"GET /v1/views":                            403,
		"GET /v1/views/revenue":                    403,
		"GET /v1/views/A/rows":                     403,
		"GET /v1/views/revenue/rows/events?key={}": 403,
		"GET /v1/views/revenue/rows/history?key=0": 403,
		"POST /v1/views/revenue/verify":            403,
		"POST /v1/query":                           403,
		"GET /v1/streams/shop/partitions/0/events": 403,
		"DELETE /v1/dashboards/shop":               403,
		"POST /v1/dashboards/shop/annotations":     403,
		"POST /v1/dashboards/shop/links":           403,
		"GET /v1/keys":                             403,
		"GET /metrics":                             404,
		"GET /healthz":                             200,
	} {
		method, path, _ := strings.Cut(request, " ")
		if a := s.do(method, path, "", by); a.status != want {
			t.Errorf("%s: %d %s, not %d", request, a.status, a.body, want)
		}
	}
	foreign := http.Header{"Authorization": by["Authorization"], "Origin": {"https://evil.example"}}
	if a := s.do("GET", "/v1/views/revenue/rows", "", foreign); a.status != 403 {
		t.Errorf("a page of another origin: %d", a.status)
	}
	// Taken back, it is nothing any more; so is one whose secret is wrong.
	if a := s.do("DELETE", "/v1/dashboards/other/links/"+id, "", admin); a.status != 404 {
		t.Errorf("another dashboard's link: %d", a.status)
	}
	if a := s.do("DELETE", "/v1/dashboards/shop/links/"+id, "", admin); a.status != 204 {
		t.Fatal(a.body)
	}
	gone := s.do("GET", "/v1/views/revenue/rows", "", by)
	_, other := s.share(admin, `{}`)
	text := other.Get("Authorization")
	wrong := s.do("GET", "/v1/views/revenue/rows", "", http.Header{"Authorization": {text[:len(text)-4] + "0000"}})
	if gone.status != 401 || wrong.status != 401 || gone.problem["detail"] != wrong.problem["detail"] {
		t.Errorf("%d %d %v %v", gone.status, wrong.status, gone.problem, wrong.problem)
	}
}

func TestALinkEndsWithItsDashboardAndItsTime(t *testing.T) {
	t.Parallel()
	s, keys, admin := shared(t)
	_, by := s.share(admin, `{}`)
	if a := s.do("POST", "/v1/dashboards/shop/annotations", `{"text":"opening"}`, admin); a.status != 201 {
		t.Fatal(a.body)
	}
	if a := s.do("DELETE", "/v1/dashboards/shop", "", admin); a.status != 204 {
		t.Fatal(a.body)
	}
	if a := s.do("PUT", "/v1/dashboards/shop", board, admin); a.status != 201 {
		t.Fatal(a.body)
	}
	if a := s.do("GET", "/v1/views/revenue/rows", "", by); a.status != 401 {
		t.Errorf("the link of a dashboard that was made anew: %d", a.status)
	}
	if m := s.do("GET", "/v1/dashboards/shop/annotations", "", admin); len(m.problem["items"].([]any)) != 0 || len(keys.Links("shop")) != 0 {
		t.Errorf("%s %v", m.body, keys.Links("shop"))
	}
}

// What a link has open ends when its dashboard shows something else: a panel that was taken off is not
// shown any more. Whoever may go on comes again.
func TestWhatALinkHasOpenEndsWhenItsDashboardChanges(t *testing.T) {
	t.Parallel()
	s, keys, admin := shared(t)
	_, by := s.share(admin, `{}`)
	revoked := func() <-chan struct{} {
		l, ok := keys.FindLink(strings.TrimPrefix(by.Get("Authorization"), "Bearer "))
		if !ok {
			t.Fatal("the link is not found")
		}
		return auth.From(auth.With(t.Context(), l)).Revoked()
	}
	ended := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	first := revoked()
	if a := s.do("PUT", "/v1/dashboards/shop", board, admin); a.status != 200 || ended(first) {
		t.Errorf("the same dashboard again: %d, ended: %v", a.status, ended(first))
	}
	if a := s.do("PUT", "/v1/dashboards/shop", `{"title":"Shop","panels":[]}`, admin); a.status != 200 || !ended(first) {
		t.Errorf("a panel was taken off: %d, ended: %v", a.status, ended(first))
	}
	if ended(revoked()) {
		t.Error("the link is of no use afterwards")
	}
	if a := s.do("GET", "/v1/views/revenue/rows", "", by); a.status != 403 {
		t.Errorf("what the dashboard no longer shows: %d", a.status)
	}
}

// Without keys everybody on this machine may do everything, but a page that was opened by a link does
// not turn into one of everything when the link ends.
func TestALinkThatEndedIsNothingAlsoWithoutKeys(t *testing.T) {
	t.Parallel()
	s, _ := unlocked(t)
	if a := s.do("PUT", "/v1/dashboards/shop", board, nil); a.status != 201 {
		t.Fatal(a.body)
	}
	id, by := s.share(nil, `{"filters":{"country":"DE"}}`)
	if a := s.do("GET", "/v1/views/revenue/rows", "", by); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := s.do("DELETE", "/v1/dashboards/shop/links/"+id, "", nil); a.status != 204 {
		t.Fatal(a.body)
	}
	for _, path := range []string{"/v1/views/revenue/rows", "/v1/live", "/v1/views"} {
		if a := s.do("GET", path, "", by); a.status != 401 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := s.do("GET", "/v1/views", "", nil); a.status != 200 {
		t.Errorf("without a link: %d", a.status)
	}
}

func TestLinksAreListedWithoutTheirAddresses(t *testing.T) {
	t.Parallel()
	s, _, admin := shared(t)
	_, by := s.share(admin, `{"range":"frozen","filters":{"country":"DE"},"origins":["https://intranet.example"]}`)
	secret := by.Get("Authorization")[len("Bearer tdl_0123456789abcdef_"):]
	a := s.do("GET", "/v1/dashboards/shop/links", "", admin)
	one := a.problem["items"].([]any)[0].(map[string]any)
	if strings.Contains(a.body, secret) || strings.Contains(a.body, "digest") || one["url"] != nil || one["by"] != "ops" || one["frozen"] != true || !strings.Contains(one["range"].(string), ",") {
		t.Errorf("%s", a.body)
	}
	for body, must := range map[string]string{
		`{"expires":"1s"}`:   "expires",
		`{"expires":"400d"}`: "expires",
		`{"range":"always"}`: "range",
		`{"range":"2024-01-02T00:00:00Z,2024-01-01T00:00:00Z"}`: "range",
		`{"filters":{"country":{"a":1}}}`:                       "filter",
		`{"origins":["https://*.example"]}`:                     "origin",
		`{"origins":["https://a.example/x"]}`:                   "origin",
	} {
		if a := s.do("POST", "/v1/dashboards/shop/links", body, admin); a.status != 422 || !strings.Contains(a.body, must) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := s.do("POST", "/v1/dashboards/nowhere/links", "{}", admin); a.status != 404 {
		t.Errorf("%d", a.status)
	}
}

func TestALinkIsHeldToItsPanelsFiltersAndRange(t *testing.T) {
	t.Parallel()
	_, keys, _ := shared(t)
	columns := []auth.Column{{Name: "window_start", Type: "TIMESTAMP"}, {Name: "country", Type: "VARCHAR"}, {Name: "n", Type: "BIGINT"}, {Name: "revenue", Type: "DOUBLE", Measure: true}}
	where := func(d auth.LinkDefinition) string {
		made, err := keys.MakeLink("shop", d, "")
		if err != nil {
			t.Fatal(err)
		}
		l, ok := keys.FindLink(strings.TrimPrefix(made.URL, "/shared/"))
		if !ok {
			t.Fatal("the link is not found")
		}
		return strings.Join(strings.Fields(l.Where("revenue", columns)), " ")
	}
	panels := `(( country <> 'XX' ) OR ( country <> 'YY' ))`
	for _, test := range []struct {
		d    auth.LinkDefinition
		want string
	}{
		{auth.LinkDefinition{}, panels},
		{auth.LinkDefinition{Filters: map[string]json.RawMessage{"country": []byte(`"D'E"`), "revenue": []byte(`1`), "other": []byte(`1`)}}, panels + ` AND "country" = 'D''E'`},
		{auth.LinkDefinition{Filters: map[string]json.RawMessage{"n": []byte(`12`), "country": []byte(`null`)}}, panels + ` AND "country" IS NULL AND "n" = 12`},
		{auth.LinkDefinition{Filters: map[string]json.RawMessage{"window_start": []byte(`"2024-01-01T12:00:00Z"`)}}, panels + ` AND "window_start" = CAST('2024-01-01 12:00:00.000000' AS TIMESTAMP)`},
		{
			auth.LinkDefinition{Range: "2024-01-01T00:00:00Z,2024-01-02T00:00:00Z"},
			`(( country <> 'XX' ) AND "window_start" >= TIMESTAMP '2024-01-01 00:00:00.000000' AND "window_start" < TIMESTAMP '2024-01-02 00:00:00.000000' OR ( country <> 'YY' ))`,
		},
	} {
		if got := where(test.d); got != test.want {
			t.Errorf("%+v:\n%s\n%s", test.d, got, test.want)
		}
	}
}

func TestAnnotationsAreMarksInTime(t *testing.T) {
	t.Parallel()
	s, _, admin := shared(t)
	note := func(body string, status int) map[string]any {
		t.Helper()
		a := s.do("POST", "/v1/dashboards/shop/annotations", body, admin)
		if a.status != status {
			t.Fatalf("%s: %d %s", body, a.status, a.body)
		}
		return a.problem
	}
	second := note(`{"time":"2024-01-01T12:00:00+01:00","text":"deploy 42 <script>"}`, 201)
	note(`{"time":"2024-01-01T09:00:00Z","end":"2024-01-01T10:00:00Z","text":"campaign","panel":"rev"}`, 201)
	now := note(`{"text":"now"}`, 201)
	if at, err := time.Parse(time.RFC3339Nano, now["time"].(string)); err != nil || time.Since(at) > time.Minute || second["time"] != "2024-01-01T11:00:00Z" || second["by"] != "ops" {
		t.Errorf("%v %v", now, second)
	}
	for query, want := range map[string]string{
		"": "[campaign deploy 42 <script> now]",
		"?from=2024-01-01T09:30:00Z&to=2024-01-01T11:00:00Z": "[campaign]",
		"?from=2024-01-01T11:00:00Z&to=2024-01-02":           "[deploy 42 <script>]",
		"?panel=top&to=2024-01-02":                           "[deploy 42 <script>]",
		"?panel=rev&to=2024-01-02":                           "[campaign deploy 42 <script>]",
	} {
		var got []string
		for _, item := range s.do("GET", "/v1/dashboards/shop/annotations"+query, "", admin).problem["items"].([]any) {
			got = append(got, item.(map[string]any)["text"].(string))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	_, by := s.share(admin, `{}`)
	if a := s.do("GET", "/v1/dashboards/shop/annotations", "", by); a.status != 200 || strings.Contains(a.body, `"ops"`) || !strings.Contains(a.body, "campaign") {
		t.Errorf("by a link: %d %s", a.status, a.body)
	}
	_, by = s.share(admin, `{"range":"2024-01-01T00:00:00Z,2024-01-01T10:30:00Z"}`)
	if a := s.do("GET", "/v1/dashboards/shop/annotations", "", by); a.status != 200 || strings.Contains(a.body, "deploy") || !strings.Contains(a.body, "campaign") {
		t.Errorf("by a frozen link: %d %s", a.status, a.body)
	}
	note(`{"text":""}`, 422)
	note(`{"text":"`+strings.Repeat("ä", 501)+`"}`, 422)
	note(`{"text":"x","time":"soon"}`, 422)
	note(`{"text":"x","time":"2024-01-01","end":"2024-01-01"}`, 422)
	note(`{"text":"x","panel":"nowhere"}`, 422)
	note(`{"title":"x"}`, 400)
	path := "/v1/dashboards/shop/annotations/" + second["id"].(string)
	if a, again := s.do("DELETE", path, "", admin), s.do("DELETE", path, "", admin); a.status != 204 || again.status != 404 {
		t.Errorf("%d %d", a.status, again.status)
	}
}

func TestAKeyWithPatternsSeesTheDashboardsThatAreAllItsOwn(t *testing.T) {
	t.Parallel()
	s, keys, admin := shared(t) // the dashboard shop shows revenue, shop and more
	if a := s.do("PUT", "/v1/dashboards/own", `{"title":"Own","panels":[{"id":"a","type":"table","view":"shop_rows","where":"amount > 3"},{"id":"t","type":"text","text":"x"}]}`, admin); a.status != 201 {
		t.Fatal(a.body)
	}
	d, err := auth.ParseDefinition([]byte(`{"scopes":["read"],"streams":["shop*"]}`))
	if err != nil {
		t.Fatal(err)
	}
	made, _, err := keys.Put("clerk", d)
	if err != nil {
		t.Fatal(err)
	}
	clerk := http.Header{"Authorization": {"Bearer " + made.Key}}
	for path, want := range map[string]int{
		"/v1/dashboards/own":              200,
		"/v1/dashboards/own/annotations":  200,
		"/v1/dashboards/shop":             403,
		"/v1/dashboards/shop/annotations": 403,
	} {
		if a := s.do("GET", path, "", clerk); a.status != want || want == 403 && strings.Contains(a.body, "revenue") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := s.do("GET", "/v1/dashboards", "", clerk); a.status != 200 || strings.Contains(a.body, "revenue") || !strings.Contains(a.body, "shop_rows") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
