package query

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// TestGoldenFiles reads testdata/*.golden: a directive, a text, "----", and what comes of it.
//
//	plan    the plan of a view's SQL
//	final   the plan with emit: final
//	batch   the SQL for history
//	upto    the same, of checkouts up to sequence 17
//	where   a condition over the columns of revenue
//	order   an order of them
func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				head, want, _ := strings.Cut(strings.TrimLeft(block, "\n"), "\n----")
				if strings.HasPrefix(head, "#") && !strings.Contains(block, "\n----") { // a remark
					fmt.Fprintf(&out, "%s\n\n", head)
					continue
				}
				got := strings.TrimRight(goldenAnswer(t, head), "\n")
				fmt.Fprintf(&out, "%s\n----\n%s\n\n", head, got)
				if want = strings.TrimSpace(want); !*update && got != want {
					t.Errorf("%s\n--- got\n%s\n--- want\n%s", head, got, want)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func goldenAnswer(t *testing.T, head string) string {
	var lines []string
	for _, l := range strings.Split(head, "\n") {
		if !strings.HasPrefix(l, "#") {
			lines = append(lines, l)
		}
	}
	sql := strings.Join(lines[1:], "\n")
	var out string
	var err error
	switch directive := lines[0]; directive {
	case "plan", "final":
		var p *Plan
		if p, err = Compile(parserKept.parse, shop(), sql, Options{EmitFinal: directive == "final"}); err == nil {
			out = Explain(p)
		}
	case "batch":
		out, err = Batch(parserKept.parse, parserKept.write, shop(), sql)
	case "upto":
		out, err = BatchUpTo(parserKept.parse, parserKept.write, shop(), sql, map[string]stream.Sequence{"checkouts": 17})
	case "where":
		e, werr := CompileWhere(parserKept.parse, shop()["revenue"].Fields, sql)
		if err = werr; err == nil {
			out = e.Text
		}
	case "order":
		keys, oerr := ParseOrder(parserKept.parse, shop()["revenue"].Fields, sql)
		err = oerr
		for _, k := range keys {
			out += fmt.Sprintf("%s desc=%t nulls_last=%t\n", row.QuoteName(shop()["revenue"].Fields[k.Col].Name), k.Desc, k.NullsLast)
		}
	default:
		t.Fatalf("unknown directive %q", directive)
	}
	if err == nil {
		return out
	}
	var p *problem.Problem
	if !errors.As(err, &p) {
		t.Fatalf("%s: %v", sql, err)
	}
	if p.Status >= 500 {
		t.Errorf("%s: %v: %v", sql, p, p.Cause)
	}
	out = fmt.Sprintf("error %d %s", p.Status, p.Code)
	if p.Position >= 0 {
		near := sql[min(len(sql), p.Position):]
		out += fmt.Sprintf(" at %d «%s»", p.Position, near[:min(len(near), 16)])
	}
	out += ": " + p.Detail
	if p.Hint != "" {
		out += "\nhint: " + p.Hint
	}
	return out
}
