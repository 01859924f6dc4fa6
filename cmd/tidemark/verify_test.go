package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"syscall"
	"testing"

	"tidemark/storage"
	"tidemark/storage/catalog"
	"tidemark/storage/kv"
)

// verdict is the answer of POST /v1/views/{name}/verify.
type verdict struct {
	Result          string
	Reason          string
	Rows            int
	Events          int
	Differences     []struct{ Live, Batch rowMap }
	LateDifferences []struct {
		Partition, Offset int
		Live, Batch       string
	} `json:"late_differences"`
	RowErrorDifferences []rowMap `json:"row_error_differences"`
	Sample              []struct{ Live, Batch rowMap }
}

func (s *server) verify(view string) verdict {
	s.t.Helper()
	s.settle(view)
	var v verdict
	s.must("POST", "/v1/views/"+view+"/verify?wait=55s", "", &v)
	return v
}

func (s *server) verifiedEqual(view string) {
	s.t.Helper()
	if v := s.verify(view); v.Result != "equal" {
		text, _ := json.Marshal(v)
		s.t.Errorf("view %s: %.2000s", view, text)
	}
}

// fruitViews are views of all kinds over the stream fruit.
var fruitViews = map[string]string{
	"fixed":    `{"sql":"SELECT window_start, fruit, count(*) AS n, sum(amount) AS total, avg(price) AS price FROM tumble(fruit, ts, INTERVAL '1 minute') GROUP BY ALL","allowed_lateness":"2m"}`,
	"strict":   `{"sql":"SELECT window_start, fruit, count(*) AS n FROM tumble(fruit, ts, INTERVAL '1 minute') GROUP BY ALL","late":"drop"}`,
	"settled":  `{"sql":"SELECT window_start, fruit, count(*) AS n FROM tumble(fruit, ts, INTERVAL '1 minute') GROUP BY ALL","late":"drop","emit":"final"}`,
	"part":     `{"sql":"SELECT window_start, fruit, sum(amount) AS total FROM tumble(fruit, ts, INTERVAL '1 minute') WHERE amount <> 13 GROUP BY ALL"}`,
	"hops":     `{"sql":"SELECT window_start, count(*) AS n FROM hop(fruit, ts, INTERVAL '1 minute', INTERVAL '3 minutes') GROUP BY ALL","late":"drop"}`,
	"sessions": `{"sql":"SELECT window_start, window_end, fruit, count(*) AS n FROM session(fruit, ts, INTERVAL '40 seconds', fruit) GROUP BY ALL","late":"drop"}`,
	"closed":   `{"sql":"SELECT window_start, window_end, fruit, count(*) AS n FROM session(fruit, ts, INTERVAL '40 seconds', fruit) GROUP BY ALL","emit":"final","allowed_lateness":"1m"}`,
	"slides":   `{"sql":"SELECT window_end, fruit, max(amount) AS top FROM slide(fruit, ts, INTERVAL '2 minutes', fruit) GROUP BY ALL","allowed_lateness":"30s"}`,
	"errors":   `{"sql":"SELECT fruit, sum(CAST(note AS BIGINT)) AS total FROM fruit GROUP BY ALL"}`,
	"raw":      `{"sql":"SELECT fruit, amount, note FROM fruit WHERE amount > 3"}`,
	"tops":     `{"sql":"SELECT window_start, fruit, amount FROM tumble(fruit, ts, INTERVAL '1 minute') QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY amount DESC) <= 2"}`,
	"kept":     `{"sql":"SELECT window_start, fruit, count(*) AS n FROM tumble(fruit, ts, INTERVAL '1 minute') GROUP BY ALL","retention":"20m","allowed_lateness":"1m"}`,
	"recent":   `{"sql":"SELECT fruit, amount, note FROM fruit","retention":{"age":"20m"}}`,
	"instant":  `{"sql":"SELECT window_start, count(*) AS n FROM hop(fruit, ts, INTERVAL '1 minute', INTERVAL '3 minutes') GROUP BY ALL","start":"2024-01-01T12:03:00Z","late":"drop"}`,
}

// sendFruit posts n events around successive minutes; every seventh is late, by up to five minutes.
func (s *server) sendFruit(from, n int) {
	s.t.Helper()
	var b bytes.Buffer
	for i := from; i < from+n; i++ {
		second := i * 7
		if i%7 == 6 {
			second -= (i % 5) * 60
		}
		note := fmt.Sprint(i)
		if i%11 == 0 {
			note = "none"
		}
		second = max(second, 0)
		fmt.Fprintf(&b, `{"ts":"2024-01-01T%02d:%02d:%02dZ","fruit":"%s","amount":%d,"price":%d.1,"note":"%s"}`+"\n",
			12+second/3600, second/60%60, second%60, []string{"apple", "melon", "grape"}[i%3], i%17, i%5, note)
	}
	if status, text := s.tryPost("/v1/streams/fruit/events", b.String()); status != 200 {
		s.t.Fatalf("%d %s", status, text)
	}
}

func (s *server) fruit() {
	s.t.Helper()
	s.must("PUT", "/v1/streams/fruit", `{"time_field":"ts","max_out_of_orderness":"10s","columns":{"ts":"TIMESTAMP","fruit":"VARCHAR","amount":"BIGINT","price":"DOUBLE","note":"VARCHAR"}}`, nil)
	for name, body := range fruitViews {
		s.must("PUT", "/v1/views/"+name, body, nil)
	}
}

// T1, E1, R2, C7
func TestVerifyIsEqualForViewsOfEveryKind(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.fruit()
	for i := range 20 {
		s.sendFruit(20*i, 20)
	}
	s.must("PUT", "/v1/views/latest", `{"sql":"SELECT window_start, count(*) AS n FROM tumble(fruit, ts, INTERVAL '1 minute') GROUP BY ALL","start":"latest","late":"drop"}`, nil)
	for i := range 20 {
		s.sendFruit(400+20*i, 20)
	}
	for name := range fruitViews {
		s.verifiedEqual(name)
	}
	s.verifiedEqual("latest")
	var about struct {
		Counts   struct{ Late_dropped, Late_partial, Row_errors int }
		Verified struct{ Result, At string }
	}
	s.must("GET", "/v1/views/hops", "", &about)
	if about.Counts.Late_dropped == 0 || about.Counts.Late_partial == 0 {
		t.Errorf("the events refuse nothing: %+v", about)
	}
	if about.Verified.Result != "equal" || about.Verified.At == "" {
		t.Errorf("the view says %+v", about.Verified)
	}
	if status, text := s.call("POST", "/v1/views/hops/verify?wait=0s", ""); status != 202 || !bytes.Contains(text, []byte(`"running"`)) {
		t.Errorf("without a wait: %d %s", status, text)
	}
	s.must("PUT", "/v1/views/sketch", `{"sql":"SELECT approx_count_distinct(fruit) AS n FROM fruit"}`, nil)
	if v := s.verify("sketch"); v.Result != "cannot_tell" || v.Reason == "" { // R4
		t.Errorf("a sketch: %+v", v)
	}
	if status, text := s.call("GET", "/views/hops", ""); status != 200 || !bytes.Contains(text, []byte("equal, ")) {
		t.Errorf("the page of hops, %d, does not say that it was verified", status)
	}
	if status, text := s.call("GET", "/metrics", ""); status != 200 || !bytes.Contains(text, []byte(`tidemark_view_verified{result="equal",view="hops"} 1`)) {
		t.Errorf("metrics: %d, without tidemark_view_verified of hops", status)
	}
	s.restartAfterKill()
	var last struct{ Result string }
	s.must("GET", "/v1/views/hops/verify", "", &last)
	if last.Result != "equal" {
		t.Errorf("after a kill: %+v", last)
	}
}

// tamper stops the server, lets f change its store, and starts it again.
func (s *server) tamper(f func(*kv.Store)) {
	s.t.Helper()
	s.stop(syscall.SIGTERM)
	dir, err := storage.Open(s.dir, storage.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	f(dir.KV)
	if err := dir.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

// put writes one key behind everybody's back.
func put(t *testing.T, store *kv.Store, key, value []byte) {
	t.Helper()
	b := store.NewBatch()
	b.Set(key, value)
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
}

// redefine changes what the catalog says of a view, without the view hearing of it.
func redefine(t *testing.T, store *kv.Store, view, from, to string) {
	t.Helper()
	cat, err := catalog.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	e, ok := cat.Get(catalog.View, view)
	if !ok || !bytes.Contains(e.Doc, []byte(from)) {
		t.Fatalf("no %s in %s", from, e.Doc)
	}
	if _, err := cat.Put(catalog.View, view, bytes.ReplaceAll(e.Doc, []byte(from), []byte(to)), e.ID); err != nil {
		t.Fatal(err)
	}
}

func idOf(t *testing.T, store *kv.Store, view string) uint64 {
	t.Helper()
	cat, err := catalog.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := cat.Get(catalog.View, view)
	return e.ID
}

// T1: each way to be wrong is found, with the exact row.
func TestVerifyFindsWhatWasTamperedWith(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.must("PUT", "/v1/streams/fruit", `{"time_field":"ts","max_out_of_orderness":"0s","columns":{"ts":"TIMESTAMP","fruit":"VARCHAR","amount":"BIGINT","price":"DOUBLE","note":"VARCHAR"}}`, nil)
	for _, name := range []string{"fixed", "strict", "part"} {
		s.must("PUT", "/v1/views/"+name, fruitViews[name], nil)
	}
	for i, e := range []string{
		`{"ts":"2024-01-01T12:00:10Z","fruit":"apple","amount":5}`,
		`{"ts":"2024-01-01T12:00:20Z","fruit":"melon","amount":13}`,
		`{"ts":"2024-01-01T12:00:30Z","fruit":"melon","amount":7}`,
		`{"ts":"2024-01-01T12:01:10Z","fruit":"grape","amount":1}`,
		`{"ts":"2024-01-01T12:00:50Z","fruit":"apple","amount":2}`, // late by a minute
	} {
		s.must("POST", "/v1/streams/fruit/events", e, nil)
		if i == 3 {
			s.must("POST", "/v1/streams/fruit/watermark", `{"advance_to":"2024-01-01T12:01:30Z"}`, nil)
		}
	}
	for _, name := range []string{"fixed", "strict", "part"} {
		s.verifiedEqual(name)
	}
	// lists says that a verdict lists exactly these differences, each as live and batch row.
	lists := func(what string, v verdict, want ...string) {
		t.Helper()
		got := []string{}
		for _, d := range v.Differences {
			text, err := json.Marshal([]rowMap{d.Live, d.Batch})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(text))
		}
		slices.Sort(got)
		if v.Result != "different" || !slices.Equal(got, want) {
			t.Errorf("%s: %s (%s)\ngot  %s\nwant %s", what, v.Result, v.Reason, got, want)
		}
	}

	// A row of the view: two more than there were.
	s.tamper(func(store *kv.Store) {
		prefix := binary.BigEndian.AppendUint64([]byte{byte(kv.Rows)}, idOf(t, store, "strict"))
		it := store.Iter(prefix, kv.PrefixEnd(prefix))
		if !it.First() {
			t.Fatal("the view has no rows")
		}
		key, value := bytes.Clone(it.Key()), bytes.Clone(it.Value())
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		value[len(value)-1] += 4 // zigzag
		put(t, store, key, value)
	})
	lists("a tampered row", s.verify("strict"),
		`[{"fruit":"apple","n":3,"window_start":"2024-01-01T12:00:00Z"},{"fruit":"apple","n":1,"window_start":"2024-01-01T12:00:00Z"}]`)

	// A value in the log, its checksum made right again: grape became gripe after the views had read it.
	s.tamper(func(store *kv.Store) {
		prefix := []byte{byte(kv.Batches)}
		it := store.Iter(prefix, kv.PrefixEnd(prefix))
		changed := 0
		for ok := it.First(); ok; ok = it.Next() {
			key, value := bytes.Clone(it.Key()), bytes.Clone(it.Value())
			if !bytes.Contains(value, []byte("grape")) {
				continue
			}
			value = bytes.ReplaceAll(value, []byte("grape"), []byte("gripe"))
			table := crc32.MakeTable(crc32.Castagnoli)
			sum := crc32.Update(crc32.Update(0, table, key), table, value[5:])
			binary.BigEndian.PutUint32(value[1:], sum)
			put(t, store, key, value)
			changed++
		}
		if err := it.Close(); err != nil || changed != 1 {
			t.Fatalf("%d batches changed: %v", changed, err)
		}
	})
	lists("a value in the log", s.verify("fixed"),
		`[null,{"fruit":"gripe","n":1,"price":null,"total":1,"window_start":"2024-01-01T12:01:00Z"}]`,
		`[{"fruit":"grape","n":1,"price":null,"total":1,"window_start":"2024-01-01T12:01:00Z"},null]`)

	// An event that the view never took: its SQL says now that it should have.
	s.tamper(func(store *kv.Store) { redefine(t, store, "part", " WHERE amount \\u003c\\u003e 13", "") })
	lists("a dropped event", s.verify("part"),
		`[null,{"fruit":"gripe","total":1,"window_start":"2024-01-01T12:01:00Z"}]`,
		`[{"fruit":"grape","total":1,"window_start":"2024-01-01T12:01:00Z"},null]`,
		`[{"fruit":"melon","total":7,"window_start":"2024-01-01T12:00:00Z"},{"fruit":"melon","total":20,"window_start":"2024-01-01T12:00:00Z"}]`)

	// An event refused without cause: by its definition the view had to wait for it.
	s.tamper(func(store *kv.Store) {
		redefine(t, store, "strict", `"late":"drop","allowed_lateness":"0s"`, `"late":"correct","allowed_lateness":"1h"`)
	})
	v := s.verify("strict")
	lists("refused without cause", v,
		`[null,{"fruit":"gripe","n":1,"window_start":"2024-01-01T12:01:00Z"}]`,
		`[{"fruit":"apple","n":3,"window_start":"2024-01-01T12:00:00Z"},{"fruit":"apple","n":2,"window_start":"2024-01-01T12:00:00Z"}]`,
		`[{"fruit":"grape","n":1,"window_start":"2024-01-01T12:01:00Z"},null]`)
	if len(v.LateDifferences) != 1 || v.LateDifferences[0].Offset != 4 || v.LateDifferences[0].Batch != "" {
		t.Errorf("the late event: %+v", v.LateDifferences)
	}
}
