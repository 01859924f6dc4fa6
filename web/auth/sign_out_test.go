package auth_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"tidemark/web"
	"tidemark/web/auth"
)

// A browser that signs out has nothing open any more; what others have open with the same key stays.
func TestSocketsOfABrowserEndWithItsSession(t *testing.T) {
	t.Parallel()
	var w *world
	signing := func(r fiber.Router) {
		r.Post("/sign-in", func(c *fiber.Ctx) error { _, _, err := w.keys.SignIn(c); return err })
		r.Get("/sign-in", func(c *fiber.Ctx) error { token, _ := w.keys.Session(c); return c.SendString(token) })
		r.Post("/sign-out", func(c *fiber.Ctx) error { return w.keys.SignOut(c) })
	}
	w = serve(t, auth.Options{}, web.Options{Mount: []func(fiber.Router){signing}}, "ops")
	browser := func() http.Header {
		t.Helper()
		in := w.do("POST", "/sign-in", "", "key="+url.QueryEscape(w.text["ops"]), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
		cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
		if in.status != http.StatusSeeOther || cookie == "" {
			t.Fatalf("%d %s", in.status, in.body)
		}
		return http.Header{"Cookie": {cookie}, "Origin": {"http://" + w.addr}}
	}
	one, other := browser(), browser()
	conn, _ := w.dial("/v1/live", "", one)
	stays, _ := w.dial("/v1/live", "", other)
	if conn == nil || stays == nil {
		t.Fatal("a browser's socket was refused")
	}
	if m := say(t, conn, "a", "nothing"); !strings.Contains(m, "unknown_relation") {
		t.Fatal(m)
	}
	change := one.Clone()
	change.Set(auth.TokenHeader, w.do("GET", "/sign-in", "", "", one).body)
	if out := w.do("POST", "/sign-out", "", "", change); out.status != http.StatusSeeOther {
		t.Fatalf("%d %s", out.status, out.body)
	}
	if code := closeCode(t, conn); code != 4401 {
		t.Errorf("close code %d", code)
	}
	if m := say(t, stays, "a", "nothing"); !strings.Contains(m, "unknown_relation") {
		t.Errorf("another browser's socket: %s", m)
	}
	if again, resp := w.dial("/v1/live", "", one); again != nil || resp.StatusCode != 401 {
		t.Errorf("the session is still taken: %d", resp.StatusCode)
	}
}

func TestABrowserWhoseKeyMayNoLongerReadIsSentToSignIn(t *testing.T) {
	t.Parallel()
	var w *world
	signing := func(r fiber.Router) {
		r.Post("/sign-in", func(c *fiber.Ctx) error { _, _, err := w.keys.SignIn(c); return err })
	}
	w = serve(t, auth.Options{}, web.Options{SignIn: "/sign-in", Mount: []func(fiber.Router){signing}}, "ops", "auditor")
	in := w.do("POST", "/sign-in", "", "key="+url.QueryEscape(w.text["auditor"]), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	browser := http.Header{"Cookie": {cookie}, "Accept": {"text/html"}}
	if a := w.do("GET", "/", "", "", browser); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	put(t, w.keys, "auditor", `{"scopes":["ingest"]}`)
	if a := w.do("GET", "/", "", "", browser); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/sign-in?next=") {
		t.Errorf("%d %s %s", a.status, a.header.Get("Location"), a.body)
	}
	if a := w.do("GET", "/", "", "", http.Header{"Cookie": {cookie}}); a.status != 403 {
		t.Errorf("a program is told why: %d %s", a.status, a.body)
	}
}
