package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/engine"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/viewtest"
)

// TestScenariosGiveTheSameRowsInTheServer takes some scenarios to the runtime over the real log, on
// a file system that crashes after every other entry: rows, statuses, counts, and all final and
// corrected changes are those of the engine.
func TestScenariosGiveTheSameRowsInTheServer(t *testing.T) { // C5, C6
	t.Parallel()
	ran := 0
	for i, file := range files(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(file, "questions/") && i%5 != 0 || !servable(string(text)) {
			continue
		}
		ran++
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := newScript(t, file)
			s.run(string(text))
			s.all.add(s.engine.Take(true))
			s.serve()
		})
	}
	if ran < 20 {
		t.Errorf("only %d scenarios ran in the server", ran)
	}
}

// servable leaves out what a scenario says and the server alone decides: idleness, the clock, when
// something is appended, and a start that is not the earliest.
func servable(text string) bool {
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "idle", "clock", "refused", "beneath":
			return false
		case "send", "advance":
			if strings.Contains(rest, " at ") {
				return false
			}
		case "view":
			if strings.Contains(rest, "from ") || strings.Contains(rest, "evidence") {
				return false
			}
		}
	}
	return strings.Contains(text, "\nview") && !strings.Contains(text, "_append_time") && !strings.Contains(text, "_sequence")
}

func (s *script) serve() {
	w := viewtest.New(s.t, func(w *viewtest.World) { w.Options.Parse = duck.ParseSQL })
	ids := s.declareIn(w)
	for i, e := range s.log {
		receipt := s.appendTo(w, ids, e)
		if receipt == "" {
			continue
		}
		w.Until("v", receipt)
		if i%2 == 1 {
			w.Crash()
		}
	}

	snap, err := w.Views.Snapshot("v")
	s.must(err)
	var rows []string
	for i := range snap.Rows.Len {
		rows = append(rows, rowText(snap.Rows, i)+" "+snap.Status[i].String())
	}
	slices.Sort(rows)
	s.same("the server", "rows", s.all.lines(true), rows)
	info, err := w.Views.Get("v")
	s.must(err)
	c, want := info.Counts, s.all.counts
	if c.LateDropped != want.LateDropped || c.LatePartial != want.LatePartial || c.LateCorrected != want.LateCorrected || c.RowErrors != want.RowErrors {
		s.t.Errorf("%s\nthe server counts %+v, want %+v", s.sql, c, want)
	}
	var final []string
	for _, l := range s.all.final {
		_, line, _ := strings.Cut(l, " ")
		final = append(final, line)
	}
	slices.Sort(final)
	s.same("the server", "final and corrected changes", final, served(s, w))
}

// declareIn makes the scenario's streams and views; the view itself is v.
func (s *script) declareIn(w *viewtest.World) map[stream.ID]*stream.Stream {
	s.t.Helper()
	ids := map[stream.ID]*stream.Stream{}
	for _, f := range s.streams {
		var columns []string
		for _, c := range f.fields {
			columns = append(columns, fmt.Sprintf("%q:%q", c.Name, c.Type.String()))
		}
		ids[f.id] = w.Stream(f.name, fmt.Sprintf(`{"time_field":"ts","columns":{%s},"partitions":%d}`, strings.Join(columns, ","), f.partitions))
	}
	span := func(x windows.Micros) string { return (time.Duration(x) * time.Microsecond).String() }
	definition := func(sql string, lateness windows.Micros) map[string]any {
		d := map[string]any{"sql": sql, "throttle": "0s", "late": "drop"}
		if len(s.cfg.Streams) > 0 {
			d["max_out_of_orderness"] = span(s.cfg.Streams[0].MaxOutOfOrderness)
		}
		if lateness > 0 {
			d["late"], d["allowed_lateness"] = "correct", span(lateness)
		}
		return d
	}
	put := func(name string, d map[string]any) {
		text, err := json.Marshal(d)
		s.must(err)
		w.View(name, string(text))
	}
	for _, v := range s.views {
		put(v.Name, definition(v.View.SQL, v.View.AllowedLateness))
	}
	lateness := s.cfg.AllowedLateness
	if s.cfg.Late == engine.Drop {
		lateness = 0
	}
	d := definition(s.sql, lateness)
	if s.cfg.Late != engine.Drop {
		d["late"], d["allowed_lateness"] = "correct", span(lateness)
	}
	if s.cfg.EmitFinal {
		d["emit"] = "final"
	}
	if from := s.cfg.EventsFrom; from != nil {
		d["start"] = string(row.FormatTimestamp(nil, *from))
	}
	put("v", d)
	return ids
}

// appendTo appends an entry of the scenario's log and returns its receipt; empty: the log alone
// decides when there is one like it.
func (s *script) appendTo(w *viewtest.World, ids map[stream.ID]*stream.Stream, e stream.Entry) string {
	s.t.Helper()
	var at stream.Sequence
	switch {
	case e.Batch != nil:
		b := e.Batch
		ev := &stream.Events{Stream: ids[b.Stream].ID, Columns: b.Columns, Times: slices.Clone(b.Times), Keys: b.Keys}
		for range b.Len {
			ev.Partitions = append(ev.Partitions, b.Partition)
			ev.RawData = append(ev.RawData, "{}"...)
			ev.RawEnds = append(ev.RawEnds, uint32(len(ev.RawData)))
		}
		out, err := w.Log.Append(s.t.Context(), []*stream.Events{ev})
		s.must(err)
		at = out[0].Sequence
	case e.Control.Kind == stream.Advance:
		var err error
		at, err = w.Log.Advance(s.t.Context(), ids[e.Control.Stream].ID, e.Control.Value)
		s.must(err)
	default:
		return ""
	}
	return stream.Position{Log: w.Log.ID(), Sequence: at}.String()
}

// served are the final and corrected changes of the view's change stream.
func served(s *script, w *viewtest.World) []string {
	r, err := w.Views.Changes("v", stream.Position{Log: w.Log.ID()})
	s.must(err)
	all := newOutcome()
	for {
		var e *runtime.Epoch
		e, ok, err := r.Next()
		s.must(err)
		if !ok {
			break
		}
		all.add(&engine.Output{Changes: e.Changes})
	}
	s.same("the server", "contradictions", nil, all.problems)
	var final []string
	for _, l := range all.final {
		_, line, _ := strings.Cut(l, " ")
		final = append(final, line)
	}
	slices.Sort(final)
	return final
}
