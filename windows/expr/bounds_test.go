package expr

import (
	"strings"
	"testing"

	"tidemark/storage/row"
)

// bounded evaluates an expression over a text, a list of texts and a number, in a few rows: in the last
// one each is small.
func bounded(t *testing.T, e *Expr) {
	t.Helper()
	big := strings.Repeat("a", 1<<20)
	b := row.NewBatch([]row.Field{{Name: "k", Type: tVarchar}, {Name: "l", Type: row.ListOf(tVarchar)}, {Name: "n", Type: tBig}}, 2)
	for _, s := range []string{big, "a"} {
		list := row.NewVector(tVarchar, 100)
		for range len(s)/10_000 + 1 {
			list.AppendString(s[:min(len(s), 1000)])
		}
		b.Cols[0].AppendString(s)
		b.Cols[1].AppendString(string(row.EncodeList(nil, list)))
		b.Cols[2].AppendInt64(int64(min(len(s), 60)))
		b.Len++
	}
	var errs Errors
	v := e.Eval(b, nil, &errs)
	if !errs.Failed(0) || errs.Failed(1) {
		t.Errorf("%.200s: failures %t and %t, want the first row's alone", e.Text, errs.Failed(0), errs.Failed(1))
	}
	if len(v.Str[0]) > 1000 || len(v.Str[1]) == 0 {
		t.Errorf("%.200s: values of %d and %d bytes", e.Text, len(v.Str[0]), len(v.Str[1]))
	}
}

func TestAValueHasItsBoundWhateverItIsBuiltOf(t *testing.T) {
	t.Parallel()
	call := func(name string, args ...*Expr) *Expr {
		e, err := Call(name, args)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	k := func() *Expr { return Column(0, row.Field{Name: "k", Type: tVarchar}) }
	list := func() *Expr { return Column(1, row.Field{Name: "l", Type: row.ListOf(tVarchar)}) }
	text := func(s string) *Expr {
		v := row.NewVector(tVarchar, 1)
		v.AppendString(s)
		return Const(v)
	}
	many := func(n int) []*Expr {
		args := make([]*Expr, n)
		for i := range args {
			args[i] = k()
		}
		return args
	}
	twice := func(double func(e *Expr) *Expr) *Expr {
		return double(double(call("replace", k(), text("a"), text(strings.Repeat("a", 32)))))
	}
	structs := func(e *Expr) *Expr {
		s, err := Struct([]string{"a", "b"}, []*Expr{e, e})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, e := range map[string]*Expr{
		"||":              twice(func(e *Expr) *Expr { return call("||", e, e) }),
		"list_value":      twice(func(e *Expr) *Expr { return call("list_value", e, e) }),
		"struct_pack":     twice(structs),
		"concat":          call("concat", many(100)...),
		"concat_ws":       call("concat_ws", many(100)...),
		"replace":         call("replace", k(), text("a"), text(strings.Repeat("b", 1000))),
		"regexp_replace":  call("regexp_replace", k(), text("a{1000}.*"), text(strings.Repeat(`\0`, 1000))),
		"array_to_string": call("array_to_string", list(), k()),
		"replace twice":   twice(func(e *Expr) *Expr { return call("replace", e, text("a"), text("aaaaaaaaaaaaaaaa")) }),
	} {
		t.Run(name, func(t *testing.T) { bounded(t, e) })
	}
}

// What repeat makes of numbers is bounded for a batch too: with a row of a few bytes it is not the row
// that is too long.
func TestWhatABatchMakesOfNumbersIsBounded(t *testing.T) {
	t.Parallel()
	made := 0
	c := &call{out: row.NewVector(tVarchar, 0), errs: &Errors{}, rows: identity(1000)}
	c.out.Resize(1000)
	long := strings.Repeat("x", 32<<20) // one memory for all rows
	inParts(func(c *call) {
		for _, i := range c.rows {
			c.out.Str[i] = long
			made++
		}
	})(c)
	most := mostTogether/len(long) + 2*partRows
	if !c.errs.Any() || made > most || c.errs.Failed(0) || !c.errs.Failed(999) || len(c.rows) != 1000 {
		t.Errorf("%d values of 1000 were made, at most %d were to be", made, most)
	}
}
