package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
	"tidemark/windows/query"
)

// A scenario is a script with the expected output in place:
//
//	stream  tips euro BIGINT, who VARCHAR     a stream; its first column is ts, the event time
//	stream  tips/3 …                          with three partitions
//	view    ooo 5s, lateness 1h               options: ooo, lateness, drop, final, from, windows-from
//	  SELECT …                                the SQL, on one line or several
//	beneath minutes lateness 1h               a view that the next ones read; or: drop
//	send    tips 12:00:10 4 ada; 12:01 2 bob  one batch: a time and the other columns of each event
//	send    tips/2 at 12:30 …                 to partition 2, appended at that time
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
//	refused SELECT …                          SQL that can't be a view, with its message
//
// Instants are on 2024-01-15, or written out: 2024-01-16_08:00. A text with spaces is quoted.
type script struct {
	*world
	t      *testing.T
	file   string
	engine *engine.Engine
	out    bytes.Buffer // the file with the actual output in place
	all    *outcome
}

// files are the scenarios of this package, and those that lie beside the engine.
func files(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"testdata/*.txt", "testdata/*/*.txt"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	return list
}

func TestScenario(t *testing.T) {
	t.Parallel()
	list := files(t)
	if len(list) < 150 {
		t.Errorf("there are %d scenarios, fewer than 150", len(list))
	}
	for _, file := range list {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newScript(t, file)
			s.run(string(text))
			s.finish()
			switch {
			case s.out.String() == string(text):
			case *update:
				if err := os.WriteFile(file, s.out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s:\n%s", file, firstDifference(string(text), s.out.String()))
			}
		})
	}
}

// TestEngineScenariosGiveTheBatchAnswer takes the scenarios that lie beside the engine to DuckDB.
func TestEngineScenariosGiveTheBatchAnswer(t *testing.T) { // T1
	t.Parallel()
	found, err := filepath.Glob("../engine/testdata/*.txt")
	if err != nil || len(found) == 0 {
		t.Fatal("no scenarios beside the engine: ", err)
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range strings.Split(string(text), "\n\n") {
			t.Run(fmt.Sprintf("%s/%d", strings.TrimSuffix(filepath.Base(file), ".txt"), i), func(t *testing.T) {
				t.Parallel()
				s := newScript(t, file)
				s.run(one)
				s.finish()
			})
		}
	}
}

func newScript(t *testing.T, file string) *script {
	return &script{world: &world{t: t}, t: t, file: file, all: newOutcome()}
}

// firstDifference shows the lines around the first that differ.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	show := func(lines []string) string {
		return strings.Join(lines[min(max(0, i-6), len(lines)):min(i+12, len(lines))], "\n")
	}
	return fmt.Sprintf("line %d\n--- want\n%s\n--- got\n%s", i+1, show(w), show(g))
}

// run runs a script up to its end.
func (s *script) run(text string) {
	s.t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	below := func(n int) int { // the lines that belong to line n
		k := n + 1
		for k < len(lines) && strings.HasPrefix(lines[k], "  ") {
			k++
		}
		return k
	}
	for n := 0; n < len(lines); {
		line, end := lines[n], below(n)
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		if word == "view" || word == "send" || word == "beneath" {
			if word == "beneath" {
				name, options, _ := strings.Cut(rest, " ")
				lateness, err := time.ParseDuration(strings.TrimPrefix(strings.TrimSpace(options), "lateness "))
				if err != nil {
					lateness = 0 // drop
				}
				s.beneath(name, strings.TrimSpace(strings.Join(lines[n+1:end], "\n")), lateness.Microseconds())
			} else if word == "view" {
				options, sql, _ := strings.Cut(rest+" ", ": ")
				s.view(options, strings.TrimSpace(sql+"\n"+strings.Join(lines[n+1:end], "\n")))
			} else {
				s.step(stream.Entry{Batch: s.batch(strings.TrimSpace(rest + " " + strings.Join(lines[n+1:end], " ")))})
			}
			s.out.WriteString(strings.Join(lines[n:end], "\n") + "\n")
			n = end
			continue
		}
		s.out.WriteString(line + "\n")
		output, expects := s.line(n, word, rest)
		if !expects {
			n++
			continue
		}
		for _, l := range output {
			s.out.WriteString("  " + l + "\n")
		}
		n = end
	}
}

// line runs one line and says what is expected below it.
func (s *script) line(n int, word, rest string) (output []string, expects bool) {
	s.t.Helper()
	switch word {
	case "", "#":
	case "stream":
		s.declared(rest)
	case "idle", "clock", "advance":
		s.step(stream.Entry{Control: s.control(word, rest)})
	case "take":
		s.all.add(s.engine.Take(false))
	case "expect":
		return s.all.add(s.engine.Take(true)), true
	case "rows":
		return s.all.lines(true), true
	case "late":
		return s.all.late, true
	case "errors":
		return s.all.errors, true
	case "counts":
		c := s.all.counts
		return []string{fmt.Sprintf("events %d, corrected %d, partial %d, dropped %d, errors %d, filtered %d",
			c.Events, c.LateCorrected, c.LatePartial, c.LateDropped, c.RowErrors, c.Filtered)}, true
	case "refused":
		return s.refused(rest), true
	default:
		s.t.Fatalf("%s:%d: what is %q?", s.file, n+1, word)
	}
	return nil, false
}

// refused says why a text can't be a view.
func (s *script) refused(sql string) []string {
	rest, final := strings.CutPrefix(sql, "final: ")
	plan, err := query.Compile(duck.ParseSQL, s, rest, query.Options{EmitFinal: final})
	if err == nil {
		_, err = engine.New(plan, engine.Config{EmitFinal: final, Streams: tracked(plan, 0)})
	}
	var p *problem.Problem
	switch {
	case err == nil:
		s.t.Errorf("%s: is taken", sql)
		return []string{"taken"}
	case !errors.As(err, &p):
		s.t.Fatalf("%s: %v is no problem document", sql, err)
	case p.Status != 422 && p.Status != 413 || p.Hint == "":
		s.t.Errorf("%s: %d %s has no next step", sql, p.Status, p.Detail)
	}
	place := ""
	if p.Position >= 0 {
		place = fmt.Sprintf(" at %d", p.Position)
	}
	return []string{fmt.Sprintf("%d %s%s: %s", p.Status, p.Code, place, p.Detail), "hint: " + p.Hint}
}

func (s *script) declared(rest string) {
	head, cols, _ := strings.Cut(rest, " ")
	name, parts, many := strings.Cut(head, "/")
	partitions := 1
	if many {
		partitions, _ = strconv.Atoi(parts)
	}
	var fields []row.Field
	for _, c := range splitTop(cols, ',') {
		if c = strings.TrimSpace(c); c == "" {
			continue
		}
		n, typ, _ := strings.Cut(c, " ")
		t, err := row.ParseType(typ)
		if err != nil {
			s.t.Fatal(err)
		}
		fields = append(fields, row.Field{Name: n, Type: t})
	}
	s.declare(name, partitions, fields)
}

// splitTop splits a text where a separator stands outside of brackets and quotes.
func splitTop(text string, sep byte) []string {
	var parts []string
	depth, quote, from := 0, false, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\'':
			quote = !quote
		case quote:
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == sep && depth == 0:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}

func (s *script) view(options, sql string) {
	s.sql = sql
	s.cfg = engine.Config{AllowedLateness: time.Hour.Microseconds()}
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
		case "":
		case "ooo":
			ooo = span()
		case "lateness":
			s.cfg.AllowedLateness = span()
		case "drop":
			s.cfg.Late = engine.Drop
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
		default:
			s.t.Fatalf("%s: what is the option %q?", s.file, word)
		}
	}
	s.cfg.Streams = tracked(s.compile(s.cfg.EmitFinal), ooo)
	s.engine = s.open(s.cfg.EmitFinal)
	for _, e := range s.reads(s.log) {
		s.must(s.engine.Step(e))
	}
}

func (s *script) step(e stream.Entry) {
	s.log = append(s.log, e)
	if len(s.reads([]stream.Entry{e})) > 0 {
		s.must(s.engine.Step(e))
	}
}

// target reads a stream and a partition.
func (s *script) target(word string) (*table, stream.Partition) {
	name, part, _ := strings.Cut(word, "/")
	f := s.stream(name)
	if f == nil {
		s.t.Fatalf("there is no stream %s", name)
	}
	p, _ := strconv.Atoi(part)
	return f, stream.Partition(p)
}

func (s *script) batch(rest string) *stream.Batch {
	head, events, _ := strings.Cut(rest, " ")
	f, p := s.target(head)
	at := max(s.lastAppend(), day+86000*second)
	if when, ok := strings.CutPrefix(events, "at "); ok {
		word, more, _ := strings.Cut(when, " ")
		at, events = instant(s.t, word), more
	}
	b := s.empty(f, p, at)
	for _, event := range splitTop(events, ';') {
		words := slices.DeleteFunc(splitTop(strings.TrimSpace(event), ' '), func(w string) bool { return w == "" })
		time := instant(s.t, words[0])
		b.Times = append(b.Times, time)
		b.Columns[0].AppendInt64(time)
		b.Keys.AppendNull()
		for i, v := range b.Columns[1:] {
			if i+1 >= len(words) || words[i+1] == "null" {
				v.AppendNull()
				continue
			}
			s.must(value(s.t, v, words[i+1]))
		}
		b.Len++
	}
	f.next[p] += stream.Offset(b.Len)
	return b
}

// value appends a word of a script.
func value(t failer, v *row.Vector, word string) error {
	bare := word
	if len(word) > 1 && word[0] == '\'' {
		bare = word[1 : len(word)-1]
	}
	switch v.Type.Kind {
	case row.Varchar:
		v.AppendString(bare)
		return nil
	case row.Timestamp:
		v.AppendInt64(instant(t, bare))
		return nil
	case row.Date, row.Interval, row.Blob:
		return row.ParseJSONValue(v, strconv.AppendQuote(nil, bare))
	case row.Double, row.Float:
		f, err := strconv.ParseFloat(bare, 64)
		v.AppendFloat64(f)
		return err
	}
	return row.ParseJSONValue(v, []byte(bare))
}

// word is what value reads.
func word(v *row.Vector, i int) string {
	text := row.TextOf(v, i)
	switch {
	case v.IsNull(i):
		return "null"
	case v.Type.Kind == row.Timestamp:
		return instantText(v.I64[i])
	case v.Type.Kind == row.List, v.Type.Kind == row.Struct:
		return string(row.AppendJSON(nil, v, i))
	case v.Type.Kind == row.Varchar && (text == "" || text == "null" || strings.ContainsAny(text, " ;()[]{}")):
		return "'" + text + "'"
	}
	return text
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
	if n := len(words); n > 2 && words[n-2] == "at" {
		c.AppendTime = instant(s.t, words[n-1])
	}
	return c
}

// script writes a world as a scenario.
func (w *world) script() string {
	var b strings.Builder
	names := map[stream.ID]string{}
	for _, f := range w.streams {
		names[f.id] = f.name
		head := f.name
		if f.partitions > 1 {
			head += fmt.Sprint("/", f.partitions)
		}
		var cols []string
		for _, fd := range f.fields[1:] {
			cols = append(cols, fd.Name+" "+fd.Type.String())
		}
		fmt.Fprintf(&b, "stream %s %s\n", head, strings.Join(cols, ", "))
	}
	for _, v := range w.views {
		late := "drop"
		if v.View.AllowedLateness > 0 {
			late = "lateness " + (time.Duration(v.View.AllowedLateness) * time.Microsecond).String()
		}
		fmt.Fprintf(&b, "beneath %s %s\n  %s\n", v.Name, late, v.View.SQL)
	}
	var options []string
	span := func(word string, x windows.Micros) {
		if x != 0 {
			options = append(options, word+" "+(time.Duration(x)*time.Microsecond).String())
		}
	}
	if len(w.cfg.Streams) > 0 {
		span("ooo", w.cfg.Streams[0].MaxOutOfOrderness)
	}
	if w.cfg.Late == engine.Drop || w.cfg.AllowedLateness == 0 {
		options = append(options, "drop")
	} else {
		span("lateness", w.cfg.AllowedLateness)
	}
	if w.cfg.EmitFinal {
		options = append(options, "final")
	}
	switch {
	case w.cfg.EventsFrom != nil:
		options = append(options, "from "+instantText(*w.cfg.EventsFrom))
	case w.cfg.WindowsFrom != nil:
		options = append(options, "windows-from "+instantText(*w.cfg.WindowsFrom))
	}
	fmt.Fprintf(&b, "view %s\n  %s\n", strings.Join(options, ", "), w.sql)
	for _, e := range w.log {
		at := instantText(e.AppendTime())
		if c := e.Control; c != nil {
			head := fmt.Sprintf("%s/%d", names[c.Stream], c.Partition)
			switch c.Kind {
			case stream.Idle:
				fmt.Fprintf(&b, "idle %s at %s\n", head, at)
			case stream.Clock:
				fmt.Fprintf(&b, "clock %s at %s\n", head, at)
			case stream.Advance:
				fmt.Fprintf(&b, "advance %s %s at %s\n", head, instantText(c.Value), at)
			}
			continue
		}
		var events []string
		for i := range e.Batch.Len {
			words := []string{instantText(e.Batch.Times[i])}
			for _, v := range e.Batch.Columns[1:] {
				words = append(words, word(v, i))
			}
			events = append(events, strings.Join(words, " "))
		}
		fmt.Fprintf(&b, "send %s/%d at %s %s\n", names[e.Batch.Stream], e.Batch.Partition, at, strings.Join(events, "; "))
	}
	return b.String() + "expect\n"
}

// finish takes the scenario down every other road.
func (s *script) finish() {
	s.t.Helper()
	if s.engine == nil {
		return
	}
	s.all.add(s.engine.Take(true))
	s.roads(s.all)
	if failed := s.verdict(s.all, s.engine.Watermark()); failed != "" {
		s.t.Errorf("%s\nDuckDB gives no answer at all: %s", s.sql, failed)
	}
}
