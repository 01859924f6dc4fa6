package fate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"tidemark/stream"
	"tidemark/windows/judge"
	"tidemark/windows/runtime/viewtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// I1: whatever blocks and checkpoints there are, an account is the one of a replay in one go.
func TestAccountsDoNotDependOnBlocks(t *testing.T) {
	t.Parallel()
	w := viewtest.New(t)
	st := w.Stream("checkouts", `{"time_field":"ts","columns":{"ts":"TIMESTAMP","country":"VARCHAR","amount":"BIGINT"},"max_out_of_orderness":"5s","idle_timeout":"0s"}`)
	w.View("revenue", `{"sql":"SELECT window_start, country, sum(amount) AS revenue, count(*) AS n FROM tumble(checkouts, ts, INTERVAL '1 minute') GROUP BY ALL","allowed_lateness":"1m"}`)
	random := rand.New(rand.NewPCG(3, 4))
	second, sent := 0, 0
	var last string
	for sent < 300 {
		var events []string
		for range 1 + random.IntN(4) {
			second += random.IntN(12)
			at := max(0, second-random.IntN(3)*random.IntN(100))
			events = append(events, fmt.Sprintf(`{"ts":"2024-01-01T%02d:%02d:%02dZ","country":"DE","amount":1}`, 12+at/3600, at/60%60, at%60))
		}
		sent += len(events)
		last = w.Post("checkouts", 0, events...)
	}
	w.Until("revenue", last)
	proof, err := w.Views.Proof("revenue")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := newReplay(proof, w.Log, nil)
	if err != nil {
		t.Fatal(err)
	}
	small, err := newReplay(proof, w.Log, nil)
	if err != nil {
		t.Fatal(err)
	}
	small.blockEvents = 8
	outcomes := map[judge.Outcome]int{}
	for _, o := range random.Perm(sent) {
		batches, err := w.Log.Slice(st.ID, 0, stream.Offset(o), 1)
		if err != nil || len(batches) == 0 {
			t.Fatal(err)
		}
		ev := judge.Event{Stream: st.ID, Place: stream.Place{Offset: stream.Offset(o)}}
		want, err := whole.account(t.Context(), ev, batches[0].Sequence)
		if err != nil {
			t.Fatal(err)
		}
		got, err := small.account(t.Context(), ev, batches[0].Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("offset %d: −whole +in blocks\n%s", o, diff)
		}
		outcomes[got.Outcome]++
	}
	if outcomes[judge.Refused] == 0 || outcomes[judge.Counted] == 0 {
		t.Errorf("outcomes %v", outcomes)
	}
	if len(whole.points) != 2 || len(small.points) > maxCheckpoints+1 || len(small.points) < 10 || len(small.blocks) > maxBlocks {
		t.Errorf("%d and %d checkpoints, %d blocks", len(whole.points), len(small.points), len(small.blocks))
	}
}
