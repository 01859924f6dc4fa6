package stream

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a span as users write it: Go's text, and "d" for 24 hours, as in "7d" or "1d12h".
type Duration time.Duration

// ParseDuration reads a span. Signs are refused: every span in Tidemark is at least zero.
func ParseDuration(text string) (Duration, error) {
	rest, days := text, time.Duration(0)
	if head, tail, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseFloat(head, 64)
		if err != nil || !(n >= 0 && n <= 100_000) { // NaN neither
			return 0, badDuration(text)
		}
		days, rest = time.Duration(n*float64(24*time.Hour)), tail
		if rest == "" {
			return Duration(days), nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || strings.ContainsAny(rest, "+-") || days+d < days {
		return 0, badDuration(text)
	}
	return Duration(days + d), nil
}

func badDuration(text string) error {
	return fmt.Errorf("%.40q is not a duration such as \"5s\", \"1h30m\" or \"7d\"", text)
}

// String is the shortest text that ParseDuration reads back.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	const day = Duration(24 * time.Hour)
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Micros is the span in microseconds.
func (d Duration) Micros() Micros { return time.Duration(d).Microseconds() }

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return badDuration(string(text))
	}
	v, err := ParseDuration(s)
	*d = v
	return err
}
