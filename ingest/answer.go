package ingest

import (
	"encoding/json"
	"slices"
	"strconv"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// Answer says what became of a request.
type Answer struct {
	Accepted    int          `json:"accepted"`
	Duplicates  int          `json:"duplicates"`
	DeadLetters int          `json:"dead_letters"`
	Errors      []EventError `json:"errors"`
	Appended    []Appended   `json:"appended"`
	Receipt     string       `json:"receipt"`
	Created     []Created    `json:"created,omitempty"`

	// Status is 200, or 202 when the events may not be on disk yet.
	Status int `json:"-"`
	// kept is the answer that was given before under the same idempotency key.
	kept []byte
}

// EventError is an event of a request that was not appended. Index is its place in the request.
type EventError struct {
	Index       int           `json:"index"`
	Stream      string        `json:"stream,omitempty"` // of mixed bodies
	Code        string        `json:"code"`
	Reason      string        `json:"reason,omitempty"`
	DuplicateOf *stream.Place `json:"duplicate_of,omitempty"`
	DeadLetter  string        `json:"dead_letter,omitempty"`
}

// Appended is a run of offsets that a request's events got, both ends in.
type Appended struct {
	Stream string `json:"stream,omitempty"` // of mixed bodies
	stream.Range
}

// Created says that a stream was made by its first events, and what was chosen for it.
type Created struct {
	Stream    string  `json:"stream"`
	TimeField *string `json:"time_field"`
	Note      string  `json:"note"`
}

// JSON is the body of the answer.
func (a *Answer) JSON() []byte {
	if a.kept != nil {
		return a.kept
	}
	if len(a.Errors) == 0 && len(a.Created) == 0 {
		return a.appendGood(make([]byte, 0, 256))
	}
	out, err := json.Marshal(a)
	if err != nil {
		panic(err) // plain values only
	}
	return out
}

// appendGood writes an answer without errors, as most are, without reflection.
func (a *Answer) appendGood(b []byte) []byte {
	number := func(name string, n int64) {
		b = strconv.AppendInt(append(b, name...), n, 10)
	}
	number(`{"accepted":`, int64(a.Accepted))
	number(`,"duplicates":`, int64(a.Duplicates))
	number(`,"dead_letters":`, int64(a.DeadLetters))
	b = append(b, `,"errors":[],"appended":[`...)
	for i, r := range a.Appended {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		if r.Stream != "" {
			b = append(row.AppendJSONString(append(b, `"stream":`...), r.Stream), ',')
		}
		number(`"partition":`, int64(r.Partition))
		number(`,"first_offset":`, int64(r.First))
		number(`,"last_offset":`, int64(r.Last))
		b = append(b, '}')
	}
	b = row.AppendJSONString(append(b, `],"receipt":`...), a.Receipt)
	return append(b, '}')
}

// Repeated reports whether the answer was first given to an earlier request under the same
// idempotency key.
func (a *Answer) Repeated() bool { return a.kept != nil }

func newCreated(s *stream.Stream) Created {
	c := Created{Stream: s.Name}
	if f := s.Config.TimeField; f != "" {
		c.TimeField = &f
		c.Note = "the stream was created; event time is read from " + strconv.Quote(f)
	} else {
		c.Note = "the stream was created; event time is the time of arrival, because the first event has none of the fields ts, timestamp, " +
			"time, event_time, occurred_at, created_at with a time in it"
	}
	c.Note += "; to change that, DELETE /v1/streams/" + s.Name + `, PUT it with another "time_field", and send the events again`
	return c
}

// answer puts together what became of the parts of a request.
func (in *Ingester) answer(parts []*part, done []stream.Appended, mixed bool) *Answer {
	a := &Answer{Errors: []EventError{}, Appended: []Appended{}, Status: 200}
	var last stream.Sequence
	for i, p := range parts {
		name := ""
		if mixed {
			name = p.stream.Name
		}
		ap, out := done[i], p.out
		a.Accepted += out.events.Len() - len(ap.Duplicates)
		a.Duplicates += len(ap.Duplicates)
		a.DeadLetters += len(out.bad)
		for _, d := range ap.Duplicates {
			of := d.Of
			a.Errors = append(a.Errors, EventError{Index: int(out.index[d.Index]), Stream: name, Code: "duplicate", DuplicateOf: &of})
		}
		for k, b := range out.bad {
			e := EventError{Index: b.index, Stream: name, Code: b.code, Reason: b.reason}
			if k < len(ap.DeadLetters) {
				e.DeadLetter = strconv.FormatUint(ap.DeadLetters[k], 10)
			}
			a.Errors = append(a.Errors, e)
		}
		for _, r := range ap.Ranges {
			a.Appended = append(a.Appended, Appended{name, r})
		}
		if p.created {
			a.Created = append(a.Created, newCreated(p.stream))
		}
		last = max(last, ap.Sequence)
	}
	if last == 0 {
		last = in.log.End()
	}
	slices.SortStableFunc(a.Errors, func(x, y EventError) int { return x.Index - y.Index })
	a.Receipt = stream.Position{Log: in.log.ID(), Sequence: last}.String()
	return a
}

// refused is the problem of a strict request with events that can't be used.
func refused(bad []EventError) error {
	slices.SortStableFunc(bad, func(x, y EventError) int { return x.Index - y.Index })
	p := problem.New(422, "bad_events", "%d of the events can't be used, the first is number %d: %s", len(bad), bad[0].Index, bad[0].Reason).
		WithHint("nothing was appended; mend the events, or leave out strict=true to have the others taken and these kept as dead letters")
	return p.With("errors", bad)
}
