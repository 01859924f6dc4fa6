package httpapi

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/ingest"
)

func (a *api) deadLetters(c *fiber.Ctx) error {
	name, err := param(c, "name")
	if err != nil {
		return err
	}
	limit, given, err := number(c, "limit")
	if err != nil {
		return err
	}
	if given && limit == 0 {
		limit = -1 // refused, where 0 is the default
	}
	page, err := a.in.DeadLetters(name, ingest.Which{
		Origin: strings.Clone(c.Query("origin")), Group: strings.Clone(c.Query("group")), Limit: limit, Cursor: strings.Clone(c.Query("cursor")),
	})
	if err != nil {
		return err
	}
	return answerJSON(c, 200, page)
}

// replay tries a dead letter's event again, or the body in its place.
func (a *api) replay(c *fiber.Ctx) error {
	name, err := param(c, "name")
	if err != nil {
		return err
	}
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	out, err := a.in.Replay(c.UserContext(), name, id, c.BodyRaw())
	if err != nil {
		return err
	}
	return answer(c, fiber.StatusOK, out.JSON())
}

func (a *api) dropDeadLetter(c *fiber.Ctx) error {
	name, err := param(c, "name")
	if err != nil {
		return err
	}
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	if err := a.in.DropDeadLetter(c.UserContext(), name, id); err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}
