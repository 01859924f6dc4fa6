package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// Verifier compares views with their batch answers. It is safe for concurrent use.
type Verifier struct {
	Views   *runtime.Service
	Parse   query.ParseSQL
	FromAST query.SQLFromAST
	// Run runs SQL on history and writes its rows as NDJSON.
	Run func(ctx context.Context, sql string, w io.Writer) error
}

// Result is the answer of a verification.
type Result struct {
	// Result is "equal", "different" or "cannot_tell"; Reason says why not, for the last.
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
	// Position is where both sides stand.
	Position string `json:"position"`
	// Rows is the number of rows of the view.
	Rows int `json:"rows"`
	// Differences are rows that one side alone has, or has otherwise; at most MaxDifferences.
	Differences []Pair `json:"differences"`
	// Sample are a few rows of both sides, the newest last, to look at.
	Sample []Pair `json:"sample"`
}

// Pair is a row as both sides have it; null where one has none.
type Pair struct {
	Live  json.RawMessage `json:"live"`
	Batch json.RawMessage `json:"batch"`
}

// The verdicts.
const (
	Equal      = "equal"
	Different  = "different"
	CannotTell = "cannot_tell"
)

// MaxDifferences bounds the differences of an answer.
const MaxDifferences = 1000

const sampleRows = 5

// lookAgain is how long to wait for history between two looks.
const lookAgain = 50 * time.Millisecond

// Verify compares a view with its batch answer. ctx bounds the wait for history and the query.
func (v *Verifier) Verify(ctx context.Context, name string) (*Result, error) {
	info, err := v.Views.Get(name)
	if err != nil {
		return nil, err
	}
	snap, err := v.Views.Snapshot(name)
	if err != nil {
		return nil, err
	}
	res := &Result{Position: snap.Position.String(), Rows: snap.Rows.Len, Differences: []Pair{}, Sample: []Pair{}}
	if why := unknowable(info); why != "" {
		res.Result, res.Reason = CannotTell, why
		return res, nil
	}
	if err := v.wait(ctx, snap); err != nil {
		return nil, err
	}
	upTo := make(map[string]stream.Sequence, len(info.Sources))
	for _, s := range info.Sources {
		upTo[strings.ToLower(s)] = snap.Position.Sequence
	}
	sql, err := query.BatchUpTo(v.Parse, v.FromAST, v.Views.Relations(), info.SQL, upTo)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := v.Run(ctx, sql, &out); err != nil {
		return nil, err
	}
	compare(res, snap, out.Bytes())
	return res, nil
}

// unknowable says why the batch side can't know the view's rows.
func unknowable(info runtime.Info) string {
	c := info.Counts
	switch {
	case c.LateDropped+c.LatePartial > 0:
		return fmt.Sprintf("the view has refused %d late events; the SQL alone does not know which", c.LateDropped+c.LatePartial)
	case c.RowErrors > 0:
		return fmt.Sprintf("%d rows are outside the view because an expression fails for them", c.RowErrors)
	case info.Emit == runtime.EmitFinal:
		return "the view gives out final rows only, the SQL all of them"
	case info.Start != "" && info.Start != runtime.StartEarliest:
		return "the view begins at " + info.Start + ", the SQL with the first event"
	}
	return ""
}

// wait returns when history holds every event below the snapshot's offsets.
func (v *Verifier) wait(ctx context.Context, snap *runtime.Snapshot) error {
	for name, offsets := range snap.AsOf.Offsets {
		want := int64(0)
		for _, o := range offsets {
			want += int64(o)
		}
		sql := fmt.Sprintf("SELECT count(*) AS n FROM %s WHERE _sequence <= %d", row.QuoteName(name), snap.Position.Sequence)
		for {
			var out bytes.Buffer
			var answer struct{ N int64 }
			err := v.Run(ctx, sql, &out)
			if err == nil {
				err = json.Unmarshal(out.Bytes(), &answer)
			}
			if err == nil && answer.N == want {
				break
			}
			select {
			case <-ctx.Done():
				return problem.New(504, "history_behind", "history holds %d of the %d events of %s that the view has read", answer.N, want, name).
					WithHint("history loads behind the log: try again, or wait longer with ?wait=60s")
			case <-time.After(lookAgain):
			}
		}
	}
	return nil
}

// side is one side's rows under a key: what is exact of them.
type side struct {
	live, batch []json.RawMessage
}

// compare fills in the verdict. batch is NDJSON.
func compare(res *Result, snap *runtime.Snapshot, batch []byte) {
	loose := make([]bool, len(snap.Fields))
	for i, f := range snap.Fields {
		loose[i] = f.Type.Class() == row.Float64Class
	}
	var keys []string
	rows := map[string]*side{}
	at := func(text json.RawMessage) *side {
		k := exactPart(text, snap.Fields, loose)
		if rows[k] == nil {
			rows[k] = &side{}
			keys = append(keys, k)
		}
		return rows[k]
	}
	for i := range snap.Rows.Len {
		text := row.AppendJSONRow(nil, snap.Fields, snap.Rows, i)
		s := at(text)
		s.live = append(s.live, text)
	}
	for line := range bytes.Lines(batch) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s := at(line)
			s.batch = append(s.batch, slices.Clone(line))
		}
	}
	for _, k := range keys {
		s := rows[k]
		pairs, equal := s.match(snap.Fields, loose)
		if !equal {
			res.Differences = append(res.Differences, pairs...)
		}
		if len(pairs) > 0 {
			res.Sample = append(res.Sample, pairs[0])
			res.Sample = res.Sample[max(0, len(res.Sample)-sampleRows):]
		}
	}
	res.Result = Equal
	if len(res.Differences) > 0 {
		res.Result = Different
		res.Differences = res.Differences[:min(len(res.Differences), MaxDifferences)]
	}
}

// match pairs the rows of both sides; equal says that each has its partner.
func (s *side) match(fields []row.Field, loose []bool) (pairs []Pair, equal bool) {
	equal = len(s.live) == len(s.batch)
	left := slices.Clone(s.batch)
	for _, l := range s.live {
		i := slices.IndexFunc(left, func(b json.RawMessage) bool { return close(l, b, fields, loose) })
		if i < 0 {
			equal = false
			p := Pair{Live: l}
			if len(left) > 0 {
				p.Batch, left = left[0], left[1:]
			}
			pairs = append(pairs, p)
			continue
		}
		pairs = append(pairs, Pair{l, left[i]})
		left = slices.Delete(left, i, i+1)
	}
	for _, b := range left {
		pairs = append(pairs, Pair{Batch: b})
	}
	return pairs, equal
}

// members decodes a row; names are compared in lower case.
func members(text json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	out := make(map[string]json.RawMessage, len(m))
	for k, v := range m {
		out[strings.ToLower(k)] = v
	}
	return out
}

// exactPart is a row without its floating-point columns.
func exactPart(text json.RawMessage, fields []row.Field, loose []bool) string {
	m := members(text)
	var b strings.Builder
	for i, f := range fields {
		if !loose[i] {
			b.Write(m[strings.ToLower(f.Name)])
		}
		b.WriteByte(0)
	}
	return b.String()
}

// close compares the floating-point columns of two rows that are equal otherwise.
func close(a, b json.RawMessage, fields []row.Field, loose []bool) bool {
	x, y := members(a), members(b)
	for i, f := range fields {
		if !loose[i] {
			continue
		}
		p, q := x[strings.ToLower(f.Name)], y[strings.ToLower(f.Name)]
		if bytes.Equal(p, q) {
			continue
		}
		var u, w float64
		if json.Unmarshal(p, &u) != nil || json.Unmarshal(q, &w) != nil || string(p) == "null" || string(q) == "null" {
			return false
		}
		if math.Abs(u-w) > 1e-9*math.Max(math.Abs(u), math.Abs(w))+1e-12 {
			return false
		}
	}
	return true
}
