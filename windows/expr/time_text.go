package expr

import (
	"math"
	"strings"

	"tidemark/storage/row"
)

// scanner reads the texts of dates, times and intervals from the left.
type scanner struct {
	s string
	i int
}

func (p *scanner) spaces() {
	for p.i < len(p.s) && isSpace(p.s[p.i]) {
		p.i++
	}
}

func (p *scanner) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *scanner) take(c byte) bool {
	if p.peek() == c && p.i < len(p.s) {
		p.i++
		return true
	}
	return false
}

// number reads from 1 to most digits.
func (p *scanner) number(most int) (v int64, ok bool) {
	from := p.i
	for p.i < len(p.s) && p.i-from < most && p.s[p.i]-'0' <= 9 {
		v = v*10 + int64(p.s[p.i]-'0')
		p.i++
	}
	return v, p.i > from
}

func badDate(s string) *Failure {
	return conversion("date field value out of range: \"%s\", expected format is (YYYY-MM-DD)", s)
}

func badTimestamp(s string) *Failure {
	return conversion("timestamp field value out of range: \"%s\", expected format is (YYYY-MM-DD HH:MM:SS[.US][±HH:MM| ZONE])", s)
}

var monthDays = [13]int64{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func leap(y int64) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

func daysInMonth(y, m int64) int64 {
	if m == 2 && leap(y) {
		return 29
	}
	return monthDays[m]
}

// date reads YYYY-MM-DD with -, /, \ or a space between, and an optional " (BC)".
func (p *scanner) date() (days int64, ok bool) {
	p.spaces()
	neg := p.take('-')
	y, ok := p.number(6)
	if !ok {
		return 0, false
	}
	sep := p.peek()
	if sep != '-' && sep != '/' && sep != '\\' && sep != ' ' {
		return 0, false
	}
	p.i++
	m, ok1 := p.number(2)
	ok2 := p.take(sep)
	d, ok3 := p.number(2)
	if !ok1 || !ok2 || !ok3 {
		return 0, false
	}
	if neg {
		y = -y
	}
	if strings.HasPrefix(p.s[p.i:], " (BC)") {
		p.i += len(" (BC)")
		if y <= 0 {
			return 0, false
		}
		y = 1 - y
	}
	if m < 1 || m > 12 || d < 1 || d > daysInMonth(y, m) {
		return 0, false
	}
	return row.DaysOf(y, m, d), true
}

// clock reads HH:MM[:SS[.fraction]]; what follows six digits of a fraction is cut off.
func (p *scanner) clock() (micros int64, ok bool) {
	h, ok := p.number(2)
	if !ok || !p.take(':') {
		return 0, false
	}
	m, ok := p.number(2)
	if !ok {
		return 0, false
	}
	var s, us int64
	if p.take(':') {
		if s, ok = p.number(2); !ok {
			return 0, false
		}
		if p.take('.') {
			us = p.fraction()
		}
	}
	if h > 24 || m > 59 || s > 59 || h == 24 && m+s+us > 0 {
		return 0, false
	}
	return ((h*60+m)*60+s)*1_000_000 + us, true
}

func (p *scanner) fraction() (micros int64) {
	unit := int64(100_000)
	for p.i < len(p.s) && p.s[p.i]-'0' <= 9 {
		micros += int64(p.s[p.i]-'0') * unit
		unit /= 10
		p.i++
	}
	return micros
}

// parseDate takes a date; what follows it, such as a time, is ignored as DuckDB ignores it.
func parseDate(s string) (int64, *Failure) {
	switch strings.ToLower(trimSpace(s)) {
	case "epoch":
		return 0, nil
	}
	p := scanner{s: s}
	days, ok := p.date()
	if !ok || p.i < len(p.s) && p.s[p.i]-'0' <= 9 {
		return 0, badDate(s)
	}
	return days, nil
}

// parseTimestamp takes a date, or a date and a time behind a space or T, with Z, UTC or an offset.
func parseTimestamp(s string) (int64, *Failure) {
	if strings.EqualFold(s, "epoch") {
		return 0, nil
	}
	p := scanner{s: s}
	days, ok := p.date()
	if !ok || days > math.MaxInt64/row.MicrosPerDay-1 || days < math.MinInt64/row.MicrosPerDay+1 {
		return 0, badTimestamp(s)
	}
	micros := days * row.MicrosPerDay
	if p.i == len(p.s) {
		return micros, nil
	}
	if !p.take('T') && !p.take(' ') {
		return 0, badTimestamp(s)
	}
	clock, ok := p.clock()
	if !ok {
		return 0, badTimestamp(s)
	}
	micros += clock
	switch {
	case p.take('Z'):
	case strings.HasPrefix(p.s[p.i:], " UTC"):
		p.i += len(" UTC")
	case p.peek() == '+' || p.peek() == '-':
		sign := int64(1)
		if p.take('-') {
			sign = -1
		} else {
			p.i++
		}
		from := p.i
		h, _ := p.number(2)
		var m int64
		okm := true
		if p.take(':') {
			m, okm = p.number(2)
		}
		if p.i-from < 2 || !okm {
			return 0, badTimestamp(s)
		}
		micros -= sign * (h*60 + m) * 60_000_000
	}
	p.spaces()
	if p.i < len(p.s) {
		return 0, badTimestamp(s)
	}
	return micros, nil
}

// intervalUnits are the names that an INTERVAL's text takes, without the plural's s.
var intervalUnits = map[string]intervalUnit{
	"year": {months: 12}, "yr": {months: 12}, "y": {months: 12},
	"month": {months: 1}, "mon": {months: 1},
	"quarter": {months: 3}, "decade": {months: 120}, "dec": {months: 120},
	"century": {months: 1200}, "centurie": {months: 1200}, "cent": {months: 1200}, "c": {months: 1200},
	"millennium": {months: 12000}, "millennia": {months: 12000}, "mil": {months: 12000},
	"week": {days: 7}, "w": {days: 7},
	"day": {days: 1}, "d": {days: 1}, "dayofmonth": {days: 1},
	"hour": {micros: microsPerHour}, "hr": {micros: microsPerHour}, "h": {micros: microsPerHour},
	"minute": {micros: microsPerMinute}, "min": {micros: microsPerMinute}, "m": {micros: microsPerMinute},
	"second": {micros: microsPerSecond}, "sec": {micros: microsPerSecond}, "s": {micros: microsPerSecond},
	"millisecond": {micros: 1000}, "msec": {micros: 1000}, "ms": {micros: 1000}, "m-second": {micros: 1000},
	"microsecond": {micros: 1}, "usec": {micros: 1}, "us": {micros: 1},
}

type intervalUnit struct {
	months, days, micros int64
}

const (
	microsPerSecond = 1_000_000
	microsPerMinute = 60 * microsPerSecond
	microsPerHour   = 60 * microsPerMinute
)

// ParseInterval reads an INTERVAL as SQL writes it: "1 year 2 months 3 days 04:05:06.7", any unit
// from microseconds to millennia, "ago" at the end.
func ParseInterval(s string) (row.Int128, *Failure) {
	bad := conversion("Could not convert string '%s' to INTERVAL", s)
	p := scanner{s: s}
	p.spaces()
	p.take('@')
	var months, days, micros int64
	found := false
	for {
		p.spaces()
		if p.i == len(p.s) {
			break
		}
		if found && strings.EqualFold(strings.TrimRight(p.s[p.i:], " "), "ago") {
			months, days, micros = -months, -days, -micros
			break
		}
		sign := int64(1)
		if p.take('-') {
			sign = -1
		} else {
			p.take('+')
		}
		from := p.i
		whole, ok := p.number(18)
		if ok && p.peek() == ':' {
			p.i = from
			us, ok := p.longClock()
			if !ok {
				return row.Int128{}, bad
			}
			micros += sign * us
			found = true
			continue
		}
		var part int64
		if p.take('.') {
			part = p.fraction()
			ok = true
		}
		if !ok {
			return row.Int128{}, bad
		}
		p.spaces()
		from = p.i
		for p.i < len(p.s) && (p.s[p.i]|0x20 >= 'a' && p.s[p.i]|0x20 <= 'z') {
			p.i++
		}
		name := strings.ToLower(p.s[from:p.i])
		unit, ok := intervalUnits[name]
		if !ok {
			unit, ok = intervalUnits[strings.TrimSuffix(name, "s")]
		}
		if !ok {
			return row.Int128{}, bad
		}
		months += sign * whole * unit.months
		days += sign * whole * unit.days
		micros += sign * whole * unit.micros
		if part != 0 { // a fraction goes into the next smaller units
			switch {
			case unit.months > 1:
				months += sign * part * unit.months / 1_000_000
			case unit.months == 1:
				days += sign * part * 30 / 1_000_000
			case unit.days == 7:
				days += sign * part * 7 / 1_000_000
			case unit.days == 1:
				micros += sign * part * (row.MicrosPerDay / 1_000_000)
			case unit.micros >= microsPerSecond:
				micros += sign * part * (unit.micros / 1_000_000)
			default:
				micros += sign * part * unit.micros / 1_000_000
			}
		}
		found = true
	}
	if !found || months != int64(int32(months)) || days != int64(int32(days)) {
		return row.Int128{}, bad
	}
	return row.MakeInterval(int32(months), int32(days), micros), nil
}

// longClock reads H…:MM[:SS[.fraction]].
func (p *scanner) longClock() (micros int64, ok bool) {
	h, _ := p.number(10)
	p.take(':')
	m, ok := p.number(2)
	if !ok || m > 59 {
		return 0, false
	}
	micros = h*microsPerHour + m*microsPerMinute
	if p.take(':') {
		s, ok := p.number(2)
		if !ok || s > 59 {
			return 0, false
		}
		micros += s * microsPerSecond
		if p.take('.') {
			micros += p.fraction()
		}
	}
	return micros, true
}
