package stream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/logtest"
	"tidemark/stream/pebblelog"
)

// server is a registry with all that lies under it.
type server struct {
	t   *testing.T
	fs  vfs.FS
	kv  *kv.Store
	cat *catalog.Catalog
	log *pebblelog.Log
	*stream.Registry
}

func newServer(t *testing.T) *server {
	s := &server{t: t, fs: vfs.NewMem()}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	var err error
	if s.kv, err = kv.Open("kv", kv.Options{FS: s.fs, CacheBytes: 1 << 20, MemTableBytes: 1 << 20}); err != nil {
		s.t.Fatal(err)
	}
	if s.cat, err = catalog.Open(s.kv); err != nil {
		s.t.Fatal(err)
	}
	if s.log, err = pebblelog.Open(s.kv, pebblelog.Options{}); err != nil {
		s.t.Fatal(err)
	}
	if s.Registry, err = stream.OpenRegistry(s.cat, s.log); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) stop() {
	if err := errors.Join(s.log.Close(), s.kv.Close()); err != nil {
		s.t.Error(err)
	}
}

func (s *server) restart() {
	s.stop()
	s.start()
}

// put sends a definition as users write it and returns "created", "updated" or the problem.
func (s *server) put(name, body string) string {
	s.t.Helper()
	c, err := stream.ParseConfig([]byte(body))
	if err != nil {
		return code(err)
	}
	_, created, err := s.Put(s.t.Context(), name, c)
	switch {
	case err != nil:
		return code(err)
	case created:
		return "created"
	}
	return "updated"
}

func code(err error) string {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return fmt.Sprint(err)
	}
	if p.Hint == "" {
		return "a problem without a next step: " + p.Error()
	}
	return fmt.Sprint(p.Status, " ", p.Code)
}

func (s *server) columns(name string) string {
	s.t.Helper()
	st, err := s.Get(name)
	if err != nil {
		return code(err)
	}
	return columnsOf(st)
}

func columnsOf(st *stream.Stream) string {
	var out []string
	for _, f := range st.Schema.Fields {
		out = append(out, f.Name+" "+f.Type.String())
	}
	return strings.Join(out, ", ")
}

func (s *server) send(name string) {
	s.t.Helper()
	st, err := s.Get(name)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.log.Append(s.t.Context(), []*stream.Events{logtest.Request(st.ID, logtest.Event{})}); err != nil {
		s.t.Fatal(err)
	}
}

func TestStreamIsCreatedWithDefaultsAndUpdated(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if got := s.put("checkouts", `{"time_field":"ts","columns":{"user":"varchar","amount":"DOUBLE"},"idle_timeout":"0s"}`); got != "created" {
		t.Fatal(got)
	}
	if got := s.put("checkouts", `{"partitions":4,"max_out_of_orderness":"1m","columns":{"USER":"VARCHAR","note":"JSON"}}`); got != "updated" {
		t.Fatal(got)
	}
	before, _ := s.Get("checkouts")
	s.restart()
	after, err := s.Get("checkouts")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("the definition changed over a restart: %s", d)
	}
	if got, want := s.columns("checkouts"), "user VARCHAR, amount DOUBLE, ts TIMESTAMP, note JSON"; got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
	text, err := json.Marshal(after.Config)
	want := `{"partitions":4,"time_field":"ts","max_out_of_orderness":"1m","idle_timeout":"0s","idle_advance":true,"max_ahead":"24h","max_skew":"5s","dedupe_window":"24h"}`
	if string(text) != want || err != nil {
		t.Errorf("config\n got %s\nwant %s", text, want)
	}
	if after.TimeColumn() != 2 || !after.Schema.Declared || after.Schema.Version < 2 {
		t.Errorf("%+v", after)
	}
	stats, err := s.log.Stats(after.ID)
	if err != nil || len(stats.Partitions) != 4 {
		t.Errorf("%+v %v", stats, err)
	}
}

func TestImpossibleDefinitionsAreRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if got := s.put("s", `{"partitions":2,"time_field":"ts","columns":{"n":"BIGINT"}}`); got != "created" {
		t.Fatal(got)
	}
	s.send("s")
	if _, err := s.cat.Put(catalog.View, "revenue", []byte(`{}`), 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, body, want string }{
		{"new", `{"partition":2}`, "400 unknown_member"},
		{"new", `{"Partitions":2}`, "400 unknown_member"},
		{"new", `{"retention":{"years":1}}`, "400 unknown_member"},
		{"new", `{"partitions":"two"}`, "400 bad_body"},
		{"new", `{"partitions":1.5}`, "400 bad_body"},
		{"new", `[]`, "400 bad_body"},
		{"new", `{`, "400 bad_body"},
		{"new", `{} {}`, "400 bad_body"},
		{"new", `{"partitions":0}`, "422 bad_config"},
		{"new", `{"partitions":-1}`, "422 bad_config"},
		{"new", `{"partitions":1000000}`, "422 bad_config"},
		{"new", `{"idle_timeout":"soon"}`, "422 bad_config"},
		{"new", `{"idle_timeout":30}`, "422 bad_config"},
		{"new", `{"idle_timeout":"-5s"}`, "422 bad_config"},
		{"new", `{"columns":{"a":"NUMBER"}}`, "422 bad_config"},
		{"new", `{"columns":{"a":"INTERVAL"}}`, "422 bad_config"},
		{"new", `{"columns":{"a":"BIGINT","A":"DOUBLE"}}`, "422 bad_config"},
		{"new", `{"columns":{"_time":"TIMESTAMP"}}`, "422 bad_config"},
		{"new", `{"columns":{"":"TIMESTAMP"}}`, "422 bad_config"},
		{"new", `{"columns":["a"]}`, "422 bad_config"},
		{"new", `{"columns":{"a":1}}`, "422 bad_config"},
		{"new", `{"time_field":"ts","columns":{"ts":"VARCHAR"}}`, "422 bad_config"},
		{"new", `{"primary_key":["id"]}`, "422 not_yet"},
		{"new", `{"format":"debezium"}`, "422 not_yet"},
		{"new", `{"compact":true}`, "422 bad_config"},
		{"new", `{"privacy":{"subject_field":"user","fields":["email"]}}`, "422 not_yet"},
		{"new", `{"retention":{"age":"5s"}}`, "422 bad_config"},
		{"new", `{"retention":{"bytes":"many"}}`, "422 bad_config"},
		{"New", `{}`, "400 bad_name"},
		{"late_x", `{}`, "400 bad_name"},
		{"revenue", `{}`, "409 name_taken"},
		{"s", `{"partitions":1}`, "409 fewer_partitions"},
		{"s", `{"compact":true}`, "422 bad_config"},
		{"s", `{"time_field":"at"}`, "409 has_events"},
		{"s", `{"key_field":"user"}`, "409 has_events"},
		{"s", `{"id_field":"id"}`, "409 has_events"},
		{"s", `{"columns":{"n":"DOUBLE"}}`, "409 has_events"},
		{"s", `{"partitions":2,"time_field":"ts","columns":{"N":"int8","more":"BOOLEAN"}}`, "updated"},
		{"s", ``, "updated"},
		{"s", `{"partitions":null,"compact":false}`, "updated"},
	} {
		if got := s.put(c.name, c.body); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.body, got, c.want)
		}
	}
	if _, err := s.Get("new"); code(err) != "404 unknown_stream" {
		t.Errorf("a refused definition left something: %v", err)
	}
	if got, want := s.columns("s"), "n BIGINT, ts TIMESTAMP, more BOOLEAN"; got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
}

func TestRetentionCanBeSetChangedAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, c := range []struct{ body, want string }{
		{`{"retention":{"age":"168h","bytes":"20GB"}}`, `{"age":"7d","bytes":"20GB"}`},
		{`{"partitions":2}`, `{"age":"7d","bytes":"20GB"}`},
		{`{"retention":{"bytes":1048576}}`, `{"bytes":"1MB"}`},
		{`{"retention":{}}`, `{}`},
	} {
		s.put("s", c.body)
		def, err := s.Get("s")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(def.Config.Retention); err != nil || string(got) != c.want {
			t.Errorf("%s: retention is %s, want %s, %v", c.body, got, c.want, err)
		}
	}
}

func TestColumnTypesMayChangeWhileThereAreNoEvents(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("s", `{"columns":{"n":"BIGINT"}}`)
	if got := s.put("s", `{"columns":{"n":"VARCHAR"},"time_field":"ts"}`); got != "updated" {
		t.Error(got)
	}
	if got := s.columns("s"); got != "n VARCHAR, ts TIMESTAMP" {
		t.Error(got)
	}
}

func TestUnknownMemberIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, name string }{
		{`{"partitons":2}`, `"partitons"`},
		{`{"idle_timeout":"x"}`, "idle_timeout"},
		{`{"columns":{"a":"NOPE"}}`, `"a"`},
		{`{"max_skew":"5 parsecs","max_ahead":"y"}`, "max_ahead"},
		{`{"retention":{"years":1}}`, `"years"`},
	} {
		if _, err := stream.ParseConfig([]byte(c.body)); err == nil || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s: %v does not name %s", c.body, err, c.name)
		}
	}
}

func TestInferredColumnsGrowAndWiden(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("s", `{"time_field":"ts"}`)
	st, _ := s.Get("s")
	bigint, double, text := row.Scalar(row.BigInt), row.Scalar(row.Double), row.Scalar(row.Varchar)
	ensure := func(want string, fields ...row.Field) {
		t.Helper()
		got, err := s.EnsureColumns(t.Context(), st.ID, fields)
		if err != nil || columnsOf(got) != want {
			t.Errorf("columns %s, want %s, %v", columnsOf(got), want, err)
		}
		s.restart()
		if s.columns("s") != want {
			t.Errorf("after a restart: %s, want %s", s.columns("s"), want)
		}
	}
	ensure("ts TIMESTAMP, n BIGINT, d STRUCT(os VARCHAR)",
		row.Field{Name: "n", Type: bigint}, row.Field{Name: "d", Type: row.StructOf(row.Field{Name: "os", Type: text})}, row.Field{Name: "N", Type: bigint})
	ensure("ts TIMESTAMP, n DOUBLE, d STRUCT(os VARCHAR, v BIGINT)",
		row.Field{Name: "n", Type: double}, row.Field{Name: "D", Type: row.StructOf(row.Field{Name: "v", Type: bigint})})
	ensure("ts TIMESTAMP, n DOUBLE, d STRUCT(os VARCHAR, v BIGINT), w BIGINT, p BIGINT", // no common type: as it was
		row.Field{Name: "n", Type: text}, row.Field{Name: "w", Type: bigint}, row.Field{Name: "p", Type: bigint}, row.Field{Name: "_time", Type: text})
	if got, err := s.MarkWide(t.Context(), st.ID, []int{3, 1}); err != nil || !got.Schema.IsWide(3) || got.Schema.IsWide(1) {
		t.Errorf("%+v %v", got.Schema, err)
	}
	s.restart()
	s.SetPinned(func(id stream.ID, column int, _ row.Type) bool { return id == st.ID && column == 4 })
	ensure("ts TIMESTAMP, n DOUBLE, d STRUCT(os VARCHAR, v BIGINT), w BIGINT, p BIGINT",
		row.Field{Name: "w", Type: double}, row.Field{Name: "p", Type: double}, row.Field{Name: "w", Type: bigint})
	if st, _ := s.Get("s"); len(st.Schema.Uncolumned) != 1 || st.Schema.Uncolumned[0] != "_time" {
		t.Errorf("left out: %v", st.Schema.Uncolumned)
	}
}

func TestColumnsEndAtAThousand(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("s", `{}`)
	st, _ := s.Get("s")
	var want []row.Field
	for i := range stream.MaxColumns + 200 {
		want = append(want, row.Field{Name: fmt.Sprintf("c%d", i), Type: row.Scalar(row.BigInt)})
	}
	got, err := s.EnsureColumns(t.Context(), st.ID, want)
	if err != nil || len(got.Schema.Fields) != stream.MaxColumns || !got.Schema.Overflow || len(got.Schema.Uncolumned) != 100 {
		t.Errorf("%d columns, overflow %v, %d noted, %v", len(got.Schema.Fields), got.Schema.Overflow, len(got.Schema.Uncolumned), err)
	}
}

func TestDeclaredSchemaGetsNoOtherColumns(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("s", `{"columns":{"a":"BIGINT"}}`)
	st, _ := s.Get("s")
	got, err := s.EnsureColumns(t.Context(), st.ID, []row.Field{{Name: "b", Type: row.Scalar(row.BigInt)}, {Name: "a", Type: row.Scalar(row.Double)}})
	if err != nil || got != st {
		t.Errorf("%s, %v", columnsOf(got), err)
	}
}

func TestSnapshotsOfAStreamNeverChange(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("s", `{}`)
	st, _ := s.Get("s")
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 20 {
				f := row.Field{Name: fmt.Sprintf("c%d", (w+i)%10), Type: row.Scalar(row.BigInt)}
				got, err := s.EnsureColumns(t.Context(), st.ID, []row.Field{f})
				if err != nil || got.Schema.Column(f.Name) < 0 {
					t.Errorf("%s is missing: %v", f.Name, err)
				}
				if seen, ok := s.ByID(st.ID); !ok || len(seen.Schema.Fields) < len(got.Schema.Fields) {
					t.Error("columns went away")
				}
			}
		})
	}
	writers.Wait()
	if len(st.Schema.Fields) != 0 {
		t.Errorf("an old snapshot has %d columns", len(st.Schema.Fields))
	}
}

func TestDeletedStreamRemembersNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("s", `{"time_field":"ts"}`)
	s.send("s")
	old, _ := s.Get("s")
	s.SetInUse(func(id stream.ID) []string {
		if id == old.ID {
			return []string{"revenue"}
		}
		return nil
	})
	if err := s.Delete(t.Context(), "s"); code(err) != "409 in_use" || !strings.Contains(err.Error(), "revenue") {
		t.Errorf("while a view reads it: %v", err)
	}
	s.SetInUse(nil)
	if err := s.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "s"); code(err) != "404 unknown_stream" {
		t.Errorf("again: %v", err)
	}
	if got := s.put("s", `{}`); got != "created" {
		t.Fatal(got)
	}
	s.restart()
	st, err := s.Get("s")
	if err != nil || st.ID == old.ID || st.Config.TimeField != "" {
		t.Errorf("%+v %v", st, err)
	}
	if stats, err := s.log.Stats(st.ID); err != nil || stats.Accepted != 0 {
		t.Errorf("%+v %v", stats, err)
	}
}

// TestHalfMadeStreamIsDropped: a crash between the log and the catalog leaves a stream without a name.
func TestHalfMadeStreamIsDropped(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("s", `{}`)
	if err := s.log.Declare(t.Context(), 77, stream.Settings{Name: "half", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if got := s.log.Declared(); len(got) != 1 || got[0] == 77 {
		t.Errorf("the log has streams %v", got)
	}
	if got := s.List(); len(got) != 1 || got[0].Name != "s" {
		t.Errorf("streams %v", got)
	}
}

func TestDurationsAreGosAndDays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want time.Duration
		back string
	}{
		{"5s", 5 * time.Second, "5s"},
		{"0s", 0, "0s"},
		{"0", 0, "0s"},
		{"7d", 168 * time.Hour, "7d"},
		{"1d", 24 * time.Hour, "24h"},
		{"24h", 24 * time.Hour, "24h"},
		{"1d12h", 36 * time.Hour, "36h"},
		{"0.5d", 12 * time.Hour, "12h"},
		{"90m", 90 * time.Minute, "1h30m"},
		{"100ms", 100 * time.Millisecond, "100ms"},
		{"168h", 168 * time.Hour, "7d"},
		{"1m", time.Minute, "1m"},
		{"1h0m1s", time.Hour + time.Second, "1h0m1s"},
	} {
		got, err := stream.ParseDuration(c.text)
		if err != nil || time.Duration(got) != c.want || got.String() != c.back {
			t.Errorf("%s: %v (%s), %v", c.text, time.Duration(got), got, err)
		}
		if again, err := stream.ParseDuration(got.String()); err != nil || again != got {
			t.Errorf("%s does not read back: %v", got, err)
		}
	}
	for _, text := range []string{"", "5", "s", "-5s", "+5s", "1d-2h", "d", "-1d", "1d1", "9999999999d", "NaNd", "infd", "1h1d", "106751d24h"} {
		if d, err := stream.ParseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, d)
		}
	}
}

func TestPositionReadsBack(t *testing.T) {
	t.Parallel()
	p := stream.Position{Log: 1<<63 + 5, Sequence: 77, Within: 3}
	if got, err := stream.ParsePosition(p.String()); err != nil || got != p {
		t.Errorf("%+v %v", got, err)
	}
	for _, text := range []string{"", "x", p.String() + "a", strings.ToUpper(p.String())} {
		if _, err := stream.ParsePosition(text); !errors.Is(err, stream.ErrBadPosition) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
