package httpapi

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/ingest"
	"tidemark/storage/problem"
)

// events takes events for the stream in the path.
func (a *api) events(c *fiber.Ctx) error {
	name, err := param(c, "name")
	if err != nil {
		return err
	}
	if name == "" {
		return problem.New(400, "bad_name", "the path names no stream").WithHint("post to /v1/streams/NAME/events")
	}
	return a.post(c, name)
}

// mixed takes events that name their stream themselves.
func (a *api) mixed(c *fiber.Ctx) error { return a.post(c, "") }

func (a *api) post(c *fiber.Ctx, name string) error {
	r := ingest.Request{
		Stream:         name,
		Body:           c.BodyRaw(),
		ContentType:    c.Get(fiber.HeaderContentType),
		Encoding:       c.Get(fiber.HeaderContentEncoding),
		IdempotencyKey: strings.Clone(c.Get("Idempotency-Key")),
		Scope:          a.opts.Scope(c),
		TidemarkKey:    strings.Clone(c.Get("Tidemark-Key")),
		TidemarkTime:   strings.Clone(c.Get("Tidemark-Time")),
		Allow:          func(stream string) error { return a.opts.Allow(c, stream) },
	}
	if err := a.parameters(c, &r); err != nil {
		return a.in.Refuse(r, err)
	}
	out, err := a.in.Post(c.UserContext(), r)
	if err != nil {
		return err
	}
	if out.Repeated() {
		c.Set("Idempotent-Replayed", "true")
	}
	return answer(c, out.Status, out.JSON())
}

// parameters reads what stands in the address.
func (a *api) parameters(c *fiber.Ctx, r *ingest.Request) (err error) {
	if len(c.Context().URI().QueryString()) == 0 {
		return nil // as most are
	}
	if err := allow(c, "strict", "partition", "ack", "key"); err != nil {
		return err
	}
	if r.Strict, err = flag(c, "strict"); err != nil {
		return err
	}
	switch ack := c.Query("ack"); ack {
	case "", "disk":
	case "memory":
		r.NoSync = true
	default:
		return problem.New(400, "bad_parameter", "ack is %.40q", strings.Clone(ack)).WithHint("it can be memory or disk")
	}
	n, given, err := number(c, "partition")
	if err != nil {
		return err
	}
	if given {
		r.Partition = &n
	}
	return nil
}
