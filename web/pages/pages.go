package pages

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/group"
	"tidemark/web/auth"
	"tidemark/web/ui"
	"tidemark/windows/runtime"
)

// Streams is what pages read of the registry.
type Streams interface {
	List() []*stream.Stream
	Get(name string) (*stream.Stream, error)
	Put(ctx context.Context, name string, c stream.Config) (*stream.Stream, bool, error)
}

// Log is what pages read of the log.
type Log interface {
	Stats(id stream.ID) (stream.Stats, error)
	Slice(id stream.ID, p stream.Partition, from stream.Offset, max int) ([]*stream.Batch, error)
	DeadLetters(id stream.ID, after uint64, limit int) ([]stream.DeadLetter, error)
}

// Views is what pages read of the views; alerts are views too.
type Views interface {
	ListKind(kind catalog.Kind) ([]runtime.Info, error)
	Get(name string) (runtime.Info, error)
	Rows(ctx context.Context, name string, q runtime.RowsQuery) (*runtime.RowsAnswer, error)
	Errors(name, cursor string, limit int) (*runtime.ErrorPage, error)
	LateEvents(name string, offset int64, limit int) (*runtime.LatePage, error)
	Changes(name string, after stream.Position) (*runtime.ChangeReader, error)
	WatermarkInfo(name string) (*runtime.WatermarkInfo, error)
	SinkTrouble() []string
}

// Definitions is what pages read of the catalog.
type Definitions interface {
	Get(kind catalog.Kind, name string) (catalog.Entry, bool)
	List(kind catalog.Kind) []catalog.Entry
}

// Deps is everything that pages read.
type Deps struct {
	Streams     Streams
	Log         Log
	Views       Views
	Definitions Definitions
	// Demo marks the pages: their data are made up.
	Demo bool
	// Address is what the first curl line names.
	Address string
	// Metrics is what /metrics tells; the page for operators shows it.
	Metrics prometheus.Gatherer
	// Keys are the keys, and the sessions and links that they open; nil: there is no sign-in.
	Keys *auth.Keys
	// GroupLetters are the dead letters of a stream's consumer groups; nil: there are no groups.
	GroupLetters func(id stream.ID, limit int) ([]stream.DeadLetter, error)
	// Groups are a stream's consumer groups; nil: there are none.
	Groups func(id stream.ID) ([]group.Info, error)
	// Narrow adds to a condition on a view what a link is held to.
	Narrow func(l *auth.Link, view, where string) (string, error)
	// Shown gives the columns of a view that a link shows.
	Shown func(l *auth.Link, view string) ([]string, error)

	corrections *corrections
}

// Mount adds the pages to an app.
func Mount(r fiber.Router, d Deps) {
	d.corrections = newCorrections(d.Views)
	r.Get("/assets/*", assets)
	r.Get("/", d.page(d.overview))
	r.Get("/d/:name", d.page(d.dashboard))
	r.Get("/streams/:name", d.page(d.stream))
	r.Get("/views/:name", d.page(d.view))
	r.Get("/new", d.page(d.build))
	r.Get("/dead-letters", d.page(d.letters))
	r.Get("/ops", d.page(d.ops))
	r.Get("/settings", d.page(d.settings))
	r.Post("/settings/retention/:name", d.retention)
	if d.Keys != nil {
		r.Get("/sign-in", d.signIn)
		r.Post("/sign-in", d.signIn)
		r.Post("/sign-out", d.Keys.SignOut)
		r.Get("/shared/:link", d.shared)
	}
}

// content is what a page shows, with its title and its place in the navigation.
type content struct {
	title, section string
	draw           func(nonce string) templ.Component
	// link is the token of a page that was shared, or "-" of a link that is none: such a page shows no
	// navigation. frames are the origins that may show it in a frame.
	link   string
	frames []string
}

// page answers with a whole page around the content.
func (d Deps) page(make func(c *fiber.Ctx) (content, error)) fiber.Handler {
	return func(c *fiber.Ctx) error {
		x, err := make(c)
		if err != nil {
			return err
		}
		return d.send(c, x)
	}
}

// policy is the content security policy of a page; %s is its nonce.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors "

func (d Deps) send(c *fiber.Ctx, x content) error {
	var random [16]byte
	_, _ = rand.Read(random[:])
	nonce := base64.RawStdEncoding.EncodeToString(random[:])
	ancestors := "'none'"
	if len(x.frames) > 0 {
		ancestors = strings.Join(x.frames, " ")
		c.Response().Header.Del("X-Frame-Options") // it knows no list
	}
	c.Set("Content-Security-Policy", fmt.Sprintf(policy, nonce)+ancestors)
	c.Set(fiber.HeaderContentType, "text/html; charset=utf-8")
	c.Set(fiber.HeaderCacheControl, "no-store")
	frame := ui.Frame{Title: x.title, Section: x.section, Nonce: nonce, Demo: d.Demo}
	switch {
	case x.link != "":
		frame.Bare, frame.Link = true, strings.TrimPrefix(x.link, noLink)
		c.Set("Referrer-Policy", "no-referrer") // its address is a secret
	case d.Keys != nil && !d.Keys.Known(c):
		frame.Bare = true // names are for those who may see them
	default:
		frame.Dashboards = d.dashboards(false)
	}
	if d.Keys != nil && x.link == "" {
		frame.CSRF, frame.Who = d.Keys.Session(c)
	}
	err := ui.Page(frame, x.draw(nonce)).Render(c.UserContext(), c.Response().BodyWriter())
	if err != nil {
		c.Response().ResetBody()
	}
	return err
}

// ErrorPage answers an error with a page when a browser asks; it reports whether it did.
func (d Deps) ErrorPage(c *fiber.Ctx, p *problem.Problem, requestID string) bool {
	path := c.Path()
	if c.Method() != fiber.MethodGet || strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/assets/") || !strings.Contains(c.Get(fiber.HeaderAccept), "text/html") {
		return false
	}
	hint := p.Hint
	if p.Status >= 500 {
		hint += " (request " + requestID + ")"
	}
	title := "This did not work"
	if p.Status == 404 {
		title = "Nothing here"
	}
	err := d.send(c, content{title: title, draw: func(string) templ.Component { return ui.Problem(title, p.Detail, hint) }})
	return err == nil
}

// signIn shows the form and takes it.
func (d Deps) signIn(c *fiber.Ctx) error {
	wrong, done, err := d.Keys.SignIn(c)
	if done || err != nil {
		return err
	}
	next := auth.Next(c.FormValue("next", c.Query("next")))
	if wrong != "" {
		c.Status(fiber.StatusUnauthorized)
	}
	return d.send(c, content{title: "Sign in", draw: func(string) templ.Component { return ui.SignInPage(wrong, next) }})
}

func assets(c *fiber.Ctx) error {
	body, contentType, immutable, ok := ui.Asset(c.Path())
	if !ok {
		return problem.New(404, "unknown_asset", "there is no such file").WithHint("load the page again")
	}
	c.Set(fiber.HeaderContentType, contentType)
	c.Set(fiber.HeaderCacheControl, "no-cache")
	if immutable {
		c.Set(fiber.HeaderCacheControl, "public, max-age=31536000, immutable")
	}
	return c.Send(body)
}

// text is a text that may be missing.
func text(s *string) string {
	if s == nil {
		return "–"
	}
	return *s
}
