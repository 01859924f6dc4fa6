package scenario

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"tidemark/windows/runtime/viewtest"
	"tidemark/windows/verify"
)

// TestVerifyIsEqualForEveryScenarioWhileEventsFlow asks verify itself of the view of every scenario,
// over the real runtime and the real log: while the second half of the events is appended, and when
// all are taken in.
func TestVerifyIsEqualForEveryScenarioWhileEventsFlow(t *testing.T) { // T1, R4
	t.Parallel()
	told := 0
	for _, file := range files(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "view") && !strings.Contains(string(text), "\nview") {
			continue // SQL that is refused
		}
		told++
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := newScript(t, file)
			s.run(string(text))
			s.verified()
		})
	}
	if told < 150 {
		t.Errorf("only %d scenarios have a view", told)
	}
}

// verified appends what the scenario sends to a real log and verifies the view on the way.
func (s *script) verified() {
	s.t.Helper()
	w := viewtest.New(s.t, func(w *viewtest.World) { w.Options.Parse = duck.ParseSQL })
	ids := s.declareIn(w)
	v := &verify.Verifier{Views: w.Views, Log: w.Log, Parse: duck.ParseSQL, FromAST: duck.SQLFromAST, Scratch: scratch}
	ask := func(when string) {
		res, err := v.Verify(s.t.Context(), "v", func(int64, int64) {})
		if err != nil {
			s.t.Errorf("%s: %v", when, err)
			return
		}
		if res.Result != verify.Equal && !s.untold(res) {
			text, _ := json.Marshal(res)
			s.t.Errorf("%s, %s\n%.3000s", when, s.sql, text)
		}
	}
	flowing := make(chan struct{})
	receipt := ""
	for i, e := range s.log {
		if i == len(s.log)/2 {
			go func() {
				defer close(flowing)
				ask("while events flow")
			}()
		}
		if r := s.appendTo(w, ids, e); r != "" {
			receipt = r
		}
	}
	<-flowing
	if receipt != "" {
		w.Until("v", receipt)
	}
	ask("at the end")
}

// untold reports whether a view is of those that verify can't tell (R4): two executions of a sketch
// may estimate differently.
func (s *script) untold(res *verify.Result) bool {
	return res.Result == verify.CannotTell && strings.Contains(res.Reason, "is a sketch")
}
