package expr

import "tidemark/storage/row"

// misc fills what looks like a function and is a form of its own.
func (t table) misc() {
	t.binder(func(name string, args []*Expr) (*Expr, error) { return Coalesce(args...) }, "coalesce")
	t.binder(func(name string, args []*Expr) (*Expr, error) {
		if len(args) != 2 {
			return nil, mismatch(name, args)
		}
		return Coalesce(args...)
	}, "ifnull")
	t.binder(func(name string, args []*Expr) (*Expr, error) {
		if len(args) != 2 {
			return nil, mismatch(name, args)
		}
		return NullIf(args[0], args[1])
	}, "nullif")
	t.binder(func(name string, args []*Expr) (*Expr, error) {
		if len(args) != 3 {
			return nil, mismatch(name, args)
		}
		return Case(args[:1], args[1:2], args[2])
	}, "if")
	t.binder(bindExtreme, "greatest", "least")
	t.binder(func(name string, args []*Expr) (*Expr, error) {
		if len(args) != 1 {
			return nil, mismatch(name, args)
		}
		v := row.NewVector(tVarchar, 1)
		text := args[0].Type.String()
		if args[0].Type.Kind == row.Null {
			text = `"NULL"`
		}
		v.AppendString(text)
		return folded(v, callText(name, args)), nil
	}, "typeof")
}

// bindExtreme binds greatest and least, which ignore NULL.
func bindExtreme(name string, args []*Expr) (*Expr, error) {
	if len(args) == 0 {
		return nil, mismatch(name, args)
	}
	t, ok := unifyExprs(args)
	if !ok {
		return nil, mismatch(name, args)
	}
	cast, err := castAll(args, t)
	if err != nil {
		return nil, err
	}
	sign := 1
	if name == "least" {
		sign = -1
	}
	// DuckDB 1.1.3 has greatest of FLOATs, lists and structs NULL as soon as one of them is.
	strict := name == "greatest" && (t.Kind == row.Float || t.Kind == row.List || t.Kind == row.Struct)
	return newNullable(t, callText(name, args), func(c *call) {
	rows:
		for _, i := range c.rows {
			best := -1
			for k, v := range c.args {
				if v.IsNull(int(i)) || t.Kind == row.Null {
					if strict {
						c.null(i)
						continue rows
					}
					continue
				}
				if best < 0 || compareAt(v, int(i), c.args[best], int(i))*sign > 0 {
					best = k
				}
			}
			if best < 0 {
				c.null(i)
				continue
			}
			copyValue(c.out, int(i), c.args[best], int(i))
		}
	}, cast...), nil
}

// copyValue stores value j of v, which may be NULL, at slot i of out.
func copyValue(out *row.Vector, i int, v *row.Vector, j int) {
	if v.IsNull(j) {
		out.SetNull(i)
		return
	}
	switch out.Type.Class() {
	case row.Float64Class:
		out.F64[i] = v.F64[j]
	case row.Int128Class:
		out.I128[i] = v.I128[j]
	case row.StringClass:
		out.Str[i] = v.Str[j]
	default:
		out.I64[i] = v.I64[j]
	}
}
