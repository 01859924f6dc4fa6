package pages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"
	dto "github.com/prometheus/client_model/go"

	"tidemark/web/ui"
)

// figures are metric families by name.
type figures map[string]*dto.MetricFamily

func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return 0
}

// sum adds up a family; ok is false when there is none.
func (f figures) sum(name string) (v float64, ok bool) {
	family := f[name]
	for _, m := range family.GetMetric() {
		v += value(m)
	}
	return v, family != nil
}

// by gives a family's values by one label.
func (f figures) by(name, label string) map[string]float64 {
	out := map[string]float64{}
	for _, m := range f[name].GetMetric() {
		for _, l := range m.Label {
			if l.GetName() == label {
				out[l.GetValue()] += value(m)
			}
		}
	}
	return out
}

// quantile is an upper estimate of a histogram's or a summary's quantile, in seconds.
func (f figures) quantile(name string, q float64) (float64, bool) {
	for _, m := range f[name].GetMetric() {
		for _, one := range m.GetSummary().GetQuantile() {
			if one.GetQuantile() == q {
				return one.GetValue(), m.GetSummary().GetSampleCount() > 0
			}
		}
		h := m.GetHistogram()
		for _, b := range h.GetBucket() {
			if h.GetSampleCount() > 0 && float64(b.GetCumulativeCount()) >= q*float64(h.GetSampleCount()) {
				return b.GetUpperBound(), true
			}
		}
	}
	return 0, false
}

// ops shows what operators watch.
func (d Deps) ops(*fiber.Ctx) (content, error) {
	var o ui.Ops
	f := figures{}
	if d.Metrics != nil {
		families, err := d.Metrics.Gather()
		if err != nil {
			return content{}, err
		}
		for _, family := range families {
			f[family.GetName()] = family
		}
	}
	var err error
	if _, o.Troubles, err = d.viewLines(); err != nil {
		return content{}, err
	}
	o.Gauges = gauges(f)
	o.Tables = []ui.OpsTable{
		f.table("Streams", "stream", []string{"stream", "events", "doubles", "dead letters", "bytes"},
			"tidemark_stream_accepted_total", "tidemark_stream_duplicates_total", "tidemark_stream_dead_letters_total", "tidemark_stream_bytes"),
		f.table("Views: how far behind, and what they hold", "view", []string{"view", "events behind", "seconds behind", "rows", "state in memory", "state in the store alone", "late events", "row errors"},
			"tidemark_view_lag_events", "tidemark_view_lag_seconds", "tidemark_view_rows", "tidemark_view_state_memory_bytes", "tidemark_view_state_spilled_bytes", "tidemark_view_late_total", "tidemark_view_row_errors"),
	}
	return content{title: "Ops", section: "ops", draw: func(string) templ.Component { return ui.OpsPage(o) }}, nil
}

// gauges are the figures that say whether the server is well.
func gauges(f figures) []ui.Gauge {
	var list []ui.Gauge
	rate := func(id, title, name, unit, note string) {
		if v, ok := f.sum(name); ok {
			list = append(list, ui.Gauge{ID: id, Title: title, Total: strconv.FormatFloat(v, 'f', -1, 64), Unit: unit, Note: note})
		}
	}
	level := func(id, title, name, bound, note string, show func(float64) string) {
		v, ok := f.sum(name)
		if !ok {
			return
		}
		g := ui.Gauge{ID: id, Title: title, Value: show(v), Note: note}
		if most, ok := f.sum(bound); ok && most > 0 {
			g.Bound, g.Share = show(most), fmt.Sprintf("%.1f", 100*v/most)
		}
		list = append(list, g)
	}
	size := func(v float64) string { return bytes(int64(v)) }
	plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	rate("in", "Events in", "tidemark_stream_accepted_total", "/s", "appended and on disk")
	for _, q := range []float64{0.5, 0.99} {
		if v, ok := f.quantile("tidemark_log_commit_seconds", q); ok {
			list = append(list, ui.Gauge{
				ID: fmt.Sprintf("fsync%.0f", q*100), Title: fmt.Sprintf("Commit, %.0f %%", q*100), Value: fmt.Sprintf("%.1f", v*1000), Unit: "ms", Note: "write and fsync of one group of requests",
			})
		}
	}
	level("queue", "Ingest queue", "tidemark_log_queue_bytes", "tidemark_log_queue_bytes_max", "requests that wait for the log; full: 429", size)
	level("waiting", "Requests waiting", "tidemark_log_queue_requests", "tidemark_log_queue_requests_max", "for the log", plain)
	level("tail", "Decoded tail", "tidemark_log_tail_bytes", "tidemark_log_tail_bytes_max", "newest events, kept decoded for readers", size)
	rate("refused", "Refused with 429", "tidemark_log_refused_total", "/s", "")
	level("lag", "Most behind", "tidemark_view_lag_events", "", "events whose effect is not in the views yet, all views", plain)
	level("pending", "Epoch in work", "tidemark_view_pending_events", "tidemark_view_pending_events_max", "events taken in, not yet committed", plain)
	level("state", "State of the views", "tidemark_views_state_memory_bytes", "tidemark_views_state_memory_bytes_max", "in memory; what is over the bound is left in the store", size)
	level("store", "On disk", "tidemark_store_bytes", "", "log, views and their state", size)
	level("cache", "Block cache", "tidemark_store_cache_bytes", "tidemark_store_cache_bytes_max", "", size)
	level("free", "Disk free", "tidemark_disk_free_bytes", "", "below the reserve writes are refused", size)
	level("debt", "Compaction debt", "tidemark_store_compaction_debt_bytes", "", "what the store has still to tidy up", size)
	level("sockets", "Live connections", "tidemark_live_sockets", "tidemark_live_sockets_max", "browsers and machines that listen", plain)
	rate("frames", "Frames out", "tidemark_live_frames_total", "/s", "")
	level("subscriptions", "Subscriptions", "tidemark_live_subscriptions", "", "panels and programs that follow something", plain)
	level("folded", "Changes folded", "tidemark_live_folded_changes_total", "", "not sent, because a newer one took their place", plain)
	level("cut", "Readers cut off", "tidemark_live_cut_off_total", "", "too slow for 30 s", plain)
	level("queries", "Queries running", "tidemark_history_active", "tidemark_history_active_max", "in DuckDB", plain)
	level("queued", "Queries waiting", "tidemark_history_waiting", "tidemark_history_waiting_max", "for one of these places; full: 429", plain)
	rate("loaded", "Into history", "tidemark_history_rows_total", "/s", "rows that DuckDB has taken in")
	level("restarts", "History restarts", "tidemark_history_restarts_total", "", "", plain)
	return list
}

// table puts families side by side, a line for each value of a label.
func (f figures) table(title, label string, columns []string, families ...string) ui.OpsTable {
	t := ui.OpsTable{Title: title, Columns: columns}
	lines := map[string][]string{}
	for i, name := range families {
		for key, v := range f.by(name, label) {
			if lines[key] == nil {
				lines[key] = make([]string, len(families)+1)
				lines[key][0] = key
			}
			text := strconv.FormatFloat(v, 'f', -1, 64)
			if strings.HasSuffix(name, "_bytes") {
				text = bytes(int64(v))
			} else if strings.HasSuffix(name, "_seconds") {
				text = fmt.Sprintf("%.1f", v)
			}
			lines[key][i+1] = text
		}
	}
	for _, l := range lines {
		t.Rows = append(t.Rows, l)
	}
	slices.SortFunc(t.Rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return t
}
