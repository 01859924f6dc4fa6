package scenario

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"

	"tidemark/storage/history"
)

var update = flag.Bool("update", false, "write the expected output of scenarios and the tables of docs anew")

// duck is the DuckDB of these tests: a child of the test's own binary, and the parser in this
// process.
var duck *history.History

func TestMain(m *testing.M) {
	history.ChildMain()
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "scenario")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	duck, err = history.Start(context.Background(), history.Options{
		Dir: dir, MemoryLimit: 512 << 20, Threads: 1, ParserMemory: 256 << 20, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	defer duck.Close()
	// rapid takes its number of cases and its seed from flags.
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	set := func(name string, value any) {
		if !given[name] {
			if err := flag.Set(name, fmt.Sprint(value)); err != nil {
				panic(err)
			}
		}
	}
	set("rapid.nofailfile", true)
	set("rapid.seed", number("TIDEMARK_SEED", 1))
	set("rapid.checks", max(1, views()/len(kinds)))
	set("rapid.shrinktime", "20s")
	return m.Run()
}

// views is how many random views are drawn in all.
func views() int {
	if os.Getenv("TIDEMARK_LONG") != "" {
		return number("TIDEMARK_N", 21_000) // 20,000 of them are compared, whatever is refused
	}
	return 600
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
