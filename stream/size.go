package stream

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes as users write it: "512MB", "20GB", or a plain number. Units are powers
// of 1024.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  float64
}{{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}, {"", 1}}

// ParseSize reads a size.
func ParseSize(text string) (Size, error) {
	t := strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(text), "iB", "B"))
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || !(n >= 1) || n*u.bytes > math.MaxInt64/2 {
			break
		}
		return Size(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%.40q is no size such as 512MB or 20GB", text)
}

// String is the size in the largest unit that has no fraction.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if unit := Size(u.bytes); s != 0 && s%unit == 0 {
			return strconv.FormatInt(int64(s/unit), 10) + u.suffix
		}
	}
	return "0B"
}

// MarshalJSON writes the size as a string.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads a string, or a number of bytes.
func (s *Size) UnmarshalJSON(text []byte) error {
	var v string
	if json.Unmarshal(text, &v) != nil {
		v = string(text)
	}
	n, err := ParseSize(v)
	*s = n
	return err
}
