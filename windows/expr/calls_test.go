package expr

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tidemark/storage/row"
)

// odd are values at the edges of each type, as a batch of columns.
func odd() *row.Batch {
	ints := func(t row.Type, values ...int64) *row.Vector {
		v := row.NewVector(t, len(values))
		for _, x := range values {
			v.AppendInt64(x)
		}
		return v
	}
	wide := func(t row.Type, values ...row.Int128) *row.Vector {
		v := row.NewVector(t, len(values))
		for _, x := range values {
			v.AppendInt128(x)
		}
		return v
	}
	texts := func(t row.Type, values ...string) *row.Vector {
		v := row.NewVector(t, len(values))
		for _, s := range values {
			v.AppendString(s)
		}
		return v
	}
	list := func(elems *row.Vector) string { return string(row.EncodeList(nil, elems)) }
	one, two := ints(tBig, 7), ints(tBig, 7, math.MinInt64)
	two.AppendNull()
	member := texts(tVarchar, "x")
	floats := row.NewVector(tDouble, 2)
	floats.AppendFloat64(-1e300)
	floats.AppendFloat64(math.NaN())
	nulls := row.NewVector(tNull, 2)
	nulls.AppendNull()
	nulls.AppendNull()
	cols := []*row.Vector{
		nulls, floats,
		ints(tBool, 0, 1), ints(tTiny, -128, 127), ints(tInt, math.MinInt32, math.MaxInt32), ints(tBig, math.MinInt64, math.MaxInt64), ints(tInt, 0, -1),
		ints(row.Scalar(row.Date), math.MinInt32, math.MaxInt32), ints(tTimestamp, -62135596800000000, 253402300799999999),
		ints(row.DecimalType(10, 2), -9999999999, 12345),
		wide(row.DecimalType(38, 10), row.FromInt64(-7), row.FromInt64(math.MaxInt64)),
		wide(row.Scalar(row.HugeInt), row.Int128{Hi: math.MaxInt64, Lo: math.MaxUint64}, row.Int128{Hi: math.MinInt64}),
		wide(row.Scalar(row.Interval), row.MakeInterval(math.MaxInt32, math.MaxInt32, math.MaxInt64), row.MakeInterval(math.MinInt32, math.MinInt32, math.MinInt64)),
		texts(tVarchar, "", "a(b)"), texts(tVarchar, "(a)(b)", "$[*]"), texts(tVarchar, "%", "day"), texts(tVarchar, "[1, 2", "g"), texts(tVarchar, "sum", "é\x00"),
		texts(tJSON, `{"a":[1,"x",null]}`, `[1,{"a":1e400}]`), texts(tBlob, "", "\xff"),
		texts(row.ListOf(tBig), "", list(two)), texts(row.ListOf(tVarchar), "", list(member)), texts(row.ListOf(row.ListOf(tBig)), "", list(texts(row.ListOf(tBig), list(one), ""))),
		texts(row.StructOf(row.Field{Name: "a", Type: tBig}, row.Field{Name: "b", Type: tVarchar}), string(row.EncodeStruct(nil, []*row.Vector{one, member}, 0)), string(row.EncodeStruct(nil, []*row.Vector{one, member}, 0))),
	}
	for _, v := range cols {
		v.AppendNull()
	}
	return &row.Batch{Cols: cols, Len: 3}
}

// No function panics, whatever it is called with: constants and columns of every type, at the edges of it.
func TestNoCallPanics(t *testing.T) {
	t.Parallel()
	in := odd()
	var pool []*Expr
	for i, v := range in.Cols {
		pool = append(pool, Column(i, row.Field{Name: "c", Type: v.Type}))
		for k := range in.Len {
			one := row.NewVector(v.Type, 1)
			one.AppendFrom(v, k)
			pool = append(pool, Const(one))
		}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(functions)), func(name string) bool {
		return slices.Contains([]string{"repeat", "lpad", "rpad"}, name) // they make long texts of these numbers
	})
	call := func(name string, args ...*Expr) {
		defer func() {
			if said := recover(); said != nil {
				t.Errorf("%s of %v panics: %v", name, args, said)
			}
		}()
		if e, err := Call(name, args); err == nil {
			var errs Errors
			e.Clone().Eval(in, nil, &errs)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	any := func() *Expr { return pool[random.IntN(len(pool))] }
	for _, name := range names {
		call(name)
		for _, x := range pool {
			call(name, x)
		}
		for range 1000 {
			call(name, any(), any())
			call(name, any(), any(), any())
			call(name, any(), any(), any(), any())
		}
	}
}
