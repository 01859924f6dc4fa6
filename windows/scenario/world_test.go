package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
	"tidemark/windows/judge"
	"tidemark/windows/query"
)

const (
	day    = 19737 * windows.MicrosPerDay // 2024-01-15
	second = windows.MicrosPerSecond
)

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// table is a stream.
type table struct {
	name       string
	id         stream.ID
	fields     []row.Field // the first is ts
	partitions int
	next       map[stream.Partition]stream.Offset
}

// world is streams with a log, and one view.
type world struct {
	t       failer
	streams []*table
	views   []query.Relation // beneath the view
	log     []stream.Entry
	shuffle uint64 // how DuckDB's tables are shuffled; 0: they are not
	sql     string
	cfg     engine.Config
}

// Relation is query.Catalog.
func (w *world) Relation(name string) (query.Relation, bool) {
	for _, v := range w.views {
		if strings.EqualFold(v.Name, name) {
			return v, true
		}
	}
	f := w.stream(name)
	if f == nil {
		return query.Relation{}, false
	}
	return query.Relation{Name: f.name, Kind: "stream", ID: f.id, TimeField: "ts", Fields: f.fields}, true
}

func (w *world) stream(name string) *table {
	for _, f := range w.streams {
		if strings.EqualFold(f.name, name) {
			return f
		}
	}
	return nil
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatalf("%s\n%v\nas a scenario:\n%s", w.sql, err, w.script())
	}
}

// declare makes a stream.
func (w *world) declare(name string, partitions int, fields []row.Field) *table {
	f := &table{name: name, id: stream.ID(len(w.streams) + 1), partitions: partitions, next: map[stream.Partition]stream.Offset{}}
	f.fields = append([]row.Field{{Name: "ts", Type: row.Scalar(row.Timestamp)}}, fields...)
	w.streams = append(w.streams, f)
	w.log = append(w.log, stream.Entry{Control: &stream.Control{
		Stream: f.id, Sequence: w.next(), AppendTime: w.lastAppend(), Kind: stream.Partitions, Value: int64(partitions),
	}})
	return f
}

func (w *world) next() stream.Sequence { return stream.Sequence(len(w.log) + 1) }

func (w *world) lastAppend() windows.Micros {
	if len(w.log) == 0 {
		return day
	}
	return w.log[len(w.log)-1].AppendTime()
}

// empty is a batch without events at the end of a partition.
func (w *world) empty(f *table, p stream.Partition, at windows.Micros) *stream.Batch {
	b := &stream.Batch{Stream: f.id, Partition: p, Base: f.next[p], Sequence: w.next(), AppendTime: at, Keys: row.NewVector(row.Scalar(row.Varchar), 0)}
	for _, fd := range f.fields {
		b.Columns = append(b.Columns, row.NewVector(fd.Type, 0))
	}
	return b
}

// beneath makes a view that others can read.
func (w *world) beneath(name, sql string, lateness windows.Micros) {
	w.t.Helper()
	plan, err := query.Compile(duck.ParseSQL, w, sql, query.Options{})
	w.must(err)
	w.views = append(w.views, query.Relation{
		Name: name, Kind: "view", Fields: plan.Columns, View: &query.View{SQL: sql, Within: w, AllowedLateness: lateness},
	})
}

// compile binds the view; expressions belong to one engine or judge.
func (w *world) compile(final bool) *query.Plan {
	w.t.Helper()
	plan, err := query.Compile(duck.ParseSQL, w, w.sql, query.Options{EmitFinal: final})
	w.must(err)
	return plan
}

func (w *world) open(final bool) *engine.Engine {
	w.t.Helper()
	cfg, plan := w.cfg, w.compile(final)
	cfg.EmitFinal = final
	for n, f := range judge.Functions(plan) { // of the views beneath
		if cfg.Functions == nil {
			cfg.Functions = map[int]engine.Function{}
		}
		cfg.Functions[n] = engine.Function{AllowedLateness: f.AllowedLateness, Quiet: f.Quiet}
	}
	e, err := engine.New(plan, cfg)
	w.must(err)
	return e
}

// tracked says how the watermarks of a plan's streams are taken.
func tracked(plan *query.Plan, ooo windows.Micros) (list []windows.TrackedStream) {
	for _, s := range plan.Sources {
		list = append(list, windows.TrackedStream{Stream: s.Stream, MaxOutOfOrderness: ooo, IdleAdvance: true})
	}
	return list
}

// reads leaves the entries of streams that the view reads.
func (w *world) reads(log []stream.Entry) []stream.Entry {
	return slices.DeleteFunc(slices.Clone(log), func(e stream.Entry) bool {
		return !slices.ContainsFunc(w.cfg.Streams, func(s windows.TrackedStream) bool { return s.Stream == e.Stream() })
	})
}

// outcome is what came of a log.
type outcome struct {
	rows     map[string]rowAt // by key: all changes summed up
	final    []string         // final and corrected changes with their sequence
	late     []string
	errors   []string
	counts   engine.Counts
	problems []string // contradictions between changes
	last     map[string]int32
}

type rowAt struct {
	batch  *row.Batch
	i      int
	text   string
	status windows.Status
}

func newOutcome() *outcome { return &outcome{rows: map[string]rowAt{}, last: map[string]int32{}} }

func (h *outcome) problem(format string, args ...any) {
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// add sums an output up and returns its changes as lines.
func (h *outcome) add(o *engine.Output) []string {
	var lines []string
	ch := o.Changes
	for i := range ch.Len() {
		text := rowText(ch.Rows, i)
		sign := "+ "
		if ch.Ops[i] < 0 {
			sign = "- "
		}
		line := sign + text
		if ch.Status[i] != windows.None {
			line += " " + ch.Status[i].String()
		}
		if ch.Revision[i] > 1 {
			line += fmt.Sprintf(", revision %d", ch.Revision[i])
		}
		lines = append(lines, line)
		h.change(ch, i, text, line)
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

// change sums up one change; each must fit what was there, and revisions never go back (C4).
func (h *outcome) change(ch *windows.Changes, i int, text, line string) {
	key := string(ch.Keys[i])
	was, there := h.rows[key]
	if ch.Ops[i] < 0 {
		if !there || was.text != text {
			h.problem("%s: but the row is %q", line, was.text)
		}
		delete(h.rows, key)
	} else {
		if there {
			h.problem("%s: but there is %q", line, was.text)
		}
		h.rows[key] = rowAt{ch.Rows, i, text, ch.Status[i]}
	}
	st, rev := ch.Status[i], ch.Revision[i]
	switch {
	case ch.Ops[i] > 0 && (st == windows.None || (st == windows.Provisional) != (rev == 0) || (st == windows.Final) != (rev == 1)):
		h.problem("%s: status %s with revision %d", line, st, rev)
	case rev != 0 && rev < h.last[key]:
		h.problem("%s: revision %d after %d", line, rev, h.last[key])
	}
	h.last[key] = max(h.last[key], rev)
	if st == windows.Final || st == windows.Corrected {
		h.final = append(h.final, fmt.Sprintf("%d %s", ch.Sequences[i], line))
	}
}

// lines are the rows in order, with their status or without.
func (h *outcome) lines(status bool) []string {
	var out []string
	for _, r := range h.rows {
		text := r.text
		if status {
			text += " " + r.status.String()
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// settled are the rows that are final or corrected, in order.
func (h *outcome) settled() []string {
	var out []string
	for _, r := range h.rows {
		if r.status != windows.Provisional {
			out = append(out, r.text+" "+r.status.String())
		}
	}
	slices.Sort(out)
	return out
}

// cells splits a batch's row into the words of the scripts.
func rowText(b *row.Batch, i int) string {
	var words []string
	for _, v := range b.Cols {
		switch {
		case v.IsNull(i):
			words = append(words, "null")
		case v.Type.Kind == row.Timestamp:
			words = append(words, instantText(v.I64[i]))
		default:
			text := row.TextOf(v, i)
			if v.Type.Kind == row.Varchar && (text == "" || strings.ContainsAny(text, " ;'\n")) {
				text = "'" + text + "'"
			}
			words = append(words, text)
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
	if at%(60*second) != 0 {
		layout = "15:04:05.999999"
	}
	if at < day || at >= day+windows.MicrosPerDay {
		layout = "2006-01-02_" + layout
	}
	return u.Format(layout)
}

// instant reads what instantText writes.
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

// state is what Takes have written.
type state map[string][]byte

func (s state) keep(o *engine.Output) {
	for _, w := range o.Writes {
		if w.Value == nil {
			delete(s, string(w.Key))
		} else {
			s[string(w.Key)] = slices.Clone(w.Value)
		}
	}
}

func (w *world) reopen(s state, final bool) *engine.Engine {
	e := w.open(final)
	for _, k := range slices.Sorted(maps.Keys(s)) {
		w.must(e.Load([]byte(k), s[k]))
	}
	w.must(e.Loaded())
	return e
}

// Get and Scan make what Takes have written an engine.Store.
func (s state) Get(key []byte) ([]byte, error) { return slices.Clone(s[string(key)]), nil }

func (s state) Scan(from, to []byte, f func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if k >= string(from) && (to == nil || k < string(to)) && !f([]byte(k), s[k]) {
			break
		}
	}
	return nil
}
