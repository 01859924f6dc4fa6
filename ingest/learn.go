package ingest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tidemark/storage/row"
	"tidemark/stream"
)

// inferType returns the type that a well-formed value gives a column that has none yet: NULL for
// null, [], {} and what holds nothing else. wide says that an integer past ±2^53 is in it. The
// error says why no type takes the value.
func inferType(text []byte) (t row.Type, wide bool, err error) {
	switch text[0] {
	case 'n':
		return row.Type{}, false, nil
	case 't', 'f':
		return row.Scalar(row.Boolean), false, nil
	case '"':
		return row.Scalar(row.Varchar), false, nil
	case '[':
		return inferList(text)
	case '{':
		return inferStruct(text)
	}
	whole := !slices.ContainsFunc(text, func(c byte) bool { return c == '.' || c == 'e' || c == 'E' })
	if !whole {
		return row.Scalar(row.Double), false, nil
	}
	v := row.NewVector(row.Scalar(row.BigInt), 1)
	if err := row.ParseJSONValue(v, text); err != nil {
		return row.Type{}, false, errors.New(inexact(text))
	}
	x := v.I64[0]
	return row.Scalar(row.BigInt), x > maxExact || x < -maxExact, nil
}

func inferList(text []byte) (t row.Type, wide bool, err error) {
	elem := row.Type{}
	n := 0
	err = row.EachElement(text, func(e []byte) error {
		et, w, err := inferType(e)
		if err != nil {
			return err
		}
		both, ok := stream.WidenType(elem, et)
		if !ok {
			return fmt.Errorf("element %d is %s, those before it are %s; declare the column JSON", n, et, elem)
		}
		elem, wide = both, wide || w
		n++
		return nil
	})
	if err != nil || elem.Kind == row.Null {
		return row.Type{}, false, err
	}
	return row.ListOf(elem), wide, nil
}

// inferStruct takes the first of two members of one name, as they are read.
func inferStruct(text []byte) (t row.Type, wide bool, err error) {
	var fields []row.Field
	err = row.EachMember(text, func(name string, value []byte) error {
		if name == "" || len(fields) > maxMembers || row.FieldIndex(fields, name) >= 0 {
			return nil
		}
		ft, w, err := inferType(value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if ft.Kind != row.Null {
			fields = append(fields, row.Field{Name: name, Type: ft})
			wide = wide || w
		}
		return nil
	})
	if err != nil || len(fields) == 0 {
		return row.Type{}, false, err
	}
	return row.StructOf(fields...), wide, nil
}

// maxMembers bounds the members of all structs in the type of one column: what would be past them
// makes no column and stays in the event, so that an object with names for keys does not become a
// type of a million members.
const maxMembers = 200

// members counts the members of all structs in a type.
func members(t row.Type) int {
	n := len(t.Fields)
	if t.Elem != nil {
		n += members(*t.Elem)
	}
	for _, f := range t.Fields {
		n += members(f.Type)
	}
	return n
}

// draft is a schema on its way from what it is to what events ask of it.
type draft struct {
	fields []row.Field
	byName map[string]int // by the name in lower case
	wide   map[int]bool
	skip   string // a field that is no column: that which names the stream of a mixed body
}

func newDraft(s *stream.Schema, skip string) *draft {
	d := &draft{fields: slices.Clone(s.Fields), byName: map[string]int{}, wide: map[int]bool{}, skip: skip}
	for i, f := range d.fields {
		d.byName[strings.ToLower(f.Name)] = i
	}
	for _, c := range s.Wide {
		d.wide[c] = true
	}
	return d
}

// find returns a column by name, without regard to case; −1 when there is none.
func (d *draft) find(name string) int {
	if i, ok := d.byName[strings.ToLower(name)]; ok {
		return i
	}
	return -1
}

// maxDraft bounds the fields that a schema is asked for: some more than it can take, so that it
// notes that fields were left out.
const maxDraft = stream.MaxColumns + 100

// add takes one event's fields into the draft, all or, when one fits no widening, none.
func (d *draft) add(text []byte, timeField string) *fault {
	type change struct {
		column int // −1: a new one
		field  row.Field
		wide   bool
	}
	var changes []change
	var f *fault
	given := map[string]bool{}
	_ = row.EachMember(text, func(name string, value []byte) error {
		if name == d.skip || name == timeField {
			return nil
		}
		if given[name] {
			f = &fault{code: codeDuplicateKey, reason: name + ": the column is given twice"}
			return errors.New(f.reason)
		}
		given[name] = true
		c := d.find(name)
		if c >= 0 && d.fields[c].Name != name {
			return nil // another spelling stays in the event
		}
		t, wide, err := inferType(value)
		if err != nil {
			f = &fault{code: codeBadValue, reason: name + ": " + err.Error()}
			return err
		}
		if t.Kind == row.Null {
			return nil
		}
		if c < 0 {
			if members(t) <= maxMembers {
				changes = append(changes, change{-1, row.Field{Name: name, Type: t}, wide})
			}
			return nil
		}
		have := d.fields[c].Type
		w, ok := stream.WidenType(have, t)
		one := row.NewVector(w, 1)
		if !ok || have.Kind == row.BigInt && w.Kind == row.Double && (d.wide[c] || row.ParseJSONValue(row.NewVector(have, 1), value) == nil) ||
			have.Kind == row.Double && wide && inexact(value) != "" {
			// A number such as 5.0 fits BIGINT as it is.
			one = row.NewVector(have, 1)
			w = have
		}
		if err := row.ParseJSONValue(one, value); err != nil {
			f = &fault{code: codeBadValue, reason: name + ": " + err.Error()}
			return err
		}
		if members(w) > maxMembers {
			w = have
		}
		if !w.Equal(have) || wide {
			changes = append(changes, change{c, row.Field{Name: d.fields[c].Name, Type: w}, wide})
		}
		return nil
	})
	if f != nil {
		return f
	}
	for _, c := range changes {
		if c.column < 0 {
			if d.find(c.field.Name) >= 0 || len(d.fields) >= maxDraft {
				continue // another spelling in the same object, or too many
			}
			c.column = len(d.fields)
			d.fields = append(d.fields, c.field)
			d.byName[strings.ToLower(c.field.Name)] = c.column
		}
		d.fields[c.column].Type = c.field.Type
		if c.wide {
			d.wide[c.column] = true
		}
	}
	return nil
}

// wants are the fields that are new or wider than in the schema.
func (d *draft) wants(s *stream.Schema) []row.Field {
	var out []row.Field
	for i, f := range d.fields {
		if i >= len(s.Fields) || !f.Type.Equal(s.Fields[i].Type) {
			out = append(out, f)
		}
	}
	return out
}

// notePlain remembers which fields of these events the schema would not take.
func (l *layout) notePlain(all []news, skip string) {
	for _, n := range all {
		if n.misfit {
			continue
		}
		_ = row.EachMember(n.text, func(name string, value []byte) error {
			i, ok := l.byName[name]
			if !ok || l.slots[i].column < 0 {
				if name != skip {
					l.setPlain(name)
				}
				return nil
			}
			if s := &l.slots[i]; s.column >= 0 && s.read == readAny {
				if t, _, err := inferType(value); err == nil {
					if w, ok := stream.WidenType(s.typ, t); ok && !w.Equal(s.typ) {
						l.setPlain(grownName(s.name, w))
					}
				}
			}
			return nil
		})
	}
}

// grownName is what a layout remembers of a column that would not grow to a type.
func grownName(name string, t row.Type) string { return name + "\x00" + t.String() }

// timeColumn is the column of a time field.
func timeColumn(name string) []row.Field {
	return []row.Field{{Name: name, Type: row.Scalar(row.Timestamp)}}
}

// first returns the text of the first of the events that is an object.
func (d *decoded) first() (text []byte, ok bool) {
	at := math.MaxInt
	if len(d.index) > 0 {
		at, text = int(d.index[0]), d.events.RawData[:d.events.RawEnds[0]]
	}
	for _, b := range d.bad {
		if b.index < at && b.code != codeNoObject && b.code != codeBadJSON && len(b.raw) > 0 && b.raw[0] == '{' {
			at, text = b.index, b.raw
		}
	}
	return text, text != nil
}
