package httpapi

import (
	"encoding/json"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/ingest"
	"tidemark/storage/problem"
)

// Options are what the endpoints need to know of their surroundings.
type Options struct {
	// Scope names who asks, for the scope of idempotency keys: the API key's id. Nil: all are one.
	Scope func(*fiber.Ctx) string
	// Allow returns a problem when who asks may not post to a stream. Nil: all may. It is asked for
	// every stream of a body, whichever address the body was sent to.
	Allow func(c *fiber.Ctx, stream string) error
	// Logger takes errors that are ours to mend, under the request's id. Nil: slog.Default().
	Logger *slog.Logger
}

type api struct {
	in   *ingest.Ingester
	opts Options
}

// Mount adds the endpoints to a router. The request's id is read from Locals("request_id").
func Mount(r fiber.Router, in *ingest.Ingester, o Options) {
	if o.Scope == nil {
		o.Scope = func(*fiber.Ctx) string { return "" }
	}
	if o.Allow == nil {
		o.Allow = func(*fiber.Ctx, string) error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	a := &api{in, o}
	r.Post("/v1/events", a.handle(a.mixed))
	r.Post("/v1/streams/:name/events", a.handle(a.events))
	r.Post("/v1/streams/:name/watermark", a.handle(a.watermark))
	r.Get("/v1/streams/:name/dead_letters", a.handle(a.deadLetters))
	r.Post("/v1/streams/:name/dead_letters/:id/replay", a.handle(a.replay))
	r.Delete("/v1/streams/:name/dead_letters/:id", a.handle(a.dropDeadLetter))
}

// handle turns an error into a problem document, and a panic into one too: without that it would
// end the process.
func (a *api) handle(f func(*fiber.Ctx) error) fiber.Handler {
	return func(c *fiber.Ctx) (err error) {
		defer func() {
			if cause := recover(); cause != nil {
				p := problem.From(nil)
				a.opts.Logger.Error("a handler panicked", "request", requestID(c), "path", strings.Clone(c.Path()), "err", cause)
				err = write(c, p)
			}
		}()
		if err := f(c); err != nil {
			p := problem.From(err)
			if p.Status >= 500 && p.Code == "internal" {
				a.opts.Logger.Error("a request failed", "request", requestID(c), "path", strings.Clone(c.Path()), "err", p.Cause)
			}
			return write(c, p)
		}
		return nil
	}
}

func requestID(c *fiber.Ctx) string {
	id, _ := c.Locals("request_id").(string)
	return id
}

func write(c *fiber.Ctx, p *problem.Problem) error {
	if p.RetryAfter > 0 {
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	}
	c.Status(p.Status)
	c.Response().Header.SetContentType(problem.ContentType)
	c.Response().SetBody(p.JSON(requestID(c)))
	return nil
}

func answer(c *fiber.Ctx, status int, body []byte) error {
	c.Status(status)
	c.Response().Header.SetContentType("application/json; charset=utf-8")
	c.Response().SetBody(body)
	return nil
}

func answerJSON(c *fiber.Ctx, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return answer(c, status, body)
}

// param is a decoded part of the path, copied. Fiber hands it over with its percent signs.
func param(c *fiber.Ctx, name string) (string, error) {
	raw := strings.Clone(c.Params(name))
	text, err := url.PathUnescape(raw)
	if err != nil {
		return "", problem.New(400, "bad_path", "%.60q is not percent-encoded", raw).
			WithHint("a percent sign in a path is followed by two hexadecimal digits")
	}
	return text, nil
}

// allow refuses query parameters that an address does not have: a flag with a typing error would be
// a promise that is not kept.
func allow(c *fiber.Ctx, names ...string) error {
	for k := range c.Context().QueryArgs().All() {
		if !slices.Contains(names, string(k)) {
			return problem.New(400, "unknown_parameter", "there is no parameter %.60q here", k).
				WithHint("the parameters are %s", strings.Join(names, ", "))
		}
	}
	return nil
}

// flag reads a query parameter that is true or false.
func flag(c *fiber.Ctx, name string) (bool, error) {
	switch v := c.Query(name); v {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	default:
		return false, problem.New(400, "bad_parameter", "%s is %.40q", name, strings.Clone(v)).WithHint("it can be true or false")
	}
}

// number reads a query parameter that is a whole number; ok is false when it is not given.
func number(c *fiber.Ctx, name string) (n int, ok bool, err error) {
	v := c.Query(name)
	if v == "" {
		return 0, false, nil
	}
	if n, err = strconv.Atoi(v); err != nil {
		return 0, false, problem.New(400, "bad_parameter", "%s is %.40q", name, strings.Clone(v)).WithHint("it must be a whole number")
	}
	return n, true, nil
}
