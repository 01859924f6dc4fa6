package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"tidemark/storage/row"
)

var bg = context.Background()

// fieldsOf reads "name TYPE, name TYPE".
func fieldsOf(t *testing.T, spec string) []row.Field {
	t.Helper()
	typ, err := row.ParseType("STRUCT(" + spec + ")")
	if err != nil {
		t.Fatal(err)
	}
	return typ.Fields
}

// batch makes a SinkBatch of the stream s.
func batch(t *testing.T, spec, from, to string, rows ...[]string) row.SinkBatch {
	t.Helper()
	fields := fieldsOf(t, spec)
	b := row.SinkBatch{Relation: "s", ID: 1, Version: 1, Fields: fields, Rows: rowsOf(t, fields, rows...)}
	if from != "" {
		b.From = []byte(from)
	}
	if to != "" {
		b.To = []byte(to)
	}
	return b
}

func apply(t *testing.T, h *History, b row.SinkBatch) {
	t.Helper()
	if err := h.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
}

func position(t *testing.T, h *History, b row.SinkBatch) string {
	t.Helper()
	p, err := h.Position(bg, b.Relation, b.ID, b.Version)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func expect(t *testing.T, h *History, sql string, want ...string) {
	t.Helper()
	if got := ask(t, h, sql); got != strings.Join(want, "\n") {
		t.Errorf("%s\ngot\n%s\nwant\n%s", sql, got, strings.Join(want, "\n"))
	}
}

func TestBatchAppliedTwiceHasNoEffect(t *testing.T) { // I2
	t.Parallel()
	h := start(t, t.TempDir())
	one := batch(t, "a BIGINT", "", "p1", []string{"1"}, []string{"2"})
	two := batch(t, "a BIGINT", "p1", "p2", []string{"3"})
	if got := position(t, h, one); got != "" {
		t.Errorf("a new relation stands at %q", got)
	}
	apply(t, h, one)
	apply(t, h, one)
	apply(t, h, two)
	apply(t, h, two)
	expect(t, h, "SELECT a FROM s ORDER BY a", `{"a":1}`, `{"a":2}`, `{"a":3}`)
	if got := position(t, h, one); got != "p2" {
		t.Errorf("position %q", got)
	}
	var pe *PositionError
	if err := h.Apply(bg, one); !errors.As(err, &pe) || string(pe.Held) != "p2" {
		t.Errorf("an old batch gives %v", err)
	}
	if err := h.Apply(bg, batch(t, "a BIGINT", "p7", "p8", []string{"9"})); !errors.As(err, &pe) || string(pe.Held) != "p2" {
		t.Errorf("a batch from elsewhere gives %v", err)
	}
	expect(t, h, "SELECT count(*) AS n FROM s", `{"n":3}`)
}

func TestRelationSurvivesReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir)
	one := batch(t, "a BIGINT, t VARCHAR", "", "p1", []string{"1", `"x"`})
	apply(t, h, one)
	changes := fieldsOf(t, "n BIGINT, _key BLOB, _weight BIGINT, _revision BIGINT, _sequence BIGINT, _status VARCHAR")
	apply(t, h, row.SinkBatch{
		Relation: "v_changes", ID: 2, Version: 1, Fields: changes, To: []byte("q"),
		Rows: rowsOf(t, changes, []string{"7", `"aw=="`, "1", "0", "1", `"provisional"`}),
	})
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = start(t, dir)
	if got := position(t, h, one); got != "p1" {
		t.Errorf("position %q", got)
	}
	apply(t, h, batch(t, "a BIGINT, t VARCHAR", "p1", "p2", []string{"2", `"y"`}))
	expect(t, h, "SELECT * FROM s ORDER BY a", `{"a":1,"t":"x"}`, `{"a":2,"t":"y"}`)
	expect(t, h, "SELECT * FROM v", `{"n":7}`)
	if s := h.Status(); s.SetAside != "" || !s.Running || s.Restarts != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestColumnsAppearAndWiden(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "a BIGINT", "", "p1", []string{"1"}))
	apply(t, h, batch(t, "a BIGINT, b VARCHAR", "p1", "p2", []string{"2", `"x"`}))
	apply(t, h, batch(t, "a DOUBLE, b VARCHAR", "p2", "p3", []string{"2.5", `"y"`}))
	apply(t, h, batch(t, "A BIGINT", "p3", "p4", []string{"4"})) // a batch of before the widening
	expect(t, h, "SELECT a, typeof(a) AS t, b FROM s ORDER BY a",
		`{"a":1,"t":"DOUBLE","b":null}`, `{"a":2,"t":"DOUBLE","b":"x"}`, `{"a":2.5,"t":"DOUBLE","b":"y"}`, `{"a":4,"t":"DOUBLE","b":null}`)
	apply(t, h, batch(t, "d STRUCT(os VARCHAR)", "p4", "p5", []string{`{"os":"x"}`}))
	apply(t, h, batch(t, "d STRUCT(os VARCHAR, n BIGINT)", "p5", "p6", []string{`{"os":"y","n":1}`}))
	apply(t, h, batch(t, "d STRUCT(n BIGINT, l STRUCT(z BIGINT)[])", "p6", "p7", []string{`{"n":3,"l":[{"z":1}]}`}))
	apply(t, h, batch(t, "d STRUCT(os VARCHAR, l STRUCT(y VARCHAR, z DOUBLE)[])", "p7", "p8", []string{`{"os":"z","l":[{"y":"k","z":2.5},null]}`}))
	expect(t, h, "SELECT d FROM s WHERE d IS NOT NULL ORDER BY d.os NULLS LAST", `{"d":{"os":"x","n":null,"l":null}}`, `{"d":{"os":"y","n":1,"l":null}}`,
		`{"d":{"os":"z","n":null,"l":[{"z":2.5,"y":"k"},null]}}`, `{"d":{"os":null,"n":3,"l":[{"z":1,"y":null}]}}`)
}

func TestAnotherVersionOrIDEmptiesTheTable(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	old := batch(t, "a BIGINT, gone VARCHAR", "", "p1", []string{"1", `"x"`})
	apply(t, h, old)
	replay := batch(t, "a BIGINT", "", "p1", []string{"2"})
	replay.Version = 2
	if got := position(t, h, replay); got != "" {
		t.Errorf("the new version stands at %q", got)
	}
	apply(t, h, replay)
	expect(t, h, "SELECT * FROM s", `{"a":2}`)
	var pe *PositionError
	if err := h.Apply(bg, old); !errors.As(err, &pe) {
		t.Errorf("a batch of before the replay gives %v", err)
	}
	anew := batch(t, "a VARCHAR", "", "p1", []string{`"y"`})
	anew.ID = 9
	apply(t, h, anew)
	expect(t, h, "SELECT * FROM s", `{"a":"y"}`)
	if list, err := h.Relations(bg); err != nil || len(list) != 1 || list[0] != (Relation{"s", 9, 1}) {
		t.Errorf("relations %v, %v", list, err)
	}
	for range 2 {
		if err := h.Drop(bg, "s"); err != nil {
			t.Fatal(err)
		}
	}
	if got := position(t, h, anew); got != "" {
		t.Errorf("after the drop it stands at %q", got)
	}
	apply(t, h, anew)
	expect(t, h, "SELECT * FROM s", `{"a":"y"}`)
}

func TestDeclaredRelationCanBeReadBeforeItsFirstRow(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, "a BIGINT", "", ""))
	expect(t, h, "SELECT count(*) AS n FROM s", `{"n":0}`)
	apply(t, h, batch(t, "a BIGINT", "", "p1", []string{"1"}))
	apply(t, h, batch(t, "a BIGINT, b BIGINT", "p1", "p1")) // a column appears, no rows
	expect(t, h, "SELECT * FROM s", `{"a":1,"b":null}`)
	apply(t, h, batch(t, "a BIGINT", "p1", "p2")) // the position moves over nothing
	if got := position(t, h, batch(t, "a BIGINT", "", "")); got != "p2" {
		t.Errorf("position %q", got)
	}
}

func TestViewIsTheSumOfItsChanges(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	spec := `country VARCHAR, revenue DOUBLE, "select" BIGINT[], _key BLOB, _weight BIGINT, _revision BIGINT, _sequence BIGINT, _status VARCHAR`
	fields := fieldsOf(t, spec)
	change := func(country, revenue, list, key, weight, seq string) []string {
		return []string{country, revenue, list, key, weight, "0", seq, `"provisional"`}
	}
	send := func(from, to string, rows ...[]string) {
		t.Helper()
		b := row.SinkBatch{Relation: "revenue_changes", ID: 1, Version: 1, Fields: fields, Rows: rowsOf(t, fields, rows...), To: []byte(to)}
		if from != "" {
			b.From = []byte(from)
		}
		apply(t, h, b)
	}
	send("", "p1", change(`"DE"`, "5", "[1]", `"REU="`, "1", "1"), change("null", "1", "null", `"AA=="`, "1", "1"))
	send("p1", "p2", change(`"DE"`, "5", "[1]", `"REU="`, "-1", "2"), change(`"DE"`, "7", "[1,2]", `"REU="`, "1", "2"))
	send("p2", "p3", change(`"FR"`, "1", "[]", `"RlI="`, "1", "3"), change(`"FR"`, "1", "[]", `"RlI="`, "-1", "4"))
	send("p3", "p4", change(`"IT"`, "2", "[]", `"SVQ="`, "2", "5"))
	expect(t, h, `SELECT * FROM revenue ORDER BY country NULLS FIRST`,
		`{"country":null,"revenue":1,"select":null}`, `{"country":"DE","revenue":7,"select":[1,2]}`,
		`{"country":"IT","revenue":2,"select":[]}`, `{"country":"IT","revenue":2,"select":[]}`)
	expect(t, h, "SELECT count(*) AS n, sum(_weight) AS w FROM revenue_changes", `{"n":7,"w":4}`)

	// A column that widens takes the view with it.
	fields = fieldsOf(t, strings.Replace(spec, "country VARCHAR", "n BIGINT, country VARCHAR", 1))
	b := row.SinkBatch{Relation: "revenue_changes", ID: 1, Version: 2, Fields: fields, To: []byte("p1"), Rows: rowsOf(t, fields)}
	apply(t, h, b)
	expect(t, h, `SELECT count(n) AS n FROM revenue`, `{"n":0}`)
	if err := h.Drop(bg, "revenue_changes"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Query(bg, Query{SQL: "SELECT * FROM revenue"}, &strings.Builder{}); err == nil {
		t.Error("the view is there after its changes were dropped")
	}
}

// TestEveryTypeComesBack: what goes in as JSON by the column's type comes out as the same JSON.
func TestEveryTypeComesBack(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	values := []struct{ typ, value string }{
		{"BOOLEAN", "true"},
		{"TINYINT", "-128"},
		{"SMALLINT", "32767"},
		{"INTEGER", "-2147483648"},
		{"BIGINT", "9007199254740993"},
		{"HUGEINT", "-170141183460469231731687303715884105727"},
		{"HUGEINT", "18446744073709551616"},
		{"FLOAT", "1.5"},
		{"DOUBLE", "0.1"},
		{"DOUBLE", "1e+300"},
		{"DECIMAL(4,2)", "-12.30"},
		{"DECIMAL(9,3)", "123456.789"},
		{"DECIMAL(18,6)", "-123456789012.345678"},
		{"DECIMAL(38,10)", "1234567890123456789012345678.0123456789"},
		{"VARCHAR", `"naïve \"quoted\" \u0001"`},
		{"VARCHAR", `""`},
		{"DATE", `"1969-12-31"`},
		{"DATE", `"2024-02-29"`},
		{"TIMESTAMP", `"2024-01-01T12:00:00Z"`},
		{"TIMESTAMP", `"0001-01-01T00:00:00.000001Z"`},
		{"TIMESTAMP", `"9999-12-31T23:59:59.999999Z"`},
		{"JSON", `{"b":1,"a":[1.0,"<",  null],"n":12345678901234567890123}`},
		{"BIGINT[]", "[1,null,3]"},
		{"BIGINT[][]", "[[1],[],null,[2,3]]"},
		{"VARCHAR[]", `["a","",null]`},
		{"STRUCT(os VARCHAR, \"v w\" BIGINT)", `{"os":"x","v w":1}`},
		{"STRUCT(a STRUCT(b TIMESTAMP, c DECIMAL(6,2)[]), d JSON)", `{"a":{"b":"2024-01-01T00:00:00Z","c":[1.50,null]},"d":{"x": 1}}`},
		{"STRUCT(a BIGINT)[]", `[{"a":1},null,{"a":null}]`},
		{"HUGEINT[]", "[170141183460469231731687303715884105727]"},
	}
	var specs, cells, want []string
	for i, v := range values {
		specs = append(specs, fmt.Sprintf("c%d %s", i, v.typ))
		cells = append(cells, v.value)
		want = append(want, fmt.Sprintf(`"c%d":%s`, i, v.value))
	}
	nulls := make([]string, len(cells))
	for i := range nulls {
		nulls[i] = "null"
	}
	apply(t, h, batch(t, strings.Join(specs, ", "), "", "p1", cells, nulls))
	for i, got := range strings.Split(ask(t, h, "SELECT * FROM s WHERE c0"), ",\"c") {
		w := strings.Split("{"+strings.Join(want, ",")+"}", ",\"c")[i]
		if got != w {
			t.Errorf("%s: got %s, want %s", values[i].typ, got, w)
		}
	}
	if got := ask(t, h, "SELECT * FROM s WHERE c0 IS NULL"); strings.Count(got, "null") != len(values) {
		t.Errorf("nulls come back as %s", got)
	}
	b := batch(t, "i INTERVAL, b BLOB", "p1", "p2")
	b.Rows.Cols[0].AppendInt128(row.MakeInterval(14, -3, 5_000_001))
	b.Rows.Cols[1].AppendString("\x00\xff")
	b.Rows.Len = 1
	apply(t, h, b)
	expect(t, h, "SELECT i = INTERVAL '14 months -3 days 5.000001 seconds' AS same, b FROM s WHERE b IS NOT NULL", `{"same":true,"b":"AP8="}`)
}

func TestHostileNamesAreOnlyNames(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	apply(t, h, batch(t, `"a""; DROP TABLE s; --" BIGINT, "SELECT" VARCHAR, "ü" BIGINT, "x,y" BIGINT, X BIGINT, x BIGINT`, "", "p1",
		[]string{"1", `"k"`, "2", "3", "4", "5"}))
	expect(t, h, "SELECT * FROM s", `{"a\"; DROP TABLE s; --":1,"SELECT":"k","ü":2,"x,y":3,"X":4,"x_1":5}`)
}

func TestColumnsNamedAsOursGiveWay(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	fields := []row.Field{{Name: "_key", Type: row.Scalar(row.Varchar)}, {Name: "_Status", Type: row.Scalar(row.BigInt)}}
	fields = append(fields, fieldsOf(t, "_key BLOB, _weight BIGINT, _revision BIGINT, _sequence BIGINT, _status VARCHAR")...)
	rows := rowsOf(t, fields, []string{`"mine"`, "3", `"aw=="`, "1", "0", "1", `"final"`}, []string{`"gone"`, "3", `"bA=="`, "1", "0", "1", `"final"`},
		[]string{`"gone"`, "3", `"bA=="`, "-1", "0", "1", "null"})
	apply(t, h, row.SinkBatch{Relation: "v_changes", ID: 1, Version: 1, Fields: fields, To: []byte("p"), Rows: rows})
	expect(t, h, "SELECT _key FROM v", `{"_key":"mine"}`)
	expect(t, h, "SELECT _key, _key_1, _status FROM v_changes WHERE _weight < 0", `{"_key":"bA==","_key_1":"gone","_status":null}`)
	fields = fieldsOf(t, "a BIGINT, _OFFSET VARCHAR, _offset BIGINT")
	apply(t, h, row.SinkBatch{Relation: "s", ID: 2, Version: 1, Fields: fields, To: []byte("p"), Rows: rowsOf(t, fields, []string{"1", `"x"`, "7"})})
	expect(t, h, "SELECT * FROM s", `{"a":1,"_OFFSET_1":"x","_offset":7}`)
}

func TestNameMovesFromStreamToView(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	stream := batch(t, "a BIGINT", "", "p1", []string{"1"})
	apply(t, h, stream)
	fields := fieldsOf(t, "n BIGINT, _key BLOB, _weight BIGINT, _revision BIGINT, _sequence BIGINT, _status VARCHAR")
	view := row.SinkBatch{
		Relation: "s_changes", ID: 2, Version: 1, Fields: fields, To: []byte("q1"),
		Rows: rowsOf(t, fields, []string{"7", `"aw=="`, "1", "0", "1", `"final"`}),
	}
	if err := h.Apply(bg, view); err == nil {
		t.Error("two relations have one name")
	}
	if err := h.Drop(bg, "s_changes"); err != nil {
		t.Fatal(err)
	}
	expect(t, h, "SELECT * FROM s", `{"a":1}`)
	if err := h.Apply(bg, view); err == nil {
		t.Error("two relations have one name")
	}
	if err := h.Drop(bg, "s"); err != nil {
		t.Fatal(err)
	}
	apply(t, h, view)
	expect(t, h, "SELECT * FROM s", `{"n":7}`)
	if err := h.Apply(bg, stream); err == nil {
		t.Error("two relations have one name")
	}
	if err := h.Drop(bg, "s_changes"); err != nil {
		t.Fatal(err)
	}
	apply(t, h, stream)
	expect(t, h, "SELECT * FROM s", `{"a":1}`)
}

// An instant outside the years that the driver takes is kept exactly, and never stops the batches
// behind it.
func TestInstantsAtTheEndsOfTimeAreKept(t *testing.T) {
	t.Parallel()
	h := start(t, t.TempDir())
	far := []int64{-9223372022400000000, math.MaxInt64 - 1, math.MaxInt64, -math.MaxInt64, 0, math.MinInt64}
	b := batch(t, "n BIGINT, t TIMESTAMP, l TIMESTAMP[], j JSON", "", "p1")
	for i, us := range far {
		b.Rows.Cols[0].AppendInt64(int64(i))
		b.Rows.Cols[1].AppendInt64(us)
		list := row.NewVector(row.Scalar(row.Timestamp), 2)
		list.AppendInt64(us)
		list.AppendInt64(1_000_000)
		b.Rows.Cols[2].AppendString(string(row.EncodeList(nil, list)))
		b.Rows.Cols[3].AppendString(`{"a": 1}`)
		b.Rows.Len++
	}
	apply(t, h, b)
	expect(t, h, "SELECT n, t::VARCHAR AS t, len(l) AS l, j FROM s ORDER BY n",
		`{"n":0,"t":"290309-12-22 (BC) 00:00:00","l":2,"j":{"a": 1}}`,
		`{"n":1,"t":"294247-01-10 04:00:54.775806","l":2,"j":{"a": 1}}`,
		`{"n":2,"t":"infinity","l":2,"j":{"a": 1}}`,
		`{"n":3,"t":"-infinity","l":2,"j":{"a": 1}}`,
		`{"n":4,"t":"1970-01-01 00:00:00","l":2,"j":{"a": 1}}`,
		`{"n":5,"t":null,"l":2,"j":{"a": 1}}`)
	if got := ask(t, h, "SELECT t FROM s WHERE n = 0"); !strings.Contains(got, "290308-12-22T00:00:00Z") {
		t.Errorf("it reads as %s", got)
	}
	plain := batch(t, "t TIMESTAMP", "p1", "p2")
	plain.Rows.Cols[0].AppendInt64(far[0])
	plain.Rows.Len = 1
	apply(t, h, plain)
	expect(t, h, "SELECT count(*) AS n FROM s WHERE t = make_timestamp(-9223372022400000000)", `{"n":2}`)
}
