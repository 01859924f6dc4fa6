package ingest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// outcome is what a body does to a stream that exists.
type outcome struct {
	name string
	// columns and the rest of the stream's definition; nil columns are inferred.
	config stream.Config
	body   string
	lines  bool

	status   int      // of the problem; 0: taken
	says     string   // in the problem's detail or hint
	position int      // of the problem, when above 0
	raws     []string // the payloads that were appended
	codes    []string // of the dead letters, with their raw bytes
	dead     []string
}

func (o outcome) run(t *testing.T) {
	t.Helper()
	t.Parallel()
	w := newWorld(t)
	w.declare("s", o.config)
	post := w.post
	if o.lines {
		post = w.postLines
	}
	a, err := post("s", o.body)
	if o.status != 0 {
		p := problem.From(err)
		if err == nil || p.Status != o.status || !strings.Contains(p.Error(), o.says) {
			t.Fatalf("got %v, status %d; want %d and %q", err, p.Status, o.status, o.says)
		}
		if o.position > 0 && p.Position != o.position {
			t.Errorf("position %d, want %d", p.Position, o.position)
		}
		if p.Hint == "" {
			t.Error("the problem has no next step")
		}
		if w.log.appends != 0 {
			t.Error("something was appended")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var raws, codes, dead []string
	for _, e := range w.events("s") {
		raws = append(raws, e.raw)
	}
	for _, l := range w.letters("s") {
		codes = append(codes, l.Code)
		dead = append(dead, string(l.Raw))
		if o.says != "" && !strings.Contains(l.Reason, o.says) {
			t.Errorf("the reason is %q, want %q in it", l.Reason, o.says)
		}
	}
	if fmt.Sprintf("%q", raws) != fmt.Sprintf("%q", o.raws) {
		t.Errorf("appended %q, want %q", raws, o.raws)
	}
	if fmt.Sprint(codes) != fmt.Sprint(o.codes) {
		t.Errorf("dead letters %v, want %v", codes, o.codes)
	}
	if o.dead != nil && fmt.Sprintf("%q", dead) != fmt.Sprintf("%q", o.dead) {
		t.Errorf("their bytes are %q, want %q", dead, o.dead)
	}
	if a.Accepted != len(raws) || a.DeadLetters != len(codes) || len(a.Errors) != len(codes) {
		t.Errorf("the answer counts %d and %d with %d errors", a.Accepted, a.DeadLetters, len(a.Errors))
	}
}

func ts(pairs ...string) stream.Config {
	return stream.Config{TimeField: "ts", Columns: columns(append([]string{"ts", "TIMESTAMP"}, pairs...)...)}
}

func TestBadBodies(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64)
	tooDeepEvent := `{"a":` + deep + "}"
	big := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	good := `{"a":1}`
	for _, o := range []outcome{
		// 1
		{name: "empty", body: "", status: 400, says: "empty"},
		{name: "only space", body: " \n\t ", status: 400, says: "empty"},
		{name: "only space in lines", body: " \n\t ", lines: true, status: 400, says: "empty"},
		{name: "no JSON", body: "hello", status: 400, says: "not JSON"},
		{name: "NaN", body: `{"a":NaN}`, status: 400, says: "byte 5", position: 5},
		{name: "a number that begins with a point", body: `{"a":.5}`, status: 400, says: "byte 5", position: 5},
		{name: "a number that begins with 0", body: `{"a":01}`, status: 400, says: "byte 6", position: 6},
		{name: "a number that ends with a point", body: `{"a":1.}`, status: 400, position: 7},
		{name: "a plus sign", body: `{"a":+1}`, status: 400, position: 5},
		{name: "raw NUL", body: "{\"a\":\"\x00\"}", status: 400, says: "control character", position: 6},
		{name: "a bad escape", body: `{"a":"\x"}`, status: 400, position: 7},
		{name: "a comma too many", body: `{"a":1,}`, status: 400, position: 7},
		{name: "a comma too many in an array", body: `[{"a":1},]`, status: 400, position: 9},
		{name: "single quotes", body: `{'a':1}`, status: 400, position: 1},
		{name: "a syntax error in the last of an array", body: `[{"a":1},{"a":tru}]`, status: 400, position: 17},
		// 2
		{name: "bytes after the value", body: `{"a":1} {"a":2}`, status: 400, says: "application/x-ndjson", position: 8},
		{name: "bytes after the array", body: `[] x`, status: 400, says: "application/x-ndjson", position: 3},
		// 3
		{name: "a bad line", lines: true, body: good + "\n{bad}\n\n \r\n" + good + "\r\n", raws: []string{good, good}, codes: []string{"bad_json"}, dead: []string{"{bad}"}},
		{name: "two objects on a line", lines: true, body: good + "\n{} {}\n", raws: []string{good}, codes: []string{"bad_json"}, dead: []string{"{} {}"}},
		{name: "a bad line at the end", lines: true, body: good + "\n{\"a\":\n", raws: []string{good}, codes: []string{"bad_json"}, dead: []string{"{\"a\":"}},
		{name: "no line is JSON", lines: true, body: "a,b\n1;2\n", status: 400, says: "none of the 2 lines"},
		{name: "one line that is no JSON", lines: true, body: "a,b\n", status: 400, says: "not JSON"},
		// 4
		{name: "cut short in an array", body: `[{"a":1},{"a"`, status: 400, says: "ends inside"},
		{name: "cut short behind a comma", body: `[{"a":1},`, status: 400, says: "ends inside"},
		{name: "cut short in a string", body: `{"a":"x`, status: 400, says: "ends inside"},
		{name: "cut short in an escape", body: `{"a":"\u00`, status: 400, says: "ends inside"},
		{name: "cut short in a word", body: `{"a":tr`, status: 400, says: "ends inside"},
		{name: "cut short in a number", body: `{"a":-`, status: 400, says: "ends inside"},
		{name: "cut short in lines", lines: true, body: good + "\n" + `{"a":2,"b`, status: 400, says: "ends inside"},
		// 5
		{name: "elements that are no objects", body: `[1,` + good + `,[2],"x",null]`, raws: []string{good}, codes: []string{"not_an_object", "not_an_object", "not_an_object", "not_an_object"}, dead: []string{"1", "[2]", `"x"`, "null"}},
		{name: "a number alone", body: `5`, status: 400, says: "JSON object"},
		{name: "a text alone", body: ` "x" `, status: 400, says: "JSON object"},
		{name: "a line that is an array", lines: true, body: "[1]\n" + good, raws: []string{good}, codes: []string{"not_an_object"}},
		// 6
		{name: "a column twice", config: ts("a", "BIGINT"), body: `[{"ts":1,"a":1,"a":2},{"ts":1,"a":3}]`, raws: []string{`{"ts":1,"a":3}`}, codes: []string{"duplicate_key"}, says: "a: the column is given twice", dead: []string{`{"ts":1,"a":1,"a":2}`}},
		{name: "a column twice in other letters", config: ts("a", "BIGINT"), body: `{"ts":1,"a":1,"\u0061":2}`, codes: []string{"duplicate_key"}},
		{name: "a column twice, once null", config: ts("a", "BIGINT"), body: `{"ts":1,"a":1,"a":null}`, codes: []string{"duplicate_key"}},
		{name: "an inferred column twice", body: `{"a":1,"a":1}`, codes: []string{"duplicate_key"}},
		{name: "the key twice", config: stream.Config{KeyField: "k", Columns: columns("a", "BIGINT")}, body: `{"k":1,"k":2}`, codes: []string{"duplicate_key"}},
		{name: "what is no column twice", config: ts(), body: `{"ts":1,"z":1,"z":2}`, raws: []string{`{"ts":1,"z":1,"z":2}`}},
		{name: "below the columns twice", body: `{"a":{"b":1,"b":2}}`, raws: []string{`{"a":{"b":1,"b":2}}`}},
		// 8
		{name: "nested 64 deep", config: ts(), body: `{"ts":1,"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + "}", raws: []string{`{"ts":1,"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + "}"}},
		{name: "nested too deep, alone", body: tooDeepEvent, status: 413, says: "64 levels"},
		{name: "nested too deep, among others", body: "[" + good + "," + tooDeepEvent + "," + good + "]", raws: []string{good, good}, codes: []string{"too_deep"}, dead: []string{tooDeepEvent}},
		{name: "nested without end", body: strings.Repeat("[", 1<<20), status: 400, says: "ends inside"},
		{name: "an event too large, alone", body: big, status: 413, says: "at most 1048576"},
		{name: "an event too large, in lines", lines: true, body: good + "\n" + big + "\n" + good, raws: []string{good, good}, codes: []string{"too_large"}, dead: []string{big}},
		// 10
		{name: "numbers past a double", body: `[{"a":1e400},{"b":-0.1e1000000000},` + good + `,{"c":[{"d":1e309}]}]`, raws: []string{good}, codes: []string{"bad_number", "bad_number", "bad_number"}},
		// 14
		{name: "a lone surrogate", body: `[{"a":"\ud800"},{"b":"\udc00\ud800"},{"c":"\ud800x"},{"\udfff":1},{"d":"\ud83d\ude00"}]`, raws: []string{`{"d":"\ud83d\ude00"}`}, codes: []string{"bad_unicode", "bad_unicode", "bad_unicode", "bad_unicode"}},
		{name: "bytes that are no UTF-8", body: "[{\"a\":\"\xff\"},{\"b\":\"\xed\xa0\x80\"},{\"\xc0\xaf\":1},{\"c\":\"é\"}]", raws: []string{`{"c":"é"}`}, codes: []string{"bad_unicode", "bad_unicode", "bad_unicode"}},
		// 15
		{name: "a byte order mark", body: "\xef\xbb\xbf" + good, raws: []string{good}},
		{name: "a byte order mark before lines", lines: true, body: "\xef\xbb\xbf" + good + "\n" + good, raws: []string{good, good}},
		{name: "a second byte order mark", body: "\xef\xbb\xbf\xef\xbb\xbf" + good, status: 400},
		// 16
		{name: "odd characters", body: "{\"a\":\"\\u0000\",\"b\":\"\u202e\",\"c\":\"é\",\"d\":\"é\",\"\\u200b\":1}", raws: []string{"{\"a\":\"\\u0000\",\"b\":\"\u202e\",\"c\":\"é\",\"d\":\"é\",\"\\u200b\":1}"}},
		// 17
		{name: "keys that scripts fear", body: `{"__proto__":{"x":1},"constructor":2}`, raws: []string{`{"__proto__":{"x":1},"constructor":2}`}},
		// 13, 18
		{name: "an integer past BIGINT", config: ts("a", "BIGINT"), body: `{"ts":1,"a":9223372036854775808}`, codes: []string{"bad_value"}, says: "a: 9223372036854775808 is outside the range of BIGINT"},
		{name: "an integer past BIGINT, inferred", body: `{"a":18446744073709551616}`, codes: []string{"bad_value"}, says: "a: 18446744073709551616 is outside the range of BIGINT"},
		{name: "a text in BIGINT", config: ts("a", "BIGINT"), body: `[{"ts":1,"a":"5"},{"ts":1,"a":5}]`, raws: []string{`{"ts":1,"a":5}`}, codes: []string{"bad_value"}, says: `a: "5" is a string`},
		{name: "a number in VARCHAR", config: ts("a", "VARCHAR"), body: `{"ts":1,"a":5}`, codes: []string{"bad_value"}, says: "a: 5 is a number"},
		{name: "mixed kinds, inferred", body: `[{"a":1},{"a":"x"},{"a":true},{"a":2}]`, raws: []string{`{"a":1}`, `{"a":2}`}, codes: []string{"bad_value", "bad_value"}},
		// framings
		{name: "an empty array", body: `[]`},
		{name: "space everywhere", body: " [ { \"a\" : 1 , \"b\" : [ 1 , 2 ] } ,\n{ } ] \n", raws: []string{`{ "a" : 1 , "b" : [ 1 , 2 ] }`, `{ }`}},
		{name: "lines without an end", lines: true, body: good + "\n" + good, raws: []string{good, good}},
	} {
		t.Run(o.name, o.run)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want, code string }{
		{text: `"2024-01-15T10:00:00Z"`, want: "2024-01-15T10:00:00Z"},                  // 23
		{text: `"2024-01-15t10:00:00+05:45"`, want: "2024-01-15T04:15:00Z"},             //
		{text: `"2024-01-15T10:00:00.123456789z"`, want: "2024-01-15T10:00:00.123456Z"}, //
		{text: `"1969-12-31T23:59:59.9999999Z"`, want: "1969-12-31T23:59:59.999999Z"},   //
		{text: `"\u0032024-01-15"`, want: "2024-01-15T00:00:00Z"},                       // an escape
		{text: `"2024-01-15 10:00:00"`, want: "2024-01-15T10:00:00Z"},                   // 24
		{text: `"2001/01/01 00:47"`, want: "2001-01-01T00:47:00Z"},                      //
		{text: `1705312800`, want: "2024-01-15T10:00:00Z"},                              // 25
		{text: `1705312800123`, want: "2024-01-15T10:00:00.123Z"},                       //
		{text: `1705312800123456`, want: "2024-01-15T10:00:00.123456Z"},                 //
		{text: `1705312800123456789`, want: "2024-01-15T10:00:00.123456Z"},              //
		{text: `1705312800.123456789`, want: "2024-01-15T10:00:00.123456Z"},             //
		{text: `1.7053128e9`, want: "2024-01-15T10:00:00Z"},                             //
		{text: `"1705312800"`, code: "bad_time"},                                        // 26
		{text: `"yesterday"`, code: "bad_time"},                                         //
		{text: `""`, code: "bad_time"},                                                  //
		{text: `true`, code: "bad_time"},                                                //
		{text: `{"at":1}`, code: "bad_time"},                                            //
		{text: `null`, code: "bad_time"},                                                // 19
		{text: `-86400`, want: "1969-12-31T00:00:00Z"},                                  // 27
		{text: `"0001-01-01T00:00:00Z"`, want: "0001-01-01T00:00:00Z"},                  //
		{text: `"0000-12-31T00:00:00Z"`, code: "bad_time"},                              // 28
		{text: `"10000-01-01T00:00:00Z"`, code: "bad_time"},                             //
		{text: `9223372036854775807`, code: "too_far_ahead"},                            // the year 2262
		{text: `99999999999999999999999999`, code: "bad_time"},                          //
		{text: `"2024-01-16T12:00:00Z"`, want: "2024-01-16T12:00:00Z"},                  // 30
		{text: `"2024-01-16T12:00:00.000001Z"`, code: "too_far_ahead"},                  // 29
		{text: `"2023-12-31T23:59:60Z"`, want: "2024-01-01T00:00:00Z"},                  // 31
		{text: `"2024-02-30T10:00:00Z"`, code: "bad_time"},                              // 32
		{text: `"2024-01-15T24:00:00Z"`, code: "bad_time"},                              //
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			for _, cfg := range []stream.Config{ts("n", "BIGINT"), {TimeField: "ts"}} {
				w := newWorld(t)
				w.declare("s", cfg)
				good := `{"n":1,"ts":"2024-01-15T10:00:00Z"}`
				a := w.must("s", `[`+good+`,{"n":2,"ts":`+c.text+`},`+good+`]`)
				if c.code != "" {
					if a.Accepted != 2 || len(a.Errors) != 1 || a.Errors[0].Code != c.code || a.Errors[0].Index != 1 {
						t.Fatalf("got %+v, want %s", a, c.code)
					}
					if c.code == "bad_time" && !strings.HasPrefix(a.Errors[0].Reason, "ts: ") {
						t.Errorf("the reason %q does not name the field", a.Errors[0].Reason)
					}
					continue
				}
				if a.Accepted != 3 {
					t.Fatalf("got %+v", a.Errors)
				}
				if got, want := w.value("s", 1, "ts"), `"`+c.want+`"`; got != want {
					t.Errorf("the column is %s, want %s", got, want)
				}
			}
		})
	}
}

func TestMissingTimeIsADeadLetterWithItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", ts("who", "VARCHAR"))
	a := w.must("s", `[{"who":"a"},{"ts":"yesterday","who":"b"}]`)
	if a.Accepted != 0 || a.DeadLetters != 2 {
		t.Fatalf("got %+v", a)
	}
	if got := a.Errors[1].Reason; got != `ts: not a timestamp: "yesterday"` {
		t.Errorf("the reason is %s", got)
	}
	if a.Errors[0].DeadLetter != "1" || a.Errors[1].DeadLetter != "2" {
		t.Errorf("the dead letters are %+v", a.Errors)
	}
}

// Without a time field the log's append time is the event time.
func TestWithoutTimeFieldTheLogSetsTheTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{Columns: columns("a", "BIGINT")})
	w.must("s", `{"a":1}`)
	if got := w.events("s")[0].time; got != stream.AtAppend {
		t.Errorf("the time is %d", got)
	}
}

func TestBodiesOverALimitAppendNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in.opts.MaxBody, w.in.opts.MaxEvents = 1000, 10
	w.declare("s", stream.Config{})
	for name, body := range map[string]string{
		"body":   `{"a":"` + strings.Repeat("x", 1000) + `"}`,
		"events": "[" + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 11), ",") + "]",
	} {
		_, err := w.post("s", body)
		if p := problem.From(err); err == nil || p.Status != 413 {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.postLines("s", strings.Repeat("{}\n", 11))
	if p := problem.From(err); err == nil || p.Status != 413 {
		t.Errorf("lines: %v", err)
	}
	if w.log.appends != 0 {
		t.Error("something was appended")
	}
	w.must("s", "["+strings.TrimSuffix(strings.Repeat(`{"a":1},`, 10), ",")+"]")
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{})
	post := func(kind, encoding string, body []byte) error {
		_, err := w.in.Post(context.Background(), Request{Stream: "s", Body: body, ContentType: kind, Encoding: encoding})
		return err
	}
	for _, kind := range []string{
		"", "application/json", "Application/JSON; charset=UTF-8", "text/plain", "text/plain;charset=utf-8", "application/x-www-form-urlencoded",
		"application/x-ndjson", "application/x-ndjson; charset=utf-8", "application/cloudevents+json; charset=utf-8",
	} {
		if err := post(kind, "", []byte(`{"a":1}`)); err != nil {
			t.Errorf("%q: %v", kind, err)
		}
	}
	n := w.log.appends
	for _, c := range []struct{ kind, encoding string }{
		{"application/zip", ""},
		{"multipart/form-data; boundary=x", ""},
		{"application/json; charset=utf-16", ""},
		{"application/json; charset=latin1", ""},
		{"text/csv", ""},
		{"application/json", "br"},
		{"application/json", "deflate"},
		{"application/json", "gzip, gzip"},
		{"application/json", "compress"},
	} {
		p := problem.From(post(c.kind, c.encoding, []byte(`{"a":1}`)))
		if p.Status != 415 || !strings.Contains(p.Hint, "application/x-ndjson") || !strings.Contains(p.Hint, "gzip or zstd") {
			t.Errorf("%q %q: %d %v", c.kind, c.encoding, p.Status, p)
		}
	}
	if w.log.appends != n {
		t.Error("something was appended")
	}
}

func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in.opts.MaxInflated = 1 << 20
	w.declare("s", stream.Config{})
	event := []byte(`{"a":1}`)
	bomb := bytes.Repeat([]byte(" "), 8<<20)
	for _, c := range []struct {
		encoding string
		body     []byte
		status   int
	}{
		{"gzip", gzipped(t, event), 0},
		{"GZIP", gzipped(t, event), 0},
		{"x-gzip", gzipped(t, event), 0},
		{"zstd", zstded(t, event), 0},
		{"identity", event, 0},
		{"gzip", gzipped(t, bomb), 413},
		{"zstd", zstded(t, bomb), 413},
		{"gzip", gzipped(t, event)[:12], 400},
		{"zstd", zstded(t, event)[:8], 400},
		{"gzip", event, 400},
		{"zstd", event, 400},
		{"gzip", nil, 400},
	} {
		n := w.log.appends
		_, err := w.in.Post(context.Background(), Request{Stream: "s", Body: c.body, Encoding: c.encoding})
		switch p := problem.From(err); {
		case c.status == 0 && err != nil:
			t.Errorf("%s: %v", c.encoding, err)
		case c.status != 0 && (err == nil || p.Status != c.status || w.log.appends != n):
			t.Errorf("%s of %d bytes: %v (%d), want %d", c.encoding, len(c.body), err, p.Status, c.status)
		}
	}
}

func TestStrictIsAllOrNothing(t *testing.T) {
	t.Parallel()
	for _, cfg := range []stream.Config{ts("n", "BIGINT"), {TimeField: "ts"}} {
		w := newWorld(t)
		w.declare("s", cfg)
		body := `[{"ts":1,"n":1},{"ts":"x","n":2},{"ts":2,"n":"three"},{"ts":3,"n":4}]`
		_, err := w.in.Post(context.Background(), Request{Stream: "s", Body: []byte(body), Strict: true})
		p := problem.From(err)
		if err == nil || p.Status != 422 || w.log.appends != 0 {
			t.Fatalf("got %v", err)
		}
		bad, _ := p.Extra["errors"].([]EventError)
		if len(bad) != 2 || bad[0].Index != 1 || bad[1].Index != 2 || bad[0].Code != "bad_time" || bad[1].Code != "bad_value" {
			t.Errorf("the errors are %+v", bad)
		}
		if w.streams.asked != 0 {
			t.Error("a column was made for events that were refused")
		}
		a, err := w.in.Post(context.Background(), Request{Stream: "s", Body: []byte(`[{"ts":1,"n":1},{"ts":2,"n":2}]`), Strict: true})
		if err != nil || a.Accepted != 2 {
			t.Errorf("got %+v, %v", a, err)
		}
	}
}
