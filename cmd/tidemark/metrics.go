package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/storage/catalog"
	"tidemark/stream"
	"tidemark/web/live"
	"tidemark/windows"
	"tidemark/windows/runtime"
)

// collector reads the packages' own counters when somebody asks for /metrics.
type collector struct {
	service *service
	streams *stream.Registry
	hub     *live.Hub
}

var (
	descAccepted   = prometheus.NewDesc("tidemark_stream_accepted_total", "Events appended.", []string{"stream"}, nil)
	descDuplicates = prometheus.NewDesc("tidemark_stream_duplicates_total", "Events that were known by their id.", []string{"stream"}, nil)
	descDead       = prometheus.NewDesc("tidemark_stream_dead_letters_total", "Inputs that could not be used.", []string{"stream"}, nil)
	descBytes      = prometheus.NewDesc("tidemark_stream_bytes", "Bytes of the stream in the log.", []string{"stream"}, nil)
	descLag        = prometheus.NewDesc("tidemark_view_lag_events", "Records of the inputs whose effect is not in the view's rows yet.", []string{"view"}, nil)
	descLagSeconds = prometheus.NewDesc("tidemark_view_lag_seconds", "How long ago the oldest of them was appended.", []string{"view"}, nil)
	descRows       = prometheus.NewDesc("tidemark_view_rows", "Rows of the view.", []string{"view"}, nil)
	descLate       = prometheus.NewDesc("tidemark_view_late_total", "Late events by what became of them.", []string{"view", "outcome"}, nil)
	descRowErrors  = prometheus.NewDesc("tidemark_view_row_errors", "Rows outside the view because an expression fails for them.", []string{"view"}, nil)
	descWatermark  = prometheus.NewDesc("tidemark_view_watermark_age_seconds", "How far the view's watermark lies behind the clock; absent while it has none.", []string{"view"}, nil)
	descEpochTime  = prometheus.NewDesc("tidemark_view_epoch_seconds", "How long epochs took since the start, from their first entry to the end of their fsync.", []string{"view"}, nil)
	descViewIs     = prometheus.NewDesc("tidemark_view_state", "1 for the state that the view is in: building, live, paused or failed.", []string{"view", "state"}, nil)
	descSealed     = prometheus.NewDesc("tidemark_view_sealed_rows", "Rows that can't be made again because the log no longer has their events.", []string{"view"}, nil)
	descVerifying  = prometheus.NewDesc("tidemark_verify_waiting", "Comparisons with the batch answer that run or wait.", nil, nil)
	descVerifyMax  = prometheus.NewDesc("tidemark_verify_waiting_max", "Their bound; more get 429.", nil, nil)
	descVerifyRead = prometheus.NewDesc("tidemark_verify_events", "Events that the comparison that runs has read.", nil, nil)
	descVerifyOf   = prometheus.NewDesc("tidemark_verify_events_max", "Events that it has to read.", nil, nil)
	descSinkLag    = prometheus.NewDesc("tidemark_history_lag_batches", "Batches and control records of the log that history has not looked at yet.", nil, nil)
	descVerified   = prometheus.NewDesc("tidemark_view_verified", "How the view's last comparison with its batch answer ended: 1 for that result.", []string{"view", "result"}, nil)
	descVerifiedAt = prometheus.NewDesc("tidemark_view_verified_seconds", "When it ended, in seconds since 1970.", []string{"view"}, nil)
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descAccepted, descDuplicates, descDead, descBytes, descLag, descLagSeconds, descRows, descLate, descRowErrors, descWatermark, descEpochTime, descViewIs, descSealed, descVerifying, descVerifyMax, descVerifyRead, descVerifyOf, descSinkLag, descVerified, descVerifiedAt} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, s := range c.streams.List() {
		st, err := c.service.log.Stats(s.ID)
		if err != nil {
			continue // deleted meanwhile
		}
		bytes := int64(0)
		for _, p := range st.Partitions {
			bytes += p.Bytes
		}
		send(descAccepted, prometheus.CounterValue, float64(st.Accepted), s.Name)
		send(descDuplicates, prometheus.CounterValue, float64(st.Duplicates), s.Name)
		send(descDead, prometheus.CounterValue, float64(st.DeadLetters), s.Name)
		send(descBytes, prometheus.GaugeValue, float64(bytes), s.Name)
	}
	for _, v := range c.service.views.Gauges() {
		if v.WatermarkMicros != windows.NoWatermark {
			send(descWatermark, prometheus.GaugeValue, float64(time.Now().UnixMicro()-v.WatermarkMicros)/1e6, v.Name)
		}
		up := map[float64]uint64{}
		for i, bound := range runtime.EpochBounds {
			up[bound.Seconds()] = uint64(v.EpochTimes.Up[i])
		}
		ch <- prometheus.MustNewConstHistogram(descEpochTime, uint64(v.EpochTimes.Count), v.EpochTimes.Sum.Seconds(), up, v.Name)
		send(descViewIs, prometheus.GaugeValue, 1, v.Name, string(v.State))
		send(descSealed, prometheus.GaugeValue, float64(v.SealedRows), v.Name)
	}
	for _, behind := range c.service.views.SinkLag() {
		send(descSinkLag, prometheus.GaugeValue, float64(behind))
	}
	proofs := c.service.proofs.Gauges()
	send(descVerifying, prometheus.GaugeValue, float64(proofs.Waiting))
	send(descVerifyMax, prometheus.GaugeValue, float64(proofs.MaxWaiting))
	send(descVerifyRead, prometheus.GaugeValue, float64(proofs.Events))
	send(descVerifyOf, prometheus.GaugeValue, float64(proofs.Of))
	for _, kind := range []catalog.Kind{catalog.View, catalog.Alert} {
		views, err := c.service.views.ListKind(kind)
		if err != nil {
			continue
		}
		for _, v := range views {
			send(descLag, prometheus.GaugeValue, float64(v.LagEvents), v.Name)
			send(descLagSeconds, prometheus.GaugeValue, v.LagSeconds, v.Name)
			send(descRows, prometheus.GaugeValue, float64(v.Rows), v.Name)
			send(descLate, prometheus.CounterValue, float64(v.Counts.LateCorrected), v.Name, "corrected")
			send(descLate, prometheus.CounterValue, float64(v.Counts.LatePartial), v.Name, "partial")
			send(descLate, prometheus.CounterValue, float64(v.Counts.LateDropped), v.Name, "dropped")
			send(descRowErrors, prometheus.GaugeValue, float64(v.Counts.RowErrors), v.Name)
			if v.Verified != nil {
				send(descVerified, prometheus.GaugeValue, 1, v.Name, v.Verified.Result)
				if at, err := time.Parse(time.RFC3339, v.Verified.At); err == nil {
					send(descVerifiedAt, prometheus.GaugeValue, float64(at.UnixMicro())/1e6, v.Name)
				}
			}
		}
	}
}
