package expr

import (
	"fmt"
	"math"

	"tidemark/storage/row"
)

// Cast is CAST(e AS to), or TRY_CAST when try: then a value that can't be cast is NULL.
func Cast(e *Expr, to row.Type, try bool) (*Expr, error) {
	text := "CAST(" + e.Text + " AS " + to.String() + ")"
	if try {
		text = "TRY_" + text
	}
	switch {
	case e.Type.Kind == row.Null || e.isNull():
		n := nullOf(to)
		n.Text = text
		return n, nil
	case e.Type.Equal(to):
		if e.IsConst() {
			return folded(e.value, text), nil
		}
		return e, nil
	}
	k := castKernel(e.Type, to)
	if k == nil {
		return nil, &Mismatch{Name: "CAST", Types: []row.Type{e.Type, to}, Reason: fmt.Sprintf("%s can't be cast to %s", e.Type, to)}
	}
	switch {
	case try && e.Type.Kind == row.JSON && to.Kind != row.JSON && to.Kind != row.Varchar:
		k = castJSON(to, false) // part by part
	case try:
		k = tryKernel(k)
	}
	return newCall(to, text, k, e), nil
}

// tryKernel makes NULL of failures.
func tryKernel(k kernel) kernel {
	return func(c *call) {
		var errs Errors
		inner := *c
		inner.errs = &errs
		k(&inner)
	}
}

// castKernel returns the kernel of a cast, nil when there is none.
func castKernel(from, to row.Type) kernel {
	switch {
	case to.Kind == row.JSON:
		return castToJSON(from)
	case to.Kind == row.Varchar:
		if from.Kind == row.JSON {
			return map1(str, str, func(s string) string { return s })
		}
		return func(c *call) {
			var buf []byte
			for _, i := range c.rows {
				buf = row.AppendText(buf[:0], c.args[0], int(i))
				c.out.Str[i] = string(buf)
			}
		}
	case from.Kind == row.Varchar:
		return castText(to)
	case from.Kind == row.JSON:
		return castJSON(to, true)
	case from.Kind == row.Boolean && to.IsNumeric():
		return castInteger(tTiny, to)
	case from.IsInteger():
		return castInteger(from, to)
	case from.Kind == row.Float || from.Kind == row.Double:
		return castFloat(from, to)
	case from.Kind == row.Decimal:
		return castDecimal(from, to)
	case from.Kind == row.Date && to.Kind == row.Timestamp:
		return try1(i64, i64, func(d int64) (int64, *Failure) {
			if d > math.MaxInt64/row.MicrosPerDay || d < math.MinInt64/row.MicrosPerDay {
				return 0, conversion("Could not convert DATE to TIMESTAMP: out of range")
			}
			return d * row.MicrosPerDay, nil
		})
	case from.Kind == row.Timestamp && to.Kind == row.Date:
		return map1(i64, i64, dayOf)
	case from.Kind == row.List && to.Kind == row.List, from.Kind == row.Struct && to.Kind == row.Struct:
		return castNested(from, to)
	}
	return nil
}

// misfit is the message of a number that the target can't hold.
func misfit(from row.Type, text string, to row.Type) *Failure {
	return conversion("Type %s with value %s can't be cast because the value is out of range for the destination type %s",
		intNames[from.Kind], text, intNames[to.Kind])
}

// castInteger casts from TINYINT … HUGEINT.
func castInteger(from, to row.Type) kernel {
	huge := from.Kind == row.HugeInt
	switch {
	case to.Kind == row.Boolean && huge:
		return map1(i128, i64, func(x row.Int128) int64 { return b2i(x.Sign() != 0) })
	case to.Kind == row.Boolean:
		return map1(i64, i64, func(x int64) int64 { return b2i(x != 0) })
	case to.Kind == row.HugeInt:
		return map1(i64, i128, row.FromInt64)
	case to.IsInteger():
		low, high := row.IntegerRange(to.Kind)
		if huge {
			return try1(i128, i64, func(x row.Int128) (int64, *Failure) {
				if v := x.Int64(); x.IsInt64() && v >= low && v <= high {
					return v, nil
				}
				return 0, misfit(from, x.String(), to)
			})
		}
		return try1(i64, i64, func(x int64) (int64, *Failure) {
			if x < low || x > high {
				return 0, misfit(from, fmt.Sprint(x), to)
			}
			return x, nil
		})
	case to.Kind == row.Double && huge:
		return map1(i128, f64, row.Int128.Float64)
	case to.Kind == row.Double:
		return map1(i64, f64, func(x int64) float64 { return float64(x) })
	case to.Kind == row.Float && huge:
		return map1(i128, f64, func(x row.Int128) float64 { return float64(float32(x.Float64())) })
	case to.Kind == row.Float:
		return map1(i64, f64, func(x int64) float64 { return float64(float32(x)) })
	case to.Kind == row.Decimal:
		return func(c *call) {
			for _, i := range c.rows {
				x := integerAt(c.args[0], int(i))
				v, ok := x.ScaleUp(int(to.Scale))
				if !ok || !row.FitsDecimal(v, to.Width) {
					c.fail(i, conversion("Could not cast value %s to %s", x, to))
					continue
				}
				setInteger(c.out, i, v)
			}
		}
	}
	return nil
}

// setInteger stores an integer or unscaled DECIMAL that fits into a vector of either class.
func setInteger(v *row.Vector, i int32, x row.Int128) {
	if v.Type.Class() == row.Int128Class {
		v.I128[i] = x
	} else {
		v.I64[i] = x.Int64()
	}
}

// castFloat casts from FLOAT and DOUBLE. Integers and decimals get the nearest, halves to even.
func castFloat(from, to row.Type) kernel {
	bits := 64
	if from.Kind == row.Float {
		bits = 32
	}
	text := func(f float64) string { return string(row.AppendFloatText(nil, f, bits)) }
	switch {
	case to.Kind == row.Boolean:
		return map1(f64, i64, func(f float64) int64 { return b2i(f != 0) })
	case to.Kind == row.Double:
		return map1(f64, f64, func(f float64) float64 { return f })
	case to.Kind == row.Float:
		return try1(f64, f64, func(f float64) (float64, *Failure) {
			s := float64(float32(f))
			if math.IsInf(s, 0) && !math.IsInf(f, 0) {
				return 0, misfit(from, text(f), to)
			}
			return s, nil
		})
	case to.Kind == row.HugeInt:
		return try1(f64, i128, func(f float64) (row.Int128, *Failure) {
			x, ok := row.Int128FromFloat(f)
			if !ok {
				return x, misfit(from, text(f), to)
			}
			return x, nil
		})
	case to.IsInteger():
		low, high := row.IntegerRange(to.Kind)
		below, above := float64(low), float64(high)
		return try1(f64, i64, func(f float64) (int64, *Failure) {
			r := math.RoundToEven(f)
			// The largest BIGINT as a double is one too many.
			if !(r >= below && (r < above || r == above && to.Kind != row.BigInt)) {
				return 0, misfit(from, text(f), to)
			}
			return int64(r), nil
		})
	case to.Kind == row.Decimal:
		power := math.Pow10(int(to.Scale))
		return func(c *call) {
			for _, i := range c.rows {
				f := c.args[0].F64[i] * power
				if bits == 32 { // DuckDB computes a FLOAT in 32 bits
					f = float64(float32(c.args[0].F64[i]) * float32(power))
				}
				x, ok := row.Int128FromFloat(f)
				if !ok || !row.FitsDecimal(x, to.Width) {
					c.fail(i, conversion("Could not cast value %f to %s", f, to))
					continue
				}
				setInteger(c.out, i, x)
			}
		}
	}
	return nil
}

// castDecimal casts from DECIMAL. Digits that are cut off round half away from zero.
func castDecimal(from, to row.Type) kernel {
	switch {
	case to.Kind == row.Boolean:
		return func(c *call) {
			for _, i := range c.rows {
				c.out.I64[i] = b2i(integerAt(c.args[0], int(i)).Sign() != 0)
			}
		}
	case to.IsInteger():
		low, high := row.IntegerRange(to.Kind)
		return func(c *call) {
			for _, i := range c.rows {
				x := integerAt(c.args[0], int(i)).ScaleDown(int(from.Scale))
				if to.Kind != row.HugeInt && !(x.IsInt64() && x.Int64() >= low && x.Int64() <= high) {
					c.fail(i, conversion("Failed to cast decimal value %s to type %s", x, intNames[to.Kind]))
					continue
				}
				setInteger(c.out, i, x)
			}
		}
	case to.Kind == row.Double || to.Kind == row.Float:
		return func(c *call) {
			for _, i := range c.rows {
				f := decimalFloat(integerAt(c.args[0], int(i)), int(from.Scale))
				if to.Kind == row.Float {
					f = float64(float32(f))
				}
				c.out.F64[i] = f
			}
		}
	case to.Kind == row.Decimal:
		return rescale(from, to)
	}
	return nil
}

// rescale casts between DECIMALs. What DuckDB does with digits that are cut off depends on the
// widths: where the target surely has room it rounds half away from zero, else it cuts, and
// refuses what would not fit if it were rounded to a whole number.
func rescale(from, to row.Type) kernel {
	drop := int(from.Scale) - int(to.Scale)
	room := int(to.Width)+drop > int(from.Width)
	one := row.PowerOfTen(int(from.Scale))
	f := func(x row.Int128) (row.Int128, bool) {
		if drop <= 0 {
			v, ok := x.ScaleUp(-drop)
			return v, ok && row.FitsDecimal(v, to.Width)
		}
		if room {
			return x.ScaleDown(drop), true
		}
		size := x
		if x.Sign() < 0 {
			size, _ = x.Neg()
		}
		_, part, _ := size.QuoRem(one)
		if half, _ := part.Add(part); half.Cmp(one) >= 0 {
			size, _ = size.Add(one)
		}
		v, _, _ := x.QuoRem(row.PowerOfTen(drop))
		return v, row.FitsDecimal(size, uint8(int(to.Width)+drop))
	}
	return func(c *call) {
		for _, i := range c.rows {
			x := integerAt(c.args[0], int(i))
			v, ok := f(x)
			if !ok {
				c.fail(i, conversion("Casting value \"%s\" to type %s failed: value is out of range!", row.AppendDecimalText(nil, x, from), to))
				continue
			}
			setInteger(c.out, i, v)
		}
	}
}

// decimalFloat is x/10^scale as DuckDB computes it: beyond 2^53 whole and fraction apart.
func decimalFloat(x row.Int128, scale int) float64 {
	power := math.Pow10(scale)
	if v := x.Int64(); scale == 0 || x.IsInt64() && v <= 1<<53 && v >= -1<<53 {
		return x.Float64() / power
	}
	whole, part, _ := x.QuoRem(row.PowerOfTen(scale))
	return whole.Float64() + part.Float64()/power
}

// castNested casts the elements of a list, and the members of a struct by name.
func castNested(from, to row.Type) kernel {
	var parts []kernel
	var sources []int
	var types []row.Type
	if from.Kind == row.List {
		parts = []kernel{elementCast(*from.Elem, *to.Elem)}
		types = []row.Type{*to.Elem}
	} else {
		if len(from.Fields) != len(to.Fields) {
			return nil
		}
		for _, f := range to.Fields {
			k := row.FieldIndex(from.Fields, f.Name)
			if k < 0 {
				return nil
			}
			parts = append(parts, elementCast(from.Fields[k].Type, f.Type))
			sources = append(sources, k)
			types = append(types, f.Type)
		}
	}
	for _, p := range parts {
		if p == nil {
			return nil
		}
	}
	return func(c *call) {
		for _, i := range c.rows {
			var value []byte
			if from.Kind == row.List {
				elems, err := row.Elements(c.args[0], int(i))
				if err != nil {
					c.fail(i, conversion("a list can't be read: %v", err))
					continue
				}
				out, failed := castVector(elems, types[0], parts[0])
				if failed != nil {
					c.fail(i, failed)
					continue
				}
				c.out.Str[i] = string(row.EncodeList(value, out))
				continue
			}
			members, err := row.Members(c.args[0], int(i))
			if err != nil {
				c.fail(i, conversion("a struct can't be read: %v", err))
				continue
			}
			var failed *Failure
			for k, p := range parts {
				var out *row.Vector
				if out, failed = castVector(members[sources[k]], types[k], p); failed != nil {
					break
				}
				value = row.AppendElement(value, out, 0)
			}
			if failed != nil {
				c.fail(i, failed)
				continue
			}
			c.out.Str[i] = string(value)
		}
	}
}

// elementCast is castKernel for what may be equal types or NULL.
func elementCast(from, to row.Type) kernel {
	switch {
	case from.Kind == row.Null:
		return func(*call) {}
	case from.Equal(to):
		return func(c *call) { scatter(c.out, c.args[0], c.rows) }
	}
	return castKernel(from, to)
}

// castVector casts a whole vector; the first failure is returned.
func castVector(v *row.Vector, to row.Type, k kernel) (*row.Vector, *Failure) {
	n := v.Len()
	out := row.NewVector(to, n)
	out.Resize(n)
	var errs Errors
	rows := make([]int32, 0, n)
	for i := range n {
		if v.IsNull(i) || v.Type.Kind == row.Null {
			out.SetNull(i)
		} else {
			rows = append(rows, int32(i))
		}
	}
	k(&call{args: []*row.Vector{v}, out: out, rows: rows, errs: &errs, n: n})
	if errs.Any() {
		return nil, &errs.list[0]
	}
	return out, nil
}
