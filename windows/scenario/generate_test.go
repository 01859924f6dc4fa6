package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"tidemark/storage/row"
	"tidemark/windows"
	"tidemark/windows/query"
)

// gen draws a view. SQL is made by kind of value (number, text, truth, time), so that nearly all of
// it has types that fit; columns are those of the SELECT that is being written.
type gen struct {
	t    *rapid.T
	w    *world
	kind string
	base windows.Micros
	cols []row.Field // in scope
	n    int         // names given out
}

func (g *gen) pick(list ...string) string { return rapid.SampledFrom(list).Draw(g.t, "sql") }

func (g *gen) one(in int) bool { return rapid.IntRange(1, in).Draw(g.t, "choice") == in }

// streams draws one stream or two of the same columns.
func (g *gen) streams() {
	fields := []row.Field{{Name: "k", Type: row.Scalar(row.Varchar)}, {Name: "v", Type: row.Scalar(row.BigInt)}}
	for i := range rapid.IntRange(0, 5).Draw(g.t, "columns") {
		typ, err := row.ParseType(g.pick("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "DOUBLE", "DOUBLE", "FLOAT", "DECIMAL(10,2)", "DECIMAL(18,4)", "VARCHAR", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "HUGEINT", "BIGINT[]", "VARCHAR[]", "STRUCT(a BIGINT, b VARCHAR)"))
		if err != nil {
			g.t.Fatal(err)
		}
		fields = append(fields, row.Field{Name: fmt.Sprintf("c%d", i), Type: typ})
	}
	g.w.declare("s", rapid.IntRange(1, 3).Draw(g.t, "partitions"), fields)
	if g.one(4) {
		g.w.declare("t", rapid.IntRange(1, 2).Draw(g.t, "partitions"), fields)
	}
}

// value draws a value: NULL, ordinary, or as extreme as the type allows.
func (g *gen) value(v *row.Vector) {
	t := g.t
	if rapid.IntRange(0, 5).Draw(t, "null") == 5 {
		v.AppendNull()
		return
	}
	extreme := rapid.IntRange(0, 24).Draw(t, "extreme") == 24
	switch v.Type.Kind {
	case row.Varchar:
		v.AppendString(rapid.SampledFrom([]string{"a", "b", "c", "", "12", "A b", "äß€", "a%_", "-7.5"}).Draw(t, "text"))
	case row.Boolean:
		v.AppendInt64(rapid.Int64Range(0, 1).Draw(t, "truth"))
	case row.Double, row.Float:
		x := float64(rapid.Int64Range(-8, 20).Draw(t, "quarters")) / 4
		if extreme {
			x = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e30, 1e-30}).Draw(t, "float")
			if v.Type.Kind == row.Float {
				x = float64(float32(x))
			}
		}
		v.AppendFloat64(x)
	case row.HugeInt:
		x := row.FromInt64(rapid.Int64Range(-4, 9).Draw(t, "number"))
		if extreme {
			x = row.Int128{Hi: rapid.SampledFrom([]int64{1 << 40, -1 << 40}).Draw(t, "huge"), Lo: 5}
		}
		v.AppendInt128(x)
	case row.Decimal:
		x := rapid.Int64Range(-500, 1500).Draw(t, "unscaled")
		if extreme {
			x = rapid.SampledFrom([]int64{9_999_999_999, -9_999_999_999}).Draw(t, "decimal")
		}
		if v.Type.Class() == row.Int128Class {
			v.AppendInt128(row.FromInt64(x))
		} else {
			v.AppendInt64(x)
		}
	case row.Date:
		v.AppendInt64(19737 + rapid.Int64Range(-40, 40).Draw(t, "days"))
	case row.List, row.Struct:
		text := g.pick("[]", "[1]", "[2, 1]", "[null]", "[1, null]", "[null, 1, 2]", "[1, 3, null, 1]")
		switch {
		case v.Type.Kind == row.Struct:
			text = g.pick(`{"a":1,"b":"x"}`, `{"a":1}`, `{"b":"a"}`, `{"a":2,"b":null}`, `{}`, `{"a":1,"b":""}`)
		case v.Type.Elem.Kind == row.Varchar:
			text = g.pick(`[]`, `["a"]`, `["b", "a"]`, `[null]`, `["a", null]`, `[null, "", "b"]`, `["a", "ab", null, "a"]`)
		}
		if err := row.ParseJSONValue(v, []byte(text)); err != nil {
			t.Fatal(err)
		}
	case row.Timestamp:
		v.AppendInt64(day + rapid.Int64Range(-100_000, 100_000).Draw(t, "seconds")*second)
	default:
		x := rapid.Int64Range(-3, 9).Draw(t, "number")
		if extreme {
			lo, hi := row.IntegerRange(v.Type.Kind)
			x = rapid.SampledFrom([]int64{lo, hi}).Draw(t, "limit")
		}
		v.AppendInt64(x)
	}
}

// columns are those in scope of one of the kinds.
func (g *gen) columns(is func(row.Kind) bool) []string {
	var names []string
	for _, f := range g.cols {
		if is(f.Type.Kind) {
			names = append(names, f.Name)
		}
	}
	return names
}

func isNumber(k row.Kind) bool {
	return slices.Contains([]row.Kind{row.TinyInt, row.SmallInt, row.Integer, row.BigInt, row.HugeInt, row.Float, row.Double, row.Decimal}, k)
}

func (g *gen) column(is func(row.Kind) bool, otherwise string) string {
	names := g.columns(is)
	if len(names) == 0 {
		return otherwise
	}
	return g.pick(names...)
}

func (g *gen) num(depth int) string {
	if depth == 0 || g.one(2) {
		if g.one(6) {
			return g.pick("0", "1", "2", "-1", "10", "0.5", "2.25", "1e2")
		}
		return g.column(isNumber, "3")
	}
	a, b := func() string { return g.num(depth - 1) }, func() string { return g.num(depth - 1) }
	switch rapid.IntRange(0, 25).Draw(g.t, "number") {
	case 0, 1, 2:
		return "(" + a() + " " + g.pick("+", "-", "*") + " " + b() + ")"
	case 3:
		return "(" + a() + " " + g.pick("/", "//", "%") + " " + g.pick("2", "3", "v", "0.5") + ")"
	case 4:
		return g.pick("abs", "sign", "floor", "ceil", "round") + "(" + a() + ")"
	case 5:
		return "length(" + g.txt(depth-1) + ")"
	case 6:
		return "CASE WHEN " + g.boo(depth-1) + " THEN " + a() + " ELSE " + b() + " END"
	case 7:
		return "coalesce(" + a() + ", " + b() + ")"
	case 8:
		return "CAST(" + a() + " AS " + g.pick("BIGINT", "DOUBLE", "INTEGER", "DECIMAL(12,3)", "HUGEINT", "SMALLINT") + ")"
	case 9:
		return "TRY_CAST(" + g.txt(depth-1) + " AS " + g.pick("BIGINT", "DOUBLE", "DECIMAL(9,1)") + ")"
	case 10:
		return g.pick("greatest", "least") + "(" + a() + ", " + b() + ")"
	case 11:
		return "nullif(" + a() + ", " + b() + ")"
	case 12:
		return g.pick("year", "month", "day", "hour", "minute", "epoch", "dayofweek", "week") + "(" + g.tim(depth-1) + ")"
	case 13:
		return "strpos(k, 'a')"
	case 14:
		return "round(" + a() + ", " + g.pick("0", "1", "2") + ")"
	case 15:
		if g.one(3) {
			return "CAST(" + g.txt(0) + " AS BIGINT)" // fails for most
		}
		return "-" + "(" + a() + ")"
	case 16:
		return "date_diff('" + g.pick("second", "minute", "hour", "day", "month", "year") + "', " + g.tim(depth-1) + ", " + g.tim(depth-1) + ")"
	case 17:
		return g.pick("date_part('dow', ", "date_part('isoyear', ", "extract(quarter FROM ", "extract(microsecond FROM ", "epoch_ms(") + g.tim(depth-1) + ")"
	case 18:
		return "[" + a() + ", " + b() + "][" + g.pick("1", "2", "-1", "3", "v") + "]"
	case 19:
		return g.pick("ascii", "unicode", "bit_length", "length") + "(" + g.txt(depth-1) + ")"
	case 20:
		// Rounded: the last digit is that of the platform's library, and a text shows it.
		return g.pick("round(sqrt(abs(", "round(exp(sign(", "round(ln(1 + abs(", "round(atan((", "round(cbrt((") + g.num(0) + ")), 9)"
	case 21:
		return "len(string_split(" + g.txt(depth-1) + ", 'a'))"
	case 22:
		if s := g.columns(func(k row.Kind) bool { return k == row.Struct }); len(s) > 0 && g.one(2) {
			return g.pick(s...) + ".a"
		}
		return "len(" + g.lst(depth-1) + ")"
	case 23:
		return "{'a': " + a() + ", 'b': " + g.txt(0) + "}.a"
	case 24:
		return "list_sum(list_transform([" + a() + ", " + g.num(0) + "], x -> x " + g.pick("+ 1", "* 2", "+ v") + "))"
	default:
		return "CAST(" + g.boo(depth-1) + " AS INTEGER)"
	}
}

func (g *gen) txt(depth int) string {
	isText := func(k row.Kind) bool { return k == row.Varchar }
	if depth == 0 || g.one(2) {
		if g.one(6) {
			return g.pick("'a'", "''", "'x y'", "'ä'")
		}
		return g.column(isText, "'none'")
	}
	a := func() string { return g.txt(depth - 1) }
	switch rapid.IntRange(0, 17).Draw(g.t, "text") {
	case 0:
		return g.pick("upper", "lower", "trim", "reverse") + "(" + a() + ")"
	case 1:
		return "(" + a() + " || " + a() + ")"
	case 2:
		return "substr(" + a() + ", " + g.pick("1", "2", "-1") + ", " + g.pick("1", "2") + ")"
	case 3:
		return "CASE WHEN " + g.boo(depth-1) + " THEN " + a() + " END"
	case 4:
		return "coalesce(" + a() + ", " + a() + ")"
	case 5:
		return "CAST(" + g.num(depth-1) + " AS VARCHAR)"
	case 6:
		return "replace(" + a() + ", 'a', " + a() + ")"
	case 7:
		return g.pick("left", "right") + "(" + a() + ", 1)"
	case 8:
		return "CAST(" + g.tim(depth-1) + " AS VARCHAR)"
	case 9:
		return "lpad(" + a() + ", 3, '-')"
	case 10:
		return "regexp_replace(" + a() + ", '[a-b]', 'z')"
	case 11:
		return "concat_ws('-', " + a() + ", " + a() + ")"
	case 12:
		return "split_part(" + a() + ", 'a', " + g.pick("1", "2", "-1") + ")"
	case 13:
		return "regexp_extract(" + a() + ", '([a-z]+)', 1)"
	case 14:
		return g.pick("dayname", "monthname") + "(" + g.tim(depth-1) + ")"
	case 15:
		return g.pick("md5", "hex") + "(" + a() + ")"
	case 16:
		return "repeat(" + a() + ", 2)"
	default:
		return "strftime(" + g.tim(depth-1) + ", '%Y-%m-%d %H:%M')"
	}
}

func (g *gen) boo(depth int) string {
	isTruth := func(k row.Kind) bool { return k == row.Boolean }
	if depth == 0 {
		return g.column(isTruth, g.pick("k IS NULL", "v > 1", "k = 'a'", "v IN (1, 2)"))
	}
	switch rapid.IntRange(0, 12).Draw(g.t, "truth") {
	case 0, 1, 2:
		return g.num(depth-1) + " " + g.pick("=", "<>", "<", "<=", ">", ">=") + " " + g.num(depth-1)
	case 3:
		return g.txt(depth-1) + " " + g.pick("=", "<", ">", "IS DISTINCT FROM", "IS NOT DISTINCT FROM") + " " + g.txt(depth-1)
	case 4:
		return g.pick(g.num(depth-1), g.txt(depth-1)) + " IS " + g.pick("", "NOT ") + "NULL"
	case 5:
		return g.num(depth-1) + g.pick(" IN (1, 2, 5)", " NOT IN (1, NULL)", " BETWEEN 0 AND 3")
	case 6:
		return g.txt(depth-1) + g.pick(" LIKE 'a%'", " NOT LIKE '%b'", " ILIKE 'A_'")
	case 7:
		return "(" + g.boo(depth-1) + " " + g.pick("AND", "OR") + " " + g.boo(depth-1) + ")"
	case 8:
		return "NOT (" + g.boo(depth-1) + ")"
	case 9:
		return "regexp_matches(" + g.txt(depth-1) + ", '^[a-c]')"
	case 10:
		return g.pick("starts_with", "contains", "ends_with") + "(" + g.txt(depth-1) + ", 'a')"
	case 11:
		return "list_contains([1, 2, v], " + g.num(depth-1) + ")"
	default:
		return g.tim(depth-1) + " " + g.pick("<", ">=", "=") + " " + g.tim(depth-1)
	}
}

func (g *gen) tim(depth int) string {
	isTime := func(k row.Kind) bool { return k == row.Timestamp }
	if depth == 0 || g.one(2) {
		return g.column(isTime, "TIMESTAMP '2024-01-15 10:00:30'")
	}
	switch rapid.IntRange(0, 3).Draw(g.t, "time") {
	case 0:
		return "date_trunc('" + g.pick("minute", "hour", "day", "week", "month") + "', " + g.tim(depth-1) + ")"
	case 1:
		return "(" + g.tim(depth-1) + g.pick(" + ", " - ") + g.pick("INTERVAL 1 MINUTE", "INTERVAL '1 month'", "INTERVAL 90 SECOND") + ")"
	case 2:
		return "time_bucket(" + g.pick("INTERVAL 2 MINUTE", "INTERVAL '1 week'") + ", " + g.tim(depth-1) + ")"
	default:
		return "CASE WHEN " + g.boo(0) + " THEN " + g.tim(depth-1) + " ELSE " + g.tim(depth-1) + " END"
	}
}

// lst draws a list.
func (g *gen) lst(depth int) string {
	if depth <= 0 || g.one(2) {
		return g.column(func(k row.Kind) bool { return k == row.List }, "[v, NULL, 1]")
	}
	switch rapid.IntRange(0, 4).Draw(g.t, "list") {
	case 0:
		return "[" + g.num(depth-1) + ", " + g.num(depth-1) + "]"
	case 1:
		return g.pick("list_sort(", "list_reverse(", "list_reverse_sort(") + g.lst(depth-1) + ")"
	case 2:
		return g.lst(depth-1) + g.pick("[1:2]", "[2:]", "[:-2]", "[v:3]")
	case 3:
		return g.pick("list_filter(", "list_transform(") + g.lst(depth-1) + ", x -> x " + g.pick("IS NOT NULL", "IS DISTINCT FROM NULL") + ")"
	default:
		return "list_concat(" + g.column(func(k row.Kind) bool { return k == row.List }, "[v]") + ", " + g.pick("NULL", "[NULL]", "[]") + ")"
	}
}

// any draws an expression of any kind.
func (g *gen) any(depth int) string {
	switch rapid.IntRange(0, 6).Draw(g.t, "any") {
	case 6:
		return g.lst(depth)
	case 0, 1, 2:
		return g.num(depth)
	case 3:
		return g.txt(depth)
	case 4:
		return g.boo(depth)
	default:
		return g.tim(depth)
	}
}

// bare is a column, for where an expression would be too much.
func (g *gen) bare() string {
	return g.column(func(k row.Kind) bool { return true }, "v")
}

func (g *gen) aggregate() string {
	n, x := g.num(1), g.any(1)
	if g.one(2) {
		n, x = g.column(isNumber, "v"), g.bare()
	}
	a := g.pick("count(*)", "count(*)", "count("+x+")", "count(DISTINCT "+x+")", "sum("+n+")", "sum("+n+")", "avg("+n+")", "min("+x+")", "max("+x+")",
		"first("+x+")", "last("+x+")", "list("+x+")", "list("+n+" ORDER BY v DESC)", "string_agg("+g.txt(1)+", ',')", "string_agg(k, '-' ORDER BY v, k)",
		"arg_max("+x+", v)", "arg_min(k, "+n+")", "stddev(v)::FLOAT", "var_pop(v)::FLOAT", "bool_or("+g.boo(1)+")", "bool_and("+g.boo(1)+")", "median(v)", "quantile_cont(v, 0.25)",
		"sum(DISTINCT v)", "mode("+g.column(isNumber, "v")+")", "any_value("+x+")", "quantile_disc(v, 0.5)", "bit_and(v)", "bit_xor(v)", "covar_pop(v, 2)::FLOAT", "stddev_pop("+n+")::FLOAT",
		"arg_max_null(k, v)", "min("+n+") + max(v)", "sum(v) / count(*)", "list(v)[1]", "len(list(k))", "string_agg(DISTINCT k, ',' ORDER BY k)", "max(ts) - min(ts)", "count(*) FILTER (WHERE v > 0) * 100.0 / count(*)",
		"CASE WHEN count(*) > 2 THEN max("+x+") END", "count_if("+g.boo(1)+")", "list(DISTINCT k ORDER BY k)")
	if !strings.Contains(a, "DISTINCT") && !strings.HasPrefix(a, "count_if") && strings.HasSuffix(a, ")") && g.one(5) {
		a += " FILTER (WHERE " + g.boo(1) + ")"
	}
	return a
}

// from draws what a SELECT reads, and puts its columns in scope.
func (g *gen) from() (text string, windowed bool) {
	s := g.w.streams[rapid.IntRange(0, len(g.w.streams)-1).Draw(g.t, "from")]
	g.cols = slices.Clone(s.fields)
	name := s.name
	kind := g.kind
	input := name
	if kind != "hop" {
		switch rapid.IntRange(0, 9).Draw(g.t, "input") {
		case 0:
			input = "(SELECT * FROM " + name + " WHERE " + g.boo(1) + ")"
		case 1:
			if len(g.w.streams) > 1 {
				input = "(SELECT * FROM s UNION ALL SELECT * FROM t)"
			}
		}
	}
	if kind == "none" {
		if g.one(4) && input == name {
			g.cols = append(g.cols, row.Field{Name: g.pick("_time", "_key", "_offset"), Type: row.Scalar(row.Null)})
		}
		return input, false
	}
	size := g.pick("INTERVAL '1 minute'", "INTERVAL 90 SECOND", "INTERVAL '5 minutes'", "INTERVAL '1 hour'", "INTERVAL 1 DAY", "'2 minutes'", "INTERVAL 20 SECOND")
	key := func() string {
		var keys []string
		for range rapid.IntRange(0, 2).Draw(g.t, "keys") {
			if k := g.bare(); k != "ts" && !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
		if g.one(2) && !slices.Contains(keys, "k") {
			keys = append(keys, "k")
		}
		if len(keys) == 0 {
			return ""
		}
		return ", " + strings.Join(keys, ", ")
	}
	switch kind {
	case "tumble":
		if g.one(8) {
			text = "tumble(" + input + ", ts, " + g.pick("INTERVAL '1 day'", "INTERVAL '1 week'", "INTERVAL '1 month'") + ", " + g.pick("'Europe/Berlin'", "'America/New_York'", "'Asia/Kathmandu'", "'UTC'") + ")"
			break
		}
		text = "tumble(" + input + ", " + g.pick("ts", "ts", "ts") + ", " + g.pick(size, size, size, "INTERVAL '1 week'", "INTERVAL '1 month'", "INTERVAL '3 months'", "INTERVAL '1 year'") + ")"
	case "hop":
		text = "hop(" + input + ", " + g.pick("ts", "_time") + ", " + g.pick("INTERVAL 30 SECOND", "INTERVAL 2 MINUTE", "'1 minute'", "INTERVAL 7 SECOND") + ", " + g.pick("INTERVAL '1 minute'", "INTERVAL 90 SECOND", "INTERVAL 20 SECOND", "INTERVAL 5 MINUTE") + ")"
	case "session":
		text = "session(" + input + ", ts, " + g.pick("INTERVAL 20 SECOND", "INTERVAL 1 MINUTE", "INTERVAL 3 SECOND") + key() + ")"
	case "slide":
		text = "slide(" + input + ", ts, " + g.pick("INTERVAL 20 SECOND", "INTERVAL 1 MINUTE", "INTERVAL 5 MINUTE", "INTERVAL 1 SECOND") + key() + ")"
	}
	for _, n := range []string{"window_start", "window_end"} {
		g.cols = append(g.cols, row.Field{Name: n, Type: row.Scalar(row.Timestamp)})
	}
	return text, true
}

func (g *gen) view() string {
	switch rapid.IntRange(0, 11).Draw(g.t, "shape") {
	case 0: // two branches
		a, b := g.branch(), g.branch()
		return a + " UNION ALL " + b
	case 1, 2: // an aggregate over what another SELECT gives
		inner, names := g.selection(false)
		n, m := rapid.SampledFrom(names).Draw(g.t, "name"), rapid.SampledFrom(names).Draw(g.t, "name")
		return fmt.Sprintf("SELECT %s, count(*) AS z, max(%s) AS y, %s(%s) AS x FROM %s GROUP BY %s", n, m, g.pick("first", "last", "count", "list", "min", "any_value", "mode"), m, g.beneath(inner), n)
	case 3:
		inner, names := g.selection(false)
		return "WITH q AS (" + inner + ") SELECT " + strings.Join(names, ", ") + " FROM q WHERE " + names[0] + " IS NOT NULL"
	case 4: // windows over windows
		inner, names := g.selection(false)
		if !slices.Contains(names, "window_end") {
			break
		}
		m := rapid.SampledFrom(names).Draw(g.t, "name")
		source := "(" + inner + ")"
		if g.one(2) {
			source = g.beneath(inner)
		}
		over := g.pick("tumble("+source+", window_end, INTERVAL '5 minutes')", "hop("+source+", window_end, INTERVAL '1 minute', INTERVAL '3 minutes')", "tumble("+source+", window_end, INTERVAL '1 hour')")
		return fmt.Sprintf("SELECT window_start, count(*) AS z, %s(%s) AS y, max(%s) AS x FROM %s GROUP BY %s", g.pick("list", "first", "min", "count", "last"), m, m, over, g.pick("window_start", "window_start, window_end"))
	case 5: // window functions over groups or rows
		inner, names := g.selection(false)
		m, n := rapid.SampledFrom(names).Draw(g.t, "name"), rapid.SampledFrom(names).Draw(g.t, "name")
		call := g.pick("rank() OVER (PARTITION BY %s ORDER BY %s)", "count(*) OVER (PARTITION BY %s ORDER BY %s DESC)", "row_number() OVER (PARTITION BY %s ORDER BY %s)", "last_value("+names[0]+") OVER (PARTITION BY %s ORDER BY %s)",
			"lag("+names[0]+") OVER (PARTITION BY %s ORDER BY %s NULLS FIRST)", "list("+names[0]+") OVER (PARTITION BY %s ORDER BY %s ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)")
		return "SELECT " + strings.Join(names, ", ") + ", " + fmt.Sprintf(call, m, n) + " AS w FROM " + g.beneath(inner)
	}
	text, _ := g.selection(true)
	return text
}

// beneath makes a SELECT something that FROM can name: a subquery, or a view that is read.
func (g *gen) beneath(inner string) string {
	if g.one(3) {
		if _, err := query.Compile(duck.ParseSQL, g.w, inner, query.Options{}); err == nil {
			g.w.beneath("b", inner, rapid.SampledFrom([]int64{0, 30, 3600}).Draw(g.t, "beneath")*second)
			return "b"
		}
	}
	return "(" + inner + ")"
}

// branch is a SELECT with two columns, a text and a number.
func (g *gen) branch() string {
	from, windowed := g.from()
	where := g.where()
	if windowed && g.one(2) {
		return "SELECT CAST(window_end AS VARCHAR) AS a, count(*) AS b FROM " + from + where + " GROUP BY window_end"
	}
	return "SELECT " + g.txt(1) + " AS a, v AS b FROM " + from + where
}

func (g *gen) where() string {
	if g.one(3) {
		return " WHERE " + g.boo(2)
	}
	return ""
}

// selection is a SELECT and the names of its columns.
func (g *gen) selection(outer bool) (text string, names []string) {
	from, windowed := g.from()
	where := g.where()
	if g.one(4) {
		return g.rows(from, where, windowed)
	}
	var keys []string
	if windowed {
		for _, k := range []string{"window_start", "window_end"} {
			if !g.one(3) {
				keys = append(keys, k)
			}
		}
	}
	var items []string
	for _, k := range keys {
		items, names = append(items, k), append(names, k)
	}
	for range rapid.IntRange(0, 2).Draw(g.t, "group by") {
		g.n++
		k, name := g.any(1), fmt.Sprintf("k%d", g.n)
		items, names, keys = append(items, k+" AS "+name), append(names, name), append(keys, name)
	}
	for range rapid.IntRange(1, 3).Draw(g.t, "aggregates") {
		g.n++
		name := fmt.Sprintf("a%d", g.n)
		items, names = append(items, g.aggregate()+" AS "+name), append(names, name)
	}
	if len(keys) > 0 && g.one(8) {
		g.n++
		name := fmt.Sprintf("w%d", g.n)
		items, names = append(items, g.pick("rank() OVER (PARTITION BY "+keys[0]+" ORDER BY count(*) DESC)", "sum(count(*)) OVER (PARTITION BY "+keys[0]+")", "row_number() OVER (ORDER BY max(v) DESC NULLS LAST)",
			"count(*) * 1.0 / sum(count(*)) OVER ()", "first_value(max(v)) OVER (PARTITION BY "+keys[0]+" ORDER BY count(*))", "last_value(min(v)) OVER (ORDER BY count(*))")+" AS "+name), append(names, name)
	}
	text = "SELECT " + strings.Join(items, ", ") + " FROM " + from + where
	if len(keys) == 0 {
		return text, names
	}
	text += " GROUP BY " + g.pick("ALL", strings.Join(keys, ", "))
	if g.one(5) {
		text += " HAVING " + g.pick("count(*) > 1", "max(v) > 2", "min(v) < 1", "sum(v) IS NOT NULL")
	}
	switch rapid.IntRange(0, 9).Draw(g.t, "top") {
	case 0:
		text += " QUALIFY row_number() OVER (" + g.pick("", "PARTITION BY "+keys[0]+" ") + "ORDER BY " + g.pick("count(*)", "max(v)", "min(v)") + g.pick("", " DESC") + ") <= " + g.pick("1", "2")
	case 1:
		if outer {
			text += " ORDER BY " + g.pick(names...) + g.pick("", " DESC", " DESC NULLS LAST") + " LIMIT " + g.pick("1", "3")
		}
	}
	return text, names
}

// window is a window function, to be completed by its partition and order.
func (g *gen) window() func(over string) string {
	plain := func(call string) func(string) string {
		return func(over string) string { return call + " OVER (" + over + ")" }
	}
	x := g.bare()
	switch rapid.IntRange(0, 3).Draw(g.t, "window") {
	case 0:
		return plain(g.pick("row_number()", "rank()", "dense_rank()", "lag(v)", "lead(k, 2)", "lag(v, 1, 0)", "lag("+x+" IGNORE NULLS)", "lead("+x+")", "ntile(3)", "percent_rank()", "cume_dist()"))
	case 1:
		call := g.pick("first_value("+x+")", "last_value("+x+")", "nth_value("+x+", 2)", "first("+x+")", "last(k)", "first_value("+x+" IGNORE NULLS)", "last_value("+x+" IGNORE NULLS)")
		frame := g.pick("", "", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING", " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
			" RANGE BETWEEN CURRENT ROW AND CURRENT ROW", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", " ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING")
		return func(over string) string { return call + " OVER (" + over + frame + ")" }
	case 2:
		call := g.pick("list("+x+")", "string_agg(k, '-')", "any_value("+x+")", "arg_max("+x+", v)", "arg_min(k, v)", "mode(v)")
		frame := g.pick(" ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")
		return func(over string) string {
			if by, _, ok := strings.Cut(over, "ORDER BY"); ok && frame == " ROWS UNBOUNDED PRECEDING" && strings.HasSuffix(call, ", v)") {
				return call + " OVER (" + by + ")" // the whole partition
			}
			if call == "mode(v)" { // over a frame that moves it is refused
				return call + " OVER (" + over + " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
			}
			return call + " OVER (" + over + frame + ")"
		}
	}
	call := g.pick("sum(v)", "count(*)", "max("+x+")", "min(k)", "avg(v)", "count("+x+")", "sum(v) FILTER (WHERE "+g.boo(1)+")", "bool_or("+g.boo(1)+")", "median(v)", "stddev_pop(v)")
	frame := g.pick("", "", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
		" RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " RANGE BETWEEN CURRENT ROW AND CURRENT ROW", " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
		" RANGE UNBOUNDED PRECEDING EXCLUDE TIES", " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP", "distance", "distance")
	if frame == "distance" {
		by, ends := "ts", []string{"INTERVAL 10 SECOND", "INTERVAL 1 MINUTE", "INTERVAL '1 month'"}
		if c := g.column(func(k row.Kind) bool { return k == row.BigInt || k == row.Double || k == row.Float || k == row.HugeInt }, "v"); g.one(2) {
			by, ends = c, []string{"1", "3"}
		}
		frame = " ORDER BY " + by + g.pick("", " DESC", " NULLS FIRST", " DESC NULLS LAST") + " RANGE BETWEEN " +
			g.pick(g.pick(ends...)+" PRECEDING AND CURRENT ROW", g.pick(ends...)+" PRECEDING AND "+g.pick(ends...)+" FOLLOWING", "UNBOUNDED PRECEDING AND "+g.pick(ends...)+" PRECEDING", "CURRENT ROW AND "+g.pick(ends...)+" FOLLOWING")
		return func(over string) string {
			by, _, _ := strings.Cut(over, "ORDER BY")
			return call + " OVER (" + by + strings.TrimPrefix(frame, " ") + ")"
		}
	}
	return func(over string) string { return call + " OVER (" + over + frame + ")" }
}

// rows is a SELECT without groups.
func (g *gen) rows(from, where string, windowed bool) (text string, names []string) {
	var items []string
	for range rapid.IntRange(1, 3).Draw(g.t, "items") {
		g.n++
		name := fmt.Sprintf("x%d", g.n)
		items, names = append(items, g.any(2)+" AS "+name), append(names, name)
	}
	if windowed && g.one(2) {
		items, names = append(items, "window_end"), append(names, "window_end")
	}
	distinct := ""
	switch rapid.IntRange(0, 7).Draw(g.t, "rows") {
	case 0:
		distinct = g.pick("DISTINCT ", "DISTINCT ", "DISTINCT ON ("+names[0]+") ")
	case 1:
		g.n++
		name := fmt.Sprintf("o%d", g.n)
		call := g.window()
		by := g.pick("", "PARTITION BY k ")
		if windowed {
			by = g.pick(by, "PARTITION BY window_end ", "PARTITION BY window_end, k ")
		}
		items, names = append(items, call(by+g.pick("ORDER BY ts", "ORDER BY v DESC", "ORDER BY v, k", "ORDER BY ts DESC, v", "ORDER BY k NULLS LAST", "ORDER BY v DESC NULLS FIRST"))+" AS "+name), append(names, name)
		if g.one(4) { // a second one, of another partition
			g.n++
			name := fmt.Sprintf("o%d", g.n)
			items, names = append(items, g.window()("PARTITION BY v ORDER BY "+g.pick("ts", "k"))+" AS "+name), append(names, name)
		}
		if g.one(3) {
			where += " QUALIFY " + g.pick(name+" IS NOT NULL", "count(*) OVER (PARTITION BY k) > 1", "lag(v) OVER (ORDER BY ts) IS DISTINCT FROM v", "rank() OVER (ORDER BY v) <= 3 AND "+g.boo(1), g.boo(1)+" AND "+g.boo(1)+" AND row_number() OVER (PARTITION BY k ORDER BY v) < 3")
		}
	case 2:
		by := g.pick("", "PARTITION BY k ")
		if windowed {
			by = g.pick(by, "PARTITION BY window_end ")
		}
		if g.one(4) { // those alone are kept
			where += " QUALIFY v = " + g.pick("max", "min") + "(v) OVER (" + by + ")"
			break
		}
		where += " QUALIFY row_number() OVER (" + by + "ORDER BY " + g.pick("v", "v DESC", "ts", "k, v") + ") <= " + g.pick("1", "2", "3")
	}
	return "SELECT " + distinct + strings.Join(items, ", ") + " FROM " + from + where, names
}
