package api

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/row"
	"tidemark/stream"
)

// The lives of streams: PUT, GET and DELETE /v1/streams/{name}, and GET /v1/streams.

// streamAnswer is a stream as clients see it.
type streamAnswer struct {
	Name       string            `json:"name"`
	Config     stream.Config     `json:"config"`
	Inferred   bool              `json:"inferred"`
	Columns    []columnAnswer    `json:"columns"`
	Uncolumned []string          `json:"uncolumned,omitempty"`
	Counts     streamCounts      `json:"counts"`
	Partitions []partitionAnswer `json:"partitions"`
}

type columnAnswer struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type streamCounts struct {
	Accepted    int64 `json:"accepted"`
	Duplicates  int64 `json:"duplicates"`
	DeadLetters int64 `json:"dead_letters"`
	// Refused events came in requests that were refused as a whole. Received is all together.
	Refused  int64 `json:"refused"`
	Received int64 `json:"received"`
}

type partitionAnswer struct {
	Partition   stream.Partition `json:"partition"`
	FirstOffset stream.Offset    `json:"first_offset"`
	NextOffset  stream.Offset    `json:"next_offset"`
	Watermark   *string          `json:"watermark"`
	Idle        bool             `json:"idle"`
	Bytes       int64            `json:"bytes"`
}

func (e *endpoints) putStream(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.Stream)
	if err != nil {
		return err
	}
	b, err := body(c)
	if err != nil {
		return err
	}
	config, err := stream.ParseConfig(b)
	if err != nil {
		return err
	}
	s, isNew, err := e.Streams.Put(c.UserContext(), n, config)
	if err != nil {
		return err
	}
	answer, err := e.describe(s)
	if err != nil {
		return err
	}
	return created(c, isNew, answer)
}

func (e *endpoints) getStream(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	if view, late := strings.CutPrefix(c.Params("name"), "late_"); late && e.Views != nil {
		return e.getLate(c, strings.Clone(view))
	}
	s, err := e.stream(c)
	if err != nil {
		return err
	}
	answer, err := e.describe(s)
	if err != nil {
		return err
	}
	return c.JSON(answer)
}

func (e *endpoints) listStreams(c *fiber.Ctx) error {
	return list(c, "streams", e.Streams.List(), func(s *stream.Stream) string { return s.Name },
		func(s *stream.Stream) (any, error) { return e.describe(s) })
}

func (e *endpoints) deleteStream(c *fiber.Ctx) error {
	if err := allow(c); err != nil {
		return err
	}
	n, err := name(c, catalog.Stream)
	if err != nil {
		return err
	}
	if err := e.Streams.Delete(c.UserContext(), n); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

// stream is the stream that the address names.
func (e *endpoints) stream(c *fiber.Ctx) (*stream.Stream, error) {
	n, err := name(c, catalog.Stream)
	if err != nil {
		return nil, err
	}
	return e.Streams.Get(n)
}

func (e *endpoints) describe(s *stream.Stream) (*streamAnswer, error) {
	stats, err := e.Log.Stats(s.ID)
	if err != nil {
		return nil, err
	}
	a := &streamAnswer{
		Name: s.Name, Config: s.Config, Inferred: !s.Schema.Declared, Uncolumned: s.Schema.Uncolumned,
		Columns: []columnAnswer{}, Partitions: []partitionAnswer{},
		Counts: streamCounts{Accepted: stats.Accepted, Duplicates: stats.Duplicates, DeadLetters: stats.DeadLetters},
	}
	if e.Refused != nil {
		a.Counts.Refused = e.Refused(s.ID)
	}
	a.Counts.Received = a.Counts.Accepted + a.Counts.Duplicates + a.Counts.DeadLetters + a.Counts.Refused
	for _, f := range s.Schema.Fields {
		a.Columns = append(a.Columns, columnAnswer{f.Name, f.Type.String()})
	}
	for i, p := range stats.Partitions {
		a.Partitions = append(a.Partitions, partitionAnswer{
			Partition: stream.Partition(i), FirstOffset: p.First, NextOffset: p.Next, Idle: p.Idle, Bytes: p.Bytes,
			Watermark: partitionWatermark(s, stats, p),
		})
	}
	return a, nil
}

// partitionWatermark is W1: the largest counted time less the stream's out-of-orderness, or what
// advance_to said; nil before the first of either.
func partitionWatermark(s *stream.Stream, stats stream.Stats, p stream.PartitionStats) *string {
	at := stream.Micros(0)
	switch {
	case p.HasCounted && stats.HasAdvance:
		at = max(p.MaxCounted-s.Config.MaxOutOfOrderness.Micros(), stats.Advance)
	case p.HasCounted:
		at = p.MaxCounted - s.Config.MaxOutOfOrderness.Micros()
	case stats.HasAdvance:
		at = stats.Advance
	default:
		return nil
	}
	text := string(row.FormatTimestamp(nil, at))
	return &text
}

// getLate describes the stream of a view's late events.
func (e *endpoints) getLate(c *fiber.Ctx, view string) error {
	if err := catalog.CheckName(catalog.View, view); err != nil {
		return err
	}
	first, next, err := e.Views.LateEnds(view)
	if err != nil {
		return err
	}
	return c.JSON(fiber.Map{
		"name": "late_" + view, "view": view,
		"partitions": []partitionAnswer{{FirstOffset: stream.Offset(first), NextOffset: stream.Offset(next)}},
	})
}
