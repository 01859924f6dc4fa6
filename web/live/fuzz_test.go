package live

import (
	"encoding/json"
	"testing"

	"tidemark/storage/problem"
	"tidemark/storage/row"
)

// FuzzClientMessage: whatever a client sends is a message or a refusal, never a panic.
func FuzzClientMessage(f *testing.F) {
	for _, seed := range []string{
		`{"op":"subscribe","id":"a","to":"revenue","from":"snapshot","where":"x > 1","range":["2024-01-01","now-1h"],"order":"x","limit":3}`,
		`{"op":"subscribe","id":"a","to":"revenue","from":{"time":"2024-01-01T00:00:00Z"},"range":"now-6h","fold":false}`,
		`{"op":"ack","id":"a","position":"0000"}`, `{"op":"unsubscribe","id":"a"}`, `{"op":1}`, `[]`, `{}{}`, "\xff", `{"range":[null,{}]}`,
	} {
		f.Add([]byte(seed))
	}
	h := NewHub(Options{Selector: aboveSelector{}})
	fields := []row.Field{{Name: "at", Type: row.Scalar(row.Timestamp)}, {Name: "amount", Type: row.Scalar(row.BigInt)}}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := parseOp(data)
		if err != nil {
			return
		}
		if s, err := parseStart(o.From); err == nil && s.kind == "position" && s.at.String() != s.text {
			t.Errorf("position %q is read as %q", s.text, s.at)
		}
		if _, err := newSelection(h, o, fields); err != nil {
			return
		}
		c := errorContent(problem.New(400, "bad_from", "%s", o.To))
		if !json.Valid(append(appendBeginning(nil, c, row.AppendJSONString(nil, o.ID), 1), c.rest...)) {
			t.Errorf("id %q breaks a message", o.ID)
		}
	})
}
