package api

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/web/auth"
)

// Links keeps the read-only addresses of dashboards; *auth.Keys is one.
type Links interface {
	MakeLink(dashboard string, d auth.LinkDefinition, by string) (auth.Link, error)
	Links(dashboard string) []auth.Link
	DeleteLink(dashboard, id string) (bool, error)
	// DashboardChanged is called when a dashboard shows something else.
	DashboardChanged(dashboard string)
}

// dashboard is the name of a dashboard that there is.
func (e *endpoints) dashboard(c *fiber.Ctx) (catalog.Entry, error) {
	n, err := name(c, catalog.Dashboard)
	if err != nil {
		return catalog.Entry{}, err
	}
	entry, ok := e.Dashboards.Get(catalog.Dashboard, n)
	if !ok {
		return entry, unknownDashboard(n)
	}
	return entry, maySee(auth.Of(c), entry)
}

// makeLink is POST /v1/dashboards/{name}/links: the answer alone holds the address.
func (e *endpoints) makeLink(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	board, err := e.dashboard(c)
	if err != nil {
		return err
	}
	var d auth.LinkDefinition
	if err := decode(c, &d, `send {"expires":"72h","range":"frozen"}`); err != nil {
		return err
	}
	l, err := e.Links.MakeLink(board.Name, d, auth.Of(c).Name)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderCacheControl, "no-store")
	return created(c, true, l)
}

// listLinks is GET /v1/dashboards/{name}/links.
func (e *endpoints) listLinks(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	board, err := e.dashboard(c)
	if err != nil {
		return err
	}
	return c.JSON(fiber.Map{"items": e.Links.Links(board.Name), "next": nil})
}

// deleteLink is DELETE /v1/dashboards/{name}/links/{id}: what it has open ends at once.
func (e *endpoints) deleteLink(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.Dashboard)
	if err != nil {
		return err
	}
	id := strings.Clone(c.Params("id"))
	was, err := e.Links.DeleteLink(n, id)
	if err != nil {
		return err
	}
	if !was {
		return problem.New(404, "unknown_link", "the dashboard %s has no link %.80q", n, id).WithHint("GET /v1/dashboards/%s/links lists those there are", n)
	}
	return c.SendStatus(fiber.StatusNoContent)
}
