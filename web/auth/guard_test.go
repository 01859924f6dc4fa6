package auth_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gorilla/websocket"

	"tidemark/storage/problem"
	"tidemark/web"
	"tidemark/web/auth"
)

const (
	events  = "/v1/streams/sales_eu/events"
	unknown = "tdm_0123456789abcdef_0123456789abcdef0123456789abcdef"
)

func TestEveryKeyMayDoWhatItsScopesSay(t *testing.T) {
	t.Parallel()
	w := everyone(t)
	wrong := w.text["ops"][:len(w.text["ops"])-1] + "x"
	for _, test := range []struct {
		name, method, path, key string
		header                  http.Header
		status                  int
		must                    string
	}{
		{"nobody is alive to see healthz closed", "GET", "/healthz", "", nil, 200, "alive"},
		{"the API's document is open", "GET", "/openapi.json", "", nil, 200, "openapi"},
		{"a bad key does not matter where none is needed", "GET", "/readyz", unknown, nil, 200, "ready"},
		{"no key, no rows", "GET", "/v1/views/sales_day/rows", "", nil, 401, "no_key"},
		{"no key, no page", "GET", "/", "", http.Header{"Accept": {"text/html"}}, 401, "no_key"},
		{"no key, no events", "POST", events, "", nil, 401, "no_key"},
		{"an unknown key is not valid", "GET", "/v1/dashboards", unknown, nil, 401, "not valid"},
		{"a wrong secret is not valid", "GET", "/v1/dashboards", wrong, nil, 401, "not valid"},
		{"a text that is no key is not valid", "GET", "/v1/dashboards", "hunter2", nil, 401, "not valid"},
		{"basic sign-in is none", "GET", "/v1/dashboards", "", http.Header{"Authorization": {"Basic b3BzOng="}}, 401, "not valid"},

		{"an admin key may post", "POST", events, "ops", nil, 200, "served"},
		{"an admin key may read", "GET", "/v1/views/sales_day/rows", "ops", nil, 200, "served"},
		{"an admin key may read alerts", "GET", "/v1/alerts/fraud/log", "ops", nil, 200, "served"},
		{"an admin key may define", "PUT", "/v1/views/sales_day", "ops", nil, 200, "served"},
		{"an admin key sees keys", "GET", "/v1/keys", "ops", nil, 200, "writer"},
		{"an admin key sees pages", "GET", "/", "ops", nil, 200, "served"},

		{"an ingest key posts to its streams", "POST", events, "writer", nil, 200, "served"},
		{"an ingest key says that nothing older comes", "POST", "/v1/streams/sales_eu/watermark", "writer", nil, 200, "served"},
		{"an ingest key can't post elsewhere", "POST", "/v1/streams/hr/events", "writer", nil, 403, "sales_*"},
		{"an escaped name is the same name", "POST", "/v1/streams/%68r/events", "writer", nil, 403, "foreign_relation"},
		{"an ingest key can't read", "GET", "/v1/views/sales_day/rows", "writer", nil, 403, "scope read"},
		{"an ingest key can't define", "PUT", "/v1/views/sales_day", "writer", nil, 403, "scope admin"},
		{"an ingest key can't make keys", "PUT", "/v1/keys/mine", "writer", nil, 403, "scope admin"},

		{"a read key can't post", "POST", events, "reader", nil, 403, "scope ingest"},
		{"a read key reads its views", "GET", "/v1/views/sales_day/rows", "reader", nil, 200, "served"},
		{"a trailing slash is the same route", "GET", "/v1/views/sales_day/rows/", "reader", nil, 200, "served"},
		{"a trailing slash opens nothing", "PUT", "/v1/views/sales_day/", "reader", nil, 403, "scope admin"},
		{"HEAD is judged as GET", "HEAD", "/v1/views/hr_day/rows", "reader", nil, 403, ""},
		{"a read key can't read other views", "GET", "/v1/views/hr_day/rows", "reader", nil, 403, "hr_day"},
		{"a read key with patterns sees no overview", "GET", "/", "reader", nil, 403, "foreign_relation"},
		{"a read key without patterns sees it", "GET", "/", "auditor", nil, 200, "served"},
		{"a read key can't read alerts", "GET", "/v1/alerts/fraud/log", "auditor", nil, 403, "scope alerts"},
		{"a read key can't delete", "DELETE", "/v1/dashboards/shop", "auditor", nil, 403, "scope admin"},
		{"an alert is none of a read key's views", "GET", "/v1/views/fraud/rows", "auditor", nil, 403, "scope alerts"},
		{"its late events neither", "GET", "/v1/views/late_fraud/rows", "auditor", nil, 403, "scope alerts"},
		{"an escaped alert is an alert", "GET", "/v1/views/%66raud/rows", "auditor", nil, 403, "scope alerts"},
		{"an admin key reads an alert's rows", "GET", "/v1/views/fraud/rows", "ops", nil, 200, "served"},
		{"an alerts key reads alerts", "GET", "/v1/alerts/fraud/log", "pager", nil, 200, "served"},
		{"an alerts key can't read views", "GET", "/v1/views/sales_day/rows", "pager", nil, 403, "scope read"},
		{"a route without a rule is for admins", "GET", "/v1/secret_thing", "auditor", nil, 403, "scope admin"},
		{"what is not there is told to anybody", "GET", "/v1/nothing", "", nil, 404, "no_such_address"},

		{"a key other than a beacon's can't stand in the address", "POST", events + "?key=" + w.text["writer"], "", nil, 403, "key_in_address"},
		{"an admin key neither", "GET", "/v1/dashboards?key=" + w.text["ops"], "", nil, 403, "key_in_address"},
		{"nor beside a good header", "GET", "/v1/dashboards?key=" + w.text["ops"], "ops", nil, 403, "key_in_address"},
		{"nor with an escaped name", "GET", "/v1/dashboards?%6bey=" + w.text["ops"], "", nil, 403, "key_in_address"},
		{"an unknown key in the address is not valid", "POST", events + "?key=" + unknown, "", nil, 401, "not valid"},
		{"a row's key is no API key", "GET", "/v1/views/sales_day/rows/history?key=%7B%22user%22%3A%22ada%22%7D", "reader", nil, 200, "served"},
		{"nor is it where it begins with a space", "GET", "/v1/views/sales_day/rows/events?key=%20%7B%7D", "reader", nil, 200, "served"},
		{"a row's key opens nothing", "GET", "/v1/views/sales_day/rows/history?key=%7B%7D", "", nil, 401, "no_key"},
		{"an API key beside a row's is one in the address", "GET", "/v1/views/sales_day/rows/history?key=%7B%7D&key=" + w.text["reader"], "reader", nil, 403, "key_in_address"},

		{"other names are answered to once there are keys", "GET", "/v1/dashboards", "ops", http.Header{"Host": {"tidemark.example"}}, 200, "items"},
		{"a page of a stranger can't use a key", "GET", "/v1/dashboards", "auditor", http.Header{"Origin": {"https://evil.example"}}, 403, "foreign_origin"},
		{"nor a page without origin", "GET", "/v1/dashboards", "auditor", http.Header{"Origin": {"null"}}, 403, "foreign_origin"},
		{"our own pages can", "GET", "/v1/dashboards", "auditor", http.Header{"Origin": {"http://" + w.addr}}, 200, "items"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := *w
			w.t = t
			a := w.do(test.method, test.path, test.key, "", test.header)
			if a.status != test.status || !strings.Contains(a.body, test.must) {
				t.Fatalf("got %d %s", a.status, a.body)
			}
			if a.status >= 400 && test.method != "HEAD" && (a.header.Get("Content-Type") != problem.ContentType || !strings.Contains(a.body, `"hint"`) || strings.Contains(a.body, "goroutine")) {
				t.Errorf("no next step in %s", a.body)
			}
			if challenge := a.header.Get("WWW-Authenticate"); (a.status == 401) != (challenge == auth.Challenge) {
				t.Errorf("challenge %q", challenge)
			}
			for name, text := range w.text {
				if strings.Contains(a.body, text[len(text)-32:]) {
					t.Errorf("the secret of %s is in %s", name, a.body)
				}
			}
		})
	}
}

func TestUnknownKeyAndWrongSecretLookAlike(t *testing.T) { // I2
	t.Parallel()
	w := everyone(t)
	wrong := w.text["ops"][:len(w.text["ops"])-32] + strings.Repeat("0", 32)
	normal := func(a answer) string {
		return strings.ReplaceAll(a.body, a.header.Get("X-Request-Id"), "ID")
	}
	a, b := w.do("GET", "/v1/keys", unknown, "", nil), w.do("GET", "/v1/keys", wrong, "", nil)
	if a.status != 401 || normal(a) != normal(b) {
		t.Errorf("%d %s\n%d %s", a.status, a.body, b.status, b.body)
	}
}

func TestMixedBodiesAreHeldToTheKeysStreams(t *testing.T) {
	t.Parallel()
	w := everyone(t)
	if a := w.do("POST", "/v1/events", "writer", "sales_us", nil); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("POST", "/v1/events", "writer", "hr", nil); a.status != 403 || a.code() != "foreign_relation" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestBeaconPostsFromItsPagesOnly(t *testing.T) { // I4
	t.Parallel()
	w := everyone(t)
	shop := http.Header{"Origin": {"https://shop.example"}, "Content-Type": {"text/plain"}}
	key := "?key=" + w.text["pages"]
	a := w.do("POST", "/v1/streams/visits/events"+key, "", `{}`, shop)
	if a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "https://shop.example" || a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	for name, test := range map[string]struct {
		method, path string
		header       http.Header
		code         string
	}{
		"another page":          {"POST", "/v1/streams/visits/events", http.Header{"Origin": {"https://evil.example"}}, "foreign_origin"},
		"our own page":          {"POST", "/v1/streams/visits/events", http.Header{"Origin": {"http://" + w.addr}}, "foreign_origin"},
		"no page at all":        {"POST", "/v1/streams/visits/events", nil, "no_origin"},
		"another stream":        {"POST", "/v1/streams/sales_eu/events", shop, "foreign_relation"},
		"reading":               {"GET", "/v1/streams/visits", shop, "missing_scope"},
		"dashboards":            {"GET", "/v1/dashboards", shop, "missing_scope"},
		"moving a watermark":    {"POST", "/v1/streams/visits/watermark", shop, "missing_scope"},
		"following":             {"GET", "/v1/live/visits", shop, "missing_scope"},
		"another key beside it": {"POST", "/v1/streams/visits/events", shop, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			path := test.path + key
			if test.code == "" {
				path, test.code = path+"&key="+w.text["writer"], "key_in_address"
			}
			if test.path == "/v1/streams/visits" { // is not mounted in this world
				path = strings.Replace(path, "/v1/streams/visits", "/v1/views/visits/rows", 1)
			}
			if a := w.do(test.method, path, "", `{}`, test.header); a.status != 403 || a.code() != test.code {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

func TestRateIsHeldPerKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	w := serve(t, auth.Options{Now: func() time.Time { return now }}, web.Options{}, "ops", "slow", "auditor")
	statuses := func(n int) (out []int) {
		for range n {
			out = append(out, w.do("GET", "/v1/dashboards", "slow", "", nil).status)
		}
		return out
	}
	if got := statuses(3); got[0] != 200 || got[1] != 200 || got[2] != 429 {
		t.Fatal(got)
	}
	if a := w.do("GET", "/v1/dashboards", "slow", "", nil); a.code() != "rate_limited" || a.header.Get("Retry-After") != "1" {
		t.Errorf("%v %s", a.header, a.body)
	}
	if a := w.do("GET", "/v1/dashboards", "auditor", "", nil); a.status != 200 {
		t.Errorf("another key: %d", a.status)
	}
	put(t, w.keys, "slow", `{"streams":["*"]}`) // a change that changes nothing gives no new allowance
	if got := statuses(1); got[0] != 429 {
		t.Error(got)
	}
	now = now.Add(time.Second)
	if got := statuses(3); got[0] != 200 || got[1] != 200 || got[2] != 429 {
		t.Error(got)
	}
	if n := w.keys.Stats().Limited.Load(); n != 4 {
		t.Errorf("counted %d", n)
	}
}

func TestBadKeyIsRefusedBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	w := everyone(t)
	head := "POST " + events + " HTTP/1.1\r\nHost: localhost\r\n"
	bad, good := "Authorization: Bearer "+unknown+"\r\n", "Authorization: Bearer "+w.text["writer"]+"\r\n"
	for _, test := range []struct {
		name, request string
		status        int
		code          string
	}{
		// none of these sends a body: who waits for one gives no answer
		{"a long body", head + bad + "Content-Length: 10000000\r\n\r\n", 401, "bad_key"},
		{"a body in chunks", head + bad + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 401, "bad_key"},
		{"no key at all", head + "Content-Length: 10000000\r\n\r\n", 401, "no_key"},
		{"a body that waits", head + bad + "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n", 401, "bad_key"},
		{"a body that waits, without a key", head + "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n", 401, "no_key"},
		{"a good key is told to go on", head + good + "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n", 100, ""},
		{"a good key with a body", head + good + "Content-Length: 2\r\n\r\n{}", 200, ""},
		{"a good key with a body too long for all", head + good + "Content-Length: 30000000\r\n\r\n", 413, "body_too_large"},
		{"a beacon's key in the address", strings.Replace(head, events, "/v1/streams/visits/events?key="+w.text["pages"], 1) + "Origin: https://shop.example\r\nContent-Length: 2\r\n\r\n{}", 200, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := *w
			w.t = t
			a := w.raw(test.request)
			if a.status != test.status || a.code() != test.code {
				t.Fatalf("got %d %s", a.status, a.body)
			}
			if a.status == 401 && (a.header.Get("WWW-Authenticate") == "" || a.header.Get("X-Request-Id") == "" || !strings.Contains(a.body, "hint")) {
				t.Errorf("%v %s", a.header, a.body)
			}
		})
	}
}

func TestRefusedBodyIsNeverTakenForARequest(t *testing.T) {
	t.Parallel()
	w := everyone(t)
	smuggled := "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	request := "POST " + events + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + strconv.Itoa(len(smuggled)) + "\r\n\r\n" + smuggled
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	all, err := io.ReadAll(c)
	if err != nil || strings.Count(string(all), "HTTP/1.1 ") != 1 || !strings.Contains(string(all), "Connection: close") {
		t.Errorf("%v %s", err, all)
	}
}

func TestKeysWorkOverTLS(t *testing.T) {
	t.Parallel()
	made := httptest.NewTLSServer(nil) // for its certificate
	made.Close()
	w := serve(t, auth.Options{}, web.Options{TLS: &tls.Config{Certificates: made.TLS.Certificates, MinVersion: tls.VersionTLS12}}, "auditor", "ops")
	client := made.Client()
	defer client.CloseIdleConnections()
	for key, status := range map[string]int{"auditor": 200, "": 401} {
		req, err := http.NewRequest("GET", "https://"+w.addr+"/v1/dashboards", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://"+w.addr)
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+w.text[key])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if a := read(t, resp); a.status != status {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	d := websocket.Dialer{TLSClientConfig: client.Transport.(*http.Transport).TLSClientConfig}
	conn, _, err := d.Dial("wss://"+w.addr+"/v1/live", http.Header{"Authorization": {"Bearer " + w.text["auditor"]}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if m := say(t, conn, "a", "nothing"); !strings.Contains(m, "unknown_relation") {
		t.Error(m)
	}
}

func TestPagesOfListedOriginsMayAskFirst(t *testing.T) { // I6
	t.Parallel()
	w := everyone(t)
	ask := func(path, origin string) answer {
		return w.do("OPTIONS", path, "", "", http.Header{
			"Origin": {origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"},
		})
	}
	a := ask("/v1/query", "https://bi.example")
	if a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != "https://bi.example" || a.header.Get("Access-Control-Allow-Credentials") != "" ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") || !strings.Contains(a.header.Get("Access-Control-Allow-Methods"), "POST") || !strings.Contains(a.header.Get("Vary"), "Origin") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	for _, origin := range []string{"https://evil.example", "null", "https://bi.example.evil.example", "http://bi.example", "https://BI.example:444"} {
		if a := ask("/v1/query", origin); a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", origin, a.status, a.header)
		}
	}
	beacon := "/v1/streams/visits/events?key=" + w.text["pages"]
	if a := ask(beacon, "https://shop.example"); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := ask(beacon, "https://bi.example"); a.status != 403 {
		t.Errorf("the origin of another key: %d", a.status)
	}
	// the request itself is held to its own key
	page := http.Header{"Origin": {"https://bi.example"}}
	if a := w.do("GET", "/v1/views/sales_day/rows", "reader", "", page); a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "https://bi.example" {
		t.Errorf("%d %v", a.status, a.header)
	}
	if a := w.do("GET", "/v1/views/sales_day/rows", "auditor", "", page); a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestForwardedHeadersAreBelievedFromTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	page := http.Header{"Origin": {"https://tidemark.example"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"tidemark.example"}}
	for name, test := range map[string]struct {
		proxies []string
		status  int
	}{"no proxy": {nil, 403}, "another proxy": {[]string{"10.0.0.0/8"}, 403}, "this proxy": {[]string{"127.0.0.1"}, 200}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, auth.Options{}, web.Options{TrustedProxies: test.proxies}, "ops")
			if a := w.do("GET", "/v1/dashboards", "ops", "", page); a.status != test.status {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

func TestErrorPagesAreNotForStrangers(t *testing.T) {
	t.Parallel()
	page := func(c *fiber.Ctx, _ *problem.Problem, _ string) bool {
		return c.SendString("a page with names of dashboards") == nil
	}
	w := serve(t, auth.Options{}, web.Options{ErrorPage: page}, "ops", "reader", "auditor")
	for _, test := range []struct {
		path, key string
		page      bool
	}{
		{"/nowhere", "", false},
		{"/nowhere", unknown, false},
		{"/nowhere", "reader", false},
		{"/", "", false},
		{"/nowhere", "auditor", true},
		{"/nowhere", "ops", true},
	} {
		if a := w.do("GET", test.path, test.key, "", nil); strings.Contains(a.body, "names") != test.page {
			t.Errorf("%s for %q: %d %s", test.path, test.key, a.status, a.body)
		}
	}
	if a := w.raw("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n"); strings.Contains(a.body, "names") {
		t.Errorf("%s", a.body)
	}
}
