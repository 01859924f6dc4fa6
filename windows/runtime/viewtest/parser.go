package viewtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// The tests of the views' runtime need no DuckDB: what its parser answers is kept in
// testdata/asts.json beside this file. A text that is not kept yet is parsed and kept by
//
//	go test ./windows/runtime ./windows/alert -keep PROGRAM
//
// where PROGRAM p reads texts on its standard input, one a line, and answers each with the tree on
// one line.
var keep = flag.String("keep", "", "program that parses what is not kept yet; see windows/runtime/viewtest/parser.go")

var kept struct {
	sync.Mutex
	file string
	asts map[string]json.RawMessage
}

// Parse is a query.ParseSQL that knows the texts of the tests.
func Parse(sql string) ([]byte, error) {
	kept.Lock()
	defer kept.Unlock()
	if kept.asts == nil {
		_, here, _, _ := runtime.Caller(0)
		kept.file = filepath.Join(filepath.Dir(here), "testdata", "asts.json")
		text, err := os.ReadFile(kept.file)
		if err == nil {
			err = json.Unmarshal(text, &kept.asts)
		}
		if err != nil {
			return nil, err
		}
	}
	if ast, ok := kept.asts[sql]; ok {
		return ast, nil
	}
	if *keep == "" {
		return nil, fmt.Errorf("not kept; run with -keep, see windows/runtime/viewtest/parser.go: %s", sql)
	}
	cmd := exec.Command(*keep, "p")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(sql, "\n", " ") + "\n")
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	kept.asts[sql] = bytes.TrimSpace(out)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "")
	if err := e.Encode(kept.asts); err != nil {
		return nil, err
	}
	return kept.asts[sql], os.WriteFile(kept.file, b.Bytes(), 0o644)
}
