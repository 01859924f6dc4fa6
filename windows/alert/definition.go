package alert

import (
	"encoding/json"
	"regexp"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/windows/runtime"
)

// Definition is the body of PUT /v1/alerts/{name}: a view's options and what to say.
type Definition struct {
	runtime.Definition
	Words
	// Cooldown is not taken yet; it is here to be refused by name.
	Cooldown json.RawMessage `json:"cooldown,omitempty"`
}

// Words are what an alert says. They can be changed without firing anything again.
type Words struct {
	// Severity is any short word; "warning" unless given.
	Severity string `json:"severity"`
	// Title is a text with columns in braces: "card {card}: {n} payments". The name unless given.
	Title string `json:"title"`
}

// Bounds of the words.
const (
	maxSeverity = 32
	maxTitle    = 500
)

// ParseDefinition reads the body of a PUT; unknown members are a problem with status 400.
func ParseDefinition(body []byte) (Definition, error) {
	var d Definition
	return d, runtime.DecodeStrict(body, &d)
}

// placeholder is a column in a title.
var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// resolve fills in defaults and checks the words against the columns.
func (d Definition) resolve(name string, fields []row.Field) (Words, error) {
	w := d.Words
	if len(d.Cooldown) > 0 && string(d.Cooldown) != "null" {
		return w, problem.New(422, "not_yet", `"cooldown" can't be had yet`).
			WithHint("leave it out, and count in a window instead: one row a card and hour fires once")
	}
	if w.Severity == "" {
		w.Severity = "warning"
	}
	if len(w.Severity) > maxSeverity {
		return w, problem.New(422, "bad_severity", "severity has %d bytes; at most %d are taken", len(w.Severity), maxSeverity).
			WithHint(`a short word such as "info", "warning" or "critical"`)
	}
	if w.Title == "" {
		w.Title = name
	}
	if len(w.Title) > maxTitle {
		return w, problem.New(422, "bad_title", "title has %d bytes; at most %d are taken", len(w.Title), maxTitle).
			WithHint("say less; the row itself goes along with the alert")
	}
	for _, p := range placeholder.FindAllString(w.Title, -1) {
		if row.FieldIndex(fields, p[1:len(p)-1]) < 0 {
			return w, problem.New(422, "unknown_column", "the title speaks of %s, and the SQL gives no such column", p).
				WithHint("the columns are %s", columnNames(fields)).With("column", p[1:len(p)-1])
		}
	}
	return w, nil
}

func columnNames(fields []row.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// title fills in the columns of row i.
func (w Words) title(fields []row.Field, b *row.Batch, i int) string {
	return placeholder.ReplaceAllStringFunc(w.Title, func(p string) string {
		c := row.FieldIndex(fields, p[1:len(p)-1])
		if c < 0 {
			return p
		}
		if b.Cols[c].IsNull(i) {
			return "NULL"
		}
		return row.TextOf(b.Cols[c], i)
	})
}
