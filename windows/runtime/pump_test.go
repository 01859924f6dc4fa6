package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark/storage/row"
	"tidemark/windows/runtime"
	"tidemark/windows/runtime/sinktest"
	"tidemark/windows/runtime/viewtest"
)

// shelf is a sink in memory. What it holds outlives its kills, as a disk would.
type shelf struct {
	mu        sync.Mutex
	relations map[string]*held
	away      bool
	calls     int
	changed   chan struct{}
}

type held struct {
	id      uint64
	version int64
	fields  []row.Field
	rows    *row.Batch
	to      []byte
}

func newShelf() *shelf { return &shelf{relations: map[string]*held{}, changed: make(chan struct{}, 1)} }

var errAway = errors.New("the sink is away")

func (s *shelf) Apply(_ context.Context, b row.SinkBatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	defer func() {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}()
	if s.away {
		return errAway
	}
	h := s.relations[b.Relation]
	if h == nil || h.id != b.ID || h.version != b.Version {
		if b.From != nil {
			return fmt.Errorf("%s holds nothing of this version", b.Relation)
		}
		h = &held{id: b.ID, version: b.Version, rows: &row.Batch{}}
		s.relations[b.Relation] = h
	}
	if bytes.Equal(h.to, b.To) || b.From == nil && h.to != nil {
		return nil
	}
	if !bytes.Equal(h.to, b.From) {
		return fmt.Errorf("%s holds %x, not %x", b.Relation, h.to, b.From)
	}
	for i, f := range b.Fields {
		at := row.FieldIndex(h.fields, f.Name)
		if at < 0 {
			at = len(h.fields)
			h.fields = append(h.fields, f)
			v := row.NewVector(f.Type, 0)
			for range h.rows.Len {
				v.AppendNull()
			}
			h.rows.Cols = append(h.rows.Cols, v)
		}
		h.rows.Cols[at].AppendAll(b.Rows.Cols[i])
	}
	h.rows.Len += b.Rows.Len
	h.to = b.To
	return nil
}

func (s *shelf) Position(_ context.Context, relation string, id uint64, version int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errAway
	}
	if h := s.relations[relation]; h != nil && h.id == id && h.version == version {
		return h.to, nil
	}
	return nil, nil
}

func (s *shelf) Drop(_ context.Context, relation string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.relations, relation)
	return nil
}

func (s *shelf) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// text is what a relation holds, one row a line, sorted; only of the named columns.
func (s *shelf) text(relation string, columns ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.relations[relation]
	if h == nil {
		return "not there"
	}
	var lines []string
	for i := range h.rows.Len {
		var line []string
		for _, c := range columns {
			line = append(line, string(row.AppendJSON(nil, h.rows.Cols[row.FieldIndex(h.fields, c)], i)))
		}
		lines = append(lines, strings.Join(line, " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// until waits until the sink is as the test wants it.
func (s *shelf) until(t *testing.T, what string, there func() bool) {
	t.Helper()
	deadline := time.After(viewtest.Patience)
	for !there() {
		select {
		case <-s.changed:
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("the sink does not come to hold %s", what)
		}
	}
}

func TestASinkInMemoryConforms(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(*testing.T) sinktest.Harness {
		s := newShelf()
		return sinktest.Harness{Sink: s, Rows: func(relation string, fields []row.Field) (*row.Batch, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			h := s.relations[relation]
			if h == nil {
				return row.NewBatch(fields, 0), nil
			}
			out := &row.Batch{Len: h.rows.Len}
			for _, f := range fields {
				out.Cols = append(out.Cols, h.rows.Cols[row.FieldIndex(h.fields, f.Name)])
			}
			return out, nil
		}}
	})
}

func withSink(s *shelf) func(*viewtest.World) {
	return func(w *viewtest.World) {
		w.Options = runtime.Options{Sinks: []runtime.Sink{s}, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond}
	}
}

func TestPumpCarriesEventsAndChangesOnce(t *testing.T) { // D14
	t.Parallel()
	s := newShelf()
	w := viewtest.New(t, withSink(s))
	w.Stream("checkouts", checkouts)
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"0s"}`)
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 5), sale("12:00:10", "FR", 2)))
	events := func() string { return s.text("checkouts", "country", "amount", "_partition", "_offset") }
	changes := func() string { return s.text("large_changes", "country", "amount", "_weight", "_revision", "_status") }
	s.until(t, "the first events", func() bool {
		return events() == "\"DE\" 5 0 0\n\"FR\" 2 0 1" && changes() == `"DE" 5 1 1 "final"`
	})
	w.Crash()
	w.Until("large", w.Post("checkouts", 0, sale("12:00:11", "IT", 7)))
	s.until(t, "the event after a crash", func() bool {
		return events() == "\"DE\" 5 0 0\n\"FR\" 2 0 1\n\"IT\" 7 0 2" && changes() == "\"DE\" 5 1 1 \"final\"\n\"IT\" 7 1 1 \"final\""
	})
	if err := w.Views.Delete(t.Context(), "large"); err != nil {
		t.Fatal(err)
	}
	s.until(t, "no view", func() bool { return changes() == "not there" })
	if err := w.Registry.Delete(t.Context(), "checkouts"); err != nil {
		t.Fatal(err)
	}
	s.until(t, "no stream", func() bool { return events() == "not there" })
}

func TestASinkThatIsAwayHoldsNothingBackAndCatchesUp(t *testing.T) { // D10
	t.Parallel()
	s := newShelf()
	s.setAway(true)
	w := viewtest.New(t, withSink(s))
	w.Stream("checkouts", checkouts)
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"0s"}`)
	for i := range 5 {
		w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 5+i)))
	}
	s.until(t, "its trouble", func() bool { return strings.Contains(w.Views.SinkTrouble()[0], "away") })
	s.setAway(false)
	s.until(t, "all events", func() bool {
		return s.text("checkouts", "amount") == "5\n6\n7\n8\n9" && s.text("large_changes", "amount") == "5\n6\n7\n8\n9"
	})
	s.until(t, "no trouble", func() bool { return w.Views.SinkTrouble()[0] == "" })
}

func TestAnEditThatBeginsTheChangeStreamAnewDoesSoInTheSink(t *testing.T) {
	t.Parallel()
	s := newShelf()
	w := viewtest.New(t, withSink(s))
	w.Stream("checkouts", checkouts)
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"0s"}`)
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	s.until(t, "the row", func() bool { return s.text("large_changes", "amount") == "5" })
	w.View("large", `{"sql":"SELECT amount * 2 AS twice FROM checkouts","throttle":"0s"}`)
	untilVersion(w, "large", 2)
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 1)))
	s.until(t, "the new rows", func() bool {
		s.mu.Lock()
		h := s.relations["large_changes"]
		there := h != nil && row.FieldIndex(h.fields, "twice") >= 0
		s.mu.Unlock()
		return there && s.text("large_changes", "twice") == "10\n2"
	})
}

func TestASinkKnowsARelationBeforeItHasRows(t *testing.T) {
	t.Parallel()
	s := newShelf()
	w := viewtest.New(t, withSink(s))
	w.Stream("checkouts", checkouts)
	w.View("large", `{"sql":"SELECT country, amount FROM checkouts WHERE amount > 3","throttle":"0s"}`)
	knows := func(relation, column string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		h := s.relations[relation]
		return h != nil && row.FieldIndex(h.fields, column) >= 0
	}
	s.until(t, "an empty stream and view", func() bool { return knows("checkouts", "country") && knows("large_changes", "amount") })
	w.Stream("checkouts", `{"columns":{"shop":"VARCHAR"}}`)
	s.until(t, "the new column", func() bool { return knows("checkouts", "shop") })
	w.Until("large", w.Post("checkouts", 0, sale("12:00:10", "DE", 5)))
	s.until(t, "the rows", func() bool { return s.text("checkouts", "amount") == "5" && s.text("large_changes", "amount") == "5" })
}

func TestSinksAtWaitsForWhatWasPosted(t *testing.T) {
	t.Parallel()
	s := newShelf()
	w := viewtest.New(t, withSink(s))
	w.Stream("checkouts", checkouts)
	for i := range 5 {
		w.Post("checkouts", 0, sale("12:00:10", "DE", i))
		ctx, stop := context.WithTimeout(t.Context(), viewtest.Patience)
		err := w.Views.SinksAt(ctx, w.Log.End())
		stop()
		if n := strings.Count(s.text("checkouts", "amount"), "\n") + 1; err != nil || n != i+1 {
			t.Fatalf("%d rows of %d: %v", n, i+1, err)
		}
	}
	s.setAway(true)
	w.Post("checkouts", 0, sale("12:00:10", "DE", 9))
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errAway)
	if err := w.Views.SinksAt(ctx, w.Log.End()); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
}
