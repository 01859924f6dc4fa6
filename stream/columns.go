package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Columns are columns in the order in which they were given. In JSON they are an object from name
// to type; a Go map would lose the order, which numbers the columns.
type Columns []Column

// Column is a name and a type as SQL writes it.
type Column struct{ Name, Type string }

// MarshalJSON writes an object.
func (c Columns) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, col := range c {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(col.Name)
		if err != nil {
			return nil, err
		}
		kind, err := json.Marshal(col.Type)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(kind)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object; a name given twice is kept twice, for Validate to name.
func (c *Columns) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("columns must be an object from name to type, as in {\"ts\": \"TIMESTAMP\"}")
	}
	out := Columns{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		kind, err := d.Token()
		if err != nil {
			return err
		}
		typeText, ok := kind.(string)
		if !ok {
			return fmt.Errorf("column %q: its type must be a text such as \"VARCHAR\"", name)
		}
		out = append(out, Column{name.(string), typeText})
	}
	*c = out
	return nil
}
