package httpapi

import (
	"encoding/json"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// watermark advances a stream's watermark.
func (a *api) watermark(c *fiber.Ctx) error {
	name, err := param(c, "name")
	if err != nil {
		return err
	}
	const hint = `send {"advance_to": "2024-01-01T12:00:00Z"}, and "force": true for an instant far ahead of the clock`
	var members map[string]json.RawMessage
	if err := json.Unmarshal(c.BodyRaw(), &members); err != nil || members == nil {
		return problem.New(400, "bad_body", "the body must be one JSON object").WithHint(hint)
	}
	force := false
	to := row.NewVector(row.Scalar(row.Timestamp), 1)
	for member, value := range members {
		switch member {
		case "advance_to":
			if err := row.ParseJSONValue(to, value); err != nil {
				return problem.New(400, "bad_time", "advance_to: %v", err).WithHint(hint)
			}
		case "force":
			if err := json.Unmarshal(value, &force); err != nil {
				return problem.New(400, "bad_body", "force must be true or false").WithHint(hint)
			}
		default:
			return problem.New(400, "unknown_member", "an advance has no member %.60q", member).WithHint(hint)
		}
	}
	if to.Len() == 0 || to.IsNull(0) {
		return problem.New(400, "bad_time", "advance_to is missing").WithHint(hint)
	}
	out, err := a.in.Advance(c.UserContext(), name, to.I64[0], force)
	if err != nil {
		return err
	}
	return answerJSON(c, 200, out)
}
