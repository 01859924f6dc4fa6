package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// Config is the definition of a stream as users write it, the body of its PUT. In a Config that
// comes from a user, zero and nil fields are members that were not given; in that of a [Stream]
// all that have a default are filled in.
type Config struct {
	Partitions        int        `json:"partitions,omitempty"`
	TimeField         string     `json:"time_field,omitempty"`
	KeyField          string     `json:"key_field,omitempty"`
	IDField           string     `json:"id_field,omitempty"`
	Columns           Columns    `json:"columns,omitempty"`
	MaxOutOfOrderness *Duration  `json:"max_out_of_orderness,omitempty"`
	IdleTimeout       *Duration  `json:"idle_timeout,omitempty"` // 0: never idle
	IdleAdvance       *bool      `json:"idle_advance,omitempty"`
	MaxAhead          *Duration  `json:"max_ahead,omitempty"`
	MaxSkew           *Duration  `json:"max_skew,omitempty"`
	DedupeWindow      *Duration  `json:"dedupe_window,omitempty"` // 0: ids are not remembered
	Retention         *Retained  `json:"retention,omitempty"`
	Compact           *bool      `json:"compact,omitempty"`
	PrimaryKey        []string   `json:"primary_key,omitempty"`
	Format            string     `json:"format,omitempty"`
	Privacy           *Protected `json:"privacy,omitempty"`
}

// Retained is the member "retention": how long events are kept, by append time, and how many bytes
// of them. What is not given is no bound; {} keeps everything.
type Retained struct {
	Age   *Duration `json:"age,omitempty"`
	Bytes Size      `json:"bytes,omitempty"`
}

// Protected is the member "privacy".
type Protected struct {
	SubjectField string   `json:"subject_field"`
	Fields       []string `json:"fields"`
}

// Defaults of a stream's configuration.
const (
	DefaultMaxOutOfOrderness = Duration(5 * time.Second)
	DefaultIdleTimeout       = Duration(30 * time.Second)
	DefaultMaxAhead          = Duration(24 * time.Hour)
	DefaultMaxSkew           = Duration(5 * time.Second)
	DefaultDedupeWindow      = Duration(24 * time.Hour)

	// LeastRetention is the least that events can be kept: retention looks once a minute.
	LeastRetention = Duration(time.Minute)

	// MaxPartitions bounds a stream's partitions.
	MaxPartitions = 1024
)

// configMembers are the members of a definition, as they are spelled.
var configMembers = []string{
	"partitions", "time_field", "key_field", "id_field", "columns", "max_out_of_orderness", "idle_timeout", "idle_advance",
	"max_ahead", "max_skew", "dedupe_window", "retention", "compact", "primary_key", "format", "privacy",
}

// ParseConfig reads the body of a PUT. What is no JSON object, an unknown member or a member of the
// wrong JSON type is a problem 400; a value that can't be is one of 422. An empty body is {}; a
// member that is null was not given.
func ParseConfig(body []byte) (Config, error) {
	var c Config
	if len(bytes.TrimSpace(body)) == 0 {
		return c, nil
	}
	const hint = "the members of a stream are listed at /openapi.json"
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		p := problem.New(400, "bad_body", "the definition must be a JSON object: %v", err).WithHint(hint)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			p = p.At(int(syntax.Offset))
		}
		return c, p
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(configMembers, name) {
			return c, problem.New(400, "unknown_member", "a stream has no member %q", name).
				WithHint("its members are %s", strings.Join(configMembers, ", "))
		}
		d := json.NewDecoder(bytes.NewReader(fmt.Appendf(nil, "{%q:%s}", name, members[name])))
		d.DisallowUnknownFields()
		err := d.Decode(&c)
		if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return c, problem.New(400, "bad_body", "member %q can't be a JSON %s", cmp.Or(mismatch.Field, name), mismatch.Value).WithHint(hint)
		}
		if err != nil && strings.HasPrefix(err.Error(), "json: unknown field ") {
			return c, problem.New(400, "unknown_member", "%s has no member %s", name, strings.TrimPrefix(err.Error(), "json: unknown field ")).WithHint(hint)
		}
		if err != nil {
			wrong = append(wrong, name+": "+err.Error())
		}
	}
	if n, given := members["partitions"]; given && c.Partitions == 0 && string(n) != "null" {
		wrong = append(wrong, "partitions: 0 is less than 1")
	}
	if len(wrong) > 0 {
		return c, problem.New(422, "bad_config", "%s", strings.Join(wrong, "; ")).WithHint("mend these members and send the definition again")
	}
	return c, c.Validate()
}

// Validate returns a problem 422 that names all mistakes, or nil.
func (c Config) Validate() error {
	if p := c.notYet(); p != nil {
		return p
	}
	var wrong []string
	if c.Partitions < 0 || c.Partitions > MaxPartitions {
		wrong = append(wrong, fmt.Sprintf("partitions is %d and must be 1 to %d", c.Partitions, MaxPartitions))
	}
	for i, col := range c.Columns {
		if _, err := row.ParseType(col.Type); err != nil {
			wrong = append(wrong, fmt.Sprintf("column %q: %v", col.Name, err))
		} else if t, _ := row.ParseType(col.Type); !isColumnType(t) {
			wrong = append(wrong, fmt.Sprintf("column %q: %s can't be the type of a column", col.Name, t))
		}
		if why := badColumnName(col.Name); why != "" {
			wrong = append(wrong, why)
		}
		if slices.ContainsFunc(c.Columns[:i], func(o Column) bool { return strings.EqualFold(o.Name, col.Name) }) {
			wrong = append(wrong, fmt.Sprintf("column %q is given twice (names are case-insensitive)", col.Name))
		}
		if t, err := row.ParseType(col.Type); err == nil && strings.EqualFold(col.Name, c.TimeField) && t.Kind != row.Timestamp {
			wrong = append(wrong, fmt.Sprintf("column %q is the time_field and must be TIMESTAMP, not %s", col.Name, t))
		}
	}
	if c.Retention != nil && c.Retention.Age != nil && *c.Retention.Age < LeastRetention {
		wrong = append(wrong, fmt.Sprintf("retention.age is %s and must be at least %s", *c.Retention.Age, LeastRetention))
	}
	if len(c.Columns) > MaxColumns {
		wrong = append(wrong, fmt.Sprintf("there are %d columns and at most %d are possible", len(c.Columns), MaxColumns))
	}
	if len(wrong) == 0 {
		return nil
	}
	return problem.New(422, "bad_config", "%s", strings.Join(wrong, "; ")).
		WithHint("mend these members and send the definition again")
}

// badColumnName says why a name can't be that of a column; "" when it can.
func badColumnName(name string) string {
	switch {
	case name == "":
		return "a column has an empty name"
	case len(name) > 255:
		return fmt.Sprintf("column %.40q… has a name of %d bytes; at most 255 are possible", name, len(name))
	case slices.Contains(PseudoColumns, strings.ToLower(name)):
		return fmt.Sprintf("column %q has the name of a column that every stream has", name)
	}
	return ""
}

// PseudoColumns are the columns that every stream has besides its own.
var PseudoColumns = []string{"_time", "_append_time", "_partition", "_offset", "_key", "_sequence"}

// isColumnType reports whether events can carry values of the type.
func isColumnType(t row.Type) bool {
	switch t.Kind {
	case row.Null, row.Interval, row.Blob:
		return false
	case row.List:
		return isColumnType(*t.Elem)
	case row.Struct:
		for _, f := range t.Fields {
			if !isColumnType(f.Type) {
				return false
			}
		}
	}
	return true
}

// notYet refuses what the contract knows and this version can't do, by name.
func (c Config) notYet() error {
	var member, instead string
	switch {
	case len(c.PrimaryKey) > 0:
		member, instead = "primary_key", "make a view that keeps the latest row a key: QUALIFY row_number() OVER (PARTITION BY id ORDER BY _time DESC) <= 1"
	case c.Format != "":
		member, instead = "format", "unwrap the envelopes before they are sent"
	case c.Privacy != nil:
		member, instead = "privacy", "leave personal fields out of the events, or replace them by a hash"
	default:
		return nil
	}
	return problem.New(422, "not_yet", "this version can't do %q on a stream yet", member).WithHint("%s", instead)
}

// withDefaults fills in what was not given.
func (c Config) withDefaults() Config {
	fill := func(d **Duration, v Duration) {
		if *d == nil {
			*d = &v
		}
	}
	if c.Partitions == 0 {
		c.Partitions = 1
	}
	fill(&c.MaxOutOfOrderness, DefaultMaxOutOfOrderness)
	fill(&c.IdleTimeout, DefaultIdleTimeout)
	fill(&c.MaxAhead, DefaultMaxAhead)
	fill(&c.MaxSkew, DefaultMaxSkew)
	fill(&c.DedupeWindow, DefaultDedupeWindow)
	if c.IdleAdvance == nil {
		yes := true
		c.IdleAdvance = &yes
	}
	return c
}

// over returns c with the members that were not given taken from old: an update changes what it
// names and leaves the rest.
func (c Config) over(old Config) Config {
	if c.Partitions == 0 {
		c.Partitions = old.Partitions
	}
	keepText := func(s *string, old string) {
		if *s == "" {
			*s = old
		}
	}
	keepText(&c.TimeField, old.TimeField)
	keepText(&c.KeyField, old.KeyField)
	keepText(&c.IDField, old.IDField)
	keep := func(d **Duration, old *Duration) {
		if *d == nil {
			*d = old
		}
	}
	keep(&c.MaxOutOfOrderness, old.MaxOutOfOrderness)
	keep(&c.IdleTimeout, old.IdleTimeout)
	keep(&c.MaxAhead, old.MaxAhead)
	keep(&c.MaxSkew, old.MaxSkew)
	keep(&c.DedupeWindow, old.DedupeWindow)
	if c.Retention == nil {
		c.Retention = old.Retention
	}
	if c.Compact == nil {
		c.Compact = old.Compact
	}
	if c.IdleAdvance == nil {
		c.IdleAdvance = old.IdleAdvance
	}
	return c
}

func (c Config) compacts() bool { return c.Compact != nil && *c.Compact }

// checkCompact refuses what compaction can't work with, in a configuration that is filled in (B2).
func (c Config) checkCompact() error {
	if c.compacts() && c.KeyField == "" {
		return problem.New(422, "bad_config", "compact needs key_field: the last event of each key is kept").
			WithHint(`give the field that holds the key: {"compact":true,"key_field":"user"}`)
	}
	return nil
}

// settings are what the log needs to know of a configuration that is filled in.
func (c Config) settings(name string) Settings {
	var kept Retention
	if c.Retention != nil {
		kept.Bytes = int64(c.Retention.Bytes)
		if c.Retention.Age != nil {
			kept.Age = time.Duration(*c.Retention.Age)
		}
	}
	return Settings{
		Retention: kept,
		Compact:   c.compacts(),
		Name:      name, Partitions: c.Partitions, MaxSkew: time.Duration(*c.MaxSkew), IdleTimeout: time.Duration(*c.IdleTimeout),
		IdleAdvance: *c.IdleAdvance, DedupeWindow: time.Duration(*c.DedupeWindow),
	}
}
