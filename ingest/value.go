package ingest

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"unsafe"

	"tidemark/storage/row"
	"tidemark/stream"
)

// keyOf is keyText without a copy where that is possible.
func keyOf(text []byte) string {
	if text[0] == '"' {
		if n := plainText(text[1:]); n == len(text)-2 {
			return shared(text[1 : 1+n])
		}
		return keyText(text)
	}
	return shared(text)
}

// shared is a string of bytes that nobody changes any more.
func shared(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// vector returns a slot's column, as long as the rows before this event.
func (d *decoder) vector(s *slot) *row.Vector {
	v := d.out.events.Columns[s.column]
	if v == nil {
		// Many columns are mostly sparse ones: they get room as they need it.
		d.live++
		if v = d.out.spare[s.column]; v != nil {
			d.out.spare[s.column] = nil
		} else if d.live <= 64 {
			v = row.NewVector(s.typ, d.hint)
		} else {
			v = row.NewVector(s.typ, d.rows+1)
		}
		d.out.events.Columns[s.column] = v
	}
	if d.lens[s.column] < d.rows {
		d.pad(s.column, v)
	}
	d.lens[s.column] = d.rows + 1
	return v
}

// pad appends nulls up to the number of rows.
func (d *decoder) pad(c int, v *row.Vector) {
	for ; d.lens[c] < d.rows; d.lens[c]++ {
		v.AppendNull()
	}
}

// column reads a value that is not null into a slot's column.
func (d *decoder) column(b []byte, i int, s *slot) (end int, f *fault) {
	switch c := b[i]; s.read {
	case readInteger:
		if x, end, ok := quickInteger(b, i); ok && x >= s.low && x <= s.high {
			if !s.wide && (x > maxExact || x < -maxExact) {
				d.wide = append(d.wide, s.column)
			}
			v := d.vector(s)
			v.I64 = append(v.I64, x)
			return end, nil
		}
	case readText:
		if c == '"' {
			if n := plainText(b[i+1:]); n >= 0 {
				v := d.vector(s)
				v.Str = append(v.Str, shared(b[i+1:i+1+n]))
				return i + n + 2, nil
			}
		}
	case readInstant:
		if c == '"' {
			if n := plainText(b[i+1:]); n >= 0 {
				t, err := row.ParseTime(b[i+1 : i+1+n])
				if err != nil {
					return 0, d.misfit(s, b[i:i+n+2], err)
				}
				v := d.vector(s)
				v.I64 = append(v.I64, t)
				return i + n + 2, nil
			}
		} else if x, end, ok := quickInteger(b, i); ok {
			if t, ok := quickEpoch(x); ok {
				v := d.vector(s)
				v.I64 = append(v.I64, t)
				return end, nil
			}
		}
	case readDouble:
		if f, end, ok := quickDouble(b, i); ok {
			v := d.vector(s)
			v.F64 = append(v.F64, f)
			return end, nil
		}
	case readBoolean:
		if c == 't' || c == 'f' {
			word := "true"
			if c == 'f' {
				word = "false"
			}
			end, serr := literal(b, i, word)
			if serr != nil {
				return 0, errSyntax
			}
			x := int64(0)
			if c == 't' {
				x = 1
			}
			v := d.vector(s)
			v.I64 = append(v.I64, x)
			return end, nil
		}
	}
	// The general road: first whether it is JSON, then what it says.
	end, f = d.walk(b, i)
	if f != nil {
		return 0, f
	}
	text := b[i:end]
	d.one.Reset(s.typ)
	if err := row.ParseJSONValue(&d.one, text); err != nil {
		return 0, d.misfit(s, text, err)
	}
	if !s.wide || d.layout.inferred && (s.read == readDouble || s.read == readAny) {
		if f := d.judge(s, text); f != nil {
			return 0, f
		}
	}
	d.vector(s).AppendFrom(&d.one, 0)
	return end, nil
}

// judge looks at a value that fits an inferred column: whether it is exact there, whether it is the
// first integer past ±2^53, and whether it brings members that the column does not have.
func (d *decoder) judge(s *slot, text []byte) *fault {
	if s.typ.Kind == row.JSON {
		return nil
	}
	if s.read == readInteger {
		if x := d.one.I64[0]; !s.wide && (x > maxExact || x < -maxExact) {
			d.wide = append(d.wide, s.column)
		}
		return nil
	}
	if s.read == readDouble {
		if why := inexact(text); why != "" {
			return d.misfit(s, text, errors.New(why))
		}
		return nil
	}
	t, wide, err := inferType(text)
	if err != nil {
		return d.misfit(s, text, err)
	}
	if wide {
		if why := inexactIn(s.typ, text); why != "" {
			return d.misfit(s, text, errors.New(why))
		}
		if !s.wide {
			d.wide = append(d.wide, s.column)
		}
	}
	if s.read == readAny && !d.news {
		w, ok := stream.WidenType(s.typ, t)
		d.news = ok && !w.Equal(s.typ) && members(w) <= maxMembers && !d.layout.isPlain(grownName(s.name, w))
	}
	return nil
}

// misfit is the fault of a value that its column can't take.
func (d *decoder) misfit(s *slot, text []byte, err error) *fault {
	code := codeBadValue
	if s.time {
		code = codeBadTime
	}
	f := &fault{code: code, reason: s.name + ": " + err.Error()}
	if d.layout.inferred && !s.time {
		t, _, terr := inferType(text)
		if terr != nil {
			f.reason = s.name + ": " + terr.Error()
			return f
		}
		if w, ok := stream.WidenType(s.typ, t); ok && !w.Equal(s.typ) {
			f.misfit = true
			if t.Kind == row.Double {
				f.reason += "; declare the column DOUBLE"
			}
		}
	}
	return f
}

// plainText returns where the string that b is the rest of ends, or −1 when it has escapes, bytes
// past ASCII, control characters, or no end. Eight bytes are looked at together.
func plainText(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote := x ^ (ones * '"')
		slash := x ^ (ones * '\\')
		// A byte's high bit is set where it is zero in quote or slash, under 0x20 in x, or past
		// ASCII. A borrow may mark bytes behind the first marked one, never before it.
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (x - ones*0x20) | x) & highs
		if hit != 0 {
			i += bits.TrailingZeros64(hit) >> 3
			if b[i] == '"' {
				return i
			}
			return -1
		}
	}
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i
		case c < 0x20 || c >= 0x80 || c == '\\':
			return -1
		}
	}
	return -1
}
