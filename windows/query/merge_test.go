package query

import (
	"fmt"
	"testing"
)

func TestOnlySumsCountsAndExtremesMayBePutTogether(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"SELECT window_start, country, sum(amount) AS revenue FROM tumble(checkouts, ts, INTERVAL '5 minutes') GROUP BY ALL":                                       `["" "" "sum"]`,
		"SELECT country, count(*), sum(items), avg(amount) FILTER (WHERE paid) FROM checkouts WHERE amount BETWEEN 1 AND 100 GROUP BY country HAVING count(*) > 1": `["" "" "" ""]`, // groups are missing
		"SELECT id FROM hop(checkouts, ts, INTERVAL '1 minute', INTERVAL '2 minutes') QUALIFY row_number() OVER (PARTITION BY country ORDER BY amount) <= 2":       `[""]`,
	} {
		p, err := Compile(parserKept.parse, shop(), sql, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%q", p.Merges()); got != want {
			t.Errorf("%s\nmerges %s, want %s", sql, got, want)
		}
	}
}
