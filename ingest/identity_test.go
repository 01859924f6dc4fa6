package ingest

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"

	"tidemark/storage/problem"
	"tidemark/stream"
)

// I5: these values are stored in logs of users; a change breaks order per key and deduplication.
func TestPartitionAndIDHashNeverChange(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]stream.Partition{"": 1, "u-1": 2, "u-2": 6, "42": 1, "é": 0} {
		if got := partitionOf(key, 8); got != want {
			t.Errorf("%q goes to %d, want %d", key, got, want)
		}
	}
	for id, want := range map[string]string{
		`"e1"`:            "adc8ecf7ff48b93148c4f8bb1ad7c83a",
		`1`:               "3cfcc54cec9846162c2520e1909c8311",
		`{"b":1,"a":[2]}`: "b4bba757892c8ecdbb0aa8150ae01ec5",
	} {
		h, _ := idHash([]byte(id), nil)
		if got := hex.EncodeToString(h[:]); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
}

func TestIDsCompareAsJSONValues(t *testing.T) { // R5
	t.Parallel()
	equal := [][]string{
		{`1`, `1.0`, `10e-1`, `0.1e1`},
		{`0`, `-0`, `0.0e5`},
		{`"a"`, `"\u0061"`},
		{`9007199254740993`, `9007199254740993.0`},
		{`{"a":1,"b":[true,null]}`, `{ "b":[ true, null ], "a":1.0 }`},
	}
	hash := func(s string) stream.EventID {
		h, _ := idHash([]byte(s), nil)
		return h
	}
	for i, class := range equal {
		for _, s := range class {
			if hash(s) != hash(class[0]) {
				t.Errorf("%s and %s are two ids", s, class[0])
			}
			for j, other := range equal {
				if i != j && hash(s) == hash(other[0]) {
					t.Errorf("%s and %s are one id", s, other[0])
				}
			}
		}
	}
	for _, pair := range [][2]string{
		{`1`, `"1"`},
		{`9007199254740993`, `9007199254740992`},
		{`["a","b"]`, `["ab"]`},
		{`["a"]`, `"a"`},
		{`[1,2]`, `[12]`},
		{`true`, `"true"`},
		{`1e400`, `1e401`},
	} {
		if hash(pair[0]) == hash(pair[1]) {
			t.Errorf("%s and %s are one id", pair[0], pair[1])
		}
	}
}

func TestDuplicatesNameTheirOriginal(t *testing.T) { // 21
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{IDField: "id", Columns: columns("n", "BIGINT")})
	a := w.must("s", `[{"id":"a","n":1},{"id":"a","n":2},{"id":"b","n":"x"},{"id":"b","n":3},{"id":null},{},{"id":null}]`)
	if a.Accepted != 5 || a.Duplicates != 1 || a.DeadLetters != 1 {
		t.Fatalf("got %+v", a)
	}
	if e := a.Errors[0]; e.Index != 1 || e.Code != "duplicate" || *e.DuplicateOf != (stream.Place{}) {
		t.Errorf("got %+v", e)
	}
	a = w.must("s", `[{"n":"bad"},{"id":"b"}]`)
	if a.Accepted != 0 || a.Duplicates != 1 || *a.Errors[1].DuplicateOf != (stream.Place{Offset: 1}) || a.Errors[1].Index != 1 {
		t.Errorf("got %+v", a.Errors)
	}
}

func TestKeyDecidesThePartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{KeyField: "user", Partitions: 8, Columns: columns("user", "JSON")})
	w.must("s", `[{"user":"u-1"},{"user":"u-2"},{"user":42},{"user":"42"},{"user":{"a":1}},{"user":"\u0075-1"},{"user":null},{},{},{}]`)
	got := map[string]map[stream.Partition]bool{}
	for _, e := range w.events("s") {
		if got[e.key] == nil {
			got[e.key] = map[stream.Partition]bool{}
		}
		got[e.key][e.place.Partition] = true
	}
	for _, key := range []string{"u-1", "u-2", "42", `{"a":1}`} {
		if len(got[key]) != 1 || !got[key][partitionOf(key, 8)] {
			t.Errorf("key %s is in %v", key, got[key])
		}
	}
	if len(got["NULL"]) != 4 {
		t.Errorf("events without a key are in %v", got["NULL"]) // in turn
	}
}

func TestPartitionCanBeNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{KeyField: "user", Partitions: 3})
	post := func(p int) error {
		_, err := w.in.Post(context.Background(), Request{Stream: "s", Body: []byte(`[{"user":"a"},{"user":"b"}]`), Partition: &p})
		return err
	}
	if err := post(2); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.events("s") {
		if e.place.Partition != 2 || e.key == "NULL" {
			t.Errorf("%+v", e)
		}
	}
	for _, p := range []int{3, -1} {
		if pr := problem.From(post(p)); pr.Status != 422 {
			t.Errorf("partition %d: %v", p, pr)
		}
	}
}

func TestManyGroupsOfKeysAreExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("s", stream.Config{KeyField: "k"})
	body := ""
	for i := range 5000 {
		body += fmt.Sprintf("{\"k\":\"key-%d\",\"n\":%d}\n", i, i)
	}
	a, err := w.postLines("s", body)
	if err != nil || a.Accepted != 5000 {
		t.Fatal(a, err)
	}
	for i, e := range w.events("s") {
		if e.key != fmt.Sprintf("key-%d", i) || w.log.of(1).events[i].values[1] != fmt.Sprint(i) {
			t.Fatalf("event %d is %+v", i, e)
		}
	}
}
