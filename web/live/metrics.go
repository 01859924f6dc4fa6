package live

import "github.com/prometheus/client_golang/prometheus"

// collector shows a hub's counters to Prometheus.
type collector struct {
	hub    *Hub
	gauges []metric
}

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func() int64
}

// NewCollector returns the metrics of a hub, for registration.
func NewCollector(h *Hub) prometheus.Collector {
	c := &collector{hub: h}
	add := func(name, help string, kind prometheus.ValueType, read func() int64) {
		c.gauges = append(c.gauges, metric{prometheus.NewDesc("tidemark_live_"+name, help, nil, nil), kind, read})
	}
	s := &h.stats
	add("sockets", "Clients that listen now.", prometheus.GaugeValue, s.Sockets.Load)
	add("sockets_max", "Bound of tidemark_live_sockets.", prometheus.GaugeValue, func() int64 { return int64(h.opts.MaxSockets) })
	add("subscriptions", "Subscriptions now.", prometheus.GaugeValue, s.Subscriptions.Load)
	add("casts", "Readers that read for many subscriptions at once, now.", prometheus.GaugeValue, s.Casts.Load)
	add("shared_subscriptions", "Subscriptions that are read for together, now.", prometheus.GaugeValue, s.Shared.Load)
	add("fell_behind_total", "How often a client had no room for a message and was read for alone.", prometheus.CounterValue, s.FellBehind.Load)
	add("frames_total", "Frames that were sent.", prometheus.CounterValue, s.Frames.Load)
	add("bytes_total", "Bytes of frames that were sent.", prometheus.CounterValue, s.Bytes.Load)
	add("refused_total", "Clients that were refused.", prometheus.CounterValue, s.Refused.Load)
	add("cut_off_total", "Readers that were cut off as too slow.", prometheus.CounterValue, s.CutOff.Load)
	add("gaps_total", "Positions that were gone.", prometheus.CounterValue, s.Gaps.Load)
	add("folded_changes_total", "Changes that folding saved.", prometheus.CounterValue, s.FoldedChanges.Load)
	add("panics_total", "Panics of readers.", prometheus.CounterValue, s.Panics.Load)
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.gauges {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.gauges {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.read()))
	}
}
