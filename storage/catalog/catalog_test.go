package catalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/kv"
	"tidemark/storage/problem"
)

func openStore(t *testing.T, fs vfs.FS) *kv.Store {
	t.Helper()
	s, err := kv.Open("kv", kv.Options{FS: fs, CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openCatalog(t *testing.T, s *kv.Store) *Catalog {
	t.Helper()
	c, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func code(err error) string {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return fmt.Sprint(err)
	}
	return fmt.Sprint(p.Status, " ", p.Code)
}

func TestDefinitionsSurviveAPowerCut(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := openStore(t, fs)
	c := openCatalog(t, s)
	if _, err := c.Put(Stream, "checkouts", []byte(`{"a":1}`), 0); err != nil {
		t.Fatal(err)
	}
	reserved, err := c.NextID()
	if err != nil || reserved != 2 {
		t.Fatal(reserved, err)
	}
	view, err := c.Put(View, "revenue", []byte(`{"v":1}`), 0)
	if err != nil || view.ID != 3 {
		t.Fatal(view, err)
	}
	updated, err := c.Put(View, "revenue", []byte(`{"v":2}`), 0)
	if err != nil || updated.ID != 3 || !updated.Created.Equal(view.Created) {
		t.Fatal(updated, err)
	}
	if _, err := c.Put(Stream, "gone", []byte(`{}`), 0); err != nil {
		t.Fatal(err)
	}
	if ok, err := c.Delete(Stream, "gone"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, crashed)
	defer func() { _ = s.Close() }()
	c = openCatalog(t, s)
	e, ok := c.Get(View, "revenue")
	if !ok || string(e.Doc) != `{"v":2}` || e.ID != 3 || !e.Updated.Equal(updated.Updated) {
		t.Errorf("%+v %v", e, ok)
	}
	if _, ok := c.Get(Stream, "gone"); ok {
		t.Error("a deleted stream is back")
	}
	if e, ok := c.Lookup("checkouts"); !ok || e.Kind != Stream {
		t.Errorf("%+v %v", e, ok)
	}
	if id, err := c.NextID(); id != 5 || err != nil { // 4 was that of "gone": numbers are never used again
		t.Error(id, err)
	}
}

func TestRelationsShareOneNamespace(t *testing.T) {
	t.Parallel()
	s := openStore(t, vfs.NewMem())
	defer func() { _ = s.Close() }()
	c := openCatalog(t, s)
	for _, step := range []struct {
		kind Kind
		name string
		want string
	}{
		{Stream, "a", "<nil>"},
		{View, "a", "409 name_taken"},
		{Alert, "a", "409 name_taken"},
		{Dashboard, "a", "<nil>"},
		{Key, "a", "<nil>"},
		{Stream, "a", "<nil>"},
		{Alert, "b", "<nil>"},
		{Stream, "b", "409 name_taken"},
	} {
		if _, err := c.Put(step.kind, step.name, []byte(`{}`), 0); code(err) != step.want {
			t.Errorf("put %s %s: %s, want %s", step.kind, step.name, code(err), step.want)
		}
	}
	if got := c.List(Stream); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("streams %+v", got)
	}
	if ok, err := c.Delete(View, "a"); ok || err != nil {
		t.Errorf("a stream was deleted as a view: %v %v", ok, err)
	}
}

func TestBadNamesAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 58)
	for _, c := range []struct {
		kind Kind
		name string
		ok   bool
	}{
		{Stream, "a", true},
		{Stream, "a_1", true},
		{Stream, long + "12345", true},
		{Stream, long + "123456", false},
		{View, long, true},
		{View, long + "1", false},
		{Alert, long + "1", false},
		{Dashboard, long + "12345", true},
		{Stream, "", false},
		{Stream, "A", false},
		{Stream, "1a", false},
		{Stream, "_a", false},
		{Stream, "a-b", false},
		{Stream, "ä", false},
		{Stream, "../x", false},
		{Stream, "%2e%2e%2f", false},
		{Stream, "a\x00", false},
		{Stream, `a\b`, false},
		{Stream, ":name", false},
		{Stream, "late_a", false},
		{View, "tidemark_x", false},
		{Dashboard, "late_a", true},
		{Stream, "later", true},
	} {
		err := CheckName(c.kind, c.name)
		if (err == nil) != c.ok || err != nil && (code(err) != "400 bad_name" || !strings.Contains(err.Error(), "[a-z][a-z0-9_]{0,")) {
			t.Errorf("%s %q: %v", c.kind, c.name, err)
		}
	}
}
