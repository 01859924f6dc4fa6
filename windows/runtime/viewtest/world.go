// Package viewtest is a small world for tests of views: a store on a file system in memory that can
// be crashed, a log, streams, and the service of the views, with events posted as JSON. No network,
// no disk, no DuckDB.
package viewtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tidemark/storage/catalog"
	"tidemark/storage/kv"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/stream/pebblelog"
	"tidemark/windows"
	"tidemark/windows/alert"
	"tidemark/windows/runtime"
)

// Patience bounds every wait of a test. The long runs have large stores and share the machine.
var Patience = func() time.Duration {
	if os.Getenv("TIDEMARK_LONG") != "" {
		return 5 * time.Minute
	}
	return 20 * time.Second
}()

// World is everything that runs.
type World struct {
	T        testing.TB
	FS       *vfs.MemFS
	KV       *kv.Store
	Log      *pebblelog.Log
	Catalog  *catalog.Catalog
	Registry *stream.Registry
	Views    *runtime.Service
	Alerts   *alert.Service
	Acks     *alert.Acks
	// Dir is where the data lies on disk, so that it outlives the process; empty: in FS.
	Dir string
	// Options are those of the service; set before Open, kept over Crash. Parse may be DuckDB's own.
	Options runtime.Options
	// Clock is the log's and that of the views' retention; nil: the real one.
	Clock func() time.Time
	// AcceptLoss lets a log go on that ends before what the views have read.
	AcceptLoss bool
	// Setup is called with each new service before it runs.
	Setup func(*runtime.Service)

	stop  func()
	ended chan struct{}
}

// New opens an empty world that is closed with the test.
func New(t testing.TB, options ...func(*World)) *World {
	t.Helper()
	w := &World{T: t, FS: vfs.NewCrashableMem()}
	for _, o := range options {
		o(w)
	}
	w.open()
	t.Cleanup(w.Close)
	return w
}

func (w *World) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

func (w *World) open() {
	w.T.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	var fs vfs.FS = w.FS
	dir := "data"
	if w.Dir != "" {
		fs, dir = vfs.Default, w.Dir
	}
	w.KV, err = kv.Open(dir, kv.Options{FS: fs, Logger: quiet, MemTableBytes: 1 << 20, CacheBytes: 1 << 20, Fatal: func(s string) { panic(s) }})
	w.must(err)
	w.Catalog, err = catalog.Open(w.KV)
	w.must(err)
	o := pebblelog.Options{TimerPeriod: -1, KeepPeriod: -1, Logger: quiet, Clock: w.Clock, AcceptLoss: w.AcceptLoss}
	w.must(runtime.EachSeen(w.KV, w.Catalog, func(who string, p stream.Position) {
		o.Remembered = append(o.Remembered, pebblelog.Remembered{Who: who, Position: p})
	}))
	if w.Clock != nil { // retention goes by what passes, not by what a clock says
		opened := w.Clock()
		o.Monotonic = func() time.Duration { return w.Clock().Sub(opened) }
	}
	w.Log, err = pebblelog.Open(w.KV, o)
	w.must(err)
	w.Registry, err = stream.OpenRegistry(w.Catalog, w.Log)
	w.must(err)
	views := w.Options
	views.KV, views.Log, views.Registry, views.Catalog, views.Logger = w.KV, w.Log, w.Registry, w.Catalog, quiet
	views.Clock, views.KeepPeriod = w.Clock, -1
	if views.Parse == nil {
		views.Parse = Parse
	}
	w.Views, err = runtime.Open(views)
	w.must(err)
	w.Alerts = alert.New(w.Views, w.KV)
	w.Acks = alert.NewAcks(w.KV, w.Log, w.Catalog)
	if w.Setup != nil {
		w.Setup(w.Views)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.ended = stop, make(chan struct{})
	service, ended := w.Views, w.ended
	go func() {
		defer close(ended)
		_ = service.Run(ctx)
	}()
}

// Close ends everything cleanly. Closing twice does nothing.
func (w *World) Close() {
	if w.stop == nil {
		return
	}
	w.stop()
	<-w.ended
	w.stop = nil
	if err := w.Log.Close(); err != nil {
		w.T.Error(err)
	}
	if err := w.KV.Close(); err != nil {
		w.T.Error(err)
	}
}

// Reopen ends everything cleanly and opens it again.
func (w *World) Reopen() {
	w.T.Helper()
	w.Close()
	w.open()
}

// Crash goes on with what was on disk: everything that was not synced is lost. What is passed is
// called between the crash and the end of what ran before it.
func (w *World) Crash(between ...func()) {
	w.T.Helper()
	left := w.FS.CrashClone(vfs.CrashCloneCfg{})
	for _, f := range between {
		f()
	}
	w.Close()
	w.FS = left
	w.open()
}

// Stream makes a stream; config is the body of its PUT.
func (w *World) Stream(name, config string) *stream.Stream {
	w.T.Helper()
	c, err := stream.ParseConfig([]byte(config))
	w.must(err)
	s, _, err := w.Registry.Put(w.T.Context(), name, c)
	w.must(err)
	return s
}

// Post appends events to a partition of a stream, as one batch, and returns the receipt. A time
// field holds what row.ParseTime reads; "12:00:10" stands for that time of 2024-01-01.
func (w *World) Post(name string, partition int, events ...string) string {
	w.T.Helper()
	st, err := w.Registry.Get(name)
	w.must(err)
	e := &stream.Events{Stream: st.ID, Keys: row.NewVector(row.Scalar(row.Varchar), 0)}
	for _, f := range st.Schema.Fields {
		e.Columns = append(e.Columns, row.NewVector(f.Type, len(events)))
	}
	for _, text := range events {
		var members map[string]json.RawMessage
		w.must(json.Unmarshal([]byte(text), &members))
		at := stream.AtAppend
		for i, f := range st.Schema.Fields {
			value, ok := members[f.Name]
			if ok && strings.EqualFold(f.Name, st.Config.TimeField) {
				at = Time(strings.Trim(string(value), `"`))
				e.Columns[i].AppendInt64(at)
				continue
			}
			if !ok {
				value = json.RawMessage("null")
			}
			w.must(row.ParseJSONValue(e.Columns[i], value))
		}
		e.Times = append(e.Times, at)
		e.Keys.AppendNull()
		e.Partitions = append(e.Partitions, stream.Partition(partition))
		e.RawData = append(e.RawData, text...)
		e.RawEnds = append(e.RawEnds, uint32(len(e.RawData)))
	}
	out, err := w.Log.Append(w.T.Context(), []*stream.Events{e})
	w.must(err)
	return w.position(out[0].Sequence)
}

func (w *World) position(s stream.Sequence) string {
	return stream.Position{Log: w.Log.ID(), Sequence: s}.String()
}

// Advance says that nothing older will come on a stream.
func (w *World) Advance(name, to string) string {
	w.T.Helper()
	st, err := w.Registry.Get(name)
	w.must(err)
	s, err := w.Log.Advance(w.T.Context(), st.ID, Time(to))
	w.must(err)
	return w.position(s)
}

// Time reads a time; a clock time is one of 2024-01-01.
func Time(text string) stream.Micros {
	if len(text) > 2 && text[2] == ':' {
		text = "2024-01-01 " + text
	}
	at, err := row.ParseTime([]byte(text))
	if err != nil {
		panic(err)
	}
	return at
}

// View makes a view; definition is the body of its PUT, or its SQL.
func (w *World) View(name, definition string) runtime.Info {
	w.T.Helper()
	if !strings.HasPrefix(definition, "{") {
		definition = fmt.Sprintf(`{"sql":%q,"throttle":"0s"}`, definition)
	}
	d, err := runtime.ParseDefinition([]byte(definition))
	w.must(err)
	info, _, err := w.Views.Put(w.T.Context(), name, d, false)
	w.must(err)
	return info
}

// Alert makes an alert; definition is the body of its PUT.
func (w *World) Alert(name, definition string) alert.Info {
	w.T.Helper()
	d, err := alert.ParseDefinition([]byte(definition))
	w.must(err)
	info, _, err := w.Alerts.Put(w.T.Context(), name, d, false)
	w.must(err)
	return info
}

// Until waits until a view has taken in what a receipt stands for.
func (w *World) Until(view, receipt string) {
	w.T.Helper()
	_, err := w.Views.Rows(w.T.Context(), view, runtime.RowsQuery{After: receipt, Wait: Patience, Limit: 1})
	w.must(err)
}

// Rows are a view's rows as text, one a line: the status and the row as JSON.
func (w *World) Rows(view string, q runtime.RowsQuery) string {
	w.T.Helper()
	a, err := w.Views.Rows(w.T.Context(), view, q)
	w.must(err)
	var b strings.Builder
	for i := range a.Rows.Len {
		b.WriteString(Line(a.Fields, a.Rows, i, a.Status[i], a.Revision[i]))
	}
	return b.String()
}

// Line is a row as Rows shows it.
func Line(fields []row.Field, b *row.Batch, i int, status windows.Status, revision int32) string {
	return fmt.Sprintf("%s %d %s\n", status, revision, row.AppendJSONRow(nil, fields, b, i))
}

// Sorted joins lines in the order of their keys.
func Sorted(lines map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(lines[key])
	}
	return b.String()
}

// Changes are a view's changes behind a position as text, one a line; epochs are set apart by a
// line "--".
func (w *World) Changes(view string, after stream.Position) string {
	w.T.Helper()
	r, err := w.Views.Changes(view, after)
	w.must(err)
	var b strings.Builder
	for {
		e, ok, err := r.Next()
		w.must(err)
		if !ok {
			return b.String()
		}
		b.WriteString("--\n")
		for i := range e.Changes.Len() {
			fmt.Fprintf(&b, "%c %s %s %d\n", "- +"[e.Changes.Ops[i]+1], row.AppendJSONRow(nil, e.Fields, e.Changes.Rows, i),
				e.Changes.Status[i], e.Changes.Revision[i])
		}
	}
}
