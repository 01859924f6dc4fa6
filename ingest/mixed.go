package ingest

import (
	"fmt"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// streamField names the stream of an event in a mixed body.
const streamField = "stream"

// split sorts the events of a mixed body by stream. An event that does not say where it belongs has
// no dead letters to go to, so it fails the whole request.
func (in *Ingester) split(body []byte, f framing) ([]*part, error) {
	byName := map[string]*part{}
	var parts []*part
	var bad []EventError
	s := scanner{maxDepth: in.opts.MaxDepth}
	err := eachEvent(body, f, in.opts.MaxEvents, func(b []byte, i, index int, alone bool) (int, *syntaxError) {
		end, serr := s.value(b, i, 0)
		if serr != nil {
			return 0, serr
		}
		if rest := skipSpace(b, end); alone && rest < len(b) {
			return 0, &syntaxError{at: rest, want: "the end"}
		}
		name, why := streamOf(b[i:end])
		if why == "" {
			if err := catalog.CheckName(catalog.Stream, name); err != nil {
				why = err.Error()
			}
		}
		if why != "" {
			bad = append(bad, EventError{Index: index, Code: "no_stream", Reason: why})
			return end, nil
		}
		p := byName[name]
		if p == nil {
			p = &part{name: name, skip: streamField}
			byName[name] = p
			parts = append(parts, p)
		}
		raw := b[i:end:end]
		p.texts = append(p.texts, mixedEvent{raw, index})
		p.size += len(raw)
		p.events++
		return end, nil
	}, func(_ []byte, index int, serr *syntaxError) {
		bad = append(bad, EventError{Index: index, Code: codeBadJSON, Reason: fmt.Sprintf("the line is not JSON, at its byte %d", serr.at)})
	})
	if err != nil {
		return nil, err
	}
	if len(bad) > 0 {
		return nil, problem.New(422, "no_stream", "%d of the events don't say which stream they belong to, the first is number %d: %s", len(bad), bad[0].Index, bad[0].Reason).
			WithHint(`give each event a member "stream", or post to /v1/streams/NAME/events; nothing was appended`).With("errors", bad)
	}
	for _, p := range parts {
		if p.stream, err = in.find(p.name); err != nil {
			return nil, err
		}
		p.decode = func(d *decoder) error {
			for _, t := range p.texts {
				d.out.total++
				if _, serr := d.event(t.raw, 0, t.index, true); serr != nil {
					return notJSON(t.raw, serr) // the first walk found it good
				}
			}
			return nil
		}
	}
	return parts, nil
}

// mixedEvent is an event of a mixed body.
type mixedEvent struct {
	raw   []byte
	index int
}

// streamOf returns the stream that an event names, or why it names none.
func streamOf(event []byte) (name, why string) {
	if event[0] != '{' {
		return "", "an event is a JSON object"
	}
	n := 0
	_ = row.EachMember(event, func(member string, value []byte) error {
		if member != streamField {
			return nil
		}
		n++
		if value[0] != '"' {
			why = `its member "stream" is no string`
			return nil
		}
		name, _ = row.UnquoteJSON(value)
		return nil
	})
	switch {
	case n == 0:
		why = `it has no member "stream"`
	case n > 1:
		why = `its member "stream" is given twice`
	}
	return name, why
}
