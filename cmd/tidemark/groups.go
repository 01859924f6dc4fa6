package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/ingest"
	"tidemark/storage/problem"
	"tidemark/stream"
	"tidemark/stream/group"
)

// openGroups opens the consumer groups of all streams. What they have committed is told to the log,
// which is read only when it ends before that.
func (s *service) openGroups(streams *stream.Registry, logger *slog.Logger) (*group.Service, error) {
	g := group.New(s.dir.KV, s.log, group.Options{Logger: logger, Writable: s.writable})
	var ids []stream.ID
	for _, one := range streams.List() {
		ids = append(ids, one.ID)
	}
	return g, g.Expect(s.log.ExpectOffset, ids...)
}

// writable says why nothing may be written beside the log: what stops the log stops groups too.
func (s *service) writable() error {
	switch {
	case len(s.log.Lost()) > 0:
		return problem.New(503, "log_shortened", "the log is shorter than it was, so nothing is written").
			WithHint("restore a backup, or start the server with --accept-loss to go on without what is missing")
	case s.log.Gauges().DiskFull:
		p := problem.New(503, "disk_full", "the disk is nearly full, so nothing more is written").
			WithHint("free space; writing begins again by itself")
		p.RetryAfter = 5
		return p
	}
	return nil
}

// fates counts what became of every event that was received, and where groups stand.
type fates struct {
	service *service
	streams *stream.Registry
	in      *ingest.Ingester
	groups  *group.Service
}

var (
	descRefused      = prometheus.NewDesc("tidemark_stream_refused_total", "Events of requests that were refused as a whole; stream \"\" is for those of no stream.", []string{"stream"}, nil)
	descReceived     = prometheus.NewDesc("tidemark_stream_received_total", "Events whose fate is known: accepted, duplicate, dead letter or refused.", []string{"stream"}, nil)
	descGroupLag     = prometheus.NewDesc("tidemark_group_lag_events", "Events that the group has not committed.", []string{"stream", "group"}, nil)
	descGroupSeconds = prometheus.NewDesc("tidemark_group_lag_seconds", "How long ago the oldest of them was appended.", []string{"stream", "group"}, nil)
	descGroupMembers = prometheus.NewDesc("tidemark_group_members", "Members of the group.", []string{"stream", "group"}, nil)
	descGroupDead    = prometheus.NewDesc("tidemark_group_dead_letters", "Dead letters of the group.", []string{"stream", "group"}, nil)
	descGroupExpired = prometheus.NewDesc("tidemark_group_expired_total", "Events that retention took before the group had read them.", []string{"stream", "group"}, nil)
)

// Describe implements prometheus.Collector.
func (f *fates) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRefused, descReceived, descGroupLag, descGroupSeconds, descGroupMembers, descGroupDead, descGroupExpired} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *fates) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	send(descRefused, prometheus.CounterValue, float64(f.in.Refused(0)), "")
	for _, one := range f.streams.List() {
		st, err := f.service.log.Stats(one.ID)
		if err != nil {
			continue // deleted meanwhile
		}
		refused := f.in.Refused(one.ID)
		send(descRefused, prometheus.CounterValue, float64(refused), one.Name)
		send(descReceived, prometheus.CounterValue, float64(st.Accepted+st.Duplicates+st.DeadLetters+refused), one.Name)
		groups, err := f.groups.List(one.ID)
		if err != nil {
			continue
		}
		for _, g := range groups {
			lag, seconds, expired := int64(0), 0.0, int64(0)
			for _, p := range g.Partitions {
				lag, seconds, expired = lag+p.LagEvents, max(seconds, p.Lag.Seconds()), expired+p.Expired
			}
			send(descGroupLag, prometheus.GaugeValue, float64(lag), one.Name, g.Name)
			send(descGroupSeconds, prometheus.GaugeValue, seconds, one.Name, g.Name)
			send(descGroupMembers, prometheus.GaugeValue, float64(len(g.Members)), one.Name, g.Name)
			send(descGroupDead, prometheus.GaugeValue, float64(g.DeadLetters), one.Name, g.Name)
			send(descGroupExpired, prometheus.CounterValue, float64(expired), one.Name, g.Name)
		}
	}
}
