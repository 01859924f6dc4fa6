package auth

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"tidemark/storage/problem"
)

// Challenge is what an answer 401 asks for in WWW-Authenticate.
const Challenge = `Bearer realm="tidemark"`

// found is what the headers of a request say of who asks.
type found struct {
	key *key
	// session is how the key is known when the request has a cookie in its place.
	session *session
	// link is a shared dashboard's, which has no key.
	link *Link
	// lapsed: the request shows a link that is none, or none any more.
	lapsed bool
	// address: the key stands in the address.
	address bool
	// none: the request sends no key at all.
	none bool
	// err is why the request is not to be served: 401 or 403.
	err error
}

// Authenticated returns nil when a request's header holds a valid key, or none is needed. It is
// asked before the body is read, and takes header only.
func (k *Keys) Authenticated(h *fasthttp.RequestHeader) error {
	if !k.On() {
		return nil
	}
	if signsIn(h) {
		return nil // the form has the key
	}
	f := k.who(h)
	if f.key != nil || f.link != nil {
		return nil // what it may do is judged by Guard
	}
	return f.err
}

// maxForm bounds the sign-in form.
const maxForm = 4 << 10

func signsIn(h *fasthttp.RequestHeader) bool {
	return h.IsPost() && string(h.RequestURI()) == "/sign-in" && h.ContentLength() >= 0 && h.ContentLength() <= maxForm
}

// who finds the key of a request: its own, or its session's.
func (k *Keys) who(h *fasthttp.RequestHeader) found {
	if text, _ := headerKey(h); strings.HasPrefix(text, linkPrefix) {
		if l := k.links.find(text, k.opts.Now()); l != nil {
			return found{link: l}
		}
		return found{lapsed: true, err: deadLink()}
	}
	f := k.now.Load().who(h)
	if f.key == nil && f.none {
		if one, s := k.ofCookie(h); one != nil {
			return found{key: one, session: s}
		}
	}
	return f
}

// who finds the key that a request sends.
func (s *state) who(h *fasthttp.RequestHeader) found {
	inAddress := addressKeys(h)
	var f found
	for _, text := range inAddress {
		one := s.find(text)
		if one == nil {
			return found{err: badKey()}
		}
		f = found{key: one, address: true}
		if !one.doc.has(Beacon) {
			f.err = problem.New(403, "key_in_address", "the key %q stands in the address", one.Name).
				WithHint("addresses end up in logs and histories: rotate this key, and send keys as Authorization: Bearer. Only beacon keys may stand in ?key=")
			return f
		}
	}
	text, sent := headerKey(h)
	if !sent {
		if f.key == nil {
			f.none = true
			f.err = errNoKey
		}
		return f
	}
	one := s.find(text)
	if one == nil {
		return found{err: badKey()}
	}
	return found{key: one}
}

// errNoKey is one for all, and never changed: while authentication is off every request finds it.
var errNoKey = problem.New(401, "no_key", "the request has no key").
	WithHint("send Authorization: Bearer tdm_…; an administrator makes keys with: tidemark key create")

// badKey is the answer to every key that is none (I2). It does not repeat what was sent.
func badKey() error {
	return problem.New(401, "bad_key", "the key of the request is not valid").
		WithHint("it may have been rotated or deleted, or be cut short: a key is tdm_, 16 letters, _, 32 letters")
}

// addressKeys are the keys in a request's address. An object is none: …/rows/history?key={"user":"ada"}
// names a row.
func addressKeys(h *fasthttp.RequestHeader) []string {
	_, query, ok := bytes.Cut(h.RequestURI(), []byte("?"))
	if !ok || !bytes.Contains(query, []byte("k")) && !bytes.Contains(query, []byte("%")) {
		return nil
	}
	query, _, _ = bytes.Cut(query, []byte("#"))
	var args fasthttp.Args
	args.ParseBytes(query)
	var out []string
	for _, v := range args.PeekMulti("key") {
		if !bytes.HasPrefix(bytes.TrimSpace(v), []byte("{")) {
			out = append(out, string(v))
		}
	}
	return out
}

// headerKey is the key in a request's headers: Authorization, or a subprotocol of an upgrade, since
// browsers let scripts set no header on a websocket.
func headerKey(h *fasthttp.RequestHeader) (text string, sent bool) {
	if a := h.Peek(fiber.HeaderAuthorization); len(a) > 0 {
		scheme, rest, _ := strings.Cut(string(a), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", true
		}
		return strings.TrimSpace(rest), true
	}
	for _, line := range h.PeekAll("Sec-WebSocket-Protocol") {
		for part := range strings.SplitSeq(string(line), ",") {
			if key, ok := strings.CutPrefix(strings.TrimSpace(part), "bearer."); ok {
				return key, true
			}
		}
	}
	return "", false
}

// foundLocal is where Identify leaves what Guard judges.
const foundLocal = "auth"

// Identify finds out who asks, for every request. It answers preflights; all else is judged by the
// rule of the route.
func (k *Keys) Identify(c *fiber.Ctx) error {
	s := k.now.Load()
	f := k.who(&c.Request().Header)
	if !s.on && f.link == nil && !f.lapsed { // who came by a link gets no more when it ends
		c.SetUserContext(context.WithValue(c.UserContext(), contextKey{}, s.open))
		return c.Next()
	}
	p := nobody
	switch {
	case f.err != nil:
	case f.link != nil:
		p = f.link.principal()
	case f.session != nil && f.key != nil:
		p = f.key.principal.within(f.session)
	case f.key != nil:
		p = f.key.principal
	}
	c.Locals(foundLocal, f)
	c.SetUserContext(context.WithValue(c.UserContext(), contextKey{}, p))
	if origin := c.Get(fiber.HeaderOrigin); origin != "" && c.Method() == fiber.MethodOptions && c.Get(fiber.HeaderAccessControlRequestMethod) != "" {
		return s.preflight(c, f, origin)
	}
	return c.Next()
}

// Known reports whether a request comes from somebody who may see names of things, in an error page
// for example.
func (k *Keys) Known(c *fiber.Ctx) bool {
	if !k.On() {
		return true
	}
	f, ok := c.Locals(foundLocal).(found)
	return ok && f.err == nil && Of(c).CoversAll() && Of(c).Has(Read)
}

// Guard puts the rule of its route before every handler of an app that was mounted behind the first
// n routes of each method, n being what Count gave. Nothing is matched here: Fiber has chosen the
// route when the rule is asked, so the two can't differ.
func (k *Keys) Guard(app *fiber.App, behind []int) {
	for method, routes := range app.Stack() {
		for _, r := range routes[behind[method]:] {
			rule, _ := RuleOf(r.Method, r.Path)
			check := func(c *fiber.Ctx) error {
				if err := k.judge(c, rule); err != nil {
					return err
				}
				return c.Next()
			}
			r.Handlers = append([]fiber.Handler{check}, r.Handlers...)
		}
	}
}

// Count is the number of routes that an app has, by method.
func Count(app *fiber.App) []int {
	var n []int
	for _, routes := range app.Stack() {
		n = append(n, len(routes))
	}
	return n
}

// judge says whether a request may use a route.
func (k *Keys) judge(c *fiber.Ctx, rule Rule) error {
	f, ok := c.Locals(foundLocal).(found)
	if !ok || rule.Open { // authentication is off, or not needed here
		return nil
	}
	err := f.err
	switch {
	case err != nil:
	case f.link != nil:
		err = k.allowLink(c, rule)
	default:
		err = k.allow(c, f, rule)
	}
	if err == nil {
		return nil
	}
	switch problem.From(err).Status {
	case fiber.StatusUnauthorized:
		k.stats.Unauthenticated.Add(1)
		c.Set(fiber.HeaderWWWAuthenticate, Challenge)
	case fiber.StatusTooManyRequests:
		k.stats.Limited.Add(1)
	default:
		k.stats.Forbidden.Add(1)
	}
	return err
}

// allow judges a valid key.
func (k *Keys) allow(c *fiber.Ctx, f found, rule Rule) error {
	p := f.key.principal
	if f.session != nil {
		if err := f.session.own(c); err != nil {
			return err
		}
	} else if err := f.key.origin(c, f.address); err != nil {
		return err
	}
	if err := p.needs(rule.Any...); err != nil {
		return err
	}
	if rule.Everything && !p.CoversAll() {
		return problem.New(403, "foreign_relation", "the key %q is not for all streams, and this address tells of all", p.Name).
			WithHint("use a key without stream patterns")
	}
	if rule.Relation {
		name, err := url.PathUnescape(c.Params("name"))
		if err != nil {
			name = strings.Clone(c.Params("name"))
		}
		scope := rule.first(p)
		if scope != Ingest && scope != Beacon && k.isAlert(name) {
			scope = Alerts
		}
		if err := p.May(scope, name); err != nil {
			return err
		}
	}
	return k.pace(f.key)
}

// allowLink judges a shared dashboard's link.
func (k *Keys) allowLink(c *fiber.Ctx, rule Rule) error {
	if origin := c.Get(fiber.HeaderOrigin); origin != "" && !OwnOrigin(c, origin) {
		return problem.New(403, "foreign_origin", "a link is not for pages of %.100q", origin).
			WithHint("open the link itself; a page may show it in a frame when the link lists its origin")
	}
	if !rule.Link {
		return problem.New(403, "read_only_link", "a link shows one dashboard and does nothing else").
			WithHint("use a key for the rest")
	}
	if !rule.Relation {
		return nil // the handler asks
	}
	name, err := url.PathUnescape(c.Params("name"))
	if err != nil {
		name = strings.Clone(c.Params("name"))
	}
	return Of(c).May(Read, name)
}

// first is the scope by which a principal satisfies a rule.
func (r Rule) first(p *Principal) Scope {
	for _, s := range r.Any {
		if p.Has(s) {
			return s
		}
	}
	return Admin
}

// pace takes one request from a key's rate.
func (k *Keys) pace(key *key) error {
	if key.limit == nil {
		return nil
	}
	now := k.opts.Now()
	if key.limit.AllowN(now, 1) {
		return nil
	}
	p := problem.New(429, "rate_limited", "the key %q may send %s requests a second", key.Name, strconv.FormatFloat(key.doc.Rate, 'g', -1, 64)).
		WithHint("send more events in one request, or have an administrator raise the rate")
	p.RetryAfter = max(1, int(time.Duration(float64(time.Second)/key.doc.Rate).Seconds()))
	return p
}

// origin judges the page that a request comes from and lets it read the answer (I4, I6).
func (k *key) origin(c *fiber.Ctx, address bool) error {
	origin := strings.Clone(c.Get(fiber.HeaderOrigin))
	listed := k.lists(origin)
	switch {
	case listed:
		c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
		c.Set(fiber.HeaderAccessControlExposeHeaders, exposed)
		c.Set("Cross-Origin-Resource-Policy", "cross-origin")
		c.Vary(fiber.HeaderOrigin)
		return nil
	case origin == "" && k.doc.has(Beacon):
		return problem.New(403, "no_origin", "the beacon key %q is for web pages, and the request has no Origin", k.Name).
			WithHint("programs send events with a key of the scope ingest")
	case origin == "" || !k.doc.has(Beacon) && OwnOrigin(c, origin):
		return nil
	}
	return problem.New(403, "foreign_origin", "the key %q is not for pages of %.100q", k.Name, origin).
		WithHint("an administrator can add the origin with PUT /v1/keys/{name}")
}

func (k *key) lists(origin string) bool {
	for _, o := range k.doc.Origins {
		if o == origin {
			return true
		}
	}
	return false
}

// OwnOrigin reports whether an Origin is this server's own, as the client knows the server.
func OwnOrigin(c *fiber.Ctx, origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == c.Protocol() && strings.EqualFold(u.Host, c.Hostname())
}

// What pages of listed origins may send and see.
const (
	allowedMethods = "GET, HEAD, POST, PUT, DELETE"
	allowedHeaders = "Authorization, Content-Type, Content-Encoding, Accept, If-Match, Idempotency-Key, Tidemark-Key, Last-Event-ID"
	exposed        = "ETag, X-Request-Id, Retry-After, Location, Idempotent-Replayed"
)

// preflight answers the question that a browser asks before a page's request. It comes without the
// key that the request will have, so an origin is good when any key lists it; the request itself is
// then held to its own key.
func (s *state) preflight(c *fiber.Ctx, f found, origin string) error {
	listed := OwnOrigin(c, origin)
	for _, k := range s.byID {
		if f.address && k != f.key {
			continue // the key is known: it stands in the address
		}
		listed = listed || k.lists(origin)
	}
	c.Vary(fiber.HeaderOrigin, fiber.HeaderAccessControlRequestMethod, fiber.HeaderAccessControlRequestHeaders)
	if !listed {
		return problem.New(403, "foreign_origin", "no key is for pages of %.100q", origin).
			WithHint("an administrator can add the origin to a key with PUT /v1/keys/{name}")
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, strings.Clone(origin))
	c.Set(fiber.HeaderAccessControlAllowMethods, allowedMethods)
	c.Set(fiber.HeaderAccessControlAllowHeaders, allowedHeaders)
	c.Set(fiber.HeaderAccessControlMaxAge, "600")
	return c.SendStatus(fiber.StatusNoContent)
}
