package windows

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(text string) Micros {
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t.UnixMicro()
}

func TestBucketsAreAlignedAsTimeBucketAlignsThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width      Interval
		when, want string
	}{
		{Interval{Micros: 60e6}, "2024-01-15 10:00:59", "2024-01-15 10:00:00"},
		{Interval{Micros: 60e6}, "1969-12-31 23:59:30", "1969-12-31 23:59:00"},
		{Interval{Days: 7}, "2024-01-07 12:00:00", "2024-01-01 00:00:00"}, // weeks start on Monday
		{Interval{Days: 7}, "2024-01-08 00:00:00", "2024-01-08 00:00:00"},
		{Interval{Days: 7}, "1960-01-01 00:00:00", "1959-12-28 00:00:00"},
		{Interval{Days: 1, Micros: 12 * 3600e6}, "2000-01-04 13:00:00", "2000-01-04 12:00:00"},
		{Interval{Months: 1}, "2024-02-29 23:59:59", "2024-02-01 00:00:00"},
		{Interval{Months: 3}, "2024-03-31 00:00:00", "2024-01-01 00:00:00"},
		{Interval{Months: 12}, "1999-12-31 23:59:59", "1999-01-01 00:00:00"},
		{Interval{Months: 5}, "1999-12-31 00:00:00", "1999-08-01 00:00:00"}, // from 2000-01 backwards
	} {
		if got := c.width.Bucket(at(c.when)); got != at(c.want) {
			t.Errorf("bucket of %s for %s: %s, want %s", c.width, c.when, time.UnixMicro(got).UTC(), c.want)
		}
	}
}

func TestBucketHoldsItsTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := Interval{Micros: rapid.Int64Range(1, 1e13).Draw(t, "width")}
		if rapid.Bool().Draw(t, "months") {
			w = Interval{Months: rapid.Int32Range(1, 40).Draw(t, "width")}
		}
		when := rapid.Int64Range(at("0001-01-01 00:00:00"), at("9999-12-31 23:59:59")).Draw(t, "when")
		start := w.Bucket(when)
		if start > when || w.Add(start) <= when || w.Bucket(start) != start {
			t.Fatalf("the bucket of %s for %d begins at %d and ends at %d", w, when, start, w.Add(start))
		}
	})
}

func TestMonthsAreCutToTheLastDay(t *testing.T) {
	t.Parallel()
	if got := (Interval{Months: 1}).Add(at("2024-01-31 10:00:00")); got != at("2024-02-29 10:00:00") {
		t.Errorf("2024-01-31 and a month: %s", time.UnixMicro(got).UTC())
	}
	if got := (Interval{Months: 1}).Sub(at("2024-03-31 10:00:00")); got != at("2024-02-29 10:00:00") {
		t.Errorf("a month before 2024-03-31: %s", time.UnixMicro(got).UTC())
	}
}

func TestHoppingWindowsAreThoseThatHoldTheTime(t *testing.T) {
	t.Parallel()
	w := Hopping{Slide: Interval{Micros: 60e6}, Size: Interval{Micros: 150e6}}
	got := w.AppendWindows(nil, at("2024-01-15 10:02:10"))
	want := []Micros{
		at("2024-01-15 10:02:00"), at("2024-01-15 10:04:30"),
		at("2024-01-15 10:01:00"), at("2024-01-15 10:03:30"),
		at("2024-01-15 10:00:00"), at("2024-01-15 10:02:30"),
	}
	if len(got) != len(want) {
		t.Fatalf("windows %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("bound %d is %s", i, time.UnixMicro(got[i]).UTC())
		}
	}
	holes := Hopping{Slide: Interval{Micros: 600e6}, Size: Interval{Micros: 300e6}}
	if got := holes.AppendWindows(nil, at("2024-01-15 10:07:00")); got != nil {
		t.Errorf("10:07 lies in a hole, not in %v", got)
	}
}

func TestIntervalsReadAsSQL(t *testing.T) {
	t.Parallel()
	for want, i := range map[string]Interval{
		"1 minute": {Micros: 60e6}, "90 seconds": {Micros: 90e6}, "1 year 2 months": {Months: 14}, "7 days": {Days: 7},
		"1 day 12 hours": {Days: 1, Micros: 12 * 3600e6}, "5 milliseconds": {Micros: 5000}, "0 seconds": {},
	} {
		if got := i.String(); got != want {
			t.Errorf("%+v is %q, want %q", i, got, want)
		}
	}
}
