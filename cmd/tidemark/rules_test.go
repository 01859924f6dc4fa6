package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rules are the numbered rules of what a view means: the letters, and how many of each there are.
var rules = []struct {
	letter string
	count  int
	what   string
}{
	{"T", 4, "the batch answer"},
	{"W", 9, "watermarks"},
	{"L", 5, "late events"},
	{"C", 8, "status, revision, changes"},
	{"V", 3, "views on views"},
	{"N", 5, "nothing, NULL, order"},
	{"E", 2, "errors inside a view"},
	{"B", 2, "tables"},
	{"J", 5, "joins"},
	{"Z", 2, "windows with a time zone"},
	{"R", 6, "binding, start, retention"},
}

// notYet are the rules of what the program can't do yet. One that a test names does not belong here.
var notYet = []string{"B1", "J1", "J2", "J3", "J4", "J5"}

// named matches what names rules in a comment of a test or a script: "// W4", "// T1, E1", "(L3)".
var named = regexp.MustCompile(`\b([TWLCVNEBJZR])([1-9])(?:[–-]([TWLCVNEBJZR]?)([1-9]))?\b`)

// A rule without a test that names it is a promise that nobody checks.
func TestEveryRuleHasATestThatNamesIt(t *testing.T) {
	t.Parallel()
	tests := map[string]int{}
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		script := strings.Contains(file, "/testdata/") && (strings.HasSuffix(file, ".txt") || strings.HasSuffix(file, ".scenario"))
		suite := strings.HasSuffix(file, ".go") && strings.HasSuffix(filepath.Dir(file), "test") // for all who implement something
		if !strings.HasSuffix(file, "_test.go") && !script && !suite || filepath.Base(file) == "rules_test.go" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			comment := line
			if !script {
				_, after, ok := strings.Cut(line, "//")
				if !ok {
					continue
				}
				comment = after
			}
			for _, m := range named.FindAllStringSubmatch(comment, -1) {
				last := m[2]
				if m[4] != "" && (m[3] == "" || m[3] == m[1]) {
					last = m[4]
				}
				for n := m[2][0]; n <= last[0]; n++ {
					tests[m[1]+string(n)]++
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	missing := []string{}
	for _, r := range rules {
		for n := 1; n <= r.count; n++ {
			rule := fmt.Sprint(r.letter, n)
			later := slices.Contains(notYet, rule)
			switch {
			case tests[rule] > 0 && later:
				t.Logf("%s (%s) is named by a test: take it off the list of what is not there yet", rule, r.what)
			case tests[rule] == 0 && later:
				t.Logf("%s (%s): not there yet", rule, r.what)
			case tests[rule] == 0:
				missing = append(missing, rule+" ("+r.what+")")
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("rules that no test names:\n%s", strings.Join(missing, "\n"))
	}
}
