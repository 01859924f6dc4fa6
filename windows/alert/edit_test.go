package alert_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidemark/storage/kv"
	"tidemark/windows/alert"
	"tidemark/windows/runtime/viewtest"
)

// served waits until a version of an alert is served.
func served(w *viewtest.World, name string, version int) {
	w.T.Helper()
	changed, stop, err := w.Views.Watch(name)
	if err != nil {
		w.T.Fatal(err)
	}
	defer stop()
	for {
		info, err := w.Views.Get(name)
		if err != nil {
			w.T.Fatal(err)
		}
		if info.AsOf.ViewVersion == version && !info.Rebuilding {
			return
		}
		select {
		case <-changed:
		case <-time.After(viewtest.Patience):
			w.T.Fatalf("version %d does not come: %+v", version, info)
		}
	}
}

// A1: an alarm that an edit of its rule leaves standing, changes or takes back keeps the id under
// which it fired, over crashes and further edits; what fires anew is of the new version.
func TestAlarmsKeepTheirIDsWhenTheRuleIsEdited(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	late := func(drop bool) string {
		if drop {
			return strings.Replace(often, `"throttle"`, `"late":"drop","throttle"`, 1)
		}
		return strings.Replace(often, `"throttle"`, `"allowed_lateness":"1h","throttle"`, 1)
	}
	w.Alert("often", late(true))
	w.Until("often", w.Post("payments", 0, pay("12:00:01", "a", 1), pay("12:00:02", "a", 1), pay("12:00:03", "b", 1), pay("12:00:04", "c", 1), pay("12:00:05", "c", 1)))
	w.Until("often", w.Advance("payments", "12:01"))
	w.Until("often", w.Post("payments", 0, pay("12:00:40", "a", 1), pay("12:00:41", "b", 1))) // late
	w.Alert("often", late(false))
	served(w, "often", 2)
	w.Crash()
	w.Until("often", w.Post("payments", 0, pay("12:00:42", "c", 1))) // c stood through the edit
	w.Alert("often", late(true))
	served(w, "often", 3)
	w.Crash()

	page, err := w.Alerts.Log("often", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	standing := map[string]string{} // by id
	var got []string
	for _, a := range page.Items {
		got = append(got, fmt.Sprintf("%s %s of version %d", a.Op, a.Title, a.RuleVersion))
		if _, there := standing[a.AlertID]; there == (a.Op == alert.Fire) {
			t.Errorf("%s %s: %s, and it stands: %v", a.Op, a.Title, a.AlertID, there)
		}
		standing[a.AlertID] = a.Title
		if a.Op == alert.Withdraw {
			delete(standing, a.AlertID)
		}
	}
	want := []string{
		"fire card a: 2 payments of version 1", "fire card c: 2 payments of version 1",
		"update card a: 3 payments of version 1", "fire card b: 2 payments of version 2",
		"update card c: 3 payments of version 1",
		"update card a: 2 payments of version 1", "withdraw card b: 2 payments of version 2", "update card c: 2 payments of version 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(standing) != 2 {
		t.Errorf("standing are %v", standing)
	}
	if err := w.Views.DeleteKind(t.Context(), "alert", "often"); err != nil {
		t.Fatal(err)
	}
	it := w.KV.Iter([]byte{byte(kv.AlertRules)}, []byte{byte(kv.AlertRules) + 1})
	if it.First() {
		t.Errorf("%q is left", it.Key())
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
}

// A1: an edit that gives other columns takes back what stands, in the words it fired with, and fires anew.
func TestAnEditWithOtherColumnsTakesBackWhatStoodAndFiresAnew(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	w.Stream("payments", payments)
	w.Alert("often", often)
	w.Until("often", w.Post("payments", 0, pay("12:00:01", "a", 1), pay("12:00:02", "a", 1), pay("12:00:03", "b", 5), pay("12:00:04", "b", 1)))
	w.Alert("often", strings.NewReplacer("count(*) AS n", "sum(amount) AS total", "{n} payments", "{total} in a minute").Replace(often))
	served(w, "often", 2)
	w.Until("often", w.Post("payments", 0, pay("12:00:05", "a", 7)))
	w.Crash()
	w.Until("often", w.Post("payments", 0, pay("12:00:06", "b", 7)))
	page, err := w.Alerts.Log("often", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ids := map[string]string{}
	for _, a := range page.Items {
		got = append(got, fmt.Sprintf("%s %s of version %d", a.Op, a.Title, a.RuleVersion))
		who := a.Title[:len("card a")] + fmt.Sprint(a.RuleVersion)
		if ids[who] == "" {
			ids[who] = a.AlertID
		}
		if ids[who] != a.AlertID {
			t.Errorf("%s has another id at %s", who, a.Op)
		}
	}
	want := []string{
		"fire card a: 2 payments of version 1", "fire card b: 2 payments of version 1",
		"withdraw card a: 2 payments of version 1", "withdraw card b: 2 payments of version 1",
		"fire card a: 2 in a minute of version 2", "fire card b: 6 in a minute of version 2",
		"update card a: 9 in a minute of version 2", "update card b: 13 in a minute of version 2",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
