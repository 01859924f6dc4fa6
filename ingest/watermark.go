package ingest

import (
	"context"
	"time"

	"tidemark/storage/problem"
	"tidemark/storage/row"
	"tidemark/stream"
)

// Advanced is the answer to an advance of the watermark.
type Advanced struct {
	AdvanceTo string `json:"advance_to"`
	Receipt   string `json:"receipt"`
}

// Advance says that nothing older than to will come on a stream (W3). Further ahead of the clock
// than max_ahead it needs force, because it can't be taken back.
func (in *Ingester) Advance(ctx context.Context, name string, to stream.Micros, force bool) (*Advanced, error) {
	s, err := in.stream(name)
	if err != nil {
		return nil, err
	}
	text := string(row.FormatTimestamp(nil, to))
	if ahead := *s.Config.MaxAhead; !force && to > in.opts.Now().Add(time.Duration(ahead)).UnixMicro() {
		return nil, problem.New(409, "too_far_ahead", "%s is further ahead of the clock than the stream's max_ahead (%s)", text, ahead).
			WithHint(`an advance can't be taken back: all older events would be late; add "force": true if that is what you want`)
	}
	seq, err := in.log.Advance(ctx, s.ID, to)
	if err != nil {
		return nil, err
	}
	return &Advanced{AdvanceTo: text, Receipt: stream.Position{Log: in.log.ID(), Sequence: seq}.String()}, nil
}
