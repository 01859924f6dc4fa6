package alert_test

import (
	"strings"
	"testing"

	"tidemark/storage/row"
	"tidemark/windows/runtime/viewtest"
)

// R1, C6: the event that widens a column fires like any other, once, and nothing fires again.
func TestTheEventThatWidensAColumnFires(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(w *viewtest.World){
		"at once": func(*viewtest.World) {}, "after a crash": func(w *viewtest.World) { w.Crash() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := viewtest.New(t)
			st := w.Stream("payments", `{"time_field":"ts","max_out_of_orderness":"5s","idle_timeout":"0s"}`)
			ensure := func(amount row.Kind) {
				var err error
				if st, err = w.Registry.EnsureColumns(t.Context(), st.ID, []row.Field{
					{Name: "card", Type: row.Scalar(row.Varchar)}, {Name: "amount", Type: row.Scalar(amount)},
				}); err != nil {
					t.Fatal(err)
				}
			}
			ensure(row.BigInt)
			w.Alert("large", `{"sql":"SELECT card, amount FROM payments WHERE amount > 100","title":"{card} paid {amount}"}`)
			w.Until("large", w.Post("payments", 0, pay("12:00:10", "a", 500), pay("12:00:11", "b", 5)))
			ensure(row.Double)
			w.Post("payments", 0, `{"ts":"12:00:12","card":"c","amount":500.5}`, `{"ts":"12:00:12","card":"d","amount":1}`)
			w.Post("payments", 0, `{"ts":"12:00:13","card":"e","amount":700}`)
			before(w)
			w.Until("large", w.Post("payments", 0, `{"ts":"12:00:14","card":"f","amount":0.5}`))
			page, err := w.Alerts.Log("large", "", 100)
			if err != nil {
				t.Fatal(err)
			}
			var titles []string
			for _, a := range page.Items {
				titles = append(titles, string(a.Op)+" "+a.Title)
			}
			if got := strings.Join(titles, ", "); got != "fire a paid 500, fire c paid 500.5, fire e paid 700.0" {
				t.Errorf("alarms: %s", got)
			}
		})
	}
}
