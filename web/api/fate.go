package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
)

// fateWait bounds the replay behind an answer.
const fateWait = 30 * time.Second

// maxHistory is how many changes of a row one answer holds at most, but for the rest of an epoch.
const maxHistory = 10_000

// fateAt is GET /v1/streams/{name}/events/{partition}/{offset}/fate: what became of an event.
func (e *endpoints) fateAt(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.Stream)
	if err != nil {
		return err
	}
	p, err := strconv.ParseUint(c.Params("partition"), 10, 31)
	if err != nil {
		return badParameter("partition", c.Params("partition"), "partitions are numbered from 0")
	}
	o, err := strconv.ParseUint(c.Params("offset"), 10, 63)
	if err != nil {
		return badParameter("offset", c.Params("offset"), "offsets are numbered from 0")
	}
	ctx, cancel := e.waiting(c, fateWait)
	defer cancel()
	answer, err := e.Fate(ctx, n, int32(p), int64(o))
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

// fateByID is GET /v1/streams/{name}/fate?id=.
func (e *endpoints) fateByID(c *fiber.Ctx) error {
	if err := allow(c, "id"); err != nil {
		return err
	}
	n, err := name(c, catalog.Stream)
	if err != nil {
		return err
	}
	id := c.Query("id")
	if id == "" {
		return problem.New(400, "bad_parameter", "id is missing").WithHint("ask with ?id= and the event's id, or by place: /v1/streams/%s/events/{partition}/{offset}/fate", n)
	}
	ctx, cancel := e.waiting(c, fateWait)
	defer cancel()
	answer, err := e.FateByID(ctx, n, strings.Clone(id))
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

// rowHistory is GET /v1/views/{name}/rows/history?key=: the changes of one row, oldest first.
func (e *endpoints) rowHistory(c *fiber.Ctx) error {
	if err := allow(c, "key", "limit", "cursor"); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	limit, err := whole(c, "limit", defaultRows, 1, maxHistory)
	if err != nil {
		return err
	}
	ctx, cancel := e.waiting(c, fateWait)
	defer cancel()
	answer, err := e.RowHistory(ctx, n, strings.Clone(c.Query("key")), strings.Clone(c.Query("cursor")), int(limit))
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

// maxRowEvents is how many events one answer names at most.
const maxRowEvents = 10_000

// rowEvents is GET /v1/views/{name}/rows/events?key=: the events that a row is made of.
func (e *endpoints) rowEvents(c *fiber.Ctx) error {
	if err := allow(c, "key", "limit"); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	limit, err := whole(c, "limit", defaultRows/5, 1, maxRowEvents)
	if err != nil {
		return err
	}
	ctx, cancel := e.waiting(c, fateWait)
	defer cancel()
	defer watchClient(c.Context().Conn(), cancel)()
	answer, err := e.RowEvents(ctx, n, strings.Clone(c.Query("key")), int(limit))
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

// explainView is GET /v1/views/{name}/explain: the plan, and what each operator keeps.
func (e *endpoints) explainView(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.View)
	if err != nil {
		return err
	}
	ctx, cancel := e.waiting(c, fateWait)
	defer cancel()
	answer, err := e.Explain(ctx, n)
	if err != nil {
		return err
	}
	return c.JSON(answer)
}
