package api

import (
	_ "embed"

	"github.com/gofiber/fiber/v2"
)

//go:embed openapi.json
var openAPIDocument []byte

// OpenAPI is the document that /openapi.json serves.
func OpenAPI() []byte { return openAPIDocument }

func (e *endpoints) openAPI(c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(openAPIDocument)
}
