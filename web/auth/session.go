package auth

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"tidemark/storage/problem"
)

// A browser signs in with a key once and then has a session: 128 random bits in a cookie that no
// script can read and that no page of another site can send along with a change. What the session
// may do is what its key may do at that very moment. Sessions live in memory: a restart ends them.

// Cookie is the name of the session's cookie.
const Cookie = "tidemark_session"

// How long sessions and sign-ins may last, and how many there can be.
const (
	sessionIdle  = 12 * time.Hour
	sessionMost  = 7 * 24 * time.Hour
	maxSessions  = 10_000
	linkLasts    = 24 * time.Hour
	maxAddresses = 10_000
)

// session is one browser that signed in.
type session struct {
	keyID      string
	token      string // what forms and scripts send along with a change
	made, used time.Time
}

// sessions are all of them, the one-time link, and how often each address may try.
type sessions struct {
	mu     sync.Mutex
	byID   map[string]*session
	link   string // unused; empty: there is none
	linkBy time.Time
	tries  map[string]*rate.Limiter
}

// random is 128 bits as text.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// begin makes a session for a key. The id is always new (never what a client sent).
func (s *sessions) begin(keyID string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*session{}
	}
	if len(s.byID) >= maxSessions {
		oldest := ""
		for id, one := range s.byID {
			if oldest == "" || one.used.Before(s.byID[oldest].used) {
				oldest = id
			}
		}
		delete(s.byID, oldest)
	}
	id := random()
	s.byID[id] = &session{keyID: keyID, token: random(), made: now, used: now}
	return id
}

// find returns the session of a cookie, or nil.
func (s *sessions) find(id string, now time.Time) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byID[id]
	if one == nil {
		return nil
	}
	if now.Sub(one.used) > sessionIdle || now.Sub(one.made) > sessionMost {
		delete(s.byID, id)
		return nil
	}
	one.used = now
	return one
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// may takes one try of an address.
func (s *sessions) may(address string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tries == nil || len(s.tries) > maxAddresses {
		s.tries = map[string]*rate.Limiter{}
	}
	l := s.tries[address]
	if l == nil {
		l = rate.NewLimiter(0.5, 5)
		s.tries[address] = l
	}
	return l.AllowN(now, 1)
}

// OnceLink makes a token that signs one browser in as the first admin key; an earlier one is void.
func (k *Keys) OnceLink() string {
	k.sessions.mu.Lock()
	defer k.sessions.mu.Unlock()
	k.sessions.link, k.sessions.linkBy = random(), k.opts.Now().Add(linkLasts)
	return "/sign-in?once=" + k.sessions.link
}

// takeLink uses the link up.
func (s *sessions) takeLink(token string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := s.link != "" && now.Before(s.linkBy) && subtle.ConstantTimeCompare([]byte(token), []byte(s.link)) == 1
	if ok {
		s.link = ""
	}
	return ok
}

// ofCookie finds the key of a request's session.
func (k *Keys) ofCookie(h *fasthttp.RequestHeader) (*key, *session) {
	id := h.Cookie(Cookie)
	if len(id) == 0 {
		return nil, nil
	}
	one := k.sessions.find(string(id), k.opts.Now())
	if one == nil {
		return nil, nil
	}
	return k.now.Load().byID[one.keyID], one
}

// TokenHeader carries a session's token; forms have the field "csrf" instead.
const TokenHeader = "X-CSRF-Token"

// own holds a session's request to this server's own pages, and a change to the session's token.
func (s *session) own(c *fiber.Ctx) error {
	origin := c.Get(fiber.HeaderOrigin)
	if origin != "" && !OwnOrigin(c, origin) {
		return problem.New(403, "foreign_origin", "the session is not for pages of %.100q", origin).WithHint("programs send a key as Authorization: Bearer")
	}
	switch c.Method() {
	case fiber.MethodGet, fiber.MethodHead, fiber.MethodOptions:
		return nil
	}
	sent := c.Get(TokenHeader)
	if sent == "" && strings.HasPrefix(c.Get(fiber.HeaderContentType), fiber.MIMEApplicationForm) {
		sent = c.FormValue("csrf")
	}
	if subtle.ConstantTimeCompare([]byte(sent), []byte(s.token)) != 1 {
		return problem.New(403, "bad_token", "the change does not carry its session's token").WithHint("load the page again and repeat the change")
	}
	return nil
}

// Session tells of the browser's session of a request: its forms' token and its key's name; empty
// without one.
func (k *Keys) Session(c *fiber.Ctx) (token, name string) {
	if f, ok := c.Locals(foundLocal).(found); ok && f.session != nil && f.err == nil && f.key != nil {
		return f.session.token, f.key.Name
	}
	return "", ""
}

// SignIn answers POST /sign-in, a form with a key, and GET /sign-in?once=TOKEN. It returns why nothing
// came of it, for the page to show; done is true when the answer is made.
func (k *Keys) SignIn(c *fiber.Ctx) (wrong string, done bool, err error) {
	if !k.On() {
		return "", true, c.Redirect("/", fiber.StatusSeeOther)
	}
	if origin := c.Get(fiber.HeaderOrigin); origin != "" && !OwnOrigin(c, origin) {
		return "", false, problem.New(403, "foreign_origin", "the form comes from a page of another origin").WithHint("open this server's own sign-in page")
	}
	now := k.opts.Now()
	text, once := c.FormValue("key"), c.Query("once")
	if c.Method() != fiber.MethodPost {
		text = "" // a key is never taken from an address
	}
	if text == "" && once == "" {
		return "", false, nil
	}
	if !k.sessions.may(c.IP(), now) {
		return "Too many tries from this address: wait a few seconds.", false, nil
	}
	state := k.now.Load()
	var one *key
	if once != "" {
		if !k.sessions.takeLink(once, now) {
			return "This link was used or is too old. Sign in with a key.", false, nil
		}
		one = state.firstAdmin()
	} else {
		one = state.find(strings.TrimSpace(text))
	}
	if one == nil {
		k.stats.Unauthenticated.Add(1)
		return "This is no valid key.", false, nil
	}
	if !one.principal.Has(Read) || !one.principal.CoversAll() {
		return "This key may not read everything, and the pages show everything.", false, nil
	}
	k.sessions.end(c.Cookies(Cookie)) // what was there before ends
	c.Cookie(&fiber.Cookie{
		Name: Cookie, Value: k.sessions.begin(one.doc.ID, now), Path: "/", HTTPOnly: true, SameSite: fiber.CookieSameSiteLaxMode,
		Secure: c.Protocol() == "https", MaxAge: int(sessionMost.Seconds()),
	})
	return "", true, c.Redirect(Next(c.FormValue("next", c.Query("next"))), fiber.StatusSeeOther)
}

// SignOut ends the session of a request.
func (k *Keys) SignOut(c *fiber.Ctx) error {
	k.sessions.end(c.Cookies(Cookie))
	c.Cookie(&fiber.Cookie{Name: Cookie, Path: "/", HTTPOnly: true, SameSite: fiber.CookieSameSiteLaxMode, Expires: time.Unix(1, 0)})
	return c.Redirect("/sign-in", fiber.StatusSeeOther)
}

// Next is where to go after the sign-in: a path of this server, or its first page.
func Next(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return strings.Clone(path)
}

// firstAdmin is the admin key whose name comes first.
func (s *state) firstAdmin() *key {
	var first *key
	for _, k := range s.byName {
		if k.doc.has(Admin) && (first == nil || k.Name < first.Name) {
			first = k
		}
	}
	return first
}
