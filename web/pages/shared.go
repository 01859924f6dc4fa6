package pages

import (
	"encoding/json"
	"strings"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"tidemark/web/auth"
	"tidemark/web/ui"
)

// noLink stands in the place of a link that is none.
const noLink = "-"

// shared is GET /shared/{link}: a dashboard as a link shows it, to whoever has the address.
func (d Deps) shared(c *fiber.Ctx) error {
	text := strings.Clone(c.Params("link"))
	l, ok := d.Keys.FindLink(text)
	if !ok {
		c.Status(fiber.StatusNotFound)
		return d.send(c, content{title: "Nothing here", link: noLink, draw: func(string) templ.Component {
			return ui.Problem("This link shows nothing", "It may have expired or been taken back.", "Ask whoever sent it for another one.")
		}})
	}
	b, doc, err := d.board(l.Dashboard)
	if err != nil {
		return err
	}
	b.Annotations = "" // asked for by the link
	filters, err := json.Marshal(l.Filters)
	if err != nil {
		return err
	}
	// What the editor would need is nobody's business here; what the panels are is.
	b.Doc, b.Tag, b.Managed, b.Shared, b.Range, b.Filters = "{}", "", "", true, l.Range, string(filters)
	d.panels(auth.With(c.UserContext(), l), &b, doc, l.Range)
	return d.send(c, content{title: b.Title, link: text, frames: l.Origins, draw: func(nonce string) templ.Component { return ui.DashboardPage(nonce, b) }})
}
