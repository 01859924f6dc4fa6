package httpapi

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/row"
)

// While a column is made and widened, requests of both kinds share commits; each batch says the
// truth in the types that it has.
func TestColumnsWidenWhileRequestsAreInFlight(t *testing.T) {
	t.Parallel()
	s := start(t, vfs.NewMem())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 40 {
				n := fmt.Sprint(i)
				if i > 20 && g%2 == 0 {
					n += ".5"
				}
				body := fmt.Sprintf(`[{"g":%d,"n":%s},{"g":%d,"n":%d,"o":{"m%d":1}}]`, g, n, g, i, i%5)
				if status, m, _ := s.call("POST", "/v1/streams/s/events", body); status != 200 || m["accepted"] != 2.0 {
					t.Errorf("%s: %d %v", body, status, m)
				}
			}
		})
	}
	wg.Wait()
	st, err := s.reg.Get("s")
	if err != nil {
		t.Fatal(err)
	}
	n, o := st.Schema.Column("n"), st.Schema.Column("o")
	if st.Schema.Fields[n].Type.Kind != row.Double || len(st.Schema.Fields[o].Type.Fields) != 5 {
		t.Errorf("the columns are %v", st.Schema.Fields)
	}
	seen := 0
	for from := s.stats("s").Partitions[0].First; from < s.stats("s").Partitions[0].Next; {
		batches, err := s.log.Slice(st.ID, 0, from, 100)
		if err != nil || len(batches) == 0 {
			t.Fatal(batches, err)
		}
		for _, b := range batches {
			for i := range b.Len {
				var raw struct {
					N json.Number
					O map[string]int
				}
				if err := json.Unmarshal(b.Raw(i), &raw); err != nil {
					t.Fatal(err)
				}
				if got := string(row.AppendJSON(nil, b.Columns[n], i)); got != raw.N.String() {
					t.Fatalf("%s: n is %s", b.Raw(i), got)
				}
				for name := range raw.O {
					var o2 map[string]*int
					if err := json.Unmarshal(row.AppendJSON(nil, b.Columns[o], i), &o2); err != nil || o2[name] == nil {
						t.Fatalf("%s: o is %v, %v", b.Raw(i), o2, err)
					}
				}
				seen++
			}
			from = b.Base
			for range b.Len {
				from++
			}
		}
	}
	if seen != 640 {
		t.Errorf("%d events", seen)
	}
}
