package api

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"tidemark/storage/catalog"
	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
	"tidemark/web/wire"
)

// Bounds of one answer with events.
const (
	defaultEvents  = 100
	maxEvents      = 10_000
	maxEventsBytes = 16 << 20
)

// readEvents is GET /v1/streams/{name}/partitions/{p}/events?offset=&limit=&time=.
func (e *endpoints) readEvents(c *fiber.Ctx) error {
	if err := allow(c, "offset", "limit", "time"); err != nil {
		return err
	}
	limit, err := whole(c, "limit", defaultEvents, 1, maxEvents)
	if err != nil {
		return err
	}
	from, err := whole(c, "offset", -1, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(c.Params("partition"), 10, 31)
	if err != nil {
		return problem.New(400, "bad_partition", "%.40q is no partition", c.Params("partition")).WithHint("partitions are numbered from 0")
	}
	if view, late := strings.CutPrefix(c.Params("name"), "late_"); late && e.Views != nil {
		return e.readLate(c, strings.Clone(view), number, from, int(limit))
	}
	s, err := e.stream(c)
	if err != nil {
		return err
	}
	stats, err := e.Log.Stats(s.ID)
	if err != nil {
		return err
	}
	if number >= uint64(len(stats.Partitions)) {
		return unknownPartition(s.Name, number, len(stats.Partitions))
	}
	p := stream.Partition(number)
	if text := c.Query("time"); text != "" {
		if from >= 0 {
			return problem.New(400, "bad_parameter", "both offset and time are given").WithHint("give one of them")
		}
		at, err := row.ParseTime([]byte(text))
		if err != nil {
			return badParameter("time", text, "give an instant such as 2024-01-01T12:00:00Z")
		}
		offset, err := e.Log.OffsetAt(s.ID, p, at)
		if err != nil {
			return err
		}
		from = int64(offset)
	}
	if from < 0 {
		from = int64(stats.Partitions[p].First)
	}
	batches, err := e.Log.Slice(s.ID, p, stream.Offset(from), int(limit))
	if gone := (*stream.OffsetGone)(nil); errors.As(err, &gone) {
		return offsetGone(from, int64(gone.First))
	}
	if err != nil {
		return err
	}
	out, next := appendEvents([]byte(`{"events":[`), batches, stream.Offset(from), int(limit))
	out = strconv.AppendInt(append(out, `],"next_offset":`...), int64(next), 10)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(append(out, '}'))
}

// appendEvents appends at most limit events from an offset on, and says which offset comes next.
func appendEvents(out []byte, batches []*stream.Batch, from stream.Offset, limit int) ([]byte, stream.Offset) {
	next, n := from, 0
	for _, b := range batches {
		for i := b.Index(from); i < b.Len; i++ {
			if n == limit || len(out) > maxEventsBytes {
				return out, next
			}
			if n > 0 {
				out = append(out, ',')
			}
			out = wire.AppendEvent(out, b, i)
			n++
			next = b.Offset(i) + 1
		}
	}
	return out, next
}

func unknownPartition(name string, p uint64, partitions int) error {
	return problem.New(404, "unknown_partition", "%s has no partition %d; it has %d", name, p, partitions).
		WithHint("partitions are numbered from 0")
}

func offsetGone(from, first int64) error {
	return problem.New(410, "offset_gone", "offset %d is no longer kept; the first one is %d", from, first).
		WithHint("go on from first_offset").With("first_offset", first)
}

// readLate reads the late events of a view; they have one partition.
func (e *endpoints) readLate(c *fiber.Ctx, view string, partition uint64, from int64, limit int) error {
	if err := catalog.CheckName(catalog.View, view); err != nil {
		return err
	}
	if partition > 0 {
		return unknownPartition("late_"+view, partition, 1)
	}
	if c.Query("time") != "" {
		return problem.New(400, "bad_parameter", "late events are read by offset").WithHint("leave time out")
	}
	if from < 0 {
		first, _, err := e.Views.LateEnds(view)
		if err != nil {
			return err
		}
		from = first
	}
	events, next, err := e.Views.Late(view, from, limit)
	if err != nil {
		return err
	}
	out := []byte(`{"events":[`)
	for i, event := range events {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, event...)
	}
	out = strconv.AppendInt(append(out, `],"next_offset":`...), next, 10)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(append(out, '}'))
}
