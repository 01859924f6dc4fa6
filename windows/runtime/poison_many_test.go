package runtime_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// fragileSQL fails for a text that is no number, and overflows for a number that is too large.
const fragileSQL = "SELECT window_start, count(*) AS n, sum(CAST(k AS INTEGER)) AS total, max(v * 2) AS twice FROM tumble(loads, ts, INTERVAL '1 minute') GROUP BY ALL"

// Ten thousand events, three of them poison: one fails a cast, one overflows, one brings out a
// mistake in an operator. The view stays live, and all others count. The process ends while the
// event that panics is looked for; the view that comes up after it says the same.
func TestThreePoisonsInTenThousandEventsHarmThemselvesAlone(t *testing.T) { // E1, E2
	t.Parallel()
	const events, batch = 10_000, 500
	poison := map[int]string{1_234: "no number", 5_678: "too large", 8_765: "PANIC"}

	var mu sync.Mutex
	met := 0
	retrying, goOn := make(chan struct{}), make(chan struct{})
	w := viewtest.New(t, func(w *viewtest.World) {
		w.Setup = func(s *runtime.Service) {
			runtime.PanicAt(s, func(b *stream.Batch, i int) bool {
				if !strings.Contains(string(b.Raw(i)), "PANIC") {
					return false
				}
				mu.Lock()
				met++
				second := met == 2
				mu.Unlock()
				if second { // the epoch is run again: here the process ends
					close(retrying)
					<-goOn
				}
				return true
			}, nil)
		}
	})
	w.Stream("loads", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","k":"VARCHAR","v":"BIGINT"}}`)
	w.View("fragile", fmt.Sprintf(`{"sql":%q,"throttle":"0s","max_out_of_orderness":"0s"}`, fragileSQL))

	var receipt string
	post := func(from, to int) {
		for ; from < to; from += batch {
			var list []string
			for n := from; n < from+batch; n++ {
				e := fmt.Sprintf(`{"ts":"12:%02d:%02d","k":"%d","v":%d}`, n/600, n/10%60, n%7, n)
				switch poison[n] {
				case "no number":
					e = strings.Replace(e, `"k":"`, `"k":"x`, 1)
				case "too large":
					e = e[:strings.LastIndexByte(e, ':')+1] + "9223372036854775807}"
				case "PANIC":
					e = e[:len(e)-1] + `,"note":"PANIC"}`
				}
				list = append(list, e)
			}
			receipt = w.Post("loads", 0, list...)
		}
	}
	post(0, events-batch)
	<-retrying
	w.Crash(func() { close(goOn) })
	post(events-batch, events)
	w.Until("fragile", receipt)

	var n, total, twice int64 // of the last minute that is final, and in all
	for i := range events {
		if poison[i] == "" {
			n, total, twice = n+1, total+int64(i%7), int64(i)*2
		}
	}
	check := func() {
		t.Helper()
		info, err := w.Views.Get("fragile")
		if err != nil || info.State != runtime.Live || info.LagEvents != 0 || info.Counts.RowErrors != 3 || info.Counts.Events != events {
			t.Fatalf("%+v, %v", info, err)
		}
		page, err := w.Views.Errors("fragile", "", 0)
		if err != nil || len(page.Items) != 3 {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, e := range page.Items {
			if poison[int(e.Offset)] == "" || (poison[int(e.Offset)] == "PANIC") != (e.Code == "internal") {
				t.Errorf("row error %+v", e)
			}
		}
		s, err := w.Views.Snapshot("fragile")
		if err != nil {
			t.Fatal(err)
		}
		var gotN, gotTotal, gotTwice int64
		for i := range s.Rows.Len {
			gotN += s.Rows.Cols[1].I64[i]
			gotTotal += number(t, s.Rows.Cols[2], i)
			gotTwice = max(gotTwice, s.Rows.Cols[3].I64[i])
			if last := i == s.Rows.Len-1; (s.Status[i] == windows.Final) == last {
				t.Errorf("minute %d is %s", i, s.Status[i])
			}
		}
		if gotN != n || gotTotal != total || gotTwice != twice {
			t.Errorf("n %d, total %d, twice %d; want %d, %d, %d", gotN, gotTotal, gotTwice, n, total, twice)
		}
	}
	check()
	w.Crash()
	check()
}

func number(t *testing.T, v *row.Vector, i int) int64 {
	t.Helper()
	if v.Type.Class() == row.Int128Class {
		return v.I128[i].Int64()
	}
	return v.I64[i]
}
