// Package problem is the one kind of error that users see: an RFC 9457 problem.
//
// A package that knows what the user did wrong returns a *Problem; the edges (web, ingest/httpapi)
// find it with errors.As, add the request id and write it. Any other error is ours: it is logged
// under the request id and shown as a plain 500.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// Problem says what happened, where, and what to do now.
type Problem struct {
	// Status is the HTTP status, such as 422.
	Status int
	// Code is the stable name of the kind of problem, such as "unknown_column"; it becomes the
	// last part of the problem's type.
	Code string
	// Title is one short sentence that is the same for every problem of this code.
	Title string
	// Detail says what is wrong in this request, with names and values.
	Detail string
	// Hint is the next step.
	Hint string
	// Position is the byte offset in a SQL text or body that Detail speaks of; −1 when there is none.
	Position int
	// RetryAfter in seconds is sent as a header when above 0.
	RetryAfter int
	// Extra are further members of the answer, such as first_offset.
	Extra map[string]any
	// Cause is for the log only.
	Cause error
}

// New returns a problem. Detail is formatted with args.
func New(status int, code, detail string, args ...any) *Problem {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}
	return &Problem{Status: status, Code: code, Detail: detail, Position: -1}
}

// WithHint adds the next step.
func (p *Problem) WithHint(hint string, args ...any) *Problem {
	if len(args) > 0 {
		hint = fmt.Sprintf(hint, args...)
	}
	p.Hint = hint
	return p
}

// At adds a byte offset.
func (p *Problem) At(position int) *Problem {
	p.Position = position
	return p
}

// With adds a member to the answer.
func (p *Problem) With(name string, value any) *Problem {
	if p.Extra == nil {
		p.Extra = map[string]any{}
	}
	p.Extra[name] = value
	return p
}

// Error is the detail and the hint on one line, as the command line shows them.
func (p *Problem) Error() string {
	s := p.Detail
	if p.Hint != "" {
		s += ": " + p.Hint
	}
	return s
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// From finds the problem in err, or makes the plain 500 that hides what is ours to mend.
func From(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	p = New(500, "internal", "the server could not do this").
		WithHint("try again; if it stays, look for the request id in the server's log")
	p.Cause = err
	return p
}

// titles are the titles of codes that set none, by status.
var titles = map[int]string{
	400: "The request could not be understood", 401: "Sign in or send a key", 403: "Not allowed",
	404: "Not found", 405: "This method is not for this address", 408: "The request took too long",
	409: "The request is in conflict with what is there", 410: "No longer there", 412: "Changed meanwhile",
	413: "Too large",
	415: "This kind of body is not taken", 421: "This server does not answer to that name",
	422: "The request can't be carried out as it stands", 429: "Too many requests",
	431: "The headers are too large", 500: "The server made a mistake", 503: "Not available now",
	504: "The deadline has passed",
}

// JSON is the problem document. requestID also stands in the log.
func (p *Problem) JSON(requestID string) []byte {
	m := map[string]any{}
	maps.Copy(m, p.Extra)
	m["type"] = "/problems/" + p.Code
	m["status"] = p.Status
	m["detail"] = p.Detail
	m["title"] = p.Title
	if p.Title == "" {
		m["title"] = titles[p.Status]
	}
	if requestID != "" {
		m["request_id"] = requestID
	}
	if p.Hint != "" {
		m["hint"] = p.Hint
	}
	if p.Position >= 0 {
		m["position"] = p.Position
	}
	out, err := json.Marshal(m)
	if err != nil {
		panic(err) // Extra holds plain values only
	}
	return out
}

// ContentType of a problem document.
const ContentType = "application/problem+json"
