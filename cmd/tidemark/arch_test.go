package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers are the top-level folders from the top down; an import may only point down, or stay.
var layers = map[string]int{"cmd": 5, "web": 4, "ingest": 4, "migrations": 4, "windows": 3, "stream": 2, "storage": 1}

// strangers are pairs of folders (or packages) that must not know each other although the layers
// would allow it.
var strangers = [][2]string{
	{"web", "ingest"},
	{"ingest", "web"},
	{"ingest", "windows"},
	{"windows", "storage/history"},
	{"stream", "storage/history"},
	{"storage/history", "stream"},
	{"storage/row", "storage"},
	{"windows/query", "storage/kv"},
	{"windows/engine", "storage/kv"},
}

// keepers are libraries that one package alone may import.
var keepers = map[string][]string{
	"github.com/marcboeker/go-duckdb":     {"storage/history"},
	"github.com/cockroachdb/pebble/v2":    {"storage/kv", "storage", "stream/pebblelog", "stream/logtest", "windows/runtime/viewtest"},
	"github.com/gorilla/websocket":        {"web/live", "cmd/tidemark", "web"},
	"github.com/gofiber/fiber/v2":         {"web", "ingest/httpapi", "cmd/tidemark"},
	"github.com/knadh/koanf/v2":           {"cmd/tidemark"},
	"github.com/alecthomas/kong":          {"cmd/tidemark"},
	"github.com/prometheus/client_golang": {"web", "cmd/tidemark"},
}

// bridge is the one test-only package in which the engine and DuckDB meet.
const bridge = "windows/scenario"

func below(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	root := "../.."
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != root || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		rel, _ := filepath.Rel(root, file)
		pkg := filepath.ToSlash(filepath.Dir(rel))
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if problem := forbidden(pkg, imported, strings.HasSuffix(file, "_test.go")); problem != "" {
				t.Errorf("%s imports %s: %s", rel, imported, problem)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// forbidden says why pkg may not import what it does, or "".
func forbidden(pkg, imported string, test bool) string {
	for library, owners := range keepers {
		if imported != library && !strings.HasPrefix(imported, library+"/") || test {
			continue
		}
		if !slices.ContainsFunc(owners, func(o string) bool { return below(pkg, o) }) {
			return "only " + strings.Join(owners, ", ") + " may"
		}
	}
	target, ours := strings.CutPrefix(imported, "tidemark/")
	if !ours || below(pkg, bridge) {
		return ""
	}
	from, to := strings.Split(pkg, "/")[0], strings.Split(target, "/")[0]
	if test && strings.HasSuffix(target, "test") {
		return "" // a suite for all who implement something, such as windows/runtime/sinktest
	}
	if layers[to] > layers[from] || layers[to] == layers[from] && from != to {
		return "the arrow runs back (" + to + " is above or beside " + from + ")"
	}
	for _, s := range strangers {
		if below(pkg, s[0]) && below(target, s[1]) && !below(target, s[0]) {
			return s[0] + " and " + s[1] + " don't know each other"
		}
	}
	return ""
}

func TestTopLevelHoldsWhatIsAgreed(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{"cmd", "ingest", "stream", "windows", "web", "storage", "migrations", "docs", "bin"}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(folders, path.Base(e.Name())) && !strings.HasPrefix(e.Name(), "tidemark-") {
			t.Errorf("%s: no other folders at the top", e.Name())
		}
	}
}
