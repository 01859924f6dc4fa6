package api

import (
	"encoding/json"
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
)

// Alerts: PUT, GET and DELETE /v1/alerts/{name}, GET /v1/alerts and the log.

func (e *endpoints) putAlert(c *fiber.Ctx) error {
	if err := allow(c, "dry_run"); err != nil {
		return err
	}
	n, err := name(c, catalog.Alert)
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
	answer, isNew, err := e.Alerts.Put(c.UserContext(), n, b, dry)
	if err != nil {
		return err
	}
	return created(c, isNew && !dry, answer)
}

func (e *endpoints) getAlert(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.Alert)
	if err != nil {
		return err
	}
	answer, err := e.Alerts.Get(n)
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

func (e *endpoints) listAlerts(c *fiber.Ctx) error {
	all, err := e.Alerts.List()
	if err != nil {
		return err
	}
	return list(c, "alerts", all, nameOf, valueOf)
}

func (e *endpoints) deleteAlert(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.Alert)
	if err != nil {
		return err
	}
	if err := e.Alerts.Delete(c.UserContext(), n); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

// alertLog is GET /v1/alerts/{name}/log?after=&limit=: what a subscriber got, to fill a gap or to
// audit. position is where a subscriber who has read this far goes on.
func (e *endpoints) alertLog(c *fiber.Ctx) error {
	if err := allow(c, "after", "limit", "cursor"); err != nil {
		return err
	}
	n, err := name(c, catalog.Alert)
	if err != nil {
		return err
	}
	limit, err := whole(c, "limit", 1000, 1, 10_000)
	if err != nil {
		return err
	}
	after := strings.Clone(c.Query("after"))
	if after == "" {
		after = strings.Clone(c.Query("cursor"))
	}
	alerts, position, more, err := e.Alerts.Log(n, after, int(limit))
	if err != nil {
		return err
	}
	if alerts == nil {
		alerts = []json.RawMessage{}
	}
	answer := fiber.Map{"items": alerts, "position": position, "next": nil}
	if more {
		answer["next"] = position
	}
	return c.JSON(answer)
}
