package expr

import (
	"math"

	"tidemark/storage/row"
)

// temporal fills the functions over dates, instants and intervals.
func (t table) temporal() {
	for name, p := range map[string]part{
		"year": partYear, "month": partMonth, "day": partDay, "dayofmonth": partDay, "hour": partHour, "minute": partMinute,
		"second": partSecond, "millisecond": partMillisecond, "microsecond": partMicrosecond, "quarter": partQuarter,
		"week": partWeek, "weekofyear": partWeek, "yearweek": partYearWeek, "isoyear": partISOYear, "dayofweek": partWeekday,
		"weekday": partWeekday, "isodow": partISOWeekday, "dayofyear": partDayOfYear, "decade": partDecade, "century": partCentury,
		"millennium": partMillennium, "era": partEra, "epoch": partEpoch, "julian": partJulian,
	} {
		t.binder(func(name string, args []*Expr) (*Expr, error) {
			if len(args) != 1 {
				return nil, mismatch(name, args)
			}
			return bindPart(p, name, callText(name, args), args[0])
		}, name)
	}
	t.binder(func(name string, args []*Expr) (*Expr, error) {
		if len(args) != 2 {
			return nil, mismatch(name, args)
		}
		p, err := constPart(name, args[0])
		if err != nil {
			return nil, err
		}
		return bindPart(p, name, callText(name, args), args[1])
	}, "date_part", "datepart")
	t.binder(bindTrunc, "date_trunc", "datetrunc")
	t.binder(bindDiff, "date_diff", "datediff", "date_sub", "datesub")

	t.define("epoch_us", on(tBig, map1(i64, i64, func(us int64) int64 { return us }), tTimestamp),
		on(tBig, map1(i128, i64, func(iv row.Int128) int64 { return intervalMicros(iv) }), tInterval))
	t.define("epoch_ms", on(tBig, map1(i64, i64, func(us int64) int64 { return us / 1000 }), tTimestamp),
		on(tBig, map1(i128, i64, func(iv row.Int128) int64 { return intervalMicros(iv) / 1000 }), tInterval),
		on(tTimestamp, try1(i64, i64, func(ms int64) (int64, *Failure) {
			if ms > math.MaxInt64/1000 || ms < math.MinInt64/1000 {
				return 0, conversion("Could not convert Timestamp(MS) to Timestamp(US)")
			}
			return ms * 1000, nil
		}), tBig))
	t.define("epoch_ns", on(tBig, try1(i64, i64, func(us int64) (int64, *Failure) {
		if us > math.MaxInt64/1000 || us < math.MinInt64/1000 {
			return 0, conversion("Could not convert Timestamp(US) to Timestamp(NS)")
		}
		return us * 1000, nil
	}), tTimestamp))
	t.define("make_timestamp", on(tTimestamp, map1(i64, i64, func(us int64) int64 { return us }), tBig),
		overload{args: []row.Type{tBig, tBig, tBig, tBig, tBig, tDouble}, returns: tTimestamp, kernel: makeTimestamp})
	t.define("make_date", on(tDate, try3(i64, i64, i64, i64, makeDate), tBig, tBig, tBig))
	for name, unit := range map[string]intervalUnit{
		"to_years": {months: 12}, "to_months": {months: 1}, "to_quarters": {months: 3}, "to_decades": {months: 120},
		"to_centuries": {months: 1200}, "to_millennia": {months: 12000}, "to_weeks": {days: daysPerWeek}, "to_days": {days: 1},
	} {
		t.define(name, on(tInterval, try1(i64, i128, unit.times), tInt))
	}
	for name, unit := range map[string]intervalUnit{
		"to_hours": {micros: microsPerHour}, "to_minutes": {micros: microsPerMinute}, "to_microseconds": {micros: 1},
	} {
		t.define(name, on(tInterval, try1(i64, i128, unit.times), tBig))
	}
	for name, unit := range map[string]float64{"to_seconds": 1e6, "to_milliseconds": 1e3} {
		t.define(name, on(tInterval, try1(f64, i128, func(n float64) (row.Int128, *Failure) {
			us, ok := row.Int128FromFloat(n * unit)
			if !ok || !us.IsInt64() {
				return us, outOfRange("Interval value %v out of range", n)
			}
			return row.MakeInterval(0, 0, us.Int64()), nil
		}), tDouble))
	}
	t.define("date_add", t[" +"].overloads...)
	bucket := func(returns row.Type) kernel {
		at := instant(returns)
		return try2(i128, i64, i64, func(width row.Int128, x int64) (int64, *Failure) {
			return bucketOf(returns, width, at(x), 0, false)
		})
	}
	offset := func(returns row.Type) kernel {
		at := instant(returns)
		return try3(i128, i64, i128, i64, func(width row.Int128, x int64, by row.Int128) (int64, *Failure) {
			back, err := negateInterval(by)
			if err != nil {
				return 0, err
			}
			us, err := addInterval(at(x), back)
			if err != nil {
				return 0, err
			}
			start, err := bucketOf(tTimestamp, width, us, 0, false)
			if err != nil {
				return 0, err
			}
			start, err = addInterval(start, by)
			if returns.Kind == row.Date {
				start = dayOf(start)
			}
			return start, err
		})
	}
	origin := func(returns row.Type) kernel {
		at := instant(returns)
		return try3(i128, i64, i64, i64, func(width row.Int128, x, o int64) (int64, *Failure) {
			return bucketOf(returns, width, at(x), at(o), true)
		})
	}
	t.define("time_bucket",
		on(tDate, bucket(tDate), tInterval, tDate), on(tTimestamp, bucket(tTimestamp), tInterval, tTimestamp),
		on(tDate, offset(tDate), tInterval, tDate, tInterval), on(tTimestamp, offset(tTimestamp), tInterval, tTimestamp, tInterval),
		on(tDate, origin(tDate), tInterval, tDate, tDate), on(tTimestamp, origin(tTimestamp), tInterval, tTimestamp, tTimestamp))
	lastDay := func(day int64) int64 {
		y, m, _ := row.CivilDate(day)
		return row.DaysOf(y, m, daysInMonth(y, m))
	}
	t.define("last_day", on(tDate, map1(i64, i64, lastDay), tDate),
		on(tDate, map1(i64, i64, func(us int64) int64 { return lastDay(dayOf(us)) }), tTimestamp))
	t.define("dayname", on(tVarchar, map1(i64, str, func(us int64) string { return dayNames[isoWeekday(dayOf(us))%7] }), tTimestamp))
	t.define("monthname", on(tVarchar, map1(i64, str, func(us int64) string {
		return monthNames[partMonth.ofDay(dayOf(us))-1]
	}), tTimestamp))
	t.define("age", on(tInterval, map2(i64, i64, i128, age), tTimestamp, tTimestamp))
	t.formats()
}

func intervalMicros(iv row.Int128) int64 {
	m, d, us := row.IntervalParts(iv)
	return (int64(m)*30+int64(d))*row.MicrosPerDay + us
}

func (u intervalUnit) times(n int64) (row.Int128, *Failure) {
	return multiplyInterval(row.MakeInterval(int32(u.months), int32(u.days), u.micros), n)
}

func makeDate(y, m, d int64) (int64, *Failure) {
	if y > 5_000_000 || y < -5_000_000 || m < 1 || m > 12 || d < 1 || d > daysInMonth(y, m) {
		return 0, conversion("Date out of range: %d-%d-%d", y, m, d)
	}
	return row.DaysOf(y, m, d), nil
}

func makeTimestamp(c *call) {
	for _, i := range c.rows {
		a := func(k int) int64 { return c.args[k].I64[i] }
		sec := c.args[5].F64[i]
		day, err := makeDate(a(0), a(1), a(2))
		if err == nil && (a(3) < 0 || a(3) > 24 || a(4) < 0 || a(4) > 59 || !(sec >= 0 && sec < 60)) {
			err = conversion("Time out of range: %d:%d:%v", a(3), a(4), sec)
		}
		if err == nil && (day > math.MaxInt64/row.MicrosPerDay-1 || day < math.MinInt64/row.MicrosPerDay+1) {
			err = conversion("Date and time not in timestamp range")
		}
		if err != nil {
			c.fail(i, err)
			continue
		}
		c.out.I64[i] = day*row.MicrosPerDay + a(3)*microsPerHour + a(4)*microsPerMinute + int64(math.RoundToEven(sec*1e6))
	}
}

// The default origins of time_bucket: a Monday, and for months the first of January.
var (
	bucketOrigin      = row.DaysOf(2000, 1, 3) * row.MicrosPerDay
	bucketMonthOrigin = row.DaysOf(2000, 1, 1) * row.MicrosPerDay
)

// bucketOf returns the start of the bucket of an instant, as a DATE or TIMESTAMP.
func bucketOf(returns row.Type, width row.Int128, us, origin int64, given bool) (int64, *Failure) {
	months, days, micros := row.IntervalParts(width)
	var start int64
	switch {
	case months != 0 && (days != 0 || micros != 0):
		return 0, invalidInput("Month intervals cannot have day or time component")
	case months < 0 || days < 0 || micros < 0 || months == 0 && days == 0 && micros == 0:
		return 0, outOfRange("Cannot use a zero or negative width in time_bucket")
	case months != 0:
		if !given {
			origin = bucketMonthOrigin
		}
		oy, om, _ := row.CivilDate(dayOf(origin))
		y, m, _ := row.CivilDate(dayOf(us))
		n := floorDiv(y*12+m-oy*12-om, int64(months)) * int64(months)
		start = addMonths(row.DaysOf(oy, om, 1), n) * row.MicrosPerDay
	default:
		if !given {
			origin = bucketOrigin
		}
		size := int64(days)*row.MicrosPerDay + micros
		from := us - origin
		if (us^origin)&(us^from) < 0 {
			return 0, outOfRange("Timestamp out of range in time_bucket")
		}
		start = floorDiv(from, size)*size + origin
	}
	if returns.Kind == row.Date {
		return dayOf(start), nil
	}
	return start, nil
}

// bindDiff binds date_diff, which counts the borders of parts between two instants, and date_sub,
// which counts the whole parts.
func bindDiff(name string, args []*Expr) (*Expr, error) {
	if len(args) != 3 {
		return nil, mismatch(name, args)
	}
	p, err := constPart(name, args[0])
	if err != nil {
		return nil, err
	}
	cast, err := castAll(args[1:], tTimestamp)
	if err != nil {
		return nil, mismatch(name, args)
	}
	f := p.borders
	if name == "date_sub" || name == "datesub" {
		f = p.wholes
	}
	if _, ok := f(0, 0); !ok {
		return nil, &Mismatch{Name: name, Reason: name + " can't count " + args[0].Text}
	}
	return newCall(tBig, callText(name, args), map2(i64, i64, i64, func(a, b int64) int64 {
		n, _ := f(a, b)
		return n
	}), cast...), nil
}

// unit returns the length of a part of fixed length in microseconds, 0 for others.
func (p part) unit() int64 {
	switch p {
	case partMicrosecond:
		return 1
	case partMillisecond:
		return 1000
	case partSecond, partEpoch:
		return microsPerSecond
	case partMinute:
		return microsPerMinute
	case partHour:
		return microsPerHour
	case partDay, partWeekday, partISOWeekday, partDayOfYear, partJulian:
		return row.MicrosPerDay
	case partWeek, partYearWeek:
		return daysPerWeek * row.MicrosPerDay
	}
	return 0
}

// months returns the length of a part in months, 0 for others.
func (p part) months() int64 {
	switch p {
	case partMonth:
		return 1
	case partQuarter:
		return 3
	case partYear:
		return 12
	case partDecade:
		return 120
	case partCentury:
		return 1200
	case partMillennium:
		return 12000
	}
	return 0
}

func (p part) borders(a, b int64) (int64, bool) {
	if p == partWeek || p == partYearWeek { // DuckDB counts no Mondays, but the days between
		return (dayOf(b) - dayOf(a)) / daysPerWeek, true
	}
	if u := p.unit(); u != 0 {
		return floorDiv(b, u) - floorDiv(a, u), true
	}
	if p == partISOYear {
		return p.ofInstant(b) - p.ofInstant(a), true
	}
	n := p.months()
	if n == 0 {
		return 0, false
	}
	index := func(us int64) int64 {
		y, m, _ := row.CivilDate(dayOf(us))
		return floorDiv(y*12+m-1, n)
	}
	return index(b) - index(a), true
}

func (p part) wholes(a, b int64) (int64, bool) {
	if u := p.unit(); u != 0 {
		return (b - a) / u, true
	}
	n := p.months()
	if n == 0 {
		return 0, false
	}
	return monthsBetween(a, b) / n, true
}

// monthsBetween counts the whole months from a to b; negative when b is earlier.
func monthsBetween(a, b int64) int64 {
	if a > b {
		return -monthsBetween(b, a)
	}
	ya, ma, _ := row.CivilDate(dayOf(a))
	yb, mb, _ := row.CivilDate(dayOf(b))
	n := (yb*12 + mb) - (ya*12 + ma)
	if addMonths(dayOf(a), n)*row.MicrosPerDay+clockOf(a) > b {
		n--
	}
	return n
}

// age is a − b in years, months, days and clock, as people count it.
func age(a, b int64) row.Int128 {
	if a < b {
		v, _ := negateInterval(age(b, a))
		return v
	}
	ya, ma, da := row.CivilDate(dayOf(a))
	yb, mb, db := row.CivilDate(dayOf(b))
	months, days, micros := (ya*12+ma)-(yb*12+mb), da-db, clockOf(a)-clockOf(b)
	if micros < 0 {
		micros += row.MicrosPerDay
		days--
	}
	for days < 0 {
		days += daysInMonth(yb, mb)
		months--
	}
	return row.MakeInterval(int32(months), int32(days), micros)
}
