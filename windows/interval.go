package windows

import (
	"fmt"
	"strings"
	"time"
)

// Micros is an instant in microseconds since 1970, UTC, or a span of microseconds.
type Micros = int64

// Spans that are used often.
const (
	MicrosPerSecond Micros = 1_000_000
	MicrosPerDay    Micros = 24 * 60 * 60 * MicrosPerSecond
)

// Kind is one of the four window functions.
type Kind uint8

// The window functions.
const (
	Tumble Kind = iota + 1
	Hop
	Session
	Slide
)

func (k Kind) String() string {
	switch k {
	case Tumble:
		return "tumble"
	case Hop:
		return "hop"
	case Session:
		return "session"
	case Slide:
		return "slide"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// FinalAt is the least watermark at which a window with this end is final: tumble and hop are
// final when the watermark has reached the end, session and slide when it is past it, because an
// event on time may still touch their end (T2).
func (k Kind) FinalAt(end Micros) Micros {
	if k == Session || k == Slide {
		return end + 1
	}
	return end
}

// Interval is a span of time as SQL writes it. Months are calendar months; a day is 24 hours,
// because windows without a time zone are in UTC.
type Interval struct {
	Months int32
	Days   int32
	Micros int64
}

// Span is the interval as microseconds, and false when it holds months.
func (i Interval) Span() (Micros, bool) {
	return int64(i.Days)*MicrosPerDay + i.Micros, i.Months == 0
}

// Positive reports whether the interval is longer than nothing and has no part that goes back.
func (i Interval) Positive() bool {
	span, _ := i.Span()
	return i.Months >= 0 && span >= 0 && (i.Months > 0 || span > 0)
}

// Add returns t + i: months first, cut to the month's last day as SQL does, then the rest.
func (i Interval) Add(t Micros) Micros {
	if i.Months != 0 {
		t = addMonths(t, int64(i.Months))
	}
	return t + int64(i.Days)*MicrosPerDay + i.Micros
}

// Sub returns t − i.
func (i Interval) Sub(t Micros) Micros {
	return Interval{Months: -i.Months, Days: -i.Days, Micros: -i.Micros}.Add(t)
}

// String is the interval as SQL writes it, such as "1 month" or "90 seconds".
func (i Interval) String() string {
	var parts []string
	add := func(n int64, unit string) {
		if n == 0 {
			return
		}
		if n != 1 && n != -1 {
			unit += "s"
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, unit))
	}
	add(int64(i.Months)/12, "year")
	add(int64(i.Months)%12, "month")
	add(int64(i.Days), "day")
	m := i.Micros
	switch {
	case m%(3600*MicrosPerSecond) == 0:
		add(m/(3600*MicrosPerSecond), "hour")
	case m%(60*MicrosPerSecond) == 0:
		add(m/(60*MicrosPerSecond), "minute")
	case m%MicrosPerSecond == 0:
		add(m/MicrosPerSecond, "second")
	case m%1000 == 0:
		add(m/1000, "millisecond")
	default:
		add(m, "microsecond")
	}
	if parts == nil {
		return "0 seconds"
	}
	return strings.Join(parts, " ")
}

// originDays is Monday 2000-01-03, where windows of days and smaller units are aligned;
// originMonth is January 2000, where windows of months are.
const (
	originDays  Micros = 10959 * MicrosPerDay
	originMonth        = 30 * 12 // since January 1970
)

// Bucket returns the start of the bucket of width i that holds t, as DuckDB's
// time_bucket(i, t) does. The width must be positive and must not mix months with smaller units.
func (i Interval) Bucket(t Micros) Micros {
	if i.Months > 0 {
		year, month := monthOf(t)
		n := floorDiv(int64(year-1970)*12+int64(month-1)-originMonth, int64(i.Months))
		return monthStart(n*int64(i.Months) + originMonth)
	}
	width := int64(i.Days)*MicrosPerDay + i.Micros
	return floorDiv(t-originDays, width)*width + originDays
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func monthOf(t Micros) (year, month int) {
	y, m, _ := time.UnixMicro(t).UTC().Date()
	return y, int(m)
}

// monthStart is the first instant of a month counted from January 1970.
func monthStart(n int64) Micros {
	return time.Date(1970+int(floorDiv(n, 12)), time.Month(n-floorDiv(n, 12)*12+1), 1, 0, 0, 0, 0, time.UTC).UnixMicro()
}

// addMonths moves t by n months; a day that the month does not have becomes its last one.
func addMonths(t Micros, n int64) Micros {
	at := time.UnixMicro(t).UTC()
	y, m, d := at.Date()
	month := int64(y-1970)*12 + int64(m-1) + n
	start := monthStart(month)
	days := (monthStart(month+1) - start) / MicrosPerDay
	inDay := t - floorDiv(t, MicrosPerDay)*MicrosPerDay
	return start + (min(int64(d), days)-1)*MicrosPerDay + inDay
}
