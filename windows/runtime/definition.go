package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// Duration is a span of time as users write it, such as "5s" or "7d".
type Duration = stream.Duration

// Definition is what a user says of a view: the body of PUT /v1/views/{name}. Members that are
// left out have the defaults that Resolve fills in.
type Definition struct {
	SQL string `json:"sql"`
	// MaxOutOfOrderness replaces that of the view's streams.
	MaxOutOfOrderness *Duration `json:"max_out_of_orderness,omitempty"`
	// Late is "correct" or "drop"; AllowedLateness is how long after its end a window takes
	// corrections, 1h unless given.
	Late            string    `json:"late,omitempty"`
	AllowedLateness *Duration `json:"allowed_lateness,omitempty"`
	// Emit is "changes" or "final".
	Emit string `json:"emit,omitempty"`
	// Throttle is the least time between two epochs of provisional changes, 100ms unless given; 0:
	// none. Epoch is how long changes gather before they are committed, 0 unless given.
	Throttle *Duration `json:"throttle,omitempty"`
	Epoch    *Duration `json:"epoch,omitempty"`
	// Start is where the view begins to read: "earliest", "latest", or an instant.
	Start string `json:"start,omitempty"`
	// Retention bounds the view's rows, by their windows' end or event time behind the watermark, and
	// its changes, by append time. Left out: as long as all its streams keep their events (R3).
	Retention *Retention `json:"retention,omitempty"`
}

// Retention is how long rows and changes are kept, written as {"age":"7d"}, or "7d" for short.
type Retention struct {
	Age Duration `json:"age"`
}

// UnmarshalJSON reads both forms.
func (r *Retention) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &r.Age)
	}
	type plain Retention
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode((*plain)(r))
}

// The words of a definition.
const (
	LateCorrect   = "correct"
	LateDrop      = "drop"
	EmitChanges   = "changes"
	EmitFinal     = "final"
	StartEarliest = "earliest"
	StartLatest   = "latest"
)

// Defaults of a definition.
const (
	defaultThrottle = Duration(100 * time.Millisecond)
	defaultLateness = Duration(time.Hour)
	maxSQL          = 32 << 10
)

// ParseDefinition reads the body of a PUT. Members that are not known are refused by name.
func ParseDefinition(body []byte) (Definition, error) {
	var d Definition
	return d, DecodeStrict(body, &d)
}

// DecodeStrict reads one JSON object into a struct. Unknown members, what is no JSON and what
// follows the object are problems with status 400; a value of a member that can't be, such as a
// duration of "soon", is one with status 422.
func DecodeStrict(body []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if isValue(err) {
			return problem.New(422, "bad_option", "%v", err).WithHint(`durations are texts such as "5s" or "7d"`)
		}
		p := problem.New(400, "bad_body", "the body can't be read: %s", strings.TrimPrefix(err.Error(), "json: "))
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			p.At(int(syntax.Offset))
		}
		return p.WithHint(`send one JSON object such as {"sql":"SELECT …"}; durations are texts such as "5s" or "7d"`)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return problem.New(400, "bad_body", "something follows the JSON object").At(int(dec.InputOffset()))
	}
	return nil
}

// isValue reports whether JSON could be read, but not one of its values: the error of a type of ours.
func isValue(err error) bool {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	return !errors.As(err, &syntax) && !errors.As(err, &mismatch) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!strings.HasPrefix(err.Error(), "json: ")
}

// Resolve returns the definition with all defaults filled in, or the problem with it.
func (d Definition) Resolve() (Definition, error) {
	bad := func(detail, hint string, args ...any) (Definition, error) {
		return d, problem.New(422, "bad_option", detail, args...).WithHint("%s", hint)
	}
	if strings.TrimSpace(d.SQL) == "" {
		return bad(`"sql" is missing`, `give the view's SELECT, such as {"sql":"SELECT country, count(*) AS n FROM checkouts GROUP BY ALL"}`)
	}
	if len(d.SQL) > maxSQL {
		return d, problem.New(413, "too_large", "the SQL text has %d bytes; at most %d are taken", len(d.SQL), maxSQL).
			WithHint("make a view of a part of it, and read that")
	}
	d.Late = or(d.Late, LateCorrect)
	switch d.Late {
	case LateCorrect:
		if d.AllowedLateness == nil {
			d.AllowedLateness = ptr(defaultLateness)
		}
	case LateDrop:
		if d.AllowedLateness != nil && *d.AllowedLateness > 0 {
			return bad(`"late" is drop, and "allowed_lateness" is %s`, `drop means that no window waits for late events: leave out allowed_lateness, or set "late" to "correct"`, d.AllowedLateness)
		}
		d.AllowedLateness = ptr(Duration(0))
	default:
		return bad(`"late" is %q`, `"late" is "correct" or "drop"`, d.Late)
	}
	d.Emit = or(d.Emit, EmitChanges)
	if d.Emit != EmitChanges && d.Emit != EmitFinal {
		return bad(`"emit" is %q`, `"emit" is "changes" or "final"`, d.Emit)
	}
	if d.Throttle == nil {
		d.Throttle = ptr(defaultThrottle)
	}
	if d.Epoch == nil {
		d.Epoch = ptr(Duration(0))
	}
	if d.Retention != nil && d.Retention.Age < stream.LeastRetention {
		return bad(`"retention" is %s`, `"retention" is {"age":"7d"} or more, at least %s; leave it out and the view keeps its rows as long as its streams their events`, d.Retention.Age, stream.LeastRetention)
	}
	d.Start = or(d.Start, StartEarliest)
	if d.Start != StartEarliest && d.Start != StartLatest {
		at, err := row.ParseTime([]byte(d.Start))
		if err != nil {
			return bad(`"start" is %q`, `"start" is "earliest", "latest" or an instant such as "2024-01-01T00:00:00Z"`, d.Start)
		}
		d.Start = string(row.FormatTimestamp(nil, at))
	}
	return d, nil
}

func ptr[T any](v T) *T { return &v }

func or(s, whenEmpty string) string {
	if s == "" {
		return whenEmpty
	}
	return s
}

// sameRows reports whether two resolved definitions give the same rows, so that going from one to
// the other needs no rebuild.
func (d Definition) sameRows(o Definition) bool {
	return d.SQL == o.SQL && same(d.MaxOutOfOrderness, o.MaxOutOfOrderness) && d.Late == o.Late &&
		same(d.AllowedLateness, o.AllowedLateness) && d.Emit == o.Emit && d.Start == o.Start
}

// equal reports whether two resolved definitions are the same.
func (d Definition) equal(o Definition) bool {
	return d.sameRows(o) && same(d.Throttle, o.Throttle) && same(d.Epoch, o.Epoch) && same(d.Retention, o.Retention)
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
