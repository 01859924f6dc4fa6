package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/web/auth"
)

// maxDefinition bounds the body of a definition or a query.
const maxDefinition = 1 << 20

// name is the thing that the address names.
func name(c *fiber.Ctx, kind catalog.Kind) (string, error) {
	n := strings.Clone(c.Params("name"))
	return n, catalog.CheckName(kind, n)
}

// allow refuses parameters that an endpoint does not have.
func allow(c *fiber.Ctx, names ...string) error {
	for k := range c.Context().QueryArgs().All() {
		if slices.Contains(names, string(k)) {
			continue
		}
		p := problem.New(400, "unknown_parameter", "there is no parameter %.60q here", k)
		if len(names) > 0 {
			return p.WithHint("the parameters are %s", strings.Join(names, ", "))
		}
		return p.WithHint("leave it out: this address takes none")
	}
	return nil
}

func badParameter(name, value, hint string, args ...any) error {
	return problem.New(400, "bad_parameter", "%s=%.80s can't be read", name, value).WithHint(hint, args...)
}

// whole is a parameter between two bounds.
func whole(c *fiber.Ctx, name string, otherwise, least, most int64) (int64, error) {
	text := c.Query(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, badParameter(name, text, "give a whole number from %d to %d", least, most)
	}
	return n, nil
}

func flag(c *fiber.Ctx, name string) (bool, error) {
	text := c.Query(name)
	switch text {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, badParameter(name, text, "give true or false")
}

func span(c *fiber.Ctx, name string, most time.Duration) (time.Duration, error) {
	text := c.Query(name)
	if text == "" {
		return 0, nil
	}
	d, err := stream.ParseDuration(text)
	if err != nil || time.Duration(d) > most {
		return 0, badParameter(name, text, "give a time such as 5s, at most %s", stream.Duration(most))
	}
	return time.Duration(d), nil
}

// body is the request's body, read as JSON.
func body(c *fiber.Ctx) ([]byte, error) {
	if coding := c.Get(fiber.HeaderContentEncoding); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, problem.New(415, "no_compression", "the body is encoded as %.40q", coding).
			WithHint("send definitions and queries as they are; events may be compressed")
	}
	if kind := c.Get(fiber.HeaderContentType); kind != "" {
		media, params, err := mime.ParseMediaType(kind)
		charset := strings.ToLower(params["charset"])
		known := media == "application/json" || media == "text/plain" || media == "application/x-www-form-urlencoded" || strings.HasSuffix(media, "+json")
		if err != nil || !known || charset != "" && charset != "utf-8" && charset != "us-ascii" {
			return nil, problem.New(415, "not_json", "the body is %.80q", kind).WithHint("send JSON in UTF-8 as application/json")
		}
	}
	b := c.Request().Body()
	if len(b) > maxDefinition {
		return nil, problem.New(413, "body_too_large", "the body has %d bytes; at most %d are taken here", len(b), maxDefinition).
			WithHint("definitions and queries are small: send less").With("limit", maxDefinition)
	}
	return bytes.Clone(b), nil
}

// decode reads a body strictly into a struct.
func decode(c *fiber.Ctx, into any, hint string) error {
	b, err := body(c)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		p := problem.New(400, "bad_body", "the body can't be read: %s", strings.TrimPrefix(err.Error(), "json: ")).WithHint(hint)
		var syntax *json.SyntaxError
		var wrong *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			p.At(int(syntax.Offset))
		case errors.As(err, &wrong):
			p.Detail = wrong.Field + ": " + wrong.Value + " is not what is expected here"
			p.At(int(wrong.Offset))
		case errors.Is(err, io.EOF):
			p.Detail = "the body is empty"
		}
		return p
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return problem.New(400, "bad_body", "something follows the JSON object").WithHint("send one object").At(int(dec.InputOffset()))
	}
	return nil
}

// waiting is a context for waits: it ends with the request's own, after a time, or when the server
// stops.
func (e *endpoints) waiting(c *fiber.Ctx, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.UserContext(), limit)
	if e.Stopping == nil {
		return ctx, cancel
	}
	go func() { // ends with the context at the latest
		select {
		case <-e.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// stops reports whether the server is stopping.
func (e *endpoints) stops() bool {
	select {
	case <-e.Stopping:
		return e.Stopping != nil
	default:
		return false
	}
}

func serverStops() error {
	p := problem.New(503, "server_stops", "the server is stopping").WithHint("send the request again in a few seconds")
	p.RetryAfter = 2
	return p
}

// list answers one page of a list that is sorted by name.
func list[T any](c *fiber.Ctx, what string, all []T, nameOf func(T) string, show func(T) (any, error)) error {
	if err := allow(c, "limit", "cursor"); err != nil {
		return err
	}
	limit, err := whole(c, "limit", 1000, 1, 10_000)
	if err != nil {
		return err
	}
	after, err := cursor(c, what)
	if err != nil {
		return err
	}
	items := []any{}
	var next any
	who := auth.Of(c)
	for _, one := range all {
		if relations := what != "dashboards" && what != "groups"; relations && !who.Covers(nameOf(one)) {
			continue
		}
		if after != "" && nameOf(one) <= after {
			continue
		}
		if len(items) == int(limit) {
			next = makeCursor(what, after)
			break
		}
		after = nameOf(one)
		shown, err := show(one)
		if err != nil {
			return err
		}
		items = append(items, shown)
	}
	return c.JSON(fiber.Map{"items": items, "next": next})
}

// A cursor is the kind of list and the place in it.
func makeCursor(what, at string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(what + "\x00" + at))
}

func cursor(c *fiber.Ctx, what string) (at string, err error) {
	text := c.Query("cursor")
	if text == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	kind, at, ok := strings.Cut(string(b), "\x00")
	if err != nil || !ok || kind != what {
		return "", problem.New(400, "bad_cursor", "this is no cursor of this list").WithHint(`take "next" of the page before, or leave cursor out`)
	}
	return at, nil
}

// created answers a PUT.
func created(c *fiber.Ctx, isNew bool, answer any) error {
	if isNew {
		c.Status(fiber.StatusCreated)
	}
	return c.JSON(answer)
}
