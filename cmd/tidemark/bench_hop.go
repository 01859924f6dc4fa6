package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"tidemark/storage/history"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

type benchWindowsCmd struct {
	Events int `help:"Events a run: 10,000 a second of event time." default:"2000000"`
	Keys   int `help:"Keys, drawn evenly." default:"10"`
	Runs   int `help:"How often each window is measured; the least time counts." default:"3"`
}

func (*benchWindowsCmd) Help() string {
	return `What an event costs in hopping windows of growing size: the slide is always 100 ms, so the same number of rows is
given out, and the size is 1, 10, 100 and 1,000 slides. The ratio is to tumbling windows of 100 ms in the same run. The
engine alone, final rows only.`
}

// overlaps are how many slides a window is long.
var overlaps = []int{1, 10, 100, 1000}

func (c *benchWindowsCmd) Run() error {
	log := c.log()
	parser, err := history.NewParser(256 << 20)
	if err != nil {
		return err
	}
	defer parser.Close()
	fmt.Fprintf(os.Stdout, "%-12s %10s %10s %10s %10s\n", "size/slide", "ns/event", "allocs", "rows", "ratio")
	for _, what := range []string{"count(*) AS n, sum(v) AS total", "max(v) AS top"} {
		fmt.Println(what)
		times := make([]time.Duration, len(overlaps))
		allocs, rows := make([]float64, len(overlaps)), make([]int64, len(overlaps))
		for range c.Runs { // interleaved: what else runs on the machine disturbs all alike
			for i, n := range overlaps {
				from := "tumble(s, ts, INTERVAL '100 milliseconds')"
				if n > 1 {
					from = fmt.Sprintf("hop(s, ts, INTERVAL '100 milliseconds', INTERVAL '%d milliseconds')", 100*n)
				}
				sql := "SELECT window_start, k, " + what + " FROM " + from + " GROUP BY ALL"
				plan, err := query.Compile(parser.ParseSQL, windowsCatalog{}, sql, query.Options{EmitFinal: true})
				if err != nil {
					return err
				}
				e, err := engine.New(plan, engine.Config{Late: engine.Drop, EmitFinal: true, Streams: []windows.TrackedStream{{Stream: 1, MaxOutOfOrderness: windows.MicrosPerSecond}}})
				if err != nil {
					return err
				}
				before, began := mallocs(), cpuTime()
				rows[i] = 0
				for k, entry := range log {
					if err := e.Step(entry); err != nil {
						return err
					}
					if k%10 == 9 || k == len(log)-1 {
						rows[i] += int64(e.Take(true).Changes.Len())
					}
				}
				took := cpuTime() - began
				allocs[i] = float64(mallocs()-before) / float64(c.Events)
				if times[i] == 0 || took < times[i] {
					times[i] = took
				}
			}
		}
		for i, n := range overlaps {
			fmt.Printf("%-12d %10.1f %10.3f %10d %10.2f\n", n, float64(times[i].Nanoseconds())/float64(c.Events), allocs[i], rows[i], times[i].Seconds()/times[0].Seconds())
		}
	}
	return nil
}

// windowsCatalog has one stream s.
type windowsCatalog struct{}

func (windowsCatalog) Relation(name string) (query.Relation, bool) {
	return query.Relation{Name: "s", Kind: "stream", ID: 1, TimeField: "ts", Fields: []row.Field{
		{Name: "ts", Type: row.Scalar(row.Timestamp)}, {Name: "k", Type: row.Scalar(row.BigInt)}, {Name: "v", Type: row.Scalar(row.BigInt)},
	}}, name == "s"
}

// log is events of 10,000 a second, 1,000 a batch, up to 100 ms out of order.
func (c *benchWindowsCmd) log() []stream.Entry {
	const batch = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	log := []stream.Entry{{Control: &stream.Control{Stream: 1, Sequence: 1, AppendTime: base, Kind: stream.Partitions, Value: 1}}}
	for n := 0; n < c.Events; n += batch {
		b := &stream.Batch{
			Stream: 1, Base: stream.Offset(n), Sequence: stream.Sequence(len(log) + 1), AppendTime: base + int64(n+batch)*100, Len: batch,
			Columns: []*row.Vector{row.NewVector(row.Scalar(row.Timestamp), batch), row.NewVector(row.Scalar(row.BigInt), batch), row.NewVector(row.Scalar(row.BigInt), batch)},
		}
		for i := range batch {
			at := base + int64(n+i)*100 - rng.Int64N(100_000)
			b.Times = append(b.Times, at)
			b.Columns[0].AppendInt64(at)
			b.Columns[1].AppendInt64(rng.Int64N(int64(c.Keys)))
			b.Columns[2].AppendInt64(rng.Int64N(1_000_000))
		}
		log = append(log, stream.Entry{Batch: b})
	}
	return slices.Clip(log)
}
