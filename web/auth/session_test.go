package auth_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/web/auth"
)

func TestAfterSignInNobodyIsSentElsewhere(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/d/shop?range=now-6h": "/d/shop?range=now-6h", "": "/", "//evil.example": "/", "https://evil.example/": "/", "/\\evil.example": "/",
		"javascript:alert(1)": "/", "d/shop": "/", "/a\r\nSet-Cookie: x": "/", "///evil.example": "/",
	} {
		if got := auth.Next(path); got != want {
			t.Errorf("Next(%q) = %q, want %q", path, got, want)
		}
	}
}

// clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(0, c.at.Load()).UTC() }

func (c *clock) pass(d time.Duration) { c.at.Add(int64(d)) }

// app is pages behind keys, as far as sessions go.
func app(t *testing.T, keys *auth.Keys) *fiber.App {
	t.Helper()
	a := fiber.New(fiber.Config{ErrorHandler: func(c *fiber.Ctx, err error) error { return c.SendStatus(problem.From(err).Status) }})
	a.Use(keys.Identify)
	behind := auth.Count(a)
	a.Get("/", func(c *fiber.Ctx) error {
		ended := "open"
		select {
		case <-auth.Of(c).Revoked():
			ended = "ended"
		default:
		}
		return c.SendString(ended)
	})
	a.Post("/sign-in", func(c *fiber.Ctx) error { _, _, err := keys.SignIn(c); return err })
	a.Post("/sign-out", keys.SignOut)
	keys.Guard(a, behind)
	return a
}

func ask(t *testing.T, a *fiber.App, method, path, cookie, form string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Cookie", auth.Cookie+"="+cookie)
	answer, err := a.Test(r, -1)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer
}

func signIn(t *testing.T, a *fiber.App, key string) string {
	t.Helper()
	answer := ask(t, a, "POST", "/sign-in", "", "key="+key)
	for _, c := range answer.Cookies() {
		if c.Name == auth.Cookie && c.HttpOnly && c.SameSite == http.SameSiteLaxMode {
			return c.Value
		}
	}
	t.Fatalf("no session: %d", answer.StatusCode)
	return ""
}

func TestSessionsSurviveARestartAndAreKeptHashed(t *testing.T) { // I8
	t.Parallel()
	cat, time := openCatalog(t), &clock{}
	time.at.Store(1_800_000_000e9)
	open := func() *auth.Keys {
		keys, err := auth.Open(cat, auth.Options{Now: time.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(keys.Close)
		return keys
	}
	first := open()
	key := put(t, first, "ops", `{"scopes":["admin"]}`)
	session := signIn(t, app(t, first), key)
	stored, _ := json.Marshal(cat.List(catalog.Session))
	if strings.Contains(string(stored), session) || !strings.Contains(string(stored), "used") {
		t.Errorf("the store has %s", stored)
	}
	second := open()
	a := app(t, second)
	status := func() int { return ask(t, a, "GET", "/", session, "").StatusCode }
	if got := status(); got != 200 {
		t.Errorf("after a restart: %d", got)
	}
	// Used again and again it goes on, for a week at most; unused for 12 hours it is over.
	for range 16 {
		time.pass(10 * 3600e9)
		if got := status(); got != 200 {
			t.Fatalf("a session in use: %d", got)
		}
		a = app(t, open()) // what it was used for is known after every restart
	}
	time.pass(10 * 3600e9)
	if got := status(); got != 401 {
		t.Errorf("after a week: %d", got)
	}
	session = signIn(t, a, key)
	time.pass(13 * 3600e9)
	if got := status(); got != 401 {
		t.Errorf("unused for 13 hours: %d", got)
	}
	if n := len(cat.List(catalog.Session)); n != 0 {
		t.Errorf("%d sessions are kept", n)
	}
}

func TestWhatASessionHasOpenEndsWithIt(t *testing.T) { // I8
	t.Parallel()
	cat := openCatalog(t)
	keys, err := auth.Open(cat, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	text := put(t, keys, "ops", `{"scopes":["admin"]}`)
	a := app(t, keys)
	var opened *auth.Principal
	a.Get("/open", func(c *fiber.Ctx) error { opened = auth.Of(c); return nil })
	begin := func(key string) string {
		id := signIn(t, a, key)
		ask(t, a, "GET", "/open", id, "")
		return id
	}
	over := func(what string, id string, status int) {
		t.Helper()
		select {
		case <-opened.Revoked():
		default:
			t.Errorf("%s: what the session had open goes on", what)
		}
		if got := ask(t, a, "GET", "/", id, "").StatusCode; got != status {
			t.Errorf("%s: %d, not %d", what, got, status)
		}
	}
	id := begin(text)
	token, _ := tokenOf(t, keys, id)
	if got := ask(t, a, "POST", "/sign-out", id, "csrf="+token).StatusCode; got != 303 {
		t.Errorf("sign-out: %d", got)
	}
	over("sign-out", id, 401)
	reader := put(t, keys, "reader", `{"scopes":["read"]}`)
	id = begin(reader)
	put(t, keys, "reader", `{"scopes":["read","alerts"]}`)
	over("other scopes", id, 200)
	id = begin(reader)
	again := put(t, keys, "reader", `{"rotate":true}`)
	over("rotation", id, 401)
	id = begin(again)
	if err := keys.Delete("reader"); err != nil {
		t.Fatal(err)
	}
	over("deletion", id, 401)
	if n := len(cat.List(catalog.Session)); n != 0 {
		t.Errorf("%d sessions are kept", n)
	}
}

// tokenOf is the token of a session, as pages show it.
func tokenOf(t *testing.T, keys *auth.Keys, id string) (token, name string) {
	t.Helper()
	a := fiber.New()
	a.Use(keys.Identify)
	a.Get("/token", func(c *fiber.Ctx) error { token, name = keys.Session(c); return nil })
	ask(t, a, "GET", "/token", id, "")
	return token, name
}
