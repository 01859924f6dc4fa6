package ingest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// fields are a stream's columns as text.
func (w *world) fields(name string) string {
	var out []string
	for _, f := range w.stream(name).Schema.Fields {
		out = append(out, f.Name+" "+f.Type.String())
	}
	return strings.Join(out, ", ")
}

func TestInferredSchemaGrowsAsFieldsAppear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{TimeField: "ts"})
	for _, c := range []struct{ body, fields string }{
		{`{"ts":1,"n":1,"ok":true}`, "ts TIMESTAMP, n BIGINT, ok BOOLEAN"},
		{`[{"ts":1,"x":null,"l":[],"o":{},"m":{"k":null}},{"ts":1,"l":[null,[]]}]`, "ts TIMESTAMP, n BIGINT, ok BOOLEAN"},
		{`[{"ts":1,"x":0.5},{"ts":1,"s":"a"}]`, "ts TIMESTAMP, n BIGINT, ok BOOLEAN, x DOUBLE, s VARCHAR"},
		{`{"ts":1,"l":[1,null],"o":{"a":{"b":"x"}}}`, "ts TIMESTAMP, n BIGINT, ok BOOLEAN, x DOUBLE, s VARCHAR, l BIGINT[], o STRUCT(a STRUCT(b VARCHAR))"},
		{`{"ts":1,"o":{"a":{"c":[1.5]},"d":2}}`, "ts TIMESTAMP, n BIGINT, ok BOOLEAN, x DOUBLE, s VARCHAR, l BIGINT[], o STRUCT(a STRUCT(b VARCHAR, c DOUBLE[]), d BIGINT)"},
	} {
		a := w.must("s", c.body)
		if a.DeadLetters != 0 {
			t.Fatalf("%s: %+v", c.body, a.Errors)
		}
		if got := w.fields("s"); got != c.fields {
			t.Errorf("%s: the columns are %s, want %s", c.body, got, c.fields)
		}
	}
	if got := w.value("s", 6, "o"); got != `{"a":{"b":null,"c":[1.5]},"d":2}` {
		t.Errorf("o is %s", got)
	}
	if got := w.value("s", 1, "l"); got != "" {
		t.Errorf("a list before its column is %s", got)
	}
}

func TestIntegersWidenToDoubleWhileAllAreExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{})
	w.must("s", `[{"a":9007199254740992,"b":9007199254740993,"c":1},{"a":5.0,"b":5.0,"c":[1]}]`)
	if got := w.fields("s"); got != "a BIGINT, b BIGINT, c BIGINT" {
		t.Fatalf("the columns are %s", got)
	}
	if got := w.value("s", 0, "b"); got != "9007199254740993" {
		t.Errorf("b is %s", got) // 12
	}
	a := w.must("s", `[{"a":0.5},{"b":0.5},{"a":2}]`)
	if got := w.fields("s"); got != "a DOUBLE, b BIGINT, c BIGINT" {
		t.Errorf("the columns are %s", got)
	}
	if a.Accepted != 2 || len(a.Errors) != 1 || a.Errors[0].Index != 1 || !strings.Contains(a.Errors[0].Reason, "b: 0.5 is not a whole number") ||
		!strings.Contains(a.Errors[0].Reason, "declare the column DOUBLE") {
		t.Errorf("got %+v", a.Errors)
	}
	a = w.must("s", `[{"a":9007199254740993},{"a":9007199254740994},{"a":12345678901234567890},{"a":1e300}]`)
	if a.Accepted != 1 || len(a.Errors) != 3 || a.Errors[2].Index != 2 {
		t.Errorf("got %+v", a.Errors)
	}
}

func TestOneRequestWidensItsOwnColumn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{})
	a := w.must("s", `[{"a":1,"l":[1]},{"a":2.5,"l":[0.5]},{"a":"x"},{"a":3}]`)
	if a.Accepted != 3 || a.DeadLetters != 1 || w.fields("s") != "a DOUBLE, l DOUBLE[]" {
		t.Errorf("%+v, %s", a, w.fields("s"))
	}
	w.declare("big", stream.Config{})
	a = w.must("big", `[{"a":9007199254740993},{"a":2.5}]`)
	if a.Accepted != 1 || a.DeadLetters != 1 || w.fields("big") != "a BIGINT" {
		t.Errorf("%+v, %s", a, w.fields("big"))
	}
	w.declare("nested", stream.Config{})
	a = w.must("nested", `[{"a":[1.5]},{"a":[9007199254740993]},{"a":[2]}]`)
	if a.Accepted != 2 || a.DeadLetters != 1 || a.Errors[0].Index != 1 || w.fields("nested") != "a DOUBLE[]" {
		t.Errorf("%+v, %s", a, w.fields("nested"))
	}
}

func TestColumnThatAViewReadsDoesNotWiden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{})
	w.must("s", `{"a":1,"o":{"x":1}}`)
	w.streams.pinned["a"], w.streams.pinned["o"] = true, true
	a := w.must("s", `[{"a":0.5},{"a":2},{"o":{"x":2,"y":3}}]`)
	if a.Accepted != 2 || len(a.Errors) != 1 || !strings.Contains(a.Errors[0].Reason, "declare the column DOUBLE") {
		t.Errorf("got %+v", a)
	}
	if got := w.fields("s"); got != "a BIGINT, o STRUCT(x BIGINT)" {
		t.Errorf("the columns are %s", got)
	}
	if got := w.events("s")[2].raw; got != `{"o":{"x":2,"y":3}}` {
		t.Errorf("the payload is %s", got)
	}
	appends := w.log.appends
	if _, err := w.in.Post(context.Background(), Request{Stream: "s", Body: []byte(`[{"a":0.5},{"a":2}]`), Strict: true}); problem.From(err).Status != 422 || w.log.appends != appends {
		t.Errorf("strict: %v", err)
	}
	asked := w.streams.asked
	w.must("s", `{"o":{"x":2,"y":3}}`)
	if w.streams.asked != asked {
		t.Error("what the schema would not take is asked for with every event")
	}
}

func TestDeadLettersMakeNoColumns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{TimeField: "ts"})
	a := w.must("s", `[{"ts":"never","a":1},{"ts":1,"b":1},{"ts":1,"b":"x","c":1}]`)
	if a.Accepted != 1 || a.DeadLetters != 2 || w.fields("s") != "ts TIMESTAMP, b BIGINT" {
		t.Errorf("%+v, %s", a, w.fields("s"))
	}
}

func TestKeysThatDifferByCaseAreTwoFields(t *testing.T) { // 7
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{})
	a := w.must("s", `[{"User":"a","user":"b","USER":3},{"user":"c"}]`)
	if a.Accepted != 2 || w.fields("s") != "User VARCHAR" {
		t.Fatalf("%+v, %s", a, w.fields("s"))
	}
	if w.value("s", 0, "User") != `"a"` || w.value("s", 1, "User") != "" {
		t.Errorf("the columns hold %q and %q", w.value("s", 0, "User"), w.value("s", 1, "User"))
	}
	asked := w.streams.asked
	w.must("s", `{"user":"d"}`)
	if w.streams.asked != asked {
		t.Error("another spelling is asked for with every event")
	}
}

func TestFieldsPastTheLastColumnStayInTheEvent(t *testing.T) { // 9
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{})
	var b strings.Builder
	b.WriteString("{")
	for i := range stream.MaxColumns + 5 {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"f%d":%d`, i, i)
	}
	b.WriteString("}")
	a := w.must("s", b.String())
	if a.Accepted != 1 || len(w.stream("s").Schema.Fields) != stream.MaxColumns || w.events("s")[0].raw != b.String() {
		t.Errorf("%+v, %d columns", a, len(w.stream("s").Schema.Fields))
	}
}

func TestDeclaredSchemaTakesItsColumnsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{TimeField: "ts", Columns: columns(
		"ts", "TIMESTAMP", "b", "BOOLEAN", "i", "TINYINT", "h", "HUGEINT", "d", "DOUBLE", "m", "DECIMAL(10,2)", "v", "VARCHAR",
		"day", "DATE", "at", "TIMESTAMP", "j", "JSON", "l", "VARCHAR[]", "o", "STRUCT(x BIGINT)",
	)})
	a := w.must("s", `{"ts":1,"b":false,"i":-128,"h":170141183460469231731687303715884105727,"d":9007199254740993,"m":12.5,"v":"é\n","day":"2024-02-29",`+
		`"at":1700000000123,"j":{"a":[1e3]},"l":["x",null],"o":{"x":7,"y":8},"more":1,"other":{"z":1}}`)
	if a.Accepted != 1 {
		t.Fatalf("got %+v", a.Errors)
	}
	for column, want := range map[string]string{
		"ts": `"1970-01-01T00:00:01Z"`, "b": "false", "i": "-128", "h": "170141183460469231731687303715884105727", "d": "9007199254740992", "m": "12.50",
		"v": `"é\n"`, "day": `"2024-02-29"`, "at": `"2023-11-14T22:13:20.123Z"`, "j": `{"a":[1e3]}`, "l": `["x",null]`, "o": `{"x":7}`, "more": "no column",
	} {
		if got := w.value("s", 0, column); got != want {
			t.Errorf("%s is %s, want %s", column, got, want)
		}
	}
	a = w.must("s", `[{"ts":1,"i":128},{"ts":1,"m":1.005},{"ts":1,"o":{"x":"y"}},{"ts":1}]`)
	if a.Accepted != 1 || a.DeadLetters != 3 {
		t.Errorf("got %+v", a)
	}
	for i, name := range []string{"i: ", "m: ", "o: x: "} {
		if !strings.HasPrefix(a.Errors[i].Reason, name) {
			t.Errorf("the reason %q does not name %s", a.Errors[i].Reason, name)
		}
	}
	if w.streams.asked != 0 {
		t.Error("a declared schema was asked for columns")
	}
}

// A faulty event takes back what its first members put into columns.
func TestFaultyEventLeavesNoTraceInColumns(t *testing.T) { // I1
	t.Parallel()
	w := newWorld(t)
	w.declare("s", ts("a", "BIGINT", "b", "VARCHAR"))
	w.must("s", `[{"a":1,"ts":1},{"a":2,"b":"x","ts":"bad"},{"b":"y","ts":3},{"a":4,"b":5,"ts":4},{"ts":5,"a":6}]`)
	var got []string
	for i := range w.events("s") {
		got = append(got, w.value("s", i, "a")+"/"+w.value("s", i, "b"))
	}
	if s := strings.Join(got, " "); s != `1/ /"y" 6/` {
		t.Errorf("the columns hold %s", s)
	}
}

func TestUnknownStreamIsMadeByItsFirstEvent(t *testing.T) { // 20
	t.Parallel()
	for _, c := range []struct{ body, field string }{
		{`{"user":"a","created_at":"2024-01-15T10:00:00Z","timestamp":1705312800}`, "timestamp"},
		{`[{"time":"later","occurred_at":"2024-01-15"},{"ts":1,"occurred_at":"2024-01-15"}]`, "occurred_at"},
		{`{"user":"a","ts":"soon"}`, ""},
		{`[7,{"a":1e400,"ts":1}]`, "ts"},
	} {
		w := newWorld(t)
		a := w.must("fresh", c.body)
		if len(a.Created) != 1 || a.Created[0].Stream != "fresh" || !strings.Contains(a.Created[0].Note, `PUT`) {
			t.Fatalf("%s: %+v", c.body, a.Created)
		}
		if got := w.stream("fresh").Config.TimeField; got != c.field || (a.Created[0].TimeField == nil) != (c.field == "") {
			t.Errorf("%s: the time field is %q, want %q", c.body, got, c.field)
		}
		if b := w.must("fresh", `{"x":1}`); b.Created != nil {
			t.Error("it was made again")
		}
	}
}

func TestBodyThatFailsMakesNoStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range []Request{
		{Body: []byte(`[{"a":1},`)},
		{Body: []byte(`[1,2]`)},
		{Body: []byte(`5`)},
		{Body: []byte(`{"a":1,"a":2}`), Strict: true},
		{Body: []byte(`[{"a":1},{"a":"x"}]`), Strict: true},
		{Body: []byte(`{"a":1}`), Partition: new(int(3))},
	} {
		r.Stream = "fresh"
		if _, err := w.in.Post(context.Background(), r); err == nil {
			t.Errorf("%s was taken", r.Body)
		}
	}
	if len(w.streams.byName) != 0 || w.log.appends != 0 {
		t.Error("a stream was made")
	}
	w.declare("old", stream.Config{Columns: columns("n", "BIGINT")})
	for _, body := range []string{
		`[{"stream":"fresh","a":1},{"stream":"old","n":"x"}]`,
		`[{"stream":"old","n":1},{"stream":"fresh","a":1},{"stream":"fresh","a":"x"}]`,
		`[{"stream":"fresh","a":1,"a":2},{"stream":"other","a":1}]`,
	} {
		if _, err := w.in.Post(context.Background(), Request{Body: []byte(body), Strict: true}); err == nil {
			t.Errorf("%s was taken", body)
		}
	}
	if len(w.streams.byName) != 1 || w.log.appends != 0 {
		t.Error("a mixed body that was refused has made a stream")
	}
	w.in.opts.AutoCreate = false
	_, err := w.post("fresh", `{"a":1}`)
	if p := problem.From(err); err == nil || p.Status != 404 {
		t.Errorf("without auto-create: %v", err)
	}
}

func TestNamesOutsideThePattern(t *testing.T) { // 47, 48
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"../x", "a/b", "a\x00", "A", "a-b", `a\b`, ":name", strings.Repeat("a", 64), "late_x", "tidemark_x", "é", "1a", " "} {
		_, err := w.post(name, `{"a":1}`)
		if p := problem.From(err); err == nil || p.Status != 400 {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(w.streams.byName) != 0 {
		t.Error("a stream was made")
	}
}

func TestKeyAndIDAreColumnsFromTheirFirstValue(t *testing.T) { // I3
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{KeyField: "user", IDField: "id"})
	w.must("s", `{"user":null,"id":null}`)
	if got := w.fields("s"); got != "" {
		t.Fatalf("null makes the columns %s", got)
	}
	w.must("s", `{"user":"ada","id":1}`)
	if got := w.fields("s"); got != "user VARCHAR, id BIGINT" {
		t.Fatalf("the columns are %s", got)
	}
	w.must("s", `{"user":"ada","id":2,"x":1}`)
	if u, id := w.value("s", 1, "user"), w.value("s", 1, "id"); u != `"ada"` || id != "1" {
		t.Errorf("the first event's key and id read as %s and %s", u, id)
	}
	if a := w.must("s", `{"user":"ada","id":"1"}`); a.DeadLetters != 1 || !strings.Contains(a.Errors[0].Reason, "id: ") {
		t.Errorf("an id of another type: %+v", a)
	}
	if a := w.must("s", `{"user":"ada","user":"bob"}`); a.DeadLetters != 1 || a.Errors[0].Code != codeDuplicateKey {
		t.Errorf("a key that is given twice: %+v", a)
	}
}
