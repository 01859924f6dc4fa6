package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/query"
)

// The scenarios in testdata are scripts with the expected output in place:
//
//	stream  tips euro BIGINT, who VARCHAR     a stream; its first column is ts, the event time
//	stream  tips/3 …                          with three partitions
//	view    ooo 5s, lateness 1h: SELECT …     options: ooo, lateness, drop, final, from, windows-from
//	send    tips 12:00:10 4 ada; 12:01 2 bob  one batch: a time and the other columns of each event
//	send    tips/2 …                          to partition 2
//	idle    tips/2 at 12:30                   control records; at is the append time
//	clock   tips at 12:31
//	advance tips 13:00
//	take                                      takes final changes only
//	expect                                    takes everything; the lines below are what came
//	  - 12:00 4
//	  + 12:00 11 corrected, revision 2
//	rows                                      the rows as they are
//	late                                      the late records since the start
//	errors                                    the row errors since the start
//	counts                                    the counts
//
// Instants are on 2024-01-15. What DuckDB's parser says of the SQL is kept in testdata/asts.json.
//
//	go test ./windows/engine -run Scenario -update -parser PROGRAM
//
// writes the expected output anew; PROGRAM reads SQL texts, one a line, and answers with their
// trees, one a line.
var (
	update = flag.Bool("update", false, "write the expected output of the scenarios anew")
	parser = flag.String("parser", "", "program that parses SQL that is not kept yet")
)

const astsFile = "testdata/asts.json"

var asts = map[string]json.RawMessage{}

func TestMain(m *testing.M) {
	flag.Parse()
	keepRandomTestsShort()
	if text, err := os.ReadFile(astsFile); err == nil {
		if err := json.Unmarshal(text, &asts); err != nil {
			panic(err)
		}
	}
	before := len(asts)
	if *update && *parser != "" {
		for _, file := range scenarioFiles() {
			keepTrees(file)
		}
		for _, sql := range slices.Concat(spillViews(), pieceViews, mergeViews) { // the random views among them
			keepTree(sql)
		}
		for _, v := range slices.Concat(benchViews, setViews) {
			keepTree(v.sql)
		}
		keepTree(perMinute)
		keepTree(finals)
	}
	if len(asts) != before {
		saveTrees()
	}
	os.Exit(m.Run())
}

// keepRandomTestsShort sets -rapid.checks unless it is given or TIDEMARK_LONG is set.
func keepRandomTestsShort() {
	given := os.Getenv("TIDEMARK_LONG") != ""
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if given {
		return
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}

func scenarioFiles() []string {
	files, _ := filepath.Glob("testdata/*.txt")
	return files
}

// keepTrees asks the parser for the trees of a file's views that are not kept yet.
func keepTrees(file string) {
	text, _ := os.ReadFile(file)
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "view"); ok {
			_, sql, _ := strings.Cut(rest, ":")
			keepTree(strings.TrimSpace(sql))
		}
	}
}

func keepTree(sql string) {
	if _, known := asts[sql]; known {
		return
	}
	cmd := exec.Command(*parser)
	cmd.Stdin = strings.NewReader(sql + "\n")
	out, err := cmd.Output()
	if err != nil {
		panic(err)
	}
	asts[sql] = json.RawMessage(bytes.TrimSpace(out))
}

func saveTrees() {
	var b bytes.Buffer
	b.WriteString("{\n")
	keys := slices.Sorted(maps.Keys(asts))
	for i, sql := range keys {
		name, _ := json.Marshal(sql)
		b.Write(name)
		b.WriteString(": ")
		b.Write(asts[sql])
		if i+1 < len(keys) {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	if err := os.WriteFile(astsFile, b.Bytes(), 0o644); err != nil {
		panic(err)
	}
}

func parseKept(sql string) ([]byte, error) {
	if ast, ok := asts[sql]; ok {
		return ast, nil
	}
	return nil, errors.New("not kept; run with -update -parser: " + sql)
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// script is one scenario file as it is run.
type script struct {
	t       failer
	file    string
	streams map[string]*fakeStream
	log     []stream.Entry
	cfg     Config
	sql     string
	finals  string // the SQL of the view finals, which gives out final rows only
	engine  *Engine
	plan    *query.Plan
	out     bytes.Buffer // the file with the actual output in place
	all     history
	wrap    func(*query.Plan) // changes each compiled plan

	functions map[int]Function
}

type fakeStream struct {
	id         stream.ID
	fields     []row.Field
	partitions int
	next       map[stream.Partition]stream.Offset
}

// history is what came of a log.
type history struct {
	rows     map[string]string // key → row, by summing up the changes
	final    []string          // final and corrected changes
	late     []string
	errors   []string
	counts   Counts
	problems []string
}

func TestScenario(t *testing.T) {
	for _, file := range scenarioFiles() {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t, file: file}
			s.run(string(text))
			switch {
			case s.out.String() == string(text):
			case *update:
				if err := os.WriteFile(file, s.out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s:\n%s", file, diff(string(text), s.out.String()))
			}
		})
	}
}

// diff shows the first lines that differ.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	from := max(0, i-6)
	show := func(lines []string) string {
		return strings.Join(lines[min(from, len(lines)):min(i+12, len(lines))], "\n")
	}
	return fmt.Sprintf("line %d\n--- want\n%s\n--- got\n%s", i+1, show(w), show(g))
}

func (s *script) run(text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	s.reset()
	for n := 0; n < len(lines); n++ {
		line := lines[n]
		s.out.WriteString(line + "\n")
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		var output []string
		expects := false
		switch word {
		case "", "#":
		case "stream":
			if s.plan != nil {
				s.finish()
				s.reset()
			}
			s.declare(rest)
		case "view":
			s.view(rest)
		case "send":
			s.step(stream.Entry{Batch: s.batch(rest)})
		case "idle", "clock", "advance":
			s.step(stream.Entry{Control: s.control(word, rest)})
		case "take":
			s.take(false)
		case "expect":
			expects, output = true, s.take(true)
		case "rows":
			expects = true
			output = slices.Sorted(maps.Values(s.all.rows))
		case "late":
			expects, output = true, s.all.late
		case "errors":
			expects, output = true, s.all.errors
		case "counts":
			expects = true
			c := s.all.counts
			output = []string{fmt.Sprintf("events %d, corrected %d, partial %d, dropped %d, errors %d, filtered %d",
				c.Events, c.LateCorrected, c.LatePartial, c.LateDropped, c.RowErrors, c.Filtered)}
		default:
			s.t.Fatalf("%s:%d: what is %q?", s.file, n+1, word)
		}
		if expects {
			for n+1 < len(lines) && strings.HasPrefix(lines[n+1], "  ") {
				n++
			}
			for _, l := range output {
				s.out.WriteString("  " + l + "\n")
			}
		}
	}
	s.finish()
}

func (s *script) reset() {
	s.streams, s.log, s.cfg, s.engine, s.plan = map[string]*fakeStream{}, nil, Config{}, nil, nil
	s.all = history{rows: map[string]string{}}
}

// Relation is query.Catalog.
func (s *script) Relation(name string) (query.Relation, bool) {
	if s.finals != "" && name == "finals" {
		plan, err := query.Compile(parseKept, s, s.finals, query.Options{EmitFinal: true})
		s.must(err)
		view := &query.View{SQL: s.finals, Within: s, AllowedLateness: s.cfg.AllowedLateness, EmitFinal: true}
		return query.Relation{Name: name, Kind: "view", Fields: plan.Columns, View: view}, true
	}
	f, ok := s.streams[strings.ToLower(name)]
	if !ok {
		return query.Relation{}, false
	}
	return query.Relation{Name: name, Kind: "stream", ID: f.id, TimeField: "ts", Fields: f.fields}, true
}

func (s *script) declare(rest string) {
	head, cols, _ := strings.Cut(rest, " ")
	name, parts, many := strings.Cut(head, "/")
	f := &fakeStream{id: stream.ID(len(s.streams) + 1), partitions: 1, next: map[stream.Partition]stream.Offset{}}
	if many {
		f.partitions, _ = strconv.Atoi(parts)
	}
	f.fields = []row.Field{{Name: "ts", Type: row.Scalar(row.Timestamp)}}
	for _, c := range strings.Split(cols, ",") {
		if c = strings.TrimSpace(c); c == "" {
			continue
		}
		n, typ, _ := strings.Cut(c, " ")
		t, err := row.ParseType(typ)
		if err != nil {
			s.t.Fatal(err)
		}
		f.fields = append(f.fields, row.Field{Name: n, Type: t})
	}
	s.streams[name] = f
	s.log = append(s.log, stream.Entry{Control: &stream.Control{
		Stream: f.id, Sequence: s.next(), AppendTime: s.lastAppend(), Kind: stream.Partitions, Value: int64(f.partitions),
	}})
}

func (s *script) view(rest string) {
	options, sql, _ := strings.Cut(rest, ":")
	s.sql = strings.TrimSpace(sql)
	s.cfg = Config{AllowedLateness: time.Hour.Microseconds(), Functions: s.functions}
	ooo := int64(0)
	for _, o := range strings.Split(options, ",") {
		word, value, _ := strings.Cut(strings.TrimSpace(o), " ")
		span := func() int64 {
			d, err := time.ParseDuration(value)
			if err != nil {
				s.t.Fatal(err)
			}
			return d.Microseconds()
		}
		switch word {
		case "ooo":
			ooo = span()
		case "lateness":
			s.cfg.AllowedLateness = span()
		case "drop":
			s.cfg.Late = Drop
		case "final":
			s.cfg.EmitFinal = true
		case "from":
			at := instant(s.t, value)
			s.cfg.EventsFrom, s.cfg.WindowsFrom = &at, &at
		case "windows-from":
			at := instant(s.t, value)
			s.cfg.WindowsFrom = &at
		case "evidence":
			s.cfg.Evidence = true
		}
	}
	plan, err := query.Compile(parseKept, s, s.sql, query.Options{EmitFinal: s.cfg.EmitFinal})
	if err != nil {
		s.t.Fatalf("%s: %v", s.sql, err)
	}
	s.plan = plan
	for _, src := range plan.Sources {
		s.cfg.Streams = append(s.cfg.Streams, windows.TrackedStream{Stream: src.Stream, MaxOutOfOrderness: ooo, IdleAdvance: true})
	}
	s.engine = s.open()
	s.plan = s.engine.plan
	for _, e := range s.log {
		s.must(s.engine.Step(e))
	}
}

func (s *script) must(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatal(err)
	}
}

func (s *script) open() *Engine {
	// Expressions belong to one engine.
	plan, err := query.Compile(parseKept, s, s.sql, query.Options{EmitFinal: s.cfg.EmitFinal})
	s.must(err)
	if s.wrap != nil {
		s.wrap(plan)
	}
	e, err := New(plan, s.cfg)
	s.must(err)
	return e
}

func (s *script) next() stream.Sequence { return stream.Sequence(len(s.log) + 1) }

func (s *script) lastAppend() windows.Micros {
	if len(s.log) == 0 {
		return day
	}
	return s.log[len(s.log)-1].AppendTime()
}

func (s *script) step(e stream.Entry) {
	s.log = append(s.log, e)
	s.must(s.engine.Step(e))
}

const day = 19737 * windows.MicrosPerDay // 2024-01-15

func instant(t failer, text string) windows.Micros {
	if strings.Contains(text, "-") {
		at, err := row.ParseTime([]byte(strings.Replace(text, "_", " ", 1)))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, layout := range []string{"15:04:05.999999", "15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return day + at.Sub(at.Truncate(24*time.Hour)).Microseconds()
		}
	}
	t.Fatalf("%q is no instant", text)
	return 0
}

// target reads a stream and a partition.
func (s *script) target(word string) (*fakeStream, stream.Partition) {
	name, part, _ := strings.Cut(word, "/")
	f := s.streams[name]
	if f == nil {
		s.t.Fatalf("there is no stream %s", name)
	}
	p, _ := strconv.Atoi(part)
	return f, stream.Partition(p)
}

func (s *script) batch(rest string) *stream.Batch {
	head, events, _ := strings.Cut(rest, " ")
	f, p := s.target(head)
	b := &stream.Batch{
		Stream: f.id, Partition: p, Base: f.next[p], Sequence: s.next(), AppendTime: max(s.lastAppend(), day+86000*windows.MicrosPerSecond),
		Keys: row.NewVector(row.Scalar(row.Varchar), 0),
	}
	for _, fd := range f.fields {
		b.Columns = append(b.Columns, row.NewVector(fd.Type, 0))
	}
	for _, event := range strings.Split(events, ";") {
		words := strings.Fields(event)
		at := instant(s.t, words[0])
		b.Times = append(b.Times, at)
		b.Columns[0].AppendInt64(at)
		b.Keys.AppendNull()
		for i, v := range b.Columns[1:] {
			switch {
			case i+1 >= len(words) || words[i+1] == "null":
				v.AppendNull()
			case v.Type.Kind == row.Varchar:
				v.AppendString(words[i+1])
			default:
				s.must(row.ParseJSONValue(v, []byte(words[i+1])))
			}
		}
		b.Len++
	}
	f.next[p] += stream.Offset(b.Len)
	return b
}

func (s *script) control(word, rest string) *stream.Control {
	words := strings.Fields(rest)
	f, p := s.target(words[0])
	c := &stream.Control{Stream: f.id, Partition: p, Sequence: s.next(), AppendTime: s.lastAppend()}
	switch word {
	case "idle":
		c.Kind = stream.Idle
	case "clock":
		c.Kind = stream.Clock
	case "advance":
		c.Kind, c.Value = stream.Advance, instant(s.t, words[1])
	}
	if len(words) > 2 && words[1] == "at" {
		c.AppendTime = instant(s.t, words[2])
	}
	return c
}

func (s *script) take(all bool) []string { return s.all.add(s.plan, s.engine.Take(all)) }

// add takes an output in and returns its changes as lines.
func (h *history) add(plan *query.Plan, o *Output) []string {
	var lines []string
	ch := o.Changes
	for i := range ch.Len() {
		text := rowText(ch.Rows, i)
		line := "+ " + text
		if ch.Ops[i] < 0 {
			line = "- " + text
		}
		if ch.Status[i] != windows.None {
			line += " " + ch.Status[i].String()
		}
		if ch.Revision[i] > 1 {
			line += fmt.Sprintf(", revision %d", ch.Revision[i])
		}
		lines = append(lines, line)
		key := string(ch.Keys[i])
		if was, there := h.rows[key]; ch.Ops[i] < 0 {
			if !there || !strings.HasPrefix(was, text) {
				h.problems = append(h.problems, fmt.Sprintf("%s: but the row is %q", line, was))
			}
			delete(h.rows, key)
		} else {
			if there {
				h.problems = append(h.problems, fmt.Sprintf("%s: but there is %q", line, was))
			}
			h.rows[key] = text + " " + ch.Status[i].String()
		}
		if ch.Status[i] == windows.Final || ch.Status[i] == windows.Corrected {
			h.final = append(h.final, fmt.Sprintf("%d %s", ch.Sequences[i], line))
		}
	}
	for _, l := range o.Late {
		line := fmt.Sprintf("%s %s met %s: %s", l.Place, instantText(l.Time), instantText(l.Watermark), l.Outcome)
		for _, r := range l.Refused {
			line += fmt.Sprintf(" %d[%s %s]", r.Function, instantText(r.Start), instantText(r.End))
		}
		h.late = append(h.late, line)
	}
	for _, x := range o.RowErrors {
		h.errors = append(h.errors, fmt.Sprintf("%+d %s: %s: %s", x.Weight, x.Place, x.Code, x.Message))
	}
	h.counts = o.Counts
	return lines
}

func rowText(b *row.Batch, i int) string {
	var words []string
	for _, v := range b.Cols {
		switch {
		case v.IsNull(i):
			words = append(words, "null")
		case v.Type.Kind == row.Timestamp:
			words = append(words, instantText(v.I64[i]))
		default:
			words = append(words, row.TextOf(v, i))
		}
	}
	return strings.Join(words, " ")
}

func instantText(at windows.Micros) string {
	if at == windows.NoWatermark {
		return "nothing"
	}
	u := time.UnixMicro(at).UTC()
	layout := "15:04"
	if at%(60*windows.MicrosPerSecond) != 0 {
		layout = "15:04:05.999999"
	}
	if at < day || at >= day+windows.MicrosPerDay {
		layout = "2006-01-02_" + layout
	}
	return u.Format(layout)
}

// finish runs the log of a scenario again on every other road.
func (s *script) finish() {
	if s.plan == nil {
		return
	}
	s.take(true)
	want := s.all
	for name, run := range map[string]func() history{
		"taken once at the end":                      func() history { return s.road(0, false, false) },
		"everything taken after each entry":          func() history { return s.road(1, true, false) },
		"final changes taken after each entry":       func() history { return s.road(1, false, false) },
		"stopped and loaded after each entry":        func() history { return s.road(1, true, true) },
		"stopped and loaded with provisional rows":   func() history { return s.road(1, false, true) },
		"stopped and loaded after every third entry": func() history { return s.road(3, false, true) },
	} {
		got := run()
		s.same(name, "rows", slices.Sorted(maps.Values(want.rows)), slices.Sorted(maps.Values(got.rows)))
		s.same(name, "final changes", inOrder(want.final), inOrder(got.final))
		s.same(name, "late records", want.late, got.late)
		s.same(name, "row errors", want.errors, got.errors)
		if want.counts != got.counts {
			s.t.Errorf("%s, %s: counts %+v, want %+v", s.sql, name, got.counts, want.counts)
		}
		s.same(name, "problems", nil, got.problems)
	}
	s.same("as written", "problems", nil, want.problems)
	// However events are cut into batches, they are judged alike (T4).
	got := s.eventByEvent()
	s.same("event by event", "rows", noStatus(want.rows), noStatus(got.rows))
	s.same("event by event", "late records", want.late, got.late)
	s.same("event by event", "row errors", want.errors, got.errors)
	s.same("event by event", "problems", nil, got.problems)
	if want.counts != got.counts {
		s.t.Errorf("%s, event by event: counts %+v, want %+v", s.sql, got.counts, want.counts)
	}
}

// inOrder leaves the order of different sequences: lines begin with theirs.
func inOrder(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

func noStatus(rows map[string]string) []string {
	var out []string
	for _, r := range rows {
		text, _, _ := strings.Cut(r, " corrected")
		text, _, _ = strings.Cut(text, " final")
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (s *script) same(road, what string, want, got []string) {
	s.t.Helper()
	if !slices.Equal(want, got) {
		s.t.Errorf("%s\n%s: other %s\n--- want\n%s\n--- got\n%s", s.sql, road, what, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// road runs the log with a Take after every n entries.
func (s *script) road(n int, all, reload bool) history {
	h := history{rows: map[string]string{}}
	state := map[string][]byte{}
	e := s.open()
	for i, entry := range s.log {
		s.must(e.Step(entry))
		if n == 0 || (i+1)%n != 0 {
			continue
		}
		o := e.Take(all)
		h.add(s.plan, o)
		for _, w := range o.Writes {
			if w.Value == nil {
				delete(state, string(w.Key))
			} else {
				state[string(w.Key)] = w.Value
			}
		}
		if reload {
			e = s.open()
			for _, k := range slices.Sorted(maps.Keys(state)) {
				s.must(e.Load([]byte(k), state[k]))
			}
			s.must(e.Loaded())
		}
	}
	h.add(s.plan, e.Take(true))
	return h
}

// eventByEvent runs the log with each event in a batch of its own.
func (s *script) eventByEvent() history {
	h := history{rows: map[string]string{}}
	e := s.open()
	for _, entry := range s.log {
		if entry.Batch == nil {
			s.must(e.Step(entry))
			continue
		}
		for i := range entry.Batch.Len {
			b := *entry.Batch
			b.Base += stream.Offset(i)
			b.Len, b.Times = 1, b.Times[i:i+1]
			one := func(v *row.Vector) *row.Vector {
				w := row.NewVector(v.Type, 1)
				w.AppendFrom(v, i)
				return w
			}
			b.Keys = one(b.Keys)
			b.Columns = nil
			for _, v := range entry.Batch.Columns {
				b.Columns = append(b.Columns, one(v))
			}
			s.must(e.Step(stream.Entry{Batch: &b}))
		}
	}
	h.add(s.plan, e.Take(true))
	return h
}
