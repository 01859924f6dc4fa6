package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/windows"
	"tidemark/windows/query"
	"tidemark/windows/runtime"
)

// Table is a table that exists for one comparison.
type Table struct {
	Name   string
	Fields []row.Field
}

// Scratch fills tables of their own in DuckDB, runs the query that load returns over them, and
// gives its rows to each. cmd passes history's method, so windows never imports it.
type Scratch func(ctx context.Context, tables []Table, load func(put func(table int, rows *row.Batch) error) (sql string, err error), each func(fields []row.Field, rows *row.Batch) error) error

// Verifier compares views with their batch answers. It is safe for concurrent use.
type Verifier struct {
	Views   *runtime.Service
	Log     stream.Log
	Parse   query.ParseSQL
	FromAST query.SQLFromAST
	Scratch Scratch
	// Dir is where the rows of a large view lie on disk while they are compared, in files without a
	// name; empty: the system's folder for such.
	Dir string
	// PartBytes is about how much of a view's rows is looked at at once; 0: 8 MiB.
	PartBytes int
}

// Result is the answer of a comparison.
type Result struct {
	// Result is "equal", "different" or "cannot_tell"; Reason says why not, for the last.
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
	// Position is where both sides stand.
	Position string `json:"position"`
	// Rows is the number of rows of the view, Events that of the log's events behind them. Sealed are those
	// of the rows that can't be told: the log no longer has all their events (R4).
	Rows   int   `json:"rows"`
	Sealed int   `json:"sealed_rows,omitempty"`
	Events int64 `json:"events"`
	// Differences are rows that one side alone has, or has otherwise; the first MaxDifferences of
	// DifferenceCount.
	Differences     []Pair `json:"differences"`
	DifferenceCount int    `json:"difference_count"`
	// LateDifferences are events of which late_<view> says other than the log, RowErrorDifferences
	// those that are wrongly on the list of row errors, or wrongly not; the first MaxDifferences of
	// each, and how many there are.
	LateDifferences         []Difference `json:"late_differences,omitempty"`
	LateDifferenceCount     int          `json:"late_difference_count,omitempty"`
	RowErrorDifferences     []Difference `json:"row_error_differences,omitempty"`
	RowErrorDifferenceCount int          `json:"row_error_difference_count,omitempty"`
	// Sample are a few rows of both sides, the last by key, to look at.
	Sample []Pair `json:"sample"`

	viewVersion int
}

// Pair is a row as both sides have it; null where one has none.
type Pair struct {
	Live  rawJSON `json:"live"`
	Batch rawJSON `json:"batch"`
}

// Difference is an event of which the view says other than the log does; empty: nothing.
type Difference struct {
	Stream    string           `json:"stream"`
	Partition stream.Partition `json:"partition"`
	Offset    stream.Offset    `json:"offset"`
	Live      string           `json:"live"`
	Batch     string           `json:"batch"`
}

// The verdicts. Running is that of a comparison that has not ended.
const (
	Equal      = "equal"
	Different  = "different"
	CannotTell = "cannot_tell"
	Running    = "running"
)

// MaxDifferences bounds each list of differences of an answer.
const MaxDifferences = 10_000

// cannotTell says why the batch side can't know the view's rows.
type cannotTell struct{ why string }

func (c *cannotTell) Error() string { return c.why }

func unknown(format string, args ...any) error { return &cannotTell{fmt.Sprintf(format, args...)} }

// Verify compares a view with its batch answer. progress is told how many events of how many are
// read.
func (v *Verifier) Verify(ctx context.Context, name string, progress func(events, of int64)) (_ *Result, err error) {
	claim, proof, err := v.Views.Claim(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, claim.Close()) }()
	res := &Result{
		Position: claim.Position.String(), Rows: int(claim.Count), Differences: []Pair{}, Sample: []Pair{},
		viewVersion: proof.ViewVersion,
	}
	err = v.compare(ctx, res, claim, proof, progress)
	var c *cannotTell
	var p *problem.Problem
	var gone *stream.Trimmed
	switch {
	case errors.As(err, &gone):
		res.cannotTell("retention removed events while they were read: ask again")
	case errors.As(err, &c):
		res.cannotTell(c.why)
	case errors.As(err, &p) && p.Code == "too_large":
		res.cannotTell("the batch answer needs more memory than history may take: " + p.Detail)
	case errors.As(err, &p) && p.Code == "bad_sql":
		res.cannotTell("the batch answer can't be computed: " + p.Detail)
	case err != nil:
		return nil, err
	}
	return res, nil
}

func (r *Result) cannotTell(why string) {
	r.Result, r.Reason = CannotTell, why
	r.Differences, r.DifferenceCount, r.Sample = []Pair{}, 0, []Pair{}
	r.LateDifferences, r.LateDifferenceCount, r.RowErrorDifferences, r.RowErrorDifferenceCount = nil, 0, nil, 0
}

func (v *Verifier) compare(ctx context.Context, res *Result, claim *runtime.Claim, proof *runtime.Proof, progress func(events, of int64)) (err error) {
	plan, err := proof.Compile()
	if err != nil {
		return err
	}
	if err := knowable(plan, proof); err != nil {
		return err
	}
	total := int64(0)
	for _, s := range proof.Sources {
		st, err := v.Log.Stats(s.ID)
		if err != nil {
			return err
		}
		for _, p := range st.Partitions {
			total -= int64(p.First)
		}
		for _, o := range claim.AsOf.Offsets[s.Name] {
			total += int64(o)
		}
	}
	p, err := newProver(v, plan, proof, claim)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.beside.close()) }()
	p.progress = func(n int64) { progress(n, total) }
	m := newMatcher(claim, plan.Dimensions, v.Dir, v.PartBytes)
	defer func() { err = errors.Join(err, m.close()) }()
	p.matcher = m
	if err := v.Scratch(ctx, p.tables(), func(put func(int, *row.Batch) error) (string, error) { return p.load(ctx, put) }, m.take); err != nil {
		return err
	}
	if err := m.finish(res); err != nil {
		return err
	}
	res.Events = p.events
	p.beside.tell(res)
	switch res.Result = Equal; {
	case res.DifferenceCount+res.LateDifferenceCount+res.RowErrorDifferenceCount > 0:
		res.Result = Different
	case m.sealed > 0:
		res.Result = CannotTell
		res.Reason = fmt.Sprintf("the log no longer has all events of %d rows, which can't be worked out again; the other %d are equal", m.sealed, res.Rows-m.sealed)
	}
	return nil
}

// knowable refuses views whose rows DuckDB can't make again (R4), and those of which the final
// rows can't be told from the others.
func knowable(plan *query.Plan, proof *runtime.Proof) error {
	var err error
	for _, n := range query.Nodes(plan.Root) {
		switch n := n.(type) {
		case *query.FinalOnly:
			err = unknown("it reads a view that gives out final rows only, and its SQL alone does not tell which those are")
		case *query.Aggregate:
			for _, c := range n.Calls {
				if sketches[strings.ToLower(c.Spec.Name)] {
					err = unknown("%s is a sketch: two executions may estimate differently", c.Spec.Name)
				}
			}
			if proof.Definition.Emit == runtime.EmitFinal && !oneWindow(n) {
				err = unknown("the view gives out final rows only, and one of its rows may gather several sessions")
			}
		}
	}
	return err
}

// sketches are the aggregates that estimate.
var sketches = map[string]bool{
	"approx_count_distinct": true, "approx_quantile": true, "approx_top_k": true, "reservoir_quantile": true,
}

// oneWindow reports whether every group of an aggregate right above a session holds rows of one
// session only: it is grouped by a bound and by the session's keys. Windows of the other kinds
// with one bound in common are one window.
func oneWindow(n *query.Aggregate) bool {
	keys := map[int]bool{}
	for _, k := range n.Keys {
		keys[k] = true
	}
	node := n.In
	for {
		switch in := node.(type) {
		case *query.Filter:
			node = in.In
			continue
		case *query.Project:
			below := map[int]bool{}
			for k := range keys {
				if c := in.Exprs[k].ColumnNumber(); c >= 0 {
					below[c] = true
				}
			}
			keys, node = below, in.In
			continue
		case *query.Assign:
			if in.Kind != windows.Session {
				return true
			}
			width := len(in.In.Fields())
			if keys[width] && keys[width+1] {
				return true
			}
			for _, k := range in.Keys {
				if !keys[k] {
					return false
				}
			}
			return keys[width] || keys[width+1]
		default:
			return true
		}
	}
}
