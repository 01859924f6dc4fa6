// Package sinktest holds the test that every sink passes: what a sink has taken in is there once,
// whatever is applied again and whenever the sink is killed.
package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"tidemark/storage/row"
)

// Sink is a sink as runtime declares it.
type Sink interface {
	Apply(ctx context.Context, b row.SinkBatch) error
	Position(ctx context.Context, relation string, id uint64, version int64) ([]byte, error)
	Drop(ctx context.Context, relation string) error
}

// Harness is a sink under test with what the test needs to look behind it.
type Harness struct {
	Sink Sink
	// Kill ends the sink as a crash would, without a clean close, and brings it back on what it had
	// made durable. Nil: the sink has no life of its own, and those cases see it unharmed.
	Kill func()
	// Rows returns a relation's rows as a batch of the named columns, in any order; empty when the
	// relation is not there.
	Rows func(relation string, fields []row.Field) (*row.Batch, error)
}

// fields are the columns of the test's relation.
var fields = []row.Field{
	{Name: "n", Type: row.Scalar(row.BigInt)},
	{Name: "word", Type: row.Scalar(row.Varchar)},
	{Name: "_offset", Type: row.Scalar(row.BigInt)},
}

// batch makes rows from…to−1 of a relation, between positions of those numbers.
func batch(relation string, id uint64, version int64, from, to int) row.SinkBatch {
	b := row.NewBatch(fields, to-from)
	for i := from; i < to; i++ {
		b.Cols[0].AppendInt64(int64(i) * 10)
		if i%3 == 0 {
			b.Cols[1].AppendNull()
		} else {
			b.Cols[1].AppendString(fmt.Sprintf("word %d ✓", i))
		}
		b.Cols[2].AppendInt64(int64(i))
		b.Len++
	}
	out := row.SinkBatch{Relation: relation, ID: id, Version: version, Fields: fields, To: at(to), Rows: b}
	if from > 0 {
		out.From = at(from)
	}
	return out
}

func at(n int) []byte { return []byte(fmt.Sprintf("position %06d", n)) }

// Run runs the conformance test. open is called once for each case, with that case's own T.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	cases := []struct {
		name string
		run  func(c *check)
	}{
		{"TheBeginningHasNoPosition", func(c *check) {
			c.position("events", 1, 1, nil)
		}},
		{"WhatIsAppliedIsThere", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 5))
			c.position("events", 1, 1, at(5))
			c.rows("events", 5)
			c.apply(batch("events", 1, 1, 5, 9))
			c.position("events", 1, 1, at(9))
			c.rows("events", 9)
		}},
		{"AppliedTwiceIsThereOnce", func(c *check) {
			for range 3 {
				c.apply(batch("events", 1, 1, 0, 5))
			}
			c.apply(batch("events", 1, 1, 5, 7))
			c.apply(batch("events", 1, 1, 5, 7))
			c.position("events", 1, 1, at(7))
			c.rows("events", 7)
		}},
		{"AppliedAgainAfterAKillIsThereOnce", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 5))
			c.kill()
			c.position("events", 1, 1, at(5))
			c.apply(batch("events", 1, 1, 0, 5))
			c.rows("events", 5)
			c.apply(batch("events", 1, 1, 5, 9))
			c.kill()
			c.apply(batch("events", 1, 1, 5, 9))
			c.kill()
			c.position("events", 1, 1, at(9))
			c.rows("events", 9)
		}},
		{"AGapIsRefusedAndChangesNothing", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 5))
			if err := c.Sink.Apply(c.ctx, batch("events", 1, 1, 6, 9)); err == nil {
				c.Error("a batch that begins behind what the sink holds was taken in")
			}
			c.position("events", 1, 1, at(5))
			c.rows("events", 5)
			c.apply(batch("events", 1, 1, 5, 6))
			c.rows("events", 6)
		}},
		{"AnotherVersionBeginsAnew", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 5))
			c.position("events", 1, 2, nil)
			c.apply(batch("events", 1, 2, 0, 3))
			c.position("events", 1, 2, at(3))
			c.rows("events", 3)
		}},
		{"AnotherIdBeginsAnew", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 5))
			c.position("events", 2, 1, nil)
			c.apply(batch("events", 2, 1, 0, 2))
			c.position("events", 2, 1, at(2))
			c.rows("events", 2)
		}},
		{"RelationsAreApart", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 5))
			c.apply(batch("totals_changes", 2, 1, 0, 3))
			c.position("events", 1, 1, at(5))
			c.position("totals_changes", 2, 1, at(3))
			c.rows("events", 5)
			c.rows("totals_changes", 3)
		}},
		{"ADroppedRelationRemembersNothing", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 5))
			c.drop("events")
			c.drop("events")
			c.position("events", 1, 1, nil)
			c.kill()
			c.position("events", 1, 1, nil)
			c.apply(batch("events", 1, 1, 0, 2))
			c.rows("events", 2)
		}},
		{"NewColumnsAreNullInOldRows", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 2))
			wide := batch("events", 1, 1, 2, 4)
			more := row.Field{Name: "more", Type: row.Scalar(row.Double)}
			wide.Fields = append(append([]row.Field{}, fields[:2]...), more, fields[2])
			v := row.NewVector(more.Type, 2)
			v.AppendFloat64(0.5)
			v.AppendFloat64(1.5)
			wide.Rows.Cols = []*row.Vector{wide.Rows.Cols[0], wide.Rows.Cols[1], v, wide.Rows.Cols[2]}
			c.apply(wide)
			c.rows("events", 4)
			got, err := c.Rows("events", wide.Fields)
			if err != nil {
				c.Fatal(err)
			}
			for i := range got.Len {
				n := got.Cols[0].I64[i] / 10
				if null := got.Cols[2].IsNull(i); null != (n < 2) {
					c.Errorf("row %d: the new column is null: %v", n, null)
				}
			}
		}},
		{"AnEmptyBatchMovesThePosition", func(c *check) {
			c.apply(batch("events", 1, 1, 0, 2))
			empty := batch("events", 1, 1, 2, 2)
			empty.To = at(8)
			c.apply(empty)
			c.position("events", 1, 1, at(8))
			c.rows("events", 2)
		}},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			k.run(&check{T: t, Harness: open(t), ctx: t.Context()})
		})
	}
}

// check is one case.
type check struct {
	*testing.T
	Harness
	ctx context.Context
}

func (c *check) apply(b row.SinkBatch) {
	c.Helper()
	if err := c.Sink.Apply(c.ctx, b); err != nil {
		c.Fatalf("apply %s from %q to %q: %v", b.Relation, b.From, b.To, err)
	}
}

func (c *check) drop(relation string) {
	c.Helper()
	if err := c.Sink.Drop(c.ctx, relation); err != nil {
		c.Fatalf("drop %s: %v", relation, err)
	}
}

func (c *check) kill() {
	if c.Kill != nil {
		c.Kill()
	}
}

func (c *check) position(relation string, id uint64, version int64, want []byte) {
	c.Helper()
	got, err := c.Sink.Position(c.ctx, relation, id, version)
	if err != nil {
		c.Fatalf("position of %s: %v", relation, err)
	}
	if !bytes.Equal(got, want) {
		c.Fatalf("the sink stands at %q in %s; want %q", got, relation, want)
	}
}

// rows checks that a relation holds rows 0…n−1, each once and as it was applied.
func (c *check) rows(relation string, n int) {
	c.Helper()
	got, err := c.Rows(relation, fields)
	if err != nil {
		c.Fatalf("rows of %s: %v", relation, err)
	}
	want := batch(relation, 0, 0, 0, n).Rows
	seen := map[int64]bool{}
	for i := range got.Len {
		at := got.Cols[2].I64[i]
		if at < 0 || at >= int64(n) || seen[at] {
			c.Fatalf("%s holds offset %d, which it should not, or twice", relation, at)
		}
		seen[at] = true
		for f := range fields {
			a := row.AppendKey(nil, got.Cols[f], i)
			if b := row.AppendKey(nil, want.Cols[f], int(at)); !bytes.Equal(a, b) {
				c.Fatalf("%s, offset %d: column %s differs", relation, at, fields[f].Name)
			}
		}
	}
	if len(seen) != n {
		c.Fatalf("%s holds %d rows; want %d", relation, len(seen), n)
	}
}
