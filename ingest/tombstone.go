package ingest

import (
	"bytes"
	"encoding/json"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// tombstone makes a body of null under the header Tidemark-Key the last event of its key, so that
// compaction removes the key (B2). It is an event like any other, without a value in any column but
// that of the key; its time is the append time, or that of the header Tidemark-Time.
func tombstone(p *part, body []byte, r Request) error {
	s := p.stream
	switch {
	case s == nil || s.Config.Compact == nil || !*s.Config.Compact:
		return problem.New(422, "not_compacted", "stream %s is not compacted, so a key can't be removed from it", r.Stream).
			WithHint(`PUT the stream with "compact": true and a "key_field", or leave the header Tidemark-Key out`)
	case !bytes.Equal(bytes.TrimSpace(body), []byte("null")):
		return problem.New(400, "bad_tombstone", "under the header Tidemark-Key the body must be null").
			WithHint("an event is sent without the header: its key stands in %q", s.Config.KeyField)
	}
	field := s.Config.KeyField
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.TidemarkKey), &members); err != nil || len(members) != 1 || !isKey(members[field]) {
		return problem.New(400, "bad_key", "the header Tidemark-Key must be a JSON object with the key alone").
			WithHint(`such as Tidemark-Key: {%q:"u-1"}`, field)
	}
	key := keyText(members[field])
	at := stream.AtAppend
	if r.TidemarkTime != "" {
		t, err := row.ParseTime([]byte(r.TidemarkTime))
		if err != nil {
			return problem.New(400, "bad_time", "the header Tidemark-Time is no time: %v", err).WithHint("send RFC 3339, such as 2024-01-01T12:00:00Z")
		}
		at = t
	}
	if err := checkPartition(r.Partition, s.Config.Partitions, s.Name); err != nil {
		return err
	}
	e := stream.Events{
		Stream: s.ID, Times: []stream.Micros{at}, Partitions: []stream.Partition{partitionOf(key, s.Config.Partitions)},
		Keys: row.NewVector(row.Scalar(row.Varchar), 1), RawData: []byte("null"), RawEnds: []uint32{4},
	}
	if r.Partition != nil {
		e.Partitions[0] = stream.Partition(*r.Partition)
	}
	e.Keys.AppendString(strings.Clone(key))
	if c := s.Schema.Column(field); c >= 0 && s.Schema.Fields[c].Type.Kind == row.Varchar {
		v := row.NewVector(s.Schema.Fields[c].Type, 1)
		v.AppendString(strings.Clone(key))
		e.Columns = make([]*row.Vector, c+1)
		e.Columns[c] = v
	}
	p.out = &decoded{events: e, index: []int32{0}, total: 1}
	return nil
}

// isKey reports whether a JSON value can be a key.
func isKey(value json.RawMessage) bool {
	return len(value) > 0 && value[0] != 'n' && value[0] != '{' && value[0] != '['
}
