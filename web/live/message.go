package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// Close codes of the protocol.
const (
	closeBadMessage = 4400
	closeNoKey      = 4401
	closeTooSlow    = 4408
	closeGroupTaken = 4409
)

// op is what a client asks. Members that an op does not use are not looked at.
type op struct {
	Op          string          `json:"op"`
	ID          string          `json:"id"`
	To          string          `json:"to"`
	From        json.RawMessage `json:"from"`
	Where       string          `json:"where"`
	Range       json.RawMessage `json:"range"`
	Order       string          `json:"order"`
	Limit       int             `json:"limit"`
	Fold        *bool           `json:"fold"`
	Group       string          `json:"group"`
	MaxInFlight int             `json:"max_in_flight"`
	Position    string          `json:"position"`

	shown *Shown // what the client sees of a view's rows
}

// showing is the name of what the client sees.
func (o op) showing() string {
	if o.shown == nil {
		return ""
	}
	return o.shown.Name
}

// badMessage is the error of a message that ends its socket with 4400.
type badMessage string

func (b badMessage) Error() string { return string(b) }

const maxID = 64

// parseOp reads one message. What it refuses is the client's bug and ends the socket; what names
// something that is not there is answered with an error message instead.
func parseOp(data []byte) (op, error) {
	var o op
	if !utf8.Valid(data) {
		return o, badMessage("the message is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return o, notMessage(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return o, badMessage("bytes after the message")
	}
	switch o.Op {
	case "subscribe":
		if o.To == "" {
			return o, badMessage(`subscribe needs "to"`)
		}
	case "unsubscribe":
	case "ack":
		if o.Position == "" {
			return o, badMessage(`ack needs "position"`)
		}
	case "":
		return o, badMessage(`"op" is missing`)
	default:
		return o, badMessage("unknown op " + strconv.Quote(clip(o.Op, 40)))
	}
	if o.ID == "" || len(o.ID) > maxID {
		return o, badMessage(`"id" must have 1 to 64 bytes`)
	}
	return o, nil
}

// notMessage says what is wrong with a text that is no message.
func notMessage(err error) badMessage {
	const such = `, send one JSON object such as {"op":"subscribe","id":"a","to":"NAME"}`
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return badMessage(strconv.Quote(clip(kind.Field, 40)) + " can't be a JSON " + kind.Value + such)
	case errors.As(err, &kind):
		return badMessage("a message can't be a JSON " + kind.Value + such)
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return badMessage("there is no member " + clip(strings.TrimPrefix(err.Error(), "json: unknown field "), 40) + such)
	}
	return badMessage("the message is not JSON" + such)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// start is where a subscription begins.
type start struct {
	kind string // "snapshot", "latest", "earliest", "position", "time" or "" for the default
	at   stream.Position
	text string // the position as the client wrote it
	time int64  // microseconds
}

// parseStart reads "from".
func parseStart(raw json.RawMessage) (start, error) {
	bad := func() (start, error) {
		return start{}, problem.New(400, "bad_from", "from can't be read: %.100s", raw).
			WithHint(`write "snapshot", "latest", "earliest", a position, or {"time":"2024-01-01T12:00:00Z"}`)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return start{}, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		switch text {
		case "":
			return start{}, nil
		case "snapshot", "latest", "earliest":
			return start{kind: text}, nil
		}
		at, err := stream.ParsePosition(text)
		if err != nil {
			return bad()
		}
		return start{kind: "position", at: at, text: text}, nil
	}
	var object struct {
		Time *string `json:"time"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if dec.Decode(&object) != nil || object.Time == nil {
		return bad()
	}
	micros, err := row.ParseTime([]byte(*object.Time))
	if err != nil {
		return bad()
	}
	return start{kind: "time", time: micros}, nil
}

// content is what a message says behind its type, its subscription's id and its number: built once
// for all who get it, and never changed.
type content struct {
	kind string
	rest []byte // with the comma in front and the brace at the end
	// numbered: the message carries data and counts in seq (I5).
	numbered bool
	// position is where a reader stands that has the message; nil: where it stood.
	position *string
	// place and entries are for groups, which remember what is on its way.
	place   stream.Position
	entries int
}

// positioned begins the rest of a content with a position.
func positioned(kind string, at stream.Position) *content {
	position := at.String()
	return &content{kind: kind, rest: appendPosition(make([]byte, 0, 512), position), position: &position, place: at}
}

// end appends the last of the rest.
func (c *content) end(text string) *content {
	c.rest = append(c.rest, text...)
	return c
}

// appendBeginning appends what only one subscription gets of a message.
func appendBeginning(b []byte, c *content, id []byte, seq int64) []byte {
	b = append(append(append(b, `{"type":"`...), c.kind...), `","id":`...)
	b = append(b, id...)
	if c.numbered {
		b = strconv.AppendInt(append(b, `,"seq":`...), seq, 10)
	}
	return b
}

func appendPosition(b []byte, position string) []byte {
	b = append(b, `,"position":"`...)
	b = append(b, position...)
	return append(b, '"')
}

func appendAsOf(b []byte, asOf json.RawMessage) []byte {
	if len(asOf) == 0 {
		return b
	}
	return append(append(b, `,"as_of":`...), asOf...)
}

// errorContent tells a problem of one subscription. Whether trying again can help follows from
// the kind of problem: what the server could not do now, it may do later.
func errorContent(p *problem.Problem) *content {
	b := append([]byte(nil), `,"code":`...)
	b = row.AppendJSONString(b, p.Code)
	b = append(b, `,"message":`...)
	b = row.AppendJSONString(b, p.Detail)
	if p.Hint != "" {
		b = append(b, `,"hint":`...)
		b = row.AppendJSONString(b, p.Hint)
	}
	if p.Position >= 0 {
		b = strconv.AppendInt(append(b, `,"at":`...), int64(p.Position), 10)
	}
	b = append(b, `,"retryable":`...)
	b = strconv.AppendBool(b, p.Status >= 500 || p.Status == 429)
	return &content{kind: "error", rest: append(b, '}')}
}

func progressContent(at stream.Position, asOf json.RawMessage, lag time.Duration) *content {
	c := positioned("progress", at)
	c.rest = append(appendAsOf(c.rest, asOf), `,"lag_ms":`...)
	c.rest = strconv.AppendInt(c.rest, max(0, lag.Milliseconds()), 10)
	return c.end("}")
}

// reconnectMessage is about no subscription.
func reconnectMessage(after time.Duration) []byte {
	return append(strconv.AppendInt([]byte(`{"type":"reconnect","after_ms":`), after.Milliseconds(), 10), '}')
}
