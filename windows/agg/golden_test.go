package agg

import (
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tidemark/storage/row"
	"tidemark/windows/expr"
)

// table is testdata/table.tsv: the first line has the columns, all others a SQL text a cell.
type table struct {
	fields []row.Field
	rows   *row.Batch
}

func readTable(t *testing.T) table {
	t.Helper()
	raw, err := os.ReadFile("testdata/table.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	var tab table
	texts := &row.Batch{}
	for c, head := range strings.Split(lines[0], "\t") {
		name, typ, _ := strings.Cut(head, " ")
		typed, err := row.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		tab.fields = append(tab.fields, row.Field{Name: name, Type: typed})
		text := row.NewVector(row.Scalar(row.Varchar), len(lines))
		for _, line := range lines[1:] {
			if cell := strings.Split(line, "\t")[c]; cell == "NULL" {
				text.AppendNull()
			} else {
				text.AppendString(cell)
			}
		}
		texts.Cols = append(texts.Cols, text)
	}
	texts.Len = len(lines) - 1
	tab.rows = &row.Batch{Len: texts.Len}
	for c, f := range tab.fields {
		tab.rows.Cols = append(tab.rows.Cols, cast(t, texts, c, f.Type))
	}
	return tab
}

// cast returns column c of b as another type.
func cast(t *testing.T, b *row.Batch, c int, to row.Type) *row.Vector {
	t.Helper()
	e, err := expr.Cast(expr.Column(c, row.Field{Name: "x", Type: b.Cols[c].Type}), to, false)
	if err != nil {
		t.Fatal(err)
	}
	var errs expr.Errors
	v := e.Eval(b, nil, &errs)
	if errs.Any() {
		t.Fatalf("column %d can't be cast to %s", c, to)
	}
	out := row.NewVector(to, b.Len)
	out.AppendAll(v)
	return out
}

var callForm = regexp.MustCompile(`^(\w+)\((DISTINCT )?(.*?)(?: ORDER BY (.*))?\)$`)

// call is a bound aggregate and the vectors of its arguments over the table.
type call struct {
	f    *Func
	args []*row.Vector
}

// bind reads an aggregate such as string_agg(s, '-' ORDER BY i DESC).
func bind(t *testing.T, tab table, text string, retract bool) call {
	t.Helper()
	m := callForm.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("not an aggregate: %s", text)
	}
	s := Spec{Name: m[1], Distinct: m[2] != "", Retract: retract}
	var columns []int
	constant := func(v *row.Vector) {
		s.Args, s.Const, columns = append(s.Args, v.Type), append(s.Const, v), append(columns, -1)
	}
	number := func(p string) float64 {
		f, err := strconv.ParseFloat(strings.Trim(p, "[] "), 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	rest := m[3]
	for rest != "" && rest != "*" {
		part := rest
		if c := row.FieldIndex(tab.fields, strings.Split(rest, ",")[0]); c >= 0 {
			part = tab.fields[c].Name
			s.Args, s.Const, columns = append(s.Args, tab.fields[c].Type), append(s.Const, nil), append(columns, c)
		} else {
			switch {
			case part[0] == '\'':
				v := row.NewVector(row.Scalar(row.Varchar), 1)
				v.AppendString(strings.Trim(part, "'"))
				constant(v)
			case part[0] == '[':
				elems := row.NewVector(row.Scalar(row.Double), 2)
				for _, p := range strings.Split(part, ",") {
					elems.AppendFloat64(number(p))
				}
				v := row.NewVector(row.ListOf(elems.Type), 1)
				v.AppendString(string(row.EncodeList(nil, elems)))
				constant(v)
			default:
				v := row.NewVector(row.Scalar(row.Double), 1)
				v.AppendFloat64(number(part))
				constant(v)
			}
		}
		rest = strings.TrimPrefix(strings.TrimPrefix(rest[len(part):], ","), " ")
	}
	var order []int
	for _, key := range strings.Split(m[4], ", ") {
		if key == "" {
			continue
		}
		name, how, _ := strings.Cut(key, " ")
		c := row.FieldIndex(tab.fields, name)
		o := Order{Type: tab.fields[c].Type, Desc: strings.Contains(how, "DESC")}
		o.NullsLast = !strings.Contains(how, "NULLS FIRST") // DuckDB's default
		s.Order = append(s.Order, o)
		order = append(order, c)
	}
	f, err := New(s)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	bound := call{f: f}
	for k, c := range columns {
		if c < 0 {
			v := row.NewVector(s.Const[k].Type, tab.rows.Len)
			for range tab.rows.Len {
				v.AppendFrom(s.Const[k], 0)
			}
			bound.args = append(bound.args, v)
			continue
		}
		bound.args = append(bound.args, cast(t, tab.rows, c, f.Args[k]))
	}
	for _, c := range order {
		bound.args = append(bound.args, tab.rows.Cols[c])
	}
	return bound
}

type golden struct{ text, typ, value string }

func readGolden(t *testing.T) []golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			cells := strings.Split(line, "\t")
			all = append(all, golden{cells[0], cells[1], cells[2]})
		}
	}
	return all
}

// check compares the result of a slot.
func (g golden) check(t *testing.T, road string, c Column, slot int32, typ row.Type) {
	t.Helper()
	out := row.NewVector(typ, 1)
	if err := c.Result(slot, out); err != nil {
		t.Errorf("%s: %v", road, err)
		return
	}
	want := g.value
	if want != "NULL" {
		var err error
		if want, err = strconv.Unquote(want); err != nil {
			t.Fatal(err)
		}
	}
	if got := row.TextOf(out, 0); got != want && !near(got, want) {
		t.Errorf("%s: got %s, want %s", road, got, want)
	}
}

// near allows the last bits of doubles to differ: sums are made in another order.
func near(got, want string) bool {
	a, err1 := strconv.ParseFloat(got, 64)
	b, err2 := strconv.ParseFloat(want, 64)
	return err1 == nil && err2 == nil && math.Abs(a-b) <= 1e-14*math.Abs(b)+1e-300 && strings.ContainsAny(want, ".e")
}

func ranks(n int) []Rank {
	out := make([]Rank, n)
	for i := range out {
		out[i] = Rank{Sequence: int64(i / 3), Offset: int64(i)}
	}
	return out
}

// Every aggregate has DuckDB's type and value by every road: all rows at once, row by row, with
// other rows added and taken away again, merged from parts, and through its encoding.
func TestAggregatesAnswerAsDuckDBByEveryRoad(t *testing.T) { // A1, A2, A3, A4, A5
	t.Parallel()
	tab := readTable(t)
	n := tab.rows.Len
	for _, g := range readGolden(t) {
		t.Run(g.text, func(t *testing.T) {
			t.Parallel()
			plain := bind(t, tab, g.text, false)
			if got, want := plain.f.Type.String(), strings.NewReplacer("UBIGINT", "BIGINT", `"key"`, "key", `"value"`, "value").Replace(g.typ); got != want {
				t.Errorf("has the type %s, want %s", got, want)
			}
			all := make([]int32, n)
			for i := range all {
				all[i] = 1
			}
			for _, retract := range []bool{false, true} {
				b := bind(t, tab, g.text, retract)
				road := map[bool]string{false: "rows come", true: "rows come and go"}[retract]
				c := b.f.NewColumn()
				c.Grow(6)
				c.Add(all, nil, b.args, nil, ranks(n))
				if !b.f.Approximate {
					g.check(t, road+", at once", c, 1, b.f.Type)
				}
				r := rand.New(rand.NewPCG(1, uint64(len(g.text))))
				for _, i := range r.Perm(n) { // in any order, into two slots that are merged
					c.Add([]int32{int32(2 + i%2)}, []int32{int32(i)}, b.args, nil, ranks(n))
				}
				c.Merge(2, 3)
				g.check(t, road+", merged", c, 2, b.f.Type)
				if retract {
					minus := make([]int64, n)
					for i := range minus {
						minus[i] = int64(r.IntN(3) - 1)
					}
					back := make([]int64, n)
					for i, w := range minus {
						back[i] = -w
					}
					c.Add(all, nil, b.args, minus, ranks(n))
					c.Add(all, nil, b.args, back, ranks(n))
					g.check(t, road+", taken away again", c, 1, b.f.Type)
				}
				enc := append(c.Encode(2, nil), "rest"...)
				rest, err := c.Decode(4, enc)
				if err != nil || string(rest) != "rest" {
					t.Fatalf("%s: state %x is read with rest %q, %v", road, enc, rest, err)
				}
				g.check(t, road+", decoded", c, 4, b.f.Type)
				if again := c.Encode(4, nil); !b.f.Approximate && string(again) != string(enc[:len(enc)-4]) && retract {
					t.Errorf("%s: the decoded state has another encoding", road)
				}
				if d := DifferentialOf(c); d != nil { // A6
					c.Reset(3)
					whole := []byte{}
					for k, i := range r.Perm(n) {
						if k == n/3 {
							whole = c.Encode(3, nil)
							d.Note(3, true)
						}
						c.Add([]int32{3}, []int32{int32(i)}, b.args, nil, ranks(n))
						if k == n/2 {
							whole, _ = d.EncodeNoted(3, whole)
						}
					}
					whole, _ = d.EncodeNoted(3, whole)
					c.Reset(5)
					for len(whole) > 0 {
						if whole, err = d.DecodeMore(5, whole); err != nil {
							t.Fatalf("%s: a piece can't be read: %v", road, err)
						}
					}
					g.check(t, road+", decoded piece by piece", c, 5, b.f.Type)
					if got, want := d.Entries(5), d.Entries(3); got != want {
						t.Errorf("%s: %d entries of pieces, want %d", road, got, want)
					}
				}
				before := c.Bytes()
				c.Reset(4)
				if c.Bytes() > before || c.Bytes() < 0 {
					t.Errorf("%s: %d bytes after a reset, %d before", road, c.Bytes(), before)
				}
				empty := row.NewVector(b.f.Type, 2)
				if c.Result(4, empty) != nil || c.Result(0, empty) != nil || row.TextOf(empty, 0) != row.TextOf(empty, 1) {
					t.Errorf("%s: a slot that was reset is not as an empty one", road)
				}
			}
		})
	}
}

// A damaged state is an error or another state, never a panic.
func TestDamagedStatesNeverPanic(t *testing.T) {
	t.Parallel()
	tab := readTable(t)
	r := rand.New(rand.NewPCG(3, 3))
	for _, g := range readGolden(t) {
		for _, retract := range []bool{false, true} {
			b := bind(t, tab, g.text, retract)
			c := b.f.NewColumn()
			c.Grow(2)
			c.Add(make([]int32, tab.rows.Len), nil, b.args, nil, ranks(tab.rows.Len))
			good := c.Encode(0, nil)
			for range 20 {
				bad := append([]byte(nil), good...)
				bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
				for _, src := range [][]byte{bad, good[:r.IntN(len(good))]} {
					if _, err := c.Decode(1, src); err == nil {
						_ = c.Result(1, row.NewVector(b.f.Type, 1))
					}
				}
			}
		}
	}
}
