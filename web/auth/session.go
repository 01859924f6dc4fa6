package auth

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
)

// A browser signs in with a key once and then has a session: 128 random bits in a cookie that no
// script can read and that no page of another site can send along with a change. What the session
// may do is what its key may do at that very moment. The store keeps a hash of the bits, so a session
// outlives the process, and who reads the store can't use it.

// Cookie is the name of the session's cookie.
const Cookie = "tidemark_session"

// How long sessions and sign-ins may last, and how many there can be. That a session is used is
// written down at most every sessionNote.
const (
	sessionIdle  = 12 * time.Hour
	sessionMost  = 7 * 24 * time.Hour
	sessionNote  = 30 * time.Minute
	maxSessions  = 10_000
	linkLasts    = 24 * time.Hour
	maxAddresses = 10_000
)

// session is one browser that signed in.
type session struct {
	name  string // the hash of its id
	token string // what forms and scripts send along with a change
	// ended is closed when what the session has open must end; timer does it at the latest.
	ended chan struct{}
	timer *time.Timer
	noted time.Time // when its use was written down last
	sessionDoc
}

// sessionDoc is what the store keeps of a session.
type sessionDoc struct {
	KeyID string    `json:"key"`
	Made  time.Time `json:"made"`
	Used  time.Time `json:"used"`
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.Used) > sessionIdle || now.Sub(s.Made) > sessionMost
}

// sessions are all of them, the one-time link, and how often each address may try.
type sessions struct {
	store Store

	mu     sync.Mutex
	byName map[string]*session
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

// hashed is a secret as a name of the catalog: 248 bits of its SHA-256.
func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "s" + hex.EncodeToString(sum[:31])
}

// tokenOf is the token of a session: it follows from the id, so it is nowhere kept.
func tokenOf(id string) string {
	sum := sha256.Sum256([]byte("csrf\x00" + id))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// open reads the sessions. Those whose time is over, or whose key is gone, are removed.
func (s *sessions) open(store Store, now time.Time, valid func(keyID string) bool) error {
	s.store, s.byName = store, map[string]*session{}
	for _, e := range store.List(catalog.Session) {
		one := &session{name: e.Name, ended: make(chan struct{})}
		if err := json.Unmarshal(e.Doc, &one.sessionDoc); err != nil {
			return fmt.Errorf("open sessions: %w", err)
		}
		if one.over(now) || !valid(one.KeyID) {
			if _, err := store.Delete(catalog.Session, e.Name); err != nil {
				return err
			}
			continue
		}
		one.noted = one.Used
		s.byName[e.Name] = one
		s.wind(one, now)
	}
	return nil
}

// wind has a session end when its time is over.
func (s *sessions) wind(one *session, now time.Time) {
	one.timer = time.AfterFunc(one.Made.Add(sessionMost).Sub(now), func() { s.remove(one.name) })
}

func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.byName {
		one.timer.Stop()
	}
}

func (s *sessions) keep(one *session) error {
	doc, err := json.Marshal(one.sessionDoc)
	if err != nil {
		return err
	}
	_, err = s.store.Put(catalog.Session, one.name, doc, 0)
	return err
}

// begin makes a session for a key. The id is always new (never what a client sent).
func (s *sessions) begin(keyID string, now time.Time) (id string, err error) {
	id = random()
	one := &session{name: hashed(id), ended: make(chan struct{}), noted: now, sessionDoc: sessionDoc{KeyID: keyID, Made: now, Used: now}}
	if err := s.keep(one); err != nil {
		return "", err
	}
	s.mu.Lock()
	s.byName[one.name] = one
	s.wind(one, now)
	var over []string
	for name, other := range s.byName {
		if other.over(now) {
			over = append(over, name)
		}
	}
	if len(s.byName)-len(over) > maxSessions {
		over = append(over, slices.MinFunc(s.listLocked(), func(a, b *session) int { return cmp.Compare(a.Used.UnixNano(), b.Used.UnixNano()) }).name)
	}
	s.mu.Unlock()
	for _, name := range over {
		s.remove(name)
	}
	return id, nil
}

func (s *sessions) listLocked() []*session {
	list := make([]*session, 0, len(s.byName))
	for _, one := range s.byName {
		list = append(list, one)
	}
	return list
}

// find returns the session of a cookie, or nil. What it returns is never changed.
func (s *sessions) find(id string, now time.Time) *session {
	name := hashed(id)
	s.mu.Lock()
	one := s.byName[name]
	if one == nil {
		s.mu.Unlock()
		return nil
	}
	if one.over(now) {
		s.mu.Unlock()
		s.remove(name)
		return nil
	}
	one.Used = now
	note := now.Sub(one.noted) > sessionNote
	if note {
		one.noted = now
	}
	found := *one
	s.mu.Unlock()
	if note {
		_ = s.keep(&found) // a session whose use is not written down ends sooner
	}
	found.token = tokenOf(id)
	return &found
}

// remove ends a session and all that it has open.
func (s *sessions) remove(name string) {
	s.mu.Lock()
	one := s.byName[name]
	delete(s.byName, name)
	s.mu.Unlock()
	if one == nil {
		return
	}
	one.timer.Stop()
	close(one.ended)
	_, _ = s.store.Delete(catalog.Session, name) // what remains ends by its time
}

func (s *sessions) end(id string) { s.remove(hashed(id)) }

// revoke ends what the sessions of a key have open; gone: and the sessions with it.
func (s *sessions) revoke(keyID string, gone bool) {
	s.mu.Lock()
	var names []string
	for name, one := range s.byName {
		if one.KeyID != keyID {
			continue
		}
		if names = append(names, name); !gone {
			close(one.ended)
			one.ended = make(chan struct{})
		}
	}
	s.mu.Unlock()
	if !gone {
		return
	}
	for _, name := range names {
		s.remove(name)
	}
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
	if len(id) == 0 || len(id) > maxKeyText {
		return nil, nil
	}
	one := k.sessions.find(string(id), k.opts.Now())
	if one == nil {
		return nil, nil
	}
	return k.now.Load().byID[one.KeyID], one
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
	id, err := k.sessions.begin(one.doc.ID, now)
	if err != nil {
		return "", false, err
	}
	c.Cookie(&fiber.Cookie{
		Name: Cookie, Value: id, Path: "/", HTTPOnly: true, SameSite: fiber.CookieSameSiteLaxMode,
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
