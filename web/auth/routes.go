package auth

import (
	"mime"
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
)

// Mount adds the routes of keys.
func (k *Keys) Mount(r fiber.Router) {
	r.Put("/v1/keys/:name", k.put)
	r.Get("/v1/keys/:name", k.get)
	r.Get("/v1/keys", k.list)
	r.Delete("/v1/keys/:name", k.delete)
}

// maxBody bounds a definition.
const maxBody = 64 << 10

func (k *Keys) put(c *fiber.Ctx) error {
	if err := noParameters(c); err != nil {
		return err
	}
	if kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType, "application/json")); err != nil ||
		kind != "application/json" && kind != "text/plain" && kind != "application/x-www-form-urlencoded" || c.Get(fiber.HeaderContentEncoding) != "" {
		return problem.New(415, "not_json", "the body is no plain JSON").WithHint("send JSON as application/json")
	}
	body := c.Request().Body()
	if len(body) > maxBody {
		return problem.New(413, "body_too_large", "the body has %d bytes; at most %d are taken here", len(body), maxBody).
			WithHint("list fewer patterns and origins").With("limit", maxBody)
	}
	d, err := ParseDefinition(body)
	if err != nil {
		return err
	}
	answer, created, err := k.Put(strings.Clone(c.Params("name")), d)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	if created {
		c.Status(fiber.StatusCreated)
	}
	return c.JSON(answer)
}

func (k *Keys) get(c *fiber.Ctx) error {
	if err := noParameters(c); err != nil {
		return err
	}
	answer, err := k.Get(c.Params("name"))
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

func (k *Keys) list(c *fiber.Ctx) error {
	if err := noParameters(c); err != nil {
		return err
	}
	return c.JSON(fiber.Map{"items": k.List(), "next": nil})
}

func (k *Keys) delete(c *fiber.Ctx) error {
	if err := noParameters(c); err != nil {
		return err
	}
	if err := k.Delete(strings.Clone(c.Params("name"))); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

func noParameters(c *fiber.Ctx) error {
	if c.Context().QueryArgs().Len() == 0 {
		return nil
	}
	return problem.New(400, "unknown_parameter", "this address takes no parameters").WithHint("leave them out")
}
