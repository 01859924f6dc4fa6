package api

import (
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
)

// verifyView is POST /v1/views/{name}/verify?wait=: the batch answer from the log, compared with
// the view. 202 when it goes on behind the answer; asking again tells how it ended.
func (e *endpoints) verifyView(c *fiber.Ctx) error {
	if err := allow(c, "wait"); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	wait, err := span(c, "wait", maxWait)
	if err != nil {
		return err
	}
	if c.Query("wait") == "" {
		wait = maxWait / 2
	}
	ctx, cancel := e.waiting(c, wait+maxWait)
	defer cancel()
	answer, done, err := e.Verify(ctx, n, wait)
	if err != nil {
		return err
	}
	if !done {
		c.Set(fiber.HeaderLocation, "/v1/views/"+n+"/verify")
		c.Status(fiber.StatusAccepted)
	}
	return c.JSON(answer)
}

// verifiedView is GET /v1/views/{name}/verify: how the last comparison ended, or 202 while one runs.
func (e *endpoints) verifiedView(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	answer, done, err := e.Verified(n)
	if err != nil {
		return err
	}
	if !done {
		c.Status(fiber.StatusAccepted)
	}
	return c.JSON(answer)
}
