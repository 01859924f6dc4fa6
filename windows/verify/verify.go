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
	case errors.As(err, &p) && (p.Code == "bad_sql" || p.Code == "sql_too_complex" || p.Code == "groups_elsewhere"):
		why := "the batch answer can't be computed: " + p.Detail
		if strings.Contains(p.Detail, "Conversion Error") || strings.Contains(strings.ToLower(p.Detail), "out of range") {
			why += "; the view leaves out the rows that fail after their aggregation until they compute again (E1), and DuckDB fails as a whole, so no row could be compared"
		}
		res.cannotTell(why)
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
	gathered, err := knowable(plan, proof)
	if err != nil {
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
	p.gathered = gathered
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

// knowable refuses views whose rows DuckDB can't make again (R4), and those of which the final rows
// can't be told from the others. gathered are the session functions of which a group that counts when it
// is final may hold several sessions.
func knowable(plan *query.Plan, proof *runtime.Proof) (gathered map[int]bool, err error) {
	gathered = map[int]bool{}
	final := func(root query.Node) {
		for _, n := range query.Nodes(root) {
			a, ok := n.(*query.Aggregate)
			if !ok {
				continue
			}
			switch session, direct := several(a); {
			case session == nil:
			case direct:
				gathered[session.Number] = true
			default:
				err = unknown("a row counts only when it is final, and a row grouped by %s may gather several sessions through another aggregate", names(a))
			}
		}
	}
	for _, n := range query.Nodes(plan.Root) {
		switch n := n.(type) {
		case *query.FinalOnly:
			final(n.In)
		case *query.Aggregate:
			for _, c := range n.Calls {
				if sketches[strings.ToLower(c.Spec.Name)] {
					err = unknown("%s is a sketch: two executions may estimate differently", c.Spec.Name)
				}
			}
		}
	}
	if proof.Definition.Emit == runtime.EmitFinal {
		final(plan.Root)
	}
	return gathered, err
}

// sketches are the aggregates that estimate.
var sketches = map[string]bool{
	"approx_count_distinct": true, "approx_quantile": true, "approx_top_k": true, "reservoir_quantile": true,
}

// names are the columns that an aggregate groups by.
func names(a *query.Aggregate) string {
	var list []string
	for _, f := range a.Fields()[:len(a.Keys)] {
		list = append(list, f.Name)
	}
	return strings.Join(list, ", ")
}

// several returns the session function of which a group of an aggregate may hold sessions with
// different ends: it is grouped neither by the end, nor by the start and the session's keys. nil where
// there is none: windows of the other kinds with one bound in common are one window. direct: no other
// aggregate lies between.
func several(a *query.Aggregate) (session *query.Assign, direct bool) {
	keys := map[int]bool{}
	for _, k := range a.Keys {
		keys[k] = true
	}
	direct = true
	for node := a.In; ; {
		switch in := node.(type) {
		case *query.Filter:
			node = in.In
		case *query.Project:
			below := map[int]bool{}
			for k := range keys {
				if c := in.Exprs[k].ColumnNumber(); c >= 0 {
					below[c] = true
				}
			}
			keys, node = below, in.In
		case *query.Aggregate:
			below := map[int]bool{}
			for k := range keys {
				if k < len(in.Keys) {
					below[in.Keys[k]] = true
				}
			}
			keys, node, direct = below, in.In, false
		case *query.Assign:
			width := len(in.In.Fields())
			if in.Kind != windows.Session || keys[width+1] {
				return nil, direct
			}
			for _, k := range in.Keys {
				if !keys[k] {
					return in, direct
				}
			}
			if keys[width] {
				return nil, direct
			}
			return in, direct
		default:
			return nil, direct
		}
	}
}
