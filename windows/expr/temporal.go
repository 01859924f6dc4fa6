package expr

import (
	"math"
	"strings"

	"tidemark/storage/row"
)

const daysPerWeek = 7

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// dayOf returns the day since 1970 of an instant.
func dayOf(us int64) int64 { return floorDiv(us, row.MicrosPerDay) }

// clockOf returns the microseconds since midnight of an instant.
func clockOf(us int64) int64 { return us - dayOf(us)*row.MicrosPerDay }

// isoWeekday is 1 for Monday to 7 for Sunday.
func isoWeekday(day int64) int64 { return day + 3 - floorDiv(day+3, daysPerWeek)*daysPerWeek + 1 }

// isoWeek returns the ISO 8601 year and week of a day.
func isoWeek(day int64) (year, week int64) {
	thursday := day - isoWeekday(day) + 4
	year, _, _ = row.CivilDate(thursday)
	return year, (thursday-row.DaysOf(year, 1, 1))/daysPerWeek + 1
}

func dayOfYear(day int64) int64 {
	y, _, _ := row.CivilDate(day)
	return day - row.DaysOf(y, 1, 1) + 1
}

// addMonths moves a day by months; the day of the month is cut to the month's length.
func addMonths(day, months int64) int64 {
	y, m, d := row.CivilDate(day)
	n := y*12 + m - 1 + months
	y, m = floorDiv(n, 12), n-floorDiv(n, 12)*12+1
	return row.DaysOf(y, m, min(d, daysInMonth(y, m)))
}

// maxInstant bounds results: DuckDB's own range is about ±290,000 years.
const maxInstant = math.MaxInt64 - 1

// addInterval moves an instant by months, then days, then microseconds.
func addInterval(us int64, iv row.Int128) (int64, *Failure) {
	months, days, micros := row.IntervalParts(iv)
	day, clock := dayOf(us), clockOf(us)
	if months != 0 {
		day = addMonths(day, int64(months))
	}
	day += int64(days)
	sum, ok := row.Mul64(day, row.MicrosPerDay).Add(row.FromInt64(clock))
	if ok {
		sum, ok = sum.Add(row.FromInt64(micros))
	}
	if !ok || !sum.IsInt64() || sum.Int64() > maxInstant || sum.Int64() < -maxInstant {
		return 0, conversion("Date and time not in timestamp range")
	}
	return sum.Int64(), nil
}

func negateInterval(iv row.Int128) (row.Int128, *Failure) {
	months, days, micros := row.IntervalParts(iv)
	if months == math.MinInt32 || days == math.MinInt32 || micros == math.MinInt64 {
		return iv, outOfRange("Overflow in negation of interval")
	}
	return row.MakeInterval(-months, -days, -micros), nil
}

func addIntervals(a, b row.Int128) (row.Int128, *Failure) {
	am, ad, au := row.IntervalParts(a)
	bm, bd, bu := row.IntervalParts(b)
	months, days := int64(am)+int64(bm), int64(ad)+int64(bd)
	micros := au + bu
	if months != int64(int32(months)) || days != int64(int32(days)) || (au^micros)&(bu^micros) < 0 {
		return a, outOfRange("Overflow in addition of intervals")
	}
	return row.MakeInterval(int32(months), int32(days), micros), nil
}

func subtractIntervals(a, b row.Int128) (row.Int128, *Failure) {
	n, err := negateInterval(b)
	if err != nil {
		return a, err
	}
	return addIntervals(a, n)
}

func multiplyInterval(iv row.Int128, n int64) (row.Int128, *Failure) {
	m, d, us := row.IntervalParts(iv)
	months, days, micros := row.Mul64(int64(m), n), row.Mul64(int64(d), n), row.Mul64(us, n)
	fits := func(x row.Int128) bool { return x.IsInt64() && x.Int64() == int64(int32(x.Int64())) }
	if !fits(months) || !fits(days) || !micros.IsInt64() {
		return iv, outOfRange("Overflow in multiplication of interval")
	}
	return row.MakeInterval(int32(months.Int64()), int32(days.Int64()), micros.Int64()), nil
}

// divideInterval divides each part alone and cuts off what is left.
func divideInterval(iv row.Int128, n int64) (row.Int128, *Failure) {
	if n == 0 {
		return iv, errNull
	}
	m, d, us := row.IntervalParts(iv)
	if n == -1 {
		return negateInterval(iv)
	}
	return row.MakeInterval(int32(int64(m)/n), int32(int64(d)/n), us/n), nil
}

// difference of instants is in days and what is left.
func difference(a, b int64) (row.Int128, *Failure) {
	d := a - b
	if (a^b)&(a^d) < 0 {
		return row.Int128{}, conversion("Timestamp difference is out of bounds")
	}
	return row.MakeInterval(0, int32(d/row.MicrosPerDay), d%row.MicrosPerDay), nil
}

func addDays(day, n int64) (int64, *Failure) {
	if s := day + n; s < math.MaxInt32 && s > -math.MaxInt32 { // these two are the infinities
		return s, nil
	}
	return 0, outOfRange("Date out of range")
}

// temporalArithmetic fills the overloads of operators over dates, instants and intervals, under
// the operator behind a space: bindArith looks there when the operands are no numbers.
func (t table) temporalArithmetic() {
	plus := func(us int64, iv row.Int128) (int64, *Failure) { return addInterval(us, iv) }
	minus := func(us int64, iv row.Int128) (int64, *Failure) {
		n, err := negateInterval(iv)
		if err != nil {
			return 0, err
		}
		return addInterval(us, n)
	}
	day := func(f func(int64, row.Int128) (int64, *Failure)) func(int64, row.Int128) (int64, *Failure) {
		return func(d int64, iv row.Int128) (int64, *Failure) {
			if d > maxInstant/row.MicrosPerDay || d < -maxInstant/row.MicrosPerDay {
				return 0, conversion("Overflow exception in date/time -> timestamp conversion")
			}
			return f(d*row.MicrosPerDay, iv)
		}
	}
	t.define(" +",
		on(tDate, try2(i64, i64, i64, addDays), tDate, tInt),
		on(tDate, try2(i64, i64, i64, func(n, d int64) (int64, *Failure) { return addDays(d, n) }), tInt, tDate),
		on(tInterval, try2(i128, i128, i128, addIntervals), tInterval, tInterval),
		on(tTimestamp, try2(i64, i128, i64, day(plus)), tDate, tInterval),
		on(tTimestamp, try2(i128, i64, i64, func(iv row.Int128, d int64) (int64, *Failure) { return day(plus)(d, iv) }), tInterval, tDate),
		on(tTimestamp, try2(i64, i128, i64, plus), tTimestamp, tInterval),
		on(tTimestamp, try2(i128, i64, i64, func(iv row.Int128, us int64) (int64, *Failure) { return plus(us, iv) }), tInterval, tTimestamp))
	t.define(" -",
		on(tBig, map2(i64, i64, i64, func(a, b int64) int64 { return a - b }), tDate, tDate),
		on(tDate, try2(i64, i64, i64, func(d, n int64) (int64, *Failure) { return addDays(d, -n) }), tDate, tInt),
		on(tInterval, try2(i64, i64, i128, difference), tTimestamp, tTimestamp),
		on(tInterval, try2(i128, i128, i128, subtractIntervals), tInterval, tInterval),
		on(tTimestamp, try2(i64, i128, i64, day(minus)), tDate, tInterval),
		on(tTimestamp, try2(i64, i128, i64, minus), tTimestamp, tInterval))
	t.define(" *",
		on(tInterval, try2(i128, i64, i128, multiplyInterval), tInterval, tBig),
		on(tInterval, try2(i64, i128, i128, func(n int64, iv row.Int128) (row.Int128, *Failure) { return multiplyInterval(iv, n) }), tBig, tInterval))
	t.define(" /", on(tInterval, try2(i128, i64, i128, divideInterval), tInterval, tBig))
}

func bindTemporal(name, text string, args []*Expr) (*Expr, error) {
	f := functions[" "+name]
	if f == nil {
		return nil, mismatch(name, args)
	}
	o := choose(f.overloads, args)
	if o == nil {
		return nil, mismatch(name, args)
	}
	cast := make([]*Expr, len(args))
	for i, a := range args {
		var err error
		if cast[i], err = implicit(a, o.args[i]); err != nil {
			return nil, err
		}
	}
	return newCall(o.returns, text, o.kernel, cast...), nil
}

// part is one part of a date, instant or interval.
type part uint8

const (
	partMicrosecond part = iota
	partMillisecond
	partSecond
	partMinute
	partHour
	partDay
	partWeek
	partMonth
	partQuarter
	partYear
	partISOYear
	partDecade
	partCentury
	partMillennium
	partEra
	partWeekday
	partISOWeekday
	partDayOfYear
	partYearWeek
	partEpoch
	partJulian
)

var partNames = map[string]part{}

func init() {
	for p, names := range map[part]string{
		partMicrosecond: "microsecond microseconds us usec usecs usecond useconds",
		partMillisecond: "millisecond milliseconds ms msec msecs msecond mseconds",
		partSecond:      "second seconds sec secs s",
		partMinute:      "minute minutes min mins m",
		partHour:        "hour hours hr hrs h",
		partDay:         "day days d dayofmonth",
		partWeek:        "week weeks w weekofyear",
		partMonth:       "month months mon mons",
		partQuarter:     "quarter quarters",
		partYear:        "year years yr yrs y",
		partISOYear:     "isoyear",
		partDecade:      "decade decades dec decs",
		partCentury:     "century centuries cent c",
		partMillennium:  "millennium millenniums millennia mil mils",
		partEra:         "era",
		partWeekday:     "dow dayofweek weekday",
		partISOWeekday:  "isodow",
		partDayOfYear:   "doy dayofyear",
		partYearWeek:    "yearweek",
		partEpoch:       "epoch",
		partJulian:      "julian",
	} {
		for _, n := range strings.Fields(names) {
			partNames[n] = p
		}
	}
}

// constPart reads the part's name, which must be a constant.
func constPart(name string, e *Expr) (part, error) {
	if !e.IsConst() || e.Type.Kind != row.Varchar || e.value.IsNull(0) {
		return 0, &Mismatch{Name: name, Reason: name + " needs the name of the part as a constant text, such as 'hour'"}
	}
	p, ok := partNames[strings.ToLower(e.value.Str[0])]
	if !ok {
		return 0, &Mismatch{Name: name, Reason: name + " does not know the part '" + e.value.Str[0] + "'; parts are microseconds, milliseconds, second, minute, hour, day, week, month, quarter, year, decade, century, millennium"}
	}
	return p, nil
}

// ofInstant takes a part, other than epoch and julian, out of an instant.
func (p part) ofInstant(us int64) int64 {
	switch p {
	case partMicrosecond:
		return clockOf(us) % microsPerMinute
	case partMillisecond:
		return clockOf(us) % microsPerMinute / 1000
	case partSecond:
		return clockOf(us) % microsPerMinute / microsPerSecond
	case partMinute:
		return clockOf(us) % microsPerHour / microsPerMinute
	case partHour:
		return clockOf(us) / microsPerHour
	}
	return p.ofDay(dayOf(us))
}

func (p part) ofDay(day int64) int64 {
	switch p {
	case partWeek:
		_, w := isoWeek(day)
		return w
	case partISOYear:
		y, _ := isoWeek(day)
		return y
	case partYearWeek:
		y, w := isoWeek(day)
		if y < 0 {
			return y*100 - w
		}
		return y*100 + w
	case partWeekday:
		return isoWeekday(day) % daysPerWeek
	case partISOWeekday:
		return isoWeekday(day)
	case partDayOfYear:
		return dayOfYear(day)
	}
	y, m, d := row.CivilDate(day)
	switch p {
	case partDay:
		return d
	case partMonth:
		return m
	case partQuarter:
		return (m-1)/3 + 1
	case partYear:
		return y
	case partDecade:
		return y / 10
	case partCentury:
		if y > 0 {
			return (y-1)/100 + 1
		}
		return y/100 - 1
	case partMillennium:
		if y > 0 {
			return (y-1)/1000 + 1
		}
		return y/1000 - 1
	case partEra:
		return b2i(y > 0)
	}
	return 0
}

func (p part) ofInterval(iv row.Int128) (int64, bool) {
	m, d, us := row.IntervalParts(iv)
	months := int64(m)
	switch p {
	case partMicrosecond:
		return us % microsPerMinute, true
	case partMillisecond:
		return us % microsPerMinute / 1000, true
	case partSecond:
		return us % microsPerMinute / microsPerSecond, true
	case partMinute:
		return us % microsPerHour / microsPerMinute, true
	case partHour:
		return us / microsPerHour, true
	case partDay:
		return int64(d), true
	case partMonth:
		return months % 12, true
	case partQuarter:
		return months%12/3 + 1, true
	case partYear:
		return months / 12, true
	case partDecade:
		return months / 120, true
	case partCentury:
		return months / 1200, true
	case partMillennium:
		return months / 12000, true
	}
	return 0, false
}

// intervalEpoch is an INTERVAL in seconds: years of 365.25 days, months of 30.
func intervalEpoch(iv row.Int128) float64 {
	m, d, us := row.IntervalParts(iv)
	years, months := int64(m)/12, int64(m)%12
	micros := float64(years)*365.25*86400 + float64(months*30+int64(d))*86400
	return micros + float64(us)/1e6
}

// instant reads DATE and TIMESTAMP vectors as instants.
func instant(t row.Type) func(x int64) int64 {
	if t.Kind == row.Date {
		return func(day int64) int64 { return day * row.MicrosPerDay }
	}
	return func(us int64) int64 { return us }
}

// bindPart binds date_part and the functions that are named after a part.
func bindPart(p part, name, text string, arg *Expr) (*Expr, error) {
	if arg.isStringLiteral() || arg.isNull() && arg.Type.Kind == row.Null {
		var err error
		if arg, err = implicit(arg, tTimestamp); err != nil {
			return nil, err
		}
	}
	t := arg.Type.Kind
	if t != row.Date && t != row.Timestamp && t != row.Interval {
		return nil, mismatch(name, []*Expr{arg})
	}
	at := instant(arg.Type)
	switch {
	case p == partEpoch && t == row.Interval:
		return newCall(tDouble, text, map1(i128, f64, intervalEpoch), arg), nil
	case p == partEpoch:
		return newCall(tDouble, text, map1(i64, f64, func(x int64) float64 { return float64(at(x)) / 1e6 }), arg), nil
	case p == partJulian && t != row.Interval:
		return newCall(tDouble, text, map1(i64, f64, func(x int64) float64 {
			us := at(x)
			return float64(dayOf(us)+2440588) + float64(clockOf(us))/float64(row.MicrosPerDay)
		}), arg), nil
	case t == row.Interval:
		if _, ok := p.ofInterval(row.Int128{}); !ok {
			return nil, &Mismatch{Name: name, Types: []row.Type{arg.Type}, Reason: "an INTERVAL has no such part: " + text}
		}
		return newCall(tBig, text, map1(i128, i64, func(iv row.Int128) int64 {
			v, _ := p.ofInterval(iv)
			return v
		}), arg), nil
	case t == row.Date && p >= partDay:
		return newCall(tBig, text, map1(i64, i64, p.ofDay), arg), nil
	}
	return newCall(tBig, text, map1(i64, i64, func(x int64) int64 { return p.ofInstant(at(x)) }), arg), nil
}

// truncate cuts an instant to the beginning of a part.
func (p part) truncate(us int64) (int64, bool) {
	unit := int64(0)
	switch p {
	case partMicrosecond:
		return us, true
	case partMillisecond:
		unit = 1000
	case partSecond, partEpoch:
		unit = microsPerSecond
	case partMinute:
		unit = microsPerMinute
	case partHour:
		unit = microsPerHour
	case partDay, partWeekday, partISOWeekday, partDayOfYear, partJulian:
		unit = row.MicrosPerDay
	}
	if unit != 0 {
		return floorDiv(us, unit) * unit, true
	}
	day, ok := p.truncateDay(dayOf(us))
	return day * row.MicrosPerDay, ok
}

func (p part) truncateDay(day int64) (int64, bool) {
	y, m, _ := row.CivilDate(day)
	switch p {
	case partWeek, partYearWeek:
		return day - isoWeekday(day) + 1, true
	case partMonth:
		return row.DaysOf(y, m, 1), true
	case partQuarter:
		return row.DaysOf(y, m-(m-1)%3, 1), true
	case partYear:
		return row.DaysOf(y, 1, 1), true
	case partISOYear:
		iso, _ := isoWeek(day)
		january4 := row.DaysOf(iso, 1, 4)
		return january4 - isoWeekday(january4) + 1, true
	case partDecade:
		return row.DaysOf(y/10*10, 1, 1), true
	case partCentury:
		return row.DaysOf(y/100*100, 1, 1), true
	case partMillennium:
		return row.DaysOf(y/1000*1000, 1, 1), true
	}
	return day, false
}

// bindTrunc binds date_trunc. From a day upwards the result is a DATE, as in DuckDB.
func bindTrunc(name string, args []*Expr) (*Expr, error) {
	if len(args) != 2 {
		return nil, mismatch(name, args)
	}
	p, err := constPart(name, args[0])
	if err != nil {
		return nil, err
	}
	arg, text := args[1], callText(name, args)
	if arg.isStringLiteral() || arg.Type.Kind == row.Null {
		if arg, err = implicit(arg, tTimestamp); err != nil {
			return nil, err
		}
	}
	if arg.Type.Kind == row.Interval {
		return newCall(tInterval, text, map1(i128, i128, p.truncateInterval), arg), nil
	}
	if arg.Type.Kind != row.Date && arg.Type.Kind != row.Timestamp {
		return nil, mismatch(name, args)
	}
	if _, ok := p.truncate(0); !ok {
		return nil, &Mismatch{Name: name, Reason: "date_trunc can't cut to " + args[0].Text}
	}
	at := instant(arg.Type)
	if p >= partDay && p <= partMillennium || p >= partWeekday && p <= partYearWeek || p == partJulian {
		return newCall(tDate, text, map1(i64, i64, func(x int64) int64 {
			us, _ := p.truncate(at(x))
			return us / row.MicrosPerDay
		}), arg), nil
	}
	return newCall(tTimestamp, text, map1(i64, i64, func(x int64) int64 {
		us, _ := p.truncate(at(x))
		return us
	}), arg), nil
}

func (p part) truncateInterval(iv row.Int128) row.Int128 {
	m, d, us := row.IntervalParts(iv)
	months := func(n int32) row.Int128 { return row.MakeInterval(m-m%n, 0, 0) }
	unit := func(n int64) row.Int128 { return row.MakeInterval(m, d, us-us%n) }
	switch p {
	case partMicrosecond:
		return iv
	case partMillisecond:
		return unit(1000)
	case partSecond:
		return unit(microsPerSecond)
	case partMinute:
		return unit(microsPerMinute)
	case partHour:
		return unit(microsPerHour)
	case partWeek:
		return row.MakeInterval(m, d-d%daysPerWeek, 0)
	case partMonth:
		return months(1)
	case partQuarter:
		return months(3)
	case partYear, partISOYear:
		return months(12)
	case partDecade:
		return months(120)
	case partCentury:
		return months(1200)
	case partMillennium:
		return months(12000)
	}
	return row.MakeInterval(m, d, 0)
}
