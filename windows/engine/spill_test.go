package engine

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
)

// kept is a store in memory.
type kept map[string][]byte

func (k kept) Get(key []byte) ([]byte, error) { return bytes.Clone(k[string(key)]), nil }

func (k kept) Scan(from, to []byte, f func(key, value []byte) bool) error {
	var keys []string
	for key := range k {
		if key >= string(from) && (to == nil || key < string(to)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		name, value := []byte(key), bytes.Clone(k[key])
		on := f(name, value)
		for _, lent := range [][]byte{name, value} { // what f was given lasts until it returns
			for i := range lent {
				lent[i] = 0xee
			}
		}
		if !on {
			break
		}
	}
	return nil
}

// without is what another store does not have.
func (k kept) without(other kept) kept {
	out := maps.Clone(k)
	maps.DeleteFunc(out, func(key string, _ []byte) bool { return other[key] != nil })
	return out
}

func (k kept) keep(o *Output) {
	for _, w := range o.Writes {
		if w.Value == nil {
			delete(k, string(w.Key))
		} else {
			k[string(w.Key)] = bytes.Clone(w.Value)
		}
	}
}

// spillViews are those of randomViews, and some whose groups come and go.
func spillViews() []string {
	var list []string
	for _, v := range randomViews {
		list = append(list, v.sql)
	}
	return append(list,
		"SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k",
		"SELECT sum(v) AS total FROM s GROUP BY k", // the row key is not what is shown
		"SELECT k, count(*) AS n FROM s GROUP BY k HAVING sum(v) > 2",
		"SELECT k, sum(v) AS total FROM tumble(s, ts, INTERVAL '1 minute') GROUP BY k",
		"SELECT n, count(*) AS keys FROM (SELECT k, count(*) AS n FROM s GROUP BY k) GROUP BY n", // groups that empty and come again
		"SELECT n, count(*) AS keys FROM (SELECT window_start, k, count(*) AS n FROM tumble(s, ts, INTERVAL '1 minute') GROUP BY ALL) GROUP BY n",
		"SELECT count(*) AS n, max(v) AS top FROM s",
		"SELECT window_end, count(*) AS n, max(v) AS top FROM hop(s, ts, INTERVAL '10 seconds', INTERVAL '90 seconds') GROUP BY ALL", // one group of panes
		"SELECT k, v, window_start, count(*) AS n, count(DISTINCT k) AS keys FROM hop(s, ts, INTERVAL '20 seconds', INTERVAL '50 seconds') GROUP BY ALL",
		"SELECT n, count(*) AS windows FROM (SELECT window_end, k, count(*) AS n FROM hop(s, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY ALL) GROUP BY n",
		"SELECT window_end, k, n FROM (SELECT window_end, k, count(*) AS n FROM hop(s, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY ALL) QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY n DESC, k NULLS FIRST) <= 1",
		"SELECT k, v, ts, row_number() OVER (PARTITION BY k ORDER BY v DESC, ts) AS place FROM s QUALIFY place <= 2", // keeps two a partition
		"SELECT k, n, window_end FROM (SELECT window_end, k, count(*) AS n FROM tumble(s, ts, INTERVAL '20 seconds') GROUP BY ALL) QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC, window_end) <= 2",
		"SELECT window_start, k, ts, v, sum(v) OVER (PARTITION BY window_start, k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS near FROM tumble(s, ts, INTERVAL '1 minute')",
		"SELECT k, total, rank() OVER (PARTITION BY n ORDER BY total) AS place FROM (SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k)",
		// Sets and multisets, which are saved by what changed in them.
		"SELECT k, count(DISTINCT v) AS n, median(v) AS middle, sum(v) AS total FROM s GROUP BY k",
		"SELECT count(DISTINCT v) AS n, count(DISTINCT k) FILTER (v > 0) AS keys, list(v) AS every FROM s",
		"SELECT k, count(DISTINCT v) AS n, count(DISTINCT v) FILTER (v > 0) AS above, count(DISTINCT v) FILTER (k = 'a') AS of_a, count(DISTINCT ts) AS times FROM hop(s, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY k, window_end",
		"SELECT window_start, k, count(DISTINCT v) AS n, count(DISTINCT v) FILTER (v > 0) AS above FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL",
		"SELECT window_start, count(DISTINCT k) AS n, count(DISTINCT k) FILTER (v > 0) AS above, count(DISTINCT k) FILTER (v > 2) AS more FROM tumble(s, ts, INTERVAL '1 minute') GROUP BY ALL",
		"SELECT v, count(DISTINCT ts) AS n, count(DISTINCT k) FILTER (v > 0) AS above, count(DISTINCT k) AS keys FROM s GROUP BY v",
		"SELECT window_start, k, count(DISTINCT v) AS n, mode(v) AS most FROM tumble(s, ts, INTERVAL '1 minute') GROUP BY ALL",
		"SELECT window_start, k, count(DISTINCT v) AS n, string_agg(v::VARCHAR, ' ') AS every FROM hop(s, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY ALL",
		"SELECT window_start, k, count(DISTINCT v) AS n, list(v) AS every FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL",
		"SELECT window_start, v > 1 AS up, count(DISTINCT v) AS n, list(v) AS every FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL", // the other session has no such group
		"SELECT n, count(*) AS sessions FROM (SELECT window_start, k, count(DISTINCT v) AS n FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL) GROUP BY n",
		"SELECT n, count(DISTINCT total) AS totals, max(total) AS most, list(total) AS every FROM (SELECT k, v, count(*) AS n, sum(v) AS total FROM s GROUP BY k, v) GROUP BY n",
		"SELECT window_end, max(n) AS most, arg_max(k, n) AS who FROM (SELECT window_end, k, count(*) AS n FROM hop(s, ts, INTERVAL '20 seconds', INTERVAL '1 minute') GROUP BY ALL) GROUP BY ALL",
		"SELECT window_start, k, v, count(*) AS n FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL", // groups that change their session
		"SELECT k, window_end, v, v AS again, max(ts) AS latest FROM session(s, ts, INTERVAL '15 seconds', v, k) WHERE v < 4 GROUP BY ALL",
		"SELECT window_start, window_end, count(*) AS n, max(k) AS top FROM session(s, ts, INTERVAL '5 seconds') GROUP BY ALL", // all of one key
		"SELECT k, v, ts, window_start, window_end FROM session(s, ts, INTERVAL '20 seconds', k)",
		"SELECT n, count(*) AS sessions FROM (SELECT window_end, k, count(*) AS n FROM session(s, ts, INTERVAL '20 seconds', k) GROUP BY ALL) GROUP BY n",
		"SELECT window_end, k, v, n FROM (SELECT window_end, k, v, count(*) AS n FROM session(s, ts, INTERVAL '30 seconds', k) GROUP BY ALL) QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC, window_end, v) <= 2",
		"SELECT DISTINCT k, window_start FROM session(s, ts, INTERVAL '20 seconds', k)",
		"SELECT k, v, ts, window_end FROM slide(s, ts, INTERVAL '20 seconds', k)",
		"SELECT window_end, count(*) AS n, max(k) AS top FROM slide(s, ts, INTERVAL '10 seconds') GROUP BY ALL", // all of one key
		"SELECT window_end, k, n FROM (SELECT window_end, k, v, count(*) AS n FROM slide(s, ts, INTERVAL '30 seconds', v, k) GROUP BY ALL) QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY n DESC, k, v) <= 1",
		"SELECT k, n FROM finals",
		"SELECT window_start, count(*) AS keys, sum(n) AS n FROM finals GROUP BY ALL",
	)
}

// finals is a view beneath that gives out final rows only.
const finals = "SELECT window_start, k, count(*) AS n FROM tumble(s, ts, INTERVAL '30 seconds') GROUP BY ALL"

// A view that keeps next to nothing in memory gives the same changes as one that keeps everything,
// leaves the same in the store, and stays within its bound, however epochs end and whatever is lost
// on the way. K1, K2, K3
func TestSpilledViewsGiveTheSameAndStayWithinTheirBound(t *testing.T) {
	t.Parallel()
	for _, sql := range spillViews() {
		t.Run(strings.ReplaceAll(sql, " ", "_"), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { spilled(t, sql) })
		})
	}
}

func spilled(t *rapid.T, sql string) {
	s := &script{t: t}
	s.reset()
	s.declare("s k VARCHAR, v BIGINT")
	s.finals = finals
	s.randomLog(t, 1)
	s.sql = sql
	s.cfg = Config{
		AllowedLateness: rapid.SampledFrom([]int64{0, 15, 60, 600}).Draw(t, "lateness") * windows.MicrosPerSecond,
		SmallState:      rapid.IntRange(1, 4).Draw(t, "small"),
		Evidence:        rapid.IntRange(0, 4).Draw(t, "evidence") == 0,
		Streams:         []windows.TrackedStream{{Stream: 1, IdleAdvance: true, MaxOutOfOrderness: rapid.SampledFrom([]int64{0, 10, 45}).Draw(t, "ooo") * windows.MicrosPerSecond}},
	}
	limit := rapid.SampledFrom([]int64{0, 0, 700, 2000, 1 << 20}).Draw(t, "limit")
	whole, part := kept{}, kept{}
	a, b := s.open(), s.open()
	s.plan = a.plan
	if s.cfg.EmitFinal = !a.plan.NeverFinal && rapid.Bool().Draw(t, "final"); s.cfg.EmitFinal {
		a, b = s.open(), s.open()
	}
	s.must(errors.Join(a.Recover(whole, 0), b.Recover(part, limit)))
	want, got := history{rows: map[string]string{}}, history{rows: map[string]string{}}
	for _, entry := range s.log {
		s.must(errors.Join(a.Step(entry), b.Step(entry)))
		if rapid.IntRange(0, 2).Draw(t, "go on") == 0 {
			continue
		}
		before := b.Memory()
		x, y := a.Take(true), b.Take(true)
		s.must(b.Err())
		whole.keep(x)
		part.keep(y)
		want.add(s.plan, x)
		got.add(s.plan, y)
		// What is away of a session or of a key of slide stays there until that is forgotten as a whole.
		exact := len(b.sessions) == 0 && !strings.Contains(sql, "slide(")
		if more := part.without(whole); len(whole.without(part)) > 0 || len(more) > 0 && exact {
			t.Fatalf("%s\nother keys in the store: %q and %q", sql, whole.without(part), more)
		}
		s.samePieces(part)
		b.Evict(limit)
		m := b.Memory()
		if len(b.plan.Key) > 0 && !strings.HasPrefix(sql, "SELECT count(*)") && m.Bytes > limit {
			t.Fatalf("%s\n%+v are in memory after everything over %d was to go; before it was %+v", sql, m, limit, before)
		}
		if n := a.Memory().Entries; m.Entries < n || m.Entries > n && len(b.sessions) == 0 || m.Spilled > m.Entries {
			t.Fatalf("%s\n%+v beside %+v", sql, m, a.Memory())
		}
		if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
			b = s.open()
			s.must(b.Recover(part, limit))
			if n := b.Memory().Entries; n != m.Entries {
				t.Fatalf("%s\n%d entries after a start, %d before", sql, n, m.Entries)
			}
		}
	}
	x, y := a.Take(true), b.Take(true)
	want.add(s.plan, x)
	got.add(s.plan, y)
	s.same("spilled", "rows", slices.Sorted(maps.Values(want.rows)), slices.Sorted(maps.Values(got.rows)))
	s.same("spilled", "final and corrected changes", slices.Sorted(slices.Values(want.final)), slices.Sorted(slices.Values(got.final)))
	s.same("spilled", "late records", want.late, got.late)
	// Once everything is closed, nothing is left of it anywhere.
	end := stream.Entry{Control: &stream.Control{Stream: 1, Sequence: s.next(), AppendTime: day, Kind: stream.Advance, Value: day + 86400*windows.MicrosPerSecond}}
	whole.keep(x)
	part.keep(y)
	for range 2 {
		b.Evict(0)
		s.must(errors.Join(a.Step(end), b.Step(end), b.Err()))
		whole.keep(a.Take(true))
		part.keep(b.Take(true))
	}
	if !maps.EqualFunc(whole, part, func(_, _ []byte) bool { return true }) {
		t.Fatalf("%s\nother keys in the store at the end: %q and %q", sql, whole.without(part), part.without(whole))
	}
}

// The state of sessions and slides over many keys stays under a small limit, whatever is behind them, and
// gives the rows that it gives where there is no limit.
func TestSessionsAndSlidesOverManyKeysStayUnderTheirLimit(t *testing.T) {
	t.Parallel()
	for _, v := range randomViews {
		if v.kind == windows.Session || v.kind == windows.Slide {
			for _, final := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/final=%t", v.name, final), func(t *testing.T) {
					t.Parallel()
					staysUnder(t, 16<<10, v.sql, final)
				})
			}
		}
	}
}

func staysUnder(t *testing.T, limit int64, sql string, final bool) {
	s := &script{t: t}
	s.reset()
	s.declare("s k VARCHAR, v BIGINT")
	s.sql = sql
	s.cfg = Config{EmitFinal: final, AllowedLateness: 30 * windows.MicrosPerSecond, Streams: []windows.TrackedStream{{Stream: 1, MaxOutOfOrderness: 5 * windows.MicrosPerSecond}}}
	free, tight := s.open(), s.open()
	state := kept{}
	s.must(errors.Join(free.Recover(kept{}, 0), tight.Recover(state, limit)))
	want, got := history{rows: map[string]string{}}, history{rows: map[string]string{}}
	var most, spilled int64
	for i := range 12 {
		entry := stream.Entry{Batch: manyKeys(i)}
		s.must(errors.Join(free.Step(entry), tight.Step(entry)))
		o := tight.Take(true)
		state.keep(o)
		want.add(free.plan, free.Take(true))
		got.add(tight.plan, o)
		tight.Evict(limit)
		m := tight.Memory()
		most, spilled = max(most, free.Memory().Bytes), max(spilled, m.SpilledBytes)
		if m.Bytes > limit {
			t.Fatalf("%s\nafter batch %d the state takes %d bytes, and %d are its limit", sql, i, m.Bytes, limit)
		}
	}
	if most < 8*limit || spilled < 4*limit {
		t.Errorf("%s\nthe state takes %d bytes at most, of which %d left: no proof of a limit of %d", sql, most, spilled, limit)
	}
	s.same("limited", "rows", slices.Sorted(maps.Values(want.rows)), slices.Sorted(maps.Values(got.rows)))
	s.same("limited", "final and corrected changes", slices.Sorted(slices.Values(want.final)), slices.Sorted(slices.Values(got.final)))
}

// manyKeys is a batch of 200 events within 8 seconds, each of one of 500 keys.
func manyKeys(i int) *stream.Batch {
	const n = 200
	b := benchBatch(i)
	b.Len, b.Base, b.Times, b.Keys = n, stream.Offset(i*n), b.Times[:n], row.NewVector(row.Scalar(row.Varchar), 0)
	cols := b.Columns
	for c, v := range cols {
		b.Columns[c] = row.NewVector(v.Type, n)
	}
	for k := range n {
		b.Keys.AppendNull()
		b.Times[k] = day + int64(8*i)*windows.MicrosPerSecond + int64(k*7919%n)*40_000
		b.Columns[0].AppendInt64(b.Times[k])
		b.Columns[1].AppendString(fmt.Sprintf("key %d", (i*i*31+k*k*7)%500))
		b.Columns[2].AppendInt64(int64(k))
	}
	return b
}

// A state of another format is not taken for one of this.
func TestStateOfAnotherFormatIsRefused(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.reset()
	s.declare("s k VARCHAR, v BIGINT")
	s.sql = "SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k"
	state := kept{}
	s.must(s.open().Recover(state, 0)) // there is none yet
	e := s.open()
	s.must(e.Recover(state, 0))
	state.keep(e.Take(true))
	s.must(s.open().Recover(state, 0))
	state[string(FormatKey())][0]++
	if err := s.open().Recover(state, 0); !errors.Is(err, ErrFormat) {
		t.Errorf("a newer state: %v", err)
	}
	delete(state, string(FormatKey()))
	if err := s.open().Recover(state, 0); !errors.Is(err, ErrFormat) {
		t.Errorf("a state from before formats had numbers: %v", err)
	}
}

// What the store can't give ends the engine; it gives no rows that are made of half a state.
func TestStoreThatFailsEndsTheEngine(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.reset()
	s.declare("s k VARCHAR, v BIGINT")
	s.sql = "SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k"
	state := kept{}
	e := s.open()
	s.must(e.Recover(&failing{Store: state}, 0))
	send := func() error { return e.Step(stream.Entry{Batch: benchBatch(1)}) }
	s.must(send())
	state.keep(e.Take(true))
	e.Evict(0)
	e.store.(*failing).err = errors.New("the disk is gone")
	if err := send(); err == nil || !strings.Contains(err.Error(), "the disk is gone") || e.Err() == nil {
		t.Errorf("the engine goes on: %v", err)
	}
}

type failing struct {
	Store
	err error
}

func (f *failing) Get(key []byte) ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Get(key)
}

// Panes that are away stay there when their windows become final, and give the rows all the same.
func TestPanesOfAColdGroupStayAwayWhenTheirWindowsBecomeFinal(t *testing.T) {
	t.Parallel()
	s := &script{t: t}
	s.reset()
	s.declare("s k VARCHAR, v BIGINT")
	s.sql = "SELECT window_start, window_end, k, count(*) AS n, sum(v) AS total FROM hop(s, ts, INTERVAL '1 minute', INTERVAL '150 seconds') GROUP BY ALL"
	s.cfg = Config{EmitFinal: true, Streams: []windows.TrackedStream{{Stream: 1}}}
	state := kept{}
	e := s.open()
	s.must(e.Recover(state, 0))
	s.must(e.Step(stream.Entry{Batch: benchBatch(1)}))
	state.keep(e.Take(true))
	e.Evict(0)
	panes := e.Memory()
	if panes.Bytes != 0 || panes.Spilled != panes.Entries || panes.Spilled < 100 {
		t.Fatalf("not everything is away: %+v", panes)
	}
	e = s.open()
	s.must(e.Recover(state, 1)) // a start loads nothing that nobody asks for
	if m := e.Memory(); m.Bytes != 0 || m.Reads != 0 || m.Spilled != panes.Spilled {
		t.Fatalf("after a start: %+v, before: %+v", m, panes)
	}
	s.must(e.Step(stream.Entry{Control: &stream.Control{Stream: 1, Sequence: 9, AppendTime: day, Kind: stream.Advance, Value: day + 90*windows.MicrosPerSecond}}))
	o := e.Take(true)
	s.must(e.Err())
	if o.Changes.Len() < 100 {
		t.Errorf("%d rows for the keys of a second", o.Changes.Len())
	}
	if p := e.ops[0].(*aggregate).panes; p.resident() > 0 || p.cold.count != panes.Spilled {
		t.Errorf("%d panes are in memory and %d away, of %d", p.resident(), p.cold.count, panes.Spilled)
	}
}

// A key of many sessions leaves and comes back with all of them, again and again: where time looks for
// them they are listed about once.
func TestTimeDoesNotListSessionsThatHaveLeftForEver(t *testing.T) {
	t.Parallel()
	s := &script{t: t, sql: pieceViews[2]}
	s.reset()
	s.declare("s k VARCHAR, v BIGINT")
	s.cfg = Config{AllowedLateness: 86400 * windows.MicrosPerSecond, Streams: []windows.TrackedStream{{Stream: 1}}}
	state := kept{}
	e := s.open()
	s.must(e.Recover(state, 0))
	const sessions, rounds = 20, 60
	for i := range sessions + rounds {
		entry := at(i+1, int64(600+60*min(i, sessions)))
		entry.Batch.Sequence = stream.Sequence(i + 2)
		s.must(e.Step(entry))
		state.keep(e.Take(true))
		e.Evict(0)
		s.must(e.Err())
	}
	listed := 0
	for _, slots := range e.sessions[0].time.at {
		listed += len(slots)
	}
	if most := 3*sessions + 1024 + 64; listed > most {
		t.Errorf("%d sessions are listed, and there are %d: at most %d were to be", listed, 3*sessions, most)
	}
}
