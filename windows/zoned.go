package windows

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // zones are the same on every machine
)

// Zone is a time zone as a table of its offsets. Engine and batch answer use the same table, so
// they agree by construction, also where a calendar is a matter of opinion: the table reaches from
// 1800 to 2200, and what lies outside has its first or last offset.
type Zone struct {
	name string
	// from are the instants at which an offset begins, ascending; the first is the beginning of time.
	from   []Micros
	offset []Micros
}

const (
	firstZoned = 1800
	lastZoned  = 2200
)

var zones sync.Map // by name

// LoadZone finds a zone by its name in the time zone database, such as Europe/Berlin.
func LoadZone(name string) (*Zone, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*Zone), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("there is no time zone %q", name)
	}
	offset := func(t Micros) Micros {
		_, seconds := time.UnixMicro(t).In(loc).Zone()
		return Micros(seconds) * MicrosPerSecond
	}
	begin := time.Date(firstZoned, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	end := time.Date(lastZoned, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	z := &Zone{name: name, from: []Micros{math.MinInt64}, offset: []Micros{offset(begin)}}
	for t := begin; t < end; t += MicrosPerDay {
		was, is := z.offset[len(z.offset)-1], offset(t+MicrosPerDay)
		if is == was {
			continue
		}
		seconds := sort.Search(int(MicrosPerDay/MicrosPerSecond), func(n int) bool { return offset(t+Micros(n)*MicrosPerSecond) != was })
		z.from, z.offset = append(z.from, t+Micros(seconds)*MicrosPerSecond), append(z.offset, is)
	}
	zones.Store(name, z)
	return z, nil
}

// Name is the zone's name in the time zone database.
func (z *Zone) Name() string { return z.name }

// Offsets calls f with each offset of the zone and the instant from which it holds; the first holds
// from the beginning of time.
func (z *Zone) Offsets(f func(from, offset Micros)) {
	for i := range z.from {
		f(z.from[i], z.offset[i])
	}
}

// Local is what the zone's clock shows at an instant, as if it were UTC.
func (z *Zone) Local(t Micros) Micros {
	i, found := slices.BinarySearch(z.from, t)
	if !found {
		i--
	}
	return t + z.offset[i]
}

// Instant is the first instant at which the zone's clock shows local or later: where the clock skips
// local, the instant of the skip; where it shows it twice, the first.
func (z *Zone) Instant(local Micros) Micros {
	for i, o := range z.offset {
		if i+1 == len(z.from) || local < z.from[i+1]+o {
			return max(z.from[i], local-o)
		}
	}
	return local
}

// Window is the calendar window of a size that holds t: it begins at the first instant of its first
// day and ends at that of the next window's (Z1). The size is whole days or months.
func (z *Zone) Window(size Interval, t Micros) (start, end Micros) {
	local := size.Bucket(z.Local(t))
	for {
		next := size.Add(local)
		if end = z.Instant(next); t < end {
			return z.Instant(local), end
		}
		local = next // midnight came, and then the clock went back over it
	}
}
