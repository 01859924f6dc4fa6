package expr

import (
	"strconv"
	"strings"

	"tidemark/storage/row"
)

var (
	dayNames   = [7]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
	monthNames = [12]string{
		"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
	}
)

// formats fills strftime and strptime.
func (t table) formats() {
	write := func(which int, at func(int64) int64) func(args []*Expr) (kernel, error) {
		return func(args []*Expr) (kernel, error) {
			other := 1 - which
			if f := args[which]; f.IsConst() && !f.isNull() {
				items, err := parseFormat(f.value.Str[0])
				if err != nil {
					return nil, &Mismatch{Name: "strftime", Reason: err.Message}
				}
				unit := finest(items)
				return func(c *call) {
					var buf []byte
					var text string
					last, any := int64(0), false
					for _, i := range c.rows {
						us := at(c.args[other].I64[i])
						if k := floorDiv(us, unit); !any || k != last { // events of one day share one text
							buf = appendFormat(buf[:0], items, us)
							text, last, any = string(buf), k, true
						}
						c.out.Str[i] = text
					}
				}, nil
			}
			return func(c *call) {
				for _, i := range c.rows {
					items, err := parseFormat(c.args[which].Str[i])
					if err != nil {
						c.fail(i, err)
						continue
					}
					c.out.Str[i] = string(appendFormat(nil, items, at(c.args[other].I64[i])))
				}
			}, nil
		}
	}
	day, us := instant(tDate), instant(tTimestamp)
	t.define("strftime",
		overload{args: []row.Type{tDate, tVarchar}, returns: tVarchar, prepare: write(1, day)},
		overload{args: []row.Type{tTimestamp, tVarchar}, returns: tVarchar, prepare: write(1, us)},
		overload{args: []row.Type{tVarchar, tDate}, returns: tVarchar, prepare: write(0, day)},
		overload{args: []row.Type{tVarchar, tTimestamp}, returns: tVarchar, prepare: write(0, us)})
	read := func(try bool) func(args []*Expr) (kernel, error) {
		return func(args []*Expr) (kernel, error) {
			f := args[1]
			if !f.IsConst() || f.isNull() {
				return nil, &Mismatch{Name: "strptime", Reason: "strptime needs its format as a constant text, such as '%Y-%m-%d'"}
			}
			formats := f.value
			if formats.Type.Kind == row.List { // the first that fits counts
				var err error
				if formats, err = row.Elements(f.value, 0); err != nil {
					return nil, err
				}
			}
			var all [][]formatItem
			for k := range formats.Len() {
				if formats.IsNull(k) {
					return nil, &Mismatch{Name: "strptime", Reason: "strptime takes no format that is NULL"}
				}
				items, bad := parseFormat(formats.Str[k])
				if bad != nil {
					return nil, &Mismatch{Name: "strptime", Reason: bad.Message}
				}
				all = append(all, items)
			}
			if len(all) == 0 {
				return nil, &Mismatch{Name: "strptime", Reason: "strptime needs at least one format"}
			}
			return func(c *call) {
			rows:
				for _, i := range c.rows {
					for _, items := range all {
						if us, ok := scanFormat(items, c.args[0].Str[i]); ok {
							c.out.I64[i] = us
							continue rows
						}
					}
					if try {
						c.null(i)
					} else {
						c.fail(i, invalidInput("Could not parse string \"%s\" according to format specifier \"%s\"", c.args[0].Str[i], formats.Str[0]))
					}
				}
			}, nil
		}
	}
	for name, try := range map[string]bool{"strptime": false, "try_strptime": true} {
		for _, format := range []row.Type{tVarchar, row.ListOf(tVarchar)} {
			t.define(name, overload{args: []row.Type{tVarchar, format}, returns: tTimestamp, prepare: read(try)})
		}
	}
}

// formatItem is a specifier and the text in front of it.
type formatItem struct {
	text string
	spec byte // 0: only the text
	bare bool // %-d: without a leading zero
}

// parseFormat takes a strftime format apart.
func parseFormat(format string) ([]formatItem, *Failure) {
	var items []formatItem
	var text strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			text.WriteByte(format[i])
			continue
		}
		i++
		bare := i < len(format) && format[i] == '-'
		if bare {
			i++
		}
		if i >= len(format) {
			return nil, invalidInput("Failed to parse format specifier %s: Trailing format character %%", format)
		}
		spec := format[i]
		known := "aAbBcdfgGHIjmMpSuUVwWxXyYzZ"
		if bare {
			known = "dmyHIMSj"
		}
		composed := map[byte]string{'c': "%Y-%m-%d %H:%M:%S", 'x': "%Y-%m-%d", 'X': "%H:%M:%S"}[spec]
		switch {
		case spec == '%' && !bare:
			text.WriteByte('%')
		case strings.IndexByte(known, spec) < 0:
			return nil, invalidInput("Failed to parse format specifier %s: Unrecognized format for strftime/strptime: %%%c", format, spec)
		case composed != "":
			inner, _ := parseFormat(composed)
			inner[0].text = text.String() + inner[0].text
			items = append(items, inner...)
			text.Reset()
		default:
			items = append(items, formatItem{text.String(), spec, bare})
			text.Reset()
		}
	}
	if text.Len() > 0 {
		items = append(items, formatItem{text: text.String()})
	}
	return items, nil
}

// finest returns the microseconds within which a format always gives the same text.
func finest(items []formatItem) int64 {
	unit := row.MicrosPerDay
	for _, it := range items {
		switch it.spec {
		case 'H', 'I', 'p':
			unit = min(unit, microsPerHour)
		case 'M':
			unit = min(unit, microsPerMinute)
		case 'S':
			unit = min(unit, microsPerSecond)
		case 'f', 'g':
			return 1
		}
	}
	return unit
}

// appendNumber writes n with leading zeros up to width digits.
func appendNumber(dst []byte, n int64, width int) []byte {
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	var buf [20]byte
	digits := strconv.AppendInt(buf[:0], n, 10)
	for range width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

func appendFormat(dst []byte, items []formatItem, us int64) []byte {
	day := dayOf(us)
	clock := us - day*row.MicrosPerDay
	y, m, d := row.CivilDate(day)
	for _, it := range items {
		dst = append(dst, it.text...)
		two := 2
		if it.bare {
			two = 1
		}
		switch it.spec {
		case 'Y':
			dst = appendNumber(dst, y, 4)
		case 'm':
			dst = appendNumber(dst, m, two)
		case 'd':
			dst = appendNumber(dst, d, two)
		case 'H':
			dst = appendNumber(dst, clock/microsPerHour, two)
		case 'M':
			dst = appendNumber(dst, clock%microsPerHour/microsPerMinute, two)
		case 'S':
			dst = appendNumber(dst, clock%microsPerMinute/microsPerSecond, two)
		case 'I':
			dst = appendNumber(dst, (clock/microsPerHour+11)%12+1, two)
		case 'p':
			if clock >= 12*microsPerHour {
				dst = append(dst, "PM"...)
			} else {
				dst = append(dst, "AM"...)
			}
		case 'f':
			dst = appendNumber(dst, clock%microsPerSecond, 6)
		case 'g':
			dst = appendNumber(dst, clock%microsPerSecond/1000, 3)
		case 'y':
			dst = appendNumber(dst, (y%100+100)%100, two)
		case 'a':
			dst = append(dst, dayNames[isoWeekday(day)%7][:3]...)
		case 'A':
			dst = append(dst, dayNames[isoWeekday(day)%7]...)
		case 'b':
			dst = append(dst, monthNames[m-1][:3]...)
		case 'B':
			dst = append(dst, monthNames[m-1]...)
		case 'j':
			width := 3
			if it.bare {
				width = 1
			}
			dst = appendNumber(dst, dayOfYear(day), width)
		case 'U':
			dst = appendNumber(dst, (dayOfYear(day)+6-isoWeekday(day)%7)/7, 2)
		case 'W':
			dst = appendNumber(dst, (dayOfYear(day)+7-isoWeekday(day))/7, 2)
		case 'u':
			dst = appendNumber(dst, isoWeekday(day), 1)
		case 'w':
			dst = appendNumber(dst, isoWeekday(day)%7, 1)
		case 'G':
			iso, _ := isoWeek(day)
			dst = appendNumber(dst, iso, 4)
		case 'V':
			_, week := isoWeek(day)
			dst = appendNumber(dst, week, 2)
		case 'z':
			dst = append(dst, "+00"...)
		case 'Z':
			dst = append(dst, "UTC"...)
		}
	}
	return dst
}

// scanFormat reads a text by a format; parts that are not there are those of 1900-01-01 00:00.
func scanFormat(items []formatItem, s string) (us int64, ok bool) {
	p := scanner{s: s}
	p.spaces()
	y, m, d := int64(1900), int64(1), int64(1)
	var hour, minute, second, fraction, offset int64
	pm, half := false, false
	for _, it := range items {
		for i := 0; i < len(it.text); i++ {
			if !p.take(it.text[i]) {
				return 0, false
			}
		}
		ok := true
		switch it.spec {
		case 0:
		case 'Y':
			neg := p.take('-')
			if y, ok = p.number(4); neg {
				y = -y
			}
		case 'y':
			if y, ok = p.number(2); y < 69 {
				y += 2000
			} else {
				y += 1900
			}
		case 'm':
			m, ok = p.number(2)
		case 'd':
			d, ok = p.number(2)
		case 'H':
			hour, ok = p.number(2)
		case 'I':
			hour, ok = p.number(2)
			half = true
		case 'M':
			minute, ok = p.number(2)
		case 'S':
			second, ok = p.number(2)
		case 'f', 'g':
			from := p.i
			fraction = p.fraction()
			ok = p.i > from
		case 'j':
			var n int64
			if n, ok = p.number(3); ok {
				_, m, d = row.CivilDate(row.DaysOf(y, 1, 1) + n - 1)
			}
		case 'p':
			half = true
			switch strings.ToUpper(p.s[p.i:min(p.i+2, len(p.s))]) {
			case "PM":
				pm = true
			case "AM":
			default:
				return 0, false
			}
			p.i += 2
		case 'b', 'B':
			m, ok = p.name(monthNames[:], it.spec == 'b')
			m++
		case 'a', 'A':
			_, ok = p.name(dayNames[:], it.spec == 'a')
		case 'z':
			offset, ok = p.offset()
		case 'Z':
			for p.i < len(p.s) && !isSpace(p.s[p.i]) {
				p.i++
			}
		default:
			return 0, false
		}
		if !ok {
			return 0, false
		}
	}
	p.spaces()
	if half {
		if hour < 1 || hour > 12 {
			return 0, false
		}
		hour %= 12
		if pm {
			hour += 12
		}
	}
	if p.i < len(p.s) || m < 1 || m > 12 || d < 1 || d > daysInMonth(y, m) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	return row.DaysOf(y, m, d)*row.MicrosPerDay + hour*microsPerHour + minute*microsPerMinute + second*microsPerSecond + fraction - offset, true
}

// name reads one of the names, or its first three letters, in any case.
func (p *scanner) name(names []string, short bool) (int64, bool) {
	for k, n := range names {
		if short {
			n = n[:3]
		}
		if end := p.i + len(n); end <= len(p.s) && strings.EqualFold(p.s[p.i:end], n) {
			p.i = end
			return int64(k), true
		}
	}
	return 0, false
}

// offset reads ±HH[[:]MM] in microseconds.
func (p *scanner) offset() (int64, bool) {
	sign := int64(1)
	if p.take('-') {
		sign = -1
	} else if !p.take('+') {
		return 0, false
	}
	h, ok := p.number(2)
	p.take(':')
	m, _ := p.number(2)
	return sign * (h*microsPerHour + m*microsPerMinute), ok
}
