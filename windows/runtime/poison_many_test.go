package runtime_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
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

const (
	fragileEvents = 10_000
	fragileBatch  = 500
)

// poisons are the events that do harm: one fails a cast, one overflows, one brings out a mistake in
// an operator.
var poisons = map[int]string{1_234: "no number", 5_678: "too large", 8_765: "PANIC"}

// fragile is a world with a view that is harmed; met is told of each time that the event which
// panics is come upon.
func fragile(t *testing.T, dir string, met func(times int)) *viewtest.World {
	var mu sync.Mutex
	times := 0
	return viewtest.New(t, func(w *viewtest.World) {
		w.Dir = dir
		w.Setup = func(s *runtime.Service) {
			runtime.PanicAt(s, func(b *stream.Batch, i int) bool {
				if !strings.Contains(string(b.Raw(i)), "PANIC") {
					return false
				}
				mu.Lock()
				times++
				n := times
				mu.Unlock()
				met(n)
				return true
			}, nil)
		}
	})
}

func makeFragile(w *viewtest.World) {
	w.Stream("loads", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","k":"VARCHAR","v":"BIGINT"}}`)
	w.View("fragile", fmt.Sprintf(`{"sql":%q,"throttle":"0s","max_out_of_orderness":"0s"}`, fragileSQL))
}

// postFragile posts events from … to−1 and returns the receipt of the last.
func postFragile(w *viewtest.World, from, to int) (receipt string) {
	for ; from < to; from += fragileBatch {
		var list []string
		for n := from; n < from+fragileBatch; n++ {
			e := fmt.Sprintf(`{"ts":"12:%02d:%02d","k":"%d","v":%d}`, n/600, n/10%60, n%7, n)
			switch poisons[n] {
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
	return receipt
}

// checkFragile finds the view live, the poisons listed, and all other events in its rows.
func checkFragile(w *viewtest.World) {
	t := w.T
	t.Helper()
	var n, total, twice int64
	for i := range fragileEvents {
		if poisons[i] == "" {
			n, total, twice = n+1, total+int64(i%7), int64(i)*2
		}
	}
	info, err := w.Views.Get("fragile")
	if err != nil || info.State != runtime.Live || info.LagEvents != 0 || info.Counts.RowErrors != 3 || info.Counts.Events != fragileEvents {
		t.Fatalf("%+v, %v", info, err)
	}
	page, err := w.Views.Errors("fragile", "", 0)
	if err != nil || len(page.Items) != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, e := range page.Items {
		if poisons[int(e.Offset)] == "" || (poisons[int(e.Offset)] == "PANIC") != (e.Code == "internal") {
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

// Ten thousand events, three of them poison. The view stays live, and all others count. The store is
// lost up to its last sync while the event that panics is looked for; the view that comes up after it
// says the same.
func TestThreePoisonsInTenThousandEventsHarmThemselvesAlone(t *testing.T) { // E1, E2
	t.Parallel()
	retrying, goOn := make(chan struct{}), make(chan struct{})
	w := fragile(t, "", func(times int) {
		if times == 2 { // the epoch is run again: here the process ends
			close(retrying)
			<-goOn
		}
	})
	makeFragile(w)
	postFragile(w, 0, fragileEvents-fragileBatch)
	<-retrying
	w.Crash(func() { close(goOn) })
	w.Until("fragile", postFragile(w, fragileEvents-fragileBatch, fragileEvents))
	checkFragile(w)
	w.Crash()
	checkFragile(w)
}

// killedIn names the directory in which a child of the test below works until it is killed.
const killedIn = "TIDEMARK_KILLED_IN"

// The same with a process of its own, which gets kill -9 while it looks for the event that panics.
func TestThreePoisonsSurviveKillNineDuringTheRetry(t *testing.T) { // E1, E2
	if dir := os.Getenv(killedIn); dir != "" {
		posted := make(chan struct{})
		w := fragile(t, dir, func(times int) {
			if times == 2 {
				<-posted
				fmt.Println("retrying")
				select {} // until the process is killed
			}
		})
		makeFragile(w)
		postFragile(w, 0, fragileEvents-fragileBatch)
		close(posted)
		select {}
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	child := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	child.Env = append(os.Environ(), killedIn+"="+dir)
	said, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	found := false
	for !found && lines.Scan() {
		found = strings.Contains(lines.Text(), "retrying")
	}
	if err := child.Process.Kill(); err != nil || !found {
		t.Fatal("the child ended before the retry: ", err)
	}
	_ = child.Wait() // it was killed

	w := fragile(t, dir, func(int) {})
	w.Until("fragile", postFragile(w, fragileEvents-fragileBatch, fragileEvents))
	checkFragile(w)
	w.Reopen()
	checkFragile(w)
}

func number(t testing.TB, v *row.Vector, i int) int64 {
	t.Helper()
	if v.Type.Class() == row.Int128Class {
		return v.I128[i].Int64()
	}
	return v.I64[i]
}
