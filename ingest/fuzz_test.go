package ingest

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"tidemark/storage/row"
	"tidemark/stream"
)

// FuzzVerdictIsThatOfEncodingJSON compares the decoder with a second opinion that shares no code
// with it: the same bodies are taken, and what is taken has the same values (I2). The rows of the
// contract that differ (columns given twice, depth, numbers past a double, bad Unicode) are worked
// out here by other means.
func FuzzVerdictIsThatOfEncodingJSON(f *testing.F) {
	for _, s := range []string{
		`{"s":"x","i":1,"d":0.5,"b":true,"t":"2024-01-15T10:00:00Z","j":[1],"z":null}`,
		`{"i":9007199254740993,"d":-0.0,"s":"\ud83d\ude00"}`, `{"s":"\u0000\ud800"}`, `{"d":1e400}`, `{"i":1.0,"d":1e-400}`, `{"d":123456789012345678}`,
		` { "i" : -9223372036854775808 , "x" : { "i" : [ ] } } `, `{"i":1,"i":2}`, `{"x":1,"x":2}`, `{"t":1700000000.123456789}`, `{"i":01}`, `{"i":-}`,
		`[1]`, `{"s":"é"}`, "{\"s\":\"\xff\"}", `{"b":tru}`, `{"\u0069":5}`, `{"s":"aaaaaaaa\"bbbbbbbbb\\"}`, `{}`, `{"":0}`, `{"b":"","b":true}`, `{"x":1e400,"x":1}`, `{"i":1}x`, `{"d":0.30000000000000004}`,
		`{"i":1e3,"d":12345678901234567890,"s":"` + strings.Repeat("long text ", 30) + `"}`, `{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		verdict(t, body)
	})
}

var fuzzColumns = columns("s", "VARCHAR", "i", "BIGINT", "d", "DOUBLE", "b", "BOOLEAN", "t", "TIMESTAMP", "j", "JSON")

func verdict(t *testing.T, body []byte) {
	l := newLayout(fuzzStream(t))
	d := newDecoder(l)
	s := scanner{maxDepth: 64}
	d.begin(1, len(body), limits{event: 1 << 20, depth: 64, latest: math.MaxInt64, partition: -1})
	start := skipSpace(body, 0)
	if start == len(body) {
		return
	}
	_, serr := d.event(body, start, 0, true)
	out := d.finish()

	var theirs any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	err := json.Unmarshal(body, new(json.RawMessage))
	if _, err2 := s.value(body, start, 0); err2 == nil && s.flaws&tooDeep != 0 {
		return // row 8
	}
	if (serr == nil) != (err == nil) {
		t.Fatalf("%q: we say %v, encoding/json says %v", body, serr, err)
	}
	if err != nil {
		return
	}
	if err := dec.Decode(&theirs); err != nil {
		t.Fatal(err)
	}
	want := ""
	object, isObject := theirs.(map[string]any)
	counts, twice := memberCounts(body), false
	for _, c := range fuzzColumns {
		twice = twice || isObject && counts[c.Name] > 1
	}
	switch {
	case badText(body):
		want = codeBadUnicode // row 14
	case hugeNumber(body):
		want = codeBadNumber // row 10
	case !isObject:
		want = codeNoObject
	case twice:
		if len(out.bad) != 1 {
			t.Fatalf("%q was taken", body) // row 6
		}
		return
	case len(out.bad) == 1 && out.bad[0].code == codeDuplicateKey:
		t.Fatalf("%q: %s", body, out.bad[0].reason)
	case len(out.bad) == 1 && (out.bad[0].code == codeBadValue):
		name, _, _ := strings.Cut(out.bad[0].reason, ":")
		if fits(name, object[name]) {
			t.Fatalf("%q: %s", body, out.bad[0].reason)
		}
		return
	}
	if want != "" {
		if len(out.bad) != 1 || out.bad[0].code != want && !(want == codeBadNumber && !isObject) {
			t.Fatalf("%q: %+v, want %s", body, out.bad, want)
		}
		return
	}
	if len(out.bad) != 0 || out.events.Len() != 1 {
		t.Fatalf("%q was refused: %+v", body, out.bad)
	}
	if raw := string(out.events.RawData); raw != strings.Trim(string(body), " \t\r\n") {
		t.Fatalf("%q was kept as %q", body, raw)
	}
	for c, col := range fuzzColumns {
		v := out.events.Columns[c]
		same(t, body, col.Name, v, object[col.Name])
	}
}

func fuzzStream(t *testing.T) *stream.Stream {
	ahead := stream.DefaultMaxAhead
	s := &stream.Stream{ID: 1, Name: "s", Config: stream.Config{Partitions: 4, KeyField: "s", IDField: "i", MaxAhead: &ahead}, Schema: stream.Schema{Version: 1, Declared: true}}
	for _, c := range fuzzColumns {
		ty, err := row.ParseType(c.Type)
		if err != nil {
			t.Fatal(err)
		}
		s.Schema.Fields = append(s.Schema.Fields, row.Field{Name: c.Name, Type: ty})
	}
	return s
}

// same compares a column's value with encoding/json's.
func same(t *testing.T, body []byte, name string, v *row.Vector, want any) {
	t.Helper()
	if v == nil || v.IsNull(0) {
		if want != nil {
			t.Fatalf("%q: %s is null, want %v", body, name, want)
		}
		return
	}
	switch name {
	case "s":
		if v.Str[0] != want {
			t.Fatalf("%q: s is %q, want %q", body, v.Str[0], want)
		}
	case "i", "d":
		n, ok := want.(json.Number)
		if !ok {
			t.Fatalf("%q: %s is a number, want %v", body, name, want)
		}
		f, _ := n.Float64()
		if i, err := n.Int64(); name == "i" && (err == nil && i != v.I64[0] || err != nil && math.Abs(f-float64(v.I64[0])) > math.Abs(f)/1e15) {
			t.Fatalf("%q: i is %d, want %s", body, v.I64[0], n)
		}
		if name == "d" && v.F64[0] != f {
			t.Fatalf("%q: d is %v, want %v", body, v.F64[0], f)
		}
	case "b":
		if (v.I64[0] == 1) != want {
			t.Fatalf("%q: b is %d, want %v", body, v.I64[0], want)
		}
	case "j":
		var got any
		d := json.NewDecoder(strings.NewReader(v.Str[0]))
		d.UseNumber()
		if err := d.Decode(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: j is %s, %v", body, v.Str[0], err)
		}
	}
}

// fits reports whether a value surely belongs into the column.
func fits(name string, v any) bool {
	switch v := v.(type) {
	case string:
		return name == "s"
	case bool:
		return name == "b"
	case json.Number:
		_, err := v.Int64()
		return name == "d" || name == "i" && err == nil
	case nil:
		return true
	}
	return name == "j"
}

// badText reports whether a string of a JSON text has bytes that are no UTF-8 or a lone surrogate:
// encoding/json puts U+FFFD in their place, so the text with all such signs taken out first shows them.
func badText(body []byte) bool {
	if !utf8.Valid(body) {
		return true
	}
	clean := strings.NewReplacer("\uFFFD", "", `\\`, "").Replace(string(body))
	for _, c := range []string{`\ufffd`, `\uFFFD`, `\ufffD`, `\uffFd`, `\uffFD`, `\ufFfd`, `\ufFfD`, `\ufFFd`, `\ufFFD`, `\uFffd`, `\uFffD`, `\uFfFd`, `\uFfFD`, `\uFFfd`, `\uFFfD`, `\uFFFd`} {
		clean = strings.ReplaceAll(clean, c, "")
	}
	d := json.NewDecoder(strings.NewReader(clean))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		if s, ok := tok.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
			return true
		}
	}
}

// hugeNumber reports whether a number of a JSON text is past the largest double.
func hugeNumber(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		if n, ok := tok.(json.Number); ok {
			if f, _ := n.Float64(); math.IsInf(f, 0) {
				return true
			}
		}
	}
}

// memberCounts counts the names of an object's members.
func memberCounts(body []byte) map[string]int {
	counts := map[string]int{}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return counts
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			break
		}
		counts[name.(string)]++
		if d.Decode(new(json.RawMessage)) != nil {
			break
		}
	}
	return counts
}
