package api

import (
	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
)

// The lives of views: PUT, GET and DELETE /v1/views/{name}, GET /v1/views, pause, resume and rebuild.

func (e *endpoints) putView(c *fiber.Ctx) error {
	if err := allow(c, "dry_run"); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	dry, err := flag(c, "dry_run")
	if err != nil {
		return err
	}
	b, err := body(c)
	if err != nil {
		return err
	}
	answer, isNew, err := e.Views.Put(c.UserContext(), n, b, dry)
	if err != nil {
		return err
	}
	return created(c, isNew && !dry, answer)
}

func (e *endpoints) getView(c *fiber.Ctx) error {
	return e.aboutView(c, e.Views.Get)
}

func (e *endpoints) viewWatermark(c *fiber.Ctx) error {
	return e.aboutView(c, e.Views.Watermark)
}

func (e *endpoints) pauseView(c *fiber.Ctx) error {
	return e.aboutView(c, func(n string) (any, error) { return e.Views.Pause(c.UserContext(), n) })
}

func (e *endpoints) resumeView(c *fiber.Ctx) error {
	return e.aboutView(c, func(n string) (any, error) { return e.Views.Resume(c.UserContext(), n) })
}

func (e *endpoints) rebuildView(c *fiber.Ctx) error {
	return e.aboutView(c, func(n string) (any, error) { return e.Views.Rebuild(c.UserContext(), n) })
}

// aboutView answers what f says of the view that the address names.
func (e *endpoints) aboutView(c *fiber.Ctx, f func(string) (any, error)) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	answer, err := f(n)
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

func (e *endpoints) listViews(c *fiber.Ctx) error {
	all, err := e.Views.List()
	if err != nil {
		return err
	}
	return list(c, "views", all, nameOf, valueOf)
}

func nameOf(n Named) string        { return n.Name }
func valueOf(n Named) (any, error) { return n.Value, nil }

func (e *endpoints) deleteView(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	if err := e.Views.Delete(c.UserContext(), n); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}
