package query

import (
	"fmt"
	"strconv"
	"strings"

	"tidemark/windows"
)

// zonedSQL is tumble in a time zone as plain SQL (Z2). Besides the holes of windowSQL it reads
// __zone, the offsets of the zone with the instants between which they hold: DuckDB has no
// time zones here. The windows that events may lie in are worked out first, each once: those of the
// days that the local clock shows, and the next ones, because a clock that is put back over
// midnight shows the old day again after the new one has begun.
func zonedSQL(hidden []string) string {
	const size = "CAST(__size AS INTERVAL)"
	instant := func(local string) string { // the first at which the clock shows local or later
		return "make_timestamp((SELECT min(greatest(__tm_from, epoch_us(" + local + ") - __tm_offset)) FROM __zone WHERE __tm_to + __tm_offset > epoch_us(" + local + ")))"
	}
	local := "SELECT time_bucket(" + size + ", make_timestamp(epoch_us(__tm_time) + __tm_offset)) AS __tm_day FROM (SELECT __time AS __tm_time FROM __input) AS __tm_i, __zone " +
		"WHERE epoch_us(__tm_time) >= __tm_from AND epoch_us(__tm_time) < __tm_to"
	days := "SELECT DISTINCT unnest([__tm_day, __tm_day + " + size + "]) AS __tm_day FROM (" + local + ") AS __tm_d"
	bounds := "SELECT " + instant("__tm_day") + " AS __tm_start, " + instant("__tm_day + "+size) + " AS __tm_end FROM (" + days + ") AS __tm_days"
	return "SELECT " + starWithout(hidden, "__tm_time", "__tm_start", "__tm_end") + ", __tm_start AS window_start, __tm_end AS window_end " +
		"FROM (SELECT *, __time AS __tm_time FROM __input) AS __tm_e, (" + bounds + ") AS __tm_w WHERE __tm_time >= __tm_start AND __tm_time < __tm_end"
}

// withZone fills in __zone.
func (r *rewriter) withZone(v any, z *windows.Zone) any {
	statement := parse(r.parser, offsetsSQL(z))
	node, _ := statement["node"].(object)
	return substitute(v, "__zone", node["from_table"])
}

// offsetsSQL is a query whose FROM holds the offsets of a zone, in three lists: as VALUES they would
// be thousands of nodes.
func offsetsSQL(z *windows.Zone) string {
	const first, last = -1 << 60, 1 << 60 // more than the years 1 to 9999
	var from, to, offset []string
	z.Offsets(func(at, by windows.Micros) {
		at = max(at, first)
		if len(from) > 0 {
			to = append(to, strconv.FormatInt(at, 10))
		}
		from, offset = append(from, strconv.FormatInt(at, 10)), append(offset, strconv.FormatInt(by, 10))
	})
	to = append(to, strconv.FormatInt(last, 10))
	column := func(list []string, name string) string {
		return fmt.Sprintf("CAST(unnest(string_split('%s', ',')) AS BIGINT) AS %s", strings.Join(list, ","), name)
	}
	return "SELECT * FROM (SELECT " + column(from, "__tm_from") + ", " + column(to, "__tm_to") + ", " + column(offset, "__tm_offset") + ") AS __tm_z"
}

// substitute puts a table in the place of those with a name.
func substitute(v any, name string, table any) any {
	switch v := v.(type) {
	case object:
		if v["type"] == "BASE_TABLE" && v["table_name"] == name {
			return copied(table)
		}
		for k, m := range v {
			v[k] = substitute(m, name, table)
		}
	case []any:
		for i, m := range v {
			v[i] = substitute(m, name, table)
		}
	}
	return v
}
