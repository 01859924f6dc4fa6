package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"

	"tidemark/cmd/tidemark/nexmark"
	"tidemark/ingest"
	"tidemark/storage"
	"tidemark/storage/catalog"
	"tidemark/storage/history"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/pebblelog"
	"tidemark/windows"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

type benchNexmarkCmd struct {
	Events   int64    `help:"Events to make: 2 % persons, 6 % auctions, 92 % bids." default:"1000000"`
	Queries  []string `help:"Queries to run, such as q5b,q7b; all that there are when not given."`
	Rate     int64    `help:"Events a second of event time. It sets the timestamps, and so how many events a window holds." default:"10000"`
	Disorder int64    `help:"Size of the groups within which events come out of order; 1: in order." default:"1"`
	Seed     uint64   `help:"Seed of the generator." default:"1"`
	Epoch    int      `help:"Events of the log that one epoch takes." default:"50000"`
	Check    bool     `help:"Run each query also in DuckDB over the same events, and compare all rows."`
	Dir      string   `help:"Directory for the data." default:""`
	Profile  string   `help:"Write a CPU profile of the queries to this file."`
}

func (*benchNexmarkCmd) Help() string {
	return `Makes the events of the Nexmark workload, takes them in as JSON, reads the log once, and runs each query as a
view over its batches: the engine alone on one core, without HTTP and without writing the view's state. One event is one
bid that the view reads. A core's rate is events by CPU seconds of the whole process, the garbage collector's included.`
}

func (c *benchNexmarkCmd) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "tidemark-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	house, err := openAuctions(ctx, filepath.Join(dir, "data"), c.Check)
	if err != nil {
		return err
	}
	defer house.close()
	w := os.Stdout
	if err := c.fill(ctx, house, w); err != nil {
		return err
	}
	stop, err := profile(c.Profile)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(w, "\n%-5s %12s %9s %9s %9s %9s %10s  %s\n", "", "events/s", "ns/event", "allocs", "B/event", "peak MB", "rows", "")
	wrong := 0
	for _, q := range nexmark.Queries {
		if len(c.Queries) > 0 && !wanted(c.Queries, q.Name) {
			continue
		}
		used, err := house.measure(q, c.Epoch)
		if err != nil {
			return fmt.Errorf("%s: %w", q.Name, err)
		}
		note := q.What
		if c.Check {
			mine, err := house.rows(q, c.Epoch)
			if err != nil {
				return fmt.Errorf("%s: %w", q.Name, err)
			}
			duck, err := house.batchRows(ctx, q)
			if err != nil {
				return fmt.Errorf("%s in DuckDB: %w", q.Name, err)
			}
			note = "as DuckDB: " + note
			if mine != duck {
				wrong++
				note = fmt.Sprintf("NOT as DuckDB, which has %d rows: %s", duck.count, q.What)
			}
		}
		events := float64(house.bids)
		fmt.Fprintf(w, "%-5s %12.0f %9.0f %9.2f %9.0f %9.1f %10d  %s\n", q.Name, events/used.cpu.Seconds(), float64(used.cpu.Nanoseconds())/events,
			float64(used.allocs)/events, float64(used.bytes)/events, float64(used.peak)/1e6, used.rows, note)
	}
	if wrong > 0 {
		return fmt.Errorf("%d queries have other rows than DuckDB", wrong)
	}
	return nil
}

func wanted(list []string, name string) bool {
	for _, n := range list {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// fill makes the events and puts them into the log, and reads them back.
func (c *benchNexmarkCmd) fill(ctx context.Context, house *auctions, w io.Writer) error {
	took, err := house.fill(ctx, nexmark.New(nexmark.Options{Seed: c.Seed, Rate: c.Rate, Disorder: c.Disorder}), c.Events)
	if err != nil {
		return err
	}
	began := cpuTime()
	if err := house.read(); err != nil {
		return err
	}
	decoded := cpuTime() - began
	size, err := house.size()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d events, %d of them bids of %.0f bytes of JSON, %d events a second of event time, groups of %d\n", c.Events, house.bids,
		float64(house.bidBytes)/float64(house.bids), c.Rate, c.Disorder)
	fmt.Fprintf(w, "ingest without HTTP     %6.2f CPU s per million events\n", took.Seconds()/float64(c.Events)*1e6)
	fmt.Fprintf(w, "log to columns, bids    %6.2f CPU s per million events\n", decoded.Seconds()/float64(house.bids)*1e6)
	fmt.Fprintf(w, "kept in the log         %6.1f bytes a bid\n", float64(size)/float64(house.bids))
	return nil
}

// auctions is a data directory with the workload's streams, and the bids in memory.
type auctions struct {
	dir     *storage.Dir
	log     *pebblelog.Log
	streams *stream.Registry
	parser  interface {
		ParseSQL(sql string) ([]byte, error)
		SQLFromAST(ast []byte) (string, error)
		Close() error
	}
	history *history.History // nil where nothing is compared
	clock   time.Time
	loaded  bool

	entries  []stream.Entry
	bids     int64
	bidBytes int64
}

func openAuctions(ctx context.Context, path string, compare bool) (a *auctions, err error) {
	a = &auctions{clock: nexmark.Base}
	defer func(half *auctions) {
		if err != nil {
			half.close()
		}
	}(a)
	quiet := slog.New(slog.DiscardHandler)
	if a.dir, err = storage.Open(path, storage.Options{Logger: quiet}); err != nil {
		return nil, err
	}
	cat, err := catalog.Open(a.dir.KV)
	if err != nil {
		return nil, err
	}
	a.log, err = pebblelog.Open(a.dir.KV, pebblelog.Options{
		Clock: func() time.Time { return a.clock }, Monotonic: func() time.Duration { return 0 }, TimerPeriod: -1, KeepPeriod: -1,
		TailBytes: 1, // nothing stays decoded: reading the log is measured
		Logger:    quiet,
	})
	if err != nil {
		return nil, err
	}
	if a.streams, err = stream.OpenRegistry(cat, a.log); err != nil {
		return nil, err
	}
	if compare {
		a.history, err = history.Start(ctx, history.Options{Dir: a.dir.Path, MemoryLimit: 4 << 30, ParserMemory: 256 << 20, Logger: quiet})
		a.parser = a.history
	} else {
		a.parser, err = history.NewParser(256 << 20)
	}
	if err != nil {
		return nil, err
	}
	for kind, definition := range nexmark.Streams {
		config, err := stream.ParseConfig([]byte(definition))
		if err != nil {
			return nil, err
		}
		if _, _, err := a.streams.Put(ctx, kind.String(), config); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *auctions) close() {
	if a.parser != nil {
		_ = a.parser.Close()
	}
	if a.log != nil {
		_ = a.log.Close()
	}
	if a.dir != nil {
		_ = a.dir.Close()
	}
}

// request is how many events are posted at once.
const request = 1000

// fill posts events; it returns the CPU time that taking them in took. The log's clock is the
// events' own, so that windows of append time are the same in each run.
func (a *auctions) fill(ctx context.Context, g *nexmark.Generator, events int64) (time.Duration, error) {
	in := ingest.New(a.streams, a.log, ingest.Options{Now: func() time.Time { return a.clock }})
	var took time.Duration
	bodies := map[nexmark.Kind][]byte{}
	for n := int64(0); n < events; {
		for kind := range bodies {
			bodies[kind] = bodies[kind][:0]
		}
		for range min(request, events-n) {
			line, kind := g.Append(nil, n)
			bodies[kind] = append(bodies[kind], line...)
			if kind == nexmark.Bid {
				a.bidBytes += int64(len(line))
			}
			n++
		}
		a.clock = g.Until(n - 1)
		began := cpuTime()
		for _, kind := range []nexmark.Kind{nexmark.Person, nexmark.Auction, nexmark.Bid} {
			if len(bodies[kind]) == 0 {
				continue
			}
			answer, err := in.Post(ctx, ingest.Request{Stream: kind.String(), Body: bodies[kind], ContentType: "application/x-ndjson", Strict: true, NoSync: n < events})
			if err != nil {
				return 0, err
			}
			if text, err := json.Marshal(answer); err != nil || strings.Contains(string(text), `"rejected":[{`) {
				return 0, fmt.Errorf("events were refused: %.300s", text)
			}
		}
		took += cpuTime() - began
	}
	return took, nil
}

// read decodes the log's bids, once for all queries. A last record ends time, so that every window
// becomes final.
func (a *auctions) read() error {
	bid, err := a.streams.Get(nexmark.Bid.String())
	if err != nil {
		return err
	}
	r := a.log.Read([]stream.ID{bid.ID}, 0)
	defer r.Close()
	last := stream.Control{Stream: bid.ID, Kind: stream.Advance, Value: math.MaxInt64 / 4, AppendTime: math.MaxInt64 / 4}
	for {
		e, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if e.Batch != nil {
			a.bids += int64(e.Batch.Len)
		}
		last.Sequence = e.Sequence() + 1
		a.entries = append(a.entries, e)
	}
	a.entries = append(a.entries, stream.Entry{Control: &last})
	return nil
}

// size is how many bytes the log keeps for the bids.
func (a *auctions) size() (int64, error) {
	bid, err := a.streams.Get(nexmark.Bid.String())
	if err != nil {
		return 0, err
	}
	stats, err := a.log.Stats(bid.ID)
	var size int64
	for _, p := range stats.Partitions {
		size += p.Bytes
	}
	return size, err
}

// Relation implements query.Catalog.
func (a *auctions) Relation(name string) (query.Relation, bool) {
	st, err := a.streams.Get(strings.ToLower(name))
	if err != nil {
		return query.Relation{}, false
	}
	return query.Relation{Name: st.Name, Kind: string(catalog.Stream), ID: st.ID, TimeField: st.Config.TimeField, Fields: st.Schema.Fields}, true
}

// open makes the engine of a query.
func (a *auctions) open(q nexmark.Query) (*engine.Engine, *query.Plan, error) {
	plan, err := query.Compile(a.parser.ParseSQL, a, q.SQL, query.Options{})
	if err != nil {
		return nil, nil, err
	}
	cfg := engine.Config{EmitFinal: q.Final, Late: engine.Drop}
	for _, s := range plan.Sources {
		cfg.Streams = append(cfg.Streams, windows.TrackedStream{Stream: s.Stream, MaxOutOfOrderness: 4 * windows.MicrosPerSecond, Table: s.Table})
	}
	e, err := engine.New(plan, cfg)
	return e, plan, err
}

// run runs a query over all entries in epochs of so many events.
func (a *auctions) run(q nexmark.Query, epoch int, each func(*query.Plan, *engine.Output)) (*engine.Engine, error) {
	e, plan, err := a.open(q)
	if err != nil {
		return nil, err
	}
	waiting := 0
	for i, entry := range a.entries {
		if err := e.Step(entry); err != nil {
			return nil, err
		}
		if entry.Batch != nil {
			waiting += entry.Batch.Len
		}
		if waiting >= epoch || i == len(a.entries)-1 {
			each(plan, e.Take(true))
			waiting = 0
		}
	}
	return e, nil
}

// used is what a run cost.
type used struct {
	cpu           time.Duration
	allocs, bytes uint64
	peak          uint64
	rows          int64
}

func (a *auctions) measure(q nexmark.Query, epoch int) (used, error) {
	goruntime.GC()
	var before, now goruntime.MemStats
	goruntime.ReadMemStats(&before)
	var u used
	began := cpuTime()
	_, err := a.run(q, epoch, func(_ *query.Plan, out *engine.Output) {
		for _, op := range out.Changes.Ops {
			u.rows += int64(op)
		}
		goruntime.ReadMemStats(&now)
		u.peak = max(u.peak, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
	})
	u.cpu = cpuTime() - began
	goruntime.ReadMemStats(&now)
	u.allocs, u.bytes = now.Mallocs-before.Mallocs, now.TotalAlloc-before.TotalAlloc
	return u, err
}

// multiset is a set of rows with repetition: their number and the sum of their hashes.
type multiset struct {
	count int64
	sum   [2]uint64
}

func (m *multiset) add(b *row.Batch, cols []int, i int, weight int64, buf []byte) []byte {
	buf = row.AppendRowKey(buf[:0], b, cols, i)
	m.count += weight
	m.sum[0] += uint64(weight) * xxhash.Sum64(buf)
	m.sum[1] += uint64(weight) * xxhash.Sum64(append(buf, 1))
	return buf
}

// compared are the columns of a query in which its rows are compared: all.
func compared(n int) []int {
	cols := make([]int, n)
	for i := range cols {
		cols[i] = i
	}
	return cols
}

// rows are those of the view after the last entry.
func (a *auctions) rows(q nexmark.Query, epoch int) (multiset, error) {
	var m multiset
	var buf []byte
	_, err := a.run(q, epoch, func(plan *query.Plan, out *engine.Output) {
		cols := compared(len(plan.Columns))
		for i, op := range out.Changes.Ops {
			buf = m.add(out.Changes.Rows, cols, i, int64(op), buf)
		}
	})
	return m, err
}

// batchRows are the rows that DuckDB gives for the query over the same events.
func (a *auctions) batchRows(ctx context.Context, q nexmark.Query) (multiset, error) {
	var m multiset
	if err := a.load(ctx); err != nil {
		return m, err
	}
	sql, err := query.Batch(a.parser.ParseSQL, a.parser.SQLFromAST, a, q.SQL)
	if err != nil {
		return m, err
	}
	fields, rows, stats, err := a.history.Rows(ctx, history.Query{SQL: sql, MaxRows: history.MaxRows, Timeout: 10 * time.Minute})
	if err != nil {
		return m, err
	}
	if stats.Truncated {
		return m, fmt.Errorf("more than %d rows: compare over fewer events", history.MaxRows)
	}
	var buf []byte
	cols := compared(len(fields))
	for i := range rows.Len {
		buf = m.add(rows, cols, i, 1, buf)
	}
	return m, nil
}

// load puts the bids into DuckDB, as the server does.
func (a *auctions) load(ctx context.Context) error {
	if a.loaded {
		return nil
	}
	bid, err := a.streams.Get(nexmark.Bid.String())
	if err != nil {
		return err
	}
	bigint, ts := row.Scalar(row.BigInt), row.Scalar(row.Timestamp)
	fields := append(append([]row.Field{}, bid.Schema.Fields...),
		row.Field{Name: query.PseudoPartition, Type: bigint}, row.Field{Name: query.PseudoOffset, Type: bigint}, row.Field{Name: query.PseudoSequence, Type: bigint},
		row.Field{Name: query.PseudoTime, Type: ts}, row.Field{Name: query.PseudoAppendTime, Type: ts}, row.Field{Name: query.PseudoKey, Type: row.Scalar(row.Varchar)})
	rows := row.NewBatch(fields, 0)
	var from []byte
	for n, e := range a.entries {
		if b := e.Batch; b != nil {
			own := len(fields) - 6
			for c := range own {
				rows.Cols[c].AppendAll(b.Columns[c])
			}
			for i := range b.Len {
				rows.Cols[own].AppendInt64(int64(b.Partition))
				rows.Cols[own+1].AppendInt64(int64(b.Offset(i)))
				rows.Cols[own+2].AppendInt64(int64(b.Sequence))
				rows.Cols[own+3].AppendInt64(b.Times[i])
				rows.Cols[own+4].AppendInt64(b.AppendTime)
				rows.Cols[own+5].AppendNull()
			}
			rows.Len += b.Len
		}
		if rows.Len >= 50_000 || n == len(a.entries)-1 {
			to := fmt.Append(nil, n+1)
			err := a.history.Apply(ctx, row.SinkBatch{Relation: bid.Name, ID: uint64(bid.ID), Version: 1, Fields: fields, From: from, To: to, Rows: rows})
			if err != nil {
				return err
			}
			from = to
			rows.Reset()
		}
	}
	a.loaded = true
	return nil
}

// profile writes a CPU profile to a file until stop is called; without a name nothing.
func profile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

// mallocs is how often this process has allocated so far.
func mallocs() uint64 {
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.Mallocs
}

// cpuTime is what this process has used of the processor so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
