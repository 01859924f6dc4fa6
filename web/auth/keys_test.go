package auth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/web"
	"tidemark/web/auth"
)

func code(err error) string {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return fmt.Sprint(err)
	}
	return fmt.Sprint(p.Status, " ", p.Code)
}

func TestKeyIsShownOnceAndKeptHashed(t *testing.T) {
	t.Parallel()
	cat := openCatalog(t)
	keys, err := auth.Open(cat, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := put(t, keys, "ops", `{"scopes":["admin"]}`)
	if !regexp.MustCompile(`^tdm_[0-9a-f]{16}_[0-9a-f]{32}$`).MatchString(text) {
		t.Fatalf("a key of %d letters has another form", len(text))
	}
	if again := put(t, keys, "ops", `{"rate":10}`); again != "" {
		t.Error("a change shows the key again")
	}
	one, err := keys.Get("ops")
	if err != nil || one.Key != "" || !strings.Contains(text, one.ID) {
		t.Errorf("%+v %v", one, err)
	}
	secret := text[len(text)-32:]
	shown, _ := json.Marshal(keys.List())
	stored, _ := json.Marshal(cat.List(catalog.Key))
	if strings.Contains(string(shown), secret) || strings.Contains(string(stored), secret) || strings.Contains(string(shown), "sha256") {
		t.Error("the secret can be found")
	}
}

func TestKeysSurviveARestart(t *testing.T) {
	t.Parallel()
	cat := openCatalog(t)
	first, err := auth.Open(cat, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, first, "ops", `{"scopes":["admin"]}`)
	put(t, first, "pages", definitions["pages"])
	again, err := auth.Open(cat, auth.Options{})
	if err != nil || !again.On() {
		t.Fatal(again.On(), err)
	}
	want, _ := json.Marshal(first.List())
	got, _ := json.Marshal(again.List())
	if string(want) != string(got) {
		t.Errorf("%s\n%s", want, got)
	}
}

func TestMistakesInAKeyAreNamedTogether(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		must []string
	}{
		{`{}`, []string{"scopes is empty"}},
		{`{"scopes":["write"],"streams":["Sales"],"origins":["https://a.example/x"],"rate":-1}`, []string{"write", "Sales", "a.example/x", "rate"}},
		{`{"scopes":["beacon"],"rate":1}`, []string{"origins"}},
		{`{"scopes":["beacon"],"origins":["https://a.example"]}`, []string{"rate"}},
		{`{"scopes":["beacon","read"],"origins":["https://a.example"],"rate":1}`, []string{"public"}},
		{`{"scopes":["admin"],"streams":["sales_*"]}`, []string{"all streams"}},
		{`{"scopes":["read"],"streams":["[a-z]*"]}`, []string{"[a-z]*"}},
		{`{"scopes":["read"],"streams":[""]}`, []string{"pattern"}},
		{`{"scopes":["read"],"origins":["*"]}`, []string{"origin"}},
		{`{"scopes":["read"],"origins":["null"]}`, []string{"origin"}},
		{`{"scopes":["read"],"origins":["https://*.example"]}`, []string{"origin"}},
		{`{"scopes":["read"],"origins":["file:///x"]}`, []string{"origin"}},
		{`{"scopes":["read"],"origins":["https://u:p@a.example"]}`, []string{"origin"}},
		{`{"scopes":["read"],"rate":1e9}`, []string{"rate"}},
	} {
		d, err := auth.ParseDefinition([]byte(test.body))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = openKeys(t, auth.Options{}).Put("k", d)
		if code(err) != "422 bad_key" {
			t.Errorf("%s: %v", test.body, err)
			continue
		}
		for _, text := range test.must {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %q is not in %v", test.body, text, err)
			}
		}
	}
	for _, body := range []string{`{"scope":["read"]}`, `[]`, `{"scopes":"read"}`, `{} {}`, `{`} {
		if _, err := auth.ParseDefinition([]byte(body)); code(err) != "400 bad_body" {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestPatternsMatchWholeNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern string
		yes, no []string
	}{
		{"sales_*", []string{"sales_eu", "sales_", "late_sales_eu", "sales_eu_changes"}, []string{"sales", "presales_eu", "hr"}},
		{"sales", []string{"sales", "late_sales", "sales_changes"}, []string{"sales_eu", "late_hr"}},
		{"*", []string{"a", "anything"}, nil},
		{"*_eu", []string{"sales_eu", "a_eu_eu"}, []string{"sales_eu2", "eu"}},
		{"a*b*c", []string{"abc", "axxbyyc", "abcbc"}, []string{"ab", "acb", "xabc"}},
		{"a**", []string{"a", "ab"}, []string{"b"}},
	} {
		w := serve(t, auth.Options{}, web.Options{}, "ops")
		w.text["k"] = put(t, w.keys, "k", fmt.Sprintf(`{"scopes":["read"],"streams":[%q]}`, test.pattern))
		for _, name := range test.yes {
			if a := w.do("GET", "/v1/views/"+name+"/rows", "k", "", nil); a.status != 200 {
				t.Errorf("%s is not for %s: %s", test.pattern, name, a.body)
			}
		}
		for _, name := range test.no {
			if a := w.do("GET", "/v1/views/"+name+"/rows", "k", "", nil); a.status != 403 {
				t.Errorf("%s is for %s", test.pattern, name)
			}
		}
	}
}

func TestFirstAdminKeyTurnsAuthenticationOn(t *testing.T) {
	t.Parallel()
	w := serve(t, auth.Options{}, web.Options{})
	if a := w.do("GET", "/v1/dashboards", "", "", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := w.do("GET", "/v1/dashboards", "", "", http.Header{"Host": {"tidemark.example"}}); a.status != 421 {
		t.Errorf("without keys a foreign name is answered to: %d", a.status)
	}
	if a := w.do("PUT", "/v1/keys/r", "", `{"scopes":["read"]}`, nil); a.status != 201 || w.keys.On() {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("GET", "/v1/dashboards", "", "", nil); a.status != 200 {
		t.Errorf("a key without the scope admin turned authentication on: %d", a.status)
	}
	a := w.do("PUT", "/v1/keys/ops", "", `{"scopes":["admin"]}`, nil)
	var made auth.Answer
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != 201 || made.Key == "" || made.Note == "" || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	if a := w.do("GET", "/v1/dashboards", "", "", nil); a.status != 401 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("GET", "/v1/keys", made.Key, "", nil); a.status != 200 || !strings.Contains(a.body, `"next":null`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestLastAdminKeyStays(t *testing.T) {
	t.Parallel()
	w := serve(t, auth.Options{}, web.Options{}, "ops", "auditor")
	if a := w.do("DELETE", "/v1/keys/ops", "ops", "", nil); a.status != 409 || a.code() != "last_admin_key" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("PUT", "/v1/keys/ops", "ops", `{"scopes":["read"]}`, nil); a.status != 409 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("PUT", "/v1/keys/boss", "ops", `{"scopes":["admin","read"]}`, nil); a.status != 201 {
		t.Fatalf("%d", a.status)
	}
	if a := w.do("DELETE", "/v1/keys/ops", "ops", "", nil); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("GET", "/v1/keys", "ops", "", nil); a.status != 401 {
		t.Errorf("a deleted key still opens: %d", a.status)
	}
}

func TestRotationVoidsTheOldKeyAndKeepsItsRights(t *testing.T) {
	t.Parallel()
	w := serve(t, auth.Options{}, web.Options{}, "ops", "reader")
	old, before := w.text["reader"], w.do("GET", "/v1/keys/reader", "ops", "", nil)
	served := w.do("GET", "/v1/views/sales_day/rows", "reader", "", nil)
	a := w.do("PUT", "/v1/keys/reader", "ops", `{"rotate":true}`, nil)
	var made auth.Answer
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != 200 || made.Key == "" || made.Key == old {
		t.Fatalf("%d", a.status)
	}
	if a := w.do("GET", "/v1/views/sales_day/rows", old, "", nil); a.status != 401 {
		t.Errorf("the old key: %d", a.status)
	}
	after := w.do("GET", "/v1/views/sales_day/rows", made.Key, "", nil)
	if after.status != 200 || after.body != served.body {
		t.Errorf("the new key is another one for idempotency: %d %s, before %s", after.status, after.body, served.body)
	}
	var was auth.Answer
	_ = json.Unmarshal([]byte(before.body), &was)
	if fmt.Sprint(was.Scopes, was.Streams, was.Origins) != fmt.Sprint(made.Scopes, made.Streams, made.Origins) || was.ID == made.ID {
		t.Errorf("%v became %v", was.Streams, made.Streams)
	}
}

func TestKeysEndpointsRefuseWithANextStep(t *testing.T) {
	t.Parallel()
	w := serve(t, auth.Options{}, web.Options{}, "ops")
	for _, test := range []struct {
		name, method, path, body string
		header                   http.Header
		status                   int
		code                     string
	}{
		{"a bad name", "PUT", "/v1/keys/Ops", `{"scopes":["read"]}`, nil, 400, "bad_name"},
		{"no JSON", "PUT", "/v1/keys/k", `scopes`, nil, 400, "bad_body"},
		{"another member", "PUT", "/v1/keys/k", `{"secret":"x"}`, nil, 400, "bad_body"},
		{"a form", "PUT", "/v1/keys/k", `{}`, http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, 415, "not_json"},
		{"a long body", "PUT", "/v1/keys/k", strings.Repeat(" ", 70_000), nil, 413, "body_too_large"},
		{"a parameter", "PUT", "/v1/keys/k?rotate=true", `{}`, nil, 400, "unknown_parameter"},
		{"nothing to show", "GET", "/v1/keys/k", ``, nil, 404, "unknown_key"},
		{"nothing to delete", "DELETE", "/v1/keys/k", ``, nil, 404, "unknown_key"},
	} {
		a := w.do(test.method, test.path, "ops", test.body, test.header)
		if a.status != test.status || a.code() != test.code || !strings.Contains(a.body, "hint") {
			t.Errorf("%s: %d %s", test.name, a.status, a.body)
		}
	}
}

// Every way in which a key reaches the server is tried, with good keys and bad ones, at the most
// talkative level of the log.
func TestNoKeyIsEverLogged(t *testing.T) { // I3
	t.Parallel()
	w := everyone(t)
	bad := "tdm_0123456789abcdef_ffffffffffffffffffffffffffffffff"
	secrets := []string{"ffffffffffffffff"}
	for name, text := range w.text {
		secrets = append(secrets, text[len(text)-32:])
		for _, path := range []string{"/v1/keys", "/v1/views/sales_day/rows", "/nowhere", "/v1/streams/visits/events", "/"} {
			for _, key := range []string{text, bad, text + "x", "x" + text} {
				for _, method := range []string{"GET", "POST", "OPTIONS", "DELETE"} {
					w.do(method, path, key, "{}", nil)
				}
				w.do("POST", path+"?key="+key, "", "{}", http.Header{"Origin": {"https://shop.example"}})
				w.do("GET", path, "", "", http.Header{"Sec-Websocket-Protocol": {"bearer." + key}})
			}
		}
		w.raw("GET /?key=" + text + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + text + "\r\nContent-Length: -1\r\n\r\n")
		w.raw("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + text + "\r\nX-Long: " + strings.Repeat("x", 20_000) + "\r\n\r\n")
		if name != "ops" {
			w.do("PUT", "/v1/keys/"+name, w.text["ops"], `{"rotate":true}`, nil)
		}
	}
	log := w.log.String()
	if !strings.Contains(log, "key put") || !strings.Contains(log, "route=/v1/keys") {
		t.Fatal("nothing was logged")
	}
	for _, s := range secrets {
		if strings.Contains(log, s) {
			t.Error("a secret is in the log")
		}
	}
}

func TestEphemeralKeyIsInNoListAndEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	w := serve(t, auth.Options{}, web.Options{})
	text := w.keys.Ephemeral("demo", auth.Ingest)
	if w.keys.On() || len(w.keys.List()) != 0 {
		t.Fatal("it counts as a key")
	}
	put(t, w.keys, "ops", definitions["ops"])
	put(t, w.keys, "r", definitions["reader"])
	if a := w.do("POST", events, text, "{}", nil); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do("GET", "/v1/keys", text, "", nil); a.status != 403 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if _, err := w.keys.Get("demo"); code(err) != "404 unknown_key" {
		t.Error(err)
	}
}
