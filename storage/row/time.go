package row

import (
	"errors"
	"fmt"
)

// Instants are kept to the microsecond, in the years 1 to 9999 of the proleptic Gregorian
// calendar, UTC.
const (
	MinTimestamp int64 = -62135596800 * 1e6         // 0001-01-01T00:00:00Z
	MaxTimestamp int64 = 253402300800*1e6 - 1       // 9999-12-31T23:59:59.999999Z
	MicrosPerDay int64 = 24 * 60 * 60 * 1000 * 1000 // a day without leap seconds
)

// errYears says that an instant is outside the years that are kept.
var errYears = errors.New("is outside the years 1 to 9999")

// DaysOf returns the days from 1970-01-01 to a date of the proleptic Gregorian calendar. Month
// and day are taken as they are (month 1 to 12).
func DaysOf(year, month, day int64) int64 {
	// The year is counted from March, so that the leap day is its last (H. Hinnant, "chrono-
	// compatible low-level date algorithms").
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yoe := year - era*400
	doy := (153*(month-3)+2)/5 + day - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

// CivilDate returns the date that lies days after 1970-01-01.
func CivilDate(days int64) (year, month, day int64) {
	days += 719468
	era := floorDiv(days, 146097)
	doe := days - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = doy - (153*mp+2)/5 + 1
	month = mp + 3
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

var daysInMonth = [13]int64{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// validDate reports whether a date is in the calendar and in the years that are kept.
func validDate(y, m, d int64) bool {
	if y < 1 || y > 9999 || m < 1 || m > 12 || d < 1 {
		return false
	}
	last := daysInMonth[m]
	if m == 2 && y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		last = 29
	}
	return d <= last
}

// timeText is a cursor over the text of a time.
type timeText struct {
	b  []byte
	ok bool
}

// digits reads exactly n digits.
func (t *timeText) digits(n int) int64 {
	if len(t.b) < n {
		t.ok = false
		return 0
	}
	var x int64
	for _, c := range t.b[:n] {
		if c < '0' || c > '9' {
			t.ok = false
			return 0
		}
		x = x*10 + int64(c-'0')
	}
	t.b = t.b[n:]
	return x
}

func (t *timeText) peek() byte {
	if len(t.b) == 0 {
		return 0
	}
	return t.b[0]
}

func (t *timeText) take(c byte) bool {
	if t.peek() != c {
		return false
	}
	t.b = t.b[1:]
	return true
}

func (t *timeText) must(c byte) {
	if !t.take(c) {
		t.ok = false
	}
}

// date reads YYYY-MM-DD or YYYY/MM/DD.
func (t *timeText) date() (days int64) {
	y := t.digits(4)
	sep := t.peek()
	if sep != '-' && sep != '/' {
		t.ok = false
		return 0
	}
	t.take(sep)
	m := t.digits(2)
	t.must(sep)
	d := t.digits(2)
	if !t.ok || !validDate(y, m, d) {
		t.ok = false
		return 0
	}
	return DaysOf(y, m, d)
}

// clock reads HH:MM[:SS[.f…]] as microseconds of the day; digits behind the sixth are cut off.
// Second 60 is the first of the next minute, as RFC 3339 allows for leap seconds.
func (t *timeText) clock() (micros int64) {
	h := t.digits(2)
	t.must(':')
	m := t.digits(2)
	var s, frac int64
	if t.take(':') {
		s = t.digits(2)
		if c := t.peek(); c == '.' || c == ',' {
			t.take(c)
			n := 0
			for ; n < len(t.b) && t.b[n] >= '0' && t.b[n] <= '9'; n++ {
				if n < 6 {
					frac = frac*10 + int64(t.b[n]-'0')
				}
			}
			if n == 0 {
				t.ok = false
			}
			for k := n; k < 6; k++ {
				frac *= 10
			}
			t.b = t.b[n:]
		}
	}
	if h > 23 || m > 59 || s > 60 {
		t.ok = false
	}
	return (h*3600+m*60+s)*1e6 + frac
}

// offset reads Z, ±hh:mm, ±hhmm or ±hh; nothing is UTC.
func (t *timeText) offset() (micros int64) {
	c := t.peek()
	switch c {
	case 'Z', 'z':
		t.take(c)
		return 0
	case '+', '-':
		t.take(c)
	default:
		return 0
	}
	h := t.digits(2)
	var m int64
	if t.take(':') || len(t.b) > 0 {
		m = t.digits(2)
	}
	if h > 23 || m > 59 {
		t.ok = false
	}
	micros = (h*60 + m) * 60e6
	if c == '-' {
		return -micros
	}
	return micros
}

// ParseTime reads an instant: RFC 3339 with any offset, the same with a space in place of the T,
// YYYY/MM/DD HH:MM[:SS], or a date alone. Without an offset it is UTC. Digits behind the
// microsecond are cut off towards the past. The error completes "ts: …".
func ParseTime(text []byte) (int64, error) {
	t := timeText{b: text, ok: true}
	micros := t.date() * MicrosPerDay
	if len(t.b) > 0 && t.ok {
		if c := t.peek(); c == 'T' || c == 't' || c == ' ' {
			t.take(c)
		} else {
			t.ok = false
		}
		micros += t.clock()
		micros -= t.offset()
	}
	if !t.ok || len(t.b) > 0 {
		return 0, fmt.Errorf("not a timestamp: %s", quoteShort(text))
	}
	if micros < MinTimestamp || micros > MaxTimestamp {
		return 0, fmt.Errorf("%s %w", quoteShort(text), errYears)
	}
	return micros, nil
}

// ParseDate reads YYYY-MM-DD or YYYY/MM/DD as days since 1970.
func ParseDate(text []byte) (int64, error) {
	t := timeText{b: text, ok: true}
	days := t.date()
	if !t.ok || len(t.b) > 0 {
		return 0, fmt.Errorf("not a date: %s", quoteShort(text))
	}
	return days, nil
}

// ParseEpoch reads the text of a JSON number as an instant. Its size gives the unit: below 1e11
// seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds. The digits are
// read one by one, not through a double, and cut off to the microsecond towards the past.
func ParseEpoch(number []byte) (int64, error) {
	d, ok := parseDecimalText(number)
	if !ok {
		return 0, fmt.Errorf("not a timestamp: %s", quoteShort(number))
	}
	// point is where the decimal point stands behind the first digit that is not zero.
	point := d.point
	switch {
	case d.digits == 0:
		return 0, nil
	case point <= 11:
		point += 6
	case point <= 14:
		point += 3
	case point <= 17:
	case point <= 21:
		point -= 3
	default:
		return 0, fmt.Errorf("%s %w", quoteShort(number), errYears)
	}
	var micros int64
	rest := false // digits behind the microsecond that are not zero
	n := 0
	d.each(func(digit byte) bool {
		if n < point {
			micros = micros*10 + int64(digit)
		} else if digit != 0 {
			rest = true
		}
		n++
		return !rest
	})
	for ; n < point; n++ {
		micros *= 10
	}
	if d.neg {
		micros = -micros
		if rest {
			micros--
		}
	}
	if micros < MinTimestamp || micros > MaxTimestamp {
		return 0, fmt.Errorf("%s %w", quoteShort(number), errYears)
	}
	return micros, nil
}

// FormatTimestamp appends an instant as RFC 3339 in UTC; the fraction stands only when it is not
// zero, without zeros at its end.
func FormatTimestamp(dst []byte, micros int64) []byte {
	days := floorDiv(micros, MicrosPerDay)
	micros -= days * MicrosPerDay
	dst = FormatDate(dst, days)
	dst = append(dst, 'T')
	s := micros / 1e6
	dst = appendPadded(dst, s/3600, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, s/60%60, 2)
	dst = append(dst, ':')
	dst = appendPadded(dst, s%60, 2)
	if f := micros % 1e6; f != 0 {
		dst = append(dst, '.')
		dst = appendPadded(dst, f, 6)
		for dst[len(dst)-1] == '0' {
			dst = dst[:len(dst)-1]
		}
	}
	return append(dst, 'Z')
}

// FormatDate appends a date as YYYY-MM-DD. Years of more digits, and before year 0, which only a
// computation gives, are written with all their digits and their sign.
func FormatDate(dst []byte, days int64) []byte {
	y, m, d := CivilDate(days)
	if y < 0 {
		dst = append(dst, '-')
		y = -y
	}
	dst = appendPadded(dst, y, 4)
	dst = append(dst, '-')
	dst = appendPadded(dst, m, 2)
	dst = append(dst, '-')
	return appendPadded(dst, d, 2)
}

// appendPadded appends a number ≥ 0 of at least width digits.
func appendPadded(dst []byte, x int64, width int) []byte {
	var b [20]byte
	i := len(b)
	for x > 0 || len(b)-i < width {
		i--
		b[i] = byte('0' + x%10)
		x /= 10
	}
	return append(dst, b[i:]...)
}

// floorDiv divides towards minus infinity; b is above 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
