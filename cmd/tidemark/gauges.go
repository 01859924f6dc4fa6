package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"tidemark/storage/history"
	"tidemark/stream/pebblelog"
)

// gauges are how full everything is that has a bound, and how fast the disk answers.
type gauges struct {
	service *service
	log     pebblelog.Options
	history history.Options
	cache   int64
	path    string
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tidemark_"+name, help, labels, nil)
}

var (
	descFsync        = desc("log_commit_seconds", "How long the fsyncs of the write-ahead log took.")
	descQueue        = desc("log_queue_bytes", "Bytes of requests that wait for the log.")
	descQueueMax     = desc("log_queue_bytes_max", "Their bound; beyond it requests get 429.")
	descRequests     = desc("log_queue_requests", "Requests that wait for the log.")
	descRequestsMax  = desc("log_queue_requests_max", "Their bound; beyond it requests get 429.")
	descTail         = desc("log_tail_bytes", "Bytes of the newest events that stay decoded for readers.")
	descTailMax      = desc("log_tail_bytes_max", "Their bound.")
	descBusy         = desc("log_refused_total", "Requests refused with 429 because the log was behind.")
	descFull         = desc("disk_full", "1 while writes are refused for want of space.")
	descFree         = desc("disk_free_bytes", "Free space where the data lie.")
	descStore        = desc("store_bytes", "What log, views and their state take on disk.")
	descCache        = desc("store_cache_bytes", "Bytes of the store's block cache.")
	descCacheMax     = desc("store_cache_bytes_max", "Their bound.")
	descDebt         = desc("store_compaction_debt_bytes", "What compactions have still to write.")
	descPending      = desc("view_pending_events", "Events taken in and not yet committed.", "view")
	descPendingMax   = desc("view_pending_events_max", "Their bound.", "view")
	descEpochs       = desc("view_epochs_total", "Epochs committed since the start.", "view")
	descState        = desc("views_state_memory_bytes", "About what the state of all views takes in memory.")
	descStateMax     = desc("views_state_memory_bytes_max", "Their bound; what is over it is left in the store.")
	descViewState    = desc("view_state_memory_bytes", "About what the state of the view takes in memory.", "view")
	descViewSpilled  = desc("view_state_spilled_bytes", "About what its groups and rows that are in the store alone would take in memory.", "view")
	descViewEntries  = desc("view_state_entries", "Its groups and rows given out that can be corrected still.", "view")
	descViewCold     = desc("view_state_spilled_entries", "Those of them that are in the store alone.", "view")
	descViewEvicted  = desc("view_state_evicted_total", "How often one has left the memory since the start.", "view")
	descViewMisses   = desc("view_state_misses_total", "How often the store was asked for one since the start.", "view")
	descQueries      = desc("history_active", "Queries that run.")
	descQueriesMax   = desc("history_active_max", "Their bound; more wait.")
	descWaiting      = desc("history_waiting", "Queries that wait.")
	descWaitingMax   = desc("history_waiting_max", "Their bound; more get 429.")
	descRestarts     = desc("history_restarts_total", "How often history's process was started again.")
	descHistoryRows  = desc("history_rows_total", "Rows that history has taken in.")
	descSinkStuck    = desc("history_stuck", "1 while history refuses what it is given; the log says why.")
	descHistoryFails = desc("history_refused_total", "Queries refused for a full queue.")
)

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(g, ch) }

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	level := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	total := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	stuck := 0.0
	for _, trouble := range g.service.views.SinkTrouble() {
		if trouble != "" {
			stuck = 1
		}
	}
	level(descSinkStuck, stuck)
	l := g.service.log.Gauges()
	level(descQueue, float64(l.QueueBytes))
	level(descQueueMax, float64(g.log.QueueBytes))
	level(descRequests, float64(l.QueueRequests))
	level(descRequestsMax, float64(g.log.QueueRequests))
	level(descTail, float64(l.TailBytes))
	level(descTailMax, float64(g.log.TailBytes))
	total(descBusy, float64(l.Refused))
	full := 0.0
	if l.DiskFull {
		full = 1
	}
	level(descFull, full)
	if free, err := freeSpace(g.path); err == nil {
		level(descFree, float64(free))
	}
	f := g.service.dir.KV.FsyncLatency()
	ch <- prometheus.MustNewConstHistogram(descFsync, f.Count, f.Sum, f.Buckets)
	m := g.service.dir.KV.Metrics()
	level(descStore, float64(m.DiskBytes))
	level(descCache, float64(m.CacheBytes))
	level(descCacheMax, float64(g.cache))
	level(descDebt, float64(m.CompactionDebt))
	state, bound := g.service.views.StateMemory()
	level(descState, float64(state))
	level(descStateMax, float64(bound))
	for _, v := range g.service.views.Gauges() {
		level(descPending, float64(v.PendingEvents), v.Name)
		level(descPendingMax, float64(v.PendingBound), v.Name)
		total(descEpochs, float64(v.Epochs), v.Name)
		level(descViewState, float64(v.Memory.Bytes), v.Name)
		level(descViewSpilled, float64(v.Memory.SpilledBytes), v.Name)
		level(descViewEntries, float64(v.Memory.Entries), v.Name)
		level(descViewCold, float64(v.Memory.Spilled), v.Name)
		total(descViewEvicted, float64(v.Memory.Evicted), v.Name)
		total(descViewMisses, float64(v.Memory.Reads), v.Name)
	}
	h := g.service.history.Status()
	level(descQueries, float64(h.Active))
	level(descQueriesMax, float64(g.history.Queries))
	level(descWaitingMax, float64(g.history.Queue))
	level(descWaiting, float64(h.Waiting))
	total(descRestarts, float64(h.Restarts))
	total(descHistoryRows, float64(h.Rows))
	total(descHistoryFails, float64(h.Refused))
}
