package pebblelog

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strconv"

	"tidemark/storage/row"
	"tidemark/stream"
)

// The raw section of a batch of version 2: payloads without what the columns give back. A payload is
// literals with values between them; a value is one of a column, in a text that render gives from
// what the column holds, or any text, kept as it is. Payloads whose literals and columns are the
// same share a shape, and most batches have one. The section is
//
//	uvarint bytes of all payloads, shapes
//	shape    uvarint values; for each uvarint column + 1, or 0 for a text that is kept; uvarint
//	         length of each literal, one more than there are values; the literals
//	payload  uvarint shape of each, when there is more than one shape
//	forms    uvarint number of them; a byte for each value of a column that has several forms, in order
//	texts    uvarint number of them; uvarint length of each; the texts that are kept, in order
//
// Nothing is lost: a value is taken from its column only when render gives back its very text.

// maxShapes bounds the shapes of a batch; payloads of others are kept whole.
const maxShapes = 1 << 10

// maxGuess bounds the memory that is taken for payloads before they are there.
const maxGuess = 16 << 20

// payloads are those of a batch, one after the other.
type payloads struct {
	raw    []byte
	ends   []uint32
	values []stream.Value // of all payloads in order; nil: they are not known
	counts []int32        // how many of the values are of each payload
}

// each gives out the payloads with their values.
func (p *payloads) each(yield func(raw []byte, values []stream.Value) bool) {
	from, rest := uint32(0), p.values
	for i, end := range p.ends {
		var values []stream.Value
		if rest != nil {
			values, rest = rest[:p.counts[i]], rest[p.counts[i]:]
		}
		if !yield(p.raw[from:end], values) {
			return
		}
		from = end
	}
}

// shape is what payloads share.
type shape struct {
	columns  []int32 // −1: a text that is kept
	literals []byte
	ends     []uint32 // of the literals
}

func (s *shape) literal(k int) []byte {
	from := uint32(0)
	if k > 0 {
		from = s.ends[k-1]
	}
	return s.literals[from:s.ends[k]]
}

// shaper takes payloads apart. Its memory is used again.
type shaper struct {
	shapes  []shape
	byText  map[string]int // literals and columns, as key writes them
	index   []uint32
	forms   []byte
	lengths []uint32
	texts   []byte
	size    int // of all payloads

	columns []int32 // of the payload at hand: what it takes from a column
	mine    []byte  // its forms
	key     []byte
	scratch []byte
	whole   [1]stream.Value
}

// take appends the section for payloads to dst. columns are those that the batch keeps.
func (s *shaper) take(dst []byte, all iter.Seq2[[]byte, []stream.Value], columns []*row.Vector) []byte {
	s.shapes, s.index, s.forms, s.lengths, s.texts, s.size = s.shapes[:0], s.index[:0], s.forms[:0], s.lengths[:0], s.texts[:0], 0
	clear(s.byText)
	last := -1
	for raw, values := range all {
		if len(values) == 0 || !s.judge(raw, values, columns, len(s.index)) {
			values = s.keepWhole(raw)
		}
		if last < 0 || !s.shapes[last].fits(raw, values, s.columns) {
			if last = s.find(raw, values); last < 0 { // too many
				values = s.keepWhole(raw)
				last = s.find(raw, values)
			}
		}
		s.size += len(raw)
		s.index = append(s.index, uint32(last))
		s.forms = append(s.forms, s.mine...)
		for k, v := range values {
			if s.columns[k] < 0 {
				s.lengths = append(s.lengths, v.To-v.From)
				s.texts = append(s.texts, raw[v.From:v.To]...)
			}
		}
	}
	return s.write(dst)
}

// keepWhole describes a payload as one text.
func (s *shaper) keepWhole(raw []byte) []stream.Value {
	s.columns, s.mine = append(s.columns[:0], -1), s.mine[:0]
	s.whole[0] = stream.Value{To: uint32(len(raw)), Column: -1}
	return s.whole[:]
}

// judge says which values of a payload a column gives back. It is false when the values are no
// description of the payload.
func (s *shaper) judge(raw []byte, values []stream.Value, columns []*row.Vector, i int) bool {
	s.columns, s.mine = s.columns[:0], s.mine[:0]
	at := uint32(0)
	for _, v := range values {
		if v.From < at || v.To < v.From || int(v.To) > len(raw) {
			return false
		}
		at = v.To
		column := v.Column
		if column >= 0 {
			var of *row.Vector
			if int(column) < len(columns) {
				of = columns[column]
			}
			form, ok := s.form(of, i, raw[v.From:v.To])
			switch {
			case !ok:
				column = -1
			case manyForms(of, i):
				s.mine = append(s.mine, form)
			}
		}
		s.columns = append(s.columns, column)
	}
	return true
}

// fits reports whether a payload has the shape.
func (s *shape) fits(raw []byte, values []stream.Value, columns []int32) bool {
	if len(s.columns) != len(columns) {
		return false
	}
	at, lit := uint32(0), uint32(0)
	for k, v := range values {
		if s.columns[k] != columns[k] || string(s.literals[lit:s.ends[k]]) != string(raw[at:v.From]) {
			return false
		}
		at, lit = v.To, s.ends[k]
	}
	return string(s.literals[lit:]) == string(raw[at:])
}

// find returns the shape of a payload, a new one if need be; −1 when there are too many.
func (s *shaper) find(raw []byte, values []stream.Value) int {
	s.key = s.key[:0]
	at := uint32(0)
	for k, v := range values {
		s.key = binary.AppendUvarint(s.key, uint64(v.From-at))
		s.key = append(s.key, raw[at:v.From]...)
		s.key = binary.AppendVarint(s.key, int64(s.columns[k]))
		at = v.To
	}
	s.key = append(s.key, raw[at:]...)
	if n, ok := s.byText[string(s.key)]; ok {
		return n
	}
	whole := len(values) == 1 && s.columns[0] < 0 && values[0].From == 0 && int(values[0].To) == len(raw)
	if len(s.shapes) >= maxShapes && !whole {
		return -1
	}
	n := len(s.shapes)
	if n < cap(s.shapes) {
		s.shapes = s.shapes[:n+1]
	} else {
		s.shapes = append(s.shapes, shape{})
	}
	made := &s.shapes[n]
	made.columns = append(made.columns[:0], s.columns...)
	made.literals, made.ends = made.literals[:0], made.ends[:0]
	at = 0
	for _, v := range values {
		made.literals = append(made.literals, raw[at:v.From]...)
		made.ends = append(made.ends, uint32(len(made.literals)))
		at = v.To
	}
	made.literals = append(made.literals, raw[at:]...)
	made.ends = append(made.ends, uint32(len(made.literals)))
	if s.byText == nil {
		s.byText = map[string]int{}
	}
	s.byText[string(s.key)] = n
	return n
}

// write appends the section.
func (s *shaper) write(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.size))
	dst = binary.AppendUvarint(dst, uint64(len(s.shapes)))
	for i := range s.shapes {
		sh := &s.shapes[i]
		dst = binary.AppendUvarint(dst, uint64(len(sh.columns)))
		for _, c := range sh.columns {
			dst = binary.AppendUvarint(dst, uint64(c+1))
		}
		for k := range sh.ends {
			dst = binary.AppendUvarint(dst, uint64(len(sh.literal(k))))
		}
		dst = append(dst, sh.literals...)
	}
	if len(s.shapes) > 1 {
		for _, n := range s.index {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
	}
	dst = append(binary.AppendUvarint(dst, uint64(len(s.forms))), s.forms...)
	dst = binary.AppendUvarint(dst, uint64(len(s.lengths)))
	for _, n := range s.lengths {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return append(dst, s.texts...)
}

// readPayloads puts the payloads of n events together again. With values it also tells where their
// values stand, for who writes them anew.
func readPayloads(section []byte, n int, columns []*row.Vector, values bool) (*payloads, error) {
	d := row.Reader{Rest: section}
	size := d.Length(maxSection)
	shapes := make([]shape, d.Length(min(maxShapes+1, len(d.Rest))))
	for i := range shapes {
		sh := &shapes[i]
		sh.columns = make([]int32, d.Length(len(d.Rest)))
		for k := range sh.columns {
			sh.columns[k] = int32(d.Length(stream.MaxColumns+1)) - 1
		}
		sh.ends = make([]uint32, len(sh.columns)+1)
		end := 0
		for k := range sh.ends {
			end += d.Length(len(d.Rest))
			sh.ends[k] = uint32(end)
		}
		if sh.literals = d.Bytes(end); d.Failed {
			return nil, errDamaged
		}
	}
	index := make([]uint32, n)
	if len(shapes) > 1 {
		for i := range index {
			index[i] = uint32(d.Length(len(shapes) - 1))
		}
	}
	forms := row.Reader{Rest: d.Bytes(d.Length(len(d.Rest)))}
	lengths := make([]int, d.Length(len(d.Rest)))
	for i := range lengths {
		lengths[i] = d.Length(len(d.Rest))
	}
	if d.Failed || len(shapes) == 0 {
		return nil, errDamaged
	}
	p := &payloads{raw: make([]byte, 0, min(size, maxGuess)), ends: make([]uint32, n)}
	for i := range n {
		sh := &shapes[index[i]]
		began := len(p.raw)
		for k, c := range sh.columns {
			p.raw = append(p.raw, sh.literal(k)...)
			from := len(p.raw)
			switch {
			case c < 0:
				if len(lengths) == 0 {
					return nil, errDamaged
				}
				p.raw = append(p.raw, d.Bytes(lengths[0])...)
				lengths = lengths[1:]
			default:
				var v *row.Vector
				if int(c) < len(columns) {
					v = columns[c]
				}
				form := byte(0)
				if manyForms(v, i) {
					form = forms.Byte()
				}
				var ok bool
				if p.raw, ok = render(p.raw, v, i, form); !ok {
					return nil, errDamaged
				}
			}
			if values {
				p.values = append(p.values, stream.Value{From: uint32(from - began), To: uint32(len(p.raw) - began), Column: c})
			}
		}
		p.raw = append(p.raw, sh.literal(len(sh.columns))...)
		if len(p.raw) > size {
			return nil, errDamaged
		}
		p.ends[i] = uint32(len(p.raw))
		if values {
			p.counts = append(p.counts, int32(len(sh.columns)))
		}
	}
	if d.Failed || forms.Failed || len(d.Rest) != 0 || len(forms.Rest) != 0 || len(lengths) != 0 || len(p.raw) != size {
		return nil, errDamaged
	}
	return p, nil
}

// The forms in which a value stands in a payload, frozen. A null is null; an integer, a DECIMAL and a
// BOOLEAN have one form; a VARCHAR stands in quotes, without escapes; JSON as it is; a DATE in quotes
// as YYYY-MM-DD. A form byte tells of
//
//	DOUBLE, FLOAT  0…15: so many digits behind the point, 31: the shortest that reads back
//	TIMESTAMP      digits of the fraction (0…6) + 8 with a space for the T + 16 × what follows: 0 Z,
//	               1 nothing, 2 +00:00; or 64, 65, 66: a number, in seconds, milliseconds, microseconds
const (
	formShortest = 31
	formSpace    = 8
	formSeconds  = 64
)

// manyForms reports whether value i has a form byte.
func manyForms(v *row.Vector, i int) bool {
	if v == nil || v.IsNull(i) {
		return false
	}
	switch v.Type.Kind {
	case row.Float, row.Double, row.Timestamp:
		return true
	}
	return false
}

// form returns the form that renders value i of a column as text; ok is false when none does.
func (s *shaper) form(v *row.Vector, i int, text []byte) (form byte, ok bool) {
	if v == nil || v.IsNull(i) {
		return 0, string(text) == "null"
	}
	switch v.Type.Kind {
	case row.Varchar:
		n := len(text)
		return 0, n >= 2 && text[0] == '"' && text[n-1] == '"' && string(text[1:n-1]) == v.Str[i]
	case row.TinyInt, row.SmallInt, row.Integer, row.BigInt:
		return 0, isInteger(text, v.I64[i])
	case row.Float, row.Double:
		return s.floatForm(v.F64[i], text)
	case row.Timestamp:
		if form, ok = instantForm(text); !ok {
			return 0, false
		}
	}
	s.scratch, ok = render(s.scratch[:0], v, i, form)
	return form, ok && string(s.scratch) == string(text)
}

// isInteger reports whether text is x as strconv writes it.
func isInteger(text []byte, x int64) bool {
	if n := len(text); n == 0 || n > 18 {
		var b [20]byte
		return string(strconv.AppendInt(b[:0], x, 10)) == string(text)
	}
	digits := text
	if text[0] == '-' {
		digits = text[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(text) > 1 {
		return false
	}
	var y int64
	for _, c := range digits {
		if c -= '0'; c > 9 {
			return false
		}
		y = y*10 + int64(c)
	}
	if text[0] == '-' {
		y = -y
	}
	return y == x
}

func (s *shaper) floatForm(f float64, text []byte) (form byte, ok bool) {
	digits := 0
	for k := len(text) - 1; k >= 0; k-- {
		if text[k] == '.' {
			digits = len(text) - 1 - k
			break
		}
	}
	if digits < len(tens) {
		if s.scratch, ok = appendFixed(s.scratch[:0], f, digits); ok && string(s.scratch) == string(text) {
			return byte(digits), true
		}
	}
	s.scratch = strconv.AppendFloat(s.scratch[:0], f, 'f', -1, 64)
	return formShortest, string(s.scratch) == string(text)
}

// instantForm guesses the form of a time's text.
func instantForm(text []byte) (form byte, ok bool) {
	n := len(text)
	if n > 0 && text[0] != '"' {
		switch {
		case n <= 11:
			return formSeconds, true
		case n <= 14:
			return formSeconds + 1, true
		}
		return formSeconds + 2, true
	}
	const whole = len(`"2024-01-15T10:00:00`)
	if n <= whole {
		return 0, false
	}
	if text[11] == ' ' {
		form = formSpace
	}
	k := whole
	if text[k] == '.' {
		for k++; k < n && text[k]-'0' <= 9; k++ {
			form++
		}
		if form&7 == 0 || k-whole-1 > 6 {
			return 0, false
		}
	}
	switch string(text[k:]) {
	case `Z"`:
	case `"`:
		form |= 16
	case `+00:00"`:
		form |= 32
	default:
		return 0, false
	}
	return form, true
}

var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// appendFixed writes f with so many digits behind the point, when it has at most 15 in all.
func appendFixed(dst []byte, f float64, digits int) ([]byte, bool) {
	scaled := math.Round(f * tens[digits])
	if !(math.Abs(scaled) < 1e15) {
		return dst, false
	}
	return appendPoint(dst, int64(scaled), digits), true
}

// appendPoint writes x with a point before its last digits.
func appendPoint(dst []byte, x int64, digits int) []byte {
	if digits == 0 {
		return strconv.AppendInt(dst, x, 10)
	}
	if x < 0 {
		dst = append(dst, '-')
	}
	var b [40]byte
	u := uint64(x)
	if x < 0 {
		u = -u
	}
	i := len(b)
	for n := 0; u > 0 || n <= digits; n++ {
		if n == digits {
			i--
			b[i] = '.'
		}
		i--
		b[i] = byte('0' + u%10)
		u /= 10
	}
	return append(dst, b[i:]...)
}

// render appends value i of a column in a form; false for a form that there is not.
func render(dst []byte, v *row.Vector, i int, form byte) ([]byte, bool) {
	if v == nil || v.IsNull(i) {
		return append(dst, "null"...), true
	}
	switch v.Type.Kind {
	case row.Varchar:
		return append(append(append(dst, '"'), v.Str[i]...), '"'), true
	case row.JSON:
		return append(dst, v.Str[i]...), true
	case row.Boolean:
		return strconv.AppendBool(dst, v.I64[i] != 0), true
	case row.TinyInt, row.SmallInt, row.Integer, row.BigInt:
		return strconv.AppendInt(dst, v.I64[i], 10), true
	case row.Decimal:
		if v.Type.Class() != row.Int64Class {
			return dst, false
		}
		return appendPoint(dst, v.I64[i], int(v.Type.Scale)), true
	case row.Date:
		return append(appendDate(append(dst, '"'), v.I64[i]), '"'), true
	case row.Float, row.Double:
		if form == formShortest {
			return strconv.AppendFloat(dst, v.F64[i], 'f', -1, 64), true
		}
		if int(form) >= len(tens) {
			return dst, false
		}
		return appendFixed(dst, v.F64[i], int(form))
	case row.Timestamp:
		return renderInstant(dst, v.I64[i], form)
	}
	return dst, false
}

func renderInstant(dst []byte, micros int64, form byte) ([]byte, bool) {
	switch form {
	case formSeconds:
		return strconv.AppendInt(dst, micros/1e6, 10), micros%1e6 == 0
	case formSeconds + 1:
		return strconv.AppendInt(dst, micros/1e3, 10), micros%1e3 == 0
	case formSeconds + 2:
		return strconv.AppendInt(dst, micros, 10), true
	}
	digits := int(form & 7)
	if form > 2<<4|15 || digits > 6 {
		return dst, false
	}
	days := micros / row.MicrosPerDay
	if micros %= row.MicrosPerDay; micros < 0 {
		days, micros = days-1, micros+row.MicrosPerDay
	}
	dst = appendDate(append(dst, '"'), days)
	sep := byte('T')
	if form&formSpace != 0 {
		sep = ' '
	}
	s, fraction := micros/1e6, micros%1e6
	dst = append(dst, sep, byte('0'+s/36000), byte('0'+s/3600%10), ':', byte('0'+s/600%6), byte('0'+s/60%10), ':', byte('0'+s%60/10), byte('0'+s%10))
	if digits > 0 {
		dst = append(dst, '.')
		for unit, k := int64(1e5), 0; k < digits; k++ {
			dst = append(dst, byte('0'+fraction/unit%10))
			unit /= 10
		}
	}
	return append(dst, [...]string{`Z"`, `"`, `+00:00"`}[form>>4]...), true
}

// appendDate writes a date of the years 0 to 9999.
func appendDate(dst []byte, days int64) []byte {
	y, m, d := row.CivilDate(days)
	if y < 0 || y > 9999 {
		return append(dst, fmt.Sprint(y)...) // never a text that a column was read from
	}
	return append(dst, byte('0'+y/1000), byte('0'+y/100%10), byte('0'+y/10%10), byte('0'+y%10), '-', byte('0'+m/10), byte('0'+m%10), '-', byte('0'+d/10), byte('0'+d%10))
}
