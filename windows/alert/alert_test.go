package alert_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/windows/alert"
	"tidemark/windows/runtime/viewtest"
)

const payments = `{"time_field":"ts","columns":{"ts":"TIMESTAMP","card":"VARCHAR","amount":"BIGINT"},"max_out_of_orderness":"5s","idle_timeout":"0s"}`

const often = `{"sql":"SELECT window_end, card, count(*) AS n FROM tumble(payments, ts, INTERVAL '1 minute') GROUP BY ALL HAVING count(*) >= 2","title":"card {card}: {n} payments","severity":"critical","throttle":"0s"}`

func pay(at, card string, amount int) string {
	return fmt.Sprintf(`{"ts":%q,"card":%q,"amount":%d}`, at, card, amount)
}

// told is the log of an alert as text, without what differs from run to run.
func told(w *viewtest.World, name string) string {
	w.T.Helper()
	var b strings.Builder
	for after := ""; ; {
		page, err := w.Alerts.Log(name, after, 2)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, a := range page.Items {
			text, _ := json.Marshal(a.Evidence)
			fmt.Fprintf(&b, "%d %s %s rev %d: %s %s %s\n", a.Seq, a.AlertID[:6], a.Op, a.Revision, a.Title, *a.EventTime, text)
		}
		if page.Next == nil {
			return b.String()
		}
		after = *page.Next
	}
}

func problemOf(err error) string {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%d %s", p.Status, p.Code)
}

func TestAPaymentThatIsLargeFiresOnce(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100","title":"{card} paid {amount}"}`)
	w.Until("large", w.Post("payments", 0, pay("12:00:01", "a", 200), pay("12:00:02", "b", 5), pay("12:00:03", "a", 200)))
	page, err := w.Alerts.Log("large", "", 0)
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	a, b := page.Items[0], page.Items[1]
	if a.Op != alert.Fire || a.Revision != 1 || a.Severity != "warning" || a.Title != "a paid 200" || string(a.Row) != `{"card":"a","amount":200}` ||
		*a.EventTime != "2024-01-01T12:00:01Z" || a.Seq != 1 || b.Seq != 2 || a.AlertID == b.AlertID || a.Position != b.Position || a.RuleVersion != 1 {
		t.Fatalf("%+v\n%+v", a, b)
	}
	if d := cmp.Diff(map[string][][2]int64{"payments": {{0, 0}}}, a.Evidence); d != "" {
		t.Fatal(d)
	}
}

func story(w *viewtest.World, each func(receipt string)) {
	each(w.Post("payments", 0, pay("12:00:01", "a", 1)))
	each(w.Post("payments", 0, pay("12:00:02", "a", 1), pay("12:00:03", "b", 1)))
	each(w.Post("payments", 0, pay("12:00:30", "a", 1)))
	each(w.Advance("payments", "12:01"))
	each(w.Post("payments", 0, pay("12:00:40", "b", 1)))
	each(w.Post("payments", 0, pay("12:00:41", "a", 1)))
}

func TestFireUpdateAndNothingForAStatusAlone(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	w.Alert("often", often)
	story(w, func(receipt string) { w.Until("often", receipt) })
	var got strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(told(w, "often")), "\n") {
		f := strings.Fields(line)
		fmt.Fprintln(&got, f[0], strings.Join(f[2:8], " "))
	}
	if d := cmp.Diff(strings.TrimLeft(`
1 fire rev 0: card a: 2
2 update rev 0: card a: 3
3 fire rev 2: card b: 2
4 update rev 2: card a: 4
`, "\n"), got.String()); d != "" {
		t.Fatal(d)
	}
}

func TestP7ReplayAndCrashesMakeTheSameAlarms(t *testing.T) {
	t.Parallel()
	run := func(each func(w *viewtest.World, receipt string)) string {
		w := viewtest.New(t)
		w.Stream("payments", payments)
		w.Alert("often", often)
		story(w, func(receipt string) { w.Until("often", receipt); each(w, receipt) })
		return told(w, "often")
	}
	want := run(func(*viewtest.World, string) {})
	got := run(func(w *viewtest.World, _ string) { w.Crash() })
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("with crashes: %s", d)
	}
	// Made again, the rule gives out the same identities.
	w := viewtest.New(t)
	w.Stream("payments", payments)
	w.Alert("often", often)
	var last string
	story(w, func(receipt string) { last = receipt; w.Until("often", receipt) })
	ids := func() map[string]bool {
		out := map[string]bool{}
		page, err := w.Alerts.Log("often", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Items {
			out[a.AlertID] = true
		}
		return out
	}
	before := ids()
	if err := w.Alerts.Delete(t.Context(), "often"); err != nil {
		t.Fatal(err)
	}
	w.Alert("often", often)
	if page, err := w.Alerts.Log("often", "", 0); err != nil || len(page.Items) > 0 && page.Items[0].Seq != 1 {
		t.Fatalf("a new rule remembers: %+v, %v", page, err)
	}
	w.Until("often", last)
	if d := cmp.Diff(before, ids()); d != "" {
		t.Fatal(d)
	}
}

func TestLogBehindAPositionIsWholeEpochs(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100"}`)
	var positions []stream.Position
	for i := range 3 {
		var events []string
		for n := range 5 {
			events = append(events, pay("12:00:01", fmt.Sprint(i, n), 200))
		}
		w.Until("large", w.Post("payments", 0, events...))
		p, _, err := w.Views.Standing("large")
		if err != nil {
			t.Fatal(err)
		}
		positions = append(positions, p)
	}
	for _, c := range []struct {
		after stream.Position
		limit int
		first uint64
		n     int
	}{
		{stream.Position{}, 2, 1, 5},
		{positions[0], 100, 6, 10},
		{positions[0], 1, 6, 5},
		{positions[2], 1, 0, 0},
	} {
		got, err := w.Alerts.After("large", c.after, c.limit)
		if err != nil || len(got) != c.n || c.n > 0 && got[0].Seq != c.first {
			t.Errorf("after %v, limit %d: %d alarms, err %v; want %d from %d", c.after, c.limit, len(got), err, c.n, c.first)
		}
	}
	page, err := w.Alerts.Log("large", positions[1].String(), 0)
	if err != nil || len(page.Items) != 5 || page.Items[0].Seq != 11 {
		t.Fatalf("%+v, %v", page, err)
	}
}

func TestOtherWordsFireNothingAgain(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100"}`)
	w.Until("large", w.Post("payments", 0, pay("12:00:01", "a", 200)))
	info := w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100","title":"{card}!","severity":"info"}`)
	if info.AsOf.ViewVersion != 1 || info.Title != "{card}!" || info.LastSeq != 1 {
		t.Fatalf("%+v", info)
	}
	w.Until("large", w.Post("payments", 0, pay("12:00:02", "b", 200)))
	page, err := w.Alerts.Log("large", "", 0)
	if err != nil || len(page.Items) != 2 || page.Items[1].Title != "b!" {
		t.Fatalf("%+v, %v", page, err)
	}
}

func TestAcknowledgementsAreDurableAndNeverGoBack(t *testing.T) { // A3
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100"}`)
	at := func(s stream.Sequence) stream.Position { return stream.Position{Log: w.Log.ID(), Sequence: s} }
	if _, ok, err := w.Acks.Committed("large", "desk"); ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, s := range []stream.Sequence{3, 7, 5} {
		if err := w.Acks.Ack("large", "desk", at(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Acks.Ack("payments", "desk", at(2)); err != nil {
		t.Fatal(err)
	}
	w.Crash()
	if p, ok, err := w.Acks.Committed("large", "desk"); p != at(7) || !ok || err != nil {
		t.Fatal(p, ok, err)
	}
	if p, ok, err := w.Acks.Committed("payments", "desk"); p != at(2) || !ok || err != nil {
		t.Fatal(p, ok, err)
	}
	if err := w.Acks.Ack("large", "desk", stream.Position{Log: 1, Sequence: 9}); problemOf(err) != "410 position_gone" {
		t.Fatal(err)
	}
	if err := w.Acks.Ack("nobody", "desk", at(1)); problemOf(err) != "404 unknown_relation" {
		t.Fatal(err)
	}
	if err := w.Alerts.Delete(t.Context(), "large"); err != nil {
		t.Fatal(err)
	}
	w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100"}`)
	if _, ok, err := w.Acks.Committed("large", "desk"); ok || err != nil {
		t.Fatal("a new alert remembers the acknowledgements of an old one", err)
	}
}

func TestHostileDefinitionsAreRefused(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	const sql = `"sql":"SELECT card, amount FROM payments WHERE amount > 100"`
	for _, c := range []struct{ name, body, want string }{
		{"cooldown", `{` + sql + `,"cooldown":"5m"}`, "422 not_yet"},
		{"a title with a column that is not there", `{` + sql + `,"title":"{cvv}"}`, "422 unknown_column"},
		{"a long title", `{` + sql + `,"title":"` + strings.Repeat("x", 501) + `"}`, "422 bad_title"},
		{"a long severity", `{` + sql + `,"severity":"` + strings.Repeat("x", 33) + `"}`, "422 bad_severity"},
		{"unknown member", `{` + sql + `,"sevrity":"x"}`, "400 bad_body"},
	} {
		d, err := alert.ParseDefinition([]byte(c.body))
		if err == nil {
			_, _, err = w.Alerts.Put(t.Context(), "v", d, false)
		}
		if problemOf(err) != c.want {
			t.Errorf("%s: %v; want %s", c.name, err, c.want)
		}
	}
	if _, err := w.Alerts.Get("v"); problemOf(err) != "404 unknown_alert" {
		t.Fatal(err)
	}
}

func TestRebuildFiresNothingAgain(t *testing.T) { // C6
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	w.Alert("often", often)
	story(w, func(receipt string) { w.Until("often", receipt) })
	want := told(w, "often")
	changed, stop, err := w.Views.Watch("often")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	info, err := w.Views.Rebuild(t.Context(), "often")
	for err == nil && info.Rebuilding {
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			t.Fatal("the rebuild does not end")
		}
		info, err = w.Views.Get("often")
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, told(w, "often")); d != "" {
		t.Fatal(d)
	}
	w.Until("often", w.Post("payments", 0, pay("12:00:42", "b", 1)))
	if got := told(w, "often"); !strings.HasPrefix(got, want) || !strings.Contains(got, "5 ") {
		t.Fatalf("the next alarm does not follow: %s", got)
	}
}
