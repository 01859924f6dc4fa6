package windows

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *Zone {
	t.Helper()
	z, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// Days are as long as people's days are, weeks begin on Monday, months on the first. Z1
func TestCalendarWindowsFollowTheLocalClock(t *testing.T) {
	t.Parallel()
	day, week, month := Interval{Days: 1}, Interval{Days: 7}, Interval{Months: 1}
	for _, c := range []struct {
		zone       string
		size       Interval
		at         string
		start, end string
	}{
		{"Europe/Berlin", day, "2024-03-31 12:00:00", "2024-03-30 23:00:00", "2024-03-31 22:00:00"}, // 23 hours
		{"Europe/Berlin", day, "2024-10-27 12:00:00", "2024-10-26 22:00:00", "2024-10-27 23:00:00"}, // 25 hours
		{"Europe/Berlin", day, "2024-06-30 21:59:59", "2024-06-29 22:00:00", "2024-06-30 22:00:00"},
		{"Europe/Berlin", day, "2024-06-30 22:00:00", "2024-06-30 22:00:00", "2024-07-01 22:00:00"},
		{"Europe/Berlin", week, "2024-03-31 12:00:00", "2024-03-24 23:00:00", "2024-03-31 22:00:00"},
		{"Europe/Berlin", month, "2024-03-31 23:00:00", "2024-03-31 22:00:00", "2024-04-30 22:00:00"},
		{"America/New_York", month, "2024-01-01 04:59:59", "2023-12-01 05:00:00", "2024-01-01 05:00:00"},
		{"Asia/Kolkata", day, "2024-01-01 18:30:00", "2024-01-01 18:30:00", "2024-01-02 18:30:00"},
		// Midnight is skipped: the day begins at one o'clock, its first instant.
		{"America/Sao_Paulo", day, "2018-11-04 12:00:00", "2018-11-04 03:00:00", "2018-11-05 02:00:00"},
		// The clock goes from midnight back to eleven: the day before is 25 hours long.
		{"America/Sao_Paulo", day, "2018-02-18 02:30:00", "2018-02-17 02:00:00", "2018-02-18 03:00:00"},
		// One minute past midnight the clock goes back an hour: the new day has begun already.
		{"America/St_Johns", day, "2006-10-29 03:00:00", "2006-10-29 02:30:00", "2006-10-30 03:30:00"},
		// A day that never was.
		{"Pacific/Apia", day, "2011-12-30 09:59:59", "2011-12-29 10:00:00", "2011-12-30 10:00:00"},
		{"Pacific/Apia", day, "2011-12-30 10:00:00", "2011-12-30 10:00:00", "2011-12-31 10:00:00"},
		{"UTC", day, "1969-12-31 23:00:00", "1969-12-31 00:00:00", "1970-01-01 00:00:00"},
	} {
		start, end := zone(t, c.zone).Window(c.size, at(c.at))
		if start != at(c.start) || end != at(c.end) {
			t.Errorf("%s, %s at %s: %s – %s, want %s – %s", c.zone, c.size, c.at,
				time.UnixMicro(start).UTC().Format(time.RFC3339), time.UnixMicro(end).UTC().Format(time.RFC3339), c.start, c.end)
		}
	}
}

// Every instant lies in its window, windows lie side by side, and the clock shows what Go's shows. Z1
func TestZonedWindowsCoverTime(t *testing.T) {
	t.Parallel()
	names := []string{"Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca", "Antarctica/Troll", "Europe/Dublin"}
	sizes := []Interval{{Days: 1}, {Days: 7}, {Days: 3}, {Months: 1}, {Months: 3}, {Months: 12}}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "zone")
		size := rapid.SampledFrom(sizes).Draw(t, "size")
		when := rapid.Int64Range(at("1850-01-01 00:00:00"), at("2190-01-01 00:00:00")).Draw(t, "at")
		z, err := LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		loc, _ := time.LoadLocation(name)
		shown := time.UnixMicro(when).In(loc)
		if want := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), shown.Nanosecond(), time.UTC).UnixMicro(); z.Local(when) != want {
			t.Fatalf("%s: the clock shows %d, want %d", name, z.Local(when), want)
		}
		start, end := z.Window(size, when)
		if when < start || when >= end {
			t.Fatalf("%s: %d is not in %d – %d", name, when, start, end)
		}
		for _, inside := range []Micros{start, end - 1} {
			if s, e := z.Window(size, inside); s != start || e != end {
				t.Fatalf("%s: %d – %d at %d, %d – %d at %d", name, start, end, when, s, e, inside)
			}
		}
		if s, _ := z.Window(size, end); s != end {
			t.Fatalf("%s: the next window begins at %d, not %d", name, s, end)
		}
	})
}

func TestUnknownZonesAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Local", "Mars/Olympus", "../etc/passwd"} {
		if _, err := LoadZone(name); err == nil {
			t.Errorf("%q is a zone", name)
		}
	}
}
