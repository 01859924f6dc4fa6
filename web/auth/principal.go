package auth

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
)

// Principal is who asks.
type Principal struct {
	// KeyID is the key's internal number: it stays when the key is rotated, and a key that is made
	// anew under an old name has another. Empty while authentication is off.
	KeyID string
	// Name is the key's name, for messages.
	Name string

	rights rights
	// all: authentication is off, everything is allowed.
	all bool
	// link: the principal is whoever opened a shared dashboard.
	link *Link
	// revoked is closed when what the principal may do has ended.
	revoked <-chan struct{}
}

// within is the principal of a browser's session: what it has open ends with the session too.
func (p *Principal) within(s *session) *Principal {
	q := *p
	q.revoked = s.ended
	return &q
}

// Link is the link by which a principal came, or nil.
func (p *Principal) Link() *Link { return p.link }

// everybody is who asks where nobody is told apart.
var everybody = &Principal{all: true}

// nobody may do nothing.
var nobody = &Principal{}

// Has reports whether the principal has a scope.
func (p *Principal) Has(s Scope) bool { return p.all || p.rights.has(s) }

// Covers reports whether the principal's stream patterns take in a relation of this name.
// late_<view> and <view>_changes go with their view.
func (p *Principal) Covers(relation string) bool {
	if p.link != nil {
		return p.link.covers(relation)
	}
	if p.all || p.rights.covers(relation) {
		return true
	}
	if view, ok := strings.CutPrefix(relation, "late_"); ok && p.rights.covers(view) {
		return true
	}
	view, ok := strings.CutSuffix(relation, "_changes")
	return ok && p.rights.covers(view)
}

// CoversAll reports whether the principal is for every relation.
func (p *Principal) CoversAll() bool {
	return p.all || len(p.rights.Streams) == 0 && p != nobody && p.link == nil
}

// Revoked is closed when the principal's rights end or change; nil: they don't.
func (p *Principal) Revoked() <-chan struct{} { return p.revoked }

// May returns a problem 403 when the principal may not use a relation under a scope.
func (p *Principal) May(s Scope, relation string) error {
	if p.link != nil {
		if (s == Read || s == Alerts) && p.link.covers(relation) {
			return nil
		}
		return problem.New(403, "read_only_link", "the dashboard of the link does not show %.80q", relation).WithHint("use a key for the rest")
	}
	if err := p.needs(s); err != nil {
		return err
	}
	if !p.Covers(relation) {
		return problem.New(403, "foreign_relation", "the key %q is not for %.80q", p.Name, relation).
			WithHint("it is for %s: use another key, or have an administrator add a pattern", strings.Join(p.rights.Streams, ", "))
	}
	return nil
}

// needs returns a problem 403 when the principal has none of the scopes.
func (p *Principal) needs(any ...Scope) error {
	names := make([]string, len(any))
	for i, s := range any {
		if p.Has(s) {
			return nil
		}
		names[i] = string(s)
	}
	return problem.New(403, "missing_scope", "the key %q may not do this: it needs the scope %s", p.Name, strings.Join(names, " or ")).
		WithHint("use another key, or have an administrator add the scope with PUT /v1/keys/{name}").With("scopes", names)
}

type contextKey struct{}

// From is who asks in a request with this context. Where no Identify runs, that is everybody.
func From(ctx context.Context) *Principal {
	if p, ok := ctx.Value(contextKey{}).(*Principal); ok {
		return p
	}
	return everybody
}

// With is a context in which whoever has a link asks.
func With(ctx context.Context, l *Link) context.Context {
	return context.WithValue(ctx, contextKey{}, l.principal())
}

// Of is who asks in a request.
func Of(c *fiber.Ctx) *Principal { return From(c.UserContext()) }

// KeyID names the key of a request, across rotations: the scope of its idempotency keys.
func KeyID(c *fiber.Ctx) string { return Of(c).KeyID }

// MayPost returns a problem 403 when a request's key may not post events to a stream.
func MayPost(c *fiber.Ctx, stream string) error {
	p := Of(c)
	if p.Has(Beacon) {
		return p.May(Beacon, stream)
	}
	return p.May(Ingest, stream)
}
