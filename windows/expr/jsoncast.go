package expr

import (
	"encoding/json"
	"fmt"
	"strconv"

	"tidemark/storage/row"
)

// castJSON casts from JSON: null is NULL, a string is what its text casts to. A strict cast fails
// where a value does not fit its type, an object has a key too many or too few, or one twice; else
// what does not fit is NULL, part by part.
func castJSON(to row.Type, strict bool) kernel {
	if !jsonCasts(to) {
		return nil
	}
	return func(c *call) {
		one := row.NewVector(to, 1)
		for _, i := range c.rows {
			one.Reset(to)
			if err := appendFromJSON(one, []byte(trimSpace(c.args[0].Str[i])), strict); err != nil {
				c.fail(i, err)
				continue
			}
			copyValue(c.out, int(i), one, 0)
		}
	}
}

func jsonCasts(t row.Type) bool {
	switch t.Kind {
	case row.List:
		return jsonCasts(*t.Elem)
	case row.Struct:
		for _, f := range t.Fields {
			if !jsonCasts(f.Type) {
				return false
			}
		}
		return true
	case row.JSON, row.Varchar:
		return true
	}
	return castText(t) != nil
}

// appendFromJSON adds the value that a well-formed JSON text stands for in the type of v.
func appendFromJSON(v *row.Vector, text []byte, strict bool) *Failure {
	misfit := func() *Failure {
		if !strict {
			v.AppendNull()
			return nil
		}
		return conversion("Failed to cast value to %s: %s", v.Type, shortText(string(text)))
	}
	if len(text) == 0 {
		return misfit()
	}
	if v.Type.Kind == row.JSON {
		v.AppendString(string(compactJSON(nil, text)))
		return nil
	}
	switch {
	case text[0] == 'n':
		v.AppendNull()
		return nil
	case v.Type.Kind == row.List:
		return appendListFromJSON(v, text, strict)
	case v.Type.Kind == row.Struct:
		return appendStructFromJSON(v, text, strict)
	}
	s := string(text)
	if text[0] == '"' {
		var err error
		if s, err = row.UnquoteJSON(text); err != nil {
			return misfit()
		}
	} else if v.Type.Kind == row.Varchar {
		s = string(compactJSON(nil, text))
	} else if text[0] == '{' || text[0] == '[' {
		return misfit()
	} else if v.Type.IsNumeric() && (text[0] == 't' || text[0] == 'f') {
		s = strconv.Itoa(int(b2i(text[0] == 't')))
	}
	if v.Type.Kind == row.Varchar {
		v.AppendString(s)
		return nil
	}
	out, err := castVector(&row.Vector{Type: tVarchar, Str: []string{s}}, v.Type, castText(v.Type))
	if err != nil {
		return misfit()
	}
	v.AppendFrom(out, 0)
	return nil
}

func appendListFromJSON(v *row.Vector, text []byte, strict bool) *Failure {
	elems := row.NewVector(*v.Type.Elem, 4)
	var failed *Failure
	err := errFound
	if text[0] == '[' {
		err = row.EachElement(text, func(e []byte) error {
			if failed = appendFromJSON(elems, e, strict); failed != nil {
				return errFound
			}
			return nil
		})
	}
	switch {
	case failed != nil:
		return failed
	case err == nil:
		v.AppendString(string(row.EncodeList(nil, elems)))
	case strict:
		return conversion("Expected ARRAY, but got %s: %s", jsonType(text), shortText(string(text)))
	default:
		v.AppendNull()
	}
	return nil
}

// appendStructFromJSON takes what is no object for an empty one, unless strict.
func appendStructFromJSON(v *row.Vector, text []byte, strict bool) *Failure {
	if text[0] != '{' && strict {
		return conversion("Expected OBJECT, but got %s: %s", jsonType(text), shortText(string(text)))
	}
	members := make([]*row.Vector, len(v.Type.Fields))
	for k, f := range v.Type.Fields {
		members[k] = row.NewVector(f.Type, 1)
	}
	var failed *Failure
	if text[0] == '{' {
		_ = row.EachMember(text, func(name string, value []byte) error {
			k := exactField(v.Type.Fields, name)
			switch {
			case k >= 0 && members[k].Len() == 0:
				failed = appendFromJSON(members[k], value, strict)
			case strict && k >= 0:
				failed = conversion("Duplicate key \"%s\" in object %s", name, shortText(string(text)))
			case strict:
				failed = conversion("Object %s has unknown key \"%s\"", shortText(string(text)), name)
			}
			if failed != nil {
				return errFound
			}
			return nil
		})
	}
	for k, m := range members {
		if m.Len() > 0 || failed != nil {
			continue
		}
		if m.AppendNull(); strict {
			failed = conversion("Object %s does not have key \"%s\"", shortText(string(text)), v.Type.Fields[k].Name)
		}
	}
	if failed == nil {
		v.AppendString(string(row.EncodeStruct(nil, members, 0)))
	}
	return failed
}

// exactField is the place of a member of exactly this name, or −1: names in JSON have a case.
func exactField(fields []row.Field, name string) int {
	for k, f := range fields {
		if f.Name == name {
			return k
		}
	}
	return -1
}

// bindFromJSON binds from_json(json, '{"a": "BIGINT", "b": ["VARCHAR"]}').
func bindFromJSON(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 || !isJSON(args[0]) {
		return nil, mismatch(name, args)
	}
	structure := args[1]
	if !structure.IsConst() || structure.isNull() || structure.Type.Kind != row.Varchar && structure.Type.Kind != row.JSON {
		return nil, &Mismatch{Name: name, Reason: name + ` needs its structure as a constant text, such as '{"a": "BIGINT", "b": ["VARCHAR"]}'`}
	}
	text := []byte(trimSpace(structure.value.Str[0]))
	t, why := structureType(text)
	if !json.Valid(text) || why != "" || !jsonCasts(t) {
		if why == "" {
			why = "is no JSON"
		}
		return nil, &Mismatch{Name: name, Reason: fmt.Sprintf("the structure %s %s", structure.Text, why)}
	}
	doc, err := jsonArg(args[0])
	if err != nil {
		return nil, err
	}
	checked := doc.Type.Kind == row.JSON
	return newCall(t, callText(name, args), func(c *call) {
		one := row.NewVector(t, 1)
		for _, i := range c.rows {
			v, ok := jsonText(c, i, checked)
			if !ok {
				continue
			}
			one.Reset(t)
			_ = appendFromJSON(one, v, false)
			copyValue(c.out, int(i), one, 0)
		}
	}, doc), nil
}

// structureType is the type that a structure describes, or why it describes none.
func structureType(v []byte) (t row.Type, why string) {
	if len(v) == 0 {
		return t, "is empty"
	}
	switch v[0] {
	case '"':
		name, err := row.UnquoteJSON(v)
		if err == nil {
			t, err = row.ParseType(name)
		}
		if err != nil {
			return t, fmt.Sprintf("names the type %s, which isn't supported", v)
		}
		return t, ""
	case '[':
		n := 0
		_ = row.EachElement(v, func(e []byte) error {
			var elem row.Type
			elem, why = structureType(e)
			t = row.ListOf(elem)
			n++
			return nil
		})
		if n != 1 {
			return t, "has an array of other than one type"
		}
		return t, why
	case '{':
		t.Kind = row.Struct
		_ = row.EachMember(v, func(name string, value []byte) error {
			member, not := structureType(value)
			if not == "" && row.FieldIndex(t.Fields, name) >= 0 {
				not = "has the key " + name + " twice"
			}
			if not != "" {
				why = not
				return errFound
			}
			t.Fields = append(t.Fields, row.Field{Name: name, Type: member})
			return nil
		})
		if why == "" && len(t.Fields) == 0 {
			why = "has an empty object"
		}
		return t, why
	}
	return t, "holds something else than names of types"
}
