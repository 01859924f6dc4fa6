package api

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
)

// viewErrors is GET /v1/views/{name}/errors: the rows that are outside the view because an
// expression failed on them (E1).
func (e *endpoints) viewErrors(c *fiber.Ctx) error {
	if err := allow(c, "limit", "cursor"); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	limit, err := whole(c, "limit", 1000, 1, 10_000)
	if err != nil {
		return err
	}
	at, err := cursor(c, "errors of "+n)
	if err != nil {
		return err
	}
	items, next, err := e.Views.Errors(n, strings.Clone(at), int(limit))
	if err != nil {
		return err
	}
	answer := fiber.Map{"items": items, "next": nil}
	if next != "" {
		answer["next"] = makeCursor("errors of "+n, next)
	}
	return c.JSON(answer)
}
