package ingest

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/storage/row"
)

// value draws a JSON value.
func drawValue(t *rapid.T, depth int) any {
	kinds := 7
	if depth > 2 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return json.Number(rapid.SampledFrom([]string{"0", "1", "-7", "9007199254740992", "9007199254740993", "-9223372036854775808"}).Draw(t, "int"))
	case 3:
		return json.Number(rapid.SampledFrom([]string{"0.5", "1.0", "-2e3", "1e300", "9007199254740993.0"}).Draw(t, "double"))
	case 4:
		return rapid.SampledFrom([]string{"", "x", "é\n\"", "2024-01-15"}).Draw(t, "text")
	case 5:
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "len") {
			list = append(list, drawValue(t, depth+1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 2).Draw(t, "len") {
		object[rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "member")] = drawValue(t, depth+1)
	}
	return object
}

// What a column holds is what the event said, however the schema grew: exact, or not there at all.
func TestInferredColumnsHoldWhatEventsSaid(t *testing.T) { // I3
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{log: newFakeLog(), streams: newFakeStreams()}
		w.in = New(w.streams, w.log, Options{AutoCreate: true})
		sent, accepted, dead := 0, 0, 0
		for range rapid.IntRange(1, 4).Draw(t, "requests") {
			var body bytes.Buffer
			body.WriteByte('[')
			for i := range rapid.IntRange(1, 5).Draw(t, "events") {
				event := map[string]any{}
				for range rapid.IntRange(0, 3).Draw(t, "fields") {
					event[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "field")] = drawValue(t, 0)
				}
				text, err := json.Marshal(event)
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					body.WriteByte(',')
				}
				body.Write(text)
				sent++
			}
			body.WriteByte(']')
			a, err := w.post("s", body.String())
			if err != nil {
				t.Fatalf("%s: %v", body.Bytes(), err)
			}
			accepted += a.Accepted
			dead += a.DeadLetters
		}
		if sent != accepted+dead {
			t.Fatalf("%d events sent, %d accepted, %d dead letters", sent, accepted, dead)
		}
		s := w.streams.byName["s"]
		for _, e := range w.log.of(s.ID).events {
			var raw map[string]any
			d := json.NewDecoder(strings.NewReader(e.raw))
			d.UseNumber()
			if err := d.Decode(&raw); err != nil {
				t.Fatal(err)
			}
			for name, v := range raw {
				c := s.Schema.Column(name)
				text, ok := e.values[c]
				if !ok {
					if c >= 0 && !hollow(v) {
						t.Fatalf("%s: column %s %s is null", e.raw, name, s.Schema.Fields[c].Type)
					}
					continue
				}
				var got any
				d := json.NewDecoder(strings.NewReader(text))
				d.UseNumber()
				if err := d.Decode(&got); err != nil {
					t.Fatal(err)
				}
				if !equalJSON(got, v) {
					t.Fatalf("%s: column %s %s holds %s", e.raw, name, s.Schema.Fields[c].Type, text)
				}
			}
			for c := range e.values {
				if _, ok := raw[s.Schema.Fields[c].Name]; !ok {
					t.Fatalf("%s: column %s has a value", e.raw, s.Schema.Fields[c].Name)
				}
			}
		}
		for _, f := range s.Schema.Fields {
			if back, err := row.ParseType(f.Type.String()); err != nil || !back.Equal(f.Type) {
				t.Fatalf("the type %s does not come back: %v", f.Type, err)
			}
		}
	})
}

// hollow reports whether a value makes no column.
func hollow(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		for _, e := range v {
			if !hollow(e) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, e := range v {
			if !hollow(e) {
				return false
			}
		}
		return true
	}
	return false
}

// equalJSON compares a column's value with what was sent: numbers exactly, objects but for null
// members that were not sent. Members with nothing in them may be missing.
func equalJSON(got, sent any) bool {
	switch sent := sent.(type) {
	case json.Number:
		g, ok := got.(json.Number)
		if !ok {
			return false
		}
		// A number that is written as a double becomes the nearest one.
		x, _ := new(big.Rat).SetString(g.String())
		y, _ := new(big.Rat).SetString(sent.String())
		if x.Cmp(y) == 0 {
			return true
		}
		f, _ := sent.Float64()
		h, _ := g.Float64()
		return f == h && strings.ContainsAny(sent.String(), ".e")
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(sent) {
			return false
		}
		for i := range g {
			if !equalJSON(g[i], sent[i]) && !(g[i] == nil && hollow(sent[i])) {
				return false
			}
		}
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for name, v := range sent {
			if h, ok := g[name]; !hollow(v) && (!ok || !equalJSON(h, v)) || hollow(v) && h != nil && !hollow(h) {
				return false
			}
		}
		for name, v := range g {
			if _, ok := sent[name]; !ok && v != nil {
				return false
			}
		}
		return true
	default:
		return got == sent
	}
}

func TestTypesOfValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want string
		wide       bool
	}{
		{`null`, "NULL", false},
		{`[]`, "NULL", false},
		{`{}`, "NULL", false},
		{`[[],null,{}]`, "NULL", false},
		{`{"a":[]}`, "NULL", false},
		{`5`, "BIGINT", false},
		{`9007199254740993`, "BIGINT", true},
		{`1.0`, "DOUBLE", false},
		{`1e3`, "DOUBLE", false},
		{`[1,null,2.5]`, "DOUBLE[]", false},
		{`[{"a":1},{"b":"x","a":null}]`, "STRUCT(a BIGINT, b VARCHAR)[]", false},
		{`{"a":1,"A":"x","a":true}`, "STRUCT(a BIGINT)", false},
		{`{"x y":{"b":false}}`, `STRUCT("x y" STRUCT(b BOOLEAN))`, false},
	} {
		got, wide, err := inferType([]byte(c.text))
		if err != nil || got.String() != c.want || wide != c.wide {
			t.Errorf("%s is %s (wide %v), %v; want %s", c.text, got, wide, err, c.want)
		}
	}
	for _, text := range []string{`[1,"a"]`, `18446744073709551616`, `{"a":[1,{}]}`, `[true,1]`} {
		if got, _, err := inferType([]byte(text)); err == nil && text != `{"a":[1,{}]}` {
			t.Errorf("%s is %s", text, got)
		}
	}
}
