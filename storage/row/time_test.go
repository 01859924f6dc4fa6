package row

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimesAreReadToTheMicrosecond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"2024-01-01T12:00:00Z", "2024-01-01T12:00:00Z"},
		{"2024-01-01t12:00:00z", "2024-01-01T12:00:00Z"},
		{"2024-03-05T23:30:00-05:00", "2024-03-06T04:30:00Z"},
		{"2024-03-06T10:15:00+05:45", "2024-03-06T04:30:00Z"},
		{"2024-03-06T05:00:00+00:00", "2024-03-06T05:00:00Z"},
		{"2024-03-06T05:00:00-0030", "2024-03-06T05:30:00Z"},
		{"2024-03-06T05:00:00+01", "2024-03-06T04:00:00Z"},
		{"2024-01-01T12:00:00.1Z", "2024-01-01T12:00:00.1Z"},
		{"2024-01-01T12:00:00.123456789Z", "2024-01-01T12:00:00.123456Z"},
		{"1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"},
		{"2024-01-01T12:00:00", "2024-01-01T12:00:00Z"},
		{"2024-01-01 12:00:00", "2024-01-01T12:00:00Z"},
		{"2024-01-01 12:00:00.25", "2024-01-01T12:00:00.25Z"},
		{"2001/01/01 00:47", "2001-01-01T00:47:00Z"},
		{"2001/01/01 00:47:31", "2001-01-01T00:47:31Z"},
		{"2024-02-29", "2024-02-29T00:00:00Z"},
		{"2024/02/29", "2024-02-29T00:00:00Z"},
		{"2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"},
		{"2016-12-31T23:59:60.5Z", "2017-01-01T00:00:00.5Z"},
		{"1900-02-28", "1900-02-28T00:00:00Z"},
		{"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"},
	} {
		got, err := ParseTime([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if s := string(FormatTimestamp(nil, got)); s != c.want {
			t.Errorf("%s is %s, want %s", c.text, s, c.want)
		}
	}
}

func TestWhatIsNoTimeIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "yesterday", "1700000000", "2024", "2024-01", "2024-1-1", "2024-01-01T", "2024-01-01T12", "2024-01-01T12:00:00.Z",
		"2024-02-30T10:00:00Z", "2023-02-29", "1900-02-29", "2024-01-01T24:00:00Z", "2024-01-01T12:60:00Z", "2024-01-01T12:00:61Z",
		"2024-13-01", "2024-00-01", "2024-01-00", "2024-01/01", "0000-01-01", "10000-01-01", "-001-01-01", "2024-01-01T12:00:00+24:00",
		"2024-01-01T12:00:00Z ", " 2024-01-01T12:00:00Z", "2024-01-01T12:00:00+", "2024-01-01T12:00:00+01:", "2024-01-01T12:00:00ZZ",
		"0001-01-01T00:00:00+01:00", "9999-12-31T23:59:60Z", "9999-12-31T23:59:59-01:00", "٢٠٢٤-01-01",
	} {
		if got, err := ParseTime([]byte(text)); err == nil {
			t.Errorf("%q was read as %s", text, FormatTimestamp(nil, got))
		}
	}
	_, err := ParseTime([]byte("yesterday"))
	if err == nil || err.Error() != `not a timestamp: "yesterday"` {
		t.Errorf("the error says %v", err)
	}
	if _, err := ParseTime([]byte(strings.Repeat("x", 5000))); len(err.Error()) > 200 {
		t.Errorf("the error repeats a long text")
	}
}

func TestEpochNumbersAreReadBySize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"0", "1970-01-01T00:00:00Z"},
		{"-0", "1970-01-01T00:00:00Z"},
		{"1700000000", "2023-11-14T22:13:20Z"},
		{"1700000000.5", "2023-11-14T22:13:20.5Z"},
		{"1700000000.1234567", "2023-11-14T22:13:20.123456Z"},
		{"1.7e9", "2023-11-14T22:13:20Z"},
		{"17e8", "2023-11-14T22:13:20Z"},
		{"1700000000123", "2023-11-14T22:13:20.123Z"},
		{"1700000000123.4567", "2023-11-14T22:13:20.123456Z"},
		{"1700000000123456", "2023-11-14T22:13:20.123456Z"},
		{"1700000000123456789", "2023-11-14T22:13:20.123456Z"},
		{"99999999999", "5138-11-16T09:46:39Z"},
		{"100000000000", "1973-03-03T09:46:40Z"},
		{"-1", "1969-12-31T23:59:59Z"},
		{"-0.0000001", "1969-12-31T23:59:59.999999Z"},
		{"-1700000000123456789", "1916-02-18T01:46:39.876543Z"},
		{"9223372036854775807", "2262-04-11T23:47:16.854775Z"},
		{"1e-400", "1970-01-01T00:00:00Z"},
		{"253402300799999999999", "9999-12-31T23:59:59.999999Z"},
	} {
		got, err := ParseEpoch([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if s := string(FormatTimestamp(nil, got)); s != c.want {
			t.Errorf("%s is %s, want %s", c.text, s, c.want)
		}
	}
	for _, text := range []string{"", "x", "1e400", "1e1000000000", "-99999999999", "253402300800000000000", "-99999999999999999999999", "1.", "01"} {
		if got, err := ParseEpoch([]byte(text)); err == nil {
			t.Errorf("%s was read as %s", text, FormatTimestamp(nil, got))
		}
	}
}

func TestCalendarAgreesWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		us := rapid.Int64Range(MinTimestamp, MaxTimestamp).Draw(t, "micros")
		want := time.UnixMicro(us).UTC().Format(time.RFC3339Nano)
		got := string(FormatTimestamp(nil, us))
		if got != want {
			t.Fatalf("%d is %s, want %s", us, got, want)
		}
		back, err := ParseTime([]byte(got))
		if err != nil || back != us {
			t.Fatalf("%s came back as %d, %v", got, back, err)
		}
		y, m, d := CivilDate(floorDiv(us, MicrosPerDay))
		if DaysOf(y, m, d) != floorDiv(us, MicrosPerDay) {
			t.Fatalf("%d-%d-%d does not come back", y, m, d)
		}
	})
}

func FuzzParseTimeNeverPanics(f *testing.F) {
	for _, s := range []string{"2024-01-01T12:00:00Z", "2001/01/01 00:47", "1e9", "2024-01-01T12:00:00.123+05:30"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (int64, error){ParseTime, ParseEpoch} {
			if us, err := parse(b); err == nil && (us < MinTimestamp || us > MaxTimestamp) {
				t.Fatalf("%q gave %d", b, us)
			}
		}
	})
}
