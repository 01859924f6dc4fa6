package expr

import (
	"slices"
	"sync"
	"testing"

	"tidemark/storage/row"
)

// lambdaOver is list_transform(l, x -> list_reduce(list_transform(l, y -> y + x * n), (a, b) -> a + b))
// over the columns l and n: functions in functions, of which the inner ones read the outer one's
// parameter and a column of the row.
func lambdaOver(t *testing.T, l, n int) *Expr {
	t.Helper()
	list := func() *Expr {
		return Column(l, row.Field{Name: "l", Type: row.ListOf(tBig)})
	}
	call := func(name string, args ...*Expr) *Expr {
		e, err := Call(name, args)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	made := func(name string, list *Expr, first int, params []string, body *Expr) *Expr {
		e, err := Lambda(name, list, first, params, body)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	param := func(n int) *Expr { return Param(n, row.Field{Name: "p", Type: tBig}) }
	added := call("+", param(1), call("*", param(0), Column(n, row.Field{Name: "n", Type: tBig})))
	inner := made("list_transform", list(), 1, []string{"y"}, added)
	sum := made("list_reduce", inner, 1, []string{"a", "b"}, call("+", param(1), param(2)))
	return made("list_transform", list(), 0, []string{"x"}, sum)
}

func TestLambdaReadsWhatItsBodyReadsOfTheRow(t *testing.T) {
	t.Parallel()
	e := lambdaOver(t, 3, 5)
	if got := e.Reads(); !slices.Equal(got, []int{3, 5}) {
		t.Errorf("reads %v, want 3 and 5", got)
	}
	if got := e.Renumber(func(c int) int { return c - 3 }).Reads(); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("renumbered it reads %v, want 0 and 2", got)
	}
	if got := e.Reads(); !slices.Equal(got, []int{3, 5}) {
		t.Errorf("what was renumbered reads %v itself", got)
	}
}

func TestClonesOfALambdaShareNothing(t *testing.T) {
	t.Parallel()
	e := lambdaOver(t, 0, 1)
	var all sync.WaitGroup
	for g := range 4 {
		clone := e.Clone()
		all.Go(func() {
			for round := range 50 {
				b := row.NewBatch([]row.Field{{Name: "l", Type: row.ListOf(tBig)}, {Name: "n", Type: tBig}}, 8)
				for i := range g + round%5 + 1 {
					elems := row.NewVector(tBig, 2)
					elems.AppendInt64(int64(i))
					elems.AppendInt64(int64(g))
					b.Cols[0].AppendString(string(row.EncodeList(nil, elems)))
					b.Cols[1].AppendInt64(int64(round))
					b.Len++
				}
				var errs Errors
				v := clone.Eval(b, nil, &errs)
				for i := range b.Len { // (i + x·n) + (g + x·n) for x of i and g
					out, err := row.Elements(v, i)
					if err != nil || errs.Any() || out.Len() != 2 {
						t.Errorf("row %d: %v, %d elements, failures %t", i, err, out.Len(), errs.Any())
						return
					}
					for k, x := range []int{i, g} {
						if want := int64(i + g + 2*x*round); out.I64[k] != want {
							t.Errorf("row %d gives %d for %d, want %d", i, out.I64[k], x, want)
						}
					}
				}
			}
		})
	}
	all.Wait()
}

// A list of 1,000 elements makes 10^9 of itself, and a text that doubles 1,000 times has no end.
func TestWhatALambdaMakesIsBounded(t *testing.T) {
	t.Parallel()
	list := row.NewVector(tVarchar, 1000)
	for range 1000 {
		list.AppendString("x")
	}
	b := row.NewBatch([]row.Field{{Name: "l", Type: row.ListOf(tVarchar)}}, 2)
	b.Cols[0].AppendString(string(row.EncodeList(nil, list)))
	list.Truncate(2)
	b.Cols[0].AppendString(string(row.EncodeList(nil, list)))
	b.Len = 2
	column := Column(0, row.Field{Name: "l", Type: row.ListOf(tVarchar)})
	made := func(name string, first int, params []string, body *Expr, err error) *Expr {
		if err == nil {
			body, err = Lambda(name, column, first, params, body)
		}
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	param := func(n int) *Expr { return Param(n, row.Field{Name: "p", Type: tVarchar}) }
	joined, err := Call("||", []*Expr{param(0), param(0)})
	doubled := made("list_reduce", 0, []string{"a", "b"}, joined, err)
	all := made("list_transform", 2, []string{"z"}, param(0), nil)
	all = made("list_transform", 1, []string{"y"}, all, nil)
	all = made("list_transform", 0, []string{"x"}, all, nil)
	for _, e := range []*Expr{doubled, all} {
		for in := e; in != nil && in.lambda != nil; in = in.lambda.body {
			in.lambda.limit = 1 << 20
		}
		var errs Errors
		v := e.Eval(b, nil, &errs)
		if !errs.Failed(0) || errs.Failed(1) {
			t.Errorf("%s: failures %t and %t, want the first row's alone", e, errs.Failed(0), errs.Failed(1))
		}
		if v.IsNull(1) || len(v.Str[1]) == 0 {
			t.Errorf("%s has no value for the short list", e)
		}
	}
}

// Ten functions over a list of a hundred, each in the body of the one before, are computed for 10^20
// elements, and what comes of it is a number.
func TestHowOftenLambdasAreComputedIsBounded(t *testing.T) {
	t.Parallel()
	list := row.NewVector(tBig, 100)
	for i := range 100 {
		list.AppendInt64(int64(i))
	}
	b := row.NewBatch([]row.Field{{Name: "l", Type: row.ListOf(tBig)}}, 3)
	for _, n := range []int{100, 1, 100} {
		list.Truncate(n)
		b.Cols[0].AppendString(string(row.EncodeList(nil, list)))
		for i := n; i < 100; i++ {
			list.AppendInt64(int64(i))
		}
		b.Len++
	}
	column := Column(0, row.Field{Name: "l", Type: row.ListOf(tBig)})
	param := func(n int) *Expr { return Param(n, row.Field{Name: "p", Type: tBig}) }
	const depth = 10
	e := param(depth - 1)
	for k := range depth {
		first := depth - 1 - k
		made, err := Lambda("list_transform", column, first, []string{"x"}, e)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := Call("+", []*Expr{param(first), param(first + 1)})
		if err != nil {
			t.Fatal(err)
		}
		if e, err = Lambda("list_reduce", made, first, []string{"a", "b"}, sum); err != nil {
			t.Fatal(err)
		}
	}
	var bounded func(e *Expr)
	bounded = func(e *Expr) {
		e.walk(func(e *Expr) {
			if e.lambda != nil {
				e.lambda.most = 10_000
				bounded(e.lambda.body)
			}
		})
	}
	bounded(e)
	var errs Errors
	v := e.Eval(b, nil, &errs)
	if !errs.Failed(0) || errs.Failed(1) || !errs.Failed(2) || v.I64[1] != 0 {
		t.Errorf("failures %t, %t and %t, want those of the long lists; of the short one %d", errs.Failed(0), errs.Failed(1), errs.Failed(2), v.I64[1])
	}
	// What one batch took does not count for the next.
	errs.Reset()
	for range 20 {
		if e.Eval(b, []int32{1}, &errs); errs.Any() {
			t.Fatal("a short list fails when it is computed again")
		}
	}
}
