package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
)

const (
	defaultRows = 1_000
	maxRows     = 1_000_000
	maxWait     = time.Minute
)

// viewRows is GET /v1/views/{name}/rows.
func (e *endpoints) viewRows(c *fiber.Ctx) error {
	if err := allow(c, "where", "order", "limit", "final", "after", "wait", "cursor"); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	limit, err := whole(c, "limit", defaultRows, 1, maxRows)
	if err != nil {
		return err
	}
	final, err := flag(c, "final")
	if err != nil {
		return err
	}
	wait, err := span(c, "wait", maxWait)
	if err != nil {
		return err
	}
	q := RowsQuery{
		Where: strings.Clone(c.Query("where")), Order: strings.Clone(c.Query("order")), Limit: int(limit), Final: final,
		After: strings.Clone(c.Query("after")), Wait: wait, Cursor: strings.Clone(c.Query("cursor")),
	}
	ctx, cancel := e.waiting(c, wait+maxWait)
	defer cancel()
	answer, err := e.Views.Rows(ctx, n, q)
	if errors.Is(err, context.Canceled) && e.stops() {
		return serverStops()
	}
	if err != nil {
		return err
	}
	return c.JSON(answer)
}
