package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

const checkouts = `{"time_field":"ts","columns":{"ts":"TIMESTAMP","country":"VARCHAR","amount":"BIGINT"},"max_out_of_orderness":"5s","idle_timeout":"0s"}`

const revenue = "SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL"

func sale(at, country string, amount int) string {
	return fmt.Sprintf(`{"ts":%q,"country":%q,"amount":%d}`, at, country, amount)
}

func diff(t *testing.T, got, want string) {
	t.Helper()
	clean := func(s string) string {
		var lines []string
		for _, l := range strings.Split(s, "\n") {
			if l = strings.TrimSpace(l); l != "" {
				lines = append(lines, l)
			}
		}
		return strings.Join(lines, "\n")
	}
	if d := cmp.Diff(clean(want), clean(got)); d != "" {
		t.Fatalf("want −, got +:\n%s", d)
	}
}

// problemOf is the status and code of an error.
func problemOf(err error) string {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%d %s", p.Status, p.Code)
}

func TestTumbleFromProvisionalToCorrected(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}`)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:01:30", "DE", 7)))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:50", "DE", 2)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		corrected 2 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":7,"n":2}
		provisional 0 {"window_start":"2024-01-01T12:01:00Z","country":"DE","revenue":7,"n":1}`)
	diff(t, w.Changes("revenue", stream.Position{}), `
		--
		+ {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1} provisional 0
		--
		- {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}  0
		+ {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1} final 1
		+ {"window_start":"2024-01-01T12:01:00Z","country":"DE","revenue":7,"n":1} provisional 0
		--
		- {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1} corrected 2
		+ {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":7,"n":2} corrected 2`)
	info, err := w.Views.Get("revenue")
	if err != nil {
		t.Fatal(err)
	}
	if info.State != runtime.Live || info.LagEvents != 0 || info.Counts.LateCorrected != 1 || info.Counts.Events != 3 {
		t.Fatalf("state %s, lag %d, counts %+v", info.State, info.LagEvents, info.Counts)
	}
	diff(t, w.Rows("revenue", runtime.RowsQuery{Final: true}), `
		corrected 2 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":7,"n":2}`)
}

func TestPassThroughKeepsEveryEvent(t *testing.T) { // C1
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("large", "SELECT country, amount FROM checkouts WHERE amount > 3")
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:10", "DE", 5), sale("12:00:11", "FR", 1)))
	diff(t, w.Rows("large", runtime.RowsQuery{}), `
		final 1 {"country":"DE","amount":5}
		final 1 {"country":"DE","amount":5}`)
}

func TestAggregateWithoutGroupByHasOneRowFromTheBeginning(t *testing.T) { // N1
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("total", "SELECT count(*) AS n, sum(amount) AS s FROM checkouts")
	changed, stop, err := w.Views.Watch("total")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for w.Rows("total", runtime.RowsQuery{}) == "" {
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			t.Fatal("the row does not come")
		}
	}
	diff(t, w.Rows("total", runtime.RowsQuery{}), `provisional 0 {"n":0,"s":null}`)
	w.Until("total", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	w.Reopen()
	diff(t, w.Rows("total", runtime.RowsQuery{}), `provisional 0 {"n":1,"s":5}`)
	diff(t, w.Changes("total", stream.Position{}), `
		--
		+ {"n":0,"s":null} provisional 0
		--
		- {"n":0,"s":null}  0
		+ {"n":1,"s":5} provisional 0`)
}

func TestRowsAreSelectedOrderedAndPaged(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("large", "SELECT country, amount FROM checkouts WHERE amount > 3")
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:10", "FR", 9), sale("12:00:10", "IT", 7),
		`{"ts":"12:00:11","amount":7}`, sale("12:00:11", "ES", 4)))
	q := runtime.RowsQuery{Where: "amount <> 9", Order: "amount DESC, country", Limit: 2}
	diff(t, w.Rows("large", q), `
		final 1 {"country":"IT","amount":7}
		final 1 {"country":null,"amount":7}`)
	page, err := w.Views.Rows(t.Context(), "large", q)
	if err != nil {
		t.Fatal(err)
	}
	q.Cursor = page.Next
	diff(t, w.Rows("large", q), `
		final 1 {"country":"DE","amount":5}
		final 1 {"country":"ES","amount":4}`)
	if page, err = w.Views.Rows(t.Context(), "large", q); err != nil || page.Next != "" {
		t.Fatalf("next %q, err %v: there is no third page", page.Next, err)
	}
	q.Order = ""
	if _, err = w.Views.Rows(t.Context(), "large", q); problemOf(err) != "400 bad_cursor" {
		t.Fatalf("a cursor of another question: %v", err)
	}
}

func TestSameDefinitionAgainChangesNothing(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	first := w.View("revenue", revenue)
	d, err := runtime.ParseDefinition([]byte(fmt.Sprintf(`{"sql":%q,"throttle":"0s","late":"correct","allowed_lateness":"60m"}`, revenue)))
	if err != nil {
		t.Fatal(err)
	}
	again, created, err := w.Views.Put(t.Context(), "revenue", d, false)
	if err != nil || created || !again.Updated.Equal(first.Updated) || again.AsOf.ViewVersion != 1 {
		t.Fatalf("created %v, err %v, updated %v and %v", created, err, first.Updated, again.Updated)
	}
}

func TestDeleteRemembersNothing(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	if err := w.Registry.Delete(t.Context(), "checkouts"); problemOf(err) != "409 in_use" {
		t.Fatalf("a stream that is read was deleted: %v", err)
	}
	if err := w.Views.Delete(t.Context(), "revenue"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Views.Get("revenue"); problemOf(err) != "404 unknown_view" {
		t.Fatal(err)
	}
	if err := w.Registry.Delete(t.Context(), "checkouts"); err != nil {
		t.Fatal(err)
	}
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "FR", 1)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"FR","revenue":1,"n":1}`)
}

func TestPausedViewSaysThatItWillNotTakeEventsIn(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	if info, err := w.Views.Pause(t.Context(), "revenue"); err != nil || info.State != runtime.Paused {
		t.Fatal(info.State, err)
	}
	receipt := w.Post("checkouts", 0, sale("12:00:10", "DE", 5))
	_, err := w.Views.Rows(t.Context(), "revenue", runtime.RowsQuery{After: receipt, Wait: viewtest.Patience})
	if problemOf(err) != "409 view_paused" {
		t.Fatal(err)
	}
	w.Reopen()
	info, err := w.Views.Get("revenue")
	if err != nil || info.State != runtime.Paused || info.LagEvents != 1 {
		t.Fatalf("after a restart: state %s, lag %d, err %v", info.State, info.LagEvents, err)
	}
	if _, err = w.Views.Resume(t.Context(), "revenue"); err != nil {
		t.Fatal(err)
	}
	w.Until("revenue", receipt)
}

func TestReceiptOfAStreamThatTheViewDoesNotReadIsNoWait(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.Stream("other", checkouts)
	w.View("revenue", revenue)
	w.Post("checkouts", 0, sale("12:00:10", "DE", 5))
	receipt := w.Post("other", 0, sale("12:00:10", "DE", 5))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:11", "DE", 5)))
	w.Until("revenue", receipt)
	for range 20 { // also where nothing comes of what the view reads
		w.Until("revenue", w.Post("other", 0, sale("12:00:12", "DE", 5)))
	}
}

func TestAPositionOfAnotherLogIsAGap(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	var gap *runtime.Gap
	if _, err := w.Views.Changes("revenue", stream.Position{Log: w.Log.ID() + 1, Sequence: 1}); !errors.As(err, &gap) {
		t.Fatalf("another log: %v", err)
	}
	if _, err := w.Views.Changes("revenue", stream.Position{Log: w.Log.ID(), Sequence: w.Log.End() + 1}); !errors.As(err, &gap) {
		t.Fatalf("a place that the log has not reached: %v", err)
	}
}

func TestSnapshotAndWhatFollowsIsTheView(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	snap, err := w.Views.Snapshot("revenue")
	if err != nil || snap.Rows.Len != 1 {
		t.Fatal(snap, err)
	}
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:20", "DE", 1)))
	diff(t, w.Changes("revenue", snap.Position), `
		--
		- {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}  0
		+ {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":6,"n":2} provisional 0`)
}

func TestLateEventsAreKept(t *testing.T) { // L5
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", fmt.Sprintf(`{"sql":%q,"late":"drop","throttle":"0s"}`, revenue))
	w.Post("checkouts", 0, sale("12:05:00", "DE", 5))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:00", "FR", 1)))
	page, err := w.Views.LateEvents("revenue", 0, 10)
	if err != nil || len(page.Events) != 1 || page.End != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	e := page.Events[0]
	if e.Offset != 1 || *e.Watermark != "2024-01-01T12:04:55Z" || e.Outcome != "late_dropped" || !strings.Contains(string(e.Event), "FR") ||
		len(e.Windows) != 1 || *e.Windows[0].End != "2024-01-01T12:01:00Z" {
		t.Fatalf("%+v", e)
	}
	info, err := w.Views.Get("revenue")
	if err != nil || info.Counts.LateDropped != 1 {
		t.Fatalf("%+v, %v", info.Counts, err)
	}
}

func TestWatermarkNamesWhatHoldsItBack(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", strings.Replace(checkouts, "{", `{"partitions":2,`, 1))
	w.View("revenue", revenue)
	w.Post("checkouts", 0, sale("12:05:00", "DE", 5))
	w.Until("revenue", w.Post("checkouts", 1, sale("12:01:00", "DE", 5)))
	info, err := w.Views.WatermarkInfo("revenue")
	if err != nil || info.Watermark == nil || *info.Watermark != "2024-01-01T12:00:55Z" {
		t.Fatalf("%+v, %v", info, err)
	}
	if h := info.HeldBy; h == nil || h.Partition != 1 || *h.LastEvent.Time != "2024-01-01T12:01:00Z" {
		t.Fatalf("held by %+v", h)
	}
}

func TestRunReturnsWhenAllHasEnded(t *testing.T) { // P19
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	// The throttle is long: the event is in an epoch that is not committed when the server stops.
	w.View("slow", fmt.Sprintf(`{"sql":%q,"throttle":"1h"}`, revenue))
	w.Until("slow", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	w.Post("checkouts", 0, sale("12:00:11", "DE", 5))
	w.Reopen()
	diff(t, w.Rows("slow", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":10,"n":2}`)
}

func TestHostileDefinitionsAreRefused(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	for _, c := range []struct{ name, body, want string }{
		{"no SQL", `{}`, "422 bad_option"},
		{"no JSON", `{`, "400 bad_body"},
		{"two objects", `{} {}`, "400 bad_body"},
		{"unknown member", `{"sql":"SELECT 1","throtle":"1s"}`, "400 bad_body"},
		{"a duration that is none", `{"sql":"SELECT 1","throttle":"soon"}`, "422 bad_option"},
		{"drop that waits", `{"sql":"SELECT 1","late":"drop","allowed_lateness":"1h"}`, "422 bad_option"},
		{"late in other words", `{"sql":"SELECT 1","late":"maybe"}`, "422 bad_option"},
		{"emit in other words", `{"sql":"SELECT 1","emit":"all"}`, "422 bad_option"},
		{"too long", `{"sql":"` + strings.Repeat("x", 33<<10) + `"}`, "413 too_large"},
		{"start in other words", `{"sql":"SELECT 1","start":"soon"}`, "422 bad_option"},
		{"retention too short", `{"sql":"SELECT 1","retention":{"age":"1s"}}`, "422 bad_option"},
		{"retention by bytes", `{"sql":"SELECT 1","retention":{"bytes":"1GB"}}`, "400 bad_body"},
	} {
		d, err := runtime.ParseDefinition([]byte(c.body))
		if err == nil {
			_, _, err = w.Views.Put(context.Background(), "v", d, false)
		}
		if problemOf(err) != c.want {
			t.Errorf("%s: %v; want %s", c.name, err, c.want)
		}
	}
	d := runtime.Definition{SQL: revenue}
	for name, want := range map[string]string{"late_x": "400 bad_name", "Big": "400 bad_name", "checkouts": "409 name_taken"} {
		if _, _, err := w.Views.Put(t.Context(), name, d, false); problemOf(err) != want {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
	}
}

func TestStartLatestLeavesOutWhatWasThere(t *testing.T) { // R2
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.Post("checkouts", 0, sale("12:00:10", "DE", 5))
	w.View("revenue", fmt.Sprintf(`{"sql":%q,"start":"latest","throttle":"0s"}`, revenue))
	w.Crash()
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:20", "DE", 1), sale("12:01:20", "DE", 2)))
	want := `provisional 0 {"window_start":"2024-01-01T12:01:00Z","country":"DE","revenue":2,"n":1}`
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), want)
	w.Crash()
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:25", "DE", 1)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), want)
	info, err := w.Views.Get("revenue")
	if err != nil || info.Counts.Events != 3 || info.LagEvents != 0 || info.Counts.LateDropped+info.Counts.LatePartial+info.Counts.LateCorrected != 0 {
		t.Fatalf("%+v, %v", info, err)
	}
}

func TestStartAtAnInstantTakesWhatIsNotBeforeIt(t *testing.T) { // R2
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:01:40", "DE", 6))
	w.View("revenue", fmt.Sprintf(`{"sql":%q,"start":"2024-01-01 12:00:30","throttle":"0s"}`, revenue))
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:50", "DE", 1), sale("12:01:20", "DE", 2)))
	diff(t, w.Rows("revenue", runtime.RowsQuery{}), `
		provisional 0 {"window_start":"2024-01-01T12:01:00Z","country":"DE","revenue":8,"n":2}`)
}

func TestARowThatFailsIsListedAndOutsideTheView(t *testing.T) { // E1
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("huge", `{"sql":"SELECT country, amount * 9223372036854775807 AS x FROM checkouts","throttle":"0s"}`)
	w.Until("huge", w.Post("checkouts", 0, sale("12:00:10", "DE", 1), sale("12:00:10", "FR", 2), sale("12:00:10", "IT", 0), sale("12:00:11", "ES", 3)))
	diff(t, w.Rows("huge", runtime.RowsQuery{}), `
		final 1 {"country":"DE","x":9223372036854775807}
		final 1 {"country":"IT","x":0}`)
	w.Crash()
	page, err := w.Views.Errors("huge", "", 1)
	if err != nil || len(page.Items) != 1 || page.Items[0].Offset != 1 || page.Items[0].ViewVersion != 1 || page.Next == nil {
		t.Fatalf("%+v, %v", page, err)
	}
	if page, err = w.Views.Errors("huge", *page.Next, 1); err != nil || len(page.Items) != 1 || page.Items[0].Offset != 3 || page.Next != nil {
		t.Fatalf("%+v, %v", page, err)
	}
	if info, err := w.Views.Get("huge"); err != nil || info.Counts.RowErrors != 2 {
		t.Fatalf("%+v, %v", info.Counts, err)
	}
}

func TestRowsOfManyPagesAreEachThereOnce(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("all", `{"sql":"SELECT country, amount FROM checkouts","throttle":"0s"}`)
	const n = 9000
	var events []string
	for i := range n {
		events = append(events, sale("12:00:10", "DE", (i*7919)%n))
	}
	w.Until("all", w.Post("checkouts", 0, events...))
	for _, order := range []string{"", "amount DESC"} {
		seen := map[int64]bool{}
		last := int64(n)
		for q := (runtime.RowsQuery{Order: order, Limit: 700, Where: "amount <> 5"}); ; {
			page, err := w.Views.Rows(t.Context(), "all", q)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range page.Rows.Cols[1].I64 {
				if seen[x] || order != "" && x >= last {
					t.Fatalf("order %q: %d comes again, or behind %d", order, x, last)
				}
				seen[x], last = true, x
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		if len(seen) != n-1 {
			t.Fatalf("order %q: %d rows; want %d", order, len(seen), n-1)
		}
	}
}

func TestAnswersSayWhatTheyAreTheAnswerTo(t *testing.T) { // D9
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	w.View("revenue", revenue)
	w.Until("revenue", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	page, err := w.Views.Rows(t.Context(), "revenue", runtime.RowsQuery{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, strings.Replace(string(text), page.Position.String(), "P", 1), `{"columns":[{"name":"window_start","type":"TIMESTAMP"},{"name":"country","type":"VARCHAR"},`+
		`{"name":"revenue","type":"HUGEINT"},{"name":"n","type":"BIGINT"}],`+
		`"rows":[{"window_start":"2024-01-01T12:00:00Z","country":"DE","revenue":5,"n":1}],`+
		`"as_of":{"watermark":"2024-01-01T12:00:05Z","offsets":{"checkouts":[1]},"view_version":1},"position":"P","statuses":["provisional"],"next":null}`)
	info, err := w.Views.Get("revenue")
	if err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(info); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"name":"revenue"`, `"kind":"view"`, `"late":"correct"`, `"allowed_lateness":"1h"`, `"emit":"changes"`, `"throttle":"0s"`, `"epoch":"0s"`,
		`"start":"earliest"`, `"state":"live"`, `"watermark":"2024-01-01T12:00:05Z"`, `"lag_events":0`, `"lag_seconds":0`,
		`"events":1`, `"late_dropped":0`, `"row_errors":0`, `"plan":"`, `"warnings":[]`, `{"name":"revenue","type":"HUGEINT","measure":true,"merge":"sum"}`,
		`{"name":"country","type":"VARCHAR","measure":false}`, `"sources":["checkouts"]`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is missing in %s", part, text)
		}
	}
}

// N1: the row of an aggregate over nothing is there when the request that makes the view is answered.
func TestARowOverNothingIsThereFromTheViewsCreation(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("checkouts", checkouts)
	for n := range 20 {
		view := fmt.Sprint("totals", n)
		w.View(view, `SELECT count(*) AS n, sum(amount) AS s FROM checkouts`)
		diff(t, w.Rows(view, runtime.RowsQuery{}), `provisional 0 {"n":0,"s":null}`)
	}
	w.Crash()
	w.Until("totals3", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	diff(t, w.Changes("totals3", stream.Position{}), `
		--
		+ {"n":0,"s":null} provisional 0
		--
		- {"n":0,"s":null}  0
		+ {"n":1,"s":5} provisional 0`)
}
