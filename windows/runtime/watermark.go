package runtime

import (
	"errors"
	"slices"
	"time"

	"tidemark/stream"
	"tidemark/windows"
)

// WatermarkInfo says where a view's watermark stands and what holds it back.
type WatermarkInfo struct {
	Watermark *string      `json:"watermark"`
	Streams   []StreamInfo `json:"streams"`
	HeldBy    *HeldBy      `json:"held_by"`
	State     State        `json:"state"`
	Late      LateInfo     `json:"late"`
}

// LateInfo repeats what decides on lateness.
type LateInfo struct {
	Late            string    `json:"late"`
	AllowedLateness *Duration `json:"allowed_lateness"`
}

// StreamInfo is a stream's part in it.
type StreamInfo struct {
	Stream            string          `json:"stream"`
	Watermark         *string         `json:"watermark"`
	MaxOutOfOrderness Duration        `json:"max_out_of_orderness"`
	AllIdle           bool            `json:"all_idle"`
	AdvancedTo        *string         `json:"advanced_to"`
	Partitions        []PartitionInfo `json:"partitions"`
}

// PartitionInfo is a partition's part in it.
type PartitionInfo struct {
	Partition  int            `json:"partition"`
	Watermark  *string        `json:"watermark"`
	MaxCounted *string        `json:"max_counted"`
	Idle       bool           `json:"idle"`
	LastEvent  *LastEventInfo `json:"last_event"`
}

// LastEventInfo is the newest event of a partition.
type LastEventInfo struct {
	Offset     stream.Offset `json:"offset"`
	Time       *string       `json:"time"`
	AppendTime *string       `json:"append_time"`
}

// HeldBy is the partition whose watermark is the least: its next event, or its going idle, is what
// the view waits for.
type HeldBy struct {
	Stream    string         `json:"stream"`
	Partition int            `json:"partition"`
	LastEvent *LastEventInfo `json:"last_event"`
	Since     *string        `json:"since"`
}

// WatermarkInfo tells what holds a view's watermark back.
func (s *Service) WatermarkInfo(name string) (*WatermarkInfo, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	doc, p, states, state := v.mu.doc, v.mu.progress, v.mu.streams, v.stateLocked()
	if doc.Serving != nil && v.mu.head.Version == doc.Serving.Version {
		doc = doc.Serving
	}
	v.mu.Unlock()
	out := &WatermarkInfo{
		Watermark: instant(p.AsOf.Watermark), State: state, Streams: []StreamInfo{},
		Late: LateInfo{doc.Definition.Late, doc.Definition.AllowedLateness},
	}
	least := windows.Never
	for _, st := range states {
		i := slices.IndexFunc(doc.Sources, func(b boundSource) bool { return b.ID == st.Stream })
		if i < 0 {
			continue
		}
		b := doc.Sources[i]
		info := StreamInfo{
			Stream: b.Name, Watermark: instant(st.Watermark), AllIdle: st.AllIdle, AdvancedTo: instant(st.Advance),
			MaxOutOfOrderness: Duration(time.Duration(b.MaxOutOfOrderness) * time.Microsecond), Partitions: []PartitionInfo{},
		}
		for n, part := range st.Partitions {
			pi := PartitionInfo{Partition: n, Watermark: instant(part.Watermark), MaxCounted: instant(part.MaxCounted), Idle: part.Idle}
			if o := p.AsOf.Offsets[b.Name]; n < len(o) {
				if pi.LastEvent, err = s.lastEvent(st.Stream, stream.Partition(n), o[n]); err != nil {
					return nil, err
				}
			}
			info.Partitions = append(info.Partitions, pi)
			if !part.Idle && !st.Table && part.Watermark < least {
				least = part.Watermark
				out.HeldBy = &HeldBy{Stream: b.Name, Partition: n, LastEvent: pi.LastEvent}
				if pi.LastEvent != nil {
					out.HeldBy.Since = pi.LastEvent.AppendTime
				}
			}
		}
		out.Streams = append(out.Streams, info)
	}
	return out, nil
}

// lastEvent tells of the event before an offset; nil when there is none, or it is no longer there.
func (s *Service) lastEvent(id stream.ID, p stream.Partition, next stream.Offset) (*LastEventInfo, error) {
	if next == 0 {
		return nil, nil
	}
	batches, err := s.log.Slice(id, p, next-1, 1)
	var gone *stream.OffsetGone
	if errors.As(err, &gone) || errors.Is(err, stream.ErrUnknownStream) || err == nil && len(batches) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := batches[0]
	i := b.Index(next - 1)
	if i == b.Len { // compaction has removed it
		return nil, nil
	}
	return &LastEventInfo{Offset: next - 1, Time: instant(b.Times[i]), AppendTime: instant(b.AppendTime)}, nil
}
