package auth

import "github.com/prometheus/client_golang/prometheus"

var (
	refusedDesc = prometheus.NewDesc("tidemark_auth_refused_total", "Requests refused, by reason.", []string{"reason"}, nil)
	keysDesc    = prometheus.NewDesc("tidemark_auth_keys", "Keys that there are.", nil, nil)
)

// Describe is a collector's.
func (k *Keys) Describe(out chan<- *prometheus.Desc) {
	out <- refusedDesc
	out <- keysDesc
}

// Collect is a collector's.
func (k *Keys) Collect(out chan<- prometheus.Metric) {
	refused := func(reason string, n int64) {
		out <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(n), reason)
	}
	refused("unauthenticated", k.stats.Unauthenticated.Load())
	refused("forbidden", k.stats.Forbidden.Load())
	refused("rate", k.stats.Limited.Load())
	out <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(len(k.now.Load().byName)))
}
