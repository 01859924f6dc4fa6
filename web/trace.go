package web

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
)

// requestIDLocal is the key under which a request carries its id.
const requestIDLocal = "request_id"

// newRequestID is the name of one request in its answer and in the log. It is no secret.
func newRequestID() string { return strconv.FormatUint(rand.Uint64()|1<<63, 36) }

// trace gives the request its id and the answer its safe headers, turns a panic into an error
// (keeps I1), answers errors, and writes the access line.
func (a *App) trace(c *fiber.Ctx) (err error) {
	started := time.Now()
	id := newRequestID()
	c.Locals(requestIDLocal, id)
	c.SetUserContext(a.base)
	safe(c, id)
	defer func() {
		if r := recover(); r != nil {
			err = a.fail(c, fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
		}
		if a.opts.Logger.Enabled(c.Context(), slog.LevelDebug) {
			a.opts.Logger.LogAttrs(c.Context(), slog.LevelDebug, "request",
				slog.String("request", id), slog.String("method", c.Method()), slog.String("route", c.Route().Path),
				slog.Int("status", c.Response().StatusCode()), slog.Duration("took", time.Since(started)))
		}
	}()
	if err = c.Next(); err != nil {
		err = a.fail(c, err)
	}
	return err
}

// safeHeaders are those that every answer has, names in the spelling that HTTP/1 prefers.
var safeHeaders = [][2][]byte{
	{[]byte("X-Content-Type-Options"), []byte("nosniff")},
	{[]byte("X-Frame-Options"), []byte("DENY")},
	{[]byte("Referrer-Policy"), []byte("same-origin")},
	{[]byte("Cross-Origin-Resource-Policy"), []byte("same-origin")},
	{[]byte("Cross-Origin-Opener-Policy"), []byte("same-origin")},
	{[]byte("Content-Security-Policy"), []byte("default-src 'none'; frame-ancestors 'none'")},
}

// safe sets the headers that every answer has. A page sets its own Content-Security-Policy.
func safe(c *fiber.Ctx, id string) {
	h := &c.Response().Header
	h.Set("X-Request-Id", id)
	for _, kv := range safeHeaders {
		h.SetCanonical(kv[0], kv[1])
	}
}

// fail is the one place where errors become answers.
func (a *App) fail(c *fiber.Ctx, err error) error {
	id, _ := c.Locals(requestIDLocal).(string)
	if id == "" { // fasthttp could not read the request: trace never ran
		id = newRequestID()
		safe(c, id)
	}
	p := a.explain(c, err)
	if p.Status >= 500 && p.Status != 503 && p.Status != 504 {
		cause := error(p)
		if p.Cause != nil {
			cause = p.Cause
		}
		a.opts.Logger.Error("request failed", "request", id, "method", c.Method(), "route", c.Route().Path, "err", cause)
	}
	if p.RetryAfter > 0 {
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	}
	c.Status(p.Status)
	if p.Status == fiber.StatusUnauthorized {
		lingerOn(c.Context().Conn()) // its body was not read
	}
	// A page names what there is, in its navigation: it is not for strangers.
	known := a.opts.Auth.Known(c)
	if (p.Status == fiber.StatusUnauthorized || p.Status == fiber.StatusForbidden && !known) && a.toSignIn(c) {
		return nil
	}
	if a.opts.ErrorPage != nil && known && a.opts.ErrorPage(c, p, id) {
		return nil
	}
	c.Set(fiber.HeaderContentType, problem.ContentType)
	return c.Send(p.JSON(id))
}

// toSignIn sends a browser that asks for a page to where it can sign in; it reports whether it did.
func (a *App) toSignIn(c *fiber.Ctx) bool {
	if a.opts.SignIn == "" || c.Method() != fiber.MethodGet || strings.HasPrefix(c.Path(), "/v1/") || !strings.Contains(c.Get(fiber.HeaderAccept), "text/html") {
		return false
	}
	return c.Redirect(a.opts.SignIn+"?next="+url.QueryEscape(string(c.Request().RequestURI())), fiber.StatusSeeOther) == nil
}

// explain finds the problem in an error, Fiber's own included.
func (a *App) explain(c *fiber.Ctx, err error) *problem.Problem {
	var own *problem.Problem
	var fe *fiber.Error
	switch {
	case errors.As(err, &own):
		return own
	case !errors.As(err, &fe):
		return problem.From(err)
	}
	switch fe.Code {
	case fiber.StatusNotFound:
		return problem.New(404, "no_such_address", "there is nothing at %s %.200s", c.Method(), c.Path()).
			WithHint("the addresses are listed in /openapi.json")
	case fiber.StatusMethodNotAllowed:
		return problem.New(405, "method_not_allowed", "%s is not for %.200s", c.Method(), c.Path()).
			WithHint("it takes %s", string(c.Response().Header.Peek(fiber.HeaderAllow)))
	case fiber.StatusRequestEntityTooLarge:
		return problem.New(413, "body_too_large", "the body is larger than %d bytes", a.opts.BodyLimit).
			WithHint("send it in parts, or compressed").With("limit", a.opts.BodyLimit)
	case fiber.StatusRequestHeaderFieldsTooLarge:
		return problem.New(431, "headers_too_large", "request line and headers are larger than %d bytes", a.opts.MaxHeaderBytes).
			WithHint("shorten the address or the headers")
	case fiber.StatusRequestTimeout:
		return problem.New(408, "request_timeout", "the request did not arrive within %s", a.opts.ReadTimeout).
			WithHint("send it again, in smaller parts if the line is slow")
	case fiber.StatusBadRequest, fiber.StatusBadGateway:
		return problem.New(400, "bad_request", "the request could not be read: %.200s", fe.Message).
			WithHint("check how it is framed: request line, Host, Content-Length or chunks")
	}
	if fe.Code >= 500 {
		return problem.From(err)
	}
	return problem.New(fe.Code, "bad_request", "%.200s", fe.Message).WithHint("the API is described in /openapi.json")
}
