package kv

import dto "github.com/prometheus/client_model/go"

// Latency is a histogram of durations in seconds: how many took at most so long, by upper bound.
type Latency struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64
}

// FsyncLatency says how long the fsyncs of the write-ahead log took since the store was opened.
func (s *Store) FsyncLatency() Latency {
	out := Latency{Buckets: map[float64]uint64{}}
	m := s.db.Metrics()
	if m.LogWriter.FsyncLatency == nil {
		return out
	}
	var d dto.Metric
	if m.LogWriter.FsyncLatency.Write(&d) != nil {
		return out
	}
	h := d.GetHistogram()
	out.Count, out.Sum = h.GetSampleCount(), h.GetSampleSum()/nanos
	for _, b := range h.GetBucket() {
		out.Buckets[b.GetUpperBound()/nanos] = b.GetCumulativeCount()
	}
	return out
}

// nanos are those of a second: Pebble measures in them.
const nanos = 1e9
