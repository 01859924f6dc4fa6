package expr

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"tidemark/storage/row"
)

// nested fills the functions over LIST and STRUCT.
func (t table) nested() {
	t.binder(bindListValue, "list_value", "list_pack", "array_value")
	t.binder(bindExtract, "array_extract", "list_extract", "list_element", "struct_extract")
	t.binder(bindSlice, "array_slice", "list_slice")
	t.binder(bindConcatLists, "list_concat", "list_cat", "array_concat", "array_cat")
	list := func(names string, returns func(list row.Type) row.Type, f func(c *call, i int32, elems *row.Vector)) {
		for _, n := range strings.Fields(names) {
			t.binder(func(name string, args []*Expr) (*Expr, error) {
				if len(args) != 1 || args[0].Type.Kind != row.List {
					return nil, mismatch(name, args)
				}
				return newCall(returns(args[0].Type), callText(name, args), eachList(f), args[0]), nil
			}, n)
		}
	}
	same := func(t row.Type) row.Type { return t }
	elem := func(t row.Type) row.Type { return *t.Elem }
	always := func(t row.Type) func(row.Type) row.Type { return func(row.Type) row.Type { return t } }
	list("array_length", always(tBig), func(c *call, i int32, e *row.Vector) { c.out.I64[i] = int64(e.Len()) })
	list("list_count", always(tBig), func(c *call, i int32, e *row.Vector) { c.out.I64[i] = int64(notNulls(e)) })
	list("list_reverse array_reverse", same, func(c *call, i int32, e *row.Vector) {
		order := make([]int32, e.Len())
		for k := range order {
			order[k] = int32(len(order) - 1 - k)
		}
		c.out.Str[i] = pick(e, order)
	})
	sorted := func(sign int) func(c *call, i int32, e *row.Vector) {
		return func(c *call, i int32, e *row.Vector) { c.out.Str[i] = pick(e, sortedOrder(e, sign)) }
	}
	list("list_sort array_sort", same, sorted(1))
	list("list_reverse_sort array_reverse_sort", same, sorted(-1))
	list("list_unique array_unique", always(tBig), func(c *call, i int32, e *row.Vector) {
		c.out.I64[i] = int64(len(distinctOrder(e)))
	})
	list("list_distinct array_distinct", same, func(c *call, i int32, e *row.Vector) {
		c.out.Str[i] = pick(e, distinctOrder(e))
	})
	best := func(sign int) func(c *call, i int32, e *row.Vector) {
		return func(c *call, i int32, e *row.Vector) {
			order := sortedOrder(e, sign)
			if len(order) == 0 || e.IsNull(int(order[0])) {
				c.null(i)
				return
			}
			copyValue(c.out, int(i), e, int(order[0]))
		}
	}
	list("list_min", elem, best(1))
	list("list_max", elem, best(-1))
	list("list_first", elem, func(c *call, i int32, e *row.Vector) {
		if e.Len() == 0 {
			c.null(i)
			return
		}
		copyValue(c.out, int(i), e, 0)
	})
	list("list_last", elem, func(c *call, i int32, e *row.Vector) {
		if e.Len() == 0 {
			c.null(i)
			return
		}
		copyValue(c.out, int(i), e, e.Len()-1)
	})
	t.binder(bindFlatten, "flatten")
	t.binder(bindListAggregate, "list_aggregate", "list_aggr", "array_aggregate", "array_aggr", "aggregate")
	t.binder(bindListSum, "list_sum", "list_avg")
	t.binder(bindFind, "list_contains", "list_has", "array_contains", "array_has", "list_position", "list_indexof", "array_position", "array_indexof")
	t.binder(bindAny, "= any")
	t.binder(bindAppend, "list_append", "array_append", "array_push_back", "list_prepend", "array_prepend", "array_push_front")
	t.binder(bindHasAny, "list_has_any", "array_has_any", "&&", "list_has_all", "array_has_all", "@>")
	t.define("array_to_string", on(tVarchar, try2(str, str, str, joinTexts), row.ListOf(tVarchar), tVarchar))
	// Besides what they are of a VARCHAR.
	for name, f := range map[string]string{"length": "array_length", "len": "array_length", "contains": "list_contains"} {
		text := t[name].overloads
		t.binder(func(name string, args []*Expr) (*Expr, error) {
			if len(args) == 0 || args[0].Type.Kind != row.List {
				return bindOverload(name, text, args)
			}
			e, err := Call(f, args)
			if err != nil {
				return nil, mismatch(name, args)
			}
			e.Text = callText(name, args)
			return e, nil
		}, name)
	}
}

// eachList calls f with the elements of the list in argument 0.
func eachList(f func(c *call, i int32, elems *row.Vector)) kernel {
	return func(c *call) {
		for _, i := range c.rows {
			elems, err := row.Elements(c.args[0], int(i))
			if err != nil {
				c.fail(i, conversion("a list can't be read: %v", err))
				continue
			}
			f(c, i, elems)
		}
	}
}

func notNulls(v *row.Vector) int {
	n := 0
	for k := range v.Len() {
		n += int(b2i(!v.IsNull(k)))
	}
	return n
}

// pick makes a list value of the elements in the order given.
func pick(elems *row.Vector, order []int32) string {
	var value []byte
	for _, k := range order {
		value = row.AppendElement(value, elems, int(k))
	}
	return string(value)
}

// sortedOrder sorts ascending when sign is 1, descending when it is −1, NULLS LAST.
func sortedOrder(e *row.Vector, sign int) []int32 {
	order := slices.Clone(identity(e.Len()))
	slices.SortStableFunc(order, func(a, b int32) int {
		switch na, nb := e.IsNull(int(a)), e.IsNull(int(b)); {
		case na || nb:
			return int(b2i(na) - b2i(nb))
		}
		return sign * compareAt(e, int(a), e, int(b))
	})
	return order
}

// distinctOrder returns one of each different element that is not NULL, in ascending order: DuckDB
// has none, and the batch answer is sorted (N3). As there, one NaN is not another.
func distinctOrder(e *row.Vector) []int32 {
	seen := map[string]struct{}{}
	var order []int32
	for _, k32 := range sortedOrder(e, 1) {
		k := int(k32)
		if e.IsNull(k) {
			break
		}
		if e.Type.Class() == row.Float64Class && math.IsNaN(e.F64[k]) {
			order = append(order, k32)
			continue
		}
		key := string(row.AppendKey(nil, e, k))
		if _, ok := seen[key]; !ok {
			seen[key] = struct{}{}
			order = append(order, k32)
		}
	}
	return order
}

func bindListValue(name string, args []*Expr) (*Expr, error) {
	t, ok := listElem(args)
	if !ok {
		return nil, mismatch(name, args)
	}
	cast, err := castAll(args, t)
	if err != nil {
		return nil, err
	}
	return newNullable(row.ListOf(t), "["+texts(args)+"]", func(c *call) {
		var value []byte
		for _, i := range c.rows {
			value = value[:0]
			for _, v := range c.args {
				value = row.AppendElement(value, v, int(i))
			}
			c.out.Str[i] = string(value)
		}
	}, cast...), nil
}

func listElem(args []*Expr) (row.Type, bool) {
	t, ok := unifyExprs(args)
	return t, ok
}

// Struct is the STRUCT of these members.
func Struct(names []string, args []*Expr) (*Expr, error) {
	if len(names) != len(args) || len(args) == 0 {
		return nil, mismatch("struct_pack", args)
	}
	fields := make([]row.Field, len(args))
	parts := make([]string, len(args))
	for i, a := range args {
		fields[i] = row.Field{Name: names[i], Type: a.Type}
		parts[i] = "'" + strings.ReplaceAll(names[i], "'", "''") + "': " + a.Text
		if row.FieldIndex(fields[:i], names[i]) >= 0 {
			return nil, &Mismatch{Name: "struct_pack", Reason: "a STRUCT has two members " + names[i]}
		}
	}
	return newNullable(row.StructOf(fields...), "{"+strings.Join(parts, ", ")+"}", func(c *call) {
		for _, i := range c.rows {
			c.out.Str[i] = string(row.EncodeStruct(nil, c.args, int(i)))
		}
	}, args...), nil
}

// StructField is e.name of a STRUCT, in any case of letters; of a JSON value it is e->'name'.
func StructField(e *Expr, name string) (*Expr, error) {
	if e.Type.Kind == row.JSON {
		v := row.NewVector(tVarchar, 1)
		v.AppendString(name)
		return Call("->", []*Expr{e, Const(v)})
	}
	k := -1
	if e.Type.Kind == row.Struct {
		k = row.FieldIndex(e.Type.Fields, name)
	}
	if k < 0 {
		m := &Mismatch{Name: "struct_extract", Types: []row.Type{e.Type}}
		if e.Type.Kind == row.Struct {
			names := make([]string, len(e.Type.Fields))
			for i, f := range e.Type.Fields {
				names[i] = f.Name
			}
			m.Reason = e.Text + " has no member " + name + "; it has " + strings.Join(names, ", ")
		} else {
			m.Reason = e.Text + " is a " + e.Type.String() + " and has no members such as " + name
		}
		return nil, m
	}
	t := e.Type.Fields[k].Type
	before := e.Type.Fields[:k]
	return newCall(t, operand(e)+"."+row.QuoteName(e.Type.Fields[k].Name), func(c *call) {
		skipped := make([]*row.Vector, k)
		for j, f := range before {
			skipped[j] = row.NewVector(f.Type, 1)
		}
		one := row.NewVector(t, 1)
	rows:
		for _, i := range c.rows {
			src := []byte(c.args[0].Str[i])
			var err error
			for j, f := range before {
				skipped[j].Reset(f.Type)
				if src, err = row.DecodeKey(f.Type, src, skipped[j]); err != nil {
					c.fail(i, conversion("a struct can't be read: %v", err))
					continue rows
				}
			}
			one.Reset(t)
			if _, err = row.DecodeKey(t, src, one); err != nil {
				c.fail(i, conversion("a struct can't be read: %v", err))
				continue
			}
			copyValue(c.out, int(i), one, 0)
		}
	}, e), nil
}

// bindExtract binds subscripts: a list's element or a text's character, counted from 1 or from
// the end; a struct's member by its name.
func bindExtract(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 {
		return nil, mismatch(name, args)
	}
	a, at := args[0], args[1]
	switch a.Type.Kind {
	case row.Struct:
		if at.IsConst() && at.Type.Kind == row.Varchar && !at.isNull() {
			return StructField(a, at.value.Str[0])
		}
		if at.IsConst() && at.Type.IsInteger() && !at.isNull() {
			if n := integerAt(at.value, 0).Int64(); n >= 1 && n <= int64(len(a.Type.Fields)) {
				return StructField(a, a.Type.Fields[n-1].Name)
			}
		}
		return nil, mismatch(name, args)
	case row.JSON:
		return Call("->", args)
	case row.Varchar:
		one, err := implicit(at, tBig)
		if err != nil || !at.Type.IsInteger() && !at.isNull() {
			return nil, mismatch(name, args)
		}
		return newCall(tVarchar, subscript(args), map2(str, i64, str, func(s string, n int64) string { return substring(s, n, 1) }), a, one), nil
	case row.List:
	default:
		return nil, mismatch(name, args)
	}
	if !at.Type.IsInteger() && at.Type.Kind != row.Null {
		return nil, mismatch(name, args)
	}
	n, err := implicit(at, tBig)
	if err != nil {
		return nil, err
	}
	return newCall(*a.Type.Elem, subscript(args), eachList(func(c *call, i int32, e *row.Vector) {
		k := c.args[1].I64[i]
		if k < 0 {
			k += int64(e.Len()) + 1
		}
		if k < 1 || k > int64(e.Len()) {
			c.null(i)
			return
		}
		copyValue(c.out, int(i), e, int(k-1))
	}), a, n), nil
}

func subscript(args []*Expr) string { return operand(args[0]) + "[" + args[1].Text + "]" }

// bindSlice binds a[from:to], both ends in, of lists and texts. An end that is left out is the list's
// own; one that is NULL makes NULL.
func bindSlice(name string, args []*Expr) (*Expr, error) {
	if len(args) != 3 {
		return nil, mismatch(name, args)
	}
	a := args[0]
	if a.Type.Kind != row.List && a.Type.Kind != row.Varchar {
		return nil, mismatch(name, args)
	}
	ends := make([]*Expr, 2)
	for k, e := range args[1:] {
		if e.Type.Kind == row.List { // [2:] comes with an empty list
			v := row.NewVector(tBig, 1)
			v.AppendInt64(int64(1 - 2*k)) // the first, or the last
			ends[k] = Const(v)
			continue
		}
		if !e.isNull() && !e.Type.IsInteger() {
			return nil, mismatch(name, args)
		}
		var err error
		if ends[k], err = implicit(e, tBig); err != nil {
			return nil, err
		}
	}
	bounds := func(c *call, i int32, n int64) (from, to int64) {
		from, to = c.args[1].I64[i], c.args[2].I64[i]
		if from < 0 {
			from += n + 1
		}
		if to < 0 {
			to += n + 1
		}
		return max(from, 1), min(to, n)
	}
	text := operand(a) + "[" + args[1].Text + ":" + args[2].Text + "]"
	return newCall(a.Type, text, func(c *call) {
		for _, i := range c.rows {
			if a.Type.Kind == row.Varchar {
				s := c.args[0].Str[i]
				from, to := bounds(c, i, runes(s))
				c.out.Str[i] = ""
				if from <= to {
					c.out.Str[i] = substring(s, from, to-from+1)
				}
				continue
			}
			elems, err := row.Elements(c.args[0], int(i))
			if err != nil {
				c.fail(i, conversion("a list can't be read: %v", err))
				continue
			}
			from, to := bounds(c, i, int64(elems.Len()))
			c.out.Str[i] = ""
			if from <= to {
				c.out.Str[i] = pick(elems, identity(elems.Len())[from-1:to])
			}
		}
	}, append([]*Expr{a}, ends...)...), nil
}

// twoLists casts two lists to one type.
func twoLists(name string, args []*Expr) (row.Type, []*Expr, error) {
	t, ok := unifyExprs(args)
	if len(args) != 2 || !ok || t.Kind != row.List {
		return t, nil, mismatch(name, args)
	}
	cast, err := castAll(args, t)
	return t, cast, err
}

// bindConcatLists joins lists; NULL counts as an empty one.
func bindConcatLists(name string, args []*Expr) (*Expr, error) {
	t, cast, err := twoLists(name, args)
	if err != nil {
		return nil, err
	}
	return newNullable(t, callText(name, args), func(c *call) {
		for _, i := range c.rows {
			value := ""
			for _, v := range c.args {
				if !v.IsNull(int(i)) {
					value += v.Str[i]
				}
			}
			c.out.Str[i] = value
		}
	}, cast...), nil
}

// bindFlatten joins the lists in a list.
func bindFlatten(name string, args []*Expr) (*Expr, error) {
	if len(args) != 1 || args[0].Type.Kind != row.List || args[0].Type.Elem.Kind != row.List {
		return nil, mismatch(name, args)
	}
	return newCall(*args[0].Type.Elem, callText(name, args), eachList(func(c *call, i int32, e *row.Vector) {
		c.out.Str[i] = strings.Join(e.Str, "")
	}), args[0]), nil
}

// bindListAggregate binds list_aggregate(list, 'sum'), which is list_sum(list).
func bindListAggregate(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 || args[0].Type.Kind != row.List {
		return nil, mismatch(name, args)
	}
	if !args[1].IsConst() || args[1].isNull() || args[1].Type.Kind != row.Varchar {
		return nil, &Mismatch{Name: name, Reason: name + " needs the name of the aggregate as a constant text"}
	}
	switch which := strings.ToLower(args[1].value.Str[0]); which {
	case "sum", "avg", "min", "max", "count", "first", "last":
		e, err := Call("list_"+which, args[:1])
		if err == nil {
			e.Text = callText(name, args)
		}
		return e, err
	}
	return nil, &Mismatch{Name: name, Reason: name + " takes sum, avg, min, max, count, first and last, and not " + args[1].Text}
}

// bindListSum binds list_sum, whose type is that of sum, and list_avg.
func bindListSum(name string, args []*Expr) (*Expr, error) {
	if len(args) != 1 || args[0].Type.Kind != row.List || !args[0].Type.Elem.IsNumeric() {
		return nil, mismatch(name, args)
	}
	elem := *args[0].Type.Elem
	t := tDouble
	switch {
	case name == "list_avg" || elem.Class() == row.Float64Class:
	case elem.Kind == row.Decimal:
		t = row.DecimalType(38, elem.Scale)
	default:
		t = tHuge
	}
	return newCall(t, callText(name, args), eachList(func(c *call, i int32, e *row.Vector) {
		sum, total, n := row.Int128{}, 0.0, 0
		for k := range e.Len() {
			if e.IsNull(k) {
				continue
			}
			n++
			if elem.Class() == row.Float64Class {
				total += e.F64[k]
				continue
			}
			var ok bool
			if sum, ok = sum.Add(integerAt(e, k)); !ok {
				c.fail(i, outOfRange("Overflow in list_sum"))
				return
			}
		}
		switch {
		case n == 0:
			c.null(i)
		case t.Kind != row.Double:
			c.out.I128[i] = sum
		default:
			if elem.Class() != row.Float64Class {
				total = decimalFloat(sum, int(elem.Scale))
			}
			if name == "list_avg" {
				total /= float64(n)
			}
			c.out.F64[i] = total
		}
	}), args[0]), nil
}

// listAndElement casts a list and a value to types in which the value is compared with the elements. A
// literal bends to the elements where it fits.
func listAndElement(name string, list, x *Expr) (*Expr, *Expr, error) {
	elem, ok := unify2(*list.Type.Elem, x.Type)
	if x.isStringLiteral() || x.isIntegerLiteral() && list.Type.Elem.IsInteger() && x.fits(*list.Type.Elem) {
		elem, ok = *list.Type.Elem, true
	}
	if !ok {
		return nil, nil, mismatch(name, []*Expr{list, x})
	}
	list, err := implicit(list, row.ListOf(elem))
	if err != nil {
		return nil, nil, err
	}
	x, err = implicit(x, elem)
	return list, x, err
}

// bindFind binds list_contains and list_position.
func bindFind(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 || args[0].Type.Kind != row.List {
		return nil, mismatch(name, args)
	}
	a, x, err := listAndElement(name, args[0], args[1])
	if err != nil {
		return nil, err
	}
	position := strings.Contains(name, "position") || strings.Contains(name, "indexof")
	t := tBool
	if position {
		t = tInt
	}
	return newCall(t, callText(name, args), eachList(func(c *call, i int32, e *row.Vector) {
		at := 0
		for k := range e.Len() {
			if !e.IsNull(k) && compareAt(e, k, c.args[1], int(i)) == 0 {
				at = k + 1
				break
			}
		}
		switch {
		case !position:
			c.out.I64[i] = b2i(at > 0)
		case at == 0:
			c.null(i)
		default:
			c.out.I64[i] = int64(at)
		}
	}), a, x), nil
}

// bindAny binds x = ANY(list): NULL where no element is equal and one of them, or x, is NULL. A list
// that is NULL is an empty one.
func bindAny(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 || args[1].Type.Kind != row.List {
		return nil, mismatch(name, args)
	}
	list, x, err := listAndElement(name, args[1], args[0])
	if err != nil {
		return nil, err
	}
	return newNullable(tBool, operand(args[0])+" = ANY("+args[1].Text+")", func(c *call) {
		for _, i := range c.rows {
			var elems *row.Vector
			if !c.args[1].IsNull(int(i)) {
				var err error
				if elems, err = row.Elements(c.args[1], int(i)); err != nil {
					c.fail(i, conversion("a list can't be read: %v", err))
					continue
				}
			}
			found, unknown := false, false
			for k := 0; elems != nil && k < elems.Len() && !found; k++ {
				switch {
				case elems.IsNull(k) || c.args[0].IsNull(int(i)):
					unknown = true
				default:
					found = compareAt(elems, k, c.args[0], int(i)) == 0
				}
			}
			if c.out.I64[i] = b2i(found); unknown && !found {
				c.null(i)
			}
		}
	}, x, list), nil
}

// bindAppend binds list_append and list_prepend; NULL as a list counts as an empty one.
func bindAppend(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 {
		return nil, mismatch(name, args)
	}
	list, x := args[0], args[1]
	front := strings.Contains(name, "prepend") || strings.Contains(name, "front")
	if strings.Contains(name, "prepend") {
		list, x = x, list
	}
	if list.Type.Kind != row.List {
		return nil, mismatch(name, args)
	}
	one, err := bindListValue("list_value", []*Expr{x})
	if err != nil {
		return nil, err
	}
	if x.isIntegerLiteral() && list.Type.Elem.IsInteger() && x.fits(*list.Type.Elem) || x.isStringLiteral() {
		if one, err = implicit(one, list.Type); err != nil {
			return nil, err
		}
	}
	parts := []*Expr{list, one}
	if front {
		parts = []*Expr{one, list}
	}
	e, err := bindConcatLists(name, parts)
	if err == nil {
		e.Text = callText(name, args)
	}
	return e, err
}

// bindHasAny binds list_has_any and list_has_all.
func bindHasAny(name string, args []*Expr) (*Expr, error) {
	_, cast, err := twoLists(name, args)
	if err != nil {
		return nil, err
	}
	all := strings.HasSuffix(name, "all") || name == "@>"
	return newCall(tBool, callText(name, args), eachList(func(c *call, i int32, have *row.Vector) {
		want, err := row.Elements(c.args[1], int(i))
		if err != nil {
			c.fail(i, conversion("a list can't be read: %v", err))
			return
		}
		keys := map[string]struct{}{}
		for k := range have.Len() {
			keys[string(row.AppendKey(nil, have, k))] = struct{}{}
		}
		found, total := 0, 0
		for k := range want.Len() {
			if want.IsNull(k) {
				continue
			}
			total++
			if _, ok := keys[string(row.AppendKey(nil, want, k))]; ok {
				found++
			}
		}
		c.out.I64[i] = b2i(all && found == total || !all && found > 0)
	}), cast...), nil
}

func joinTexts(list, sep string) (string, *Failure) {
	v := &row.Vector{Type: row.ListOf(tVarchar), Str: []string{list}}
	elems, err := row.Elements(v, 0)
	if err != nil {
		return "", conversion("a list can't be read: %v", err)
	}
	var b bytes.Buffer
	n := 0
	for k, s := range elems.Str {
		if elems.IsNull(k) {
			continue
		}
		if n > 0 {
			b.WriteString(sep)
		}
		b.WriteString(s)
		if n++; b.Len() > maxText {
			return "", tooLong()
		}
	}
	if n == 0 {
		return "", errNull
	}
	return b.String(), nil
}

// parseNested reads DuckDB's text of a list or struct: [1, 2], {'a': 1, 'b': x}.
func parseNested(s string, t row.Type) (string, *Failure) {
	bad := conversion("Type VARCHAR with value '%s' can't be cast to the destination type %s", s, t.Kind)
	p := scanner{s: trimSpace(s)}
	opening, closing := byte('['), byte(']')
	if t.Kind == row.Struct {
		opening, closing = '{', '}'
	}
	if len(p.s) < 2 || p.s[0] != opening || p.s[len(p.s)-1] != closing {
		return "", bad
	}
	parts, ok := splitNested(p.s[1 : len(p.s)-1])
	if !ok {
		return "", bad
	}
	if t.Kind == row.List {
		elems := row.NewVector(*t.Elem, len(parts))
		for _, part := range parts {
			if err := appendParsed(elems, part); err != nil {
				return "", err
			}
		}
		return string(row.EncodeList(nil, elems)), nil
	}
	members := make([]*row.Vector, len(t.Fields))
	for k, f := range t.Fields {
		members[k] = row.NewVector(f.Type, 1)
	}
	for _, part := range parts {
		name, value, ok := strings.Cut(part, ":")
		k := row.FieldIndex(t.Fields, unquote(trimSpace(name)))
		if !ok || k < 0 || members[k].Len() > 0 {
			return "", bad
		}
		if err := appendParsed(members[k], trimSpace(value)); err != nil {
			return "", err
		}
	}
	for _, m := range members {
		if m.Len() == 0 {
			m.AppendNull()
		}
	}
	return string(row.EncodeStruct(nil, members, 0)), nil
}

// appendParsed adds the value that a part of a nested text stands for.
func appendParsed(v *row.Vector, part string) *Failure {
	if strings.EqualFold(part, "NULL") {
		v.AppendNull()
		return nil
	}
	text := &row.Vector{Type: tVarchar, Str: []string{unquote(part)}}
	if v.Type.Kind == row.Varchar {
		v.AppendString(text.Str[0])
		return nil
	}
	k := castText(v.Type)
	if v.Type.Kind == row.JSON {
		k = castToJSON(tVarchar)
	}
	if k == nil {
		return conversion("Type VARCHAR can't be cast to %s", v.Type)
	}
	out, err := castVector(text, v.Type, k)
	if err != nil {
		return err
	}
	v.AppendFrom(out, 0)
	return nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// splitNested cuts at the commas that stand outside quotes and brackets.
func splitNested(s string) ([]string, bool) {
	if trimSpace(s) == "" {
		return nil, true
	}
	var parts []string
	depth, from := 0, 0
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '\'' || c == '"') && trimSpace(s[from:i]) == "":
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
			if depth < 0 {
				return nil, false
			}
		case c == ',' && depth == 0:
			parts = append(parts, trimSpace(s[from:i]))
			from = i + 1
		}
	}
	return append(parts, trimSpace(s[from:])), depth == 0 && quote == 0
}
