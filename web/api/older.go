package api

import (
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// Older asks for rows of a view in a range of time.
type Older struct {
	View string
	// X is the view's column of time that the range is about, From and To its ends in microseconds.
	X        string
	From, To int64
	Where    string
	Limit    int
}

// maxOlder is how many rows an answer from history holds at most.
const maxOlder = 50_000

// olderRows is GET /v1/views/{name}/rows/older?x=&from=&to=: the part of a range that lies before the
// rows that the view holds itself, from history.
func (e *endpoints) olderRows(c *fiber.Ctx) error {
	if err := allow(c, "x", "from", "to", "where", "limit"); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	limit, err := whole(c, "limit", maxOlder/5, 1, maxOlder)
	if err != nil {
		return err
	}
	q := Older{View: n, X: strings.Clone(c.Query("x")), Where: strings.Clone(c.Query("where")), Limit: int(limit)}
	if q.X == "" {
		return problem.New(400, "bad_parameter", "x is missing").WithHint("name the view's column of time, such as x=window_start")
	}
	for _, end := range []struct {
		name string
		into *int64
	}{{"from", &q.From}, {"to", &q.To}} {
		text := c.Query(end.name)
		if *end.into, err = row.ParseTime([]byte(text)); err != nil {
			return badParameter(end.name, text, "give an instant such as 2024-01-01T12:00:00Z")
		}
	}
	if q.From >= q.To {
		return problem.New(400, "bad_range", "from does not lie before to").WithHint("swap them")
	}
	ctx, cancel := e.waiting(c, fateWait+5*time.Second)
	defer cancel()
	defer watchClient(c.Context().Conn(), cancel)()
	answer, err := e.Older(ctx, q)
	if err != nil {
		return err
	}
	return c.JSON(answer)
}
